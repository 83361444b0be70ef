/* Lists of keys and answers, FILE.answers, beside the golden files: their form, and a
 * reader of them. A list has runs:
 *
 *     present HIT key 0 2167 3
 *     ffff...                      64 digits a line, the last line may be shorter
 *
 * The run asks 2,167 keys, numbers 0, 3, 6 and so on: "key-0" and the bytes c3 a9, ...
 * Each hexadecimal digit has the answers for four of them, the first one in its highest
 * bit: 1 is MAYBE, for the reason given, and 0 is ABSENT. Bits after the last key are
 * 0. The first word is the segment asked; in the list of a filter, "present" for keys
 * that were added and "other" for keys that were not. */
#ifndef TAMIS_TESTS_GOLDEN_ANSWERS_H
#define TAMIS_TESTS_GOLDEN_ANSWERS_H

#include <stdio.h>
#include <sys/stat.h>

enum { ANSWER_DIGITS = 64 };

struct answer_run {
    char who[64], maybe[40], prefix[16];
    unsigned first, n, step;
};

/* Begun with a file opened for reading. */
struct answers {
    FILE *in;
    struct answer_run run;
    unsigned next, digit; /* the key to come, and the digit that has its answer */
    char key[64];
    size_t key_bytes;
    int absent, malformed;
};

static inline size_t answer_key(char out[64], const struct answer_run *r, unsigned i)
{
    return (size_t)snprintf(out, 64, "%s-%u\xc3\xa9", r->prefix,
                            r->first + i * r->step);
}

/* The next key of the list with its answer; 0 at the end, and where the list is
 * malformed. */
static inline int answers_next(struct answers *a)
{
    struct answer_run *r = &a->run;
    if (a->next == r->n) {
        int got = fscanf(a->in, "%63s %39s %15s %u %u %u", r->who, r->maybe, r->prefix,
                         &r->first, &r->n, &r->step);
        a->next = 0;
        a->malformed = got != EOF && (got != 6 || r->n == 0);
        if (got != 6 || a->malformed)
            return 0;
    }
    if (a->next % 4 == 0 && fscanf(a->in, " %1x", &a->digit) != 1) {
        a->malformed = 1;
        return 0;
    }
    a->key_bytes = answer_key(a->key, r, a->next);
    a->absent = !(a->digit >> (3 - a->next % 4) & 1);
    a->next++;
    return 1;
}

#endif
