/* Hashes to bits, of filters that are larger than a cache.
 *
 * A key goes to a random place of the filter, which would be a cache miss each. So the
 * hashes are partitioned first: each thread reads its slice of them from front to back,
 * collects those of one region in a buffer, and writes full buffers (runs) back to the
 * front of the slice, which it has read by then. A run stays where it is; that it is of
 * this region is noted, and runs are sorted by that. Then regions are shared out among
 * the threads: one takes the runs of all slices for a region, whose bits stay in its
 * cache, and are its alone meanwhile. No atomics, no second copy of the hashes, and all
 * memory is read and written in order.
 *
 * With the last hashes a region is finished: its pages are digested and counted while
 * they are in the cache, and the caller may write them. Hashes are only put in another
 * order: a lane computes its own from them, twice. */
#include "lib/filter/builder.h"

#include <errno.h>
#include <stdlib.h>

enum {
    REGION_BYTES = 256 << 10, /* and a few streams beside it: within any L2 */
    MAX_REGIONS = 2048,
    SMALL_BYTES = 4 << 20,    /* lanes that are not partitioned, by one thread */
    SHARED_BYTES = 1 << 20,   /* and by several */
    BUFFER_BYTES = 512 << 10, /* of all regions: within L2 as well */
    MIN_RUN = 32,
    MAX_RUN = 256,
    LINE_HASHES = 8,
    AHEAD = 2, /* runs */
};

struct slice {
    uint64_t *hashes;
    size_t n, n_runs;  /* the rest, less than a run a region, follows them */
    uint64_t *buffer;  /* a run each region */
    uint32_t *n_rest;  /* what is in it, of each region; then, of the rest, */
    uint32_t *rest;    /* from here on */
    uint32_t *first;   /* place in `runs` of each region's first; one more, the end */
    uint32_t *runs;    /* region by region */
    uint16_t *regions; /* of each run */
};

/* ---- setting up ---- */

static uint64_t lane_bytes(const struct geometry *g)
{
    return g->n_blocks * BLOCK_BYTES;
}

/* A lane that is in a cache anyhow is filled as fast without, but by one thread. */
static bool is_small(const struct geometry *g, unsigned n_threads)
{
    return lane_bytes(g) <= (n_threads > 1 ? SHARED_BYTES : SMALL_BYTES);
}

static void choose_regions(struct filling *f, size_t region_bytes)
{
    f->shift = 6; /* a page of blocks */
    while (((size_t)BLOCK_BYTES << (f->shift + 1)) <= region_bytes)
        f->shift++;
    while (((f->g.n_blocks - 1) >> f->shift) + 1 > MAX_REGIONS)
        f->shift++;
    f->n_regions = (uint32_t)((f->g.n_blocks - 1) >> f->shift) + 1;
    f->run_hashes = MAX_RUN;
    while (f->run_hashes > MIN_RUN &&
           f->run_hashes * sizeof(uint64_t) * f->n_regions > BUFFER_BYTES)
        f->run_hashes /= 2;
}

static bool slice_init(const struct filling *f, struct slice *s, uint64_t n)
{
    size_t regions = f->n_regions, runs = (size_t)(n / f->run_hashes) + 1;
    s->buffer = malloc(regions * f->run_hashes * sizeof *s->buffer);
    s->n_rest = malloc((3 * regions + 1 + runs) * sizeof *s->n_rest);
    s->regions = malloc(runs * sizeof *s->regions);
    if (!s->buffer || !s->n_rest || !s->regions)
        return false;
    s->rest = s->n_rest + regions;
    s->first = s->rest + regions;
    s->runs = s->first + regions + 1;
    return true;
}

static void slices_free(struct filling *f)
{
    for (unsigned i = 0; f->slices && i < team_size(f->team); i++) {
        free(f->slices[i].buffer);
        free(f->slices[i].n_rest);
        free(f->slices[i].regions);
    }
    free(f->slices);
    f->slices = NULL;
}

static void slices_create(struct filling *f, uint64_t n)
{
    unsigned n_slices = team_size(f->team);
    bool good = (f->slices = calloc(n_slices, sizeof *f->slices)) != NULL;
    for (unsigned i = 0; good && i < n_slices; i++)
        good = slice_init(f, &f->slices[i], n / n_slices + 1);
    if (!good)
        slices_free(f); /* slower without, but just as good */
}

int filling_begin(struct filling *f, const struct geometry *g, uint8_t *bits,
                  uint8_t *digests, uint64_t n, unsigned n_threads, size_t region_bytes)
{
    memset(f, 0, sizeof *f);
    f->g = *g;
    f->bits = bits;
    f->digests = digests;
    f->kernel = kernel_get();
    choose_regions(f, region_bytes ? region_bytes : REGION_BYTES);
    f->finished = calloc((size_t)f->n_regions * g->lanes, sizeof *f->finished);
    if (!f->finished)
        return ENOMEM;
    if (n > 0 && (region_bytes ? f->n_regions > 1 : !is_small(g, n_threads))) {
        f->team = team_start(n_threads);
        slices_create(f, n);
    }
    return 0;
}

void filling_end(struct filling *f)
{
    slices_free(f);
    team_end(f->team);
    free(f->finished);
}

/* ---- partition ---- */

static inline uint64_t lane_hash(uint64_t h, uint32_t lane)
{
    for (; lane > 0; lane--)
        h = geometry_next_lane(h);
    return h;
}

/* What is left in the buffers goes behind the runs, region by region. */
static void put_rest(const struct filling *f, struct slice *s)
{
    uint64_t *to = s->hashes + s->n_runs * f->run_hashes;
    uint32_t at = 0;
    for (uint32_t r = 0; r < f->n_regions; r++) {
        memcpy(to + at, s->buffer + (size_t)r * f->run_hashes,
               s->n_rest[r] * sizeof *to);
        s->rest[r] = at;
        at += s->n_rest[r];
    }
}

/* By counting. */
static void sort_runs(const struct filling *f, struct slice *s)
{
    uint32_t at = 0;
    memset(s->first, 0, (f->n_regions + 1) * sizeof *s->first);
    for (size_t i = 0; i < s->n_runs; i++)
        s->first[s->regions[i]]++;
    for (uint32_t r = 0; r <= f->n_regions; r++) {
        uint32_t n = s->first[r];
        s->first[r] = at;
        at += n;
    }
    for (size_t i = 0; i < s->n_runs; i++)
        s->runs[s->first[s->regions[i]]++] = (uint32_t)i;
    /* Each has moved to where the next one began. */
    memmove(s->first + 1, s->first, f->n_regions * sizeof *s->first);
    s->first[0] = 0;
}

static void partition(void *ctx, unsigned number)
{
    const struct filling *f = ctx;
    struct slice *s = &f->slices[number];
    const uint32_t lane = f->lane, shift = f->shift, run = f->run_hashes;
    const uint64_t n_blocks = f->g.n_blocks;
    uint64_t *hashes = s->hashes, *buffer = s->buffer;
    uint32_t *n_buffered = s->n_rest;
    size_t n_runs = 0;
    memset(n_buffered, 0, f->n_regions * sizeof *n_buffered);
    for (size_t i = 0; i < s->n; i++) {
        uint64_t h = hashes[i];
        size_t r = geometry_block(lane_hash(h, lane), n_blocks) >> shift;
        uint32_t k = n_buffered[r];
        buffer[r * run + k] = h;
        if (++k == run) {
            /* As many hashes as were read are in runs and buffers: there is room. */
            memcpy(hashes + n_runs * run, buffer + r * run, run * sizeof *hashes);
            s->regions[n_runs++] = (uint16_t)r;
            k = 0;
        }
        n_buffered[r] = k;
    }
    s->n_runs = n_runs;
    put_rest(f, s);
    sort_runs(f, s);
}

/* ---- adding ---- */

static void add_run(const struct filling *f, const uint64_t *hashes, size_t n)
{
    uint8_t *bits = f->bits + f->lane * lane_bytes(&f->g);
    uint64_t of_lane[MAX_RUN];
    if (f->lane == 0) {
        f->kernel->fill(bits, f->g.n_blocks, f->g.words, hashes, n);
        return;
    }
    for (size_t done = 0; done < n; done += MAX_RUN) {
        size_t some = n - done < MAX_RUN ? n - done : MAX_RUN;
        for (size_t i = 0; i < some; i++)
            of_lane[i] = lane_hash(hashes[done + i], f->lane);
        f->kernel->fill(bits, f->g.n_blocks, f->g.words, of_lane, some);
    }
}

static void add_of_slice(const struct filling *f, const struct slice *s, uint32_t r)
{
    const uint32_t run = f->run_hashes;
    const uint32_t end = s->first[r + 1];
    for (uint32_t i = s->first[r]; i < end; i++) {
        /* They are here and there, and the processor does not foresee where. */
        for (uint32_t k = 0; i + AHEAD < end && k < run; k += LINE_HASHES)
            __builtin_prefetch(s->hashes + (size_t)s->runs[i + AHEAD] * run + k);
        add_run(f, s->hashes + (size_t)s->runs[i] * run, run);
    }
    add_run(f, s->hashes + s->n_runs * run + s->rest[r], s->n_rest[r]);
}

/* ---- finishing ---- */

/* Where region r of a lane begins, n_regions: where the lane ends. */
static uint64_t region_offset(const struct filling *f, uint32_t lane, uint32_t r)
{
    uint64_t block = (uint64_t)r << f->shift;
    block = block < f->g.n_blocks ? block : f->g.n_blocks;
    return (lane * f->g.n_blocks + block) * BLOCK_BYTES;
}

static void finish_region(struct filling *f, uint32_t r)
{
    uint64_t from = region_offset(f, f->lane, r), n_set = 0;
    uint64_t to = region_offset(f, f->lane, r + 1);
    for (uint64_t at = from; at < to; at += PAGE_BYTES) {
        struct le64 d = le64_of(page_digest(f->bits + at));
        memcpy(f->digests + at / PAGE_BYTES * DIGEST_BYTES, &d, sizeof d);
        n_set += page_count(f->bits + at);
    }
    atomic_fetch_add_explicit(&f->bits_set, n_set, memory_order_relaxed);
    atomic_store_explicit(&f->finished[f->lane * f->n_regions + r], 1,
                          memory_order_release);
}

uint64_t filling_finished(struct filling *f)
{
    while (f->n_finished < f->n_regions * f->g.lanes &&
           atomic_load_explicit(&f->finished[f->n_finished], memory_order_acquire))
        f->n_finished++;
    return region_offset(f, f->n_finished / f->n_regions, f->n_finished % f->n_regions);
}

static void fill_regions(void *ctx, unsigned number)
{
    struct filling *f = ctx;
    while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
        uint32_t r = atomic_fetch_add_explicit(&f->next, 1, memory_order_relaxed);
        if (r >= f->n_regions)
            break;
        for (unsigned i = 0; f->slices && i < team_size(f->team); i++)
            add_of_slice(f, &f->slices[i], r);
        if (!f->is_last)
            continue;
        finish_region(f, r);
        if (number == 0 && f->between)
            f->error = f->between(f->ctx);
        if (number == 0 && f->error)
            atomic_store_explicit(&f->stop, true, memory_order_relaxed);
    }
}

/* ---- all of it ---- */

static void cut_slices(struct filling *f, uint64_t *hashes, size_t n)
{
    unsigned n_slices = team_size(f->team);
    for (unsigned i = 0; i < n_slices; i++) {
        size_t here = n / (n_slices - i);
        f->slices[i].hashes = hashes;
        f->slices[i].n = here;
        hashes += here;
        n -= here;
    }
}

int filling_add(struct filling *f, uint64_t *hashes, size_t n, bool is_last)
{
    f->is_last = is_last;
    for (f->lane = 0; f->lane < f->g.lanes && !f->error; f->lane++) {
        if (f->slices) {
            cut_slices(f, hashes, n);
            team_run(f->team, partition, f);
        } else {
            add_run(f, hashes, n);
        }
        atomic_store(&f->next, 0);
        if (f->slices || is_last)
            team_run(f->team, fill_regions, f);
    }
    return f->error;
}

uint64_t filling_memory(const struct geometry *g, unsigned n_threads)
{
    if (is_small(g, n_threads))
        return 0;
    return (uint64_t)n_threads * (BUFFER_BYTES + 3 * MAX_REGIONS * sizeof(uint32_t));
}
