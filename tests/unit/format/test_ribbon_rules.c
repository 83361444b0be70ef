/* The descriptors of a ribbon: every rule of SPEC.md section 19.3 by a mutation of its
 * own, and what is just inside the limits; and the layout of its pages. */
#include "tests/unit/format/commit_records.h"
#include "format/ribbon.h"

TEST(rules_of_descriptors)
{
    static const struct rule rules[] = {
        R(n_stages, 1, RANGE),
        S(0, layout, 1, KIND),
        S(0, layout, 2, KIND),
        AREA(0, ribbon_area_disk, blocks, 15, RANGE),
        AREA(0, ribbon_area_disk, blocks, 481, RANGE),
        S(0, length, 0, RANGE),
        S(0, length, 4097, RANGE),
        S(0, length, UINT64_C(1) << 44, RANGE),
        AREA(0, ribbon_area_disk, n_long_pages, 4, RANGE),
        AREA_BYTE(0, ribbon_area_disk, 37),
        S(1, layout, 1, KIND),
        S(1, unused, 1, UNUSED),
        S(2, layout, 3, KIND),
        S(2, n_blocks, 0, RANGE),
        S(2, kind_unused, 1, UNUSED),
    };
    static const struct stage_desc stages[] = {
        {.layout = LAYOUT_RIBBON, .ribbon_blocks = 75, .n_long_pages = 2},
        {.layout = LAYOUT_RIBBON, .ribbon_blocks = 16, .n_long_pages = 1},
        {.layout = LAYOUT_SPLIT_BLOCKS, .geometry = {64, 1, 6}}};
    const struct commit ribbon = of_kind(KIND_RIBBON, 3, stages);
    struct commit out = decoded(&ribbon);
    assert_true(out.stages[0].ribbon_blocks == 75 && out.stages[0].n_long_pages == 2);
    assert_true(out.stages[2].geometry.n_blocks == 64);
    hold_each(rules, N_OF(rules), ribbon);
    is_a_later_versions(ribbon, AREA_AT(1, ribbon_area_disk, area_unused));
}

TEST(a_ribbon_has_one_header_page)
{
    identity_is(an_identity(3), KIND_RIBBON, 0, "kind");
    identity_is(an_identity(1), KIND_RIBBON, 1, NULL); /* where a pack has no name */
}

/* Blocks and thresholds of every shape lie one behind the other and fill the page. */
TEST(pages_are_full)
{
    double before = 0;
    for (uint32_t blocks = RIBBON_MIN_BLOCKS; blocks <= RIBBON_MAX_BLOCKS + 1;
         blocks++) {
        struct ribbon_shape s = ribbon_shape_of(blocks);
        uint32_t at = 0;
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t n = ribbon_columns(&s, b);
            assert_true(n >= 1 && n <= RIBBON_MAX_COLUMNS);
            assert_true(b == 0 || n >= ribbon_columns(&s, b - 1));
            IS(ribbon_block_at(&s, b), at);
            at += 8 * n;
            if (b % 2 == 0)
                IS(ribbon_threshold_at(&s, b), at++);
            else
                IS(ribbon_threshold_at(&s, b), ribbon_block_at(&s, b) - 1);
        }
        assert_true(at <= PAGE_BYTES && at > PAGE_BYTES - 8);
        assert_true(ribbon_page_error(blocks) > before);
        before = ribbon_page_error(blocks);
    }
}

/* Places that thresholds bump, and what the others add to the error, one by one. */
TEST(odds_are_those_of_all_places)
{
    static const uint8_t thresholds[] = {1, 0, 64, 128, 65, 7, 255, 101};
    uint8_t page[PAGE_BYTES];
    for (uint32_t blocks = RIBBON_MIN_BLOCKS; blocks <= RIBBON_MAX_BLOCKS + 1;
         blocks++) {
        struct ribbon_shape s = ribbon_shape_of(blocks);
        uint64_t bumped = 0, matches = 0, places = ribbon_places(blocks);
        for (uint32_t b = 0; b < blocks; b += 2)
            page[ribbon_threshold_at(&s, b)] = thresholds[(b + blocks) / 2 % 8];
        for (uint64_t at = 0; at < places; at++) {
            uint64_t low = ((at << 32) + places - 1) / places << 32;
            uint32_t row = ribbon_row(low, blocks), b = row / RIBBON_WIDTH;
            if (row % RIBBON_PAIR_ROWS < page[ribbon_threshold_at(&s, b)])
                bumped++;
            else
                matches += UINT64_C(2) << s.digits >> ribbon_columns(&s, b);
        }
        struct ribbon_odds o = ribbon_page_odds(&s, page);
        IS(o.bumped, bumped);
        IS(o.matches, matches);
    }
}

RUN_TESTS(NULL, NULL)
