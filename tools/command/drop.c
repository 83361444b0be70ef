/* tamis drop: unregisters segments, all or none. */
#include "../talk/endings.h"
#include "command.h"

static int drop(struct tamis_store *store, const struct options *o)
{
    struct tamis_diag diag = {0};
    struct tamis_edit *e = NULL;
    const char *name = "";
    int err = edit_begin(store, false, &e, &diag);
    for (size_t i = 1; i < o->n_args && err == 0; i++) {
        name = o->args[i];
        err = tamis_edit_drop(e, name, strlen(name), NULL, &diag);
    }
    if (err == 0) {
        endings_hold();
        err = edit_commit(e, &diag);
    } else if (e != NULL) {
        tamis_edit_abort(e);
    }
    return err ? not_dropped(err, store, o->args[0], name, &diag) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct closing closing = {0};
    struct tamis_store *store;
    struct options o;
    parse_options(argc, argv, 2, 0, &o);
    check_names((const char *const *)o.args + 1, o.n_args - 1);
    closing.json = given(&o, OPT_JSON);
    store_snapshot(o.args[0], &store, &closing.snapshot);
    /* Before the drop, which removes these figures from the catalog. */
    for (size_t i = 1; i < o.n_args; i++)
        closing_listed(&closing, o.args[i], strlen(o.args[i]));
    int status = drop(store, &o);
    if (status == EXIT_DONE)
        closing_end(&closing, &o, "dropped");
    closing_free(&closing);
    tamis_store_close(store);
    return status;
}

const struct command cmd_drop = {
    .name = "drop",
    .arguments = "STORE SEGMENT...",
    .summary = "forget segments and remove their filters",
    .about =
        "Unregisters the segments, all of them or none, and removes their filter "
        "files. Drop a segment when the engine no longer reads it, not before. The "
        "list takes some pages of room: on a full disk free 64 KiB first.\n",
    .options = {OPTION(QUIET), OPTION(JSON)},
    .examples = "tamis drop store 000007.sst 000009.sst\n",
    .run = run,
};
