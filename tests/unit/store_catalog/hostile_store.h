/* For tests of hostile stores: a store to hurt, and the result of opening it. */
#ifndef TAMIS_TESTS_HOSTILE_STORE_H
#define TAMIS_TESTS_HOSTILE_STORE_H

#include "tests/support/store_support.h"

/* One store of a sealed segment "a" (keys 0..99) and a growing one "b", closed. */
static UNUSED const char *fresh_store(void)
{
    static char name[16];
    static unsigned n;
    snprintf(name, sizeof name, "s%u", n++);
    struct tamis_store *s = store_new(name);
    put_segment(s, "a", 0, 100);
    put_growing(s, "b");
    tamis_store_close(s);
    return name;
}

static UNUSED const char *in_store(const char *store, const char *file)
{
    char both[200];
    snprintf(both, sizeof both, "%s/%s", store, file);
    return path_of(both);
}

static UNUSED void expect_store(const char *store, int code, const char *words)
{
    struct tamis_store *s;
    struct tamis_diag diag;
    int rc = tamis_store_open(path_of(store), &s, &diag);
    if (rc != code || s || !strstr(diag.what, words) || !strstr(diag.file, store))
        fail_msg("%d, not %d: '%s' (%s) does not say '%s'", rc, code, diag.what,
                 diag.file, words);
}

#endif
