/* tamis file merge: lists of hashes to one list. */
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/endings.h"
#include "../talk/screen.h"
#include "../talk/talk.h"
#include "file.h"
#include "tamis.h"

static int advance(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *told = ctx;

    (void)total;
    progress_advance(0, done - *told);
    *told = done;
    return 0;
}

static int merge(const struct options *o, struct tamis_filter *const *lists, size_t n)
{
    uint64_t told = 0;
    struct tamis_merge_options opt = {.size = sizeof(opt),
                                      .watermark = o->watermark,
                                      .progress = advance,
                                      .progress_ctx = &told};
    struct tamis_merge_report report;
    struct tamis_diag diag = {0};
    struct endings endings;
    const char *to = o->args[0];
    uint64_t total = 0;
    int err;

    if (o->binding_bytes > 0) {
        opt.identity.binding = o->binding;
        opt.identity.binding_bytes = o->binding_bytes;
    }
    if (o->segments.n > 0) {
        opt.identity.name = o->segments.at[0];
        opt.identity.name_bytes = strlen(o->segments.at[0]);
    }
    for (size_t i = 0; i < n; i++)
        total += regular_bytes(o->args[i + 1]);
    if (!given(o, OPT_JSON))
        progress_start("merge", total);
    endings_catch(&endings);
    err = tamis_list_merge(lists, n, to, &opt, &report, &diag);
    endings_let(&endings, err != 0);
    return err ? derive_error(err, &diag, to) : print_merged(o, "file", to, n, &report);
}

static int run(int argc, char **argv)
{
    struct tamis_filter **lists;
    struct options o;
    size_t n;
    int status;

    parse_options(argc, argv, 2, 0, &o);
    if (o.segments.n > 1)
        usage_error("give one --segment: a list has one");
    n = o.n_args - 1;
    lists = memory_or_exit(calloc(n, sizeof(*lists)));
    status = check_new_file(o.args[0]);
    if (status == EXIT_DONE)
        status = files_open(&o, 1, n, lists);
    if (status == EXIT_DONE)
        status = merge(&o, lists, n);
    files_close(lists, n);
    free(lists);
    return status;
}

const struct command cmd_file_merge = {
    .name = "file merge",
    .arguments = "OUT LIST...",
    .summary = "merge lists of hashes into one",
    .about =
        "Makes a new list, OUT, of the hashes of all LISTs, each once. The LISTs are "
        "of one seed and one width: 'tamis file build --list'. A damaged page ends "
        "it, for OUT would lack keys.\n",
    .options = {OPTION(SEGMENT, NULL), OPTION(BIND, NULL), OPTION(WATERMARK, NULL),
                OPTION(JSON, NULL)},
    .examples = "tamis file build a.list keys.txt --list --seed 0123456789abcdef\n"
                "tamis file build b.list wanted.txt --list --seed 0123456789abcdef\n"
                "tamis file merge both.list a.list b.list\n",
    .run = run,
};
