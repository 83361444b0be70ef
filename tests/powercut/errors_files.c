/* Device errors while files are made, a store is edited, or a filter is read. */
#include "tests/powercut/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- files that are made ---- */

static int build(struct note *n)
{
    struct tamis_domain d = errors_domain();
    struct tamis_builder_options opt = {.size = sizeof opt, .domain = &d};
    struct tamis_builder *b;
    expect(n, tamis_builder_create(&opt, &b, NULL) == 0, "builder");
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t hash = errors_key(i);
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
    errors_whole(n, f);
    errors_keys(n, f, 1000);
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
        uint64_t hash = errors_key(i);
        tamis_builder_add_hashes(b, errors_domain().tag, &hash, 1);
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
    struct tamis_domain d = errors_domain();
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
        struct tamis_key k = tamis_key_of_hash(errors_domain().tag, errors_key(i));
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
    errors_keys(n, f, 1000);
    tamis_filter_close(f);
}

static void after_bad_reads(struct note *n)
{
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
    struct tamis_store *s = open_store(n);
    struct tamis_key k = tamis_key_of_hash(errors_domain().tag, errors_key(0) + 1);
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

const struct error_test file_tests[] = {
    {"build", NULL, BAD_SYNCS | BAD_ONE, bad_build, after_bad_build},
    {"create", NULL, BAD_SYNCS | BAD_ONE, bad_create, after_bad_create},
    {"edit", NULL, BAD_SYNCS | BAD_ONE, bad_edit, after_bad_edit},
    {"reads", NULL, BAD_READS, bad_reads, after_bad_reads},
};
const size_t n_file_tests = sizeof file_tests / sizeof file_tests[0];
