/* A program whose fstatfs() says what it is told to, and mounts if it may. */
#ifndef TAMIS_TESTS_TOLD_FS_H
#define TAMIS_TESTS_TOLD_FS_H

#include "tests/support/support.h"

#include <sys/vfs.h>

static long told_type;

int fstatfs(int fd, struct statfs *fs)
{
    int r = (int)syscall(SYS_fstatfs, fd, fs);
    if (r == 0 && told_type)
        fs->f_type = (__typeof__(fs->f_type))told_type;
    return r;
}

/* In a namespace of its own: 77 says that it can't have what it needs. */
static UNUSED void in_own_mounts(int (*run)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(own_mounts() ? run() : 77);
    IS(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        print_message("no mount to be had here: not tried\n");
    else
        IS(WEXITSTATUS(status), 0);
}

/* All in the test's directory; makes the last two. */
static UNUSED bool mount_overlay(const char *lower, const char *layer,
                                 const char *merged)
{
    char options[4096];
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s/up,workdir=%s/work",
             path_of(lower), path_of(layer), path_of(layer));
    return mkdir(path_of(layer), 0700) == 0 && mkdir(path_of(merged), 0700) == 0 &&
           mount("tmpfs", path_of(layer), "tmpfs", 0, NULL) == 0 &&
           mkdir(path_of("layer/up"), 0700) == 0 &&
           mkdir(path_of("layer/work"), 0700) == 0 &&
           mount("overlay", path_of(merged), "overlay", 0, options) == 0;
}

#endif
