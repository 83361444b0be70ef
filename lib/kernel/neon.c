/* The kernel for 64-bit Arm, little-endian: a block is four pairs of words. */
#include "lib/kernel/kernel.h"
#include "lib/kernel/ribbon.h"

#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>

#define KERNEL             static
#define KERNEL_NAME        "neon"
#define KERNEL_SYMBOL      kernel_neon
#define RIBBON_SYMBOL      ribbon_neon
#define ANY_ADDRESS        false
#define NEAR_BYTES         (512 << 10)
#define VECTOR_BYTES       16

#define WORDS(words)       (words)
#define PLANE_WORDS(plane) ((plane)->words)

enum { PAIRS = WORDS_PER_BLOCK / 2 };

struct pattern {
    uint32x4_t bit[2];  /* of each word: 0..63 */
    uint32x4_t turn[2]; /* how many words each one is behind the first: 0..7 */
};

KERNEL inline struct pattern pattern_of(uint64_t h)
{
    static const uint32_t word[WORDS_PER_BLOCK] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32x4_t start = vdupq_n_u32(geometry_start(h));
    struct pattern x;
    for (int i = 0; i < 2; i++) {
        x.bit[i] =
            vshrq_n_u32(vmulq_n_u32(vld1q_u32(geometry_salt + 4 * i), (uint32_t)h), 26);
        x.turn[i] = vandq_u32(vsubq_u32(vld1q_u32(word + 4 * i), start),
                              vdupq_n_u32(WORDS_PER_BLOCK - 1));
    }
    return x;
}

/* The mask of each pair. A shift by 64 leaves nothing: so do words beyond `words`. */
KERNEL inline void pattern_masks(const struct pattern *x, uint32_t words,
                                 uint64x2_t mask[PAIRS])
{
    for (int i = 0; i < 2; i++) {
        uint32x4_t beyond = vcgeq_u32(x->turn[i], vdupq_n_u32(words));
        uint32x4_t shift = vorrq_u32(x->bit[i], vandq_u32(beyond, vdupq_n_u32(64)));
        uint64x2_t one = vdupq_n_u64(1);
        mask[2 * i] =
            vshlq_u64(one, vreinterpretq_s64_u64(vmovl_u32(vget_low_u32(shift))));
        mask[2 * i + 1] =
            vshlq_u64(one, vreinterpretq_s64_u64(vmovl_u32(vget_high_u32(shift))));
    }
}

/* Two words of a block that another thread may be setting bits in. */
KERNEL inline uint64x2_t load_pair(const uint8_t *block, int i)
{
    const volatile uint64x2_t *b =
        (const volatile uint64x2_t *)(const volatile void *)block;
    return b[i];
}

KERNEL inline uint8_t pattern_lacks(const struct pattern *x, uint32_t words,
                                    const uint8_t *block)
{
    uint64x2_t mask[PAIRS], missing = vdupq_n_u64(0);
    pattern_masks(x, words, mask);
    for (int i = 0; i < PAIRS; i++)
        missing = vorrq_u64(missing, vbicq_u64(mask[i], load_pair(block, i)));
    return vmaxvq_u32(vreinterpretq_u32_u64(missing)) != 0;
}

KERNEL inline uint32_t pattern_add(const struct pattern *x, uint32_t words,
                                   uint8_t *block, bool alone)
{
    uint64_t *w = (uint64_t *)(void *)block, missing[WORDS_PER_BLOCK];
    uint32_t fresh = 0;
    uint64x2_t mask[PAIRS];
    pattern_masks(x, words, mask);
    for (int i = 0; i < PAIRS; i++)
        vst1q_u64(missing + 2 * i, vbicq_u64(mask[i], load_pair(block, i)));
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++)
        if (missing[i]) /* a set bit stays set: no need to take the line for writing */
            fresh += set_missing(&w[i], missing[i], alone);
    return fresh;
}

KERNEL inline void pattern_fill(const struct pattern *x, uint32_t words, uint8_t *block)
{
    uint64_t *w = (uint64_t *)(void *)block;
    uint64x2_t mask[PAIRS];
    pattern_masks(x, words, mask);
    for (int i = 0; i < PAIRS; i++)
        vst1q_u64(w + 2 * i, vorrq_u64(vld1q_u64(w + 2 * i), mask[i]));
}

KERNEL inline uint64_t block_count(const uint8_t *block)
{
    uint8x16_t n = vdupq_n_u8(0);
    for (int i = 0; i < PAIRS; i++)
        n = vaddq_u8(n, vcntq_u8(vreinterpretq_u8_u64(load_pair(block, i))));
    return vaddlvq_u8(n);
}

#include "lib/kernel/loops.h"

/* ==== ribbons: SPEC.md section 19 ==== */

/* A bit for each of the two words: its parity. */
KERNEL inline uint32_t two_columns(const uint8_t *here, const uint8_t *next,
                                   uint8x16_t low, uint8x16_t high)
{
    uint8x16_t x =
        veorq_u8(vandq_u8(vld1q_u8(here), low), vandq_u8(vld1q_u8(next), high));
    uint64x2_t n = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8(x))));
    return ((uint32_t)vgetq_lane_u64(n, 0) & 1) | ((uint32_t)vgetq_lane_u64(n, 1) & 1)
                                                      << 1;
}

KERNEL inline uint32_t parities_of(const uint8_t *here, const uint8_t *next,
                                   uint64_t low, uint64_t high)
{
    uint8x16_t l = vreinterpretq_u8_u64(vdupq_n_u64(low));
    uint8x16_t h = vreinterpretq_u8_u64(vdupq_n_u64(high));
    uint32_t odd = 0;
    for (uint32_t j = 0; j < 8; j += 2)
        odd |= two_columns(here + 8 * j, next + 8 * j, l, h) << j;
    return odd;
}

#include "lib/kernel/digits.h"
#endif

typedef int kernel_neon_has_this_file; /* elsewhere it is empty, which C forbids */
