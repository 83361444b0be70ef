/* Repair: making it so. The order is in README.md; every step may be the last one, and
 * is done again by the next repair, to the same end. */
#include "lib/store/repair/inside.h"

/* ---- 1: quarantine ---- */

static bool same_inode(int dir_a, const char *a, int dir_b, const char *b)
{
    struct stat x, y;
    return fstatat(dir_a, a, &x, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(dir_b, b, &y, AT_SYMLINK_NOFOLLOW) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* A second name, not another name. Until the catalog has changed, the file must stay
 * where a new repair finds it, and after that where no edit sweeps. */
static int link_aside(int from, const char *name, int quarantine)
{
    enum { TRIES = 1000 };
    char to[300];
    snprintf(to, sizeof to, "%.255s", name);
    for (int i = 1; i < TRIES; i++) {
        if (io_calls.linkat(from, name, quarantine, to, 0) == 0)
            return 0;
        if (errno != EEXIST)
            return errno;
        if (same_inode(from, name, quarantine, to))
            return 0; /* by a repair that was cut short */
        snprintf(to, sizeof to, "%.255s.%d", name, i);
    }
    return EEXIST;
}

static int open_quarantine(struct repair *r, int *quarantine)
{
    int rc = io_make_dir(r->store_fd, "quarantine");
    if (rc && rc != EEXIST)
        return rc;
    *quarantine = openat(r->store_fd, "quarantine",
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (*quarantine < 0)
        return errno;
    return io_sync_dir(r->store_fd);
}

/* The file that it failed at: one of many, perhaps. */
static int cannot(const struct repair *r, const char *doing, const char *name, int rc,
                  struct tamis_diag *diag)
{
    char text[128];
    snprintf(text, sizeof text, "%s filters/%.80s", doing, name);
    return diag_errno(diag, rc, r->path, text);
}

static int set_aside(struct repair *r, bool catalog, struct tamis_diag *diag)
{
    const char *at = NULL;
    bool any = catalog;
    int quarantine = -1;
    for (size_t i = 0; i < r->n_files; i++)
        any |= r->files[i].aside;
    int rc = any ? open_quarantine(r, &quarantine) : 0;
    for (size_t i = 0; i < r->n_files && !rc; i++)
        if (r->files[i].aside) {
            rc = link_aside(r->filters.fd, r->files[i].name, quarantine);
            at = rc ? r->files[i].name : NULL;
            r->linked |= !rc;
        }
    if (catalog && !rc) {
        rc = link_aside(r->store_fd, "catalog.lmdb", quarantine);
        rc = rc == ENOENT ? 0 : rc;
    }
    if (any && !rc)
        rc = io_sync_dir(quarantine);
    if (quarantine >= 0)
        close(quarantine);
    if (rc && at)
        return cannot(r, "setting aside in quarantine/:", at, rc, diag);
    return rc ? diag_errno(diag, rc, r->path, "setting aside in quarantine/") : 0;
}

/* ---- 2: the catalog ---- */

/* A writer may have raised a record's bounds since it was read: then the decision does
 * not hold, and the next repair decides. */
static int change_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct repair *r = ctx;
    int rc = r->doubtful ? catalog_set_complete(t, false, diag) : 0;
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        const struct repair_segment *s = &r->segments[i];
        struct piece name = {s->name, s->name_bytes}, now;
        if (!s->changed)
            continue;
        rc = catalog_get(t, name, &now, diag);
        bool same = rc ? !s->before
                       : s->before && now.n == s->before_bytes &&
                             memcmp(now.at, s->before, now.n) == 0;
        if (same && rc == TAMIS_ERR_NO_SEGMENT) { /* as it was */
            diag_clear(diag);
            rc = 0;
        } else if (!same && (!rc || rc == TAMIS_ERR_NO_SEGMENT))
            rc = diag_fail(diag, TAMIS_ERR_BUSY, r->path,
                           "a record changed while it was repaired: repair again");
        if (!rc)
            rc = catalog_replace(t, name, (struct piece){s->value, s->value_bytes},
                                 diag);
    }
    return rc ? rc : repair_write_shared(r, t, false, diag);
}

static int change_catalog(struct repair *r, struct tamis_diag *diag)
{
    bool any = r->relists;
    for (size_t i = 0; i < r->n_segments; i++)
        any |= r->segments[i].changed;
    struct io_wait wait = store_wait(r->store, r->opt.timeout_ms);
    return any ? catalog_write(r->store->catalog, &wait, 0, change_in, r, NULL, diag)
               : 0;
}

static int fill_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct repair *r = ctx;
    int rc = 0;
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        const struct repair_segment *s = &r->segments[i];
        rc = catalog_replace(t, (struct piece){s->name, s->name_bytes},
                             (struct piece){s->value, s->value_bytes}, diag);
    }
    return rc ? rc : repair_write_shared(r, t, true, diag);
}

static int replace_catalog(struct repair *r, struct tamis_diag *diag)
{
    int rc = registry_create(r->path, r->store_fd, &r->meta, fill_in, r, true, diag);
    if (rc)
        return rc;
    r->step = STEP_CHANGED;
    rc = io_sync_dir(r->store_fd);
    return rc ? diag_errno(diag, rc, r->path, "syncing the store") : 0;
}

/* ---- 3: what nothing names ---- */

static int unlink_unnamed(struct repair *r, struct tamis_diag *diag)
{
    bool any = false;
    int lost = r->store ? origin_check_files(r->store->catalog->origin, diag) : 0;
    if (lost)
        return lost;
    for (size_t i = 0; i < r->n_files; i++) {
        if (!r->files[i].aside && !r->files[i].unlink)
            continue;
        if (io_calls.unlinkat(r->filters.fd, r->files[i].name, 0) != 0 &&
            errno != ENOENT)
            return cannot(r, "removing", r->files[i].name, errno, diag);
        any = true;
    }
    int rc = any ? io_sync_dir(r->filters.fd) : 0;
    return rc ? diag_errno(diag, rc, r->path, "syncing filters/") : 0;
}

int repair_apply(struct repair *r, bool new_catalog, struct tamis_diag *diag)
{
    int rc = set_aside(r, new_catalog, diag);
    if (!rc)
        rc = new_catalog ? replace_catalog(r, diag) : change_catalog(r, diag);
    if (rc && r->linked)
        repair_note(r, 0, false, NULL, "/quarantine",
                    "has second names of files in filters/: repair again");
    if (rc)
        return rc;
    r->step = STEP_CHANGED;
    rc = unlink_unnamed(r, diag);
    if (!rc)
        r->step = STEP_DONE;
    return rc;
}
