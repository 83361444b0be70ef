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
 * the hashes, so their order costs nothing. A side that has ended costs nothing more:
 * the other's blocks are passed on as they are. */
#include "lib/sort/sort.h"

#include <errno.h>
#include <stdlib.h>

enum {
    MOST_SIDE = 1024, /* 16 KiB of output a node: a few stay in the first cache */
    LEAST_SIDE = 16,
    PARTS = 4,
    FEW_STEPS = 4,
};

struct side {
    struct merge_source from;
    const uint64_t *at;
    size_t n; /* left of the block */
    bool ended;
};
struct node {
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
    struct node *nodes;
    uint64_t *pool; /* of all outputs */
};

/* ---- two sorted arrays ---- */

/* How many of the first `n` of the merge come from a. */
static size_t split(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b,
                    size_t n)
{
    size_t low = n > n_b ? n - n_b : 0, high = n < n_a ? n : n_a;
    while (low < high) {
        size_t i = low + (high - low) / 2;
        if (a[i] <= b[n - i - 1])
            low = i + 1;
        else
            high = i;
    }
    return low;
}

/* A part of the output, and how far it is. Its hashes so far took a[..a) and
 * b[..at - a). */
struct part {
    size_t a, a_end, at, end;
};

__attribute__((always_inline)) static inline void
take_one(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t *from_a, size_t at)
{
    uint64_t next_a = a[*from_a], next_b = b[at - *from_a];
    bool is_a = next_a <= next_b;
    out[at] = is_a ? next_a : next_b;
    *from_a += is_a;
}

/* So many steps can be made before either side may have no hash left. */
static size_t safe_steps(const struct part *p)
{
    size_t left_a = p->a_end - p->a, left_b = p->end - p->at - left_a;
    return left_a < left_b ? left_a : left_b;
}

/* n steps of each of four parts. */
static void four_steps(const uint64_t *a, const uint64_t *b, uint64_t *out,
                       struct part *p, size_t n)
{
    size_t a0 = p[0].a, a1 = p[1].a, a2 = p[2].a, a3 = p[3].a;
    size_t at0 = p[0].at, at1 = p[1].at, at2 = p[2].at, at3 = p[3].at;
    for (size_t i = 0; i < n; i++) {
        take_one(a, b, out, &a0, at0++);
        take_one(a, b, out, &a1, at1++);
        take_one(a, b, out, &a2, at2++);
        take_one(a, b, out, &a3, at3++);
    }
    p[0] = (struct part){a0, p[0].a_end, at0, p[0].end};
    p[1] = (struct part){a1, p[1].a_end, at1, p[1].end};
    p[2] = (struct part){a2, p[2].a_end, at2, p[2].end};
    p[3] = (struct part){a3, p[3].a_end, at3, p[3].end};
}

static void finish_part(const uint64_t *a, const uint64_t *b, uint64_t *out,
                        struct part *p)
{
    for (size_t n; (n = safe_steps(p)) > 0;)
        for (; n > 0; n--)
            take_one(a, b, out, &p->a, p->at++);
    for (; p->a < p->a_end; p->at++)
        out[p->at] = a[p->a++];
    for (; p->at < p->end; p->at++)
        out[p->at] = b[p->at - p->a];
}

/* A step waits for the one before, so four parts of the output are made at once. */
static void merge_two(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b,
                      uint64_t *out)
{
    struct part p[PARTS];
    size_t from_a = 0, at = 0;
    for (size_t i = 0; i < PARTS; i++) {
        size_t end = (n_a + n_b) * (i + 1) / PARTS, a_end = split(a, n_a, b, n_b, end);
        p[i] = (struct part){from_a, a_end, at, end};
        from_a = a_end;
        at = end;
    }
    for (;;) {
        size_t n = SIZE_MAX;
        for (size_t i = 0; i < PARTS; i++)
            n = safe_steps(&p[i]) < n ? safe_steps(&p[i]) : n;
        if (n < FEW_STEPS)
            break;
        four_steps(a, b, out, p, n);
    }
    for (size_t i = 0; i < PARTS; i++)
        finish_part(a, b, out, &p[i]);
}

/* ---- a node ---- */

/* The number of hashes that are not above the bound. */
static size_t up_to(const uint64_t *h, size_t n, uint64_t bound)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t i = low + (high - low) / 2;
        if (h[i] <= bound)
            low = i + 1;
        else
            high = i;
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

/* All of what is left of a block. */
static void pass_on(struct side *s, const uint64_t **block, size_t *n)
{
    *block = s->at;
    *n = s->n;
    s->n = 0;
}

static int node_next(void *ctx, const uint64_t **block, size_t *n)
{
    struct node *node = ctx;
    struct side *a = &node->sides[0], *b = &node->sides[1];
    *n = 0;
    int err = fill_side(a);
    if (!err)
        err = fill_side(b);
    if (err)
        return err;
    if (a->ended || b->ended) {
        pass_on(a->ended ? b : a, block, n);
        return 0;
    }
    size_t side = node->merge->side;
    size_t n_a = a->n < side ? a->n : side, n_b = b->n < side ? b->n : side;
    if (a->at[n_a - 1] <= b->at[n_b - 1])
        n_b = up_to(b->at, n_b, a->at[n_a - 1]);
    else
        n_a = up_to(a->at, n_a, b->at[n_b - 1]);
    merge_two(a->at, n_a, b->at, n_b, node->out);
    *block = node->out;
    *n = n_a + n_b;
    a->at += n_a;
    a->n -= n_a;
    b->at += n_b;
    b->n -= n_b;
    return 0;
}

/* ---- the tree ---- */

/* Makes the tree of n sources, in the nodes from *used on. */
static struct merge_source tree(struct merge *m, const struct merge_source *sources,
                                size_t n, size_t *used)
{
    if (n == 1)
        return sources[0];
    struct node *node = &m->nodes[*used];
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

/* Does none of them repeat the one before? */
static bool all_differ(const uint64_t *h, size_t n, uint64_t last)
{
    bool repeats = h[0] == last;
    size_t i = 1;
    for (; i + 4 <= n; i += 4)
        repeats |= (h[i] == h[i - 1]) | (h[i + 1] == h[i]) | (h[i + 2] == h[i + 1]) |
                   (h[i + 3] == h[i + 2]);
    for (; i < n; i++)
        repeats |= h[i] == h[i - 1];
    return !repeats;
}

/* Copies hashes without those that repeat the one before. Without a branch. */
static size_t copy_distinct(uint64_t *to, const uint64_t *from, size_t n, uint64_t last)
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
            m->last = ~s->at[0]; /* it repeats none */
        m->began = true;
        if (all_differ(s->at, some, m->last)) {
            *block = s->at;
            *n = some;
        } else {
            *block = m->out;
            *n = copy_distinct(m->out, s->at, some, m->last);
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
