/* Reads what was typed: the command, its options, numbers, names of segments, keys to
 * ask for. Mistakes exit. One banner per source file; keys.h has the lists of keys. */
#ifndef TAMIS_INPUT_H
#define TAMIS_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "tamis.h"

/* ==== usage.c: the command that runs ============================================= */

struct command {
    const char *name; /* "probe", "file show" */
    const char *arguments;
    const char *summary;
    const char *help; /* whole lines, after the synopsis */
    int (*run)(int argc, char **argv);
};
extern const struct command *this_command;

_Noreturn void print_help_and_exit(void); /* of this_command, to stdout */
/* A mistake in the arguments of this command: says so and exits 2. */
_Noreturn void usage_error(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* ==== suggest.c: what was probably meant ========================================= */

struct suggestion {
    const char *word;
    size_t n_bytes;
    const char *best; /* NULL: nothing is close */
    size_t best_bytes;
    size_t distance; /* of the next best one it is less than this */
};
void suggest_begin(struct suggestion *s, const char *word, size_t n_bytes);
void suggest_among(struct suggestion *s, const char *candidate, size_t n_bytes);
/* ": did you mean 'X'?", malloc'd; NULL if nothing is close. */
char *suggestion_text(const struct suggestion *s);

/* ==== names.c: names of segments ================================================= */

/* Exits unless it is a segment's name: 1..255 bytes. */
void check_name(const char *name, size_t n_bytes);
/* Exits unless all of them are, and no two are the same. */
void check_names(const char *const *names, size_t n);
/* The segment that a key file is for: its base name less the suffix. */
struct tamis_name name_of_file(const char *path, const char *strip);

/* ==== numbers.c: numbers as people write them ==================================== */

/* After the digits of a count k, M, G and T are powers of 1000, after those of bytes
 * powers of 1024, in either case; both may have a fraction or an exponent (1.5M, 1e7).
 * Plain numbers have digits only. */
enum number_kind { NUMBER_PLAIN, NUMBER_COUNT, NUMBER_BYTES };
/* False: it is no number, not whole, or too large. */
bool parse_number(const char *text, enum number_kind kind, uint64_t *n);
/* For messages: " (k, M, G and T are powers of 1000)"; "" of plain ones. */
const char *number_units(enum number_kind kind);

/* ==== options.c: one table of all options ======================================== */

enum option_id {
    OPT_NUL,
    OPT_HEX,
    OPT_BINARY,
    OPT_JSON,
    OPT_FPR,
    OPT_FACTOR,
    OPT_TIGHTENING,
    OPT_FIRST,
    OPT_SEED,
    OPT_WATERMARK,
    OPT_MIN_WATERMARK,
    OPT_BIND,
    OPT_RANK,
    OPT_REPLACES,
    OPT_BARE,
    OPT_EACH,
    OPT_STRIP,
    OPT_JOBS,
    OPT_SEGMENT,
    OPT_KEYS_FILE, /* --keys FILE */
    OPT_QUIET,
    OPT_COUNT,
    OPT_AGAINST,
    OPT_AGAINST_EACH,
    OPT_OFFSET,
    OPT_STORE,
    OPT_N_KEYS, /* --keys N */
    OPT_BYTES,
    OPT_LAYOUT,
    OPT_GROWTH,
    OPT_DRY_RUN,
    OPT_CONFIRM,
    OPT_UUID,
    OPT_RESIDENCY,
    OPT_PROMETHEUS,
    OPT_CHECK,
    OPT_COLOR,
    OPT_SVG,
    OPT_NAMES,
    OPT_READS,
    OPT_SIZES,
    OPT_RUNS,
    OPT_LEVELS,
    OPT_APPLY,
    OPT_BY,
    OPT_EXPLAIN,
    OPT_FORCE,
    OPT_EMPTY,
    N_OPTIONS
};
#define WITH(id)  (UINT64_C(1) << (id))
#define KEY_FLAGS (WITH(OPT_NUL) | WITH(OPT_HEX) | WITH(OPT_BINARY))
#define GROWTH_OPTIONS                                                                 \
    (WITH(OPT_FPR) | WITH(OPT_FACTOR) | WITH(OPT_TIGHTENING) | WITH(OPT_FIRST))

struct options {
    uint64_t given; /* WITH(id) of each */
    enum key_format format;
    struct tamis_growth growth; /* zero where not given; --fpr is growth.error */
    uint64_t seed, watermark, min_watermark, offset, n_keys, n_bytes, by;
    uint32_t rank;
    unsigned jobs;
    uint8_t binding[TAMIS_BINDING_MAX];
    size_t binding_bytes;
    uint8_t uuid[TAMIS_UUID_BYTES];
    const char *strip, *keys_file, *against, *store, *layout, *svg, *sizes;
    double reads;
    const char **segments, **replaces; /* of --segment, --replaces */
    size_t n_segments, n_replaces;
    char **args; /* what is not an option */
    size_t n_args;
};
/* Parses what `allowed` has; between min and max arguments must remain (max 0: any
 * number). Mistakes, and --help, exit. */
void parse_options(int argc, char **argv, uint64_t allowed, size_t min, size_t max,
                   struct options *o);
static inline bool given(const struct options *o, enum option_id id)
{
    return (o->given & WITH(id)) != 0;
}
/* Frees the lists in what parse_options() has filled in. */
void options_free(void);
/* Exits unless a fold has --by or --fpr, and not both. */
void check_fold(const struct options *o);

/* ==== ask.c: the keys that a probe asks for ====================================== */

/* Calls ask() for each KEY argument, or for the keys of --keys, at most BATCH_KEYS at a
 * time, until it returns other than 0; checks that there is one kind of them, and just
 * one key for --quiet. */
typedef int ask_fn(void *ctx, const struct tamis_key *keys, size_t n);
int ask_keys(const struct options *o, const struct tamis_domain *domain, ask_fn *ask,
             void *ctx);
void check_probe_options(const struct options *o);

#endif
