/* The calls of a writer of one filter, and their promises: for the workloads, and for
 * the writer that opens a state. */
#include "tests/crash/check.h"

static bool sync_has_failed(const struct run *r)
{
    return r->is_killed || (r->disk.n_files && r->disk.files[0].has_lied);
}

void session_add(struct run *r, size_t position)
{
    if (position >= r->promise.n_keys)
        r->promise.n_keys = position + 1;
    int err =
        tamis_writer_add_hashes(r->w, r->promise.tag, &r->promise.keys[position], 1);
    helper_join(r);
    if (err && err != TAMIS_ERR_POISONED)
        run_fail(r, "add: %s", tamis_strerror(err));
    if (recording == r)
        record_event(r);
}

void session_commit(struct run *r)
{
    struct promise *p = &r->promise;
    struct tamis_diag diag;
    uint64_t watermark = p->n_keys;
    if (watermark > p->asked)
        p->asked = watermark;
    int err = tamis_writer_commit(r->w, watermark, &diag);
    helper_join(r);
    if (!err)
        p->watermark = watermark;
    else if (!sync_has_failed(r))
        run_fail(r, "commit: %s", diag.what);
    if (recording == r)
        record_event(r);
}

void session_close(struct run *r)
{
    struct tamis_writer *w = r->w;
    helper_join(r);
    int err = tamis_writer_close(w);
    record_unmapped(r);
    r->w = NULL;
    if (err && err != TAMIS_ERR_POISONED && !sync_has_failed(r))
        run_fail(r, "close: %s", tamis_strerror(err));
    if (recording == r)
        record_event(r);
}

void session_kill(struct run *r)
{
    helper_join(r);
    atomic_store(&r->w->state, WRITER_POISONED); /* which writes nothing more */
    session_close(r);
    r->is_killed = false;
}

/* At a sync the page cache has what was written, the disk has not: to the disk, a sync
 * that was not made; to the writer, one that failed, after which it writes nothing. */
void session_kill_in_commit(struct run *r, unsigned at_sync)
{
    r->die_sync = at_sync;
    session_commit(r);
    r->die_sync = 0;
    session_kill(r);
}

void session_seal(struct run *r)
{
    struct promise *p = &r->promise;
    struct tamis_diag diag;
    uint64_t watermark = p->n_keys, n_damaged;
    p->asked = watermark;
    int err = tamis_writer_seal(r->w, watermark, &n_damaged, &diag);
    helper_join(r);
    if (err || n_damaged != (p->lost_page != 0))
        run_fail(r, "seal: %s, %llu pages damaged", err ? diag.what : "done",
                 (unsigned long long)n_damaged);
    p->watermark = watermark;
    p->sealed = true;
    if (recording == r)
        record_event(r);
}

/* Replays in the log's order or, as an engine with many threads might, in another. */
static void replay(struct run *r, uint64_t from)
{
    uint64_t n = r->promise.n_keys - from;
    if (recording != r && n > 64) { /* nobody looks at the single adds */
        int err = tamis_writer_add_hashes(r->w, r->promise.tag, r->promise.keys + from,
                                          (size_t)n);
        if (err)
            run_fail(r, "add: %s", tamis_strerror(err));
        return;
    }
    if (rng_below(&r->rng, 4)) {
        for (uint64_t i = 0; i < n; i++)
            session_add(r, (size_t)(from + i));
    } else {
        session_add(r, r->promise.n_keys);
        for (uint64_t i = n; i-- > 0;)
            session_add(r, (size_t)(from + i));
    }
}

/* Bytes that a growth or a seal has left behind the stages when it was cut may not be
 * zero: bits there would be taken for keys. New stages come after it (R10). */
static void expect_fresh_stages(const struct run *r, uint32_t n_before,
                                uint64_t file_bytes)
{
    const struct commit *c = &r->w->commit;
    for (uint32_t i = n_before; i < c->n_stages; i++)
        if (c->stages[i].offset < file_bytes)
            run_fail(r, "stage %u begins at byte %llu, the file had %llu", i,
                     (unsigned long long)c->stages[i].offset,
                     (unsigned long long)file_bytes);
}

void session(struct run *r, struct tamis_filter *f, bool may_seal)
{
    struct promise *p = &r->promise;
    uint64_t file_bytes;
    struct tamis_writer *w;
    struct tamis_diag diag;
    if (tamis_writer_open(r->path, &w, &diag) != 0)
        run_fail(r, "no writer opens it: %s", diag.what);
    r->w = w;
    if (tamis_writer_watermark(w) % 2 && tamis_writer_one_thread(w) != 0)
        run_fail(r, "the writer has another thread");
    uint32_t n_before = w->commit.n_stages;
    if (io_size(w->guard.fd, &file_bytes))
        run_fail(r, "the filter has no size");
    uint64_t watermark = tamis_writer_watermark(w);
    if (watermark < p->watermark || watermark > p->asked)
        run_fail(r, "the writer reports watermark %llu, promised was %llu, asked %llu",
                 (unsigned long long)watermark, (unsigned long long)p->watermark,
                 (unsigned long long)p->asked);
    p->watermark = watermark;
    if (recording == r)
        record_event(r);
    if (f)
        expect_log(r, f, (size_t)watermark);
    replay(r, watermark);
    uint64_t more = rng_below(&r->rng, 2) * rng_below(&r->rng, 4);
    for (; more > 0 && p->n_keys < MAX_KEYS; more--)
        session_add(r, p->n_keys);
    session_commit(r);
    if (f)
        expect_log(r, f, p->n_keys);
    expect_fresh_stages(r, n_before, file_bytes);
    uint64_t end = rng_below(&r->rng, 8);
    if (end == 0 && may_seal)
        session_seal(r);
    if (end < 4)
        session_close(r);
    else
        session_kill(r);
}
