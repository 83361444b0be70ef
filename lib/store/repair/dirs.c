/* Repair: the store's directories, their locks, and files other than filters there. */
#include "lib/store/repair/inside.h"

#include <sys/file.h>

/* ---- locks ---- */

int repair_lock_filters(struct repair *r, int dir, const char *name,
                        struct tamis_diag *diag)
{
    struct stat st;
    int rc = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    if (!rc && !S_ISDIR(st.st_mode))
        rc = ENOTDIR;
    if (!rc)
        rc = dir_open_guarded(dir, name, &r->filters);
    if (rc)
        return diag_errno(diag, rc, r->path, "opening filters/");
    struct io_wait wait = {r->opt.timeout_ms, r->opt.waiting, r->opt.ctx, 0};
    r->has_filters = true;
    return dir_wait(r->filters.fd, LOCK_EX, &wait, r->path,
                    "changing or repairing the store", diag);
}

void repair_unlock_filters(struct repair *r)
{
    if (r->has_filters)
        dir_close_guarded(&r->filters);
    r->has_filters = false;
}

/* LMDB's own lock on the first byte of its lock file tells of users that are none of
 * ours. We have the store to ourselves, so closing the file drops no locks of ours. */
static int lmdb_is_used(int store_fd, bool *used)
{
    int fd, rc = io_open_beneath(store_fd, "catalog.lmdb-lock", O_RDONLY, &fd);
    *used = false;
    if (rc)
        return rc == ENOENT ? 0 : rc;
    uint64_t at = NOT_LOCKED;
    rc = io_byte_lock(fd, F_OFD_GETLK, F_WRLCK, 0, 1, &at);
    *used = at != NOT_LOCKED;
    close(fd);
    return rc;
}

int repair_hold_store(struct repair *r, struct tamis_diag *diag)
{
    char text[HOLDER_TEXT_BYTES];
    bool used = true;
    int rc = dir_open_guarded(r->store_fd, ".", &r->turn);
    if (rc)
        return diag_errno(diag, rc, r->path, "opening the store");
    r->held = true;
    rc = dir_lock(r->turn.fd, LOCK_EX | LOCK_NB);
    if (rc && rc != EWOULDBLOCK)
        return diag_errno(diag, rc, r->path, "locking the store");
    rc = rc ? 0 : lmdb_is_used(r->store_fd, &used);
    if (rc)
        return diag_errno(diag, rc, r->path, "looking at catalog.lmdb-lock");
    if (used)
        return diag_fail(diag, TAMIS_ERR_BUSY, r->path,
                         "the catalog is lost, and %s has the store open: end it first",
                         io_holder(r->turn.fd, LOCK_DIRECTORY, text));
    return 0;
}

/* ---- remains beside the catalog ---- */

struct sweeping {
    struct repair *repair;
    bool any;
};

static int sweep_catalog(void *ctx, int dir, const char *file)
{
    struct sweeping *s = ctx;
    char name[300];
    if (!store_catalog_temporary(file))
        return 0;
    snprintf(name, sizeof name, "/%s", file);
    s->any = !s->repair->opt.dry_run;
    if (s->any && io_calls.unlinkat(dir, file, 0) != 0 && errno != ENOENT)
        return errno;
    repair_tell_plain(s->repair, TAMIS_REPAIR_SWEPT, true, NULL, name,
                      "a catalog never finished");
    return 0;
}

int repair_sweep_catalogs(struct repair *r, struct tamis_diag *diag)
{
    struct sweeping s = {r, false};
    int rc = dir_each(r->store_fd, ".", sweep_catalog, &s);
    if (!rc && s.any)
        rc = io_sync_dir(r->store_fd);
    return rc ? diag_errno(diag, rc, r->path, "removing catalogs never finished") : 0;
}

int repair_make_filters(struct repair *r, struct tamis_diag *diag)
{
    if (faccessat(r->store_fd, "filters", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != ENOENT)
        return diag_errno(diag, errno, r->path, "looking for filters/");
    if (faccessat(r->store_fd, "catalog.lmdb", F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return diag_errno(diag, errno, r->path, "looking for catalog.lmdb");
        return diag_fail(diag, TAMIS_ERR_NO_STORE, r->path,
                         "no store in this directory (no catalog.lmdb, no filters/)");
    }
    int rc = r->opt.dry_run ? 0 : io_make_dir(r->store_fd, "filters");
    if (!r->opt.dry_run && (!rc || rc == EEXIST))
        rc = io_sync_dir(r->store_fd);
    if (rc)
        return diag_errno(diag, rc, r->path, "making filters/");
    repair_tell_plain(r, TAMIS_REPAIR_REBUILT, true, NULL, "/filters",
                      "was missing: made, empty");
    if (!r->opt.dry_run)
        return 0;
    return diag_fail(diag, TAMIS_ERR_DAMAGED, r->path,
                     "filters/ is missing: nothing more can be said of it");
}
