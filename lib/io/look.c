/* Is a file that is open still the one that its name names?
 *
 * A file can be replaced while it is open: a copy takes its name. A writer that comes
 * then goes on in the copy, and who has the file open never sees its keys. So the name
 * is looked at again, and device and inode are compared. Writers look at each commit;
 * readers look when a coarse clock says that the last look is old. The descriptor stays
 * open, so that the kernel gives the inode number to no other file.
 *
 * A name that is gone is no fault: nobody can open the file and go on in it. */
#include "lib/io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* After half of the second that a look is valid one thread looks again. */
static const uint64_t LOOK_EVERY = LOOK_VALID / 2;

/* ---- when to look ---- */

uint64_t look_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* No thread notes a time that is so far ahead: so the clock was set back. The clock
 * changes in a child with its own time namespace, and in a restored process. */
static bool too_far_ahead(uint64_t at, uint64_t now)
{
    return at > now && at - now > 2 * LOOK_VALID;
}

/* A time that is too early costs a look, and no key. So a thread that was held up for
 * seconds, and takes the others' time for too far ahead, may put it back. */
static void move_to(_Atomic uint64_t *at, uint64_t v, uint64_t now)
{
    uint64_t seen = atomic_load(at);
    while ((seen < v || too_far_ahead(seen, now)) &&
           !atomic_compare_exchange_weak(at, &seen, v))
        ;
}

/* One thread claims the look by moving look_after, never beyond what is still valid,
 * and the others go on with what is known. When the known result is too old, every
 * thread looks for itself, for the claimant may never come back. So no thread waits. */
bool look_is_mine(struct looks *l, uint64_t now)
{
    uint64_t due = atomic_load(&l->look_after), until = atomic_load(&l->valid_until);
    if (now < until && !too_far_ahead(until, now)) {
        uint64_t next = now + LOOK_EVERY < until ? now + LOOK_EVERY : until;
        if (!look_is_due_at(due, now) ||
            !atomic_compare_exchange_strong(&l->look_after, &due, next))
            return false;
    }
    return looks_known(l) != TAMIS_MISMATCH;
}

void look_replaced(struct looks *l)
{
    atomic_store(&l->told, TAMIS_MISMATCH);
}

/* One word has the reason and its time: a thread that was held up since before a file
 * was replaced must not clear what a later look has told. */
static void tell(struct looks *l, uint64_t now, enum tamis_reason why)
{
    uint64_t seen = atomic_load(&l->told), began = now & ~UINT64_C(0xff);
    do {
        uint64_t when = seen & ~UINT64_C(0xff);
        bool later = when > began && !too_far_ahead(when, now);
        if (later || (seen & 0xff) == TAMIS_MISMATCH)
            return;
    } while (!atomic_compare_exchange_weak(&l->told, &seen, began | (uint64_t)why));
}

/* After a look that told nothing, or too little, the next probe looks again. */
void look_note(struct looks *l, uint64_t now, enum tamis_reason why)
{
    if (why == TAMIS_MISMATCH)
        look_replaced(l);
    else if (why == TAMIS_UNREADABLE || looks_known(l) == TAMIS_UNREADABLE)
        tell(l, now, why);
    if (why != TAMIS_NO_REASON || looks_known(l) == TAMIS_UNREADABLE) {
        atomic_store(&l->look_after, 0);
        return;
    }
    move_to(&l->valid_until, now + LOOK_VALID, now);
    move_to(&l->look_after, now + LOOK_EVERY, now);
}

/* ---- names ---- */

int named_in(int at, const char *dir, const char *name, struct named **out)
{
    size_t n = strlen(name) + 1, n_dir = dir ? strlen(dir) + 1 : 0;
    struct named *d = calloc(1, sizeof *d + n_dir + n);
    *out = NULL;
    if (!d)
        return ENOMEM;
    d->at = at == AT_FDCWD ? AT_FDCWD : fcntl(at, F_DUPFD_CLOEXEC, 0);
    if (d->at == -1) {
        int err = errno;
        free(d);
        return err;
    }
    if (dir)
        snprintf(d->path, n_dir + 1, "%s/", dir);
    memcpy(d->path + n_dir, name, n);
    *out = d;
    return 0;
}

/* From the working directory as it is now: where it has no path, or a path that this
 * process may not use. */
static int named_here(const char *path, struct named **out)
{
    int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return errno;
    int err = named_in(at, NULL, path, out);
    close(at);
    return err;
}

/* The path of the working directory. NULL: no path leads there, or a mount hides the
 * directory. */
static char *path_here(void)
{
    struct stat path, here;
    char *dir = realpath(".", NULL);
    if (dir && fstatat(AT_FDCWD, dir, &path, 0) == 0 &&
        fstatat(AT_FDCWD, ".", &here, 0) == 0 &&
        io_is_file(&path, here.st_dev, here.st_ino))
        return dir;
    free(dir);
    return NULL;
}

/* The working directory may change, so the path is made absolute. Links in it are left:
 * a later open follows them to where they lead then. */
static int name_of(const char *path, int fd, struct named **out)
{
    if (path[0] == '/')
        return named_in(AT_FDCWD, NULL, path, out);
    char *dir = path_here();
    int err = dir ? named_in(AT_FDCWD, dir, path, out) : 0;
    free(dir);
    if (err || (dir && named_check(*out, fd) <= 0))
        return err;
    if (dir)
        named_free(*out);
    return named_here(path, out);
}

int named_path(const char *path, int fd, struct named **out)
{
    struct stat st;
    int err = name_of(path, fd, out);
    if (!err)
        (*out)->in_directory = fstat(fd, &st) == 0 && st.st_nlink > 0;
    return err;
}

void named_free(struct named *n)
{
    if (n && n->at >= 0)
        close(n->at);
    free(n);
}

int named_check(const struct named *n, int fd)
{
    struct stat name, file;
    if (fstatat(n->at, n->path, &name, 0) != 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    if (fstat(fd, &file) != 0)
        return errno;
    if (!io_is_file(&name, file.st_dev, file.st_ino))
        return TAMIS_ERR_REPLACED;
    /* The file is being removed at this moment. Or a mount keeps it under this name,
     * and its place in the directory that it was mounted from is unknown. */
    return n->in_directory && name.st_nlink == 0 ? ESTALE : 0;
}

enum tamis_reason named_look(struct named *n, int fd, uint64_t now)
{
    int err = named_check(n, fd);
    enum tamis_reason why = err == TAMIS_ERR_REPLACED ? TAMIS_MISMATCH
                            : err                     ? TAMIS_UNREADABLE
                                                      : TAMIS_NO_REASON;
    look_note(&n->looks, now, why);
    return why;
}

/* A probe may run in a signal handler, and is no cancellation point. */
void named_look_if_due(struct named *n, int fd, uint64_t now)
{
    int saved = errno, cancel = io_hold_cancel();
    if (look_is_mine(&n->looks, now))
        named_look(n, fd, now);
    io_let_cancel(cancel);
    errno = saved;
}
