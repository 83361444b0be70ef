/* Answers on their way out: into rows of bits, reasons and candidates, and into the
 * counts. Each answer leaves when it is whole: whoever jumps out of a probe, from a
 * signal handler of the host's perhaps, is left with MAYBE. */
#include "lib/store/query/inside.h"

/* ---- counts ---- */

static void count_in(struct sheet *sheet, const struct tamis_snapshot *s,
                     const struct tamis_target *t, enum tamis_reason reason, size_t n)
{
    struct count_row *row = sheet_row(sheet, t && target_here(s, t) ? t->ordinal : 0);
    sheet_add(sheet, &row->n[reason], n);
}

/* With every single probe: the way to the thread's sheet saves no registers. */
static __attribute__((noinline)) void count_slowly(struct tamis_snapshot *s,
                                                   const struct tamis_target *t,
                                                   enum tamis_reason reason, size_t n)
{
    count_in(counters_sheet_slowly(&s->counts, s->n), s, t, reason, n);
}

void count_alike(struct tamis_snapshot *s, const struct tamis_target *t,
                 enum tamis_reason reason, size_t n)
{
    struct sheet *sheet = counters_mine(&s->counts);
    if (__builtin_expect(sheet != NULL, 1))
        count_in(sheet, s, t, reason, n);
    else
        count_slowly(s, t, reason, n);
}

void count_excluded(struct tamis_snapshot *s, uint64_t mask)
{
    struct sheet *sheet = counters_sheet(&s->counts, s->n);
    sheet_add(sheet, &sheet->excluded, n_bits(mask));
}

/* A list of targets, one by one. */
static void count_targets(struct sheet *sheet, const struct tamis_target *targets,
                          uint64_t absent, uint64_t hits)
{
    sheet_add(sheet, &sheet->absent, n_bits(absent));
    for (uint64_t m = absent | hits; m; m &= m - 1) {
        struct count_row *row = sheet_row(sheet, targets[__builtin_ctzll(m)].ordinal);
        sheet_add(sheet, &row->n[m & -m & absent ? COUNT_MANY : TAMIS_HIT], 1);
    }
}

static void count_each(struct sheet *sheet, size_t first, uint64_t mask, int counter,
                       uint64_t n)
{
    for (; mask; mask &= mask - 1) {
        size_t ordinal = first + (size_t)__builtin_ctzll(mask);
        sheet_add(sheet, &sheet_row(sheet, ordinal)->n[counter], n);
    }
}

/* The absents of 64 numbers in one step, and then those taken back that are none; or
 * one by one, where they are fewer than those. */
static void count_a_word(struct sheet *sheet, size_t n, size_t word, uint64_t absent,
                         uint64_t hits)
{
    uint64_t asked = first_bits(n - word * WORD);
    size_t first = 1 + word * WORD;
    uint64_t most = n_bits(absent) > n_bits(asked) / 2 ? asked : 0, small = most & hits;
    sheet_add(sheet, &sheet->absent, n_bits(absent));
    if (most)
        sheet_add(sheet, &sheet->all[word], 1);
    for (uint64_t m = small; m; m &= m - 1)
        sheet_hit(sheet, first + (size_t)__builtin_ctzll(m), 1);
    count_each(sheet, first, (most ^ absent) & ~small, COUNT_MANY,
               most ? UINT64_MAX : 1); /* one less: numbers wrap */
    count_each(sheet, first, hits & ~small, TAMIS_HIT, 1);
}

/* Up to 64 numbers, from this one on. */
static void count_numbers(const struct asking *a, size_t first, uint64_t absent,
                          uint64_t hits)
{
    size_t word = first / WORD, shift = first % WORD, n = a->snapshot->n;
    if (absent << shift | hits << shift)
        count_a_word(a->sheet, n, word, absent << shift, hits << shift);
    absent = shift ? absent >> (WORD - shift) : 0;
    hits = shift ? hits >> (WORD - shift) : 0;
    if (absent | hits)
        count_a_word(a->sheet, n, word + 1, absent, hits);
}

/* ---- candidates: if there is no room for all, a heap of the first by rank ---- */

/* While they are gathered, each is a number with its reason below. */
enum { REASON_BITS = 32 - NUMBER_BITS, REASON_MASK = (1 << REASON_BITS) - 1 };

static bool comes_first(const struct tamis_snapshot *s, uint32_t a, uint32_t b)
{
    uint32_t left = segment_rank(s, a >> REASON_BITS),
             right = segment_rank(s, b >> REASON_BITS);
    return left != right ? left < right : a < b;
}

/* Moves number i down a heap whose top is the last of its numbers. */
static void sift_by_rank(const struct tamis_snapshot *s, uint32_t *heap, size_t i,
                         size_t n)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        uint32_t moved = heap[i];
        if (child + 1 < n && comes_first(s, heap[child], heap[child + 1]))
            child++;
        if (!comes_first(s, moved, heap[child]))
            return;
        heap[i] = heap[child];
        heap[child] = moved;
    }
}

static void make_rank_heap(const struct tamis_snapshot *s, uint32_t *heap, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_by_rank(s, heap, i, n);
}

static uint32_t *row_of_candidates(const struct asking *a, size_t i)
{
    return a->q->candidates ? a->q->candidates + i * a->q->max_candidates : NULL;
}

void add_candidate(struct asking *a, size_t i, size_t number, enum tamis_reason why)
{
    uint32_t one = (uint32_t)number << REASON_BITS | (uint32_t)why;
    size_t n = a->n_candidates[i]++, max = a->q->max_candidates;
    uint32_t *found = row_of_candidates(a, i);
    if (!found || !max || (n >= max && a->by_number >> i & 1))
        return;
    if (n < max) {
        found[n] = one;
        return;
    }
    if (n == max)
        make_rank_heap(a->snapshot, found, max);
    if (!comes_first(a->snapshot, one, found[0]))
        return;
    found[0] = one;
    sift_by_rank(a->snapshot, found, 0, max);
}

/* They come in the order of numbers. Mostly that is the order of ranks, too. */
static void sort_by_rank(const struct tamis_snapshot *s, uint32_t *found, size_t n)
{
    uint32_t before = 0; /* a rank is read once: it may lie in a pack's table */
    size_t in_order = 0;
    for (uint32_t rank, last = 0; in_order < n; last = found[in_order++]) {
        rank = segment_rank(s, found[in_order] >> REASON_BITS);
        if (rank < before || (rank == before && found[in_order] < last))
            break;
        before = rank;
    }
    if (in_order >= n)
        return;
    make_rank_heap(s, found, n);
    while (n-- > 1) {
        uint32_t last = found[n];
        found[n] = found[0];
        found[0] = last;
        sift_by_rank(s, found, 0, n);
    }
}

void finish_candidates(const struct asking *a)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t max = a->q->max_candidates, n = a->n_candidates[i];
        uint32_t *found = row_of_candidates(a, i);
        n = found && n > max ? max : n;
        if (found && !(a->by_number >> i & 1))
            sort_by_rank(a->snapshot, found, n);
        for (size_t k = 0; found && k < n; k++) {
            if (a->q->reasons) /* of one key */
                a->q->reasons[k] = (uint8_t)(found[k] & REASON_MASK);
            found[k] >>= REASON_BITS;
        }
        a->q->n_candidates[i] = a->n_candidates[i];
    }
}

/* ---- answers ---- */

static void give_reason(uint8_t *reasons, uint64_t mask, enum tamis_reason reason)
{
    for (; mask; mask &= mask - 1)
        reasons[__builtin_ctzll(mask)] = (uint8_t)reason;
}

void deliver(struct asking *a, size_t i, const struct slice *t, uint64_t absent,
             uint64_t by_range, uint64_t by_bits)
{
    uint64_t maybe = t->asked & ~absent;
    if (maybe)
        a->some |= UINT64_C(1) << i;
    if (a->rows)
        put_bits(a->rows + i * a->n_words, (ptrdiff_t)t->at, absent);
    if (a->reasons && absent == first_bits(t->n)) {
        memset(a->reasons + t->at, TAMIS_NO_REASON, t->n);
    } else if (a->reasons) {
        give_reason(a->reasons + t->at, by_range | (by_bits & absent), TAMIS_NO_REASON);
        give_reason(a->reasons + t->at, by_bits & ~absent, TAMIS_HIT);
    }
    for (uint64_t m = a->q->n_candidates ? maybe : 0; m; m &= m - 1) {
        size_t k = (size_t)__builtin_ctzll(m);
        add_candidate(a, i, slice_number(t, k),
                      m & -m & by_bits ? TAMIS_HIT : a->why[(t->at + k) % WORD]);
    }
    if (!a->sheet)
        return;
    if (by_range)
        count_excluded(a->snapshot, by_range);
    if (t->planes == t->gathered && t->targets)
        count_targets(a->sheet, t->targets, by_bits & absent, by_bits & ~absent);
    else
        count_numbers(a, t->first, by_bits & absent, by_bits & ~absent);
}

void deliver_columns(struct asking *a, size_t i, ptrdiff_t at, size_t number,
                     uint64_t absent, uint64_t late, uint64_t sure)
{
    if (a->rows)
        put_bits(a->rows + i * a->n_words, at, absent | late);
    if (a->reasons) /* those that are meant: none of them lies before it */
        for (uint64_t m = absent; m; m &= m - 1)
            a->reasons[at + __builtin_ctzll(m)] = TAMIS_NO_REASON;
    if (a->sheet)
        count_numbers(a, number, absent, sure);
}
