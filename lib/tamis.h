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

/* ---- planning ----------------------------------------------------------------- */

struct tamis_plan {
    uint32_t lanes, words;
    uint64_t n_blocks;   /* per lane */
    uint64_t bits_bytes; /* of the bit arrays */
    uint64_t file_bytes; /* header, bits and digests, as built */
    uint64_t n_keys;
    double error;        /* expected with n_keys in it */
    double bits_per_key; /* of the bit arrays */
};

/* The smallest filter for n_keys at `error` (1e-8 .. 0.5). */
int tamis_plan_filter(uint64_t n_keys, double error, struct tamis_plan *plan);
/* The best filter of at most bits_bytes of bits: given keys, its error; given an
 * error (n_keys 0), how many keys it holds. */
int tamis_plan_within(uint64_t bits_bytes, uint64_t n_keys, double error,
                      struct tamis_plan *plan);
/* The expected error of a stage with n_keys in it. */
double tamis_plan_error(uint32_t lanes, uint32_t words, uint64_t n_blocks,
                        uint64_t n_keys);

/* The growth of a filter: stage i holds first_capacity * factor^i keys at error
 * error * (1 - tightening) * tightening^i. */
struct tamis_growth {
    double error;            /* P, 1e-8 .. 0.5; default 0.01 */
    double factor;           /* s, 1.25 .. 16; default 2 */
    double tightening;       /* r, 0.5 .. 0.95; default 0.85 */
    uint64_t first_capacity; /* n0, 1 .. 2^32; default 65536 */
};

/* Stage 0 .. 29 of such a filter, full. */
int tamis_plan_stage(const struct tamis_growth *growth, uint32_t stage,
                     struct tamis_plan *plan);

/* The layout of the literature: k slices of m bits, n = M (ln 2)^2 / ln(1/P). */
struct tamis_classic {
    uint32_t k;
    uint64_t m;
    uint64_t n;       /* by the formula */
    uint64_t n_exact; /* keys at which k whole slices of m bits reach the error */
};
int tamis_plan_classic(uint64_t n_bytes, double error, struct tamis_classic *out);
/* Stage 0 .. of the literature's own growing filter, whose first slices have first_m
 * bits: of the growth its error, factor (from 1 on) and tightening count, and all must
 * be given. n is when its slices are half full. ERR_TOO_LARGE for slices of 2^53 bits
 * and more. */
int tamis_plan_classic_stage(const struct tamis_growth *growth, uint64_t first_m,
                             uint32_t stage, struct tamis_classic *out);

/* How much memory each filter of a store should have, so that lookups of absent keys
 * waste as few reads as may be. A run is what a lookup reads at most one segment of: a
 * segment, or several whose key ranges are disjoint (a level of an LSM tree). A lookup
 * of an absent key asks every run, and wastes a read with the error of the filter that
 * it meets there: in a run of several the larger ones more often, by their keys. */
struct tamis_plan_segment {
    uint64_t n_keys; /* 0 .. 2^48 */
    size_t run; /* 0 .. n - 1, in any order; those that nobody is of do not count */
};
struct tamis_plan_share {
    double error;           /* to build it with, 1e-8 .. 0.5; 1: it gets no filter */
    double ideal_error;     /* of filters of any size: in proportion to its run */
    struct tamis_plan plan; /* what tamis_plan_filter() says of it; zero: no filter */
};
/* All filters together, as built. */
struct tamis_plan_total {
    uint64_t n_filters;
    uint64_t file_bytes;
    double reads;       /* expected, that a lookup of an absent key wastes */
    double ideal_reads; /* were there filters of any size for the memory allowed */
};
struct tamis_plan_summary {
    uint64_t n_runs; /* the reads that it wastes with no filters */
    struct tamis_plan_total best;
    struct tamis_plan_total uniform; /* one error for all filters, in as much memory */
    double uniform_error;            /* 1: even 0.5 takes more, so there are none */
};

/* The fewest wasted reads with filters of at most `bytes` in all, as files (header,
 * bits and digests). Errors are in proportion to the keys of the run, as far as whole
 * pages allow, but 1e-8 and more; bytes that buy nothing more are left over. shares has
 * room for n; summary (may be NULL) compares it with one error for all. It reads
 * nothing and holds nothing; any thread may call it. A hundred thousand sizes that are
 * all different take some seconds. ERR_RANGE, ENOMEM: shares and summary are zero; but
 * of more segments than memory has room for, shares are left alone. */
int tamis_plan_store(const struct tamis_plan_segment *segments, size_t n,
                     uint64_t bytes, struct tamis_plan_share *shares,
                     struct tamis_plan_summary *summary);
/* The same the other way: the least memory with which at most so many reads are wasted.
 * The summary compares it with one error for all in that memory. ERR_RANGE also if
 * filters of 1e-8 waste more. */
int tamis_plan_store_reads(const struct tamis_plan_segment *segments, size_t n,
                           double reads, struct tamis_plan_share *shares,
                           struct tamis_plan_summary *summary);

/* ---- blocks: tiny filters in the caller's own memory -------------------------------
 *
 * The bits of one stage (SPEC.md section 4) and nothing else, for an engine that keeps
 * a filter of some dozen keys inside each of its own blocks, with its own header and
 * its own checksum: nothing is checked here but lengths. The memory is the caller's, of
 * any alignment; it must stay as it is while it is probed, and is to be zero before the
 * first add. No allocation, no system call. */

struct tamis_blocks {
    uint32_t lanes, words; /* 1 .. 4; 1 .. 8 */
    uint64_t n_blocks;     /* per lane, 1 .. 2^32, of 64 bytes each */
    uint64_t tag;          /* of the domain in which the keys are hashed */
};

/* The smallest blocks for n_keys at `error` (1e-8 .. 0.5), any number of them: as
 * tamis_plan_filter(), without whole pages; file_bytes is 0. Of as many bytes the
 * geometry with the least error, which may be far below the one asked for: at 1% one
 * block of 64 bytes is enough for up to 53 keys. It takes some 10 microseconds: engines
 * that make many of them remember what it said. ERR_RANGE, ERR_TOO_LARGE. */
int tamis_blocks_plan(uint64_t n_keys, double error, struct tamis_plan *plan);
/* 64 * lanes * n_blocks; 0 if that is no geometry. */
uint64_t tamis_blocks_bytes(const struct tamis_blocks *blocks);
/* Sets the bits of n keys in n_bytes of memory. One at a time. Nothing is set, and the
 * result is ERR_RANGE, unless n_bytes is just what tamis_blocks_bytes() says, or
 * ERR_MISMATCH if one of the keys was hashed in another domain. */
int tamis_blocks_add(const struct tamis_blocks *blocks, void *bits, size_t n_bytes,
                     const struct tamis_key *keys, size_t n);
/* May this key be in them? ABSENT only if a bit of it is clear, the length is right
 * and the key of the same domain; else MAYBE: UNREADABLE of another length or no
 * geometry, MISMATCH, HIT (*why may be NULL). Any number of threads. */
enum tamis_answer tamis_blocks_probe(const struct tamis_blocks *blocks,
                                     const void *bits, size_t n_bytes,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why);

/* ---- filter: open one and ask ---------------------------------------------------- */

struct tamis_filter;

enum tamis_check {
    TAMIS_CHECK_LAZY = 0, /* each page before its first use; default */
    TAMIS_CHECK_FULL,     /* every page while opening */
    TAMIS_CHECK_STRICT,   /* each page before every use */
    TAMIS_CHECK_NONE      /* trust the medium, but for what a scrub found bad */
};

/* What the caller expects; a NULL pointer or zero expects nothing. What differs
 * makes opening fail with ERR_MISMATCH, but for min_watermark: below it the filter
 * opens and answers MAYBE/BEHIND until its writer has caught up. */
struct tamis_filter_options {
    size_t size;
    enum tamis_check check;
    uint64_t min_watermark;
    const struct tamis_domain *domain;
    const uint8_t *uuid;       /* 16 bytes */
    const uint8_t *store_uuid; /* 16 bytes */
    const void *name;
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    uint64_t min_sequence; /* R5: less is an older copy put back */
    uint32_t min_stages;
    uint64_t table_digest; /* of a sealed filter, as info reports it */
};

/* Opens and maps a filter for reading; O(1) in its size (but for CHECK_FULL, which
 * fails with ERR_DAMAGED at the first bad page). Never creates. The filter keeps a
 * descriptor only while it is growing. One that still grows is refused on a network
 * file system (ERR_NETWORK), and on an overlay (a container's layers) if it may not be
 * opened for writing there: nobody would see what its writer adds.
 *
 * REPLACED FILES. While a filter grows, its path must go on naming its file. If a copy
 * takes the name, a writer that comes later adds its keys to the copy, where this
 * filter never sees them. So probes look at the name: when the last look of any thread
 * is half a second old, a probe takes two system calls more. At most a second after the
 * exchange every probe answers MAYBE/MISMATCH, for ever: open the filter again. Links
 * on the path are followed at each look. A name that is gone is no fault, and probes go
 * on. While nobody can say (EACCES, EIO), probes answer MAYBE/UNREADABLE, and each of
 * them looks. So a process that changes its root directory, or loses the right to
 * search the path, opens the filter after that. Once a filter is sealed nothing is
 * looked at. */
int tamis_filter_open(const char *path, const struct tamis_filter_options *opt,
                      struct tamis_filter **out, struct tamis_diag *diag);
/* The same for a filter inside another file, at `offset`, a multiple of 4096.
 * n_bytes limits it; 0 means to the end of the file. The descriptor stays the
 * caller's and may be closed at once. The filter has no name to look at: if a copy
 * takes the place of the file, keys that are added to the copy are ABSENT here. */
int tamis_filter_open_fd(int fd, uint64_t offset, uint64_t n_bytes,
                         const struct tamis_filter_options *opt,
                         struct tamis_filter **out, struct tamis_diag *diag);
void tamis_filter_close(struct tamis_filter *filter);

/* May this key be in the filter? *why (may be NULL) gets the reason. Sees whatever
 * a writer's add had finished before, in any process on this machine. */
enum tamis_answer tamis_filter_probe(struct tamis_filter *filter,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why);
/* The same for n hashes of one domain: bit i % 64 of absent[i / 64] is set if hash
 * i is ABSENT. The bitmap's (n + 63) / 64 words are cleared first. Returns how many
 * are absent; 0 and *why on MISMATCH, BEHIND and the like. */
size_t tamis_filter_probe_batch(struct tamis_filter *filter, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why);
/* The same for n keys with their hashes; one of another domain is MAYBE. */
size_t tamis_filter_probe_keys(struct tamis_filter *filter,
                               const struct tamis_key *keys, size_t n, uint64_t *absent,
                               enum tamis_reason *why);

/* By which look was an answer decided? */
enum tamis_decider {
    TAMIS_BY_NOTHING = 0, /* no key was looked for: the reason says why */
    TAMIS_BY_RANGE,       /* the key lies outside of the segment's key range: ABSENT */
    TAMIS_BY_FILTER
};
enum { TAMIS_MAX_STAGES = 30 };
/* One stage's answer about a key, and its place: offsets are in bytes, from the file's
 * start. */
struct tamis_stage_answer {
    enum tamis_reason reason; /* NO_REASON: the stage proves that it lacks the key */
    /* NO_REASON: the lane of which a block lacks a bit of the key. DAMAGED: the first
     * lane whose page failed its check. HIT: 0. */
    uint32_t lane;
    uint64_t offset; /* NO_REASON: of that block, 64 bytes; DAMAGED: of that page */
};
struct tamis_explanation {
    enum tamis_answer answer;
    enum tamis_reason reason;
    enum tamis_decider by;
    uint32_t n_stages; /* BY_FILTER: how many there are; else 0 */
    struct tamis_stage_answer stages[TAMIS_MAX_STAGES]; /* the oldest first */
    uint64_t reserved[8];                               /* 0 */
};
/* Asks as tamis_filter_probe(), and says which stage, lane and block decided. Returns
 * out->answer. It is for people, and slower than a probe: it asks, and then looks at
 * every stage again. ABSENT only if both say so; a key that a writer adds
 * in between is MAYBE. *out is the caller's, and whole whatever is returned; a NULL
 * filter or key is MAYBE, as in a probe. Any thread may call it while others probe. It
 * reads pages, writes nothing, and cannot fail. */
enum tamis_answer tamis_filter_explain(struct tamis_filter *filter,
                                       const struct tamis_key *key,
                                       struct tamis_explanation *out);

/* What probes run on: "avx512", "avx2", "neon" or "scalar", chosen at the first use of
 * a filter, the best that this machine has. The environment variable TAMIS_KERNEL names
 * another one, for tests; a name that this machine can't run is ignored. */
const char *tamis_kernel_name(void);

/* The filter's domain, for hashing. */
struct tamis_domain tamis_filter_domain(const struct tamis_filter *filter);

struct tamis_filter_info {
    uint8_t uuid[TAMIS_UUID_BYTES], store_uuid[TAMIS_UUID_BYTES];
    struct tamis_domain domain;
    uint8_t name[TAMIS_NAME_MAX + 1]; /* NUL-terminated */
    size_t name_bytes;
    uint8_t binding[TAMIS_BINDING_MAX];
    size_t binding_bytes;
    int sealed;       /* 1: closed for ever */
    int growing_kind; /* 1: it has, or had, a writer; 0: sealed at birth */
    int clean;        /* 0: a writer is at it, or died */
    int over_target;  /* 1: the last stage is beyond its capacity */
    uint64_t keys, watermark, sequence, generation, created;
    uint64_t file_bytes;        /* committed */
    uint64_t table_digest;      /* sealed: digest of the stage table */
    struct tamis_growth growth; /* factor, ... are 0 if sealed at birth */
    double expected_error;      /* now, from the keys of each stage, or as measured */
    uint32_t n_stages;
    uint32_t n_settled; /* open: the first so many stages have digests (R17) */
};

struct tamis_stage_info {
    uint64_t offset, bits_bytes, n_blocks, capacity, keys, bits_set;
    uint32_t lanes, words;
    double target_error, expected_error;
};

/* As of the last commit that the filter has noticed. */
int tamis_filter_info(struct tamis_filter *filter, struct tamis_filter_info *info);
int tamis_filter_stage(struct tamis_filter *filter, uint32_t stage,
                       struct tamis_stage_info *info);

struct tamis_verify {
    uint64_t n_pages;       /* checked */
    uint64_t n_damaged;     /* of them */
    uint64_t first_damaged; /* file offset of the first, if any */
    uint32_t n_stale_slots; /* commit slots that are torn or rotten */
};
/* Reads and checks every page. ERR_DAMAGED if any failed, or if a commit slot is stale
 * (which alone loses nothing: the other one serves); *report is always whole. */
int tamis_filter_verify(struct tamis_filter *filter, struct tamis_verify *report,
                        struct tamis_diag *diag);

/* ---- filters made from filters, without their keys ---------------------------------
 *
 * All sources are sealed (else ERR_UNFIT), of one domain, at the watermark that they
 * were opened for, and as they were then (else ERR_MISMATCH: a file that was written
 * over since); they stay as they are, and may be probed meanwhile. The result is a new
 * sealed filter, a file of its own that is durable under its name on return
 * (ERR_EXISTS; ERR_NETWORK); on failure nothing of it stays, and after a kill what
 * tamis_builder_finish_file() leaves. Every source page is checked on its way, whatever
 * mode the filter was opened in: one that fails counts as all ones, which can cost
 * reads, never a key. The error that the result aims at (growth.error of its info) is
 * the largest of the sources', or the one that a fold is to have; its own may be above
 * it. Memory: a few pages and a piece of a mebibyte. Any thread may call them. */

struct tamis_derive_options {
    size_t size;
    const void *name; /* of the segment; default: none */
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    const uint8_t *store_uuid; /* 16 bytes */
    uint64_t watermark;        /* 0: for none; the sources' need not be of one log */
};
struct tamis_derive_report {
    uint64_t n_stages, file_bytes;
    uint64_t keys;      /* as far as known; as the bits tell, of what was combined */
    uint64_t n_damaged; /* source pages that counted as ones */
    /* Expected, as the bits tell. Where they do not lie as keys set them (damaged pages
     * are ones, what filters have in common is no keys'): from the fill of blocks,
     * as tamis_filter_estimate() has it. */
    double error;
};

/* The keys of all of them. Stages of equal geometry become one, bit for bit what a
 * builder would have made of the keys; the others stay stages, and the errors add up.
 * ERR_UNFIT if more than 30 are left. opt and report may be NULL. */
int tamis_filter_union(struct tamis_filter *const *sources, size_t n, const char *path,
                       const struct tamis_derive_options *opt,
                       struct tamis_derive_report *report, struct tamis_diag *diag);
/* The keys that all of them have, none of which is lost. Its error may be above that of
 * a filter built from these keys. Only of filters of one stage each and the same lanes
 * and words, of which the smallest one's blocks divide the others' (else ERR_UNFIT):
 * those are folded to it. */
int tamis_filter_intersection(struct tamis_filter *const *sources, size_t n,
                              const char *path, const struct tamis_derive_options *opt,
                              struct tamis_derive_report *report,
                              struct tamis_diag *diag);
/* The same keys in 1 / factor of the space, bit for bit what a builder would have made
 * of them at that size. The factor must divide the pages of a lane of every stage. */
int tamis_filter_fold(struct tamis_filter *source, uint64_t factor, const char *path,
                      const struct tamis_derive_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag);
/* The same, each stage by a factor of its own, as far as the expected error of the
 * whole stays at most `error`: what a filter has to spare that was planned for more
 * keys than came, and the last stage of one that grew nearly always. ERR_UNFIT: it has
 * more, or would have, for pages are damaged: then *report says how many. */
int tamis_filter_shrink(struct tamis_filter *source, double error, const char *path,
                        const struct tamis_derive_options *opt,
                        struct tamis_derive_report *report, struct tamis_diag *diag);
/* May every key of `part` be in `whole`? ABSENT: a bit of the part's is missing in the
 * whole, and so is the key that set it (a filter of one key as the part asks for that
 * key). Of filters as for an intersection. Damaged pages prove nothing, nor do the ones
 * that they were sealed or copied as; but an intersection has bits of no key: as the
 * part it proves nothing. */
int tamis_filter_contains(struct tamis_filter *whole, struct tamis_filter *part,
                          enum tamis_answer *answer, struct tamis_diag *diag);
/* *equal: 1 if they have the same stages with the same bits. ERR_DAMAGED if a page that
 * fails its check is in the way. */
int tamis_filter_equal(struct tamis_filter *one, struct tamis_filter *other, int *equal,
                       struct tamis_diag *diag);

/* ---- estimates: what the bits tell without the keys -------------------------
 *
 * They read and check every page; those that fail are left out of what is counted, and
 * are all ones for the error. They take hashes to be ideal; nothing that they say is a
 * proof, or may lead to one. */

/* An estimate, and between which bounds the truth lies 19 times of 20. */
struct tamis_interval {
    double value, low, high;
};
struct tamis_estimate {
    /* Distinct keys, the sum of the stages': a key that is in several counts in each,
     * as in some unions; of a filter that grew it lacks those that were taken for keys
     * of an older stage, `error` of them at most. A full filter: INFINITY. */
    struct tamis_interval keys;
    /* Now, of a random key that was never added: from the fill of each word of each
     * block as they are, not from what they should be. */
    double error;
    uint64_t n_damaged; /* pages */
};
/* Of any filter, and of one stage of it. ERR_RANGE. */
int tamis_filter_estimate(struct tamis_filter *filter, struct tamis_estimate *out,
                          struct tamis_diag *diag);
int tamis_filter_estimate_stage(struct tamis_filter *filter, uint32_t stage,
                                struct tamis_estimate *out, struct tamis_diag *diag);
/* The error as measured: which share of n_probes random keys, of this seed, is not
 * ABSENT. The bounds are Wilson's. ERR_RANGE. */
int tamis_filter_measure(struct tamis_filter *filter, uint64_t n_probes, uint64_t seed,
                         struct tamis_interval *out);

struct tamis_comparison {
    struct tamis_interval keys[2]; /* of the one, of the other */
    struct tamis_interval all;     /* of the union */
    struct tamis_interval common;  /* of both: keys[0] + keys[1] - all */
    struct tamis_interval jaccard; /* common / all; 0 .. 1 */
    uint64_t n_damaged;
};
/* Distinct keys of two filters and what they share. Of filters as for an intersection;
 * folded to the smaller one's size it is less sure. ERR_UNFIT, ERR_MISMATCH. */
int tamis_filter_compare(struct tamis_filter *one, struct tamis_filter *other,
                         struct tamis_comparison *out, struct tamis_diag *diag);

/* ---- what of a filter is in memory --------------------------------------------------
 *
 * Opening reads a filter's header; its pages come from the disk as they are probed, one
 * at a time, and the kernel drops them again as it needs the memory. These calls bring
 * them in ahead of the first probe, keep them, and count them. They count what probes
 * use, in pages of the machine's: the header, the bits of all stages and what they are
 * checked with, not the holes between. Of a filter that grows they mean what is mapped
 * now: a stage that is added later is neither warm nor locked. Any thread may call them
 * while others probe. A forked child has the pages, and none of the locks. */

struct tamis_residency {
    uint64_t n_pages;    /* of the machine's size, sysconf(_SC_PAGESIZE) */
    uint64_t n_resident; /* of them in memory, whoever brought them there */
};
/* mincore(2): of a file that the process neither owns nor may write, Linux 5.2 and
 * later say that every page is in memory. The answer may be old when it is there.
 * Reads nothing; the header is in memory because the filter is open. An errno. */
int tamis_filter_residency(struct tamis_filter *filter, struct tamis_residency *out);

/* Hears how far it has come, every 8 MiB or more often, in the thread that called.
 * Other than 0: stop. */
typedef int tamis_progress_fn(void *ctx, uint64_t done_bytes, uint64_t total_bytes);

/* Reads what is not in memory yet, in large pieces, and maps all of it. It checks
 * nothing: a page is checked before its first use, as always. fn may be NULL. ECANCELED
 * if fn said stop; EIO if a page cannot be had, and what follows it was not read. (On
 * kernels before 5.14 such a page is SIGBUS, as in a probe.) Nothing keeps the kernel
 * from dropping pages again but a lock. */
int tamis_filter_warm(struct tamis_filter *filter, tamis_progress_fn *fn, void *ctx);
/* Locks the filter in memory, or as much of its beginning as *budget_bytes allows, in
 * whole pages of the mapping (holes count, as they do for the kernel), reads that part,
 * and takes it off the budget; what is beyond, locked by an earlier call, is unlocked:
 * a budget of 0 unlocks all. The lock ends when the filter is closed, and covers what
 * is mapped now: call again when a filter has grown. EPERM, ENOMEM or EAGAIN: the limit
 * of locked memory (RLIMIT_MEMLOCK) let it lock less than that, or nothing; the budget
 * says how much, and all goes on without. EIO as above, with the lock. */
int tamis_filter_lock(struct tamis_filter *filter, uint64_t *budget_bytes);

/* Calls fn for every header field of the filter at `offset` of a file, readable or
 * not, in file order. `text` is the value for people; `kind` says what it is. The
 * result is what opening would return. */
enum tamis_field_kind { TAMIS_FIELD_NUMBER, TAMIS_FIELD_REAL, TAMIS_FIELD_TEXT };
struct tamis_field {
    const char *record; /* "identity", "commit A", "stage A.0", ... */
    const char *name;
    uint64_t offset; /* in the file */
    uint32_t n_bytes;
    enum tamis_field_kind kind;
    uint64_t number;
    double real;
    const char *text;
};
typedef void tamis_field_fn(void *ctx, const struct tamis_field *field);
int tamis_file_fields(const char *path, uint64_t offset, tamis_field_fn *fn, void *ctx,
                      struct tamis_diag *diag);

/* ---- builder: keys in, a sealed filter out ------------------------------- */

struct tamis_builder;

struct tamis_builder_options {
    size_t size;
    const struct tamis_domain *domain; /* default: a random one */
    double error;                      /* 1e-8 .. 0.5; default 0.01 */
    const void *name;                  /* of the segment; default none */
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    const uint8_t *store_uuid; /* 16 bytes; default zero, for no store */
    uint64_t watermark;
    /* Bytes, for the hashes (8 each) and the filter together; default 64 MiB. Hashes
     * that have no room beside their filter are spooled to a file. A filter that takes
     * more than 7/8 of it is built all the same: it, and an eighth of the limit. */
    uint64_t memory_limit;
    const char *spool_dir; /* default $TMPDIR, else /tmp; the file is unlinked */
    /* Threads that finishing may use, with the caller's; default 1, more than 256 are
     * 256. Each takes half a MiB, and as many run as the limit leaves room for: none of
     * them sends hashes to the spool. Those it starts are joined before it returns, and
     * have all signals blocked; where none can be had it goes on without. */
    uint32_t n_threads;
    /* Not 0: finishing asks the finished bits for every hash that was added, and fails
     * with ERR_DAMAGED where memory has changed since: a bit of the filter, a hash, the
     * key range, the domain or the watermark. Then nothing is published. A bit that
     * flips before the page's digest is made is otherwise found by nobody, and a key is
     * lost. A spool is read twice. A key or a hash that changes before
     * tamis_builder_add has counted it stays unseen, and so does a key range that
     * changes between tamis_edit_put() and the commit of its edit. */
    uint64_t check; /* of 64 bits: an older caller has padding in the place of 32 */
};

int tamis_builder_create(const struct tamis_builder_options *opt,
                         struct tamis_builder **out, struct tamis_diag *diag);
/* Adding may fail for want of memory or spool space; then the builder stays failed.
 * Hashes of a foreign tag are refused with ERR_MISMATCH. */
int tamis_builder_add_key(struct tamis_builder *builder, const void *key,
                          size_t n_bytes);
/* The same for n keys, faster. Hash and tag of a key that has its bytes are not looked
 * at. One without (bytes NULL; a key of no bytes has some pointer, as
 * tamis_key_of() gives it) counts as in tamis_builder_add_hashes(): a foreign one is
 * ERR_MISMATCH, and no key after it is added, nor up to 255 of those before it. */
int tamis_builder_add_keys(struct tamis_builder *builder, const struct tamis_key *keys,
                           size_t n);
int tamis_builder_add_hashes(struct tamis_builder *builder, uint64_t tag,
                             const uint64_t *hashes, size_t n);
uint64_t tamis_builder_n_keys(const struct tamis_builder *builder);
struct tamis_domain tamis_builder_domain(const struct tamis_builder *builder);
/* Another name and binding than the builder was made with (NULL: none), for the filter
 * that is made of it next: many an engine knows what its file is called, and what
 * identifies it, only when the last key is in. ERR_RANGE, and nothing has changed. */
int tamis_builder_rename(struct tamis_builder *builder, const void *name,
                         size_t name_bytes, const void *binding, size_t binding_bytes);
/* Creates `path`, which must not exist (ERR_EXISTS). On return the file and its
 * name are durable; on failure nothing of it stays. A process that is killed leaves a
 * file PATH.<8 hex digits>.tmp, to be removed by hand. A filter of no keys is legal. */
int tamis_builder_finish_file(struct tamis_builder *builder, const char *path,
                              struct tamis_diag *diag);
/* Writes the filter at `offset` (a multiple of 4096) of the caller's file and says
 * how long it is. Nothing is synced: that is the caller's to do, with the rest. */
int tamis_builder_finish_fd(struct tamis_builder *builder, int fd, uint64_t offset,
                            uint64_t *n_bytes, struct tamis_diag *diag);
void tamis_builder_free(struct tamis_builder *builder);

/* ---- writer: add to a growing filter ------------------------------------- */

struct tamis_writer;

struct tamis_writer_options {
    size_t size;
    struct tamis_growth growth;        /* zero fields: defaults */
    const struct tamis_domain *domain; /* default: a random one */
    const void *name;
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    const uint8_t *store_uuid;
};

/* Creates a growing filter, durable under its name on return, and opens it. `path` must
 * not exist (ERR_EXISTS); on failure nothing of it stays, and after a kill what
 * tamis_builder_finish_file() leaves. */
int tamis_writer_create(const char *path, const struct tamis_writer_options *opt,
                        struct tamis_writer **out, struct tamis_diag *diag);
/* Opens an existing one, after recovering it if its last writer did not close it.
 * ERR_BUSY (the diag names the holder), ERR_SEALED (for good: a seal that its writer
 * could not bring to the end is made durable first), ERR_NETWORK. Where its stages have
 * holes, or share blocks with a copy, it asks for the space first: ENOSPC here is no
 * SIGBUS later. */
int tamis_writer_open(const char *path, struct tamis_writer **out,
                      struct tamis_diag *diag);
/* Visible at once to every reader on this machine; durable with the next commit.
 * A full stage grows; if that fails the keys go into the last stage all the same
 * (info says over_target). A commit that finds the stage full tries again. If a signal
 * handler leaves the call by a jump, a seal waits for it for ever: close the writer
 * then. (Stages that growth left since get no digests from this writer.) */
int tamis_writer_add_key(struct tamis_writer *writer, const void *key, size_t n_bytes);
int tamis_writer_add_hashes(struct tamis_writer *writer, uint64_t tag,
                            const uint64_t *hashes, size_t n);
/* Makes every add that returned before this call durable, and with them the
 * caller's log position: "all keys up to here are in". Watermarks never fall
 * (ERR_RANGE). A failed sync poisons the writer: close it, reopen, replay.
 * The commit after a growth also digests the stage that growth left, once adds in
 * flight there have ended; growth, open and close do so for stages that still lack
 * digests. Damage that only digests find is then MAYBE. Settling takes 0.24 s of
 * processor time a GB of the stage, 0.5% of what filling it took, and one sync more.
 * ERR_REPLACED: the path that the writer was opened by names another file now, and
 * nobody finds the keys there. Close the writer, open the path, and replay from the
 * watermark of the file that is there. An errno of looking at the path says that nobody
 * knows; commit again. The same goes for a seal; the old file is sealed then. */
int tamis_writer_commit(struct tamis_writer *writer, uint64_t watermark,
                        struct tamis_diag *diag);
/* The watermark of the last durable commit: replay from there. */
uint64_t tamis_writer_watermark(const struct tamis_writer *writer);
struct tamis_domain tamis_writer_domain(const struct tamis_writer *writer);
int tamis_writer_info(struct tamis_writer *writer, struct tamis_filter_info *info);
/* Commits, digests every page and closes the filter for ever; durable on return.
 * Waits for adds in flight; later ones get ERR_SEALED. *n_damaged (may be NULL)
 * says how many pages had failed their check: they are sealed as all ones. Of a store's
 * segment: ERR_CATALOG and the like mean that the filter is sealed, but the catalog
 * does not know yet; opening the segment for writing once more tells it. */
int tamis_writer_seal(struct tamis_writer *writer, uint64_t watermark,
                      uint64_t *n_damaged, struct tamis_diag *diag);
/* Marks the filter clean and lets go of it. Keys added since the last commit are
 * made durable, but not acknowledged: the watermark stays. */
int tamis_writer_close(struct tamis_writer *writer);

/* ---- store: one filter per segment --------------------------------------- */

struct tamis_store;

struct tamis_store_options {
    size_t size;
    struct tamis_growth growth;        /* defaults for new filters */
    const struct tamis_domain *domain; /* default: a random one */
};

/* Creates the directory `path` (or uses an empty one) and an empty store in it,
 * durable on return. ERR_EXISTS if a store or anything else is there; ERR_BUSY if a
 * process has a store open there whose catalog is gone: end it, and repair. */
int tamis_store_create(const char *path, const struct tamis_store_options *opt,
                       struct tamis_diag *diag);
/* Opens a store; never creates. Where its catalog cannot be written it opens for
 * reading; LMDB must still be able to write catalog.lmdb-lock beside it (EACCES), but
 * on a read-only file system. On overlayfs, where a reader might never see the list
 * change, that is refused (EACCES, EROFS): use a volume.
 * A process may open a store as often as it likes: all share one LMDB environment.
 *
 * ONE COPY. The handles of a process share by means of this library's memory, so two
 * copies of the library in one process (of a host and its plugin: the static archive
 * hides its symbols) must not have one store open at a time. The second one gets
 * ERR_BUSY, and the diag says so. Other stores, and the same store after the first copy
 * has closed it, are free. A copy of a version before this rule is not noticed.
 *
 * REPLACED. While a store is open its path must go on naming it. If catalog.lmdb or
 * catalog.lmdb-lock is removed or replaced, if an older copy is written over the
 * catalog, or if the directory is moved, edits and everything else that writes get
 * ERR_REPLACED. They write nothing and unlink nothing. Snapshots answer MAYBE/MISMATCH
 * for ever, at most a second after the exchange. Close every handle, then open the
 * store again. ERR_REPLACED from this call: a process has the store open with another
 * lock file, or this process has a handle of the store that was there before; close it
 * there first. A process that changes its root directory, or loses the right to search
 * the path, opens the store after that.
 *
 * Waits without limit while another process creates the store or makes its lost catalog
 * anew. It may also wait for another process to finish a commit of the catalog; until
 * then opening and closing stores, beginning edits and fork() wait in this process. */
int tamis_store_open(const char *path, struct tamis_store **out,
                     struct tamis_diag *diag);
void tamis_store_close(struct tamis_store *store);

struct tamis_store_info {
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_domain domain;
    struct tamis_growth growth; /* defaults for new filters */
    uint64_t n_segments, created;
    uint64_t catalog_bytes; /* in use by the catalog */
    int complete;           /* 0: may lack segments: rebuilt, or by a dropped record */
    int read_only;
};
int tamis_store_info(struct tamis_store *store, struct tamis_store_info *info,
                     struct tamis_diag *diag);
struct tamis_domain tamis_store_domain(const struct tamis_store *store);

/* As tamis_store_confirm() without options. */
int tamis_store_confirm_complete(struct tamis_store *store, struct tamis_diag *diag);

/* Opens the growing filter of a segment for writing, as tamis_writer_open(); the
 * catalog follows its growth and its seal. Where it cannot, opening fails, and a seal
 * returns it (and stands); after a growth it is tried again at each commit, and at
 * close nobody hears: all that is missing then is what tells an older copy put back.
 * Keep the store open until the writer is closed. ERR_SEALED, ERR_NO_SEGMENT, ERR_BUSY.
 * Once the store was replaced, commits get ERR_REPLACED: their keys are in a file that
 * nobody finds. Replay them from the watermark that the store's own file has.
 */
int tamis_store_writer(struct tamis_store *store, const void *name, size_t name_bytes,
                       struct tamis_writer **out, struct tamis_diag *diag);

/* ---- repair and backup ---------------------------------------------------------- */

enum tamis_repair_action {
    TAMIS_REPAIR_NOTED = 0,   /* nothing was done, `what` says why */
    TAMIS_REPAIR_FINISHED,    /* what a writer that died left is finished */
    TAMIS_REPAIR_REBUILT,     /* the catalog, or one record of it, from the files */
    TAMIS_REPAIR_QUARANTINED, /* set aside; its record, if any, has no filter then */
    TAMIS_REPAIR_SWEPT        /* removed: nothing names it */
};
const char *tamis_repair_action_name(enum tamis_repair_action action); /* "swept" */

/* One thing that was found, and what becomes of it. Valid during the call. */
struct tamis_repair_finding {
    enum tamis_repair_action action;
    int damage;          /* 1: proofs are lost; build the segment anew from its keys */
    const uint8_t *name; /* of the segment; NULL: none */
    size_t name_bytes;
    const char *file; /* within the store directory; "": none */
    const char *what; /* one line */
    /* An errno or TAMIS_ERR_*: this kept the filter from being judged, or finished, and
     * says nothing of its bytes. 0: it was not in the way. */
    int error;
};
typedef void tamis_repair_fn(void *ctx, const struct tamis_repair_finding *finding);

struct tamis_repair_options {
    size_t size;
    int dry_run;            /* 1: say what would be done, change nothing */
    tamis_repair_fn *found; /* may be NULL */
    void *ctx;
    /* 16 bytes: which store this is, should its catalog be lost and the filters
     * disagree. */
    const uint8_t *store_uuid;
};

struct tamis_repair_report {
    uint64_t n_segments; /* listed in the end */
    uint64_t n_finished, n_rebuilt, n_quarantined, n_swept;
    uint64_t n_damaged; /* noted: damage that repair can't mend */
    uint64_t n_unread;  /* noted: an error kept it from being judged, or finished */
    int rebuilt;        /* 1: the whole catalog is new */
    int complete;       /* 0: confirm, if it is */
};

/* Repairs a store: follows what dead writers finished, sets damaged filters aside (in
 * STORE/quarantine/; their segments stay listed, without a filter: MAYBE), and filters
 * that nothing names as well, sweeps what was never finished, and where the catalog is
 * lost makes a new one of the filters, marked incomplete: see tamis_store_confirm().
 * Segments of filters that were set aside before are listed in it, without a filter.
 * Until that list is confirmed, a segment answers ABSENT only if it is asked for by its
 * binding (SPEC.md section 8.4). A second repair finds nothing to do; one that was cut
 * short may be run again. Durable on return.
 *
 * ERR_BUSY while an edit is under way, and, if the catalog is lost, while any process
 * has the store open. ERR_MISMATCH if the filters are of several stores and store_uuid
 * does not say which; ERR_NO_STORE if there is nothing to rebuild from. An I/O error
 * decides nothing: it stops a rebuild,
 * and otherwise leaves its file alone. *report (may be NULL) is whole whatever is
 * returned. It counts, and opt->found hears, in the end, when every lock is let go:
 * what was done, and of a call that failed not what it did not come to.
 *
 * It finishes a filter under the filter's lock: a writer that opens it at that very
 * moment gets ERR_BUSY. What it judges it reads, through no mapping. */
int tamis_store_repair(const char *path, const struct tamis_repair_options *opt,
                       struct tamis_repair_report *report, struct tamis_diag *diag);

struct tamis_confirm_options {
    size_t size;
    int force; /* 1: whatever lies in quarantine/ */
    /* Hears of each filter in quarantine/ that is in the way; may be NULL. It is called
     * in the end, when every lock is let go. */
    tamis_repair_fn *found;
    void *ctx;
};

/* Says that every segment of the engine is listed, and with its own filter: from now on
 * "absent everywhere", and segments that are not asked for by a binding, may be
 * concluded from a catalog that repair rebuilt, or that lost a record nobody could
 * read. The caller must have compared every segment with its own list, the bindings
 * too: one that is missing here, or has the filter of an edit that was never committed
 * (drop it, or put it anew), would be lost keys. Durable on return.
 *
 * ERR_MISMATCH, and nothing has changed, if STORE/quarantine/ has a filter of this
 * store whose segment is not listed, or that does not say which segment it is of: a
 * segment of the engine may be missing. Put that segment, without a filter at least, or
 * remove the file of a segment that is gone. A caller that compared with a list of its
 * own engine, and not with what is here, may set `force`. An I/O error decides nothing:
 * it is returned, unless `force` is set. Does nothing if the list is confirmed already.
 * Any number of threads may call it. ERR_READ_ONLY, ERR_RANGE, ERR_CATALOG. */
int tamis_store_confirm(struct tamis_store *store,
                        const struct tamis_confirm_options *opt,
                        struct tamis_diag *diag);

/* Files and records compared: calls fn for each file in filters/ that no record names,
 * and counts them; in the end, as repair does. Filters themselves are not opened:
 * tamis_filter_verify() does that.
 * ERR_BUSY while an edit is under way, whose files have no names yet. */
int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag);

struct tamis_backup_report {
    uint64_t n_segments, n_files, n_bytes;
    uint64_t n_damaged; /* copied as they are: their bad pages fail there too */
    uint64_t n_left;    /* filters that are lost or unreadable: without one there */
};

/* Copies the store, as of one moment during the call, into the new directory `path`,
 * which appears whole or not at all (ERR_EXISTS if it is there). The copy is the same
 * store, with the same UUID: it has every edit and every commit that returned before
 * the call. Edits and commits go on meanwhile, but for one moment, in which the list is
 * read and what is not copied yet is opened: edits wait with their commit, and writers
 * of the store where they tell its catalog, that is when they are opened, add a stage,
 * seal or close; commits of such a writer wait for that. fn (may be NULL) hears of
 * every filter that is damaged or left out. Durable on return; a process that is killed
 * leaves a directory PATH.<8 hex digits>.tmp, to be removed by hand, and so does a call
 * that fails and cannot remove what it made. Every growing filter, and the few that
 * were sealed meanwhile, takes a descriptor until it is copied (EMFILE). A store that
 * is open for reading only holds nobody off: ERR_BUSY if its list does not stay the
 * same for long enough. ERR_VERSION if the store has a feature of a newer version that
 * a copy could lack. Do not go on with both stores: filters of the one mean nothing to
 * the other's log. */
int tamis_store_backup(struct tamis_store *store, const char *path, tamis_repair_fn *fn,
                       void *ctx, struct tamis_backup_report *report,
                       struct tamis_diag *diag);

/* ---- edit: change the list of segments, all or nothing ------------------- */

struct tamis_edit;
struct tamis_snapshot;

struct tamis_segment_options {
    size_t size;
    const void *binding; /* identifies the engine's own file */
    size_t binding_bytes;
    uint32_t rank;      /* the engine's order: newest, or top level, first */
    uint64_t watermark; /* of a built filter; a growing one gets it by commits */
    /* Of a filter to be built: as in tamis_builder_options. */
    uint64_t memory_limit;
    uint32_t n_threads;
    uint64_t check;
};

/* Files are written as segments are put; names take effect together, at commit. An
 * edit sees its own changes in order: drop then put of one name replaces it. */
int tamis_edit_begin(struct tamis_store *store, struct tamis_edit **out,
                     struct tamis_diag *diag);
/* A builder for a filter of this store, to be passed to tamis_edit_put(). It computes
 * the key range as keys are added by key. error 0: the store's default. */
int tamis_edit_builder(struct tamis_edit *edit, const void *name, size_t name_bytes,
                       double error, const struct tamis_segment_options *opt,
                       struct tamis_builder **out, struct tamis_diag *diag);
/* Finishes the builder, writes its file and registers its segment. The builder stays
 * the caller's to free. Threads may put, each its own builder, at the same time. */
int tamis_edit_put(struct tamis_edit *edit, struct tamis_builder *builder,
                   struct tamis_diag *diag);
/* Registers a segment without a filter: it is always a candidate. */
int tamis_edit_put_bare(struct tamis_edit *edit, const void *name, size_t name_bytes,
                        const struct tamis_segment_options *opt,
                        struct tamis_diag *diag);
/* Registers a segment with an empty growing filter (growth NULL: the defaults). */
int tamis_edit_put_growing(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const struct tamis_growth *growth,
                           const struct tamis_segment_options *opt,
                           struct tamis_diag *diag);
/* Copies a sealed filter file into the store, every page checked on the way. Its
 * domain must be the store's; its name and store, if it has them, the same. */
int tamis_edit_attach(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const char *path, const struct tamis_segment_options *opt,
                      struct tamis_diag *diag);
/* Makes filters of segments of the same store, without their keys, as
 * tamis_filter_union() and its kin do, and registers each under a new name. The sources
 * are segments of a snapshot, by number, with filters that are sealed (else ERR_UNFIT)
 * and of a list that is confirmed (else ERR_MISMATCH: tamis_store_confirm_complete());
 * they stay listed unless they are dropped, by the same edit perhaps, or before the put
 * to give the result the name of one. Their key ranges, if all are known, give the
 * result's. The watermark is the caller's to say (0 for none). report may be NULL. */
int tamis_edit_union(struct tamis_edit *edit, const void *name, size_t name_bytes,
                     struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                     const struct tamis_segment_options *opt,
                     struct tamis_derive_report *report, struct tamis_diag *diag);
int tamis_edit_intersection(struct tamis_edit *edit, const void *name,
                            size_t name_bytes, struct tamis_snapshot *snapshot,
                            const size_t *segments, size_t n,
                            const struct tamis_segment_options *opt,
                            struct tamis_derive_report *report,
                            struct tamis_diag *diag);
int tamis_edit_fold(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_snapshot *snapshot, size_t segment, uint64_t factor,
                    const struct tamis_segment_options *opt,
                    struct tamis_derive_report *report, struct tamis_diag *diag);
int tamis_edit_shrink(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      struct tamis_snapshot *snapshot, size_t segment, double error,
                      const struct tamis_segment_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag);
/* Unregisters a segment; its file goes after the commit. ERR_NO_SEGMENT; at commit
 * ERR_BUSY if a writer has it open (the diag names the process). Until the commit is
 * through, each growing filter that goes takes a descriptor. If its record can't be
 * read it may have been another segment's: then the list is incomplete from the commit
 * on, see tamis_store_confirm_complete(). The same goes for tamis_edit_retain(). */
int tamis_edit_drop(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_diag *diag);
/* The same, if its filter is the one of this UUID (16 bytes, as a snapshot's info has
 * it): else ERR_MISMATCH, at commit. For whoever puts in its place what was made of
 * that filter: another process may have replaced it meanwhile, and its keys would be
 * lost. */
int tamis_edit_drop_filter(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const uint8_t *uuid, struct tamis_diag *diag);
/* The same, if its binding is this one (0..64 bytes; 0: it has none): else
 * ERR_MISMATCH, at commit. Whether it has a filter does not matter. For whoever may
 * drop segments of one engine's files only: another process may have put another
 * file's segment under that name meanwhile. The binding is copied. */
int tamis_edit_drop_bound(struct tamis_edit *edit, const void *name, size_t name_bytes,
                          const void *binding, size_t binding_bytes,
                          struct tamis_diag *diag);
/* Unregisters every segment of the store that is not among these names (and was not
 * put by this edit). Names that are unknown are ignored. ERR_BUSY as above. */
struct tamis_name {
    const void *bytes;
    size_t n_bytes;
};
int tamis_edit_retain(struct tamis_edit *edit, const struct tamis_name *names, size_t n,
                      struct tamis_diag *diag);
/* Applies everything in one transaction, durable on return; frees the edit. ERR_VERSION
 * if a newer version has marked the store meanwhile, as not to be written. On failure
 * nothing has changed and the files it wrote are gone; only if the disk fails, or
 * is full, while the catalog's last page is written (ERR_CATALOG, EIO, ENOSPC) can
 * nobody say which: open the store again and look. The same goes for ERR_REPLACED, and
 * for an errno of looking at the catalog's name: the store was perhaps replaced while
 * the edit was committed. */
int tamis_edit_commit(struct tamis_edit *edit, struct tamis_diag *diag);
void tamis_edit_abort(struct tamis_edit *edit);

/* ---- snapshot: ask many segments ----------------------------------------- */

struct tamis_snapshot;

/* The store's segments as of now. When nothing changed since the last call this is
 * a comparison, and no system call but every half second, when it looks whether the
 * store is still the one that its path names (ERR_REPLACED). Opens filters on first use
 * and shares them with other snapshots. Release each; they may outlive the store.
 *
 * A probe looks likewise: when the last look of any thread is half a second old, it
 * takes four system calls more. It waits for nobody. Once the store was replaced, every
 * probe of the snapshot answers MAYBE/MISMATCH, also in a forked child, and also when
 * the store is closed: repairing or moving the store then counts as replacing it. While
 * nobody can say, probes answer MAYBE/UNREADABLE, and each of them looks. A long batch
 * is answered as of its beginning. Of a segment that grows a probe looks at the file's
 * name, too (tamis_filter_open()); all segments share one look at the clock. A filter
 * of tamis_snapshot_filter() looks at its own file alone. */
int tamis_snapshot_current(struct tamis_store *store, struct tamis_snapshot **out,
                           struct tamis_diag *diag);
/* A snapshot of filters that the caller opened, no catalog: segment i is filters[i],
 * ranks are the order. The filters stay the caller's and must outlive it. */
int tamis_snapshot_from_filters(struct tamis_filter *const *filters, size_t n,
                                struct tamis_snapshot **out);
void tamis_snapshot_release(struct tamis_snapshot *snapshot);

/* One segment as a probe's target, with what the caller requires of it. A zeroed
 * target answers MAYBE/UNKNOWN_SEGMENT. Valid for the snapshot it came from: any other
 * answers MAYBE/MISMATCH. */
struct tamis_target {
    uint32_t slot;    /* index + 1; 0: none */
    uint32_t refusal; /* a tamis_reason that answers every probe, or 0 */
    uint64_t min_watermark;
    uint64_t snapshot; /* which one; no two of a process have the same */
};

/* ERR_NO_SEGMENT if unknown; a different binding (NULL: any) gives ERR_MISMATCH; a
 * record that can't be read ERR_DAMAGED or ERR_VERSION.
 * The target is usable all the same: it answers MAYBE with that reason. In a list that
 * is not confirmed (tamis_store_confirm_complete()) a target that was found without a
 * binding, or with one of no bytes, answers MAYBE/MISMATCH, and the result is 0. */
int tamis_snapshot_find(const struct tamis_snapshot *snapshot, const void *name,
                        size_t name_bytes, const void *binding, size_t binding_bytes,
                        uint64_t min_watermark, struct tamis_target *target);
/* Segments are numbered 0 .. n-1 by rank, then name. */
size_t tamis_snapshot_n_segments(const struct tamis_snapshot *snapshot);
/* As if it had been found without a binding. */
struct tamis_target tamis_snapshot_target(const struct tamis_snapshot *snapshot,
                                          size_t index);

enum tamis_segment_state {
    TAMIS_SEGMENT_BARE = 1, /* no filter */
    TAMIS_SEGMENT_GROWING = 2,
    TAMIS_SEGMENT_SEALED = 3
};
struct tamis_segment_info {
    const uint8_t *name; /* as long as the snapshot */
    size_t name_bytes;
    const uint8_t *binding;
    size_t binding_bytes;
    const uint8_t *first_key, *last_key; /* NULL: no range is known */
    size_t first_key_bytes, last_key_bytes;
    uint8_t uuid[TAMIS_UUID_BYTES];
    enum tamis_segment_state state; /* 0: its record is unreadable */
    uint32_t rank;
    uint64_t keys, file_bytes, watermark, generation,
        created; /* growing: as last noted */
    double error;
    char file[64]; /* within the store directory; empty if none */
};
int tamis_snapshot_segment(const struct tamis_snapshot *snapshot, size_t index,
                           struct tamis_segment_info *info);
/* The open filter of a segment, opened now if need be; the snapshot's, not to be
 * closed. For info, verify and the like: what it says of a key it says of its own keys,
 * be the list confirmed or not. */
int tamis_snapshot_filter(struct tamis_snapshot *snapshot, size_t index,
                          struct tamis_filter **out, struct tamis_diag *diag);
struct tamis_domain tamis_snapshot_domain(const struct tamis_snapshot *snapshot);

struct tamis_prepare_options {
    size_t size;
    int warm;              /* 1: as tamis_filter_warm() */
    uint64_t lock_bytes;   /* at most so much in memory, in all; 0: locks stay */
    tamis_progress_fn *fn; /* may be NULL; not while filters are opened */
    void *ctx;
    const struct tamis_target *targets; /* NULL: all segments */
    size_t n_targets;
};
struct tamis_prepare_report {
    uint64_t n_open;     /* segments whose filter is open */
    uint64_t n_skipped;  /* without a filter, or targets that are refused */
    uint64_t n_failed;   /* could not be opened: MAYBE */
    uint64_t n_unread;   /* open, but a page cannot be had */
    uint64_t open_bytes; /* what probes use of those that are open */
    uint64_t warm_bytes; /* read, or found in memory */
    uint64_t locked_bytes;
    int lock_error; /* 0, or EPERM, ENOMEM, EAGAIN: what kept it from locking more */
};
/* Opens filters ahead of their first probe, in the order of ranks, those that probes
 * ask first; then locks them in that order until lock_bytes are used up (the last one
 * in part), and reads what is locked, or all if `warm` is set. Later ones that an
 * earlier call has locked are unlocked, and so are those that are no targets, so that a
 * call for each new snapshot keeps to the budget; a filter that is there twice counts
 * once; filters that are only in older snapshots stay locked until these are
 * released. That the limit of locked memory is too low is no error: the report says
 * so. Nor is a filter that cannot be opened or read, because its file is lost, or an
 * edit has dropped it since this snapshot: diag is about the first of them, though the
 * result be 0. *report (may be NULL) is whole whatever is returned. ECANCELED if fn
 * said stop; ENOMEM, ERR_RANGE. */
int tamis_snapshot_prepare(struct tamis_snapshot *snapshot,
                           const struct tamis_prepare_options *opt,
                           struct tamis_prepare_report *report,
                           struct tamis_diag *diag);

/* One key, one segment. */
enum tamis_answer tamis_snapshot_probe(struct tamis_snapshot *snapshot,
                                       const struct tamis_target *target,
                                       const struct tamis_key *key,
                                       enum tamis_reason *why);
/* The same, and what it rests on: as tamis_filter_explain(), or the key range. The
 * filter is asked last: where the range proves it, the filter is not looked at. Not
 * counted in any statistics. */
enum tamis_answer tamis_snapshot_explain(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target,
                                         const struct tamis_key *key,
                                         struct tamis_explanation *out);
/* Many hashes, one segment: as tamis_filter_probe_batch(). */
size_t tamis_snapshot_probe_batch(struct tamis_snapshot *snapshot,
                                  const struct tamis_target *target, uint64_t tag,
                                  const uint64_t *hashes, size_t n, uint64_t *absent,
                                  enum tamis_reason *why);
/* One key, a list of segments. absent (may be NULL): a bitmap over the list, cleared
 * first; reasons (may be NULL): n bytes, a tamis_reason each. ABSENT if the key is
 * absent from all of them, and there is at least one. */
enum tamis_answer tamis_snapshot_probe_list(struct tamis_snapshot *snapshot,
                                            const struct tamis_target *targets,
                                            size_t n, const struct tamis_key *key,
                                            uint64_t *absent, uint8_t *reasons);
/* The same over all segments by number. ABSENT, of all or of one, only if the catalog
 * is complete; of all only if it lists a segment: an empty list proves nothing. */
enum tamis_answer tamis_snapshot_probe_all(struct tamis_snapshot *snapshot,
                                           const struct tamis_key *key,
                                           uint64_t *absent, uint8_t *reasons);
/* The same as a list: the numbers of the segments that are not proven to lack the key,
 * in the order of ranks. At most `max` of them are written; *n, how many there are, may
 * be more. ABSENT only if there are none and probe_all() would say so; else MAYBE: with
 * *n 0 nothing is listed that could be named, and nothing is proven either. */
enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                            const struct tamis_key *key,
                                            uint32_t *segments, size_t max, size_t *n);
/* Many keys, a list of segments; targets NULL: all by number, n_targets is ignored.
 * absent (may be NULL): a row of (n + 63) / 64 words for each key, n being the length
 * of the list, all cleared first; bit j of row i: key i is ABSENT from target j.
 * Returns how many keys are ABSENT from all, as probe_list() and probe_all() would say
 * it. */
size_t tamis_snapshot_probe_keys(struct tamis_snapshot *snapshot,
                                 const struct tamis_target *targets, size_t n_targets,
                                 const struct tamis_key *keys, size_t n_keys,
                                 uint64_t *absent);

/* ---- statistics: what was asked, and what was said ---------------------------------
 *
 * Counting is off until it is asked for; then each thread counts in memory of its own,
 * 88 bytes for each segment of a snapshot that it probes (beyond 63 threads they share
 * one such piece). A probe of one segment takes some 40 instructions more by that, a
 * list 17 for each target, all others 5% at most. Counts are exact, begin at 0 in each
 * process, and go into no file. They may be read at any time, by any thread; what a
 * probe that is under way has asked may be in them, or not yet. A forked child goes on
 * from what its parent had counted. Probes of a filter without a snapshot
 * (tamis_filter_probe()) are not counted. A probe in a signal handler that has
 * interrupted another one may not be, nor the other. */

enum { TAMIS_MAX_REASONS = 16 };

/* Each only grows, but for n_absent, and so n_probes, of one segment. */
struct tamis_stats {
    uint64_t n_probes;   /* questions: one key, one segment */
    uint64_t n_absent;   /* of them */
    uint64_t n_excluded; /* of those: by the segment's key range alone */
    uint64_t n_maybe[TAMIS_MAX_REASONS]; /* by tamis_reason; the rest of n_probes */
    uint64_t n_false_positives;          /* reported by the caller */
    /* Pages that were checked, counted once for each time that a filter is opened, or
     * grows, and those that failed. They are always counted. */
    uint64_t n_pages_checked, n_pages_damaged;
    uint64_t reserved[8]; /* 0 */
};

/* What one segment's filter has done, over all snapshots of the store that list it,
 * and those that did and are released. n_excluded is 0: what a range excludes is not
 * asked of the filter. n_absent is worked out from others: while probes are under way
 * it may be some too high, and fall; export n_maybe and n_false_positives. */
struct tamis_segment_stats {
    struct tamis_stats counts;
    /* n_false_positives / (n_absent + n_false_positives), 0 if nothing was asked, and
     * between which bounds the error lies that this was drawn from: Wilson's interval,
     * of 95%. Of one segment in twenty it lies beyond them, by chance. */
    double measured_error, error_low, error_high;
    double target_error; /* 0: it has none */
    int over_target;     /* 1: all of the interval lies above the target */
    uint64_t reserved[8];
};

/* Begins (on 1) or ends (0) counting, in all snapshots of the store, those that there
 * are and those to come, of this process; also of others who have opened the same
 * store in it. What was counted stays. ENOMEM, and it may count already in some. */
int tamis_store_count(struct tamis_store *store, int on, struct tamis_diag *diag);
/* The same of one snapshot, of filters perhaps. */
int tamis_snapshot_count(struct tamis_snapshot *snapshot, int on);

/* All that was counted since the store was opened, in whichever of its snapshots, those
 * that are released included: for an engine's own metrics. */
int tamis_store_stats(struct tamis_store *store, struct tamis_stats *out,
                      struct tamis_diag *diag);
/* What was counted in this snapshot. Its pages are those of its segments' filters,
 * whoever asked for them. */
int tamis_snapshot_stats(struct tamis_snapshot *snapshot, struct tamis_stats *out);
int tamis_snapshot_segment_stats(struct tamis_snapshot *snapshot, size_t index,
                                 struct tamis_segment_stats *out);
/* The segment answered MAYBE with reason HIT or DAMAGED, the caller read it, and the
 * key was not there. To be called for each such answer, or the error is measured too
 * low. Nothing happens while the snapshot does not count. ERR_NO_SEGMENT for a target
 * that is not this snapshot's, is refused, or has no filter. */
int tamis_snapshot_report_false_positive(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
