/* Lists made of hashes in any order, and merged; filters made from a list, against
 * those from hashes in memory. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_LISTS = 8 };
static const uint64_t MUCH = UINT64_C(4) << 30;

/* A list, or a filter, from hashes or from a list. */
struct making {
    const uint64_t *hashes;
    struct tamis_filter *list; /* if not NULL: from this */
    uint64_t n, memory, list_bits, kind;
    const char *path;
};

/* Nanoseconds a hash. */
static double lap_make(void *ctx)
{
    const struct making *m = ctx;
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &bench.domain,
                                      .error = 0.01,
                                      .memory_limit = m->memory,
                                      .list_bits = m->list_bits,
                                      .kind = m->kind};
    struct tamis_builder *b;
    struct tamis_diag diag = {0};
    must(tamis_builder_create(&o, &b, &diag), &diag, "builder");
    file_remove(m->path);
    uint64_t began = now_ns();
    must(m->list ? tamis_builder_add_list(b, m->list, &diag)
                 : tamis_builder_add_hashes(b, bench.domain.tag, m->hashes, m->n),
         &diag, "adding");
    must(m->list_bits ? tamis_builder_finish_list(b, m->path, &diag)
                      : tamis_builder_finish_file(b, m->path, &diag),
         &diag, "finishing");
    double ns = (double)(now_ns() - began) / (double)m->n;
    tamis_builder_free(b);
    return ns;
}

static struct tamis_filter *list_of(const uint64_t *hashes, uint64_t n,
                                    const char *name)
{
    struct making m = {hashes, NULL, n, MUCH, 64, 0, path_in(name)};
    lap_make(&m);
    struct tamis_filter *list = filter_open(m.path, TAMIS_CHECK_LAZY);
    file_remove(m.path); /* its name: it stays open */
    return list;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- the sort ---- */

static void sorting(const uint64_t *hashes, uint64_t n)
{
    struct making in_memory = {hashes, NULL, n, MUCH, 64, 0, path_in("sorted.tamis")};
    struct making spooled = in_memory;
    spooled.memory = n; /* bytes: room for an eighth of the hashes */
    struct lap laps[] = {{.run = lap_make, .ctx = &spooled},
                         {.run = lap_make, .ctx = &in_memory}};
    race(laps, 2, bench.sizes.long_reps);
    figure("lists_sort", laps[0].ns, laps[1].ns,
           "%llu hashes in memory for an eighth of them", (unsigned long long)n);
    file_remove(in_memory.path);
}

/* ---- merges ---- */

struct merging {
    struct tamis_filter **lists;
    size_t n;
    const char *path;
};

/* The processor's nanoseconds for each hash that is read: the disk has no part. */
static double lap_merge(void *ctx)
{
    const struct merging *m = ctx;
    struct tamis_merge_report report;
    struct tamis_diag diag = {0};
    file_remove(m->path);
    uint64_t began = cpu_ns();
    must(tamis_list_merge(m->lists, m->n, m->path, NULL, &report, &diag), &diag,
         "merging");
    uint64_t spent = cpu_ns() - began;
    if (report.n_hashes + report.n_repeats != report.n_read)
        wrong("a merge of %zu lists lost hashes", m->n);
    return (double)spent / (double)report.n_read;
}

static void merging(const uint64_t *hashes, uint64_t n_each)
{
    struct tamis_filter *lists[MOST_LISTS];
    char name[32];
    for (size_t i = 0; i < MOST_LISTS; i++) {
        snprintf(name, sizeof name, "merged-%zu.tamis", i);
        lists[i] = list_of(hashes + i * n_each, n_each, name);
    }
    struct merging of[] = {{lists, 2, path_in("merge.tamis")},
                           {lists, 4, path_in("merge.tamis")},
                           {lists, 8, path_in("merge.tamis")}};
    struct lap laps[3] = {{.run = lap_merge, .ctx = &of[0]},
                          {.run = lap_merge, .ctx = &of[1]},
                          {.run = lap_merge, .ctx = &of[2]}};
    race(laps, 3, bench.sizes.long_reps);
    for (size_t i = 0; i < 3; i++) {
        char id[32];
        snprintf(id, sizeof id, "lists_merge_%zu", of[i].n);
        figure(id, laps[i].ns, NAN, "%.0f million hashes a second, of %llu a list",
               1000 / laps[i].ns, (unsigned long long)n_each);
    }
    lap_merge(&of[2]);
    struct tamis_filter *all = filter_open(of[2].path, TAMIS_CHECK_FULL);
    check_present(all, MOST_LISTS * n_each, bench.sizes.probes);
    tamis_filter_close(all);
    file_remove(of[0].path);
    for (size_t i = 0; i < MOST_LISTS; i++)
        tamis_filter_close(lists[i]);
}

/* ---- filters ---- */

static void filters(const uint64_t *hashes, uint64_t n)
{
    struct tamis_filter *list = list_of(hashes, n, "of.tamis");
    check_present(list, n, bench.sizes.probes);
    static const struct {
        uint64_t kind;
        const char *id;
    } kinds[] = {{TAMIS_BLOOM, "lists_to_bloom"}, {TAMIS_RIBBON, "lists_to_ribbon"}};
    for (size_t i = 0; i < 2; i++) {
        struct making by_hash = {
            hashes, NULL, n, MUCH, 0, kinds[i].kind, path_in("made.tamis")};
        struct making by_list = by_hash;
        by_list.list = list;
        struct lap laps[] = {{.run = lap_make, .ctx = &by_list},
                             {.run = lap_make, .ctx = &by_hash}};
        race(laps, 2, n > 10000000 && i ? 1 : bench.sizes.long_reps);
        figure(kinds[i].id, laps[0].ns, laps[1].ns, "%llu hashes, one thread",
               (unsigned long long)n);
        lap_make(&by_list);
        struct tamis_filter *f = filter_open(by_list.path, TAMIS_CHECK_FULL);
        check_present(f, n, bench.sizes.probes);
        tamis_filter_close(f);
        file_remove(by_list.path);
    }
    tamis_filter_close(list);
}

void figures_from_lists(void)
{
    uint64_t n = bench.sizes.build;
    uint64_t *hashes = hashes_of(0, n);
    sorting(hashes, n / 4);
    merging(hashes, n / 16);
    filters(hashes, n);
    free(hashes);
}
