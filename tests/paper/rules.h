/* Growth rules that the search compares: see rules.c. */
#ifndef TAMIS_TESTS_PAPER_RULES_H
#define TAMIS_TESTS_PAPER_RULES_H

#include "tests/paper/series.h"

#define RANGE_FROM 1e2
#define RANGE_TO   1e6

enum shares {
    SHARES_GEOMETRIC,  /* (1 - a) a^i */
    SHARES_POLYNOMIAL, /* a / ((i + a) (i + a + 1)), whose sum is 1 */
    SHARES_EQUAL,      /* 1/a for the first a stages, nothing for more */
    SHARES_RANGE, /* the best for sizes from a to 10^6; a tenth for what is beyond */
};

struct rule {
    const char *name;
    double factor;       /* s */
    double first_factor; /* s while growth is below 10^2 */
    enum shares shares;
    double a;
    bool fold;    /* the last stage, when the filter is sealed */
    double first; /* keys of the first stage, of those of the others'; 0: 1 */
};

/* NULL after the last. */
const struct rule *rule_at(size_t i);
const struct rule *rule_named(const char *name);

struct stages {
    uint32_t n;
    double keys[MAX_STAGES], errors[MAX_STAGES];
};
void rule_stages(const struct rule *r, double error, struct stages *out);

/* The largest divisor of a stage's pages by which it may be folded with so many keys in
 * it, without erring more than `budget`. */
uint64_t fold_factor(const struct geometry *g, double keys, double budget);

#endif
