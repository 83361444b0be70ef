/* tamis_edit_unpack(): columns of packs written as files of their own. The new filter
 * has another UUID, for its bytes may differ from those that were packed. */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/pack/pack.h"
#include "lib/store/base/base.h"
#include "lib/store/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

struct unpacking {
    struct tamis_edit *edit;
    struct tamis_snapshot *snapshot;
    struct tamis_diag *diag;
    bool *wanted; /* by segment */
};

static struct record record_of(const struct entry *e)
{
    struct record r;
    record_decode(e->bytes + e->name_bytes, e->value_bytes, e->bytes, e->name_bytes,
                  &r);
    return r;
}

/* Damage is the pack's. All else is the fault of the file that is made. */
static int not_unpacked(const struct unpacking *u, int rc, const struct entry *e,
                        const struct seat *seat, const char *name)
{
    char path[STORE_PATH_BYTES], text[NAME_TEXT_BYTES];
    bool is_damage = rc == TAMIS_ERR_DAMAGED;
    filters_dir_path(u->edit->catalog->filters, name, path);
    name_text(text, e->bytes, e->name_bytes);
    diag_fail(u->diag, rc, is_damage ? filter_path(seat->pack) : path,
              is_damage ? "unpacking segment '%s': %s"
                        : "cannot write the file of segment '%s': %s",
              text, tamis_strerror(rc));
    if (u->diag && rc > 0)
        u->diag->os_errno = rc;
    return rc;
}

static int write_filter(struct unpacking *u, const struct entry *e,
                        const struct seat *seat, const struct column *col,
                        struct record *r)
{
    const struct catalog *c = u->edit->catalog;
    char name[FILTER_NAME_BYTES];
    struct identity id = {
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .hash_id = (uint16_t)c->domain.hash_id,
        .hash_seed = c->domain.seed,
        .created = io_calls.now(),
    };
    struct commit commit;
    uuid_random(id.uuid);
    memcpy(id.store_uuid, c->meta.store_uuid, UUID_BYTES);
    filter_file_name(id.uuid, name);
    int rc = pack_unpack(seat->pack, seat->band, seat->column, col, &id, &commit,
                         u->edit->dir.fd, name);
    if (rc)
        return not_unpacked(u, rc, e, seat, name);
    struct record now = record_of_commit(&commit, id.target_error, id.created, r->rank);
    now.has_range = r->has_range;
    now.first_bytes = r->first_bytes;
    now.last_bytes = r->last_bytes;
    memcpy(now.list_uuid, r->list_uuid, UUID_BYTES);
    now.list_digest = r->list_digest;
    memcpy(now.first, r->first, r->first_bytes);
    memcpy(now.last, r->last, r->last_bytes);
    *r = now;
    return 0;
}

static int unpack_segment(struct unpacking *u, size_t index)
{
    struct tamis_snapshot *s = u->snapshot;
    const struct entry *e = s->entries[index];
    struct record r = record_of(e);
    struct column col;
    int rc = packs_column(s, index, &col, u->diag);
    if (!rc)
        rc = write_filter(u, e, packs_seat(&s->packs, index), &col, &r);
    if (rc)
        return rc;
    rc = tamis_edit_drop_filter(u->edit, e->bytes, e->name_bytes, entry_record(e)->uuid,
                                u->diag);
    if (rc) {
        filter_file_unlink(u->edit->dir.fd, r.uuid);
        return rc;
    }
    return edit_put_append(u->edit, e->bytes, e->name_bytes, &r, PUT_KEEPS_LIST,
                           u->diag);
}

static int check_segment(const struct unpacking *u, size_t index)
{
    char text[NAME_TEXT_BYTES];
    const struct tamis_snapshot *s = u->snapshot;
    if (index >= s->n)
        return diag_fail(u->diag, TAMIS_ERR_RANGE, u->edit->catalog->path,
                         "the snapshot has no segment %zu", index);
    const struct entry *e = s->entries[index];
    name_text(text, e->bytes, e->name_bytes);
    if (!packs_seat(&s->packs, index))
        return diag_fail(u->diag, TAMIS_ERR_NO_SEGMENT, u->edit->catalog->path,
                         "segment '%s' is in no usable pack", text);
    return edit_may_remake(u->edit, e, u->diag);
}

/* Is there room for the files? They may be much larger than the columns: better told
 * before the first than when the disk is full. */
static int check_room(struct unpacking *u)
{
    struct statvfs fs;
    uint64_t needs = 0, has;
    for (size_t i = 0; i < u->snapshot->n; i++) {
        if (!u->wanted[i])
            continue;
        const struct seat *seat = packs_seat(&u->snapshot->packs, i);
        struct column col;
        int rc = packs_column(u->snapshot, i, &col, u->diag);
        if (rc)
            return rc;
        needs += pack_unpacked_bytes(seat->band, le64_get(col.disk.own_blocks));
    }
    if (fstatvfs(u->edit->dir.fd, &fs) != 0)
        return diag_errno(u->diag, errno, u->edit->catalog->path, "looking for room");
    has = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (has >= needs)
        return 0;
    return diag_fail(u->diag, ENOSPC, u->edit->catalog->path,
                     "unpacking needs %llu bytes, and the disk has %llu left",
                     (unsigned long long)needs, (unsigned long long)has);
}

int tamis_edit_unpack(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                      const uint32_t *segments, size_t n, struct tamis_diag *diag)
{
    struct unpacking u = {.edit = edit, .snapshot = snapshot, .diag = diag};
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    if (!snapshot || !snapshot->dir || (n && !segments) ||
        snapshot->ledger != edit->catalog->ledger)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                         "no snapshot of this store, or no segments");
    u.wanted = calloc(snapshot->n + 1, sizeof *u.wanted);
    if (!u.wanted)
        return diag_errno(diag, ENOMEM, edit->catalog->path, "unpacking");
    for (size_t i = 0; i < n && !rc; i++) {
        rc = check_segment(&u, segments[i]);
        if (!rc)
            u.wanted[segments[i]] = true;
    }
    if (!rc)
        rc = check_room(&u);
    for (size_t i = 0; i < n && !rc; i++)
        if (u.wanted[segments[i]]) {
            u.wanted[segments[i]] = false; /* it may be listed twice */
            rc = unpack_segment(&u, segments[i]);
        }
    free(u.wanted);
    return rc;
}
