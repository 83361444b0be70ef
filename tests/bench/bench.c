/* tamis bench: everything in one process, one thing after another, on the same keys.
 *
 *     bench [--quick | --tiny] [--seed N] [--only REGEX] [--out DIR]
 *           [--plant loss | error]
 *     bench --list
 *
 * It exits with 0 whatever the times are; with 1 if an answer was wrong (a present key
 * ABSENT, too many errors, two that should agree and do not) or a figure is missing;
 * with 2 if it could not be run. This program's test plants such an answer. */
#include "tests/bench/bench.h"

#include <errno.h>
#include <regex.h>

struct bench bench = {.seed = 1, .dir = ".", .planted = ""};

#define K UINT64_C(1000)
#define M (K * K)

static const struct sizes forms[] = {
    /* rounds, filters, pieces, list, shapes, keys of a first stage; laws */
    {"full", 15, M, 100 * M, 100 * K, 500 * K, 10 * M, 20, 50 * K, 50 * K, K, M, 16,
     100 * K, 100},
    {"quick", 7, M, 10 * M, 50 * K, 100 * K, M, 16, 5 * K, 5 * K, K, 100 * K, 16,
     20 * K, 20},
    {"tiny", 3, 20 * K, 100 * K, 4 * K, 8 * K, 20 * K, 9, K, 100, K, 5 * K, 2, 2 * K,
     10},
};

void give_up(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(2);
}

void must(int rc, const struct tamis_diag *diag, const char *what)
{
    if (rc)
        give_up("%s: %s (%s %s)", what, tamis_strerror(rc), diag ? diag->what : "",
                diag ? diag->file : "");
}

void *allocate(size_t n_bytes)
{
    size_t rounded = (n_bytes / BLOCK_BYTES + 1) * BLOCK_BYTES;
    void *memory = aligned_alloc(BLOCK_BYTES, rounded);
    if (!memory)
        give_up("no memory for %zu bytes", n_bytes);
    return memset(memory, 0, rounded);
}

void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
}

/* ---- options ---- */

static regex_t only;
static bool has_only;

bool wanted(const char *id)
{
    return !has_only || regexec(&only, id, 0, NULL, 0) == 0;
}

static void choose(const char *pattern)
{
    if (regcomp(&only, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        give_up("'%s' is no regular expression", pattern);
    has_only = true;
    for (size_t i = 0; i < n_figures; i++)
        if (wanted(figures[i].id))
            return;
    give_up("no figure matches '%s'; --list lists them", pattern);
}

/* Digits, and nothing else: strtoull() takes "-5" for a great many, "x" for 0. */
static uint64_t number(const char *option, const char *text)
{
    uint64_t n = 0;
    errno = 0;
    if (text[0] && strspn(text, "0123456789") == strlen(text))
        n = strtoull(text, NULL, 10);
    else
        errno = EINVAL;
    if (errno)
        give_up("%s: a number, not '%s'", option, text);
    return n;
}

static void list(void)
{
    for (size_t i = 0; i < n_figures; i++)
        printf("%s\n", figures[i].id);
    exit(0);
}

static void usage(void)
{
    fputs("usage: bench [--quick | --tiny] [--seed N] [--only REGEX] [--out DIR]\n"
          "       bench --list\n",
          stderr);
    exit(2);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--quick") == 0 || strcmp(option, "--tiny") == 0) {
            bench.sizes = forms[option[2] == 'q' ? 1 : 2];
            continue;
        }
        if (strcmp(option, "--list") == 0)
            list();
        if (!value)
            usage();
        i++;
        if (strcmp(option, "--seed") == 0)
            bench.seed = number(option, value);
        else if (strcmp(option, "--only") == 0)
            choose(value);
        else if (strcmp(option, "--out") == 0)
            bench.dir = value;
        else if (strcmp(option, "--plant") == 0)
            bench.planted = value;
        else
            usage();
    }
}

/* ---- the run ---- */

/* A room has figures that are next to each other in the table. */
static void run_rooms(void)
{
    for (size_t i = 0, next; i < n_figures; i = next) {
        bool any = false;
        for (next = i; next < n_figures && figures[next].room == figures[i].room;
             next++)
            any = any || wanted(figures[next].id);
        if (!any)
            continue;
        uint64_t began = now_ns();
        figures[i].room();
        say("%-28s %7.1f s\n", figures[i].id, (double)(now_ns() - began) / 1e9);
    }
}

int main(int argc, char **argv)
{
    bench.sizes = forms[0];
    bench.program = argv[0];
    if (argc == 5 && strcmp(argv[1], "--guest") == 0)
        bench.seed = number(argv[1], argv[2]);
    else
        parse(argc, argv);
    must(tamis_domain_init(&bench.domain, 1, bench.seed), NULL, "domain");
    if (argc == 5 && strcmp(argv[1], "--guest") == 0)
        guest(argv[3], number(argv[1], argv[4]));
    if (access(bench.dir, W_OK) != 0) /* sooner than after all rounds */
        give_up("%s: no directory that can be written: make it first", bench.dir);
    pin();
    load_note();
    run_rooms();
    load_note();
    subjects_free();
    return report_write() ? 1 : 0;
}
