/* Sorting hashes in place, by digits from the top.
 *
 *     many hashes    American flag (McIlroy, Bostic, McIlroy 1993): count a digit of 8
 *          |         bits, then swap each hash into its bucket
 *          v
 *     up to 4096     scatter by as many bits as make buckets of about one hash, then
 *          |         insertion sort: all of it lies in the first cache
 *          v
 *     a full bucket  hashes that are not uniform go back to the top, with fewer bits
 *
 * Each step takes at least one digit of 8 bits or 5 bits off, so no input costs more
 * than some passes. */
#include "lib/sort/sort.h"

enum {
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    FEW = 24,    /* insertion sort */
    SMALL = 4096 /* scattered */
};

static void insertion_sort(uint64_t *h, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t v = h[i];
        size_t k = i;
        for (; k > 0 && h[k - 1] > v; k--)
            h[k] = h[k - 1];
        h[k] = v;
    }
}

/* ---- buckets in place ---- */

/* Where buckets end, from their counts. */
static void ends_of(const size_t counts[DIGITS], size_t ends[DIGITS])
{
    size_t at = 0;
    for (size_t d = 0; d < DIGITS; d++)
        ends[d] = at += counts[d];
}

/* Swaps hashes to their buckets. One round goes over each bucket's hashes that are not
 * known to be right, and moves each to the front of its own. A swap depends on no other
 * one of the round, so the processor has many cache misses in flight. */
static void swap_to_buckets(uint64_t *h, unsigned shift, size_t at[DIGITS],
                            const size_t ends[DIGITS])
{
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t d = 0; d < DIGITS; d++) {
            for (size_t i = at[d], end = ends[d]; i < end; i++) {
                uint64_t v = h[i];
                size_t to = at[v >> shift & (DIGITS - 1)]++;
                h[i] = h[to];
                h[to] = v;
                moved = true;
            }
        }
    }
}

/* The hashes agree above `bits` bits. */
static void sort_below(uint64_t *h, size_t n, unsigned bits);

static void sort_by_digit(uint64_t *h, size_t n, unsigned bits)
{
    unsigned shift = bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
    size_t counts[DIGITS] = {0}, at[DIGITS], ends[DIGITS];
    for (size_t i = 0; i < n; i++)
        counts[h[i] >> shift & (DIGITS - 1)]++;
    ends_of(counts, ends);
    for (size_t d = 0; d < DIGITS; d++)
        at[d] = ends[d] - counts[d];
    swap_to_buckets(h, shift, at, ends);
    for (size_t d = 0; d < DIGITS && shift > 0; d++)
        sort_below(h + ends[d] - counts[d], counts[d], shift);
}

/* ---- a few thousand ---- */

/* Sorts up to SMALL hashes by `digit` bits at `shift`. Returns the largest bucket. */
static size_t scatter(uint64_t *h, size_t n, unsigned shift, unsigned digit)
{
    uint64_t copy[SMALL];
    uint16_t at[SMALL] = {0};
    uint64_t mask = (UINT64_C(1) << digit) - 1;
    size_t largest = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        at[h[i] >> shift & mask]++;
    for (size_t d = 0; d <= mask; d++) {
        size_t count = at[d];
        largest = count > largest ? count : largest;
        at[d] = (uint16_t)sum;
        sum += count;
    }
    memcpy(copy, h, n * sizeof *h);
    for (size_t i = 0; i < n; i++)
        h[at[copy[i] >> shift & mask]++] = copy[i];
    return largest;
}

/* Hashes that are sorted by the bits from `shift` on, with a bucket too large for an
 * insertion sort. */
static void sort_buckets(uint64_t *h, size_t n, unsigned shift)
{
    size_t from = 0;
    for (size_t i = 1; i <= n; i++) {
        if (i < n && h[i] >> shift == h[from] >> shift)
            continue;
        sort_below(h + from, i - from, shift);
        from = i;
    }
}

static void sort_small(uint64_t *h, size_t n, unsigned bits)
{
    unsigned digit = 0;
    while ((size_t)1 << digit < n)
        digit++;
    digit = digit < bits ? digit : bits;
    unsigned shift = bits - digit;
    if (scatter(h, n, shift, digit) <= FEW)
        insertion_sort(h, n);
    else if (shift > 0)
        sort_buckets(h, n, shift);
}

static void sort_below(uint64_t *h, size_t n, unsigned bits)
{
    if (n <= FEW)
        insertion_sort(h, n);
    else if (n <= SMALL)
        sort_small(h, n, bits);
    else
        sort_by_digit(h, n, bits);
}

void sort_hashes(uint64_t *hashes, size_t n)
{
    sort_below(hashes, n, 64);
}
