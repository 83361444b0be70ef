/* tamis attach: registers a sealed filter file that was built elsewhere. */
#include "command.h"

struct attaching {
    const struct options *o;
    struct tamis_store *store;
    struct tamis_edit *edit;
};

static int not_attached(void *attaching, int err, const struct tamis_diag *diag)
{
    const struct options *o = ((const struct attaching *)attaching)->o;
    bool foreign = err == TAMIS_ERR_NOT_TAMIS || strstr(diag->what, "another seed");
    const char *advice = foreign ? "'tamis file build FILE --store STORE' makes one"
                         : err == TAMIS_ERR_MISMATCH ? "" /* the library says it */
                                                     : NULL;
    return err == TAMIS_ERR_EXISTS && strstr(diag->what, "exists already") != NULL
               ? exists_already(o->args[0],
                                (struct name){o->args[1], strlen(o->args[1])})
               : complain_error(err, diag, o->args[0], advice);
}

static int attach(void *attaching)
{
    const struct attaching *a = attaching;
    const struct options *o = a->o;
    struct tamis_segment_options opt;
    struct tamis_diag diag = {0};
    int err, status = drop_replaced(a->edit, a->store, o);
    if (status != EXIT_DONE)
        return status;
    segment_options(o, &opt);
    err = tamis_edit_attach(a->edit, o->args[1], strlen(o->args[1]), o->args[2], &opt,
                            &diag);
    if (is_wrong_type(err))
        return not_a_file(o->args[2]);
    return err ? not_attached(attaching, err, &diag) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct attaching a = {.o = &o};
    parse_options(argc, argv, 3, 3, &o);
    check_name(o.args[1], strlen(o.args[1]));
    if (o.args[2][0] == '\0')
        usage_error("FILE.tamis is a path, and this one is empty");
    int status = store_open(o.args[0], &a.store);
    if (status != EXIT_DONE)
        return status;
    status = edit_store(a.store, o.args[0], &a.edit, attach, &a, false, not_attached);
    tamis_store_close(a.store);
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
