/* The kernel for x86-64 with AVX-512 (F, BW, DQ): a block is one register. */
#include "lib/kernel/kernel.h"
#include "lib/kernel/ribbon.h"

#ifdef __x86_64__
#include <immintrin.h>

#define KERNEL             __attribute__((target("avx512f,avx512bw,avx512dq,avx2,bmi,bmi2"))) static
#define KERNEL_NAME        "avx512"
#define KERNEL_SYMBOL      kernel_avx512
#define RIBBON_SYMBOL      ribbon_avx512
#define ANY_ADDRESS        true
#define NEAR_BYTES         (2 << 20)
#define VECTOR_BYTES       64
#define HAS_COLUMNS        true

#define WORDS(words)       plane_ring(words)
#define PLANE_WORDS(plane) ((plane)->ring)

/* Read at once, as another thread may be setting bits. At any address: blocks may be in
 * the memory of a caller (blocks.c). */
typedef long long block512 __attribute__((vector_size(64), aligned(1), may_alias));

struct pattern {
    __m512i bits; /* one in each word */
    uint32_t start;
};

static const uint64_t salts[WORDS_PER_BLOCK] __attribute__((aligned(64))) = {
    SALT_0, SALT_1, SALT_2, SALT_3, SALT_4, SALT_5, SALT_6, SALT_7};

/* The bit of a word is 26 to 31 of a product. A multiplication of 64-bit numbers by
 * their lower halves has them at the same place, and is one operation, where that of
 * 32-bit numbers is two. A rotation ignores what lies above the six bits. */
KERNEL inline struct pattern pattern_of(uint64_t h)
{
    __m512i product =
        _mm512_mul_epu32(_mm512_set1_epi64((long long)h), _mm512_load_si512(salts));
    return (struct pattern){
        _mm512_rolv_epi64(_mm512_set1_epi64(1), _mm512_srli_epi64(product, 26)),
        geometry_start(h),
    };
}

/* From the word start on, round the corner. */
KERNEL inline __mmask8 pattern_words(const struct pattern *x, uint32_t ring)
{
    return (__mmask8)(ring << x->start >> 8);
}

KERNEL inline uint8_t pattern_lacks(const struct pattern *x, uint32_t ring,
                                    const uint8_t *block)
{
    block512 b = *(const volatile block512 *)(const volatile void *)block;
    return _mm512_mask_testn_epi64_mask(pattern_words(x, ring), (__m512i)b, x->bits);
}

/* ---- one key in the first lanes of a row ----
 *
 * How many instructions a key takes decides how many keys a processor has in flight,
 * and so for how many lines it waits at a time. So the addresses of eight lines are
 * computed in one step, and what the blocks lack is put side by side, a byte a plane,
 * before anyone asks which of it matters.
 *
 * All stays in registers: a load that has the lowest 12 bits of its address in common
 * with an earlier store waits until that has retired, and with it all before it
 * (Intel's optimization manual: 4-KByte aliasing). With ten lines that is one key in
 * six for each line that was stored. */

/* The lines of planes i to i + 7: n_blocks fits in 32 bits, so that the upper half of
 * its product with h is made of two smaller products. */
KERNEL inline __m512i column_lines(const struct plane_row *r, size_t i, uint64_t h)
{
    __m512i n_blocks = _mm512_loadu_si512(r->n_blocks + i);
    __m512i low = _mm512_set1_epi64((long long)h), high = _mm512_srli_epi64(low, 32);
    __m512i carry = _mm512_srli_epi64(_mm512_mul_epu32(low, n_blocks), 32);
    __m512i block = _mm512_srli_epi64(
        _mm512_add_epi64(_mm512_mul_epu32(high, n_blocks), carry), 32);
    return _mm512_add_epi64(_mm512_loadu_si512(r->bits + i),
                            _mm512_slli_epi64(block, 6));
}

/* One instruction reads the block and tests it, which compilers do not make of a
 * volatile read. */
KERNEL inline __mmask8 line_lacks(long long line, __m512i bits)
{
    __mmask8 lacks;
    __asm__("vptestnmq %2, %1, %0"
            : "=k"(lacks)
            : "v"(bits), "m"(*(const block512 *)(uintptr_t)line));
    return lacks;
}

KERNEL inline uint32_t two_lack(__m128i lines, __m512i bits)
{
    __mmask8 first = line_lacks(_mm_cvtsi128_si64(lines), bits);
    return _mm512_kunpackb(line_lacks(_mm_extract_epi64(lines, 1), bits), first);
}

KERNEL inline uint32_t four_lack(__m256i lines, __m512i bits)
{
    uint32_t first = two_lack(_mm256_castsi256_si128(lines), bits);
    return _mm512_kunpackw(two_lack(_mm256_extracti128_si256(lines, 1), bits), first);
}

/* Asks the first n lines, 1 to 8, and one more if n is odd. A byte each. */
KERNEL inline uint64_t lines_lack(__m512i lines, size_t n, __m512i bits)
{
    __m256i low = _mm512_castsi512_si256(lines);
    if (n <= 2)
        return two_lack(_mm256_castsi256_si128(low), bits);
    uint32_t first = four_lack(low, bits);
    if (n <= 4)
        return first;
    __m256i high = _mm512_extracti64x4_epi64(lines, 1);
    return _mm512_kunpackd(n > 6 ? four_lack(high, bits)
                                 : two_lack(_mm256_castsi256_si128(high), bits),
                           first);
}

/* The words of a key by how many they are, from its first one on: a byte for each
 * number. */
#define FROM(start, n) ((0x101 * ((1 << (n)) - 1) << (start) >> 8) & 0xff)
#define WORDS_FROM(start)                                                              \
    {                                                                                  \
        FROM(start, 0), FROM(start, 1), FROM(start, 2), FROM(start, 3),                \
            FROM(start, 4), FROM(start, 5), FROM(start, 6), FROM(start, 7),            \
            FROM(start, 8)                                                             \
    }
static const uint8_t words_from[WORDS_PER_BLOCK][16] __attribute__((aligned(16))) = {
    WORDS_FROM(0), WORDS_FROM(1), WORDS_FROM(2), WORDS_FROM(3),
    WORDS_FROM(4), WORDS_FROM(5), WORDS_FROM(6), WORDS_FROM(7)};

/* Inlined by force: a call would take what this saves. */
KERNEL inline __attribute__((always_inline)) uint32_t
columns_alive(const struct plane_row *r, uint64_t h)
{
    const size_t n = r->n_columns;
    const __m512i bits = pattern_of(h).bits, lines = column_lines(r, 0, h);
    __m128i lack;
    if (n > 8) {
        __m512i others = column_lines(r, 8, h);
        lack = _mm_cvtsi64_si128((long long)lines_lack(lines, 8, bits));
        lack = _mm_insert_epi64(lack, (long long)lines_lack(others, n - 8, bits), 1);
    } else {
        lack = _mm_cvtsi64_si128((long long)lines_lack(lines, n, bits));
    }
    __m128i words = _mm_loadu_si128((const __m128i *)(const void *)r->words);
    __m128i from =
        _mm_load_si128((const __m128i *)(const void *)words_from[geometry_start(h)]);
    lack = _mm_and_si128(lack, _mm_shuffle_epi8(from, words));
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(lack, _mm_setzero_si128())) &
           r->all;
}

KERNEL inline uint64_t zero_bytes(const uint8_t bytes[64])
{
    __m512i b = _mm512_loadu_si512(bytes);
    return _mm512_testn_epi8_mask(b, b);
}

KERNEL inline uint32_t pattern_add(const struct pattern *x, uint32_t ring,
                                   uint8_t *block, bool alone)
{
    volatile block512 *at = (volatile block512 *)(volatile void *)block;
    uint64_t *w = (uint64_t *)(void *)block, bits[WORDS_PER_BLOCK];
    __m512i b = (__m512i)*at;
    __mmask8 lacks = _mm512_mask_testn_epi64_mask(pattern_words(x, ring), b, x->bits);
    uint32_t fresh = 0, clear = lacks;
    if (alone) {
        if (__builtin_expect(clear, 1))
            *at = (block512)_mm512_mask_or_epi64(b, lacks, b, x->bits);
        return (uint32_t)__builtin_popcount(clear);
    }
    if (!clear) /* a set bit stays set: no need to take the line for writing */
        return 0;
    _mm512_storeu_si512(bits, x->bits);
    for (; clear; clear &= clear - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(clear);
        fresh += set_missing(&w[i], bits[i], false);
    }
    return fresh;
}

KERNEL inline void pattern_fill(const struct pattern *x, uint32_t ring, uint8_t *block)
{
    block512 *b = (block512 *)(void *)block;
    *b |= (block512)_mm512_maskz_mov_epi64(pattern_words(x, ring), x->bits);
}

/* Each half of a byte has its count in a table of sixteen. */
KERNEL inline uint64_t block_count(const uint8_t *block)
{
    __m512i b = (__m512i) * (const volatile block512 *)(const volatile void *)block;
    __m512i of = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    __m512i low = _mm512_set1_epi8(15);
    __m512i n = _mm512_add_epi8(
        _mm512_shuffle_epi8(of, _mm512_and_si512(b, low)),
        _mm512_shuffle_epi8(of, _mm512_and_si512(_mm512_srli_epi16(b, 4), low)));
    return (uint64_t)_mm512_reduce_add_epi64(
        _mm512_sad_epu8(n, _mm512_setzero_si512()));
}

#include "lib/kernel/loops.h"

/* ==== ribbons: SPEC.md section 19 ====
 *
 * Eight digits of a block are one register, and eight keys find their places at a time.
 */

#define OWN_SPOTS

/* The parity of a word is that of its bytes, whose parities are those of four bits. A
 * count of bits would be one step, but not all processors with AVX-512 have it. */
KERNEL inline uint32_t parities_of(const uint8_t *here, const uint8_t *next,
                                   uint64_t low, uint64_t high)
{
    enum { A_XOR_B_AND_C = 0x78, A_XOR_B_THEN_AND_C = 0x28 };
    __m512i of = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0));
    __m512i x =
        _mm512_and_si512(_mm512_loadu_si512(here), _mm512_set1_epi64((long long)low));
    x = _mm512_ternarylogic_epi64(x, _mm512_loadu_si512(next),
                                  _mm512_set1_epi64((long long)high), A_XOR_B_AND_C);
    x = _mm512_ternarylogic_epi64(x, _mm512_srli_epi64(x, 4), _mm512_set1_epi8(15),
                                  A_XOR_B_THEN_AND_C);
    x = _mm512_sad_epu8(_mm512_shuffle_epi8(of, x), _mm512_setzero_si512());
    return _mm512_movepi64_mask(_mm512_slli_epi64(x, 63));
}

struct spots;
KERNEL inline void spots_of(const struct ribbon_plane *p, const uint64_t *hashes,
                            struct spots *s);

#include "lib/kernel/digits.h"

#define ALL(number) _mm512_set1_epi64((long long)(number))

/* The row of each key, given the part of its product below the page (format/ribbon.h,
 * ribbon_row()): multiplications look at the lower half of a word. */
KERNEL inline __m512i rows_of(__m512i product, __m512i n_rows)
{
    __m512i half = ALL(RIBBON_WIDTH / 2);
    __m512i at = _mm512_srli_epi64(_mm512_mul_epu32(product, n_rows), 32);
    at = _mm512_sub_epi64(_mm512_max_epu64(at, half), half);
    return _mm512_min_epu64(at, _mm512_sub_epi64(n_rows, ALL(RIBBON_WIDTH + 1)));
}

KERNEL inline void spots_of(const struct ribbon_plane *p, const uint64_t *hashes,
                            struct spots *s)
{
    __m512i h = _mm512_loadu_si512(hashes), n_pages = ALL(p->n_pages);
    /* The upper 96 bits of 128: a number of pages has 32. */
    __m512i product =
        _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(h, 32), n_pages),
                         _mm512_srli_epi64(_mm512_mul_epu32(h, n_pages), 32));
    __m512i page = _mm512_srli_epi64(product, 32);
    __mmask8 more = _mm512_cmplt_epu64_mask(page, ALL(p->n_long));
    __m512i blocks =
        _mm512_mask_add_epi64(ALL(p->blocks), more, ALL(p->blocks), ALL(1));
    __m512i row =
        rows_of(product, _mm512_add_epi64(_mm512_slli_epi64(blocks, 6), ALL(1)));
    __m512i entry = _mm512_srli_epi64(row, 6);
    entry = _mm512_mask_add_epi64(entry, more, entry, ALL(p->blocks));
    _mm512_storeu_si512(s->page, _mm512_add_epi64(_mm512_slli_epi64(page, 12),
                                                  ALL((uintptr_t)p->bits)));
    _mm512_storeu_si512(s->entry, _mm512_add_epi64(_mm512_slli_epi64(entry, 3),
                                                   ALL((uintptr_t)p->entries)));
    _mm512_storeu_si512(s->row, _mm512_and_si512(row, ALL(RIBBON_PAIR_ROWS - 1)));

    __m512i m = _mm512_mullo_epi64(_mm512_xor_si512(h, _mm512_srli_epi64(h, 29)),
                                   ALL(LANE_MULTIPLIER));
    __m512i upper = _mm512_srli_epi64(m, 32);
    __m512i c = _mm512_mullo_epi64(_mm512_xor_si512(m, upper), ALL(RIBBON_MULTIPLIER));
    __m512i shift = _mm512_and_si512(row, ALL(RIBBON_WIDTH - 1));
    c = _mm512_or_si512(c, ALL(1));
    _mm512_storeu_si512(s->fingerprint, upper);
    _mm512_storeu_si512(s->low, _mm512_sllv_epi64(c, shift));
    _mm512_storeu_si512(
        s->high, _mm512_srlv_epi64(c, _mm512_sub_epi64(ALL(RIBBON_WIDTH), shift)));
}
_Static_assert(sizeof(struct ribbon_entry) == 8 && PAGE_BYTES == 1 << 12,
               "shifts by 3 and 12");
#endif

typedef int kernel_avx512_has_this_file; /* elsewhere it is empty, which C forbids */
