/* The work of an edit, between its begin and its commit. */
#include "../talk/endings.h"
#include "../talk/talk.h"
#include "open.h"
#include "tamis.h"

int commit_edit(struct tamis_edit *edit, const char *path, struct tamis_diag *diag)
{
    int err = tamis_edit_commit(edit, diag);

    if (err == 0 && diag->code != 0)
        complain_error(
            diag->code, diag, path,
            "the next 'tamis build' or 'tamis drop' removes them, if it may");
    return err;
}

int edit_work(struct tamis_edit *edit, int (*work)(void *ctx), void *ctx, bool dry)
{
    struct endings endings;
    int status;

    endings_catch(&endings);
    status = work(ctx);
    if (status != EXIT_DONE || dry)
        tamis_edit_abort(edit);
    else
        endings_hold();
    endings_let(&endings, status != EXIT_DONE || dry);
    return status;
}
