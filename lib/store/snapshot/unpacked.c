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

int packs_column(struct tamis_snapshot *s, size_t index, struct column *out,
                 struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    struct column col;
    struct entry *e = s->entries[index];
    const struct seat *seat = packs_seat(&s->packs, index);
    const char *path = filter_path(seat->pack);
    int rc =
        pack_describe(seat->pack, seat->band->first_column + seat->column, true, &col);
    if (rc)
        return diag_fail(diag, rc, path, "its table of columns fails its check");
    entry_facts(e, out);
    out->disk.own_blocks = col.disk.own_blocks;
    memcpy(out->disk.set_id, col.disk.set_id, UUID_BYTES);
    if (memcmp(col.disk.uuid, entry_record(e)->uuid, UUID_BYTES) == 0 &&
        entry_compare_name(e, column_name(&col).at, column_name(&col).n) == 0)
        return 0;
    return diag_fail(diag, TAMIS_ERR_MISMATCH, path,
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
        .created = le64_get(col->disk.created),
    };
    struct tamis_filter_options opt = {.size = sizeof opt, .domain = &s->domain};
    const char *path = filter_path(seat->pack);
    struct account *account = entry_account(e);
    if (!account)
        return diag_errno(diag, ENOMEM, path, "unpacking a column");
    memcpy(id.uuid, col->disk.uuid, UUID_BYTES);
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
    int rc = packs_column(s, index, &col, diag);
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
