/* A checked builder, and hashes that change on their way to the filter: in memory,
 * between lanes, and on their way to the spool. */
#include "tests/unit/builder/memory_flips.h"

TEST_WITH(flip_nothing, NULL, test_a_hash)
{
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            assert_true(b->n_hashes > 0);
            b->hashes[b->n_hashes / 2] ^= UINT64_C(1) << 62;
            expect_checked(b, keys, ways[i].n);
        }
}

/* When one lane has it and the next one has not. */
TEST_WITH(flip_nothing, NULL, test_a_hash_between_lanes)
{
    static const struct way way = {FEW, 1e-6, 1, 0};
    for (int check = 0; check < 2; check++) {
        struct tamis_builder *b = full_builder(&way, check);
        late_victim = &b->hashes[FEW / 2];
        expect_checked(b, keys, FEW);
    }
}

/* Two of them, so that a plain sum would be what it was. */
TEST_WITH(flip_nothing, NULL, test_two_hashes)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        struct tamis_builder *b = full_builder(&ways[0], true);
        uint64_t mask = UINT64_C(1) << bit;
        size_t up = 0, down = 0;
        while (b->hashes[up] & mask)
            up++;
        while (!(b->hashes[down] & mask))
            down++;
        b->hashes[up] ^= mask;
        b->hashes[down] ^= mask;
        expect_refused(b);
    }
}

TEST_WITH(flip_nothing, NULL, test_a_hash_that_is_lost_or_there_twice)
{
    struct tamis_builder *b = builder_for(&ways[0], true);
    const uint64_t some[] = {1, 0, 2, -LANE_MULTIPLIER, 3, 0};
    OK(tamis_builder_add_hashes(b, domain.tag, some, 6));
    b->n_hashes--;
    expect_refused(b);
    b = full_builder(&ways[0], true);
    b->hashes[7] = b->hashes[8];
    expect_refused(b);
}

static struct tamis_builder *spooling;
static ssize_t flip_and_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (spooling && buf == spooling->hashes) {
        spooling->hashes[n / sizeof *spooling->hashes / 2] ^= UINT64_C(1) << 62;
        spooling = NULL;
    }
    return pwrite(fd, buf, n, offset);
}

/* The spool gets the wrong hash, and gives it back as it was. */
TEST_WITH(flip_nothing, NULL, test_a_hash_on_its_way_to_the_spool)
{
    static const struct way way = {FEW, 0.01, 1, 4096};
    io_calls.pwrite = flip_and_pwrite;
    for (int check = 0; check < 2; check++) {
        struct tamis_builder *b = spooling = builder_for(&way, check);
        OK(tamis_builder_add_hashes(b, domain.tag, keys, FEW));
        assert_null(spooling);
        expect_checked(b, keys, FEW);
    }
    io_calls.pwrite = pwrite;
}

RUN_TESTS(set_up, test_dir_remove)
