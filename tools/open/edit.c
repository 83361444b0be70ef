/* The work of an edit, between its begin and its commit, and the commit. */
#include "../talk/endings.h"
#include "open.h"

int edit_begin(struct tamis_store *store, bool dry, struct tamis_edit **edit,
               struct tamis_diag *diag)
{
    const struct tamis_edit_options opt = {.size = sizeof(opt), .dry_run = dry};
    int err = tamis_edit_begin(store, &opt, edit, diag);
    if (err == 0 && diag->what[0] != '\0')
        say_line("%s: %s", PATH(diag->file), diag->what);
    return err;
}

int edit_store(struct tamis_store *store, const char *path, struct tamis_edit **edit,
               int (*work)(void *ctx), void *ctx, bool dry, not_committed_fn *failed)
{
    struct tamis_diag diag = {0};
    struct endings endings;
    int err = edit_begin(store, dry, edit, &diag), status;
    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    endings_catch(&endings);
    status = work(ctx);
    bool ends = status != EXIT_DONE || dry;
    if (ends)
        tamis_edit_abort(*edit);
    else
        endings_hold();
    endings_let(&endings, ends);
    if (ends)
        return status;
    err = edit_commit(*edit, &diag);
    return err ? failed(ctx, err, &diag) : EXIT_DONE;
}

int replaced_error(int err, const struct tamis_diag *diag, const char *store)
{
    if (err != TAMIS_ERR_MISMATCH && err != TAMIS_ERR_NO_SEGMENT)
        return complain_error(err, diag, store, NULL);
    complain_error(err, diag, store,
                   err == TAMIS_ERR_NO_SEGMENT
                       ? "it was dropped meanwhile: run it again without it"
                       : "run it again");
    return EXIT_BUSY;
}

static int not_committed(void *edit, int err, const struct tamis_diag *diag)
{
    const struct segments_edit *e = edit;
    return err == TAMIS_ERR_EXISTS && e->put_error
               ? e->put_error(e, err, diag)
               : replaced_error(err, diag, e->o->args[0]);
}

int edit_segments(struct segments_edit *e, char *const *names, size_t n_names)
{
    const char *path = e->o->args[0];
    int status;
    store_snapshot(path, &e->store, &e->snapshot);
    status =
        e->open ? pick_open_segments(e->store, &e->snapshot, path, names, n_names,
                                     &e->segments, &e->n)
                : pick_segments(e->snapshot, path, names, n_names, &e->segments, &e->n);
    if (status == EXIT_DONE)
        status = edit_store(e->store, path, &e->edit, e->work, e,
                            given(e->o, OPT_DRY_RUN), not_committed);
    if (status == EXIT_DONE)
        status = e->print(e);
    free(e->segments);
    tamis_snapshot_release(e->snapshot);
    tamis_store_close(e->store);
    return status;
}

int drop_replaced(struct tamis_edit *edit, struct tamis_store *store,
                  const struct options *o)
{
    struct tamis_diag diag = {0};
    for (size_t i = 0; i < o->replaces.n; i++) {
        const char *name = o->replaces.at[i];
        int err = tamis_edit_drop(edit, name, strlen(name), NULL, &diag);
        if (err != 0)
            return not_dropped(err, store, o->args[0], name, &diag);
    }
    return EXIT_DONE;
}

int edit_commit(struct tamis_edit *edit, struct tamis_diag *diag)
{
    int err = tamis_edit_commit(edit, diag);
    if (err == TAMIS_ERR_BUSY) {
        tamis_edit_abort(edit);
        endings_release(); /* the signal that ended the wait ends the process */
    }
    if (err == 0 && diag->what[0] != '\0')
        remark(PATH(diag->file), diag->what);
    return err;
}
