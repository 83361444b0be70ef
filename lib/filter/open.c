/* Opening safely: regular files only, names of ours without following any link, and no
 * network file system where something is to be written (R15). */
#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Takes a fresh descriptor (or -1 and errno) and keeps it if it is a regular file.
 * O_NONBLOCK, which kept open() from waiting on a FIFO, means nothing to it. */
static int keep_regular(int opened, int *fd)
{
    uint64_t n_bytes;
    *fd = -1;
    if (opened < 0)
        return errno;
    int err = io_size(opened, &n_bytes);
    if (err)
        close(opened);
    else
        *fd = opened;
    return err;
}

int io_open(const char *path, int flags, int *fd)
{
    return keep_regular(open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), fd);
}

int io_open_raw(int dir, const char *name, int flags, int *fd)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long opened = syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (opened < 0 && (errno == ENOSYS || errno == EPERM)) {
        /* Before Linux 5.6, or under a filter of system calls: names are ours, one
         * component each, so O_NOFOLLOW gives the same. */
        if (strchr(name, '/'))
            return *fd = -1, EINVAL;
        opened =
            openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    *fd = (int)opened;
    return opened < 0 ? errno : 0;
}

int io_open_beneath(int dir, const char *name, int flags, int *fd)
{
    int opened, err = io_open_raw(dir, name, flags, &opened);
    *fd = -1;
    return err ? err : keep_regular(opened, fd);
}

int io_open_parent(const char *path, int *dir, const char **base)
{
    const char *slash = strrchr(path, '/');
    *dir = -1;
    *base = slash ? slash + 1 : path;
    if (!**base || strlen(*base) > NAME_MAX_BYTES)
        return **base ? ENAMETOOLONG : EISDIR;
    char *parent = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!parent)
        return ENOMEM;
    *dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = *dir < 0 ? errno : 0;
    free(parent);
    return err;
}

int io_refuse_network(int fd)
{
    /* Magic numbers from linux/magic.h and fs/: NFS, SMB, CIFS, SMB2, Coda, AFS,
     * Ceph, 9p, Lustre, GFS2, OCFS2. Their mappings and locks are not coherent
     * between machines, and bits could vanish. */
    static const uint32_t network[] = {
        0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x73757245, 0x5346414F,
        0x00C36400, 0x01021997, 0x0BD00BD0, 0x01161970, 0x7461636F,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return errno;
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++)
        if ((uint32_t)fs.f_type == network[i])
            return TAMIS_ERR_NETWORK;
    return 0;
}
