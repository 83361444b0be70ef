/* Kind 3, ribbon: pages of equations, stage after stage, and a last stage of split
 * blocks (SPEC.md §19).
 *
 *     stage 0 --absent: it is in no stage
 *        |----match: HIT
 *        `----bumped: stage 1 --...   bumped by all: the last stage, a Bloom filter's
 *
 * Warning: ones are no neutral here. A page of ones bumps every key, and the next stage
 * may lack it. So a page that failed its check is DAMAGED at once, and "absent" and
 * "bumped" are believed only if the page was not lost while it was read. */
#include "lib/filter/view.h"
#include "lib/kernel/ribbon.h"

enum { WORD = 64, AT_ONCE = 16 * WORD };

/* ---- what is mapped ---- */

struct ribbons {
    const struct ribbon_kernel *kernel;
    uint32_t n; /* stages but the last */
    struct ribbon_plane *planes[];
};

static size_t planes_at(uint32_t n)
{
    return sizeof(struct ribbons) + n * sizeof(struct ribbon_plane *);
}

static size_t ribbon_memory(const struct commit *c)
{
    uint32_t n = c->n_stages - 1U;
    size_t n_bytes = planes_at(n);
    for (uint32_t i = 0; i < n; i++)
        n_bytes += ribbon_plane_bytes(c->stages[i].ribbon_blocks);
    return n_bytes;
}

static kind_answer_fn ribbon_otherwise;

static void ribbon_map(struct view *v, const struct commit *c, void *at)
{
    struct ribbons *r = at;
    r->kernel = kernel_get()->ribbon;
    r->n = c->n_stages - 1U;
    uint8_t *next = (uint8_t *)at + planes_at(r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        struct ribbon_geometry g = ribbon_geometry_of(&c->stages[i]);
        r->planes[i] = (struct ribbon_plane *)(void *)next;
        ribbon_plane_init(r->planes[i], v->stages[i].bits, &g);
        next += ribbon_plane_bytes(g.blocks);
    }
    v->head.own = (struct own_head){r->planes[0], v->map.n_faults, ribbon_otherwise};
    v->ribbons = r;
}

static struct ribbon_geometry ribbon_blocks_of(const struct ribbon_plane *p)
{
    return (struct ribbon_geometry){p->n_pages, p->n_long, p->blocks};
}

/* ---- one key, with a look at each page ---- */

/* False: nothing that the page says may be believed. */
static bool ask_ribbon_page(struct view *v, uint32_t stage, uint64_t h,
                            enum ribbon_answer *answer)
{
    const struct ribbons *r = v->ribbons;
    struct stage *s = &v->stages[stage];
    struct ribbon_geometry g = ribbon_blocks_of(r->planes[stage]);
    struct ribbon_place p = ribbon_place_of(&g, h);
    if (s->mode == TAMIS_CHECK_STRICT) {
        uint8_t copy[PAGE_BYTES];
        if (!stage_copy_page(s, p.page, copy))
            return false;
        *answer = ribbon_page_probe(copy, &p, h);
        return true;
    }
    if (!stage_page_good(s, p.page))
        return false;
    *answer = r->kernel->probe(r->planes[stage], h);
    return *answer == RIBBON_MATCH ||
           !lost_page(&v->map, s->bits + p.page * PAGE_BYTES);
}

/* Asks from a stage on; h is the key's hash for that stage. */
static enum tamis_reason probe_from(struct view *v, const struct kernel *k,
                                    uint32_t stage, uint64_t h)
{
    for (; stage < v->ribbons->n; stage++, h = ribbon_next_hash(h)) {
        enum ribbon_answer answer;
        if (!ask_ribbon_page(v, stage, h, &answer))
            return TAMIS_DAMAGED;
        if (answer != RIBBON_BUMPED)
            return answer == RIBBON_MATCH ? TAMIS_HIT : TAMIS_NO_REASON;
    }
    return stage_probe(&v->stages[stage], k, h);
}

static enum tamis_reason ribbons_probe_one(struct view *v, const struct kernel *k,
                                           uint64_t h)
{
    return probe_from(v, k, 0, h);
}

static void ribbon_prefetch(const struct view *v, uint64_t h)
{
    const struct ribbon_plane *p = v->ribbons->planes[0];
    struct ribbon_geometry g = ribbon_blocks_of(p);
    struct ribbon_place place = ribbon_place_of(&g, h);
    const struct ribbon_entry *e =
        p->sizes[place.page < p->n_long].entries + place.row / RIBBON_WIDTH;
    const uint8_t *here = p->bits + place.page * PAGE_BYTES + e->here;
    __builtin_prefetch(here);
    __builtin_prefetch(here + BLOCK_BYTES);
    __builtin_prefetch(here - e->here + e->next + BLOCK_BYTES - 8);
}

/* ---- many keys ---- */

/* The keys of a word that were bumped by stage 0 and are absent all the same. */
static uint64_t absent_later(struct view *v, const struct kernel *k,
                             const uint64_t *hashes, uint64_t bumped)
{
    uint64_t absent = 0;
    for (; bumped; bumped &= bumped - 1) {
        uint64_t h = ribbon_next_hash(hashes[__builtin_ctzll(bumped)]);
        if (probe_from(v, k, 1, h) == TAMIS_NO_REASON)
            absent |= bumped & -bumped;
    }
    return absent;
}

/* Answers a word of keys, looking at each page, and fetches the next word's lines. */
static uint64_t ribbon_word_checking(struct view *v, const struct kernel *k,
                                     const uint64_t *hashes, size_t n, size_t n_next)
{
    uint64_t absent = 0;
    for (size_t i = 0; i < n; i++) {
        if (i < n_next)
            ribbon_prefetch(v, hashes[n + i]);
        absent |= (uint64_t)(probe_from(v, k, 0, hashes[i]) == TAMIS_NO_REASON) << i;
    }
    return absent;
}

/* At most AT_ONCE keys, all pages of stage 0 being good. */
static size_t probe_piece(struct view *v, const struct kernel *k,
                          const uint64_t *hashes, size_t n, uint64_t *absent)
{
    uint64_t match[AT_ONCE / WORD], bumped[AT_ONCE / WORD];
    size_t n_absent = 0;
    v->ribbons->kernel->probe_many(v->ribbons->planes[0], hashes, n, match, bumped);
    bool believed = !lost_any(&v->map);
    for (size_t done = 0, w = 0; done < n; done += WORD, w++) {
        size_t some = n - done < WORD ? n - done : WORD;
        uint64_t is = UINT64_MAX >> (WORD - some) & ~match[w] & ~bumped[w];
        if (believed && bumped[w])
            is |= absent_later(v, k, hashes + done, bumped[w]);
        else if (!believed)
            is = ribbon_word_checking(v, k, hashes + done, some, 0);
        absent[w] = is;
        n_absent += (size_t)__builtin_popcountll(is);
    }
    return n_absent;
}

static size_t ribbons_probe_many(struct view *v, const struct kernel *k,
                                 const uint64_t *hashes, size_t n, uint64_t *absent)
{
    size_t n_absent = 0;
    for (size_t done = 0, some; done < n; done += some) {
        size_t left = n - done;
        if (stage_all_good(&v->stages[0])) {
            some = left < AT_ONCE ? left : AT_ONCE;
            n_absent += probe_piece(v, k, hashes + done, some, absent + done / WORD);
            continue;
        }
        some = left < WORD ? left : WORD;
        size_t next = left - some < WORD ? left - some : WORD;
        uint64_t is = ribbon_word_checking(v, k, hashes + done, some, next);
        absent[done / WORD] = is;
        n_absent += (size_t)__builtin_popcountll(is);
    }
    return n_absent;
}

/* ---- all pages of stage 0 are good ---- */

/* Answers hits, the one key in thirty that is bumped, and all keys after a loss. */
static enum tamis_answer ribbon_otherwise(const struct plane *plane,
                                          const struct tamis_key *key,
                                          enum tamis_reason *why)
{
    return answer_of(probe_from(view_of_plane(plane), kernel_get(), 0, key->hash), why);
}

static kind_answer_fn *ribbon_find_answer(const struct kernel *k)
{
    return k->ribbon->answer;
}

static size_t ribbon_answer_few(const struct plane *plane, const uint64_t *hashes,
                                size_t n, uint64_t *absent)
{
    return probe_piece(view_of_plane(plane), kernel_get(), hashes, n, absent);
}

const struct filter_kind kind_ribbon = {
    .number = KIND_RIBBON,
    .name = "ribbon",
    .algebra = 0,
    .planes = false,
    .memory = ribbon_memory,
    .map = ribbon_map,
    .probe = ribbons_probe_one,
    .probe_many = ribbons_probe_many,
    .prefetch = ribbon_prefetch,
    .find_answer = ribbon_find_answer,
    .answer_few = ribbon_answer_few,
    .explain = NULL, /* no stage decides by itself */
};
