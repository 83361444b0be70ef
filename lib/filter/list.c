/* Kind 5, lists: sorted hashes in pages, and a table of each page's first value.
 *
 *     value --guess--> table of first values --page--> leaders --group--> 64 tops
 *                      two lines or so                 two lines of one page
 *
 * The guess is a hint. ABSENT rests on two entries of the table, the value between
 * them, in pages that were checked, and on the page of hashes that the first entry is
 * of, which was checked, too, and begins with that entry. A page that failed, or that
 * was lost and has our ones by now, is TAMIS_DAMAGED. */
#include "lib/filter/filter.h"
#include "lib/filter/kind.h"
#include "lib/filter/view.h"
#include "lib/kernel/list_page.h"

#include <stdatomic.h>
#include <string.h>

/* gcc 12 takes a function that only prefetches for one without effects, and drops its
 * calls, unless it is inlined by force. */
#define FORCED __attribute__((always_inline))

/* ---- the mapping ---- */

static size_t memory(const struct commit *c)
{
    (void)c;
    return sizeof(struct list_map);
}

static void map(struct view *v, const struct commit *c, void *at)
{
    const struct stage_desc *s = &c->stages[LIST_PAGES];
    map_at_random(&v->map);
    v->list = at;
    *v->list = (struct list_map){.n_hashes = s->n_hashes,
                                 .n_pages = s->length / PAGE_BYTES,
                                 .hash_bits = s->hash_bits};
    /* Random hashes have gaps of about so many bits. */
    uint64_t gap = list_max(s->hash_bits) / (s->n_hashes | 1);
    v->list->top_bytes = list_top_bytes(63 - (uint32_t)__builtin_clzll(gap | 1));
    v->list->tops_a_page =
        (float)s->n_hashes / (float)v->list->n_pages * (float)v->list->top_bytes;
}

static struct view *view_of(struct tamis_filter *f)
{
    return atomic_load_explicit(&f->view, memory_order_acquire);
}

const struct list_map *filter_list(struct tamis_filter *f)
{
    return view_of(f)->list;
}

struct stage *filter_list_stage(struct tamis_filter *f, size_t i)
{
    return &view_of(f)->stages[i];
}

bool filter_list_copy(struct tamis_filter *f, size_t i, uint64_t page,
                      uint8_t copy[PAGE_BYTES])
{
    return stage_copy_page(filter_list_stage(f, i), page, copy);
}

/* ---- the table of first values: where to look ---- */

static inline uint64_t entry_at(const struct view *v, uint64_t i)
{
    return digest_at(v->stages[LIST_INDEX].bits, i);
}

/* Hashes are spread evenly. */
static inline uint64_t guess(const struct list_map *l, uint64_t value)
{
    return geometry_block(value << (64 - l->hash_bits), l->n_pages);
}

enum {
    WINDOW = 16, /* entries that are compared at once */
    GUESSES = 3,
};

/* How many of the WINDOW entries from `first` on are not greater than the value? In
 * steps without a branch, for each would be taken by chance. */
static inline uint64_t count_not_above(const struct view *v, uint64_t first,
                                       uint64_t value)
{
    const uint8_t *at = v->stages[LIST_INDEX].bits + first * LIST_ENTRY_BYTES;
    uint64_t count = 0;
    __builtin_prefetch(at);
    __builtin_prefetch(at + (WINDOW - 1) * LIST_ENTRY_BYTES);
    for (uint64_t step = WINDOW / 2; step; step /= 2)
        count += digest_at(at, count + step - 1) <= value ? step : 0;
    return count + (digest_at(at, count) <= value);
}

/* The last entry that is not greater, in [low, high), or low. */
static uint64_t bisect(const struct view *v, uint64_t low, uint64_t high,
                       uint64_t value)
{
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (entry_at(v, middle) <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The page for a value: a hint, since no entry is checked here. Entries around a guess
 * are compared; if it was wrong, they tell how far. */
static inline uint64_t find_page(const struct view *v, uint64_t value)
{
    const struct list_map *l = v->list;
    uint64_t low = 0, high = l->n_pages, at = guess(l, value);
    for (int i = 0; i < GUESSES && high - low > WINDOW; i++) {
        uint64_t first = at < low + WINDOW / 2 ? low : at - WINDOW / 2;
        first = first > high - WINDOW ? high - WINDOW : first;
        uint64_t count = count_not_above(v, first, value);
        if (count - 1 < WINDOW - 1)
            return first + count - 1;
        if (count) { /* all of them: the last may be it */
            low = first + WINDOW - 1;
            at = low + guess(l, value - entry_at(v, low));
        } else {
            high = first;
            if (first == low)
                return low;
            uint64_t back = guess(l, entry_at(v, first) - value);
            at = back < first - low ? first - back : low;
        }
    }
    return bisect(v, low, high, value);
}

uint64_t filter_list_page(struct tamis_filter *f, uint64_t value)
{
    return find_page(view_of(f), value);
}

/* ---- one value ---- */

/* The place that is asked: a page, and the two entries around it. */
struct place {
    uint64_t value, page;
    uint64_t first, next; /* of this page and the one behind */
};

FORCED static inline void prefetch_table(const struct view *v, uint64_t value)
{
    const uint8_t *at =
        v->stages[LIST_INDEX].bits + guess(v->list, value) * LIST_ENTRY_BYTES;
    __builtin_prefetch(at);
    __builtin_prefetch(at - LIST_ENTRY_BYTES * WINDOW / 2);
    __builtin_prefetch(at + LIST_ENTRY_BYTES * WINDOW / 2);
}

/* Fetches the tops of the group at this part of a page, and if another is near, its
 * tops, too: random hashes are spread evenly but for a group's fourth or so. */
FORCED static inline void fetch_tops(const struct list_map *l, const uint8_t *page,
                                     float part)
{
    size_t group_bytes = LIST_GROUP * l->top_bytes;
    size_t at = (size_t)(part * l->tops_a_page) + group_bytes;
    size_t group = at / group_bytes, in_group = at % group_bytes;
    const uint8_t *tops = page + PAGE_BYTES - group * group_bytes;
    __builtin_prefetch(tops);
    __builtin_prefetch(tops + group_bytes - 1);
    if (in_group < group_bytes / 5)
        tops += group_bytes;
    else if (in_group > group_bytes - group_bytes / 5)
        tops -= group_bytes;
    else
        return;
    __builtin_prefetch(tops);
    __builtin_prefetch(tops + group_bytes - 1);
}

/* Finds the page, and fetches its head and the group that the value should be in. */
static inline void find_place(const struct view *v, uint64_t value, struct place *p)
{
    p->value = value;
    p->page = find_page(v, value);
    const uint8_t *page = v->stages[LIST_PAGES].bits + p->page * PAGE_BYTES;
    __builtin_prefetch(page);
    p->first = entry_at(v, p->page);
    p->next = p->page + 1 < v->list->n_pages ? entry_at(v, p->page + 1) : UINT64_MAX;
    float part = (float)(value - p->first) / (float)(p->next - p->first);
    part = part >= 0 && part < 1 ? part : 0; /* nothing is checked yet */
    fetch_tops(v->list, page, part);
}

/* Reads the head of a checked page with these entries around it. Another reason than
 * NO_REASON: the page says nothing. */
static inline enum tamis_reason open_page(const struct list_map *l, const uint8_t *page,
                                          const struct place *p, struct list_page *head)
{
    if (!list_page_open(page, l->hash_bits, head))
        return TAMIS_DAMAGED;
    if (head->n == 0) /* the only page of a list without hashes */
        return l->n_hashes == 0 && p->first == 0 ? TAMIS_NO_REASON : TAMIS_DAMAGED;
    if (head->first != p->first || (p->value < p->first && p->page > 0) ||
        (p->value >= p->next && p->page + 1 < l->n_pages))
        return TAMIS_DAMAGED;
    return TAMIS_NO_REASON;
}

/* Does the page say that the value is absent? */
static inline enum tamis_reason ask_page(const struct list_map *l, const uint8_t *page,
                                         const struct place *p)
{
    struct list_page head;
    enum tamis_reason r = open_page(l, page, p, &head);
    if (r == TAMIS_NO_REASON && list_page_find(page, &head, p->value))
        return TAMIS_HIT;
    return r;
}

/* Was a page lost of which a probe has just used the contents? */
static inline bool lost_one(const struct view *v, const struct place *p)
{
    const struct stage *pages = &v->stages[LIST_PAGES], *table = &v->stages[LIST_INDEX];
    uint64_t next = p->page + 1 < v->list->n_pages ? p->page + 1 : p->page;
    return lost_page(&v->map, pages->bits + p->page * PAGE_BYTES) ||
           lost_page(&v->map, table->bits + p->page * LIST_ENTRY_BYTES) ||
           lost_page(&v->map, table->bits + next * LIST_ENTRY_BYTES);
}

/* Are the pages good that an answer rests on? Then their entries are read again. */
static inline bool check_place(struct view *v, struct place *p)
{
    struct stage *pages = &v->stages[LIST_PAGES], *table = &v->stages[LIST_INDEX];
    bool is_last = p->page + 1 == v->list->n_pages;
    if (!stage_page_good(table, p->page / LIST_ENTRIES_PER_PAGE) ||
        (!is_last && !stage_page_good(table, (p->page + 1) / LIST_ENTRIES_PER_PAGE)) ||
        !stage_page_good(pages, p->page))
        return false;
    p->first = entry_at(v, p->page);
    p->next = is_last ? UINT64_MAX : entry_at(v, p->page + 1);
    return true;
}

static inline const uint8_t *page_of(const struct view *v, const struct place *p)
{
    return v->stages[LIST_PAGES].bits + p->page * PAGE_BYTES;
}

static inline enum tamis_reason ask_place(struct view *v, struct place *p)
{
    if (!check_place(v, p))
        return TAMIS_DAMAGED;
    enum tamis_reason r = ask_page(v->list, page_of(v, p), p);
    return r == TAMIS_NO_REASON && lost_one(v, p) ? TAMIS_DAMAGED : r;
}

static bool copy_entry(struct view *v, uint64_t i, uint8_t copy[PAGE_BYTES],
                       uint64_t *entry)
{
    if (!stage_copy_page(&v->stages[LIST_INDEX], i / LIST_ENTRIES_PER_PAGE, copy))
        return false;
    *entry = digest_at(copy, i % LIST_ENTRIES_PER_PAGE);
    return true;
}

/* Strict: all that is believed is in the very copies that were checked. */
static __attribute__((noinline)) enum tamis_reason ask_strictly(struct view *v,
                                                                struct place *p)
{
    uint8_t copy[PAGE_BYTES];
    p->next = UINT64_MAX;
    if (!copy_entry(v, p->page, copy, &p->first) ||
        (p->page + 1 < v->list->n_pages &&
         !copy_entry(v, p->page + 1, copy, &p->next)) ||
        !stage_copy_page(&v->stages[LIST_PAGES], p->page, copy))
        return TAMIS_DAMAGED;
    return ask_page(v->list, copy, p);
}

static inline bool is_strict(const struct view *v)
{
    return v->stages[LIST_PAGES].mode == TAMIS_CHECK_STRICT;
}

static enum tamis_reason probe_one(struct view *v, const struct kernel *k, uint64_t h)
{
    struct place p;
    (void)k;
    find_place(v, list_cut(h, v->list->hash_bits), &p);
    return is_strict(v) ? ask_strictly(v, &p) : ask_place(v, &p);
}

/* ---- many ---- */

static void prefetch(const struct view *v, uint64_t h)
{
    prefetch_table(v, list_cut(h, v->list->hash_bits));
}

enum { WORD = 64 }; /* keys to a word of answers */

/* A key on its way through the passes. */
struct asked {
    struct place place;
    struct list_page head;
    struct list_search search;
    enum tamis_reason reason;
};

/* The head of the page, and with it the groups to look at, whose tops are fetched. */
FORCED static inline void look_at_head(struct view *v, struct asked *a)
{
    a->reason = check_place(v, &a->place) ? TAMIS_NO_REASON : TAMIS_DAMAGED;
    const uint8_t *page = page_of(v, &a->place);
    if (a->reason == TAMIS_NO_REASON)
        a->reason = open_page(v->list, page, &a->place, &a->head);
    if (a->reason != TAMIS_NO_REASON)
        return;
    list_page_search(page, &a->head, a->place.value, &a->search);
    const uint8_t *tops = list_group_tops(page, a->head.top_bytes, a->search.group);
    __builtin_prefetch(tops);
    __builtin_prefetch(tops + LIST_GROUP * a->head.top_bytes - 1);
}

static inline enum tamis_reason look_at_tops(const struct view *v,
                                             const struct asked *a)
{
    if (a->reason != TAMIS_NO_REASON)
        return a->reason;
    if (list_page_has(page_of(v, &a->place), &a->head, a->place.value, &a->search))
        return TAMIS_HIT;
    return lost_one(v, &a->place) ? TAMIS_DAMAGED : TAMIS_NO_REASON;
}

/* A word of keys in passes: the table, the heads of pages, the tops. Each pass is
 * short, for a processor that waits for the translation of an address holds few
 * instructions meanwhile: the fewer a key takes, the more pages are on their way. */
static uint64_t ask_word(struct view *v, const uint64_t *hashes, size_t n)
{
    struct asked asked[WORD];
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) {
        asked[i].place.value = list_cut(hashes[i], v->list->hash_bits);
        prefetch_table(v, asked[i].place.value);
    }
    for (size_t i = 0; i < n; i++)
        asked[i].place.page = find_page(v, asked[i].place.value);
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(page_of(v, &asked[i].place));
    for (size_t i = 0; i < n; i++)
        look_at_head(v, &asked[i]);
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)(look_at_tops(v, &asked[i]) == TAMIS_NO_REASON) << i;
    return word;
}

static uint64_t ask_word_strictly(struct view *v, const uint64_t *hashes, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) {
        struct place p = {.value = list_cut(hashes[i], v->list->hash_bits)};
        p.page = find_page(v, p.value);
        word |= (uint64_t)(ask_strictly(v, &p) == TAMIS_NO_REASON) << i;
    }
    return word;
}

static size_t probe_many(struct view *v, const struct kernel *k, const uint64_t *hashes,
                         size_t n, uint64_t *absent)
{
    bool strict = is_strict(v);
    size_t n_absent = 0;
    (void)k;
    for (size_t done = 0; done < n; done += WORD) {
        size_t some = n - done < WORD ? n - done : WORD;
        uint64_t word = strict ? ask_word_strictly(v, hashes + done, some)
                               : ask_word(v, hashes + done, some);
        absent[done / WORD] = word; /* whole: a caller may jump out */
        n_absent += (size_t)__builtin_popcountll(word);
    }
    return n_absent;
}

/* ---- for people ---- */

static void stage_info(const struct identity *id, const struct stage_desc *s,
                       struct tamis_stage_info *info)
{
    (void)id;
    *info = (struct tamis_stage_info){
        .offset = s->offset,
        .bits_bytes = s->length,
        .capacity = s->capacity,
        .keys = s->keys,
        .target_error = s->target_error,
        .expected_error = s->target_error,
    };
}

static bool over_target(const struct stage_desc *last)
{
    (void)last;
    return false;
}

const struct filter_kind kind_list = {
    .number = KIND_LIST,
    .name = "list",
    .algebra = 0,
    .planes = false,
    .memory = memory,
    .map = map,
    .probe = probe_one,
    .probe_many = probe_many,
    .prefetch = prefetch,
    .explain = NULL, /* no stage decides by itself */
    .stage_info = stage_info,
    .over_target = over_target,
};
