/* list_spot.h, by vectors of 16 bytes, and by AVX2. */
#include "lib/kernel/list/list_spot.h"
#include "lib/kernel/list/list_find.h"
#include "lib/kernel/list/list_pack.h"
#include "lib/kernel/list/list_page.h"
#include "lib/kernel/kernel.h"

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

#define SPOT(name) name##_plain
#define SPOT_TARGET
#define SPOT_HAS has_top
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

#define SPOT(name)  name##_avx2
#define SPOT_TARGET AVX2
#define SPOT_HAS    has_top_avx2
#include "lib/kernel/list/list_spots.h"
#endif

const struct list_kernel *kernel_list(const struct kernel *k)
{
#if defined(__x86_64__)
    if ((k == &kernel_avx512 || k == &kernel_avx2) && __builtin_cpu_supports("popcnt"))
        return &kernel_list_avx2;
#endif
    (void)k;
    return &kernel_list_plain;
}

const struct list_kernel *kernel_list_best(void)
{
    return kernel_list(kernel_get());
}
