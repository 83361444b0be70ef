/* Opening safely: regular files only, names of ours without following any link, and no
 * network file system where something is to be written (R15). */
#include "lib/io/io.h"
#include "format/identity.h"

#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* Opening alone may do something: a watchdog starts, a tape rewinds, a process at the
 * other end of a FIFO goes on. So we ask first what kind of file the name has. A user
 * who may write in its directory may exchange it before it is opened: SAFELY and
 * keep_regular() are for that. Nothing better works everywhere: O_PATH needs /proc to
 * open the file that it has found, and takes three times as long. */
static int refuse_special(int dir, const char *name, int at_flags)
{
    struct stat st;
    if (fstatat(dir, name, &st, at_flags) != 0)
        return errno;
    bool special = S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode);
    return special ? EINVAL : 0;
}

/* Waits for nobody at a FIFO, and makes no terminal ours; to a regular file neither
 * flag means anything. */
enum { SAFELY = O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

/* Takes a fresh descriptor (or -1 and errno) and keeps it if it is a regular file. */
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

bool io_not_regular(int err)
{
    return err == EISDIR || err == EINVAL || err == ELOOP || err == ENXIO;
}

int io_open(const char *path, int flags, int *fd)
{
    int err = refuse_special(AT_FDCWD, path, 0);
    *fd = -1;
    return err ? err : keep_regular(open(path, flags | SAFELY), fd);
}

int io_open_raw(int dir, const char *name, int flags, int *fd)
{
    struct open_how how = {
        .flags = (unsigned)(flags | SAFELY),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    int err = refuse_special(dir, name, AT_SYMLINK_NOFOLLOW);
    if (err)
        return *fd = -1, err;
    long opened = syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (opened < 0 && (errno == ENOSYS || errno == EPERM)) {
        /* Before Linux 5.6, or under a filter of system calls: names are ours, one
         * component each, so O_NOFOLLOW gives the same. */
        if (strchr(name, '/'))
            return *fd = -1, EINVAL;
        opened = openat(dir, name, flags | O_NOFOLLOW | SAFELY);
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

int io_open_new(const char *path, int *dir, const char **base, struct tamis_diag *diag)
{
    int err = io_open_parent(path, dir, base);
    if (err)
        return diag_errno(diag, err, path,
                          err == EISDIR || err == ENAMETOOLONG
                              ? "not a name for a file"
                              : "cannot open its directory");
    if (faccessat(*dir, *base, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    close(*dir);
    return diag_own(diag, TAMIS_ERR_EXISTS, path);
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

int io_is_overlay(int fd, bool *yes)
{
    struct statfs fs;
    *yes = false;
    if (fstatfs(fd, &fs) != 0)
        return errno;
    *yes = (uint32_t)fs.f_type == 0x794C7630; /* OVERLAYFS_SUPER_MAGIC */
    return 0;
}

int io_open_shared(int fd, int *fresh)
{
    char link[32];
    bool overlay;
    *fresh = -1;
    int err = io_refuse_network(fd);
    if (!err)
        err = io_is_overlay(fd, &overlay);
    if (err || !overlay)
        return err;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDWR)
        return flags < 0 ? errno : 0;
    /* By descriptor: the name may be another file's by now. */
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    err = keep_regular(open(link, O_RDWR | SAFELY), fresh);
    return err == ENOENT ? EOPNOTSUPP : err; /* no /proc; the file is not lost */
}
