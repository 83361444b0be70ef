/* Writes the list of answers beside a golden file, as they come out now. */
#ifndef TAMIS_TESTS_GOLDEN_WRITE_ANSWERS_H
#define TAMIS_TESTS_GOLDEN_WRITE_ANSWERS_H

#include "tests/golden/answers.h"
#include "tests/golden/make.h"

static inline FILE *answers_file(const char *name)
{
    char path[4410];
    snprintf(path, sizeof path, "%s.answers", at(name));
    FILE *out = fopen(path, "w");
    if (!out)
        exit(1);
    return out;
}

typedef enum tamis_answer ask_fn(void *what, const struct tamis_key *key,
                                 enum tamis_reason *why);

/* The reason that all MAYBEs share; "MAYBE" if they have several or there are none. */
static inline const char *shared_reason(const unsigned seen[TAMIS_UNREADABLE + 1])
{
    const char *name = NULL;
    for (int why = TAMIS_HIT; why <= TAMIS_UNREADABLE; why++) {
        if (seen[why] && name)
            return "MAYBE";
        name = seen[why] ? tamis_reason_name((enum tamis_reason)why) : name;
    }
    return name ? name : "MAYBE";
}

/* Asks for the keys of a run, and writes it with r->maybe as it comes out. */
static inline void write_run(FILE *out, const struct answer_run *r,
                             const struct tamis_domain *d, ask_fn *ask, void *what)
{
    static unsigned char digits[100000];
    unsigned seen[TAMIS_UNREADABLE + 1] = {0};
    memset(digits, 0, sizeof digits);
    for (unsigned i = 0; i < r->n; i++) {
        char key[64];
        enum tamis_reason why;
        struct tamis_key k = tamis_key_of(d, key, answer_key(key, r, i));
        if (ask(what, &k, &why) == TAMIS_ABSENT)
            continue;
        digits[i / 4] = (unsigned char)(digits[i / 4] | 8U >> i % 4);
        seen[why]++;
    }
    fprintf(out, "%s %s %s %u %u %u", r->who, shared_reason(seen), r->prefix, r->first,
            r->n, r->step);
    for (unsigned i = 0; i < (r->n + 3) / 4; i++)
        fprintf(out, "%s%x", i % ANSWER_DIGITS == 0 ? "\n" : "", digits[i]);
    fputc('\n', out);
}

static inline enum tamis_answer ask_filter(void *filter, const struct tamis_key *key,
                                           enum tamis_reason *why)
{
    return tamis_filter_probe(filter, key, why);
}

/* Some 2,500 of the keys that are in, and 2,000 others. */
static inline void write_answers(const char *name, uint64_t offset, unsigned n_present)
{
    struct tamis_diag diag;
    struct tamis_filter *f;
    int fd = open(at(name), O_RDONLY | O_CLOEXEC);
    check(tamis_filter_open(NULL, INSIDE(.fd = fd, .offset = offset), &f, &diag),
          &diag);
    close(fd);
    unsigned step = 1 + n_present / 2500, n = (n_present + step - 1) / step;
    struct answer_run present = {"present", "", "key", 0, n, step};
    struct answer_run other = {
        "other", "", "other", n * step, n_present + 2000 - n * step, 1};
    struct tamis_domain d = filter_domain(f);
    FILE *out = answers_file(name);
    if (n_present)
        write_run(out, &present, &d, ask_filter, f);
    write_run(out, &other, &d, ask_filter, f);
    fclose(out);
    tamis_filter_close(f);
}

#ifndef GOLDEN_WITHOUT_STORE
struct asked_segment {
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
};

static inline enum tamis_answer ask_segment(void *segment, const struct tamis_key *key,
                                            enum tamis_reason *why)
{
    struct asked_segment *s = segment;
    return tamis_snapshot_probe(s->snapshot, &s->target, key, why);
}

/* A run for each segment. Every third key is asked. */
static inline void write_store_answers(const char *name, unsigned n_keys)
{
    struct tamis_diag diag;
    struct tamis_store *store;
    struct asked_segment s;
    struct tamis_segment_info info;
    char path[4500];
    check(tamis_store_open(at(name), NULL, &store, &diag), &diag);
    struct tamis_domain d = tamis_store_domain(store);
    check(tamis_snapshot_current(store, &s.snapshot, &diag), &diag);
    FILE *out = answers_file(name);
    for (size_t n = 0; tamis_snapshot_next(s.snapshot, &n); n++) {
        if (tamis_snapshot_segment(s.snapshot, n, &info) != 0)
            exit(1);
        struct answer_run r = {.prefix = "key", .n = n_keys / 3, .step = 3};
        s.target = tamis_snapshot_target(s.snapshot, n);
        snprintf(r.who, sizeof r.who, "%.*s", (int)info.name_bytes,
                 (const char *)info.name);
        write_run(out, &r, &d, ask_segment, &s);
    }
    fclose(out);
    tamis_snapshot_release(s.snapshot);
    tamis_store_close(store);
    snprintf(path, sizeof path, "%s/catalog.lmdb-lock", at(name));
    unlink(path);
}
#endif

#endif
