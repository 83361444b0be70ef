/* Rot: what is shared by the program that damages filter files in every way it can
 * think of, and asks for every key afterwards.
 *
 *   kinds.c    makes the files, of every kind, with the keys that are in them
 *   file.c     a file in memory that can be damaged and be as it was again
 *   damage.c   lists damages: bits, sectors, lengths, slots, copies, two at once
 *   judge.c    what SPEC.md section 7 says of a page, worked out anew; was an ABSENT
 *              one of the exceptions that it names?
 *   readers.c  readers of every mode, from before and after the damage
 *   writers.c  writers that go on or seal
 *   stores.c   the same in a store: catalog, attach, files put back and exchanged
 *   rot.c      options, processes, the table at the end */
#ifndef TAMIS_TESTS_ROT_H
#define TAMIS_TESTS_ROT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/internals.h"

/* ---- files ---- */

struct image {
    uint8_t *bytes;
    size_t n;
};

enum { MAX_PAST = 16, FOCUS = 4 };

/* A file, what is in it, and what a catalog would know of it. */
struct kind {
    const char *name;
    uint64_t offset; /* of the filter in the file */
    struct image now;
    struct image past[MAX_PAST]; /* the same file at its earlier commits */
    size_t n_past;
    struct image other; /* another filter, made in the same way of other keys */
    struct image ahead; /* one with fewer keys and stages, and a higher sequence */
    uint64_t *keys;     /* first those that were acknowledged, then the others */
    size_t n_acked, n_keys;
    struct identity id;
    struct commit commit;
    struct tamis_filter_options known; /* what entry.c would expect */
    uint32_t (*focus)[FOCUS];          /* per page of the filter: keys that need it */
    bool large;                        /* not everything is tried on it */
};

enum { N_KINDS = 19 };
const char *kind_name(size_t i);
void kind_make(struct kind *k, size_t i, const char *dir);
struct image image_read(const char *path);

struct file {
    const struct kind *kind;
    int fd;
    char path[64];
    struct image is;  /* the bytes as they are now */
    size_t low, high; /* what differs from kind->now */
};
void file_open(struct file *f, const struct kind *k);
void file_close(struct file *f);
void file_mend(struct file *f);   /* as kind->now */
void file_reread(struct file *f); /* after a writer */

/* ---- damages ---- */

enum damage_class {
    ON_BITS_OF_HEADER,
    ON_BITS_OF_DESCRIPTORS,
    ON_BITS_OF_FLOORS,
    ON_BITS_OF_DIGESTS,
    ON_BITS_OF_STAGES,
    ON_SECTORS,
    ON_LENGTH,
    ON_SLOTS,
    ON_WHOLE,
    ON_TWO,
    N_CLASSES
};
extern const char *const class_names[N_CLASSES];

struct damage {
    enum { FLIP, FILL, NOISE, COPY, CUT, REPLACE } what;
    uint64_t at, n; /* bytes of the file; CUT: n is the length that is left */
    uint8_t value;  /* bit number; byte; seed */
    const struct image *from;
    uint64_t from_at;
};
void damage_do(struct file *f, const struct damage *d);
/* In words, for a message. */
void damage_say(char *text, size_t n, const struct damage *d);

typedef void damage_fn(void *ctx, const struct damage *d, size_t n,
                       enum damage_class class);
struct effort {
    uint64_t every;     /* one in so many bits, lengths, sectors */
    uint64_t n_pairs;   /* of two damages, per kind */
    uint64_t n_writers; /* sessions per kind */
    uint64_t n_stores;  /* damages within a store, per segment */
};
/* Calls fn for each. The first `skip` of each class are left out. */
void damages_each(const struct kind *k, const struct effort *e, uint64_t skip,
                  damage_fn *fn, void *ctx);
/* One at random; near: in the same stage's neighbourhood as byte *near, if not 0. */
struct damage damage_random(const struct kind *k, uint64_t near);

/* ---- judging ---- */

enum exception {
    LOST,        /* none: a key is lost */
    MASKED,      /* a stage on floors lost bits of a sector and gained as many */
    PUT_BACK,    /* an older copy of an open filter, or of its slots */
    SECTOR,      /* an older copy of a sector of an open stage, with its floors */
    UNCOMMITTED, /* the key was never acknowledged */
    EXCHANGED,   /* another filter; the caller did not say which he means */
    REMEMBERED,  /* the page was found good before */
    UNCHECKED,   /* TAMIS_CHECK_NONE */
    N_EXCEPTIONS
};
extern const char *const exception_names[N_EXCEPTIONS]; /* as SPEC.md calls them */

enum view {
    LAZY,        /* a lone file, no expectations */
    KNOWN,       /* with what the catalog knows */
    FULL,        /* every page checked while opening */
    STRICT,      /* before every use */
    LIVE,        /* opened before the damage, no page touched */
    GREW,        /* opened before the file grew, which it sees with the damage */
    LIVE_STRICT, /* opened before, every page used before */
    WARM,        /* opened before, every page found good */
    NONE,        /* trust the medium */
    N_VIEWS
};
extern const char *const view_names[N_VIEWS];

struct tally {
    _Atomic uint64_t damages[N_CLASSES];
    _Atomic uint64_t asked[N_VIEWS];
    _Atomic uint64_t refused, damaged, unharmed; /* by the first view */
    _Atomic uint64_t sessions, sessions_refused, seals, pages_kept;
    _Atomic uint64_t in_store, attached, attach_refused;
    _Atomic uint64_t exceptions[N_EXCEPTIONS]; /* damages after which there were any */
    _Atomic uint64_t n_lost;
};
extern struct tally *tally; /* of the kind that this process is at */
void lost(const struct kind *k, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool enough(void); /* so much was lost that this kind need not go on */

/* Does this page fail, by the bytes as they are and by SPEC.md alone? The commit
 * record that is used must be kind->commit. */
bool page_fails(const struct file *f, uint32_t stage, uint64_t page);
uint64_t pages_that_fail(const struct file *f);
/* Why the key is absent from a filter that was opened in this view, and says of itself
 * what is in `read`. */
enum exception judge(const struct file *f, enum view view,
                     const struct tamis_filter_info *read, size_t key);

/* ---- asking ---- */

/* Damages a whole file, asks readers of every kind, and mends it. Turns differ in
 * the kinds of reader that look on meanwhile. */
void readers_try(struct file *f, const struct damage *d, size_t n,
                 enum damage_class class, uint64_t turn);
/* Writers that find the file damaged, and go on or seal. */
void sessions_run(struct file *f, const struct effort *e);
void stores_run(const char *dir, const struct effort *e);

/* ---- random numbers: splitmix64 (Steele, Lea, Flood 2014) ---- */
extern uint64_t random_state;
uint64_t random_u64(void);
uint64_t random_below(uint64_t n);

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                 \
            abort();                                                                   \
        }                                                                              \
    } while (0)

#endif
