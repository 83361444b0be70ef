/* All that the rooms below the store offer to other rooms: for tests, which look
 * inside. */
#ifndef TAMIS_TESTS_INTERNALS_H
#define TAMIS_TESTS_INTERNALS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "format/hash.h"
#include "format/integrity.h"
#include "lib/builder/builder.h"
#include "lib/derive/derive.h"
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/kernel/kernel.h"
#include "lib/plan/plan.h"
#include "lib/writer/writer.h"

#endif
