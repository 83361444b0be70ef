/* tamis compare: how many keys two segments have, and share. */
#include <stdbool.h>
#include <stdlib.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/talk.h"
#include "command.h"
#include "tamis.h"

/* By the lists of both, if they have some. False: by their filters. */
static bool compare_lists(struct tamis_snapshot *snapshot, const size_t *picked,
                          struct compared *c)
{
    struct tamis_filter *lists[2] = {NULL, NULL};
    bool exact = true;

    for (int i = 0; i < 2 && exact; i++)
        exact = tamis_snapshot_list(snapshot, picked[i], &lists[i], NULL) == 0;
    exact = exact && compare_filters(lists[0], lists[1], c, NULL) == 0 && c->exact;
    for (int i = 0; i < 2; i++)
        tamis_filter_close(lists[i]);
    return exact;
}

static int compare(struct tamis_snapshot *snapshot, const struct options *o,
                   const size_t *picked)
{
    struct tamis_diag diag = {0};
    struct tamis_filter *f[2];
    struct compared c;
    int err = 0;

    if (compare_lists(snapshot, picked, &c))
        return print_comparison(o, &c, (const char *const[]){o->args[1], o->args[2]});
    for (int i = 0; i < 2 && err == 0; i++)
        err = tamis_snapshot_filter(snapshot, picked[i], &f[i], &diag);
    if (err == 0)
        err = compare_filters(f[0], f[1], &c, &diag);
    if (err != 0)
        return source_error(err, &diag, snapshot, picked, 2, o->args[0]);
    return print_comparison(o, &c, (const char *const[]){o->args[1], o->args[2]});
}

static int run(int argc, char **argv)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    struct options o;
    size_t *picked, n;
    int status;

    parse_options(argc, argv, 3, 3, &o);
    status = store_snapshot(o.args[0], &store, &snapshot);
    if (status != EXIT_DONE)
        return status;
    status =
        pick_open_segments(store, &snapshot, o.args[0], o.args + 1, 2, &picked, &n);
    if (status == EXIT_DONE) {
        if (n == 1) /* twice the same */
            picked[1] = picked[0];
        status = compare(snapshot, &o, picked);
        free(picked);
    }
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return status;
}

const struct command cmd_compare = {
    .name = "compare",
    .arguments = "STORE SEGMENT SEGMENT",
    .summary = "count or estimate how many keys two segments share",
    .about =
        "Says how many distinct keys two segments have, together and in common. It "
        "counts exactly if both have lists of whole hashes ('tamis build --list'), "
        "and else estimates from their sealed filters: 'tamis help file "
        "compare'.\n",
    .options = {OPTION(JSON, NULL)},
    .examples = "tamis compare store 000007.sst 000009.sst\n",
    .run = run,
};
