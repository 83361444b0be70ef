/* Blocks turned into rows, and one key asked of filters side by side (SPEC.md §17.1),
 * for every kernel: included by loops.h only.
 *
 *     transpose()    64 blocks --> 512 rows of 64 filters
 *     fetch_rows()   h --> addresses of its rows in a block; they are on their way
 *     and_rows()     rows, filters --> filters whose bit is set in all of them
 *
 * Between the last two the caller makes sure of their pages. */

/* ---- from blocks to rows ----
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

/* ---- one key ---- */

/* As long as a register: a compiler keeps a longer vector in memory. */
typedef uint64_t row_piece
    __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
typedef uint64_t row_word __attribute__((aligned(1), may_alias));
typedef uint32_t row_half __attribute__((aligned(1), may_alias));
typedef uint16_t row_quarter __attribute__((aligned(1), may_alias));

/* The salt, and the first bit, of each word, going on round the corner. */
static const uint32_t salts_round[] = {SALT_0, SALT_1, SALT_2, SALT_3, SALT_4,
                                       SALT_5, SALT_6, SALT_7, SALT_0, SALT_1,
                                       SALT_2, SALT_3, SALT_4, SALT_5, SALT_6};
static const uint32_t bits_round[] = {0, 64, 128, 192, 256, 320, 384, 448,
                                      0, 64, 128, 192, 256, 320, 384};

KERNEL void fetch_rows(const uint8_t *block, uint32_t row_bytes, uint32_t words,
                       uint64_t h, const uint8_t **rows)
{
    const uint32_t *salt = salts_round + geometry_start(h);
    const uint32_t *bit = bits_round + geometry_start(h);
    uint32_t at[WORDS_PER_BLOCK];
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++) /* in one step of vectors */
        at[i] = (bit[i] + ((uint32_t)h * salt[i] >> 26)) * row_bytes;
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++) /* the same */
        rows[i] = block + at[i];
    for (uint32_t i = 0; i < words; i++)
        __builtin_prefetch(rows[i]);
    /* The processor itself fetches the rest of a long row. */
    for (uint32_t i = 0; row_bytes > BLOCK_BYTES && i < words; i++)
        for (uint32_t next = BLOCK_BYTES; next < row_bytes && next < 4 * BLOCK_BYTES;
             next += BLOCK_BYTES)
            __builtin_prefetch(rows[i] + next);
}

/* Filter c is bit c % 8 of byte c / 8 of a row, and bit c % 64 of word c / 64 here. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ROW_BITS(bits, n) (__builtin_bswap64((uint64_t)(bits)) >> (64 - 8 * (n)))
#else
#define ROW_BITS(bits, n) ((uint64_t)(bits))
#endif

/* Never a byte beyond the row: it may be the last of the mapping. */
KERNEL inline uint64_t row_load(const uint8_t *row, uint32_t row_bytes)
{
    switch (row_bytes) {
    case 1:
        return row[0];
    case 2:
        return *(const row_quarter *)(const void *)row;
    case 4:
        return *(const row_half *)(const void *)row;
    default:
        return *(const row_word *)(const void *)row;
    }
}

/* The word at byte `at` of a row. */
KERNEL inline uint64_t and_word(const uint8_t *const *rows, uint32_t n, uint32_t at,
                                uint32_t row_bytes, const uint64_t *among)
{
    uint32_t n_bytes = row_bytes < 8 ? row_bytes : 8;
    uint64_t bits = row_load(rows[0] + at, n_bytes);
    for (uint32_t i = 1; i < n; i++)
        bits &= row_load(rows[i] + at, n_bytes);
    return among[at / 8] & ROW_BITS(bits, n_bytes);
}

KERNEL inline bool by_words(uint32_t row_bytes)
{
    return row_bytes < BLOCK_BYTES || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

KERNEL void and_rows(const uint8_t *const *rows, uint32_t n, uint32_t row_bytes,
                     const uint64_t *among, uint64_t *to)
{
    if (by_words(row_bytes)) {
        for (uint32_t at = 0; at < row_bytes; at += 8)
            to[at / 8] = and_word(rows, n, at, row_bytes, among);
        return;
    }
    for (uint32_t at = 0; at < row_bytes; at += VECTOR_BYTES) {
        row_piece bits = *(const row_piece *)(const void *)(among + at / 8);
        for (uint32_t i = 0; i < n; i++)
            bits &= *(const row_piece *)(const void *)(rows[i] + at);
        *(row_piece *)(void *)(to + at / 8) = bits;
    }
}
