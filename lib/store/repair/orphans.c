/* Records of the catalog in the repair's list, and the filters that none of them names:
 * tamis_store_orphans(). */
#include "lib/store/repair/inside.h"

void repair_forget_records(struct repair *r)
{
    for (size_t i = 0; i < r->n_segments; i++)
        free(r->segments[i].memory);
    free(r->segments);
    r->segments = NULL;
    r->n_segments = r->max_segments = 0;
    repair_forget_shared(r);
}

static int read_in(struct catalog_txn *t, void *ctx)
{
    struct repair *r = ctx;
    repair_forget_records(r);
    int rc = catalog_each(t, repair_add_segment, r);
    return rc ? rc : repair_read_shared(t, r);
}

int repair_read_records(struct catalog *c, struct repair *r)
{
    int rc = catalog_read(c, read_in, r, r->diag);
    if (rc)
        repair_forget_records(r);
    return rc;
}

bool repair_name_parts(struct repair *r, const struct repair_segment *s)
{
    unsigned n;
    const struct part_disk *p =
        record_parts(s->before.at, s->before.n, s->name.at, s->name.n, &n);
    for (unsigned i = 0; i < n; i++) {
        struct repair_file *f = repair_find_file(r, p[i].uuid);
        if (f)
            f->named = true;
        repair_count_shared(r, &p[i]);
        if (p[i].kind != PART_FILE && p[i].kind != PART_LIST)
            repair_name_shared(r, p[i].uuid);
    }
    return p != NULL;
}

/* ---- which of the files does no record name? ---- */

static void tell_orphans(struct repair *r)
{
    repair_name_all_shared(r);
    r->unsure = r->strange;
    for (size_t i = 0; i < r->n_segments; i++)
        if (!repair_name_parts(r, &r->segments[i]))
            r->unsure = true;
    for (size_t i = 0; i < r->n_files; i++)
        if (r->files[i].named || (r->unsure && !r->files[i].temporary))
            continue;
        else if (r->files[i].strange)
            repair_tell_stray(r, r->files[i].name);
        else
            repair_tell(r, TAMIS_REPAIR_NOTED, NULL, r->files[i].name, "%s",
                        r->files[i].temporary ? "was never finished"
                                              : "no record names it");
}

int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag)
{
    struct tamis_repair_report report = {0};
    struct repair r = {.opt = {.found = fn, .ctx = ctx, .timeout_ms = -1},
                       .report = &report,
                       .diag = diag,
                       .reads_only = true};
    if (n_orphans)
        *n_orphans = 0;
    int rc = store_usable(store, false, diag);
    if (rc)
        return rc;
    struct catalog *c = store->catalog;
    r.path = c->path;
    /* Edits have files that nothing names yet, and hold filters/ shared as long. */
    int before = io_hold_cancel(); /* or filters/ would stay locked */
    rc = repair_lock_filters(&r, c->filters->fd, ".");
    if (!rc)
        rc = repair_refuse_draft(&r, c->filters->fd, ".");
    if (!rc)
        rc = repair_read_records(c, &r);
    if (!rc)
        rc = repair_list_files(&r);
    if (!rc)
        tell_orphans(&r);
    repair_unlock_filters(&r);
    if (!rc && r.untold)
        rc = diag_errno(diag, ENOMEM, c->path, "comparing files and records");
    repair_report(&r);
    for (size_t i = 0; i < r.n_files && n_orphans && !rc; i++)
        *n_orphans += !r.files[i].named && (r.files[i].temporary || !r.unsure);
    repair_forget_records(&r);
    free(r.files);
    io_let_cancel(before);
    return rc;
}
