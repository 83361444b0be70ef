/* One table of all options, so that a name means the same thing, has the same range
 * and the same message in every command. */
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../talk/screen.h"
#include "../talk/talk.h"
#include "input.h"
#include "tamis.h"

enum { MAX_JOBS = 256 };

/* `code` is what getopt_long() returns: the short letter if there is one. */
static const struct {
    const char *name;
    int code;
    int has_arg;
} table[N_OPTIONS] = {
    [OPT_NUL] = {"null", '0', no_argument},
    [OPT_HEX] = {"hex", 256 + OPT_HEX, no_argument},
    [OPT_BINARY] = {"binary", 256 + OPT_BINARY, no_argument},
    [OPT_JSON] = {"json", 256 + OPT_JSON, no_argument},
    [OPT_FPR] = {"fpr", 256 + OPT_FPR, required_argument},
    [OPT_FACTOR] = {"factor", 's', required_argument},
    [OPT_TIGHTENING] = {"tightening", 'r', required_argument},
    [OPT_FIRST] = {"n0", 256 + OPT_FIRST, required_argument},
    [OPT_SEED] = {"seed", 256 + OPT_SEED, required_argument},
    [OPT_WATERMARK] = {"watermark", 256 + OPT_WATERMARK, required_argument},
    [OPT_MIN_WATERMARK] = {"min-watermark", 256 + OPT_MIN_WATERMARK, required_argument},
    [OPT_BIND] = {"bind", 256 + OPT_BIND, required_argument},
    [OPT_RANK] = {"rank", 256 + OPT_RANK, required_argument},
    [OPT_REPLACES] = {"replaces", 256 + OPT_REPLACES, required_argument},
    [OPT_BARE] = {"bare", 256 + OPT_BARE, no_argument},
    [OPT_EACH] = {"each", 256 + OPT_EACH, no_argument},
    [OPT_STRIP] = {"strip", 256 + OPT_STRIP, required_argument},
    [OPT_JOBS] = {"jobs", 'j', required_argument},
    [OPT_SEGMENT] = {"segment", 256 + OPT_SEGMENT, required_argument},
    [OPT_KEYS_FILE] = {"keys", 256 + OPT_KEYS_FILE, required_argument},
    [OPT_QUIET] = {"quiet", 'q', no_argument},
    [OPT_COUNT] = {"count", 256 + OPT_COUNT, no_argument},
    [OPT_AGAINST] = {"against", 256 + OPT_AGAINST, required_argument},
    [OPT_AGAINST_EACH] = {"against-each", 256 + OPT_AGAINST_EACH, no_argument},
    [OPT_OFFSET] = {"offset", 256 + OPT_OFFSET, required_argument},
    [OPT_STORE] = {"store", 256 + OPT_STORE, required_argument},
    [OPT_N_KEYS] = {"keys", 256 + OPT_N_KEYS, required_argument},
    [OPT_BYTES] = {"bytes", 256 + OPT_BYTES, required_argument},
    [OPT_LAYOUT] = {"layout", 256 + OPT_LAYOUT, required_argument},
    [OPT_GROWTH] = {"growth", 256 + OPT_GROWTH, no_argument},
    [OPT_DRY_RUN] = {"dry-run", 'n', no_argument},
    [OPT_CONFIRM] = {"confirm", 256 + OPT_CONFIRM, no_argument},
    [OPT_UUID] = {"uuid", 256 + OPT_UUID, required_argument},
    [OPT_RESIDENCY] = {"residency", 256 + OPT_RESIDENCY, no_argument},
    [OPT_PROMETHEUS] = {"prometheus", 256 + OPT_PROMETHEUS, no_argument},
    [OPT_CHECK] = {"check", 256 + OPT_CHECK, no_argument},
    [OPT_COLOR] = {"color", 256 + OPT_COLOR, optional_argument},
    [OPT_SVG] = {"svg", 256 + OPT_SVG, required_argument},
    [OPT_NAMES] = {"names", 256 + OPT_NAMES, no_argument},
    [OPT_READS] = {"reads", 256 + OPT_READS, required_argument},
    [OPT_SIZES] = {"sizes", 256 + OPT_SIZES, required_argument},
    [OPT_RUNS] = {"runs", 256 + OPT_RUNS, no_argument},
    [OPT_LEVELS] = {"levels", 256 + OPT_LEVELS, no_argument},
    [OPT_APPLY] = {"apply", 256 + OPT_APPLY, no_argument},
    [OPT_BY] = {"by", 256 + OPT_BY, required_argument},
    [OPT_EXPLAIN] = {"explain", 256 + OPT_EXPLAIN, no_argument},
    [OPT_FORCE] = {"force", 256 + OPT_FORCE, no_argument},
    [OPT_EMPTY] = {"empty", 256 + OPT_EMPTY, no_argument},
};

static uint64_t whole(enum option_id id, const char *text, uint64_t min, uint64_t max,
                      enum number_kind kind)
{
    uint64_t n;

    if (!parse_number(text, kind, &n) || n < min || n > max)
        usage_error("--%s is %llu..%llu%s, not '%s'", table[id].name,
                    (unsigned long long)min, (unsigned long long)max,
                    number_units(kind), text);
    return n;
}

static double real(enum option_id id, const char *text, double min, double max)
{
    char *end;
    double x = strtod(text, &end);
    /* As counts: no space or sign before it, no 0x. */
    bool is_decimal = strchr("0123456789.", text[0]) != NULL &&
                      strspn(text, "0123456789.eE+-") == (size_t)(end - text);

    if (*end == '%' && end > text) {
        x /= 100;
        end++;
    }
    if (!is_decimal || *end != '\0' || end == text || !(x >= min && x <= max))
        usage_error("--%s is %g..%g, not '%s'", table[id].name, min, max, text);
    return x;
}

/* Room for o->segments and o->replaces: of either no more than there are words. */
static const char **lists;

void options_free(void)
{
    free(lists);
    lists = NULL;
}

static void bind(struct options *o, const char *text)
{
    long n = parse_hex(text, strlen(text), o->binding, sizeof(o->binding));

    if (n < 1)
        usage_error("--bind is 1..%d bytes in hex digits, not '%s'", TAMIS_BINDING_MAX,
                    text);
    o->binding_bytes = (size_t)n;
}

static uint64_t parse_seed(const char *text)
{
    uint8_t bytes[8];
    uint64_t seed = 0;

    if (strlen(text) != 16 || parse_hex(text, 16, bytes, 8) != 8)
        usage_error("--seed is 16 hex digits, not '%s'", text);
    for (size_t i = 0; i < 8; i++)
        seed = seed << 8 | bytes[i];
    return seed;
}

static void set_format(struct options *o, enum key_format format)
{
    if (o->format != KEYS_LINES && o->format != format)
        usage_error("-0, --hex and --binary exclude each other");
    o->format = format;
}

static void take_number(struct options *o, enum option_id id, const char *arg)
{
    switch ((int)id) {
    case OPT_FPR:
        o->growth.error = real(id, arg, 1e-8, 0.5);
        break;
    case OPT_FACTOR:
        o->growth.factor = real(id, arg, 1.25, 16);
        break;
    case OPT_TIGHTENING:
        o->growth.tightening = real(id, arg, 0.5, 0.95);
        break;
    case OPT_FIRST:
        o->growth.first_capacity = whole(id, arg, 1, UINT64_C(1) << 32, NUMBER_COUNT);
        break;
    case OPT_WATERMARK:
        o->watermark = whole(id, arg, 0, UINT64_MAX, NUMBER_PLAIN);
        break;
    case OPT_MIN_WATERMARK:
        o->min_watermark = whole(id, arg, 0, UINT64_MAX, NUMBER_PLAIN);
        break;
    case OPT_RANK:
        o->rank = (uint32_t)whole(id, arg, 0, UINT32_MAX, NUMBER_PLAIN);
        break;
    case OPT_JOBS:
        o->jobs = (unsigned)whole(id, arg, 1, MAX_JOBS, NUMBER_PLAIN);
        break;
    case OPT_OFFSET:
        o->offset = whole(id, arg, 0, INT64_MAX, NUMBER_BYTES);
        if (o->offset % 4096 != 0)
            usage_error("--offset is a multiple of 4096, not %s", arg);
        break;
    case OPT_READS:
        o->reads = real(id, arg, 0, 1e9);
        break;
    case OPT_N_KEYS:
        o->n_keys = whole(id, arg, 0, UINT64_C(1) << 48, NUMBER_COUNT);
        break;
    case OPT_BY:
        o->by = whole(id, arg, 1, UINT64_C(1) << 32, NUMBER_PLAIN);
        break;
    case OPT_BYTES:
        o->n_bytes = whole(id, arg, 0, UINT64_C(1) << 48, NUMBER_BYTES);
        break;
    default:
        break;
    }
}

static void take(struct options *o, enum option_id id, const char *arg)
{
    /* How it looks is no part of what is done. */
    o->given |= id == OPT_COLOR ? 0 : WITH(id);
    switch ((int)id) {
    case OPT_NUL:
        set_format(o, KEYS_NUL);
        break;
    case OPT_HEX:
        set_format(o, KEYS_HEX);
        break;
    case OPT_BINARY:
        set_format(o, KEYS_BINARY);
        break;
    case OPT_SEED:
        o->seed = parse_seed(arg);
        break;
    case OPT_BIND:
        bind(o, arg);
        break;
    case OPT_UUID:
        if (parse_hex(arg, strlen(arg), o->uuid, sizeof(o->uuid)) != TAMIS_UUID_BYTES)
            usage_error("--uuid is 32 hex digits, not '%s'", arg);
        break;
    case OPT_REPLACES:
        o->replaces[o->n_replaces++] = arg;
        break;
    case OPT_SEGMENT:
        check_name(arg, strlen(arg));
        o->segments[o->n_segments++] = arg;
        break;
    case OPT_STRIP:
        o->strip = arg;
        break;
    case OPT_KEYS_FILE:
        o->keys_file = arg;
        break;
    case OPT_AGAINST:
        o->against = arg;
        break;
    case OPT_STORE:
        o->store = arg;
        if (arg[0] == '\0')
            usage_error("--store is a path, and this one is empty");
        break;
    case OPT_LAYOUT:
        o->layout = arg;
        break;
    case OPT_SIZES:
        o->sizes = arg;
        if (arg[0] == '\0')
            usage_error("--sizes is a path or '-', and this one is empty");
        break;
    case OPT_SVG:
        o->svg = arg;
        if (arg[0] == '\0')
            usage_error("--svg is a path or '-', and this one is empty");
        break;
    case OPT_COLOR:
        if (!colour_choose(arg ? arg : "always"))
            usage_error("--color is never, auto or always, not '%s'", arg);
        break;
    default:
        take_number(o, id, arg);
        break;
    }
}

static enum option_id id_of(int code, uint64_t allowed)
{
    unsigned id = 0;

    while (id < N_OPTIONS && ((allowed & WITH(id)) == 0 || table[id].code != code))
        id++;
    return (enum option_id)id;
}

/* For completion, and for tests: a name a line, "=" after those that take a value. */
_Noreturn static void list_options(const struct option *longs)
{
    for (; longs->name != NULL; longs++) {
        const char *value = longs->has_arg == required_argument ? "=" : "";

        printf("--%s%s\n", longs->name, value);
        if (longs->val < 256)
            printf("-%c%s\n", longs->val, value);
    }
    exit(finish_output(EXIT_DONE));
}

/* Those that this process may run on. */
static unsigned n_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (unsigned)n;
}

/* A long one that getopt_long() does not take: a beginning of several, one with a value
 * that has none, or unknown. */
_Noreturn static void bad_option(const char *word, const struct option *longs)
{
    size_t n = word[0] == '-' && word[1] == '-' ? strcspn(word + 2, "=") : 0;
    struct suggestion meant;

    suggest_begin(&meant, word + 2, n);
    for (; n > 0 && longs->name != NULL; longs++) {
        size_t length = strlen(longs->name);

        if (length == n && memcmp(word + 2, longs->name, n) == 0)
            usage_error("option '--%s' takes no value", longs->name);
        suggest_among(&meant, longs->name, length);
    }
    if (meant.best != NULL)
        usage_error("unknown or ambiguous option '%.*s': did you mean '--%.*s'?",
                    (int)n + 2, word, (int)meant.best_bytes, meant.best);
    usage_error("unknown or ambiguous option '%s'", word);
}

void parse_options(int argc, char **argv, uint64_t allowed, size_t min, size_t max,
                   struct options *o)
{
    struct option longs[N_OPTIONS + 2] = {{"help", no_argument, NULL, 'h'}};
    char shorts[2 * N_OPTIONS + 3] = ":h", *at = shorts + 2;
    size_t n = 1;
    int code;

    memset(o, 0, sizeof(*o));
    o->jobs = n_processors();
    allowed |= WITH(OPT_COLOR);
    lists = memory_or_exit(calloc(2 * (size_t)argc, sizeof(*lists)));
    o->segments = lists;
    o->replaces = lists + argc;
    for (unsigned id = 0; id < N_OPTIONS; id++) {
        if ((allowed & WITH(id)) == 0)
            continue;
        longs[n++] =
            (struct option){table[id].name, table[id].has_arg, NULL, table[id].code};
        if (table[id].code < 256) {
            *at++ = (char)table[id].code;
            if (table[id].has_arg != no_argument)
                *at++ = ':';
        }
    }
    *at = '\0';
    if (argc == 2 && strcmp(argv[1], "--list-options") == 0)
        list_options(longs);
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (code == 'h')
            print_help_and_exit();
        if (code == ':')
            usage_error("option '%s' needs a value", argv[optind - 1]);
        if (code == '?' && optopt > 0 && optopt < 256)
            usage_error("unknown option '-%c'", optopt);
        if (code == '?')
            bad_option(argv[optind - 1], longs);
        take(o, id_of(code, allowed), optarg);
    }
    o->args = argv + optind;
    o->n_args = (size_t)(argc - optind);
    if (o->n_args < min)
        usage_error("too few arguments: %s", this_command->arguments);
    if (max > 0 && o->n_args > max)
        usage_error("too many arguments, from '%s' on", o->args[max]);
    if (min > 0 && o->args[0][0] == '\0')
        usage_error("%.*s is a path, and this one is empty",
                    (int)strcspn(this_command->arguments, " "),
                    this_command->arguments);
    check_names(o->replaces, o->n_replaces);
}

void check_fold(const struct options *o)
{
    if (given(o, OPT_BY) == given(o, OPT_FPR))
        usage_error("a fold is --by F, or as far as --fpr P allows: give one of them");
}
