/* Geometry of one stage: lanes of split blocks (SPEC.md §4).
 *
 * A stage is `lanes` arrays of `n_blocks` blocks. A block is one 64-byte cache
 * line of eight little-endian 64-bit words. A key sets one bit in each of
 * `words` consecutive words (cyclically) of one block per lane:
 *
 *     block   = high 64 bits of (h * n_blocks)
 *     pattern = low 32 bits of h
 *     start   = pattern >> 29
 *     bit(w)  = (pattern * SALT[w] mod 2^32) >> 26
 *     next    : h = (h ^ h >> 32) * LANE_MULTIPLIER
 *
 * It is the partitioned filter of Almeida et al. (section 3) with its slices
 * regrouped, so that a lane costs one cache miss. This file has the scalar reference,
 * against which every fast kernel is tested. */
#ifndef TAMIS_FORMAT_GEOMETRY_H
#define TAMIS_FORMAT_GEOMETRY_H

#include "bytes.h"

enum {
    PAGE_BYTES = 4096,
    SECTOR_BYTES = 512,
    BLOCK_BYTES = 64,
    WORDS_PER_BLOCK = 8,
    BLOCKS_PER_PAGE = PAGE_BYTES / BLOCK_BYTES,
    BLOCK_BITS = BLOCK_BYTES * 8,
    MAX_LANES = 4,
    MAX_WORDS = 8,
};

#define MAX_BLOCKS      (UINT64_C(1) << 32)
#define LANE_MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)

/* The salts of Parquet's split-block Bloom filter (parquet-format,
 * BloomFilter.md): eight odd constants of no other meaning. */
#define SALT_0 0x47b6137bU
#define SALT_1 0x44974d91U
#define SALT_2 0x8824ad5bU
#define SALT_3 0xa2b7289dU
#define SALT_4 0x705495c7U
#define SALT_5 0x2df1424bU
#define SALT_6 0x9efc4947U
#define SALT_7 0x5c6bfb31U

/* Hidden: a probe need not ask the linker's table where they are. */
extern const uint32_t geometry_salt[WORDS_PER_BLOCK]
    __attribute__((visibility("hidden")));

struct geometry {
    uint64_t n_blocks; /* per lane, 1 .. 2^32 */
    uint32_t lanes;    /* 1 .. 4 */
    uint32_t words;    /* 1 .. 8 */
};

bool geometry_valid(const struct geometry *g);
/* Bytes of all lanes; false if the product would wrap. */
bool geometry_bytes(const struct geometry *g, uint64_t *n_bytes);
/* The same as a stage of a file has them: in whole pages. */
bool geometry_stage_bytes(const struct geometry *g, uint64_t *n_bytes);

static inline uint64_t geometry_block(uint64_t h, uint64_t n_blocks)
{
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)((u128)h * n_blocks >> 64);
}

static inline uint64_t geometry_next_lane(uint64_t h)
{
    return (h ^ h >> 32) * LANE_MULTIPLIER;
}

static inline uint32_t geometry_start(uint64_t h)
{
    return (uint32_t)h >> 29;
}

static inline uint32_t geometry_bit(uint64_t h, uint32_t word)
{
    return (uint32_t)h * geometry_salt[word] >> 26;
}

/* Byte offset of the block of hash h in lane number `lane`; h is the hash of that
 * lane, after geometry_next_lane() was applied `lane` times. */
static inline uint64_t geometry_block_offset(const struct geometry *g, uint32_t lane,
                                             uint64_t h)
{
    return (lane * g->n_blocks + geometry_block(h, g->n_blocks)) * BLOCK_BYTES;
}

/* The reference: is every bit of h set in this block? Set them. */
bool geometry_block_probe(const uint8_t block[BLOCK_BYTES], uint32_t words, uint64_t h);
void geometry_block_add(uint8_t block[BLOCK_BYTES], uint32_t words, uint64_t h);

/* The same over a whole stage held in memory. */
bool geometry_probe(const uint8_t *bits, const struct geometry *g, uint64_t h);
void geometry_add(uint8_t *bits, const struct geometry *g, uint64_t h);

#endif
