/* The readers, which ask while writers work and die: first what has been added is
 * read, then a snapshot is taken, then it is asked for. */
#include "tests/kill/kill.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct reading {
    struct tamis_store *store;
    struct tamis_filter *lone; /* the newest: kept open while it grows */
    uint64_t lone_number;
    struct tamis_domain domain;
    uint64_t rng, n_asked, n_strangers, n_absent, n_reasons[16];
};

/* A position that has been added by one of the adders; the last one often. */
static bool pick(struct reading *r, enum mode which, uint64_t *position)
{
    uint64_t me = rng_below(&r->rng, N_ADDERS), n = shared->log[which].added[me];
    if (n < N_ADDERS + me)
        return false;
    uint64_t last = n - N_ADDERS;
    uint64_t back = rng_below(&r->rng, 2) ? rng_below(&r->rng, 64)
                                          : rng_below(&r->rng, last / N_ADDERS + 1);
    uint64_t most = last / N_ADDERS;
    *position = last - (back < most ? back : most) * N_ADDERS;
    return true;
}

static bool find_owner(const struct tamis_snapshot *snapshot, uint64_t position,
                       struct tamis_target *t)
{
    char g[32], m[32];
    struct tamis_target other;
    uint64_t number = position / STORE_KEYS;
    snprintf(g, sizeof g, "g%llu", (unsigned long long)number);
    snprintf(m, sizeof m, "m%llu", (unsigned long long)(number / MERGED));
    bool is_g = tamis_snapshot_find(snapshot, g, strlen(g), NULL, 0, 0, t) == 0;
    bool is_m = tamis_snapshot_find(snapshot, m, strlen(m), NULL, 0, 0, &other) == 0;
    if (is_g && is_m)
        lost("segments %s and %s are listed, half of an edit", g, m);
    if (is_m)
        *t = other;
    return is_g || is_m;
}

static void ask_store(struct reading *r)
{
    uint64_t position;
    struct tamis_target t;
    enum tamis_reason why;
    if (!pick(r, MODE_STORE, &position))
        return;
    struct tamis_snapshot *snapshot = snapshot_of(r->store);
    struct tamis_key key = key_at(&r->domain, MODE_STORE, position, false);
    bool there = find_owner(snapshot, position, &t);
    if (there && tamis_snapshot_probe(snapshot, &t, &key, &why) == TAMIS_ABSENT)
        lost("key %llu is ABSENT", (unsigned long long)position);
    bool absent = tamis_snapshot_probe_all(snapshot, &key, NULL, NULL) == TAMIS_ABSENT;
    if ((!there || absent) && position >= shared->forgotten)
        lost("key %llu is %s", (unsigned long long)position,
             there ? "ABSENT everywhere" : "in no segment");
    if (there) {
        r->n_reasons[why % 16]++;
        r->n_asked++;
    }
    key = key_at(&r->domain, MODE_STORE, rng_next(&r->rng) >> 8, true);
    r->n_strangers++;
    r->n_absent += tamis_snapshot_probe_all(snapshot, &key, NULL, NULL) == TAMIS_ABSENT;
    tamis_snapshot_release(snapshot);
}

static bool open_lone(struct reading *r, uint64_t number, struct tamis_filter **f)
{
    struct tamis_diag diag;
    (void)r;
    int rc = tamis_filter_open(path_to("lone/%llu", (unsigned long long)number), NULL,
                               f, &diag);
    if (rc == ENOENT && number < shared->lone_dropped)
        return false;
    must(rc, "opening a lone filter to read", &diag);
    return true;
}

static void ask_one(struct reading *r, struct tamis_filter *f, uint64_t position)
{
    enum tamis_reason why;
    struct tamis_key key = key_at(&r->domain, MODE_LONE, position, false);
    if (tamis_filter_probe(f, &key, &why) == TAMIS_ABSENT)
        lost("key %llu of the lone filters is ABSENT", (unsigned long long)position);
    r->n_reasons[why % 16]++;
    r->n_asked++;
    key = key_at(&r->domain, MODE_LONE, rng_next(&r->rng) >> 8, true);
    r->n_strangers++;
    r->n_absent += tamis_filter_probe(f, &key, NULL) == TAMIS_ABSENT;
}

static void ask_lone(struct reading *r)
{
    uint64_t position;
    struct tamis_filter *f;
    if (!pick(r, MODE_LONE, &position))
        return;
    uint64_t number = position / LONE_KEYS;
    if (!r->lone || number > r->lone_number) {
        if (!open_lone(r, number, &f))
            return;
        tamis_filter_close(r->lone);
        r->lone = f;
        r->lone_number = number;
    }
    if (number == r->lone_number) {
        ask_one(r, r->lone, position);
    } else if (rng_below(&r->rng, 16) == 0 && open_lone(r, number, &f)) {
        ask_one(r, f, position);
        tamis_filter_close(f);
    }
}

static void hand_in(struct reading *r)
{
    shared->n_asked += r->n_asked;
    shared->n_strangers += r->n_strangers;
    shared->n_strangers_absent += r->n_absent;
    for (size_t i = 0; i < 16; i++)
        shared->n_reasons[i] += r->n_reasons[i];
    r->n_asked = r->n_strangers = r->n_absent = 0;
    memset(r->n_reasons, 0, sizeof r->n_reasons);
}

void reader(unsigned number)
{
    struct reading r = {.domain = the_domain(), .rng = mix64(run_seed, 100 + number)};
    r.store = open_store(path_to("s"));
    for (uint64_t n = 0; shared->stop < 2; n++) {
        ask_store(&r);
        ask_lone(&r);
        if (n % 64 == 0)
            hand_in(&r);
    }
    hand_in(&r);
    tamis_filter_close(r.lone);
    tamis_store_close(r.store);
}

/* ---- the end ---- */

/* A part of a log, of which readers must find what was added. */
struct part {
    enum mode log;
    uint64_t from;
};

static bool key_of_part(const void *ctx, uint64_t i, struct tamis_key *out)
{
    const struct part *part = ctx;
    struct tamis_domain domain = the_domain();
    uint64_t at = part->from + i;
    *out = key_at(&domain, part->log, at, false);
    return at < shared->log[part->log].added[at % N_ADDERS];
}

static void check_segment(struct tamis_snapshot *snapshot, size_t i)
{
    char name[32] = {0}, kind;
    unsigned long long number;
    struct tamis_segment_info info;
    struct tamis_filter *f;
    struct tamis_diag diag;
    struct part part = {MODE_STORE, 0};
    struct promised_filter p = {.keys = {key_of_part, &part, 0}};
    must(tamis_snapshot_segment(snapshot, i, &info), "segment", NULL);
    memcpy(name, info.name, info.name_bytes);
    if (sscanf(name, "%c%llu", &kind, &number) == 2) {
        p.keys.n = kind == 'm' ? MERGED * STORE_KEYS : STORE_KEYS;
        part.from = number * p.keys.n;
    }
    must(tamis_snapshot_filter(snapshot, i, &f, &diag), "a listed filter", &diag);
    expect_keys_of_segment(name, snapshot, i, &p.keys, TAMIS_HIT);
    expect_filter(name, f, &p);
}

/* expect_listed() has seen that segments follow each other up to the last one. */
static void check_store_keys(struct tamis_snapshot *snapshot, const struct listed *l)
{
    const struct log *log = &shared->log[MODE_STORE];
    uint64_t at = l->end * STORE_KEYS;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        check_segment(snapshot, i);
    for (; at < log->added[0] || at < log->added[1]; at++)
        if (at < log->added[at % N_ADDERS])
            lost("key %llu is in no segment", (unsigned long long)at);
}

static void check_lone_keys(struct reading *r)
{
    struct tamis_filter *f;
    for (uint64_t k = shared->lone_dropped; k < shared->lone_made; k++) {
        struct part part = {MODE_LONE, k * LONE_KEYS};
        struct promised_filter p = {.keys = {key_of_part, &part, LONE_KEYS},
                                    .n_strangers = LONE_KEYS};
        if (!open_lone(r, k, &f))
            lost("lone filter %llu is gone", (unsigned long long)k);
        expect_filter("a lone filter", f, &p);
        tamis_filter_close(f);
    }
}

void check_all(void)
{
    struct reading r = {.domain = the_domain(), .rng = run_seed};
    struct tamis_diag diag;
    r.store = open_store(path_to("s"));
    struct tamis_snapshot *snapshot = snapshot_of(r.store);
    struct listed l = expect_listed(snapshot);
    check_store_keys(snapshot, &l);
    check_lone_keys(&r);
    r.n_asked += model_counts.n_asked;
    r.n_strangers += model_counts.n_strangers;
    r.n_absent += model_counts.n_absent;
    r.n_reasons[TAMIS_HIT] += model_counts.n_asked;
    hand_in(&r);
    tamis_snapshot_release(snapshot);
    /* An edit, even of nothing, sweeps. */
    struct tamis_edit *e;
    must(tamis_edit_begin(r.store, &e, &diag), "edit_begin", &diag);
    must(tamis_edit_commit(e, &diag), "edit_commit", &diag);
    size_t n_files = count_filter_files(path_to("s"));
    if (n_files != l.n_files)
        lost("%zu files for %zu segments at the end", n_files, l.n_files);
    tamis_store_close(r.store);
}
