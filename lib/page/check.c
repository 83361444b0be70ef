/* The check of a page before its bits are believed (R12).
 *
 * The state of a page is two bits of one word. Once all pages are good, the check is
 * one load. A page that was found bad is all ones for ever: its mark is set before
 * anyone can add bits that would mask the loss, beats a mark that it is good, and is
 * never taken back. */
#include "lib/page/page.h"
#include "format/hash.h"
#include "lib/io/io.h"
#include "lib/sync_point.h"

/* A writer may be rewriting a floor sector while we copy it. */
enum { FLOOR_TRIES = 64 };

/* How a page is used once it is checked. */
enum page_use { IN_PLACE, COPIED, HELD };

/* ---- a stage ---- */

static uint64_t pages_words(uint64_t n_pages)
{
    return (n_pages + PAGES_PER_WORD - 1) / PAGES_PER_WORD;
}

size_t stage_memory(const struct stage_desc *d, bool by_digests)
{
    uint64_t n_pages = d->length / PAGE_BYTES;
    uint64_t words = pages_words(n_pages);
    if (by_digests && d->digests_offset)
        words += (digests_bytes(n_pages) / PAGE_BYTES + 63) / 64;
    return (size_t)(words * sizeof(uint64_t));
}

void stage_init(struct stage *s, const struct stage_desc *d, bool by_digests,
                const struct identity *id, enum tamis_check mode,
                const struct mapping *map, uint8_t *bits, const uint8_t *floors,
                const uint8_t *digests, void *memory)
{
    memset(s, 0, sizeof *s);
    s->bits = bits;
    s->map = map;
    s->geometry = d->geometry;
    s->n_pages = d->length / PAGE_BYTES;
    s->by_digests = by_digests;
    s->mode = mode;
    s->n_first_pages = (d->geometry.n_blocks + BLOCKS_PER_PAGE - 1) / BLOCKS_PER_PAGE;
    s->tag = hash_domain_tag(id->hash_id, id->hash_seed);
    s->good = stage_number(s, ALL_GOOD);
    atomic_init(&s->state,
                stage_number(s, mode == TAMIS_CHECK_NONE ? ALL_GOOD : NOT_YET));
    memcpy(s->uuid, id->uuid, sizeof s->uuid);
    s->floors = floors;
    s->floors_offset = d->floors_offset;
    s->digests = digests;
    s->root = d->root;
    s->pages = memory;
    s->good_digests = s->pages + pages_words(s->n_pages);
}

void page_copy(uint8_t to[PAGE_BYTES], const uint8_t *from)
{
    const uint64_t *w = (const uint64_t *)(const void *)from;
    for (size_t i = 0; i < PAGE_BYTES / sizeof *w; i++) {
        uint64_t v = __atomic_load_n(&w[i], __ATOMIC_RELAXED);
        memcpy(to + i * sizeof v, &v, sizeof v);
    }
}

/* ---- sealed, settled: the digest tree ---- */

bool stage_take_page(const struct stage *s, const uint8_t *live,
                     uint8_t copy[PAGE_BYTES], bool *certain)
{
    struct page_reader *r = s->map->reader;
    if (r)
        return r->page(r, (uint64_t)(live - s->map->base), copy, certain);
    memcpy(copy, live, PAGE_BYTES);
    return true;
}

/* Entry i of a page of digests, where nothing is remembered: out of the very copy that
 * was checked. */
static __attribute__((noinline)) bool digest_in_copy(const struct stage *s,
                                                     const uint8_t *live,
                                                     uint64_t expected, uint64_t i,
                                                     uint64_t *found, bool *certain)
{
    uint8_t copy[PAGE_BYTES];
    bool good =
        stage_take_page(s, live, copy, certain) && page_digest(copy) == expected;
    *found = digest_at(copy, i);
    return good;
}

/* The digest of thing `i`, entry i of this level, if the page that has it is good, and
 * those above it up to the root. */
static bool digest_of(struct stage *s, const struct digest_tree *t, uint32_t level,
                      uint64_t i, uint64_t *found, bool *certain)
{
    uint64_t page = i / DIGESTS_PER_PAGE, expected;
    if (level >= t->n_levels) {
        *found = s->root;
        return true;
    }
    uint64_t bit = t->offset[level] / PAGE_BYTES + page;
    const uint8_t *live = s->digests + t->offset[level];
    bool memory = s->mode != TAMIS_CHECK_STRICT;
    _Atomic uint64_t *known = &s->good_digests[bit / 64];
    if (memory && atomic_load_explicit(known, memory_order_acquire) >> bit % 64 & 1) {
        *found = digest_at(live, i);
        return true;
    }
    if (!digest_of(s, t, level + 1, page, &expected, certain))
        return false;
    live += page * PAGE_BYTES;
    if (!memory)
        return digest_in_copy(s, live, expected, i % DIGESTS_PER_PAGE, found, certain);
    if (page_digest(live) != expected)
        return false;
    atomic_fetch_or(known, UINT64_C(1) << (bit % 64));
    *found = digest_at(live, i % DIGESTS_PER_PAGE);
    return true;
}

static bool check_digests(struct stage *s, uint64_t page, uint8_t copy[PAGE_BYTES],
                          enum page_use use, bool *certain)
{
    uint64_t expected;
    struct digest_tree t;
    digest_tree_of(s->n_pages, &t);
    const uint8_t *is = s->bits + page * PAGE_BYTES;
    if (!digest_of(s, &t, 1, page, &expected, certain))
        return false;
    /* No writer changes such a page. Only a caller that believes the copy needs the
     * copy digested. */
    if (use == HELD && page_digest(copy) == expected)
        return true;
    /* The descriptor may be another file's by now: only what is mapped is bad. */
    if (use != IN_PLACE && !stage_take_page(s, is, copy, certain))
        return false;
    return page_digest(use == IN_PLACE ? is : copy) == expected;
}

/* ---- open, not settled: the floors ---- */

/* Copies a page that a writer may be setting bits in. */
static bool take_open_page(const struct stage *s, uint64_t page,
                           uint8_t copy[PAGE_BYTES], bool *certain)
{
    const uint8_t *live = s->bits + page * PAGE_BYTES;
    if (s->map->reader)
        return stage_take_page(s, live, copy, certain);
    page_copy(copy, live);
    return true;
}

/* The same of a sector of floors. */
static bool take_sector(const struct stage *s, uint64_t at, struct floor_sector_disk *d)
{
    const uint64_t *w = (const uint64_t *)(const void *)(s->floors + at);
    uint8_t page[PAGE_BYTES];
    bool certain;
    if (s->map->reader) {
        if (!stage_take_page(s, s->floors + (at - at % PAGE_BYTES), page, &certain))
            return false;
        memcpy(d, page + at % PAGE_BYTES, sizeof *d);
        return true;
    }
    for (size_t i = 0; i < SECTOR_BYTES / sizeof *w; i++) {
        uint64_t v = __atomic_load_n(&w[i], __ATOMIC_RELAXED);
        memcpy((uint8_t *)d + i * sizeof v, &v, sizeof v);
    }
    return true;
}

/* Copies the page's floors; false if their sector fails its own check, even when
 * read again while its writer finishes. */
static bool floors_read(const struct stage *s, uint64_t page,
                        struct le16 floors[SECTORS_PER_PAGE])
{
    uint64_t at = floor_sector_of(page);
    struct floor_sector_disk sector;
    for (int tries = 0; tries < FLOOR_TRIES && take_sector(s, at, &sector); tries++)
        if (floor_sector_good(&sector, s->uuid, s->floors_offset + at)) {
            memcpy(floors, floor_sector_page(&sector, page),
                   SECTORS_PER_PAGE * sizeof floors[0]);
            return true;
        }
    return false;
}

static bool check_floors(struct stage *s, uint64_t page, uint8_t copy[PAGE_BYTES],
                         bool *certain)
{
    struct le16 floors[SECTORS_PER_PAGE];
    *certain = floors_read(s, page, floors);
    if (!*certain)
        return false;
    SYNC_POINT("check: floors read");
    /* Floors before bits: bits that were counted into a floor are in memory. */
    atomic_thread_fence(memory_order_acquire);
    if (!take_open_page(s, page, copy, certain) || !page_meets_floors(copy, floors))
        return false;
    /* Ones in place of a lost page meet every floor, and nobody has checked them. */
    if (!s->map->reader && lost_page(s->map, s->bits + page * PAGE_BYTES))
        return false;
    /* And floors after bits: a writer that found a loss condemns the page there before
     * it fills it, and half filled it may have bits enough. */
    atomic_thread_fence(memory_order_acquire);
    *certain = floors_read(s, page, floors);
    return *certain && le16_get(floors[0]) != FLOOR_DAMAGED;
}

/* ---- memory ---- */

/* Sets a bit of a page. Returns the bits that it had before. */
static uint32_t page_set(struct stage *s, uint64_t page, uint64_t what)
{
    uint32_t at = (uint32_t)(page % PAGES_PER_WORD * 2);
    uint64_t before = atomic_fetch_or(&s->pages[page / PAGES_PER_WORD], what << at);
    return before >> at & (PAGE_GOOD | PAGE_BAD);
}

/* Counts a page that was unknown, or known as good, until now. */
static void stage_count_page(const struct stage *s, bool first, bool damaged)
{
    for (struct page_counts *c = s->counts; c; c = c->sum) {
        atomic_fetch_add_explicit(&c->n_checked, first, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->n_damaged, damaged, memory_order_relaxed);
    }
}

void stage_mark_bad(struct stage *s, uint64_t page)
{
    /* The page last: a thread that finds it bad must find nothing that says good. */
    uint64_t was = atomic_exchange(&s->state, stage_number(s, NEVER));
    if (!s->map->reader && (was == s->good || was == stage_number(s, NEVER)))
        /* For each bad page: another may be on its way to here. */
        atomic_fetch_add(&trust_clock, CLOCK_BAD);
    uint32_t before = page_set(s, page, PAGE_BAD);
    if (!(before & PAGE_BAD))
        stage_count_page(s, !before, true);
}

/* Sets a state, unless more is known, or a page was found bad meanwhile. */
static void raise_state(struct stage *s, uint64_t to)
{
    uint64_t was = stage_number(s, NOT_YET), first = stage_number(s, FIRST_LANE);
    if (!atomic_compare_exchange_strong(&s->state, &was, to) && was == first)
        atomic_compare_exchange_strong(&s->state, &first, to);
}

/* Counts one good page more: was it the last of `of` pages? */
static bool count_good(_Atomic uint64_t *n_good, uint64_t of)
{
    return atomic_fetch_add(n_good, 1) + 1 == of;
}

static void mark_good(struct stage *s, uint64_t page)
{
    if (page_set(s, page, PAGE_GOOD))
        return; /* bad beats good, whichever thread found it */
    stage_count_page(s, true, false);
    if (page < s->n_first_pages && count_good(&s->n_first_good, s->n_first_pages))
        raise_state(s, stage_number(s, FIRST_LANE));
    if (count_good(&s->n_good, s->n_pages))
        raise_state(s, s->good);
}

bool stage_is_bad(struct stage *s, uint64_t page)
{
    return stage_page_state(s, page) & PAGE_BAD;
}

/* Unless it is used in place, `copy` is what was checked, and may be believed. */
static bool check_page(struct stage *s, uint64_t page, uint8_t copy[PAGE_BYTES],
                       enum page_use use)
{
    bool strict = s->mode == TAMIS_CHECK_STRICT, certain = true;
    if (stage_is_bad(s, page))
        return false;
    bool good = s->by_digests ? check_digests(s, page, copy, use, &certain)
                              : check_floors(s, page, copy, &certain);
    if (good && !strict)
        mark_good(s, page);
    /* A page or floors that could not be read may be readable next time. */
    if (!good && certain)
        stage_mark_bad(s, page);
    return good && !stage_is_bad(s, page);
}

bool stage_check_page(struct stage *s, uint64_t page)
{
    uint8_t copy[PAGE_BYTES];
    return check_page(s, page, copy, s->mode == TAMIS_CHECK_STRICT ? COPIED : IN_PLACE);
}

bool stage_copy_page(struct stage *s, uint64_t page, uint8_t copy[PAGE_BYTES])
{
    return check_page(s, page, copy, COPIED);
}

/* For a signal handler, too. */
bool stage_read(const struct stage *s, uint64_t at, size_t n, uint8_t *to)
{
    const struct mapping *m = s->map;
    size_t got = 0;
    int before = errno, cancel = io_hold_cancel();
    if (m->file)
        io_read(m->file - 1, to, n, m->offset + (uint64_t)(s->bits - m->base) + at,
                &got);
    io_let_cancel(cancel);
    errno = before;
    return got == n;
}

bool stage_check_read(struct stage *s, uint64_t page, uint8_t read[PAGE_BYTES])
{
    return check_page(s, page, read, HELD);
}

bool stage_copy_bytes(struct stage *s, uint64_t at, uint64_t n, uint8_t *out)
{
    uint8_t page[PAGE_BYTES];
    for (uint64_t end = at + n, some; at < end; at += some, out += some) {
        uint64_t in_page = at % PAGE_BYTES;
        some = PAGE_BYTES - in_page < end - at ? PAGE_BYTES - in_page : end - at;
        stage_read_ahead(s, at / PAGE_BYTES);
        if (!stage_copy_page(s, at / PAGE_BYTES, page))
            return false;
        memcpy(out, page + in_page, some);
    }
    return true;
}

/* Strict: the bits that are probed are the very copy that was checked. */
struct stage_finding stage_find(struct stage *s, const struct kernel *k, uint64_t h)
{
    _Alignas(BLOCK_BYTES) uint8_t copy[PAGE_BYTES];
    bool strict = s->mode == TAMIS_CHECK_STRICT;
    struct stage_finding found = {.reason = TAMIS_HIT};
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        uint64_t at = geometry_block_offset(&s->geometry, lane, h);
        uint64_t page = at / PAGE_BYTES;
        bool good = strict ? stage_copy_page(s, page, copy) : stage_page_good(s, page);
        const uint8_t *block = strict ? copy + at % PAGE_BYTES : s->bits + at;
        if (!good && found.reason == TAMIS_HIT)
            found = (struct stage_finding){TAMIS_DAMAGED, lane, page * PAGE_BYTES};
        if (good && !k->block_probe(block, s->geometry.words, h))
            return (struct stage_finding){TAMIS_NO_REASON, lane, at};
        h = geometry_next_lane(h);
    }
    return found;
}

enum tamis_reason stage_probe(struct stage *s, const struct kernel *k, uint64_t h)
{
    enum tamis_reason reason = TAMIS_HIT;
    if (s->mode == TAMIS_CHECK_STRICT)
        return stage_find(s, k, h).reason;
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        uint64_t at = geometry_block_offset(&s->geometry, lane, h);
        if (!stage_page_good(s, at / PAGE_BYTES))
            reason = TAMIS_DAMAGED; /* all ones: this lane says nothing */
        else if (!k->block_probe(s->bits + at, s->geometry.words, h))
            return TAMIS_NO_REASON;
        h = geometry_next_lane(h);
    }
    return reason;
}
