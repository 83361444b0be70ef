/* Private declarations of lib/filter, which lib/store uses as well: one banner per
 * source file, in the order of their dependence. A function's contract stands here, its
 * reasons where it is defined. lib/store has a header of its own, store.h. */
#ifndef TAMIS_INTERNAL_H
#define TAMIS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "lib/tamis.h"
#include "format/commit.h"
#include "format/hash.h"
#include "format/integrity.h"
#include "lib/kernel/kernel.h"

/* ==== error.c: codes and words ============================================== */

int verdict_error(enum verdict_code code); /* the public code for a verdict */
/* Each fills *diag (if not NULL) and returns `code`. */
int diag_fail(struct tamis_diag *diag, int code, const char *file, const char *format,
              ...) __attribute__((format(printf, 4, 5)));
int diag_errno(struct tamis_diag *diag, int os_errno, const char *file,
               const char *doing);
/* The same for open(): says what it is that cannot be a filter. */
int diag_open(struct tamis_diag *diag, int os_errno, const char *file,
              const char *doing);
int diag_verdict(struct tamis_diag *diag, struct verdict v, const char *file,
                 uint64_t record_offset);
void diag_at(struct tamis_diag *diag, uint64_t offset);
void diag_in(struct tamis_diag *diag, const char *file); /* names the file anew */
void diag_clear(struct tamis_diag *diag);
/* The reason for probes of a filter whose open failed with this code. */
enum tamis_reason reason_of_error(int code);

/* Copies an option struct of the caller's size into ours: fields that an older
 * caller does not know stay zero. ERR_RANGE if the size makes no sense. */
int options_copy(void *ours, size_t ours_bytes, const void *theirs);

/* A name for messages: unprintable bytes as \xHH, cut with "..." if long. */
enum { NAME_TEXT_BYTES = 72 };
const char *name_text(char text[NAME_TEXT_BYTES], const void *name, size_t n_bytes);

/* ==== io/io.c: system calls that write =================================== */

/* The seam: tests replace entries to inject faults, to record, to be repeatable. */
struct io_calls {
    ssize_t (*pread)(int fd, void *buf, size_t n, off_t offset);
    ssize_t (*pwrite)(int fd, const void *buf, size_t n, off_t offset);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    int (*fallocate)(int fd, int mode, off_t offset, off_t n);
    int (*ftruncate)(int fd, off_t n);
    int (*renameat2)(int old_dir, const char *old_name, int new_dir,
                     const char *new_name, unsigned flags);
    int (*unlinkat)(int dir, const char *name, int flags);
    int (*linkat)(int old_dir, const char *old_name, int new_dir, const char *new_name,
                  int flags);
    void *(*mmap)(void *at, size_t n, int prot, int flags, int fd, off_t offset);
    int (*madvise)(void *at, size_t n, int advice);
    void (*random)(void *buf, size_t n);
    uint64_t (*now)(void); /* microseconds since 1970 */
};
extern struct io_calls io_calls;

/* All return 0 or a positive errno, unless said otherwise. */
int io_read(int fd, void *buf, size_t n, uint64_t offset, size_t *got); /* to EOF */
int io_write(int fd, const void *buf, size_t n, uint64_t offset);
int io_size(int fd, uint64_t *n_bytes);
/* Of what was written: the disk may begin with it. */
void io_start_writing(int fd, uint64_t offset, uint64_t n);
/* Space for [offset, offset + n), zeros where fresh; writes zeros if it must. */
int io_allocate(int fd, uint64_t offset, uint64_t n);
/* R13, in three steps. Creates a temporary file for `name` in `dir`; `temp` gets its
 * name. Then io_publish() syncs it, gives it its name unless that is taken
 * (EEXIST), and syncs the directory if `sync_dir`. Else io_discard(). */
enum { IO_TEMP_NAME_BYTES = 300 };
int io_create_temp(int dir, const char *name, char temp[IO_TEMP_NAME_BYTES], int *fd);
int io_publish(int dir, const char *temp, const char *name, int fd, bool sync_dir);
/* Gives a file its name, unless that is taken (EEXIST). */
int io_rename(int dir, const char *temp, const char *name);
/* The same whether or not it is taken. */
int io_replace(int dir, const char *temp, const char *name);
void io_discard(int dir, const char *temp, int fd);
int io_sync_dir(int dir);

/* A huge page of most machines. */
enum { HUGE_PAGE_BYTES = 2 << 20 };

/* ==== io/open.c: opening safely ========================================== */

/* All return 0 or a positive errno, unless said otherwise. */
/* Opens a regular file; never a directory (EISDIR), FIFO or device (EINVAL), of which
 * it asks by name before it opens anything. */
int io_open(const char *path, int flags, int *fd);
/* The same for a name in a directory, without following any link. */
int io_open_beneath(int dir, const char *name, int flags, int *fd);
/* The same without asking the descriptor, too, what it is: for callers that do. */
int io_open_raw(int dir, const char *name, int flags, int *fd);
/* Directory and base name of a path, the directory opened. */
int io_open_parent(const char *path, int *dir, const char **base);
/* ERR_NETWORK if the file lies on a network file system. */
int io_refuse_network(int fd);
int io_is_overlay(int fd, bool *yes);
/* For who reads what another process is writing: ERR_NETWORK, where its pages may be
 * stale. On an overlay a file opened for reading stays that of the lower layer when a
 * writer gets a copy of its own; so there the same file is opened for writing, which
 * makes the copy: *fresh, which the caller closes; else -1. */
int io_open_shared(int fd, int *fresh);

/* ==== io/look.c: is an open file still the one that its name names? =========== */

/* What the looks have told, and when somebody should look again, by look_clock(). */
struct looks {
    _Atomic int why; /* a tamis_reason; TAMIS_MISMATCH stays for ever */
    _Atomic uint64_t look_after, valid_until;
};
uint64_t look_clock(void); /* coarse, no system call */
/* Is it this thread that looks now? */
bool look_is_mine(struct looks *l, uint64_t now);
/* Notes the result of the look that began at `now`. */
void look_note(struct looks *l, uint64_t now, enum tamis_reason why);

/* The reason against every answer of ABSENT: TAMIS_NO_REASON, TAMIS_MISMATCH
 * (replaced) or TAMIS_UNREADABLE (nobody can say). As of the last look. */
static inline enum tamis_reason looks_known(const struct looks *l)
{
    return (enum tamis_reason)atomic_load_explicit(&l->why, memory_order_relaxed);
}

/* The name by which a file was opened. */
struct named {
    struct looks looks;
    int at; /* the directory from which the path leads; AT_FDCWD: it is absolute */
    char path[];
};
/* The file fd was opened by this path. */
int named_path(const char *path, int fd, struct named **out);
/* DIR/NAME (dir may be NULL), from the directory `at`, or absolute (AT_FDCWD). */
int named_in(int at, const char *dir, const char *name, struct named **out);
void named_free(struct named *n);
/* 0: the name names the file fd, or nothing; ERR_REPLACED: another file; an errno if
 * nobody can say. */
int named_check(const struct named *n, int fd);
/* The same for readers, and notes it: TAMIS_NO_REASON, MISMATCH, UNREADABLE. */
enum tamis_reason named_look(struct named *n, int fd, uint64_t now);
/* The same if it is due. Waits for no other thread, keeps errno. */
void named_look_if_due(struct named *n, int fd, uint64_t now);

/* ==== io/lock.c: locks =================================================== */

/* One writer per file (R14): an open-file-description lock. Returns ERR_BUSY and the
 * holder's pid (0 if it can't be told). */
int io_lock(int fd, pid_t *holder);
void io_unlock(int fd);
/* Does a writer have it, as of now? Takes nothing, and any descriptor will do. */
int io_is_locked(int fd, bool *locked);
/* Has anyone else a lock, of whatever kind, on this byte? */
int io_byte_is_locked(int fd, uint64_t at, bool *locked);

/* ==== io/fork.c: what a fork does to descriptors and locks =============== */

/* Descriptors that must not survive a fork in the child, where they would keep the
 * lock alive: closed there and set to -1. */
struct io_guarded_fd {
    int fd;
    struct io_guarded_fd *next, *previous;
};
/* No fork happens between the two; what is done there one thread at a time does. */
int io_hold_forks(void); /* ENOMEM if there can be no handlers */
void io_let_forks(void);
/* With forks held since the descriptor was opened: a child that gets a copy of it
 * before it is guarded keeps whatever is locked through it later. */
void io_guard_fd(struct io_guarded_fd *g, int fd);
void io_unguard_fd(struct io_guarded_fd *g); /* and closes it */
void io_guard_move(struct io_guarded_fd *from, struct io_guarded_fd *to);
/* io_open_beneath() and io_guard_fd() in one; dir AT_FDCWD: io_open(). */
int io_open_guarded(int dir, const char *name, int flags, struct io_guarded_fd *g);
/* Grows in every forked child; objects remember it to know that they are copies. */
unsigned io_fork_epoch(void);
/* Calls `install`, which installs fork handlers and sets `done` if it could: once, or
 * again, so many times in all, while that fails (ENOMEM). */
enum { IO_ONCE_TRIES = 64 };
struct io_once {
    pthread_once_t once[IO_ONCE_TRIES];
    atomic_uint n_tries;
    atomic_bool done;
};
#define IO_ONCE_INIT                                                                   \
    {                                                                                  \
        .once = { [0 ... IO_ONCE_TRIES - 1] = PTHREAD_ONCE_INIT }                      \
    }
int io_once(struct io_once *o, void (*install)(void));

/* ==== io/reserve.c ========================================================== */

/* Space for what [offset, offset + n) of a file holds, where it is a hole or shared
 * with a copy; its contents stay. 0 or an errno. Where the file system can't be asked
 * for space (EOPNOTSUPP), or gives it for each write anew, there is none to be had. */
int io_reserve(int fd, uint64_t offset, uint64_t n);

/* ==== plan/plan.c: sizes and errors ======================================== */

/* Geometry and totals for n_keys at `error`, pages and power of two included. */
int plan_stage_geometry(uint64_t n_keys, double error, struct geometry *g,
                        double *expected_error);
double plan_geometry_error(const struct geometry *g, uint64_t n_keys);
/* Bits that n_keys distinct keys are expected to set. */
uint64_t plan_expected_bits(const struct geometry *g, uint64_t n_keys);
/* The reverse: distinct keys that explain so many set bits. */
uint64_t plan_keys_of_bits(const struct geometry *g, uint64_t n_bits);

/* Is it an error that a filter may aim at? */
bool plan_error_valid(double error);
/* The public plan of this geometry, as a file with these keys. */
void plan_describe(const struct geometry *g, uint64_t n_keys, struct tamis_plan *plan);

/* ==== plan/growth.c: the series of a growing filter ==== */

int growth_complete(struct tamis_growth *growth); /* defaults; ERR_RANGE */
/* Capacity and target error of stage i. */
void growth_stage(const struct tamis_growth *growth, uint32_t i, uint64_t *capacity,
                  double *error);

/* ==== plan/intervals.c: how surely is a count or an estimate known? ==== */

/* k errors in n trials: between which bounds does the chance of one lie (95%)? */
void error_interval(uint64_t k, uint64_t n, double *low, double *high);
/* Of n_bits that were looked at, n_set are set. */
void plan_keys_interval(const struct geometry *g, uint64_t n_bits, uint64_t n_set,
                        struct tamis_interval *out);
/* Of the stages' estimates that of the whole. */
void plan_sum_interval(const struct tamis_interval *parts, uint32_t n,
                       struct tamis_interval *out);
/* Set are so many of n_bits in the one, the other, and their union; n_damaged is left
 * alone. */
void plan_overlap(const struct geometry *g, uint64_t n_bits, const uint64_t set[3],
                  struct tamis_comparison *out);

/* ==== filter/key.c: hashes of keys (public calls, and) ======================= */

/* Hashes of n keys, of the bytes that they have. */
void hash_keys(uint64_t seed, const struct tamis_key *keys, size_t n, uint64_t *hashes);

/* ==== filter/header.c: the header of an open file ============================ */

enum { HEADER_MAX_BYTES = 3 * PAGE_BYTES };

struct header {
    struct identity identity;
    struct commit commit;
    struct slot_health health;
    /* Slot A's sequence and checksum, bytes as found, for readers to compare. */
    uint64_t raw_sequence_a, raw_checksum_a;
    uint64_t available; /* bytes of the file that are the filter's */
};

/* Reads, decodes and validates the header on a private copy (R6), trying again a
 * bounded number of times while a commit is being written. n_bytes 0: to the end
 * of the file. `ours`: the descriptor's read-ahead may be set. */
int header_load(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                struct header *h, struct tamis_diag *diag);
/* The raw bytes alone, at most HEADER_MAX_BYTES; sets h->available. */
int header_read(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                uint8_t *raw, size_t *got, struct header *h, struct tamis_diag *diag);
/* Decodes a copy of the header that is at hand; h->available is set by the caller,
 * `offset` is where it came from, for messages. */
int header_decode(const uint8_t *raw, size_t got, uint64_t offset, const char *path,
                  struct header *h, struct tamis_diag *diag);
/* How far a filter had come at least, as somebody has noted who knows it (R5). */
struct bounds {
    uint64_t sequence, generation, watermark;
    uint32_t n_stages;
};
/* Is this what an older copy says, put back since? The sequence alone does not tell: a
 * writer that recovers such a copy leaps over the number that was noted (R3). */
bool commit_is_older(const struct commit *c, const struct bounds *known);
/* Are both slots whole, with the same record? */
bool header_is_mirrored(const struct header *h);
/* Once slot B says so too, slot A's record is durable (R1). Before that a seal may be
 * seen and undone by a power cut, so slot A is watched as before. */
bool header_sealed_for_good(const struct header *h);
/* ERR_VERSION if it has a feature that this version must not write (ro_compat). */
int header_check_features(const struct header *h, const char *path,
                          struct tamis_diag *diag);
void header_info(const struct identity *id, const struct commit *c,
                 struct tamis_filter_info *info);
void header_stage_info(const struct identity *id, const struct stage_desc *s,
                       struct tamis_stage_info *info);

/* ==== kernel/kernel.c, kernel_*.c: probe and add on mapped bits (kernel.h) ======= */

/* ==== page/watch.c: pages of mappings that the file system cannot deliver ==== */

struct watched;
struct mapping {
    uint8_t *base; /* where the filter's byte 0 is */
    void *address; /* of the mapping itself */
    size_t n_bytes;
    struct watched *watched;
};
/* Puts a mapping on the list; ENOMEM. *alarm (may be NULL) becomes true before a lost
 * page of it is replaced. */
int lost_watch(struct mapping *m, bool writable, _Atomic bool *alarm);
void lost_forget(struct mapping *m); /* before it is unmapped */
/* In forked children its addresses may be another's. */
void lost_keep_from_children(struct mapping *m);
/* Has the page at this address been lost? What is there now are ones of ours. */
bool lost_page(const struct mapping *m, const void *at);

/* For the guard. To be called before the first lost_replace(). */
int lost_prepare(void);
/* Called in a signal handler: if the address lies in a mapping on the list, puts ones
 * over its page. False: it does not, or that could not be done. */
bool lost_replace(uintptr_t at);

/* ==== page/guard.c: the SIGBUS handler (public calls only) =================== */

/* ==== page/map.c: mappings and first-touch checks ========================== */

/* From this size on a mapping is advised against reading ahead of a random access,
 * which would waste memory. */
enum { RANDOM_ADVICE_BYTES = 1 << 20 };
/* Maps a part of a file, and has it watched (`alarm` as above). */
int map_file(int fd, uint64_t offset, uint64_t n_bytes, bool writable,
             _Atomic bool *alarm, struct mapping *m);
void map_drop(struct mapping *m);
/* A mapping keeps its file's description open, and with it a lock: a child that is
 * forked gets none of this one, and abandons what its parent had mapped. */
void map_keep_from_children(struct mapping *m);
void map_abandon(struct mapping *m);

/* What is known of a page: nothing, or these bits. Bad is for ever, and beats good. */
enum { PAGE_GOOD = 1, PAGE_BAD = 2, PAGES_PER_WORD = 32 };
/* Are all pages good? Once one is bad they never are, however many are counted. */
enum all_good { NOT_YET, ALL_GOOD, NEVER };

/* Pages that were looked at for the first time, and those that were found bad; `sum`
 * (may be NULL) counts them too. */
struct page_counts {
    _Atomic uint64_t n_checked, n_damaged;
    struct page_counts *sum;
};

/* A stage as mapped, with the memory of which pages were found good (R12). */
struct stage {
    uint8_t *bits;
    const struct mapping *map; /* of the bits */
    struct geometry geometry;
    uint64_t n_pages;
    bool by_digests; /* sealed or settled; else by floors */
    enum tamis_check mode;
    _Atomic uint8_t all_good, first_good; /* first: of the first lane */
    /* The same as all_good where nothing but the bits is left to be asked of a filter
     * then: one look, for the shortest way of a probe. NEVER elsewhere. */
    _Atomic uint8_t plain_good;
    uint8_t uuid[UUID_BYTES];
    const uint8_t *floors; /* its floor sectors, mapped, if it is checked by them */
    uint64_t floors_offset;
    const uint8_t *digests; /* levels 1 and up, mapped; NULL for one page, or none */
    uint64_t root;
    uint64_t n_first_pages;
    _Atomic uint64_t n_good, n_first_good;
    _Atomic uint64_t *pages;        /* two bits per page */
    _Atomic uint64_t *good_digests; /* a bit per page of digests */
    struct page_counts *counts;     /* may be NULL */
};

size_t stage_memory(const struct stage_desc *d, bool by_digests); /* for its bitmaps */
/* Sets up a stage on its bits, which are in `map` (which must stay where it is), its
 * floors or digests, which are those that *d names in digests_offset and root; memory:
 * stage_memory() zeroed bytes. */
void stage_init(struct stage *s, const struct stage_desc *d, bool by_digests,
                const struct identity *id, enum tamis_check mode,
                const struct mapping *map, uint8_t *bits, const uint8_t *floors,
                const uint8_t *digests, void *memory);
/* Checks a page now; remembers the result unless the mode is strict. */
bool stage_check_page(struct stage *s, uint64_t page);
/* The same; what was checked is in `copy`, if it is good. */
bool stage_copy_page(struct stage *s, uint64_t page, uint8_t copy[PAGE_BYTES]);
void stage_mark_bad(struct stage *s, uint64_t page);
bool stage_is_bad(struct stage *s, uint64_t page);
/* Grows, from 1 on, when any stage of the process that was all good is so no more: who
 * notes that one is, notes the epoch with it, read before. */
uint64_t stage_epoch(void);

/* Is nothing left to check? Then it stays so, but for a stage that is open. */
static inline bool stage_all_good(struct stage *s)
{
    return atomic_load_explicit(&s->all_good, memory_order_acquire) == ALL_GOOD;
}

/* The same of the first lane, where nearly all probes of absent keys end: survivors of
 * it come to the pages of the other lanes one in fifty, and those take their time. */
static inline bool stage_first_good(struct stage *s)
{
    return atomic_load_explicit(&s->first_good, memory_order_acquire) == ALL_GOOD;
}

/* Are all pages good, and is that all there is to know? */
static inline bool stage_plain_good(struct stage *s)
{
    return atomic_load_explicit(&s->plain_good, memory_order_acquire) == ALL_GOOD;
}

static inline uint32_t stage_page_state(struct stage *s, uint64_t page)
{
    uint64_t word =
        atomic_load_explicit(&s->pages[page / PAGES_PER_WORD], memory_order_acquire);
    return word >> (page % PAGES_PER_WORD * 2) & (PAGE_GOOD | PAGE_BAD);
}

/* May this page's bits be believed? */
static inline bool stage_page_good(struct stage *s, uint64_t page)
{
    if (stage_all_good(s))
        return true;
    if (s->mode == TAMIS_CHECK_NONE) /* but a scrub may have found it bad */
        return !(stage_page_state(s, page) & PAGE_BAD);
    if (s->mode != TAMIS_CHECK_STRICT && stage_page_state(s, page) == PAGE_GOOD)
        return true;
    return stage_check_page(s, page);
}

/* TAMIS_NO_REASON (absent), TAMIS_HIT, or TAMIS_DAMAGED (only damage says maybe). */
enum tamis_reason stage_probe(struct stage *s, const struct kernel *k, uint64_t h);
/* A live page, read word by word: others may be setting bits in it. */
void page_copy(uint8_t to[PAGE_BYTES], const uint8_t *from);

/* ==== filter/residency.c: what of it is in memory (public calls, too) ========== */

/* Bytes that probes use within the first `limit` of the filter's mapping; whole pages
 * of the machine's here and below. */
uint64_t filter_used_bytes(struct tamis_filter *f, uint64_t limit);
uint64_t filter_mapped_bytes(struct tamis_filter *f);
/* Over several filters; fn may be NULL. */
struct warming {
    tamis_progress_fn *fn;
    void *ctx;
    uint64_t done, total;
};
/* Reads them in; EIO, ECANCELED. */
int filter_warm_first(struct tamis_filter *f, uint64_t limit, struct warming *w);
/* Locks the first n_bytes of the mapping, without reading them, or what the limit
 * leaves (EPERM, ENOMEM, EAGAIN); *locked says how much. */
int filter_lock_first(struct tamis_filter *f, uint64_t n_bytes, uint64_t *locked);
int filter_unlock_beyond(struct tamis_filter *f, uint64_t n_bytes);
const char *filter_path(const struct tamis_filter *f); /* for messages */

/* ==== filter/scrub.c: every page, by reading ================================= */

/* As tamis_filter_verify(), of a filter that is a whole file and has this header; slots
 * are not looked at. An errno if a page can't be read: then *report says nothing. */
int filter_scrub(int fd, const struct header *h, struct tamis_verify *report);

/* ==== builder/builder.c, finish.c, writer.c and its kin, filter.c, probe.c ======= */

/* What the store knows of a builder beyond the public calls. */
struct key_range {
    bool known; /* false after any add by hash, or a last key too long to keep */
    uint8_t first[1024], last[1024];
    size_t first_bytes, last_bytes;
};
struct built {
    struct identity identity;
    struct commit commit;
    uint64_t file_bytes;
};
const struct key_range *builder_range(const struct tamis_builder *b);
void builder_name(const struct tamis_builder *b, const void **name, size_t *n_bytes);
void builder_set_rank(struct tamis_builder *b, uint32_t rank);
uint32_t builder_rank(const struct tamis_builder *b);
/* finish_file() with a UUID given by the caller, in an open directory, the directory
 * synced only if asked for. */
int builder_finish_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                      const char *name, bool sync_dir, struct built *built,
                      struct tamis_diag *diag);

/* ---- derive.c: a filter made from filters ---- */

enum derive_how { DERIVE_UNION, DERIVE_INTERSECTION, DERIVE_FOLD, DERIVE_SHRINK };
struct derivation {
    enum derive_how how;
    struct tamis_filter *const *sources;
    size_t n;
    uint64_t factor; /* of a fold */
    double error;    /* to shrink to */
};
/* Where it goes: to a path; or, if it has a name, into an open directory, which is not
 * synced. */
struct derive_to {
    const char *path, *name;
    int dir;
    const uint8_t *uuid; /* NULL: a random one */
    struct built *made;  /* may be NULL */
};
int derive(const struct derivation *what, const struct tamis_derive_options *opt,
           const struct derive_to *to, struct tamis_derive_report *report,
           struct tamis_diag *diag);

/* Called by a writer inside commits that change the stage table, the state or the clean
 * flag, after both slots are durable. A failure does not undo the commit. Of a seal it
 * is the result; after opening and growth it is remembered, and `changed` called again
 * at the next commit or by writer_tell_again(); at close nobody hears of it.
 * `acknowledge` (may be NULL) runs after a commit of the caller's, and after a seal:
 * may it be told that its keys are in? */
struct writer_hooks {
    int (*changed)(void *ctx, const struct commit *c, struct tamis_diag *diag);
    void (*closed)(void *ctx);
    void *ctx;
    int (*acknowledge)(void *ctx, struct tamis_diag *diag);
    struct named *named; /* the file's, the writer's to free; or NULL */
};
/* Creates the file of a growing filter, durable but for the directory entry unless
 * sync_dir, and does not open it. *c is its first commit. */
int writer_format(int dir, const char *name, const struct tamis_writer_options *opt,
                  const uint8_t uuid[UUID_BYTES], bool sync_dir, struct commit *c,
                  struct tamis_diag *diag);
/* Opens it; takes over what was opened for reading and writing, on success and failure.
 * `path` is for messages. hooks may be NULL; hooks->closed runs on failure too. */
int writer_open_fd(struct io_guarded_fd *opened, const char *path,
                   const struct writer_hooks *hooks, struct tamis_writer **out,
                   struct tamis_diag *diag);

/* Calls hooks.changed again if its last call failed: its result. */
int writer_tell_again(struct tamis_writer *w, struct tamis_diag *diag);

/* With the file's lock held: makes a seal durable, and each slot the other's mirror
 * (R2); does nothing if there is none. *h is the header as of now. ERR_VERSION where a
 * feature of a newer tamis forbids to write. */
int seal_settle(int fd, const char *path, struct header *h, struct tamis_diag *diag);

/* tamis_filter_open_fd() of a whole file on a descriptor of ours, with a path for
 * messages. An older copy than `known` (may be NULL) is ERR_MISMATCH. */
int filter_open_fd(int fd, const char *path, const struct tamis_filter_options *opt,
                   const struct bounds *known, struct tamis_filter **out,
                   struct tamis_diag *diag);
/* From now on probes look whether DIR/NAME, which leads from the directory `at`, names
 * its file; of a filter that is sealed for good, nothing. No other thread may have the
 * filter yet. */
int filter_name_in(struct tamis_filter *f, int at, const char *dir, const char *name);
/* The probe, with the watermark that this call requires instead of the filter's. `now`
 * is look_clock(), or 0: it is read if it is needed. */
enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    uint64_t now, const struct tamis_key *key,
                                    enum tamis_reason *why);
/* explain.c: tamis_filter_explain() for at least this watermark. */
enum tamis_answer filter_explain_from(struct tamis_filter *f, uint64_t min_watermark,
                                      const struct tamis_key *key,
                                      struct tamis_explanation *out);
size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t now, uint64_t tag, const uint64_t *hashes,
                               size_t n, uint64_t *absent, enum tamis_reason *why);
/* The bits of a filter that needs no further look at it: sealed for good, one stage,
 * all of it good, of this domain, with that watermark. False: it is not so now. It
 * stays true of the filter until stage_epoch() grows. */
bool filter_plane(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                  struct plane *plane);
/* Asks for the lines that a probe is going to look at first. */
void filter_prefetch(struct tamis_filter *f, uint64_t h);
/* From now on its pages are counted there, not in the filter. No other thread may have
 * the filter yet. */
void filter_count_pages(struct tamis_filter *f, struct page_counts *counts);
const struct page_counts *filter_page_counts(const struct tamis_filter *f);

#endif
