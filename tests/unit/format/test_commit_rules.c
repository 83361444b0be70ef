/* format/commit.h: every rule of SPEC.md sections 8.2 and 8.3 by a mutation of its own,
 * and what is just inside the limits. */
#include "tests/unit/format/commit_records.h"

/* A rule on areas: the verdict points at a stage's descriptor. */
#define A(at, value, code, stage, field)                                               \
    {                                                                                  \
        (at), 8, (value), VERDICT_##code, STAGES_OFFSET + (stage)*STAGE_BYTES, field   \
    }

TEST(rules_of_the_head)
{
    static const struct rule rules[] = {
        B(0, magic, 0, MAGIC),
        B(3, magic, 'M', MAGIC), /* an identity is no commit record */
        B(8, uuid, 0, IDENTITY),
        B(23, uuid, 0, IDENTITY),
        R(slot, SLOT_B, IDENTITY),
        R(slot, SLOT_BIRTH, IDENTITY),
        R(slot, 255, IDENTITY),
        R(incompat, 1, FLAGS),
        R(incompat, UINT64_C(1) << 63, FLAGS),
        R(sequence, 0, RANGE),
        R(generation, 0, RANGE),
        R(state, 0, RANGE),
        R(state, 3, RANGE),
        R(clean, 2, RANGE),
        R(n_stages, 0, RANGE),
        R(n_stages, 31, RANGE),
        R(n_stages, 255, RANGE),
        R(binding_bytes, 65, RANGE),
        R(binding_bytes, 255, RANGE),
        B(96 + 5, binding, 1, UNUSED),
        B(96 + 63, binding, 1, UNUSED),
        R(n_settled, 2, RANGE),
        B(94, unused_a, 1, UNUSED),
        B(95, unused_a, 1, UNUSED),
        B(160, unused_b, 1, UNUSED),
        B(247, unused_b, 1, UNUSED),
        R(committed_bytes, 13 * 4096 + 1, RANGE),
        R(committed_bytes, UINT64_MAX, RANGE),
        R(committed_bytes, 14 * 4096, SHORT),
        R(committed_bytes, UINT64_C(1) << 63, SHORT),
    };
    hold(rules, N_OF(rules), an_open());
    static const struct rule sealed[] = {R(clean, 0, RANGE), R(n_settled, 1, RANGE)};
    hold(sealed, N_OF(sealed), a_sealed());
    static const struct rule birth[] = {
        R(slot, SLOT_A, IDENTITY), R(state, STATE_OPEN, RANGE), R(clean, 0, RANGE),
        R(n_stages, 15, RANGE),    R(n_stages, 30, RANGE),
    };
    hold(birth, N_OF(birth), a_birth());
}

TEST(rules_of_a_stage)
{
#define RULES_OF(i)                                                                    \
    S(i, layout, 0, KIND), S(i, layout, 2, KIND), S(i, n_blocks, 0, RANGE),            \
        S(i, n_blocks, (UINT64_C(1) << 32) + 64, RANGE),                               \
        S(i, n_blocks, UINT64_C(1) << 60, RANGE),                                      \
        S(i, n_blocks, UINT64_C(1) << 58, RANGE), S(i, lanes, 0, RANGE),               \
        S(i, lanes, 5, RANGE), S(i, lanes, 255, RANGE), S(i, words, 0, RANGE),         \
        S(i, words, 9, RANGE), S(i, length, 0, RANGE), S(i, length, 4096, RANGE),      \
        S(i, length, UINT64_MAX, RANGE), S(i, offset, 0, RANGE),                       \
        S(i, offset, 12289, RANGE), S(i, offset, UINT64_MAX, RANGE),                   \
        S(i, target_error, F64_NAN, RANGE), S(i, target_error, F64_ZERO, RANGE),       \
        S(i, target_error, F64_MINUS_1, RANGE),                                        \
        S(i, target_error, UINT64_C(1) << 63, RANGE),                                  \
        S(i, target_error, F64_INF, RANGE), S(i, target_error, F64_ONE + 1, RANGE),    \
        S(i, bits_set, 6 * 32768 + 1, RANGE), S(i, bits_set, UINT64_MAX, RANGE),       \
        S(i, unused, 1, UNUSED), S(i, kind_unused, 1, UNUSED),                         \
        S(i, floors_offset, 0, RANGE), S(i, floors_offset, 20481, RANGE),              \
        S(i, digests_offset, 1, RANGE), S(i, digests_offset, 4096, RANGE),             \
        S(i, root, 1, RANGE)
    static const struct rule rules[] = {RULES_OF(0), RULES_OF(1)};
    hold(rules, N_OF(rules), an_open());

    static const struct rule sealed[] = {
        S(0, floors_offset, 1, RANGE), S(0, digests_offset, 0, RANGE),
        S(0, digests_offset, 1, RANGE), S(1, digests_offset, 0, RANGE)};
    hold(sealed, N_OF(sealed), a_sealed());

    static const struct rule birth[] = {
        S(0, floors_offset, 20480, RANGE), S(0, digests_offset, 16384, RANGE),
        S(1, floors_offset, 20480, RANGE), S(1, digests_offset, 0, RANGE)};
    hold(birth, N_OF(birth), a_birth());
}

TEST(rules_of_settled_stages)
{
    static const struct rule rules[] = {
        R(n_settled, 2, RANGE),
        R(n_settled, 255, RANGE),
        S(0, unused, 1, UNUSED),
        S(0, digests_offset, 0, RANGE),
        S(0, digests_offset, 1, RANGE),
        {93, 1, 0, VERDICT_RANGE, AT(0, digests_offset), "stage.digests_offset"},
        S(1, digests_offset, 1, RANGE),
        S(1, digests_offset, 4096, RANGE),
        S(1, root, 1, RANGE),
    };
    hold(rules, N_OF(rules), a_settled());
    /* A page needs no digests but its root. */
    struct commit c = a_settled();
    c.stages[0].geometry.lanes = 1;
    c.stages[0].length = 4096;
    encoded_is(&c, VERDICT_RANGE, AT(0, digests_offset), "stage.digests_offset");
    c.stages[0].digests_offset = 0;
    encoded_is(&c, VERDICT_OK, 0, "");
}

/* Without a rule to grow by a record in slot A or B is sealed, floors or not. */
TEST(what_never_grew_is_sealed)
{
    struct commit c = a_sealed(), out;
    uint8_t record[SLOT_BYTES];
    world.id.growth_rule = GROWTH_NONE;
    c.stages[0].floors_offset = c.stages[1].floors_offset = 0;
    commit_encode(&c, world.slot, record);
    verdict_is(decode(record, &out), VERDICT_OK, 0, "");
    c = an_open();
    world.id.growth_rule = GROWTH_NONE;
    commit_encode(&c, world.slot, record);
    verdict_is(decode(record, &out), VERDICT_RANGE, 89, "state");
}

TEST(rules_of_the_tail)
{
    enum { TAIL = STAGES_OFFSET + 2 * STAGE_BYTES };
    static const struct rule rules[] = {
        {TAIL, 1, 1, VERDICT_UNUSED, TAIL, "stages"},
        {SLOT_BYTES - 9, 1, 0x80, VERDICT_UNUSED, TAIL, "stages"},
    };
    hold(rules, N_OF(rules), an_open());
    static const struct rule birth[] = {
        {BIRTH_BYTES - 9, 1, 0x80, VERDICT_UNUSED, TAIL, "stages"},
    };
    hold(birth, N_OF(birth), a_birth());
}

TEST(rules_of_areas)
{
    enum { COMMITTED = offsetof(struct commit_disk, committed_bytes) };
    static const struct rule rules[] = {
        A(COMMITTED, 0, SHORT, 0, "header"),
        A(COMMITTED, 2 * 4096, SHORT, 0, "header"),
        A(AT(0, offset), 13 * 4096, SHORT, 0, "stage.offset"),
        A(AT(0, offset), UINT64_MAX - 4095, SHORT, 0, "stage.offset"),
        A(AT(0, offset), UINT64_C(1) << 63, SHORT, 0, "stage.offset"),
        A(AT(0, offset), 2 * 4096, OVERLAP, 0, "stage.offset"),
        A(AT(0, floors_offset), UINT64_MAX - 4095, SHORT, 0, "stage.floors_offset"),
        A(AT(0, floors_offset), 13 * 4096, SHORT, 0, "stage.floors_offset"),
        A(AT(0, floors_offset), 1 * 4096, OVERLAP, 0, "stage.floors_offset"),
        A(AT(0, floors_offset), 4 * 4096, OVERLAP, 0, "stage.floors_offset"),
        A(AT(0, offset), 4 * 4096, OVERLAP, 0, "stage.floors_offset"),
        A(COMMITTED, 11 * 4096, SHORT, 1, "stage.offset"),
        A(AT(1, offset), 8 * 4096, SHORT, 1, "stage.offset"),
        A(AT(1, offset), UINT64_MAX - 4095, SHORT, 1, "stage.offset"),
        A(AT(1, offset), 5 * 4096, OVERLAP, 1, "stage.offset"),
        A(AT(1, offset), 3 * 4096, OVERLAP, 1, "stage.offset"),
        A(COMMITTED, 12 * 4096, SHORT, 1, "stage.floors_offset"),
        A(AT(1, floors_offset), 5 * 4096, OVERLAP, 1, "stage.floors_offset"),
        A(AT(1, floors_offset), 11 * 4096, OVERLAP, 1, "stage.floors_offset"),
        {AT(0, n_blocks), 8, 32, VERDICT_RANGE, AT(0, length), "stage.length"},
        {AT(0, n_blocks), 8, 65, VERDICT_RANGE, AT(0, length), "stage.length"},
    };
    hold_each(rules, N_OF(rules), an_open());
    static const struct rule sealed[] = {
        A(AT(0, digests_offset), 15 * 4096, SHORT, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 1 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 5 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(1, digests_offset), 13 * 4096, OVERLAP, 1, "stage.digests_offset"),
    };
    hold_each(sealed, N_OF(sealed), a_sealed());
    static const struct rule settled[] = {
        A(AT(0, digests_offset), 14 * 4096, SHORT, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), UINT64_MAX - 4095, SHORT, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 2 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 3 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 5 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(1, offset), 8 * 4096, OVERLAP, 1, "stage.offset"),
    };
    hold_each(settled, N_OF(settled), a_settled());
    /* A sound but enormous stage in a small file: 2^32 blocks, 4 lanes. */
    struct commit c = an_open();
    c.stages[1].geometry = (struct geometry){MAX_BLOCKS, 4, 8};
    c.stages[1].length = UINT64_C(1) << 40;
    encoded_is(&c, VERDICT_SHORT, 376, "stage.offset");
}

TEST(limits_are_inclusive)
{
    static const struct rule inside[] = {
        S(0, bits_set, 2 * 32768, OK),
        S(0, n_blocks, 33, OK), /* 66 blocks have two pages, 64 have one */
        S(0, target_error, F64_ONE, OK),
        S(0, target_error, 1, OK),
        S(0, keys, UINT64_MAX, OK),
        S(0, capacity, 0, OK),
        S(0, words, 8, OK),
        R(watermark, UINT64_MAX, OK),
        R(keys, 0, OK),
        R(sequence, UINT64_MAX, OK),
        R(generation, UINT64_MAX, OK),
        R(clean, 1, OK),
        R(compat, UINT64_MAX, OK),
        R(ro_compat, UINT64_MAX, OK),
    };
    hold(inside, N_OF(inside), an_open());
    /* Thirty stages fill a slot, fourteen the half page. */
    for (int birth = 0; birth < 2; birth++) {
        struct commit c = birth ? a_birth() : an_open();
        uint64_t at = birth ? 4096 : 3 * 4096;
        c.n_stages = birth ? MAX_BIRTH_STAGES : MAX_STAGES;
        for (size_t i = 0; i < c.n_stages; i++, at += birth ? 4096 : 8192) {
            c.stages[i] = c.stages[0];
            c.stages[i].geometry.lanes = 1;
            c.stages[i].length = 4096;
            c.stages[i].offset = at;
            c.stages[i].floors_offset = birth ? 0 : at + 4096;
        }
        world.available = c.committed_bytes = at;
        encoded_is(&c, VERDICT_OK, 0, "");
    }
}

RUN_TESTS(NULL, NULL)
