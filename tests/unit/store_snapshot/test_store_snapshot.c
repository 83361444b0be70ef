/* Snapshots: finding segments and probing them, with every reason. */
#include "tests/support/shop/shop.h"

TEST_OF_SCENES(what_is_known_of_a_segment)
{
    scene("a segment");
    steps("put b 0 10 binding=B; range b key00000000 key00000009");
    SNAPSHOT snap = snapshot_of(shop.store);
    struct tamis_segment_info info = segment_at(snap, 0);
    assert_true(info.state == TAMIS_SEGMENT_SEALED && info.keys == 10);
    assert_true(info.binding_bytes == 1 && info.error == 1e-4);
    assert_true(info.file_bytes == 8192 && info.created > 0);
    IS(tamis_snapshot_segment(snap, 1, &info), TAMIS_ERR_RANGE);
}

TEST_IN_DIR(unchanged_snapshots_are_one)
{
    struct tamis_store *s = store_new("s"), *other = store_open("s");
    put_segment(s, "a", 0, 10);
    SNAPSHOT one = snapshot_of(s), two = snapshot_of(other);
    assert_ptr_equal(one, two);
    struct tamis_filter *f = filter_at(one, 0);
    put_segment(other, "b", 0, 10);
    SNAPSHOT three = snapshot_of(s);
    assert_ptr_not_equal(one, three);
    assert_ptr_equal(f, filter_at(three, 0)); /* opened filters are shared */
    for (int i = 0; i < 5; i++) /* and closed with the last snapshot, not before */
        tamis_filter_close(f);
    IS(tamis_snapshot_info(one).n_segments, 1);
    IS(tamis_snapshot_info(three).n_segments, 2);
    drop_segment(s, "a");
    struct tamis_target t = tamis_snapshot_target(one, 0);
    struct tamis_key key = key_in(s, 3);
    enum tamis_reason why;
    tamis_snapshot_probe(one, &t, &key, &why);
    IS(why, TAMIS_HIT); /* the file is gone, the mapping is not */
    tamis_store_close(s);
    tamis_store_close(other);
    t = tamis_snapshot_target(three, 1);
    tamis_snapshot_probe(three, &t, &key, &why);
    IS(why, TAMIS_HIT); /* opened after the store was closed */
}

TEST_OF_SCENES(find_compares_bindings)
{
    play("bindings",
         "begin; put a 0 10 binding=id-1; bare bare; commit; bound a id-1 3 HIT 5000 "
         "ABSENT;"
         "fails MISMATCH find a binding=id-2; bound a id-2 5000 MISMATCH;"
         "fails MISMATCH find a binding=id-; bound a id- 5000 MISMATCH;"
         "fails MISMATCH find a binding=id-10; bound a id-10 5000 MISMATCH;"
         "fails MISMATCH find a binding=; fails NO_SEGMENT find A; why A 5 "
         "UNKNOWN_SEGMENT;"
         "find bare binding=; why bare 5000 NO_FILTER; fails NO_SEGMENT filter bare");
}

TEST_IN_DIR(nothing_is_maybe)
{
    enum tamis_reason why;
    uint32_t segment = 99;
    uint64_t absent, lacking, hash[1] = {0};
    uint8_t reason[2] = {99, 99};
    struct tamis_diag diag;
    size_t n = 99;
    STORE s = store_new("s");
    struct tamis_key key = key_in(s, 500), in_both = key_in(s, 5);
    {
        SNAPSHOT empty = snapshot_of(s);
        IS(ASK(empty, ALL, KEYS(&key, 1)), TAMIS_MAYBE);
    }
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 0, 10);
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    IS(tamis_snapshot_probe(NULL, &t, &key, &why), TAMIS_MAYBE);
    IS(tamis_snapshot_probe(snap, NULL, &key, &why), TAMIS_MAYBE);
    IS(tamis_snapshot_probe(snap, &t, NULL, &why), TAMIS_MAYBE);
    IS(tamis_snapshot_probe(snap, &t, &(struct tamis_key){0}, &why), TAMIS_MAYBE);
    IS(why, TAMIS_MISMATCH);
    t.ordinal = 3;
    IS(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_UNKNOWN_SEGMENT);
    t = (struct tamis_target){.ordinal = 1, .refusal = 12345};
    IS(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    t = tamis_snapshot_target(snap, 0);
    IS(ASK(NULL, ALL, KEYS(&key, 1), FOUND(&segment, 1, &n)), TAMIS_MAYBE);
    IS(n, 0);
    IS(ASK(snap, ALL, KEYS(&key, 1), FOUND(NULL, 5, &n)), TAMIS_ABSENT);
    for (int i = 0; i < 3; i++, n = segment = 99) /* all bits are ready after one */
        if (ASK(snap, ALL, KEYS(&in_both, 1), FOUND(&segment, 1, &n)) ||
            n + segment != 2)
            fail_msg("%zu candidates, from %u on", n, segment);
    IS(ASK(snap, ALL, LIST(&t, 1), KEYS(&key, 1), .reasons = reason), 0);
    assert_true(reason[0] == TAMIS_UNREADABLE && reason[1] == 99); /* may be no room */
    const struct {
        struct tamis_snapshot *snap;
        struct tamis_query q;
        enum tamis_reason why;
    } rows[] = {
        {NULL, {LIST(&t, 1), KEYS(&key, 1)}, TAMIS_UNKNOWN_SEGMENT},
        {snap, {LIST(&t, 1), KEYS(NULL, 1)}, TAMIS_MISMATCH},
        {snap, {LIST(&t, 1), KEYS(&key, 1), .hashes = hash}, TAMIS_UNREADABLE},
        {snap, {LIST(NULL, 1), KEYS(&key, 1)}, TAMIS_UNREADABLE},
        {snap, {ALL, LIST(&t, 0), KEYS(&key, 1)}, TAMIS_UNREADABLE},
        {snap, {LIST(&t, 1), KEYS(&key, 1), FOUND(NULL, 0, &n)}, TAMIS_UNREADABLE},
        {snap, {ALL, KEYS(&key, 1), FOUND(&segment, 1, NULL)}, TAMIS_UNREADABLE}};
    for (size_t i = 0; i < N_OF(rows); i++) {
        struct tamis_query q = rows[i].q;
        q.size = sizeof q;
        q.absent = &absent;
        q.absent_from_all = &lacking;
        q.reasons = reason;
        absent = lacking = 99;
        IS(tamis_snapshot_query(rows[i].snap, &q, &diag), 0);
        IS(diag.code, TAMIS_ERR_RANGE);
        assert_true(absent == 0 && lacking == 0 && reason[0] == rows[i].why);
    }
    struct tamis_query q = {LIST(&t, 1), KEYS(&key, 1), .absent = &absent};
    IS(tamis_snapshot_query(snap, &q, &diag), 0); /* it has no size */
    IS(diag.code, TAMIS_ERR_RANGE);
    q.size = offsetof(struct tamis_query, candidates); /* an older program's */
    IS(tamis_snapshot_query(snap, &q, &diag), 1);
    IS(diag.code, 0);
    IS(absent, 1);
    IS(ASK(snap, LIST(&t, 0), KEYS(&key, 1), .absent = &absent), 0);
    IS(ASK(snap, LIST(&t, 1), KEYS(&key, 0)), 0);
    tamis_snapshot_release(NULL);
}

/* By its name and binding a target is found in the next snapshot, too. */
TEST_OF_SCENES(targets_are_carried)
{
    static const struct {
        const char *name;
        enum tamis_reason why;
    } rows[] = {{"b", TAMIS_HIT},
                {"c", TAMIS_UNKNOWN_SEGMENT},
                {"d", TAMIS_MISMATCH},
                {"e", TAMIS_HIT},
                {"f", TAMIS_BEHIND}};
    enum { ALL_OF = N_OF(rows) + 1 };
    struct tamis_identity wanted[N_OF(rows)] = {{"a", 1, NULL, 0, NULL}};
    for (int packed = 0; packed < 2; packed++) {
        struct tamis_target t[ALL_OF] = {{0}};
        int errors[N_OF(rows)];
        scene(packed ? "packed" : "loose");
        steps("put b 0 10 binding=B; put c 0 10; put d 0 10 binding=D;"
              "put e 0 10 binding=E; put f 0 10");
        if (packed)
            steps("pack");
        SNAPSHOT old = snapshot_of(shop.store);
        for (size_t i = 0; i < N_OF(rows); i++)
            t[i] = found_in(old, rows[i].name);
        t[4].min_watermark = 9;
        steps("put a 0 10; drop c; replace d 0 10 binding=F; replace e 0 10 binding=E");
        SNAPSHOT now = snapshot_of(shop.store);
        struct tamis_key key = key_in(shop.store, 5), none = key_in(shop.store, 500);
        uint8_t reasons[ALL_OF]; /* until then its ordinal is another segment's */
        IS(ASK(now, LIST(t, ALL_OF), KEYS(&none, 1), .reasons = reasons), 0);
        for (size_t i = 0; i < N_OF(rows); i++) {
            uint64_t absent = 7;
            IS(reasons[i], TAMIS_MISMATCH);
            IS(tamis_snapshot_probe(now, &t[i], &none, NULL), TAMIS_MAYBE);
            ASK(now, LIST(&t[i], 1), HASHES(&none.hash, 1, none.tag),
                .absent_from_all = &absent);
            IS(absent, 0);
        }
        IS(tamis_snapshot_carry(old, now, t, ALL_OF), 3);
        for (size_t i = 0; i < ALL_OF; i++) {
            enum tamis_reason why;
            tamis_snapshot_probe(now, &t[i], &key, &why);
            IS(why, i < N_OF(rows) ? rows[i].why : TAMIS_MISMATCH);
        }
        for (size_t i = 1; i < N_OF(rows); i++)
            wanted[i] = (struct tamis_identity){rows[i].name, 1, "F", 1, NULL};
        IS(tamis_snapshot_find_many(now, wanted, N_OF(rows), 0, t, errors), 2);
        IS(errors[0] | errors[2], 0);
        IS(errors[1], TAMIS_ERR_NO_SEGMENT);
        IS(errors[3] | errors[4], TAMIS_ERR_MISMATCH);
        t[0] = found_in(old, "b");
        now->complete = false;
        IS(tamis_snapshot_carry(old, now, t, 1), 0);
        IS(t[0].refusal, TAMIS_MISMATCH);
    }
}

/* Not about all segments, nor about one whose binding does not vouch for its filter. */
TEST_OF_SCENES(incomplete_catalog_proves_nothing_by_name)
{
    uint64_t absent = 7;
    uint8_t why[3];
    scene("an incomplete catalog");
    steps(
        "begin; put a 0 10 binding=id; put b 0 10; bare c; commit; meta complete=0;"
        "why a 99 MISMATCH; find b binding=; why b 99 MISMATCH; bound a id 99 ABSENT");
    SNAPSHOT snap = snapshot_of(shop.store);
    struct tamis_key key = key_in(shop.store, 99);
    IS(ASK(snap, ALL, KEYS(&key, 1), .absent = &absent, .reasons = why), TAMIS_MAYBE);
    IS(absent, 0);
    assert_true(why[0] == TAMIS_MISMATCH && why[2] == TAMIS_NO_FILTER);
    struct tamis_target t[2] = {tamis_snapshot_target(snap, 0), found_in(snap, "a")};
    IS(ASK(snap, LIST(t, 1), KEYS(&key, 1), .absent = &absent, .reasons = why),
       TAMIS_MAYBE);
    IS(why[0], TAMIS_MISMATCH);
    OK(tamis_snapshot_find(snap, "b", 1, "", 0, 0, &t[0]));
    for (int i = 0; i < 2; i++)
        IS(ASK(snap, LIST(&t[i], 1), HASHES(&key.hash, 1, key.tag),
               .absent_from_all = &absent),
           0);
}

TEST_IN_DIR(snapshots_of_filters)
{
    struct tamis_filter *f[3];
    SNAPSHOT snap;
    struct tamis_target t;
    struct tamis_domain d;
    OK(tamis_domain_init(&d, 1, 42));
    build_file(path_of("0"), &d, "x", "one", NULL);
    build_file(path_of("1"), &d, "x", "two", NULL);
    build_file(path_of("2"), &d, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++)
        OK(tamis_filter_open(path_of((char[]){(char)('0' + i), 0}), NULL, &f[i], NULL));
    OK(tamis_snapshot_from_filters(f, 3, 0, &snap));
    struct tamis_key in = tamis_key_of(&d, "key00000005", 11);
    struct tamis_key out = tamis_key_of(&d, "no", 2);
    IS(ASK(snap, ALL, KEYS(&in, 1)), TAMIS_MAYBE);
    IS(ASK(snap, ALL, KEYS(&out, 1)), TAMIS_ABSENT);
    IS(tamis_snapshot_find(snap, "x", 1, NULL, 0, 0, &t),
       TAMIS_ERR_MISMATCH); /* which x? */
    IS(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    OK(tamis_snapshot_find(snap, "x", 1, "two", 3, 7, &t));
    IS(t.ordinal, 2);
    IS(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_ABSENT);
    t.min_watermark = 8;
    IS(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    struct tamis_segment_info info = segment_at(snap, 2);
    assert_true(info.name_bytes == 0 && info.rank == 2 && info.file[0] == 0);
    IS(info.keys, 100);
    tamis_snapshot_release(snap);
    f[1] = (tamis_filter_close(f[1]), NULL);
    IS(tamis_snapshot_from_filters(f, 3, 0, &snap), TAMIS_ERR_RANGE);
    tamis_filter_close(f[0]);
    tamis_filter_close(f[2]);
    OK(tamis_snapshot_from_filters(NULL, 0, 0, &snap));
    IS(ASK(snap, ALL, KEYS(&out, 1)), TAMIS_MAYBE);
}

/* Nobody asks which of some segments in no order may have keys: one that has a key is
 * left out, and another one asked twice. */
static void leave_out(struct tamis_store *s, const unsigned *order, size_t n)
{
    struct tamis_target t[200];
    SNAPSHOT snap = snapshot_of(s);
    for (size_t i = 0; i < n; i++)
        t[i] = found_in(snap, name_of(order[i]));
    for (size_t i = 0; i < n; i++) {
        size_t next = (i + n / 2) % n;
        struct tamis_target its = t[i];
        struct tamis_key keys[] = {key_in(s, 10 * order[i]),
                                   key_in(s, 10 * order[next]),
                                   key_in(s, 10 * order[i])};
        keys[2].tag ^= 1;
        for (size_t k = 0; i % 2 && k < 3; k++)
            keys[k].bytes = NULL;
        for (size_t k = 1; k <= 3; k++) {
            IS(ASK(snap, ALL, KEYS(keys, k)), 0);
            IS(ASK(snap, LIST(t, n), KEYS(keys, k)), 0);
            t[i] = t[next];
            IS(ASK(snap, LIST(t, n), KEYS(keys, k)), 1);
            t[i] = its;
        }
    }
}

/* Segments are of two kinds, for which a pack has bands of their own. */
static void put_one(struct tamis_store *s, unsigned i)
{
    struct tamis_edit *edit = edit_new(s);
    BUILDER b;
    const char *name = name_of(i);
    OK(tamis_edit_builder(edit, name, strlen(name), i % 2 ? 0 : 1e-6, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, key_text(10 * i), strlen(key_text(10 * i))));
    OK(tamis_edit_put(edit, b, NULL, NULL));
    OK(tamis_edit_commit(edit, NULL));
}

TEST_IN_DIR(one_of_many_is_left_out)
{
    enum { N = 200, IN_ORDER = 170 };
    unsigned order[N], behind[N], n = 0;
    STORE s = store_new("s");
    for (unsigned i = 0; i < N; i++) {
        put_one(s, i);
        if (i == N / 2 - 1)
            pack_all(s);
        order[i] = i < N / 2      ? i * 37 % (N / 2)
                   : i < IN_ORDER ? N / 2 + i * 37 % (IN_ORDER - N / 2)
                                  : i; /* a run behind those in no order */
    }
    leave_out(s, order, N / 2);         /* in the pack, */
    leave_out(s, order + N / 2, N / 2); /* loose, */
    leave_out(s, order, N);             /* and both */
    for (unsigned i = 0; i < N; i++)    /* loose ones in order, and then columns */
        behind[i] = i < N / 2 ? N / 2 + i : order[i - N / 2];
    leave_out(s, behind, N);
    /* Columns from some number on, whose word of bits may begin before it. */
    SNAPSHOT snap = snapshot_of(s);
    for (size_t first = 1; first < N / 2 - 20; first += 5) {
        n = 0;
        for (unsigned i = 0; i < N / 2; i++)
            if (found_in(snap, name_of(order[i])).ordinal > 128 + first)
                behind[n++] = order[i];
        IS(n, N / 2 - first);
        leave_out(s, behind, n);
    }
}

RUN_TESTS(NULL, NULL)
