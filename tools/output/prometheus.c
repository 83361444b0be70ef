/* tamis stat --prometheus: a store in the text exposition format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Each metric stands
 * once, with all its segments below it, so the facts are gathered first. Only the
 * process that probes knows its counts: see tamis_store_stats(). */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../talk/talk.h"
#include "output.h"
#include "tamis.h"

/* One segment's numbers; NaN: there is none, and no line. */
struct facts {
    char *name; /* as a label's value */
    enum tamis_segment_state state;
    double keys, bytes, allocated, created, watermark, target_error, expected_error,
        fill, stages, over_target, readable, pages, damaged, list_readable,
        damaged_of_list;
};

static const struct {
    const char *name, *help;
    size_t offset;
} metrics[] = {
    {"keys", "Keys added to the segment's filter.", offsetof(struct facts, keys)},
    {"filter_bytes", "Length of the filter's file.", offsetof(struct facts, bytes)},
    {"filter_allocated_bytes", "Disk space of the filter's file.",
     offsetof(struct facts, allocated)},
    {"created_timestamp_seconds", "When the filter was made, since 1970.",
     offsetof(struct facts, created)},
    {"watermark", "Log position up to which all keys are in the filter.",
     offsetof(struct facts, watermark)},
    {"target_error_ratio",
     "Target share of false positives among probes of absent keys.",
     offsetof(struct facts, target_error)},
    {"expected_error_ratio",
     "Expected share of false positives among probes of absent keys.",
     offsetof(struct facts, expected_error)},
    {"fill_ratio", "Share of bits that are set, over all stages.",
     offsetof(struct facts, fill)},
    {"stages", "Stages of the filter.", offsetof(struct facts, stages)},
    {"over_target", "1 if the expected error exceeds the target by more than chance.",
     offsetof(struct facts, over_target)},
    {"readable",
     "0 if the filter is lost, damaged or of a newer version: always MAYBE.",
     offsetof(struct facts, readable)},
    {"checked_pages", "Pages of the filter that were read and checked.",
     offsetof(struct facts, pages)},
    {"damaged_pages", "Checked pages that failed their check.",
     offsetof(struct facts, damaged)},
    {"list_readable",
     "0 if the segment's list of hashes is lost, damaged or of a newer version.",
     offsetof(struct facts, list_readable)},
    {"list_damaged_pages", "Pages of the list that failed their check.",
     offsetof(struct facts, damaged_of_list)},
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

static struct facts no_facts(const struct tamis_segment_info *s)
{
    struct facts f = {.name = label(s->name, s->name_bytes), .state = s->state};
    const double none = NAN;

    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++)
        memcpy((char *)&f + metrics[m].offset, &none, sizeof(none));
    return f;
}

/* The file knows better than the catalog. */
static void facts_of_filter(struct facts *f, struct tamis_filter *filter, bool check)
{
    struct tamis_filter_info info;
    double set = 0, bits = 0;

    f->readable = tamis_filter_info(filter, &info) == 0;
    if (f->readable == 0)
        return;
    f->keys = (double)info.keys;
    f->bytes = (double)info.file_bytes;
    f->watermark = (double)info.watermark;
    f->target_error = info.growth.error;
    f->expected_error = info.expected_error;
    f->over_target = over_target(&info);
    f->stages = info.n_stages;
    for (uint32_t i = 0; i < info.n_stages; i++) {
        struct tamis_stage_info s;

        if (tamis_filter_stage(filter, i, &s) != 0)
            continue;
        set += (double)s.bits_set;
        bits += 8 * (double)s.bits_bytes;
    }
    f->fill = bits > 0 ? set / bits : NAN;
    if (check) {
        struct tamis_verify report;

        tamis_filter_verify(filter, &report, NULL); /* the report is always whole */
        f->pages = (double)report.n_pages;
        f->damaged = (double)report.n_damaged;
    }
}

/* An error of this process says nothing about the filter. */
static bool is_ours(int err)
{
    return err > 0 && err != ENOENT && err != EIO && !is_wrong_type(err);
}

/* *fate: what another process did to the segment meanwhile. */
static int gather(struct tamis_store *store, struct tamis_snapshot *snapshot, size_t i,
                  const struct options *o, struct facts *f, enum fate *fate)
{
    struct tamis_segment_info s;
    struct tamis_filter *filter;
    struct tamis_pack_place place;
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_segment(snapshot, i, &s);

    *fate = SEGMENT_DROPPED;

    if (err != 0)
        return complain_error(err, NULL, o->args[0], NULL);
    *f = no_facts(&s);
    *fate = SEGMENT_STAYS;
    if (s.state == TAMIS_SEGMENT_BARE)
        return EXIT_DONE;
    f->readable = 0;
    if (s.state == TAMIS_SEGMENT_GROWING || s.state == TAMIS_SEGMENT_SEALED) {
        f->keys = (double)s.keys;
        f->bytes = (double)s.file_bytes;
        f->allocated = (double)allocated_bytes(o->args[0], &s);
        f->created = (double)s.created / 1e6;
        f->watermark = (double)s.watermark;
        f->target_error = s.error > 0 ? s.error : NAN;
    }
    if (is_column(snapshot, i, &place)) {
        f->allocated = f->bytes; /* the pack's file has metrics of its own */
        f->readable = 1;
        f->stages = 1;
        return EXIT_DONE;
    }
    err = tamis_snapshot_filter(snapshot, i, &filter, &diag);
    if (err == 0) {
        facts_of_filter(f, filter, given(o, OPT_CHECK));
        tamis_filter_close(filter);
        return EXIT_DONE;
    }
    *fate = segment_fate(store, &s);
    return *fate == SEGMENT_STAYS && is_ours(err)
               ? complain_error(err, &diag, o->args[0], NULL)
               : EXIT_DONE;
}

/* A list that another process has dropped meanwhile is none. */
static int facts_of_list(struct tamis_store *store,
                         const struct tamis_snapshot *snapshot, size_t i,
                         const struct options *o, struct facts *f)
{
    struct tamis_filter *list = NULL;
    struct tamis_verify report;
    struct tamis_diag diag = {0};
    int err = open_its_list(store, snapshot, i, &list, &diag);

    if (err == TAMIS_ERR_NO_SEGMENT)
        return EXIT_DONE;
    f->list_readable = err == 0;
    if (err == 0 && given(o, OPT_CHECK)) {
        tamis_filter_verify(list, &report, NULL);
        f->damaged_of_list = (double)report.n_damaged;
    }
    tamis_filter_close(list);
    return is_ours(err) ? complain_error(err, &diag, o->args[0], NULL) : EXIT_DONE;
}

static void forget(struct facts *facts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(facts[i].name);
    free(facts);
}

/* The named segments, or all, as one snapshot has them. */
static int gather_all(struct tamis_store *store, struct tamis_snapshot **snapshot,
                      const struct options *o, struct facts **facts, size_t *n)
{
    size_t *picked, n_picked;
    unsigned tries = 0;
    bool moved;
    int status;

    do {
        moved = false;
        forget(*facts, *n);
        *n = 0;
        status = pick_segments(*snapshot, o->args[0], o->args + 1, o->n_args - 1,
                               &picked, &n_picked);
        *facts = memory_or_exit(calloc(n_picked + 1, sizeof(**facts)));
        for (size_t i = 0; i < n_picked; i++) {
            enum fate fate;
            struct facts *f = *facts + *n;
            int one = gather(store, *snapshot, picked[i], o, f, &fate);

            if (one == EXIT_DONE && fate == SEGMENT_STAYS)
                one = facts_of_list(store, *snapshot, picked[i], o, f);
            status = first_failure(status, one);
            moved |= fate == SEGMENT_MOVED;
            if (fate == SEGMENT_STAYS) {
                ++*n;
            } else {
                free(f->name);
                f->name = NULL;
            }
        }
        free(picked);
    } while (status == EXIT_DONE && moved && newer_snapshot(store, snapshot, &tries));
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

static void print_segments(const char *store, const struct facts *facts, size_t n)
{
    if (n > 0)
        print_head("tamis_segment_info", "1 for each segment that is listed.");
    /* Those without a readable name would be one series. */
    for (size_t i = 0; i < n; i++)
        if (facts[i].name[0] != '\0')
            printf("tamis_segment_info{store=\"%s\",segment=\"%s\",state=\"%s\"} 1\n",
                   store, facts[i].name, state_name(facts[i].state));
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        char name[64];
        bool any = false;

        snprintf(name, sizeof(name), "tamis_segment_%s", metrics[m].name);
        for (size_t i = 0; i < n; i++) {
            double x;

            memcpy(&x, (const char *)&facts[i] + metrics[m].offset, sizeof(x));
            if (isnan(x) || facts[i].name[0] == '\0')
                continue;
            if (!any)
                print_head(name, metrics[m].help);
            any = true;
            printf("%s{store=\"%s\",segment=\"%s\"}", name, store, facts[i].name);
            print_number(x);
        }
    }
}

enum pack_metric { PACK_BYTES, PACK_SEGMENTS, PACK_DEAD, PACK_DAMAGED };

static double pack_value(const struct pack *p, enum pack_metric m)
{
    struct tamis_verify report;

    switch (m) {
    case PACK_BYTES:
        return (double)p->allocated;
    case PACK_SEGMENTS:
        return (double)p->n_segments;
    case PACK_DEAD:
        return (double)(p->n_columns - p->n_segments);
    case PACK_DAMAGED:
        break;
    }
    tamis_filter_verify(p->filter, &report, NULL);
    return (double)report.n_damaged;
}

static void print_pack(const char *metric, const char *store, const char *pack,
                       double x)
{
    printf("%s{store=\"%s\",pack=\"%s\"}", metric, store, pack);
    print_number(x);
}

/* Those that answer, and those that should. */
static void print_readable_packs(struct tamis_store *of,
                                 struct tamis_snapshot *snapshot, const char *store)
{
    static const char metric[] = "tamis_pack_readable";
    struct tamis_pack_info pack;
    bool any = false;

    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &pack) == 0; i++) {
        char *name = hex(pack.uuid, TAMIS_UUID_BYTES);

        if (pack.error == 0 || pack_is_lost(of, &pack)) {
            if (!any)
                print_head(metric,
                           "0 if the pack or its .dead file is missing or damaged.");
            print_pack(metric, store, name, pack.error == 0);
            any = true;
        }
        free(name);
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
    size_t n;
    struct pack *packs = packs_list(snapshot, o->args[0], &n);
    double damaged = 0;

    print_readable_packs(of, snapshot, store);
    for (int m = 0; n > 0 && m < (given(o, OPT_CHECK) ? 4 : 3); m++) {
        print_head(metrics_of[m][0], metrics_of[m][1]);
        for (size_t i = 0; i < n; i++) {
            double x = pack_value(&packs[i], (enum pack_metric)m);

            print_pack(metrics_of[m][0], store, packs[i].name, x);
            damaged += m == PACK_DAMAGED ? x : 0;
        }
    }
    packs_forget(packs, n);
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

/* Says how many pages failed their check, if they were checked. */
static int complain_pages(const struct facts *facts, size_t n, double damaged,
                          const char *store)
{
    for (size_t i = 0; i < n; i++) /* not a number: not checked */
        damaged += fmax(facts[i].damaged, 0) + fmax(facts[i].damaged_of_list, 0);
    if (damaged == 0 || !output_works())
        return EXIT_DONE;
    return complain(EXIT_DAMAGE, "%s: %.0f damaged page%s: 'tamis verify' says which",
                    store, damaged, damaged == 1 ? "" : "s");
}

int print_prometheus(struct tamis_store *store, struct tamis_snapshot **held,
                     const struct options *o)
{
    struct tamis_store_info info;
    struct tamis_diag diag = {0};
    struct facts *facts = NULL;
    char *path = label(o->args[0], strlen(o->args[0]));
    size_t n = 0;
    int err = tamis_store_info(store, &info, &diag), status;

    status = err ? complain_error(err, &diag, o->args[0], NULL)
                 : gather_all(store, held, o, &facts, &n);
    if (status == EXIT_DONE) { /* a part would be taken for all */
        info.complete = tamis_snapshot_complete(*held);
        print_totals_of(*held, &info, path);
        print_segments(path, facts, n);
        status =
            complain_pages(facts, n, print_packs(store, *held, o, path), o->args[0]);
    }
    forget(facts, n);
    free(path);
    return status;
}
