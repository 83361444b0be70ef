/* tamis bench: everything in one process, one thing after another, on the same keys.
 *
 *     bench [--quick | --tiny] [--seed N] [--keys N] [--only part] [--out DIR]
 *           [--plant loss | error]
 *
 * It exits with 0 whether marks are met or not; with 1 if an answer was wrong (a
 * present key ABSENT, too many errors) or a figure is missing; with 2 if it could not
 * be run. What is planted is such a wrong answer, for the test of this program. */
#include "tests/bench/bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench bench = {.seed = 1, .dir = ".", .planted = ""};

#define K   UINT64_C(1000)
#define M   (K * K)
#define MIB (UINT64_C(1) << 20)

static const struct sizes forms[] = {
    {
        .form = "full",
        .reps = 15,
        .long_reps = 5,
        .small = M,
        .large = 100 * M,
        .probes = 2 * M,
        .stage_keys = 10 * K,
        .segments = 1000,
        .segment_keys = 100 * K,
        .pack_segments = 512,
        .pack_keys = 400 * K,
        .turnover = 100 * K,
        .process_segments = 10 * K,
        .process_keys = K,
        .first_max = 4096 * MIB,
        .build = 100 * M,
        .adds = 2 * M,
        .error_keys = M,
        .error_probes = 20 * M,
        .stream = 512 * MIB,
        .instructions = 20 * K,
    },
    {
        .form = "quick",
        .reps = 7,
        .long_reps = 3,
        .small = M,
        .large = 16 * M,
        .probes = 500 * K,
        .stage_keys = 10 * K,
        .segments = 1000,
        .segment_keys = 20 * K,
        .pack_segments = 512,
        .pack_keys = 20 * K,
        .turnover = 10 * K,
        .process_segments = 2 * K,
        .process_keys = K,
        .first_max = 256 * MIB,
        .build = 4 * M,
        .adds = 200 * K,
        .error_keys = 200 * K,
        .error_probes = 4 * M,
        .stream = 128 * MIB,
        .instructions = 5 * K,
    },
    {
        .form = "tiny",
        .reps = 3,
        .long_reps = 3,
        .small = 20 * K,
        .large = 100 * K,
        .probes = 20 * K,
        .stage_keys = 200,
        .segments = 20,
        .segment_keys = K,
        .pack_segments = 64,
        .pack_keys = K,
        .turnover = K,
        .process_segments = 200,
        .process_keys = 100,
        .first_max = 4 * MIB,
        .build = 50 * K,
        .adds = 5 * K,
        .error_keys = 20 * K,
        .error_probes = 50 * K,
        .stream = MIB,
        .instructions = 2 * K,
    },
};

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"limits", limits_measure},
    {"small", figures_small},
    {"large", figures_large},
    {"inline", figures_inline},
    {"few", figures_few},
    {"few_segments", figures_few_segments},
    {"blocks", figures_blocks},
    {"check", figures_check},
    {"readers", figures_readers},
    {"speed", figures_speed},
    {"error", figures_error},
    {"growing", figures_growing},
    {"stages", figures_stages},
    {"segments", figures_segments},
    {"packs", figures_packs},
    {"lists", figures_lists},
    {"from_lists", figures_from_lists},
    {"sizes", figures_sizes},
    {"turnover", figures_turnover},
    {"process", figures_process},
    {"first", figures_first},
    {"keys", figures_keys},
    {"adds", figures_adds},
    {"alone", figures_alone},
    {"commit", figures_commit},
    {"build", figures_build},
    {"ribbon", figures_ribbon},
    {"algebra", figures_algebra},
    {"instructions", figures_instructions},
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
    void *memory = malloc(n_bytes ? n_bytes : 1);
    if (!memory)
        give_up("no memory for %zu bytes", n_bytes);
    return memory;
}

void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    fflush(stdout);
}

static void usage(void)
{
    fprintf(stderr, "usage: bench [--quick | --tiny] [--seed N] [--keys N] "
                    "[--only PART] [--out DIR]\nparts:");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fprintf(stderr, " %s", parts[i].name);
    fputc('\n', stderr);
    exit(2);
}

/* Digits, and nothing else: strtoull() takes "-5" for a great many, "x" for 0. */
static uint64_t number(const char *option, const char *text, uint64_t least)
{
    uint64_t n = 0;
    errno = 0;
    if (text[0] && strspn(text, "0123456789") == strlen(text))
        n = strtoull(text, NULL, 10);
    else
        errno = EINVAL;
    if (errno || n < least)
        give_up("%s: a number, %llu or more, not '%s'", option,
                (unsigned long long)least, text);
    return n;
}

static bool is_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(name, parts[i].name) == 0)
            return true;
    return false;
}

static void run(const char *only)
{
    must(tamis_domain_init(&bench.domain, 1, bench.seed), NULL, "domain");
    pin();
    load_note("before");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (only && strcmp(only, parts[i].name) != 0)
            continue;
        uint64_t began = now_ns();
        parts[i].run();
        say("%-14s %8.1f s\n", parts[i].name, (double)(now_ns() - began) / 1e9);
    }
    load_note("after");
    filters_remove();
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    bench.program = argv[0];
    bench.sizes = forms[0];
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--quick") == 0 || strcmp(option, "--tiny") == 0) {
            bench.sizes = forms[option[2] == 'q' ? 1 : 2];
            continue;
        }
        if (!value)
            usage();
        i++;
        if (strcmp(option, "--seed") == 0)
            bench.seed = number(option, value, 0);
        else if (strcmp(option, "--keys") == 0)
            bench.sizes.large = bench.sizes.build = number(option, value, 1000);
        else if (strcmp(option, "--only") == 0 && is_part(value))
            only = value;
        else if (strcmp(option, "--out") == 0)
            bench.dir = value;
        else if (strcmp(option, "--plant") == 0)
            bench.planted = value;
        else if (strcmp(option, "--reader") == 0)
            return reader_main(value);
        else if (strcmp(option, "--instructions") == 0 && i + 1 < argc) {
            must(tamis_domain_init(&bench.domain, 1, bench.seed), NULL, "domain");
            return instructions_main(value, argv[i + 1]);
        } else
            usage();
    }
    run(only);
    report_write();
    unsigned missing = only ? 0 : figures_missing();
    return n_wrong() || missing ? 1 : 0;
}
