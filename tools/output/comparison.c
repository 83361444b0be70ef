/* Prints the result of `tamis compare` and `tamis file compare`. */
#include <stdio.h>
#include <string.h>

#include "../input/input.h"
#include "../talk/talk.h"
#include "output.h"
#include "tamis.h"

json_t *interval_json(const struct tamis_interval *i)
{
    json_t *o = memory_or_exit(json_object());

    json_put(o, "value", json_number(i->value));
    json_put(o, "low", json_number(i->low));
    json_put(o, "high", json_number(i->high));
    return o;
}

static void print_keys(const char *what, const struct tamis_interval *i)
{
    print_escaped(stdout, what, strlen(what));
    printf(": %.0f keys, %.0f to %.0f\n", i->value, i->low, i->high);
}

static const char *contained(enum tamis_answer answer)
{
    return answer == TAMIS_ABSENT ? "no" : "maybe";
}

static void print_text(const struct tamis_comparison *c, const char *const names[2],
                       const enum tamis_answer in[2])
{
    char value[TEXT_BYTES], low[TEXT_BYTES], high[TEXT_BYTES];

    print_keys(names[0], &c->keys[0]);
    print_keys(names[1], &c->keys[1]);
    print_keys("together", &c->all);
    print_keys("in common", &c->common);
    printf("Jaccard: %s, %s to %s\n", percent_text(value, c->jaccard.value),
           percent_text(low, c->jaccard.low), percent_text(high, c->jaccard.high));
    printf("all of the first in the second: %s; of the second in the first: %s\n",
           contained(in[0]), contained(in[1]));
}

static void print_json(const struct tamis_comparison *c, const char *const names[2],
                       const enum tamis_answer in[2])
{
    json_t *o = memory_or_exit(json_object()), *filters = memory_or_exit(json_array());

    for (int i = 0; i < 2; i++) {
        json_t *f = memory_or_exit(json_object());

        json_put(f, "name", json_escaped(names[i], strlen(names[i])));
        json_put(f, "keys", interval_json(&c->keys[i]));
        json_put(f, "in_other", json_string(in[i] == TAMIS_ABSENT ? "no" : "maybe"));
        json_put(filters, NULL, f);
    }
    json_put(o, "filters", filters);
    json_put(o, "together", interval_json(&c->all));
    json_put(o, "common", interval_json(&c->common));
    json_put(o, "jaccard", interval_json(&c->jaccard));
    json_put(o, "damaged", json_count(c->n_damaged));
    json_print(o);
}

int compare_filters(struct tamis_filter *one, struct tamis_filter *other,
                    struct compared *out, struct tamis_diag *diag)
{
    int err = tamis_filter_compare(one, other, &out->keys, diag);

    if (err == 0)
        err = tamis_filter_contains(other, one, &out->in[0], diag);
    return err ? err : tamis_filter_contains(one, other, &out->in[1], diag);
}

int print_comparison(const struct options *o, const struct compared *c,
                     const char *const names[2])
{
    uint64_t n_damaged = c->keys.n_damaged;

    if (given(o, OPT_JSON))
        print_json(&c->keys, names, c->in);
    else
        print_text(&c->keys, names, c->in);
    if (n_damaged == 0)
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%llu damaged page%s left out: 'tamis verify' and 'tamis file "
                    "verify' tell which",
                    (unsigned long long)n_damaged, n_damaged == 1 ? "" : "s");
}
