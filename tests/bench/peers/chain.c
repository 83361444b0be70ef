/* A growing filter in RedisBloom's manner: a chain of classic Bloom filters, each twice
 * as large as the one before it and with half its error. A key has k bits anywhere in a
 * link, by double hashing; a link's bit is at a multiply's upper half, where RedisBloom
 * divides. An add looks through all links, the newest first, and sets bits in the last.
 */
#include "tests/bench/peers/peers.h"

#include <math.h>
#include <stdlib.h>

struct link {
    uint64_t n_bits, capacity, n_keys;
    unsigned k;
    uint64_t *bits;
};

struct chain {
    struct link links[32];
    unsigned n;
    double error; /* of the next one */
};

static void grow(struct chain *c, uint64_t capacity)
{
    struct link *l = &c->links[c->n++];
    double each = -log(c->error) / (log(2) * log(2));
    l->capacity = capacity;
    l->n_bits = (uint64_t)(each * (double)capacity) / 64 * 64 + 64;
    l->k = (unsigned)ceil(log(2) * each);
    l->bits = allocate(l->n_bits / 8);
    c->error /= 2;
}

struct chain *chain_new(uint64_t first_capacity, double error)
{
    struct chain *c = allocate(sizeof *c);
    c->error = error / 2;
    grow(c, first_capacity);
    return c;
}

void chain_free(struct chain *c)
{
    for (unsigned i = 0; c && i < c->n; i++)
        free(c->links[i].bits);
    free(c);
}

static inline bool link_has(const struct link *l, uint64_t a, uint64_t b)
{
    for (unsigned i = 0; i < l->k; i++, a += b) {
        uint64_t bit = geometry_block(a, l->n_bits);
        if (!(l->bits[bit / 64] >> bit % 64 & 1))
            return false;
    }
    return true;
}

bool chain_has(const struct chain *c, uint64_t hash)
{
    uint64_t other = mixed(hash) | 1;
    for (unsigned i = c->n; i-- > 0;)
        if (link_has(&c->links[i], hash, other))
            return true;
    return false;
}

void chain_add(struct chain *c, uint64_t hash)
{
    uint64_t a = hash, b = mixed(hash) | 1;
    if (chain_has(c, hash))
        return;
    if (c->links[c->n - 1].n_keys == c->links[c->n - 1].capacity)
        grow(c, 2 * c->links[c->n - 1].capacity);
    struct link *l = &c->links[c->n - 1];
    for (unsigned i = 0; i < l->k; i++, a += b) {
        uint64_t bit = geometry_block(a, l->n_bits);
        l->bits[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    l->n_keys++;
}

size_t ask_chain(void *chain, const struct piece *p)
{
    size_t n_absent = 0;
    for (size_t i = 0; i < p->n; i++)
        n_absent += !chain_has(chain, p->hashes[i]);
    return n_absent;
}
