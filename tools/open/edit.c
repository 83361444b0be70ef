/* The work of an edit, between its begin and its commit, and the commit. */
#include <stdlib.h>
#include <string.h>

#include "../talk/endings.h"
#include "../talk/talk.h"
#include "open.h"
#include "tamis.h"

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

int edit_commit(struct tamis_edit *edit, struct tamis_diag *diag)
{
    int err = tamis_edit_commit(edit, diag);

    if (err == TAMIS_ERR_BUSY) {
        tamis_edit_abort(edit);
        endings_release(); /* the signal that ended the wait ends the process */
    }
    if (err == 0 && diag->what[0] != '\0') {
        char *file = escape(diag->file, strlen(diag->file));

        remark("%s: %s: the edit is done, and the next one tries this again", file,
               diag->what);
        free(file);
    }
    return err;
}
