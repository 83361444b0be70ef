/* Rot: what is shared by the program that damages files of every kind in every way it
 * can think of, and asks for every key afterwards.
 *
 *   kinds.c    makes the files by scripts of steps, with the keys that are in them
 *   damage.c   a file that can be damaged and be as it was again; lists of damages:
 *              bits, sectors, lengths, slots, copies, some at once
 *   judge.c    what SPEC.md section 7 says of a page, worked out anew; was an ABSENT
 *              one of the exceptions that it names?
 *   readers.c  readers of every mode, from before and after the damage
 *   writers.c  writers that go on or seal
 *   stores.c   the same in a store: files, packs, lists, catalog, attach
 *   rot.c      options, processes, the table at the end */
#ifndef TAMIS_TESTS_ROT_H
#define TAMIS_TESTS_ROT_H

#include "tests/steps/steps.h"

/* ---- trials ---- */

/* Each damage is a trial of a job, which is a kind of file or the store; its random
 * numbers are its own. True: it is to be tried. */
bool trial(void);
uint64_t random_u64(void);
uint64_t random_below(uint64_t n);
/* How much to try: one bit in `every`, and other damages in proportion. */
extern uint64_t every;
/* Prints the lost key and how to try again; ends the job. */
_Noreturn void lost(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what))                                                                   \
            lost("%s:%d: %s", __FILE__, __LINE__, #what);                              \
    } while (0)

/* ---- files ---- */

struct image {
    uint8_t *bytes;
    size_t n;
};

enum part {
    BITS_OF_NUMBERS, /* with which a reader computes */
    BITS_OF_HEADER,
    BITS_OF_FLOORS,
    BITS_OF_DIGESTS,
    BITS_OF_STAGES,
    SECTORS,
    LENGTHS,
    SLOTS,
    WHOLE,
    TWO,
    N_PARTS
};

enum { N_KINDS = 19, MAX_PAST = 16, FOCUS = 4, MAX_REGIONS = 32 + 3 * MAX_STAGES };

/* A file, its contents, and a catalog's facts about it. */
struct kind {
    const char *name;
    uint64_t offset; /* of the filter in the file */
    struct image now;
    struct image past[MAX_PAST]; /* the same file at its earlier commits */
    size_t n_past;
    struct image other; /* another filter, made in the same way of other keys */
    struct image ahead; /* one with fewer keys and stages, and a higher sequence */
    uint64_t *keys; /* hashes: first those that were acknowledged, then the others */
    size_t n_acked, n_keys;
    struct identity id;
    struct commit commit;
    struct tamis_filter_options known; /* what entry.c would expect */
    uint32_t (*focus)[FOCUS];          /* per page of the filter: keys that need it */
    struct region {
        uint64_t at, n; /* in the file */
        enum part part;
    } regions[MAX_REGIONS];
    size_t n_regions;
    bool large; /* not everything is tried on it */
};

const char *kind_name(size_t i);
void kind_make(struct kind *k, size_t i, const char *dir);
/* Where its header, its slots and its stages are; of `now` and `offset` only. */
void kind_look(struct kind *k);
struct image image_read(const char *path);
bool image_decode(const struct image *m, uint64_t offset, struct identity *id,
                  struct commit *c);

struct file {
    const struct kind *kind;
    int fd;
    char path[64];
    uint8_t *bytes; /* mapped: as they are now */
    size_t n;
    size_t low, high; /* what differs from kind->now */
};
/* In memory, or (path) on its disk. */
void file_open(struct file *f, const struct kind *k, const char *path);
void file_close(struct file *f);
void file_look(struct file *f); /* somebody else has written */
void file_mend(struct file *f); /* as kind->now */

struct damage {
    enum { FLIP, FILL, NOISE, COPY, CUT, REPLACE, MEND } what; /* MEND: digests */
    uint64_t at, n; /* bytes of the file; CUT: n is the length that is left */
    uint8_t value;  /* bit number; byte */
    const struct image *from;
    uint64_t from_at;
};
enum { MOST_AT_ONCE = 6 };
struct damages {
    struct damage of[MOST_AT_ONCE];
    size_t n;
    enum part part;
};
void damage_do(struct file *f, const struct damages *d);
/* In words, for a message. */
const char *damage_say(const struct damages *d);
/* Calls readers_try() for each. */
void damages_try(struct file *f);
/* One at random; near: in the same sector as that byte perhaps, if not 0. */
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

enum view {
    LAZY,        /* a lone file, no expectations */
    KNOWN,       /* with what the catalog knows */
    FULL,        /* every page checked while opening */
    STRICT,      /* before every use */
    NONE,        /* trust the medium */
    LIVE,        /* opened before the damage, no page touched */
    LIVE_STRICT, /* opened before, every page used before */
    WARM,        /* opened before, every page found good */
    GREW,        /* opened before the file grew, which it sees with the damage */
    N_VIEWS
};

/* Does this page fail, by the bytes as they are and by SPEC.md alone? The commit
 * record that is used must be kind->commit. */
bool page_fails(const struct file *f, uint32_t stage, uint64_t page);
uint64_t pages_that_fail(const struct file *f);
/* Why the key is absent from a filter that was opened in this view, and says of itself
 * what is in `read`. */
enum exception judge(const struct file *f, enum view view,
                     const struct tamis_filter_info *read, size_t key);

/* ---- counts, of a job or of all ---- */

enum count {
    REFUSED, /* by the first view */
    DAMAGED,
    UNHARMED,
    SESSIONS,
    SESSIONS_REFUSED,
    SEALS,
    PAGES_KEPT,
    OF_A_STORE,
    ATTACHED,
    ATTACH_REFUSED,
    N_COUNTS
};
struct tally {
    uint64_t damages[N_PARTS], asked[N_VIEWS], n[N_COUNTS];
    uint64_t exceptions[N_EXCEPTIONS]; /* damages after which there were any */
};
extern struct tally *tally;
extern const char *const part_names[N_PARTS], *const view_names[N_VIEWS],
                                                  *const exception_names[N_EXCEPTIONS],
                                                      *const count_names[N_COUNTS];

/* ---- asking ---- */

/* Damages a whole file, asks readers of every kind, and mends it. */
void readers_try(struct file *f, const struct damages *d);
/* Writers that find the file damaged, and go on or seal. */
void sessions_try(struct file *f);
void stores_try(const char *dir);

#endif
