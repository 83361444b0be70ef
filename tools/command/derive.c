/* `tamis union`, `intersect`, `fold`: a segment whose filter is made from the filters
 * of others, in one edit. */
#include "command.h"

struct derive {
    struct tamis_derivation what;
    struct tamis_derive_report report;
};

/* Is the segment a source of the new one? */
static bool is_source(const struct segments_edit *e, const char *name,
                      struct tamis_segment_info *info)
{
    for (size_t i = 0; i < e->n; i++)
        if (tamis_snapshot_segment(e->snapshot, e->segments[i], info) == 0 &&
            info->name_bytes == strlen(name) &&
            memcmp(info->name, name, info->name_bytes) == 0)
            return true;
    return false;
}

/* Drops a source only if it still has the filter that was read, as the library does by
 * `replace`. Another process may have replaced it, and ours lacks those keys. */
static int drop_sources(const struct segments_edit *e,
                        struct tamis_segment_options *opt)
{
    struct tamis_segment_info info;
    struct tamis_diag diag = {0};
    for (size_t i = 0; i < e->o->replaces.n; i++) {
        const char *name = e->o->replaces.at[i];
        bool is_read = is_source(e, name, &info);
        struct tamis_drop_if same = {.uuid = is_read ? info.uuid : NULL};
        bool is_taken = is_read && strcmp(name, e->o->args[1]) == 0;
        opt->replace |= is_taken;
        int err =
            is_taken ? 0 : tamis_edit_drop(e->edit, name, strlen(name), &same, &diag);
        if (err != 0)
            return not_dropped(err, e->store, e->o->args[0], name, &diag);
    }
    return EXIT_DONE;
}

static int put_error(const struct segments_edit *e, int err,
                     const struct tamis_diag *diag)
{
    const char *path = e->o->args[0], *name = e->o->args[1];
    if (err != TAMIS_ERR_EXISTS)
        return source_error(err, diag, e->snapshot, e->segments, e->n, path);
    return exists_already(path, (struct name){name, strlen(name)});
}

static int put(void *edit)
{
    struct segments_edit *e = edit;
    struct derive *d = e->made;
    const struct options *o = e->o;
    const char *name = o->args[1];
    struct tamis_segment_options opt;
    struct tamis_diag diag = {0};
    segment_options(o, &opt);
    opt.watermark = o->watermark;
    int err, status = drop_sources(e, &opt);
    if (status != EXIT_DONE)
        return status;
    err = tamis_edit_derive(e->edit, name, strlen(name), e->snapshot, e->segments, e->n,
                            &d->what, &opt, &d->report, &diag);
    return err ? put_error(e, err, &diag) : EXIT_DONE;
}

static int print(struct segments_edit *e)
{
    const struct derive *d = e->made;
    return print_derived(e->o, "segment", e->o->args[1], &d->report);
}

static int run(int argc, char **argv)
{
    struct derive d = {0};
    struct options o;
    struct segments_edit e = {.o = &o,
                              .made = &d,
                              .work = put,
                              .put_error = put_error,
                              .print = print,
                              .open = true};
    parse_options(argc, argv, 3, this_command->variant == TAMIS_FOLD ? 3 : 0, &o);
    d.what = derivation_of(&o);
    check_name(o.args[1], strlen(o.args[1]));
    check_names((const char *const *)o.args + 2, o.n_args - 2);
    return edit_segments(&e, o.args + 2, o.n_args - 2);
}

/* ---- the commands ---- */

const struct command cmd_union = {
    .name = "union",
    .arguments = "STORE NEW SEGMENT... [--replaces OLD]...",
    .summary = "merge segments' filters, without their keys",
    .about = "Registers the segment NEW with a sealed filter of all keys of the sealed "
             "SEGMENTs, as for a merge of them: 'tamis help file union'. Its error is "
             "above the error of a filter built from the keys.\n",
    .options = {OPTION(REPLACES, NULL), OPTION(BIND, NULL), OPTION(RANK, NULL),
                OPTION(WATERMARK, NULL), OPTION(JSON, NULL)},
    .examples =
        "tamis union store 000013.sst 000007.sst 000009.sst --replaces 000007.sst\n",
    .run = run,
    .variant = TAMIS_UNION,
};

const struct command cmd_intersect = {
    .name = "intersect",
    .arguments = "STORE NEW SEGMENT... [--replaces OLD]...",
    .summary = "make a segment of the keys that others share",
    .about = "Registers the segment NEW with a sealed filter of the keys that all the "
             "sealed SEGMENTs have: 'tamis help file intersect'.\n",
    .options = {OPTION(REPLACES, NULL), OPTION(BIND, NULL), OPTION(RANK, NULL),
                OPTION(WATERMARK, NULL), OPTION(JSON, NULL)},
    .examples = "tamis intersect store common 000007.sst 000009.sst\n",
    .run = run,
    .variant = TAMIS_INTERSECTION,
};

const struct command cmd_fold = {
    .name = "fold",
    .arguments = "STORE NEW SEGMENT --by F | STORE NEW SEGMENT --fpr P",
    .summary = "shrink the filter of a segment",
    .about =
        "Registers the segment NEW with a smaller filter of the keys of the sealed "
        "SEGMENT: 'tamis help file fold'. With --replaces SEGMENT, NEW may have the "
        "same name, and then keeps its list of hashes. Give --bind, --rank and "
        "--watermark again: they are not copied.\n",
    .options = {OPTION(BY, NULL),
                OPTION(FPR, "as far as the error stays at most P, 1e-8..0.5 or with %: "
                            "step by step, the stage that gains most"),
                OPTION(REPLACES, NULL), OPTION(BIND, NULL), OPTION(RANK, NULL),
                OPTION(WATERMARK, NULL), OPTION(JSON, NULL)},
    .examples =
        "tamis fold store 000012.sst 000012.sst --fpr 2% --replaces 000012.sst\n",
    .run = run,
    .variant = TAMIS_FOLD,
};
