/* Shared by the files of the benchmark. A figure is a way of ours beside a peer's, or
 * beside the most that the machine can do. Both run in turn in the same round, on the
 * same keys. table.c lists the figures, race.c takes their times, rooms/ has the code
 * that sets them up, a subject a file; peers/ has the peers. */
#ifndef TAMIS_TESTS_BENCH_H
#define TAMIS_TESTS_BENCH_H

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tamis.h>

#include "format/geometry.h"
#include "lib/tamis_inline.h"

/* ---- bench.c: one run ---- */

struct sizes {
    const char *form;
    unsigned rounds;       /* of a figure */
    uint64_t small, large; /* keys of the filters in the cache, and in memory */
    uint64_t small_piece, large_piece; /* keys of a round */
    uint64_t list;                     /* hashes */
    unsigned shape_bits; /* of the numbers of segments; 2^shape_bits at most */
    uint64_t shape_keys; /* of a segment at most */
    uint64_t stage_keys; /* of the first of eleven stages */
    uint64_t few_packed, many_packed; /* segments of the stores of the laws */
    unsigned guests;                  /* processes that ask one: 16 at most */
    uint64_t edits, packings;         /* and how often these are packed */
};

struct bench {
    struct sizes sizes;
    uint64_t seed;
    const char *program;
    const char *dir; /* for files, and for the report */
    /* "loss": present keys are asked that are not; "error": absent keys are asked that
     * are there; else "". */
    const char *planted;
    struct tamis_domain domain;
};
extern struct bench bench;

/* Ends the run: nothing more can be measured. */
void give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void must(int rc, const struct tamis_diag *diag, const char *what);
void *allocate(size_t n_bytes); /* of lines of 64 bytes, zeroed */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- keys.c: the same keys for all, from the seed ---- */

/* Key number i has 16 to 40 bytes. Keys below ABSENT_KEYS are added somewhere; keys
 * from there on never are. */
#define ABSENT_KEYS (UINT64_C(1) << 62)
enum { KEY_MOST = 40 };
size_t key_text(uint64_t i, char bytes[KEY_MOST]);
uint64_t mixed(uint64_t x); /* a bijection */
/* n keys from number `first` on, not hashed. */
void keys_fill(uint64_t first, size_t n, struct tamis_key *keys,
               char (*bytes)[KEY_MOST]);
void hashes_fill(uint64_t first, size_t n, uint64_t *hashes);
uint64_t *hashes_of(uint64_t first, size_t n); /* allocated */

/* The keys that a round asks for. */
struct piece {
    size_t n;
    bool present;
    uint64_t *hashes;
    struct tamis_key *keys; /* with bytes, hashed already */
    char *bytes;            /* of key i: from ends[i] to ends[i + 1] */
    uint64_t *ends;
    uint32_t *segments; /* the lane that a key is asked of; NULL: there is one */
};
/* Where pieces come from. A warm one is the same in each round; else the keys are new
 * each time, in an order of their own, so that no cache has their lines. */
struct source {
    uint64_t n_keys; /* 0 .. n_keys - 1 are present */
    size_t n;        /* of a piece */
    bool warm;
    bool ready[2];
    struct piece pieces[2]; /* absent, present */
};
struct source source_of(uint64_t n_keys, size_t n);
const struct piece *piece_next(struct source *source, bool present);
void source_free(struct source *source);

/* ---- race.c: how a time is taken ---- */

uint64_t now_ns(void);
uint64_t cpu_ns(void);         /* that this process has used */
extern volatile uint64_t sink; /* results are consumed */
void pin(void);                /* to one core, but for what needs two */
void unpin(void);

/* Asks for a piece. Returns how many answers were ABSENT. */
typedef size_t ask_fn(void *subject, const struct piece *piece);
struct asker {
    ask_fn *ask;
    void *subject;
    double error; /* as planned; 0: it gives no answers */
};
/* Two that answer the same question: absent and present keys, nanoseconds a key. */
struct contest {
    struct asker ours, peer;
    struct source *source;
    bool same; /* both have the same bits: their answers must be equal */
    bool work; /* they add keys, or hash them: there are only present ones */
};
void contest(const char *id, struct contest contest);

/* Two that do the same work, in nanoseconds an item. */
typedef double work_fn(void *subject);
void compare(const char *id, work_fn *ours, void *our_subject, work_fn *peer,
             void *peer_subject);

/* ---- table.c, report.c: the figures ---- */

enum { MOST_ROUNDS = 101 };
enum trait {
    LARGE = 1,  /* of the filter in memory */
    RIBBON = 2, /* of a ribbon */
    SAME = 4,   /* a contest's `same` */
    WORK = 8    /* a contest's `work` */
};
struct figure {
    void (*room)(void); /* measures it */
    const char *id, *what, *ours_is, *peer_is, *unit;
    /* The ratio that is asked for, absent and present keys; NAN: none. */
    double asked[2];
    /* Those of room_filters(), which need no code of their own. */
    ask_fn *ours_ask, *peer_ask;
    unsigned traits;
    double error;
    size_t few; /* keys a call */
    /* As measured. */
    unsigned n; /* 2: absent and present keys; 1: a single value; 0: not measured */
    double ours[2], peer[2], ratio[2];
    char detail[120]; /* sizes and the like; or why it is missing */
};
extern struct figure figures[];
extern const size_t n_figures;
bool wanted(const char *id); /* by --only */
/* The sizes that a figure is measured at, or why it cannot be. */
void figure_detail(const char *id, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Medians of all rounds, in units; the ratio is the median of each round's. */
void figure_set(const char *id, unsigned which, const double *ours, const double *peer,
                unsigned rounds);
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern char *shapes_table;   /* rows for the end of the report, or NULL */
unsigned report_write(void); /* returns how many figures are missing or wrong */

/* ---- machine.c ---- */

void machine_write(void *file);
/* The number in the first line of a file of the system that begins with `key`. */
double number_in(const char *path, const char *key);
void load_note(void); /* before and after: does anybody else use the machine? */

/* ---- subjects.c: filters, built once a run, and their bits; files and stores ---- */

/* Bits of a stage, for those that do without the library: as it has them mapped, or
 * mapped once more by bits_of(). */
struct bits {
    const uint8_t *base;
    struct geometry geometry;
    uint64_t n_bytes;
};
struct lane {
    const uint8_t *base;
    uint64_t n_blocks;
    bool next;                   /* its hash is the one after the lane's before it */
    uint32_t words;              /* rows of a key; 0: one filter, a line of a block */
    uint64_t row_bytes, n_bytes; /* of a row, and of it those that are loaded */
};
struct lines {
    struct lane *lanes;
    size_t n, n_lines; /* of a key */
};
/* A filter of ours, and peers with the same keys and error. */
struct subject {
    uint64_t n_keys;
    double error;
    bool ribbon;
    size_t few; /* keys a call; the caller sets it */
    struct source source;
    struct tamis_filter *filter; /* every page checked */
    struct tamis_inline value;
    struct bits bits;
    struct lines lines; /* of its lanes */
    /* The same bits as blocks in memory, and room for an answer to each key. */
    struct tamis_blocks blocks;
    struct tamis_inline_blocks inline_blocks;
    uint64_t *absent;
    struct sbbf *sbbf;
    struct rocksdb_filter *rocksdb; /* by rocksdb_ready() */
    /* Empty ones, by subject_scratch(). */
    uint8_t *scratch[2];
    struct sbbf *scratch_sbbf;
};
/* A subject with keys 0 .. n_keys - 1. */
struct subject *subject_of(uint64_t n_keys, double error, bool ribbon);
void subject_scratch(struct subject *subject);
void subjects_free(void);

const char *path_in(const char *name); /* in bench.dir; eight may be in use */
void tree_remove(const char *path);
const char *memory_dir(void); /* of this run, in memory where there is such a place */
/* A builder with keys 0 .. n_keys - 1 in it, of one thread if there are none. kind 0:
 * Bloom. */
struct tamis_builder *builder_of(uint64_t n_keys, double error, uint64_t kind,
                                 uint64_t list_bits);
struct tamis_filter *filter_open(const char *path); /* and checks every page */
struct bits bits_of(const char *path, struct tamis_filter *filter, uint32_t stage);
struct tamis_writer *writer_new(const char *path, uint64_t first_capacity);
/* How long n_bytes take, copied from memory and written to a file, durably. */
double write_durably_ns(uint64_t n_bytes);
struct tamis_store *store_new(const char *path);
struct tamis_edit *edit_of(struct tamis_store *store);
void edit_done(struct tamis_edit *edit); /* commits it */
struct tamis_builder *segment_builder(struct tamis_edit *edit, const char *name,
                                      double error, const uint64_t *hashes, size_t n);
void segment_put(struct tamis_edit *edit, struct tamis_builder *builder);
void store_pack(struct tamis_store *store, enum tamis_repack repack);
struct tamis_snapshot *snapshot_of(struct tamis_store *store);

/* ---- ways.c: ways of ours; the subject is a struct subject ---- */

/* Counts the keys of a piece of which `probe`, for `key`, says ABSENT. */
#define EACH_KEY(piece, probe)                                                         \
    struct tamis_key key = {.tag = bench.domain.tag, .hash = 0};                       \
    size_t n_absent = 0;                                                               \
    for (size_t i = 0; i < (piece)->n; i++) {                                          \
        key.hash = (piece)->hashes[i];                                                 \
        n_absent += (probe) == TAMIS_ABSENT;                                           \
    }                                                                                  \
    return n_absent

ask_fn ask_call, ask_calls, ask_inline, ask_inline_plain;
ask_fn ask_blocks, ask_hand; /* without a file; without checks */
/* By strings, which are hashed meanwhile; a call for each, or one for 128. */
ask_fn ask_string, ask_strings;
ask_fn add_blocks, add_blocks_inline, add_hand, hash_keys, hash_xxh3;

/* ---- rooms/ ---- */

void room_filters(void), room_growing(void);
void room_adding(void), room_lists(void), room_merging(void), room_files(void);
void room_commits(void), room_shapes(void), room_laws(void), room_law_edits(void),
    room_law_syncs(void);
/* Runs in the processes that room_laws() starts, on its stores. */
void guest(const char *path, uint64_t n_segments);

#endif
