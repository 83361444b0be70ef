/* `tamis file union`, `intersect`, `fold`, `merge`: a file made from files. */
#include "../talk/endings.h"
#include "file.h"

enum { MERGE = TAMIS_SHRINK + 1 }; /* lists, not filters */

static int derive(const struct options *o, const struct tamis_identity *identity,
                  struct tamis_filter **f, size_t n)
{
    struct tamis_derivation what = derivation_of(o);
    struct tamis_derive_options opt = {
        .size = sizeof(opt), .identity = *identity, .watermark = o->watermark};
    struct tamis_derive_report report;
    struct tamis_diag diag = {0};
    const char *to = o->args[0];
    struct endings endings;
    endings_catch(&endings);
    int err = tamis_filter_derive(f, n, &what, to, &opt, &report, &diag);
    endings_let(&endings, err != 0);
    return err ? derive_error(err, &diag, to) : print_derived(o, "file", to, &report);
}

static int advance(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *told = ctx;
    (void)total;
    progress_advance(0, done - *told);
    *told = done;
    return 0;
}

static int merge(const struct options *o, const struct tamis_identity *identity,
                 struct tamis_filter **lists, size_t n)
{
    uint64_t told = 0, total = 0;
    struct tamis_merge_options opt = {.size = sizeof(opt),
                                      .identity = *identity,
                                      .watermark = o->watermark,
                                      .progress = advance,
                                      .progress_ctx = &told};
    struct tamis_merge_report report;
    struct tamis_diag diag = {0};
    const char *to = o->args[0];
    struct endings endings;
    for (size_t i = 0; i < n; i++)
        total += regular_bytes(o->args[i + 1]);
    if (!given(o, OPT_JSON))
        progress_start("merge", total);
    endings_catch(&endings);
    int err = tamis_list_merge(lists, n, to, &opt, &report, &diag);
    endings_let(&endings, err != 0);
    return err ? derive_error(err, &diag, to) : print_merged(o, "file", to, n, &report);
}

static int run(int argc, char **argv)
{
    bool lists = this_command->variant == MERGE;
    struct tamis_filter **files;
    struct options o;
    parse_options(argc, argv, 2, this_command->variant == TAMIS_FOLD ? 2 : 0, &o);
    derivation_of(&o); /* a mistake exits here */
    struct tamis_identity identity = identity_of(&o);
    size_t n = o.n_args - 1;
    files = memory_or_exit(calloc(n, sizeof(*files)));
    int status = check_new_file(o.args[0]);
    if (status == EXIT_DONE)
        status = files_open(&o, 1, n, files);
    if (status == EXIT_DONE)
        status = (lists ? merge : derive)(&o, &identity, files, n);
    files_close(files, n);
    free(files);
    return status;
}

/* ---- the commands ---- */

const struct command cmd_file_union = {
    .name = "file union",
    .arguments = "OUT FILE...",
    .summary = "merge filters into one",
    .about =
        "Makes a new sealed filter, OUT, that has every key of every FILE, without the "
        "keys. The FILEs are sealed and of one seed. Stages of equal size become one, "
        "as if built from all the keys. Other stages stay, and their errors add up. "
        "Damaged pages count as all ones: no key is lost, and it exits 3.\n",
    .options = {OPTION(SEGMENT), OPTION(BIND), OPTION(WATERMARK), OPTION(JSON)},
    .examples = TWO_FILTERS "tamis file union both.tamis words.tamis more.tamis\n",
    .run = run,
    .variant = TAMIS_UNION,
};

const struct command cmd_file_intersect = {
    .name = "file intersect",
    .arguments = "OUT FILE...",
    .summary = "make a filter of the keys that others share",
    .about = "Makes a new sealed filter, OUT, that has every key that all FILEs have. "
             "It may say HIT of more other keys than a filter built from the common "
             "keys. The FILEs are sealed, of one seed and of one stage: build them "
             "for the same error. They are folded to the greatest size that divides "
             "all of theirs. Damaged pages count as all ones: no key is lost, and it "
             "exits 3.\n",
    .options = {OPTION(SEGMENT), OPTION(BIND), OPTION(WATERMARK), OPTION(JSON)},
    .examples =
        TWO_FILTERS "tamis file intersect common.tamis words.tamis more.tamis\n",
    .run = run,
    .variant = TAMIS_INTERSECTION,
};

const struct command cmd_file_fold = {
    .name = "file fold",
    .arguments = "OUT FILE --by F | OUT FILE --fpr P",
    .summary = "shrink a filter",
    .about = "Makes a new sealed filter, OUT, of the keys of the sealed FILE in less "
             "space, without the keys, as if built at that size. Its error is larger. "
             "Damaged pages count as all ones: no key is lost, and it exits 3.\n",
    .options = {OPTION(BY),
                OPTION(FPR, "as far as the error stays at most P, 1e-8..0.5 or with %: "
                            "step by step, the stage that gains most"),
                OPTION(SEGMENT), OPTION(BIND), OPTION(WATERMARK), OPTION(JSON)},
    .examples = "tamis file build large.tamis keys.txt --fpr 1e-8\n"
                "tamis file fold small.tamis large.tamis --fpr 1%\n",
    .run = run,
    .variant = TAMIS_FOLD,
};

const struct command cmd_file_merge = {
    .name = "file merge",
    .arguments = "OUT LIST...",
    .summary = "merge lists of hashes into one",
    .about =
        "Makes a new list, OUT, of the hashes of all LISTs, each once. The LISTs are "
        "of one seed and one width: 'tamis file build --list'. A damaged page ends "
        "it, for OUT would lack keys.\n",
    .options = {OPTION(SEGMENT), OPTION(BIND), OPTION(WATERMARK), OPTION(JSON)},
    .examples = "tamis file build a.list keys.txt --list --seed 0123456789abcdef\n"
                "tamis file build b.list wanted.txt --list --seed 0123456789abcdef\n"
                "tamis file merge both.list a.list b.list\n",
    .run = run,
    .variant = MERGE,
};
