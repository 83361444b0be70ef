/* One table of all options, so that a name means the same thing, has the same range
 * and the same message in every command. */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

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
};

static uint64_t whole(enum option_id id, const char *text, uint64_t min, uint64_t max,
                      bool with_unit)
{
    char *end;
    unsigned long long n;
    unsigned shift = 0;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (with_unit && *end != '\0') {
        const char *units = "KMGT", *unit = strchr(units, *end);

        shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
        end += unit != NULL;
    }
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        (n << shift) >> shift != n || (n << shift) < min || (n << shift) > max)
        usage_error("--%s is %llu..%llu%s, not '%s'", table[id].name,
                    (unsigned long long)min, (unsigned long long)max,
                    with_unit ? " (K, M, G and T are powers of 1024)" : "", text);
    return n << shift;
}

static double real(enum option_id id, const char *text, double min, double max)
{
    char *end;
    double x = strtod(text, &end);

    if (*end == '%' && end > text) {
        x /= 100;
        end++;
    }
    if (*end != '\0' || end == text || !(x >= min && x <= max))
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

void check_name(const char *name, size_t n_bytes)
{
    if (n_bytes < 1 || n_bytes > TAMIS_NAME_MAX)
        usage_error("a segment's name is 1..%d bytes long, not %zu", TAMIS_NAME_MAX,
                    n_bytes);
    if (memchr(name, '\0', n_bytes) != NULL)
        usage_error("a segment's name has no NUL in it");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void check_names(const char *const *names, size_t n)
{
    const char **sorted, *twice = NULL;

    for (size_t i = 0; i < n; i++)
        check_name(names[i], strlen(names[i]));
    sorted = need(malloc((n + 1) * sizeof(*sorted)));
    for (size_t i = 0; i < n; i++)
        sorted[i] = names[i];
    qsort(sorted, n, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < n && twice == NULL; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            twice = sorted[i];
    free(sorted);
    if (twice != NULL)
        usage_error("segment '%s' is named twice: once will do", twice);
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
        o->growth.first_capacity = whole(id, arg, 1, UINT64_C(1) << 32, false);
        break;
    case OPT_WATERMARK:
        o->watermark = whole(id, arg, 0, UINT64_MAX, false);
        break;
    case OPT_MIN_WATERMARK:
        o->min_watermark = whole(id, arg, 0, UINT64_MAX, false);
        break;
    case OPT_RANK:
        o->rank = (uint32_t)whole(id, arg, 0, UINT32_MAX, false);
        break;
    case OPT_JOBS:
        o->jobs = (unsigned)whole(id, arg, 1, MAX_JOBS, false);
        break;
    case OPT_OFFSET:
        o->offset = whole(id, arg, 0, INT64_MAX, true);
        if (o->offset % 4096 != 0)
            usage_error("--offset is a multiple of 4096, not %s", arg);
        break;
    case OPT_N_KEYS:
        o->n_keys = whole(id, arg, 0, UINT64_C(1) << 48, true);
        break;
    case OPT_BYTES:
        o->n_bytes = whole(id, arg, 1, UINT64_C(1) << 48, true);
        break;
    default:
        break;
    }
}

static void take(struct options *o, enum option_id id, const char *arg)
{
    o->given |= WITH(id);
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

/* Those that this process may run on. */
static unsigned n_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (unsigned)n;
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
    lists = need(calloc(2 * (size_t)argc, sizeof(*lists)));
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
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (code == 'h')
            print_help_and_exit();
        if (code == ':')
            usage_error("option '%s' needs a value", argv[optind - 1]);
        if (code == '?' && optopt > 0 && optopt < 256)
            usage_error("unknown option '-%c'", optopt);
        if (code == '?')
            usage_error("unknown, ambiguous or misused option '%s'", argv[optind - 1]);
        take(o, id_of(code, allowed), optarg);
    }
    o->args = argv + optind;
    o->n_args = (size_t)(argc - optind);
    if (o->n_args < min)
        usage_error("too few arguments: %s", this_command->arguments);
    if (max > 0 && o->n_args > max)
        usage_error("too many arguments, from '%s' on", o->args[max]);
    if (min > 0 && o->args[0][0] == '\0')
        usage_error("%s is a path, and this one is empty",
                    strncmp(this_command->name, "file ", 5) == 0 ? "FILE" : "STORE");
    check_names(o->replaces, o->n_replaces);
}

struct tamis_name name_of_file(const char *path, const char *strip)
{
    const char *slash = strrchr(path, '/');
    struct tamis_name name = {slash ? slash + 1 : path, 0};
    size_t suffix = strip ? strlen(strip) : 0;

    if (path[0] == '\0')
        usage_error("the path of a key list is empty");
    name.n_bytes = strlen(name.bytes);
    if (suffix > 0 && name.n_bytes >= suffix &&
        memcmp((const char *)name.bytes + name.n_bytes - suffix, strip, suffix) == 0)
        name.n_bytes -= suffix;
    check_name(name.bytes, name.n_bytes);
    return name;
}
