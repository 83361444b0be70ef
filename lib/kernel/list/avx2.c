/* The list kernel for x86-64 with AVX2 and BMI2: eight values at a time.
 *
 *     unary --> places of its ones ----------------------------> high parts --+
 *     tops  --> reversed, to a word each --+                                  +-->
 * values rests --> shuffled, to a word each --+--> low parts --> steps down -----+
 */
#include "lib/kernel/list/list_put.h"

#if defined(__x86_64__)
#include "lib/kernel/list/list_eights.h"

#define KERNEL        __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define KERNEL_INLINE KERNEL GROUP_INLINE

/* Writes the places of all ones of a word, and up to 7 places behind them. */
KERNEL_INLINE void put_places(uint16_t *to, uint32_t bit, uint64_t word)
{
    for (; word; to += EIGHT) {
#pragma GCC unroll 8
        for (size_t i = 0; i < EIGHT; i++) {
            to[i] = (uint16_t)(bit + (uint32_t)_tzcnt_u64(word));
            word = _blsr_u64(word);
        }
    }
}

/* Places in unary of the ones of n_more hashes. False: it has fewer. Writes up to
 * WORD_BITS + EIGHT more. */
KERNEL_INLINE bool find_ones(const uint8_t *page, const struct list_page *p,
                             uint16_t *places)
{
    uint32_t n_more = p->n - 1, n = 0;
    for (uint32_t bit = 0; n < n_more; bit += WORD_BITS) {
        if (bit >= p->unary_bits)
            return false;
        struct le64 bytes;
        memcpy(&bytes, page + p->unary_at + bit / 8, sizeof bytes);
        uint64_t word = le64_get(bytes);
        if (p->unary_bits - bit < WORD_BITS)
            word = low_bits(word, p->unary_bits - bit);
        put_places(places + n, bit, word);
        n += (uint32_t)__builtin_popcountll(word);
    }
    return true;
}

/* ---- low parts ---- */

KERNEL_INLINE __m256i load_four(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

KERNEL_INLINE __m128i load_half(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Rests 4 * half .. 4 * half + 3 of the eight that begin here. */
KERNEL_INLINE __m256i four_rests(const uint8_t *at, const struct rests *r, int half)
{
    __m256i bytes =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(at + r->at[2 * half])),
                                load_half(at + r->at[2 * half + 1]), 1);
    __m256i words = _mm256_shuffle_epi8(bytes, load_four(r->bytes + 4 * half));
    words = _mm256_srlv_epi64(words, load_four(r->shift + 4 * half));
    return _mm256_and_si256(words, _mm256_set1_epi64x((long long)r->mask));
}

/* Tops of eight hashes, the last one first, from `at` on; and the four of a half, in
 * order and a word each. */
KERNEL_INLINE __m256i eight_tops(const uint8_t *at, uint32_t top_bytes)
{
    long long word;
    if (top_bytes == 2)
        return _mm256_broadcastsi128_si256(load_half(at));
    memcpy(&word, at, sizeof word);
    return _mm256_set1_epi64x(word);
}

/* A shuffle with this makes a word of the top in byte `at`. */
KERNEL_INLINE long long top_from(long long at, uint32_t top_bytes)
{
    return top_bytes == 2 ? ~0xffffLL | (at + 1) << 8 | at : ~0xffLL | at;
}

KERNEL_INLINE __m256i four_tops(__m256i tops, uint32_t top_bytes, int half)
{
    long long t = top_bytes, first = (EIGHT - 1 - 4 * half) * t;
    return _mm256_shuffle_epi8(tops,
                               _mm256_set_epi64x(top_from(first - 3 * t, top_bytes),
                                                 top_from(first - 2 * t, top_bytes),
                                                 top_from(first - t, top_bytes),
                                                 top_from(first, top_bytes)));
}

/* ---- values ---- */

/* Bit i of m is set if low bits grow from the hash before to hash i of four. This has,
 * for each hash, how many up to it do not grow: steps of the high part that unary does
 * not have. The number behind them is all of these, less unary's four ones. */
#define UP_TO_1(m) !(m & 1)
#define UP_TO_2(m) UP_TO_1(m) + !(m & 2)
#define UP_TO_3(m) UP_TO_2(m) + !(m & 4)
#define UP_TO_4(m) UP_TO_3(m) + !(m & 8)
#define STEPS(m)                                                                       \
    {                                                                                  \
        UP_TO_1(m), UP_TO_2(m), UP_TO_3(m), UP_TO_4(m), UP_TO_4(m) - 4                 \
    }
static const int64_t steps_of[16][8] __attribute__((aligned(64))) = {
    STEPS(0),  STEPS(1),  STEPS(2),  STEPS(3), STEPS(4),  STEPS(5),
    STEPS(6),  STEPS(7),  STEPS(8),  STEPS(9), STEPS(10), STEPS(11),
    STEPS(12), STEPS(13), STEPS(14), STEPS(15)};

struct decoding {
    __m256i before; /* the last low part, in its first word */
    __m256i base;   /* of the high parts of the next four */
    __m128i gap_bits, rest_bits;
};

/* High and low parts of the next four hashes become values. */
KERNEL_INLINE __m256i four_values(struct decoding *d, const uint16_t *places,
                                  __m256i low, __m256i *high)
{
    __m256i turned = _mm256_permute4x64_epi64(low, 0x93);
    __m256i before = _mm256_blend_epi32(turned, d->before, 3);
    /* Low parts have less than 64 bits. */
    __m256i grows = _mm256_cmpgt_epi64(low, before);
    int m = _mm256_movemask_pd(_mm256_castsi256_pd(grows));
    __m256i place =
        _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)(const void *)places));
    __m256i steps = _mm256_load_si256((const __m256i *)(const void *)steps_of[m]);
    *high = _mm256_add_epi64(_mm256_add_epi64(place, d->base), steps);
    d->before = turned;
    d->base = _mm256_add_epi64(d->base, _mm256_set1_epi64x(steps_of[m][4]));
    return _mm256_or_si256(_mm256_sll_epi64(*high, d->gap_bits), low);
}

KERNEL_INLINE void store_four(uint64_t *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

/* Half of the eight hashes whose tops, rests and places these are. */
KERNEL_INLINE __m256i half_values(__m256i tops, const uint8_t *rests,
                                  const struct rests *r, const uint16_t *places,
                                  uint32_t top_bytes, int half, struct decoding *d,
                                  __m256i *high)
{
    __m256i top = _mm256_sll_epi64(four_tops(tops, top_bytes, half), d->rest_bits);
    __m256i low = _mm256_or_si256(top, four_rests(rests, r, half));
    return four_values(d, places + 4 * half, low, high);
}

/* Values of the eight hashes from i on, and their high parts. */
KERNEL_INLINE void eight_values(const uint8_t *page, const struct list_page *p,
                                uint32_t top_bytes, const struct rests *r, uint32_t i,
                                const uint16_t *places, struct decoding *d,
                                uint64_t *to, __m256i high[2])
{
    const uint8_t *rests = page + p->rests_at + (i - 1) / EIGHT * p->rest_bits;
    __m256i tops =
        eight_tops(page + PAGE_BYTES - top_bytes * (i + EIGHT - 1), top_bytes);
    places += i - 1;
    store_four(to, half_values(tops, rests, r, places, top_bytes, 0, d, &high[0]));
    store_four(to + 4, half_values(tops, rests, r, places, top_bytes, 1, d, &high[1]));
}

/* All values of a page whose tops have top_bytes bytes, a constant in each call. */
KERNEL_INLINE bool page_values(const uint8_t *page, uint32_t hash_bits,
                               const struct list_page *p, uint32_t top_bytes,
                               const uint16_t *places, uint64_t *values)
{
    struct rests r;
    uint64_t last[EIGHT], last_high[EIGHT];
    long long first_high = (long long)(p->first >> p->gap_bits);
    struct decoding d = {
        _mm256_set1_epi64x((long long)low_bits(p->first, p->gap_bits)),
        _mm256_sub_epi64(_mm256_set1_epi64x(first_high), _mm256_set_epi64x(3, 2, 1, 0)),
        _mm_cvtsi32_si128((int)p->gap_bits), _mm_cvtsi32_si128((int)p->rest_bits)};
    __m256i high[2];
    uint32_t i = 1, n = p->n;
    rests_at(p->rest_bits, &r);
    values[0] = p->first;
    for (; n - i > EIGHT; i += EIGHT)
        eight_values(page, p, top_bytes, &r, i, places, &d, values + i, high);
    eight_values(page, p, top_bytes, &r, i, places, &d, last, high);
    memcpy(values + i, last, (n - i) * sizeof *values);
    memcpy(last_high, high, sizeof last_high);
    /* All lie below the last one, which must be within hash_bits. */
    return last_high[n - 1 - i] <= list_max(hash_bits) >> p->gap_bits &&
           values[n - 1] <= list_max(hash_bits);
}

/* ==== sorted values to a page ====
 *
 * Ones of unary are set at sums of the gaps before them. Zeros of one gap are few, but
 * those of eight may be more than a word: then each one is put by itself. */

KERNEL bool list_values_rise_avx2(const uint64_t *v, size_t n)
{
    const __m256i top =
        _mm256_set1_epi64x(INT64_MIN); /* for compares that have signs */
    __m256i rise = _mm256_set1_epi64x(-1);
    size_t i = 1;
    for (; i + 4 <= n; i += 4) {
        __m256i here = _mm256_xor_si256(load_four(v + i), top);
        __m256i before = _mm256_xor_si256(load_four(v + i - 1), top);
        rise = _mm256_and_si256(rise, _mm256_cmpgt_epi64(here, before));
    }
    return _mm256_movemask_epi8(rise) == -1 &&
           (i >= n || list_values_rise_plain(v + i - 1, n - i + 1));
}

/* ---- rests ----
 *
 * Two rests are put to a half of a vector, which begins in a byte of its own or in the
 * last one of the half before. Narrow rests, of which eight fit a word, are put
 * together by their shifts alone. No eight waits for those before. */

enum { HALVES = 4, HALF_BYTES = 16, NARROW_BITS = 8 };

struct put_rests {
    uint64_t mask;
    uint64_t narrow[EIGHT];              /* the bit of a word where each begins */
    uint64_t shift[EIGHT];               /* the bit of its first byte */
    uint8_t second[HALVES][HALF_BYTES];  /* moves the second of a half to its byte */
    uint8_t carried[HALVES][HALF_BYTES]; /* moves the byte that two halves share */
    uint32_t at[HALVES];                 /* the byte where a half begins */
};

KERNEL_INLINE void put_rests_of(uint32_t rest_bits, struct put_rests *r)
{
    const uint8_t none = 0xff;
    memset(r->carried, none, sizeof r->carried);
    r->mask = (UINT64_C(1) << rest_bits) - 1;
    for (uint32_t i = 0; i < EIGHT; i++) {
        r->narrow[i] = i * rest_bits;
        r->shift[i] = i * rest_bits % 8;
    }
    for (uint32_t half = 0; half < HALVES; half++) {
        uint32_t bit = 2 * half * rest_bits, to = (bit + rest_bits) / 8 - bit / 8;
        r->at[half] = bit / 8;
        for (uint32_t i = 0; i < HALF_BYTES; i++)
            r->second[half][i] = i >= to && i < to + 8 ? (uint8_t)(8 + i - to) : none;
        if (half > 0)
            r->carried[half][0] = (uint8_t)(r->at[half] - r->at[half - 1]);
    }
}

KERNEL_INLINE uint64_t or_of(__m256i v)
{
    __m128i both =
        _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_or_si128(both, _mm_unpackhi_epi64(both, both)));
}

/* Writes a word. */
KERNEL_INLINE void put_narrow(__m256i a, __m256i b, const struct put_rests *r,
                              uint8_t *to)
{
    __m256i mask = _mm256_set1_epi64x((long long)r->mask);
    a = _mm256_sllv_epi64(_mm256_and_si256(a, mask), load_four(r->narrow));
    b = _mm256_sllv_epi64(_mm256_and_si256(b, mask), load_four(r->narrow + 4));
    store_word(to, or_of(_mm256_or_si256(a, b)));
}

/* The rests of four values, in two halves. */
KERNEL_INLINE __m256i two_halves(__m256i v, const struct put_rests *r, int half)
{
    __m256i mask = _mm256_set1_epi64x((long long)r->mask);
    __m256i rests =
        _mm256_sllv_epi64(_mm256_and_si256(v, mask), load_four(r->shift + 2 * half));
    __m256i first = _mm256_blend_epi32(rests, _mm256_setzero_si256(), 0xcc);
    return _mm256_or_si256(first,
                           _mm256_shuffle_epi8(rests, load_four(r->second[half])));
}

KERNEL_INLINE void store_half(uint8_t *to, __m128i half)
{
    _mm_storeu_si128((__m128i *)(void *)to, half);
}

/* Writes up to 15 bytes more. */
KERNEL_INLINE void put_wide(__m256i a, __m256i b, const struct put_rests *r,
                            uint8_t *to)
{
    a = two_halves(a, r, 0);
    b = two_halves(b, r, 2);
    __m256i before_a = _mm256_permute2x128_si256(a, a, 0x08); /* zero, a's first */
    __m256i before_b =
        _mm256_permute2x128_si256(a, b, 0x21); /* a's second, b's first */
    a = _mm256_or_si256(a, _mm256_shuffle_epi8(before_a, load_four(r->carried[0])));
    b = _mm256_or_si256(b, _mm256_shuffle_epi8(before_b, load_four(r->carried[2])));
    store_half(to, _mm256_castsi256_si128(a));
    store_half(to + r->at[1], _mm256_extracti128_si256(a, 1));
    store_half(to + r->at[2], _mm256_castsi256_si128(b));
    store_half(to + r->at[3], _mm256_extracti128_si256(b, 1));
}

/* ---- tops ---- */

/* Writes the tops of eight values, the last one first. */
KERNEL_INLINE void put_tops(__m256i a, __m256i b, __m128i rest_bits, uint32_t top_bytes,
                            uint8_t *to)
{
    const char no = -1;
    /* Two bytes of each are of use: 0 4 . . 1 5 . . | 2 6 . . 3 7 . . */
    __m256i tops =
        _mm256_blend_epi16(_mm256_srl_epi64(a, rest_bits),
                           _mm256_slli_epi64(_mm256_srl_epi64(b, rest_bits), 16), 0xaa);
    __m256i order =
        top_bytes == 2
            /* . . 5 4 . . 1 0 | 7 6 . . 3 2 . . */
            ? _mm256_setr_epi8(no, no, no, no, 10, 11, 2, 3, no, no, no, no, 8, 9, 0, 1,
                               10, 11, 2, 3, no, no, no, no, 8, 9, 0, 1, no, no, no, no)
            : _mm256_setr_epi8(no, no, 10, 2, no, no, 8, 0, no, no, no, no, no, no, no,
                               no, 10, 2, no, no, 8, 0, no, no, no, no, no, no, no, no,
                               no, no);
    __m256i halves = _mm256_shuffle_epi8(tops, order);
    __m128i all = _mm_or_si128(_mm256_castsi256_si128(halves),
                               _mm256_extracti128_si256(halves, 1));
    if (top_bytes == 2)
        _mm_storeu_si128((__m128i *)(void *)to, all);
    else
        _mm_storel_epi64((__m128i *)(void *)to, all);
}

/* ---- unary ---- */

/* How many bits do a one and the zeros before it take, for four values, up to each? */
KERNEL_INLINE __m256i bits_up_to(__m256i v, __m256i before, __m128i gap_bits)
{
    const __m256i one = _mm256_set1_epi64x(1);
    __m256i gap = _mm256_sub_epi64(_mm256_sub_epi64(v, before), one);
    __m256i bits = _mm256_add_epi64(_mm256_srl_epi64(gap, gap_bits), one);
    bits = _mm256_add_epi64(bits, _mm256_slli_si256(bits, 8));
    __m256i of_low = _mm256_permute4x64_epi64(bits, 0x50);
    return _mm256_add_epi64(bits,
                            _mm256_blend_epi32(_mm256_setzero_si256(), of_low, 0xf0));
}

KERNEL_INLINE uint64_t last_of(__m256i v)
{
    return (uint64_t)_mm_extract_epi64(_mm256_extracti128_si256(v, 1), 1);
}

/* Ones at the ends of what bits_up_to() returned; less than 64 bits in all. */
KERNEL_INLINE uint64_t ones_at(__m256i bits)
{
    return or_of(_mm256_sllv_epi64(_mm256_set1_epi64x(1), bits)) >> 1;
}

/* ---- pages ---- */

/* Ones of eight values. */
KERNEL_INLINE void put_eight_ones(const uint64_t *v, __m256i a, __m256i b,
                                  uint32_t gap_bits, struct unary *u)
{
    __m128i count = _mm_cvtsi32_si128((int)gap_bits);
    __m256i bits_a = bits_up_to(a, load_four(v - 1), count);
    __m256i bits_b = bits_up_to(b, load_four(v + 3), count);
    uint64_t n_a = last_of(bits_a), n_bits = n_a + last_of(bits_b);
    if (__builtin_expect(n_bits <= MOST_BITS, 1)) {
        put_ones(u, ones_at(bits_a) | ones_at(bits_b) << n_a, (uint32_t)n_bits);
        return;
    }
    put_each_one(v, EIGHT, gap_bits, u);
}

KERNEL_INLINE void put_page(const uint64_t *v, const struct list_page *p,
                            uint32_t top_bytes, uint8_t *page)
{
    uint8_t buffer[UNARY_ROOM], *to = page + p->rests_at;
    struct unary u = {buffer, 0, 0};
    struct put_rests r;
    uint32_t i = 1, n = p->n, gap_bits = p->gap_bits, rest_bits = p->rest_bits;
    put_rests_of(rest_bits, &r);
    for (; n - i >= EIGHT; i += EIGHT) {
        __m256i a = load_four(v + i), b = load_four(v + i + 4);
        put_eight_ones(v + i, a, b, gap_bits, &u);
        if (rest_bits <= NARROW_BITS)
            put_narrow(a, b, &r, to);
        else
            put_wide(a, b, &r, to);
        to += rest_bits;
        put_tops(a, b, _mm_cvtsi32_si128((int)rest_bits), top_bytes,
                 page + PAGE_BYTES - top_bytes * (i + EIGHT - 1));
    }
    put_values(v, p, top_bytes, i, &u, page);
    put_unary(buffer, &u, p, page);
}

KERNEL size_t list_page_pack_avx2(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    PACK_PAGE(v, n, page);
}
#define HAS_TOP     has_top_avx2
#define LIST_KERNEL list_avx2
#define PLACE       uint16_t
#define LIST_PACK   list_page_pack_avx2
#define LIST_RISE   list_values_rise_avx2
#include "lib/kernel/list/list_spots.h"
#endif
