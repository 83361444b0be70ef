/* An open writer from inside. README.md says what each file has of it. */
#ifndef TAMIS_WRITER_H
#define TAMIS_WRITER_H

#include "lib/writer/writer.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"

#include <limits.h>
#include <stdlib.h>

/* A shard serves one thread at a time. Threads that find it taken share two more. */
enum { N_SHARDS = 16, SHARED_SHARD = N_SHARDS, N_SHARED = 2, CACHE_LINE = 64 };

enum { N_TURNS = 32 };

/* The counters of a shard: each thread raises its own. */
struct writer_shard {
    _Alignas(CACHE_LINE) _Atomic uint64_t keys; /* adds that set a bit */
    _Atomic uint64_t bits;
};

/* Raises a counter of a shard, of which others read the sum meanwhile. Returns it. */
static inline uint64_t shard_count(_Atomic uint64_t *counter, unsigned shard,
                                   uint64_t n)
{
    if (shard >= SHARED_SHARD)
        return n + atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    n += atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, n, memory_order_relaxed);
    return n;
}

struct writer_stage {
    struct stage stage;
    struct mapping bits_map;
    struct mapping checks_map;     /* floors, or digests of a settled stage */
    uint64_t n_full_bits;          /* set bits of a full stage */
    uint64_t check_interval;       /* keys after which a thread looks at the sum */
    uint64_t base_keys, base_bits; /* as of the session's start */
    uint64_t next_look;            /* the owner's: at how many keys of shard 0 */
    _Atomic uint16_t *floors;      /* 8 a page; only grow */
    _Atomic uint64_t *dirty;       /* a bit per page: floors to be counted again */
    _Atomic uint64_t *found;       /* the same; written only if that raises a floor */
    atomic_bool drained;           /* no add can change it any more */
    struct plane_row older;        /* the stages before it */
    struct writer_shard shards[N_SHARDS + N_SHARED];
};

enum writer_state { WRITER_OPEN, WRITER_SEALING, WRITER_SEALED, WRITER_POISONED };

/* Own shard: odd while its thread adds, and never the same number again. Shared
 * shard: the number of threads that add. */
struct in_flight {
    _Alignas(CACHE_LINE) _Atomic uint32_t n;
};

struct tamis_writer {
    struct in_flight in_flight[N_SHARDS + N_SHARED];
    struct writer_stage *stages[MAX_STAGES];
    struct plane planes[MAX_STAGES]; /* of the stages */
    _Atomic uint32_t n_stages;       /* released after the stage is durable */
    _Atomic uint32_t state;
    _Atomic uint64_t watermark; /* of the last durable commit */
    _Atomic bool grow_failed;   /* until the next commit */
    /* Set by the SIGBUS guard when it replaces a page. Keys added there are lost, and
     * keys found there may be. Counts as poisoned (R15). */
    _Atomic bool lost;
    /* owner.c: the thread that has the writer to itself since it was opened, and
     * whether it is in an add. NULL: any number of threads may add. */
    const void *_Atomic owner;
    _Atomic bool adding;
    unsigned fork_epoch;
    /* 1 + the fork epoch if the owner's last add found that the next one has to look at
     * nothing but the bits of one stage; NOT_PLAIN while a commit, a growth or a seal
     * may change that; else 0. */
    _Atomic unsigned plain;
    struct tamis_domain domain;
    const struct kernel *kernel;
    /* Its add_one_alone(). */
    uint32_t (*add_one)(const struct plane *plane, _Atomic uint64_t *dirty, uint64_t h);
    struct io_guarded_fd guard;
    pthread_mutex_t floors_mutex;   /* one floor sector; taken last */
    pthread_mutex_t sync_mutex;     /* a sync, and sync_error; taken last, too */
    pthread_mutex_t turns[N_TURNS]; /* add.c: of keys that may be new; taken first */
    int sync_error;
    /* Commit, grow, seal; guards what follows. Take it by mutex_take(). */
    pthread_mutex_t mutex;
    const void *outer; /* mutex_of before */
    int cancel;        /* whether its thread could be cancelled before */
    /* Adds in flight when the newest stage was published, 0 once they ended; stages
     * left behind; those of them without adds (R17). */
    uint32_t noted[N_SHARDS + N_SHARED], n_left, n_drained;
    struct identity identity;
    struct commit commit; /* as last written */
    struct tamis_growth growth;
    struct writer_hooks hooks;
    bool hook_due; /* the last call of hooks.changed failed */
    char *path;
};

/* ---- writer.c (add.c holds the public adds) ---- */
/* writer_open_fd() for a file opened by this path. */
int writer_open_path(struct io_guarded_fd *opened, const char *path,
                     struct tamis_writer **out, struct tamis_diag *diag);
/* Releases everything, descriptor and lock too. Writes nothing. */
void writer_free(struct tamis_writer *w);

/* ---- batch.c ---- */
enum { ADDS_AT_ONCE = 64 };
/* How many of n keys may be added before the stage's fill is looked at again. */
size_t adds_at_once(const struct writer_stage *s, size_t n);
bool stage_is_full(const struct tamis_writer *w, const struct writer_stage *s);
/* Adds some of *n keys; *n: how many. Is the stage full? *changed, which may be NULL:
 * how many of them set a bit there. */
bool writer_add_some(struct tamis_writer *w, unsigned shard, const uint64_t *hashes,
                     size_t *n, uint64_t *changed);
/* Which of n keys, at most 64, do stages before `current` hold in healthy pages? A bit
 * each; and for these, in `stage` (may be NULL), which stage. n_next hashes behind them
 * will be asked next. */
uint64_t older_keys(const struct tamis_writer *w, uint32_t current,
                    const uint64_t *hashes, size_t n, size_t n_next, uint8_t *stage);

/* ---- owner.c, alone.c ---- */
/* ERR_THREAD: another thread has the writer to itself, or this one is in an add. */
int alone_check(const struct tamis_writer *w);
/* One in each thread. Its address says which thread that is. */
#pragma GCC visibility push(hidden) /* no detour to it by a table of addresses */
extern _Thread_local char alone_here __attribute__((tls_model("initial-exec")));
#pragma GCC visibility pop
/* Are all pages of the first n stages good? */
static inline bool stages_all_good(const struct tamis_writer *w, uint32_t n)
{
    bool all = true;
    for (uint32_t i = 0; i < n; i++)
        all &= stage_all_good(&w->stages[i]->stage);
    return all;
}
/* Has this thread the writer to itself? */
static inline bool alone_is_mine(const struct tamis_writer *w)
{
    return atomic_load_explicit(&w->owner, memory_order_relaxed) == &alone_here;
}
/* Around adds of the owner. */
int alone_enter(struct tamis_writer *w);
void alone_leave(struct tamis_writer *w);
/* The object whose mutex this thread has, or is about to take. It is set before and
 * reset after, for a signal handler may call at any moment. */
#pragma GCC visibility push(hidden)
extern _Thread_local const void *mutex_of __attribute__((tls_model("initial-exec")));
#pragma GCC visibility pop
static inline void mutex_take(struct tamis_writer *w)
{
    const void *outer = mutex_of;
    int cancel = io_hold_cancel(); /* writes and syncs are cancellation points */
    mutex_of = w;
    atomic_signal_fence(memory_order_seq_cst);
    pthread_mutex_lock(&w->mutex);
    w->outer = outer;
    w->cancel = cancel;
}
static inline void mutex_give(struct tamis_writer *w)
{
    const void *outer = w->outer;
    int cancel = w->cancel;
    pthread_mutex_unlock(&w->mutex);
    atomic_signal_fence(memory_order_seq_cst);
    mutex_of = outer;
    io_let_cancel(cancel);
}
/* Would this thread wait for itself? It is a signal handler's call, in the middle of a
 * commit, a growth or a seal, or the first after a handler jumped out of one. */
static inline bool mutex_is_mine(const struct tamis_writer *w)
{
    return mutex_of == w;
}
static inline int call_may_begin(const struct tamis_writer *w)
{
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    return mutex_is_mine(w) ? TAMIS_ERR_THREAD : alone_check(w);
}
/* Around a commit, a growth or a seal. The next add looks at everything again, and so
 * does one of a signal handler meanwhile. */
#define NOT_PLAIN UINT_MAX
static inline void writer_lock(struct tamis_writer *w)
{
    mutex_take(w);
    atomic_store(&w->plain, NOT_PLAIN);
}
static inline void writer_unlock(struct tamis_writer *w)
{
    atomic_store(&w->plain, 0);
    mutex_give(w);
}
/* Adds by the owner. alone_add_one(): alone_is_mine() was asked. */
int alone_add(struct tamis_writer *w, const uint64_t *hashes, size_t n);
int alone_add_one(struct tamis_writer *w, const uint64_t *hash);

/* ---- stage.c ---- */
uint64_t stage_keys_now(const struct writer_stage *s);
uint64_t stage_bits_now(const struct writer_stage *s);
/* The next commit counts the page's floors again. */
void stage_set_dirty(struct writer_stage *s, uint64_t page);
/* The same for an add that found all its bits set: the thread that set them may not
 * have marked the page yet. */
void stage_set_found(struct writer_stage *s, uint64_t page);
/* Condemns a page that failed its check: for ever, from the next commit on. */
void stage_condemn(struct writer_stage *s, uint64_t page);
/* Maps a part of the file, and keeps it from children. */
int writer_map(struct tamis_writer *w, uint64_t at, uint64_t n_bytes, bool writable,
               struct mapping *m);
/* Maps stage i of a record and sets up its memory; fresh: created just now. */
int writer_stage_create(struct tamis_writer *w, const struct commit *c, uint32_t i,
                        bool fresh, struct writer_stage **out);
void writer_stage_free(struct writer_stage *s);
/* Makes it stage i of the writer, which has those before it. The caller raises
 * n_stages. */
void writer_stage_use(struct tamis_writer *w, uint32_t i, struct writer_stage *s);

/* ---- durable.c: with the mutex held, unless said otherwise ---- */
int writer_poison(struct tamis_writer *w, int os_errno, const char *doing,
                  struct tamis_diag *diag);
static inline bool writer_is_broken(const struct tamis_writer *w)
{
    return atomic_load(&w->lost) || atomic_load(&w->state) == WRITER_POISONED;
}
/* Why it takes no more keys; 0: it does. */
static inline int writer_error(const struct tamis_writer *w)
{
    uint32_t state = atomic_load(&w->state);
    if (state == WRITER_OPEN)
        return atomic_load(&w->lost) ? TAMIS_ERR_POISONED : 0;
    return state == WRITER_POISONED ? TAMIS_ERR_POISONED : TAMIS_ERR_SEALED;
}
/* ERR_POISONED if a page was lost, which poisons the writer, or if it is poisoned: an
 * add may have done that (floors.c). Else 0. */
int writer_check_lost(struct tamis_writer *w, struct tamis_diag *diag);
/* Syncs the file. After a failure every call fails (R4). The mutex may be held. */
int writer_sync(struct tamis_writer *w);
int writer_write_slot(struct tamis_writer *w, const struct commit *c, uint8_t slot);
/* The next record, with counts as of now. */
void writer_next_record(struct tamis_writer *w, struct commit *c);
int writer_write_record(struct tamis_writer *w, const struct commit *c, bool table,
                        struct tamis_diag *diag);
int writer_changed(struct tamis_writer *w, struct tamis_diag *diag);
/* May the commit be acknowledged? Not if another file has the name now. */
int writer_acknowledge(struct tamis_writer *w, struct tamis_diag *diag);

/* ---- floors.c: the mutex may be held or not, unless said otherwise ---- */
/* Makes a page that failed its check all ones, so that readers are right before the
 * next commit, and after a kill or a power cut. False: its floors could not be made
 * durable. Then the page is unchanged, and the writer poisoned. */
bool writer_condemn_page(struct tamis_writer *w, struct writer_stage *s, uint64_t page);
/* With the mutex held. Takes the marks and counts the marked pages. `taken` gets a bit
 * for each page whose floors must be written. */
void floors_count_dirty(struct tamis_writer *w, struct writer_stage *s,
                        uint64_t *taken);
int floors_write_taken(struct tamis_writer *w, struct writer_stage *s,
                       const uint64_t *taken);

/* ---- commit.c ---- */
/* Data, floors and record; both slots durable if `table` (R2). With the mutex held. */
int writer_commit_locked(struct tamis_writer *w, uint64_t watermark, uint8_t clean,
                         bool table, struct tamis_diag *diag);

/* ---- grow.c ---- */
/* The descriptor of stage i, placed at or after `end`. */
int stage_plan(const struct tamis_growth *growth, uint32_t i, uint64_t end,
               struct stage_desc *d);
/* Space and first floors of a stage not in use yet. */
int stage_allocate(int fd, const struct identity *id, const struct stage_desc *d);
/* Appends a stage if the last one is full. */
int writer_grow(struct tamis_writer *w);
/* After some keys were added, and outside of what a seal waits for: grows a stage that
 * is full. ERR_POISONED: the keys may not be in. */
int writer_after_some(struct tamis_writer *w, bool full);

/* ---- settle.c: with the mutex held ---- */
/* Call it right after a stage was published: notes adds that may not have seen it. */
void settle_note(struct tamis_writer *w);
/* Digests stages that no add can change any more. Writes the digests from *end on, and
 * moves *end. The caller syncs before it writes *c. A stage that fails is left for
 * later. True: a stage was settled. */
bool writer_settle(struct tamis_writer *w, struct commit *c, uint64_t *end);

/* ---- recover.c ---- */
/* Loads all floors. After an unclean end also checks, dirties and recounts all pages
 * (R3). */
int writer_recover(struct tamis_writer *w, bool unclean, struct tamis_diag *diag);
/* Makes the chosen slot durable, which may be in the page cache only. Writes the same
 * bytes, which cannot tear it. An errno. */
int slot_settle(int fd, const struct header *h);

#endif
