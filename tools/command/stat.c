/* tamis stat: totals of a store, and details of named segments. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../picture/picture.h"
#include "../talk/screen.h"
#include "../talk/talk.h"
#include "command.h"
#include "tamis.h"

struct totals {
    uint64_t n[4]; /* by state */
    uint64_t keys, bytes, allocated, catalog_file, over_target, unreadable, lost;
    uint64_t n_packs, n_packed, n_dead, pack_bytes;
    struct lost_packs lost_packs;
    bool for_packs;
    int status; /* of filters that do not open; damage ranks before I/O errors */
};

enum { PATH_BYTES = 4096 };

static bool path_of(const char *store, const char *file, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/%s", store, file) < PATH_BYTES;
}

/* False if another process has dropped or replaced the segment meanwhile. */
static bool is_listed(struct tamis_store *store, const struct tamis_segment_info *s)
{
    struct tamis_snapshot *fresh;
    size_t index;
    int err = segment_now(store, s, &fresh, &index);

    tamis_snapshot_release(fresh);
    return err != TAMIS_ERR_NO_SEGMENT;
}

/* Is its file missing, or cut short? */
static bool is_lost(const struct tamis_segment_info *s, bool there,
                    const struct stat *st)
{
    return there ? (uint64_t)st->st_size < s->file_bytes : errno == ENOENT;
}

/* Releases a sealed filter at once: a store may have more filters than a process has
 * room to map. */
static int look_inside(struct tamis_snapshot *snapshot, size_t i,
                       const struct tamis_segment_info *s, const char *store,
                       struct tamis_filter_info *info)
{
    struct tamis_filter_options opt = {.size = sizeof(opt), .uuid = s->uuid};
    struct tamis_filter *filter;
    char path[PATH_BYTES];
    int err;

    if (s->state != TAMIS_SEGMENT_SEALED) {
        err = tamis_snapshot_filter(snapshot, i, &filter, NULL);
        return err ? err : tamis_filter_info(filter, info);
    }
    if (!path_of(store, s->file, path))
        return ENAMETOOLONG;
    err = tamis_filter_open(path, &opt, &filter, NULL);
    if (err != 0)
        return err;
    err = tamis_filter_info(filter, info);
    tamis_filter_close(filter);
    return err;
}

static void add_segment(struct totals *t, struct tamis_store *store,
                        struct tamis_snapshot *snapshot, size_t i, const char *path)
{
    struct tamis_segment_info s;
    struct stat st = {0};
    struct tamis_filter_info info;
    struct tamis_pack_place place;
    bool lost;
    int err, status;

    if (tamis_snapshot_segment(snapshot, i, &s) != 0)
        return;
    t->n[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
    if (s.state == TAMIS_SEGMENT_BARE)
        return;
    if (is_column(snapshot, i, &place)) {
        t->keys += s.keys; /* the pack is a file, and is added once */
        return;
    }
    if (add_lost_pack(&t->lost_packs, store, snapshot, i))
        t->status = EXIT_DAMAGE;
    if (is_in_lost_pack(snapshot, i)) {
        t->keys += s.keys;
        t->lost++;
        t->status = EXIT_DAMAGE;
        return;
    }
    lost = is_lost(&s, stat_in(path, s.file, &st), &st);
    t->allocated += (uint64_t)st.st_blocks * 512;
    err = look_inside(snapshot, i, &s, path, &info);
    if (err == 0) {
        s.keys = info.keys;
        s.file_bytes = info.file_bytes;
        t->over_target += over_target(&info);
    }
    if ((lost || err != 0) && is_listed(store, &s)) {
        t->lost += lost;
        t->unreadable += !lost;
        status = lost ? EXIT_DAMAGE : status_unread(err);
        t->status =
            t->status == EXIT_DONE || status == EXIT_DAMAGE ? status : t->status;
    }
    t->keys += s.keys;
    t->bytes += s.file_bytes;
}

static void add_packs(struct totals *t, struct tamis_snapshot *snapshot,
                      const char *path)
{
    size_t n;
    struct pack *packs = packs_list(snapshot, path, &n);

    for (size_t i = 0; i < n; i++) {
        const struct pack *p = &packs[i];

        t->n_packed += p->n_segments;
        t->n_dead += p->place.n_columns_of_pack - p->n_segments;
        t->pack_bytes += p->allocated;
        t->allocated += p->allocated;
        t->bytes += p->file_bytes;
    }
    t->n_packs = n;
    packs_forget(packs, n);
}

static json_t *totals_json(const struct totals *t, const struct tamis_store_info *info,
                           const char *path)
{
    json_t *o = memory_or_exit(json_object());
    char seed[20];

    snprintf(seed, sizeof(seed), "%016llx", (unsigned long long)info->domain.seed);
    json_put(o, "store", json_escaped(path, strlen(path)));
    json_put(o, "uuid", json_hex(info->uuid, sizeof(info->uuid)));
    json_put(o, "created", json_count(info->created));
    json_put(o, "complete", json_boolean(info->complete));
    json_put(o, "read_only", json_boolean(info->read_only));
    json_put(o, "hash_id", json_count(info->domain.hash_id));
    json_put(o, "seed", json_string(seed));
    json_put(o, "error", json_number(info->growth.error));
    json_put(o, "factor", json_number(info->growth.factor));
    json_put(o, "tightening", json_number(info->growth.tightening));
    json_put(o, "n0", json_count(info->growth.first_capacity));
    json_put(o, "for_packs", json_boolean(t->for_packs));
    json_put(o, "segments", json_count(info->n_segments));
    json_put(o, "sealed", json_count(t->n[TAMIS_SEGMENT_SEALED]));
    json_put(o, "growing", json_count(t->n[TAMIS_SEGMENT_GROWING]));
    json_put(o, "bare", json_count(t->n[TAMIS_SEGMENT_BARE]));
    json_put(o, "packs", json_count(t->n_packs));
    json_put(o, "lost_packs", json_count(t->lost_packs.n));
    json_put(o, "packed", json_count(t->n_packed));
    json_put(o, "dead_columns", json_count(t->n_dead));
    json_put(o, "pack_allocated_bytes", json_count(t->pack_bytes));
    json_put(o, "over_target", json_count(t->over_target));
    json_put(o, "unreadable", json_count(t->unreadable));
    json_put(o, "lost", json_count(t->lost));
    json_put(o, "keys", json_count(t->keys));
    json_put(o, "filter_bytes", json_count(t->bytes));
    json_put(o, "filter_allocated_bytes", json_count(t->allocated));
    json_put(o, "catalog_bytes", json_count(info->catalog_bytes));
    json_put(o, "catalog_file_bytes", json_count(t->catalog_file));
    return o;
}

static void print_totals_text(const struct totals *t,
                              const struct tamis_store_info *info, const char *path)
{
    char *uuid = hex(info->uuid, sizeof(info->uuid));
    char *name = escape(path, strlen(path));
    char a[TEXT_BYTES], b[TEXT_BYTES];

    printf("store      %s%s", name, info->read_only ? ", read-only" : "");
    if (!info->complete)
        print_tinted(TINT_DOUBT, ", INCOMPLETE: segments may be missing");
    printf("\nuuid       %s, made %s\n", uuid, time_text(a, info->created));
    printf("hash       %u, seed %016llx\n", info->domain.hash_id,
           (unsigned long long)info->domain.seed);
    printf("defaults   error %s, growing by %g, tightening %g, from %llu keys%s\n",
           percent_text(a, info->growth.error), info->growth.factor,
           info->growth.tightening, (unsigned long long)info->growth.first_capacity,
           t->for_packs ? ", for packs" : "");
    printf("segments   %llu: %llu sealed, %llu growing, %llu without a filter\n",
           (unsigned long long)info->n_segments,
           (unsigned long long)t->n[TAMIS_SEGMENT_SEALED],
           (unsigned long long)t->n[TAMIS_SEGMENT_GROWING],
           (unsigned long long)t->n[TAMIS_SEGMENT_BARE]);
    if (t->n_packs > 0 || t->lost_packs.n > 0)
        printf("packs      %llu: %llu segments, %llu dead columns, %s\n",
               (unsigned long long)t->n_packs, (unsigned long long)t->n_packed,
               (unsigned long long)t->n_dead, size_text(a, (double)t->pack_bytes));
    if (t->lost_packs.n > 0)
        print_tinted(TINT_BAD, "           %zu more missing or damaged\n",
                     t->lost_packs.n);
    if (t->over_target > 0 || t->unreadable > 0 || t->lost > 0)
        print_tinted(TINT_BAD,
                     "           %llu over their target error, %llu unreadable, %llu "
                     "lost\n",
                     (unsigned long long)t->over_target,
                     (unsigned long long)t->unreadable, (unsigned long long)t->lost);
    printf("keys       %llu\n", (unsigned long long)t->keys);
    printf("filters    %s allocated", size_text(a, (double)t->allocated));
    if (t->allocated != t->bytes)
        printf(", %s long", size_text(b, (double)t->bytes));
    if (t->keys > 0)
        printf(", %.2f bits per key", 8 * (double)t->allocated / (double)t->keys);
    printf("\ncatalog    %s in use, %s on disk\n",
           size_text(a, (double)info->catalog_bytes),
           size_text(b, (double)t->catalog_file));
    free(name);
    free(uuid);
}

/* As in 'tamis verify', a lost filter is damage of the store. */
static int unopened(struct tamis_store *store, const struct tamis_segment_info *s,
                    bool packed, const char *path, int err,
                    const struct tamis_diag *diag)
{
    bool lost = err == ENOENT && is_listed(store, s);

    complain_error(err, diag, path,
                   packed && (lost || err < 0) ? advice_packed
                   : lost                      ? "build the segment anew from its keys"
                                               : advice_unread(err));
    return lost ? EXIT_DAMAGE : status_unread(err);
}

static int detail(struct tamis_store *store, struct tamis_snapshot *snapshot, size_t i,
                  const char *path, json_t *list)
{
    struct tamis_segment_info s;
    struct tamis_filter *filter = NULL;
    struct tamis_pack_place place;
    struct tamis_diag diag = {0};
    uint64_t allocated;
    int err = tamis_snapshot_segment(snapshot, i, &s);

    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    if (s.state != TAMIS_SEGMENT_BARE)
        err = tamis_snapshot_filter(snapshot, i, &filter, &diag);
    if (err != 0)
        return unopened(store, &s,
                        tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0 &&
                            has_own_file(&s),
                        path, err, &diag);
    allocated =
        is_column(snapshot, i, &place) ? s.file_bytes : allocated_bytes(path, &s);
    if (list != NULL) {
        json_t *o = segment_json(&s);

        if (filter != NULL) {
            json_t *inside = filter_json(filter);

            json_object_update(o, inside); /* the file knows better than the catalog */
            json_decref(inside);
            json_put(o, "allocated_bytes", json_count(allocated));
        }
        if (tamis_snapshot_pack(snapshot, i, NULL, &place) == 0)
            json_put(o, "pack", place_json(&place));
        json_put(list, NULL, o);
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
    if (tamis_snapshot_pack(snapshot, i, NULL, &place) == 0)
        printf(
            "  pack        column %u of %u in band %u: rows of %u bytes, %llu blocks\n",
            place.column, place.n_columns, place.band, place.row_bytes,
            (unsigned long long)place.n_blocks);
    print_filter(filter, allocated);
    return EXIT_DONE;
}

static int complain_totals(const struct totals *t, const char *path)
{
    char packs[64] = "";

    if (t->status == EXIT_DONE)
        return EXIT_DONE;
    if (t->lost_packs.n > 0)
        snprintf(packs, sizeof(packs), ", %zu pack%s missing or damaged",
                 t->lost_packs.n, t->lost_packs.n == 1 ? "" : "s");
    return complain(
        t->status,
        "%s: %llu filter%s unreadable, %llu lost%s: 'tamis verify' says which", path,
        (unsigned long long)t->unreadable, t->unreadable == 1 ? "" : "s",
        (unsigned long long)t->lost, packs);
}

/* After the picture, the metrics or the details: they show filters that do not open. */
static int judge(struct tamis_store *store, struct tamis_snapshot *snapshot,
                 const struct options *o)
{
    struct totals totals = {0};
    size_t *picked, n;
    int status =
        pick_segments(snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);

    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < n; i++)
        add_segment(&totals, store, snapshot, picked[i], o->args[0]);
    free(picked);
    status = complain_totals(&totals, o->args[0]);
    free(totals.lost_packs.uuids);
    return status;
}

static int show(struct tamis_store *store, struct tamis_snapshot *snapshot,
                const struct options *o)
{
    struct totals totals = {.for_packs = tamis_store_for_packs(store)};
    struct tamis_store_info info;
    struct tamis_diag diag = {0};
    json_t *root = NULL, *list = NULL;
    struct stat st;
    size_t *picked, n;
    int err = tamis_store_info(store, &info, &diag), status;

    if (err != 0)
        return complain_error(err, &diag, o->args[0], NULL);
    status =
        pick_segments(snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);
    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        add_segment(&totals, store, snapshot, i, o->args[0]);
    add_packs(&totals, snapshot, o->args[0]);
    if (stat_in(o->args[0], "catalog.lmdb", &st))
        totals.catalog_file = (uint64_t)st.st_size;
    if (given(o, OPT_JSON)) {
        root = totals_json(&totals, &info, o->args[0]);
        list = memory_or_exit(json_array());
    } else {
        print_totals_text(&totals, &info, o->args[0]);
    }
    for (size_t i = 0; o->n_args > 1 && i < n; i++) {
        int one = detail(store, snapshot, picked[i], o->args[0], list);

        status = status ? status : one;
    }
    if (root != NULL)
        json_put(root, "details", list);
    if (given(o, OPT_RESIDENCY)) {
        int one = segments_residency(store, snapshot, o->args[0], picked, n, root);

        status = status ? status : one;
    }
    free(picked);
    if (root != NULL)
        json_print(root);
    /* Without names the totals decide the status. */
    if (o->n_args == 1 && output_works()) {
        int all = complain_totals(&totals, o->args[0]);

        status = status ? status : all;
    } else if (status == EXIT_DONE && output_works()) {
        status = judge(store, snapshot, o);
    }
    free(totals.lost_packs.uuids);
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
    status = store_snapshot(o.args[0], &store, &snapshot);
    if (status != EXIT_DONE)
        return status;
    if (given(&o, OPT_PROMETHEUS))
        status = print_prometheus(store, snapshot, &o);
    else if (given(&o, OPT_SVG))
        status = store_picture(snapshot, &o);
    else
        status = show(store, snapshot, &o);
    if ((given(&o, OPT_PROMETHEUS) || given(&o, OPT_SVG)) && status == EXIT_DONE &&
        output_works())
        status = judge(store, snapshot, &o);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return status;
}

const struct command cmd_stat = {
    .name = "stat",
    .arguments = "STORE [SEGMENT...] [--residency] [--json | --svg FILE | ...]",
    .summary = "print totals of a store, details of segments",
    .about = "Prints the totals of the store, and the stages of each segment named: "
             "how full they are, their expected error and their target. If a filter is "
             "over its target, as a union may be, build it anew ('tamis build "
             "--replaces'). A filter with a missing or truncated file counts as lost. "
             "It exits 3 if a filter or pack is lost or damaged, 4 if one cannot be "
             "read; with names, only for these. --prometheus prints nothing if this "
             "process lacks the permission or the room to open a filter.\n",
    .options =
        {OPTION(RESIDENCY,
                "pages of each filter in memory, whoever uses them. The kernel tells "
                "only users who own the files or may write to them"),
         OPTION(SVG, "draw rank, size, fill, age and error of the segments; '-' is "
                     "standard output. Replaces an SVG or an empty file, and no other"),
         OPTION(PROMETHEUS, "the same facts for a monitor, in Prometheus' text format"),
         OPTION(CHECK, "with --prometheus: read every page, exit 3 if any is damaged"),
         OPTION(JSON, NULL)},
    .examples = "tamis stat store 000012.sst\n"
                "tamis stat store --svg store.svg\n",
    .run = run,
};
