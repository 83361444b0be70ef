/* A growing filter of one stage against a sealed one of the same bits: what it costs
 * that a writer may have the file. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

/* Both have the same keys, and the same geometry. */
static struct tamis_filter *grown(const char *path, uint64_t n_keys, bool sealed,
                                  struct tamis_writer **writer)
{
    uint64_t *hashes = hashes_of(0, n_keys);
    *writer = writer_new(path, n_keys * 2);
    must(tamis_writer_add_hashes(*writer, bench.domain.tag, hashes, n_keys), NULL,
         "adding");
    must(sealed ? tamis_writer_seal(*writer, 1, NULL, NULL)
                : tamis_writer_commit(*writer, 1, NULL),
         NULL, "a commit");
    free(hashes);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    must(tamis_filter_verify(filter, &(struct tamis_verify){0}, NULL), NULL, "verify");
    check_present(filter, n_keys, n_keys);
    return filter;
}

void figures_growing(void)
{
    enum { FEW = 8 };
    char open_path[512], sealed_path[512];
    snprintf(open_path, sizeof open_path, "%s", path_in("growing.tamis"));
    snprintf(sealed_path, sizeof sealed_path, "%s", path_in("grown.tamis"));
    struct tamis_writer *writers[2];
    uint64_t n_keys = bench.sizes.small / 2;
    struct tamis_filter *open = grown(open_path, n_keys, false, &writers[0]),
                        *sealed = grown(sealed_path, n_keys, true, &writers[1]);
    size_t n = bench.sizes.probes;
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing ours = probing_of(open, NULL, hashes, n),
                   other = probing_of(sealed, NULL, hashes, n);
    ours.few = other.few = FEW;
    struct lap laps[] = {
        {.run = lap_single, .ctx = &ours}, {.run = lap_single, .ctx = &other},
        {.run = lap_batch, .ctx = &ours},  {.run = lap_batch, .ctx = &other},
        {.run = lap_calls, .ctx = &ours},  {.run = lap_calls, .ctx = &other},
    };
    static const char *const ids[] = {"growing_single", "growing_batch", "growing_few"};
    race(laps, 6, bench.sizes.reps);
    struct bits bits = bits_map(open_path);
    for (size_t i = 0; i < 3; i++) {
        figure(ids[i], laps[2 * i].ns, laps[2 * i + 1].ns,
               "%llu keys, %u lanes, %llu KiB", (unsigned long long)n_keys,
               bits.geometry.lanes, (unsigned long long)bits.n_bytes >> 10);
        figure_pairs(ids[i], laps[2 * i].samples, laps[2 * i + 1].samples,
                     bench.sizes.reps);
    }
    if (ours.n_absent != other.n_absent)
        wrong("growing: %zu are ABSENT, sealed %zu", ours.n_absent, other.n_absent);
    bits_unmap(&bits);
    tamis_filter_close(open);
    tamis_filter_close(sealed);
    for (int i = 0; i < 2; i++)
        must(tamis_writer_close(writers[i]), NULL, "closing a writer");
    file_remove(open_path);
    file_remove(sealed_path);
    free(hashes);
}
