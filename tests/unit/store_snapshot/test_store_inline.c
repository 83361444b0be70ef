/* Inline probes of a snapshot's targets (tamis_inline.h): quick where the bits alone
 * decide, and never less careful than the call. */
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

/* The same of a new value of that target. */
static enum tamis_reason reason_at(struct tamis_snapshot *snap,
                                   const struct tamis_target *t, struct tamis_key key)
{
    struct tamis_inline v = value_of(snap, t);
    enum tamis_reason why = reason(&v, key);
    tamis_inline_release(&v);
    return why;
}

/* By hash alone: key ranges are the call's affair. */
static struct tamis_key hash_in(const struct tamis_store *s, uint64_t i)
{
    struct tamis_key key = key_in(s, i);
    key.bytes = NULL;
    return key;
}

/* Asks values for each segment's own keys and for absent ones, beside the call. */
static size_t same_as_call(struct tamis_store *s, struct tamis_snapshot *snap)
{
    size_t n_quick = 0;
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct tamis_target t = tamis_snapshot_target(snap, i);
        struct tamis_segment_info info = segment_at(snap, i);
        unsigned own = (unsigned)atoi((const char *)info.name + 1);
        struct tamis_inline v = value_of(snap, &t);
        for (unsigned k = 0; k < n_keys[own]; k++)
            IS(reason(&v, hash_in(s, own * 1000 + k)), TAMIS_HIT);
        for (unsigned k = 0; k < 20; k++) {
            struct tamis_key key = hash_in(s, (own + 1) * 1000 - 1 - k);
            enum tamis_reason why;
            tamis_snapshot_probe(snap, &t, &key, &why);
            IS(reason(&v, key), why);
        }
        n_quick += (size_t)tamis_inline_is_quick(&v, tamis_snapshot_domain(snap).tag);
        tamis_inline_release(&v);
    }
    return n_quick;
}

TEST_IN_DIR(loose_segments_are_quick_and_packed_ones_right)
{
    STORE s = store_of("s", SEGMENTS, 900);
    SNAPSHOT snap = snapshot_of(s);
    IS(same_as_call(s, snap), SEGMENTS);
    pack_all(s);
    SNAPSHOT packed = snapshot_of(s);
    IS(same_as_call(s, packed), 0);
    IS(same_as_call(s, snap), SEGMENTS); /* as from before */
}

TEST_IN_DIR(many_values_are_asked_in_a_row)
{
    struct tamis_store *s = store_of("s", SEGMENTS, 900);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_inline v[SEGMENTS];
    IS(same_as_call(s, snap), SEGMENTS); /* all is checked then */
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct tamis_target t = tamis_snapshot_target(snap, i);
        v[i] = value_of(snap, &t);
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
    tamis_snapshot_release(snap); /* values hold it */
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

TEST_IN_DIR(refused_targets_are_refused)
{
    STORE s = store_of("s", SEGMENTS, 900);
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t, wrong = {.refusal = TAMIS_UNKNOWN_SEGMENT};
    struct tamis_inline v;
    IS(same_as_call(s, snap), SEGMENTS);

    IS(tamis_snapshot_find(snap, "s3", 2, "other", 5, 0, &t), TAMIS_ERR_MISMATCH);
    IS(reason_at(snap, &t, hash_in(s, ABSENTEE)), TAMIS_MISMATCH);

    OK(tamis_snapshot_find(snap, "s3", 2, "s3", 2, 104, &t)); /* it is at 103 */
    IS(reason_at(snap, &t, hash_in(s, ABSENTEE)), TAMIS_BEHIND);

    OK(tamis_snapshot_find(snap, "s3", 2, "s3", 2, 103, &t));
    v = value_of(snap, &t);
    assert_true(tamis_inline_is_quick(&v, tamis_store_domain(s).tag));
    struct tamis_key foreign = hash_in(s, ABSENTEE);
    foreign.tag ^= 1;
    IS(reason(&v, foreign), TAMIS_MISMATCH);
    tamis_inline_release(&v);

    IS(reason_at(snap, &wrong, hash_in(s, ABSENTEE)), TAMIS_UNKNOWN_SEGMENT);

    struct tamis_snapshot *other;
    put_segment(s, "one more", 5000000, 10);
    other = snapshot_of(s);
    IS(reason_at(other, &t, hash_in(s, ABSENTEE)), TAMIS_MISMATCH);
    tamis_snapshot_release(other);

    IS(tamis_snapshot_inline(NULL, &t, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(reason(&v, hash_in(s, ABSENTEE)), TAMIS_UNREADABLE);
    IS(tamis_snapshot_inline(snap, NULL, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_inline(snap, &t, 0, &v), TAMIS_ERR_VERSION);
}

/* A value of a growing segment, or of none, is the call. */
TEST_IN_DIR(growing_and_lost_segments_are_asked_by_the_call)
{
    STORE s = store_of_g();
    put_segment(s, "lost", 5000, 10);
    SNAPSHOT snap = snapshot_of(s);
    OK(unlink(file_of(s, "s", "lost")));
    struct tamis_target t = found_in(snap, "lost");
    IS(reason_at(snap, &t, hash_in(s, 1)), TAMIS_FILE_LOST);

    OK(tamis_snapshot_find(snap, "g", 1, NULL, 0, 0, &t));
    struct tamis_inline v = value_of(snap, &t);
    struct tamis_writer *w = writer_of(s, "g");
    for (unsigned i = 0; i < 1000; i++) {
        add_keys(w, i, 1);
        IS(reason(&v, hash_in(s, i)), TAMIS_HIT);
    }
    tamis_writer_close(w);
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
    OK(tamis_snapshot_from_filters(&f, 1, &snap));
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
