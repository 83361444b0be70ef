/* tamis merge, and tamis build --from-list: segments made from lists, without keys. */
#include "command.h"

/* Only if they still have the filters, and so the lists, that are read. The library
 * drops the one whose name the result takes. */
static int drop_sources(const struct segments_edit *e,
                        struct tamis_segment_options *opt)
{
    struct tamis_segment_info s;
    struct tamis_diag diag = {0};
    const char *name = e->o->args[1];
    for (size_t i = 0; i < e->n; i++) {
        int err = tamis_snapshot_segment(e->snapshot, e->segments[i], &s);
        struct tamis_drop_if same = {.uuid = s.uuid};
        bool is_taken = err == 0 && s.name_bytes == strlen(name) &&
                        memcmp(s.name, name, s.name_bytes) == 0;
        opt->replace |= is_taken;
        if (err == 0 && !is_taken)
            err = tamis_edit_drop(e->edit, s.name, s.name_bytes, &same, &diag);
        if (err != 0)
            return complain_error(err, &diag, e->o->args[0], NULL);
    }
    return EXIT_DONE;
}

/* The library says whose list it is. */
static int merge_error(int err, const struct tamis_diag *diag, const char *store)
{
    const char *advice = NULL;
    if (err == TAMIS_ERR_NO_SEGMENT)
        advice = "";
    else if (err == TAMIS_ERR_UNFIT)
        advice = "build the segment anew with --list";
    else if (status_unread(err) == EXIT_DAMAGE)
        advice = advice_unread(err, diag->what);
    complain_error(err, diag, store, advice);
    return status_unread(err);
}

static int put_error(const struct segments_edit *e, int err,
                     const struct tamis_diag *diag)
{
    const char *store = e->o->args[0], *name = e->o->args[1];
    if (err != TAMIS_ERR_EXISTS)
        return merge_error(err, diag, store);
    return complain(EXIT_USAGE,
                    "%s: segment '%s' exists already: drop it first, or name another",
                    store, TEXT(name));
}

static int put(void *edit)
{
    struct segments_edit *e = edit;
    const struct options *o = e->o;
    const char *name = o->args[1];
    struct tamis_segment_options opt;
    struct tamis_diag diag = {0};
    segment_options(o, &opt);
    int err, status = given(o, OPT_REPLACES_ALL) ? drop_sources(e, &opt) : EXIT_DONE;
    if (status != EXIT_DONE)
        return status;
    opt.watermark = o->watermark;
    opt.n_threads = o->jobs;
    opt.kind = filter_kind(o);
    err = tamis_edit_merge(e->edit, name, strlen(name), e->snapshot, e->segments, e->n,
                           o->growth.error, &opt, e->made, &diag);
    return err ? put_error(e, err, &diag) : EXIT_DONE;
}

static int print_sum(struct segments_edit *e)
{
    return print_merged(e->o, "segment", e->o->args[1], e->n, e->made);
}

static int run(int argc, char **argv)
{
    struct tamis_merge_report report;
    struct options o;
    struct segments_edit e = {.o = &o,
                              .made = &report,
                              .work = put,
                              .put_error = put_error,
                              .print = print_sum};
    parse_options(argc, argv, 3, 0, &o);
    check_name(o.args[1], strlen(o.args[1]));
    check_names((const char *const *)o.args + 2, o.n_args - 2);
    return edit_segments(&e, o.args + 2, o.n_args - 2);
}

/* ---- build --from-list ---- */

static int remake(void *edit)
{
    struct segments_edit *e = edit;
    const struct options *o = e->o;
    struct tamis_segment_options opt = {
        .size = sizeof(opt), .n_threads = o->jobs, .kind = filter_kind(o)};
    struct tamis_diag diag = {0};
    opt.check = given(o, OPT_CHECK);
    int err = tamis_edit_from_list(e->edit, e->snapshot, e->segments[0],
                                   o->growth.error, &opt, &diag);
    return err ? merge_error(err, &diag, o->args[0]) : EXIT_DONE;
}

static int print_closing(struct segments_edit *e)
{
    const struct name name = name_of_text(e->o->args[1]);
    return closing_print(e->o, e->store, &name, 1, "built");
}

int build_from_list(const struct options *o)
{
    struct segments_edit e = {.o = o, .work = remake, .print = print_closing};
    return edit_segments(&e, o->args + 1, 1);
}

const struct command cmd_merge = {
    .name = "merge",
    .arguments = "STORE NEW OLD... [--replaces]",
    .summary = "merge segments by their lists, without keys",
    .about =
        "Registers the segment NEW with the list and a filter of the keys of all OLD "
        "segments, from their lists of whole hashes ('tamis build --list' without "
        "BITS), as for a compaction of them that drops no key. If it drops some, the "
        "filter says HIT of them: that costs reads. A damaged page of a list ends "
        "it.\n",
    .options = {OPTION(REPLACES_ALL),
                OPTION(FPR, "error, 1e-8..0.5 or with %; "
                            "default: the store's"),
                OPTION(BIND), OPTION(RANK), OPTION(WATERMARK), OPTION(KIND),
                OPTION(JOBS), OPTION(JSON)},
    .examples = "tamis build store a.sst keys.txt --list\n"
                "tamis build store b.sst wanted.txt --list\n"
                "tamis merge store ab.sst a.sst b.sst --replaces\n",
    .run = run,
};
