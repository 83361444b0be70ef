/* A store to damage: what stores.c damages and shop.c makes. */
#ifndef TAMIS_TESTS_ROT_STORE_H
#define TAMIS_TESTS_ROT_STORE_H

#include "tests/rot/rot.h"

enum { N_SEGMENTS = 7, PATH_BYTES = 700, KEYS_ASKED = 160, MAX_CATALOGS = 40 };

struct segment {
    const char *name;
    bool sealed; /* the catalog says so */
    size_t n_keys;
    char path[PATH_BYTES];
    struct image now, past[MAX_PAST];
    size_t n_past, n_noted; /* those that the catalog must know to be older */
};

struct shop {
    const struct kind *kind; /* a name, for messages */
    struct tamis_domain domain;
    char path[PATH_BYTES];
    struct segment segments[N_SEGMENTS];
    size_t n_segments;
    struct image catalogs[MAX_CATALOGS]; /* as they were */
    size_t n_catalogs;
};

/* Keys are "NAME-000000" and so on. */
void shop_make(struct shop *s, const char *dir, const struct kind *kind);

#endif
