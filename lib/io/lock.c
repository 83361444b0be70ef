/* Locks between processes: who holds one, and how long others wait for it (R14). */
#include "lib/io/io.h"

#include <stdio.h>
#include <time.h>

/* An open-file-description lock has no owner that F_OFD_GETLK could report. So a holder
 * locks two bytes. The first byte of a range excludes others. A later byte stands for
 * the holder's process: its place tells a contender who holds the lock. It is locked
 * for reading, which a directory allows, too. The kernel frees both when the holder
 * ends. */
#define LOCK_AT(which) (((off_t)1 << 62) + ((off_t)(which) << 56))
enum { PID_BITS = 22 }; /* the kernel's PID_MAX_LIMIT */

/* Two containers that share a store have processes of one number, so the namespace is
 * part of it. Without /proc they are taken for one. */
int io_process(uint64_t *number)
{
    struct stat st = {.st_ino = 0};
    if (fstatat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) != 0 && errno != ENOENT &&
        errno != ENOTDIR && errno != EACCES)
        return errno;
    *number = (uint64_t)(st.st_ino & UINT32_MAX) << PID_BITS | (uint64_t)getpid();
    return 0;
}

int io_byte_lock(int fd, int how, short type, uint64_t at, uint64_t n, uint64_t *found)
{
    struct flock l = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)n};
    if (fcntl(fd, how, &l) != 0)
        return errno;
    if (found)
        *found = l.l_type == F_UNLCK ? NOT_LOCKED : (uint64_t)l.l_start;
    return 0;
}

int io_is_locked(int fd, enum lock_name which, bool *locked)
{
    uint64_t found = NOT_LOCKED;
    int rc =
        io_byte_lock(fd, F_OFD_GETLK, F_WRLCK, (uint64_t)LOCK_AT(which), 1, &found);
    *locked = found != NOT_LOCKED;
    return rc;
}

/* A process looks up its number once, for a look at /proc costs more than the rest of a
 * lock. After 1024 forks it may keep the wrong one: only messages depend on it. */
int io_tell_process(int fd, enum lock_name which)
{
    enum { NUMBER_BITS = 32 + PID_BITS };
    static _Atomic uint64_t known;
    uint64_t epoch = (uint64_t)io_fork_epoch() << NUMBER_BITS;
    uint64_t number = atomic_load(&known) ^ epoch;
    if (number >> NUMBER_BITS ||
        (number & ((1u << PID_BITS) - 1)) != (uint64_t)getpid()) {
        int rc = io_process(&number);
        if (rc)
            return rc;
        atomic_store(&known, number ^ epoch);
    }
    return io_byte_lock(fd, F_OFD_SETLK, F_RDLCK, (uint64_t)LOCK_AT(which) + 1 + number,
                        1, NULL);
}

const char *io_holder(int fd, enum lock_name which, char text[HOLDER_TEXT_BYTES])
{
    uint64_t from = (uint64_t)LOCK_AT(which) + 1, found = NOT_LOCKED, mine = 0;
    int rc =
        io_byte_lock(fd, F_OFD_GETLK, F_WRLCK, from, (UINT64_C(1) << 56) - 1, &found);
    if (rc || found == NOT_LOCKED || io_process(&mine) != 0)
        return "another process";
    if ((found - from) >> PID_BITS != mine >> PID_BITS)
        return "a process of another pid namespace";
    snprintf(text, HOLDER_TEXT_BYTES, "process %u",
             (unsigned)((found - from) & ((1u << PID_BITS) - 1)));
    return text;
}

int io_lock(int fd, enum lock_name which)
{
    int rc = io_byte_lock(fd, F_OFD_SETLK, F_WRLCK, (uint64_t)LOCK_AT(which), 1, NULL);
    if (rc == EAGAIN || rc == EACCES)
        return TAMIS_ERR_BUSY;
    if (!rc)
        rc = io_tell_process(fd, which);
    if (rc)
        io_unlock(fd, which); /* none that nobody can name */
    return rc;
}

/* Explicitly, not by closing: a copy of the descriptor that a fork made while it was
 * being opened would keep the lock. */
void io_unlock(int fd, enum lock_name which)
{
    io_byte_lock(fd, F_OFD_SETLK, F_UNLCK, (uint64_t)LOCK_AT(which), UINT64_C(1) << 56,
                 NULL);
}

/* Each pause is an eighth of the time waited so far, so that a wait is never longer
 * than its cause by much more than that. */
bool io_wait_more(struct io_wait *w, const struct tamis_diag *whom)
{
    enum { SHORTEST_NS = 50000, LONGEST_NS = 10000000 };
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (!w->begun)
        w->begun = now;
    uint64_t waited = now - w->begun, ms = waited / 1000000, pause = waited / 8;
    if (w->timeout_ms < 0 || (w->timeout_ms && ms >= (uint64_t)w->timeout_ms) ||
        (w->waiting && w->waiting(w->ctx, ms, whom)))
        return false;
    pause = pause < SHORTEST_NS ? SHORTEST_NS : pause;
    t = (struct timespec){.tv_nsec = (long)(pause < LONGEST_NS ? pause : LONGEST_NS)};
    nanosleep(&t, NULL);
    return true;
}
