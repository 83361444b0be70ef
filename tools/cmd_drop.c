/* tamis drop: unregisters segments, all or none. */
#include <string.h>

#include "tool.h"

static int run(int argc, char **argv)
{
    struct tamis_diag diag = {0};
    struct tamis_store *store;
    struct tamis_edit *e = NULL;
    struct options o;
    const char *name = "";
    int err, status;

    parse_options(argc, argv, 0, 2, 0, &o);
    check_names((const char *const *)o.args + 1, o.n_args - 1);
    status = store_open(o.args[0], &store);
    if (status != EXIT_DONE)
        return status;
    err = tamis_edit_begin(store, &e, &diag);
    for (size_t i = 1; i < o.n_args && err == 0; i++) {
        name = o.args[i];
        err = tamis_edit_drop(e, name, strlen(name), &diag);
    }
    if (err == 0)
        err = tamis_edit_commit(e, &diag);
    else if (e != NULL)
        tamis_edit_abort(e);
    if (err != 0)
        status = not_dropped(err, store, o.args[0], name, &diag);
    tamis_store_close(store);
    return status;
}

const struct command cmd_drop = {
    "drop",
    "STORE SEGMENT...",
    "forget segments and remove their filters",
    "Unregisters the segments, all of them or none, and removes their filter files.\n"
    "Drop a segment when the engine no longer reads it, not before.\n"
    "\n"
    "Example:\n"
    "  tamis drop store 000007.sst 000009.sst\n",
    run,
};
