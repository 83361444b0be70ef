/* Encodes and checks (README.md). */
#include <endian.h>
#include <string.h>

#include "embedded.h"

enum {
    HEAD_BYTES = 1,
    CRC_BYTES = 4,
    OVERHEAD = HEAD_BYTES + CRC_BYTES,
    BLOCK_BYTES = 64,
    /* The head: version in bits 5..7, words - 1 in 2..4, lanes - 1 in 0..1. */
    VERSION_SHIFT = 5,
    WORDS_SHIFT = 2,
    WORDS_MASK = 7,
    LANES_MASK = 3,
};

size_t embedded_bytes(const struct tamis_blocks *blocks)
{
    uint64_t n = blocks->n_blocks * blocks->lanes * BLOCK_BYTES;
    return n <= SIZE_MAX - OVERHEAD ? (size_t)n + OVERHEAD : 0;
}

bool embedded_fill(uint8_t *filter, size_t n_bytes, const struct tamis_blocks *blocks,
                   const struct tamis_key *keys, size_t n)
{
    size_t summed = n_bytes - CRC_BYTES;
    if (tamis_blocks_add(blocks, filter + HEAD_BYTES, n_bytes - OVERHEAD, keys, n) != 0)
        return false;
    filter[0] = (uint8_t)(EMBEDDED_VERSION << VERSION_SHIFT |
                          (blocks->words - 1) << WORDS_SHIFT | (blocks->lanes - 1));
    uint32_t crc = htole32(crc32c(filter, summed));
    memcpy(filter + summed, &crc, CRC_BYTES);
    return true;
}

bool embedded_read(const uint8_t *filter, size_t n_bytes, struct tamis_blocks *blocks,
                   const uint8_t **bits, size_t *bits_bytes)
{
    if (n_bytes <= OVERHEAD || filter[0] >> VERSION_SHIFT != EMBEDDED_VERSION)
        return false;
    uint32_t lanes = (filter[0] & LANES_MASK) + 1U;
    size_t summed = n_bytes - CRC_BYTES;
    size_t of_blocks = n_bytes - OVERHEAD;
    uint32_t crc;
    memcpy(&crc, filter + summed, CRC_BYTES);
    if (of_blocks % (lanes * BLOCK_BYTES) != 0 ||
        le32toh(crc) != crc32c(filter, summed))
        return false;
    blocks->lanes = lanes;
    blocks->words = (filter[0] >> WORDS_SHIFT & WORDS_MASK) + 1U;
    blocks->n_blocks = of_blocks / (lanes * BLOCK_BYTES);
    *bits = filter + HEAD_BYTES;
    *bits_bytes = of_blocks;
    return true;
}
