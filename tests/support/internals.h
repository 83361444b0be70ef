/* All that the rooms below the store offer to other rooms: for tests, which look
 * inside. */
#ifndef TAMIS_TESTS_INTERNALS_H
#define TAMIS_TESTS_INTERNALS_H

#include "format/hash.h"
#include "format/integrity.h"
#include "lib/builder/builder.h"
#include "lib/derive/derive.h"
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/kernel/kernel.h"
#include "lib/plan/plan.h"
#include "lib/writer/writer.h"

/* NAMED("a"): an identity of that name. */
#define NAMED(text) (&(struct tamis_identity){.name = text, .name_bytes = strlen(text)})
/* Option structs: INTO(.fd = fd), INSIDE(.fd = fd, .offset = 4096). */
#define INTO(...)                                                                      \
    (&(struct tamis_finish_options){.size = sizeof(struct tamis_finish_options),       \
                                    __VA_ARGS__})
#define INSIDE(...)                                                                    \
    (&(struct tamis_filter_options){.size = sizeof(struct tamis_filter_options),       \
                                    __VA_ARGS__})

#endif
