/* tamis, inline: probes of one key that are no call. An engine that asks one filter for
 * one key at a time spends half of it on the call. Here the probe of a filter that
 * needs no more checks is compiled into the caller's loop, for the processor that the
 * caller's compiler is told (-mavx512f, -mavx2, NEON, or plain C). All answers are
 * those of tamis_filter_probe(), bit for bit.
 *
 *     struct tamis_inline v;
 *     tamis_filter_inline(filter, TAMIS_INLINE_VERSION, &v);
 *     ...  tamis_inline_probe(&v, &key, &why) == TAMIS_ABSENT  ...
 *     tamis_inline_release(&v);
 *
 * THE VALUE is quick while the filter is sealed for good, of one stage, not opened with
 * TAMIS_CHECK_STRICT, at the watermark that was required, and every page of it was
 * checked and is good. While pages are still to be checked, each probe falls back to
 * the call, which checks them; once all are, the same value is quick. For any other
 * filter (growing, of several stages, a pack) and for a target that is refused, every
 * probe falls back, and answers as the call. So any filter may have a value.
 *
 * WHAT IT DOES NOT NOTICE. A quick probe looks at one word: is all still good? A bad
 * page that a scrub or another probe finds turns it off, for all values of the filter
 * at once. A page that the guard has replaced is all ones, so its keys are MAYBE. Twice
 * a second a snapshot looks whether its store was replaced. Probes that are calls
 * notice this, and these do not: an engine that lets its store be replaced gets values
 * anew with each snapshot. Key ranges are not looked at (a key outside of one may be
 * MAYBE), and statistics count only what falls back.
 *
 * LIFETIME. A value holds its filter, and its snapshot. It may be copied; release one
 * of the copies, once, when no thread probes any of them. tamis_filter_close() while a
 * value is held turns it off: each probe of it answers MAYBE/UNREADABLE, and the memory
 * goes with the last value. A zeroed value answers the same, and may be released.
 *
 * CONCURRENCY. Probes: all threads at once, in signal handlers (a probe that falls back
 * as the call), and in forked children. None waits. Only `why` may be NULL.
 *
 * COMPILERS. gcc and clang, C11 or C++11. ABI. The layout of version
 * TAMIS_INLINE_VERSION is fixed; a library that does not know the caller's version
 * refuses it (TAMIS_ERR_VERSION). */
#ifndef TAMIS_INLINE_H
#define TAMIS_INLINE_H

#include "tamis.h"

#include <string.h>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Define TAMIS_INLINE_HASH before, to have tamis_inline_key_of(), too. */
#ifdef TAMIS_INLINE_HASH
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>
#if XXH_VERSION_NUMBER < 800
#error "tamis needs xxHash 0.8.0 or later"
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { TAMIS_INLINE_VERSION = 1 };

/* TAMIS_INLINE: nearly always runs, and is inlined into each probe. TAMIS_APART: rarely
 * runs, and is a function, so that it takes no registers from a caller's loop. */
#define TAMIS_INLINE static inline __attribute__((always_inline))
#define TAMIS_APART  static __attribute__((noinline, unused))

/* How bits lie in blocks (SPEC.md section 4), as probes like to have it. */
struct tamis_inline_geometry {
    uint64_t n_blocks; /* per lane, of 64 bytes each */
    uint32_t lanes;
    uint32_t reserved; /* 0 */
    /* By the first of a key's words in a block: which words it has, a bit each; and the
     * same in the order 0 1 4 5 2 3 6 7. */
    uint8_t words[8], pairs[8];
};

struct tamis_inline_calls; /* the library's own */

/* 128 bytes; a probe reads the first 56. Fields may be read and not written. */
struct tamis_inline {
    /* The keys' tag is there while the bits alone decide, else a number that is no
     * key's. `one` for a filter of one lane, `many` for several lanes. The other is
     * NULL, or both. */
    const uint64_t *one, *many;
    const unsigned char *bits;
    struct tamis_inline_geometry geometry;
    /* For the call. */
    const struct tamis_inline_calls *calls;
    struct tamis_filter *filter;
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
    uint64_t reserved[3]; /* 0 */
};

/* Blocks in the caller's memory (tamis_blocks.h), 64 bytes. */
struct tamis_inline_blocks {
    struct tamis_inline_geometry geometry;
    uint64_t n_bytes; /* 0: nobody has set this value */
    uint64_t tag;
    uint64_t reserved[2]; /* 0 */
};

#pragma GCC visibility push(default)

/* Sets *out, a value for probes of this filter. ERR_RANGE: an argument is NULL.
 * ERR_VERSION: pass TAMIS_INLINE_VERSION; then nothing is written. */
int tamis_filter_inline(struct tamis_filter *filter, uint32_t version,
                        struct tamis_inline *out);
/* The same for a snapshot's target; opens its filter, if it is not open yet. The
 * target's watermark and binding are required, as in a probe. */
int tamis_snapshot_inline(struct tamis_snapshot *snapshot,
                          const struct tamis_target *target, uint32_t version,
                          struct tamis_inline *out);
/* Sets *out, a value for blocks of this geometry and domain. ERR_RANGE: no geometry, or
 * no domain. ERR_VERSION. The value holds nothing: copy it, forget it, share it. */
int tamis_blocks_inline(const struct tamis_blocks *blocks, uint32_t version,
                        struct tamis_inline_blocks *out);
/* Gives back what the value holds, and zeroes it. */
void tamis_inline_release(struct tamis_inline *value);
/* A probe falls back to this call: it checks all, and answers as tamis_filter_probe()
 * or tamis_snapshot_probe(). */
enum tamis_answer tamis_inline_ask(const struct tamis_inline *value,
                                   const struct tamis_key *key, enum tamis_reason *why);
/* The same for tamis_inline_probe_few(): answers as tamis_filter_probe_batch(). */
size_t tamis_inline_ask_few(const struct tamis_inline *value, uint64_t tag,
                            const uint64_t *hashes, size_t n, uint64_t *absent,
                            enum tamis_reason *why);

#pragma GCC visibility pop

/* ---- one block -------------------------------------------------------------- */

/* The salts of SPEC.md section 4. */
#define TAMIS_INLINE_SALTS(of)                                                         \
    {                                                                                  \
        of(0x47b6137b), of(0x44974d91), of(0x8824ad5b), of(0xa2b7289d),                \
            of(0x705495c7), of(0x2df1424b), of(0x9efc4947), of(0x5c6bfb31)             \
    }

/* Is a bit of hash h clear in this block of 64 bytes, of any alignment? */
TAMIS_INLINE int tamis_inline_lacks(const struct tamis_inline_geometry *g,
                                    const unsigned char *block, uint64_t h)
{
    uint32_t first = (uint32_t)h >> 29;
#if defined(__AVX512F__)
    /* The bit is 26 to 31 of a product; a rotation ignores what lies above the six.
     * With masks of all: g++ 12 warns of what the forms without leave undefined. */
    static const uint64_t salts[8] __attribute__((aligned(64))) =
        TAMIS_INLINE_SALTS(UINT64_C);
    __m512i product = _mm512_maskz_mul_epu32(0xff, _mm512_set1_epi64((long long)h),
                                             _mm512_load_si512((const void *)salts));
    __m512i bits = _mm512_maskz_rolv_epi64(0xff, _mm512_set1_epi64(1),
                                           _mm512_maskz_srli_epi64(0xff, product, 26));
    /* The block is the last operand, so that its load is no instruction of its own. */
    return _mm512_mask_testn_epi64_mask((__mmask8)g->words[first], bits,
                                        _mm512_loadu_si512((const void *)block)) != 0;
#elif defined(__AVX2__)
    /* Each word is shifted until the key's bit is the uppermost. Unpacking makes shifts
     * of 64 bits of the products, of words 0 to 3 and 4 to 7 if those are in the order
     * 0 1 4 5 2 3 6 7; one shuffle of upper halves has the answers in that order. */
    static const uint32_t salts[8] __attribute__((aligned(32))) = {
        0x47b6137bU, 0x44974d91U, 0x705495c7U, 0x2df1424bU,
        0x8824ad5bU, 0xa2b7289dU, 0x9efc4947U, 0x5c6bfb31U};
    __m256i product =
        _mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)h),
                           _mm256_load_si256((const __m256i *)(const void *)salts));
    __m256i above =
        _mm256_srli_epi32(_mm256_xor_si256(product, _mm256_set1_epi32(-1)), 26);
    __m256i low =
        _mm256_sllv_epi64(_mm256_loadu_si256((const __m256i *)(const void *)block),
                          _mm256_unpacklo_epi32(above, _mm256_setzero_si256()));
    __m256i high = _mm256_sllv_epi64(
        _mm256_loadu_si256((const __m256i *)(const void *)(block + 32)),
        _mm256_unpackhi_epi32(above, _mm256_setzero_si256()));
    __m256 upper = _mm256_shuffle_ps(
        _mm256_castsi256_ps(low), _mm256_castsi256_ps(high), _MM_SHUFFLE(3, 1, 3, 1));
    return (~(uint32_t)_mm256_movemask_ps(upper) & g->pairs[first]) != 0;
#elif defined(__ARM_NEON) && defined(__aarch64__) &&                                   \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint32_t salts[8] = TAMIS_INLINE_SALTS(UINT32_C);
    static const uint32_t word[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    uint32x4_t words = vdupq_n_u32(g->words[first]);
    uint64x2_t missing = vdupq_n_u64(0);
    int i;
    for (i = 0; i < 2; i++) {
        uint32x4_t bit =
            vshrq_n_u32(vmulq_n_u32(vld1q_u32(salts + 4 * i), (uint32_t)h), 26);
        /* A shift by 64 leaves nothing: so do words that the key does not have. */
        uint32x4_t other = vmvnq_u32(vtstq_u32(words, vld1q_u32(word + 4 * i)));
        uint32x4_t shift = vorrq_u32(bit, vandq_u32(other, vdupq_n_u32(64)));
        uint64x2_t low = vshlq_u64(
            vdupq_n_u64(1), vreinterpretq_s64_u64(vmovl_u32(vget_low_u32(shift))));
        uint64x2_t high = vshlq_u64(
            vdupq_n_u64(1), vreinterpretq_s64_u64(vmovl_u32(vget_high_u32(shift))));
        const unsigned char *at = block + 32 * i;
        missing =
            vorrq_u64(missing, vbicq_u64(low, vreinterpretq_u64_u8(vld1q_u8(at))));
        missing = vorrq_u64(missing,
                            vbicq_u64(high, vreinterpretq_u64_u8(vld1q_u8(at + 16))));
    }
    return vmaxvq_u32(vreinterpretq_u32_u64(missing)) != 0;
#else
    static const uint32_t salts[8] = TAMIS_INLINE_SALTS(UINT32_C);
    uint32_t lacks = 0, i;
    for (i = 0; i < 8; i++) {
        uint32_t bit = (uint32_t)h * salts[i] >> 26;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        uint64_t word;
        memcpy(&word, block + 8 * i, sizeof word);
        lacks |= (uint32_t)(~word >> bit & 1) << i;
#else
        lacks |= (~(uint32_t)block[8 * i + bit / 8] >> bit % 8 & 1) << i;
#endif
    }
    return (lacks & g->words[first]) != 0;
#endif
}

TAMIS_INLINE const unsigned char *tamis_inline_block(const unsigned char *lane,
                                                     uint64_t n_blocks, uint64_t h)
{
    __extension__ typedef unsigned __int128 tamis_inline_wide;
    return lane + (uint64_t)((tamis_inline_wide)h * n_blocks >> 64) * 64;
}

/* Is the key of hash h proven absent by these bits? With one lane no branch depends on
 * them, so that a processor that waits for a line goes on to the next key's. */
TAMIS_INLINE int tamis_inline_one_misses(const struct tamis_inline_geometry *g,
                                         const unsigned char *bits, uint64_t h)
{
    return tamis_inline_lacks(g, tamis_inline_block(bits, g->n_blocks, h), h);
}

/* Is it absent by the blocks of any lane? Looks until one misses. */
TAMIS_APART int tamis_inline_misses(const struct tamis_inline_geometry *g,
                                    const unsigned char *bits, uint64_t h)
{
    uint32_t lane;
    for (lane = 0; lane < g->lanes; lane++) {
        if (tamis_inline_one_misses(g, bits, h))
            return 1;
        h = (h ^ h >> 32) * UINT64_C(0x9E3779B97F4A7C15);
        bits += g->n_blocks * 64;
    }
    return 0;
}

/* ---- a filter --------------------------------------------------------------- */

TAMIS_INLINE int tamis_inline_has(const uint64_t *there, uint64_t tag)
{
    return __builtin_expect(there != 0, 1) &&
           __builtin_expect(__atomic_load_n(there, __ATOMIC_RELAXED) == tag, 1);
}

/* Do the bits alone decide, for keys of this tag, now? A probe asks for itself. */
static inline int tamis_inline_is_quick(const struct tamis_inline *value, uint64_t tag)
{
    return tamis_inline_has(value->one, tag) || tamis_inline_has(value->many, tag);
}

/* The call. It gets the parts of the key, so that a loop may have these in
 * registers. */
TAMIS_APART enum tamis_answer tamis_inline_fall_back(const struct tamis_inline *value,
                                                     const void *bytes, size_t n_bytes,
                                                     uint64_t hash, uint64_t tag,
                                                     enum tamis_reason *why)
{
    struct tamis_key key;
    key.bytes = bytes;
    key.n_bytes = n_bytes;
    key.hash = hash;
    key.tag = tag;
    return tamis_inline_ask(value, &key, why);
}

/* Asks for one key, as tamis_filter_probe() does. why may be NULL. */
TAMIS_INLINE enum tamis_answer tamis_inline_probe(const struct tamis_inline *value,
                                                  const struct tamis_key *key,
                                                  enum tamis_reason *why)
{
    int misses;
    if (__builtin_expect(tamis_inline_has(value->one, key->tag), 1))
        misses = tamis_inline_one_misses(&value->geometry, value->bits, key->hash);
    else if (tamis_inline_has(value->many, key->tag))
        misses = tamis_inline_misses(&value->geometry, value->bits, key->hash);
    else
        return tamis_inline_fall_back(value, key->bytes, key->n_bytes, key->hash,
                                      key->tag, why);
    if (why)
        *why = misses ? TAMIS_NO_REASON : TAMIS_HIT;
    return misses ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* Asks for n hashes of one domain, as tamis_filter_probe_batch() does. Up to 64 of a
 * filter of one lane are asked inline: all lines are fetched, then looked at. */
TAMIS_INLINE size_t tamis_inline_probe_few(const struct tamis_inline *value,
                                           uint64_t tag, const uint64_t *hashes,
                                           size_t n, uint64_t *absent,
                                           enum tamis_reason *why)
{
    const unsigned char *block[64];
    uint64_t lacks = 0;
    size_t i, n_absent = 0;
    if (__builtin_expect(
            !tamis_inline_has(value->one, tag) || n - 1 > 63 || !hashes || !absent, 0))
        return tamis_inline_ask_few(value, tag, hashes, n, absent, why);
    /* A handler of SIGBUS may jump out of the loads below, and must leave no ABSENT. */
    *absent = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    for (i = 0; i < n; i++) {
        block[i] = tamis_inline_block(value->bits, value->geometry.n_blocks, hashes[i]);
        __builtin_prefetch(block[i]);
    }
    for (i = 0; i < n; i++) {
        uint64_t is =
            (uint64_t)tamis_inline_lacks(&value->geometry, block[i], hashes[i]);
        lacks |= is << i;
        n_absent += (size_t)is;
    }
    *absent = lacks;
    if (why)
        *why = TAMIS_NO_REASON;
    return n_absent;
}

/* ---- blocks in the caller's memory ------------------------------------------- */

/* Asks for one key, as tamis_blocks_probe() does: bits of another length are
 * MAYBE/UNREADABLE, a key of another domain is MAYBE/MISMATCH. */
TAMIS_INLINE enum tamis_answer
tamis_inline_blocks_probe(const struct tamis_inline_blocks *value, const void *bits,
                          size_t n_bytes, const struct tamis_key *key,
                          enum tamis_reason *why)
{
    const unsigned char *at = (const unsigned char *)bits;
    int misses, fits = at && n_bytes && n_bytes == value->n_bytes;
    if (__builtin_expect(!fits || key->tag != value->tag, 0)) {
        if (why)
            *why = fits ? TAMIS_MISMATCH : TAMIS_UNREADABLE;
        return TAMIS_MAYBE;
    }
    misses = __builtin_expect(value->geometry.lanes == 1, 1)
                 ? tamis_inline_one_misses(&value->geometry, at, key->hash)
                 : tamis_inline_misses(&value->geometry, at, key->hash);
    if (why)
        *why = misses ? TAMIS_NO_REASON : TAMIS_HIT;
    return misses ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* Sets the bits of hash h in a block of 64 bytes. */
TAMIS_INLINE void tamis_inline_set(const struct tamis_inline_geometry *g,
                                   unsigned char *block, uint64_t h)
{
    uint32_t words = g->words[(uint32_t)h >> 29];
    static const uint32_t salts[8] = TAMIS_INLINE_SALTS(UINT32_C);
#if defined(__AVX512F__)
    __m256i product =
        _mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)h),
                           _mm256_loadu_si256((const __m256i *)(const void *)salts));
    __m512i bits = _mm512_maskz_sllv_epi64(
        (__mmask8)words, _mm512_set1_epi64(1),
        _mm512_maskz_cvtepu32_epi64(0xff, _mm256_srli_epi32(product, 26)));
    _mm512_storeu_si512((void *)block,
                        _mm512_or_si512(_mm512_loadu_si512((const void *)block), bits));
#elif defined(__AVX2__)
    __m256i *at = (__m256i *)(void *)block, one = _mm256_set1_epi64x(1);
    __m256i bit = _mm256_srli_epi32(
        _mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)h),
                           _mm256_loadu_si256((const __m256i *)(const void *)salts)),
        26);
    __m256i low =
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(bit)));
    __m256i high =
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(bit, 1)));
    __m256i has = _mm256_set1_epi64x((long long)words);
    __m256i in_low = _mm256_setr_epi64x(1, 2, 4, 8);
    __m256i in_high = _mm256_setr_epi64x(16, 32, 64, 128);
    low = _mm256_and_si256(low,
                           _mm256_cmpeq_epi64(_mm256_and_si256(has, in_low), in_low));
    high = _mm256_and_si256(
        high, _mm256_cmpeq_epi64(_mm256_and_si256(has, in_high), in_high));
    _mm256_storeu_si256(at, _mm256_or_si256(_mm256_loadu_si256(at), low));
    _mm256_storeu_si256(at + 1, _mm256_or_si256(_mm256_loadu_si256(at + 1), high));
#else
    uint32_t i;
    for (i = 0; i < 8; i++) {
        uint32_t bit = (uint32_t)h * salts[i] >> 26;
        block[8 * i + bit / 8] |= (unsigned char)((words >> i & 1) << bit % 8);
    }
#endif
}

/* Sets the bits of one key, as tamis_blocks_add() does: ERR_RANGE, ERR_MISMATCH. */
TAMIS_INLINE int tamis_inline_blocks_add(const struct tamis_inline_blocks *value,
                                         void *bits, size_t n_bytes,
                                         const struct tamis_key *key)
{
    unsigned char *lane = (unsigned char *)bits;
    uint64_t h = key->hash;
    uint32_t i;
    if (__builtin_expect(!lane || !n_bytes || n_bytes != value->n_bytes, 0))
        return TAMIS_ERR_RANGE;
    if (__builtin_expect(key->tag != value->tag, 0))
        return TAMIS_ERR_MISMATCH;
    for (i = 0; i < value->geometry.lanes; i++) {
        size_t at =
            (size_t)(tamis_inline_block(lane, value->geometry.n_blocks, h) - lane);
        tamis_inline_set(&value->geometry, lane + at, h);
        h = (h ^ h >> 32) * UINT64_C(0x9E3779B97F4A7C15);
        lane += value->geometry.n_blocks * 64;
    }
    return 0;
}

/* ---- hashing ------------------------------------------------------------------ */

#ifdef TAMIS_INLINE_HASH
/* Hashes a key, as tamis_key_of() does. The hash of a short key takes less than a call;
 * what is compiled in is all of xxhash.h, version 0.8.0 or later. */
TAMIS_INLINE struct tamis_key tamis_inline_key_of(const struct tamis_domain *domain,
                                                  const void *bytes, size_t n_bytes)
{
    struct tamis_key key;
    key.bytes = n_bytes ? bytes : "";
    key.n_bytes = n_bytes;
    key.hash = key.tag = 0;
    if (domain->hash_id == 1) { /* else nobody has set it */
        key.hash = XXH3_64bits_withSeed(key.bytes, n_bytes, domain->seed);
        key.tag = domain->tag;
    }
    return key;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
