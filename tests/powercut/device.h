/* A disk that remembers: one file, served by a process of ours through FUSE, for a
 * loop device to stand on. Its bytes are in memory that it shares with its maker, and
 * so is a log of every write and every flush, in the order in which they came.
 *
 * A flush makes durable what had been answered before it came. Requests that were
 * waiting together with it had not: they make one batch. */
#ifndef TAMIS_TESTS_POWERCUT_DEVICE_H
#define TAMIS_TESTS_POWERCUT_DEVICE_H

#include "tests/powercut/host.h"

#include <stdatomic.h>
#include <time.h>

enum device_kind { DEVICE_WRITE, DEVICE_ZERO, DEVICE_FLUSH };

struct device_entry {
    enum device_kind kind;
    uint32_t batch;
    uint64_t offset, n_bytes;
    uint64_t data; /* where in the log's bytes; of a write */
};

enum { DEVICE_MAX_ENTRIES = 1 << 18 };
#define DEVICE_MAX_DATA ((uint64_t)1 << 31)

/* Shared between the processes; zero when made. */
struct device {
    _Atomic uint64_t n_entries;
    /* The requests that fail with EIO while set, and how often they have. */
    atomic_bool fail_writes, fail_flushes, fail_reads;
    atomic_bool lose_writes; /* the write is answered well, and the old bytes stay */
    atomic_int fail_nth;     /* after this many writes and flushes one fails */
    atomic_uint n_failed;
    uint64_t n_bytes, n_data;
    uint8_t *bytes, *data;
    pid_t server;
    struct device_entry entry[DEVICE_MAX_ENTRIES];
};

/* A disk that holds this, and a log that is empty. */
struct device *device_create(const struct host_made *made);
/* Mounts the FUSE file system at `dir` and starts its process; the disk is dir/disk. */
void device_serve(struct device *d, const char *dir);
/* Unmounts it and waits for the process; the bytes and the log stay. */
void device_stop(struct device *d, const char *dir);
void device_free(struct device *d);

/* The number of entries that are durable if the log is cut before entry `cut`. */
uint64_t device_durable(const struct device *d, uint64_t cut);

#endif
