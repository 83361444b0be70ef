/* Device errors under the whole stack (R4): the library on a real file system whose
 * disk answers EIO to flushes, to writes or to reads for a while, loses what it was
 * given, or fails a write-back behind the writer's back, so that the page cache shows
 * bits that the disk does not have.
 *
 * Each test has two halves: a script while the disk is bad, and one after it has
 * healed, on a file system mounted anew, whose page cache knows only what the disk
 * knows. */
#include "tests/powercut/errors.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *only_fs;
static unsigned n_passed, n_failed;

struct bench {
    const struct host_fs *fs;
    const char *dir;
    char fuse[HOST_PATH_BYTES + 8], file[HOST_PATH_BYTES + 16],
        mount[HOST_PATH_BYTES + 8];
    struct host_made made;
    struct host_loop loop;
};

static struct note *shared_note(void)
{
    struct note *n = mmap(NULL, sizeof *n, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n == MAP_FAILED)
        host_fail("no memory");
    return n;
}

/* ---- the tests ---- */

/* Each step of a writer that has stopped, with the bad disk and with the good one. */
#define STOPPED         "commit f; seal f; heal; commit f; seal f; shut f"
#define COMMITTED       "lone f 5000; fill f 200; commit f; fill f 100; "
#define REPLAY          "writer f; writer f; replay f; commit f; shut f; "
#define AFTER_A_BAD_END "expect; clean f 0; behind f; " REPLAY "expect; clean f 1"

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
    {"a disk that lies", "btrfs", BAD_LOSES,
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
};

static const char *bad_name(enum bad bad)
{
    return bad == BAD_FLUSHES  ? "flushes fail"
           : bad == BAD_WRITES ? "writes fail"
           : bad == BAD_BOTH   ? "writes and flushes fail"
           : bad == BAD_READS  ? "reads fail"
           : bad == BAD_ONE    ? "one request fails"
                               : "writes are lost";
}

/* ---- one test ---- */

/* One half, in a process of its own: what it leaves open goes with it. */
static bool half(const struct bench *b, const struct error_test *t, struct note *n,
                 const char *script, bool must_fail)
{
    pid_t pid = host_fork();
    if (pid == 0) {
        alarm(120);
        errors_play(n, b->mount, script, must_fail);
    }
    int status = host_wait(pid);
    if (status == 0)
        return true;
    printf("FAILED %s, %s, %s (%d): %s (status %d): %s\n", b->fs->name, t->name,
           bad_name(n->bad), n->nth, n->what, status, script);
    return false;
}

static void mount_it(struct bench *b)
{
    host_loop_open(&b->loop, b->file, b->dir);
    int err = host_mount(b->fs, &b->loop, b->mount);
    if (err)
        host_fail("mounting %s: %s", b->fs->name, strerror(err));
}

static void unmount_it(struct bench *b)
{
    host_unmount(b->mount);
    host_loop_close(&b->loop);
}

/* False if the disk never failed. */
static bool run_one(struct bench *b, const struct error_test *t, enum bad bad, int nth)
{
    struct note *n = shared_note();
    n->device = device_create(&b->made);
    n->bad = bad;
    n->nth = nth;
    device_serve(n->device, b->fuse);
    mount_it(b);
    bool ok = half(b, t, n, t->before, t->bad & SURE && bad != BAD_ONE);
    ok = ok && (!t->again || half(b, t, n, t->again, false));
    device_heal(n);
    unmount_it(b);
    bool any = atomic_load(&n->device->n_failed) > 0;
    if (ok && !any && nth <= 1) {
        printf("FAILED %s, %s: the disk never failed\n", b->fs->name, t->name);
        ok = false;
    }
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
        if (t->not_on && strcmp(t->not_on, b->fs->name) == 0)
            continue;
        for (unsigned bad = 1; bad < N_BAD; bad <<= 1)
            if (t->bad & bad)
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
    host_mkfs(fs, dir, &b.made);
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
    printf("%u passed, %u failed\n", n_passed, n_failed);
    return n_failed || !n_passed;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"fs", required_argument, NULL, 'f'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c != 'f')
            return 2;
        only_fs = strcmp(optarg, "all") ? optarg : NULL;
    }
    return host_run(run);
}
