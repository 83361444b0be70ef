/* Filters made from filters: whole or not at all, and no key lost. And plans for the
 * filters of a store: all of one, or nothing. */
#include "tests/faults/run.h"

#include <unistd.h>

enum { N_OLD = 800, N_ALL = 1500, N_MADE = 3 };
static const char *const made[N_MADE] = {"union", "common", "folded"};
static bool done[N_MADE];

static void build(struct run *r, const char *name, uint64_t from, uint64_t to)
{
    struct tamis_domain domain;
    struct tamis_builder_options opt = {.size = sizeof opt, .error = 1e-8};
    struct tamis_builder *b;
    uint64_t hashes[N_ALL];
    opt.domain = &domain;
    hashes_of(from, to - from, hashes);
    CHECK(tamis_domain_init(&domain, 1, 42) == 0 &&
              tamis_builder_create(&opt, &b, NULL) == 0,
          "preparing");
    tamis_builder_add_hashes(b, domain.tag, hashes, to - from);
    CHECK(tamis_builder_finish_file(b, in_dir(r, name), NULL) == 0, "preparing");
    tamis_builder_free(b);
}

static void prepare(struct run *r)
{
    build(r, "old", 0, N_OLD);
    build(r, "all", 0, N_ALL);
    memset(done, 0, sizeof done);
}

static int make(struct run *r, int which, struct tamis_filter **f)
{
    const char *path = in_dir(r, made[which]);
    struct tamis_diag *diag = &r->diag;
    switch (which) {
    case 0:
        return MAY(r, tamis_filter_derive(
                          f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                          path, NULL, NULL, diag));
    case 1:
        return MAY(r, tamis_filter_derive(
                          f, 1,
                          &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                          path, NULL, NULL, diag));
    default:
        return MAY(r, tamis_filter_derive(&f[1], 1,
                                          &(struct tamis_derivation){
                                              .operation = TAMIS_SHRINK, .error = 0.5},
                                          path, NULL, NULL, diag));
    }
}

/* Also what is only asked. */
static void ask(struct run *r, struct tamis_filter **f)
{
    struct tamis_estimate estimate;
    struct tamis_comparison comparison;
    enum tamis_answer answer;
    int equal;
    MAY(r, tamis_filter_estimate(f[0], &estimate, &r->diag));
    MAY(r, tamis_filter_compare(f[0], f[0], &comparison, &r->diag));
    MAY(r, tamis_filter_contains(f[0], f[0], &answer, &r->diag));
    CHECK(answer == TAMIS_MAYBE, "a filter lacks its own keys");
    MAY(r, tamis_filter_equal(f[0], f[0], &equal, &r->diag));
}

static void body(struct run *r)
{
    struct tamis_filter *f[2] = {0};
    if (MAY(r, tamis_filter_open(in_dir(r, "old"), NULL, &f[0], &r->diag)) == 0 &&
        MAY(r, tamis_filter_open(in_dir(r, "all"), NULL, &f[1], &r->diag)) == 0) {
        for (int i = 0; i < N_MADE; i++)
            done[i] = make(r, i, f) == 0;
        ask(r, f);
    }
    IN_LIB_VOID(tamis_filter_close(f[0]));
    IN_LIB_VOID(tamis_filter_close(f[1]));
}

static void check(struct run *r)
{
    struct tamis_filter *f[2];
    MUST(r, tamis_filter_open(in_dir(r, "old"), NULL, &f[0], &r->diag));
    MUST(r, tamis_filter_open(in_dir(r, "all"), NULL, &f[1], &r->diag));
    for (int i = 0; i < N_MADE; i++) {
        const char *path = in_dir(r, made[i]);
        CHECK(done[i] || !is_there(path) || r->littered,
              "it failed, and left its file");
        if (!done[i])
            unlink(path);
        CHECK(done[i] || make(r, i, f) == 0, "the next attempt: %s", r->diag.what);
        expect_file(r, path, i == 1 ? N_OLD : N_ALL);
    }
    IN_LIB_VOID(tamis_filter_close(f[0]));
    IN_LIB_VOID(tamis_filter_close(f[1]));
    if (!r->littered)
        expect_names(r->dir, (const char *const[]){"old", "all", made[0], made[1],
                                                   made[2], NULL});
}

enum { N_PLANNED = 5 };
static const struct tamis_plan_segment planned[N_PLANNED] = {
    {1000, 0}, {20000, 1}, {30000, 1}, {0, 2}, {900000, 3}};

static void plan(struct run *r, bool by_reads)
{
    static const struct tamis_plan_share none[N_PLANNED];
    static const struct tamis_plan_summary no_summary;
    struct tamis_plan_share shares[N_PLANNED];
    struct tamis_plan_summary summary;
    memset(shares, 0xff, sizeof shares);
    int rc = MAY(r, tamis_plan_store(planned, N_PLANNED, 300000, by_reads ? 0.5 : 0,
                                     TAMIS_BLOOM, shares, &summary));
    if (rc)
        CHECK(memcmp(shares, none, sizeof shares) == 0 &&
                  memcmp(&summary, &no_summary, sizeof summary) == 0,
              "half a plan");
    else
        CHECK(by_reads ? summary.best.reads <= 0.5 : summary.best.file_bytes <= 300000,
              "a plan beyond its limit");
}

static void plan_body(struct run *r)
{
    plan(r, false);
    plan(r, true);
}

const struct scenario derive_scenarios[] = {
    SCENARIO("derive-files", NULL, .prepare = prepare, .body = body, .check = check),
    SCENARIO("plan-store", NULL, .body = plan_body, .check = plan_body),
    {0},
};
