/* Sorted sources become one, by a tree of merges of two.
 *
 *     source --+
 *              +-- two --+
 *     source --+         |             a node has one block of output,
 *                        +-- root -->  which lies in a cache when the
 *     source --+         |             node above it reads it
 *              +-- two --+
 *     source --+
 *
 * A node takes from both sides all hashes up to a bound, so their merge is complete:
 * it needs no look at what follows. The loop over two has no branch that depends on
 * the hashes, so their order costs nothing. Odeh, Green, Mwassi, Shmueli and Birk,
 * "Merge Path - Parallel Merging Made Simple", 2012, cut the output into parts so. A
 * side that has ended costs nothing more: the other's blocks are passed on as they
 * are. */
#include "lib/sort/sort.h"

#include <errno.h>
#include <stdlib.h>

enum {
    MOST_SIDE = 1024, /* 16 KiB of output a node: a few stay in the first cache */
    LEAST_SIDE = 16,
    PARTS = 4,
};

struct side {
    struct merge_source from;
    const uint64_t *at;
    size_t n; /* left of the block */
    bool ended;
};
struct merge_node {
    struct side sides[2];
    struct merge *merge;
    uint64_t *out; /* room for two sides */
};
struct merge {
    struct side root;
    uint64_t *out; /* of the root, without repeats */
    uint64_t last, repeats;
    bool began;
    size_t side; /* hashes that a node takes from a side at once */
    struct merge_node *nodes;
    uint64_t *pool; /* of all outputs */
};

/* ---- two sorted arrays ---- */

/* How many of the first `n` of the merge come from a. Without a branch on hashes: one
 * of two is mispredicted, and costs as much as four steps of the merge. */
static size_t split(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b,
                    size_t n)
{
    size_t low = n > n_b ? n - n_b : 0, high = n < n_a ? n : n_a, left = high - low;
    while (left > 0) {
        size_t half = left / 2, i = low + half;
        bool more = a[i] <= b[n - i - 1];
        low = more ? i + 1 : low;
        left = more ? left - half - 1 : half;
    }
    return low;
}

/* Hash `at` of the output. Compilers make it a minimum and an addition with carry. */
__attribute__((always_inline)) static inline void
take(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t at, size_t *from_b)
{
    uint64_t next_a = a[at - *from_b], next_b = b[*from_b];
    out[at] = next_b < next_a ? next_b : next_a;
    *from_b += next_b < next_a;
}

/* Merges n_a and n_b hashes. Behind each of the two arrays is a hash that is not below
 * any of them: so no step asks whether an array has ended. A step waits for the one
 * before, so four parts of the output are made at once. */
static void merge_two(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b,
                      uint64_t *out)
{
    size_t n = n_a + n_b, second = n / PARTS, third = 2 * second, fourth = 3 * second;
    size_t b0 = 0, b1 = second - split(a, n_a, b, n_b, second);
    size_t b2 = third - split(a, n_a, b, n_b, third);
    size_t b3 = fourth - split(a, n_a, b, n_b, fourth);
    for (size_t i = 0; i < second; i++) {
        take(a, b, out, i, &b0);
        take(a, b, out, second + i, &b1);
        take(a, b, out, third + i, &b2);
        take(a, b, out, fourth + i, &b3);
    }
    for (size_t at = fourth + second; at < n; at++)
        take(a, b, out, at, &b3);
}

/* ---- a node ---- */

/* The number of hashes that are below the bound; the last is not. */
static size_t below(const uint64_t *h, size_t n, uint64_t bound)
{
    size_t low = 0, left = n - 1;
    while (left > 0) {
        size_t half = left / 2, i = low + half;
        bool more = h[i] < bound;
        low = more ? i + 1 : low;
        left = more ? left - half - 1 : half;
    }
    return low;
}

static int fill_side(struct side *s)
{
    if (s->n > 0 || s->ended)
        return 0;
    int err = s->from.next(s->from.ctx, &s->at, &s->n);
    s->ended = !err && s->n == 0;
    return err;
}

static void drop(struct side *s, size_t n)
{
    s->at += n;
    s->n -= n;
}

/* Merges what both sides have, up to the last hash of the side that ends first, and
 * `most` of a side. That side's last hash ends the output. It stands behind the side's
 * other hashes meanwhile, as merge_two() wants it. */
static size_t merge_sides(struct side *a, struct side *b, size_t most, uint64_t *out)
{
    size_t n_a = a->n < most ? a->n : most, n_b = b->n < most ? b->n : most;
    bool is_a = a->at[n_a - 1] <= b->at[n_b - 1];
    struct side *first = is_a ? a : b, *other = is_a ? b : a;
    size_t n = is_a ? n_a : n_b;
    uint64_t bound = first->at[n - 1];
    size_t n_other = below(other->at, is_a ? n_b : n_a, bound);
    merge_two(first->at, n - 1, other->at, n_other, out);
    out[n - 1 + n_other] = bound;
    drop(first, n);
    drop(other, n_other);
    return n + n_other;
}

/* A block of a source may be short, so several rounds fill the output. */
static int node_next(void *ctx, const uint64_t **block, size_t *n)
{
    struct merge_node *node = ctx;
    struct side *a = &node->sides[0], *b = &node->sides[1];
    size_t side = node->merge->side, done = 0;
    *n = 0;
    while (done <= 2 * side - side / 2) {
        int err = fill_side(a);
        if (!err)
            err = fill_side(b);
        if (err)
            return err;
        if (a->ended || b->ended)
            break;
        done += merge_sides(a, b, (2 * side - done) / 2, node->out + done);
    }
    struct side *left = a->ended ? b : a;
    *block = done ? node->out : left->at;
    *n = done ? done : left->n;
    if (!done)
        left->n = 0;
    return 0;
}

/* ---- the tree ---- */

/* Makes the tree of n sources, in the nodes from *used on. */
static struct merge_source tree(struct merge *m, const struct merge_source *sources,
                                size_t n, size_t *used)
{
    if (n == 1)
        return sources[0];
    struct merge_node *node = &m->nodes[*used];
    node->merge = m;
    node->out = m->pool + 2 * m->side * ++*used;
    node->sides[0].from = tree(m, sources, n / 2, used);
    node->sides[1].from = tree(m, sources + n / 2, n - n / 2, used);
    return (struct merge_source){node_next, node};
}

static size_t output_bytes(size_t side)
{
    return 2 * side * sizeof(uint64_t);
}

int merge_create(const struct merge_source *sources, size_t n, size_t memory,
                 struct merge **out)
{
    struct merge *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return ENOMEM;
    m->side = MOST_SIDE;
    while (m->side > LEAST_SIDE && output_bytes(m->side) * (n + 1) > memory)
        m->side /= 2;
    m->nodes = calloc(n + 1, sizeof *m->nodes);
    m->out = m->pool = malloc(output_bytes(m->side) * (n + 1));
    if (!m->nodes || !m->pool) {
        merge_free(m);
        return ENOMEM;
    }
    *out = m;
    size_t used = 0;
    if (n > 0)
        m->root.from = tree(m, sources, n, &used);
    m->root.ended = n == 0;
    return 0;
}

void merge_free(struct merge *m)
{
    if (!m)
        return;
    free(m->nodes);
    free(m->pool);
    free(m);
}

/* True only if no hash repeats the one before. A step of zero, less one, has its top
 * bit set; so has a step above 2^63, and then hashes_distinct() tells. */
static bool all_differ(const uint64_t *h, size_t n, uint64_t last)
{
    enum { FOUR = 4 };
    typedef uint64_t four __attribute__((vector_size(FOUR * sizeof(uint64_t))));
    four steps = {h[0] - last - 1};
    size_t i = 1;
    for (; i + FOUR <= n; i += FOUR) {
        four here, before;
        memcpy(&here, h + i, sizeof here);
        memcpy(&before, h + i - 1, sizeof before);
        steps |= here - before - 1;
    }
    uint64_t all = steps[0] | steps[1] | steps[2] | steps[3];
    for (; i < n; i++)
        all |= h[i] - h[i - 1] - 1;
    return all >> 63 == 0;
}

size_t hashes_distinct(uint64_t *to, const uint64_t *from, size_t n, uint64_t last)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t h = from[i];
        to[kept] = h;
        kept += h != last;
        last = h;
    }
    return kept;
}

/* Sources may have blocks of any length. */
int merge_next(struct merge *m, const uint64_t **block, size_t *n)
{
    struct side *s = &m->root;
    *n = 0;
    while (*n == 0) {
        int err = fill_side(s);
        if (err || s->ended)
            return err;
        size_t some = s->n < 2 * m->side ? s->n : 2 * m->side;
        if (!m->began)
            m->last = s->at[0] - 1; /* it repeats none */
        m->began = true;
        if (all_differ(s->at, some, m->last)) {
            *block = s->at;
            *n = some;
        } else {
            *block = m->out;
            *n = hashes_distinct(m->out, s->at, some, m->last);
        }
        m->last = s->at[some - 1];
        m->repeats += some - *n;
        s->at += some;
        s->n -= some;
    }
    return 0;
}

uint64_t merge_repeats(const struct merge *m)
{
    return m->repeats;
}
