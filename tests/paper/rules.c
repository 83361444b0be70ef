/* Growth rules: the sizes of the stages, and their shares of the error. Shares add up
 * to 1 over the 30 stages that a filter may have, or over all of an endless series.
 *
 * For given sizes the best shares are known. Space is the sum over stages of
 * w_i log(1/e_i), w_i being the stage's keys times the mean of 1/n over the sizes n
 * that have it; with the sum of e_i given it is least where e_i is proportional to w_i
 * (Lagrange). That makes "range" rules the bound for any rule of their sizes. */
#include "tests/paper/rules.h"

#include <math.h>
#include <string.h>

static const struct rule rules[] = {
    {"s 2, r 0.85", 2, 2, SHARES_GEOMETRIC, 0.85, false, 0},
    {"default", 1.9, 1.9, SHARES_GEOMETRIC, 0.85, false, 50000.0 / LANES_FIRST},
    {"geometric r 0.90", 2, 2, SHARES_GEOMETRIC, 0.90, false, 0},
    {"geometric r 0.92", 2, 2, SHARES_GEOMETRIC, 0.92, false, 0},
    {"geometric r 0.95", 2, 2, SHARES_GEOMETRIC, 0.95, false, 0},
    {"polynomial a 1", 2, 2, SHARES_POLYNOMIAL, 1, false, 0},
    {"polynomial a 4", 2, 2, SHARES_POLYNOMIAL, 4, false, 0},
    {"polynomial a 12", 2, 2, SHARES_POLYNOMIAL, 12, false, 0},
    {"equal 20", 2, 2, SHARES_EQUAL, 20, false, 0},
    {"equal 30", 2, 2, SHARES_EQUAL, 30, false, 0},
    {"range 1", 2, 2, SHARES_RANGE, 1, false, 0},
    {"range 10", 2, 2, SHARES_RANGE, 10, false, 0},
    {"range 100", 2, 2, SHARES_RANGE, 100, false, 0},
    {"fast start, r 0.85", 2, 6, SHARES_GEOMETRIC, 0.85, false, 0},
    {"fast start, range 100", 2, 6, SHARES_RANGE, 100, false, 0},
    {"fast start, s 1.8, range 100", 1.8, 6, SHARES_RANGE, 100, false, 0},
    {"s 1.8, range 100", 1.8, 1.8, SHARES_RANGE, 100, false, 0},
    {"s 1.5, range 100", 1.5, 1.5, SHARES_RANGE, 100, false, 0},
    {"s 3, range 100", 3, 3, SHARES_RANGE, 100, false, 0},
    {"s 4", 4, 4, SHARES_GEOMETRIC, 0.85, false, 0},
    {"n0 100 times", 2, 2, SHARES_GEOMETRIC, 0.85, false, 100},
    {"n0 100 times, s 1.55, r 0.90", 1.55, 1.55, SHARES_GEOMETRIC, 0.90, false, 100},
    {"s 2, r 0.85, folded", 2, 2, SHARES_GEOMETRIC, 0.85, true, 0},
    {"default, folded", 1.9, 1.9, SHARES_GEOMETRIC, 0.85, true, 50000.0 / LANES_FIRST},
    {"range 100, folded", 2, 2, SHARES_RANGE, 100, true, 0},
    {"s 4, folded", 4, 4, SHARES_GEOMETRIC, 0.85, true, 0},
    {"s 8, folded", 8, 8, SHARES_GEOMETRIC, 0.7, true, 0},
    {"s 16, folded", 16, 16, SHARES_GEOMETRIC, 0.7, true, 0},
};

const struct rule *rule_at(size_t i)
{
    return i < sizeof rules / sizeof rules[0] ? &rules[i] : NULL;
}

const struct rule *rule_named(const char *name)
{
    const struct rule *r = NULL;
    for (size_t i = 0; (r = rule_at(i)) && strcmp(r->name, name) != 0;)
        i++;
    return r;
}

/* The sizes: up to the 2^37 keys that a stage of a file can have. */
static void fill_keys(const struct rule *r, struct stages *out)
{
    double keys = LANES_FIRST * (r->first > 0 ? r->first : 1), sum = 0;
    memset(out, 0, sizeof *out);
    while (out->n < MAX_STAGES && keys <= 0x1p37) {
        out->keys[out->n++] = keys;
        sum += keys;
        keys *= sum < LANES_FIRST * RANGE_FROM ? r->first_factor : r->factor;
    }
}

/* w_i for sizes from `from` first stages on. */
static void range_weights(const struct stages *s, double from,
                          double weights[MAX_STAGES])
{
    double before = 0, to = LANES_FIRST * RANGE_TO;
    for (uint32_t i = 0; i < s->n; i++) {
        double low = fmax(before, LANES_FIRST * from);
        weights[i] = low < to ? s->keys[i] * (1 / low - 1 / to) : 0;
        before += s->keys[i];
    }
}

static void range_shares(const struct stages *s, double from, double shares[MAX_STAGES])
{
    double weights[MAX_STAGES], sum = 0;
    uint32_t n_beyond = 0;
    range_weights(s, from, weights);
    for (uint32_t i = 0; i < s->n; i++) {
        sum += weights[i];
        n_beyond += weights[i] == 0;
    }
    for (uint32_t i = 0; i < s->n; i++)
        shares[i] =
            weights[i] > 0 ? weights[i] / sum * (n_beyond ? 0.9 : 1) : 0.1 / n_beyond;
}

static void fill_errors(const struct rule *r, double error, struct stages *s)
{
    double shares[MAX_STAGES];
    if (r->shares == SHARES_RANGE)
        range_shares(s, r->a, shares);
    for (uint32_t i = 0; i < s->n; i++) {
        if (r->shares == SHARES_GEOMETRIC)
            shares[i] = (1 - r->a) * pow(r->a, i);
        else if (r->shares == SHARES_POLYNOMIAL)
            shares[i] = r->a / ((i + r->a) * (i + r->a + 1));
        else if (r->shares == SHARES_EQUAL)
            shares[i] = i < r->a ? 1 / r->a : 0;
        s->errors[i] = fmax(error * shares[i], 0x1p-40);
    }
}

void rule_stages(const struct rule *r, double error, struct stages *out)
{
    fill_keys(r, out);
    fill_errors(r, error, out);
}
