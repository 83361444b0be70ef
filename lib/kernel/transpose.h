/* From blocks to rows, for every kernel: included by loops.h only.
 *
 * 64 blocks lie side by side, each of eight words. Word w of all of them is a square of
 * 64 by 64 bits. It is turned over its diagonal by exchanging its quarters, then the
 * quarters of each quarter, and so on (Warren, Hacker's Delight, section 7-3). A vector
 * of eight words turns eight squares at once. */

typedef uint64_t block_words
    __attribute__((vector_size(BLOCK_BYTES), aligned(BLOCK_BYTES), may_alias));

/* Words of blocks and rows are little-endian. */
KERNEL inline void words_from_disk(uint64_t *words, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < n; i++)
        words[i] = __builtin_bswap64(words[i]);
#else
    (void)words, (void)n;
#endif
}

KERNEL void transpose(uint64_t blocks[64][WORDS_PER_BLOCK])
{
    block_words *b = (block_words *)(void *)blocks;
    uint64_t low = UINT32_MAX; /* of each 2 * size bits */
    words_from_disk(blocks[0], 64 * WORDS_PER_BLOCK);
    for (uint32_t size = 32; size; size /= 2, low ^= low << size)
        for (uint32_t i = 0; i < 64; i = ((i | size) + 1) & ~size) {
            block_words swap = (b[i] >> size ^ b[i | size]) & low;
            b[i | size] ^= swap;
            b[i] ^= swap << size;
        }
    words_from_disk(blocks[0], 64 * WORDS_PER_BLOCK);
}
