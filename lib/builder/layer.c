/* One stage of a ribbon, of hashes that are in memory.
 *
 *     hashes --slices_partition()--> runs by region --gathered--> by page --> pages
 *                                      one thread has a region          \--> bumped
 *
 * Threads share nothing but the number of the next region: each has a desk of its own,
 * and a list of the keys that its pages bump. A checked builder asks each page, when it
 * is finished and digested, for the keys that it was made of: a key that is neither
 * there nor bumped was lost in memory. */
#include "lib/builder/layer.h"

enum { REGION_BYTES = 256 << 10, LEAST_ROOM = 64 };

struct layer_worker {
    struct fill fill; /* first: slices_each() hands it to gather() */
    struct ribbon_desk *desk;
    struct hash_list region, sorted, bumped;
    uint32_t *ends; /* of each page of a region, in `sorted` */
    struct hash_sum asked, passed;
    uint64_t n_lost;
    int error;
};

/* Room for a quarter more than is asked for: with portions the memory is limited. */
static bool list_make_room(struct hash_list *l, size_t more)
{
    if (l->room - l->n >= more)
        return true;
    size_t room = (l->n + more) / 4 * 5 + LEAST_ROOM;
    uint64_t *hashes = realloc(l->hashes, room * sizeof *hashes);
    if (!hashes)
        return false;
    l->hashes = hashes;
    l->room = room;
    return true;
}

bool hash_list_append(struct hash_list *l, const uint64_t *hashes, size_t n)
{
    if (n == 0) /* no memory to copy from, perhaps */
        return true;
    if (!list_make_room(l, n))
        return false;
    memcpy(l->hashes + l->n, hashes, n * sizeof *hashes);
    l->n += n;
    return true;
}

/* ---- setting up ---- */

static uint64_t region_pages(const struct layer *l)
{
    return UINT64_C(1) << (l->fill.shift - 6); /* 64 blocks a page */
}

uint64_t layer_page(const struct layer *l, uint32_t region)
{
    uint64_t page = region * region_pages(l);
    return page < l->g.n_pages ? page : l->g.n_pages;
}

uint64_t layer_memory(unsigned n_threads)
{
    /* With the hashes of two regions, one of them sorted, at seven bits a key. */
    return n_threads *
           (sizeof(struct ribbon_desk) + 3 * (uint64_t)REGION_BYTES / 7 * 64);
}

int layer_begin(struct layer *l, const struct ribbon_geometry *g, uint8_t *digests,
                uint64_t n, unsigned n_threads, bool asks)
{
    memset(l, 0, sizeof *l);
    l->g = *g;
    l->digests = digests;
    l->asks = asks;
    /* A page is 64 blocks: so geometry_block() of a hash finds its page. */
    l->fill.g = (struct geometry){g->n_pages * BLOCKS_PER_PAGE, 1, 1};
    fill_choose_regions(&l->fill, REGION_BYTES);
    l->fill.threads = threads_start(n_threads, false);
    slices_create(&l->fill, n);
    l->workers = calloc(threads_size(l->fill.threads), sizeof *l->workers);
    bool good = l->fill.slices && l->workers;
    for (unsigned i = 0; good && i < threads_size(l->fill.threads); i++) {
        struct layer_worker *w = &l->workers[i];
        w->desk = ribbon_desk_create(g, kernel_get());
        w->ends = malloc(region_pages(l) * sizeof *w->ends);
        good = w->desk && w->ends;
    }
    return good ? 0 : ENOMEM;
}

void layer_end(struct layer *l)
{
    for (unsigned i = 0; l->workers && i < threads_size(l->fill.threads); i++) {
        struct layer_worker *w = &l->workers[i];
        free(w->desk);
        free(w->ends);
        free(w->region.hashes);
        free(w->sorted.hashes);
        free(w->bumped.hashes);
    }
    free(l->workers);
    slices_free(&l->fill);
    threads_end(l->fill.threads);
}

/* ---- a region ---- */

static void gather(struct fill *f, const uint64_t *hashes, size_t n)
{
    struct layer_worker *w = (struct layer_worker *)f;
    if (!hash_list_append(&w->region, hashes, n))
        w->error = ENOMEM;
}

/* Sorts the region's hashes by page, by counting. */
static bool sort_by_page(const struct layer *l, struct layer_worker *w, uint64_t first,
                         uint64_t n_pages)
{
    const uint64_t *hashes = w->region.hashes;
    size_t n = w->region.n;
    w->sorted.n = 0;
    if (n > UINT32_MAX || !list_make_room(&w->sorted, n + 1))
        return false;
    memset(w->ends, 0, n_pages * sizeof *w->ends);
    for (size_t i = 0; i < n; i++)
        w->ends[geometry_block(hashes[i], l->g.n_pages) - first]++;
    counts_to_starts(w->ends, n_pages);
    for (size_t i = 0; i < n; i++)
        w->sorted.hashes[w->ends[geometry_block(hashes[i], l->g.n_pages) - first]++] =
            hashes[i];
    return true;
}

/* Asks a finished page for its keys. */
static void ask_made_page(const struct layer *l, struct layer_worker *w,
                          const uint64_t *hashes, size_t n, const uint8_t *page)
{
    for (size_t i = 0; i < n; i++) {
        struct ribbon_place p = ribbon_place_of(&l->g, hashes[i]);
        enum ribbon_answer answer = ribbon_page_probe(page, &p, hashes[i]);
        hash_sum_add(&w->asked, hashes[i]);
        if (answer == RIBBON_BUMPED)
            hash_sum_add(&w->passed, ribbon_next_hash(hashes[i]));
        w->n_lost += answer == RIBBON_ABSENT;
    }
}

static bool make_page(struct layer *l, struct layer_worker *w, uint64_t number,
                      const uint64_t *hashes, size_t n)
{
    uint8_t *page = l->bits + (number - l->first_page) * PAGE_BYTES;
    bool is_long = number < l->g.n_long;
    struct ribbon_shape s = ribbon_shape_of(l->g.blocks + is_long);
    if (!list_make_room(&w->bumped, n))
        return false;
    ribbon_page_make(w->desk, number, hashes, n, page);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = ribbon_row(hashes[i] * l->g.n_pages, s.blocks);
        uint8_t threshold = page[ribbon_threshold_at(&s, row / RIBBON_WIDTH)];
        w->bumped.hashes[w->bumped.n] = ribbon_next_hash(hashes[i]);
        w->bumped.n += row % RIBBON_PAIR_ROWS < threshold;
    }
    struct ribbon_odds odds = ribbon_page_odds(&s, page);
    atomic_fetch_add(&l->bumped[is_long], odds.bumped);
    atomic_fetch_add(&l->matches[is_long], odds.matches);
    digest_put(l->digests, number, page_digest(page));
    if (l->asks)
        ask_made_page(l, w, hashes, n, page);
    return true;
}

static int make_region(struct layer *l, struct layer_worker *w, uint32_t region)
{
    uint64_t first = layer_page(l, region), end = layer_page(l, region + 1);
    uint32_t at = 0;
    w->region.n = 0;
    slices_each(&w->fill, region, gather);
    if (w->error || !sort_by_page(l, w, first, end - first))
        return ENOMEM;
    for (uint64_t page = first; page < end; page++) {
        uint32_t to = w->ends[page - first];
        if (!make_page(l, w, page, w->sorted.hashes + at, to - at))
            return ENOMEM;
        at = to;
    }
    return 0;
}

static void make_regions(void *ctx, unsigned number)
{
    struct layer *l = ctx;
    struct layer_worker *w = &l->workers[number];
    w->fill.slices = l->fill.slices;
    w->fill.threads = l->fill.threads;
    w->fill.run_hashes = l->fill.run_hashes;
    for (uint32_t r;
         !atomic_load(&l->error) && (r = atomic_fetch_add(&l->next, 1)) < l->end;) {
        int err = make_region(l, w, r);
        if (err)
            atomic_store(&l->error, err);
    }
}

int layer_make(struct layer *l, uint32_t from, uint32_t to, uint64_t *hashes, size_t n,
               uint8_t *bits)
{
    uint64_t none[1];
    l->bits = bits;
    l->first_page = layer_page(l, from);
    l->end = to;
    atomic_store(&l->next, from);
    slices_partition(&l->fill, n ? hashes : none, n);
    threads_run(l->fill.threads, make_regions, l);
    return atomic_load(&l->error);
}

/* ---- what it leaves ---- */

static void sum_add(struct hash_sum *to, const struct hash_sum *from)
{
    to->n += from->n;
    to->added += from->added;
    to->xored ^= from->xored;
}

int layer_take_bumped(struct layer *l, struct hash_list *out)
{
    *out = (struct hash_list){0};
    for (unsigned i = 0; i < threads_size(l->fill.threads); i++) {
        struct layer_worker *w = &l->workers[i];
        sum_add(&l->asked, &w->asked);
        sum_add(&l->passed, &w->passed);
        l->n_lost += w->n_lost;
        if (i == 0) {
            *out = w->bumped;
            w->bumped = (struct hash_list){0};
        } else if (!hash_list_append(out, w->bumped.hashes, w->bumped.n))
            return ENOMEM;
    }
    return 0;
}

/* ---- a page ----
 *
 * Its equations, sorted by counting, and solved by the kernel.
 *
 * Pairs of blocks are filled from the left to the right, and each from its last row to
 * its first: the rows of a pair overflow into the next one, and take what room the
 * keys of its first rows would need. So those are the keys that are bumped
 * (Dillinger, Huebschle-Schneider, Sanders, Walzer: BuRR, 2022). */

struct ribbon_desk *ribbon_desk_create(const struct ribbon_geometry *g,
                                       const struct kernel *k)
{
    struct ribbon_desk *d = malloc(sizeof *d);
    if (d) {
        d->geometry = *g;
        d->kernel = k->ribbon;
    }
    return d;
}

/* Pair by pair, the rows of each falling. */
static uint32_t order_of(uint32_t row)
{
    return row ^ (RIBBON_PAIR_ROWS - 1);
}

void ribbon_page_make(struct ribbon_desk *d, uint64_t number, const uint64_t *hashes,
                      size_t n, uint8_t page[PAGE_BYTES])
{
    struct ribbon_geometry g = d->geometry;
    struct ribbon_shape s = ribbon_shape_of(g.blocks + (number < g.n_long));
    uint32_t n_places = s.blocks * RIBBON_WIDTH + RIBBON_PAIR_ROWS;
    if (n > RIBBON_MOST_A_ROW * (size_t)s.blocks * RIBBON_WIDTH) {
        memset(page, 0, PAGE_BYTES); /* bumps all */
        for (uint32_t block = 0; block < s.blocks; block += 2)
            page[ribbon_threshold_at(&s, block)] = RIBBON_PAIR_ROWS;
        return;
    }
    memset(d->places, 0, n_places * sizeof d->places[0]);
    for (size_t i = 0; i < n; i++)
        d->places[order_of(ribbon_row(hashes[i] * g.n_pages, s.blocks))]++;
    counts_to_starts(d->places, n_places);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = ribbon_row(hashes[i] * g.n_pages, s.blocks);
        struct ribbon_key k = ribbon_key_of(hashes[i]);
        d->equations[d->places[order_of(row)]++] =
            (struct ribbon_equation){k.coefficients, k.fingerprint, row};
    }
    d->kernel->solve(&s, d->equations, n, &d->room, page);
}
