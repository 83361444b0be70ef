/* tamis: a persistent, memory-mapped filter store for storage engines.
 *
 * THE RULE. TAMIS_ABSENT is a proof that a key was never added; everything else is
 * TAMIS_MAYBE, and costs a disk read, never a key. Whatever goes wrong (damage, a
 * lost file, a foreign hash, a NULL object) the answer is MAYBE, with a reason.
 *
 * CONVENTIONS. Functions that can fail return 0, a positive errno, or a negative
 * TAMIS_ERR_*; tamis_strerror() covers all. Where a `struct tamis_diag *` is taken
 * it may be NULL; on failure it says what, which file and which offset. On failure
 * outputs are NULL or zero. Sizes and offsets are in bytes (`_bytes`), counts are
 * `n_`, times are microseconds since 1970. Option structs carry their own size
 * (`.size = sizeof(struct ...)`); NULL options are the defaults; a zero field is
 * its default. Names and keys are bytes: a name 1..255 of them, no NUL; a key any
 * number. Pointers that are passed in are used during the call only, pointers that
 * come out of an object live as long as it. free/close/release take NULL.
 *
 * CONCURRENCY. What may run at once on one object, and in a forked child:
 *
 *   object     threads                        other processes      child of a fork
 *   domain     a value                        -                    usable
 *   builder    one at a time                  its own file         usable, by one side
 *   blocks     probes; adds one at a time     the caller's affair  usable
 *   filter     all; close alone               any, and a writer    usable
 *   writer     adds, commits, info, seal;     one writer a file    TAMIS_ERR_FORKED
 *              close alone
 *   store      all; close alone               any number           TAMIS_ERR_FORKED
 *   repair     one at a time a store          waits for no one: ERR_BUSY
 *   edit       puts; the rest one at a time   commits take turns   TAMIS_ERR_FORKED
 *   snapshot   all; a release a reference     any                  usable
 *
 * "close alone": no other call on the object may run or follow. The library prints
 * nothing; it starts threads (a builder's n_threads, for the time of one call) and
 * installs a signal handler (the guard) only where it is asked to.
 *
 * PROBES WAIT FOR NO ONE. No probe of a filter or snapshot waits for another thread,
 * whatever that one is doing: it may be stalled, of lower priority, or gone. When a
 * growing filter has changed, each thread reads the header for itself; a probe that
 * cannot have the new stages at once answers MAYBE/UNREADABLE. A probe is no
 * cancellation point. A signal handler may probe what the interrupted thread is
 * probing, or any other filter, and finds errno as it was. Two probes allocate memory
 * as malloc() does, and are for handlers only where malloc() is: the first probe of a
 * segment in a process (tamis_snapshot_prepare() makes it ahead), and the first one of
 * a thread in a snapshot that counts (tamis_store_count()). A probe may take 64 KiB of
 * stack, which is more than SIGSTKSZ. siglongjmp() out of a probe leaves no output that
 * says ABSENT and holds up no other probe. It may leave cancellation switched off in
 * its thread. A jump out of opening a file leaks what was opened. A jump out of mapping
 * a filter that has grown leaves a mapping behind until the filter is closed; after 16
 * such jumps the filter follows no further growth, and answers MAYBE/UNREADABLE until
 * it is opened anew. Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) is for no
 * function of this library. tamis_snapshot_current() is no probe: it may wait for a
 * thread that loads the same snapshot.
 *
 * SIGBUS. As with any mapped file, a page that cannot be had (an I/O error, a file cut
 * short by someone else, no space where the file system allocates late) raises SIGBUS
 * in the thread that touches it, reader or writer, and kills the process; nothing that
 * was acknowledged is lost by that. tamis_guard_install() makes it an answer of MAYBE
 * for a reader, and an error for a writer. */
#ifndef TAMIS_H
#define TAMIS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

enum { TAMIS_UUID_BYTES = 16, TAMIS_NAME_MAX = 255, TAMIS_BINDING_MAX = 64 };

/* ---- answers ---------------------------------------------------------------- */

enum tamis_answer { TAMIS_MAYBE = 0, TAMIS_ABSENT = 1 };

/* Why an answer is MAYBE; TAMIS_NO_REASON goes with ABSENT. */
enum tamis_reason {
    TAMIS_NO_REASON = 0,
    TAMIS_HIT,             /* the bits are set: present, or a false positive */
    TAMIS_DAMAGED,         /* a page failed its check; it counts as all ones */
    TAMIS_UNKNOWN_SEGMENT, /* nothing of that name in this snapshot */
    TAMIS_NO_FILTER,       /* a registered segment without a filter */
    TAMIS_FILE_LOST,       /* the filter's file is missing */
    TAMIS_BEHIND,          /* the watermark is below the one required */
    TAMIS_MISMATCH,        /* another segment, store, seed or hash than meant; or a
                            * file of the open store or filter was replaced */
    TAMIS_UNREADABLE       /* newer format, damaged header, I/O error; or it has just
                            * grown, and this probe could not map it anew */
};

const char *tamis_reason_name(enum tamis_reason reason); /* "HIT", ... */

/* ---- errors ----------------------------------------------------------------- */

enum tamis_error {
    TAMIS_ERR_NOT_TAMIS = -1,  /* not a filter, or not a store */
    TAMIS_ERR_VERSION = -2,    /* a newer format or an unknown feature */
    TAMIS_ERR_DAMAGED = -3,    /* checksum, range or length wrong */
    TAMIS_ERR_MISMATCH = -4,   /* another domain, store, name, binding or copy */
    TAMIS_ERR_NO_SEGMENT = -5, /* no such segment */
    TAMIS_ERR_NO_STORE = -6,   /* no such store */
    TAMIS_ERR_EXISTS = -7,     /* the segment, file or store exists already */
    TAMIS_ERR_BUSY = -8,       /* another writer has it; the diag says which */
    TAMIS_ERR_SEALED = -9,     /* the filter is sealed for ever */
    TAMIS_ERR_POISONED = -10,  /* a sync failed, or a page was lost: reopen, replay */
    TAMIS_ERR_FORKED = -11,    /* opened before fork(), used in the child */
    TAMIS_ERR_RANGE = -12,     /* an argument outside its documented range */
    TAMIS_ERR_TOO_LARGE = -13, /* the filter would exceed 2^32 blocks a lane */
    TAMIS_ERR_NETWORK = -14,   /* writing, or reading an open filter, over a network */
    TAMIS_ERR_READ_ONLY = -15, /* the store could be opened for reading only */
    TAMIS_ERR_CATALOG = -16,   /* LMDB failed; the diag has its words */
    TAMIS_ERR_UNFIT = -17,   /* filters that cannot be combined so; the diag says why */
    TAMIS_ERR_REPLACED = -18 /* a file of the store, or of the growing filter, was
                                replaced while it was open: close every handle of it,
                                then open it again */
};

/* A static text for 0, any errno and any TAMIS_ERR_*. Thread-safe. */
const char *tamis_strerror(int error);
#define TAMIS_VERSION "0.1.0"
const char *tamis_version(void); /* of the library that runs: "0.1.0" */

struct tamis_diag {
    int code;        /* what the call returned */
    int os_errno;    /* the errno behind it, or 0 */
    uint64_t offset; /* byte of `file` that was at fault, if has_offset */
    int has_offset;
    char what[160]; /* one line, no newline */
    char file[256]; /* path as far as known; cut with "..." in front */
};

/* ---- the guard against SIGBUS -------------------------------------------------- */

/* Installs a handler of SIGBUS for the process, for mappings that exist and mappings to
 * come. A page of a filter's mapping that cannot be had is from then on, for a reader,
 * all ones for as long as it has the file mapped so, and MAYBE: tamis_filter_verify()
 * counts it as damaged, and opening anew looks afresh. For a writer it is the end: adds
 * in flight, adds, commits and seals get ERR_POISONED, the file stays unclean with the
 * watermark of the last commit; reopen and replay. To open a filter for writing whose
 * pages cannot be had fails with EIO.
 *
 * What is in a file that somebody else writes to, or cuts in the middle of a page
 * (whose rest is zeros then), is not the guard's affair: see TAMIS_CHECK_STRICT. Of a
 * mapping that loses many pages ever larger parts are given up at a time, whole or not,
 * lest the kernel's limit of mappings kill the process after all.
 *
 * Any other SIGBUS (a page of LMDB's mapping of the catalog, one of the host's, a
 * signal that was sent) is passed on to the handler that was there before, with its
 * siginfo, context and mask, or to the default action. A handler that is installed
 * later must pass on to ours likewise. Ours keeps errno, runs on the alternate stack if
 * there is one, and needs SIGBUS unblocked in the threads that use filters.
 *
 * Each install wants its remove; the last one puts back what was there before, unless
 * a later handler is in place: then ours stays beneath it and passes everything on. If
 * one is in place at an install, whether it passes on or not, ours is put above it too;
 * after eight of them that is EAGAIN.
 * Pages that were replaced stay so. Any thread may call them at any time; both are
 * inherited by forked children. Errors: an errno, and nothing is installed then. */
int tamis_guard_install(struct tamis_diag *diag);
void tamis_guard_remove(void);

/* ---- hash domains and keys ---------------------------------------------------- */

/* Hash function and seed. Keys hashed in one domain mean nothing in another; the
 * tag stands for both and travels with every hash. */
struct tamis_domain {
    uint32_t hash_id; /* 1: XXH3-64 with seed */
    uint64_t seed;
    uint64_t tag;
};

/* hash_id 1; ERR_RANGE for others. */
int tamis_domain_init(struct tamis_domain *domain, uint32_t hash_id, uint64_t seed);
/* A domain with a random seed from the kernel. */
int tamis_domain_random(struct tamis_domain *domain);

/* A key with its hash, or a hash alone (bytes NULL: key ranges then say nothing).
 * Does not own the bytes. A zeroed one gets MAYBE/MISMATCH everywhere. */
struct tamis_key {
    const void *bytes;
    size_t n_bytes;
    uint64_t hash;
    uint64_t tag;
};

struct tamis_key tamis_key_of(const struct tamis_domain *domain, const void *bytes,
                              size_t n_bytes);
struct tamis_key tamis_key_of_hash(uint64_t tag, uint64_t hash);
/* tamis_key_of() of n keys, which have their bytes and n_bytes: fills hash and tag. One
 * whose bytes are NULL stays as it is; a key of no bytes has some pointer. */
void tamis_keys_hash(const struct tamis_domain *domain, struct tamis_key *keys,
                     size_t n);

#include "tamis/tamis_plan.h"
#include "tamis/tamis_blocks.h"
#include "tamis/tamis_filter.h"
#include "tamis/tamis_derive.h"
#include "tamis/tamis_memory.h"
#include "tamis/tamis_fields.h"
#include "tamis/tamis_builder.h"
#include "tamis/tamis_writer.h"
#include "tamis/tamis_store.h"
#include "tamis/tamis_repair.h"
#include "tamis/tamis_edit.h"
#include "tamis/tamis_snapshot.h"
#include "tamis/tamis_stats.h"

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
