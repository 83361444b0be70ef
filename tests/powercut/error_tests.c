/* The tests of device errors. Keys are the numbers 0, 1, ... of one log, the watermark
 * a position in it. */
#include "tests/powercut/errors.h"
#include "lib/tamis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static __attribute__((format(printf, 3, 4))) void expect(struct note *n, bool so,
                                                         const char *format, ...)
{
    va_list args;
    if (so)
        return;
    va_start(args, format);
    vsnprintf(n->what, sizeof n->what, format, args);
    va_end(args);
    _exit(1);
}

/* ---- the disk ---- */

const char *bad_name(enum bad bad)
{
    return bad == BAD_FLUSHES  ? "flushes fail"
           : bad == BAD_WRITES ? "writes fail"
           : bad == BAD_BOTH   ? "writes and flushes fail"
           : bad == BAD_READS  ? "reads fail"
           : bad == BAD_ONE    ? "one request fails"
                               : "writes are lost";
}

void device_break(struct note *n)
{
    atomic_store(&n->device->fail_flushes, (n->bad & (BAD_FLUSHES | BAD_BOTH)) != 0);
    atomic_store(&n->device->fail_writes, (n->bad & (BAD_WRITES | BAD_BOTH)) != 0);
    atomic_store(&n->device->fail_reads, n->bad == BAD_READS);
    atomic_store(&n->device->lose_writes, n->bad == BAD_LOSES);
    atomic_store(&n->device->fail_nth, n->nth);
}

void device_heal(struct note *n)
{
    atomic_store(&n->device->fail_flushes, false);
    atomic_store(&n->device->fail_writes, false);
    atomic_store(&n->device->fail_reads, false);
    atomic_store(&n->device->lose_writes, false);
    atomic_store(&n->device->fail_nth, 0);
}

/* ---- keys ---- */

static struct tamis_domain domain(void)
{
    struct tamis_domain d;
    tamis_domain_init(&d, 1, 7);
    return d;
}

static uint64_t key(uint64_t i)
{
    return (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static void add(struct note *n, struct tamis_writer *w, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t hash = key(i);
        int err = tamis_writer_add_hashes(w, domain().tag, &hash, 1);
        expect(n, err == 0 || err == TAMIS_ERR_POISONED, "add: %s",
               tamis_strerror(err));
    }
    n->n_keys = to > n->n_keys ? to : n->n_keys;
}

static void expect_keys(struct note *n, struct tamis_filter *f, uint64_t to)
{
    for (uint64_t i = 0; i < to; i++) {
        struct tamis_key k = tamis_key_of_hash(domain().tag, key(i));
        enum tamis_reason why;
        enum tamis_answer answer = tamis_filter_probe(f, &k, &why);
        expect(n, answer == TAMIS_MAYBE && why == TAMIS_HIT, "key %llu of %llu: %s",
               (unsigned long long)i, (unsigned long long)to, tamis_reason_name(why));
    }
}

/* ---- a writer ---- */

static struct tamis_writer *create(struct note *n)
{
    struct tamis_domain d = domain();
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

static void expect_whole(struct note *n, struct tamis_filter *f)
{
    struct tamis_verify report;
    struct tamis_diag diag;
    expect(n, tamis_filter_verify(f, &report, &diag) == 0, "not whole: %s", diag.what);
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
    expect_keys(n, f, info.watermark);
    tamis_filter_close(f);
}

/* R5: who needs more than is there gets MAYBE. */
static void expect_behind(struct note *n)
{
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .min_watermark = n->n_keys + 1};
    struct tamis_key k = tamis_key_of_hash(domain().tag, key(0) + 1);
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

/* What failed may have been the last sync of all: then the seal stands. */
static void after_bad_seal(struct note *n)
{
    struct tamis_filter *f;
    struct tamis_filter_info info;
    expect(n, tamis_filter_open("f", NULL, &f, NULL) == 0, "open");
    tamis_filter_info(f, &info);
    if (info.sealed) {
        expect_whole(n, f);
        expect_keys(n, f, n->n_keys);
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
        struct tamis_key k = tamis_key_of_hash(domain().tag, key(i));
        enum tamis_reason why;
        expect(n, tamis_filter_probe(f, &k, &why) == TAMIS_MAYBE, "key %llu is ABSENT",
               (unsigned long long)i);
        n_damaged += why == TAMIS_DAMAGED;
    }
    expect(n, n_damaged > 0, "nothing was found to be damaged");
    tamis_filter_close(f);
}

/* ---- files that are made ---- */

static int build(struct note *n)
{
    struct tamis_domain d = domain();
    struct tamis_builder_options opt = {.size = sizeof opt, .domain = &d};
    struct tamis_builder *b;
    expect(n, tamis_builder_create(&opt, &b, NULL) == 0, "builder");
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t hash = key(i);
        tamis_builder_add_hashes(b, d.tag, &hash, 1);
    }
    int err = tamis_builder_finish_file(b, "f", NULL);
    tamis_builder_free(b);
    return err;
}

static void bad_build(struct note *n)
{
    device_break(n);
    n->done = build(n) == 0;
    device_heal(n);
    expect(n, !n->done || n->nth, "a file that is not on the disk is finished");
}

/* There or not, but if there then whole. */
static void after_bad_build(struct note *n)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    int err = build(n);
    expect(n, err == TAMIS_ERR_EXISTS || (err == 0 && !n->done), "building again: %s",
           tamis_strerror(err));
    expect(n, tamis_filter_open("f", NULL, &f, &diag) == 0, "open: %s", diag.what);
    expect_whole(n, f);
    expect_keys(n, f, 1000);
    tamis_filter_close(f);
}

static void bad_create(struct note *n)
{
    struct tamis_writer *w;
    device_break(n);
    n->done = tamis_writer_create("f", NULL, &w, NULL) == 0;
    device_heal(n);
    expect(n, !n->done || n->nth, "a file that is not on the disk is created");
}

static void after_bad_create(struct note *n)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    bool there = access("f", F_OK) == 0;
    expect(n, there || !n->done, "a file that was created is lost");
    if (there)
        expect(n, tamis_writer_open("f", &w, &diag) == 0, "open: %s", diag.what);
    else
        expect(n, tamis_writer_create("f", NULL, &w, &diag) == 0, "create: %s",
               diag.what);
    expect(n, tamis_writer_close(w) == 0, "close");
}

/* ---- a store ---- */

static struct tamis_store *open_store(struct note *n)
{
    struct tamis_store *s;
    struct tamis_diag diag;
    expect(n, tamis_store_open("s", &s, &diag) == 0, "store_open: %s", diag.what);
    return s;
}

static int put(struct note *n, struct tamis_store *s, const char *name)
{
    struct tamis_edit *e;
    struct tamis_builder *b;
    struct tamis_diag diag;
    expect(n, tamis_edit_begin(s, &e, &diag) == 0, "edit_begin: %s", diag.what);
    int err = tamis_edit_builder(e, name, 1, 0, NULL, &b, &diag);
    expect(n, err == 0, "edit_builder: %s", diag.what);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t hash = key(i);
        tamis_builder_add_hashes(b, domain().tag, &hash, 1);
    }
    err = tamis_edit_put(e, b, &diag);
    tamis_builder_free(b);
    if (err)
        tamis_edit_abort(e);
    else
        err = tamis_edit_commit(e, &diag);
    return err;
}

static void store_with_a(struct note *n)
{
    struct tamis_domain d = domain();
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &d};
    expect(n, tamis_store_create("s", &opt, NULL) == 0, "store_create");
    struct tamis_store *s = open_store(n);
    expect(n, put(n, s, "a") == 0, "the first edit");
    tamis_store_close(s);
}

/* All of the segment's keys, or that it is not there, where it need not be. */
static void expect_segment(struct note *n, struct tamis_snapshot *s, const char *name,
                           bool must)
{
    struct tamis_target target;
    int err = tamis_snapshot_find(s, name, 1, NULL, 0, 0, &target);
    if (err == TAMIS_ERR_NO_SEGMENT && !must)
        return;
    expect(n, err == 0, "segment %s: %s", name, tamis_strerror(err));
    for (uint64_t i = 0; i < 100; i++) {
        struct tamis_key k = tamis_key_of_hash(domain().tag, key(i));
        enum tamis_reason why;
        enum tamis_answer answer = tamis_snapshot_probe(s, &target, &k, &why);
        expect(n, answer == TAMIS_MAYBE && why == TAMIS_HIT, "segment %s, key %llu: %s",
               name, (unsigned long long)i, tamis_reason_name(why));
    }
}

static void bad_edit(struct note *n)
{
    store_with_a(n);
    struct tamis_store *s = open_store(n);
    device_break(n);
    n->done = put(n, s, "b") == 0;
    device_heal(n);
    expect(n, !n->done || n->nth, "an edit that is not on the disk says 0");
    tamis_store_close(s);
}

static void after_bad_edit(struct note *n)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *s = open_store(n);
    for (int more = 0; more < 2; more++) {
        expect(n, tamis_snapshot_current(s, &snapshot, NULL) == 0, "snapshot");
        expect_segment(n, snapshot, "a", true);
        expect_segment(n, snapshot, "b", n->done);
        expect_segment(n, snapshot, "c", more);
        tamis_snapshot_release(snapshot);
        if (!more)
            expect(n, put(n, s, "c") == 0, "the next edit");
    }
    tamis_store_close(s);
}

/* ---- reads ---- */

static void bad_reads(struct note *n)
{
    static _Alignas(4096) uint8_t page[4096];
    expect(n, build(n) == 0, "building");
    store_with_a(n);
    int fd = open("f", O_RDONLY | O_CLOEXEC);
    /* Out of the page cache, so that the disk is asked. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    device_break(n);
    struct tamis_filter *f;
    int err = tamis_filter_open_fd(fd, 0, 0, NULL, &f, NULL);
    expect(n, err == EIO, "a filter that can't be read: %s", tamis_strerror(err));
    expect(n, f == NULL, "a filter after all");
    device_heal(n);
    expect(n, pread(fd, page, sizeof page, 0) == sizeof page, "reading");
    err = tamis_filter_open_fd(fd, 0, 0, NULL, &f, NULL);
    expect(n, err == 0, "after it healed: %s", tamis_strerror(err));
    expect_keys(n, f, 1000);
    tamis_filter_close(f);
}

static void after_bad_reads(struct note *n)
{
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
    struct tamis_store *s = open_store(n);
    struct tamis_key k = tamis_key_of_hash(domain().tag, key(0) + 1);
    enum tamis_reason why;
    expect(n, tamis_snapshot_current(s, &snapshot, NULL) == 0, "snapshot");
    expect(n, tamis_snapshot_find(snapshot, "a", 1, NULL, 0, 0, &target) == 0, "find");
    device_break(n);
    enum tamis_answer answer = tamis_snapshot_probe(snapshot, &target, &k, &why);
    device_heal(n);
    expect(n, answer == TAMIS_MAYBE && why == TAMIS_UNREADABLE,
           "a segment that can't be read: %s", tamis_reason_name(why));
    tamis_snapshot_release(snapshot);
    tamis_store_close(s);
    s = open_store(n);
    expect(n, tamis_snapshot_current(s, &snapshot, NULL) == 0, "snapshot");
    expect_segment(n, snapshot, "a", true);
    tamis_snapshot_release(snapshot);
    tamis_store_close(s);
}

const struct error_test error_tests[] = {
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
    {"build", NULL, BAD_SYNCS | BAD_ONE, bad_build, after_bad_build},
    {"create", NULL, BAD_SYNCS | BAD_ONE, bad_create, after_bad_create},
    {"edit", NULL, BAD_SYNCS | BAD_ONE, bad_edit, after_bad_edit},
    {"reads", NULL, BAD_READS, bad_reads, after_bad_reads},
};
const size_t n_error_tests = sizeof error_tests / sizeof error_tests[0];
