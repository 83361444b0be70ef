/* list_spot.h, by vectors of 16 bytes, and by AVX2. */
#include "lib/kernel/list/list_spot.h"
#include "lib/kernel/list/list_find.h"
#include "lib/kernel/list/list_pack.h"
#include "lib/kernel/list/list_page.h"
#include "lib/kernel/kernel.h"
#include "format/integrity.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

GROUP_INLINE bool find_spot(const uint8_t *page, uint64_t first, uint64_t value,
                            struct list_spot *s)
{
    struct list_page p;
    uint32_t group, last;
    /* 64: the first is below the value, and so within the list's width. */
    if (!list_page_open(page, 64, &p) || p.n <= 1 || p.first != first || value <= first)
        return false;
    find_groups(page, &p, list_high(&p, value), &group, &last);
    s->top = (uint16_t)top_of(&p, value);
    s->group = (uint8_t)group; /* a page has 56 groups at most */
    s->last = (uint8_t)last;
    s->top_bytes = (uint8_t)p.top_bytes;
    return true;
}

/* ---- one key ---- */

/* The page where the guide says that the hash should be: any number, if the guide does
 * not know yet. */
GROUP_INLINE uint64_t list_guess(const struct list_plane *l, uint64_t h)
{
    const _Atomic uint32_t *at = l->guide + (h >> l->guide_shift);
    uint64_t from = atomic_load_explicit(at, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(at + 1, memory_order_relaxed);
    return list_page_between(l, h, from, to);
}

/* The shape of this page, if such a page was seen before; else 0. */
GROUP_INLINE uint32_t list_shape_seen(const struct list_plane *l, const uint8_t *page)
{
    struct le32 word;
    memcpy(&word, page + offsetof(struct list_page_disk, n_hashes), sizeof word);
    uint32_t head = le32_get(word); /* the fourth byte is a leader */
    uint32_t shape =
        atomic_load_explicit(&l->shapes[list_shape_at(head)], memory_order_relaxed);
    return shape << 8 == head << 8 ? shape : 0;
}

GROUP_INLINE bool two_groups(const uint8_t *a, const uint8_t *b, uint32_t top)
{
    bool in_a = has_top(a, 2, top), in_b = has_top(b, 2, top);
    return in_a | in_b; /* no branch */
}

#define SPOT(name) name##_plain
#define SPOT_PACK  SPOT
#define SPOT_TARGET
#define SPOT_HAS has_top
#define SPOT_CAN two_groups
#include "lib/kernel/list/list_spots.h"

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

AVX2 GROUP_INLINE bool has_top_avx2(const uint8_t *tops, uint32_t top_bytes,
                                    uint32_t top)
{
    const __m256i *at = (const __m256i *)(const void *)tops;
    __m256i same, a = _mm256_loadu_si256(at), b = _mm256_loadu_si256(at + 1);
    if (top_bytes == 2) {
        __m256i want = _mm256_set1_epi16((short)top);
        same =
            _mm256_or_si256(_mm256_cmpeq_epi16(a, want), _mm256_cmpeq_epi16(b, want));
        a = _mm256_loadu_si256(at + 2), b = _mm256_loadu_si256(at + 3);
        same = _mm256_or_si256(same, _mm256_cmpeq_epi16(a, want));
        same = _mm256_or_si256(same, _mm256_cmpeq_epi16(b, want));
    } else {
        __m256i want = _mm256_set1_epi8((char)top);
        same = _mm256_or_si256(_mm256_cmpeq_epi8(a, want), _mm256_cmpeq_epi8(b, want));
    }
    return !_mm256_testz_si256(same, same);
}

AVX2 GROUP_INLINE bool two_groups_avx2(const uint8_t *a, const uint8_t *b, uint32_t top)
{
    bool in_a = has_top_avx2(a, 2, top), in_b = has_top_avx2(b, 2, top);
    return in_a | in_b;
}

#define SPOT(name)  name##_avx2
#define SPOT_PACK   SPOT
#define SPOT_TARGET AVX2
#define SPOT_HAS    has_top_avx2
#define SPOT_CAN    two_groups_avx2
#include "lib/kernel/list/list_spots.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,popcnt")))

AVX512 GROUP_INLINE bool two_groups_avx512(const uint8_t *a, const uint8_t *b,
                                           uint32_t top)
{
    __m512i want = _mm512_set1_epi16((short)top);
    __mmask32 in_a = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(a), want) |
                     _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(a + 64), want);
    __mmask32 in_b = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(b), want) |
                     _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(b + 64), want);
    return (in_a | in_b) != 0;
}

#define SPOT(name)      name##_avx512
#define SPOT_PACK(name) name##_avx2 /* as fast, nearly */
#define SPOT_TARGET     AVX512
#define SPOT_HAS        has_top_avx2
#define SPOT_CAN        two_groups_avx512
#include "lib/kernel/list/list_spots.h"
#endif

const struct list_kernel *kernel_list(const struct kernel *k)
{
#if defined(__x86_64__)
    if (k == &kernel_avx512)
        return &kernel_list_avx512;
    if (k == &kernel_avx2)
        return &kernel_list_avx2;
#endif
    (void)k;
    return &kernel_list_plain;
}

const struct list_kernel *kernel_list_best(void)
{
    return kernel_list(kernel_get());
}
