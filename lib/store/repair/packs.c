/* Repair: packs. A pack is never set aside for one bad page, nor for one bad column:
 * the others answer on. With a catalog a pack is only looked at. Without one its
 * columns say which segments they are of, and its tombstones which of them are dropped.
 */
#include "lib/store/repair/inside.h"
#include "format/pack.h"
#include "lib/filter/filter.h"
#include "lib/filter/pack.h"
#include "lib/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- with a catalog ---- */

/* Says why a pack is not good, or NULL. */
static const char *look_at(struct repair *r, const struct pack_place *place,
                           char what[160])
{
    char name[FILTER_NAME_BYTES];
    struct judgement j;
    uint8_t *dead;
    uint32_t n;
    filter_file_name(place->uuid, name);
    memset(&j, 0, sizeof j);
    if (repair_judge(r, NULL, NULL, name, &j, NULL) != 0)
        return "it cannot be judged now";
    if (j.state == FILE_MISSING)
        return "its file is missing";
    if (j.state != FILE_GOOD) {
        memcpy(what, j.what, sizeof j.what);
        return what;
    }
    if (j.h.identity.kind != KIND_PACK ||
        commit_table_digest(&j.h.commit) != place->digest)
        return "not the pack that the catalog means";
    if (dead_load(r->filters.fd, place->uuid, place->digest, &dead, &n) != 0)
        return "its tombstones are missing or damaged, so that no column counts";
    free(dead);
    if (!j.what[0])
        return NULL;
    memcpy(what, j.what, sizeof j.what);
    return what;
}

int repair_note_pack(struct repair *r, const struct record *record)
{
    for (size_t i = 0; i < r->n_packs; i++)
        if (memcmp(&r->packs[i].place, &record->place, PLACE_KEY_BYTES) == 0) {
            r->packs[i].n_segments++;
            return 0;
        }
    struct repair_pack *more = realloc(r->packs, (r->n_packs + 1) * sizeof *more);
    if (!more)
        return ENOMEM;
    r->packs = more;
    r->packs[r->n_packs++] = (struct repair_pack){record->place, 1};
    return 0;
}

void repair_look_at_packs(struct repair *r)
{
    char name[FILTER_NAME_BYTES], what[160];
    for (size_t i = 0; i < r->n_packs; i++) {
        const struct repair_pack *p = &r->packs[i];
        const char *wrong = look_at(r, &p->place, what);
        filter_file_name(p->place.uuid, name);
        if (wrong)
            repair_tell_pack(r, name, p->n_segments, wrong);
    }
}

/* ---- without ---- */

struct listing {
    struct repair *r;
    repair_column_fn *fn;
    void *ctx;
    const uint8_t *dead;
    struct pack_place place;
    uint32_t next;
};

static int list_column(void *ctx, uint32_t band, uint32_t column,
                       const struct column *col)
{
    struct listing *l = ctx;
    uint32_t i = l->next++;
    (void)column;
    if (l->dead[DEAD_HEAD_BYTES + i / 8] >> i % 8 & 1)
        return 0;
    struct record record = {
        .state = RECORD_SEALED,
        .ro_compat = RECORD_RO_COMPAT_PACKED,
        .binding_bytes = col->binding_bytes,
        .generation = col->generation,
        .table_digest = col->table_digest,
        .keys = col->keys,
        .target_error = col->target_error,
        .watermark = col->watermark,
        .min_stages = 1,
        .rank = col->rank,
        .created = col->created,
        .place = l->place,
    };
    record.place.band = band;
    record.place.column = i;
    memcpy(record.uuid, col->uuid, UUID_BYTES);
    memcpy(record.binding, col->binding, col->binding_bytes);
    return l->fn(l->ctx, col->name, col->name_bytes, &record);
}

int repair_list_columns(struct repair *r, const char *name, const struct header *h,
                        repair_column_fn *fn, void *ctx, struct tamis_diag *diag)
{
    struct tamis_filter *f = NULL;
    struct listing l = {.r = r,
                        .fn = fn,
                        .ctx = ctx,
                        .place = {.digest = commit_table_digest(&h->commit)}};
    uint8_t *dead = NULL;
    uint32_t n = 0;
    int fd, rc = io_open_beneath(r->filters.fd, name, O_RDONLY, &fd);
    memcpy(l.place.uuid, h->identity.uuid, UUID_BYTES);
    if (!rc) {
        rc = filter_open_fd(fd, name, NULL, NULL, &f, diag);
        close(fd);
    }
    if (!rc)
        rc = dead_load(r->filters.fd, l.place.uuid, l.place.digest, &dead, &n);
    if (!rc && n != h->commit.stages[PACK_ROWS].n_columns)
        rc = TAMIS_ERR_DAMAGED;
    l.dead = dead;
    if (!rc)
        rc = pack_each_column(f, list_column, &l, NULL);
    tamis_filter_close(f);
    free(dead);
    return rc;
}
