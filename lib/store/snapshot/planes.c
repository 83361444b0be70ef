/* Planes: the bits of all loose segments, dense, for probes that go over many; and
 * when these bits alone decide.
 *
 *     state    | epoch          | ready: a bit for each of 32 segments |
 *
 * A plane is ready when nothing is left to be asked but its bits: a careful probe has
 * opened the filter, it is sealed for good, one stage, and every page of it was found
 * good. The plane stays ready while the entry holds the filter, in every snapshot that
 * shares the entry, unless a later scrub (tamis_filter_verify()) finds a page rotten.
 * Then stage_epoch() grows, nothing is ready any more in any snapshot, and each plane
 * must be found ready anew.
 *
 * Warning: a thread reads the state, then the epoch, then gathers its evidence, and
 * exchanges the state only if it is still the same. So a bit never says more than was
 * found in its own epoch, whichever threads meet here, and none of them waits. */
#include "lib/store/snapshot/snapshot.h"

int planes_make(struct tamis_snapshot *s)
{
    struct planes *p = &s->planes;
    size_t n = s->n_loose + 8; /* outside_ends() may read 7 beyond */
    p->kernel = kernel_get();
    p->plane = calloc(n, sizeof *p->plane);
    p->room = calloc(s->n_loose + 2, sizeof *p->watched);
    p->first = calloc(n, sizeof *p->first);
    p->last = malloc(n * sizeof *p->last);
    p->state = calloc(n / 32 + 4, sizeof *p->state); /* read 64 segments at a time */
    p->written = calloc(n / 32 + 1, sizeof *p->written);
    if (!p->plane || !p->room || !p->first || !p->last || !p->state || !p->written)
        return ENOMEM;
    s->watch.answer = p->kernel->answer_while;
    p->watched = (void *)((uintptr_t)p->room + -(uintptr_t)p->room % 64);
    for (size_t i = 0; i < s->n_loose; i++) {
        const struct entry *e = s->entries[i];
        p->any_range |= e->has_range && e->state == RECORD_SEALED;
        atomic_init(&p->last[i], UINT64_MAX);
        planes_offer(s, i); /* another snapshot may have opened it long ago */
    }
    return 0;
}

void planes_free(struct planes *p)
{
    free(p->plane);
    free(p->room);
    free(p->first);
    free(p->last);
    free(p->state);
    free(p->written);
    *p = (struct planes){0};
}

/* Call it once the file was opened, and is the one that the record means: so the range
 * counts, for ever. Until then a segment has the widest range. */
static void heed_range(struct planes *p, const struct entry *e, size_t index)
{
    if (!e->has_range || e->state != RECORD_SEALED || range_end(p->first, index) ||
        range_end(p->last, index) != UINT64_MAX)
        return;
    struct piece first = entry_first(e), last = entry_last(e);
    atomic_store_explicit(&p->first[index], key_prefix(first.at, first.n),
                          memory_order_relaxed);
    atomic_store_explicit(&p->last[index], key_prefix(last.at, last.n),
                          memory_order_relaxed);
}

/* Writes the plane once, n_blocks last: readers of an earlier epoch may be looking.
 * False: another thread is writing it. After a fork in between, or a jump out of a
 * probe, it is never written, which costs time and no answer. */
static bool write_once(struct planes *p, size_t index, const struct plane *plane)
{
    struct plane *to = &p->plane[index];
    uint32_t bit = UINT32_C(1) << index % 32;
    if (__atomic_load_n(&to->n_blocks, __ATOMIC_ACQUIRE))
        return true;
    if (atomic_fetch_or(&p->written[index / 32], bit) & bit)
        return false;
    struct watched_plane *w = &p->watched[index + 1];
    w->plane = *plane;
    w->first = range_end(p->first, index);
    w->last = range_end(p->last, index);
    to->bits = plane->bits;
    to->lanes = plane->lanes;
    to->words = plane->words;
    to->ring = plane->ring;
    __atomic_store_n(&to->n_blocks, plane->n_blocks, __ATOMIC_RELEASE);
    return true;
}

void planes_offer(struct tamis_snapshot *s, size_t index)
{
    enum { TRIES = 4 };
    struct planes *p = &s->planes;
    const struct entry *e = s->entries[index];
    uint64_t bit = UINT64_C(1) << index % 32;
    struct plane plane;
    struct tamis_filter *f = atomic_load_explicit(&e->filter, memory_order_acquire);
    if (!f || planes_are_ready(p, index, stage_epoch()) & 1)
        return;
    heed_range(p, e, index);
    for (int i = 0; i < TRIES; i++) {
        uint64_t seen = atomic_load(&p->state[index / 32]), epoch = stage_epoch();
        if (!filter_plane(f, s->domain.tag, e->watermark, &plane) ||
            !write_once(p, index, &plane))
            return;
        uint64_t ready = planes_of_epoch(seen, epoch) | bit;
        if (atomic_compare_exchange_strong(&p->state[index / 32], &seen,
                                           epoch << 32 | ready))
            return;
    }
}
