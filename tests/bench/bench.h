/* The benchmark: what its files share. bench.c is the order of things, measure/ how a
 * time is taken, marks.c the marks; each file of figures/ measures one subject,
 * through tamis.h alone. compare/ has what tamis is compared with. */
#ifndef TAMIS_TESTS_BENCH_H
#define TAMIS_TESTS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tamis.h>

#include "format/geometry.h"
#include "tests/bench/compare/peers.h"

/* ---- bench.c: one run ---- */

struct sizes {
    const char *form;
    unsigned reps;         /* rounds of a race */
    unsigned long_reps;    /* of those that take seconds */
    uint64_t small, large; /* keys of the filters in cache, and in memory */
    uint64_t probes;       /* a lap */
    uint64_t stage_keys;   /* of the first of ten stages */
    uint64_t segments, segment_keys;
    uint64_t pack_segments, pack_keys;
    uint64_t turnover; /* segments that pass through a store */
    uint64_t process_segments, process_keys;
    uint64_t first_max; /* bytes of the largest file of the first answers */
    uint64_t build;     /* keys */
    uint64_t adds;      /* a lap */
    uint64_t error_keys, error_probes;
    uint64_t stream;       /* bytes for memcpy and bandwidth */
    uint64_t instructions; /* keys under valgrind */
};

struct bench {
    struct sizes sizes;
    uint64_t seed;
    const char *dir;     /* for files, and for what is reported */
    const char *program; /* argv[0] */
    const char *planted; /* "loss": present keys are asked that are not; "error": */
                         /* negatives are keys that are there; else "" */
    struct tamis_domain domain;
};
extern struct bench bench;

/* Ends the run: what was to be measured could not be. */
void give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void must(int rc, const struct tamis_diag *diag, const char *what);
void *allocate(size_t n_bytes);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- measure/clock.c: time, medians, the core ---- */

uint64_t now_ns(void);
extern volatile uint64_t sink; /* results are consumed */

double percentile(double *samples, size_t n, double share); /* sorts them */
/* One of several things compared: run() returns nanoseconds an item. */
enum { MAX_REPS = 101 };
struct lap {
    double (*run)(void *ctx);
    void *ctx;
    double ns;                /* the median */
    double samples[MAX_REPS]; /* of each round */
};
double median(const double *samples, size_t n); /* at most MAX_REPS */
/* Each once to warm up, then `reps` rounds, each round beginning with another one:
 * drift of the machine meets all alike. */
void race(struct lap *laps, size_t n, unsigned reps);

void pin(void);
void unpin(void);

/* ---- keys.c: the same keys for all, from the seed ---- */

/* Keys are 8 bytes. Number i is key_of(i), a bijection: numbers below NEGATIVES are
 * those that are added somewhere, none from there on ever is. */
#define NEGATIVES (UINT64_C(1) << 62)
uint64_t key_of(uint64_t i);
uint64_t *keys_of(uint64_t first, size_t n); /* allocated */
void hashes_fill(uint64_t first, size_t n, uint64_t *hashes);
uint64_t *hashes_of(uint64_t first, size_t n); /* allocated */
/* Numbers of negatives that nobody had before. */
uint64_t fresh_negatives(uint64_t n);
/* One hash for each of n equal parts of a lane, in random order. */
uint64_t *hashes_spread(size_t n);

/* ---- filters.c: filters and their bits ---- */

const char *path_in(const char *name); /* in bench.dir; eight may be in use */
/* Builds the filter of keys 0 .. n-1 unless this run has it already. */
const char *filter_file(uint64_t n_keys, double error);
struct tamis_filter *filter_open(const char *path, enum tamis_check check);
void filters_remove(void);
/* A growing filter, at 1%. */
struct tamis_writer *writer_new(const char *path, uint64_t first_capacity);
void file_remove(const char *path);

/* The bits of the first stage, mapped once more for the comparators. */
struct bits {
    uint8_t *map;
    size_t map_bytes;
    const uint8_t *base;
    uint64_t n_bytes;
    struct geometry geometry;
};
struct bits bits_map(const char *path);
void bits_unmap(struct bits *bits);

/* A lap over hashes: of a filter, or of its bits. */
struct probing {
    struct tamis_filter *filter;
    const struct bits *bits;
    const uint64_t *hashes;
    size_t n;
    uint64_t *absent;
    size_t n_absent; /* of the last lap */
    size_t few;      /* keys a call, where that is asked */
};
struct probing probing_of(struct tamis_filter *filter, const struct bits *bits,
                          const uint64_t *hashes, size_t n);
double lap_batch(void *probing);
double lap_single(void *probing);
double lap_calls(void *probing); /* `few` keys a call */
/* Probes keys 0 .. n-1, at most `limit`: wrong if one is ABSENT. */
void check_present(struct tamis_filter *filter, uint64_t n, uint64_t limit);
/* Wrong if so many of n negatives that were not ABSENT are too many. */
void check_error(double target, uint64_t n_maybe, uint64_t n, const char *what);

/* ---- figures/stages.c: a line in the first lane of every stage ---- */

struct stage_lines {
    struct bits bits; /* the whole file */
    struct tamis_stage_info stages[30];
    uint32_t n_stages;
    const uint64_t *hashes;
    size_t n;
};

struct stage_lines stage_lines_of(struct tamis_filter *filter, const char *path,
                                  const uint64_t *hashes, size_t n);
double lap_stage_lines(void *stage_lines);

/* ---- compare/loops.c: hand-written comparators over the same bits ---- */

double lap_scalar(void *probing);
double lap_avx2(void *probing);
double lap_avx512(void *probing);
bool have_avx2(void);
bool have_avx512(void);

/* ---- compare/few.c: the same in short batches ---- */

double lap_few(void *probing);

/* ---- compare/each.c: one key, many filters, one after another ---- */

struct each_filter {
    const uint8_t *bits;
    uint64_t n_blocks;
};
struct each {
    const struct each_filter *filters; /* of one lane, of so many words */
    size_t n_filters;
    uint32_t words;
    const uint64_t *hashes;
    size_t n;
    uint64_t n_absent; /* of the last lap */
};
double lap_each_loads(void *each); /* times a key, of all filters */
double lap_each_avx512(void *each);
double lap_each_avx2(void *each);

/* ---- compare/adds.c: bits set by hand ---- */

struct filling_bits {
    uint8_t *bits;
    struct geometry geometry;
    const uint64_t *hashes;
    size_t n;
};
double lap_add_by_hand(void *adding);

/* ---- compare/limits.c: what the machine can do ---- */

enum { WINDOW = 64 };
double lap_lines(void *probing); /* random lines, a rolling window of prefetches */
double lap_loads(void *probing); /* random loads, independent, nothing else */
double lap_spaced_loads(void *probing); /* with as much between them as in probes */
double copy_ns(void *to, const void *from, size_t n_bytes);
double read_file_ns(const char *path);
double xxh3_file_ns(const struct bits *bits);
double xxh3_pages_ns(const struct bits *bits, const uint64_t *hashes, size_t n);
void limits_measure(void);

/* ---- measure/flushes.c ---- */

unsigned n_flushes(void); /* fsync and fdatasync of this process so far */
/* From now on tamis flushes nothing: for what is counted. LMDB does as ever. */
void flushes_skip(bool on);

/* ---- figures.c: marks, and what was measured ---- */

/* ours and other are times (or bytes, counts); at most: ours / other, at least:
 * other / ours. The text says what exactly was measured. */
void figure(const char *id, double ours, double other, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Then: its ratio is the median of those of each round, which drift leaves alone. For
 * marks of a few in a hundred. */
void figure_pairs(const char *id, const double *ours, const double *other, unsigned n);
void figure_mark(const char *id, double mark); /* where it depends on the filter */
void figure_without(const char *id, const char *why);
void limit(const char *id, double value, const char *unit);
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned n_wrong(void);
unsigned figures_missing(void);

/* ---- report.c, measure/machine.c, curves.c ---- */

void report_write(void);
struct json_t *machine_facts(void);
void load_note(const char *when);
struct json_t *load_notes(void);
/* A field of this process's memory, "Pss:" and so on. */
double memory_bytes(const char *field);
bool machine_busy(void); /* with something else, before or after */

/* A table for gnuplot: opened with its columns' names, a row at a time. */
struct curve;
struct curve *curve_open(const char *name, const char *columns);
/* NaN: no value there. */
void curve_row(struct curve *curve, size_t n, const double *values);
void curve_close(struct curve *curve);

/* ---- figures/, measure/instructions.c: in the order of the issue ---- */

void figures_small(void);
void figures_ribbon(void);
void figures_large(void);
void figures_inline(void);
void figures_few(void);
void figures_few_segments(void);
void figures_blocks(void);
void figures_check(void);
void figures_growing(void);
void figures_stages(void);
void figures_segments(void);
void figures_packs(void);
void figures_lists(void); /* kinds/lists.c */
void figures_from_lists(void);
void figures_sizes(void);
void figures_turnover(void);
void figures_process(void);
void figures_first(void);
void figures_build(void);
void figures_algebra(void);
void figures_keys(void);
void figures_adds(void);
void figures_alone(void);
void figures_commit(void);
void figures_readers(void);
int reader_main(const char *path); /* one of the 16 */
void figures_instructions(void);
int instructions_main(const char *what, const char *n); /* under valgrind */
void figures_error(void);
void figures_speed(void);

#endif
