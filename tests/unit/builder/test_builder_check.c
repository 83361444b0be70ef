/* A checked builder: whatever bit flips in memory while a filter is built, no filter
 * comes of it that lacks a key. Its hashes are for test_builder_check_hashes. */
#include "tests/unit/builder/memory_flips.h"

static void test_good_memory_passes(void **state)
{
    unsigned seen = 0;
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++) {
        struct tamis_builder *b = full_builder(&ways[i], true);
        expect_good(b, ways[i].n);
        seen |= 1U << (was_sliced * 4 + (b->n_spooled > 0) * 2 + (b->asked.lanes > 1));
        /* More keys, some of them again. */
        assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys + FEW / 2, FEW),
                         0);
        expect_good(b, ways[i].n);
        tamis_builder_free(b);
    }
    /* With and without slices, spool and second lane: all but one. */
    assert_int_equal(seen | 1U << 6, 0xff);
    struct tamis_builder *b = builder_for(&ways[0], true);
    expect_good(b, 0);
    const uint64_t twice[] = {keys[0], keys[0]};
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, twice, 2), 0);
    expect_good(b, 1);
    tamis_builder_free(b);
}

static void test_a_bit_of_the_filter(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++) {
        struct tamis_plan plan;
        tamis_plan_filter(ways[i].n, ways[i].error, &plan);
        for (stuck_lane = 0; stuck_lane < (int)plan.lanes; stuck_lane++) {
            expect_refused(full_builder(&ways[i], true));
            expect_lost(full_builder(&ways[i], false), keys + victim, 1);
        }
    }
    /* It was memory, not the builder: where it holds, the filter is made. */
    stuck_lane = 0;
    struct tamis_builder *b = full_builder(&ways[0], true);
    assert_int_equal(tamis_builder_finish_file(b, path_of("x"), NULL),
                     TAMIS_ERR_DAMAGED);
    flip_nothing(NULL);
    expect_good(b, FEW);
    tamis_builder_free(b);
}

/* In the first region and the last one. */
static void test_a_bit_at_the_edges(void **state)
{
    (void)state;
    stuck_lane = 0;
    for (size_t i = 0; i < N_WAYS; i++) {
        size_t lowest = 0, highest = 0;
        for (size_t k = 0; k < ways[i].n; k++) {
            lowest = keys[k] < keys[lowest] ? k : lowest;
            highest = keys[k] > keys[highest] ? k : highest;
        }
        victim = lowest;
        expect_refused(full_builder(&ways[i], true));
        victim = highest;
        expect_refused(full_builder(&ways[i], true));
    }
}

static void test_a_bit_before_its_digest(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            digest_flips = true;
            if (check)
                expect_refused(b);
            else
                expect_lost(b, keys + victim, 1);
            digest_flips = false;
        }
}

static void add_numbers(struct tamis_builder *b, unsigned from, unsigned to)
{
    char key[16];
    for (; from < to; from++)
        assert_int_equal(
            tamis_builder_add_key(b, key, (size_t)sprintf(key, "%07u", from)), 0);
}

/* Everything that answers rest on beside the bits. */
static void test_what_is_noted(void **state)
{
    (void)state;
    for (int what = 0; what < 11; what++)
        for (int more = 0; more < 3; more++) {
            struct tamis_builder *b = builder_for(&ways[0], true);
            add_numbers(b, 500, 600);
            if (what == 5)
                assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 1), 0);
            switch (what) {
            case 0:
                b->range.first[3] ^= 64;
                break;
            case 1:
                b->range.last[6] ^= 1;
                break;
            case 2:
                b->range.last_bytes ^= 1;
                break;
            case 3:
                b->first_prefix ^= 1;
                break;
            case 4:
                b->last_prefix ^= UINT64_C(1) << 63;
                break;
            case 5:
                b->range.known = true;
                break;
            case 6:
                b->domain.seed ^= 1 << 9;
                break;
            case 7:
                b->domain.tag ^= 1 << 9;
                break;
            case 8:
                b->watermark ^= 1 << 9;
                break;
            case 9:
                b->range.first_bytes ^= 1 << 30;
                break;
            default:
                b->range.last_bytes ^= 1 << 30;
                break;
            }
            /* Keys that change it, and hide the flip; and keys that don't. */
            if (more == 1 && what < 9)
                add_numbers(b, 400, 700);
            if (more == 2 && what < 9)
                add_numbers(b, 510, 520);
            expect_refused(b);
        }
    struct tamis_builder *b = builder_for(&ways[0], true);
    add_numbers(b, 500, 600);
    add_numbers(b, 400, 700);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, FEW), 0);
    add_numbers(b, 300, 800);
    assert_false(b->changed);
    expect_good(b, FEW);
    tamis_builder_free(b);
}

static void test_the_header(void **state)
{
    static const struct way few_words = {FEW, 0.1, 1, 0}, two_lanes = {FEW, 1e-4, 1, 0};
    (void)state;
    for (header_flips = 1; header_flips < N_FLIPS; header_flips++)
        expect_refused(full_builder(
            header_flips == FLIP_LANES || header_flips == FLIP_LENGTH ? &two_lanes
                                                                      : &few_words,
            true));
    header_flips = FLIP_WORDS;
    expect_lost(full_builder(&few_words, false), keys, FEW);
    header_flips = FLIP_LANES;
    expect_lost(full_builder(&two_lanes, false), keys, FEW);
}

/* As long as a range may have them, and longer. Of each length one key is the first so
 * far, and one the last. */
static void test_long_keys(void **state)
{
    static uint8_t key[1100];
    struct tamis_builder *b = builder_for(&ways[0], true);
    (void)state;
    for (size_t n = 1020; n < 1030; n++) {
        key[0] = (uint8_t)(1100 - n);
        assert_int_equal(tamis_builder_add_key(b, key, n), 0);
        key[0] = (uint8_t)(n - 900);
        assert_int_equal(tamis_builder_add_key(b, key, n), 0);
    }
    assert_int_equal(tamis_builder_finish_file(b, path_of("long"), NULL), 0);
    unlink(path_of("long"));
    tamis_builder_free(b);
}

/* A caller of before has no such field, and its padding says nothing. */
static void test_an_older_caller(void **state)
{
    struct tamis_builder_options opt;
    struct tamis_builder *b;
    (void)state;
    memset(&opt, 0xff, sizeof opt);
    opt = (struct tamis_builder_options){.domain = &domain};
    memset((char *)&opt.n_threads + sizeof opt.n_threads, 0xff,
           sizeof opt - offsetof(struct tamis_builder_options, n_threads) -
               sizeof opt.n_threads);
    opt.size = offsetof(struct tamis_builder_options, check);
    assert_true(opt.size == 96 && sizeof opt > opt.size);
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_false(b->checks);
    tamis_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_good_memory_passes, flip_nothing),
        cmocka_unit_test_setup(test_a_bit_of_the_filter, flip_nothing),
        cmocka_unit_test_setup(test_a_bit_at_the_edges, flip_nothing),
        cmocka_unit_test_setup(test_a_bit_before_its_digest, flip_nothing),
        cmocka_unit_test_setup(test_what_is_noted, flip_nothing),
        cmocka_unit_test_setup(test_the_header, flip_nothing),
        cmocka_unit_test_setup(test_long_keys, flip_nothing),
        cmocka_unit_test_setup(test_an_older_caller, flip_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
