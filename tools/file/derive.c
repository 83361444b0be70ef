/* `tamis file union`, `intersect`, `fold`: a filter file made from filter files. */
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/endings.h"
#include "../talk/talk.h"
#include "file.h"
#include "tamis.h"

static int make(const struct options *o, const struct tamis_derivation *what,
                struct tamis_filter **f, size_t n)
{
    struct tamis_derive_options opt = {.size = sizeof(opt), .watermark = o->watermark};
    struct tamis_derive_report report;
    struct tamis_diag diag = {0};
    const char *to = o->args[0];
    struct endings endings;
    int err;

    if (o->binding_bytes > 0) {
        opt.identity.binding = o->binding;
        opt.identity.binding_bytes = o->binding_bytes;
    }
    if (o->segments.n > 0) {
        opt.identity.name = o->segments.at[0];
        opt.identity.name_bytes = strlen(o->segments.at[0]);
    }
    endings_catch(&endings);
    err = tamis_filter_derive(f, n, what, to, &opt, &report, &diag);
    endings_let(&endings, err != 0);
    return err ? derive_error(err, &diag, to) : print_derived(o, "file", to, &report);
}

static int run(int argc, char **argv)
{
    struct tamis_derivation what;
    struct tamis_filter **filters;
    struct options o;
    size_t n;
    int status;

    parse_options(argc, argv, 2, this_command->variant == TAMIS_FOLD ? 2 : 0, &o);
    what = derivation_of(&o);
    if (o.segments.n > 1)
        usage_error("give one --segment: a filter has one");
    n = o.n_args - 1;
    filters = memory_or_exit(calloc(n, sizeof(*filters)));
    status = check_new_file(o.args[0]);
    if (status == EXIT_DONE)
        status = files_open(&o, 1, n, filters);
    if (status == EXIT_DONE)
        status = make(&o, &what, filters, n);
    files_close(filters, n);
    free(filters);
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
    .options = {OPTION(SEGMENT, NULL), OPTION(BIND, NULL), OPTION(WATERMARK, NULL),
                OPTION(JSON, NULL)},
    .examples = "tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
                "tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
                "tamis file union both.tamis words.tamis more.tamis\n",
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
             "all of theirs. Damaged pages count as "
             "all ones: no key is lost, and it exits 3.\n",
    .options = {OPTION(SEGMENT, NULL), OPTION(BIND, NULL), OPTION(WATERMARK, NULL),
                OPTION(JSON, NULL)},
    .examples = "tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
                "tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
                "tamis file intersect common.tamis words.tamis more.tamis\n",
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
    .options = {OPTION(BY, NULL),
                OPTION(FPR, "as far as the error stays at most P, 1e-8..0.5 or with %: "
                            "step by step, the stage that gains most"),
                OPTION(SEGMENT, NULL), OPTION(BIND, NULL), OPTION(WATERMARK, NULL),
                OPTION(JSON, NULL)},
    .examples = "tamis file build large.tamis keys.txt --fpr 1e-8\n"
                "tamis file fold small.tamis large.tamis --fpr 1%\n",
    .run = run,
    .variant = TAMIS_FOLD,
};
