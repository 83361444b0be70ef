/* Prints the result of `tamis compare` and `tamis file compare`. */
#include "output.h"

json_t *interval_json(const struct tamis_interval *i)
{
    return json_of("value", json_number(i->value), "low", json_number(i->low), "high",
                   json_number(i->high));
}

static void print_keys(const char *what, const struct tamis_interval *i, bool exact)
{
    char value[TEXT_BYTES];
    snprintf(value, sizeof(value), "%.0f", i->value);
    const char *s = strcmp(value, "1") == 0 ? "" : "s";
    if (exact)
        printf("%s: %s key%s\n", PATH(what), value, s);
    else
        printf("%s: %s key%s, %.0f to %.0f\n", PATH(what), value, s, i->low, i->high);
}

static const char *contained(const struct compared *c, int i)
{
    return c->keys.in[i] == TAMIS_ABSENT ? "no" : c->exact ? "yes" : "maybe";
}

static void print_text(const struct compared *compared, const char *const names[2])
{
    const struct tamis_comparison *c = &compared->keys;
    print_keys(names[0], &c->keys[0], compared->exact);
    print_keys(names[1], &c->keys[1], compared->exact);
    print_keys("together", &c->all, compared->exact);
    print_keys("in common", &c->common, compared->exact);
    if (compared->exact)
        printf("Jaccard: %s\n", PERCENT(c->jaccard.value));
    else
        printf("Jaccard: %s, %s to %s\n", PERCENT(c->jaccard.value),
               PERCENT(c->jaccard.low), PERCENT(c->jaccard.high));
    printf("all of the first in the second: %s; of the second in the first: %s\n",
           contained(compared, 0), contained(compared, 1));
    if (compared->exact)
        puts("counted exactly, from the lists of both");
}

static void print_json(const struct compared *compared, const char *const names[2])
{
    const struct tamis_comparison *c = &compared->keys;
    json_t *filters = memory_or_exit(json_array());
    for (int i = 0; i < 2; i++) {
        json_put(filters, NULL,
                 json_of("name", json_text(names[i]), "keys",
                         interval_json(&c->keys[i]), "in_other",
                         json_string(contained(compared, i))));
    }
    json_print(json_of("filters", filters, "together", interval_json(&c->all), "common",
                       interval_json(&c->common), "jaccard", interval_json(&c->jaccard),
                       "damaged", json_count(c->n_damaged), "exact",
                       json_boolean(compared->exact)));
}

/* ---- lists ---- */

/* The values of a list, one after the other. */
struct reading {
    struct tamis_list_cursor *cursor;
    uint64_t values[4096];
    size_t at, n;
    int err;
    struct tamis_diag diag;
};

/* Is there a value in its place? */
static bool reading_has(struct reading *r)
{
    if (r->err == 0 && r->at == r->n) {
        r->at = 0;
        r->err = tamis_list_cursor_next(r->cursor, r->values,
                                        sizeof(r->values) / sizeof(r->values[0]), &r->n,
                                        &r->diag);
    }
    return r->err == 0 && r->at < r->n;
}

/* *common: how many values are in both. */
static int count_common(struct tamis_filter *const lists[2], uint64_t *common,
                        int *broken, struct tamis_diag *diag)
{
    struct reading r[2] = {{.err = 0}};
    for (int i = 0; i < 2; i++)
        r[i].err = tamis_list_cursor_create(lists[i], &r[i].cursor, &r[i].diag);
    *common = 0;
    while (reading_has(&r[0]) && reading_has(&r[1])) {
        uint64_t x = r[0].values[r[0].at], y = r[1].values[r[1].at];
        *common += x == y;
        r[0].at += x <= y;
        r[1].at += y <= x;
    }
    for (int i = 0; i < 2; i++)
        tamis_list_cursor_free(r[i].cursor);
    *broken = r[0].err == 0;
    *diag = r[*broken].diag;
    return r[*broken].err;
}

static struct tamis_interval exactly(double value)
{
    return (struct tamis_interval){.value = value, .low = value, .high = value};
}

static int compare_lists(struct tamis_filter *const lists[2], const uint64_t n[2],
                         struct compared *out, struct tamis_diag *diag)
{
    uint64_t common, all;
    int err = count_common(lists, &common, &out->broken, diag);
    if (err != 0)
        return err;
    all = n[0] + n[1] - common;
    out->keys = (struct tamis_comparison){
        .keys = {exactly((double)n[0]), exactly((double)n[1])},
        .all = exactly((double)all),
        .common = exactly((double)common),
        .jaccard = exactly(all > 0 ? (double)common / (double)all : 0),
    };
    for (int i = 0; i < 2; i++)
        out->keys.in[i] = common == n[i] ? TAMIS_MAYBE : TAMIS_ABSENT;
    out->exact = true;
    return 0;
}

bool is_whole_list(struct tamis_filter *filter, struct tamis_filter_info *info)
{
    return tamis_filter_info(filter, info, NULL) == 0 && info->hash_bits == 64;
}

/* ---- both ---- */

int compare_filters(struct tamis_filter *const f[2], struct compared *out,
                    struct tamis_diag *diag)
{
    struct tamis_filter_info a, b;
    out->exact = false;
    if (is_whole_list(f[0], &a) && is_whole_list(f[1], &b) &&
        a.domain.tag == b.domain.tag)
        return compare_lists(f, (const uint64_t[]){a.n_hashes, b.n_hashes}, out, diag);
    return tamis_filter_compare(f[0], f[1], &out->keys, diag);
}

int print_comparison(const struct options *o, const struct compared *c,
                     const char *const names[2])
{
    uint64_t n_damaged = c->keys.n_damaged;
    if (given(o, OPT_JSON))
        print_json(c, names);
    else
        print_text(c, names);
    if (n_damaged == 0)
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%s left out: 'tamis verify' and 'tamis file verify' tell which",
                    COUNTED(n_damaged, "damaged page"));
}
