/* What is made of lists, and how lists are made: merges by the hash, a sort within
 * little memory, and filters from a list against those from hashes in memory. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_LISTS = 8 };

static struct tamis_builder *builder_new(const struct tamis_builder_options *some)
{
    struct tamis_builder_options o = *some;
    struct tamis_builder *b;
    struct tamis_diag diag = {0};
    o.size = sizeof o;
    o.domain = &bench.domain;
    must(tamis_builder_create(&o, &b, &diag), &diag, "builder");
    return b;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- lists of hashes in any order ---- */

struct sorted {
    const uint64_t *hashes;
    uint64_t n, memory;
    const char *path;
};

static double lap_sort(void *ctx)
{
    const struct sorted *s = ctx;
    struct tamis_diag diag = {0};
    struct tamis_builder *b = builder_new(&(struct tamis_builder_options){
        .error = 0.01, .list_bits = 64, .memory_limit = s->memory});
    file_remove(s->path);
    uint64_t began = now_ns();
    must(tamis_builder_add_hashes(b, bench.domain.tag, s->hashes, s->n), NULL,
         "adding to a list");
    must(tamis_builder_finish_list(b, s->path, &diag), &diag, "finishing a list");
    double ns = (double)(now_ns() - began) / (double)s->n;
    tamis_builder_free(b);
    return ns;
}

static void sorting(const uint64_t *hashes, uint64_t n)
{
    struct sorted in_memory = {hashes, n, UINT64_C(4) << 30, path_in("sorted.tamis")};
    struct sorted spooled = in_memory;
    spooled.memory = n; /* an eighth of the hashes */
    struct lap laps[] = {{.run = lap_sort, .ctx = &spooled},
                         {.run = lap_sort, .ctx = &in_memory}};
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

/* Nanoseconds a hash that is read. Of the processor, so that the disk has no part. */
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
        struct sorted s = {hashes + i * n_each, n_each, UINT64_C(1) << 30,
                           path_in(name)};
        lap_sort(&s);
        lists[i] = filter_open(s.path, TAMIS_CHECK_LAZY);
        file_remove(s.path); /* its name: it stays open */
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
    file_remove(of[0].path);
    for (size_t i = 0; i < MOST_LISTS; i++)
        tamis_filter_close(lists[i]);
}

/* ---- filters ---- */

struct making {
    struct tamis_filter *list; /* NULL: from the hashes */
    const uint64_t *hashes;
    uint64_t n, kind;
    const char *path;
};

static double lap_filter(void *ctx)
{
    const struct making *m = ctx;
    struct tamis_diag diag = {0};
    struct tamis_builder *b = builder_new(&(struct tamis_builder_options){
        .error = 0.01, .kind = m->kind, .memory_limit = UINT64_C(4) << 30});
    file_remove(m->path);
    uint64_t began = now_ns();
    if (m->list)
        must(tamis_builder_add_list(b, m->list, &diag), &diag, "adding a list");
    else
        must(tamis_builder_add_hashes(b, bench.domain.tag, m->hashes, m->n), NULL,
             "adding hashes");
    must(tamis_builder_finish_file(b, m->path, &diag), &diag, "finishing a filter");
    double ns = (double)(now_ns() - began) / (double)m->n;
    tamis_builder_free(b);
    return ns;
}

static void filters(const uint64_t *hashes, uint64_t n)
{
    struct sorted s = {hashes, n, UINT64_C(4) << 30, path_in("of.tamis")};
    lap_sort(&s);
    struct tamis_filter *list = filter_open(s.path, TAMIS_CHECK_LAZY);
    file_remove(s.path);
    static const struct {
        uint64_t kind;
        const char *id;
    } kinds[] = {{TAMIS_BLOOM, "lists_to_bloom"}, {TAMIS_RIBBON, "lists_to_ribbon"}};
    for (size_t i = 0; i < 2; i++) {
        struct making by_list = {list, NULL, n, kinds[i].kind, path_in("made.tamis")};
        struct making by_hash = by_list;
        by_hash.list = NULL;
        by_hash.hashes = hashes;
        struct lap laps[] = {{.run = lap_filter, .ctx = &by_list},
                             {.run = lap_filter, .ctx = &by_hash}};
        race(laps, 2, n > 10000000 && i ? 1 : bench.sizes.long_reps);
        figure(kinds[i].id, laps[0].ns, laps[1].ns, "%llu hashes, one thread",
               (unsigned long long)n);
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
