/* tamis compare: how many keys two segments have, and share. */
#include "command.h"

struct comparing {
    struct tamis_snapshot *snapshot;
    const struct options *o;
    const size_t *picked;
    /* Why a list, of picked[broken], cannot be used. */
    int err, broken;
    struct tamis_diag diag;
};

/* Compares by the lists of both, if each has one of whole hashes. False: compare the
 * filters; c->err says why if one of these lists is no good. */
static bool compare_lists(struct comparing *c, struct compared *result)
{
    struct tamis_filter *lists[2] = {NULL, NULL};
    struct tamis_filter_info info;
    bool exact = true;
    for (int i = 0; i < 2; i++) {
        struct tamis_diag diag;
        int err = tamis_snapshot_list(c->snapshot, c->picked[i], &lists[i], &diag);
        exact = exact && err != TAMIS_ERR_NO_SEGMENT &&
                (err != 0 || is_whole_list(lists[i], &info));
        if (err != 0 && c->err == 0) {
            c->err = err;
            c->broken = i;
            c->diag = diag;
        }
    }
    if (!exact)
        c->err = 0;
    bool compared = exact && c->err == 0;
    if (compared) {
        c->err = compare_filters(lists, result, &c->diag);
        c->broken = result->broken;
    }
    for (int i = 0; i < 2; i++)
        tamis_filter_close(lists[i]);
    return compared && c->err == 0;
}

static int complain_list(const struct comparing *c, bool estimated)
{
    const char *advice = advice_list(c->err);
    struct tamis_segment_info s;
    if (!estimated && (c->err < 0 || c->err == ENOENT))
        advice = "and the filters allow no comparison: build the segment anew with "
                 "--list";
    tamis_snapshot_segment(c->snapshot, c->picked[c->broken], &s);
    return list_error(c->err, &c->diag, c->o->args[0],
                      (struct name){s.name, s.name_bytes}, advice);
}

static int compare(struct comparing *c)
{
    const char *const names[] = {c->o->args[1], c->o->args[2]};
    struct tamis_diag diag = {0};
    struct tamis_filter *f[2] = {NULL, NULL};
    struct compared result;
    int err = 0, status;
    if (compare_lists(c, &result))
        return print_comparison(c->o, &result, names);
    for (int i = 0; i < 2 && err == 0; i++)
        err = tamis_snapshot_filter(c->snapshot, c->picked[i], &f[i], &diag);
    if (err == 0)
        err = compare_filters(f, &result, &diag);
    for (int i = 0; i < 2; i++)
        tamis_filter_close(f[i]);
    if (err == TAMIS_ERR_UNFIT && c->err != 0) /* a ribbon, say: only lists would do */
        return complain_list(c, false);
    if (err != 0)
        return source_error(err, &diag, c->snapshot, c->picked, 2, c->o->args[0]);
    status = print_comparison(c->o, &result, names);
    return status == EXIT_DONE && c->err != 0 ? complain_list(c, true) : status;
}

static int run(int argc, char **argv)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    struct options o;
    size_t *picked, n;
    int status;
    parse_options(argc, argv, 3, 3, &o);
    store_snapshot(o.args[0], &store, &snapshot);
    status =
        pick_open_segments(store, &snapshot, o.args[0], o.args + 1, 2, &picked, &n);
    if (status == EXIT_DONE) {
        if (n == 1) /* twice the same */
            picked[1] = picked[0];
        status = compare(
            &(struct comparing){.snapshot = snapshot, .o = &o, .picked = picked});
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
        "compare'. A list that cannot be used makes it exit 3, or 4 for an I/O error, "
        "after the estimate.\n",
    .options = {OPTION(JSON)},
    .examples = "tamis compare store 000007.sst 000009.sst\n",
    .run = run,
};
