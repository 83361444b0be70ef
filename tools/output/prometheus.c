/* tamis stat --prometheus: a store in the text exposition format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Each metric stands
 * once, with all its segments below it, so the segments are walked once a metric. What
 * their files say is gathered first. Only the process that probes knows its counts: see
 * tamis_snapshot_stats(). */
#include <math.h>

#include "output.h"

/* clang-format off */
#define METRICS(X) \
X(INFO, "info", "1 for each segment that is listed.") \
X(KEYS, "keys", "Keys added to the segment's filter.") \
X(BYTES, "filter_bytes", "Length of the filter's file.") \
X(ALLOCATED, "filter_allocated_bytes", "Disk space of the filter's file.") \
X(CREATED, "created_timestamp_seconds", "When the filter was made, since 1970.") \
X(WATERMARK, "watermark", "Log position up to which all keys are in the filter.") \
X(TARGET_ERROR, "target_error_ratio", "Target share of false positives among probes of absent keys.") \
X(EXPECTED_ERROR, "expected_error_ratio", "Expected share of false positives among probes of absent keys.") \
X(FILL, "fill_ratio", "Share of bits that are set, over all stages.") \
X(STAGES, "stages", "Stages of the filter.") \
X(OVER_TARGET, "over_target", "1 if the expected error exceeds the target by more than chance.") \
X(READABLE, "readable", "0 if the filter is lost, damaged or of a newer version: always MAYBE.") \
X(PAGES, "checked_pages", "Pages of the filter that were read and checked.") \
X(DAMAGED, "damaged_pages", "Checked pages that failed their check.") \
X(LIST_READABLE, "list_readable", "0 if the segment's list of hashes is lost, damaged or of a newer version.") \
X(LIST_DAMAGED, "list_damaged_pages", "Pages of the list that failed their check.")
/* clang-format on */
#define X(id, name, help) id,
enum metric { METRICS(X) N_METRICS };
#undef X
#define X(id, name, help) {name, help},
static const struct {
    const char *name, *help;
} metrics[N_METRICS] = {METRICS(X)};
#undef X

/* One segment's numbers; NaN: there is none, and no line. */
struct facts {
    size_t segment;
    bool is_gone; /* another process has dropped it, or it keeps moving */
    double of[N_METRICS];
};
struct look {
    const struct options *o;
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    const char *label; /* the store, as a label's value */
    size_t *picked, n_picked;
    /* Facts of segments with files of their own, in the order of the walk. Facts of
     * columns are read from the records again, so a large pack takes no memory. */
    struct facts *kept;
    size_t n_kept, max_kept;
    bool has[N_METRICS]; /* some segment with a name, such a number */
    bool moved;          /* some segment, meanwhile */
    double damaged;      /* pages */
};

/* ---- gathering ---- */

/* Escaped as in all output, so it is UTF-8 in one line; then as labels require. */
static char *label(const void *bytes, size_t n)
{
    char *text = escape(bytes, n),
         *value = memory_or_exit(malloc(2 * strlen(text) + 1));
    char *at = value;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\\' || *c == '"')
            *at++ = '\\';
        *at++ = *c;
    }
    *at = '\0';
    free(text);
    return value;
}

/* Takes facts from the catalog, and from the pack of a column. */
static struct facts facts_of_record(const struct look *l, size_t i,
                                    const struct tamis_segment_info *s)
{
    struct facts f = {.segment = i};
    for (size_t m = 0; m < N_METRICS; m++)
        f.of[m] = NAN;
    f.of[INFO] = 1;
    if (s->state == TAMIS_SEGMENT_BARE)
        return f;
    f.of[READABLE] = 0;
    if (s->state == TAMIS_SEGMENT_GROWING || s->state == TAMIS_SEGMENT_SEALED) {
        f.of[KEYS] = (double)s->keys;
        f.of[BYTES] = (double)s->file_bytes;
        f.of[ALLOCATED] = (double)allocated_bytes(l->o->args[0], l->snapshot, i, s);
        f.of[CREATED] = (double)s->created / 1e6;
        f.of[WATERMARK] = (double)s->watermark;
        f.of[TARGET_ERROR] = s->error > 0 ? s->error : NAN;
    }
    if (is_column(l->snapshot, i, NULL)) /* the pack has metrics of its own */
        f.of[READABLE] = f.of[STAGES] = 1;
    return f;
}

/* The file knows better than the catalog. */
static void facts_of_filter(struct facts *f, struct tamis_filter *filter, bool check)
{
    struct tamis_filter_info info;
    struct tamis_verify report;
    uint64_t bits, set;
    f->of[READABLE] = tamis_filter_info(filter, &info, NULL) == 0;
    if (f->of[READABLE] == 0)
        return;
    f->of[KEYS] = (double)info.keys;
    f->of[BYTES] = (double)info.file_bytes;
    f->of[WATERMARK] = (double)info.watermark;
    f->of[TARGET_ERROR] = info.growth.error;
    f->of[EXPECTED_ERROR] = info.expected_error;
    f->of[OVER_TARGET] = over_target(&info);
    f->of[STAGES] = info.n_stages;
    filter_bits(&info, &bits, &set);
    f->of[FILL] = bits > 0 ? (double)set / (double)bits : NAN;
    if (check) {
        tamis_filter_verify(filter, &report, NULL); /* the report is always whole */
        f->of[PAGES] = (double)report.n_pages;
        f->of[DAMAGED] = (double)report.n_damaged;
    }
}

/* An error of this process says nothing about the filter. */
static bool is_ours(int err)
{
    return err > 0 && err != ENOENT && err != EIO && !is_wrong_type(err);
}

/* A list that another process has dropped does not count. *keep: one counts. */
static int facts_of_list(const struct look *l, struct facts *f, bool *keep)
{
    struct tamis_filter *list = NULL;
    struct tamis_verify report;
    struct tamis_diag diag = {0};
    int err = open_its_list(l->store, l->snapshot, f->segment, &list, &diag);
    if (err == TAMIS_ERR_NO_SEGMENT)
        return EXIT_DONE;
    *keep = true;
    f->of[LIST_READABLE] = err == 0;
    if (err == 0 && given(l->o, OPT_CHECK)) {
        tamis_filter_verify(list, &report, NULL);
        f->of[LIST_DAMAGED] = (double)report.n_damaged;
    }
    tamis_filter_close(list);
    return is_ours(err) ? complain_error(err, &diag, l->o->args[0], NULL) : EXIT_DONE;
}

static void note(struct look *l, const struct facts *f, bool named, bool keep)
{
    if (keep && l->n_kept == l->max_kept) {
        l->max_kept = 2 * l->max_kept + 64;
        l->kept = memory_or_exit(realloc(l->kept, l->max_kept * sizeof(*l->kept)));
    }
    if (keep)
        l->kept[l->n_kept++] = *f;
    for (size_t m = 0; m < N_METRICS; m++)
        l->has[m] |= named && !f->is_gone && !isnan(f->of[m]);
    l->damaged += fmax(f->of[DAMAGED], 0) + fmax(f->of[LIST_DAMAGED], 0);
}

/* Another process may have dropped or moved the segment meanwhile. */
static int gather(struct look *l, size_t i)
{
    struct tamis_segment_info s;
    struct tamis_filter *filter;
    struct tamis_diag diag = {0};
    bool keep = false;
    int err = tamis_snapshot_segment(l->snapshot, i, &s), status = EXIT_DONE;
    if (err != 0)
        return complain_error(err, NULL, l->o->args[0], NULL);
    struct facts f = facts_of_record(l, i, &s);
    if (s.state != TAMIS_SEGMENT_BARE && !is_column(l->snapshot, i, NULL)) {
        enum fate fate = SEGMENT_STAYS;
        err = tamis_snapshot_filter(l->snapshot, i, &filter, &diag);
        keep = err == 0;
        if (keep)
            facts_of_filter(&f, filter, given(l->o, OPT_CHECK));
        else
            fate = segment_fate(l->store, &s);
        tamis_filter_close(filter);
        f.is_gone = fate != SEGMENT_STAYS;
        l->moved |= fate == SEGMENT_MOVED;
        if (!f.is_gone && is_ours(err))
            return complain_error(err, &diag, l->o->args[0], NULL);
    }
    if (!f.is_gone)
        status = facts_of_list(l, &f, &keep);
    note(l, &f, s.name_bytes > 0, keep || f.is_gone);
    return status;
}

/* The named segments, or all, as one snapshot has them. */
static int gather_all(struct look *l)
{
    const struct look before = *l;
    unsigned tries = 0;
    int status;
    do {
        struct tamis_snapshot *snapshot = l->snapshot;
        free(l->kept);
        free(l->picked);
        *l = before;
        l->snapshot = snapshot;
        status = pick_named(snapshot, l->o->args[0], l->o->args + 1, l->o->n_args - 1,
                            &l->picked, &l->n_picked);
        for (size_t at = 0, i;
             next_picked(l->snapshot, l->picked, l->n_picked, &at, &i);)
            status = first_failure(status, gather(l, i));
    } while (status == EXIT_DONE && l->moved &&
             newer_snapshot(l->store, &l->snapshot, &tries));
    return status;
}

/* ---- printing ---- */

static void print_head(const char *name, const char *help)
{
    printf("# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

/* Prints the fewest digits that give the same number. */
static void print_number(double x)
{
    char text[40];
    int digits = 15;
    do
        snprintf(text, sizeof(text), "%.*g", digits++, x);
    while (digits <= 17 && strtod(text, NULL) != x);
    printf(" %s\n", text);
}

static void print_store(const char *name, const char *help, const char *store, double x)
{
    print_head(name, help);
    printf("%s{store=\"%s\"}", name, store);
    print_number(x);
}

/* A line for each segment that has the number. */
static void print_metric(const struct look *l, enum metric m)
{
    char name[64];
    size_t kept = 0;
    snprintf(name, sizeof(name), "tamis_segment_%s", metrics[m].name);
    print_head(name, metrics[m].help);
    for (size_t at = 0, i; next_picked(l->snapshot, l->picked, l->n_picked, &at, &i);) {
        bool is_kept = kept < l->n_kept && l->kept[kept].segment == i;
        struct tamis_segment_info s;
        tamis_snapshot_segment(l->snapshot, i, &s);
        struct facts f = is_kept ? l->kept[kept++] : facts_of_record(l, i, &s);
        /* Segments without a readable name would be one series. */
        if (f.is_gone || s.name_bytes == 0 || isnan(f.of[m]))
            continue;
        char *segment = label(s.name, s.name_bytes);
        printf("%s{store=\"%s\",segment=\"%s\"", name, l->label, segment);
        if (m == INFO)
            printf(",state=\"%s\"", state_name(s.state));
        putchar('}');
        print_number(f.of[m]);
        free(segment);
    }
}

static void print_pack(const char *metric, const char *store, const char *pack,
                       double x)
{
    printf("%s{store=\"%s\",pack=\"%s\"}", metric, store, pack);
    print_number(x);
}

/* Says of each pack whether it answers for its segments. */
static void print_readable_packs(struct tamis_store *of,
                                 struct tamis_snapshot *snapshot, const char *store)
{
    static const char metric[] = "tamis_pack_readable";
    struct tamis_pack_info pack;
    bool any = false;
    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &pack) == 0; i++)
        if (pack.error == 0 || pack_is_lost(of, &pack)) {
            if (!any)
                print_head(metric,
                           "0 if the pack or its .dead file is missing or damaged.");
            print_pack(metric, store, HEX(pack.uuid, TAMIS_UUID_BYTES),
                       pack.error == 0);
            any = true;
        }
}

/* Returns how many of their pages failed their check, if they were checked. */
static double print_packs(struct tamis_store *of, struct tamis_snapshot *snapshot,
                          const struct options *o, const char *store)
{
    static const char *const metrics_of[][2] = {
        {"tamis_pack_allocated_bytes", "Disk space of a pack."},
        {"tamis_pack_segments", "Segments that the pack answers for."},
        {"tamis_pack_dead_columns", "Columns of segments that are gone."},
        {"tamis_pack_damaged_pages", "Pages of the pack that failed their check."}};
    enum { PACK_DAMAGED = 3 };
    size_t n;
    struct pack *packs = packs_list(snapshot, o->args[0], &n);
    double damaged = 0;
    print_readable_packs(of, snapshot, store);
    for (int m = 0; n > 0 && m < PACK_DAMAGED + given(o, OPT_CHECK); m++) {
        print_head(metrics_of[m][0], metrics_of[m][1]);
        for (const struct pack *p = packs; p < packs + n; p++) {
            struct tamis_verify report = {.n_damaged = 0};
            if (m == PACK_DAMAGED)
                tamis_filter_verify(p->filter, &report, NULL);
            const uint64_t values[] = {p->allocated, p->n_segments,
                                       p->n_columns - p->n_segments, report.n_damaged};
            print_pack(metrics_of[m][0], store, p->name, (double)values[m]);
            damaged += (double)report.n_damaged;
        }
    }
    free(packs);
    return damaged;
}

/* Counts all segments, whichever are named. */
static void print_totals_of(const struct tamis_snapshot *snapshot,
                            const struct tamis_store_info *info, const char *store)
{
    size_t n[4] = {0};
    struct tamis_segment_info s;
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++)
        if (tamis_snapshot_segment(snapshot, i, &s) == 0)
            n[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
    print_head("tamis_segments",
               "Segments by state; a bare or unreadable one never answers ABSENT.");
    for (int state = 0; state < 4; state++)
        printf("tamis_segments{store=\"%s\",state=\"%s\"} %zu\n", store,
               state_name((enum tamis_segment_state)state), n[state]);
    print_store("tamis_catalog_complete",
                "0 if segments may be missing: then no key is absent everywhere.",
                store, info->complete);
    print_store("tamis_catalog_bytes", "Bytes of the catalog's file.", store,
                (double)info->catalog_bytes);
    print_store("tamis_created_timestamp_seconds",
                "When the store was made, since 1970.", store,
                (double)info->created / 1e6);
}

int print_prometheus(struct tamis_store *store, struct tamis_snapshot **held,
                     const struct options *o)
{
    struct tamis_store_info info;
    struct tamis_diag diag = {0};
    char *path = label(o->args[0], strlen(o->args[0]));
    struct look l = {.o = o, .store = store, .snapshot = *held, .label = path};
    int err = tamis_store_info(store, &info, &diag), status;
    status = err ? complain_error(err, &diag, o->args[0], NULL) : gather_all(&l);
    *held = l.snapshot;
    if (status == EXIT_DONE) { /* a part would be taken for all */
        info.complete = tamis_snapshot_info(*held).complete;
        print_totals_of(*held, &info, path);
        for (int m = 0; m < N_METRICS; m++)
            if (l.has[m])
                print_metric(&l, (enum metric)m);
        l.damaged += print_packs(store, *held, o, path);
        if (l.damaged > 0 && output_works())
            status = complain(EXIT_DAMAGE, "%s: %s: 'tamis verify' says which",
                              o->args[0], COUNTED((uint64_t)l.damaged, "damaged page"));
    }
    free(l.kept);
    free(l.picked);
    free(path);
    return status;
}
