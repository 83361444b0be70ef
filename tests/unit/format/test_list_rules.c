/* The descriptors of a list: every rule of SPEC.md section 18.2 by a mutation of its
 * own, and what is just inside the limits. */
#include "tests/unit/format/commit_records.h"
#include "format/area.h"
#include "format/list.h"

static struct commit list;

static struct commit a_list(void)
{
    world = (struct world){an_identity(1), SLOT_BIRTH, 7 * 4096};
    world.id.kind = KIND_LIST;
    struct commit c = {
        .sequence = 1,
        .committed_bytes = 6 * 4096,
        .generation = 1,
        .state = STATE_SEALED,
        .clean = 1,
        .n_stages = 2,
        .stages = {{.offset = 4096,
                    .length = 3 * 4096,
                    .target_error = 0.01,
                    .digests_offset = 4 * 4096,
                    .root = 5,
                    .layout = LAYOUT_HASHES,
                    .n_hashes = 700,
                    .hash_bits = 30},
                   {.offset = 5 * 4096,
                    .length = 4096,
                    .target_error = 1,
                    .layout = LAYOUT_TABLE,
                    .used_bytes = 24,
                    .n_entries = 3,
                    .content = CONTENT_FIRSTS}},
    };
    memcpy(c.uuid, world.id.uuid, UUID_BYTES);
    return c;
}

static int set_up(void **state)
{
    (void)state;
    list = a_list();
    return 0;
}

#define S(i, member, value, code)                                                      \
    {                                                                                  \
        AT(i, member), sizeof(((struct stage_disk *)0)->member), (value),              \
            VERDICT_##code, AT(i, member), "stage." #member                            \
    }
#define AREA_AT(i, area, member)                                                       \
    (STAGES_OFFSET + (i)*STAGE_BYTES + AREA_OFFSET + offsetof(struct area, member))
#define A(i, area, member, value, code)                                                \
    {                                                                                  \
        AREA_AT(i, area, member), sizeof(((struct area *)0)->member), (value),         \
            VERDICT_##code, AREA_AT(i, area, member), "stage." #member                 \
    }

static void rules_of_descriptors(void **state)
{
    static const struct rule rules[] = {
        {offsetof(struct commit_disk, n_stages), 1, 1, VERDICT_RANGE,
         offsetof(struct commit_disk, n_stages), "n_stages"},
        {offsetof(struct commit_disk, n_stages), 1, 3, VERDICT_RANGE,
         offsetof(struct commit_disk, n_stages), "n_stages"},
        S(0, layout, 1, KIND),
        S(0, layout, 6, KIND),
        S(0, length, 0, RANGE),
        S(0, length, 4097, RANGE),
        S(0, length, (UINT64_C(1) << 40) + 4096, RANGE),
        A(0, hashes_area_disk, hash_bits, 0, RANGE),
        A(0, hashes_area_disk, hash_bits, 65, RANGE),
        A(0, hashes_area_disk, n_hashes, 0, RANGE),
        A(0, hashes_area_disk, n_hashes, 2, RANGE),
        A(0, hashes_area_disk, n_hashes, 3 * 3583 + 1, RANGE),
        A(0, hashes_area_disk, n_hashes, UINT64_MAX, RANGE),
        {AREA_AT(0, hashes_area_disk, area_unused) + 38, 1, 1, VERDICT_UNUSED,
         AREA_AT(0, hashes_area_disk, area_unused), "stage.area_unused"},
        S(1, layout, 5, KIND),
        A(1, table_area_disk, content, 1, KIND),
        A(1, table_area_disk, n_entries, 2, RANGE),
        A(1, table_area_disk, used_bytes, 16, RANGE),
        A(1, table_area_disk, used_bytes, 25, RANGE),
        S(1, length, 8192, RANGE),
        S(1, settled_page, 1, UNUSED),
        S(1, settled_root, 1, UNUSED),
        {AREA_AT(1, table_area_disk, area_unused) + 33, 1, 1, VERDICT_UNUSED,
         AREA_AT(1, table_area_disk, area_unused), "stage.area_unused"},
        S(1, digests_offset, 6 * 4096, RANGE),
    };
    uint8_t good[SLOT_BYTES];
    struct commit out;
    (void)state;
    commit_encode(&list, SLOT_BIRTH, good);
    verdict_is(decode(good, &out), VERDICT_OK, 0, "");
    assert_true(out.stages[0].n_hashes == 700 && out.stages[0].hash_bits == 30);
    assert_true(out.stages[1].used_bytes == 24 && out.stages[1].content == 4);
    for (size_t i = 0; i < N_OF(rules); i++)
        rules_hold(&rules[i], 1, good, BIRTH_BYTES, reseal_decode);
    struct commit later = list;
    later.compat = UINT64_C(1) << 50; /* a newer version may use what is zero */
    commit_encode(&later, SLOT_BIRTH, good);
    good[AREA_AT(0, hashes_area_disk, area_unused)] = 1;
    verdict_is(reseal_decode(good), VERDICT_OK, 0, "");
}

static void numbers_of_hashes(void **state)
{
    static const struct {
        uint64_t n_hashes, n_pages;
        uint8_t bits;
        enum verdict_code code;
    } cases[] = {
        {0, 1, 64, VERDICT_OK},       {0, 2, 64, VERDICT_RANGE},
        {1, 1, 1, VERDICT_OK},        {2, 1, 1, VERDICT_OK},
        {3, 1, 1, VERDICT_RANGE},     {256, 1, 8, VERDICT_OK},
        {257, 1, 8, VERDICT_RANGE},   {3583, 1, 64, VERDICT_OK},
        {3584, 1, 64, VERDICT_RANGE}, {2, 2, 64, VERDICT_OK},
    };
    uint8_t record[BIRTH_BYTES];
    struct commit out;
    (void)state;
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct commit c = list;
        struct stage_desc *s = &c.stages[0];
        s->n_hashes = cases[i].n_hashes;
        s->hash_bits = cases[i].bits;
        s->length = cases[i].n_pages * 4096;
        if (cases[i].n_pages == 1)
            s->digests_offset = 0;
        c.stages[1].n_entries = (uint32_t)cases[i].n_pages;
        c.stages[1].used_bytes = 8 * cases[i].n_pages;
        commit_encode(&c, SLOT_BIRTH, record);
        assert_int_equal(decode(record, &out).code, cases[i].code);
    }
}

static void a_list_has_one_header_page_and_may_have_a_name(void **state)
{
    struct identity id = an_identity(1), out;
    uint8_t bytes[IDENTITY_BYTES];
    (void)state;
    id.kind = KIND_LIST;
    id.name[0] = 'x';
    id.name_bytes = 1;
    identity_encode(&id, bytes);
    verdict_is(identity_decode(bytes, sizeof bytes, &out), VERDICT_OK, 0, "");
    id.header_pages = 3;
    identity_encode(&id, bytes);
    struct verdict v = identity_decode(bytes, sizeof bytes, &out);
    assert_int_equal(v.code, VERDICT_RANGE);
    assert_string_equal(v.field, "kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(rules_of_descriptors, set_up),
        cmocka_unit_test_setup(numbers_of_hashes, set_up),
        cmocka_unit_test_setup(a_list_has_one_header_page_and_may_have_a_name, set_up),
    };
    return cmocka_run_group_tests_name("list rules", tests, NULL, NULL);
}
