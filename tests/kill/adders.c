/* Two threads add while a third commits, or one thread does both and has the writer to
 * itself: what a writer of the test does with a filter, in a store or alone. Each add that has finished is published for the readers; each
 * commit's watermark is published before and after. */
#include "tests/kill/kill.h"

#include <pthread.h>
#include <sched.h>

struct adder {
    pthread_t thread;
    struct tamis_writer *w;
    enum mode log;
    uint64_t from, end, rng;
    _Atomic uint64_t added; /* in this session: replay is not done before it is */
};

static void add_one(struct adder *a, uint64_t at)
{
    struct tamis_domain d = the_domain();
    struct tamis_key key = key_at(&d, a->log, at, false);
    must(tamis_writer_add_hashes(a->w, key.tag, &key.hash, 1), "add", NULL);
    atomic_store(&a->added, at + N_ADDERS);
    raise_to(&shared->log[a->log].added[a->from % N_ADDERS], at + N_ADDERS);
}

static void *add(void *arg)
{
    struct adder *a = arg;
    for (uint64_t at = a->from; at < a->end; at += N_ADDERS) {
        add_one(a, at);
        if (rng_below(&a->rng, 256) == 0)
            sched_yield();
    }
    return NULL;
}

static uint64_t least(struct adder *a)
{
    uint64_t n = UINT64_MAX;
    for (size_t i = 0; i < N_ADDERS; i++)
        if (a[i].added < n)
            n = a[i].added;
    return n < a->end ? n : a->end;
}

static void commit(struct tamis_writer *w, struct log *log, uint64_t watermark)
{
    struct tamis_diag diag;
    raise_to(&log->asked, watermark);
    shared->phase = PHASE_COMMIT;
    must(tamis_writer_commit(w, watermark, &diag), "commit", &diag);
    shared->phase = PHASE_ADD;
    raise_to(&log->acked, watermark);
    shared->n_commits++;
}

uint64_t resume_from(struct tamis_writer *w, enum mode which, uint64_t base)
{
    struct log *log = &shared->log[which];
    uint64_t watermark = tamis_writer_watermark(w);
    struct promised_filter p = {.watermark = log->acked > base ? log->acked : 0,
                                .asked = log->asked};
    expect_watermark("the writer", watermark, &p);
    watermark = watermark > base ? watermark : base;
    raise_to(&log->acked, watermark);
    uint64_t seen = log->added[0] < log->added[1] ? log->added[1] : log->added[0];
    shared->ready = 1;
    shared->waiting = 0;
    shared->n_replayed += seen > watermark ? seen - watermark : 0;
    return watermark;
}

void add_and_commit(const struct orders *o, uint64_t *rng, struct tamis_writer *w,
                    enum mode log, uint64_t from, uint64_t end)
{
    struct adder a[N_ADDERS] = {0};
    for (uint64_t i = 0; i < N_ADDERS; i++) {
        uint64_t me = (from + i) % N_ADDERS;
        a[me].w = w;
        a[me].log = log;
        a[me].from = from + i;
        atomic_init(&a[me].added, from + i);
        a[me].end = end;
        a[me].rng = rng_next(rng);
    }
    shared->phase = PHASE_ADD;
    for (size_t i = 0; i < N_ADDERS && !live.alone; i++)
        if (pthread_create(&a[i].thread, NULL, add, &a[i]) != 0)
            lost("no thread");
    uint64_t fork_after = rng_below(rng, 6), n = 0, done = from;
    while (done < end) {
        uint64_t goal = done + 1 + rng_below(rng, 3000);
        for (uint64_t at = done; live.alone && at < goal && at < end; at++)
            add_one(&a[at % N_ADDERS], at);
        while (least(a) < goal && least(a) < end)
            sched_yield();
        done = least(a);
        if (o->child == CHILD_OF_MAIN && n++ == fork_after)
            child_leave(o, true);
        if (done < end)
            commit(w, &shared->log[log], done);
    }
    for (size_t i = 0; i < N_ADDERS && !live.alone; i++)
        pthread_join(a[i].thread, NULL);
}
