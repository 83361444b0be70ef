/* Kinds of filters beside each other: bits a key, error, time to build and to ask. */
#ifndef TAMIS_TESTS_PAPER_KINDS_H
#define TAMIS_TESTS_PAPER_KINDS_H

#include "tests/support/internals.h"

/* ---- textbook.c ---- */

struct textbook {
    bool blocked;
    uint64_t n_bits;
    uint32_t k;
    uint64_t *words;
};
void textbook_create(struct textbook *t, bool blocked, double bits_per_key, uint64_t n);
void textbook_add(struct textbook *t, uint64_t h);
bool textbook_has(struct textbook *t, uint64_t h);
void textbook_free(struct textbook *t);

/* ---- kinds.c ---- */

enum kind_name { KIND_CLASSIC, KIND_BLOCKED, KIND_LANES, KIND_RIBBONS, KIND_LISTS };
enum { N_KINDS = 5 };
extern const char *const kind_names[N_KINDS];

struct kind_point {
    double asked;        /* error */
    double bits_per_key; /* of ours the whole file */
    double error;        /* measured */
    double build_ns, probe_ns;
    uint64_t lost; /* keys that it says are absent */
};
/* One filter of n keys, made and asked. */
void measure_kind(enum kind_name kind, double error, uint64_t n,
                  struct kind_point *out);

#endif
