/* Which records have which columns: packs published, and columns that are dropped
 * (SPEC.md §17.5, R18). */
#include "lib/store/edit/inside.h"
#include "format/pack.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"
#include "lib/store/catalog/catalog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int buffer_add(struct buffer *b, const void *bytes, size_t n)
{
    if (b->max - b->n < n) {
        size_t max = (b->max + n) * 2;
        uint8_t *more = realloc(b->bytes, max);
        if (!more)
            return ENOMEM;
        b->bytes = more;
        b->max = max;
    }
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return 0;
}

/* ---- tombstones ---- */

int bury_later(struct buffer *columns, const struct pack_place *place)
{
    return buffer_add(columns, place, sizeof *place);
}

static int compare_places(const void *left, const void *right)
{
    const struct pack_place *a = left, *b = right;
    int order = memcmp(a->uuid, b->uuid, UUID_BYTES);
    if (order || a->digest != b->digest)
        return order ? order : a->digest < b->digest ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

static bool remove_pack(int dir, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES];
    bool done = filter_file_unlink(dir, uuid) == 0;
    dead_file_name(uuid, name);
    done &= io_calls.unlinkat(dir, name, 0) == 0 || errno == ENOENT;
    return io_sync_dir(dir) == 0 && done;
}

/* Columns of one pack. */
static bool bury_of_pack(int dir, const struct pack_place *places, size_t n)
{
    uint32_t *columns = malloc(n * sizeof *columns);
    bool all = false;
    if (!columns)
        return false;
    for (size_t i = 0; i < n; i++)
        columns[i] = places[i].column;
    int rc = dead_bury(dir, places->uuid, places->digest, columns, n, &all);
    free(columns);
    if (rc == 0 && all)
        return remove_pack(dir, places->uuid);
    return rc <= 0 || rc == ENOENT; /* there are none, or they are damaged */
}

bool bury_in(int dir, struct buffer *columns)
{
    struct pack_place *p = (struct pack_place *)(void *)columns->bytes;
    size_t n = columns->n / sizeof *p, first = 0;
    bool done = true;
    if (n > 1)
        qsort(p, n, sizeof *p, compare_places);
    for (size_t i = 1; i <= n; i++)
        if (i == n || memcmp(p[i].uuid, p[first].uuid, UUID_BYTES) != 0 ||
            p[i].digest != p[first].digest) {
            done &= bury_of_pack(dir, p + first, i - first);
            first = i;
        }
    return done;
}

struct burial {
    int dir;
    struct buffer *columns;
    bool done;
};

static int bury(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct burial *b = ctx;
    (void)t, (void)diag;
    b->done = bury_in(b->dir, b->columns);
    return 0;
}

bool bury_columns(struct tamis_edit *e, struct buffer *columns)
{
    struct burial b = {e->dir.fd, columns, false};
    return columns->n == 0 ||
           (catalog_write(e->catalog, &e->wait, bury, &b, NULL, NULL) == 0 && b.done);
}

/* ---- a pack published ---- */

/* May this record get the place? Only with the very filter that was packed. */
static bool is_packed_one(const struct record *r, const struct placement *p)
{
    return r->state == RECORD_SEALED && r->table_digest == p->table_digest &&
           memcmp(r->uuid, p->uuid, UUID_BYTES) == 0 && !r->ro_compat;
}

static int place_record(struct catalog_txn *t, const struct edit_op *op,
                        const struct placement *p, struct buffer *columns,
                        struct buffer *files, struct tamis_diag *diag)
{
    const struct edit_pack *pack = op->pack;
    const uint8_t *name = op->bytes + p->name_at, *value;
    struct pack_place place = pack->place;
    uint8_t bytes[RECORD_MAX_BYTES];
    struct record r;
    size_t n;
    place.column = p->column;
    int rc = catalog_get(t, name, p->name_bytes, &value, &n, diag);
    if (rc && rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    if (rc || record_decode(value, n, name, p->name_bytes, &r).code != VERDICT_OK ||
        !is_packed_one(&r, p)) {
        diag_clear(diag);
        return bury_later(columns, &place);
    }
    rc = record_packed(&r) ? bury_later(columns, &r.place)
                           : buffer_add(files, r.uuid, UUID_BYTES);
    r.compat = 0; /* SPEC.md §5.2 */
    r.place = place;
    if (rc)
        return rc;
    n = record_encode(&r, name, p->name_bytes, bytes);
    return catalog_replace(t, name, p->name_bytes, bytes, n, diag);
}

int place_columns(struct catalog_txn *t, const struct edit_op *op,
                  struct buffer *columns, struct buffer *files, struct tamis_diag *diag)
{
    int rc = 0;
    for (uint32_t i = 0; i < op->pack->n && !rc; i++)
        rc = place_record(t, op, &op->pack->placements[i], columns, files, diag);
    return rc;
}
