/* tamis attach: registers a sealed filter file that was built elsewhere. */
#include <string.h>

#include "tool.h"

static int edit(struct tamis_edit *e, const struct options *o, struct tamis_diag *diag)
{
    struct tamis_segment_options opt;
    int err = 0;

    segment_options(o, &opt);
    for (size_t i = 0; i < o->n_replaces && err == 0; i++)
        err = tamis_edit_drop(e, o->replaces[i], strlen(o->replaces[i]), diag);
    if (err == 0)
        err = tamis_edit_attach(e, o->args[1], strlen(o->args[1]), o->args[2], &opt,
                                diag);
    if (err != 0) {
        tamis_edit_abort(e);
        return err;
    }
    return tamis_edit_commit(e, diag);
}

static const char *advice(int err)
{
    switch (err) {
    case TAMIS_ERR_MISMATCH:
        return ""; /* the library says what would do */
    case TAMIS_ERR_EXISTS:
        return "--replaces replaces a segment";
    default:
        return NULL;
    }
}

static int run(int argc, char **argv)
{
    struct tamis_diag diag = {0};
    struct tamis_store *store;
    struct tamis_edit *e;
    struct options o;
    int err, status;

    parse_options(argc, argv, WITH(OPT_BIND) | WITH(OPT_RANK) | WITH(OPT_REPLACES), 3,
                  3, &o);
    check_name(o.args[1], strlen(o.args[1]));
    if (o.args[2][0] == '\0')
        usage_error("FILE.tamis is a path, and this one is empty");
    status = store_open(o.args[0], &store);
    if (status != EXIT_DONE)
        return status;
    err = tamis_edit_begin(store, &e, &diag);
    if (err == 0)
        err = edit(e, &o, &diag);
    if (err != 0)
        status = complain_error(err, &diag, o.args[0], advice(err));
    tamis_store_close(store);
    return status;
}

const struct command cmd_attach = {
    "attach", "STORE SEGMENT FILE.tamis [--replaces OLD]... [--bind HEX] [--rank N]",
    "register a filter that was built elsewhere",
    "Copies a sealed filter file into the store, checking every page. It must have "
    "been\n"
    "built for the store: 'tamis file build FILE --store STORE'.\n"
    "\n"
    "  --replaces OLD    drop the segment OLD in the same edit; may be repeated\n"
    "  --bind HEX        1..64 bytes that identify the engine's own file\n"
    "  --rank N          the engine's order, 0 first; 0\n",
    run};
