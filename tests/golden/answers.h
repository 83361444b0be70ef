/* The answers that stand beside a golden file, FILE.tsv, as they come out now. */
#ifndef TAMIS_TESTS_GOLDEN_ANSWERS_H
#define TAMIS_TESTS_GOLDEN_ANSWERS_H

#include <unistd.h>

#include "tests/golden/handmade.h"
#include "tests/golden/make.h"

static inline FILE *answers_file(const char *name)
{
    char path[4410];
    snprintf(path, sizeof path, "%s.tsv", at(name));
    FILE *out = fopen(path, "w");
    if (!out)
        exit(1);
    return out;
}

/* A line a key: "present" or "other", the exact answer, the key. Closes the filter. */
static inline void write_answers(struct tamis_filter *f, const char *name,
                                 unsigned n_present)
{
    FILE *out = answers_file(name);
    char key[64];
    struct tamis_domain d = tamis_filter_domain(f);
    unsigned step = 1 + n_present / 2500; /* enough of them */
    for (unsigned i = 0; i < n_present + 2000; i += i < n_present ? step : 1) {
        int present = i < n_present;
        size_t n = golden_key(key, present ? "key" : "other", i);
        struct tamis_key k = tamis_key_of(&d, key, n);
        fprintf(out, "%s\t%s\t%s\n", present ? "present" : "other",
                tamis_filter_probe(f, &k, NULL) == TAMIS_ABSENT ? "ABSENT" : "MAYBE",
                key);
    }
    fclose(out);
    tamis_filter_close(f);
}

#ifndef GOLDEN_WITHOUT_STORE
/* A line a key and segment: key, segment, reason (ABSENT among them). Every third key
 * is asked. */
static inline void write_store_answers(const char *name, unsigned n_keys)
{
    struct tamis_diag diag;
    struct tamis_store *store;
    struct tamis_snapshot *now;
    struct tamis_segment_info info;
    char key[64], path[4500];
    check(tamis_store_open(at(name), &store, &diag), &diag);
    struct tamis_domain d = tamis_store_domain(store);
    check(tamis_snapshot_current(store, &now, &diag), &diag);
    FILE *out = answers_file(name);
    for (unsigned i = 0; i < n_keys; i += 3) {
        struct tamis_key k = tamis_key_of(&d, key, golden_key(key, "key", i));
        for (size_t n = 0; tamis_snapshot_segment(now, n, &info) == 0; n++) {
            struct tamis_target t = tamis_snapshot_target(now, n);
            enum tamis_reason why;
            tamis_snapshot_probe(now, &t, &k, &why);
            fprintf(out, "%s\t%.*s\t%s\n", key, (int)info.name_bytes,
                    (const char *)info.name, tamis_reason_name(why));
        }
    }
    fclose(out);
    tamis_snapshot_release(now);
    tamis_store_close(store);
    snprintf(path, sizeof path, "%s/catalog.lmdb-lock", at(name));
    unlink(path);
}
#endif

#endif
