/* Disks that a power cut leaves, made from the log of one run, one after the other. */
#ifndef TAMIS_TESTS_POWERCUT_REPLAY_H
#define TAMIS_TESTS_POWERCUT_REPLAY_H

#include "tests/powercut/history.h"

/* How many unflushed writes are left? */
enum fate {
    FATE_ALL,     /* every write is on the disk */
    FATE_NONE,    /* none */
    FATE_WRITES,  /* each whole or not at all */
    FATE_TORN,    /* each whole, not at all, or torn */
    FATE_SECTORS, /* each sector for itself */
    N_FATES
};

struct replay {
    const struct device *d;
    uint64_t n_durable; /* entries that are in base */
    uint8_t *base;      /* what is durable as of the cut */
    uint8_t *used;      /* its pages that may hold anything but zeros: 1 */
    uint64_t base_hash;
    uint8_t *image; /* the file that is mounted */
    int image_fd;
    uint64_t image_hash;
    bool image_is_old; /* somebody else has written to it */
    uint32_t *touched; /* its pages that are not as in base */
    uint8_t *is_touched;
    size_t n_touched, n_pages;
    unsigned sector_bytes; /* what the disk writes whole or not at all: 512 or 4096 */
};

/* made: what the disk held when the log began; image_path: a new file, as large. */
void replay_begin(struct replay *r, const struct device *d,
                  const struct host_made *made, unsigned sector_bytes,
                  const char *image_path);
void replay_end(struct replay *r);
/* Writes the state to the image; cuts must not go back. Its hash is image_hash. */
void replay_state(struct replay *r, uint64_t cut, enum fate fate, struct rng *rng);

#endif
