/* Kind 5, lists: sorted hashes in pages, and a table of each page's first value.
 *
 *     value --search_page()-> table of first values --page--> leaders --> 64 tops
 *                             a line                          two or three lines
 *
 * The search is a hint. ABSENT rests on two neighbouring entries of the table, one not
 * above the value and one above it, and on the page of hashes of the first entry, which
 * begins with that entry. All pages that have these were checked. A page that failed,
 * or was lost and is ones by now, means TAMIS_DAMAGED.
 *
 * Most values that are asked for are absent. A quick way finds nearly all of these: it
 * takes few instructions, reads the tops of one group, and has no branch that is taken
 * by chance. The careful way decides about the others. Once all pages are good,
 * answer() of the kernel is before both, for one key: it takes only pages with heads
 * like those of pages that were asked before. */
#include "lib/filter/view.h"

/* gcc 12 takes a function that only prefetches for one without effects, and drops its
 * calls, unless it is inlined by force. */
#define FORCED __attribute__((always_inline))

/* ---- which page has a value, if one has ----
 *
 *     value --guide--> page: right for nineteen hashes of twenty, once it is known
 *       `----guess---> entries around it ... --bisect--> page
 *
 * Hashes are spread evenly, so value * pages is a guess. In a list of 100 million
 * hashes it is off by some six pages (a Brownian bridge). The guide has the true
 * positions of some thousand values, found when they are first needed. Between two of
 * them the guess is off by a tenth of a page, so a probe fetches the page before it
 * reads the table. No entry of it is checked here. */

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

/* How many of the WINDOW entries from `first` on are not greater than the value? No
 * step has a branch, for each would be taken by chance. */
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
static inline uint64_t bisect(const struct view *v, uint64_t low, uint64_t high,
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

/* The page for a value. Entries around a guess are compared; if it was wrong, they tell
 * how far. */
static inline uint64_t search_page(const struct view *v, uint64_t value)
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

/* ---- the guide ---- */

enum {
    GUIDE_PAGES_LOG2 = 4, /* the least pages between two of its values */
    GUIDE_BITS_MAX = 20,
    PART_BITS_MAX = 12, /* of a position, below the page */
};

/* Places are counted in parts of a page; 0 is not known yet. */
static inline uint32_t guide_bits_of(uint64_t n_pages)
{
    uint32_t log2 = 63 - (uint32_t)__builtin_clzll(n_pages);
    uint32_t bits = log2 > GUIDE_PAGES_LOG2 ? log2 - GUIDE_PAGES_LOG2 : 1;
    return bits < GUIDE_BITS_MAX ? bits : GUIDE_BITS_MAX;
}

static inline uint32_t part_bits_of(uint64_t n_pages)
{
    uint32_t bits = 31 - (64 - (uint32_t)__builtin_clzll(n_pages));
    return bits < PART_BITS_MAX ? bits : PART_BITS_MAX;
}

/* The position of the guide's value `step`, by the table. Threads that find one at the
 * same time write the same. */
static __attribute__((noinline)) uint32_t guide_find(const struct view *v,
                                                     uint64_t step)
{
    struct list_map *l = v->list;
    uint64_t part = 0, page = l->n_pages;
    if (step >> l->plane.guide_bits == 0) {
        uint64_t value = step << (64 - l->plane.guide_bits) >> (64 - l->hash_bits);
        page = search_page(v, value);
        uint64_t first = entry_at(v, page);
        uint64_t next = page + 1 < l->n_pages ? entry_at(v, page + 1) : UINT64_MAX;
        if (first < value && value < next)
            part = (uint64_t)((double)(value - first) / (double)(next - first) *
                              (double)(UINT64_C(1) << l->plane.part_bits));
    }
    uint32_t position = (uint32_t)((page << l->plane.part_bits) + part) | 1;
    atomic_store_explicit(&l->guide[step], position, memory_order_relaxed);
    return position;
}

static inline uint64_t guide_at(const struct view *v, uint64_t step)
{
    uint32_t position =
        atomic_load_explicit(&v->list->guide[step], memory_order_relaxed);
    return __builtin_expect(position != 0, 1) ? position : guide_find(v, step);
}

/* The page where the hash should be. A list that is not spread evenly may make it any
 * page. */
static inline uint64_t guide_page(const struct view *v, uint64_t h)
{
    const struct list_map *l = v->list;
    uint64_t step = h >> l->plane.guide_shift;
    uint64_t from = guide_at(v, step), to = guide_at(v, step + 1);
    uint64_t page = list_page_between(&l->plane, h, from, to);
    return page < l->n_pages ? page : l->n_pages - 1;
}

/* ---- the mapping ---- */

static size_t guide_bytes(uint64_t n_pages)
{
    return ((size_t)1 << guide_bits_of(n_pages)) * sizeof(uint32_t) + sizeof(uint32_t);
}

static size_t list_memory(const struct commit *c)
{
    return sizeof(struct list_map) +
           guide_bytes(c->stages[LIST_PAGES].length / PAGE_BYTES);
}

static kind_answer_fn list_otherwise;

static void list_map_stages(struct view *v, const struct commit *c, void *at)
{
    const struct stage_desc *s = &c->stages[LIST_PAGES];
    struct list_map *l = v->list = at;
    uint64_t n_pages = s->length / PAGE_BYTES;
    map_at_random(&v->map);
    *l = (struct list_map){
        .n_hashes = s->n_hashes,
        .n_pages = n_pages,
        .hash_bits = s->hash_bits,
        .kernel = kernel_list(kernel_get()),
        .plane = {.pages = v->stages[LIST_PAGES].bits,
                  .table = v->stages[LIST_INDEX].bits,
                  .last_page = n_pages - 1,
                  .table_tag = &v->stages[LIST_INDEX].state,
                  .guide = l->guide,
                  .guide_bits = guide_bits_of(n_pages),
                  .guide_shift = 64 - guide_bits_of(n_pages),
                  .part_bits = part_bits_of(n_pages),
                  .cut = 64 - s->hash_bits},
    };
    memset(&l->guide, 0, guide_bytes(n_pages));
    v->head.own = (struct own_head){&l->plane, v->map.n_faults, list_otherwise};
}

const struct list_map *filter_list(struct tamis_filter *f)
{
    return view_of(f)->list;
}

struct stage *filter_list_stage(struct tamis_filter *f, size_t i)
{
    return &view_of(f)->stages[i];
}

/* ---- one value ---- */

/* The only page that can have the value, and the two entries around it. */
struct list_candidate {
    uint64_t value, page;
    uint64_t first, next; /* of this page and the one behind */
};

/* Reads the head of a checked page with these entries around it. Another reason than
 * NO_REASON: the page says nothing. */
static inline enum tamis_reason open_page(const struct list_map *l, const uint8_t *page,
                                          const struct list_candidate *p,
                                          struct list_page *head)
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
static inline enum tamis_reason list_ask_page(const struct list_map *l,
                                              const uint8_t *page,
                                              const struct list_candidate *p)
{
    struct list_page head;
    enum tamis_reason r = open_page(l, page, p, &head);
    if (r == TAMIS_NO_REASON && l->kernel->find(page, &head, p->value))
        return TAMIS_HIT;
    return r;
}

/* Was a page lost of which a probe has just used the contents? */
static inline bool lost_one(const struct view *v, const struct list_candidate *p)
{
    const struct stage *pages = &v->stages[LIST_PAGES], *table = &v->stages[LIST_INDEX];
    uint64_t next = p->page + 1 < v->list->n_pages ? p->page + 1 : p->page;
    return lost_page(&v->map, pages->bits + p->page * PAGE_BYTES) ||
           lost_page(&v->map, table->bits + p->page * LIST_ENTRY_BYTES) ||
           lost_page(&v->map, table->bits + next * LIST_ENTRY_BYTES);
}

/* Are the pages good that an answer rests on? Then their entries are read again. */
static inline bool check_candidate(struct view *v, struct list_candidate *p)
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

static inline const uint8_t *page_at(const struct view *v, uint64_t page)
{
    return v->stages[LIST_PAGES].bits + page * PAGE_BYTES;
}

static inline enum tamis_reason ask_candidate(struct view *v, struct list_candidate *p)
{
    if (!check_candidate(v, p))
        return TAMIS_DAMAGED;
    enum tamis_reason r = list_ask_page(v->list, page_at(v, p->page), p);
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
static __attribute__((noinline)) enum tamis_reason
ask_strictly(struct view *v, struct list_candidate *p)
{
    uint8_t copy[PAGE_BYTES];
    p->next = UINT64_MAX;
    if (!copy_entry(v, p->page, copy, &p->first) ||
        (p->page + 1 < v->list->n_pages &&
         !copy_entry(v, p->page + 1, copy, &p->next)) ||
        !stage_copy_page(&v->stages[LIST_PAGES], p->page, copy))
        return TAMIS_DAMAGED;
    return list_ask_page(v->list, copy, p);
}

static inline bool is_strict(const struct view *v)
{
    return v->stages[LIST_PAGES].mode == TAMIS_CHECK_STRICT;
}

/* The careful way. */
static __attribute__((noinline)) enum tamis_reason ask_carefully(struct view *v,
                                                                 uint64_t value)
{
    struct list_candidate p = {.value = value, .page = search_page(v, value)};
    return is_strict(v) ? ask_strictly(v, &p) : ask_candidate(v, &p);
}

/* ---- absent values, quickly ---- */

/* Fetches the page where the hash should be, and returns its number. */
FORCED static inline uint64_t fetch_page(const struct view *v, uint64_t h)
{
    uint64_t page = guide_page(v, h);
    __builtin_prefetch(page_at(v, page));
    return page;
}

static __attribute__((noinline)) bool is_checked(struct view *v, uint64_t page)
{
    struct list_candidate p = {.page = page};
    return check_candidate(v, &p);
}

/* Are the pages good that an answer about this page rests on? */
static inline bool is_good(struct view *v, uint64_t page)
{
    if (__builtin_expect(stage_all_good(&v->stages[LIST_PAGES]) &&
                             stage_all_good(&v->stages[LIST_INDEX]),
                         1))
        return true;
    return is_checked(v, page);
}

/* Is the value between the entry of this page and the next? */
static inline bool is_between(const struct view *v, uint64_t page, uint64_t value,
                              uint64_t *first)
{
    const struct list_map *l = v->list;
    *first = entry_at(v, page);
    uint64_t next = page + 1 < l->n_pages ? entry_at(v, page + 1) : UINT64_MAX;
    return *first <= value && value < next;
}

/* The page and its entry where the guide was wrong: mostly it is a neighbour. */
static __attribute__((noinline)) bool find_again(struct view *v, uint64_t value,
                                                 uint64_t *page, uint64_t *first)
{
    uint64_t next = value < entry_at(v, *page) ? *page - 1 : *page + 1;
    bool found = next < v->list->n_pages && is_good(v, next) &&
                 is_between(v, next, value, first);
    *page = found ? next : search_page(v, value);
    return found || (is_good(v, *page) && is_between(v, *page, value, first));
}

/* The page that the value is in, if it is in one, and its entry; the guide has led to
 * `page`. False: only the careful way knows. */
FORCED static inline bool find_page(struct view *v, uint64_t value, uint64_t *page,
                                    uint64_t *first)
{
    if (__builtin_expect(is_good(v, *page) && is_between(v, *page, value, first), 1))
        return true;
    uint64_t other = *page;
    bool found = find_again(v, value, &other, first);
    *page = other;
    return found;
}

/* Is the value absent? False: only the careful way knows. */
FORCED static inline bool lacks(struct view *v, uint64_t h)
{
    const struct list_map *l = v->list;
    uint64_t value = h >> l->plane.cut, first;
    uint64_t page = fetch_page(v, h);
    return find_page(v, value, &page, &first) &&
           l->kernel->lacks(page_at(v, page), first, value) && !lost_any(&v->map);
}

static enum tamis_reason list_probe_one(struct view *v, const struct kernel *k,
                                        uint64_t h)
{
    (void)k;
    return !is_strict(v) && lacks(v, h) ? TAMIS_NO_REASON
                                        : ask_carefully(v, h >> v->list->plane.cut);
}

static void list_prefetch(const struct view *v, uint64_t h)
{
    fetch_page(v, h);
}

/* ---- many ---- */

enum { WORD = 64 }; /* keys to a word of answers */

/* A value on its way through the passes. */
struct asked {
    const uint8_t *page; /* NULL: only the careful way knows */
    struct list_spot spot;
};

FORCED static inline void fetch_entries(const struct view *v, uint64_t page)
{
    const uint8_t *entry = v->stages[LIST_INDEX].bits + page * LIST_ENTRY_BYTES;
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + LIST_ENTRY_BYTES);
}

FORCED static inline void fetch_group(const struct asked *a)
{
    const uint8_t *tops = list_group_tops(a->page, a->spot.top_bytes, a->spot.group);
    __builtin_prefetch(tops);
    __builtin_prefetch(tops + LIST_GROUP * a->spot.top_bytes - 1);
}

/* Which values of a word are surely absent? The first pass fetches pages and entries,
 * the second tops, and the third asks. Each pass is short, for a processor that waits
 * for the translation of an address holds few instructions meanwhile: the fewer a key
 * takes, the more pages are on their way. */
static uint64_t absent_surely(struct view *v, const uint64_t *hashes, size_t n)
{
    const struct list_kernel *k = v->list->kernel;
    struct asked asked[WORD];
    uint32_t pages[WORD], cut = v->list->plane.cut;
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) {
        pages[i] = (uint32_t)fetch_page(v, hashes[i]); /* < 2^28 */
        fetch_entries(v, pages[i]);
    }
    for (size_t i = 0; i < n; i++) {
        struct asked *a = &asked[i];
        uint64_t value = hashes[i] >> cut, page = pages[i], first;
        bool found = find_page(v, value, &page, &first) &&
                     k->spot(page_at(v, page), first, value, &a->spot);
        a->page = found ? page_at(v, page) : NULL;
        if (found)
            fetch_group(a);
    }
    for (size_t i = 0; i < n; i++) {
        const struct asked *a = &asked[i];
        word |= (uint64_t)(a->page && k->spot_lacks(a->page, &a->spot)) << i;
    }
    return lost_any(&v->map) ? 0 : word;
}

static uint64_t ask_word(struct view *v, const uint64_t *hashes, size_t n)
{
    uint64_t word = is_strict(v) ? 0 : absent_surely(v, hashes, n);
    uint64_t open = ~word & (UINT64_MAX >> (WORD - n));
    for (; open; open &= open - 1) {
        uint64_t h = hashes[__builtin_ctzll(open)];
        if (ask_carefully(v, h >> v->list->plane.cut) == TAMIS_NO_REASON)
            word |= open & -open;
    }
    return word;
}

static size_t list_probe_many(struct view *v, const struct kernel *k,
                              const uint64_t *hashes, size_t n, uint64_t *absent)
{
    size_t n_absent = 0;
    (void)k;
    for (size_t done = 0; done < n; done += WORD) {
        uint64_t word = ask_word(v, hashes + done, n - done < WORD ? n - done : WORD);
        absent[done / WORD] = word; /* whole: a caller may jump out */
        n_absent += (size_t)__builtin_popcountll(word);
    }
    return n_absent;
}

/* ---- all pages of hashes are good ---- */

/* Lets answer() of the kernel take pages of this shape, if it can. */
static void note_shape(struct view *v, uint64_t page)
{
    struct list_map *l = v->list;
    struct list_page p;
    if (!is_good(v, page) || !list_page_open(page_at(v, page), l->hash_bits, &p) ||
        p.n < 2 || p.top_bytes != 2 || p.n_groups - 1 > LANES)
        return;
    atomic_store_explicit(&l->plane.shapes[list_shape_at(list_shape(&p))],
                          list_shape(&p), memory_order_relaxed);
}

static enum tamis_answer list_otherwise(const struct plane *plane,
                                        const struct tamis_key *key,
                                        enum tamis_reason *why)
{
    struct view *v = view_of_plane(plane);
    uint64_t h = key->hash, page = guide_page(v, h);
    note_shape(v, page);
    return answer_of(list_probe_one(v, NULL, h), why);
}

static kind_answer_fn *list_find_answer(const struct kernel *k)
{
    return kernel_list(k)->answer;
}

static size_t list_answer_few(const struct plane *plane, const uint64_t *hashes,
                              size_t n, uint64_t *absent)
{
    return list_probe_many(view_of_plane(plane), NULL, hashes, n, absent);
}

/* ---- the pages one after the other ---- */

/* Each is copied, its copy checked, and decoded from there, so that no page counts that
 * was lost or changed after its check. A page must begin with its entry of the table,
 * and that must be greater than the last value of the page before. So pages cannot be
 * left out, or come twice. */
void list_order_begin(struct list_order *o)
{
    memset(o, 0, offsetof(struct list_order, table));
    o->from_the_start = true;
}

static bool list_order_fail(struct list_order *o, size_t stage, uint64_t page)
{
    o->failed_stage = stage;
    o->failed_page = page;
    return false;
}

/* The entry of the next page, from a checked copy of the table. */
static bool list_order_entry(struct tamis_filter *f, struct list_order *o,
                             uint64_t *entry)
{
    uint64_t table_page = o->page / LIST_ENTRIES_PER_PAGE;
    if (!o->has_table || o->table_page != table_page) {
        o->has_table =
            stage_copy_page(filter_list_stage(f, LIST_INDEX), table_page, o->table);
        o->table_page = table_page;
    }
    if (!o->has_table)
        return list_order_fail(o, LIST_INDEX, table_page);
    *entry = digest_at(o->table, o->page % LIST_ENTRIES_PER_PAGE);
    return true;
}

bool list_order_next(struct tamis_filter *f, struct list_order *o, uint64_t *values,
                     uint32_t *n)
{
    const struct list_map *l = filter_list(f);
    struct list_page head;
    uint64_t entry;
    *n = 0;
    if (!list_order_entry(f, o, &entry))
        return false;
    if (!stage_copy_page(filter_list_stage(f, LIST_PAGES), o->page, o->copy) ||
        !list_page_open(o->copy, l->hash_bits, &head) ||
        (head.n == 0 && l->n_hashes > 0) || head.first != entry ||
        (o->has_last && entry <= o->last) ||
        !l->kernel->values(o->copy, l->hash_bits, &head, values) ||
        !list_page_valid(o->copy, &head, values))
        return list_order_fail(o, LIST_PAGES, o->page);
    o->n_given += head.n;
    if (o->page + 1 == l->n_pages && o->from_the_start && o->n_given != l->n_hashes)
        return list_order_fail(o, LIST_PAGES, o->page);
    *n = head.n;
    o->page++;
    if (head.n) {
        o->last = values[head.n - 1];
        o->has_last = true;
    }
    return true;
}

static int list_judge(struct tamis_filter *f, const struct commit *c,
                      struct tamis_verify *report)
{
    struct {
        struct list_order order;
        uint64_t values[LIST_PAGE_MAX_HASHES];
    } *m = malloc(sizeof *m);
    uint64_t n_pages = filter_list(f)->n_pages;
    uint32_t n;
    (void)c;
    if (!m)
        return ENOMEM;
    list_order_begin(&m->order);
    for (struct list_order *o = &m->order; o->page < n_pages;) {
        if (list_order_next(f, o, m->values, &n))
            continue;
        verify_blame(f, o->failed_stage, o->failed_page, report);
        o->page++;
        o->from_the_start = false;
    }
    free(m);
    return 0;
}

const struct filter_kind kind_list = {
    .number = KIND_LIST,
    .name = "list",
    .algebra = 0,
    .planes = false,
    .memory = list_memory,
    .map = list_map_stages,
    .probe = list_probe_one,
    .probe_many = list_probe_many,
    .prefetch = list_prefetch,
    .find_answer = list_find_answer,
    .answer_few = list_answer_few,
    .explain = NULL, /* no stage decides by itself */
    .judge = list_judge,
};
