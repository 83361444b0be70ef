/* Error against bits a key: ours, the peers', the classic filter by its formula, and
 * log2(1/e), below which no set of any kind comes. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct asked {
    uint64_t *keys, *present, *hashes; /* of the negatives, of those inside */
    size_t n, n_keys;
};

static void ours(struct curve *curve, const struct asked *a)
{
    static const double errors[] = {0.3,   0.1,   0.05,   0.02,   0.01,    0.005,
                                    0.002, 0.001, 0.0003, 0.0001, 0.00003, 0.00001};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const char *path = filter_file(a->n_keys, errors[i]);
        struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
        struct tamis_stage_info stage;
        must(tamis_filter_stage(filter, 0, &stage), NULL, "stage");
        check_present(filter, a->n_keys, a->n_keys);
        struct probing p = probing_of(filter, NULL, a->hashes, a->n);
        lap_batch(&p);
        size_t maybe = a->n - p.n_absent;
        check_error(errors[i], maybe, a->n, "error against bits");
        double bits = 8 * (double)stage.bits_bytes / (double)a->n_keys;
        double measured = maybe ? (double)maybe / (double)a->n : NAN;
        double bound = log2(1 / errors[i]);
        curve_row(curve, 5,
                  (double[]){errors[i], bits, measured, bound / log(2), bound});
        tamis_filter_close(filter);
    }
}

static void peers(const char *name, bool bloom, const struct asked *a)
{
    struct curve *curve = curve_open(name, "bits error");
    for (int i = 3; i <= 20; i++) {
        struct peer *p = bloom ? libbloom_build(a->present, a->n_keys, pow(0.6185, i))
                               : leveldb_build(a->present, a->n_keys, i);
        if (!p)
            give_up("a peer could not be built");
        size_t n = a->n / 4;
        size_t maybe = n - (bloom ? libbloom_misses : leveldb_misses)(p, a->keys, n);
        curve_row(curve, 2,
                  (double[]){(double)peer_bits(p) / (double)a->n_keys,
                             maybe ? (double)maybe / (double)n : NAN});
        peer_free(p);
    }
    curve_close(curve);
}

void figures_error(void)
{
    struct asked a = {.n = bench.sizes.error_probes, .n_keys = bench.sizes.error_keys};
    uint64_t first = fresh_negatives(a.n);
    a.keys = keys_of(first, a.n);
    a.present = keys_of(0, a.n_keys);
    a.hashes = hashes_of(first, a.n);
    struct curve *curve =
        curve_open("error", "target bits error classic_bits bound_bits");
    ours(curve, &a);
    curve_close(curve);
    peers("error-libbloom", true, &a);
    peers("error-leveldb", false, &a);
    free(a.keys), free(a.present), free(a.hashes);
}
