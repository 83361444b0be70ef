/* Namespaces, loop devices, file systems. */
#include "tests/powercut/host.h"

#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <sys/sysmacros.h>

void host_fail(const char *format, ...)
{
    va_list args;
    int err = errno;
    va_start(args, format);
    fprintf(stderr, "powercut: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, " (%s)\n", strerror(err));
    va_end(args);
    exit(2);
}

/* ---- processes ---- */

int host_wait(pid_t pid)
{
    int status = process_end(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t runner;

static void on_signal(int number)
{
    (void)number;
    kill(runner, SIGKILL); /* and the kernel all that it had started */
}

int host_run(int (*fn)(const char *dir))
{
    char dir[] = "/tmp/tamis-powercut.XXXXXX";
    if (geteuid() != 0)
        host_fail("this test mounts file systems: it must be root");
    if (!mkdtemp(dir))
        host_fail("mkdtemp");
    if (unshare(CLONE_NEWPID) != 0)
        host_fail("unshare");
    runner = process_start(0);
    if (runner == 0) {
        if (unshare(CLONE_NEWNS) != 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tamis", dir, "tmpfs", 0, "mode=0700") != 0)
            host_fail("mounting a tmpfs");
        int rc = fn(dir);
        fflush(NULL);
        _exit(rc);
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
    int rc = host_wait(runner);
    if (rmdir(dir) != 0)
        host_fail("removing %s", dir);
    return rc;
}

/* ---- file systems ---- */

const struct host_fs host_file_systems[] = {
    {"ext4",
     "mkfs.ext4 -q -F -b 4096 -J size=4 "
     "-E lazy_itable_init=0,lazy_journal_init=0,nodiscard",
     32 << 20, false},
    {"xfs", "mkfs.xfs -q -f -K", 300 << 20, true},
    {"btrfs", "mkfs.btrfs -q -f -K", 128 << 20, false},
};
const unsigned host_n_file_systems =
    sizeof host_file_systems / sizeof host_file_systems[0];

static void mkfs(const struct host_fs *fs, const char *path)
{
    char command[2 * HOST_PATH_BYTES];
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)fs->n_bytes) != 0)
        host_fail("making %s", path);
    close(fd);
    snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin %s %s >/dev/null",
             fs->mkfs, path);
    if (system(command) != 0)
        host_fail("%s", command);
}

void host_take_page(struct host_made *m, size_t page, const uint8_t *bytes)
{
    static const uint8_t zeros[HOST_PAGE];
    if (memcmp(bytes, zeros, HOST_PAGE) == 0)
        return;
    memcpy(m->bytes + page * HOST_PAGE, bytes, HOST_PAGE);
    m->used[page] = 1;
}

void host_make_room(struct host_made *m, size_t n_pages)
{
    m->n_pages = n_pages;
    m->used = calloc(n_pages, 1);
    m->bytes = mmap(NULL, n_pages * HOST_PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!m->used || m->bytes == MAP_FAILED)
        host_fail("no memory for a disk");
}

void host_mkfs(const struct host_fs *fs, const char *scratch, struct host_made *m)
{
    char path[HOST_PATH_BYTES];
    uint8_t page[HOST_PAGE];
    snprintf(path, sizeof path, "%.200s/made", scratch);
    mkfs(fs, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    host_make_room(m, (size_t)(fs->n_bytes / HOST_PAGE));
    if (fd < 0)
        host_fail("reading %s", path);
    for (size_t p = 0; p < m->n_pages; p++) {
        if (pread(fd, page, HOST_PAGE, (off_t)(p * HOST_PAGE)) != HOST_PAGE)
            host_fail("reading %s", path);
        host_take_page(m, p, page);
    }
    close(fd);
    unlink(path);
}

void host_unmake(struct host_made *m)
{
    if (!m->bytes)
        return;
    munmap(m->bytes, m->n_pages * HOST_PAGE);
    free(m->used);
    *m = (struct host_made){.n_pages = 0};
}

int host_mount(const struct host_fs *fs, const struct host_loop *loop, const char *dir)
{
    return mount(loop->path, dir, fs->name, MS_NOATIME, NULL) == 0 ? 0 : errno;
}

void host_unmount(const char *dir)
{
    if (umount2(dir, 0) != 0)
        host_fail("unmounting %s", dir);
}

/* ---- loop devices ---- */

static int try_loop(struct host_loop *loop, int number, const char *scratch)
{
    struct stat st;
    dev_t dev = makedev(7, (unsigned)number);
    snprintf(loop->path, sizeof loop->path, "/dev/loop%d", number);
    if (stat(loop->path, &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev != dev) {
        /* Where nobody makes device nodes we do. */
        snprintf(loop->path, sizeof loop->path, "%.200s/loop%d", scratch, number);
        if (mknod(loop->path, S_IFBLK | 0600, dev) != 0 && errno != EEXIST)
            host_fail("making %s", loop->path);
    }
    loop->fd = open(loop->path, O_RDWR | O_CLOEXEC);
    return loop->fd < 0 ? errno : 0;
}

/* The device is let go by the kernel when its last user is gone. */
void host_loop_open(struct host_loop *loop, const char *file, const char *scratch)
{
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int backing = open(file, O_RDWR | O_CLOEXEC);
    struct loop_config config = {.fd = (unsigned)backing};
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if (control < 0 || backing < 0)
        host_fail("opening %s for a loop device", file);
    for (int tries = 0;; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0 || tries == 100)
            host_fail("no loop device is free");
        if (try_loop(loop, number, scratch) != 0)
            continue;
        if (ioctl(loop->fd, LOOP_CONFIGURE, &config) == 0)
            break;
        if (errno != EBUSY)
            host_fail("setting up %s on %s", loop->path, file);
        close(loop->fd); /* another was quicker */
    }
    close(backing);
    close(control);
}

void host_loop_forget(const struct host_loop *loop)
{
    if (ioctl(loop->fd, BLKFLSBUF, 0) != 0)
        host_fail("flushing %s", loop->path);
}

void host_loop_close(struct host_loop *loop)
{
    close(loop->fd);
    loop->fd = -1;
}
