/* Inline probes as a compiler makes them that is told -mavx512f. */
#include <stdbool.h>

#define INLINE_LOOPS inline_avx512
#define INLINE_NAME  "avx512"

static bool runs_here(void)
{
#ifdef __AVX512F__
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

#include "tests/support/inline/loops.inc"
