/* Files and records compared: which files does no record name? */
#include "lib/store/repair/inside.h"

#include <errno.h>
#include <stdlib.h>

static void compare(struct repair *r)
{
    for (size_t i = 0; i < r->n_segments; i++) {
        const struct repair_segment *s = &r->segments[i];
        struct record record;
        struct verdict v =
            record_decode(s->before, s->before_bytes, s->name, s->name_bytes, &record);
        if (v.code != VERDICT_OK)
            r->unsure = true; /* may name any file */
        struct repair_file *f =
            v.code == VERDICT_OK ? repair_find_file(r, record.uuid) : NULL;
        if (f)
            f->named = true;
    }
    for (size_t i = 0; i < r->n_files; i++)
        if (!r->files[i].named && (r->files[i].temporary || !r->unsure))
            repair_tell(r, TAMIS_REPAIR_NOTED, NULL, r->files[i].name, "%s",
                        r->files[i].temporary ? "was never finished"
                                              : "no record names it");
}

int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag)
{
    struct tamis_repair_report report = {0};
    struct repair r = {.opt = {.found = fn, .ctx = ctx}, .report = &report};
    if (n_orphans)
        *n_orphans = 0;
    int rc = store_usable(store, false, diag);
    if (rc)
        return rc;
    struct catalog *c = store->catalog;
    r.path = c->path;
    /* Edits have files that nothing names yet, and hold filters/ shared as long. */
    rc = repair_lock_filters(&r, c->filters->fd, ".", diag);
    if (!rc)
        rc = repair_read_records(c, &r, diag);
    if (!rc)
        rc = repair_list_files(&r, diag);
    if (!rc)
        compare(&r);
    repair_unlock_filters(&r);
    if (!rc && r.untold)
        rc = diag_errno(diag, ENOMEM, c->path, "comparing files and records");
    repair_report(&r);
    for (size_t i = 0; i < r.n_files && n_orphans && !rc; i++)
        *n_orphans += !r.files[i].named && (r.files[i].temporary || !r.unsure);
    for (size_t i = 0; i < r.n_segments; i++)
        free(r.segments[i].name);
    free(r.segments);
    free(r.files);
    return rc;
}
