/* Private declarations of the `tamis` command, one banner per source file. The tools
 * use the library through its public header and nothing else. A command parses its
 * options first (mistakes exit there, nothing being open yet), then works and
 * returns its exit status. */
#ifndef TAMIS_TOOL_H
#define TAMIS_TOOL_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "talk/screen.h"
#include "talk/talk.h"
#include "tamis.h"

/* ==== tamis.c: the commands ==================================================== */

struct command {
    const char *name; /* "probe", "file show" */
    const char *arguments;
    const char *summary;
    const char *help; /* whole lines, after the synopsis */
    int (*run)(int argc, char **argv);
};
extern const struct command *this_command;
extern const struct command cmd_init, cmd_build, cmd_attach, cmd_grow, cmd_seal,
    cmd_drop, cmd_probe, cmd_ls, cmd_stat, cmd_verify, cmd_file_build, cmd_file_show,
    cmd_file_probe, cmd_file_verify, cmd_plan, cmd_repair, cmd_backup, cmd_union,
    cmd_intersect, cmd_fold, cmd_compare, cmd_file_union, cmd_file_intersect,
    cmd_file_fold, cmd_file_contains, cmd_file_equal, cmd_file_compare,
    cmd_file_estimate;

/* ==== input/usage.c: the command that runs ======================================= */

_Noreturn void print_help_and_exit(void); /* of this_command, to stdout */
/* A mistake in the arguments of this command: says so and exits 2. */
_Noreturn void usage_error(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* ==== input/options.c: one table of all options ================================= */

enum key_format { KEYS_LINES, KEYS_NUL, KEYS_HEX, KEYS_BINARY };

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

/* ==== input/numbers.c: numbers as people write them =======================================
 */

/* After the digits of a count k, M, G and T are powers of 1000, after those of bytes
 * powers of 1024, in either case; both may have a fraction or an exponent (1.5M, 1e7).
 * Plain numbers have digits only. */
enum number_kind { NUMBER_PLAIN, NUMBER_COUNT, NUMBER_BYTES };
/* False: it is no number, not whole, or too large. */
bool parse_number(const char *text, enum number_kind kind, uint64_t *n);
/* For messages: " (k, M, G and T are powers of 1000)"; "" of plain ones. */
const char *number_units(enum number_kind kind);

/* ==== input/names.c: names of segments ================================================== */

/* Exits unless it is a segment's name: 1..255 bytes. */
void check_name(const char *name, size_t n_bytes);
/* Exits unless all of them are, and no two are the same. */
void check_names(const char *const *names, size_t n);
/* The segment that a key file is for: its base name less the suffix. */
struct tamis_name name_of_file(const char *path, const char *strip);
uint64_t regular_bytes(const char *path); /* 0: no regular file */

/* ==== input/keys.c: lists of keys =============================================== */

enum { LINE_MAX_BYTES = 65536, BATCH_KEYS = 1024 };

struct key_reader;
/* "-" is standard input. Prints what is wrong and returns a status. */
int keys_open(const char *path, enum key_format format, struct key_reader **out);
/* 1: a key, valid until the next call; 0: the end; -1: failed, and said so. */
int keys_next(struct key_reader *reader, const void **key, size_t *n_bytes);
int keys_status(const struct key_reader *reader); /* after -1 */
/* Is a key to come? 1, 0 or -1, as keys_next(), which returns this key next. */
int keys_any(struct key_reader *reader);
uint64_t keys_count(const struct key_reader *reader); /* that were handed out */
/* Refuses a list that had no keys, unless --empty allows it: the command that was to
 * write the list may have failed. `why`: what is wrong then. */
int check_empty(const struct key_reader *reader, bool empty, const char *why);
/* Once *stop is not 0, waiting for more keys ends: -1, with status 4 and no message. */
void keys_stop_at(struct key_reader *reader, const volatile sig_atomic_t *stop);
uint64_t keys_position(const struct key_reader *reader);
uint64_t keys_size(const struct key_reader *reader); /* of a regular file, else 0 */
/* Reads all keys into a builder, with progress; `file` is what the builder makes. */
int keys_into(struct tamis_builder *builder, struct key_reader *keys, const char *file);
/* Lines that are no keys. */
int lines_open(const char *path, const char *what, struct key_reader **out);
void keys_close(struct key_reader *reader);

/* Up to BATCH_KEYS keys, copied and hashed. A batch ends early rather than wait for
 * input, so that `tamis probe --keys -` can be talked to. */
struct key_batch {
    size_t n;
    struct tamis_key keys[BATCH_KEYS];
    uint64_t hashes[BATCH_KEYS];
    uint8_t *arena;
    size_t used, capacity;
};
int keys_batch(struct key_reader *reader, const struct tamis_domain *domain,
               struct key_batch *batch);
void batch_free(struct key_batch *batch);

/* ==== output/json.c: facts for programs ========================================== */

json_t *json_escaped(const void *bytes, size_t n);
json_t *json_hex(const void *bytes, size_t n);
json_t *json_count(uint64_t n); /* a string of digits from 2^63 on */
json_t *json_number(double x);  /* null if not finite */
/* Adds and takes over the value; dies if memory is short. */
void json_put(json_t *object, const char *key, json_t *value);
void json_print(json_t *value);      /* takes it over; indented, newline */
void json_print_line(json_t *value); /* the same in one line */
extern const char json_help[];

/* ==== open/store.c: what several commands do with stores and files ============ */

int store_open(const char *path, struct tamis_store **store);
int store_snapshot(const char *path, struct tamis_store **store,
                   struct tamis_snapshot **snapshot);
/* A file in the store's directory. False: errno says why. */
struct stat;
bool stat_in(const char *store, const char *file, struct stat *st);
/* The disk space of the segment's file: a file with holes takes less than its
 * length. If the file cannot be asked: its length in the catalog. */
uint64_t allocated_bytes(const char *store, const struct tamis_segment_info *s);
/* `diag` of a call about this segment's filter: by its name, for the file's is ours. */
int segment_error(int err, const struct tamis_diag *diag, const char *path,
                  struct tamis_name name, const char *advice);
/* The segments that are named, each once, all if none is: numbers into *list
 * (malloc'd). An unknown one is complained about. */
int pick_segments(const struct tamis_snapshot *snapshot, const char *path,
                  char *const *names, size_t n_names, size_t **list, size_t *n);
/* A segment that tamis_snapshot_find() or an edit's drop did not find: says so, and
 * which one may be meant. Returns the status. */
int not_found(int err, const struct tamis_snapshot *snapshot, const char *path,
              struct tamis_name name);
int not_dropped(int err, struct tamis_store *store, const char *path, const char *name,
                const struct tamis_diag *diag);
/* What has become of a segment of an older snapshot: the same filter still (0), another
 * one or none any more (ERR_NO_SEGMENT). *fresh, to be released, is a newer snapshot
 * and *index its segment of that name, SIZE_MAX if there is none. */
int segment_now(struct tamis_store *store, const struct tamis_segment_info *old,
                struct tamis_snapshot **fresh, size_t *index);
const char *state_name(enum tamis_segment_state state);
json_t *segment_json(const struct tamis_segment_info *info); /* command/ls.c */
/* Is the path, or would it be, in the store's directory? */
bool lies_inside(const char *path, const char *store);
/* May a file be made there? Looks early what the library says late. */
int check_new_file(const char *path);
void segment_options(const struct options *o, struct tamis_segment_options *out);
/* It is a directory, a device, ...: says so. Nothing is damaged. */
int not_a_file(const char *path);
/* Why the file that is the first argument could not be read, and the status. */
int file_error(const struct options *o, int err, const struct tamis_diag *diag);
/* The filter at its --offset. */
int file_open(const struct options *o, struct tamis_filter **filter);

#include "derived.h"
#include "facts.h"

#endif
