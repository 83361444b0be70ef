/* format/integrity.h: floors of open stages and the digest tree of sealed ones. */

#include "format/integrity.h"
#include "tests/support/rules.h"

/* ---- floors ---- */

TEST(sectors_are_counted)
{
    uint8_t sector[SECTOR_BYTES] = {0};
    IS(sector_count(sector), 0);
    for (uint32_t bit = 0; bit < SECTOR_BYTES * 8; bit++) {
        sector[bit / 8] |= (uint8_t)(1U << (bit % 8));
        IS(sector_count(sector), bit + 1);
    }
    assert_true(sector_count(sector) < FLOOR_DAMAGED);
}

TEST(floors_cover_every_page)
{
    IS(sizeof(struct floor_sector_disk), 512);
    IS(FLOORS_PER_SECTOR, 248);
    IS(floors_bytes(1), 4096);
    IS(floors_bytes(31 * 8), 4096);
    IS(floors_bytes(31 * 8 + 1), 8192);
    assert_true(floors_bytes(UINT64_C(1) << 28) % 4096 == 0);
    struct floor_sector_disk s;
    for (uint64_t page = 0; page < 1000; page++) {
        assert_true(floor_sector_of(page) + SECTOR_BYTES <= floors_bytes(page + 1));
        ptrdiff_t at = floor_sector_page(&s, page) - s.floor;
        assert_true((uint64_t)at == page % 31 * 8);
    }
}

TEST(pages_meet_their_floors_or_not)
{
    uint8_t page[PAGE_BYTES];
    struct le16 floor[SECTORS_PER_PAGE];
    for (size_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)(i * 37 + i / 512 + 1);
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        floor[i] = le16_of((uint16_t)sector_count(page + i * SECTOR_BYTES));
    assert_true(page_meets_floors(page, floor));
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++) {
        uint8_t *byte = page + i * SECTOR_BYTES + 100;
        uint8_t kept = *byte;
        *byte = (uint8_t)(*byte & (*byte - 1U)); /* one bit lost */
        assert_false(page_meets_floors(page, floor));
        *byte = 0xff; /* more bits than the floor: newer adds */
        assert_true(page_meets_floors(page, floor));
        *byte = kept;
        struct le16 was = floor[i];
        floor[i] = le16_of(FLOOR_DAMAGED);
        assert_false(page_meets_floors(page, floor));
        floor[i] = was;
    }
    memset(page, 0xff, sizeof page); /* even a full page fails a damaged sector */
    memset(floor, 0, sizeof floor);
    assert_true(page_meets_floors(page, floor));
    floor[7] = le16_of(FLOOR_DAMAGED);
    assert_false(page_meets_floors(page, floor));
}

TEST(floor_sectors_know_their_place)
{
    static const uint8_t uuid[UUID_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const uint8_t other[UUID_BYTES] = {1, 2, 3, 4, 5, 6, 7, 9, 9};
    struct floor_sector_disk s;
    for (size_t i = 0; i < FLOORS_PER_SECTOR; i++)
        s.floor[i] = le16_of((uint16_t)(i * 3));
    floor_sector_seal(&s, uuid, 12288);
    assert_memory_equal(s.uuid_head, uuid, 8);
    assert_true(floor_sector_good(&s, uuid, 12288));
    assert_false(floor_sector_good(&s, uuid, 12288 + 512));
    assert_false(floor_sector_good(&s, uuid, 0));
    assert_false(floor_sector_good(&s, other, 12288));
    for (size_t bit = NO_BIT; flip_next(&s, sizeof s, &bit);)
        assert_false(floor_sector_good(&s, uuid, 12288));
    memset(&s, 0, sizeof s); /* a hole is no floor sector */
    assert_false(floor_sector_good(&s, uuid, 0));
    assert_false(floor_sector_good(&s, uuid, 12288));
}

/* ---- digests ---- */

TEST(digest_trees_have_levels)
{
    static const struct {
        uint64_t n_pages;
        uint32_t n_levels;
        uint64_t level[MAX_DIGEST_LEVELS], stored_pages;
    } cases[] = {
        {1, 1, {1}, 0},
        {2, 2, {2, 1}, 1},
        {512, 2, {512, 1}, 1},
        {513, 3, {513, 2, 1}, 3},
        {262144, 3, {262144, 512, 1}, 513},
        {262145, 4, {262145, 513, 2, 1}, 516},
        {1 << 28, 5, {1 << 28, 1 << 19, 1 << 10, 2, 1}, (1 << 19) + (1 << 10) + 3},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct digest_tree t;
        uint64_t offset = 0;
        digest_tree_of(cases[i].n_pages, &t);
        IS(t.n_levels, cases[i].n_levels);
        for (uint32_t level = 0; level < MAX_DIGEST_LEVELS; level++) {
            assert_true(t.n_pages[level] == cases[i].level[level]);
            assert_true(t.offset[level] == (level < t.n_levels ? offset : 0));
            offset += level ? t.n_pages[level] * PAGE_BYTES : 0;
        }
        assert_true(t.n_bytes == cases[i].stored_pages * PAGE_BYTES);
        assert_true(digests_bytes(cases[i].n_pages) == t.n_bytes);
    }
}

/* A crafted descriptor may claim any length. */
TEST(trees_of_too_many_pages_end)
{
    struct digest_tree t;
    for (unsigned bits = 36; bits < 64; bits++) {
        digest_tree_of(UINT64_C(1) << bits, &t);
        IS(t.n_levels, MAX_DIGEST_LEVELS);
    }
}

static uint64_t tree_root(const uint8_t *pages, uint64_t n_pages, uint8_t *digests)
{
    struct digest_tree t;
    digest_tree_of(n_pages, &t);
    memset(digests, 0xee, t.n_bytes); /* levels 2 and up must be cleared by finish */
    memset(digests, 0, t.n_pages[1] * PAGE_BYTES);
    for (uint64_t i = 0; i < n_pages; i++) {
        struct le64 d = le64_of(page_digest(pages + i * PAGE_BYTES));
        memcpy(digests + i * DIGEST_BYTES, &d, sizeof d);
        assert_true(digest_at(digests, i) == le64_get(d));
    }
    return digest_tree_finish(&t, digests);
}

TEST(roots_see_every_page)
{
    static const uint64_t sizes[] = {2, 3, 512, 513, 1030};
    uint8_t *pages = calloc(1030, PAGE_BYTES), *digests = calloc(8, PAGE_BYTES);
    assert_non_null(pages);
    assert_non_null(digests);
    for (size_t s = 0; s < N_OF(sizes); s++) {
        uint64_t n = sizes[s], root = tree_root(pages, n, digests);
        for (uint64_t i = 0; i < n; i++) {
            if (i % 73 != 0 && i + 2 < n)
                continue; /* a sample, and the last two */
            pages[i * PAGE_BYTES + i] ^= 0x10;
            assert_true(tree_root(pages, n, digests) != root);
            pages[i * PAGE_BYTES + i] ^= 0x10;
        }
        assert_true(tree_root(pages, n, digests) == root);
    }
    free(pages);
    free(digests);
}

/* Two pages of 0xff and 0x00: the root by hand, XXH3-64 of a page that holds their
 * digests and then zeros. */
TEST(roots_are_golden)
{
    static uint8_t pages[513 * PAGE_BYTES], digests[3 * PAGE_BYTES];
    memset(pages, 0xff, PAGE_BYTES);
    assert_true(page_digest(pages) == UINT64_C(0x074cfac273851dd6));
    assert_true(page_digest(pages + PAGE_BYTES) == UINT64_C(0x93d76fe148c689ba));
    assert_true(tree_root(pages, 2, digests) == UINT64_C(0x3418dc8ae22e80c9));
    /* 513 pages of zeros: three levels, two of them padded. */
    memset(pages, 0, PAGE_BYTES);
    assert_true(tree_root(pages, 513, digests) == UINT64_C(0xa16aab0cf4f37da4));
}

#ifdef __x86_64__
TEST(a_digest_leaves_no_upper_halves)
{
    uint8_t page[PAGE_BYTES] = {1};
    uint64_t saved[16][4] = {{0}};
    page_digest(page);
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile(".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
                         "vmovups %%ymm\\i, 32*\\i(%0)\n"
                         ".endr"
                         :
                         : "r"(saved)
                         : "memory");
    for (size_t i = 0; i < 16; i++)
        IS(saved[i][2] | saved[i][3], 0);
}
#endif

RUN_TESTS(NULL, NULL)
