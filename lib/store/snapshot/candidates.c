/* Candidates: segments that may have a key, in the order of their ranks. There are few,
 * so ranks are read where they lie, and kept nowhere. Of more than there is room for, a
 * heap keeps the first ones. */
#include "lib/store/snapshot/snapshot.h"

static bool comes_first(const struct tamis_snapshot *s, uint32_t a, uint32_t b)
{
    uint32_t left = packs_rank(s, a), right = packs_rank(s, b);
    return left != right ? left < right : a < b;
}

/* A heap of those listed so far, the last of them on top. */
static void sift_down(const struct tamis_snapshot *s, uint32_t *heap, size_t n)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        uint32_t moved = heap[i];
        if (child + 1 < n && comes_first(s, heap[child], heap[child + 1]))
            child++;
        if (!comes_first(s, moved, heap[child]))
            return;
        heap[i] = heap[child];
        heap[child] = moved;
    }
}

static void make_heap(const struct tamis_snapshot *s, uint32_t *heap, size_t n)
{
    for (size_t end = 1; end < n; end++)
        for (size_t i = end; i > 0 && comes_first(s, heap[(i - 1) / 2], heap[i]);
             i = (i - 1) / 2) {
            uint32_t moved = heap[i];
            heap[i] = heap[(i - 1) / 2];
            heap[(i - 1) / 2] = moved;
        }
}

void outputs_add(const struct tamis_snapshot *s, struct outputs *to, size_t index)
{
    size_t n = to->n_segments++, max = to->max_segments;
    if (n < max) {
        to->segments[n] = (uint32_t)index;
        return;
    }
    if (!max || to->by_number)
        return;
    if (n == max)
        make_heap(s, to->segments, max);
    if (!comes_first(s, (uint32_t)index, to->segments[0]))
        return;
    to->segments[0] = (uint32_t)index;
    sift_down(s, to->segments, max);
}

/* A few: each rank is read once. */
static void sort_few(const struct tamis_snapshot *s, uint32_t *segments, size_t n)
{
    enum { FEW = 64 };
    uint32_t ranks[FEW];
    for (size_t i = 0; i < n; i++) {
        uint32_t index = segments[i], rank = packs_rank(s, index);
        size_t at = i;
        for (; at > 0 && (ranks[at - 1] > rank ||
                          (ranks[at - 1] == rank && segments[at - 1] > index));
             at--) {
            ranks[at] = ranks[at - 1];
            segments[at] = segments[at - 1];
        }
        ranks[at] = rank;
        segments[at] = index;
    }
}

void outputs_sort(const struct tamis_snapshot *s, struct outputs *to)
{
    size_t n = to->n_segments < to->max_segments ? to->n_segments : to->max_segments;
    if (n < 2 || to->by_number)
        return;
    if (n <= 64) {
        sort_few(s, to->segments, n);
        return;
    }
    if (to->n_segments <= to->max_segments) /* else it is one */
        make_heap(s, to->segments, n);
    while (n-- > 1) {
        uint32_t last = to->segments[n];
        to->segments[n] = to->segments[0];
        to->segments[0] = last;
        sift_down(s, to->segments, n);
    }
}
