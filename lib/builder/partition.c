/* Hashes of a filter that is larger than a cache, sorted by where they go.
 *
 * A key goes to a random place of the filter, which would be a cache miss each. So the
 * hashes are partitioned first: each thread reads its slice of them from front to back,
 * collects those of one region in a buffer, and writes full buffers (runs) back to the
 * front of the slice, which it has read by then. A run stays where it is; that it is of
 * this region is noted, and runs are sorted by that. No second copy of the hashes, and
 * all memory is read and written in order. They are only put in another order: a lane
 * computes its own from them, here and when it is filled. */
#include "lib/builder/inside.h"

enum { LINE_HASHES = 8, AHEAD = 2 /* runs */ };

struct partition_slice {
    uint64_t *hashes;
    size_t n, n_runs;  /* the rest, less than a run a region, follows them */
    uint64_t *buffer;  /* a run each region */
    uint64_t **ends;   /* of what is in it, of each region */
    uint32_t *n_rest;  /* of each region in the rest, */
    uint32_t *rest;    /* from here on */
    uint32_t *first;   /* place in `runs` of each region's first; one more, the end */
    uint32_t *runs;    /* region by region */
    uint16_t *regions; /* of each run */
};

/* ---- memory ---- */

static bool slice_init(const struct fill *f, struct partition_slice *s, uint64_t n)
{
    size_t regions = f->n_regions, runs = (size_t)(n / f->run_hashes) + 1;
    size_t run_bytes = f->run_hashes * sizeof *s->buffer;
    s->buffer = aligned_alloc(run_bytes, regions * run_bytes);
    s->ends = malloc(regions * sizeof *s->ends);
    s->n_rest = malloc((3 * regions + 1 + runs) * sizeof *s->n_rest);
    s->regions = malloc(runs * sizeof *s->regions);
    if (!s->buffer || !s->ends || !s->n_rest || !s->regions)
        return false;
    s->rest = s->n_rest + regions;
    s->first = s->rest + regions;
    s->runs = s->first + regions + 1;
    return true;
}

void slices_free(struct fill *f)
{
    for (unsigned i = 0; f->slices && i < threads_size(f->threads); i++) {
        free(f->slices[i].buffer);
        free(f->slices[i].ends);
        free(f->slices[i].n_rest);
        free(f->slices[i].regions);
    }
    free(f->slices);
    f->slices = NULL;
}

void slices_create(struct fill *f, uint64_t n)
{
    unsigned n_slices = threads_size(f->threads);
    bool good = (f->slices = calloc(n_slices, sizeof *f->slices)) != NULL;
    for (unsigned i = 0; good && i < n_slices; i++)
        good = slice_init(f, &f->slices[i], n / n_slices + 1);
    if (!good)
        slices_free(f);
}

/* ---- partition ---- */

/* Appends the rest of each buffer to the runs, region by region. */
static void put_rest(const struct fill *f, struct partition_slice *s)
{
    uint64_t *to = s->hashes + s->n_runs * f->run_hashes;
    uint32_t at = 0;
    for (uint32_t r = 0; r < f->n_regions; r++) {
        const uint64_t *from = s->buffer + (size_t)r * f->run_hashes;
        s->n_rest[r] = (uint32_t)(s->ends[r] - from);
        memcpy(to + at, from, s->n_rest[r] * sizeof *to);
        s->rest[r] = at;
        at += s->n_rest[r];
    }
}

/* Sorts runs by region, by counting. */
static void sort_runs(const struct fill *f, struct partition_slice *s)
{
    memset(s->first, 0, (f->n_regions + 1) * sizeof *s->first);
    for (size_t i = 0; i < s->n_runs; i++)
        s->first[s->regions[i]]++;
    counts_to_starts(s->first, f->n_regions + 1);
    for (size_t i = 0; i < s->n_runs; i++)
        s->runs[s->first[s->regions[i]]++] = (uint32_t)i;
    /* Each has moved to where the next one began. */
    memmove(s->first + 1, s->first, f->n_regions * sizeof *s->first);
    s->first[0] = 0;
}

/* Hashes to runs. A buffer's length in bytes is a power of two, and it lies at a
 * multiple of that: an end that is one too is that of a full one. Inlined by force, for
 * lane 0 by itself: it is most of the work, and its hashes are there already. */
__attribute__((always_inline)) static inline void
make_runs(const struct fill *f, struct partition_slice *s, uint32_t lane)
{
    const uint32_t shift = f->shift, run = f->run_hashes;
    const uint64_t n_blocks = f->g.n_blocks;
    const uintptr_t in_run = run * sizeof(uint64_t) - 1;
    uint64_t *const hashes = s->hashes, **const ends = s->ends;
    uint64_t *to = hashes; /* as many as were read are in buffers and before it: room */
    uint16_t *region = s->regions;
    for (uint64_t *from = hashes, *const last = from + s->n; from < last; from++) {
        size_t r = geometry_block(fill_hash(*from, lane), n_blocks) >> shift;
        uint64_t *end = ends[r];
        *end++ = *from;
        if (__builtin_expect(((uintptr_t)end & in_run) == 0, 0)) {
            end -= run;
            memcpy(to, end, run * sizeof *to);
            to += run;
            *region++ = (uint16_t)r;
        }
        ends[r] = end;
    }
    s->n_runs = (size_t)(region - s->regions);
}

static void partition(void *ctx, unsigned number)
{
    const struct fill *f = ctx;
    struct partition_slice *s = &f->slices[number];
    for (uint32_t r = 0; r < f->n_regions; r++)
        s->ends[r] = s->buffer + (size_t)r * f->run_hashes;
    if (f->lane == 0)
        make_runs(f, s, 0);
    else
        make_runs(f, s, f->lane);
    put_rest(f, s);
    sort_runs(f, s);
}

void slices_partition(struct fill *f, uint64_t *hashes, size_t n)
{
    unsigned n_slices = threads_size(f->threads);
    for (unsigned i = 0; i < n_slices; i++) {
        size_t here = n / (n_slices - i);
        f->slices[i].hashes = hashes;
        f->slices[i].n = here;
        hashes += here;
        n -= here;
    }
    threads_run(f->threads, partition, f);
}

/* ---- region by region ---- */

static void each_run(struct fill *f, const struct partition_slice *s, uint32_t r,
                     fill_fn *fn)
{
    const uint32_t run = f->run_hashes;
    const uint32_t end = s->first[r + 1];
    for (uint32_t i = s->first[r]; i < end; i++) {
        /* They are here and there, and the processor does not foresee where. */
        for (uint32_t k = 0; i + AHEAD < end && k < run; k += LINE_HASHES)
            __builtin_prefetch(s->hashes + (size_t)s->runs[i + AHEAD] * run + k);
        fn(f, s->hashes + (size_t)s->runs[i] * run, run);
    }
    fn(f, s->hashes + s->n_runs * run + s->rest[r], s->n_rest[r]);
}

void slices_each(struct fill *f, uint32_t r, fill_fn *fn)
{
    for (unsigned i = 0; i < threads_size(f->threads); i++)
        each_run(f, &f->slices[i], r, fn);
}
