/* Growth: a new stage's place, its space, and the commit that makes it part of the
 * filter before any key goes into it (R1, R2, R10). */
#include "lib/writer/inside.h"
#include "lib/plan/plan.h"
#include "lib/sync_point.h"

int stage_plan(const struct tamis_growth *growth, uint32_t i, uint64_t end,
               struct stage_desc *d)
{
    double expected;
    memset(d, 0, sizeof *d);
    growth_stage(growth, i, &d->capacity, &d->target_error);
    int err =
        plan_stage_geometry(d->capacity, d->target_error, &d->geometry, &expected);
    if (err)
        return err;
    d->layout = LAYOUT_SPLIT_BLOCKS;
    if (!geometry_stage_bytes(&d->geometry, &d->length))
        return TAMIS_ERR_TOO_LARGE;
    uint64_t floors = floors_bytes(d->length / PAGE_BYTES), stage_end;
    if (!align_up_u64(end, PAGE_BYTES, &d->offset) ||
        !add_u64(d->offset, d->length, &d->floors_offset) ||
        !add_u64(d->floors_offset, floors, &stage_end) || stage_end > INT64_MAX)
        return TAMIS_ERR_TOO_LARGE;
    return 0;
}

static int write_first_floors(int fd, const struct identity *id,
                              const struct stage_desc *d)
{
    uint64_t n = floors_bytes(d->length / PAGE_BYTES);
    uint8_t page[PAGE_BYTES];
    for (uint64_t at = 0; at < n; at += sizeof page) {
        memset(page, 0, sizeof page);
        for (size_t i = 0; i < sizeof page; i += SECTOR_BYTES) {
            struct floor_sector_disk *s = (void *)(page + i);
            floor_sector_seal(s, id->uuid, d->floors_offset + at + i);
        }
        int err = io_write(fd, page, sizeof page, d->floors_offset + at);
        if (err)
            return err;
    }
    return 0;
}

/* Allocates, and does not write: bytes written in one go lie in the page cache in large
 * folios, and one dirty page makes its whole folio dirty. With writing, a commit with
 * one dirty page in 64 took 24 ms instead of 3. */
int stage_allocate(int fd, const struct identity *id, const struct stage_desc *d)
{
    uint64_t floors = floors_bytes(d->length / PAGE_BYTES);
    int err = io_allocate(fd, d->offset, d->length + floors);
    return err ? err : write_first_floors(fd, id, d);
}

/* Appends a stage after everything that the file has: space that a dead writer
 * allocated but never committed stays unused, since it may not be zero. On a full disk
 * (ENOSPC) nothing is appended, and the last stage goes on taking keys. */
static int append_stage(struct tamis_writer *w, struct commit *c,
                        struct writer_stage **s)
{
    struct stage_desc *d = &c->stages[c->n_stages];
    uint64_t end;
    int err = io_size(w->guard.fd, &end);
    if (err)
        return err;
    end = end > c->committed_bytes ? end : c->committed_bytes;
    err = stage_plan(&w->growth, c->n_stages, end, d);
    if (!err)
        err = stage_allocate(w->guard.fd, &w->identity, d);
    uint64_t all = d->floors_offset + floors_bytes(d->length / PAGE_BYTES);
    if (!err) {
        writer_settle(w, c, &all); /* those that were left before */
        err = writer_sync(w);      /* R1: durable before it is mapped */
        if (err)
            return writer_poison(w, err, "syncing a new stage", NULL);
        err = writer_stage_create(w, c, c->n_stages, true, s);
    }
    if (err) {
        /* No slot names it: nobody can have seen it. */
        io_calls.ftruncate(w->guard.fd, (off_t)end);
        return err;
    }
    c->committed_bytes = all;
    c->n_stages++;
    c->generation++;
    return 0;
}

static int grow_locked(struct tamis_writer *w)
{
    uint32_t n = w->commit.n_stages;
    struct writer_stage *fresh = NULL;
    struct commit c;
    int err = writer_check_lost(w, NULL);
    if (err)
        return err;
    if (atomic_load(&w->state) != WRITER_OPEN || n == MAX_STAGES ||
        stage_bits_now(w->stages[n - 1]) < w->stages[n - 1]->n_full_bits)
        return 0; /* someone else has grown it, or nobody can */
    writer_next_record(w, &c);
    err = append_stage(w, &c, &fresh);
    if (err)
        return err;
    err = writer_write_record(w, &c, true, NULL);
    if (err) {
        writer_stage_free(fresh);
        return err;
    }
    SYNC_POINT("grow: record written");
    writer_stage_use(w, n, fresh);
    atomic_store(&w->n_stages, n + 1);
    settle_note(w); /* R17: after it, and before any commit */
    w->hook_due = writer_changed(w, NULL) != 0;
    return 0;
}

int writer_grow(struct tamis_writer *w)
{
    if (mutex_is_mine(w))
        return 0;
    writer_lock(w);
    int err = grow_locked(w);
    if (err && atomic_load(&w->state) == WRITER_OPEN)
        atomic_store(&w->grow_failed, true);
    writer_unlock(w);
    return err;
}

/* Call it outside the section that a sealer waits for, as growing takes the mutex. A
 * stage that can't grow takes the keys all the same. ERR_POISONED: keys that met a lost
 * page, or a page that could not be condemned, are not in. */
int writer_after_some(struct tamis_writer *w, bool full)
{
    if (writer_is_broken(w))
        return TAMIS_ERR_POISONED;
    if (full) {
        SYNC_POINT("add: stage full");
        writer_grow(w);
    }
    return 0;
}
