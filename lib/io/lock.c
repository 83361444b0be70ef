/* One writer per file (R14): locks that tell who holds them. */
#include "lib/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* An open-file-description lock has no owner that F_OFD_GETLK could report. So a
 * writer locks two bytes: LOCK_AT, which excludes, and the byte after it numbered
 * by its pid, whose place tells a contender who is there. The kernel frees both
 * however the holder ends. */
#define LOCK_AT  ((off_t)1 << 62)
#define LOCK_PID (LOCK_AT + 1)

static int lock_byte(int fd, off_t at)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

static pid_t lock_holder(int fd)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = LOCK_PID,
                         .l_len = (off_t)1 << 32};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return (pid_t)(lock.l_start - LOCK_PID);
}

int io_byte_is_locked(int fd, uint64_t at, bool *locked)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
        return errno;
    *locked = lock.l_type != F_UNLCK;
    return 0;
}

int io_is_locked(int fd, bool *locked)
{
    return io_byte_is_locked(fd, LOCK_AT, locked);
}

int io_lock(int fd, pid_t *holder)
{
    *holder = 0;
    int err = lock_byte(fd, LOCK_AT);
    if (err == EAGAIN || err == EACCES) {
        *holder = lock_holder(fd);
        return TAMIS_ERR_BUSY;
    }
    if (err)
        return err;
    return lock_byte(fd, LOCK_PID + getpid());
}

/* Explicitly, not by closing: a copy of the descriptor that a fork made while it was
 * being opened would keep the lock. */
void io_unlock(int fd)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_OFD_SETLK, &lock);
}
