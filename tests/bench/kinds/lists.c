/* Lists of hashes: their bits, a probe against one of a Bloom filter of the same keys,
 * and reading them in order. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MANY = 1 << 16 };

static const char *list_file(uint64_t n_keys)
{
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &bench.domain,
                                      .error = 0.01,
                                      .n_threads = 2,
                                      .list_bits = 64,
                                      .memory_limit = UINT64_C(4) << 30};
    struct tamis_diag diag = {0};
    struct tamis_builder *b;
    uint64_t *hashes = allocate(MANY * sizeof *hashes);
    char name[64];
    snprintf(name, sizeof name, "%llu-list.tamis", (unsigned long long)n_keys);
    const char *path = path_in(name);
    file_remove(path);
    must(tamis_builder_create(&o, &b, &diag), &diag, "builder of a list");
    for (uint64_t done = 0; done < n_keys; done += MANY) {
        size_t n = n_keys - done < MANY ? n_keys - done : MANY;
        hashes_fill(done, n, hashes);
        must(tamis_builder_add_hashes(b, bench.domain.tag, hashes, n), NULL,
             "adding to a list");
    }
    must(tamis_builder_finish_list(b, path, &diag), &diag, "finishing a list");
    tamis_builder_free(b);
    free(hashes);
    return path;
}

static void figure_bits(const char *id, const char *path, uint64_t n)
{
    struct stat st;
    if (stat(path, &st))
        give_up("%s is gone", path);
    double least = 64 - log2((double)n);
    figure(id, (double)st.st_size * 8 / (double)n - least, NAN,
           "beside 64 - log2(n) = %.2f; %llu hashes, all counted", least,
           (unsigned long long)n);
}

/* Every value, in order; nanoseconds each. */
static double lap_in_order(void *ctx)
{
    struct tamis_filter *f = ctx;
    struct tamis_list_cursor *c;
    uint64_t *values = allocate(MANY * sizeof *values), n = 0, last = 0;
    size_t got;
    must(tamis_list_cursor_create(f, &c, NULL), NULL, "cursor");
    uint64_t began = now_ns();
    do {
        must(tamis_list_cursor_next(c, values, MANY, &got, NULL), NULL, "reading");
        n += got;
        last += got ? values[got - 1] : 0;
    } while (got);
    double ns = (double)(now_ns() - began) / (double)n;
    sink += last;
    tamis_list_cursor_free(c);
    free(values);
    return ns;
}

void figures_lists(void)
{
    uint64_t n_keys = bench.sizes.large;
    size_t n = bench.sizes.probes;
    unpin();
    const char *small = list_file(bench.sizes.small), *large = list_file(n_keys);
    pin();
    figure_bits("lists_bits_small", small, bench.sizes.small);
    figure_bits("lists_bits_large", large, n_keys);
    file_remove(small);
    struct tamis_filter *list = filter_open(large, TAMIS_CHECK_FULL);
    struct tamis_filter *bloom =
        filter_open(filter_file(n_keys, 0.01), TAMIS_CHECK_FULL);
    check_present(list, n_keys, n);
    uint64_t *absent = hashes_of(fresh_negatives(n), n);
    struct probing of_list = probing_of(list, NULL, absent, n), many = of_list;
    struct probing of_bloom = probing_of(bloom, NULL, absent, n);
    struct lap laps[] = {{.run = lap_single, .ctx = &of_list},
                         {.run = lap_single, .ctx = &of_bloom},
                         {.run = lap_batch, .ctx = &many},
                         {.run = lap_in_order, .ctx = list}};
    race(laps, sizeof laps / sizeof laps[0], bench.sizes.long_reps);
    figure("lists_single", laps[0].ns, laps[1].ns, "%llu hashes, negatives",
           (unsigned long long)n_keys);
    figure("lists_batch", laps[2].ns, laps[1].ns, "the same, in batches");
    figure("lists_in_order", laps[3].ns, NAN, "%.0f million hashes a second",
           1000 / laps[3].ns);
    free(absent);
    tamis_filter_close(list);
    tamis_filter_close(bloom);
    file_remove(large);
}
