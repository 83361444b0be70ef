/* A column as a filter in memory, for callers that want a filter of its own: to verify,
 * to compare, to derive another one. Probes ask the pack. */
#include "lib/store/snapshot/snapshot.h"
#include "format/hash.h"
#include "lib/error.h"
#include "lib/pack/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what the table of columns says ---- */

struct reading {
    struct own_column *table;
    uint32_t next;
};

static int note_column(void *ctx, uint32_t band, uint32_t column,
                       const struct column *col)
{
    struct reading *r = ctx;
    struct own_column *to = &r->table[r->next++];
    (void)band, (void)column;
    to->n_blocks = col->own_blocks;
    to->name = XXH3_64bits(col->name, col->name_bytes);
    memcpy(to->uuid, col->uuid, UUID_BYTES);
    return 0;
}

/* Reads it once for all columns. */
static int read_table(struct open_pack *p, struct tamis_diag *diag)
{
    struct reading r = {.table = calloc(p->n_columns, sizeof *r.table)};
    struct own_column *none = NULL;
    if (!r.table)
        return diag_errno(diag, ENOMEM, filter_path(p->filter), "reading its columns");
    int rc = pack_each_column(p->filter, note_column, &r, diag);
    if (rc || !atomic_compare_exchange_strong(&p->table, &none, r.table))
        free(r.table);
    return rc;
}

int packs_own_blocks(struct tamis_snapshot *s, size_t index, uint64_t *n,
                     struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    const struct entry *e = s->entries[index];
    const struct seat *seat = packs_seat(&s->packs, index);
    struct open_pack *pack = packs_of_seat(&s->packs, seat);
    int rc = atomic_load(&pack->table) ? 0 : read_table(pack, diag);
    if (rc)
        return rc;
    const struct own_column *own =
        &atomic_load(&pack->table)[seat->band->first_column + seat->column];
    *n = own->n_blocks;
    if (memcmp(own->uuid, entry_record(e)->uuid, UUID_BYTES) == 0 &&
        own->name == XXH3_64bits(e->bytes, e->name_bytes))
        return 0;
    return diag_fail(diag, TAMIS_ERR_MISMATCH, filter_path(pack->filter),
                     "the pack's table has another filter where segment '%s' should be",
                     name_text(text, e->bytes, e->name_bytes));
}

/* ---- the filter ---- */

static int fill(const struct tamis_snapshot *s, struct entry *e,
                const struct seat *seat, const struct column *col, int fd,
                struct tamis_filter **out, struct tamis_diag *diag)
{
    struct commit c;
    struct identity id = {
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .hash_id = (uint16_t)s->domain.hash_id,
        .hash_seed = s->domain.seed,
        .created = col->created,
    };
    struct tamis_filter_options opt = {.size = sizeof opt, .domain = &s->domain};
    const char *path = filter_path(seat->pack);
    struct account *account = entry_account(e);
    if (!account)
        return diag_errno(diag, ENOMEM, path, "unpacking a column");
    memcpy(id.uuid, col->uuid, UUID_BYTES);
    int rc = pack_unpack_into(seat->pack, seat->band, seat->column, col, &id, &c, fd);
    if (rc == TAMIS_ERR_DAMAGED)
        return diag_fail(diag, rc, path, "a page of the column fails its check");
    if (rc)
        return diag_errno(diag, rc, path, "unpacking a column");
    rc = filter_open_fd(fd, path, &opt, NULL, out, diag);
    if (!rc)
        filter_count_pages(*out, &account->pages);
    return rc;
}

int unpacked_filter(struct tamis_snapshot *s, size_t index, struct tamis_filter **out,
                    struct tamis_diag *diag)
{
    struct entry *e = s->entries[index];
    const struct seat *seat = packs_seat(&s->packs, index);
    struct tamis_filter *mine;
    struct column col;
    *out = atomic_load_explicit(&e->unpacked, memory_order_acquire);
    if (*out)
        return 0;
    entry_facts(e, &col);
    int rc = packs_own_blocks(s, index, &col.own_blocks, diag);
    if (rc)
        return rc;
    if (!entry_take_place())
        return diag_errno(diag, ENOMEM, s->dir->path, "mapping one more filter");
    int fd = memfd_create("tamis column", MFD_CLOEXEC);
    rc = fd < 0 ? diag_errno(diag, errno, s->dir->path, "unpacking a column")
                : fill(s, e, seat, &col, fd, &mine, diag);
    if (fd >= 0)
        close(fd);
    if (rc) {
        entry_leave_place();
        return rc;
    }
    *out = entry_share(&e->unpacked, mine);
    return 0;
}
