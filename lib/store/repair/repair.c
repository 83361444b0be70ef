/* Repair of a store: its locks, its input (the records, and the files in filters/), the
 * way to go, and then the steps that make it so. The order is in README.md; every step
 * may be the last one, and is done again by the next repair, to the same end. */
#include "lib/store/repair/inside.h"
#include "lib/store/catalog/file.h"

#include <sys/file.h>

/* ---- locks ---- */

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

/* Locks the store for this repair. ERR_BUSY while any process has it open. */
static int repair_hold_store(struct repair *r)
{
    char text[HOLDER_TEXT_BYTES];
    bool used = true;
    int rc = dir_open_guarded(r->store_fd, ".", &r->turn);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "opening the store");
    r->held = true;
    rc = dir_lock(r->turn.fd, LOCK_EX | LOCK_NB);
    if (rc && rc != EWOULDBLOCK)
        return diag_errno(r->diag, rc, r->path, "locking the store");
    rc = rc ? 0 : lmdb_is_used(r->store_fd, &used);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "looking at catalog.lmdb-lock");
    if (used)
        return diag_fail(r->diag, TAMIS_ERR_BUSY, r->path,
                         "the catalog is lost, and %s has the store open: end it first",
                         io_holder(r->turn.fd, LOCK_DIRECTORY, text));
    return 0;
}

/* ---- remains beside the catalog ---- */

static int sweep_catalog(void *ctx, int dir, const char *file)
{
    struct repair *r = ctx;
    char name[300];
    if (!store_catalog_temporary(file))
        return 0;
    snprintf(name, sizeof name, "/%s", file);
    if (!r->opt.dry_run && io_calls.unlinkat(dir, file, 0) != 0 && errno != ENOENT)
        return errno;
    repair_tell(r, TAMIS_REPAIR_SWEPT | TELL_DONE, NULL, name,
                "a catalog never finished");
    return 0;
}

/* Removes catalogs that never got their name. */
static int repair_sweep_catalogs(struct repair *r)
{
    size_t n_told = r->n_findings;
    int rc = dir_each(r->store_fd, ".", sweep_catalog, r);
    if (!rc && r->n_findings > n_told && !r->opt.dry_run)
        rc = io_sync_dir(r->store_fd);
    return rc ? diag_errno(r->diag, rc, r->path, "removing catalogs never finished")
              : 0;
}

/* Makes filters/ if it is missing. ERR_NO_STORE if the catalog is missing, too. */
static int repair_make_filters(struct repair *r)
{
    if (faccessat(r->store_fd, "filters", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != ENOENT)
        return diag_errno(r->diag, errno, r->path, "looking for filters/");
    if (faccessat(r->store_fd, "catalog.lmdb", F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return diag_errno(r->diag, errno, r->path, "looking for catalog.lmdb");
        return diag_fail(r->diag, TAMIS_ERR_NO_STORE, r->path,
                         "no store in this directory (no catalog.lmdb, no filters/)");
    }
    int rc = r->opt.dry_run ? 0 : io_make_dir(r->store_fd, "filters");
    if (!r->opt.dry_run && (!rc || rc == EEXIST))
        rc = io_sync_dir(r->store_fd);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "making filters/");
    repair_tell(r, TAMIS_REPAIR_REBUILT | TELL_DONE, NULL, "/filters",
                "was missing: made, empty");
    if (!r->opt.dry_run)
        return 0;
    return diag_fail(r->diag, TAMIS_ERR_DAMAGED, r->path,
                     "filters/ is missing: nothing more can be said of it");
}

/* ---- 1: quarantine ---- */

static bool same_inode(int dir_a, const char *a, int dir_b, const char *b)
{
    struct stat x, y;
    return fstatat(dir_a, a, &x, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(dir_b, b, &y, AT_SYMLINK_NOFOLLOW) == 0 &&
           io_is_file(&x, y.st_dev, y.st_ino);
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

/* The file that it failed at: one of many, perhaps. */
static int cannot(const struct repair *r, const char *doing, const char *name, int rc)
{
    char text[128];
    snprintf(text, sizeof text, "%s filters/%.80s", doing, name);
    return diag_errno(r->diag, rc, r->path, text);
}

static int set_aside(struct repair *r, bool catalog)
{
    const char *at = NULL;
    bool any = catalog;
    int quarantine = -1;
    for (size_t i = 0; i < r->n_files; i++)
        any |= r->files[i].aside;
    int rc = any ? io_make_dir(r->store_fd, "quarantine") : 0;
    if (any && (!rc || rc == EEXIST)) {
        quarantine = openat(r->store_fd, "quarantine",
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        rc = quarantine < 0 ? errno : io_sync_dir(r->store_fd);
    }
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
        return cannot(r, "setting aside in quarantine/:", at, rc);
    return rc ? diag_errno(r->diag, rc, r->path, "setting aside in quarantine/") : 0;
}

/* ---- 2: the catalog ---- */

/* A writer may have raised a record's bounds since it was read: then the decision does
 * not hold, and the next repair decides. */
static int check_unchanged(struct catalog_txn *t, const struct repair *r,
                           const struct repair_segment *s)
{
    struct piece now;
    int rc = catalog_get(t, s->name, &now);
    if (rc && rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    diag_clear(r->diag);
    bool same = rc ? !s->before.at
                   : s->before.at && now.n == s->before.n &&
                         memcmp(now.at, s->before.at, now.n) == 0;
    return same ? 0
                : diag_fail(r->diag, TAMIS_ERR_BUSY, r->path,
                            "a record changed while it was repaired: repair again");
}

/* Changes the catalog, or fills a new one. */
static int change_in(struct catalog_txn *t, void *ctx)
{
    struct repair *r = ctx;
    bool is_new = !r->store;
    int rc = r->doubtful && !is_new ? catalog_set_complete(t, false) : 0;
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        const struct repair_segment *s = &r->segments[i];
        if (!s->changed && !is_new)
            continue;
        rc = is_new ? 0 : check_unchanged(t, r, s);
        if (!rc)
            rc = catalog_replace(t, s->name, s->value);
    }
    return rc ? rc : repair_write_shared(r, t, is_new);
}

/* ---- 3: what nothing names ---- */

static int unlink_unnamed(struct repair *r)
{
    bool any = false;
    int lost = r->store ? origin_check_files(r->store->catalog->origin, r->diag) : 0;
    if (lost)
        return lost;
    for (size_t i = 0; i < r->n_files; i++) {
        if (!r->files[i].aside && !r->files[i].unlink)
            continue;
        if (io_calls.unlinkat(r->filters.fd, r->files[i].name, 0) != 0 &&
            errno != ENOENT)
            return cannot(r, "removing", r->files[i].name, errno);
        any = true;
    }
    int rc = any ? io_sync_dir(r->filters.fd) : 0;
    return rc ? diag_errno(r->diag, rc, r->path, "syncing filters/") : 0;
}

static int repair_apply(struct repair *r, bool new_catalog)
{
    if (r->untold)
        return diag_errno(r->diag, ENOMEM, r->path, "repairing");
    if (r->opt.dry_run)
        return 0;
    bool any = r->relists;
    for (size_t i = 0; i < r->n_segments; i++)
        any |= r->segments[i].changed;
    struct io_wait wait = {r->opt.timeout_ms, r->opt.waiting, r->opt.ctx, 0};
    int rc = set_aside(r, new_catalog);
    if (!rc && new_catalog) {
        rc = registry_create(r->path, r->store_fd, &r->meta, change_in, r, true,
                             r->diag);
        r->step = rc ? r->step : STEP_CHANGED;
        if (!rc && (rc = io_sync_dir(r->store_fd)) != 0)
            diag_errno(r->diag, rc, r->path, "syncing the store");
    } else if (!rc && any) {
        rc = catalog_write(r->store->catalog, &wait, 0, change_in, r, NULL, r->diag);
    }
    if (rc && r->linked)
        repair_note(r, 0, false, NULL, "/quarantine",
                    "has second names of files in filters/: repair again");
    if (rc)
        return rc;
    r->step = STEP_CHANGED;
    rc = unlink_unnamed(r);
    if (!rc)
        r->step = STEP_DONE;
    return rc;
}

/* ---- the catalog is good ---- */

/* Does this error of reading it mean that the catalog can never be used? */
static bool is_lost(int rc)
{
    return rc == TAMIS_ERR_NO_STORE || rc == TAMIS_ERR_NOT_TAMIS ||
           rc == TAMIS_ERR_DAMAGED || rc == TAMIS_ERR_CATALOG;
}

/* By reads alone: LMDB crashes on some of what it is not made for. */
static int scrub_catalog(struct repair *r)
{
    int fd, rc = registry_open_file(r->store_fd, r->path, &fd, r->diag);
    if (rc)
        return rc;
    rc = catalog_file_scrub(fd, r->path, r->diag);
    close(fd);
    return rc;
}

/* Stops all edits. An edit may have been killed after its commit, before it could tell
 * readers. While another process has its turn to commit, they take that transaction for
 * one not yet ended. To begin to write shows it to them. */
static int hold_edits(struct repair *r)
{
    struct catalog *c = r->store->catalog;
    const struct io_wait wait = store_wait(r->store, r->opt.timeout_ms);
    int rc = repair_lock_filters(r, r->store_fd, "filters");
    if (rc)
        return rc;
    r->store->locked = true;
    return c->read_only
               ? catalog_read(c, catalog_meta, &r->meta, r->diag)
               : catalog_write(c, &wait, 0, catalog_meta, &r->meta, NULL, r->diag);
}

static int open_live(struct repair *r)
{
    const struct tamis_open_options open = {.size = sizeof open,
                                            .timeout_ms = r->opt.timeout_ms,
                                            .waiting = r->opt.waiting,
                                            .ctx = r->opt.ctx};
    int rc = scrub_catalog(r);
    if (!rc)
        rc = tamis_store_open(r->path, &open, &r->store, r->diag);
    if (!rc && r->store->catalog->read_only && !r->opt.dry_run)
        rc = store_usable(r->store, true, r->diag);
    if (!rc)
        rc = hold_edits(r);
    if (!rc)
        rc = repair_check_uuid(r);
    if (rc)
        return rc;
    rc = repair_remake(r);
    if (is_lost(rc)) { /* or a list went bad: the records say which */
        diag_clear(r->diag);
        rc = 0;
    }
    if (!rc)
        rc = repair_read_records(r->store->catalog, r);
    if (!rc && r->strange)
        rc = diag_fail(r->diag, TAMIS_ERR_CATALOG, r->path,
                       "the catalog has bits of a file that it does not list");
    return rc;
}

static void close_live(struct repair *r)
{
    repair_unlock_filters(r);
    names_clear(&r->remade);
    tamis_snapshot_release(r->snapshot);
    r->snapshot = NULL;
    tamis_store_close(r->store);
    r->store = NULL;
}

static int repair_live(struct repair *r)
{
    struct tamis_store_info info;
    int rc = repair_sweep_catalogs(r);
    if (!rc)
        rc = repair_list_files(r);
    if (!rc)
        rc = repair_by_records(r);
    if (!rc)
        rc = repair_apply(r, false);
    if (!rc)
        rc = tamis_store_info(r->store, &info, r->diag);
    if (!rc)
        r->report->complete = info.complete && !r->doubtful && !r->disagrees;
    return rc;
}

/* ---- the catalog is lost ---- */

/* Where only the first record is damaged, the others say more than the files. */
static int salvage_records(struct repair *r, bool *have)
{
    struct catalog *c;
    struct meta m;
    int rc = registry_open_alone(r->path, r->store_fd, &c, r->diag);
    *have = false;
    if (rc)
        return is_lost(rc) ? 0 : rc;
    rc = repair_read_records(c, r);
    *have = rc == 0;
    if (!rc)
        rc = catalog_read(c, catalog_meta, &m, r->diag);
    if (!rc && !r->strange)
        rc = diag_fail(r->diag, TAMIS_ERR_BUSY, r->path,
                       "the catalog is good now: repair again");
    catalog_free(c);
    return is_lost(rc) ? 0 : rc;
}

static int repair_lost(struct repair *r)
{
    char why[160] = "";
    bool records = false;
    struct stat st;
    if (r->diag)
        memcpy(why, r->diag->what, sizeof why);
    int rc = repair_hold_store(r);
    /* Nothing that is not a catalog is replaced. */
    if (!rc && fstatat(r->store_fd, "catalog.lmdb", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(st.st_mode))
        rc = diag_fail(r->diag, TAMIS_ERR_NOT_TAMIS, r->path,
                       "catalog.lmdb is not a regular file");
    if (!rc)
        rc = repair_lock_filters(r, r->store_fd, "filters");
    if (!rc)
        rc = salvage_records(r, &records);
    if (!rc)
        rc = repair_sweep_catalogs(r);
    if (!rc)
        rc = repair_list_files(r);
    if (!rc)
        rc = repair_find_meta(r);
    if (rc)
        return rc;
    diag_clear(r->diag);
    repair_tell(r, TAMIS_REPAIR_REBUILT, NULL, "/catalog.lmdb", "%s%s%.100s",
                records ? "its first record is damaged" : "made anew from the files",
                why[0] ? ": " : "", why);
    rc = records ? repair_by_records(r) : repair_by_files(r);
    if (!rc)
        rc = repair_apply(r, true);
    r->report->rebuilt = r->opt.dry_run ? !rc : r->step >= STEP_CHANGED;
    return rc;
}

/* ---- the call ---- */

static int repair(struct repair *r)
{
    int rc = io_refuse_network(r->store_fd);
    if (rc)
        return diag_fail(r->diag, rc, r->path, "%s", tamis_strerror(rc));
    rc = registry_check_lock_file(r->store_fd, r->path, r->diag); /* no lost catalog */
    if (!rc)
        rc = repair_make_filters(r);
    if (!rc)
        rc = repair_refuse_draft(r, r->store_fd, "filters");
    if (rc)
        return rc;
    rc = open_live(r);
    if (rc == 0)
        rc = repair_live(r);
    else if (is_lost(rc)) {
        close_live(r);
        repair_forget_records(r);
        rc = repair_lost(r);
    }
    r->report->n_segments = r->n_segments + repair_count_listed(r);
    return rc;
}

int tamis_store_repair(const char *path, const struct tamis_repair_options *opt,
                       struct tamis_repair_report *report, struct tamis_diag *diag)
{
    struct tamis_repair_report ours;
    struct repair r = {.report = report ? report : &ours, .diag = diag};
    memset(r.report, 0, sizeof *r.report);
    diag_clear(diag);
    if (!path || !*path)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "no path");
    int rc = options_copy(&r.opt, sizeof r.opt, opt);
    if (rc)
        return diag_fail(diag, rc, path, "size of the option struct");
    char *plain = plain_path(path);
    if (!plain)
        return diag_errno(diag, ENOMEM, path, "repairing the store");
    r.path = plain;
    int before = io_hold_cancel(); /* or the store would stay locked */
    rc = store_dir_open(plain, &r.store_fd, diag);
    if (!rc) {
        rc = repair(&r);
        close_live(&r);
        repair_forget_records(&r);
        for (size_t i = 0; i < r.n_files; i++)
            free(r.files[i].rotten);
        free(r.files);
        if (r.held)
            dir_close_guarded(&r.turn);
        repair_report(&r);
        close(r.store_fd);
    }
    io_let_cancel(before);
    free(plain);
    return rc;
}
