/* Numbers that follow each other. Columns of packs: rows say which of them may have a
 * key, many at a time.
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
    const struct asking *a;
    const struct window *windows;
    size_t n;
    uint64_t keys; /* whose rows are to be fetched, the first of them next, */
    size_t window; /* in this window */
    size_t n_fetched, n_asked;
    struct fetched {
        size_t key, window;
        struct key_rows rows;
    } ring[AHEAD];
};

/* If nobody asks which segments may have a key, no more is fetched once one may. */
static inline void fetch_next_rows(struct turn *t)
{
    uint64_t done = asks_any(t->a) ? t->a->some : 0;
    t->window = t->keys & -t->keys & done ? 0 : t->window;
    t->keys &= ~done;
    if (!t->keys)
        return;
    struct fetched *f = &t->ring[t->n_fetched++ % AHEAD];
    f->key = (size_t)__builtin_ctzll(t->keys);
    f->window = t->window;
    pack_fetch_rows(&t->windows[f->window].rows, t->a->hash[f->key], &f->rows);
    if (++t->window == t->n) {
        t->window = 0;
        t->keys &= t->keys - 1;
    }
}

/* The columns of a window that may have the key, a bit each, whether they are meant or
 * not. True: pages that failed took part, so that a bit may stand for damage alone. */
static inline bool ask_fetched(const struct window *w, const struct key_rows *rows,
                               uint64_t *hits)
{
    bool damaged = false;
    uint64_t epoch = stage_epoch();
    pack_ask_rows(&w->rows, rows, w->living, hits, &damaged);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch,
                         0)) /* a page was found bad meanwhile */
        pack_ask_rows(&w->rows, rows, w->living, hits, &damaged);
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
        struct tamis_target target = {.ordinal = (uint32_t)number + 1,
                                      .snapshot = a->snapshot->serial};
        if (why == TAMIS_HIT)
            sure |= m & -m;
        else if (a->sheet)
            count_one(a->snapshot, &target, why, by_range);
        if (why == TAMIS_NO_REASON)
            *hits &= ~(m & -m);
        else if (asks_any(a))
            break;
        else if (q->n_candidates)
            add_candidate(a, i, number, why);
        if (a->reasons)
            a->reasons[w->at + (ptrdiff_t)k * WORD + bit] = (uint8_t)why;
    }
    return sure;
}

/* Fetches the entries of some hits, from those in word k on. Returns where to go on. */
static uint32_t fetch_entries(const struct asking *a, const struct window *w,
                              const uint64_t *hits, uint32_t k)
{
    const struct stripe *t = w->stripe;
    uint32_t columns[PACK_FETCHED], n = 0, most = asks_any(a) ? 4 : PACK_FETCHED;
    uint32_t first = t->band->first_column + (uint32_t)(w->number - t->first);
    for (; k < w->end && n < most; k++)
        for (uint64_t m = hits[k]; m && n < most; m &= m - 1)
            columns[n++] = first + k * WORD + (uint32_t)__builtin_ctzll(m);
    pack_fetch_entries(t->view->open->filter, columns, n);
    return k;
}

static __attribute__((noinline)) void take_and_look(struct asking *a, size_t i,
                                                    const struct window *w,
                                                    const uint64_t *hits, bool damaged)
{
    bool look = damaged || a->each_hit || a->keys[i].bytes;
    uint32_t fetched = a->keys[i].bytes ? w->begin : w->end;
    for (uint32_t k = w->begin; k < w->end; k++) {
        uint64_t rest = hits[k], late = rest, sure = rest;
        uint64_t absent = meant(w, k, w->living[k]) & ~rest;
        if (rest && k >= fetched)
            fetched = fetch_entries(a, w, hits, k);
        if (rest && look)
            sure = look_at_hits(a, i, w, k, &rest, damaged);
        if (rest)
            a->some |= UINT64_C(1) << i;
        if (rest && asks_any(a))
            return;
        if (a->rows || a->reasons || a->sheet)
            deliver_columns(a, i, w->at + (ptrdiff_t)k * WORD,
                            w->number + (size_t)k * WORD, absent, late & ~rest, sure);
    }
}

/* Most keys have no hit that is to be looked at, and nobody to be told of others. */
static inline void take_window(struct asking *a, size_t i, const struct window *w,
                               uint64_t *hits, bool damaged)
{
    uint64_t any = 0;
    hits[w->begin] &= w->first;
    hits[w->end - 1] &= w->last;
    for (uint32_t k = w->begin; k < w->end; k++) {
        if (a->listed)
            hits[k] &= listed_word(a, w->number + (size_t)k * WORD);
        any |= hits[k];
    }
    if (a->sheet || a->reasons || (any && a->each_hit) ||
        (any && (damaged || a->keys[i].bytes))) {
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

/* The plain keys. */
static void ask_windows(struct asking *a, const struct window *w, size_t n)
{
    uint64_t hits[ROW_MAX_WORDS];
    struct turn turn;
    turn.a = a;
    turn.windows = w;
    turn.n = n;
    turn.keys = a->plain;
    turn.window = turn.n_fetched = turn.n_asked = 0;
    for (size_t i = 0; i < AHEAD; i++)
        fetch_next_rows(&turn);
    while (turn.n_asked != turn.n_fetched) {
        const struct fetched *f = &turn.ring[turn.n_asked++ % AHEAD];
        if (!(asks_any(a) && a->some >> f->key & 1)) {
            bool damaged = ask_fetched(&w[f->window], &f->rows, hits);
            take_window(a, f->key, &w[f->window], hits, damaged);
        }
        fetch_next_rows(&turn);
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

size_t stripes_before(const struct shared_files *p, size_t number)
{
    size_t i = stripe_near(p, number);
    return i + (p->n_stripes &&
                number >= p->stripes[i].first + p->stripes[i].band->n_columns);
}

/* Which of n numbers from `first` on does stripe i have? False: none. */
static bool window_at(struct window *w, const struct shared_files *p, size_t i,
                      size_t at, size_t first, size_t n)
{
    if (i == p->n_stripes || p->stripes[i].first >= first + n)
        return false;
    const struct stripe *t = &p->stripes[i];
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
    size_t n_loose = a->snapshot->n_loose, loose = 0;
    if (first < n_loose)
        loose = n < n_loose - first ? n : n_loose - first;
    /* A key is told sooner by many at a time. */
    bool columns_first = loose > WORD && asks_any(a);
    if (columns_first && n > loose)
        ask_columns(a, at + loose, first + loose, n - loose);
    for (size_t i = 0; i < loose && !is_told(a); i += WORD)
        ask_dense(a, at + i, loose - i < WORD ? loose - i : WORD, first + i);
    if (!columns_first && n > loose && !is_told(a))
        ask_columns(a, at + loose, first + loose, n - loose);
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
        size_t number = t->ordinal - 1U;
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

/* Is any of the numbers from .. to - 1 asked? */
static bool any_listed(const struct asking *a, size_t from, size_t to)
{
    for (; from < to; from += WORD)
        if (!a->listed || listed_word(a, from) & first_bits(to - from))
            return true;
    return false;
}

size_t numbers_alive(const struct asking *a, size_t first, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    const struct shared_files *p = &s->shared;
    struct window w;
    size_t at = first < s->n_loose ? s->n_loose : first, end = first + n;
    for (size_t i = stripes_before(p, at);
         at < end && window_at(&w, p, i, 0, at, end - at); i++) {
        if (any_listed(a, at, w.stripe->first))
            break;
        for (uint32_t k = w.begin; k < w.end; k++) {
            size_t number = w.number + (size_t)k * WORD;
            uint64_t dead = meant(&w, k, ~w.living[k]);
            if (a->listed)
                dead &= listed_word(a, number);
            if (dead)
                return number + (size_t)__builtin_ctzll(dead) - first;
        }
        at = w.stripe->first + w.stripe->band->n_columns;
    }
    return at < end && any_listed(a, at, end) ? at - first : n;
}
