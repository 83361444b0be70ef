/* A checked builder: whatever bit flips in memory while a filter is built, no filter
 * comes of it that lacks a key. Its hashes are for test_builder_check_hashes. */
#include "tests/unit/builder/memory_flips.h"

TEST_WITH(flip_nothing, NULL, test_good_memory_passes)
{
    unsigned seen = 0;
    for (size_t i = 0; i < N_WAYS; i++) {
        BUILDER b = full_builder(&ways[i], true);
        expect_good(b, ways[i].n);
        seen |= 1U << (was_sliced * 4 + (b->n_spooled > 0) * 2 + (b->asked.lanes > 1));
        /* More keys, some of them again. */
        OK(tamis_builder_add_hashes(b, domain.tag, keys + FEW / 2, FEW));
        expect_good(b, ways[i].n);
    }
    /* With and without slices, spool and second lane: all but one. */
    IS(seen | 1U << 6, 0xff);
    BUILDER b = builder_for(&ways[0], true);
    expect_good(b, 0);
    const uint64_t twice[] = {keys[0], keys[0]};
    OK(tamis_builder_add_hashes(b, domain.tag, twice, 2));
    expect_good(b, 1);
}

TEST_WITH(flip_nothing, NULL, test_a_bit_of_the_filter)
{
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
    BUILDER b = full_builder(&ways[0], true);
    IS(tamis_builder_finish_file(b, path_of("x"), NULL), TAMIS_ERR_DAMAGED);
    flip_nothing(NULL);
    expect_good(b, FEW);
}

/* In the first region and the last one. */
TEST_WITH(flip_nothing, NULL, test_a_bit_at_the_edges)
{
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

TEST_WITH(flip_nothing, NULL, test_a_bit_before_its_digest)
{
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            digest_flips = true;
            expect_checked(b, keys + victim, 1);
            digest_flips = false;
        }
}

static void add_numbers(struct tamis_builder *b, unsigned from, unsigned to)
{
    char key[16];
    for (; from < to; from++)
        OK(tamis_builder_add_key(b, key, (size_t)sprintf(key, "%07u", from)));
}

/* Everything that answers rest on beside the bits. */
#define NOTED(member, byte, mask)                                                      \
    {                                                                                  \
#member, offsetof(struct tamis_builder, member) + (byte), mask                 \
    }
static const struct noted {
    const char *name;
    size_t at;
    uint8_t mask;
} noted[] = {
    NOTED(range.first, 3, 64),
    NOTED(range.last, 6, 1),
    NOTED(range.last_bytes, 0, 1),
    NOTED(first_prefix, 0, 1),
    NOTED(last_prefix, 7, 0x80),
    NOTED(range.known, 0, 1), /* by hashes it is not */
    NOTED(domain.seed, 1, 2),
    NOTED(domain.tag, 1, 2),
    NOTED(watermark, 1, 2),
    NOTED(range.first_bytes, 3, 0x40),
    NOTED(range.last_bytes, 3, 0x40),
};
enum { N_WITH_MORE = 9 }; /* the last two make a range longer than there are bytes */

TEST_WITH(flip_nothing, NULL, test_what_is_noted)
{
    for (size_t what = 0; what < N_OF(noted); what++)
        for (int more = 0; more < 3; more++) {
            struct tamis_builder *b = builder_for(&ways[0], true);
            add_numbers(b, 500, 600);
            if (strcmp(noted[what].name, "range.known") == 0)
                OK(tamis_builder_add_hashes(b, domain.tag, keys, 1));
            ((uint8_t *)b)[noted[what].at] ^= noted[what].mask;
            /* Keys that change it, and hide the flip; and keys that don't. */
            if (more == 1 && what < N_WITH_MORE)
                add_numbers(b, 400, 700);
            if (more == 2 && what < N_WITH_MORE)
                add_numbers(b, 510, 520);
            print_message("%s\n", noted[what].name);
            expect_refused(b);
        }
    BUILDER b = builder_for(&ways[0], true);
    add_numbers(b, 500, 600);
    add_numbers(b, 400, 700);
    OK(tamis_builder_add_hashes(b, domain.tag, keys, FEW));
    add_numbers(b, 300, 800);
    assert_false(b->changed);
    expect_good(b, FEW);
}

TEST_WITH(flip_nothing, NULL, test_the_header)
{
    static const struct way few_words = {FEW, 0.1, 1, 0}, two_lanes = {FEW, 1e-4, 1, 0};
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
TEST_WITH(flip_nothing, NULL, test_long_keys)
{
    static uint8_t key[1100];
    BUILDER b = builder_for(&ways[0], true);
    for (size_t n = 1020; n < 1030; n++) {
        key[0] = (uint8_t)(1100 - n);
        OK(tamis_builder_add_key(b, key, n));
        key[0] = (uint8_t)(n - 900);
        OK(tamis_builder_add_key(b, key, n));
    }
    OK(tamis_builder_finish_file(b, path_of("long"), NULL));
    unlink(path_of("long"));
}

/* A caller of before has no such field, and its padding says nothing. */
TEST_WITH(flip_nothing, NULL, test_an_older_caller)
{
    struct tamis_builder_options opt;
    memset(&opt, 0xff, sizeof opt);
    opt = (struct tamis_builder_options){.domain = &domain};
    memset((char *)&opt.n_threads + sizeof opt.n_threads, 0xff,
           sizeof opt - offsetof(struct tamis_builder_options, n_threads) -
               sizeof opt.n_threads);
    opt.size = offsetof(struct tamis_builder_options, check);
    assert_true(opt.size == 96 && sizeof opt > opt.size);
    BUILDER b = builder_made(&opt);
    assert_false(b->checks);
}

RUN_TESTS(set_up, test_dir_remove)
