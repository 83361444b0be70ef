/* The descriptors of a ribbon: every rule of SPEC.md section 19.3 by a mutation of its
 * own, and what is just inside the limits; and the layout of its pages. */
#include "tests/unit/format/commit_records.h"
#include "format/area.h"
#include "format/ribbon.h"

static struct commit ribbon;

static struct commit a_ribbon(void)
{
    world = (struct world){an_identity(1), SLOT_BIRTH, 9 * 4096};
    world.id.kind = KIND_RIBBON;
    struct commit c = {
        .sequence = 1,
        .committed_bytes = 8 * 4096,
        .generation = 1,
        .state = STATE_SEALED,
        .clean = 1,
        .n_stages = 3,
        .stages = {{.offset = 4096,
                    .length = 3 * 4096,
                    .target_error = 0.01,
                    .digests_offset = 4 * 4096,
                    .root = 5,
                    .layout = LAYOUT_RIBBON,
                    .ribbon_blocks = 75,
                    .n_long_pages = 2},
                   {.offset = 5 * 4096,
                    .length = 4096,
                    .target_error = 0.01,
                    .layout = LAYOUT_RIBBON,
                    .ribbon_blocks = 16,
                    .n_long_pages = 1},
                   {.offset = 6 * 4096,
                    .length = 4096,
                    .target_error = 0.01,
                    .layout = LAYOUT_SPLIT_BLOCKS,
                    .geometry = {64, 1, 6}}},
    };
    memcpy(c.uuid, world.id.uuid, UUID_BYTES);
    return c;
}

#define S(i, member, value, code)                                                      \
    {                                                                                  \
        AT(i, member), sizeof(((struct stage_disk *)0)->member), (value),              \
            VERDICT_##code, AT(i, member), "stage." #member                            \
    }
#define AREA_AT(i, member)                                                             \
    (STAGES_OFFSET + (i)*STAGE_BYTES + AREA_OFFSET +                                   \
     offsetof(struct ribbon_area_disk, member))
#define A(i, member, value, code)                                                      \
    {                                                                                  \
        AREA_AT(i, member), sizeof(((struct ribbon_area_disk *)0)->member), (value),   \
            VERDICT_##code, AREA_AT(i, member), "stage." #member                       \
    }

static void rules_of_descriptors(void **state)
{
    static const struct rule rules[] = {
        {offsetof(struct commit_disk, n_stages), 1, 1, VERDICT_RANGE,
         offsetof(struct commit_disk, n_stages), "n_stages"},
        S(0, layout, 1, KIND),
        S(0, layout, 2, KIND),
        A(0, blocks, 15, RANGE),
        A(0, blocks, 481, RANGE),
        S(0, length, 0, RANGE),
        S(0, length, 4097, RANGE),
        S(0, length, UINT64_C(1) << 44, RANGE),
        A(0, n_long_pages, 4, RANGE),
        {AREA_AT(0, area_unused) + 37, 1, 1, VERDICT_UNUSED, AREA_AT(0, area_unused),
         "stage.area_unused"},
        S(1, layout, 1, KIND),
        S(1, settled_page, 1, UNUSED),
        S(2, layout, 3, KIND),
        S(2, n_blocks, 63, RANGE),
        S(2, kind_unused, 1, UNUSED),
    };
    uint8_t good[SLOT_BYTES];
    struct commit out;
    (void)state;
    commit_encode(&ribbon, SLOT_BIRTH, good);
    verdict_is(decode(good, &out), VERDICT_OK, 0, "");
    assert_true(out.stages[0].ribbon_blocks == 75 && out.stages[0].n_long_pages == 2);
    assert_true(out.stages[2].geometry.n_blocks == 64);
    for (size_t i = 0; i < N_OF(rules); i++)
        rules_hold(&rules[i], 1, good, BIRTH_BYTES, reseal_decode);
    /* Bytes that are not zero there may be a newer version's. */
    struct commit later = ribbon;
    later.compat = UINT64_C(1) << 50;
    commit_encode(&later, SLOT_BIRTH, good);
    good[AREA_AT(1, area_unused)] = 1;
    verdict_is(reseal_decode(good), VERDICT_OK, 0, "");
}

static void a_ribbon_has_one_header_page(void **state)
{
    uint8_t bytes[IDENTITY_BYTES];
    struct identity id = an_identity(3), out;
    (void)state;
    id.kind = KIND_RIBBON;
    identity_encode(&id, bytes);
    struct verdict v = identity_decode(bytes, sizeof bytes, &out);
    assert_int_equal(v.code, VERDICT_RANGE);
    assert_string_equal(v.field, "kind");
    id = an_identity(1);
    id.kind = KIND_RIBBON;
    id.name[0] = 'x'; /* it may have a name, where a pack has none */
    id.name_bytes = 1;
    identity_encode(&id, bytes);
    verdict_is(identity_decode(bytes, sizeof bytes, &out), VERDICT_OK, 0, "");
}

/* Blocks and thresholds of every shape lie one behind the other and fill the page. */
static void pages_are_full(void **state)
{
    (void)state;
    double before = 0;
    for (uint32_t blocks = RIBBON_MIN_BLOCKS; blocks <= RIBBON_MAX_BLOCKS + 1;
         blocks++) {
        struct ribbon_shape s = ribbon_shape_of(blocks);
        uint32_t at = 0;
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t n = ribbon_columns(&s, b);
            assert_true(n >= 1 && n <= RIBBON_MAX_COLUMNS);
            assert_true(b == 0 || n >= ribbon_columns(&s, b - 1));
            assert_int_equal(ribbon_block_at(&s, b), at);
            at += 8 * n;
            if (b % 2 == 0)
                assert_int_equal(ribbon_threshold_at(&s, b), at++);
            else
                assert_int_equal(ribbon_threshold_at(&s, b),
                                 ribbon_block_at(&s, b) - 1);
        }
        assert_true(at <= PAGE_BYTES && at > PAGE_BYTES - 8);
        assert_true(ribbon_page_error(blocks) > before);
        before = ribbon_page_error(blocks);
    }
}

static int set_up(void **state)
{
    (void)state;
    ribbon = a_ribbon();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_descriptors),
        cmocka_unit_test(a_ribbon_has_one_header_page),
        cmocka_unit_test(pages_are_full),
    };
    return cmocka_run_group_tests_name("ribbon rules", tests, set_up, NULL);
}
