/* Parses the options of a command by the table of all options. */
#include <getopt.h>
#include <sched.h>
#include <unistd.h>

#include "../talk/screen.h"
#include "input.h"

static uint64_t whole(const struct option_row *row, const char *text)
{
    enum number_kind kind = row->type == OPTION_COUNT ? NUMBER_COUNT
                            : row->type == OPTION_BYTES || row->type == OPTION_PAGES
                                ? NUMBER_BYTES
                                : NUMBER_PLAIN;
    const char *units = kind == NUMBER_COUNT   ? " (k, M, G and T are powers of 1000)"
                        : kind == NUMBER_BYTES ? " (K, M, G and T are powers of 1024)"
                                               : "";
    uint64_t n;
    if (!parse_number(text, kind, &n) || n < row->range.whole[0] ||
        n > row->range.whole[1])
        usage_error("--%s is %llu..%llu%s, not '%s'%s", row->name,
                    LLU(row->range.whole[0]), LLU(row->range.whole[1]), units, text,
                    strchr(text, '.') != NULL ? ", no whole number" : "");
    if (row->type == OPTION_PAGES && n % 4096 != 0)
        usage_error("--%s is a multiple of 4096, not %s", row->name, text);
    return n;
}

static double real(const struct option_row *row, const char *text)
{
    double min = row->range.real[0], max = row->range.real[1];
    char *end;
    double x = strtod(text, &end);
    /* As for counts: no space, sign or 0x before it. */
    bool is_decimal = strchr("0123456789.", text[0]) != NULL &&
                      strspn(text, "0123456789.eE+-") == (size_t)(end - text);
    if (*end == '%' && end > text) {
        x /= 100;
        end++;
    }
    if (!is_decimal || *end != '\0' || end == text || !(x >= min && x <= max))
        usage_error("--%s is %g..%g, not '%s'", row->name, min, max, text);
    return x;
}

/* All commands take them, and they conflict with nothing. */
#define COMMON (WITH(OPT_COLOR) | WITH(OPT_WAIT))

/* Room for o->segments and o->replaces: neither has more names than there are words. */
static const char **lists;

void options_free(void)
{
    free(lists);
    lists = NULL;
}

static uint64_t parse_kind(const char *text)
{
    if (strcmp(text, "bloom") == 0)
        return TAMIS_BLOOM;
    if (strcmp(text, "ribbon") == 0)
        return TAMIS_RIBBON;
    if (strcmp(text, "smaller") != 0)
        usage_error("--kind is bloom or ribbon, or smaller for 'tamis plan', not '%s'",
                    text);
    return KIND_SMALLER;
}

static void take(struct options *o, enum option_id id, const char *arg)
{
    const struct option_row *row = &option_table[id];
    void *field = (char *)o + row->field;
    struct name_list *names = field;
    long n_bytes;
    if (given(o, id) && row->value != NULL && row->type != OPTION_NAMES)
        usage_error("--%s is given twice: once will do", row->name);
    o->given |= WITH(id) & ~COMMON;
    switch (row->type) {
    case OPTION_FLAG:
        break;
    case OPTION_FORMAT:
        if (o->format != KEYS_LINES && o->format != row->range.whole[0])
            usage_error("-0, --hex and --binary exclude each other");
        o->format = (enum key_format)row->range.whole[0];
        break;
    case OPTION_REAL:
        *(double *)field = real(row, arg);
        break;
    case OPTION_SMALL:
        *(uint32_t *)field = (uint32_t)whole(row, arg);
        break;
    case OPTION_NUMBER: /* without its value, if that is optional: the greatest */
        *(uint64_t *)field = arg ? whole(row, arg) : row->range.whole[1];
        break;
    case OPTION_COUNT:
    case OPTION_BYTES:
    case OPTION_PAGES:
        *(uint64_t *)field = whole(row, arg);
        break;
    case OPTION_KIND:
        *(uint64_t *)field = parse_kind(arg);
        break;
    case OPTION_PATH:
    case OPTION_FILE:
        if (arg[0] == '\0')
            usage_error("--%s is a path%s, and this one is empty", row->name,
                        row->type == OPTION_FILE ? " or '-'" : "");
        *(const char **)field = arg;
        break;
    case OPTION_TEXT:
        *(const char **)field = arg;
        break;
    case OPTION_NAMES:
        check_name(arg, strlen(arg));
        names->at[names->n++] = arg;
        break;
    case OPTION_SEED:
        if (strlen(arg) != 16 || strspn(arg, "0123456789abcdefABCDEF") != 16)
            usage_error("--seed is 16 hex digits, not '%s'", arg);
        o->seed = strtoull(arg, NULL, 16);
        break;
    case OPTION_BINDING:
        n_bytes = parse_hex(arg, strlen(arg), o->binding, sizeof(o->binding));
        if (n_bytes < 1)
            usage_error("--bind is 1..%d bytes in hex digits, not '%s'",
                        TAMIS_BINDING_MAX, arg);
        o->binding_bytes = (size_t)n_bytes;
        break;
    case OPTION_UUID:
        if (parse_hex(arg, strlen(arg), o->uuid, sizeof(o->uuid)) != TAMIS_UUID_BYTES)
            usage_error("--uuid is 32 hex digits, not '%s'", arg);
        break;
    case OPTION_COLOUR:
        if (!colour_choose(arg ? arg : "always"))
            usage_error("--color is never, auto or always, not '%s'", arg);
        break;
    case OPTION_WAIT:
        wait_limit = real(row, arg);
        break;
    }
}

/* As getopt_long() returns it: the letter if there is one. */
static int code_of(enum option_id id)
{
    return option_table[id].letter ? option_table[id].letter : 256 + (int)id;
}

static int has_arg(enum option_id id)
{
    return id == OPT_COLOR || id == OPT_LIST ? optional_argument
           : option_table[id].value == NULL  ? no_argument
                                             : required_argument;
}

static enum option_id id_of(int code, uint64_t allowed)
{
    unsigned id = 0;
    while (id < N_OPTIONS &&
           ((allowed & WITH(id)) == 0 || code_of((enum option_id)id) != code))
        id++;
    return (enum option_id)id;
}

/* For completion and for tests: a name a line, "=" after options with a value. */
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

/* Reports a letter that getopt_long() refuses, as a whole character: if there is more
 * of it, getopt_long() is still at this word. */
_Noreturn static void bad_letter(const char *word)
{
    char byte = (char)optopt;
    const char *at = word ? strchr(word, byte) : NULL;
    size_t n = at ? printable((const uint8_t *)at, strlen(at)) : 0;
    usage_error("unknown option '-%.*s'", n > 0 ? (int)n : 1, n > 0 ? at : &byte);
}

/* Reports a long option that getopt_long() refuses: a flag with a value, which is in
 * optopt, or a name that is ambiguous or unknown. */
_Noreturn static void bad_option(const char *word, const struct option *longs)
{
    size_t n = strcspn(word + 2, "="), end = 0;
    struct suggestion meant;
    char list[512] = "";
    suggest_begin(&meant, word + 2, n);
    for (; longs->name != NULL; longs++) {
        if (longs->val == optopt)
            usage_error("option '--%s' takes no value", longs->name);
        suggest_among(&meant, longs->name, strlen(longs->name));
        if (n > 0 && strncmp(longs->name, word + 2, n) == 0 && end < sizeof(list))
            end += (size_t)snprintf(list + end, sizeof(list) - end, "%s--%s",
                                    end ? ", " : "", longs->name);
    }
    if (end > 0)
        usage_error("ambiguous option '%.*s': %s", (int)n + 2, word, list);
    if (meant.best != NULL)
        usage_error("unknown option '%.*s': did you mean '--%.*s'?", (int)n + 2, word,
                    (int)meant.best_bytes, meant.best);
    usage_error("unknown option '%s'", word);
}

/* Gives getopt_long() the options of this command. */
static uint64_t allow(struct option *longs, char *shorts)
{
    uint64_t allowed = COMMON;
    for (size_t i = 0; i < MAX_OPTION_HELP; i++)
        allowed |= this_command->options[i].ids;
    *longs++ = (struct option){"help", no_argument, NULL, 'h'};
    *shorts++ = ':';
    *shorts++ = 'h';
    for (unsigned i = 0; i < N_OPTIONS; i++) {
        enum option_id id = (enum option_id)i;
        if ((allowed & WITH(id)) == 0)
            continue;
        *longs++ =
            (struct option){option_table[id].name, has_arg(id), NULL, code_of(id)};
        if (option_table[id].letter) {
            *shorts++ = option_table[id].letter;
            if (has_arg(id) != no_argument)
                *shorts++ = ':';
        }
    }
    return allowed;
}

/* `--list 32`: getopt_long() takes 32 for an argument. Then there are too many of them,
 * or it is in the place of a KEYFILE, and no file has this name. */
static void check_bits(const struct options *o, size_t key_file)
{
    const char *word = o->after_list;
    uint64_t n;
    bool extra = !given(o, OPT_EACH) && o->n_args > key_file + 1;
    if (word == NULL || !parse_number(word, NUMBER_PLAIN, &n))
        return;
    for (size_t i = key_file; i < o->n_args && !extra; i++)
        extra = o->args[i] == word && access(word, F_OK) != 0;
    if (extra)
        usage_error("--list takes BITS after '=': --list=%s", word);
}

void parse_options(int argc, char **argv, size_t min, size_t max, struct options *o)
{
    struct option longs[N_OPTIONS + 2] = {{0}};
    char shorts[2 * N_OPTIONS + 3] = "";
    uint64_t allowed = allow(longs, shorts);
    cpu_set_t set;
    int code;
    memset(o, 0, sizeof(*o));
    /* The processors that this process may use. */
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    o->jobs = n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (uint32_t)n;
    lists = memory_or_exit(calloc(2 * (size_t)argc, sizeof(*lists)));
    o->segments.at = lists;
    o->replaces.at = lists + argc;
    if (argc == 2 && strcmp(argv[1], "--list-options") == 0)
        list_options(longs);
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (code == 'h')
            print_help_and_exit();
        if (code == ':')
            usage_error("option '%s' needs a value", argv[optind - 1]);
        /* A known letter: its long name, with a value that it does not take. */
        if (code == '?' && optopt != 0 && optopt < 256 &&
            (optopt == ':' || !strchr(shorts, optopt)))
            bad_letter(argv[optind]);
        if (code == '?')
            bad_option(argv[optind - 1], longs);
        take(o, id_of(code, allowed), optarg);
        if (id_of(code, allowed) == OPT_LIST && optarg == NULL)
            o->after_list = argv[optind];
    }
    o->args = argv + optind;
    o->n_args = (size_t)(argc - optind);
    if (o->n_args < min)
        usage_error("too few arguments: %s", this_command->arguments);
    check_bits(o, min);
    if (max > 0 && o->n_args > max)
        usage_error("too many arguments, from '%s' on", o->args[max]);
    if (min > 0 && o->args[0][0] == '\0')
        usage_error("%.*s is a path, and this one is empty",
                    (int)strcspn(this_command->arguments, " "),
                    this_command->arguments);
    check_names(o->replaces.at, o->replaces.n);
    check_names(o->segments.at, o->segments.n);
}

struct tamis_derivation derivation_of(const struct options *o)
{
    struct tamis_derivation d = {.operation =
                                     (enum tamis_operation)this_command->variant,
                                 .factor = o->by,
                                 .error = o->growth.error};
    if (d.operation != TAMIS_FOLD)
        return d;
    if (given(o, OPT_BY) == given(o, OPT_FPR))
        usage_error("a fold is --by F, or as far as --fpr P allows: give one of them");
    if (given(o, OPT_FPR))
        d.operation = TAMIS_SHRINK;
    return d;
}

struct tamis_identity identity_of(const struct options *o)
{
    struct tamis_identity id = {.binding = o->binding,
                                .binding_bytes = o->binding_bytes};
    if (o->segments.n > 1)
        usage_error("give one --segment: a file has one");
    if (o->segments.n > 0) {
        id.name = o->segments.at[0];
        id.name_bytes = strlen(id.name);
    }
    return id;
}

uint64_t filter_kind(const struct options *o)
{
    if (o->kind == KIND_SMALLER)
        usage_error("--kind smaller is for 'tamis plan': here it is bloom or ribbon");
    if (o->kind == TAMIS_RIBBON && given(o, OPT_PACK))
        usage_error("a ribbon can't be packed: leave out --pack, or take --kind bloom");
    return o->kind;
}
