/* A file system that is full (full.h). */
#include "full.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include "tests/support/support.h"

char full_dir[600];

const char *on_full(const char *name)
{
    static char paths[4][1024];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", full_dir, name);
    return p;
}

void full_fill_up(void)
{
    static const uint8_t bytes[4096] = {1};
    FD fd = open(on_full("filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    ssize_t n;
    do
        n = write(fd, bytes, sizeof bytes);
    while (n > 0);
    IS(errno, ENOSPC);
    fdatasync(fd);
    while (write(fd, bytes, sizeof bytes) > 0) /* what the sync gave back */
        ;
}

void full_share(const char *path)
{
    FD from = open(path, O_RDONLY | O_CLOEXEC);
    FD to = open(on_full("copy"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    IS(ioctl(to, FICLONE, from), 0);
    OK(fsync(to));
}

void full_make_space(void)
{
    OK(unlink(on_full("filler")));
    sync();
}
