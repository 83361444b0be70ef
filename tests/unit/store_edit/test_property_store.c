/* The store against an exact model: random edits, packs, writers and reopenings, after
 * each of which no key of the model may be ABSENT, in the current snapshot or in older
 * ones. */
#include "tests/support/store_support.h"

/* ---- the model ---- */

enum { N_NAMES = 12, N_KEYS = 640 };

enum model_state { GONE, BARE, GROWING, SEALED };

struct model {
    enum model_state state[N_NAMES];
    uint8_t has[N_NAMES][N_KEYS];
};

struct world {
    struct tamis_store *store;
    struct model now;
    struct tamis_writer *writer; /* of segment `writing` */
    size_t writing;
    uint64_t watermark;
    /* An older snapshot and what was true then. */
    struct tamis_snapshot *old;
    struct model then;
    uint64_t n_negative, n_false; /* error 1e-4 each */
};

static const char *name_of(size_t i)
{
    static const char *const names[N_NAMES] = {"a",  "b",         "aa",         "ab",
                                               "0",  "\xff\xfe",  "with space", "x/y",
                                               "..", "long-name", "z",          "zz"};
    return names[i];
}

static void clear_keys(struct model *m, size_t i, enum model_state state)
{
    m->state[i] = state;
    memset(m->has[i], 0, sizeof m->has[i]);
}

/* Asks one segment for every key of the universe. */
static void check_segment(struct world *w, struct tamis_snapshot *snap,
                          const struct model *m, size_t i, bool current)
{
    struct tamis_target t;
    enum tamis_reason why;
    int rc = tamis_snapshot_find(snap, name_of(i), strlen(name_of(i)), NULL, 0, 0, &t);
    IS(rc, m->state[i] == GONE ? TAMIS_ERR_NO_SEGMENT : 0);
    for (uint64_t k = 0; k < N_KEYS; k++) {
        struct tamis_key key = key_in(w->store, k);
        if (k % 2)
            key.bytes = NULL;
        bool absent = tamis_snapshot_probe(snap, &t, &key, &why) == TAMIS_ABSENT;
        if (m->has[i][k] && absent)
            fail_msg("key %d of segment %s is lost", (int)k, name_of(i));
        if (m->state[i] == GONE)
            IS(why, TAMIS_UNKNOWN_SEGMENT);
        if (m->state[i] == BARE)
            IS(why, TAMIS_NO_FILTER);
        if (m->state[i] >= GROWING && current && !m->has[i][k]) {
            assert_true(absent || why == TAMIS_HIT);
            w->n_negative++;
            w->n_false += !absent;
        }
    }
}

static void check_all(struct world *w)
{
    struct tamis_snapshot *snap = snapshot_of(w->store);
    size_t n = 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        check_segment(w, snap, &w->now, i, true);
        n += w->now.state[i] != GONE;
    }
    IS(tamis_snapshot_n_segments(snap), n);
    if (w->old)
        for (size_t i = 0; i < N_NAMES; i++)
            check_segment(w, w->old, &w->then, i, false);
    if (random_below(4) == 0) {
        tamis_snapshot_release(w->old);
        w->old = snap;
        w->then = w->now;
    } else {
        tamis_snapshot_release(snap);
    }
}

/* ---- random edits ---- */

static void build_random(struct tamis_builder *b, uint8_t has[N_KEYS])
{
    uint64_t first = random_below(N_KEYS), n = random_below(N_KEYS - first + 1);
    bool by_hash = random_below(3) == 0;
    for (uint64_t k = first; k < first + n; k++) {
        const char *text = key_text(k);
        struct tamis_domain d = tamis_builder_domain(b);
        uint64_t hash = tamis_key_of(&d, text, strlen(text)).hash;
        if (by_hash && k % 2)
            OK(tamis_builder_add_hashes(b, d.tag, &hash, 1));
        else
            OK(tamis_builder_add_key(b, text, strlen(text)));
        has[k] = 1;
    }
}

static int expected(const struct model *m, size_t i, bool present)
{
    if (present)
        return m->state[i] == GONE ? TAMIS_ERR_NO_SEGMENT : 0;
    return m->state[i] == GONE ? 0 : TAMIS_ERR_EXISTS;
}

static void do_put(struct tamis_edit *e, struct model *m, size_t i)
{
    struct tamis_builder *b;
    const char *name = name_of(i);
    struct tamis_segment_options opt = {.size = sizeof opt,
                                        .rank = (uint32_t)random_below(3)};
    int want = expected(m, i, false);
    IS(tamis_edit_builder(e, name, strlen(name), 0, &opt, &b, NULL), want);
    if (want)
        return;
    clear_keys(m, i, SEALED);
    build_random(b, m->has[i]);
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
}

static void do_attach(struct tamis_edit *e, struct model *m, size_t i,
                      const struct tamis_domain *d)
{
    struct tamis_builder_options opt = {.size = sizeof opt, .domain = d, .error = 1e-4};
    uint8_t has[N_KEYS] = {0};
    const char *name = name_of(i), *path = path_of("attach-me");
    int want = expected(m, i, false);
    BUILDER b = builder_made(&opt);
    build_random(b, has);
    OK(tamis_builder_finish_file(b, path, NULL));
    IS(tamis_edit_attach(e, name, strlen(name), path, NULL, NULL), want);
    OK(unlink(path));
    if (want)
        return;
    m->state[i] = SEALED;
    memcpy(m->has[i], has, sizeof has);
}

static void do_retain(struct tamis_edit *e, struct model *m, const uint8_t own[N_NAMES])
{
    struct tamis_name names[N_NAMES];
    size_t n = 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        if (random_below(3))
            names[n++] = (struct tamis_name){name_of(i), strlen(name_of(i))};
        else if (!own[i])
            clear_keys(m, i, GONE);
    }
    OK(tamis_edit_retain(e, names, n, NULL));
}

static void do_one(struct tamis_edit *e, struct model *m, uint8_t own[N_NAMES],
                   const struct tamis_domain *d)
{
    size_t i = random_below(N_NAMES);
    const char *name = name_of(i);
    int want = expected(m, i, false);
    switch (random_below(9)) {
    case 0:
    case 1:
    case 2:
        IS(tamis_edit_drop(e, name, strlen(name), NULL), expected(m, i, true));
        clear_keys(m, i, GONE);
        own[i] = 0;
        return;
    case 3:
        do_retain(e, m, own);
        return;
    case 4:
        IS(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL), want);
        if (!want)
            clear_keys(m, i, BARE);
        break;
    case 5:
        IS(tamis_edit_put_growing(e, name, strlen(name), NULL, NULL, NULL), want);
        if (!want)
            clear_keys(m, i, GROWING);
        break;
    case 6:
        do_attach(e, m, i, d);
        break;
    default:
        do_put(e, m, i);
    }
    own[i] |= want == 0;
}

/* An edit that drops the filter of the open writer is refused, and changes nothing. */
static void commit(struct world *w, struct tamis_edit *e, const struct model *next)
{
    int rc = tamis_edit_commit(e, NULL);
    if (rc == TAMIS_ERR_BUSY && w->writer) {
        tamis_edit_abort(e);
        return;
    }
    OK(rc);
    w->now = *next;
}

static void do_edit(struct world *w)
{
    struct model next = w->now;
    uint8_t own[N_NAMES] = {0};
    struct tamis_domain d = tamis_store_domain(w->store);
    struct tamis_edit *e = edit_new(w->store);
    for (uint64_t n = random_below(8); n > 0; n--)
        do_one(e, &next, own, &d);
    if (random_below(4) == 0) {
        tamis_edit_abort(e);
        return;
    }
    commit(w, e, &next);
}

/* ---- random packing ---- */

/* Some segments of the snapshot, packed or not as wanted. */
static size_t pick(struct tamis_snapshot *snap, bool packed, uint32_t picked[N_NAMES])
{
    size_t n = 0;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++)
        if ((tamis_snapshot_pack(snap, i, NULL, NULL) == 0) == packed &&
            random_below(4))
            picked[n++] = (uint32_t)i;
    return n;
}

/* With other changes before or behind it in the same edit. */
static void do_pack(struct world *w)
{
    struct model next = w->now;
    uint8_t own[N_NAMES] = {0};
    uint32_t picked[N_NAMES];
    struct tamis_domain d = tamis_store_domain(w->store);
    struct tamis_pack_options opt = {.size = sizeof opt};
    struct tamis_snapshot *snap = snapshot_of(w->store);
    struct tamis_edit *e = edit_new(w->store);
    size_t n = pick(snap, false, picked);
    if (random_below(4) == 0)
        do_one(e, &next, own, &d);
    OK(tamis_edit_pack(e, snap, picked, n, &opt, NULL, NULL));
    tamis_snapshot_release(snap);
    if (random_below(4) == 0)
        do_one(e, &next, own, &d);
    if (random_below(6) == 0) {
        tamis_edit_abort(e);
        return;
    }
    commit(w, e, &next);
}

static void do_unpack(struct world *w)
{
    uint32_t picked[N_NAMES];
    struct tamis_snapshot *snap = snapshot_of(w->store);
    struct tamis_edit *e = edit_new(w->store);
    OK(tamis_edit_unpack(e, snap, picked, pick(snap, true, picked), NULL));
    tamis_snapshot_release(snap);
    if (random_below(6) == 0)
        tamis_edit_abort(e);
    else
        OK(tamis_edit_commit(e, NULL));
}

/* ---- random writing ---- */

static void close_writer(struct world *w)
{
    OK(tamis_writer_close(w->writer));
    w->writer = NULL;
}

static void start_writer(struct world *w)
{
    size_t i = random_below(N_NAMES);
    static const int want[] = {TAMIS_ERR_NO_SEGMENT, TAMIS_ERR_NO_SEGMENT, 0,
                               TAMIS_ERR_SEALED};
    int rc = tamis_store_writer(w->store, name_of(i), strlen(name_of(i)), NULL,
                                &w->writer, NULL);
    IS(rc, want[w->now.state[i]]);
    w->writing = i;
}

/* Adds to whatever the writer has open; that may have been dropped by now, and then
 * the model does not hear of it. */
static void do_write(struct world *w)
{
    if (!w->writer)
        start_writer(w);
    if (!w->writer)
        return;
    struct tamis_filter_info info = writer_info(w->writer);
    bool listed = false;
    if (w->now.state[w->writing] == GROWING) {
        char path[64] = "s/filters/";
        filter_file_name(info.uuid, path + strlen(path));
        listed = exists(path_of(path));
    }
    for (uint64_t n = random_below(200); n > 0; n--) {
        uint64_t k = random_below(N_KEYS);
        OK(tamis_writer_add_key(w->writer, key_text(k), strlen(key_text(k))));
        if (listed)
            w->now.has[w->writing][k] = 1;
    }
    if (random_below(2))
        OK(tamis_writer_commit(w->writer, ++w->watermark, NULL));
    if (random_below(6) == 0) {
        OK(tamis_writer_seal(w->writer, ++w->watermark, NULL, NULL));
        if (listed)
            w->now.state[w->writing] = SEALED;
        close_writer(w);
    } else if (random_below(3) == 0) {
        close_writer(w);
    }
}

static void reopen(struct world *w)
{
    if (w->writer)
        close_writer(w);
    tamis_store_close(w->store);
    w->store = store_open("s");
}

/* The segments' own files, and each pack with its tombstones. */
static size_t n_files_of(struct world *w)
{
    struct tamis_snapshot *snap = snapshot_of(w->store);
    uint8_t packs[N_NAMES][TAMIS_UUID_BYTES];
    size_t n = 0, n_packs = 0;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
        struct tamis_pack_place place;
        size_t k = 0;
        struct tamis_segment_info info = segment_at(snap, i);
        bool packed = tamis_snapshot_pack(snap, i, NULL, &place) == 0;
        while (packed && k < n_packs && memcmp(packs[k], place.uuid, sizeof packs[k]))
            k++;
        if (packed && k == n_packs)
            memcpy(packs[n_packs++], place.uuid, sizeof packs[0]);
        char own[2 * TAMIS_UUID_BYTES + 1];
        for (size_t b = 0; b < TAMIS_UUID_BYTES; b++)
            snprintf(own + 2 * b, 3, "%02x", info.uuid[b]);
        n += info.state != TAMIS_SEGMENT_BARE && strstr(info.file, own) != NULL;
    }
    tamis_snapshot_release(snap);
    return n + 2 * n_packs;
}

TEST_IN_DIR(no_key_is_ever_lost)
{
    struct world w = {.store = store_new("s")};
    for (unsigned steps = by_form(200, 600); steps > 0; steps--) {
        switch (random_below(13)) {
        case 0:
            reopen(&w);
            break;
        case 10:
        case 11:
            do_pack(&w);
            break;
        case 12:
            do_unpack(&w);
            break;
        case 1:
        case 2:
        case 3:
        case 4:
            do_write(&w);
            break;
        default:
            do_edit(&w);
        }
        check_all(&w);
        IS(n_filter_files("s"), n_files_of(&w));
    }
    reopen(&w);
    check_all(&w);
    tamis_snapshot_release(w.old);
    tamis_store_close(w.store);
    /* 1e-4 each; far beyond any chance */
    if (w.n_false > 100 + w.n_negative / 2000)
        fail_msg("%d false positives of %d", (int)w.n_false, (int)w.n_negative);
}

int main(void)
{
    const char *seed = getenv("TAMIS_TEST_SEED");
    random_state = seed ? strtoull(seed, NULL, 0) : 1;
    return run_listed_tests(NULL, NULL);
}
