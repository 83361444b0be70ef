/* tamis stat: totals of a store, and details of named segments. */
#include <sys/stat.h>

#include "../picture/picture.h"
#include "command.h"

/* ---- totals ---- */

struct totals {
    uint64_t n[4]; /* by state */
    uint64_t keys, bytes, allocated, catalog_file, over_target, unreadable, lost;
    uint64_t n_packs, n_packed, n_dead, pack_bytes;
    uint64_t unusable_lists;
    uint64_t files, unmapped; /* filters that open; those beyond what a process maps */
    uint64_t lost_packs, unread_packs; /* unread: by an error, they may be whole */
    bool moved;                        /* a segment is not where it was */
    int status; /* of files that do not open; damage ranks before I/O errors */
};

static void note_status(struct totals *t, int status)
{
    if (t->status == EXIT_DONE || status == EXIT_DAMAGE)
        t->status = status;
}

/* Another process may have dropped, replaced or packed the segment meanwhile. */
static void add_unopened(struct totals *t, struct tamis_store *store,
                         const struct tamis_segment_info *s, bool lost, int err)
{
    enum fate fate = segment_fate(store, s);
    t->moved |= fate == SEGMENT_MOVED;
    if (fate != SEGMENT_STAYS)
        return;
    t->lost += lost;
    t->unreadable += !lost;
    note_status(t, lost ? EXIT_DAMAGE : status_unread(err));
}

/* Releases a sealed filter at once: a store may have more filters than a process has
 * room to map. */
static int look_inside(struct tamis_snapshot *snapshot, size_t i,
                       const struct tamis_segment_info *s, const char *store,
                       struct tamis_filter_info *info)
{
    struct tamis_filter_options opt = {.size = sizeof(opt), .uuid = s->uuid};
    struct tamis_filter *filter;
    char path[4096];
    int err;
    if (s->state != TAMIS_SEGMENT_SEALED) {
        err = tamis_snapshot_filter(snapshot, i, &filter, NULL);
    } else {
        if (snprintf(path, sizeof(path), "%s/%s", store, s->file) >= (int)sizeof(path))
            return ENAMETOOLONG;
        err = tamis_filter_open(path, &opt, &filter, NULL);
    }
    if (err != 0)
        return err;
    err = tamis_filter_info(filter, info, NULL);
    tamis_filter_close(filter);
    return err;
}

static void add_segment(struct totals *t, struct tamis_store *store,
                        struct tamis_snapshot *snapshot, size_t i, const char *path)
{
    struct tamis_segment_info s;
    struct stat st = {0};
    struct tamis_filter_info info;
    int err;
    if (tamis_snapshot_segment(snapshot, i, &s) != 0)
        return;
    t->n[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
    if (s.state == TAMIS_SEGMENT_BARE)
        return;
    if (is_column(snapshot, i, NULL)) {
        t->keys += s.keys; /* the pack is a file, and is added once */
        return;
    }
    if (is_in_lost_pack(snapshot, i)) {
        t->keys += s.keys;
        err = tamis_snapshot_pack(snapshot, i, NULL, NULL, NULL);
        add_unopened(t, store, &s, err == ENOENT, err);
        return;
    }
    bool there = stat_in(path, s.file, &st); /* else missing, or cut short */
    bool lost = there ? (uint64_t)st.st_size < s.file_bytes : errno == ENOENT;
    t->allocated += (uint64_t)st.st_blocks * 512;
    err = look_inside(snapshot, i, &s, path, &info);
    if (err == 0) {
        t->files++;
        s.keys = info.keys;
        s.file_bytes = info.file_bytes;
        t->over_target += over_target(&info);
    }
    if (lost || err != 0)
        add_unopened(t, store, &s, lost, err);
    t->keys += s.keys;
    t->bytes += s.file_bytes;
}

/* Adds the named segments, or all; in a newer snapshot if one has moved. */
static int add_segments(struct totals *t, struct tamis_store *store,
                        struct tamis_snapshot **snapshot, const char *path,
                        char *const *names, size_t n_names)
{
    const struct totals before = *t;
    struct tamis_pack_info pack;
    size_t *picked, n;
    unsigned tries = 0;
    int status;
    do {
        *t = before;
        for (size_t i = 0; tamis_snapshot_pack_info(*snapshot, i, &pack) == 0; i++)
            if (pack_is_lost(store, &pack)) {
                bool damaged = status_unread(pack.error) == EXIT_DAMAGE;
                note_status(t, status_unread(pack.error));
                t->lost_packs += damaged;
                t->unread_packs += !damaged;
            }
        status = pick_named(*snapshot, path, names, n_names, &picked, &n);
        for (size_t at = 0, i; next_picked(*snapshot, picked, n, &at, &i);) {
            struct tamis_filter *list = NULL;
            add_segment(t, store, *snapshot, i, path);
            /* No answer rests on a list, but it has to be there when a filter is made
             * of it. */
            int err = open_its_list(store, *snapshot, i, &list, NULL);
            tamis_filter_close(list);
            if (err == 0 || err == TAMIS_ERR_NO_SEGMENT)
                continue;
            t->unusable_lists++;
            note_status(t, status_unread(err));
        }
        free(picked);
    } while (t->moved && newer_snapshot(store, snapshot, &tries));
    return status;
}

static void add_packs(struct totals *t, struct tamis_snapshot *snapshot,
                      const char *path)
{
    struct tamis_stats stats;
    size_t n;
    struct pack *packs = packs_list(snapshot, path, &n);
    for (size_t i = 0; i < n; i++) {
        const struct pack *p = &packs[i];
        t->n_packed += p->n_segments;
        t->n_dead += p->n_columns - p->n_segments;
        t->pack_bytes += p->allocated;
        t->allocated += p->allocated;
        t->bytes += p->file_bytes;
    }
    t->n_packs = n;
    free(packs);
    if (tamis_snapshot_stats(snapshot, 0, &stats) == 0 && t->files > stats.max_mapped)
        t->unmapped = t->files - stats.max_mapped;
}

static json_t *totals_json(const struct totals *t, const struct tamis_store_info *info,
                           const char *path)
{
    char seed[20];
    snprintf(seed, sizeof(seed), "%016llx", LLU(info->domain.seed));
    return json_of(
        "store", json_text(path), "uuid", json_hex(info->uuid, sizeof(info->uuid)),
        "created", json_count(info->created), "complete", json_boolean(info->complete),
        "read_only", json_boolean(info->read_only), "hash_id",
        json_count(info->domain.hash_id), "seed", json_string(seed), "error",
        json_number(info->growth.error), "factor", json_number(info->growth.factor),
        "tightening", json_number(info->growth.tightening), "n0",
        json_count(info->growth.first_capacity), "segments",
        json_count(info->n_segments), "sealed", json_count(t->n[TAMIS_SEGMENT_SEALED]),
        "growing", json_count(t->n[TAMIS_SEGMENT_GROWING]), "bare",
        json_count(t->n[TAMIS_SEGMENT_BARE]), "packs", json_count(t->n_packs),
        "lost_packs", json_count(t->lost_packs), "unreadable_packs",
        json_count(t->unread_packs), "packed", json_count(t->n_packed), "dead_columns",
        json_count(t->n_dead), "pack_allocated_bytes", json_count(t->pack_bytes),
        "over_target", json_count(t->over_target), "unreadable",
        json_count(t->unreadable), "lost", json_count(t->lost), "unusable_lists",
        json_count(t->unusable_lists), "unmapped", json_count(t->unmapped), "keys",
        json_count(t->keys), "filter_bytes", json_count(t->bytes),
        "filter_allocated_bytes", json_count(t->allocated), "catalog_bytes",
        json_count(info->catalog_bytes), "catalog_file_bytes",
        json_count(t->catalog_file));
}

static void print_totals_text(const struct totals *t,
                              const struct tamis_store_info *info, const char *path)
{
    printf("store      %s%s", PATH(path), info->read_only ? ", read-only" : "");
    if (!info->complete)
        print_tinted(TINT_DOUBT, ", INCOMPLETE: segments may be missing");
    printf("\nuuid       %s, made %s\n", HEX(info->uuid, sizeof(info->uuid)),
           TIME(info->created));
    printf("hash       %u, seed %016llx\n", info->domain.hash_id,
           LLU(info->domain.seed));
    printf("defaults   error %s, growing by %g, tightening %g, from %llu keys\n",
           PERCENT(info->growth.error), info->growth.factor, info->growth.tightening,
           LLU(info->growth.first_capacity));
    printf("segments   %llu: %llu sealed, %llu growing, %llu without a filter\n",
           LLU(info->n_segments), LLU(t->n[TAMIS_SEGMENT_SEALED]),
           LLU(t->n[TAMIS_SEGMENT_GROWING]), LLU(t->n[TAMIS_SEGMENT_BARE]));
    if (t->n_packs + t->lost_packs + t->unread_packs > 0)
        printf("packs      %llu: %llu segments, %llu dead columns, %s\n",
               LLU(t->n_packs), LLU(t->n_packed), LLU(t->n_dead), SIZE(t->pack_bytes));
    if (t->lost_packs + t->unread_packs > 0)
        print_tinted(TINT_BAD,
                     "           %llu more missing or damaged, %llu unreadable\n",
                     LLU(t->lost_packs), LLU(t->unread_packs));
    if (t->over_target > 0 || t->unreadable > 0 || t->lost > 0)
        print_tinted(TINT_BAD,
                     "           %llu over their target error, %llu unreadable, %llu "
                     "lost\n",
                     LLU(t->over_target), LLU(t->unreadable), LLU(t->lost));
    if (t->unusable_lists > 0)
        print_tinted(TINT_BAD, "           %s unusable\n",
                     COUNTED(t->unusable_lists, "list"));
    if (t->unmapped > 0)
        printf("           %llu more than a process maps: read at each question, until "
               "they are packed\n",
               LLU(t->unmapped));
    printf("keys       %llu\n", LLU(t->keys));
    printf("filters    %s allocated", SIZE(t->allocated));
    if (t->allocated != t->bytes)
        printf(", %s long", SIZE(t->bytes));
    if (t->keys > 0)
        printf(", %.2f bits per key", 8 * (double)t->allocated / (double)t->keys);
    printf("\ncatalog    %s in use, %s on disk\n", SIZE(info->catalog_bytes),
           SIZE(t->catalog_file));
}

/* Says how many filters, packs and lists do not open. Returns the status. */
static int complain_totals(const struct totals *t, const char *path)
{
    const struct {
        uint64_t n;
        const char *noun, *what;
    } more[] = {{t->lost_packs, "pack", "missing or damaged"},
                {t->unread_packs, "pack", "unreadable"},
                {t->unusable_lists, "list", "unusable"}};
    char text[192] = "";
    if (t->status == EXIT_DONE)
        return EXIT_DONE;
    for (size_t i = 0, at = 0; i < sizeof(more) / sizeof(more[0]); i++)
        if (more[i].n > 0)
            at += (size_t)snprintf(text + at, sizeof(text) - at, ", %s %s",
                                   COUNTED(more[i].n, more[i].noun), more[i].what);
    return complain(t->status,
                    "%s: %s unreadable, %llu lost%s: 'tamis verify' says which", path,
                    COUNTED(t->unreadable, "filter"), LLU(t->lost), text);
}

/* ---- details ---- */

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
    if (err != 0) { /* as in 'tamis verify': lost is damage */
        const char *advice = err == ENOENT ? advice_from_list(snapshot, i) : NULL;
        if (segment_fate(store, &s) !=
            SEGMENT_STAYS) /* again, in the newest snapshot */
            return complain_error(err, &diag, path, "run it again");
        complain_error(err, &diag, path,
                       advice ? advice : advice_unread(err, diag.what));
        return status_unread(err);
    }
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
    printf("\nsegment     %s\n", NAME_OR(s.name, s.name_bytes));
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

static int run(int argc, char **argv)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    struct options o;
    int status;
    parse_options(argc, argv, 1, 0, &o);
    bool also = given(&o, OPT_JSON) || given(&o, OPT_RESIDENCY);
    bool for_monitor = given(&o, OPT_PROMETHEUS), drawn = given(&o, OPT_SVG);
    if (drawn && (also || for_monitor))
        usage_error("--svg draws, and prints nothing: leave out --json, --residency "
                    "and --prometheus");
    if (for_monitor && also)
        usage_error("--prometheus goes with neither --json nor --residency");
    if (given(&o, OPT_CHECK) && !for_monitor)
        usage_error("--check is for --prometheus: 'tamis verify' checks pages");
    check_picture(&o, o.args[0], NULL);
    store_snapshot(o.args[0], &store, &snapshot);
    if (for_monitor)
        status = print_prometheus(store, &snapshot, &o);
    else if (drawn)
        status = store_picture(snapshot, &o);
    else
        status = show(store, &snapshot, &o);
    if ((for_monitor || drawn) && status == EXIT_DONE && output_works())
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
        "Prints the totals of the store, and the stages of each segment named: how "
        "full they are, their expected error and their target. If a filter is over "
        "its target, as a union may be, build it anew ('tamis build --replaces'). A "
        "filter with a missing or truncated file counts as lost. It exits 3 if a "
        "filter, pack or list is lost, has a damaged header or is no regular file, 4 "
        "if one cannot be read; with names, only for these. --prometheus prints "
        "nothing if this process lacks the permission or the room to open a filter.\n",
    .options =
        {OPTION(RESIDENCY,
                "pages of each filter in memory, whoever uses them. The kernel tells "
                "only users who own the files or may write to them"),
         OPTION(SVG, "draw rank, size, fill, age and error of the segments; '-' is "
                     "standard output. Replaces an SVG or an empty file, and no other"),
         OPTION(PROMETHEUS, "the same facts for a monitor, in Prometheus' text format"),
         OPTION(CHECK, "with --prometheus: read every page of filters, packs and "
                       "lists, exit 3 if any is damaged"),
         OPTION(JSON)},
    .examples = "tamis stat store 000012.sst\n"
                "tamis stat store --svg store.svg\n",
    .run = run,
};
