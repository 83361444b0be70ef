/* Hashes to bits, which are made in private memory.
 *
 * They fall into regions that a cache holds, lane by lane. When the hashes have been
 * partitioned, regions are shared out among the threads: one takes the runs of all
 * slices for a region, whose bits stay in its cache, and are its alone meanwhile: no
 * atomics. With the last hashes a region is finished: its pages are digested and
 * counted while they are there, and the caller may write them. A checked builder then
 * asks the region for its hashes. It asks after the digests are made: a bit that is
 * lost before them is seen here, and one that is lost later fails its page's digest. */
#include "lib/builder/inside.h"

enum {
    REGION_BYTES = 256 << 10, /* and a few streams beside it: within any L2 */
    MAX_REGIONS = 2048,
    SMALL_BYTES = 4 << 20,    /* lanes that are not partitioned, by one thread */
    SHARED_BYTES = 1 << 20,   /* and by several */
    BUFFER_BYTES = 512 << 10, /* of all regions: within L2 as well */
    MIN_RUN = 32,
    MAX_RUN = 256,
};

/* The steps of a region; of a whole lane, where there are no slices. */
enum { STEP_PUT = 1, STEP_FINISH = 2, STEP_ASK = 4 };

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

void fill_choose_regions(struct fill *f, size_t region_bytes)
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

int fill_begin(struct fill *f, const struct geometry *g, uint8_t *bits,
               uint8_t *digests, uint64_t n, unsigned n_threads, size_t region_bytes)
{
    memset(f, 0, sizeof *f);
    f->g = *g;
    f->bits = bits;
    f->digests = digests;
    f->kernel = kernel_get();
    fill_choose_regions(f, region_bytes ? region_bytes : REGION_BYTES);
    f->finished = calloc((size_t)f->n_regions * g->lanes, sizeof *f->finished);
    if (!f->finished)
        return ENOMEM;
    /* Regions are shared out among threads if they have no page in common. */
    bool apart = g->n_blocks % BLOCKS_PER_PAGE == 0;
    if (n > 0 && apart && (region_bytes ? f->n_regions > 1 : !is_small(g, n_threads))) {
        f->threads = threads_start(n_threads, false);
        slices_create(f, n);
    }
    return 0;
}

void fill_end(struct fill *f)
{
    slices_free(f);
    threads_end(f->threads);
    free(f->finished);
}

/* ---- adding and asking ---- */

/* Hashes as the lane at work has them: themselves, or at most MAX_RUN in `room`. */
static const uint64_t *of_lane(const struct fill *f, const uint64_t *hashes, size_t n,
                               uint64_t *room)
{
    if (f->lane == 0)
        return hashes;
    for (size_t i = 0; i < n; i++)
        room[i] = fill_hash(hashes[i], f->lane);
    return room;
}

static void put(struct fill *f, const uint64_t *hashes, size_t n)
{
    uint8_t *bits = f->bits + f->lane * lane_bytes(&f->g);
    uint64_t room[MAX_RUN];
    size_t most = f->lane == 0 ? n : MAX_RUN, some;
    for (size_t done = 0; done < n; done += some) {
        some = n - done < most ? n - done : most;
        f->kernel->fill(bits, f->g.n_blocks, f->g.words,
                        of_lane(f, hashes + done, some, room), some);
    }
}

static void ask_hashes(struct fill *f, const uint64_t *hashes, size_t n)
{
    const struct geometry lane = {f->g.n_blocks, 1, f->g.words};
    struct plane p = plane_of(f->bits + f->lane * lane_bytes(&f->g), &lane);
    struct hash_sum sum = {0, 0, 0};
    uint64_t room[MAX_RUN], hits[MAX_RUN / 64], n_hits = 0;
    for (size_t done = 0; done < n; done += MAX_RUN) {
        size_t some = n - done < MAX_RUN ? n - done : MAX_RUN;
        f->kernel->probe_grid(&p, 1, of_lane(f, hashes + done, some, room), some, 0,
                              hits);
        for (size_t i = 0; i < (some + 63) / 64; i++)
            n_hits += (uint64_t)__builtin_popcountll(hits[i]);
        for (size_t i = 0; i < some; i++)
            hash_sum_add(&sum, hashes[done + i]);
    }
    atomic_fetch_add(&f->asked[f->lane].n, sum.n);
    atomic_fetch_add(&f->asked[f->lane].added, sum.added);
    atomic_fetch_xor(&f->asked[f->lane].xored, sum.xored);
    atomic_fetch_add(&f->asked[f->lane].n_absent, n - n_hits);
}

bool fill_agrees(struct fill *f, const struct hash_sum *list)
{
    bool agrees = true;
    for (uint32_t lane = 0; lane < f->g.lanes; lane++)
        agrees &= atomic_load(&f->asked[lane].n) == list->n &&
                  atomic_load(&f->asked[lane].added) == list->added &&
                  atomic_load(&f->asked[lane].xored) == list->xored &&
                  atomic_load(&f->asked[lane].n_absent) == 0;
    return agrees;
}

/* ---- finishing ---- */

/* Where the pages begin that are finished with region r of a lane, n_regions: where
 * those of the lane end. A page that two regions have blocks in goes with the later. */
static uint64_t region_offset(const struct fill *f, uint32_t lane, uint32_t r)
{
    uint64_t all = f->g.lanes * f->g.n_blocks, block = (uint64_t)r << f->shift;
    block = lane * f->g.n_blocks + (block < f->g.n_blocks ? block : f->g.n_blocks);
    block +=
        block == all ? BLOCKS_PER_PAGE - 1 : 0; /* the last page need not be full */
    return block / BLOCKS_PER_PAGE * PAGE_BYTES;
}

static void finish_region(struct fill *f, uint32_t r)
{
    uint64_t from = region_offset(f, f->lane, r), n_set = 0;
    uint64_t to = region_offset(f, f->lane, r + 1);
    for (uint64_t at = from; at < to; at += PAGE_BYTES) {
        digest_put(f->digests, at / PAGE_BYTES, page_digest(f->bits + at));
        n_set += page_bits(f->kernel, f->bits + at);
    }
    atomic_fetch_add_explicit(&f->bits_set, n_set, memory_order_relaxed);
    atomic_store_explicit(&f->finished[f->lane * f->n_regions + r], 1,
                          memory_order_release);
}

uint64_t fill_finished(struct fill *f)
{
    while (f->n_finished < f->n_regions * f->g.lanes &&
           atomic_load_explicit(&f->finished[f->n_finished], memory_order_acquire))
        f->n_finished++;
    return region_offset(f, f->n_finished / f->n_regions, f->n_finished % f->n_regions);
}

static void each_region(void *ctx, unsigned number)
{
    struct fill *f = ctx;
    while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
        uint32_t r = atomic_fetch_add_explicit(&f->next, 1, memory_order_relaxed);
        if (r >= f->n_regions)
            break;
        if (f->slices && f->steps & STEP_PUT)
            slices_each(f, r, put);
        if (f->steps & STEP_FINISH)
            finish_region(f, r);
        if (f->slices && f->steps & STEP_ASK)
            slices_each(f, r, ask_hashes);
        if (f->steps & STEP_FINISH && number == 0 && f->between)
            f->error = f->between(f->ctx); /* the caller's thread writes */
        if (f->steps & STEP_FINISH && number == 0 && f->error)
            atomic_store_explicit(&f->stop, true, memory_order_relaxed);
    }
}

/* ---- all of it ---- */

static int each_lane(struct fill *f, uint64_t *hashes, size_t n, unsigned steps)
{
    f->steps = steps;
    for (f->lane = 0; f->lane < f->g.lanes && !f->error; f->lane++) {
        if (f->slices)
            slices_partition(f, hashes, n);
        else if (steps & STEP_PUT)
            put(f, hashes, n);
        atomic_store(&f->next, 0);
        if (f->slices || steps & STEP_FINISH)
            threads_run(f->threads, each_region, f);
    }
    /* Once all pages have their digests: a page may have blocks of two lanes. */
    bool asks = !f->slices && steps & STEP_ASK;
    for (f->lane = 0; f->lane < f->g.lanes && asks && !f->error; f->lane++)
        ask_hashes(f, hashes, n);
    return f->error;
}

int fill_add(struct fill *f, uint64_t *hashes, size_t n, bool is_last)
{
    unsigned asks = f->asks ? STEP_ASK : 0;
    return each_lane(f, hashes, n, is_last ? STEP_PUT | STEP_FINISH | asks : STEP_PUT);
}

int fill_ask(struct fill *f, uint64_t *hashes, size_t n)
{
    return each_lane(f, hashes, n, STEP_ASK);
}

uint64_t fill_memory(const struct geometry *g, unsigned n_threads)
{
    if (is_small(g, n_threads))
        return 0;
    return (uint64_t)n_threads *
           (BUFFER_BYTES + MAX_REGIONS * (sizeof(uint64_t *) + 3 * sizeof(uint32_t)));
}

/* ---- private memory for bits ---- */

uint8_t *map_bits(size_t n, void **address, size_t *n_bytes)
{
    size_t align = n < HUGE_PAGE_BYTES ? PAGE_BYTES : HUGE_PAGE_BYTES;
    *n_bytes = n + align - PAGE_BYTES;
    *address = mmap(NULL, *n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (*address == MAP_FAILED)
        return NULL;
    uint8_t *bits = (uint8_t *)*address + (-(uintptr_t)*address & (align - 1));
    if (align == HUGE_PAGE_BYTES)
        madvise(bits, n, MADV_HUGEPAGE);
    return bits;
}
