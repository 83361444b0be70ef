/* The run: an engine's life on the file system that is being recorded. */
#ifndef TAMIS_TESTS_POWERCUT_WORKLOAD_H
#define TAMIS_TESTS_POWERCUT_WORKLOAD_H

#include "tests/powercut/history.h"

/* Several processes one after the other, some of which end without closing anything,
 * in the directory `dir`; another calls for write-back and for syncs meanwhile. */
/* After a power cut: what is found on the disk, promised or not, is durable there, and
 * so must be there from now on. To be called before workload_run(). */
void workload_resume(struct history *h, const struct history *before, uint64_t cut,
                     const char *dir);
void workload_run(struct history *h, const char *dir);

#endif
