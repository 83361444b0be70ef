/* Inline probes as a compiler makes them that is told of AVX-512 as servers have
 * it: F, BW, DQ and VL. */
#include <stdbool.h>

#define INLINE_LOOPS inline_avx512
#define INLINE_NAME  "avx512"

static bool runs_here(void)
{
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

#include "tests/support/inline/loops.inc"
