/* Workloads as text (tests/steps), compiled here once more, so that the watch sees
 * which public function a thread is in. */
#include "tests/faults/run.h"

#include "tests/steps/script.c"
#include "tests/steps/play.c"
#include "tests/steps/words.c"
#include "tests/steps/writers.c"
#include "tests/steps/asks.c"
#include "tests/steps/check.c"
