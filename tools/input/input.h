/* Reads the command line: the command, its options, numbers, segment names, keys to
 * ask for. Mistakes exit. One banner per source file; keys.h has the lists of keys. */
#ifndef TAMIS_INPUT_H
#define TAMIS_INPUT_H

#include "../talk/talk.h"
#include "keys.h"
#include "option_table.h"

/* ==== help.c: the command that runs ============================================== */

/* A line of help: one option, or several that share a text. `text` NULL: the table's.
 * `label` stands for an argument that is no option. */
struct option_help {
    uint64_t ids; /* WITH(id) of each */
    const char *text, *label;
};
enum { MAX_OPTION_HELP = 20 };

struct command {
    const char *name; /* "probe", "file show" */
    const char *arguments;
    const char *summary;
    const char *about;                           /* whole lines */
    struct option_help options[MAX_OPTION_HELP]; /* the options that it takes */
    const char *notes;                           /* as `about`, after them; or NULL */
    const char *examples;                        /* commands, a line each */
    int (*run)(int argc, char **argv);
    int variant; /* for a function that runs several commands */
};
/* clang-format off */
#define OPTIONS(...) {.ids = __VA_ARGS__} /* several that share a line */
#define OPTION(...) OPTION_TEXT(__VA_ARGS__, NULL) /* one, with a text or the table's */
#define OPTION_TEXT(id, ...) OPTIONS(WITH(OPT_##id), __VA_ARGS__)
#define QUIET_OR_JSON OPTIONS(WITH(OPT_QUIET) | WITH(OPT_JSON), \
                              "print no closing line, or JSON: 'tamis help json'")
/* clang-format on */
extern const struct command *this_command;

/* Reports a mistake in the arguments of this command and exits 2. */
_Noreturn void usage_error(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
_Noreturn void print_help_and_exit(void); /* of this_command, to stdout */

/* ==== suggest.c: the word that was probably meant ================================ */

struct suggestion {
    const char *word;
    size_t n_bytes;
    const char *best; /* NULL: nothing is close */
    size_t best_bytes;
    size_t distance; /* a better candidate is closer than this */
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
struct name name_of_file(const char *path, const char *strip);
/* Exits if two key files are for one segment: `remedy` says what would work. */
void check_key_files(char *const *files, size_t n, const char *strip,
                     const char *remedy);

/* ==== numbers.c: numbers as people write them ==================================== */

/* A count takes k, M, G and T as powers of 1000, bytes take them as powers of 1024, in
 * either case. Both may have a fraction or an exponent (1.5M, 1e7). Plain numbers have
 * digits only. */
/* `tamis plan`: of each filter the kind that takes less. */
enum { KIND_SMALLER = 255 };
enum number_kind { NUMBER_PLAIN, NUMBER_COUNT, NUMBER_BYTES };
/* False if it is no number, not whole, or too large. */
bool parse_number(const char *text, enum number_kind kind, uint64_t *n);

/* ==== options.c: the options of a command ======================================== */

enum option_id {
#define X(id, name, letter, type, field, value, range, help) OPT_##id,
    OPTION_TABLE(X)
#undef X
        N_OPTIONS
};
/* A row of the table: options.c parses by it, help.c has and prints it. */
enum option_type {
    OPTION_FLAG,
    OPTION_FORMAT, /* of a list of keys: the first number of its range */
    OPTION_REAL,
    OPTION_NUMBER,
    OPTION_SMALL, /* a number of 32 bits */
    OPTION_COUNT, /* of keys: k is 1000 */
    OPTION_BYTES, /* K is 1024 */
    OPTION_PAGES, /* bytes, a multiple of 4096 */
    OPTION_TEXT,
    OPTION_PATH,
    OPTION_FILE,  /* a path, or '-' */
    OPTION_NAMES, /* of segments; may be repeated */
    OPTION_KIND,
    OPTION_SEED,
    OPTION_BINDING,
    OPTION_UUID,
    OPTION_COLOUR,
    OPTION_WAIT,
};

struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_type type;
    size_t field; /* its offset in struct options */
    const char *value;
    union {
        uint64_t whole[2];
        double real[2];
    } range;
    const char *help;
};
extern const struct option_row option_table[N_OPTIONS];
#define WITH(id)  (UINT64_C(1) << (id))
#define KEY_FLAGS (WITH(OPT_NUL) | WITH(OPT_HEX) | WITH(OPT_BINARY))
#define GROWTH_OPTIONS                                                                 \
    (WITH(OPT_FPR) | WITH(OPT_FACTOR) | WITH(OPT_TIGHTENING) | WITH(OPT_FIRST))

struct name_list {
    const char **at;
    size_t n;
};

struct options {
    uint64_t given; /* WITH(id) of each */
    enum key_format format;
    struct tamis_growth growth; /* zero where not given; --fpr is growth.error */
    uint64_t seed, watermark, min_watermark, offset, n_keys, n_bytes, by, list_bits;
    const char *after_list; /* the word after --list without BITS, or NULL */
    uint32_t rank, jobs;
    uint8_t binding[TAMIS_BINDING_MAX];
    size_t binding_bytes;
    uint8_t uuid[TAMIS_UUID_BYTES];
    uint64_t kind; /* of enum tamis_kind, or KIND_SMALLER */
    const char *strip, *keys_file, *against, *store, *svg, *sizes;
    double reads;
    struct name_list segments, replaces;
    char **args; /* the arguments that are no options */
    size_t n_args;
};
/* Parses the options of this command. Between `min` and `max` arguments must remain;
 * max 0: any number. Mistakes and --help exit. */
void parse_options(int argc, char **argv, size_t min, size_t max, struct options *o);
static inline bool given(const struct options *o, enum option_id id)
{
    return (o->given & WITH(id)) != 0;
}
/* The kind of filter to build, 0 if it is not given. Exits if it can't be packed, and
 * is to be. */
uint64_t filter_kind(const struct options *o);
/* Frees the lists that parse_options() has made. */
void options_free(void);
/* The derivation that this command makes. Exits unless a fold has --by or --fpr, and
 * not both. */
struct tamis_derivation derivation_of(const struct options *o);
/* The identity that --segment and --bind give a file. Exits at two segments. */
struct tamis_identity identity_of(const struct options *o);

/* ==== ask.c: the keys that a probe asks for ====================================== */

/* Calls ask() with at most BATCH_KEYS keys at a time, from the KEY arguments or from
 * --keys, until it returns other than 0. Exits if both are given, or if --quiet has not
 * just one key. */
typedef int ask_fn(void *ctx, const struct tamis_key *keys, size_t n);
int ask_keys(const struct options *o, const struct tamis_domain *domain, ask_fn *ask,
             void *ctx);
void check_probe_options(const struct options *o);

#endif
