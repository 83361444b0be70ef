/* An open writer from inside: writer.c (open, close), create.c, stage.c, add.c,
 * durable.c (sync and record), floors.c, commit.c, grow.c, settle.c (digests of stages
 * left behind), seal.c and recover.c (after an unclean end). */
#ifndef TAMIS_WRITER_H
#define TAMIS_WRITER_H

#include "lib/writer/writer.h"
#include "format/commit.h"
#include "lib/filter/header.h"
#include "lib/io/io.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"

#include <pthread.h>

/* One stripe a thread at a time; and two more for all that find theirs taken. */
enum { N_STRIPES = 16, SHARED_STRIPE = N_STRIPES, N_SHARED = 2, CACHE_LINE = 64 };

/* Counters that threads raise side by side, each those of the stripe that it took. */
struct stripe {
    _Alignas(CACHE_LINE) _Atomic uint64_t keys; /* adds that set a bit */
    _Atomic uint64_t bits;
};

struct writer_stage {
    struct stage stage;
    struct mapping bits_map;
    struct mapping checks_map;     /* floors, or the digests of one that was settled */
    uint64_t n_full_bits;          /* at so many set bits the stage is full */
    uint64_t check_interval;       /* a thread looks at the sum after so many keys */
    uint64_t base_keys, base_bits; /* as of the session's start */
    _Atomic uint16_t *floors;      /* 8 a page; only grow */
    _Atomic uint64_t *dirty;       /* a bit per page: floors to be counted again */
    _Atomic uint64_t *found;       /* the same, and written only if that raises one */
    atomic_bool drained;           /* no add can change it any more */
    struct stripe stripes[N_STRIPES + N_SHARED];
};

enum writer_state { WRITER_OPEN, WRITER_SEALING, WRITER_SEALED, WRITER_POISONED };

/* A stripe of one thread: odd while the thread adds, and never the same number again. A
 * shared stripe: the number of threads that add. */
struct in_flight {
    _Alignas(CACHE_LINE) _Atomic uint32_t n;
};

struct tamis_writer {
    struct in_flight in_flight[N_STRIPES + N_SHARED];
    struct writer_stage *stages[MAX_STAGES];
    struct plane planes[MAX_STAGES]; /* of the stages */
    _Atomic uint32_t n_stages;       /* released after the stage is durable */
    _Atomic uint32_t state;
    _Atomic uint64_t watermark; /* of the last durable commit */
    _Atomic bool grow_failed;   /* until the next commit */
    /* Set by the SIGBUS guard when it replaces a page: keys that went there went
     * nowhere, and keys that seemed to be there may not be. As good as poisoned (R15).
     */
    _Atomic bool lost;
    unsigned fork_epoch;
    struct tamis_domain domain;
    const struct kernel *kernel;
    struct io_guarded_fd guard;
    pthread_mutex_t floors_mutex; /* one floor sector; taken last */
    pthread_mutex_t sync_mutex;   /* one sync, and what became of the last; the same */
    int sync_error;
    pthread_mutex_t mutex; /* commit, grow, seal; below are its */
    /* Adds that were in flight when the newest stage was published, 0 once they have
     * ended; how many stages it left behind, and in how many no add is left (R17). */
    uint32_t noted[N_STRIPES + N_SHARED], n_left, n_drained;
    struct identity identity;
    struct commit commit; /* as last written */
    struct tamis_growth growth;
    struct writer_hooks hooks;
    bool hook_due; /* the last call of hooks.changed failed */
    char *path;
};

/* ---- writer.c (add.c holds the public adds) ---- */
/* writer_open_fd() of a file that was opened by this path. */
int writer_open_path(struct io_guarded_fd *opened, const char *path,
                     struct tamis_writer **out, struct tamis_diag *diag);
/* Gives everything back, its descriptor and lock too, and writes nothing. */
void writer_free(struct tamis_writer *w);

/* ---- stage.c ---- */
uint64_t stage_keys_now(const struct writer_stage *s);
uint64_t stage_bits_now(const struct writer_stage *s);
/* The page's floors are to be counted again at the next commit. */
void stage_set_dirty(struct writer_stage *s, uint64_t page);
/* The same for an add that found all its bits in the page: perhaps the thread that set
 * them has not marked it yet. */
void stage_set_found(struct writer_stage *s, uint64_t page);
/* A page that failed its check: its floors say so for ever, from the next commit on. */
void stage_condemn(struct writer_stage *s, uint64_t page);
/* Maps a part of the file, and keeps it from children. */
int writer_map(struct tamis_writer *w, uint64_t at, uint64_t n_bytes, bool writable,
               struct mapping *m);
/* Maps stage i of a record and sets up its memory; fresh: created just now. */
int writer_stage_create(struct tamis_writer *w, const struct commit *c, uint32_t i,
                        bool fresh, struct writer_stage **out);
void writer_stage_free(struct writer_stage *s);
/* Makes it stage i of the writer; n_stages is still to be raised. */
void writer_stage_use(struct tamis_writer *w, uint32_t i, struct writer_stage *s);

/* ---- durable.c: with the mutex held, unless said otherwise ---- */
int writer_poison(struct tamis_writer *w, int os_errno, const char *doing,
                  struct tamis_diag *diag);
static inline bool writer_is_broken(const struct tamis_writer *w)
{
    return atomic_load(&w->lost) || atomic_load(&w->state) == WRITER_POISONED;
}
/* Poisons it if a page was lost: ERR_POISONED, else 0; also if it is poisoned, which an
 * add may have done (floors.c). */
int writer_check_lost(struct tamis_writer *w, struct tamis_diag *diag);
/* All of the file; once it has failed it fails (R4). The mutex may be held or not. */
int writer_sync(struct tamis_writer *w);
int writer_write_slot(struct tamis_writer *w, const struct commit *c, uint8_t slot);
/* The record to be written next, counts as of now. */
void writer_next_record(struct tamis_writer *w, struct commit *c);
int writer_write_record(struct tamis_writer *w, const struct commit *c, bool table,
                        struct tamis_diag *diag);
int writer_changed(struct tamis_writer *w, struct tamis_diag *diag);
/* May it be told that what was committed is in? Not if nobody finds it there. */
int writer_acknowledge(struct tamis_writer *w, struct tamis_diag *diag);

/* ---- floors.c: the mutex may be held or not, unless said otherwise ---- */
/* Sectors of the floors, up to `end`, as they are in memory. */
int writer_write_floors(struct tamis_writer *w, struct writer_stage *s, uint64_t sector,
                        uint64_t end);
/* Makes a page that failed its check all ones, which is what it counts as, for readers
 * too that look at it before the next commit, or after a kill or a power cut. False:
 * its floors could not be made durable; the page is as it was, the writer poisoned. */
bool writer_condemn_page(struct tamis_writer *w, struct writer_stage *s, uint64_t page);
/* With the mutex held. Takes the marks and counts the pages that they name; `taken`
 * gets a bit for each page whose floors are to be written. */
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
/* Space and first floors of a stage that nobody uses yet. */
int stage_allocate(int fd, const struct identity *id, const struct stage_desc *d);
/* Appends a stage if the last one is full and nobody has done it yet. */
int writer_grow(struct tamis_writer *w);

/* ---- settle.c: with the mutex held ---- */
/* Right after a stage was published: notes the adds that may not have seen it. */
void settle_note(struct tamis_writer *w);
/* Gives digests to the stages that no add can change any more, and writes them from
 * *end on, which moves. The caller syncs before it writes *c. A stage that fails is
 * left for another time. Is any stage settled that was not before? */
bool writer_settle(struct tamis_writer *w, struct commit *c, uint64_t *end);
/* A copy of the page that may be digested, of a stage that has no adds any more.
 * Checked afresh, whatever the session found on first touch: against the latest floors,
 * which are those in memory, or the digests of a settled stage (else NULL). A page that
 * has lost keys, digested as it is, would say ABSENT with a good digest (R11). It
 * becomes all ones, and so does the copy: false. */
bool writer_sound_copy(struct tamis_writer *w, struct writer_stage *s,
                       struct stage *settled, uint64_t page, uint8_t copy[PAGE_BYTES]);
/* Stage i by its digests, with nothing known of its pages. */
struct settled {
    struct stage stage;
    struct mapping map;
};
int settled_open(struct tamis_writer *w, uint32_t i, struct settled *out);
void settled_close(struct settled *s);

/* ---- recover.c ---- */
/* Loads the floors of every stage; after an unclean end also checks, re-dirties and
 * recounts every page (R3). */
int writer_recover(struct tamis_writer *w, bool unclean, struct tamis_diag *diag);
/* Makes the slot that was chosen durable, by writing the very bytes that it has (which
 * cannot tear it): it may be in the page cache only. An errno. */
int slot_settle(int fd, const struct header *h);

#endif
