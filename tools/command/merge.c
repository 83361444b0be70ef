/* tamis merge, and tamis build --from-list: segments made from lists, without keys. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/talk.h"
#include "command.h"
#include "tamis.h"

struct merge {
    const struct options *o;
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_edit *edit;
    size_t *segments, n;
    struct tamis_merge_report report;
};

/* Only if they still have the filters, and so the lists, that are read. */
static int drop_sources(const struct merge *m)
{
    struct tamis_segment_info s;
    struct tamis_diag diag = {0};

    for (size_t i = 0; i < m->n; i++) {
        int err = tamis_snapshot_segment(m->snapshot, m->segments[i], &s);

        if (err == 0)
            err = tamis_edit_drop_filter(m->edit, s.name, s.name_bytes, s.uuid, &diag);
        if (err != 0)
            return complain_error(err, &diag, m->o->args[0], NULL);
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
    else if (err == ENOENT || err == TAMIS_ERR_DAMAGED || err == TAMIS_ERR_NOT_TAMIS ||
             err == TAMIS_ERR_MISMATCH || is_wrong_type(err))
        advice = "build the segment anew from its keys";
    complain_error(err, diag, store, advice);
    return status_unread(err);
}

static int put_error(const struct merge *m, int err, const struct tamis_diag *diag)
{
    const char *store = m->o->args[0];
    char *name;

    if (err != TAMIS_ERR_EXISTS)
        return merge_error(err, diag, store);
    name = escape(m->o->args[1], strlen(m->o->args[1]));
    complain(0, "%s: segment '%s' exists already: drop it first, or name another",
             store, name);
    free(name);
    return EXIT_USAGE;
}

static int put(void *merge)
{
    struct merge *m = merge;
    const struct options *o = m->o;
    const char *name = o->args[1];
    struct tamis_segment_options opt;
    struct tamis_diag diag = {0};
    int err, status = given(o, OPT_REPLACES_ALL) ? drop_sources(m) : EXIT_DONE;

    if (status != EXIT_DONE)
        return status;

    segment_options(o, &opt);
    opt.watermark = o->watermark;
    opt.n_threads = o->jobs;
    opt.kind = filter_kind(o);
    err = tamis_edit_merge(m->edit, name, strlen(name), m->snapshot, m->segments, m->n,
                           o->growth.error, &opt, &m->report, &diag);
    return err ? put_error(m, err, &diag) : EXIT_DONE;
}

/* Does `work` in an edit, and commits it. */
static int edit(struct merge *m, int (*work)(void *merge))
{
    const char *path = m->o->args[0];
    struct tamis_diag diag = {0};
    int err = tamis_edit_begin(m->store, NULL, &m->edit, &diag), status;

    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    status = edit_work(m->edit, work, m, false);
    if (status != EXIT_DONE)
        return status;
    err = edit_commit(m->edit, &diag);
    if (err == TAMIS_ERR_EXISTS)
        return put_error(m, err, &diag);
    return err ? replaced_error(err, &diag, path) : EXIT_DONE;
}

/* Opens the store and picks n segments, does `work`, and prints what was made. */
static int run_with(struct merge *m, char *const *names, size_t n,
                    int (*work)(void *merge), int (*print)(struct merge *m))
{
    const char *path = m->o->args[0];
    int status = store_snapshot(path, &m->store, &m->snapshot);

    if (status != EXIT_DONE)
        return status;
    status = pick_segments(m->snapshot, path, names, n, &m->segments, &m->n);
    if (status == EXIT_DONE)
        status = edit(m, work);
    if (status == EXIT_DONE)
        status = print(m);
    free(m->segments);
    tamis_snapshot_release(m->snapshot);
    tamis_store_close(m->store);
    return status;
}

static int print_sum(struct merge *m)
{
    return print_merged(m->o, "segment", m->o->args[1], m->n, &m->report);
}

static int run(int argc, char **argv)
{
    struct options o;

    parse_options(argc, argv, 3, 0, &o);
    check_name(o.args[1], strlen(o.args[1]));
    check_names((const char *const *)o.args + 2, o.n_args - 2);
    return run_with(&(struct merge){.o = &o}, o.args + 2, o.n_args - 2, put, print_sum);
}

/* ---- build --from-list ---- */

static int remake(void *merge)
{
    struct merge *m = merge;
    const struct options *o = m->o;
    struct tamis_segment_options opt = {
        .size = sizeof(opt), .n_threads = o->jobs, .kind = filter_kind(o)};
    struct tamis_diag diag = {0};
    int err;

    opt.check = given(o, OPT_CHECK);
    err = tamis_edit_from_list(m->edit, m->snapshot, m->segments[0], o->growth.error,
                               &opt, &diag);
    return err ? merge_error(err, &diag, o->args[0]) : EXIT_DONE;
}

static int print_closing(struct merge *m)
{
    struct closing closing;
    int status = closing_begin(&closing, m->o, m->store);

    if (status != EXIT_DONE)
        return status;
    closing_listed(&closing, m->o->args[1], strlen(m->o->args[1]));
    closing_end(&closing, m->o, "built");
    closing_free(&closing);
    return EXIT_DONE;
}

int build_from_list(const struct options *o)
{
    return run_with(&(struct merge){.o = o}, o->args + 1, 1, remake, print_closing);
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
    .options = {OPTION(REPLACES_ALL, NULL),
                OPTION(FPR, "error, 1e-8..0.5 or with %; "
                            "default: the store's"),
                OPTION(BIND, NULL), OPTION(RANK, NULL), OPTION(WATERMARK, NULL),
                OPTION(KIND, NULL), OPTION(JOBS, NULL), OPTION(JSON, NULL)},
    .examples = "tamis build store a.sst keys.txt --list\n"
                "tamis build store b.sst wanted.txt --list\n"
                "tamis merge store ab.sst a.sst b.sst --replaces\n",
    .run = run,
};
