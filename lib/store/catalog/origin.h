/* Is the store that the path names still the one that is open? */
#ifndef TAMIS_STORE_CATALOG_ORIGIN_H
#define TAMIS_STORE_CATALOG_ORIGIN_H

#include "lib/error.h"
#include "lib/io/io.h"

struct origin_file {
    _Atomic int fd; /* set last, perhaps while others compare; keeps the inode from
                       being reused; -1: no such file */
    uint64_t device, inode;
    char *path; /* from origin.at */
};
/* One per open catalog. Snapshots hold it, too, and may outlive the store. */
struct origin {
    atomic_size_t refs;
    struct looks looks;
    _Atomic uint64_t newest; /* a transaction that the file has had */
    int at;                  /* where the paths begin; AT_FDCWD: they are absolute */
    struct origin_file catalog, lock, filters; /* filters' fd is the caller's */
    struct io_guarded_fd
        users;      /* the catalog once more, for the lock that says which */
    bool has_users; /* lock file is used: no forked child keeps it */
};
/* All but origin_new() take NULL, for a catalog without a name yet. */
int origin_new(const char *store_path, int catalog_fd, struct origin **out);
void origin_release(struct origin *o);
/* Before LMDB opens its lock file: ERR_REPLACED if a process uses the catalog with
 * another one. Shows others our lock file until origin_leave(). */
int origin_take_lock_file(struct origin *o, struct tamis_diag *diag);
/* The directory of filters, which stays open as long as the origin. */
int origin_take_filters(struct origin *o, int fd);
void origin_leave(struct origin *o);
/* 0; ERR_REPLACED; an errno if unknown. Takes no lock. */
int origin_check_files(struct origin *o, struct tamis_diag *diag);
/* The same; the file's newest transaction must be in low .. high. */
int origin_check(struct origin *o, uint64_t low, uint64_t high,
                 struct tamis_diag *diag);
int origin_fail(const struct origin *o, struct tamis_diag *diag); /* ERR_REPLACED */
/* ERR_REPLACED: the newest transaction is `newest`, not `known`. */
int origin_fail_newest(struct origin *o, uint64_t newest, uint64_t known,
                       struct tamis_diag *diag);
/* The file has had this transaction, and must not fall below it. */
void origin_note(struct origin *o, uint64_t number);
static inline uint64_t origin_seen(struct origin *o)
{
    return o ? atomic_load(&o->newest) : 0;
}
void origin_look(struct origin *o, uint64_t now);

/* As of the last look: looks_known(). */
static inline enum tamis_reason origin_known(const struct origin *o)
{
    return o ? looks_known(&o->looks) : TAMIS_NO_REASON;
}

/* Looks if due: what is known is at most a second old then. Waits for no thread.
 * Returns the clock, for filters looked at next; 0 without a store. */
static inline uint64_t origin_clock(struct origin *o)
{
    uint64_t now = o ? look_clock() : 0;
    if (o && look_is_due(&o->looks, now))
        origin_look(o, now);
    return now;
}

static inline enum tamis_reason origin_now(struct origin *o)
{
    origin_clock(o);
    return origin_known(o);
}

#endif
