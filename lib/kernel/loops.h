/* The loops of every kernel, compiled once for each by the file that includes this one.
 * The file that includes it defines KERNEL (static, for its processor), KERNEL_NAME,
 * KERNEL_SYMBOL, RIBBON_SYMBOL, and:
 *
 * - ANY_ADDRESS: may blocks that are asked or filled lie at any address, or at
 * multiples of 8 only?
 * - NEAR_BYTES: filters of fewer bytes mostly stay in the second-level cache of such
 * processors, so near that fetching lines ahead is not worth its work
 * - VECTOR_BYTES: what a register holds
 * - struct pattern and pattern_of(h): the bits that one hash stands for in a block
 * - WORDS(words) and PLANE_WORDS(plane): the number of words, as the kernel's type
 * - pattern_lacks(&x, words, block): 8 bits, 0 if the block has all bits of `words`
 * words
 * - HAS_COLUMNS, columns_alive(row, h), and zero_bytes(bytes), or none of these: a bit
 * for each plane of a row in fields that has the key in its first lane, and for each of
 * 64 bytes that is 0
 * - block_count(block): how many bits are set
 * - pattern_add(&x, words, block, alone): sets them; how many were clear. `alone`, a
 * constant: no other thread sets bits
 * - pattern_fill(&x, WORDS(words), block): sets them, private
 *
 * This file asks and sets one block, and one plane. few.h has some keys on one plane,
 * tile.h some on some planes, row.h one key on many planes, grid.h many keys on many
 * planes; rows.h makes rows of blocks, and asks them. Only this file includes
 * them.
 *
 * A miss of the cache costs a hundred tests. So a line is asked for long before it is
 * looked at: the unit is an item, at most 64 keys on one plane (or 64 planes for one
 * key), and while the first lanes of an item are tested, those of a later one are
 * prefetched, line by line: a window that rolls on over items, which holds more in
 * flight than one that is filled and drained. First lanes are tested without a branch.
 * A few in a hundred absent keys survive. Their second lane is prefetched, and tested
 * an item later; and so on. */
#include "lib/kernel/kernel.h"

enum { ITEM = 64 }; /* a word of answers */

#ifndef HAS_COLUMNS
KERNEL inline uint64_t zero_bytes(const uint8_t bytes[64])
{
    uint64_t zeros = 0;
    for (int i = 0; i < 64; i++)
        zeros |= (uint64_t)(bytes[i] == 0) << i;
    return zeros;
}
#endif

/* ---- one block ---- */

KERNEL inline bool has(const uint8_t *block, uint32_t words, uint64_t h)
{
    struct pattern x = pattern_of(h);
    return !pattern_lacks(&x, words, block);
}

KERNEL bool block_probe(const uint8_t *block, uint32_t words, uint64_t h)
{
    return has(block, WORDS(words), h);
}

KERNEL uint32_t block_add(uint8_t *block, uint32_t words, uint64_t h)
{
    struct pattern x = pattern_of(h);
    return pattern_add(&x, WORDS(words), block, false);
}

/* Sets the bits that a key has in this block of a plane. Returns how many were clear.
 * Bits come before the mark: a commit counts marked pages. Inlined by force, as
 * the add of a key is: a call would take what this saves. */
KERNEL inline __attribute__((always_inline)) uint32_t
add_in_block(const struct plane *p, _Atomic uint64_t *dirty, uint64_t block, uint64_t h)
{
    uint8_t *at = (uint8_t *)(uintptr_t)p->bits + block * BLOCK_BYTES;
    struct pattern x = pattern_of(h);
    uint32_t fresh = pattern_add(&x, PLANE_WORDS(p), at, true);
    uint64_t page = block / BLOCKS_PER_PAGE;
    uint64_t marks = atomic_load_explicit(&dirty[page / 64], memory_order_relaxed);
    if (__builtin_expect(!(marks >> page % 64 & 1), 0) && fresh) {
        __asm__("" : "+r"(page)); /* else what is seldom used is computed for all */
        atomic_store_explicit(&dirty[page / 64], marks | UINT64_C(1) << page % 64,
                              memory_order_release);
    }
    return fresh;
}

KERNEL __attribute__((noinline)) uint32_t add_lanes(const struct plane *p,
                                                    _Atomic uint64_t *dirty, uint64_t h)
{
    uint64_t first = 0;
    uint32_t fresh = 0;
    for (uint32_t lane = 0; lane < p->lanes; lane++, first += p->n_blocks) {
        fresh += add_in_block(p, dirty, first + geometry_block(h, p->n_blocks), h);
        h = geometry_next_lane(h);
    }
    return fresh;
}

/* Two lanes, which most growing filters have, without a loop: how many instructions an
 * add takes decides for how many lines the processor waits at a time. */
KERNEL inline __attribute__((always_inline)) uint32_t
add_key(const struct plane *p, _Atomic uint64_t *dirty, uint64_t h)
{
    const uint64_t n_blocks = p->n_blocks;
    if (__builtin_expect(p->lanes != 2, 0))
        return add_lanes(p, dirty, h);
    uint32_t fresh = add_in_block(p, dirty, geometry_block(h, n_blocks), h);
    __asm__("" : "+r"(p)); /* else it is kept in registers that must be saved */
    h = geometry_next_lane(h);
    return fresh + add_in_block(p, dirty, n_blocks + geometry_block(h, n_blocks), h);
}

KERNEL uint32_t add_one_alone(const struct plane *plane, _Atomic uint64_t *dirty,
                              uint64_t h)
{
    return add_key(plane, dirty, h);
}

KERNEL uint64_t add_alone(const struct plane *plane, _Atomic uint64_t *dirty,
                          const uint64_t *hashes, size_t n, uint64_t *n_bits)
{
    enum { AHEAD = 16 };
    const struct plane p = *plane;
    uint64_t n_keys = 0;
    for (size_t i = 0; n > 1 && i < n && i < AHEAD; i++)
        plane_prefetch(&p, hashes[i]);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            plane_prefetch(&p, hashes[i + AHEAD]);
        uint32_t fresh = add_key(&p, dirty, hashes[i]);
        *n_bits += fresh;
        n_keys += fresh > 0;
    }
    return n_keys;
}

KERNEL void fill(uint8_t *lane, uint64_t n_blocks, uint32_t words,
                 const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct pattern x = pattern_of(hashes[i]);
        pattern_fill(&x, WORDS(words),
                     lane + geometry_block(hashes[i], n_blocks) * BLOCK_BYTES);
    }
}

KERNEL void count_page(const uint8_t *page, uint16_t counts[SECTORS_IN_PAGE])
{
    for (size_t i = 0; i < SECTORS_IN_PAGE; i++, page += SECTOR_BYTES) {
        uint64_t n = 0;
        for (size_t at = 0; at < SECTOR_BYTES; at += BLOCK_BYTES)
            n += block_count(page + at);
        counts[i] = (uint16_t)n;
    }
}

KERNEL inline bool later_lanes_have(const struct plane *p, uint64_t h)
{
    for (uint32_t lane = 1; lane < p->lanes; lane++) {
        h = geometry_next_lane(h);
        if (!has(plane_block(p, lane, h), PLANE_WORDS(p), h))
            return false;
    }
    return true;
}

KERNEL bool probe(const struct plane *p, uint64_t h)
{
    return has(plane_block(p, 0, h), PLANE_WORDS(p), h) && later_lanes_have(p, h);
}

KERNEL inline enum tamis_answer say(bool hit, enum tamis_reason *why)
{
    if (why)
        *why = hit ? TAMIS_HIT : TAMIS_NO_REASON;
    return hit ? TAMIS_MAYBE : TAMIS_ABSENT;
}

/* Not inlined: it needs registers, for which every answer would pay. */
KERNEL __attribute__((noinline)) enum tamis_answer
answer_by_later_lanes(const struct plane *p, const struct tamis_key *key,
                      enum tamis_reason *why)
{
    return say(later_lanes_have(p, key->hash), why);
}

KERNEL enum tamis_answer answer(const struct plane *p, const struct tamis_key *key,
                                enum tamis_reason *why)
{
    uint64_t h = key->hash;
    if (!has(plane_block(p, 0, h), PLANE_WORDS(p), h))
        return say(false, why);
    return answer_by_later_lanes(p, key, why);
}

/* Is the key, given with its bytes, at an end of the range, or outside? */
KERNEL inline bool near_end(const struct watched_plane *p, const struct tamis_key *key)
{
    uint64_t prefix = key->n_bytes < 8 ? 0 : key_prefix(key->bytes, 8);
    return prefix <= p->first || prefix >= p->last;
}

KERNEL inline enum tamis_answer say_while(bool hit, struct plane_watch *w,
                                          const struct tamis_target *t,
                                          const struct tamis_key *key,
                                          enum tamis_reason *why,
                                          const struct watched_plane *p, uint64_t now)
{
    atomic_thread_fence(memory_order_acquire);
    if (RARELY(atomic_load_explicit(w->clock, memory_order_relaxed) != now) ||
        (hit && key->bytes && RARELY(near_end(p, key))))
        return atomic_load_explicit(&w->otherwise, memory_order_relaxed)(w, t, key, why,
                                                                         p, now);
    return say(hit, why);
}

KERNEL __attribute__((noinline)) enum tamis_answer
later_lanes_while(struct plane_watch *w, const struct tamis_target *t,
                  const struct tamis_key *key, enum tamis_reason *why,
                  const struct watched_plane *p, uint64_t now)
{
    return say_while(later_lanes_have(&p->plane, key->hash), w, t, key, why, p, now);
}

KERNEL __attribute__((noinline)) enum tamis_answer
first_lane_while(struct plane_watch *w, const struct tamis_target *t,
                 const struct tamis_key *key, enum tamis_reason *why,
                 const struct watched_plane *p, uint64_t now)
{
    return p->plane.lanes > 1 ? later_lanes_while(w, t, key, why, p, now)
                              : say_while(true, w, t, key, why, p, now);
}

KERNEL enum tamis_answer answer_while(struct plane_watch *w,
                                      const struct tamis_target *t,
                                      const struct tamis_key *key,
                                      enum tamis_reason *why,
                                      const struct watched_plane *p, uint64_t now)
{
    if (has(plane_block(&p->plane, 0, key->hash), PLANE_WORDS(&p->plane), key->hash))
        return first_lane_while(w, t, key, why, p, now);
    return say_while(false, w, t, key, why, p, now);
}

#include "lib/kernel/few.h"
#include "lib/kernel/row.h"
#include "lib/kernel/grid.h"
#include "lib/kernel/tile.h"
#include "lib/kernel/dense.h"
#include "lib/kernel/rows.h"

const struct kernel KERNEL_SYMBOL = {
    .name = KERNEL_NAME,
    .ribbon = &RIBBON_SYMBOL,
    .any_address = ANY_ADDRESS,
    .block_probe = block_probe,
    .block_add = block_add,
    .add_alone = add_alone,
    .add_one_alone = add_one_alone,
    .probe = probe,
    .answer = answer,
    .answer_while = answer_while,
    .answer_few = answer_few,
    .probe_tile = probe_tile,
    .outside_ends = outside_ends,
    .run_of_targets = run_of_targets,
    .probe_row = probe_row,
    .answer_row = answer_row,
    .probe_grid = probe_grid,
    .count_page = count_page,
    .fill = fill,
    .transpose = transpose,
    .fetch_rows = fetch_rows,
    .and_rows = and_rows,
};
