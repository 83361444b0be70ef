/* The FUSE side of the disk. One thread, so that the log's order is the order in which
 * the requests took effect. */
#define FUSE_USE_VERSION 31
#include "tests/powercut/device.h"

#include <fuse3/fuse_log.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/falloc.h>
#include <poll.h>

static struct device *disk; /* in the server's process */
static uint32_t batch;

/* ---- the log ---- */

static void append(enum device_kind kind, uint64_t offset, uint64_t n_bytes,
                   const void *bytes)
{
    uint64_t n = atomic_load(&disk->n_entries);
    if (n == DEVICE_MAX_ENTRIES || (bytes && n_bytes > DEVICE_MAX_DATA - disk->n_data))
        abort(); /* a run that long is not meant */
    disk->entry[n] = (struct device_entry){kind, batch, offset, n_bytes, disk->n_data};
    if (bytes) {
        memcpy(disk->data + disk->n_data, bytes, (size_t)n_bytes);
        disk->n_data += n_bytes;
    }
    atomic_store(&disk->n_entries, n + 1);
}

static bool fails(const atomic_bool *flag)
{
    if (!atomic_load(flag))
        return false;
    atomic_fetch_add(&disk->n_failed, 1);
    return true;
}

/* Counts only requests that change something. */
static bool is_nth(void)
{
    int n = atomic_load(&disk->fail_nth);
    if (n == 0)
        return false;
    atomic_store(&disk->fail_nth, n - 1);
    atomic_fetch_add(&disk->n_failed, n == 1);
    return n == 1;
}

static bool inside(uint64_t offset, uint64_t n)
{
    return offset <= disk->n_bytes && n <= disk->n_bytes - offset;
}

/* ---- what the kernel asks ---- */

enum { DISK_INODE = 2 };

static struct stat attributes(fuse_ino_t inode)
{
    struct stat st = {.st_ino = inode, .st_nlink = 1};
    st.st_mode = inode == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0600;
    st.st_size = inode == FUSE_ROOT_ID ? 0 : (off_t)disk->n_bytes;
    return st;
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param e = {.ino = DISK_INODE, .attr_timeout = 1e9};
    e.entry_timeout = 1e9;
    e.attr = attributes(DISK_INODE);
    if (parent == FUSE_ROOT_ID && strcmp(name, "disk") == 0)
        fuse_reply_entry(req, &e);
    else
        fuse_reply_err(req, ENOENT);
}

static void on_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    struct stat st = attributes(inode);
    (void)fi;
    fuse_reply_attr(req, &st, 1e9);
}

static void on_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)inode;
    fi->direct_io = 1; /* no page cache between the loop device and the log */
    fuse_reply_open(req, fi);
}

static void on_read(fuse_req_t req, fuse_ino_t inode, size_t n, off_t offset,
                    struct fuse_file_info *fi)
{
    (void)inode, (void)fi;
    if (fails(&disk->fail_reads) || !inside((uint64_t)offset, n))
        fuse_reply_err(req, EIO);
    else
        fuse_reply_buf(req, (const char *)disk->bytes + offset, n);
}

static void on_write(fuse_req_t req, fuse_ino_t inode, const char *bytes, size_t n,
                     off_t offset, struct fuse_file_info *fi)
{
    (void)inode, (void)fi;
    if (!inside((uint64_t)offset, n) || fails(&disk->fail_writes) || is_nth()) {
        fuse_reply_err(req, EIO);
        return;
    }
    if (!fails(&disk->lose_writes)) {
        append(DEVICE_WRITE, (uint64_t)offset, n, bytes);
        memcpy(disk->bytes + offset, bytes, n);
    }
    fuse_reply_write(req, n);
}

static void on_fsync(fuse_req_t req, fuse_ino_t inode, int data_only,
                     struct fuse_file_info *fi)
{
    (void)inode, (void)data_only, (void)fi;
    if (fails(&disk->fail_flushes) || is_nth()) {
        fuse_reply_err(req, EIO);
        return;
    }
    append(DEVICE_FLUSH, 0, 0, NULL);
    fuse_reply_err(req, 0);
}

/* A discard, or a write of zeros, of the loop device: zeros here. */
static void on_fallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset,
                         off_t n, struct fuse_file_info *fi)
{
    (void)inode, (void)fi;
    if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) ||
        !inside((uint64_t)offset, (uint64_t)n)) {
        fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    append(DEVICE_ZERO, (uint64_t)offset, (uint64_t)n, NULL);
    memset(disk->bytes + offset, 0, (size_t)n);
    fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops ops = {
    .lookup = on_lookup,
    .getattr = on_getattr,
    .open = on_open,
    .read = on_read,
    .write = on_write,
    .fsync = on_fsync,
    .fallocate = on_fallocate,
};

/* ---- the server ---- */

/* Takes all that is waiting before it answers any. */
static void serve(struct fuse_session *se)
{
    enum { MOST = 32 };
    static struct fuse_buf waiting[MOST];
    struct pollfd more = {.fd = fuse_session_fd(se), .events = POLLIN};
    while (!fuse_session_exited(se)) {
        int n = 0;
        do {
            int got = fuse_session_receive_buf(se, &waiting[n]);
            if (got == -EINTR)
                continue;
            if (got <= 0)
                return;
            n++;
        } while (n < MOST && poll(&more, 1, 0) > 0);
        batch++;
        for (int i = 0; i < n; i++)
            fuse_session_process_buf(se, &waiting[i]);
    }
}

/* It tells of every unmount that is quicker than it. */
static void say_nothing(enum fuse_log_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
}

void device_serve(struct device *d, const char *dir)
{
    char name[] = "tamis-disk", *argv[] = {name, NULL};
    struct fuse_args args = {.argc = 1, .argv = argv};
    struct fuse_session *se = fuse_session_new(&args, &ops, sizeof ops, NULL);
    if (!se || fuse_session_mount(se, dir) != 0)
        host_fail("cannot mount a FUSE file system at %s", dir);
    pid_t pid = process_start(0);
    if (pid == 0) {
        signal(SIGINT, SIG_IGN);
        fuse_set_log_func(say_nothing);
        disk = d;
        serve(se);
        _exit(0);
    }
    d->server = pid;
    close(fuse_session_fd(se));
}

void device_stop(struct device *d, const char *dir)
{
    int status;
    host_unmount(dir);
    if (waitpid(d->server, &status, 0) != d->server || status != 0)
        host_fail("the disk's process failed (status %d)", status);
}

/* ---- shared memory ---- */

struct device *device_create(const struct host_made *made)
{
    struct device *d = memory_shared(sizeof *d);
    d->n_bytes = made->n_pages * HOST_PAGE;
    d->bytes = memory_shared(d->n_bytes);
    d->data = memory_shared(DEVICE_MAX_DATA);
    for (size_t p = 0; p < made->n_pages; p++)
        if (made->used[p])
            memcpy(d->bytes + p * HOST_PAGE, made->bytes + p * HOST_PAGE, HOST_PAGE);
    return d;
}

void device_free(struct device *d)
{
    munmap(d->data, DEVICE_MAX_DATA);
    munmap(d->bytes, (size_t)d->n_bytes);
    munmap(d, sizeof *d);
}

uint64_t device_durable(const struct device *d, uint64_t cut)
{
    uint64_t i = cut;
    while (i > 0 && d->entry[i - 1].kind != DEVICE_FLUSH)
        i--;
    if (i == 0)
        return 0;
    uint32_t of_flush = d->entry[i - 1].batch;
    while (i > 0 && d->entry[i - 1].batch == of_flush)
        i--;
    return i;
}
