/* All values of a page of a list, by AVX2 and BMI2.
 *
 *     unary --> places of its ones ----------------------------> high parts --+
 *     tops  --> reversed, to a word each --+                                  +-->
 * values rests --> shuffled, to a word each --+--> low parts --> steps down -----+
 */
#include "lib/kernel/list/list_page.h"

#if defined(__x86_64__)
#include "lib/kernel/list/list_eights.h"

#include <immintrin.h>

#define AVX2        __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define AVX2_INLINE AVX2 __attribute__((always_inline)) static inline

AVX2_INLINE uint64_t put_place(uint16_t *to, uint32_t bit, uint64_t word)
{
    *to = (uint16_t)(bit + (uint32_t)_tzcnt_u64(word));
    return _blsr_u64(word);
}

/* Writes the places of all ones of a word, and up to 7 places behind them. */
AVX2_INLINE void put_places(uint16_t *to, uint32_t bit, uint64_t word)
{
    for (; word; to += EIGHT) {
        word = put_place(to, bit, word);
        word = put_place(to + 1, bit, word);
        word = put_place(to + 2, bit, word);
        word = put_place(to + 3, bit, word);
        word = put_place(to + 4, bit, word);
        word = put_place(to + 5, bit, word);
        word = put_place(to + 6, bit, word);
        word = put_place(to + 7, bit, word);
    }
}

/* Places in unary of the ones of n_more hashes. False: it has fewer. Writes up to
 * WORD_BITS + EIGHT more. */
AVX2_INLINE bool find_ones(const uint8_t *page, const struct list_page *p,
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

AVX2_INLINE __m256i load_four(const uint64_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

AVX2_INLINE __m128i load_half(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Rests 4 * half .. 4 * half + 3 of the eight that begin here. */
AVX2_INLINE __m256i four_rests(const uint8_t *at, const struct rests *r, int half)
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
AVX2_INLINE __m256i eight_tops(const uint8_t *at, uint32_t top_bytes)
{
    long long word;
    if (top_bytes == 2)
        return _mm256_broadcastsi128_si256(load_half(at));
    memcpy(&word, at, sizeof word);
    return _mm256_set1_epi64x(word);
}

/* A shuffle with this makes a word of the top in byte `at`. */
AVX2_INLINE long long top_from(long long at, uint32_t top_bytes)
{
    return top_bytes == 2 ? ~0xffffLL | (at + 1) << 8 | at : ~0xffLL | at;
}

AVX2_INLINE __m256i four_tops(__m256i tops, uint32_t top_bytes, int half)
{
    long long t = top_bytes, first = (EIGHT - 1 - 4 * half) * t;
    return _mm256_shuffle_epi8(tops,
                               _mm256_set_epi64x(top_from(first - 3 * t, top_bytes),
                                                 top_from(first - 2 * t, top_bytes),
                                                 top_from(first - t, top_bytes),
                                                 top_from(first, top_bytes)));
}

/* ---- values ---- */

/* Bit i of m is set if low bits grow from the hash before to hash i of four. STEPS has,
 * for each hash, how many up to it do not grow: steps of the high part that unary does
 * not have. The last number is all of them, less unary's four ones. */
#define STEPS(m)                                                                       \
    {                                                                                  \
        !(m & 1), !(m & 1) + !(m & 2), !(m & 1) + !(m & 2) + !(m & 4),                 \
            !(m & 1) + !(m & 2) + !(m & 4) + !(m & 8)                                  \
    }
static const int64_t steps_up_to[16][4] __attribute__((aligned(32))) = {
    STEPS(0),  STEPS(1),  STEPS(2),  STEPS(3), STEPS(4),  STEPS(5),
    STEPS(6),  STEPS(7),  STEPS(8),  STEPS(9), STEPS(10), STEPS(11),
    STEPS(12), STEPS(13), STEPS(14), STEPS(15)};
#define MORE(m) !(m & 1) + !(m & 2) + !(m & 4) + !(m & 8) - 4
static const int64_t more_high[16] = {
    MORE(0), MORE(1), MORE(2),  MORE(3),  MORE(4),  MORE(5),  MORE(6),  MORE(7),
    MORE(8), MORE(9), MORE(10), MORE(11), MORE(12), MORE(13), MORE(14), MORE(15)};

struct decoding {
    __m256i before; /* the last low part, in its first word */
    __m256i base;   /* of the high parts of the next four */
    __m128i gap_bits, rest_bits;
};

/* High and low parts of the next four hashes become values. */
AVX2_INLINE __m256i four_values(struct decoding *d, const uint16_t *places, __m256i low,
                                __m256i *high)
{
    __m256i turned = _mm256_permute4x64_epi64(low, 0x93);
    __m256i before = _mm256_blend_epi32(turned, d->before, 3);
    /* Low parts have less than 64 bits. */
    __m256i grows = _mm256_cmpgt_epi64(low, before);
    int m = _mm256_movemask_pd(_mm256_castsi256_pd(grows));
    __m256i place =
        _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)(const void *)places));
    __m256i steps = _mm256_load_si256((const __m256i *)(const void *)steps_up_to[m]);
    *high = _mm256_add_epi64(_mm256_add_epi64(place, d->base), steps);
    d->before = turned;
    d->base = _mm256_add_epi64(d->base, _mm256_set1_epi64x(more_high[m]));
    return _mm256_or_si256(_mm256_sll_epi64(*high, d->gap_bits), low);
}

AVX2_INLINE void store_four(uint64_t *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

/* Half of the eight hashes whose tops, rests and places these are. */
AVX2_INLINE __m256i half_values(__m256i tops, const uint8_t *rests,
                                const struct rests *r, const uint16_t *places,
                                uint32_t top_bytes, int half, struct decoding *d,
                                __m256i *high)
{
    __m256i top = _mm256_sll_epi64(four_tops(tops, top_bytes, half), d->rest_bits);
    __m256i low = _mm256_or_si256(top, four_rests(rests, r, half));
    return four_values(d, places + 4 * half, low, high);
}

/* Values of the eight hashes from i on, and their high parts. */
AVX2_INLINE void eight_values(const uint8_t *page, const struct list_page *p,
                              uint32_t top_bytes, const struct rests *r, uint32_t i,
                              const uint16_t *places, struct decoding *d, uint64_t *to,
                              __m256i high[2])
{
    const uint8_t *rests = page + p->rests_at + (i - 1) / EIGHT * p->rest_bits;
    __m256i tops =
        eight_tops(page + PAGE_BYTES - top_bytes * (i + EIGHT - 1), top_bytes);
    places += i - 1;
    store_four(to, half_values(tops, rests, r, places, top_bytes, 0, d, &high[0]));
    store_four(to + 4, half_values(tops, rests, r, places, top_bytes, 1, d, &high[1]));
}

/* All values of a page whose tops have top_bytes bytes, a constant in each call. */
AVX2_INLINE bool page_values(const uint8_t *page, uint32_t hash_bits,
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

AVX2 bool list_page_values_avx2(const uint8_t *page, uint32_t hash_bits,
                                const struct list_page *p,
                                uint64_t values[LIST_PAGE_MAX_HASHES])
{
    uint16_t places[LIST_PAGE_MAX_HASHES + WORD_BITS + EIGHT];
    if (p->n <= LEAST_MORE)
        return list_page_values_plain(page, hash_bits, p, values);
    if (!find_ones(page, p, places))
        return false;
    return p->top_bytes == 1 ? page_values(page, hash_bits, p, 1, places, values)
                             : page_values(page, hash_bits, p, 2, places, values);
}
#endif
