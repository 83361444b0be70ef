/* Packs of a backup: a pack and its tombstones are opened at the moment of the list,
 * and copied later. A pack that cannot be copied is left out: then its segments are
 * without a filter in the copy. */
#include "lib/store/backup/inside.h"
#include "format/pack.h"
#include "lib/error.h"
#include "lib/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opened at the moment; a failure is told when it is copied. */
static void open_pack(const struct backup *b, struct backup_pack *p)
{
    char name[FILTER_NAME_BYTES];
    int dir = b->catalog->filters->fd;
    filter_file_name(p->place.uuid, name);
    p->failure = io_open_beneath(dir, name, O_RDONLY, &p->from);
    if (p->failure)
        return;
    p->failure =
        dead_load(dir, p->place.uuid, p->place.digest, &p->dead, &p->n_columns);
    p->no_dead = p->failure != 0;
}

int backup_note_pack(struct backup *b, struct backup_item *it, const struct record *r)
{
    for (size_t i = 0; i < b->n_packs; i++)
        if (b->packs[i].place.digest == r->place.digest &&
            memcmp(b->packs[i].place.uuid, r->place.uuid, UUID_BYTES) == 0) {
            it->pack = (uint32_t)i + 1;
            b->packs[i].n_segments++;
            return 0;
        }
    struct backup_pack *more = realloc(b->packs, (b->n_packs + 1) * sizeof *more);
    if (!more)
        return ENOMEM;
    b->packs = more;
    b->packs[b->n_packs] =
        (struct backup_pack){.place = r->place, .from = -1, .n_segments = 1};
    open_pack(b, &b->packs[b->n_packs]);
    it->pack = (uint32_t)++b->n_packs;
    int rc = b->packs[b->n_packs - 1].failure;
    return rc == EMFILE || rc == ENFILE || rc == ENOMEM ? rc : 0;
}

void backup_free_packs(struct backup *b)
{
    for (size_t i = 0; i < b->n_packs; i++) {
        if (b->packs[i].from >= 0)
            close(b->packs[i].from);
        free(b->packs[i].dead);
    }
    free(b->packs);
    b->packs = NULL;
    b->n_packs = 0;
}

/* ---- copying ---- */

static int write_new(int dir, const char *name, int *fd)
{
    *fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd < 0 ? errno : 0;
}

/* Is the copy the pack that the records mean? *bad is a fault of the source. */
static int check_copy(const struct backup *b, struct backup_pack *p, int to, bool *bad)
{
    struct header h;
    struct tamis_verify v;
    int rc = header_load(to, true, 0, 0, "pack", &h, NULL);
    *bad = rc == TAMIS_ERR_DAMAGED || rc == TAMIS_ERR_NOT_TAMIS;
    if (rc)
        return rc;
    *bad = h.identity.kind != KIND_PACK ||
           h.identity.hash_id != b->catalog->meta.hash_id ||
           h.identity.hash_seed != b->catalog->meta.hash_seed ||
           memcmp(h.identity.uuid, p->place.uuid, UUID_BYTES) != 0 ||
           commit_table_digest(&h.commit) != p->place.digest;
    if (*bad)
        return TAMIS_ERR_MISMATCH;
    rc = filter_scrub(to, &h, &v);
    p->n_bytes = h.commit.committed_bytes;
    p->damaged = !rc && v.n_damaged;
    return rc;
}

static int copy_bytes(struct backup *b, struct backup_pack *p, int to, bool *bad)
{
    struct header h;
    int rc = header_load(p->from, true, 0, 0, "pack", &h, NULL);
    *bad = rc != 0 && rc != ENOMEM;
    if (!rc)
        rc = filter_file_copy(p->from, to, h.commit.committed_bytes, bad);
    if (!rc && io_calls.fsync(to) != 0)
        rc = errno;
    return rc ? rc : check_copy(b, p, to, bad);
}

static int copy_dead(const struct backup *b, const struct backup_pack *p)
{
    char name[FILTER_NAME_BYTES];
    int fd;
    dead_file_name(p->place.uuid, name);
    int rc = write_new(b->filters, name, &fd);
    if (rc)
        return rc;
    rc = io_write(fd, p->dead, dead_bytes(p->n_columns), 0);
    if (!rc && io_calls.fsync(fd) != 0)
        rc = errno;
    close(fd);
    return rc;
}

void backup_unlink_pack(const struct backup *b, const struct backup_pack *p)
{
    char name[FILTER_NAME_BYTES];
    filter_file_unlink(b->filters, p->place.uuid);
    dead_file_name(p->place.uuid, name);
    io_calls.unlinkat(b->filters, name, 0);
}

/* 0 also if the pack is left out: p->failure says why. */
static int copy_pack(struct backup *b, struct backup_pack *p, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    bool bad = false;
    int to;
    if (p->failure)
        return 0;
    filter_file_name(p->place.uuid, name);
    int rc = write_new(b->filters, name, &to);
    if (!rc) {
        rc = copy_bytes(b, p, to, &bad);
        close(to);
    }
    if (!rc)
        rc = copy_dead(b, p);
    if (!rc)
        return 0;
    backup_unlink_pack(b, p);
    if (!bad)
        return rc < 0 ? diag_fail(diag, rc, b->path, "%s", tamis_strerror(rc))
                      : diag_errno(diag, rc, b->path, "copying a pack");
    p->failure = rc;
    return 0;
}

int backup_copy_packs(struct backup *b, struct tamis_diag *diag)
{
    int rc = 0;
    for (size_t i = 0; i < b->n_packs && !rc; i++)
        rc = copy_pack(b, &b->packs[i], diag);
    return rc;
}
