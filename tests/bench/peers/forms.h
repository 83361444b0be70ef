/* Peers are compiled in several forms, for the processors that they may meet, and the
 * best one that runs here is chosen once. */
#ifndef TAMIS_TESTS_BENCH_FORMS_H
#define TAMIS_TESTS_BENCH_FORMS_H

#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))
#define PLAIN

#ifdef __x86_64__
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

static inline bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}
#endif

#endif
