/* tamis: a persistent, memory-mapped filter store for storage engines.
 *
 * THE RULE. TAMIS_ABSENT proves that a key was never added. Every other answer is
 * TAMIS_MAYBE, with a reason, and costs a disk read, never a key: damage, a lost file,
 * a foreign hash and a NULL object are MAYBE.
 *
 * BEGIN WITH THESE. An engine that has a store, then one that has its own files alone:
 *
 *   tamis_store_open()         a store; creates it, if asked
 *   tamis_edit_begin()         begins a change of the list of segments, all or nothing
 *   tamis_edit_builder()       begins the filter of a new segment
 *   tamis_builder_add_key()    adds a key of that segment
 *   tamis_edit_put()           writes the filter; tamis_edit_drop() drops a segment
 *   tamis_edit_commit()        makes all of it durable, and the list
 *   tamis_snapshot_current()   the list as of now
 *   tamis_snapshot_find()      finds a segment by its name
 *   tamis_key_of()             hashes a key
 *   tamis_snapshot_probe()     may the segment have the key?
 *   tamis_snapshot_release()   gives the list back
 *
 *   tamis_builder_create()     begins a filter; then tamis_builder_add_key()
 *   tamis_builder_finish()     writes it, to a file or into one
 *   tamis_filter_open()        opens it
 *   tamis_filter_probe()       may it have the key? With tamis_key_of()
 *
 * WORDS. Engines use some of these for other things:
 *
 *   snapshot   the list of segments as of one moment, not a state of the keys
 *   target     a segment to ask, with the watermark that the caller requires of it
 *   stage      a part of fixed size; a growing filter appends one when the last is full
 *   lane       one of 1 to 4 rows of blocks in a stage; a key has a block in each lane
 *   block      64 bytes of bits, a cache line, not a block of an SSTable
 *   column     the bits of one segment in a pack of many, not a column family
 *   watermark  the engine's log position: all keys up to it are in the filter
 *
 * CONVENTIONS. Functions that can fail return 0, a positive errno, or a negative
 * TAMIS_ERR_* (below: ERR_*); tamis_strerror() has a text for each. On failure outputs
 * are NULL or zero, unless the function says otherwise. A `struct tamis_diag *`, which
 * may be NULL, has the fault, its file and its offset. Adds, hashes, plans and look-ups
 * in memory have none: they are called often, and each fails only for the reasons that
 * its text names. Sizes and offsets are in bytes (`_bytes`), counts are `n_`, times are
 * microseconds since 1970. An option struct says its own size, `.size = sizeof opt`;
 * NULL options and zero fields are defaults. A name has 1..255 bytes and no NUL; a key
 * has any number of bytes. Arguments are used during the call only. A pointer from an
 * object lives as long as the object. free, close, abort and release accept NULL; other
 * arguments may be NULL only where their text says so.
 *
 * CONCURRENCY. Calls that may run at once on one object, and in a forked child:
 *
 *   object     threads                        other processes      child of a fork
 *   domain     a value                        -                    usable
 *   builder    one at a time                  its own file         usable, by one side
 *   blocks     probes; adds one at a time     the caller's affair  usable
 *   filter     all; close alone               any, and a writer    usable
 *   cursor     one at a time                  any                  usable
 *   writer     adds, commits, info, seal;     one writer a file    TAMIS_ERR_FORKED
 *              close alone
 *   store      all; close alone               any number           TAMIS_ERR_FORKED
 *   repair     one at a time a store          ERR_BUSY, no waiting
 *   edit       puts; the rest one at a time   commits take turns   TAMIS_ERR_FORKED
 *   snapshot   all; a release a reference     any                  usable
 *
 * "close alone": no other call on the object may run or follow. The library prints
 * nothing. It starts threads only for n_threads of a builder or of packing, and only
 * during a call. It installs a signal handler only in tamis_guard_install().
 *
 * PROBES WAIT FOR NO ONE. A probe never waits for another thread, even one that is
 * stalled, of lower priority, or gone. When a growing filter changes, each thread reads
 * the header for itself; a probe that cannot map the new stages at once answers
 * MAYBE/UNREADABLE. A probe may take 80 KiB of stack, more than SIGSTKSZ. A snapshot
 * that was asked a list of 512 or more in no order may keep 16 MiB until it is freed.
 * tamis_snapshot_current() may wait for a thread that loads the same snapshot.
 *
 * SIGNALS. A signal handler may probe any filter, also the one that the interrupted
 * thread is probing; errno is preserved. Two probes call malloc(): the first one of a
 * segment in a process, which tamis_snapshot_prepare() makes ahead, and a thread's
 * first one in a snapshot that counts (tamis_store_count()). So a handler must not be
 * the first to make them where malloc() is not safe. siglongjmp() out of a probe leaves
 * no output that says ABSENT and delays no other probe. A jump out of opening a file
 * leaks what was opened; out of a long list its rows; out of reading an unmapped filter
 * a descriptor until the filter is closed; out of mapping growth a mapping until then,
 * and after 16 of these the filter answers MAYBE/UNREADABLE until it is opened anew. A
 * jump out of any call may leave cancellation disabled in its thread.
 *
 * CANCELLATION. A probe is no cancellation point. Another call that is cancelled leaves
 * no lock of its own behind, in memory or on a file. It may leak memory, descriptors
 * and temporary files. No function supports asynchronous cancellation
 * (PTHREAD_CANCEL_ASYNCHRONOUS).
 *
 * SIGBUS. After an I/O error, in a truncated file, or where the file system allocates
 * late and has no space, the thread that touches a mapped page gets SIGBUS, which kills
 * the process. Nothing acknowledged is lost. With tamis_guard_install() a reader gets
 * MAYBE and a writer an error. */
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
    TAMIS_UNKNOWN_SEGMENT, /* this snapshot has no segment of that name */
    TAMIS_NO_FILTER,       /* a registered segment without a filter */
    TAMIS_FILE_LOST,       /* the filter's file is missing */
    TAMIS_BEHIND,          /* the watermark is below the one required */
    TAMIS_MISMATCH,  /* another segment, store, seed, hash; an open file was replaced */
    TAMIS_UNREADABLE /* newer format, damaged header, I/O error; unmapped growth */
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
    TAMIS_ERR_BUSY = -8,       /* in use; the diag says by whom or why */
    TAMIS_ERR_SEALED = -9,     /* the filter is sealed; an add: or is being sealed */
    TAMIS_ERR_POISONED = -10,  /* a sync failed, or a page was lost: reopen, replay */
    TAMIS_ERR_FORKED = -11,    /* opened before fork(), used in the child */
    TAMIS_ERR_RANGE = -12,     /* an argument outside its documented range */
    TAMIS_ERR_TOO_LARGE = -13, /* 2^32 blocks a lane, or 2^28 segments, exceeded */
    TAMIS_ERR_NETWORK = -14,   /* writing, or reading an open filter, over a network */
    TAMIS_ERR_READ_ONLY = -15, /* the store could be opened for reading only */
    TAMIS_ERR_CATALOG = -16,   /* LMDB failed; the diag has its words */
    TAMIS_ERR_UNFIT = -17, /* filters that cannot be combined so; the diag says why */
    TAMIS_ERR_REPLACED = -18, /* an open file was replaced: close all handles, reopen */
    TAMIS_ERR_THREAD = -19    /* another thread has the writer to itself */
};

/* Returns a static text for 0, any errno and any TAMIS_ERR_*. Thread-safe. */
const char *tamis_strerror(int error);
#define TAMIS_VERSION "0.3.0"
const char *tamis_version(void); /* of the library that runs: "0.3.0" */

struct tamis_diag {
    int code;        /* the result of the call */
    int os_errno;    /* the errno behind it, or 0 */
    uint64_t offset; /* of the faulty byte in `file`, if has_offset */
    int has_offset;
    char what[160]; /* one line, no newline */
    char file[256]; /* path as far as known; a long one begins with "..." */
};

/* ---- waiting for other processes ------------------------------------------------
 *
 * A call that may wait for another process has `timeout_ms` in its options: 0: it waits
 * without limit; N > 0: up to N milliseconds each time; below 0: not at all. Then it
 * returns ERR_BUSY, and has changed nothing; but a seal stands, and so does what repair
 * reports. The diag says "process 123", or "a process of another pid namespace". */

/* Is called in the calling thread while a call waits, many times a second. whom->what
 * says for whom it waits. Non-zero ends the wait with ERR_BUSY. It must not call tamis
 * for this store, nor jump out. */
typedef int tamis_waiting_fn(void *ctx, uint64_t waited_ms,
                             const struct tamis_diag *whom);

/* ---- the guard against SIGBUS -------------------------------------------------- */

/* Installs a handler of SIGBUS for present and future mappings of filters. For a reader
 * an unavailable page is all ones, so MAYBE, while that mapping lasts;
 * tamis_filter_verify() counts it as damaged, and opening anew tries the page again. A
 * writer ends: adds, also those in flight, commits and seals get ERR_POISONED. The file
 * stays unclean with the watermark of the last commit; reopen and replay. Opening for
 * writing fails with EIO if a page is unavailable.
 *
 * Changed contents are not covered: somebody writes to a file, or truncates it within a
 * page, the rest of which is then zeros. See TAMIS_CHECK_STRICT. If a mapping loses
 * many pages, larger and larger parts of it become ones, intact pages included, because
 * the kernel limits the number of mappings.
 *
 * Any other SIGBUS (LMDB's mapping, the host's, a sent signal) goes to the previous
 * handler with its siginfo, context and mask, or to the default action. A later handler
 * must pass signals on to the guard likewise. While the previous handler runs, uc_link
 * of the context is a mark of the guard's. The guard preserves errno and uses the
 * alternate stack if there is one. Threads that use filters must not block SIGBUS.
 *
 * Each install needs a remove. The last remove restores the previous handler. If a
 * later handler is in place then, the guard stays beneath it and passes everything on.
 * An install above a later handler puts the guard on top again, whether that handler
 * passes signals on or not; after eight of these it returns EAGAIN. Replaced pages stay
 * replaced. Any thread may call both functions at any time. Forked children inherit the
 * guard and the replaced pages. If it returns an errno, nothing is installed. */
int tamis_guard_install(struct tamis_diag *diag);
void tamis_guard_remove(void);

/* ---- hash domains and keys ---------------------------------------------------- */

/* A hash function and a seed. Hashes of one domain mean nothing in another. The tag
 * stands for both and travels with every hash. */
struct tamis_domain {
    uint32_t hash_id; /* 1: XXH3-64 with seed */
    uint64_t seed;
    uint64_t tag;
};

/* Sets a domain. ERR_RANGE unless hash_id is 1. */
int tamis_domain_init(struct tamis_domain *domain, uint32_t hash_id, uint64_t seed);
/* Sets a domain with a random seed, so that nobody can choose keys that all pass. Never
 * fails. */
int tamis_domain_random(struct tamis_domain *domain);

/* A key with its hash, or a hash alone (`.hash = h, .tag = domain.tag`): its bytes are
 * NULL, and key ranges say nothing of it. The struct does not own the bytes. A zeroed
 * key gets MAYBE/MISMATCH everywhere. */
struct tamis_key {
    const void *bytes;
    size_t n_bytes;
    uint64_t hash;
    uint64_t tag;
};

/* Hashes a key, which may be empty. `domain` must not be NULL; if it is not set, hash
 * and tag are 0. Any thread. */
struct tamis_key tamis_key_of(const struct tamis_domain *domain, const void *bytes,
                              size_t n_bytes);
/* Hashes n keys that lie one behind the other: key i is the bytes of `data` from
 * offsets[i] to offsets[i + 1]. So there are n + 1 offsets. ERR_RANGE: an offset is
 * below the one before, or the domain is not set; then all hashes are 0. NULL is not
 * allowed. Any thread. */
int tamis_domain_hash(const struct tamis_domain *domain, const void *data,
                      const uint64_t *offsets, size_t n, uint64_t *hashes);

/* ---- the identity of a filter ------------------------------------------------- */

/* A filter's file says whose it is. NULL: it does not say; as an expectation: any. */
struct tamis_identity {
    const void *name; /* of the segment */
    size_t name_bytes;
    const void *binding; /* identifies the engine's own file; 0..64 bytes */
    size_t binding_bytes;
    const uint8_t *store_uuid; /* 16 bytes */
};

#include "tamis/tamis_plan.h"
#include "tamis/tamis_blocks.h"
#include "tamis/tamis_filter.h"
#include "tamis/tamis_list.h"
#include "tamis/tamis_derive.h"
#include "tamis/tamis_memory.h"
#include "tamis/tamis_fields.h"
#include "tamis/tamis_builder.h"
#include "tamis/tamis_merge.h"
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
