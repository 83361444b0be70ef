/* Inline probes of a filter (tamis_inline.h): the answers of the reference and of the
 * call, for each processor that the loops are compiled for; when a value is quick, and
 * what it answers when it is not. */
#include "tests/support/guard_support.h"
#include "tests/support/one_file.h"
#include "tests/support/inline/loops.h"

#include "lib/filter/inline.h"

enum { KEYS = 20000, ASKED = 4096 };
static uint64_t keys[KEYS], others[ASKED];
static struct tamis_domain domain;

SET_UP(one_file_create, random_hashes(keys, KEYS), random_hashes(others, ASKED),
       tamis_domain_init(&domain, 1, 0x5eed))

static void build(double error, uint64_t watermark)
{
    BUILD(path, keys, KEYS, .domain = &domain, .error = error, .watermark = watermark);
}

/* All of it is checked. */
static struct tamis_filter *checked(void)
{
    build(0.01, 0);
    struct tamis_filter *f = open_filter(path);
    IS(count_absent(f, keys, KEYS), 0);
    return f;
}

#define INLINE CLOSED_BY(tamis_inline_release, struct tamis_inline)

static struct tamis_inline value_of(struct tamis_filter *f)
{
    struct tamis_inline v;
    memset(&v, 0xff, sizeof v);
    OK(tamis_filter_inline(f, TAMIS_INLINE_VERSION, &v));
    return v;
}

/* As few as one, or too many for a few: the call's. */
static void check_few(const struct tamis_inline *v, uint64_t tag, enum tamis_reason why)
{
    uint64_t absent[2] = {1, 1};
    enum tamis_reason said = TAMIS_BEHIND;
    for (size_t n = 0; n <= 100; n += 50) {
        IS(tamis_inline_probe_few(v, tag, keys, n, absent, &said), 0);
        IS(said, why);
        IS(absent[0], n == 0);
    }
    tamis_inline_probe_few(v, tag, NULL, 3, NULL, &said);
    assert_int_not_equal(said, TAMIS_NO_REASON);
}

static enum tamis_reason reason(const struct tamis_inline *v, uint64_t tag, uint64_t h)
{
    struct tamis_key key = {.tag = tag, .hash = h};
    enum tamis_reason why = TAMIS_BEHIND;
    enum tamis_answer answer = tamis_inline_probe(v, &key, &why);
    IS(answer == TAMIS_ABSENT, why == TAMIS_NO_REASON);
    return why;
}

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
        IS(is, !geometry_probe(bits, g, others[i]));
        n += is;
    }
    IS(n_absent, n);
    assert_true(n_absent > 0);
    assert_true(n_absent < ASKED);
}

TEST(every_geometry_answers_as_the_reference)
{
    enum { BLOCKS = 37 };
    static uint8_t memory[MAX_LANES * BLOCKS * BLOCK_BYTES + 1];
    size_t n_loops = 0;
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
            IS(absent[at / few], by_call);
        }
        IS(got, n_absent);
    }
}

static void same_as_call(struct tamis_filter *f, const uint64_t *hashes, size_t n)
{
    INLINE v = value_of(f);
    assert_true(tamis_inline_is_quick(&v, domain.tag));
    for (size_t k = 0; inline_loops_at(k); k++) {
        uint64_t absent[ASKED / 64], by_call[ASKED / 64];
        size_t n_absent = inline_loops_at(k)->probe(&v, domain.tag, hashes, n, absent);
        IS(n_absent, tamis_filter_probe_batch(f, domain.tag, hashes, n, by_call, NULL));
        assert_memory_equal(absent, by_call, (n + 63) / 64 * sizeof absent[0]);
        few_as_call(inline_loops_at(k), &v, f, hashes);
    }
}

TEST(a_filter_answers_as_the_call)
{
    static const double errors[] = {0.3, 0.01, 1e-3, 1e-5, 1e-8};
    for (size_t e = 0; e < N_OF(errors); e++) {
        build(errors[e], 0);
        FILTER f = open_filter(path);
        IS(count_absent(f, keys, KEYS), 0); /* all is checked then */
        same_as_call(f, others, ASKED);
        same_as_call(f, keys, ASKED);
    }
}

/* Keys of each length for which XXH3 has a way of its own. */
TEST(keys_are_hashed_as_by_the_call)
{
    static uint8_t bytes[2000];
    struct tamis_domain none = {0};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_u64();
    for (size_t k = 0; inline_loops_at(k); k++)
        for (size_t n = 0; n <= sizeof bytes; n += n < 300 ? 1 : 77) {
            struct tamis_key key, by_call = tamis_key_of(&domain, bytes, n);
            inline_loops_at(k)->key_of(&domain, bytes, n, &key);
            assert_true(key.hash == by_call.hash && key.tag == by_call.tag);
            IS(key.n_bytes, n);
            assert_memory_equal(key.bytes, bytes, n);
            inline_loops_at(k)->key_of(&none, bytes, n, &key);
            assert_true(key.tag == 0);
        }
    struct tamis_key empty;
    inline_loops_at(0)->key_of(&domain, NULL, 0, &empty);
    assert_non_null(empty.bytes); /* else it were a hash alone */
    assert_true(empty.hash == tamis_key_of(&domain, NULL, 0).hash);
}

TEST(a_value_is_quick_once_all_is_checked)
{
    build(0.01, 0);
    FILTER f = open_filter(path);
    INLINE v = value_of(f);
    size_t n_slow = 0;
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    for (size_t i = 0; i < KEYS; i++) {
        n_slow += !tamis_inline_is_quick(&v, domain.tag);
        IS(reason(&v, domain.tag, keys[i]), TAMIS_HIT);
    }
    assert_true(n_slow > 0);
    assert_true(tamis_inline_is_quick(&v, domain.tag));
}

/* A damaged page is found by the call that checks it: the value is never quick. */
TEST(a_bad_page_is_never_quick)
{
    build(0.01, 0);
    FILTER f = open_filter(path);
    flip(path, filter_info(f).stages[0].offset + PAGE_BYTES + 1);
    INLINE v = value_of(f);
    size_t n_damaged = 0;
    for (size_t i = 0; i < KEYS; i++) {
        enum tamis_reason why = reason(&v, domain.tag, keys[i]);
        assert_true(why == TAMIS_HIT || why == TAMIS_DAMAGED);
        n_damaged += why == TAMIS_DAMAGED;
    }
    assert_true(n_damaged > 0);
    assert_false(tamis_inline_is_quick(&v, domain.tag));
}

/* A page that rots later is found by a scrub, and turns all values off. */
TEST(a_scrub_turns_values_off)
{
    FILTER f = checked();
    INLINE v = value_of(f);
    struct tamis_inline copy = v;
    assert_true(tamis_inline_is_quick(&copy, domain.tag));
    uint64_t at = v.geometry.n_blocks / 2 * BLOCK_BYTES;
    struct tamis_stage_info s = filter_info(f).stages[0];
    uint8_t zeros[BLOCK_BYTES] = {0};
    file_poke(path, s.offset + at, zeros, sizeof zeros);
    damage_of(f);
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    assert_false(tamis_inline_is_quick(&copy, domain.tag));
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_not_equal(reason(&v, domain.tag, keys[i]), TAMIS_NO_REASON);
        assert_int_not_equal(reason(&copy, domain.tag, keys[i]), TAMIS_NO_REASON);
    }
}

TEST(strict_and_behind_are_never_quick)
{
    build(0.01, 10);
    FILTER f = OPEN_AS(path, .check = TAMIS_CHECK_STRICT),
           behind = OPEN_AS(path, .min_watermark = 11);
    IS(count_absent(f, keys, KEYS), 0);
    INLINE v = value_of(f), late = value_of(behind);
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    IS(reason(&v, domain.tag, keys[0]), TAMIS_HIT);
    for (size_t i = 0; i < ASKED; i++)
        IS(reason(&late, domain.tag, others[i]), TAMIS_BEHIND);
}

/* A value of a growing filter sees every add, growth and seal. One that is got after
 * the seal is quick, if the filter has one stage. */
TEST(growing_filters_are_asked_by_the_call)
{
    for (int one_stage = 0; one_stage < 2; one_stage++) {
        size_t n = one_stage ? KEYS : 5000;
        struct tamis_writer *w = fresh(one_stage ? KEYS : 1000);
        FILTER f = open_filter(path);
        uint64_t tag = filter_domain(f).tag;
        INLINE before = value_of(f);
        for (size_t i = 0; i < n; i++) {
            add_hashes(w, &keys[i], 1);
            IS(reason(&before, tag, keys[i]), TAMIS_HIT);
        }
        seal_and_close(w, 1);
        for (size_t i = 0; i < n; i++)
            IS(reason(&before, tag, keys[i]), TAMIS_HIT);
        INLINE v = value_of(f);
        for (size_t i = 0; i < n; i++)
            IS(reason(&v, tag, keys[i]), TAMIS_HIT);
        IS(tamis_inline_is_quick(&v, tag), one_stage);
        assert_false(tamis_inline_is_quick(&before, tag));
    }
}

TEST(foreign_keys_and_bad_arguments)
{
    struct tamis_inline v, same;
    enum tamis_reason why;
    struct tamis_key key = {.tag = domain.tag, .hash = keys[0]};
    FILTER f = checked();
    v = value_of(f);
    IS(reason(&v, domain.tag + 1, others[0]), TAMIS_MISMATCH);
    IS(reason(&v, 0, others[0]), TAMIS_MISMATCH);
    check_few(&v, domain.tag, TAMIS_NO_REASON);
    check_few(&v, domain.tag + 1, TAMIS_MISMATCH);
    tamis_inline_release(&v);

    memset(&v, 0, sizeof v);
    IS(reason(&v, domain.tag, others[0]), TAMIS_UNREADABLE);
    IS(reason(&v, 0, others[0]), TAMIS_UNREADABLE);
    check_few(&v, domain.tag, TAMIS_UNREADABLE);
    tamis_inline_release(&v);
    tamis_inline_release(NULL);
    IS(tamis_inline_ask(NULL, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_UNREADABLE);

    memset(&v, 0x5a, sizeof v);
    same = v;
    IS(tamis_filter_inline(f, TAMIS_INLINE_VERSION + 1, &v), TAMIS_ERR_VERSION);
    assert_memory_equal(&v, &same, sizeof v);
    IS(tamis_filter_inline(f, TAMIS_INLINE_VERSION, NULL), TAMIS_ERR_RANGE);
    IS(tamis_filter_inline(NULL, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(reason(&v, domain.tag, keys[0]), TAMIS_UNREADABLE);
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
TEST(a_closed_filter_is_unreadable)
{
    struct tamis_filter *f = checked();
    struct tamis_inline v = value_of(f), other = value_of(f);
    in_child(ask_in_child, &v);
    tamis_filter_close(f);
    for (size_t i = 0; i < ASKED; i++) {
        IS(reason(&v, domain.tag, others[i]), TAMIS_UNREADABLE);
        IS(reason(&other, domain.tag, keys[i]), TAMIS_UNREADABLE);
    }
    assert_false(tamis_inline_is_quick(&v, domain.tag));
    tamis_inline_release(&v);
    IS(reason(&other, domain.tag, others[0]), TAMIS_UNREADABLE);
    tamis_inline_release(&other);
}

static sigjmp_buf out;

static void jump_out(int sig)
{
    siglongjmp(out, 1);
}

/* The page of the bits cannot be read: the output of the batch before must be gone. */
TEST(a_jump_leaves_no_absent)
{
    static const uint64_t tag = 7;
    static const struct geometry g = {1, 1, 6};
    static uint64_t absent;
    struct sigaction jump = {.sa_handler = jump_out}, before;
    uint8_t *page = foreign_page(NULL);
    struct tamis_inline v = {
        .one = &tag, .bits = page, .geometry = inline_geometry(&g)};
    for (size_t i = 0; inline_loops_at(i); i++) {
        volatile bool has_jumped = true;
        absent = UINT64_MAX;
        OK(sigaction(SIGBUS, &jump, &before));
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

RUN_TESTS(set_up, test_dir_remove)
