/* Repair of a store: which way to go, under which locks, and what is told. */
#include "lib/store/repair/inside.h"
#include "lib/store/catalog/file.h"

/* ---- the catalog is good ---- */

/* Does this error of reading it mean that the catalog can never be used? */
static bool is_lost(int rc)
{
    return rc == TAMIS_ERR_NO_STORE || rc == TAMIS_ERR_NOT_TAMIS ||
           rc == TAMIS_ERR_DAMAGED || rc == TAMIS_ERR_CATALOG;
}

/* Refuses to replace anything that is not a catalog. */
static int check_catalog_name(const struct repair *r, struct tamis_diag *diag)
{
    struct stat st;
    if (fstatat(r->store_fd, "catalog.lmdb", &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISREG(st.st_mode))
        return 0;
    return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, r->path,
                     "catalog.lmdb is not a regular file");
}

/* By reads alone: LMDB crashes on some of what it is not made for. */
static int scrub_catalog(struct repair *r, struct tamis_diag *diag)
{
    int fd, rc = registry_open_file(r->store_fd, r->path, &fd, diag);
    if (rc)
        return rc;
    rc = catalog_file_scrub(fd, r->path, diag);
    close(fd);
    return rc;
}

/* Stops all edits. An edit may have been killed after its commit, before it could tell
 * readers. While another process has its turn to commit, they take that transaction for
 * one not yet ended. To begin to write shows it to them. */
static int hold_edits(struct repair *r, struct tamis_diag *diag)
{
    struct catalog *c = r->store->catalog;
    const struct io_wait wait = store_wait(r->store, r->opt.timeout_ms);
    int rc = repair_lock_filters(r, r->store_fd, "filters", diag);
    if (rc)
        return rc;
    r->store->locked = true;
    return c->read_only
               ? catalog_read(c, catalog_read_meta, &r->meta, diag)
               : catalog_write(c, &wait, 0, catalog_read_meta, &r->meta, NULL, diag);
}

static int open_live(struct repair *r, struct tamis_diag *diag)
{
    const struct tamis_open_options open = {.size = sizeof open,
                                            .timeout_ms = r->opt.timeout_ms,
                                            .waiting = r->opt.waiting,
                                            .ctx = r->opt.ctx};
    int rc = scrub_catalog(r, diag);
    if (!rc)
        rc = tamis_store_open(r->path, &open, &r->store, diag);
    if (!rc && r->store->catalog->read_only && !r->opt.dry_run)
        rc = store_usable(r->store, true, diag);
    if (!rc)
        rc = hold_edits(r, diag);
    if (!rc)
        rc = repair_check_uuid(r, diag);
    if (rc)
        return rc;
    rc = repair_remake(r, diag);
    if (is_lost(rc)) { /* or a list went bad: the records say which */
        diag_clear(diag);
        rc = 0;
    }
    if (!rc)
        rc = repair_read_records(r->store->catalog, r, diag);
    if (!rc && r->strange)
        rc = diag_fail(diag, TAMIS_ERR_CATALOG, r->path,
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

static int repair_live(struct repair *r, struct tamis_diag *diag)
{
    struct tamis_store_info info;
    int rc = repair_sweep_catalogs(r, diag);
    if (!rc)
        rc = repair_list_files(r, diag);
    if (!rc)
        rc = repair_by_records(r, diag);
    if (!rc && r->untold)
        rc = diag_errno(diag, ENOMEM, r->path, "repairing");
    if (!rc && !r->opt.dry_run)
        rc = repair_apply(r, false, diag);
    if (!rc)
        rc = tamis_store_info(r->store, &info, diag);
    if (!rc)
        r->report->complete = info.complete && !r->doubtful && !r->disagrees;
    return rc;
}

/* ---- the catalog is lost ---- */

/* Where only the first record is damaged, the others say more than the files. */
static int salvage_records(struct repair *r, bool *have, struct tamis_diag *diag)
{
    struct catalog *c;
    struct meta m;
    int rc = registry_open_alone(r->path, r->store_fd, &c, diag);
    *have = false;
    if (rc)
        return is_lost(rc) ? 0 : rc;
    rc = repair_read_records(c, r, diag);
    *have = rc == 0;
    if (!rc) {
        rc = catalog_read(c, catalog_read_meta, &m, diag);
        if (!rc && !r->strange)
            rc = diag_fail(diag, TAMIS_ERR_BUSY, r->path,
                           "the catalog is good now: repair again");
    }
    catalog_free(c);
    return is_lost(rc) ? 0 : rc;
}

static int repair_lost(struct repair *r, struct tamis_diag *diag)
{
    char why[160] = "";
    bool records = false;
    if (diag)
        memcpy(why, diag->what, sizeof why);
    int rc = repair_hold_store(r, diag);
    if (!rc)
        rc = check_catalog_name(r, diag);
    if (!rc)
        rc = repair_lock_filters(r, r->store_fd, "filters", diag);
    if (!rc)
        rc = salvage_records(r, &records, diag);
    if (!rc)
        rc = repair_sweep_catalogs(r, diag);
    if (!rc)
        rc = repair_list_files(r, diag);
    if (!rc)
        rc = repair_find_meta(r, diag);
    if (rc)
        return rc;
    diag_clear(diag);
    repair_tell(r, TAMIS_REPAIR_REBUILT, NULL, "/catalog.lmdb", "%s%s%.100s",
                records ? "its first record is damaged" : "made anew from the files",
                why[0] ? ": " : "", why);
    rc = records ? repair_by_records(r, diag) : repair_by_files(r, diag);
    if (!rc && r->untold)
        rc = diag_errno(diag, ENOMEM, r->path, "repairing");
    if (!rc && !r->opt.dry_run)
        rc = repair_apply(r, true, diag);
    r->report->rebuilt = r->opt.dry_run ? !rc : r->step >= STEP_CHANGED;
    return rc;
}

/* ---- the call ---- */

static int repair(struct repair *r, struct tamis_diag *diag)
{
    int rc = io_refuse_network(r->store_fd);
    if (rc)
        return diag_fail(diag, rc, r->path, "%s", tamis_strerror(rc));
    rc = registry_check_lock_file(r->store_fd, r->path, diag); /* no lost catalog */
    if (!rc)
        rc = repair_make_filters(r, diag);
    if (!rc)
        rc = repair_refuse_draft(r, r->store_fd, "filters", diag);
    if (rc)
        return rc;
    rc = open_live(r, diag);
    if (rc == 0)
        rc = repair_live(r, diag);
    else if (is_lost(rc)) {
        close_live(r);
        repair_forget_records(r);
        rc = repair_lost(r, diag);
    }
    r->report->n_segments = r->n_segments + repair_count_listed(r);
    return rc;
}

static void repair_free(struct repair *r)
{
    close_live(r);
    repair_forget_records(r);
    for (size_t i = 0; i < r->n_files; i++)
        free(r->files[i].rotten);
    free(r->files);
    if (r->held)
        dir_close_guarded(&r->turn);
}

int tamis_store_repair(const char *path, const struct tamis_repair_options *opt,
                       struct tamis_repair_report *report, struct tamis_diag *diag)
{
    struct tamis_repair_report ours;
    struct repair r = {.report = report ? report : &ours};
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
        rc = repair(&r, diag);
        repair_free(&r);
        repair_report(&r);
        close(r.store_fd);
    }
    io_let_cancel(before);
    free(plain);
    return rc;
}
