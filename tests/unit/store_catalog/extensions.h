/* For tests of later extensions: the golden files and stores, and their keys. They call
 * only functions that 1.0 had, so that they can be built in a tree of 1.0, too. */
#ifndef TAMIS_TESTS_EXTENSIONS_H
#define TAMIS_TESTS_EXTENSIONS_H

#include "tests/support/store_support.h"
#include "tests/golden/answers.h"
#include "tests/golden/extensions.h"

#define GOLDEN TAMIS_SOURCE_DIR "/tests/golden/extensions/"

enum { N_KEYS = 150 };

/* Key number i, as the golden files have it. */
static UNUSED size_t key_number(char out[64], unsigned i)
{
    return (size_t)snprintf(out, 64, "key-%u\xc3\xa9", i);
}

static UNUSED const char *golden(const char *name)
{
    static char path[2][1200];
    static unsigned next;
    char *p = path[next++ % 2];
    snprintf(p, sizeof path[0], "%s%s", GOLDEN, name);
    return p;
}

static UNUSED FILE *open_answers(const char *name)
{
    char path[1300];
    snprintf(path, sizeof path, "%s.answers", golden(name));
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    return in;
}

static UNUSED void check_keys_in(struct tamis_filter *f, unsigned n_keys)
{
    struct tamis_domain d = tamis_filter_domain(f);
    char key[64];
    for (unsigned i = 0; i < n_keys; i++) {
        struct tamis_key k = tamis_key_of(&d, key, key_number(key, i));
        IS(tamis_filter_probe(f, &k, NULL), TAMIS_MAYBE);
    }
}

/* Adds the keys up to n_keys and commits. */
static UNUSED void write_on(struct tamis_writer *w, unsigned n_keys)
{
    char key[64];
    for (unsigned i = N_KEYS; i < n_keys; i++)
        OK(tamis_writer_add_key(w, key, key_number(key, i)));
    OK(tamis_writer_commit(w, 5000, NULL));
}

static UNUSED void check_present(const char *path, unsigned n_keys)
{
    FILTER f = open_filter(path);
    check_keys_in(f, n_keys);
    OK(tamis_filter_verify(f, &(struct tamis_verify){0}, NULL));
}

#endif
