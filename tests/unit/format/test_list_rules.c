/* The descriptors of a list: every rule of SPEC.md section 18.2 by a mutation of its
 * own, and what is just inside the limits. */
#include "tests/unit/format/commit_records.h"

static struct commit list;

static int set_up(void **state)
{
    static const struct stage_desc stages[] = {
        {.layout = LAYOUT_HASHES, .n_hashes = 700, .hash_bits = 30},
        {.target_error = 1,
         .layout = LAYOUT_TABLE,
         .used_bytes = 24,
         .n_entries = 3,
         .content = CONTENT_FIRSTS}};
    list = of_kind(KIND_LIST, 2, stages);
    return 0;
}

TEST_WITH(set_up, NULL, rules_of_descriptors)
{
    static const struct rule rules[] = {
        R(n_stages, 1, RANGE),
        R(n_stages, 3, RANGE),
        S(0, layout, 1, KIND),
        S(0, layout, 6, KIND),
        S(0, length, 0, RANGE),
        S(0, length, 4097, RANGE),
        S(0, length, (UINT64_C(1) << 40) + 4096, RANGE),
        AREA(0, hashes_area_disk, hash_bits, 0, RANGE),
        AREA(0, hashes_area_disk, hash_bits, 65, RANGE),
        AREA(0, hashes_area_disk, n_hashes, 0, RANGE),
        AREA(0, hashes_area_disk, n_hashes, 2, RANGE),
        AREA(0, hashes_area_disk, n_hashes, 3 * 3583 + 1, RANGE),
        AREA(0, hashes_area_disk, n_hashes, UINT64_MAX, RANGE),
        AREA_BYTE(0, hashes_area_disk, 38),
        S(1, layout, 5, KIND),
        AREA(1, table_area_disk, content, 1, KIND),
        AREA(1, table_area_disk, n_entries, 2, RANGE),
        AREA(1, table_area_disk, used_bytes, 16, RANGE),
        AREA(1, table_area_disk, used_bytes, 25, RANGE),
        S(1, length, 8192, RANGE),
        S(1, unused, 1, UNUSED),
        AREA_BYTE(1, table_area_disk, 33),
        S(1, digests_offset, 6 * 4096, RANGE),
    };
    struct commit out = decoded(&list);
    assert_true(out.stages[0].n_hashes == 700 && out.stages[0].hash_bits == 30);
    assert_true(out.stages[1].used_bytes == 24 && out.stages[1].content == 4);
    hold_each(rules, N_OF(rules), list);
    is_a_later_versions(list, AREA_AT(0, hashes_area_disk, area_unused));
}

TEST_WITH(set_up, NULL, numbers_of_hashes)
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
        IS(decode(record, &out).code, cases[i].code);
    }
}

TEST(a_list_has_one_header_page_and_may_have_a_name)
{
    struct identity id = an_identity(1);
    identity_is(id, KIND_LIST, 1, NULL);
    id.header_pages = 3;
    identity_is(id, KIND_LIST, 1, "kind");
}

RUN_TESTS(NULL, NULL)
