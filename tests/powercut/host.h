/* The parts of this machine that the tests need: a place that goes away with them, loop
 * devices, file systems. All of it lives in mount and process namespaces of their own:
 * when the first process there ends, in whatever way, the kernel kills the others,
 * unmounts what they had mounted, and lets the loop devices go. */
#ifndef TAMIS_TESTS_POWERCUT_HOST_H
#define TAMIS_TESTS_POWERCUT_HOST_H

#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "tests/steps/harness.h"

enum { HOST_PATH_BYTES = 256, HOST_PAGE = 4096 };

/* Runs fn in namespaces of its own, with `dir` an empty tmpfs there; its result. */
int host_run(int (*fn)(const char *dir));

_Noreturn void host_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Its exit status, or 128 + the signal that ended it. */
int host_wait(pid_t pid);

/* A file system, and how it is made. */
struct host_fs {
    const char *name, *mkfs;
    uint64_t n_bytes;
    bool whole_blocks; /* its recovery trusts that none of its blocks is ever torn */
};
extern const struct host_fs host_file_systems[];
extern const unsigned host_n_file_systems;

/* A new one, in memory. */
struct host_made {
    uint8_t *bytes;
    uint8_t *used; /* its pages that are not all zeros: 1 */
    size_t n_pages;
};
void host_mkfs(const struct host_fs *fs, const char *scratch, struct host_made *out);
void host_make_room(struct host_made *out, size_t n_pages); /* all zeros */
void host_take_page(struct host_made *m, size_t page, const uint8_t *bytes);
void host_unmake(struct host_made *made);

/* A block device on the file; it is let go when fd is closed and nobody uses it. */
struct host_loop {
    int fd;
    char path[HOST_PATH_BYTES];
};
void host_loop_open(struct host_loop *loop, const char *file, const char *scratch);
/* Forgets what it has cached of the file. */
void host_loop_forget(const struct host_loop *loop);
void host_loop_close(struct host_loop *loop);

/* 0 or an errno. */
int host_mount(const struct host_fs *fs, const struct host_loop *loop, const char *dir);
void host_unmount(const char *dir);

#endif
