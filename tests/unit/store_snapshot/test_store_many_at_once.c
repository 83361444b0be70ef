/* Many segments asked by many threads, while segments change, and in a child. */
#include "tests/unit/store_snapshot/many_support.h"

/* ---- at once ---- */

enum {
    N_ASKERS = 3,
    N_STEADY = 100,
    N_MORE = 20,
    N_WORDS = (N_STEADY + N_MORE) / 64 + 1
};

struct at_once {
    struct tamis_store *store;
    atomic_bool *stop;
    atomic_size_t n_asked;
};

/* "keep", "swap" and "grow" always have keys 0 .. 9, whatever else goes on. */
static void ask_everything(struct tamis_snapshot *s, const struct tamis_key keys[2])
{
    static const char *const names[] = {"keep", "swap", "grow"};
    struct tamis_target t[4] = {{0}};
    uint64_t absent[2 * N_WORDS], all[N_WORDS];
    uint32_t segments[3];
    size_t n;
    for (size_t i = 0; i < 3; i++)
        OK(tamis_snapshot_find(s, names[i], 4, NULL, 0, 0, &t[i]));
    t[3] = tamis_snapshot_target(s, N_STEADY / 2);
    IS(ASK(s, LIST(t, 4), KEYS(&keys[0], 1), .absent = absent), 0);
    IS(absent[0] & 7, 0);
    IS(ASK(s, LIST(t, 1), KEYS(&keys[1], 1)), 1);
    IS(ASK(s, LIST(t, 4), KEYS(keys, 2), .absent = absent) & 2, 0);
    IS(absent[0] & 7, 0);
    ASK(s, ALL, KEYS(&keys[0], 1), .absent = all);
    ASK(s, ALL, KEYS(keys, 2), .absent = absent);
    for (size_t i = 0; i < 3; i++) {
        size_t at = t[i].ordinal - 1;
        IS((all[at / 64] | absent[at / 64]) >> (at % 64) & 1, 0);
    }
    OK(ASK(s, ALL, KEYS(&keys[0], 1), FOUND(segments, 3, &n)));
    assert_true(n >= 3);
}

/* Some segments may have gone by then; the limit of locking is that of all threads. */
static void prepare_and_verify(struct tamis_snapshot *s)
{
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = 1 << 16};
    struct tamis_prepare_report r;
    OK(tamis_snapshot_prepare(s, &opt, &r, NULL));
    IS(r.n_open + r.n_failed + r.n_skipped, tamis_snapshot_info(s).n_segments);
    assert_true(r.locked_bytes <= opt.lock_bytes && r.n_unread == 0);
    verify_all(s);
}

static void *ask_on(void *arg)
{
    struct at_once *a = arg;
    struct tamis_domain d = tamis_store_domain(a->store);
    const struct tamis_key keys[2] = {tamis_key_of(&d, "key00000005", 11),
                                      tamis_key_of(&d, "nothing", 7)};
    while (!*a->stop) {
        struct tamis_snapshot *s = snapshot_of(a->store);
        ask_everything(s, keys);
        if (a->n_asked % 16 == 0)
            prepare_and_verify(s);
        tamis_snapshot_release(s);
        atomic_fetch_add(&a->n_asked, 1);
    }
    return NULL;
}

static void edit_on(struct tamis_store *s, struct tamis_writer *w, uint64_t i)
{
    const char *key = key_text(100 + i);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "swap", 4, NULL, NULL));
    OK(put_keys(e, "swap", 0, 10, NULL));
    if (i < N_MORE) {
        char name[251];
        snprintf(name, sizeof name, "~%0249d", (int)i);
        OK(tamis_edit_put_bare(e, name, 250, NULL, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    OK(tamis_writer_add_key(w, key, strlen(key)));
    OK(tamis_writer_commit(w, i + 1, NULL));
    if (i % 10 == 9) /* rots; a scrub may find that */
        zero_page(file_of(s, "s", name_of(i / 10 % N_STEADY)), 1);
}

TEST_IN_DIR_WITH_FAULTS(threads_ask_while_segments_change)
{
    pthread_t thread[N_ASKERS];
    atomic_bool stop = false;
    STORE s = store_new("s");
    struct at_once a = {.store = s, .stop = &stop};
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < N_STEADY; i++)
        OK(put_keys(e, name_of(i), 0, 20, NULL));
    OK(put_keys(e, "swap", 0, 10, NULL));
    OK(put_keys(e, "keep", 0, 10, NULL));
    OK(tamis_edit_commit(e, NULL));
    put_growing(s, "grow");
    WRITER w = writer_of(s, "grow");
    add_keys(w, 0, 10);
    OK(tamis_writer_commit(w, 0, NULL));
    MDB_envinfo before, after;
    OK(mdb_env_set_mapsize(s->catalog->env, 1 << 16)); /* it will have to grow */
    OK(mdb_env_info(s->catalog->env, &before));
    for (int i = 0; i < N_ASKERS; i++)
        OK(pthread_create(&thread[i], NULL, ask_on, &a));
    for (uint64_t i = 0; i < 200 || a.n_asked < 500; i++)
        edit_on(s, w, i);
    OK(mdb_env_info(s->catalog->env, &after));
    assert_true(after.me_mapsize > before.me_mapsize);
    stop = true;
    for (int i = 0; i < N_ASKERS; i++)
        pthread_join(thread[i], NULL);
}

RUN_TESTS(NULL, NULL)
