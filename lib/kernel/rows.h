/* One key asked of the columns of a pack (SPEC.md §17.1), for every kernel: included by
 * loops.h only. */

typedef uint64_t line_words
    __attribute__((vector_size(BLOCK_BYTES), aligned(1), may_alias));

KERNEL bool and_rows(const uint8_t *block, uint32_t row_bytes, uint32_t words,
                     uint64_t h, uint8_t *out)
{
    const uint8_t *rows[MAX_WORDS];
    line_words any = {0};
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        rows[i] = block + (word * 64 + geometry_bit(h, word)) * (size_t)row_bytes;
    }
    for (uint32_t at = 0; at < row_bytes; at += BLOCK_BYTES) {
        line_words bits = *(const line_words *)(const void *)(out + at);
        for (uint32_t i = 0; i < words; i++)
            bits &= *(const line_words *)(const void *)(rows[i] + at);
        *(line_words *)(void *)(out + at) = bits;
        any |= bits;
    }
    return (any[0] | any[1] | any[2] | any[3] | any[4] | any[5] | any[6] | any[7]) != 0;
}
