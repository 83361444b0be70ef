/* Answers of a segment without its bits: key ranges and watermarks. */
#include "tests/support/shop/shop.h"

static enum tamis_reason probe_bytes(struct tamis_snapshot *snap, const char *name,
                                     const void *key, size_t n)
{
    struct tamis_domain d = tamis_snapshot_info(snap).domain;
    struct tamis_key k = tamis_key_of(&d, key, n);
    struct tamis_target t;
    enum tamis_reason why;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    tamis_snapshot_probe(snap, &t, &k, &why);
    return why;
}

/* Its bits are damaged, so only a range can still say ABSENT. */
static void damage_bits(const char *path)
{
    struct commit c = commit_of(path);
    static const uint8_t ones[PAGE_BYTES] = {0xff, 0xff, 0xff};
    file_poke(path, c.stages[0].offset, ones, sizeof ones);
}

TEST_OF_SCENES(ranges_and_their_filters)
{
    static const struct {
        const char *key;
        size_t n;
        bool outside;
    } keys[] = {{"", 0, true},        {"b\xff\xff", 3, true}, {"c", 1, false},
                {"c\0", 2, false},    {"m", 1, false},        {"m\xff", 2, false},
                {"m\xff\0", 3, true}, {"n", 1, true},         {"\xff", 1, true}};
    scene("ranges answer for damaged bits");
    steps("texts a m\xff c dddd; note a");
    damage_bits(file_of(shop.store, "s", "a"));
    {
        SNAPSHOT snap = snapshot_of(shop.store);
        for (size_t i = 0; i < N_OF(keys); i++)
            IS(probe_bytes(snap, "a", keys[i].key, keys[i].n),
               keys[i].outside ? ABSENT_HERE : TAMIS_DAMAGED);
        struct tamis_key by_hash =
            (struct tamis_key){.tag = tamis_snapshot_info(snap).domain.tag, .hash = 1};
        struct tamis_target t = tamis_snapshot_target(snap, 0);
        IS(tamis_snapshot_probe(snap, &t, &by_hash, NULL), TAMIS_MAYBE);
        struct tamis_key foreign = {.tag = 1, .hash = 1};
        foreign.bytes = "zzz", foreign.n_bytes = 3;
        IS(tamis_snapshot_probe(snap, &t, &foreign, NULL), TAMIS_MAYBE);
    }
    /* Its record may be an older one's: its range speaks of other keys. */
    play("not without the file",
         "put a 100 100; hold; live lose a; was a 0 FILE_LOST 99999999 FILE_LOST");
}

TEST_OF_SCENES(adds_by_hash_have_no_range)
{
    scene("adds by hash");
    steps("begin; hashed a 12345 5; growing g; commit; range a; range g");
    damage_bits(file_of(shop.store, "s", "a"));
    SNAPSHOT snap = snapshot_of(shop.store);
    IS(probe_bytes(snap, "a", "z", 1), TAMIS_DAMAGED);
}

/* A last key too long to keep must not be cut; a first one may be. */
TEST_IN_DIR(long_keys_and_ranges)
{
    static uint8_t key[2000];
    struct tamis_builder *b;
    memset(key, 'k', sizeof key);
    STORE s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 2; i++) {
        OK(tamis_edit_builder(e, i ? "first" : "last", i ? 5 : 4, 0, NULL, &b, NULL));
        OK(tamis_builder_add_key(b, key, sizeof key));
        OK(tamis_builder_add_key(b, i ? "z" : "a", 1));
        OK(tamis_edit_put(e, b, NULL, NULL));
        tamis_builder_free(b);
    }
    OK(tamis_edit_commit(e, NULL));
    SNAPSHOT snap = snapshot_of(s);
    IS(probe_bytes(snap, "first", key, sizeof key), TAMIS_HIT);
    IS(probe_bytes(snap, "last", key, sizeof key), TAMIS_HIT);
    IS(probe_bytes(snap, "first", "a", 1), ABSENT_HERE);
}

/* So many that ranges come before bits: each key is in one, far from the others. */
TEST_IN_DIR(ranges_of_many_leave_what_has_the_key)
{
    enum { N = 20, STEP = 4000, N_KEYS = 1500 };
    static const uint64_t all = (UINT64_C(1) << N) - 1, one = 1;
    struct tamis_target t[N];
    uint64_t absent;
    STORE s = store_new("s");
    for (uint64_t i = 0; i < N; i++)
        put_segment(s, key_text(i), i * STEP, N_KEYS);
    SNAPSHOT snap = snapshot_of(s);
    for (uint64_t k = 0; k < 2 * N; k++) { /* the first probes open files */
        uint64_t i = k * 7 % N;
        for (uint64_t j = 0; j < N; j++)
            tamis_snapshot_find(snap, key_text(j), 11, NULL, 0, 0, &t[(j + i) % N]);
        struct tamis_key key = key_in(s, i * STEP + N_KEYS - 1);
        ASK(snap, LIST(t, N), KEYS(&key, 1), .absent = &absent);
        IS(absent, all & ~(one << 2 * i % N));
        ASK(snap, ALL, KEYS(&key, 1), .absent = &absent);
        IS(absent, all & ~(one << (t[2 * i % N].ordinal - 1)));
    }
}

/* A key range may not answer for a segment that is behind. */
TEST_OF_SCENES(ranges_and_watermarks)
{
    play("behind", "put a 0 10 watermark=7; needs a 7 99 ABSENT; needs a 8 99 BEHIND;"
                   "growing g; grow g 0 10 7; needs g 7 99 ABSENT; needs g 8 99 BEHIND;"
                   "grow g 10 10 8; needs g 8 99 ABSENT");
}

RUN_TESTS(NULL, NULL)
