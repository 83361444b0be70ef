/* Seal (R11): stop the adds, check every page against its floors, digest it, and
 * close the filter for ever. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <sched.h>

static void stop_adds(struct tamis_writer *w)
{
    atomic_store(&w->state, WRITER_SEALING);
    SYNC_POINT("seal: adds are told");
    for (size_t i = 0; i < N_STRIPES; i++)
        while (atomic_load(&w->in_flight[i].n) & 1)
            sched_yield();
    for (size_t i = N_STRIPES; i < N_STRIPES + N_SHARED; i++)
        while (atomic_load(&w->in_flight[i].n))
            sched_yield();
}

/* A settled stage is checked by its digests, and digested anew: a page that fails now
 * is all ones, and good, in the sealed filter. */
static int seal_stage(struct tamis_writer *w, struct commit *c, uint32_t i,
                      uint64_t *end, uint64_t *n_damaged)
{
    struct settled settled;
    if (i >= w->commit.n_settled)
        return writer_digest_stage(w, &c->stages[i], w->stages[i], NULL, end,
                                   n_damaged);
    int err = settled_open(w, i, &settled);
    if (err)
        return err;
    err = writer_digest_stage(w, &c->stages[i], w->stages[i], &settled.stage, end,
                              n_damaged);
    settled_close(&settled);
    return err;
}

static int seal_locked(struct tamis_writer *w, uint64_t watermark, uint64_t *n_damaged,
                       struct tamis_diag *diag)
{
    struct commit c;
    uint64_t before, end;
    writer_next_record(w, &c);
    int err = io_size(w->guard.fd, &before);
    if (err)
        return diag_errno(diag, err, w->path, "writing digests");
    if (!align_up_u64(before, PAGE_BYTES, &end))
        err = EFBIG;
    uint64_t first = end;
    for (uint32_t i = 0; i < c.n_stages && !err; i++)
        err = seal_stage(w, &c, i, &end, n_damaged);
    if (err) { /* no slot names the digests: the filter is open as before */
        io_calls.ftruncate(w->guard.fd, (off_t)before);
        return diag_errno(diag, err, w->path, "writing digests");
    }
    err = writer_sync(w);
    if (err)
        return writer_poison(w, err, "syncing keys and digests", diag);
    if (end != first) /* else the file may well end before `end` */
        c.committed_bytes = end;
    c.watermark = watermark;
    c.state = STATE_SEALED;
    c.n_settled = 0;
    c.clean = 1;
    c.generation++;
    return writer_write_record(w, &c, true, diag);
}

int tamis_writer_seal(struct tamis_writer *w, uint64_t watermark, uint64_t *n_damaged,
                      struct tamis_diag *diag)
{
    uint64_t ours = 0;
    diag_clear(diag);
    if (n_damaged)
        *n_damaged = 0;
    int err = call_may_begin(w);
    if (err)
        return diag_own(diag, err, w->path);
    writer_lock(w);
    uint32_t state = atomic_load(&w->state);
    if (state == WRITER_OPEN && atomic_load(&w->lost))
        state = WRITER_POISONED;
    if (state != WRITER_OPEN)
        err = state == WRITER_POISONED ? TAMIS_ERR_POISONED : TAMIS_ERR_SEALED;
    else if (watermark < w->commit.watermark)
        err = TAMIS_ERR_RANGE;
    if (err) {
        writer_unlock(w);
        return diag_own(diag, err, w->path);
    }
    stop_adds(w);
    err = seal_locked(w, watermark, &ours, diag);
    if (!err)
        atomic_store(&w->state, WRITER_SEALED);
    else if (atomic_load(&w->state) == WRITER_SEALING)
        atomic_store(&w->state, WRITER_OPEN);
    if (!err)
        err = writer_acknowledge(w, diag);
    if (!err)
        err = writer_changed(w, diag);
    writer_unlock(w);
    if (n_damaged && !err)
        *n_damaged = ours;
    return err;
}
