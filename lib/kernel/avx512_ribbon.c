/* The ribbon kernel for x86-64 with AVX-512: eight digits of a block are
 * one register, and eight keys find their places at a time. */
#include "lib/kernel/ribbon.h"

#ifdef __x86_64__
#include <immintrin.h>

#define KERNEL                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx2,bmi,bmi2,popcnt"))) static
#define KERNEL_NAME   "avx512"
#define RIBBON_SYMBOL ribbon_avx512
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

typedef int ribbon_avx512_has_this_file; /* elsewhere it is empty, which C forbids */
