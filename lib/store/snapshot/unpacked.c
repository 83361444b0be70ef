/* A column as a filter in memory, for callers that want a filter of its own: to verify,
 * to compare, to derive another one. Probes ask the pack. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/error.h"
#include "lib/pack/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- how many blocks a column has of its own ---- */

struct reading {
    uint64_t *own_blocks;
    uint32_t next;
};

static int note_blocks(void *ctx, uint32_t band, uint32_t column,
                       const struct column *col)
{
    struct reading *r = ctx;
    (void)band, (void)column;
    r->own_blocks[r->next++] = col->own_blocks;
    return 0;
}

/* From the table of columns, which is read once for all columns. */
static int read_table(struct open_pack *p, struct tamis_diag *diag)
{
    struct reading r = {.own_blocks = calloc(p->n_columns, sizeof *r.own_blocks)};
    uint64_t *none = NULL;
    if (!r.own_blocks)
        return diag_errno(diag, ENOMEM, filter_path(p->filter), "reading its columns");
    int rc = pack_each_column(p->filter, note_blocks, &r, diag);
    if (rc || !atomic_compare_exchange_strong(&p->own_blocks, &none, r.own_blocks))
        free(r.own_blocks);
    return rc;
}

static int blocks_of(const struct packs *p, const struct seat *seat, uint64_t *n,
                     struct tamis_diag *diag)
{
    struct open_pack *pack = packs_of_seat(p, seat);
    int rc = atomic_load(&pack->own_blocks) ? 0 : read_table(pack, diag);
    if (!rc)
        *n = atomic_load(&pack->own_blocks)[seat->band->first_column + seat->column];
    return rc;
}

/* ---- the filter ---- */

static int fill(const struct tamis_snapshot *s, const struct entry *e,
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
    memcpy(id.uuid, col->uuid, UUID_BYTES);
    int rc = pack_unpack_into(seat->pack, seat->band, seat->column, col, &id, &c, fd);
    if (rc == TAMIS_ERR_DAMAGED)
        return diag_fail(diag, rc, path, "a page of the column fails its check");
    if (rc)
        return diag_errno(diag, rc, path, "unpacking a column");
    rc = filter_open_fd(fd, path, &opt, NULL, out, diag);
    if (!rc)
        filter_count_pages(*out, &e->account->pages);
    return rc;
}

int unpacked_filter(struct tamis_snapshot *s, size_t index, struct tamis_filter **out,
                    struct tamis_diag *diag)
{
    struct entry *e = s->entries[index];
    const struct seat *seat = packs_seat(&s->packs, index);
    struct tamis_filter *mine;
    struct column col;
    *out = atomic_load_explicit(&e->filter, memory_order_acquire);
    if (*out)
        return 0;
    entry_facts(e, &col);
    int rc = blocks_of(&s->packs, seat, &col.own_blocks, diag);
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
    *out = entry_share(e, mine);
    return 0;
}
