/* P <= P0 / (1 - r), measured: growing filters of ours in files, filled with random
 * keys through ten stages, and asked for keys that they do not have whenever a stage is
 * just full. Seeds are fixed: the same keys and the same answers at every run. */
#include "tests/paper/series.h"

enum { BATCH = 4096, PROBE_BATCHES = 16 };

/* First stages that fill their pages, so that errors come close to their targets. In
 * the first a stage adds little to what was there; in the second a few stages make up
 * the whole. */
const struct tamis_growth measured_growths[2] = {{0.01, 2, 0.85, 2200},
                                                 {0.05, 1.5, 0.5, 8300}};

/* Keys are numbers, each used once: added keys are even, absent keys odd. */
static void hash_numbers(const struct tamis_domain *d, uint64_t *next, uint64_t *hashes,
                         size_t n)
{
    for (size_t i = 0; i < n; i++, *next += 2)
        hashes[i] = tamis_key_of(d, next, sizeof *next).hash;
}

static void add_keys(struct tamis_writer *w, const struct tamis_domain *d,
                     uint64_t *next, uint64_t n)
{
    uint64_t hashes[BATCH];
    while (n > 0) {
        size_t some = n < BATCH ? (size_t)n : BATCH;
        hash_numbers(d, next, hashes, some);
        must(tamis_writer_add_hashes(w, d->tag, hashes, some), "add");
        n -= some;
    }
}

static double measure_error(struct tamis_filter *f, const struct tamis_domain *d,
                            uint64_t *next)
{
    uint64_t hashes[BATCH], absent[BATCH / 64];
    size_t n_absent = 0;
    for (int i = 0; i < PROBE_BATCHES; i++) {
        hash_numbers(d, next, hashes, BATCH);
        n_absent += tamis_filter_probe_batch(f, d->tag, hashes, BATCH, absent, NULL);
    }
    return 1 - (double)n_absent / (BATCH * PROBE_BATCHES);
}

/* One filter; its errors, one a stage. */
static void measure_one(const struct tamis_growth *growth, uint64_t seed,
                        double errors[MEASURED_STAGES],
                        struct measured out[MEASURED_STAGES])
{
    char path[4096];
    const char *tmp = getenv("TMPDIR");
    struct tamis_domain domain;
    struct tamis_writer_options opt = {.size = sizeof opt, .growth = *growth};
    struct tamis_filter_info info;
    struct tamis_writer *w;
    struct tamis_filter *f;
    uint64_t next_key = 0, next_probe = 1;
    snprintf(path, sizeof path, "%s/tamis-paper.XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(path);
    must(fd < 0 ? errno : 0, path);
    close(fd);
    unlink(path);
    must(tamis_domain_init(&domain, 1, seed), "domain");
    opt.domain = &domain;
    must(tamis_writer_create(path, &opt, &w, NULL), path);
    must(tamis_filter_open(path, NULL, &f, NULL), path);
    unlink(path);
    for (uint32_t i = 0; i < MEASURED_STAGES; i++) {
        struct tamis_plan p;
        must(tamis_plan_stage(growth, i, &p), "plan");
        add_keys(w, &domain, &next_key, p.n_keys);
        errors[i] = measure_error(f, &domain, &next_probe);
        must(tamis_writer_info(w, &info, NULL), "info");
        out[i].planned += info.expected_error / MEASURED_SEEDS;
    }
    tamis_filter_close(f);
    must(tamis_writer_close(w, NULL), "close");
}

void measure_growth(const struct tamis_growth *growth,
                    struct measured out[MEASURED_STAGES])
{
    static double errors[MEASURED_SEEDS][MEASURED_STAGES];
    /* Student's t of 11 degrees, 99% on both sides. */
    const double t = 3.106, n = MEASURED_SEEDS;
    double keys = 0, bound = 0;
    memset(out, 0, MEASURED_STAGES * sizeof *out);
    for (uint64_t seed = 0; seed < MEASURED_SEEDS; seed++)
        measure_one(growth, seed, errors[seed], out);
    for (uint32_t i = 0; i < MEASURED_STAGES; i++) {
        uint64_t capacity;
        double target, sum = 0, squares = 0;
        growth_stage(growth, i, &capacity, &target);
        keys += (double)capacity;
        bound += target;
        for (size_t k = 0; k < MEASURED_SEEDS; k++)
            sum += errors[k][i];
        for (size_t k = 0; k < MEASURED_SEEDS; k++)
            squares += pow(errors[k][i] - sum / n, 2);
        out[i].keys = keys;
        out[i].bound = bound;
        out[i].error = sum / n;
        out[i].half_width = t * sqrt(squares / (n - 1) / n);
    }
}

int paper_measure(const char *dir)
{
    FILE *f =
        csv_create(dir, "measured", "P,s,r,stages,keys,error,low,high,planned,bound");
    for (size_t k = 0; k < 2; k++) {
        const struct tamis_growth *g = &measured_growths[k];
        struct measured m[MEASURED_STAGES];
        measure_growth(g, m);
        for (int i = 0; i < MEASURED_STAGES; i++)
            fprintf(f, "%g,%g,%g,%d,%.0f,%.6g,%.6g,%.6g,%.6g,%.6g\n", g->error,
                    g->factor, g->tightening, i + 1, m[i].keys, m[i].error,
                    m[i].error - m[i].half_width, m[i].error + m[i].half_width,
                    m[i].planned, m[i].bound);
    }
    csv_close(f);
    return 0;
}
