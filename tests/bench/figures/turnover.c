/* A store with steady turnover that is packed by `--auto` after each edit: what is
 * written, what the disk holds, how long an edit takes.
 *
 *     a round:  drop a batch of segments at random, put as many     one edit
 *               tamis_edit_pack(), TAMIS_REPACK_AUTO                another edit
 *
 * Before the store is full nothing is dropped. Sizes are log-uniform, so that a pack
 * has bands. What is counted does not depend on the disk: only the last rounds, whose
 * time is taken, flush the files. */
#include "tests/bench/bench.h"
#include "tests/bench/segments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_KEYS = 50, MOST_TIMES = 20, TIMED = 100 };

struct turnover {
    struct tamis_store *store;
    uint64_t *live, *keys;   /* numbers of living segments; keys by number */
    uint64_t n_live, n_most; /* it is full */
    uint64_t n_next;         /* the number of the next one */
    uint64_t batch;
    double written, came; /* bytes */
    double held, needed;  /* when their ratio was the most */
    double ratios;        /* their sum */
    size_t n_looks, n_rounds, most_packs;
    double edit_ms[TIMED], both_ms[TIMED];
};

/* ---- what the packs are now ---- */

/* The packs that segments of a snapshot are in, each once. */
struct packs {
    size_t n, n_bands;
    double n_bytes, n_lines;
};

static bool is_new_place(const struct tamis_pack_place *seen, size_t n,
                         const struct tamis_pack_place *p, bool band_too)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(seen[i].uuid, p->uuid, sizeof p->uuid) == 0 &&
            (!band_too || seen[i].band == p->band))
            return false;
    return true;
}

static struct packs packs_of(struct tamis_snapshot *snapshot)
{
    enum { MAX_BANDS = 4096 };
    struct packs packs = {0};
    size_t n = tamis_snapshot_n_segments(snapshot), n_seen = 0;
    struct tamis_pack_place *seen = allocate(MAX_BANDS * sizeof *seen);
    for (size_t i = 0; i < n; i++) {
        struct tamis_pack_place p;
        struct tamis_filter *file;
        struct tamis_filter_info info;
        if (tamis_snapshot_pack(snapshot, i, &file, &p) != 0)
            give_up("segment %zu is in no pack", i);
        if (!is_new_place(seen, n_seen, &p, true))
            continue;
        if (is_new_place(seen, n_seen, &p, false)) {
            must(tamis_filter_info(file, &info), NULL, "a pack");
            packs.n++;
            packs.n_bytes += (double)info.file_bytes;
        }
        if (n_seen == MAX_BANDS)
            give_up("more than %d bands", MAX_BANDS);
        seen[n_seen++] = p;
        packs.n_bands++;
        packs.n_lines += p.lanes * p.words * ceil(p.row_bytes / 64.0);
    }
    free(seen);
    return packs;
}

/* Returns the bytes of the pack. */
static double pack_now(struct tamis_store *store, struct tamis_snapshot *snapshot,
                       enum tamis_repack repack, bool dry_run)
{
    struct tamis_diag diag = {0};
    struct tamis_edit *edit;
    struct tamis_pack_report report;
    struct tamis_pack_options opt = {
        .size = sizeof opt, .repack = repack, .dry_run = dry_run};
    must(tamis_edit_begin(store, &edit, &diag), &diag, "edit");
    must(tamis_edit_pack(edit, snapshot, NULL, 0, &opt, &report, &diag), &diag, "pack");
    if (dry_run)
        tamis_edit_abort(edit);
    else
        must(tamis_edit_commit(edit, &diag), &diag, "commit of a pack");
    return (double)report.file_bytes;
}

static double lines_of_one_pack(const struct turnover *t)
{
    struct tamis_plan_packed plan;
    uint64_t *keys = allocate(t->n_live * sizeof *keys);
    for (uint64_t i = 0; i < t->n_live; i++)
        keys[i] = t->keys[t->live[i]];
    must(tamis_plan_pack(keys, t->n_live, 0.01, 1, &plan), NULL, "planning a pack");
    free(keys);
    return plan.n_lines;
}

static struct tamis_snapshot *snapshot_now(struct tamis_store *store)
{
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag = {0};
    must(tamis_snapshot_current(store, &snapshot, &diag), &diag, "snapshot");
    return snapshot;
}

static struct packs look(struct turnover *t)
{
    struct tamis_snapshot *snapshot = snapshot_now(t->store);
    struct packs packs = packs_of(snapshot);
    double needed = pack_now(t->store, snapshot, TAMIS_REPACK_ALL, true);
    tamis_snapshot_release(snapshot);
    if (packs.n > t->most_packs)
        t->most_packs = packs.n;
    t->ratios += packs.n_bytes / needed;
    t->n_looks++;
    if (packs.n_bytes * t->needed > t->held * needed) {
        t->held = packs.n_bytes;
        t->needed = needed;
    }
    return packs;
}

/* ---- a round ---- */

static void change(struct turnover *t, struct tamis_edit *edit)
{
    bool full = t->n_live + t->batch > t->n_most;
    for (uint64_t i = 0; full && i < t->batch; i++) {
        uint64_t at = (uint64_t)(drand48() * (double)t->n_live);
        segments_drop(edit, t->live[at]);
        t->live[at] = t->live[--t->n_live];
    }
    for (uint64_t i = 0; i < t->batch; i++, t->n_next++) {
        t->keys[t->n_next] = (uint64_t)(LEAST_KEYS * pow(MOST_TIMES, drand48()));
        segments_put(edit, t->n_next, t->n_next * LEAST_KEYS * MOST_TIMES,
                     t->keys[t->n_next]);
        t->live[t->n_live++] = t->n_next;
    }
}

static void one_round(struct turnover *t)
{
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    uint64_t began = now_ns();
    must(tamis_edit_begin(t->store, &edit, &diag), &diag, "edit");
    change(t, edit);
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
    double edit_ms = (double)(now_ns() - began) / 1e6;
    struct tamis_snapshot *snapshot = snapshot_now(t->store);
    t->came += pack_now(t->store, snapshot, TAMIS_REPACK_NONE, true);
    began = now_ns();
    t->written += pack_now(t->store, snapshot, TAMIS_REPACK_AUTO, false);
    tamis_snapshot_release(snapshot);
    size_t at = t->n_rounds++ % TIMED; /* the last ones stay */
    t->edit_ms[at] = edit_ms;
    t->both_ms[at] = edit_ms + (double)(now_ns() - began) / 1e6;
}

static void report(struct turnover *t, const struct packs *end)
{
    double mib = 1 << 20;
    figure("turnover_writes", t->written / mib, t->came / mib,
           "%llu segments of %d to %d keys, %llu a batch, %llu live",
           (unsigned long long)t->n_next, LEAST_KEYS, LEAST_KEYS * MOST_TIMES,
           (unsigned long long)t->batch, (unsigned long long)t->n_live);
    figure("turnover_space", t->held / mib, t->needed / mib, "%.2f on average",
           t->ratios / (double)t->n_looks);
    figure("turnover_packs", (double)t->most_packs, (double)end->n, "of %zu looks",
           t->n_looks);
    figure("turnover_lines", end->n_lines, lines_of_one_pack(t), "%zu packs, %zu bands",
           end->n, end->n_bands);
    figure("turnover_edit", percentile(t->both_ms, TIMED, 0.5),
           percentile(t->edit_ms, TIMED, 0.5), "%llu files",
           (unsigned long long)t->batch);
    figure("turnover_edit_p99", percentile(t->both_ms, TIMED, 0.99),
           percentile(t->edit_ms, TIMED, 0.99), "%d rounds", TIMED);
}

/* ---- an edit of many records ---- */

static double edit_of_records(struct tamis_store *store, unsigned n, unsigned *number)
{
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    uint64_t began = now_ns();
    must(tamis_edit_begin(store, &edit, &diag), &diag, "edit");
    for (unsigned i = 0; i < n; i++) {
        char name[32];
        int n_bytes = snprintf(name, sizeof name, "record-%08u", ++*number);
        must(tamis_edit_put_bare(edit, name, (size_t)n_bytes, NULL, &diag), &diag,
             "put of a record");
    }
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
    return (double)(now_ns() - began) / 1e6;
}

static void many_records(struct tamis_store *store)
{
    enum { RECORDS = 10000 };
    double many[MAX_REPS], one[MAX_REPS];
    unsigned number = 0, reps = bench.sizes.reps;
    for (unsigned r = 0; r < reps; r++) {
        one[r] = edit_of_records(store, 1, &number);
        many[r] = edit_of_records(store, RECORDS, &number);
    }
    figure("turnover_records", median(many, reps), median(one, reps),
           "medians of %u edits", reps);
}

void figures_turnover(void)
{
    struct packs end = {0};
    uint64_t n = bench.sizes.turnover;
    struct turnover t = {.n_most = n / 20, .batch = n / 1000, .needed = 1};
    srand48((long)bench.seed);
    t.store = segments_store(path_in("turnover"), 0, 0);
    t.live = allocate((t.n_most + t.batch) * sizeof *t.live);
    t.keys = allocate((n + t.batch) * sizeof *t.keys);
    while (t.n_next < n) {
        flushes_skip(t.n_next + TIMED * t.batch < n);
        one_round(&t);
        if (t.n_rounds % 5 == 0 || t.n_next >= n)
            end = look(&t);
    }
    report(&t, &end);
    many_records(t.store);
    free(t.live), free(t.keys);
    tamis_store_close(t.store);
    tree_remove(path_in("turnover"));
}
