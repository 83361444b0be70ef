/* Inline probes of a filter (tamis_inline.h): the answers of the reference and of the
 * call, for each processor that the loops are compiled for; when a value is quick, and
 * what it answers when it is not. */
#include "tests/support/guard_support.h"
#include "tests/support/one_file.h"
#include "tests/support/inline/loops.h"

#include "lib/filter/inline.h"
#include "lib/filter/view.h"

enum { KEYS = 20000, ASKED = 4096 };
static uint64_t keys[KEYS], others[ASKED];
static struct tamis_domain domain;

static int set_up(void **state)
{
    random_hashes(keys, KEYS);
    random_hashes(others, ASKED);
    tamis_domain_init(&domain, 1, 0x5eed);
    return one_file_create(state);
}

static void build(double error, uint64_t watermark)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &domain, .error = error, .watermark = watermark};
    struct tamis_builder *b;
    unlink(path);
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, KEYS), 0);
    assert_int_equal(tamis_builder_finish_file(b, path, NULL), 0);
    tamis_builder_free(b);
}

static struct tamis_filter *opened(const struct tamis_filter_options *opt)
{
    struct tamis_filter *f;
    assert_int_equal(tamis_filter_open(path, opt, &f, NULL), 0);
    return f;
}

static struct tamis_inline value_of(struct tamis_filter *f)
{
    struct tamis_inline v;
    memset(&v, 0xff, sizeof v);
    assert_int_equal(tamis_filter_inline(f, TAMIS_INLINE_VERSION, &v), 0);
    return v;
}

/* As few as one, or too many for a few: the call's. */
static void check_few(const struct tamis_inline *v, uint64_t tag, enum tamis_reason why)
{
    uint64_t absent[2] = {1, 1};
    enum tamis_reason said = TAMIS_BEHIND;
    for (size_t n = 0; n <= 100; n += 50) {
        assert_int_equal(tamis_inline_probe_few(v, tag, keys, n, absent, &said), 0);
        assert_int_equal(said, why);
        assert_int_equal(absent[0], n == 0);
    }
    tamis_inline_probe_few(v, tag, NULL, 3, NULL, &said);
    assert_int_not_equal(said, TAMIS_NO_REASON);
}

static enum tamis_reason reason(const struct tamis_inline *v, uint64_t tag, uint64_t h)
{
    struct tamis_key key = tamis_key_of_hash(tag, h);
    enum tamis_reason why = TAMIS_BEHIND;
    enum tamis_answer answer = tamis_inline_probe(v, &key, &why);
    assert_int_equal(answer == TAMIS_ABSENT, why == TAMIS_NO_REASON);
    return why;
}

/* ---- the same bits, the same answers ---- */

/* Bits of any geometry, at an odd address: half of them set, so that keys go on to
 * later lanes. */
static void same_as_reference(const struct inline_loops *loops, uint8_t *bits,
                              const struct geometry *g)
{
    static const uint64_t tag = 7;
    struct tamis_inline v = {.one = g->lanes == 1 ? &tag : NULL,
                             .many = g->lanes > 1 ? &tag : NULL,
                             .bits = bits,
                             .geometry = inline_geometry(g)};
    uint64_t absent[ASKED / 64];
    size_t n = 0, n_absent = loops->probe(&v, 7, others, ASKED, absent);
    for (size_t i = 0; i < ASKED; i++) {
        bool is = absent[i / 64] >> i % 64 & 1;
        assert_int_equal(is, !geometry_probe(bits, g, others[i]));
        n += is;
    }
    assert_int_equal(n_absent, n);
    assert_true(n_absent > 0);
    assert_true(n_absent < ASKED);
}

static void every_geometry_answers_as_the_reference(void **state)
{
    enum { BLOCKS = 37 };
    static uint8_t memory[MAX_LANES * BLOCKS * BLOCK_BYTES + 1];
    size_t n_loops = 0;
    (void)state;
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (uint8_t)(random_u64() | random_u64() | random_u64());
    for (const struct inline_loops *l; (l = inline_loops_at(n_loops)); n_loops++)
        for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes++)
            for (uint32_t words = 1; words <= MAX_WORDS; words++) {
                struct geometry g = {BLOCKS, lanes, words};
                same_as_reference(l, memory + 1, &g);
            }
    assert_true(n_loops >= 1);
}

static void few_as_call(const struct inline_loops *loops, const struct tamis_inline *v,
                        struct tamis_filter *f, const uint64_t *hashes)
{
    for (size_t few = 1; few <= 64; few++) {
        uint64_t absent[65], by_call;
        enum { N = 200 };
        size_t n = few > 3 ? N : 64 * few, n_absent = 0;
        size_t got = loops->probe_few(v, domain.tag, hashes, n, few, absent);
        for (size_t at = 0; at < n; at += few) {
            size_t some = n - at < few ? n - at : few;
            n_absent += tamis_filter_probe_batch(f, domain.tag, hashes + at, some,
                                                 &by_call, NULL);
            assert_int_equal(absent[at / few], by_call);
        }
        assert_int_equal(got, n_absent);
    }
}

static void same_as_call(struct tamis_filter *f, const uint64_t *hashes, size_t n)
{
    struct tamis_inline v = value_of(f);
    assert_true(tamis_inline_is_quick(&v, domain.tag));
    for (size_t k = 0; inline_loops_at(k); k++) {
        uint64_t absent[ASKED / 64], by_call[ASKED / 64];
        size_t n_absent = inline_loops_at(k)->probe(&v, domain.tag, hashes, n, absent);
        assert_int_equal(n_absent, tamis_filter_probe_batch(f, domain.tag, hashes, n,
                                                            by_call, NULL));
        assert_memory_equal(absent, by_call, (n + 63) / 64 * sizeof absent[0]);
        few_as_call(inline_loops_at(k), &v, f, hashes);
    }
    tamis_inline_release(&v);
}

static void a_filter_answers_as_the_call(void **state)
{
    static const double errors[] = {0.3, 0.01, 1e-3, 1e-5, 1e-8};
    (void)state;
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        build(errors[e], 0);
        struct tamis_filter *f = opened(NULL);
        assert_int_equal(count_absent(f, keys, KEYS), 0); /* all is checked then */
        same_as_call(f, others, ASKED);
        same_as_call(f, keys, ASKED);
        tamis_filter_close(f);
    }
}

/* Of each length that XXH3 has a way of its own for. */
static void keys_are_hashed_as_by_the_call(void **state)
{
    static uint8_t bytes[2000];
    struct tamis_domain none = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_u64();
    for (size_t k = 0; inline_loops_at(k); k++)
        for (size_t n = 0; n <= sizeof bytes; n += n < 300 ? 1 : 77) {
            struct tamis_key key, by_call = tamis_key_of(&domain, bytes, n);
            inline_loops_at(k)->key_of(&domain, bytes, n, &key);
            assert_true(key.hash == by_call.hash && key.tag == by_call.tag);
            assert_int_equal(key.n_bytes, n);
            assert_memory_equal(key.bytes, bytes, n);
            inline_loops_at(k)->key_of(&none, bytes, n, &key);
            assert_true(key.tag == 0);
        }
    struct tamis_key empty;
    inline_loops_at(0)->key_of(&domain, NULL, 0, &empty);
    assert_non_null(empty.bytes); /* else it were a hash alone */
    assert_true(empty.hash == tamis_key_of(&domain, NULL, 0).hash);
}

/* ---- when it is quick ---- */

static void a_value_is_quick_once_all_is_checked(void **state)
{
    (void)state;
    build(0.01, 0);
    struct tamis_filter *f = opened(NULL);
    struct tamis_inline v = value_of(f);
    size_t n_slow = 0;
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    for (size_t i = 0; i < KEYS; i++) {
        n_slow += !tamis_inline_is_quick(&v, domain.tag);
        assert_int_equal(reason(&v, domain.tag, keys[i]), TAMIS_HIT);
    }
    assert_true(n_slow > 0);
    assert_true(tamis_inline_is_quick(&v, domain.tag));
    tamis_inline_release(&v);
    tamis_filter_close(f);
}

/* A damaged page is found by the call that checks it: the value is never quick. */
static void a_bad_page_is_never_quick(void **state)
{
    (void)state;
    build(0.01, 0);
    struct tamis_filter *f = opened(NULL);
    struct tamis_stage_info s;
    assert_int_equal(tamis_filter_stage(f, 0, &s), 0);
    flip(path, s.offset + PAGE_BYTES + 1);
    struct tamis_inline v = value_of(f);
    size_t n_damaged = 0;
    for (size_t i = 0; i < KEYS; i++) {
        enum tamis_reason why = reason(&v, domain.tag, keys[i]);
        assert_true(why == TAMIS_HIT || why == TAMIS_DAMAGED);
        n_damaged += why == TAMIS_DAMAGED;
    }
    assert_true(n_damaged > 0);
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    tamis_inline_release(&v);
    tamis_filter_close(f);
}

/* A page that rots later is found by a scrub, and turns all values off. */
static void a_scrub_turns_values_off(void **state)
{
    struct tamis_verify report;
    (void)state;
    build(0.01, 0);
    struct tamis_filter *f = opened(NULL);
    assert_int_equal(count_absent(f, keys, KEYS), 0);
    struct tamis_inline v = value_of(f), copy = v;
    assert_true(tamis_inline_is_quick(&copy, domain.tag));
    uint64_t at = v.geometry.n_blocks / 2 * BLOCK_BYTES;
    struct tamis_stage_info s;
    assert_int_equal(tamis_filter_stage(f, 0, &s), 0);
    uint8_t zeros[BLOCK_BYTES] = {0};
    file_poke(path, s.offset + at, zeros, sizeof zeros);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    assert_false(tamis_inline_is_quick(&copy, domain.tag));
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_not_equal(reason(&v, domain.tag, keys[i]), TAMIS_NO_REASON);
        assert_int_not_equal(reason(&copy, domain.tag, keys[i]), TAMIS_NO_REASON);
    }
    tamis_inline_release(&v);
    tamis_filter_close(f);
}

static void strict_and_behind_are_never_quick(void **state)
{
    struct tamis_filter_options strict = {.size = sizeof strict,
                                          .check = TAMIS_CHECK_STRICT};
    struct tamis_filter_options later = {.size = sizeof later, .min_watermark = 11};
    (void)state;
    build(0.01, 10);
    struct tamis_filter *f = opened(&strict);
    assert_int_equal(count_absent(f, keys, KEYS), 0);
    struct tamis_inline v = value_of(f);
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    assert_int_equal(reason(&v, domain.tag, keys[0]), TAMIS_HIT);
    tamis_inline_release(&v);
    tamis_filter_close(f);

    f = opened(&later);
    v = value_of(f);
    for (size_t i = 0; i < ASKED; i++)
        assert_int_equal(reason(&v, domain.tag, others[i]), TAMIS_BEHIND);
    tamis_inline_release(&v);
    tamis_filter_close(f);
}

/* A value of a growing filter sees every add, growth and seal; one that is got after
 * the seal may be quick. */
static void growing_filters_are_asked_by_the_call(void **state)
{
    (void)state;
    struct tamis_writer *w = fresh(1000);
    struct tamis_filter *f = open_filter(path);
    struct tamis_inline v = value_of(f);
    uint64_t tag = tamis_filter_domain(f).tag;
    for (size_t i = 0; i < 5000; i++) {
        add_hashes(w, &keys[i], 1);
        assert_int_equal(reason(&v, tag, keys[i]), TAMIS_HIT);
    }
    assert_int_equal(tamis_writer_seal(w, 1, NULL, NULL), 0);
    tamis_writer_close(w);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(reason(&v, tag, keys[i]), TAMIS_HIT);
    assert_false(tamis_inline_is_quick(&v, tag)); /* several stages */
    tamis_inline_release(&v);
    tamis_filter_close(f);
}

static void one_stage_that_was_sealed_is_quick(void **state)
{
    (void)state;
    struct tamis_writer *w = fresh(KEYS);
    struct tamis_filter *f = open_filter(path);
    uint64_t tag = tamis_filter_domain(f).tag;
    struct tamis_inline before = value_of(f);
    add_hashes(w, keys, KEYS);
    assert_int_equal(tamis_writer_seal(w, 1, NULL, NULL), 0);
    tamis_writer_close(w);
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(reason(&before, tag, keys[i]), TAMIS_HIT);
    struct tamis_inline v = value_of(f);
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(reason(&v, tag, keys[i]), TAMIS_HIT);
    assert_true(tamis_inline_is_quick(&v, tag));
    assert_false(tamis_inline_is_quick(&before, tag)); /* it was got of an open one */
    tamis_inline_release(&v);
    tamis_inline_release(&before);
    tamis_filter_close(f);
}

/* ---- bad input, and the end ---- */

static void foreign_keys_and_bad_arguments(void **state)
{
    struct tamis_inline v, same;
    enum tamis_reason why;
    struct tamis_key key = tamis_key_of_hash(domain.tag, keys[0]);
    (void)state;
    build(0.01, 0);
    struct tamis_filter *f = opened(NULL);
    assert_int_equal(count_absent(f, keys, KEYS), 0);
    v = value_of(f);
    assert_int_equal(reason(&v, domain.tag + 1, others[0]), TAMIS_MISMATCH);
    assert_int_equal(reason(&v, 0, others[0]), TAMIS_MISMATCH);
    check_few(&v, domain.tag, TAMIS_NO_REASON);
    check_few(&v, domain.tag + 1, TAMIS_MISMATCH);
    tamis_inline_release(&v);

    memset(&v, 0, sizeof v);
    assert_int_equal(reason(&v, domain.tag, others[0]), TAMIS_UNREADABLE);
    assert_int_equal(reason(&v, 0, others[0]), TAMIS_UNREADABLE);
    check_few(&v, domain.tag, TAMIS_UNREADABLE);
    tamis_inline_release(&v);
    tamis_inline_release(NULL);
    assert_int_equal(tamis_inline_ask(NULL, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_UNREADABLE);

    memset(&v, 0x5a, sizeof v);
    same = v;
    assert_int_equal(tamis_filter_inline(f, TAMIS_INLINE_VERSION + 1, &v),
                     TAMIS_ERR_VERSION);
    assert_memory_equal(&v, &same, sizeof v);
    assert_int_equal(tamis_filter_inline(f, TAMIS_INLINE_VERSION, NULL),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_inline(NULL, TAMIS_INLINE_VERSION, &v),
                     TAMIS_ERR_RANGE);
    assert_int_equal(reason(&v, domain.tag, keys[0]), TAMIS_UNREADABLE);
    tamis_filter_close(f);
}

static int ask_in_child(void *ctx)
{
    const struct tamis_inline *v = ctx;
    for (size_t i = 0; i < KEYS; i++)
        if (reason(v, domain.tag, keys[i]) != TAMIS_HIT)
            return 1;
    return !tamis_inline_is_quick(v, domain.tag);
}

/* The bits stay mapped as long as a value holds them. */
static void a_closed_filter_is_unreadable(void **state)
{
    (void)state;
    build(0.01, 0);
    struct tamis_filter *f = opened(NULL);
    assert_int_equal(count_absent(f, keys, KEYS), 0);
    struct tamis_inline v = value_of(f), other = value_of(f);
    in_child(ask_in_child, &v);
    tamis_filter_close(f);
    for (size_t i = 0; i < ASKED; i++) {
        assert_int_equal(reason(&v, domain.tag, others[i]), TAMIS_UNREADABLE);
        assert_int_equal(reason(&other, domain.tag, keys[i]), TAMIS_UNREADABLE);
    }
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    tamis_inline_release(&v);
    assert_int_equal(reason(&other, domain.tag, others[0]), TAMIS_UNREADABLE);
    tamis_inline_release(&other);
}

/* ---- out of a probe by siglongjmp() ---- */

static sigjmp_buf out;

static void jump_out(int sig)
{
    (void)sig;
    siglongjmp(out, 1);
}

/* The page of the bits cannot be read: the output of the batch before must be gone. */
static void a_jump_leaves_no_absent(void **state)
{
    static const uint64_t tag = 7;
    static const struct geometry g = {1, 1, 6};
    static uint64_t absent;
    struct sigaction jump = {.sa_handler = jump_out}, before;
    (void)state;
    uint8_t *page = foreign_page(NULL);
    struct tamis_inline v = {
        .one = &tag, .bits = page, .geometry = inline_geometry(&g)};
    for (size_t i = 0; inline_loops_at(i); i++) {
        volatile bool has_jumped = true;
        absent = UINT64_MAX;
        assert_int_equal(sigaction(SIGBUS, &jump, &before), 0);
        if (sigsetjmp(out, 1) == 0) {
            inline_loops_at(i)->probe_few(&v, tag, others, 64, 64, &absent);
            has_jumped = false;
        }
        sigaction(SIGBUS, &before, NULL);
        assert_true(has_jumped);
        assert_true(absent == 0);
    }
    munmap(page, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_geometry_answers_as_the_reference),
        cmocka_unit_test(a_filter_answers_as_the_call),
        cmocka_unit_test(keys_are_hashed_as_by_the_call),
        cmocka_unit_test(a_value_is_quick_once_all_is_checked),
        cmocka_unit_test(a_bad_page_is_never_quick),
        cmocka_unit_test(a_scrub_turns_values_off),
        cmocka_unit_test(strict_and_behind_are_never_quick),
        cmocka_unit_test(growing_filters_are_asked_by_the_call),
        cmocka_unit_test(one_stage_that_was_sealed_is_quick),
        cmocka_unit_test(foreign_keys_and_bad_arguments),
        cmocka_unit_test(a_closed_filter_is_unreadable),
        cmocka_unit_test(a_jump_leaves_no_absent),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
