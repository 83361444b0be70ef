/* tamis stat: totals of a store, and details of named segments. */
#include <sys/stat.h>

#include "../picture/picture.h"
#include "command.h"
#include "stat.h"

/* As in 'tamis verify': lost is damage. */
static int unopened(struct tamis_store *store, struct tamis_snapshot *snapshot,
                    size_t i, const struct tamis_segment_info *s, const char *path,
                    int err, const struct tamis_diag *diag)
{
    const char *advice = err == ENOENT ? advice_from_list(snapshot, i) : NULL;
    if (segment_fate(store, s) != SEGMENT_STAYS) /* again, in the newest snapshot */
        return complain_error(err, diag, path, "run it again");
    if (advice == NULL)
        advice = advice_unread(err, diag->what);
    complain_error(err, diag, path, advice);
    return status_unread(err);
}

static int detail(struct tamis_store *store, struct tamis_snapshot *snapshot, size_t i,
                  const char *path, json_t *list)
{
    struct tamis_segment_info s;
    struct tamis_filter *filter = NULL;
    struct tamis_pack_place place;
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_segment(snapshot, i, &s);
    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    if (s.state != TAMIS_SEGMENT_BARE)
        err = tamis_snapshot_filter(snapshot, i, &filter, &diag);
    if (err != 0)
        return unopened(store, snapshot, i, &s, path, err, &diag);
    uint64_t allocated = allocated_bytes(path, snapshot, i, &s);
    if (list != NULL) {
        json_t *o = segment_json(snapshot, i, &s);
        if (filter != NULL) {
            json_t *inside = filter_json(filter);
            json_object_update(o, inside); /* the file knows better than the catalog */
            json_decref(inside);
            json_put(o, "allocated_bytes", json_count(allocated));
        }
        json_put(list, NULL, o);
        tamis_filter_close(filter);
        return EXIT_DONE;
    }
    fputs("\nsegment     ", stdout);
    print_escaped(stdout, s.name, s.name_bytes);
    putchar('\n');
    if (filter == NULL) {
        printf("  state       bare: without a filter, always a candidate\n");
        return EXIT_DONE;
    }
    printf("  file        %s\n", s.file);
    if (tamis_snapshot_pack(snapshot, i, NULL, &place, NULL) == 0)
        printf(
            "  pack        column %u of %u in band %u: rows of %u bytes, %llu blocks\n",
            place.column, place.n_columns, place.band, place.row_bytes,
            LLU(place.n_blocks));
    print_its_list(snapshot, i);
    print_filter(filter, allocated);
    tamis_filter_close(filter);
    return EXIT_DONE;
}

/* After the picture, the metrics or the details: they show filters that do not open. */
static int judge(struct tamis_store *store, struct tamis_snapshot **snapshot,
                 const struct options *o)
{
    struct totals t = {0};
    int status =
        add_segments(&t, store, snapshot, o->args[0], o->args + 1, o->n_args - 1);
    return status ? status : complain_totals(&t, o->args[0]);
}

static int show(struct tamis_store *store, struct tamis_snapshot **held,
                const struct options *o)
{
    struct totals totals = {0};
    struct tamis_store_info info;
    struct tamis_diag diag = {0};
    json_t *list = NULL, *rest = NULL;
    struct stat st;
    size_t *picked = NULL, n = 0;
    int err = tamis_store_info(store, &info, &diag), status = EXIT_DONE;
    if (err != 0)
        return complain_error(err, &diag, o->args[0], NULL);
    add_segments(&totals, store, held, o->args[0], NULL, 0);
    if (o->n_args > 1 || given(o, OPT_RESIDENCY))
        status = pick_open_segments(store, held, o->args[0], o->args + 1, o->n_args - 1,
                                    &picked, &n);
    if (status != EXIT_DONE)
        return status;
    struct tamis_snapshot *snapshot = *held;
    info.complete = tamis_snapshot_info(snapshot).complete;
    add_packs(&totals, snapshot, o->args[0]);
    if (stat_in(o->args[0], "catalog.lmdb", &st))
        totals.catalog_file = (uint64_t)st.st_size;
    if (given(o, OPT_JSON)) {
        list = json_stream(totals_json(&totals, &info, o->args[0]), "details");
        rest = memory_or_exit(json_object());
    } else {
        print_totals_text(&totals, &info, o->args[0]);
    }
    for (size_t i = 0; o->n_args > 1 && i < n; i++)
        status =
            first_failure(status, detail(store, snapshot, picked[i], o->args[0], list));
    if (given(o, OPT_RESIDENCY))
        status = first_failure(
            status, segments_residency(store, snapshot, o->args[0], picked, n, rest));
    free(picked);
    if (list != NULL)
        json_end(rest);
    /* Without names the totals decide the status. */
    if (o->n_args == 1 && output_works())
        status = first_failure(status, complain_totals(&totals, o->args[0]));
    else if (status == EXIT_DONE && output_works())
        status = judge(store, held, o);
    return status;
}

/* One form of output at a time. */
static void check_forms(const struct options *o)
{
    bool also = given(o, OPT_JSON) || given(o, OPT_RESIDENCY);
    if (given(o, OPT_SVG) && (also || given(o, OPT_PROMETHEUS)))
        usage_error("--svg draws, and prints nothing: leave out --json, --residency "
                    "and --prometheus");
    if (given(o, OPT_PROMETHEUS) && also)
        usage_error("--prometheus goes with neither --json nor --residency");
    if (given(o, OPT_CHECK) && !given(o, OPT_PROMETHEUS))
        usage_error("--check is for --prometheus: 'tamis verify' checks pages");
}

static int run(int argc, char **argv)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    struct options o;
    int status;
    parse_options(argc, argv, 1, 0, &o);
    check_forms(&o);
    check_picture(&o, o.args[0], NULL);
    store_snapshot(o.args[0], &store, &snapshot);
    if (given(&o, OPT_PROMETHEUS))
        status = print_prometheus(store, &snapshot, &o);
    else if (given(&o, OPT_SVG))
        status = store_picture(snapshot, &o);
    else
        status = show(store, &snapshot, &o);
    if ((given(&o, OPT_PROMETHEUS) || given(&o, OPT_SVG)) && status == EXIT_DONE &&
        output_works())
        status = judge(store, &snapshot, &o);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return status;
}

const struct command cmd_stat = {
    .name = "stat",
    .arguments = "STORE [SEGMENT...] [--residency] [--json | --svg FILE | ...]",
    .summary = "print totals of a store, details of segments",
    .about =
        "Prints the totals of the store, and the stages of each segment named: "
        "how full they are, their expected error and their target. If a filter is "
        "over its target, as a union may be, build it anew ('tamis build "
        "--replaces'). A filter with a missing or truncated file counts as lost. "
        "It exits 3 if a filter, pack or list is lost, has a damaged header or is no "
        "regular file, 4 if one cannot be read; with names, only for these. "
        "--prometheus prints nothing if this process lacks the permission or the "
        "room to open a filter.\n",
    .options =
        {OPTION(RESIDENCY,
                "pages of each filter in memory, whoever uses them. The kernel tells "
                "only users who own the files or may write to them"),
         OPTION(SVG, "draw rank, size, fill, age and error of the segments; '-' is "
                     "standard output. Replaces an SVG or an empty file, and no other"),
         OPTION(PROMETHEUS, "the same facts for a monitor, in Prometheus' text format"),
         OPTION(CHECK, "with --prometheus: read every page of filters, packs and "
                       "lists, exit 3 if any is damaged"),
         OPTION(JSON, NULL)},
    .examples = "tamis stat store 000012.sst\n"
                "tamis stat store --svg store.svg\n",
    .run = run,
};
