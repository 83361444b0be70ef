/* Parts of a kernel that loops.h asks for, where the processor has no instruction for
 * them: in scalar.c and neon.c. */

KERNEL inline uint64_t zero_bytes(const uint8_t bytes[64])
{
    uint64_t zeros = 0;
    for (int i = 0; i < 64; i++)
        zeros |= (uint64_t)(bytes[i] == 0) << i;
    return zeros;
}

/* Turns eight numbers so that the one of word `start` comes first. */
KERNEL inline void rotate(uint32_t numbers[WORDS_PER_BLOCK], uint32_t start)
{
    uint32_t was[WORDS_PER_BLOCK];
    memcpy(was, numbers, sizeof was);
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++)
        numbers[i] = was[(start + i) % WORDS_PER_BLOCK];
}
