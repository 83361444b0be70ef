/* Columns of packs: rows say which of them may have a key, many at a time.
 *
 *     rows of the key --AND--> columns that may have it   0 1 1 0 ...
 *     living columns of the stripe                        1 1 0 1 ...
 *     living, and not set in all rows: absent             1 0 0 1 ...
 *
 * A window is as much of a stripe as is asked: all of it, or the words of its rows that
 * a list of segments needs. Nothing is done column by column but for hits, of which
 * there are few: their key ranges are compared only now. */
#include "lib/store/query/inside.h"
#include "lib/page/page.h"
#include "lib/store/base/counters.h"

#include <string.h>

enum { N_WINDOWS = 16, AHEAD = 8, LINE_COLUMNS = BLOCK_BITS };

struct window {
    const struct stripe *stripe;
    struct band_rows rows; /* the words that are asked */
    const uint64_t *living;
    size_t number;        /* of the first column in these words */
    ptrdiff_t at;         /* its place in rows of answers; below 0 if it is not meant */
    uint32_t begin, end;  /* words that have columns that are meant, */
    uint64_t first, last; /* and those in the first and the last of them */
};

static void window_of_all(struct window *w, const struct stripe *t)
{
    w->stripe = t;
    w->rows = t->rows;
    w->living = t->living;
    w->number = t->first;
    w->at = (ptrdiff_t)t->first;
    w->begin = 0;
    w->end = t->n_words;
    w->first = w->last = UINT64_MAX;
}

/* n columns of a stripe from this one on, answered from a place on. A long row is read
 * in whole lines, and a short one whole. */
static void window_of_some(struct window *w, const struct stripe *t, uint32_t column,
                           uint32_t n, size_t at)
{
    uint32_t begin = column / WORD, end = (column + n - 1) / WORD + 1, from = begin,
             to = end;
    window_of_all(w, t);
    if (w->rows.row_bytes >= BLOCK_BYTES) {
        from = begin / WORDS_PER_BLOCK * WORDS_PER_BLOCK;
        to = (end + WORDS_PER_BLOCK - 1) / WORDS_PER_BLOCK * WORDS_PER_BLOCK;
        w->rows.n_bytes = (to - from) * 8;
        w->rows.bits += (size_t)from * 8;
    } else {
        from = 0;
    }
    w->living += from;
    w->number += (size_t)from * WORD;
    w->at = (ptrdiff_t)at - (ptrdiff_t)(column - from * WORD);
    w->begin = begin - from;
    w->end = end - from;
    w->first = UINT64_MAX << column % WORD;
    w->last = UINT64_MAX >> (WORD - 1 - (column + n - 1) % WORD);
}

/* Those columns of word i of a set that are meant. */
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
    for (size_t i = 0; i < AHEAD; i++)
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
        damaged ? pack_probe_column(t->view->pack->filter, t->band, column, key->hash)
                : TAMIS_HIT;
    if (why == TAMIS_NO_REASON || !key->bytes)
        return why;
    enum tamis_reason hit = column_hit(t->view, of_pack, key, by_range);
    return hit == TAMIS_HIT ? why : hit;
}

/* Looks at the hits of key i in word k of a window: takes out those that are absent
 * after all, and tells of the others. Returns those that are hits still, which are not
 * counted here. */
static uint64_t look_at_hits(struct asking *a, size_t i, const struct window *w,
                             uint32_t k, uint64_t *hits, bool damaged)
{
    struct query *q = a->q;
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
        else if (q->candidates)
            add_candidate(q, number);
        if (q->reasons)
            q->reasons[w->at + (ptrdiff_t)k * WORD + bit] = (uint8_t)why;
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
    if (a->sheet || a->each_hit || (any && (damaged || a->keys[i].bytes))) {
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

/* *why: that of all of them, once it is known. */
static void tell_of_mute(struct asking *a, size_t i, size_t number,
                         enum tamis_reason *why)
{
    struct tamis_target target = tamis_snapshot_target(a->snapshot, number);
    bool by_range = false;
    if (*why == TAMIS_NO_REASON)
        *why = probe_target(a->snapshot, &target, 0, asked_key(a, i), &by_range);
    if (a->q->reasons)
        a->q->reasons[number] = (uint8_t)*why;
    if (a->sheet)
        count_one(a->snapshot, &target, *why, false);
    if (a->q->candidates)
        add_candidate(a->q, number);
}

/* Key i of columns that have no answer, or of all of them: then nothing is asked but
 * why nothing can be proven, once. */
static void tell_mute(struct asking *a, size_t i, bool all)
{
    const struct shared_files *p = &a->snapshot->shared;
    enum tamis_reason why = TAMIS_NO_REASON;
    for (size_t k = 0; k < p->n; k++) {
        const struct pack_view *v = &p->views[k];
        for (uint32_t at = 0; at < v->n_columns; at += WORD) {
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

void ask_all_columns(struct asking *a)
{
    const struct shared_files *p = &a->snapshot->shared;
    struct window windows[N_WINDOWS];
    uint64_t plain = a->proven ? a->plain : 0;
    if (a->q->reasons) /* all that no column answers for */
        memset(a->q->reasons + a->snapshot->n_loose, TAMIS_UNKNOWN_SEGMENT,
               a->snapshot->n - a->snapshot->n_loose);
    for (size_t i = 0, n = 0; plain && i < p->n_stripes; i++) {
        window_of_all(&windows[n++], &p->stripes[i]);
        if (n < N_WINDOWS && i + 1 < p->n_stripes)
            continue;
        ask_windows(a, windows, n);
        n = 0;
    }
    if (p->n_listed)
        a->some |= p->n_mute ? a->all : a->all & ~plain;
    for (size_t i = 0; (a->sheet || a->each_hit) && i < a->n; i++)
        tell_mute(a, i, !(plain >> i & 1));
}

/* ---- some columns ---- */

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

const struct stripe *stripe_of_number(const struct tamis_snapshot *s, size_t number)
{
    const struct shared_files *p = &s->shared;
    size_t i = stripes_before(p, number);
    if (i == p->n_stripes || number < p->stripes[i].first)
        return NULL;
    const struct stripe *t = &p->stripes[i];
    size_t column = number - t->first;
    return t->living[column / 64] >> column % 64 & 1 ? t : NULL;
}

/* Targets from a place on that no row answers for, or keys that are not plain. */
static void ask_alone(struct asking *a, size_t at, size_t n, uint64_t mask)
{
    for (; n && mask; at++, n--)
        deliver_alone(a, at, mask, ask_with_care(a, &a->q->targets[at], at, mask));
}

static void ask_dead(struct asking *a, const struct window *w)
{
    for (uint32_t k = w->begin; k < w->end; k++)
        for (uint64_t m = meant(w, k, ~w->living[k]); m; m &= m - 1)
            ask_alone(a, (size_t)(w->at + (ptrdiff_t)k * WORD + __builtin_ctzll(m)), 1,
                      a->plain);
}

void ask_columns(struct asking *a, size_t at, size_t first, size_t n)
{
    const struct shared_files *p = &a->snapshot->shared;
    struct window windows[N_WINDOWS];
    size_t n_windows = 0, end = first + n, number = first;
    for (size_t i = stripes_before(p, first); number < end; i++) {
        const struct stripe *t = i < p->n_stripes ? &p->stripes[i] : NULL;
        size_t next = t && t->first < end ? t->first : end;
        if (next > number) {
            ask_alone(a, at + (number - first), next - number, a->plain);
            number = next;
        }
        if (number < end) {
            size_t left = t->first + t->band->n_columns - number;
            size_t some = left < end - number ? left : end - number;
            window_of_some(&windows[n_windows++], t, (uint32_t)(number - t->first),
                           (uint32_t)some, at + (number - first));
            number += some;
        }
        if (n_windows == N_WINDOWS || (number == end && n_windows)) {
            ask_windows(a, windows, n_windows);
            for (size_t k = 0; k < n_windows; k++)
                ask_dead(a, &windows[k]);
            n_windows = 0;
        }
    }
    ask_alone(a, at, n, a->all & ~a->plain);
}

/* ---- targets of a slice ---- */

/* Those that lie in one line of the rows of one stripe, with the first of them. */
static uint64_t next_group(const struct asking *a, const struct slice *t, uint64_t left,
                           struct window *w)
{
    size_t number = slice_number(t, (size_t)__builtin_ctzll(left));
    const struct stripe *stripe = stripe_of_number(a->snapshot, number);
    uint32_t n = stripe->band->n_columns, at = (uint32_t)(number - stripe->first);
    uint32_t line = at / LINE_COLUMNS * LINE_COLUMNS;
    uint64_t group = 0;
    window_of_some(w, stripe, line, n - line < LINE_COLUMNS ? n - line : LINE_COLUMNS,
                   0);
    for (uint64_t m = left; m; m &= m - 1) {
        size_t column = slice_number(t, (size_t)__builtin_ctzll(m)) - w->number;
        group |= column < LINE_COLUMNS && column < n - line ? m & -m : 0;
    }
    return group;
}

/* Key i of a group. A hit that a range may exclude, or that damage may stand for, is
 * asked with care. */
static void take_group(struct asking *a, size_t i, const struct slice *t,
                       uint64_t group, const struct window *w, const uint64_t *hits,
                       bool damaged, uint64_t *absent, uint64_t *by_bits)
{
    bool look = damaged || a->keys[i].bytes;
    for (uint64_t m = group; m; m &= m - 1) {
        size_t j = (size_t)__builtin_ctzll(m);
        size_t column = slice_number(t, j) - w->number;
        bool hit = hits[column / WORD] >> column % WORD & 1;
        if (!hit || !look)
            *by_bits |= m & -m;
        if (!hit ||
            (look && ask_with_care(a, &t->targets[j], t->at + j, UINT64_C(1) << i)))
            *absent |= m & -m;
    }
}

void ask_shared(struct asking *a, const struct slice *t, uint64_t *absent,
                uint64_t *by_bits)
{
    uint64_t hits[WORDS_PER_BLOCK];
    struct window w;
    struct turn turn;
    for (uint64_t left = t->shared, group; left; left &= ~group) {
        group = next_group(a, t, left, &w);
        turn_begin(&turn, a, &w, 1);
        for (uint64_t m = a->plain; m; m &= m - 1) {
            size_t i = (size_t)__builtin_ctzll(m);
            bool damaged = turn_next(&turn, &w, hits);
            take_group(a, i, t, group, &w, hits, damaged, &absent[i], &by_bits[i]);
        }
    }
}
