/* The workloads of the filter half. Each draws its sizes and turns from the run's
 * random numbers: another round is another history. */
#include "tests/crash/workloads/workload.h"
#include "tests/crash/check.h"

#include <stdlib.h>

static size_t between(struct run *r, size_t least, size_t most)
{
    return least + (size_t)rng_below(&r->rng, most - least + 1);
}

static void create(struct run *r, struct tamis_growth growth)
{
    struct tamis_domain domain;
    struct tamis_diag diag;
    struct tamis_writer *w;
    tamis_domain_init(&domain, 1, 7);
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = growth, .domain = &domain};
    r->promise.tag = domain.tag;
    if (tamis_writer_create(r->path, &opt, &w, &diag) != 0)
        run_fail(r, "create: %s", diag.what);
    r->promise.created = true;
    r->w = w;
    record_event(r);
}

static void open_again(struct run *r)
{
    struct tamis_writer *w;
    if (tamis_writer_open(r->path, &w, NULL) != 0)
        run_fail(r, "does not open again");
    if (tamis_writer_one_thread(w) != 0)
        run_fail(r, "the writer has another thread");
    r->w = w;
}

/* Stages of a page or two that are full after a few keys. */
static struct tamis_growth tiny(struct run *r)
{
    static const double errors[] = {0.3, 0.05, 0.01, 1e-6};
    return (struct tamis_growth){
        .error = errors[rng_below(&r->rng, 4)],
        .factor = rng_below(&r->rng, 2) ? 1.25 : 2,
        .first_capacity = 1 + rng_below(&r->rng, 6),
    };
}

static struct tamis_growth roomy(void)
{
    return (struct tamis_growth){.error = 0.01, .factor = 2, .first_capacity = 500};
}

static struct tamis_growth many_pages(void)
{
    return (struct tamis_growth){.error = 0.01, .factor = 2, .first_capacity = 5000};
}

static void add_some(struct run *r, size_t least, size_t most)
{
    for (size_t n = between(r, least, most); n > 0; n--)
        session_add(r, r->promise.n_keys);
}

/* Many keys in one call. */
static void add_first(struct run *r, size_t n)
{
    int err = tamis_writer_add_hashes(r->w, r->promise.tag, r->promise.keys, n);
    if (err)
        run_fail(r, "add: %s", tamis_strerror(err));
    r->promise.n_keys = n;
    record_event(r);
}

static void run_create(struct run *r)
{
    create(r, tiny(r));
    if (rng_below(&r->rng, 2))
        add_some(r, 0, 2);
    session_close(r);
    session(r, NULL, false);
}

static void run_commit(struct run *r)
{
    create(r, roomy());
    for (size_t n = between(r, 3, 5); n > 0; n--) {
        add_some(r, 0, 5);
        session_commit(r);
    }
    session_close(r);
}

static void run_grow(struct run *r)
{
    create(r, tiny(r));
    for (size_t n = between(r, 2, 4); n > 0; n--) {
        add_some(r, 0, 6);
        session_commit(r);
    }
    session_close(r);
}

static void run_threads(struct run *r)
{
    create(r, rng_below(&r->rng, 3) ? tiny(r) : roomy());
    helper_start(r);
    for (size_t n = between(r, 2, 3); n > 0; n--) {
        add_some(r, 0, 4);
        session_commit(r);
    }
    if (rng_below(&r->rng, 2))
        session_seal(r);
    helper_stop(r);
    session_close(r);
}

static void run_seal(struct run *r)
{
    create(r, tiny(r));
    add_some(r, 0, 8);
    if (rng_below(&r->rng, 2))
        session_commit(r);
    add_some(r, 0, 3);
    session_seal(r);
    session_close(r);
}

/* The last writer died, the machine did not: what it stored is in the page cache. */
static void run_reopen(struct run *r)
{
    create(r, rng_below(&r->rng, 2) ? tiny(r) : roomy());
    for (size_t n = between(r, 2, 3); n > 0; n--) {
        add_some(r, 0, 4);
        if (rng_below(&r->rng, 2))
            session_commit(r);
        add_some(r, 0, 3);
        unsigned at_sync = (unsigned)between(r, 0, 2);
        if (at_sync)
            session_kill_in_commit(r, at_sync);
        else
            session_kill(r);
        session(r, NULL, false);
        open_again(r);
    }
    session_close(r);
}

/* Syncs that fail, or a write-back of which nobody hears: then the page cache shows
 * bits that the disk does not have, in pages that count as clean (R3, R4). */
static void run_failed_sync(struct run *r)
{
    /* On many pages a page that is lost seldom gets another key's bits. */
    create(r, rng_below(&r->rng, 2) ? tiny(r) : many_pages());
    for (size_t n = between(r, 2, 3); n > 0; n--) {
        add_some(r, 0, 3);
        session_commit(r);
        r->fail_sync = (unsigned)between(r, 0, 6);
        bool silent = r->fail_sync == 0;
        add_some(r, 1, 3);
        /* An engine that asks again must not be told that all is well (R4). */
        for (size_t k = silent ? 0 : between(r, 1, 2); k > 0; k--)
            session_commit(r);
        if (silent)
            record_lie(r); /* the error is reported to nobody who is left */
        r->fail_sync = 0;
        if (!silent && rng_below(&r->rng, 3) == 0) {
            r->fail_sync = (unsigned)between(r, 1, 4);
            session_close(r);
            r->fail_sync = 0;
        } else {
            session_kill(r);
        }
        session(r, NULL, false);
        open_again(r);
    }
    session_close(r);
}

/* A sector of an open stage rots between two writers. The second adds to its page,
 * which is condemned on the disk before it is filled (R8). */
static void run_rot(struct run *r)
{
    uint64_t at;
    create(r, rng_below(&r->rng, 4) ? roomy() : many_pages());
    add_first(r, between(r, 1, 200));
    session_commit(r);
    if (!rot_choose(r, &at)) {
        session_close(r);
        return;
    }
    if (rng_below(&r->rng, 4))
        session_close(r);
    else
        session_kill(r); /* its successor checks every page before it adds (R3) */
    rot(r, at);
    open_again(r);
    add_some(r, 1, 3);
    session_commit(r);
    add_some(r, 0, 2);
    if (rng_below(&r->rng, 2))
        session_close(r);
    else
        session_kill(r);
    session(r, NULL, false);
}

/* Stages of many pages, nearly full: more dirty sectors than can be enumerated. Now
 * and then so many pages that their floors take two sectors. */
static void run_wide(struct run *r)
{
    struct tamis_growth g = {
        .error = rng_below(&r->rng, 2) ? 0.01 : 1e-5,
        .factor = 1.25,
        .first_capacity = 400 + rng_below(&r->rng, 800),
    };
    if (r->round % 32 == 5) {
        g.error = 1e-8;
        g.first_capacity = 24000;
    }
    create(r, g);
    add_first(r, g.first_capacity - between(r, 1, 6));
    session_commit(r);
    add_some(r, 5, 15);
    session_commit(r);
    if (rng_below(&r->rng, 2))
        session_seal(r);
    session_close(r);
}

static void run_build(struct run *r)
{
    struct tamis_domain domain;
    struct tamis_builder *b;
    struct tamis_diag diag;
    tamis_domain_init(&domain, 1, 7);
    struct tamis_builder_options opt = {.size = sizeof opt, .domain = &domain};
    r->promise.tag = domain.tag;
    size_t n = between(r, 0, 4) ? between(r, 0, 30) : between(r, 4000, 9000);
    opt.watermark = r->promise.asked = n;
    if (rng_below(&r->rng, 2)) /* most hashes go through the spool */
        opt.memory_limit = 8 * between(r, 1, n / 3 + 1);
    if (tamis_builder_create(&opt, &b, &diag) != 0 ||
        tamis_builder_add_hashes(b, domain.tag, r->promise.keys, n) != 0)
        run_fail(r, "builder: %s", diag.what);
    r->promise.n_keys = n;
    if (tamis_builder_finish_file(b, r->path, &diag) != 0)
        run_fail(r, "finish: %s", diag.what);
    tamis_builder_free(b);
    r->promise.created = r->promise.sealed = true;
    r->promise.watermark = n;
    record_event(r);
}

const struct workload workloads[] = {
    {"create", run_create},
    {"commit", run_commit},
    {"grow", run_grow},
    {"threads", run_threads},
    {"seal", run_seal},
    {"reopen", run_reopen},
    {"wide", run_wide},
    {"build", run_build},
    {"failed-sync", run_failed_sync},
    {"embed", run_embed},
    {"store", run_store},
    {"create-store", run_create_store},
    {"repair", run_repair},
    {"backup", run_backup},
    {"rot", run_rot},
};
const size_t n_workloads = sizeof workloads / sizeof workloads[0];
