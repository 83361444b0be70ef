/* A test of device errors: what is done while the disk is bad, and what must hold when
 * it has healed. */
#ifndef TAMIS_TESTS_POWERCUT_ERRORS_H
#define TAMIS_TESTS_POWERCUT_ERRORS_H

#include "lib/tamis.h"
#include "tests/powercut/device.h"

/* How the disk is bad; a test names those that it runs with. */
enum bad {
    BAD_FLUSHES = 1,
    BAD_WRITES = 2,
    BAD_BOTH = 4,
    BAD_READS = 8,
    BAD_LOSES = 16, /* says that it has written, and has not */
    BAD_ONE = 32,   /* one request fails: its nth from then on */
    N_BAD = 64,
    BAD_SYNCS = BAD_FLUSHES | BAD_WRITES | BAD_BOTH,
};

/* Shared by both halves and the one that waits for them. */
struct note {
    struct device *device;
    enum bad bad;
    int nth;
    bool done; /* what was to be done while the disk is bad is acknowledged */
    uint64_t watermark, n_keys; /* acknowledged; added */
    char what[400];
};

struct error_test {
    const char *name, *not_on; /* a file system */
    unsigned bad;
    void (*before)(struct note *n);
    void (*after)(struct note *n);
};
extern const struct error_test writer_tests[], file_tests[];
extern const size_t n_writer_tests, n_file_tests;

const char *bad_name(enum bad bad);
void device_break(struct note *n);
void device_heal(struct note *n);

/* Ends the half with that finding, unless so. */
void expect(struct note *n, bool so, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct tamis_domain errors_domain(void);
uint64_t errors_key(uint64_t i);
/* Keys 0 .. to - 1 are HIT. */
void errors_keys(struct note *n, struct tamis_filter *f, uint64_t to);
void errors_whole(struct note *n, struct tamis_filter *f);

#endif
