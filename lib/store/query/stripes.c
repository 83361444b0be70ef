/* Numbers that follow each other, and targets that are looked up in these. Columns of
 * packs: rows say which of them may have a key, many at a time.
 *
 *     rows of the key --AND--> columns that may have it   0 1 1 0 ...
 *     living columns of the stripe                        1 1 0 1 ...
 *     living, and not set in all rows: absent             1 0 0 1 ...
 *
 * A window is as much of a stripe as is asked: all of it, or some words of its rows.
 * Nothing is done column by column but for hits, of which there are few: their key
 * ranges are compared only now. */
#include "lib/store/query/inside.h"

enum { N_WINDOWS = 16, AHEAD = 8 };

struct window {
    const struct stripe *stripe;
    struct band_rows rows; /* the words that are asked */
    const uint64_t *living;
    size_t number;        /* of the first column in these words */
    ptrdiff_t at;         /* its place in rows of answers; below 0 if it is not meant */
    uint32_t begin, end;  /* words that have columns that are meant, */
    uint64_t first, last; /* and those in the first and the last of them */
};

/* n columns of a stripe from this one on, answered from a place on. A long row is read
 * in whole lines, and a short one whole. */
static void window_of_some(struct window *w, const struct stripe *t, uint32_t column,
                           uint32_t n, size_t at)
{
    uint32_t begin = column / WORD, end = (column + n - 1) / WORD + 1, from = begin,
             to = end;
    w->stripe = t;
    w->rows = t->rows;
    if (w->rows.row_bytes >= BLOCK_BYTES) {
        from = begin / WORDS_PER_BLOCK * WORDS_PER_BLOCK;
        to = (end + WORDS_PER_BLOCK - 1) / WORDS_PER_BLOCK * WORDS_PER_BLOCK;
        w->rows.n_bytes = (to - from) * 8;
        w->rows.bits += (size_t)from * 8;
    } else {
        from = 0;
    }
    w->living = t->living + from;
    w->number = t->first + (size_t)from * WORD;
    w->at = (ptrdiff_t)at - (ptrdiff_t)(column - from * WORD);
    w->begin = begin - from;
    w->end = end - from;
    w->first = UINT64_MAX << column % WORD;
    w->last = UINT64_MAX >> (WORD - 1 - (column + n - 1) % WORD);
}

/* The bits of word i of a set whose columns are meant. */
static inline uint64_t meant(const struct window *w, uint32_t i, uint64_t bits)
{
    bits &= i == w->begin ? w->first : UINT64_MAX;
    return bits & (i + 1 == w->end ? w->last : UINT64_MAX);
}

/* ---- rows of several windows ----
 *
 * Keys, one after the other, each asked of all windows:
 *
 *     key 0           key 1           key 2
 *     window 0 1 2    window 0 1 2    window 0 1 2
 *            ^ asked next                    ^ fetched next  */
struct turn {
    const struct window *windows;
    size_t n;
    const uint64_t *hashes;
    uint64_t keys; /* whose rows are to be fetched, the first of them next, */
    size_t window; /* in this window */
    uint32_t n_fetched, n_asked;
    struct key_rows ring[AHEAD];
};

static inline void fetch_next_rows(struct turn *t)
{
    if (!t->keys)
        return;
    pack_fetch_rows(&t->windows[t->window].rows, t->hashes[__builtin_ctzll(t->keys)],
                    &t->ring[t->n_fetched++ % AHEAD]);
    if (++t->window == t->n) {
        t->window = 0;
        t->keys &= t->keys - 1;
    }
}

static void turn_begin(struct turn *t, const struct asking *a, const struct window *w,
                       size_t n)
{
    t->windows = w;
    t->n = n;
    t->hashes = a->hash;
    t->keys = a->plain;
    t->window = 0;
    t->n_fetched = t->n_asked = 0;
    for (size_t i = 0; i < AHEAD && t->keys; i++)
        fetch_next_rows(t);
}

/* The columns of the next window that may have the key, a bit each, whether they are
 * meant or not. True: pages that failed took part, so that a bit may stand for damage
 * alone. */
static inline bool turn_next(struct turn *t, const struct window *w, uint64_t *hits)
{
    const struct key_rows *rows = &t->ring[t->n_asked++ % AHEAD];
    bool damaged = false;
    uint64_t epoch = stage_epoch();
    pack_ask_rows(&w->rows, rows, w->living, hits, &damaged);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch,
                         0)) /* a page was found bad meanwhile */
        pack_ask_rows(&w->rows, rows, w->living, hits, &damaged);
    fetch_next_rows(t);
    return damaged;
}

/* ---- what rows let through ---- */

/* Rows of pages that failed say too much: each column is asked by itself. */
static enum tamis_reason reason_of_hit(const struct stripe *t, uint32_t column,
                                       const struct tamis_key *key, bool damaged,
                                       bool *by_range)
{
    uint32_t of_pack = t->band->first_column + column;
    enum tamis_reason why =
        damaged ? pack_probe_column(t->view->open->filter, t->band, column, key->hash)
                : TAMIS_HIT;
    return column_hit(t->view, of_pack, why, key, by_range);
}

/* Looks at the hits of key i in word k of a window: takes out those that are absent
 * after all, and tells of the others. Returns those that are hits still, which are not
 * counted here. */
static uint64_t look_at_hits(struct asking *a, size_t i, const struct window *w,
                             uint32_t k, uint64_t *hits, bool damaged)
{
    const struct tamis_query *q = a->q;
    uint64_t sure = 0;
    for (uint64_t m = *hits; m; m &= m - 1) {
        uint32_t bit = (uint32_t)__builtin_ctzll(m);
        size_t number = w->number + (size_t)k * WORD + bit;
        bool by_range = false;
        enum tamis_reason why =
            reason_of_hit(w->stripe, (uint32_t)(number - w->stripe->first), &a->keys[i],
                          damaged, &by_range);
        struct tamis_target target = {.slot = (uint32_t)number + 1,
                                      .snapshot = a->snapshot->serial};
        if (why == TAMIS_HIT)
            sure |= m & -m;
        else if (a->sheet)
            count_one(a->snapshot, &target, why, by_range);
        if (why == TAMIS_NO_REASON)
            *hits &= ~(m & -m);
        else if (q->n_candidates)
            add_candidate(a, i, number, why);
        if (a->reasons)
            a->reasons[w->at + (ptrdiff_t)k * WORD + bit] = (uint8_t)why;
    }
    return sure;
}

static __attribute__((noinline)) void take_and_look(struct asking *a, size_t i,
                                                    const struct window *w,
                                                    const uint64_t *hits, bool damaged)
{
    bool look = damaged || a->each_hit || a->keys[i].bytes;
    for (uint32_t k = w->begin; k < w->end; k++) {
        uint64_t rest = meant(w, k, hits[k]), late = rest, sure = rest;
        uint64_t absent = meant(w, k, w->living[k]) & ~rest;
        if (rest && look)
            sure = look_at_hits(a, i, w, k, &rest, damaged);
        if (rest)
            a->some |= UINT64_C(1) << i;
        deliver_columns(a, i, w->at + (ptrdiff_t)k * WORD, w->number + (size_t)k * WORD,
                        absent, late & ~rest, sure);
    }
}

/* Most keys have no hit that is to be looked at, and nobody to be told of others. */
static inline void take_window(struct asking *a, size_t i, const struct window *w,
                               uint64_t *hits, bool damaged)
{
    uint64_t any = 0;
    hits[w->begin] &= w->first;
    hits[w->end - 1] &= w->last;
    for (uint32_t k = w->begin; k < w->end; k++)
        any |= hits[k];
    a->damaged |= damaged;
    if (a->sheet || a->reasons || (any && a->each_hit) ||
        (any && !a->bare && (damaged || a->keys[i].bytes))) {
        take_and_look(a, i, w, hits, damaged);
        return;
    }
    a->some |= (uint64_t)(any != 0) << i;
    if (!a->rows)
        return;
    hits[w->begin] |= ~w->first;
    hits[w->end - 1] |= ~w->last;
    for (uint32_t k = w->begin; k < w->end; k++)
        put_bits(a->rows + i * a->n_words, w->at + (ptrdiff_t)k * WORD,
                 w->living[k] & ~hits[k]);
}

/* The plain keys. The first window that may have the only key is the answer, if nobody
 * asks which. */
static void ask_windows(struct asking *a, const struct window *w, size_t n)
{
    bool any = a->n == 1 && !a->rows && !a->sheet && !a->each_hit;
    uint64_t hits[ROW_MAX_WORDS];
    struct turn turn;
    turn_begin(&turn, a, w, n);
    for (uint64_t m = a->plain; m; m &= m - 1)
        for (size_t k = 0; k < n && !(any && a->some); k++) {
            bool damaged = turn_next(&turn, &w[k], hits);
            take_window(a, (size_t)__builtin_ctzll(m), &w[k], hits, damaged);
        }
}

/* ---- all columns ---- */

/* *why: the reason of all columns, once it is known. */
static void tell_of_mute(struct asking *a, size_t i, size_t number,
                         enum tamis_reason *why)
{
    struct tamis_target target = tamis_snapshot_target(a->snapshot, number);
    bool by_range = false;
    if (*why == TAMIS_NO_REASON)
        *why = probe_target(a->snapshot, &target, 0, &a->keys[i], &by_range);
    if (*why == TAMIS_NO_REASON) /* the store is there again by now */
        *why = TAMIS_UNREADABLE;
    if (a->reasons)
        a->reasons[number] = (uint8_t)*why;
    if (a->sheet)
        count_one(a->snapshot, &target, *why, false);
    if (a->q->n_candidates)
        add_candidate(a, i, number, *why);
}

/* Tells that columns without an answer may have key i; `all`: that all columns may.
 * Then only the reason why nothing can be proven is asked, once. */
static void tell_mute(struct asking *a, size_t i, bool all)
{
    const struct shared_files *p = &a->snapshot->shared;
    enum tamis_reason why = TAMIS_NO_REASON;
    for (size_t k = 0; k < p->n; k++) {
        const struct shared_view *v = &p->views[k];
        for (uint32_t at = 0; (all || view_mute(v)) && at < v->n_columns; at += WORD) {
            uint64_t mute = columns_word(v->listed, at / WORD);
            if (!all && v->dead)
                mute &= dead_word(v, at / WORD);
            for (; mute; mute &= mute - 1) {
                why = all ? why : TAMIS_NO_REASON;
                tell_of_mute(a, i, v->base + at + (size_t)__builtin_ctzll(mute), &why);
            }
        }
    }
}

void tell_of_mute_columns(struct asking *a)
{
    uint64_t plain = a->snapshot->complete ? a->plain : 0;
    a->some |= a->snapshot->shared.n_mute ? a->all : a->all & ~plain;
    for (size_t i = 0; (a->sheet || a->each_hit) && i < a->n; i++)
        tell_mute(a, i, !(plain >> i & 1));
}

/* ---- columns by number ---- */

/* The first stripe that ends behind a number. */
static size_t stripes_before(const struct shared_files *p, size_t number)
{
    size_t from = 0, to = p->n_stripes;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct stripe *t = &p->stripes[middle];
        if (t->first + t->band->n_columns <= number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Which of n numbers from `first` on does stripe i have? False: none. */
static bool window_at(struct window *w, const struct shared_files *p, size_t i,
                      size_t at, size_t first, size_t n)
{
    const struct stripe *t = &p->stripes[i];
    if (i == p->n_stripes || t->first >= first + n)
        return false;
    size_t from = t->first > first ? t->first : first,
           to = t->first + t->band->n_columns;
    to = to < first + n ? to : first + n;
    window_of_some(w, t, (uint32_t)(from - t->first), (uint32_t)(to - from),
                   at + (from - first));
    return true;
}

/* One more window is there; all are asked if no other one has room. */
static void add_window(struct asking *a, struct window *windows, size_t *n)
{
    if (++*n < N_WINDOWS)
        return;
    ask_windows(a, windows, *n);
    *n = 0;
}

void ask_columns(struct asking *a, size_t at, size_t first, size_t n)
{
    const struct shared_files *p = &a->snapshot->shared;
    struct window windows[N_WINDOWS];
    size_t n_windows = 0;
    for (size_t i = stripes_before(p, first);
         window_at(&windows[n_windows], p, i, at, first, n); i++)
        add_window(a, windows, &n_windows);
    if (n_windows)
        ask_windows(a, windows, n_windows);
}

void ask_numbers(struct asking *a, size_t at, size_t first, size_t n)
{
    size_t n_loose = a->snapshot->n_loose;
    for (size_t some; n && first < n_loose; at += some, first += some, n -= some) {
        some = n < WORD ? n : WORD;
        some = some < n_loose - first ? some : n_loose - first;
        ask_dense(a, at, some, first);
    }
    if (n)
        ask_columns(a, at, first, n);
}

uint64_t ask_columns_apart(struct asking *a, size_t at, size_t n, uint64_t but)
{
    const struct shared_files *p = &a->snapshot->shared;
    struct window windows[N_WINDOWS];
    size_t n_windows = 0;
    uint64_t asked = 0;
    if (!p->n_stripes || a->plain != a->all)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct tamis_target *t = &a->q->targets[at + i];
        struct window *w = &windows[n_windows];
        size_t number = t->slot - 1U;
        if (but >> i & 1 ||
            !plain_between(a->snapshot, t, a->snapshot->n_loose, a->snapshot->n) ||
            !window_at(w, p, stripes_before(p, number), at + i, number, 1) ||
            !meant(w, w->begin, w->living[w->begin]))
            continue;
        asked |= UINT64_C(1) << i;
        add_window(a, windows, &n_windows);
    }
    if (n_windows)
        ask_windows(a, windows, n_windows);
    return asked;
}

size_t numbers_alive(const struct tamis_snapshot *s, size_t first, size_t n)
{
    const struct shared_files *p = &s->shared;
    struct window w;
    size_t at = first < s->n_loose ? s->n_loose : first, end = first + n;
    for (size_t i = stripes_before(p, at);
         at < end && window_at(&w, p, i, 0, at, end - at); i++) {
        if (w.stripe->first > at)
            break;
        for (uint32_t k = w.begin; k < w.end; k++) {
            uint64_t dead = meant(&w, k, ~w.living[k]);
            if (dead)
                return w.number + (size_t)k * WORD + (size_t)__builtin_ctzll(dead) -
                       first;
        }
        at = w.stripe->first + w.stripe->band->n_columns;
    }
    return (at < end ? at : end) - first;
}

/* ---- targets in no order ----
 *
 * All columns, all loose segments, or both are asked, a page of numbers at a time, into
 * rows of bits of their own, where each target then finds its bit:
 *
 *     targets    7 2 5 ...       absent, by number   0 0 1 0 0 1 0 1 ...
 *     absent     1 1 1 ...                               2     5   7
 *
 * A key that none of them may have, as most keys, is not looked up. */

enum { PAGE_WORDS = 1024 };

struct page {
    size_t begin, end;        /* all numbers that are asked so; */
    size_t first, n, n_words; /* those of this page */
    bool bare;         /* hits are not looked at: few of these columns are asked for */
    uint64_t hits;     /* keys that some target may have */
    uint64_t doubtful; /* those whose hits a range may exclude, or a failed page made */
    uint64_t listed[PAGE_WORDS]; /* the numbers that are targets */
    uint64_t rows[PAGE_WORDS];
};

/* May a target that lies on the page have the key of this row? */
static bool any_listed(const struct page *p, const uint64_t *absent)
{
    uint64_t any = 0;
    for (size_t i = 0; i < p->n_words; i++)
        any |= p->listed[i] & ~absent[i];
    return any;
}

/* Asks keys from one on, as many as there is room for. Returns how many. */
static size_t ask_page(const struct asking *a, struct page *p, size_t from)
{
    struct tamis_query all = *a->q;
    struct asking b = *a;
    all.targets = NULL; /* numbers */
    b.q = &all;
    b.reasons = NULL;
    b.each_hit = false;
    b.bare = p->bare;
    b.n_words = p->n_words;
    b.n = PAGE_WORDS / p->n_words;
    b.n = b.n < a->n - from ? b.n : a->n - from;
    b.keys = a->keys + from;
    b.hash = a->hash + from;
    b.prefix = a->prefix + from;
    b.plain = b.all = first_bits(b.n);
    b.ranged = a->ranged >> from & b.all;
    b.rows = p->rows;
    memset(p->rows, 0, b.n * p->n_words * sizeof *p->rows);
    ask_numbers(&b, 0, p->first, p->n);
    p->hits = p->doubtful = 0;
    for (size_t k = 0; k < b.n; k++) {
        p->hits |= (uint64_t)any_listed(p, p->rows + k * p->n_words) << k;
        p->doubtful |= (uint64_t)(p->bare && (b.damaged || b.keys[k].bytes)) << k;
    }
    return b.n;
}

static inline uint64_t look_up(const uint64_t *row, const uint32_t *at, size_t n)
{
    uint64_t absent = 0;
    for (size_t i = 0; i < n; i++)
        absent |= (row[at[i] / WORD] >> at[i] % WORD & 1) << i;
    return absent;
}

/* Does nobody ask which of the targets may have a key, but only whether any may? */
static bool asks_any(const struct asking *a)
{
    return !a->rows && !a->reasons;
}

/* Key i, and its hits in a slice. Returns those that are absent after all. */
static uint64_t look_again(struct asking *a, size_t i, const struct slice *t,
                           uint64_t hits)
{
    uint64_t absent = 0;
    for (; hits; hits &= hits - 1) {
        size_t k = (size_t)__builtin_ctzll(hits);
        if (ask_with_care(a, &t->targets[k], t->at + k, UINT64_C(1) << i))
            absent |= hits & -hits;
        else if (asks_any(a))
            break;
    }
    return absent;
}

/* Asks those of n targets that no page answers. */
static void ask_off_pages(struct asking *a, size_t place, size_t n, uint64_t on_pages)
{
    if (on_pages != first_bits(n))
        ask_slice(a, place, n, on_pages | ask_columns_apart(a, place, n, on_pages));
}

/* Lists n targets that lie on the page. `first`: asks the others. */
static void list_targets(struct asking *a, struct page *p, size_t place, size_t n,
                         bool first)
{
    const struct tamis_target *t = a->q->targets + place;
    uint64_t on_pages = 0;
    for (size_t i = 0; i < n; i++) {
        size_t number = t[i].slot - 1U - p->first;
        bool on_page = plain_between(a->snapshot, &t[i], p->begin, p->end);
        on_pages |= (uint64_t)on_page << i;
        if (on_page && number < p->n)
            p->listed[number / WORD] |= UINT64_C(1) << number % WORD;
    }
    if (first)
        ask_off_pages(a, place, n, on_pages);
}

/* n targets that lie on the page, for keys from one on. `first`: asks the others. */
static void look_up_slice(struct asking *a, const struct page *p, size_t place,
                          size_t n, size_t from, size_t n_keys, bool first)
{
    struct slice t;
    uint32_t at[WORD];
    uint64_t on_pages = 0, here = 0;
    slice_begin(&t, a, place, n);
    for (size_t i = 0; i < n; i++) {
        size_t number = t.targets[i].slot - 1U - p->first;
        on_pages |=
            (uint64_t)plain_between(a->snapshot, &t.targets[i], p->begin, p->end) << i;
        here |= (uint64_t)(number < p->n) << i;
        at[i] = number < p->n ? (uint32_t)number : 0;
    }
    if (first)
        ask_off_pages(a, place, n, on_pages);
    t.asked = on_pages & here;
    for (size_t k = 0; k < n_keys; k++) {
        uint64_t absent = t.asked, late = 0;
        if (asks_any(a) && (a->some >> (from + k) & 1 || !(p->hits >> k & 1)))
            continue;
        if (p->hits >> k & 1)
            absent &= look_up(p->rows + k * p->n_words, at, n);
        if (a->reasons || p->doubtful >> k & 1)
            late = look_again(a, from + k, &t, t.asked & ~absent);
        deliver(a, from + k, &t, absent | late, 0, absent);
    }
}

/* Their numbers lie in *first .. *end - 1. Returns how many they are. */
static size_t range_of_columns(const struct asking *a, size_t at, size_t n,
                               size_t *first, size_t *end)
{
    const struct tamis_snapshot *s = a->snapshot;
    const struct tamis_target *t = &a->q->targets[at];
    size_t n_columns = 0;
    *first = *end = 0;
    for (size_t i = 0; i < n; i++) {
        if (!plain_between(s, &t[i], s->n_loose, s->n))
            continue;
        *first = !n_columns || t[i].slot - 1 < *first ? t[i].slot - 1 : *first;
        *end = t[i].slot > *end ? t[i].slot : *end;
        n_columns++;
    }
    return n_columns;
}

/* The lines that each row of these columns has, roughly. */
static size_t lines_of_numbers(const struct shared_files *p, size_t begin, size_t end)
{
    return (end - begin) / LINE_COLUMNS + stripes_before(p, end - 1) -
           stripes_before(p, begin) + 1;
}

/* Are at least half of the loose segments among n targets, and all of them ready? Then
 * all are asked sooner, as they follow each other. */
static bool lists_loose(const struct asking *a, size_t at, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    uint64_t epoch = stage_epoch(), ready = UINT64_MAX;
    size_t n_listed = 0;
    if (!s->n_loose || s->n_loose > 2 * n)
        return false;
    for (size_t i = 0; i < s->n_loose; i += WORD)
        ready &= planes_are_ready(&s->planes, i, epoch) | ~first_bits(s->n_loose - i);
    for (size_t i = 0; i < n && ready == UINT64_MAX; i++)
        n_listed += plain_between(s, &a->q->targets[at + i], 0, s->n_loose);
    return 2 * n_listed >= s->n_loose;
}

/* The columns that are asked, *begin .. *end - 1. False: each is better asked by
 * itself. */
static bool lists_columns(const struct asking *a, size_t at, size_t n, size_t *begin,
                          size_t *end)
{
    const struct shared_files *packs = &a->snapshot->shared;
    size_t n_columns = n, n_lines = lines_of_numbers(packs, *begin, *end);
    if (n_lines >= n / 16) { /* else most of them are asked anyway */
        n_columns = range_of_columns(a, at, n, begin, end);
        n_lines = n_columns ? lines_of_numbers(packs, *begin, *end) : 0;
    }
    return n_lines + 4 <= 2 * n_columns;
}

bool look_up_targets(struct asking *a, size_t at, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    struct page p;
    p.begin = s->n_loose;
    p.end = s->n;
    if (n < 3 || a->plain != a->all || a->sheet)
        return false;
    bool columns = s->shared.n_stripes && lists_columns(a, at, n, &p.begin, &p.end);
    bool loose = lists_loose(a, at, n);
    if (columns && loose) /* together, if few columns lie in between */
        loose = lines_of_numbers(&s->shared, s->n_loose, p.begin) <= n / 16 + 1;
    if (!loose && !columns)
        return false;
    p.begin = loose ? 0 : p.begin;
    p.end = columns ? p.end : s->n_loose;
    p.bare = columns && (asks_any(a) || n < (p.end - p.begin) / 4);
    for (p.first = p.begin; p.first < p.end; p.first += p.n) {
        p.n = p.end - p.first;
        p.n = p.n < PAGE_WORDS * WORD ? p.n : PAGE_WORDS * WORD;
        p.n_words = bit_words(p.n);
        /* One key: its targets are seen only when they are looked up. */
        bool lists = a->n > 1 || asks_any(a), first = p.first == p.begin;
        memset(p.listed, lists ? 0 : 0xff, p.n_words * sizeof *p.listed);
        for (size_t i = 0; lists && i < n; i += WORD)
            list_targets(a, &p, at + i, n - i < WORD ? n - i : WORD, first);
        for (size_t from = 0, some; from < a->n; from += some) {
            some = ask_page(a, &p, from);
            if (asks_any(a))
                a->some |= (p.hits & ~p.doubtful) << from;
            if (asks_any(a) && !(p.hits & p.doubtful))
                continue;
            for (size_t i = 0; i < n; i += WORD)
                look_up_slice(a, &p, at + i, n - i < WORD ? n - i : WORD, from, some,
                              first && !lists);
        }
    }
    return true;
}
