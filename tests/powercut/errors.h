/* Tests of device errors: what is done while the disk is bad, and what must hold when
 * it has healed, both as scripts of steps. */
#ifndef TAMIS_TESTS_POWERCUT_ERRORS_H
#define TAMIS_TESTS_POWERCUT_ERRORS_H

#include "tests/powercut/device.h"
#include "tests/steps/steps.h"

/* How the disk is bad; a test names those that it runs with. */
enum bad {
    BAD_FLUSHES = 1,
    BAD_WRITES = 2,
    BAD_BOTH = 4,
    BAD_READS = 8,
    BAD_LOSES = 16, /* says that it has written, and has not */
    BAD_ONE = 32,   /* one request fails: its nth from then on */
    BAD_FULL = 64,  /* it is full */
    N_BAD = 128,
    SURE = 128, /* with any but BAD_ONE a call must fail */
    BAD_SYNCS = BAD_FLUSHES | BAD_WRITES | BAD_BOTH | SURE,
};

/* Shared by both halves and the one that waits for them. */
struct note {
    struct device *device;
    enum bad bad;
    int nth;
    bool may_fail; /* from a break on, until a writer that has stopped is closed */
    bool failed, stopped;
    unsigned n_told; /* old errors of which a writer that comes back was told */
    uint64_t hash;   /* of a file that must not change */
    struct promises promises;
    char what[400];
};

struct error_test {
    const char *name, *on; /* file systems; NULL: all that have a disk */
    unsigned bad;
    const char *before;
    const char *again; /* by another process, before the disk is unmounted; or NULL */
    const char *after; /* what the disk knows, without what the page cache knew */
};

/* In a process that stands where the disk is mounted: plays one script, and ends it. */
_Noreturn void errors_play(struct note *n, const char *dir, const char *text,
                           bool must_fail);
void device_heal(struct note *n);

#endif
