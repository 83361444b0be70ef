/* Inline probes as a compiler makes them that is told nothing: on x86-64 plain C, on
 * Arm NEON. */
#include <stdbool.h>

#define INLINE_LOOPS inline_plain
#define INLINE_NAME  "plain"

static bool runs_here(void)
{
    return true;
}

#include "tests/support/inline/loops.inc"
