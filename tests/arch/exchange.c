/* Makes, goes on with, and reads a growing filter, for machines of different byte
 * orders that take turns at one file: `exchange grow|check|seal FILE FIRST N`. Keys are
 * numbers in decimal. Prints nothing; the exit code says how it went. */
#include "lib/tamis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int say(const char *what, const struct tamis_diag *diag)
{
    fprintf(stderr, "exchange: %s: %s\n", what, diag->what);
    return 1;
}

static size_t key_of(char key[32], unsigned long i)
{
    return (size_t)snprintf(key, 32, "%lu", i);
}

/* Goes on with the file, or makes it. */
static int grow(const char *path, unsigned long first, unsigned long n, int seal)
{
    struct tamis_writer_options o = {.size = sizeof o,
                                     .growth = {.first_capacity = 500}};
    struct tamis_writer *w;
    struct tamis_diag diag = {0};
    char key[32];
    int err = first ? tamis_writer_open(path, NULL, &w, &diag)
                    : tamis_writer_create(path, &o, &w, &diag);
    if (err)
        return say("opening", &diag);
    struct tamis_filter_info info;
    if (tamis_writer_info(w, &info, NULL) != 0 || info.watermark != first)
        return say("another watermark than the one before", &diag);
    for (unsigned long i = first; i < first + n; i++)
        if (tamis_writer_add_key(w, key, key_of(key, i)) != 0)
            return say("adding", &diag);
    err = seal ? tamis_writer_seal(w, first + n, NULL, &diag)
               : tamis_writer_commit(w, first + n, &diag);
    if (err)
        return say("committing", &diag);
    return tamis_writer_close(w, NULL);
}

/* All keys below first + n are there, pages are good, and few others are HIT. */
static int check(const char *path, unsigned long n)
{
    struct tamis_filter *f;
    struct tamis_filter_info info;
    struct tamis_verify report;
    struct tamis_diag diag = {0};
    unsigned long n_false = 0;
    char key[32];
    if (tamis_filter_open(path, NULL, &f, &diag) != 0 ||
        tamis_filter_verify(f, &report, &diag) != 0 ||
        tamis_filter_info(f, &info, NULL) != 0)
        return say("opening", &diag);
    for (unsigned long i = 0; i < 2 * n; i++) {
        struct tamis_key k = tamis_key_of(&info.domain, key, key_of(key, i));
        enum tamis_reason why;
        enum tamis_answer a = tamis_filter_probe(f, &k, &why);
        if (i < n && (a == TAMIS_ABSENT || why != TAMIS_HIT))
            return say("a key is not there", &diag);
        n_false += i >= n && a != TAMIS_ABSENT;
    }
    tamis_filter_close(f);
    return n_false > n / 50 ? say("too many false positives", &diag) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: exchange grow|check|seal FILE FIRST N\n");
        return 2;
    }
    unsigned long first = strtoul(argv[3], NULL, 10), n = strtoul(argv[4], NULL, 10);
    if (strcmp(argv[1], "check") == 0)
        return check(argv[2], first + n);
    return grow(argv[2], first, n, strcmp(argv[1], "seal") == 0);
}
