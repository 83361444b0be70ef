/* Device errors under the whole stack (R4): the library on a real file system whose
 * disk answers EIO to flushes, to writes or to reads for a while, loses what it was
 * given, or fails a write-back behind the writer's back, so that the page cache shows
 * bits that the disk does not have. And the guard against SIGBUS where it is needed
 * (R15): pages that the disk cannot read, and stores for which there is no space (holes
 * in a stage, blocks shared with a copy).
 *
 * Each test has two halves: a script while the disk is bad, and one after it has
 * healed, on a file system mounted anew, whose page cache knows only what the disk
 * knows. */
#include "tests/powercut/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *only_fs, *only_test;
static unsigned n_passed, n_failed;

struct bench {
    const struct host_fs *fs;
    const char *dir;
    char fuse[HOST_PATH_BYTES + 8], file[HOST_PATH_BYTES + 16],
        mount[HOST_PATH_BYTES + 8];
    struct host_made made;
    struct host_loop loop;
};

/* ---- the tests ---- */

/* Each step of a writer that has stopped, with the bad disk and with the good one. */
#define STOPPED         "commit f; seal f; heal; commit f; seal f; shut f"
#define COMMITTED       "lone f 5000; fill f 200; commit f; fill f 100; "
#define REPLAY          "writer f; writer f; replay f; commit f; shut f; "
#define AFTER_A_BAD_END "expect; clean f 0; behind f; " REPLAY "expect; clean f 1"
/* A page of bits, then one of what tells whether they are good. */
#define UNREADABLE "badpage f 3; reader f 1; badpage f 1001; reader f 0; expect"
/* Without space, opening is an error and nothing is written; with space, the writer has
 * it for good, and a file that has its space opens on a full disk, too. */
#define OPEN_ON_FULL                                                                   \
    "same f; full 1; writer f; same f; space; writer f; full 0; fill f 40000; commit " \
    "f; shut f; writer f; shut f; space; expect"
/* What was not committed is not there; the next attempt, with space, succeeds. Without
 * the guard it is death, and no more than that. */
#define WRITE_ON_FULL(spoil)                                                           \
    "guard 1; writer f; " spoil                                                        \
    " f; full 1; fill f 40000; fill f 1; commit f; shut f; "                           \
    "clean f 0; space; writer f; replay f; commit f; shut f; expect"
#define KILLED_ON_FULL(spoil)                                                          \
    "killed; writer f; " spoil " f; full 1; fill f 40000; survived; space; writer f; " \
    "shut f; expect"
#define EMPTY "lone f 40000 2 .01; commit f; shut f; "
#define HALF  "lone f 40000 2 .01; fill f 20000; commit f; shut f; "

static const struct error_test tests[] = {
    {"commit", NULL, BAD_SYNCS, COMMITTED "break; commit f; " STOPPED, NULL,
     AFTER_A_BAD_END},
    /* If it says 0 all the same, then it must be so. */
    {"commit, perhaps", NULL, BAD_ONE, COMMITTED "break; commit f; heal; commit f",
     NULL, AFTER_A_BAD_END},
    {"close", NULL, BAD_SYNCS, COMMITTED "break; shut f", NULL, AFTER_A_BAD_END},
    {"growth", NULL, BAD_SYNCS, COMMITTED "break; fill f 11700; commit f; " STOPPED,
     NULL, AFTER_A_BAD_END},
    /* The last sync of all may have failed: then the seal stands. */
    {"seal", NULL, BAD_SYNCS, COMMITTED "break; seal f; " STOPPED, NULL,
     "expect; behind f; " REPLAY "expect"},
    /* Every key that is replayed is in the page cache already. */
    {"write-back fails behind a writer", NULL, BAD_WRITES | SURE,
     COMMITTED "break; writeback f; commit f; " STOPPED "; " REPLAY, NULL,
     "expect; clean f 1"},
    {"write-back fails behind a dead writer", NULL, BAD_WRITES,
     COMMITTED "break; writeback f", REPLAY, "expect; clean f 1"},
    /* The floors know (R8). btrfs would answer EIO itself: SIGBUS, since this is a
     * mapping. */
    {"a disk that lies", "ext4 xfs", BAD_LOSES,
     COMMITTED "break; writeback f; commit f; shut f", NULL, "expect; damaged f"},
    /* There or not, but if there then whole. */
    {"build", NULL, BAD_SYNCS | BAD_ONE, "break; build f 0 1000; heal", NULL,
     "expect; build f 0 1000; expect"},
    {"create", NULL, BAD_SYNCS | BAD_ONE, "break; lone f; heal", NULL,
     "expect; lone f; writer f; shut f; expect"},
    {"edit", NULL, BAD_SYNCS | BAD_ONE, "init; put a 0 100; break; put b 200 100; heal",
     NULL, "expect; put c 400 100; expect"},
    {"reads", NULL, BAD_READS, "init; put a 0 100; build f 0 1000; unread f; expect",
     NULL, "unread a; expect"},
    {"a sealed page", NULL, BAD_READS, "guard 1; build f 0 40000 .01; " UNREADABLE,
     NULL, "command f 0; expect"},
    /* Ones meet the floors of the page: it must not pass for that. */
    {"an open page", NULL, BAD_READS, "guard 1; " HALF UNREADABLE, NULL, "expect"},
    {"a page, no guard", NULL, BAD_READS,
     "build f 0 40000 .01; badpage f 3; command f 3; killed; damaged f; survived; "
     "heal; "
     "command f 0",
     NULL, "expect"},
    /* A writer that was closed in order looks at a page when it adds to it. After that
     * unclean end every page must be looked at: the next one can't start. */
    {"a page, a writer", NULL, BAD_READS | SURE,
     "guard 1; lone f 40000 2 .01; fill f 1000; commit f; shut f; badpage f 3; writer "
     "f; "
     "fill f 5000; commit f; seal f; shut f; writer f; reader f 1",
     NULL, "writer f; fill f 100; commit f; shut f; expect; clean f 1"},
    {"a holed copy, full", "tmpfs ext4 xfs", BAD_FULL | SURE,
     EMPTY "dig f; " OPEN_ON_FULL, NULL, "expect"},
    {"a shared copy, full", "xfs", BAD_FULL | SURE, HALF "share f; " OPEN_ON_FULL, NULL,
     "expect"},
    {"a hole, full", "tmpfs ext4", BAD_FULL | SURE, EMPTY WRITE_ON_FULL("dig"), NULL,
     "expect"},
    {"shared blocks, full", "btrfs xfs", BAD_FULL | SURE, HALF WRITE_ON_FULL("share"),
     NULL, "expect"},
    {"a hole, full, no guard", "tmpfs ext4", BAD_FULL, EMPTY KILLED_ON_FULL("dig"),
     NULL, "expect"},
    {"shared blocks, full, no guard", "btrfs xfs", BAD_FULL,
     HALF KILLED_ON_FULL("share"), NULL, "expect"},
};

static const char *bad_name(enum bad bad)
{
    return bad == BAD_FLUSHES  ? "flushes fail"
           : bad == BAD_WRITES ? "writes fail"
           : bad == BAD_BOTH   ? "writes and flushes fail"
           : bad == BAD_READS  ? "reads fail"
           : bad == BAD_ONE    ? "one request fails"
           : bad == BAD_FULL   ? "no space"
                               : "writes are lost";
}

/* ---- one test ---- */

/* One half, in a process of its own: what it leaves open goes with it. */
static bool half(const struct bench *b, const struct error_test *t, struct note *n,
                 const char *script, bool must_fail)
{
    pid_t pid = process_start(120);
    if (pid == 0)
        errors_play(n, b->mount, script, must_fail);
    int status = host_wait(pid);
    if (status == 0)
        return true;
    printf("FAILED %s, %s, %s (%d): %s (status %d): %s\n", b->fs->name, t->name,
           bad_name(n->bad), n->nth, n->what, status, script);
    return false;
}

/* tmpfs has no disk: what is there is lost when it is unmounted, so it is not. */
static bool has_disk(const struct bench *b)
{
    return b->fs->mkfs != NULL;
}

static void mount_it(struct bench *b)
{
    if (!has_disk(b)) {
        if (mount("none", b->mount, "tmpfs", 0, "size=2m") != 0)
            host_fail("mounting a tmpfs");
        return;
    }
    host_loop_open(&b->loop, b->file, b->dir);
    int err = host_mount(b->fs, &b->loop, b->mount);
    if (err)
        host_fail("mounting %s: %s", b->fs->name, strerror(err));
}

static void unmount_it(struct bench *b)
{
    host_unmount(b->mount);
    if (has_disk(b))
        host_loop_close(&b->loop);
}

/* False if the disk never failed. */
static bool run_one(struct bench *b, const struct error_test *t, enum bad bad, int nth)
{
    struct note *n = memory_shared(sizeof *n);
    n->device = device_create(&b->made);
    n->bad = bad;
    n->nth = nth;
    device_serve(n->device, b->fuse);
    mount_it(b);
    bool ok = half(b, t, n, t->before, t->bad & SURE && bad != BAD_ONE);
    ok = ok && (!t->again || half(b, t, n, t->again, false));
    device_heal(n);
    if (has_disk(b))
        unmount_it(b);
    bool any = atomic_load(&n->device->n_failed) > 0;
    if (ok && !any && nth <= 1 && bad != BAD_FULL) {
        printf("FAILED %s, %s: the disk never failed\n", b->fs->name, t->name);
        ok = false;
    }
    if (has_disk(b))
        mount_it(b);
    ok = ok && half(b, t, n, t->after, false);
    unmount_it(b);
    device_stop(n->device, b->fuse);
    device_free(n->device);
    munmap(n, sizeof *n);
    n_passed += ok;
    n_failed += !ok;
    return any;
}

/* Each request in its turn, until there are no more. */
static void run_test(struct bench *b, const struct error_test *t, enum bad bad)
{
    int nth = bad == BAD_ONE;
    while (run_one(b, t, bad, nth) && bad == BAD_ONE && nth < 100)
        nth++;
}

static void run_tests(struct bench *b)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        const struct error_test *t = &tests[i];
        if (t->on ? !strstr(t->on, b->fs->name) : !has_disk(b))
            continue;
        for (unsigned bad = 1; bad < N_BAD; bad <<= 1)
            if (t->bad & bad && (!only_test || strstr(t->name, only_test)))
                run_test(b, t, (enum bad)bad);
    }
}

static void run_fs(const struct host_fs *fs, const char *dir)
{
    struct bench b = {.fs = fs, .dir = dir};
    unsigned before = n_passed;
    snprintf(b.fuse, sizeof b.fuse, "%.240s/fuse", dir);
    snprintf(b.file, sizeof b.file, "%s/disk", b.fuse);
    snprintf(b.mount, sizeof b.mount, "%.240s/mount", dir);
    mkdir(b.fuse, 0700);
    mkdir(b.mount, 0700);
    if (has_disk(&b))
        host_mkfs(fs, dir, &b.made);
    else
        host_make_room(&b.made, 1);
    run_tests(&b);
    host_unmake(&b.made);
    printf("ok     device errors under %-5s %3u tests\n", fs->name, n_passed - before);
}

static int run(const char *dir)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < host_n_file_systems; i++)
        if (!only_fs || strcmp(only_fs, host_file_systems[i].name) == 0)
            run_fs(&host_file_systems[i], dir);
    if (!only_fs || strcmp(only_fs, "tmpfs") == 0)
        run_fs(&(const struct host_fs){.name = "tmpfs"}, dir);
    printf("%u passed, %u failed\n", n_passed, n_failed);
    return n_failed || !n_passed;
}

int main(int argc, char **argv)
{
    const struct known_option known[] = {
        {"fs", .text = &only_fs}, {"test", .text = &only_test}, {0}};
    return options_read(argc, argv, known) ? host_run(run) : 2;
}
