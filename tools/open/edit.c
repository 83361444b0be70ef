/* The work of an edit, between its begin and its commit. */
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
