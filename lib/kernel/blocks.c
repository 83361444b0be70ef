/* Blocks in the caller's memory: the geometry of a stage without a file around it, for
 * engines that keep tiny filters inside their own blocks, at any address. */
#include "lib/kernel/kernel.h"
#include "format/geometry.h"

/* NULL: none. */
static struct geometry geometry_of(const struct tamis_blocks *b)
{
    return b ? (struct geometry){b->n_blocks, b->lanes, b->words}
             : (struct geometry){0};
}

static inline uint64_t bytes_of(const struct geometry *g)
{
    return geometry_valid(g) ? g->n_blocks * g->lanes * BLOCK_BYTES : 0; /* 2^40 */
}

static inline bool is_length_of(const struct geometry *g, const void *bits,
                                size_t n_bytes)
{
    return bits && n_bytes && n_bytes == bytes_of(g);
}

/* Zero is the tag of no domain: of keys that nobody hashed. */
static bool is_of(const struct tamis_blocks *b, const struct tamis_key *key)
{
    return key->tag && key->tag == b->tag;
}

/* ---- adding ---- */

static bool fits(const struct kernel *k, const void *bits)
{
    return k->any_address || (uintptr_t)bits % sizeof(uint64_t) == 0;
}

enum { SOME_KEYS = 64 };

static void fill_some(const struct geometry *g, uint8_t *bits,
                      const struct tamis_key *keys, size_t n)
{
    const struct kernel *k = kernel_get();
    uint64_t hashes[SOME_KEYS];
    for (size_t i = 0; i < n; i++)
        hashes[i] = keys[i].hash;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        for (size_t i = 0; lane > 0 && i < n; i++)
            hashes[i] = geometry_next_lane(hashes[i]);
        k->fill(bits + lane * g->n_blocks * BLOCK_BYTES, g->n_blocks, g->words, hashes,
                n);
    }
}

int tamis_blocks_add(const struct tamis_blocks *blocks, void *bits, size_t n_bytes,
                     const struct tamis_key *keys, size_t n)
{
    struct geometry g = geometry_of(blocks);
    if (!is_length_of(&g, bits, n_bytes) || (n && !keys))
        return TAMIS_ERR_RANGE;
    for (size_t i = 0; i < n; i++)
        if (!is_of(blocks, &keys[i]))
            return TAMIS_ERR_MISMATCH;
    if (!fits(kernel_get(), bits)) {
        for (size_t i = 0; i < n; i++)
            geometry_add(bits, &g, keys[i].hash);
        return 0;
    }
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done < SOME_KEYS ? n - done : SOME_KEYS;
        fill_some(&g, bits, keys + done, some);
    }
    return 0;
}

/* ---- asking ---- */

enum tamis_answer tamis_blocks_probe(const struct tamis_blocks *blocks,
                                     const void *bits, size_t n_bytes,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    struct geometry g = geometry_of(blocks);
    const struct kernel *kernel = kernel_get();
    enum tamis_reason reason = TAMIS_HIT;
    if (!is_length_of(&g, bits, n_bytes)) {
        reason = TAMIS_UNREADABLE;
    } else if (!key || !is_of(blocks, key)) {
        reason = TAMIS_MISMATCH;
    } else if (fits(kernel, bits)) {
        struct plane plane = plane_of(bits, &g);
        return kernel->answer(&plane, key, why);
    } else if (!geometry_probe(bits, &g, key->hash)) {
        reason = TAMIS_NO_REASON;
    }
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* ---- for loops of the caller's ---- */

/* Unpacked and shuffled, AVX2 has the words in this order. */
static const uint8_t in_pairs[WORDS_PER_BLOCK] = {0, 1, 4, 5, 2, 3, 6, 7};

struct tamis_inline_geometry inline_geometry(const struct geometry *of)
{
    struct tamis_inline_geometry g = {.n_blocks = of->n_blocks, .lanes = of->lanes};
    for (uint32_t start = 0; start < WORDS_PER_BLOCK; start++) {
        uint32_t has = plane_ring(of->words) << start >> WORDS_PER_BLOCK;
        g.words[start] = (uint8_t)has;
        for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++)
            g.pairs[start] |= (uint8_t)((has >> in_pairs[i] & 1) << i);
    }
    return g;
}

int tamis_blocks_inline(const struct tamis_blocks *blocks, uint32_t version,
                        struct tamis_inline_blocks *out)
{
    _Static_assert(sizeof *out == 64, "the layout of version 1");
    if (version != TAMIS_INLINE_VERSION)
        return TAMIS_ERR_VERSION;
    if (!out)
        return TAMIS_ERR_RANGE;
    memset(out, 0, sizeof *out);
    struct geometry g = geometry_of(blocks);
    if (!geometry_valid(&g) || !blocks->tag)
        return TAMIS_ERR_RANGE;
    out->geometry = inline_geometry(&g);
    out->n_bytes = bytes_of(&g);
    out->tag = blocks->tag;
    return 0;
}
