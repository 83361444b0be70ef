/* Inline probes of a snapshot's targets (tamis_inline.h): quick where the bits alone
 * decide, and for as long. support/shop/ways.h compares their answers. */
#include "tests/support/inline/loops.h"
#include "tests/support/store_packs.h"

#include "lib/tamis_inline.h"

enum { SEGMENTS = 100, ABSENTEE = 999 };

static struct tamis_inline value_of(struct tamis_snapshot *snap,
                                    const struct tamis_target *t)
{
    struct tamis_inline v;
    OK(tamis_snapshot_inline(snap, t, TAMIS_INLINE_VERSION, &v));
    return v;
}

static enum tamis_reason reason(const struct tamis_inline *v, struct tamis_key key)
{
    enum tamis_reason why = TAMIS_BEHIND;
    enum tamis_answer answer = tamis_inline_probe(v, &key, &why);
    IS(answer == TAMIS_ABSENT, why == TAMIS_NO_REASON);
    return why;
}

/* By hash alone: key ranges are the call's affair. */
static struct tamis_key hash_in(const struct tamis_store *s, uint64_t i)
{
    struct tamis_key key = key_in(s, i);
    key.bytes = NULL;
    return key;
}

TEST_IN_DIR(many_values_are_asked_in_a_row)
{
    struct tamis_store *s = store_of("s", SEGMENTS, 900);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_inline v[SEGMENTS];
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct tamis_target t = tamis_snapshot_target(snap, i);
        v[i] = value_of(snap, &t);
        reason(&v[i], hash_in(s, 0)); /* each has one page, which is checked then */
    }
    for (unsigned k = 0; k < 500; k++) {
        struct tamis_key key = hash_in(s, k * 1000);
        size_t n_absent = 0;
        for (unsigned i = 0; i < SEGMENTS; i++)
            n_absent += reason(&v[i], key) == TAMIS_NO_REASON;
        for (size_t l = 0; inline_loops_at(l); l++)
            IS(inline_loops_at(l)->probe_each(v, SEGMENTS, &key), n_absent);
        assert_true(n_absent + (k < SEGMENTS) <= SEGMENTS);
    }
    tamis_snapshot_release(snap); /* values hold it, */
    pack_all(s);
    snap = snapshot_of(s);
    for (unsigned i = 0; i < SEGMENTS; i++) { /* and new ones are not quick */
        struct tamis_target t = found_in(snap, name_of(i));
        struct tamis_inline packed = value_of(snap, &t);
        struct tamis_key key = hash_in(s, i * 1000);
        uint64_t absent = 1;
        enum tamis_reason why = TAMIS_BEHIND;
        IS(reason(&packed, key), TAMIS_HIT);
        IS(tamis_inline_probe_few(&packed, key.tag, &key.hash, 1, &absent, &why), 0);
        assert_true(absent == 0 && why == TAMIS_NO_REASON);
        assert_false(tamis_inline_is_quick(&packed, tamis_store_domain(s).tag));
        tamis_inline_release(&packed);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    struct tamis_domain d;
    OK(tamis_domain_init(&d, 1, 42));
    struct tamis_key key = tamis_key_of(&d, key_text(0), strlen(key_text(0)));
    for (unsigned i = 0; i < SEGMENTS; i++) {
        assert_true(tamis_inline_is_quick(&v[i], d.tag));
        reason(&v[i], key);
        tamis_inline_release(&v[i]);
    }
}

TEST_IN_DIR(what_makes_no_value)
{
    STORE s = store_of("s", 1, 900);
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_inline v;
    IS(tamis_snapshot_inline(NULL, &t, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(reason(&v, hash_in(s, ABSENTEE)), TAMIS_UNREADABLE);
    IS(tamis_snapshot_inline(snap, NULL, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_inline(snap, &t, 0, &v), TAMIS_ERR_VERSION);
}

/* A value of a growing segment is the call. */
TEST_IN_DIR(growing_segments_are_asked_by_the_call)
{
    STORE s = store_of_g();
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t = found_in(snap, "g");
    struct tamis_inline v = value_of(snap, &t);
    WRITER w = writer_of(s, "g");
    for (unsigned i = 0; i < 1000; i++) {
        add_keys(w, i, 1);
        IS(reason(&v, hash_in(s, i)), TAMIS_HIT);
    }
    tamis_inline_release(&v);
}

/* A filter of the caller's that is closed under a snapshot's value. */
TEST_IN_DIR(a_closed_filter_is_unreadable)
{
    struct tamis_domain d;
    OK(tamis_domain_init(&d, 1, 42));
    build_file(path_of("f"), &d, "f", NULL, NULL);
    struct tamis_filter *f = open_filter(path_of("f"));
    struct tamis_snapshot *snap;
    OK(tamis_snapshot_from_filters(&f, 1, 0, &snap));
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_inline v = value_of(snap, &t);
    for (unsigned i = 0; i < 100; i++)
        IS(reason(&v, tamis_key_of(&d, key_text(i), strlen(key_text(i)))), TAMIS_HIT);
    assert_true(tamis_inline_is_quick(&v, d.tag));
    tamis_snapshot_release(snap);
    tamis_filter_close(f);
    IS(reason(&v, tamis_key_of(&d, "x", 1)), TAMIS_UNREADABLE);
    tamis_inline_release(&v);
}

RUN_TESTS(NULL, NULL)
