/* The memory of a builder: its limit holds for hashes and filter together, whatever the
 * error; a filter that is larger alone is built all the same. */
#include "tests/support/support.h"

#include "lib/builder/inside.h"

enum { MIB = 1 << 20, SLACK = 5 * MIB }; /* huge pages, a thread's buffers */

static bool reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    return f && fputs("5", f) >= 0 && fclose(f) == 0;
}

struct build {
    uint64_t limit, n_keys;
    double error;
    uint32_t n_threads;
    bool spools;
    uint32_t n_at_work; /* threads; 0: all of them */
};

static void add_many(struct tamis_builder *b, uint64_t n)
{
    static uint64_t some[4096];
    uint64_t tag = builder_facts(b).domain.tag;
    for (uint64_t left = n; left > 0;) {
        size_t now = left < 4096 ? (size_t)left : 4096;
        random_hashes(some, now);
        OK(tamis_builder_add_hashes(b, tag, some, now));
        left -= now;
    }
}

/* In a child, whose heap is as it was. */
static int build_one(void *ctx)
{
    const struct build *c = ctx;
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .error = c->error,
                                        .memory_limit = c->limit,
                                        .n_threads = c->n_threads,
                                        .spool_dir = test_dir};
    struct tamis_builder *b;
    struct tamis_plan plan;
    faults_on(NULL);
    tamis_plan_filter(c->n_keys, c->error, NULL, &plan);
    uint64_t most = plan.file_bytes + c->limit / 8;
    most = most < c->limit ? c->limit : most;
    if (tamis_builder_create(&opt, &b, NULL) != 0 || !reset_peak())
        return 2;
    uint64_t before = status_bytes("VmRSS");
    add_many(b, c->n_keys);
    if (tamis_builder_finish(b, path_of("measured"), NULL, NULL, NULL) != 0)
        return 3;
    uint64_t taken = status_bytes("VmHWM") - before; /* at most since reset_peak() */
    unsigned long n_bits = (unsigned long)(plan.bits_bytes / (4 << 20)) + 3;
    bool spooled = faults[CALL_PWRITE].n > n_bits;
    printf("limit %llu MiB, filter %.1f MiB, hashes %.1f MiB: %.1f MiB taken%s\n",
           (unsigned long long)c->limit / MIB, (double)plan.file_bytes / MIB,
           (double)c->n_keys * 8 / MIB, (double)taken / MIB,
           spooled ? ", spooled" : "");
    fflush(stdout);
    unlink(path_of("measured"));
    uint32_t n_at_work = b->n_at_work;
    tamis_builder_free(b);
    if (n_at_work != (c->n_at_work ? c->n_at_work : c->n_threads))
        return 6;
    most += spooled ? c->limit / 8 : 0; /* for threads */
    if (spooled != c->spools)
        return 4;
    return SANITIZED || taken <= most + SLACK ? 0 : 5;
}

TEST(test_hashes_and_filter_within_the_limit)
{
    static const struct build cases[] = {
        {64 * MIB, 5 << 20, 0.01, 1, false, 0}, /* 40 and 6 MiB */
        {64 * MIB, 6 << 20, 1e-8, 1, true, 0},  /* 48 and 30 */
        {16 * MIB, 3 << 20, 1e-8, 4, true, 0},  /* 24 and 15 */
        {16 * MIB, 6 << 20, 0.01, 2, true, 0},
        {16 * MIB, 1500 << 10, 0.01, 1, false, 0},
        {16 * MIB, 1500 << 10, 0.01, 8, false,
         4}, /* as many threads as there is room */
        {16 * MIB, 6 << 20, 0.01, 200, true, 4},
        {MIB, 2 << 20, 1e-4, 1, true, 0}, /* a filter of 5 MiB */
        {MIB, 2 << 20, 1e-4, 2, true, 1},
        {4096, 1 << 20, 0.01, 1, true, 0},
        {1, 500, 0.01, 1, false, 0},    /* a page of hashes may stay, */
        {4096, 500, 1e-8, 1, false, 0}, /* however large their filter */
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct build c = cases[i];
        in_child(build_one, &c);
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
