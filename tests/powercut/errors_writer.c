/* Device errors that a writer meets. Keys are the numbers 0, 1, ... of one log, the
 * watermark a position in it. */
#include "tests/powercut/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

static void add(struct note *n, struct tamis_writer *w, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t hash = errors_key(i);
        int err = tamis_writer_add_hashes(w, errors_domain().tag, &hash, 1);
        expect(n, err == 0 || err == TAMIS_ERR_POISONED, "add: %s",
               tamis_strerror(err));
    }
    n->n_keys = to > n->n_keys ? to : n->n_keys;
}

static struct tamis_writer *create(struct note *n)
{
    struct tamis_domain d = errors_domain();
    struct tamis_writer_options opt = {.size = sizeof opt, .domain = &d};
    struct tamis_writer *w;
    struct tamis_diag diag;
    opt.growth.first_capacity = 5000;
    int err = tamis_writer_create("f", &opt, &w, &diag);
    expect(n, err == 0, "create: %s", diag.what);
    return w;
}

static void commit(struct note *n, struct tamis_writer *w)
{
    struct tamis_diag diag;
    expect(n, tamis_writer_commit(w, n->n_keys, &diag) == 0, "commit: %s", diag.what);
    n->watermark = n->n_keys;
}

static struct tamis_writer *committed(struct note *n)
{
    struct tamis_writer *w = create(n);
    add(n, w, 0, 200);
    commit(n, w);
    add(n, w, 200, 300);
    return w;
}

/* Whatever the disk does now: this writer has stopped for good. */
static void expect_poisoned(struct note *n, struct tamis_writer *w)
{
    for (int healed = 0; healed < 2; healed++) {
        int err = tamis_writer_commit(w, n->n_keys, NULL);
        expect(n, err == TAMIS_ERR_POISONED, "the next commit: %s",
               tamis_strerror(err));
        err = tamis_writer_seal(w, n->n_keys, NULL, NULL);
        expect(n, err == TAMIS_ERR_POISONED, "a seal: %s", tamis_strerror(err));
        device_heal(n);
    }
    expect(n, tamis_writer_watermark(w) == n->watermark, "the watermark has moved");
    expect(n, tamis_writer_close(w) == TAMIS_ERR_POISONED,
           "close says that all is well");
}

/* A writer that comes back may be told of an old error once more, but not for ever. */
static struct tamis_writer *reopened(struct note *n)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    int err = tamis_writer_open("f", &w, &diag);
    if (err == EIO)
        err = tamis_writer_open("f", &w, &diag);
    expect(n, err == 0, "opening again: %s", diag.what);
    expect(n, tamis_writer_watermark(w) >= n->watermark, "the writer forgot a commit");
    return w;
}

static void replay(struct note *n)
{
    struct tamis_writer *w = reopened(n);
    add(n, w, tamis_writer_watermark(w), n->n_keys);
    commit(n, w);
    int err = tamis_writer_close(w);
    expect(n, err == 0, "close: %s", tamis_strerror(err));
}

static void expect_filter(struct note *n, bool clean)
{
    struct tamis_filter *f;
    struct tamis_filter_info info;
    struct tamis_diag diag;
    expect(n, tamis_filter_open("f", NULL, &f, &diag) == 0, "open: %s", diag.what);
    tamis_filter_info(f, &info);
    expect(n, info.watermark >= n->watermark && info.watermark <= n->n_keys,
           "watermark %llu, acknowledged %llu", (unsigned long long)info.watermark,
           (unsigned long long)n->watermark);
    expect(n, !info.clean == !clean, "clean is %d", info.clean);
    errors_keys(n, f, info.watermark);
    tamis_filter_close(f);
}

/* R5: who needs more than is there gets MAYBE. */
static void expect_behind(struct note *n)
{
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .min_watermark = n->n_keys + 1};
    struct tamis_key k = tamis_key_of_hash(errors_domain().tag, errors_key(0) + 1);
    struct tamis_filter *f;
    enum tamis_reason why;
    expect(n, tamis_filter_open("f", &opt, &f, NULL) == 0, "open");
    expect(n, tamis_filter_probe(f, &k, &why) == TAMIS_MAYBE && why == TAMIS_BEHIND,
           "a watermark that is not there is not missed: %s", tamis_reason_name(why));
    tamis_filter_close(f);
}

static void after_a_bad_end(struct note *n)
{
    expect_filter(n, false);
    expect_behind(n);
    replay(n);
    expect_filter(n, true);
}

static void bad_commit(struct note *n)
{
    struct tamis_writer *w = committed(n);
    device_break(n);
    int err = tamis_writer_commit(w, n->n_keys, NULL);
    expect(n, err != 0, "a commit that is not on the disk says 0");
    expect_poisoned(n, w);
}

/* If it says 0 all the same, then it must be so. */
static void one_bad_commit(struct note *n)
{
    struct tamis_writer *w = committed(n);
    device_break(n);
    n->done = tamis_writer_commit(w, n->n_keys, NULL) == 0;
    if (n->done)
        n->watermark = n->n_keys;
    else
        expect_poisoned(n, w);
}

static void bad_close(struct note *n)
{
    struct tamis_writer *w = committed(n);
    device_break(n);
    expect(n, tamis_writer_close(w) != 0, "a close that is not on the disk says 0");
}

static void bad_growth(struct note *n)
{
    struct tamis_writer *w = committed(n);
    device_break(n);
    add(n, w, 300, 12000);
    int err = tamis_writer_commit(w, n->n_keys, NULL);
    expect(n, err != 0, "a commit that is not on the disk says 0");
    expect_poisoned(n, w);
}

static void bad_seal(struct note *n)
{
    struct tamis_writer *w = committed(n);
    device_break(n);
    int err = tamis_writer_seal(w, n->n_keys, NULL, NULL);
    expect(n, err != 0, "a seal that is not on the disk says 0");
    expect_poisoned(n, w);
}

/* The last sync of all may have failed: then the seal stands. */
static void after_bad_seal(struct note *n)
{
    struct tamis_filter *f;
    struct tamis_filter_info info;
    expect(n, tamis_filter_open("f", NULL, &f, NULL) == 0, "open");
    tamis_filter_info(f, &info);
    if (info.sealed) {
        errors_whole(n, f);
        errors_keys(n, f, n->n_keys);
    } else {
        after_a_bad_end(n);
    }
    tamis_filter_close(f);
}

/* ---- the cache shows bits that the disk lost ---- */

static void read_pages(struct note *n, int flags, uint8_t *to, size_t n_bytes)
{
    int fd = open("f", O_RDONLY | O_CLOEXEC | flags);
    expect(n, fd >= 0 && pread(fd, to, n_bytes, 0) == (ssize_t)n_bytes, "reading: %s",
           strerror(errno));
    close(fd);
}

/* Somebody else's write-back meets the bad disk. */
static void fail_write_back(struct note *n)
{
    enum { BYTES = 20480 }; /* the header and the first pages */
    static _Alignas(4096) uint8_t cached[BYTES], on_disk[BYTES];
    struct statfs fs;
    int fd = open("f", O_RDONLY | O_CLOEXEC);
    device_break(n);
    sync_file_range(fd, 0, 0,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
    device_heal(n);
    expect(n, atomic_load(&n->device->n_failed) > 0, "nothing was written back");
    /* btrfs reads data that it has checksums of through the page cache only. */
    if (fstatfs(fd, &fs) == 0 && fs.f_type != BTRFS_SUPER_MAGIC) {
        read_pages(n, 0, cached, BYTES);
        read_pages(n, O_DIRECT, on_disk, BYTES);
        expect(n, memcmp(cached, on_disk, BYTES) != 0,
               "the disk has what the cache has");
    }
    close(fd);
}

static void lost_behind_a_writer(struct note *n)
{
    struct tamis_writer *w = committed(n);
    fail_write_back(n);
    int err = tamis_writer_commit(w, n->n_keys, NULL);
    expect(n, err != 0, "a commit of keys that the disk has lost says 0");
    expect_poisoned(n, w);
    replay(n); /* every key is in the page cache already */
}

static void lost_behind_a_dead_writer(struct note *n)
{
    pid_t pid = host_fork();
    if (pid == 0) {
        committed(n);
        fail_write_back(n);
        _exit(0);
    }
    expect(n, host_wait(pid) == 0, "%s", n->what);
    replay(n);
}

static void after_replay(struct note *n)
{
    expect_filter(n, true);
}

/* ---- a disk that lies: the floors know (R8) ---- */

static void lied_to(struct note *n)
{
    struct tamis_writer *w = committed(n);
    fail_write_back(n);
    commit(n, w);
    expect(n, tamis_writer_close(w) == 0, "close");
}

static void after_lie(struct note *n)
{
    struct tamis_filter *f;
    uint64_t n_damaged = 0;
    expect(n, tamis_filter_open("f", NULL, &f, NULL) == 0, "open");
    for (uint64_t i = 0; i < n->n_keys; i++) {
        struct tamis_key k = tamis_key_of_hash(errors_domain().tag, errors_key(i));
        enum tamis_reason why;
        expect(n, tamis_filter_probe(f, &k, &why) == TAMIS_MAYBE, "key %llu is ABSENT",
               (unsigned long long)i);
        n_damaged += why == TAMIS_DAMAGED;
    }
    expect(n, n_damaged > 0, "nothing was found to be damaged");
    tamis_filter_close(f);
}

const struct error_test writer_tests[] = {
    {"commit", NULL, BAD_SYNCS, bad_commit, after_a_bad_end},
    {"commit, perhaps", NULL, BAD_ONE, one_bad_commit, after_a_bad_end},
    {"close", NULL, BAD_SYNCS, bad_close, after_a_bad_end},
    {"growth", NULL, BAD_SYNCS, bad_growth, after_a_bad_end},
    {"seal", NULL, BAD_SYNCS, bad_seal, after_bad_seal},
    {"write-back fails behind a writer", NULL, BAD_WRITES, lost_behind_a_writer,
     after_replay},
    {"write-back fails behind a dead writer", NULL, BAD_WRITES,
     lost_behind_a_dead_writer, after_replay},
    /* btrfs would answer EIO itself: SIGBUS, since this is a mapping. */
    {"a disk that lies", "btrfs", BAD_LOSES, lied_to, after_lie},
};
const size_t n_writer_tests = sizeof writer_tests / sizeof writer_tests[0];
