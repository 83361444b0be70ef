/* For test_packs_alike.c: the model of two stores, and every way to ask them. Each
 * answer is judged by the model, and where nothing is damaged by the filter as it must
 * be, too. */
#ifndef TAMIS_TESTS_ALIKE_SUPPORT_H
#define TAMIS_TESTS_ALIKE_SUPPORT_H

#include "folded_support.h"
#include "tests/support/shop/ways.h"

enum { N_NAMES = 70, UNIVERSE = 12000, MOST_KEYS = 3000, N_NUMBERS = 4096 };
enum state { GONE, NO_BITS, GROWS, WHOLE };

struct model {
    enum state state[N_NAMES];
    unsigned version[N_NAMES]; /* of the filter under this name */
    uint8_t has[N_NAMES][UNIVERSE / 8];
};

/* One of the two stores. */
struct side {
    const char *dir;
    struct tamis_store *store;
    bool packs;
    unsigned version[N_NAMES]; /* that `bits` are of */
    bool unsure[N_NAMES];      /* its file was hurt, or it has grown */
    struct folded bits[N_NAMES];
};

static struct world {
    struct side loose, packed;
    struct model now, then; /* then: as of the catalogs that were kept */
    bool kept, hurt;        /* hurt: something is damaged at the moment */
    unsigned versions;
    struct tamis_domain domain;
    struct tamis_key keys[UNIVERSE];
} w;

static struct counts {
    unsigned long long n_there, n_lost, n_exact, n_false, n_wrong;
    unsigned long long n_edits, n_packs, n_repacked, n_unpacks, n_hurt, n_put_back;
} n;

/* ---- the model ---- */

static bool has(const struct model *m, size_t i, size_t id)
{
    return m->has[i][id / 8] >> id % 8 & 1;
}

static const char *label(size_t i)
{
    static char text[4][16];
    static unsigned next;
    char *t = text[next++ % 4];
    snprintf(t, sizeof text[0], "n%02zu", i * 37 % N_NAMES);
    return t;
}

static size_t ordinal_of(struct tamis_snapshot *s, size_t i)
{
    struct tamis_target t;
    tamis_snapshot_find(s, label(i), strlen(label(i)), NULL, 0, 0, &t);
    return t.ordinal;
}

static void note_key(size_t i, size_t id)
{
    w.now.has[i][id / 8] |= (uint8_t)(1U << id % 8);
}

static void note_segment(size_t i, enum state state)
{
    memset(w.now.has[i], 0, sizeof w.now.has[i]);
    w.now.state[i] = state;
    w.now.version[i] = ++w.versions;
}

/* ---- what the bits must be ---- */

static void build_bits(struct side *s, size_t i, struct geometry g)
{
    folded_empty(&s->bits[i], g);
    for (size_t id = 0; id < UNIVERSE; id++)
        if (has(&w.now, i, id))
            geometry_add(s->bits[i].bits, &g, w.keys[id].hash);
    s->version[i] = w.now.version[i];
    s->unsure[i] = false;
}

/* Follows the filter from where it was to where it is. */
static void follow(struct side *s, struct tamis_snapshot *snap, size_t i, size_t index)
{
    struct tamis_pack_place place;
    struct geometry g;
    bool packed = tamis_snapshot_pack(snap, index, NULL, &place, NULL) == 0;
    if (packed) {
        g = (struct geometry){place.n_blocks, place.lanes, place.words};
    } else {
        struct tamis_stage_info stage = filter_info(filter_at(snap, index)).stages[0];
        g = (struct geometry){stage.n_blocks, stage.lanes, stage.words};
    }
    if (s->version[i] != w.now.version[i])
        build_bits(s, i, g);
    else if (packed)
        folded_resize(&s->bits[i], folded_divisor(s->bits[i].g.n_blocks, g.n_blocks));
    else
        folded_resize(&s->bits[i], g.n_blocks);
    assert_true(s->bits[i].g.lanes == g.lanes && s->bits[i].g.words == g.words);
}

static void follow_all(struct side *s)
{
    SNAPSHOT snap = snapshot_of(s->store);
    for (size_t i = 0; i < N_NAMES; i++) {
        bool known = s->version[i] == w.now.version[i];
        if (w.now.state[i] == WHOLE && !(known && s->unsure[i]))
            follow(s, snap, i, ordinal_of(snap, i) - 1);
    }
}

/* ---- one answer ---- */

static void judge(const struct side *s, const struct model *m, size_t i, size_t id,
                  bool absent, bool by_hash)
{
    if (has(m, i, id)) {
        n.n_there++;
        n.n_lost += absent;
        if (absent)
            fail_msg("key %zu of segment %zu is lost, %s", id, i, s->dir);
    }
    if (m->state[i] == GONE || m->state[i] == NO_BITS) {
        assert_false(absent);
        return;
    }
    if (!by_hash || w.hurt || s->unsure[i] || m->state[i] != WHOLE || m != &w.now)
        return;
    bool want = !geometry_probe(s->bits[i].bits, &s->bits[i].g, w.keys[id].hash);
    n.n_exact++;
    n.n_false += !absent && !has(m, i, id);
    if (absent != want)
        fail_msg("key %zu of segment %zu is %s, %s", id, i, absent ? "absent" : "there",
                 s->dir);
}

/* ---- every way to ask ---- */

enum { AT_ONCE = 500, SOME = 70, LISTED = 90 };
static size_t n_keys_of_all = 20;

struct asking {
    const struct side *side;
    const struct model *model;
    struct tamis_snapshot *snap;
    size_t n;               /* segments, */
    size_t number[N_NAMES]; /* their numbers in the snapshot, and */
    size_t at[N_NAMES];     /* in the model */
};

static struct asking ask_begin(const struct side *s, const struct model *m)
{
    struct asking a = {.side = s, .model = m, .snap = snapshot_of(s->store)};
    assert_true(tamis_snapshot_info(a.snap).n_numbers <= N_NUMBERS);
    for (size_t i = 0; i < N_NAMES; i++)
        if (ordinal_of(a.snap, i)) {
            a.number[a.n] = ordinal_of(a.snap, i) - 1;
            a.at[a.n++] = i;
        }
    if (!w.hurt && m == &w.now) /* else names are not to be read, perhaps */
        IS(tamis_snapshot_info(a.snap).n_segments, a.n);
    return a;
}

/* A tenth of its keys in a batch, and single ones with their bytes. */
static void ask_one_segment(const struct asking *a, size_t segment)
{
    static uint64_t hashes[UNIVERSE], absent[UNIVERSE / 64 + 1];
    static size_t ids[UNIVERSE];
    size_t i = a->at[segment], k = 0;
    struct tamis_target t = tamis_snapshot_target(a->snap, a->number[segment]);
    for (size_t id = 0; id < UNIVERSE; id++)
        if (random_below(has(a->model, i, id) ? 10 : 200) == 0) {
            hashes[k] = w.keys[id].hash;
            ids[k++] = id;
        }
    ASK(a->snap, LIST(&t, 1), HASHES(hashes, k, w.domain.tag),
        .absent_from_all = absent);
    for (size_t j = 0; j < k; j++)
        judge(a->side, a->model, i, ids[j], absent[j / 64] >> j % 64 & 1, true);
    for (size_t j = 0; j < k; j += 1 + k / 8) {
        enum tamis_reason why;
        struct tamis_key key = w.keys[ids[j]];
        bool by_hash = j % 2;
        key.bytes = by_hash ? NULL : key.bytes;
        tamis_snapshot_probe(a->snap, &t, &key, &why);
        judge(a->side, a->model, i, ids[j], why == TAMIS_NO_REASON, by_hash);
    }
}

/* Keys of all segments, and of numbers that have none. */
static void ask_of_all(const struct asking *a, size_t n_keys)
{
    static uint8_t reasons[WAYS_KEYS * WAYS_SEGMENTS];
    struct tamis_key keys[WAYS_KEYS];
    size_t ids[WAYS_KEYS], n_numbers = tamis_snapshot_info(a->snap).n_numbers;
    bool few = n_numbers <= WAYS_SEGMENTS;
    for (size_t k = 0; k < n_keys; k++) {
        ids[k] = random_below(UNIVERSE);
        keys[k] = w.keys[ids[k]];
        keys[k].bytes = ids[k] % 2 ? NULL : keys[k].bytes;
    }
    if (few)
        ask_every_way(a->snap, NULL, n_numbers, keys, n_keys, reasons);
    for (size_t k = 0; k < n_keys; k++) {
        const uint8_t *why = reasons + (few ? k * n_numbers : 0);
        if (!few)
            ASK(a->snap, ALL, KEYS(&keys[k], 1), .reasons = reasons);
        for (size_t i = 0; i < a->n; i++)
            judge(a->side, a->model, a->at[i], ids[k],
                  why[a->number[i]] == TAMIS_NO_REASON, ids[k] % 2);
    }
}

/* Many keys of all segments, and some of a list with some segments twice. */
static void ask_many_keys(const struct asking *a)
{
    static uint64_t absent[AT_ONCE * N_NUMBERS / 64];
    static uint8_t why[SOME * LISTED];
    struct tamis_key keys[AT_ONCE];
    struct tamis_target targets[LISTED];
    size_t ids[AT_ONCE], listed[LISTED];
    size_t n_words = (tamis_snapshot_info(a->snap).n_numbers + 63) / 64;
    for (size_t k = 0; k < LISTED; k++) {
        listed[k] = random_below(a->n);
        targets[k] = tamis_snapshot_target(a->snap, a->number[listed[k]]);
        if (random_below(60) == 0)
            *(k % 2 ? &targets[k].snapshot : &targets[k].min_watermark) += 1;
    }
    for (size_t k = 0; k < AT_ONCE; k++) {
        ids[k] = random_below(UNIVERSE);
        keys[k] = w.keys[ids[k]];
        keys[k].bytes = k < SOME && k % 2 ? keys[k].bytes : NULL;
    }
    ASK(a->snap, ALL, KEYS(keys, AT_ONCE), .absent = absent);
    for (size_t k = 0; k < AT_ONCE; k++)
        for (size_t j = 0; j < a->n; j++) {
            size_t at = a->number[j];
            judge(a->side, a->model, a->at[j], ids[k],
                  absent[k * n_words + at / 64] >> at % 64 & 1, !keys[k].bytes);
        }
    size_t some = random_below(4) ? 1 + random_below(20) : SOME;
    ask_every_way(a->snap, targets, LISTED, keys, some, why);
    for (size_t k = 0; k < some * LISTED; k++)
        if (why[k] != TAMIS_MISMATCH && why[k] != TAMIS_BEHIND)
            judge(a->side, a->model, a->at[listed[k % LISTED]], ids[k / LISTED],
                  why[k] == TAMIS_NO_REASON, !keys[k / LISTED].bytes);
}

static void ask_side(const struct side *s, const struct model *m)
{
    OK(tamis_store_count(s->store, random_below(4) == 0, NULL));
    struct asking a = ask_begin(s, m);
    for (size_t k = 0; k < a.n; k++)
        ask_one_segment(&a, k);
    for (size_t left = n_keys_of_all, some; left; left -= some)
        ask_of_all(&a, some = 1 + random_below(left));
    if (a.n)
        ask_many_keys(&a);
    tamis_snapshot_release(a.snap);
}

static void ask_both(void)
{
    ask_side(&w.loose, &w.now);
    ask_side(&w.packed, &w.now);
}

#endif
