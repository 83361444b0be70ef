/* Two copies of this library in one process, of a plugin and of its host perhaps, must
 * not have one store open at once. Each has a registry and an LMDB environment of its
 * own, but LMDB's locks belong to the process: the copy that closes first drops those
 * of the other, and the copy that opens second resets the lock file under the first.
 *
 * The copies see nothing of each other's memory. So each one locks a byte of the
 * store's directory that stands for the process, with a lock that belongs to the open
 * file description, and asks whether another description has a lock there. A directory
 * can be locked for reading only, so the byte is first locked and then looked at: of
 * two copies that come at once at least one sees the other. */
#include "lib/store/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPIES_AT ((off_t)1 << 62)
enum { PID_BITS = 22 }; /* the kernel's PID_MAX_LIMIT */

/* The process id, and which namespace it is of: two containers that share a store have
 * processes of one number. Without /proc they are taken for one. */
static int process_byte(off_t *at)
{
    struct stat st = {.st_ino = 0};
    if (fstatat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) != 0 && errno != ENOENT &&
        errno != ENOTDIR && errno != EACCES)
        return errno;
    *at = COPIES_AT + ((off_t)(st.st_ino & UINT32_MAX) << PID_BITS) + getpid();
    return 0;
}

static int set_lock(int fd, int how, short type, off_t at, struct flock *l)
{
    *l = (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = at ? 1 : 0};
    return fcntl(fd, how, l) == 0 ? 0 : errno;
}

int copies_enter(int dir)
{
    struct flock l;
    off_t at = 0;
    int rc = process_byte(&at);
    if (!rc)
        rc = set_lock(dir, F_OFD_SETLK, F_RDLCK, at, &l);
    if (!rc)
        rc = set_lock(dir, F_OFD_GETLK, F_WRLCK, at, &l);
    return rc || l.l_type == F_UNLCK ? rc : TAMIS_ERR_BUSY;
}

/* Not by closing alone: a child that is being forked may have the descriptor, too. */
void copies_leave(int dir)
{
    struct flock l;
    set_lock(dir, F_OFD_SETLK, F_UNLCK, 0, &l);
}
