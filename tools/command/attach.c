/* tamis attach: registers a sealed filter file that was built elsewhere. */
#include "../talk/endings.h"
#include "command.h"

static int not_attached(int err, const struct tamis_diag *diag, const struct options *o)
{
    const char *advice = err == TAMIS_ERR_NOT_TAMIS || strstr(diag->what, "another seed")
                             ? "'tamis file build FILE --store STORE' makes one"
                         : err == TAMIS_ERR_MISMATCH ? "" /* the library says it */
                                                     : NULL;
    return err == TAMIS_ERR_EXISTS && strstr(diag->what, "exists already") != NULL
               ? exists_already(o->args[0],
                                (struct tamis_name){o->args[1], strlen(o->args[1])})
               : complain_error(err, diag, o->args[0], advice);
}

static int edit(struct tamis_store *store, const struct options *o)
{
    struct tamis_segment_options opt;
    struct tamis_diag diag = {0};
    struct tamis_edit *e;
    int err = tamis_edit_begin(store, NULL, &e, &diag), status;
    if (err != 0)
        return not_attached(err, &diag, o);
    segment_options(o, &opt);
    status = drop_replaced(e, store, o);
    if (status == EXIT_DONE) {
        err = tamis_edit_attach(e, o->args[1], strlen(o->args[1]), o->args[2], &opt,
                                &diag);
        if (is_wrong_type(err))
            status = not_a_file(o->args[2]);
    }
    if (status == EXIT_DONE && err == 0) {
        endings_hold();
        err = edit_commit(e, &diag);
    } else {
        tamis_edit_abort(e);
    }
    if (err != 0 && status == EXIT_DONE)
        status = not_attached(err, &diag, o);
    return status;
}

static int run(int argc, char **argv)
{
    struct tamis_store *store;
    struct options o;
    parse_options(argc, argv, 3, 3, &o);
    check_name(o.args[1], strlen(o.args[1]));
    if (o.args[2][0] == '\0')
        usage_error("FILE.tamis is a path, and this one is empty");
    int status = store_open(o.args[0], &store);
    if (status != EXIT_DONE)
        return status;
    status = edit(store, &o);
    tamis_store_close(store);
    return status;
}

const struct command cmd_attach = {
    .name = "attach",
    .arguments = "STORE SEGMENT FILE.tamis [--replaces OLD]...",
    .summary = "register a filter that was built elsewhere",
    .about = "Copies a sealed filter file into the store and checks every page. Build "
             "the filter for the store: 'tamis file build FILE --store STORE'.\n",
    .options = {OPTION(REPLACES, NULL), OPTION(BIND, NULL), OPTION(RANK, NULL)},
    .examples = "tamis file build s.tamis keys.txt --store store\n"
                "tamis attach store s s.tamis\n",
    .run = run,
};
