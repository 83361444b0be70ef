/* Workloads as text, for all harnesses that break something meanwhile: power cuts,
 * kills, failing calls, hostile programs.
 *
 *     "init; grow g 3 1.25 .1; add g 5; commit g; shut g; put a 0 300; pack; drop a"
 *
 *   script.c    text -> steps -> text; templates, drawn from a seed; shrinking
 *   play.c      plays steps with the public API, and notes promises: what was intended,
 *               what was acknowledged
 *   words.c     the words of the language: edits, packs, repair, questions
 *   writers.c   words of writers and of the engine's own files
 *   threads.c   threads that add meanwhile
 *   asks.c      words that ask, and of single files
 *   damage.c    words that hurt: files that rot, go, or are too many
 *   harness.c   files, processes and options of programs that break something
 *   model.c     holds a filter, a segment against them
 *   check.c     holds what is there against the promises; what an engine does next
 *
 * Promises are plain memory without pointers: they may be shared by processes, copied
 * for a held snapshot, and kept for each moment of a disk's log. */
#ifndef TAMIS_TESTS_STEPS_H
#define TAMIS_TESTS_STEPS_H

#include "lib/tamis.h"
#include "tests/steps/harness.h"
#include "tests/support/asks.h"
#include "tests/support/internals.h"

/* splitmix64 (Steele, Lea, Flood 2014); the state is the seed. */
uint64_t draw(uint64_t *state);
uint64_t draw_below(uint64_t *state, uint64_t n);

/* ---- script.c ---- */

enum {
    MAX_STEPS = 128,
    STEP_NAMES = 12,
    STEP_NUMBERS = 6,
    NAME_BYTES = 16,
    SCRIPT_BYTES = 4096
};

struct player;
struct step {
    const struct word *word;
    char name[STEP_NAMES][NAME_BYTES];
    double number[STEP_NUMBERS]; /* those left out are 0 */
    uint8_t n_names, n_numbers;
};
struct script {
    struct step step[MAX_STEPS];
    size_t n;
};

/* False if a word is unknown or has not its names and numbers: it says so. */
bool script_parse(const char *text, struct script *out);
void script_print(const struct script *s, char text[SCRIPT_BYTES]);
/* Draws from a template: "[x | y]" is one of them, "2..5" a number, "2..5*( x )" x so
 * many times. */
void script_draw(const char *template, uint64_t *rng, char text[SCRIPT_BYTES]);
/* A failure's words, without numbers, in memory of all processes: a smaller script must
 * fail in the same way. */
enum { SAID_BYTES = 100 };
extern char *script_said; /* the harness's memory, or NULL */
void script_failed(const char *text);
/* Makes it smaller while `run`, in a process of its own and in silence, still fails and
 * says the same, for about a minute: without a step, with smaller numbers. */
void script_shrink(char text[SCRIPT_BYTES], void (*run)(const char *text, void *ctx),
                   void *ctx);

/* ---- promises ---- */

/* The standing of an object that an edit or a call makes, removes or replaces. */
enum standing { NOT_THERE, COMING, THERE, GOING, CHANGING };

/* A log of keys, of which the first n are in; key() is false for one that is not. */
struct promised_keys {
    bool (*key)(const void *ctx, uint64_t i, struct tamis_key *out);
    const void *ctx;
    uint64_t n;
};

enum { MODEL_EDITS = 1024 };
enum outcome { EDIT_UNKNOWN, EDIT_UNDONE, EDIT_DONE };

enum { MAX_OBJECTS = 64, MAX_RANGES = 6, MAX_KEPT = 24 };

/* Keys are numbers. Helping threads have logs of their own, behind the filter's. */
enum { HELPERS = 2, HELPER_KEYS = 30000, HELPER_MOST = 4900 };
struct keyset {
    struct {
        uint32_t from, n;
    } range[MAX_RANGES];
    uint32_t n_ranges;
};

enum place { IN_STORE, LONE, BUILT, EMBEDDED };
enum worth {
    GOOD,
    ROTTEN, /* a page fails its check */
    GONE,   /* its file is missing */
    TWICE,  /* an older file of it is there, too */
    SPOILT  /* its record fails its check, until it is repaired */
};

struct object {
    char name[NAME_BYTES];
    enum place place;
    enum standing standing;
    uint32_t edit, rank;
    bool bare, grows, next_bare;
    struct keyset keys, next;
    /* A growing filter's keys are a log, of which so many were added. */
    uint32_t n_added, n_done, watermark, asked,
        stages; /* n_done: their adds returned */
    /* Adds of helping threads that returned; acknowledged ones. */
    uint32_t n_helping[HELPERS], n_helped[HELPERS];
    enum standing seal;
    bool sealed;        /* found so, acknowledged or not */
    uint32_t in_backup; /* 1 + the watermark that a backup must have; 0: not in it */
    struct { /* as it was when the backup began: it may be replaced afterwards */
        struct keyset keys;
        uint32_t rank;
        bool bare, grows;
    } copied;
    uint64_t lost_page;
    enum worth worth;
    bool forgotten; /* no file says that there is such a segment; its engine does */
};

/* A file that must not go away, by what is in it; a growing one may change. */
struct kept {
    char name[48]; /* in filters/; or catalog.lmdb */
    uint64_t hash;
    int object;     /* or -1 */
    bool sweepable; /* nothing names it, as long as there is a catalog */
};

struct promises {
    enum standing store, backup;
    bool lost;     /* the catalog was: the list is incomplete until it is confirmed */
    bool unsure;   /* a call has failed that may have made it complete, or incomplete */
    bool closed;   /* nobody can open it before it is repaired */
    bool in_way;   /* an empty directory lies where a backup is to be */
    bool repaired; /* since: damaged filters have left */
    uint32_t n_objects, n_edits, n_kept;
    struct object object[MAX_OBJECTS];
    struct kept kept[MAX_KEPT];
};

struct object *promised_object(struct promises *p, const char *name);
/* The edit has taken effect, or it has not. */
void promises_settle(struct promises *p, uint32_t edit, bool done);
/* The list is incomplete from now on, and does not have what no file tells of. */
void promises_lose_catalog(struct promises *p);
/* "~x" stands for one of 255 bytes, with a tab. */
const char *name_in_store(const char *name);
#define NAME_OF(o) name_in_store((o)->name), strlen(name_in_store((o)->name))
struct tamis_key key_number(uint32_t number, uint8_t bytes[8]);
struct tamis_key key_of_helper(const struct object *o, uint32_t helper, uint32_t i,
                               uint8_t bytes[8]);
struct tamis_domain steps_domain(void);

/* ---- play.c ---- */

enum { STEPS_PATH_BYTES = 400 };

struct player {
    struct promises *p;
    const char *dir, *store_name; /* in it; NULL: "store" */
    struct tamis_store *store;
    struct tamis_edit *edit;
    uint32_t edit_number, unsure_edit;
    bool edit_failed; /* the rest of it is left out */
    struct tamis_packer *packer;
    struct tamis_builder *builder; /* that could not finish */
    struct keyset built;           /* its keys */
    struct tamis_writer *writer[MAX_OBJECTS];
    uint64_t bytes_at_open[MAX_OBJECTS]; /* of its file */
    uint32_t stages_at_open[MAX_OBJECTS];
    struct tamis_filter *reader[MAX_OBJECTS]; /* that look on */
    struct tamis_snapshot *held;
    struct promises *promised_then; /* of the held snapshot */
    struct tamis_repair_report repair;
    struct tamis_backup_report backup;
    struct tamis_diag diag;
    uint64_t rng;
    bool done[MAX_STEPS]; /* steps that have succeeded, for a second play */
    size_t at;            /* the step */
    bool lenient; /* something has failed: reports may differ from the expected */
    bool misread; /* a backup may leave out good files, or call them damaged */
    bool unsure;  /* the outcome of the edit or confirmation that failed is unknown */
    /* The harness's. A call has returned: ends the process if not for a reason; NULL:
     * it must return what is expected. */
    void (*returned)(struct player *p, int rc, int expected, const char *call);
    /* A call is about to be made, and what it will do is promised as coming; NULL:
     * none. */
    void (*calling)(struct player *p);
    /* A call has returned, and promises may have changed; NULL: none. */
    void (*event)(struct player *p);
    int (*own)(struct player *p, const struct step *s); /* its own words; NULL: none */
    void *ctx;
};

/* Plays the steps that are not done yet, up to the word "now" or the end, from p->at
 * on. Failures do not end it. */
void play(struct player *p, const struct script *s);
/* All of a script of this text, between steps of another; what is open stays open. */
__attribute__((format(printf, 2, 3))) void play_text(struct player *p,
                                                     const char *format, ...);
/* Closes what is open, as an engine that ends; or as one that was killed. */
void player_end(struct player *p);

/* ---- threads.c ---- */
/* Plays "thread NAME", whose threads add while the player goes on, or "unthread". */
int helpers_word(struct player *p, const struct step *s);
void helpers_stop(void);
extern atomic_uint helpers_running;
extern uint32_t helpers_most;          /* adds of each, about */
extern void (*helper_has_added)(void); /* the harness's, or NULL */

/* Inside of calls of the library: for faults, which strike only there. */
extern _Thread_local int in_lib;
extern bool in_new_catalog; /* whose map cannot be full */
#define IN_LIB(call)                                                                   \
    __extension__({                                                                    \
        in_lib++;                                                                      \
        __typeof__(call) result_ = (call);                                             \
        in_lib--;                                                                      \
        result_;                                                                       \
    })
#define IN_LIB_VOID(call) (in_lib++, (call), (void)in_lib--)
enum { NO_DIAG = 123456 };
#define TRY(p, call)           (will_try(p), tried(p, IN_LIB(call), 0, #call))
#define TRY_FOR(p, want, call) (will_try(p), tried(p, IN_LIB(call), want, #call))
void will_try(struct player *p);
int tried(struct player *p, int rc, int expected, const char *call);

void happened(struct player *p); /* an event */
/* Opens the store if it is not open. */
bool with_store(struct player *p);
bool has_writer(const struct player *p); /* that is open */
/* In the run's directory: of a lone file, or of a segment's. */
void path_of_object(struct player *p, const struct object *o,
                    char path[2 * STEPS_PATH_BYTES]);
void path_in(const struct player *p, const char *name, char path[2 * STEPS_PATH_BYTES]);

void path_in_store(const struct player *p, const char *name,
                   char path[2 * STEPS_PATH_BYTES]);
/* Whole sets of keys. */
uint32_t keyset_size(const struct keyset *k);
uint32_t keyset_at(const struct keyset *k, uint32_t i);
/* A segment's place in a snapshot. */
bool find_segment(const struct tamis_snapshot *s, const char *name, size_t *index);
_Noreturn __attribute__((format(printf, 1, 2))) void broken_steps(const char *format,
                                                                  ...);

struct word {
    const char *text;
    int n_names, n_numbers; /* names: at least, if the word takes any number of them */
    bool more_names, in_edit;
    int (*run)(struct player *p, const struct step *s);
};
extern const struct word words[];

/* ---- model.c ---- */

/* The harness's: says what is broken, and ends the process. */
_Noreturn void model_broken(const char *text);

/* Counts of this process: 0 lost of 0 would mean nothing. */
extern struct model_counts {
    uint64_t n_asked, n_strangers, n_absent; /* absent: of the strangers */
} model_counts;

struct look {
    bool cache;       /* the page cache lives: all that was added is there */
    bool rotten_slot; /* one slot may be stale */
    bool any_damage;  /* keys may be MAYBE for DAMAGED */
};
/* `who` names the filter in messages. */
void expect_keys(const char *who, struct tamis_filter *f,
                 const struct promised_keys *keys, bool any_damage);
void steps_expect_filter(const char *who, struct tamis_filter *f,
                         const struct object *o, const struct look *look);
/* k: a copy of the object's keys, to be changed. */
struct promised_keys promised_keys_of(struct keyset *k, const struct object *o,
                                      const struct look *look);
/* As engines ask: the segment alone, and all of them. Every answer is MAYBE for this
 * reason; TAMIS_NO_REASON: for any. */
void expect_keys_of_segment(const char *who, struct tamis_snapshot *snapshot,
                            size_t index, const struct promised_keys *keys,
                            enum tamis_reason expected);
/* The watermark that a writer reports: none acknowledged is lost, none is invented. */
void steps_expect_watermark(const char *who, uint64_t watermark, const struct object *o,
                            bool rotten_slot);
/* Each segment is listed or not, as it stands; of an edit under way all took effect or
 * nothing (outcome, by its number); what is listed keeps its promises. Returns how many
 * files the listed ones have. */
size_t expect_segments(struct tamis_snapshot *snapshot, const struct promises *p,
                       const struct look *look, enum outcome outcome[MODEL_EDITS]);
/* Files that listed segments have: their own, packs, tombstones, lists. */
size_t count_listed_files(struct tamis_snapshot *snapshot);
/* Files in a store's filters/. */
size_t count_filter_files(const char *store);

/* ---- check.c ---- */

/* Whole files; then promises are settled by what is found. Returns how many files the
 * store's list names. The player has the store open, or has none. */
size_t steps_expect(struct player *p, const struct look *look);
/* No key of these promises is ABSENT, for whatever reason. */
void steps_ask(struct player *p, struct tamis_snapshot *s,
               const struct promises *promises);
/* A filter has the keys that were added to the object; so have readers that look on. */
void steps_expect_keys(const struct object *o, struct tamis_filter *f, bool any_damage);
void steps_expect_readers(struct player *p, bool any_damage);
/* The held snapshot loses no key. */
void steps_expect_held(struct player *p);
/* After an edit: files that nothing names are gone. */
void steps_expect_swept(struct player *p);
/* Files noted by the word "keep" are there, in filters/ or quarantine/. */
void steps_expect_kept(struct player *p, const struct look *look);
/* The same of the backup of the store, if there is one. */
void steps_expect_copy(struct player *p, const struct look *look);
/* Hashes all names and contents below, but for locks. */
uint64_t steps_tree_hash(const char *path);
uint64_t steps_file_hash(const char *path); /* 0: not there */
/* Steps of an engine that comes back: it replays, goes on, puts a segment `name`. */
void steps_go_on(const struct promises *p, uint64_t *rng, const char *name,
                 char text[SCRIPT_BYTES]);

#endif
