/* Inline probes as a compiler makes them that is told -mavx2. */
#include <stdbool.h>

#define INLINE_LOOPS inline_avx2
#define INLINE_NAME  "avx2"

static bool runs_here(void)
{
#ifdef __AVX2__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

#include "tests/support/inline/loops.inc"
