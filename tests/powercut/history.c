/* Moments of a run. */
#include "tests/powercut/history.h"

#include <sys/mman.h>

struct history *history_create(uint64_t seed)
{
    struct history *h = memory_shared(sizeof *h);
    h->seed = seed;
    h->rng.state = mix64(seed, 1);
    h->n_moments = 1; /* nothing is promised of an empty disk */
    return h;
}

void history_free(struct history *h)
{
    munmap(h, sizeof *h);
}

/* Of moments between which nothing has reached the disk, the last is enough. */
void history_note(struct history *h)
{
    uint64_t at = atomic_load(&h->device->n_entries);
    if (h->moment[h->n_moments - 1].at != at)
        h->n_moments++;
    if (h->n_moments > MAX_MOMENTS)
        host_fail("too many moments");
    struct moment *m = &h->moment[h->n_moments - 1];
    m->at = at;
    m->n_unsynced = h->n_unsynced;
    m->promises = h->now;
}

const struct moment *history_at(const struct history *h, uint64_t cut)
{
    size_t n = 1;
    while (n < h->n_moments && h->moment[n].at <= cut)
        n++;
    return &h->moment[n - 1];
}
