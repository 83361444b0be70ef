/* format/commit.h: every rule of SPEC.md sections 9.2 and 9.3 by a mutation of its
 * own, the choice between slots, and no bit flip that goes unnoticed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "format/checksum.h"
#include "format/commit.h"
#include "format/integrity.h"
#include "tests/support/rules.h"

/* Where a record stands while it is decoded: the filter and its file. */
static struct world {
    struct identity id;
    uint8_t slot;
    uint64_t available;
} world;

static struct identity an_identity(uint32_t header_pages)
{
    struct identity id = {
        .major = FORMAT_MAJOR,
        .header_pages = header_pages,
        .kind = KIND_BLOOM,
        .hash_id = 1,
        .growth_rule = header_pages == 1 ? GROWTH_NONE : GROWTH_GEOMETRIC,
        .target_error = 0.01,
        .growth_factor = header_pages == 1 ? 0 : 2,
        .tightening_ratio = header_pages == 1 ? 0 : 0.85,
        .first_capacity = header_pages == 1 ? 0 : 1000,
    };
    for (uint8_t i = 0; i < UUID_BYTES; i++)
        id.uuid[i] = (uint8_t)(0x10 + i);
    return id;
}

/* Three good filters of two stages each: open, sealed from growing, sealed at
 * birth. Each also sets the world. */
static struct commit an_open(void)
{
    world = (struct world){an_identity(3), SLOT_A, 13 * 4096 + 100};
    struct commit c = {
        .sequence = 9,
        .keys = 1500,
        .watermark = 77,
        .committed_bytes = 13 * 4096,
        .generation = 2,
        .state = STATE_OPEN,
        .n_stages = 2,
        .binding_bytes = 5,
        .binding = "bind!",
        .stages = {{.offset = 3 * 4096,
                    .length = 2 * 4096,
                    .capacity = 1000,
                    .keys = 1000,
                    .target_error = 0.0015,
                    .floors_offset = 5 * 4096,
                    .layout = LAYOUT_SPLIT_BLOCKS,
                    .bits_set = 4444,
                    .geometry = {64, 2, 5}},
                   {.offset = 6 * 4096,
                    .length = 6 * 4096,
                    .capacity = 2000,
                    .keys = 500,
                    .target_error = 0.001,
                    .floors_offset = 12 * 4096,
                    .layout = LAYOUT_SPLIT_BLOCKS,
                    .geometry = {128, 3, 4}}},
    };
    memcpy(c.uuid, world.id.uuid, UUID_BYTES);
    return c;
}

/* The same with digests of the first stage, which a second has left behind. */
static struct commit a_settled(void)
{
    struct commit c = an_open();
    c.compat = COMMIT_COMPAT_SETTLED;
    c.n_settled = 1;
    c.stages[0].settled_offset = 13 * 4096;
    c.stages[0].settled_root = UINT64_C(0xfedcba0987654321);
    world.available = c.committed_bytes = 14 * 4096;
    return c;
}

static struct commit a_sealed(void)
{
    struct commit c = an_open();
    world.available = c.committed_bytes = 15 * 4096;
    c.state = STATE_SEALED;
    c.clean = 1;
    c.stages[0].digests_offset = 13 * 4096;
    c.stages[1].digests_offset = 14 * 4096;
    c.stages[0].root = c.stages[1].root = UINT64_C(0x1234567890abcdef);
    return c;
}

/* The first stage is a single page: it needs no digests but its root. */
static struct commit a_birth(void)
{
    struct commit c = a_sealed();
    world = (struct world){an_identity(1), SLOT_BIRTH, 5 * 4096};
    c.committed_bytes = 5 * 4096;
    c.stages[0].offset = 1 * 4096;
    c.stages[0].length = 1 * 4096;
    c.stages[0].geometry.lanes = 1;
    c.stages[1].offset = 2 * 4096;
    c.stages[1].length = 2 * 4096;
    c.stages[1].geometry.lanes = 1;
    c.stages[1].digests_offset = 4 * 4096;
    c.stages[0].floors_offset = c.stages[1].floors_offset = 0;
    c.stages[0].digests_offset = 0;
    return c;
}

static struct verdict decode(const uint8_t *record, struct commit *c)
{
    uint64_t sequence;
    struct verdict v = commit_frame(record, world.slot, &world.id, &sequence);
    if (v.code != VERDICT_OK) {
        assert_true(sequence == 0);
        return v;
    }
    v = commit_decode(record, world.slot, &world.id, world.available, c);
    assert_true(v.code == VERDICT_OK ? c->sequence == sequence
                                     : all_zero(c, sizeof *c));
    return v;
}

static struct verdict reseal_decode(uint8_t *record)
{
    struct commit c;
    checksum_set(record, commit_slot_bytes(world.slot), 0);
    return decode(record, &c);
}

static void hold(const struct rule *rules, size_t n, struct commit c)
{
    uint8_t good[SLOT_BYTES];
    commit_encode(&c, world.slot, good);
    struct commit out;
    verdict_is(decode(good, &out), VERDICT_OK, 0, "");
    rules_hold(rules, n, good, commit_slot_bytes(world.slot), reseal_decode);
}

#define R(member, value, code) RULE(struct commit_disk, member, value, VERDICT_##code)
#define B(at, member, value, code)                                                     \
    RULE_BYTE(at, struct commit_disk, member, value, VERDICT_##code)
#define AT(i, member)                                                                  \
    (STAGES_OFFSET + (i)*STAGE_BYTES + offsetof(struct stage_disk, member))
#define S(i, member, value, code)                                                      \
    {                                                                                  \
        AT(i, member), sizeof(((struct stage_disk *)0)->member), (value),              \
            VERDICT_##code, AT(i, member), "stage." #member                            \
    }
/* A rule on areas: the verdict points at a stage's descriptor. */
#define A(at, value, code, stage, field)                                               \
    {                                                                                  \
        (at), 8, (value), VERDICT_##code, STAGES_OFFSET + (stage)*STAGE_BYTES, field   \
    }

static void round_trips(void **state)
{
    (void)state;
    struct commit (*const make[4])(void) = {an_open, a_sealed, a_birth, a_settled};
    for (size_t i = 0; i < 4; i++) {
        uint8_t record[SLOT_BYTES], again[SLOT_BYTES];
        struct commit in = make[i](), out;
        in.slot = world.slot;
        commit_encode(&in, world.slot, record);
        verdict_is(decode(record, &out), VERDICT_OK, 0, "");
        commit_encode(&out, world.slot, again);
        assert_memory_equal(record, again, commit_slot_bytes(world.slot));
        assert_memory_equal(out.binding, in.binding, sizeof in.binding);
        assert_true(out.watermark == 77 && out.keys == 1500 && out.generation == 2);
        for (size_t k = 0; k < 2; k++) {
            assert_true(out.stages[k].target_error == in.stages[k].target_error);
            assert_true(out.stages[k].geometry.n_blocks ==
                        in.stages[k].geometry.n_blocks);
            assert_true(out.stages[k].root == in.stages[k].root);
            assert_true(out.stages[k].settled_offset == in.stages[k].settled_offset);
            assert_true(out.stages[k].settled_root == in.stages[k].settled_root);
        }
    }
}

static void magic_and_places_are_fixed(void **state)
{
    (void)state;
    uint8_t record[SLOT_BYTES];
    struct commit c = an_open();
    commit_encode(&c, SLOT_B, record);
    assert_memory_equal(record, "\x89TCR\r\n\x1a\n", 8);
    assert_memory_equal(record + 8, world.id.uuid, 16);
    assert_memory_equal(record + 24, "\x09\0\0\0\0\0\0\0", 8);
    assert_memory_equal(record + 88, "\x01\x01\0\x02\x05\0\0\0bind!\0", 14);
    assert_memory_equal(record + 248, "\0\x30\0\0\0\0\0\0", 8);
    assert_memory_equal(record + 376 + 80, "\x80\0\0\0\0\0\0\0", 8);
    assert_int_equal(commit_slot_offset(SLOT_A), 4096);
    assert_int_equal(commit_slot_offset(SLOT_B), 8192);
    assert_int_equal(commit_slot_offset(SLOT_BIRTH), 2048);
}

static void rules_of_the_head(void **state)
{
    (void)state;
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
        R(n_settled, 1, UNUSED),
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
    static const struct rule sealed[] = {R(clean, 0, RANGE)};
    hold(sealed, N_OF(sealed), a_sealed());
    static const struct rule birth[] = {
        R(slot, SLOT_A, IDENTITY), R(state, STATE_OPEN, RANGE), R(clean, 0, RANGE),
        R(n_stages, 15, RANGE),    R(n_stages, 30, RANGE),
    };
    hold(birth, N_OF(birth), a_birth());
}

static void rules_of_a_stage(void **state)
{
    (void)state;
#define RULES_OF(i)                                                                    \
    S(i, layout, 0, KIND), S(i, layout, 2, KIND), S(i, n_blocks, 0, RANGE),            \
        S(i, n_blocks, 1, RANGE), S(i, n_blocks, 65, RANGE),                           \
        S(i, n_blocks, (UINT64_C(1) << 32) + 64, RANGE),                               \
        S(i, n_blocks, UINT64_C(1) << 60, RANGE),                                      \
        S(i, n_blocks, UINT64_C(1) << 58, RANGE), S(i, lanes, 0, RANGE),               \
        S(i, lanes, 5, RANGE), S(i, lanes, 255, RANGE), S(i, words, 0, RANGE),         \
        S(i, words, 9, RANGE), S(i, length, 0, RANGE), S(i, length, 4096, RANGE),      \
        S(i, length, UINT64_MAX, RANGE), S(i, offset, 0, RANGE),                       \
        S(i, offset, 12289, RANGE), S(i, offset, UINT64_MAX, RANGE),                   \
        S(i, target_error, F64_NAN, RANGE), S(i, target_error, F64_ZERO, RANGE),       \
        S(i, target_error, F64_MINUS_1, RANGE),                                        \
        S(i, target_error, F64_ONE + 1, RANGE), S(i, bits_set, 6 * 32768 + 1, RANGE),  \
        S(i, bits_set, UINT64_MAX, RANGE), S(i, settled_page, 1, UNUSED),              \
        S(i, settled_root, 1, UNUSED), S(i, kind_unused, 1, UNUSED),                   \
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

static void rules_of_settled_stages(void **state)
{
    (void)state;
    enum { COMPAT = offsetof(struct commit_disk, compat) };
    static const struct rule rules[] = {
        R(n_settled, 2, RANGE),
        R(n_settled, 255, RANGE),
        {COMPAT, 8, 0, VERDICT_UNUSED, 93, "n_settled"},
        B(94, unused_a, 1, UNUSED),
        S(0, settled_page, 0, RANGE),
        S(1, settled_page, 1, UNUSED),
        S(1, settled_page, UINT64_C(1) << 47, UNUSED),
        S(1, settled_root, UINT64_C(1) << 63, UNUSED),
        S(1, root, 1, RANGE),
    };
    hold(rules, N_OF(rules), a_settled());
    /* None settled, whatever the bit says; and no stage that is not there. */
    static const struct rule unsettled[] = {R(n_settled, 0, UNUSED)};
    struct commit c = a_settled();
    uint8_t record[SLOT_BYTES];
    commit_encode(&c, SLOT_A, record);
    rule_apply(&unsettled[0], record);
    verdict_is(reseal_decode(record), VERDICT_UNUSED, AT(0, settled_page),
               "stage.settled_page");
    c = an_open();
    c.compat = COMMIT_COMPAT_SETTLED;
    commit_encode(&c, SLOT_A, record);
    verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
    c = a_sealed();
    c.compat = COMMIT_COMPAT_SETTLED;
    c.n_settled = 1;
    commit_encode(&c, SLOT_A, record);
    verdict_is(reseal_decode(record), VERDICT_RANGE, 93, "n_settled");
    /* A page needs no digests but its root. */
    c = a_settled();
    c.stages[0].geometry.lanes = 1;
    c.stages[0].length = 4096;
    commit_encode(&c, SLOT_A, record);
    verdict_is(reseal_decode(record), VERDICT_RANGE, AT(0, settled_page),
               "stage.settled_page");
    c.stages[0].settled_offset = 0;
    commit_encode(&c, SLOT_A, record);
    verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
    /* With a bit that is not known the bytes that settle nothing are another's. */
    c = a_settled();
    c.compat |= UINT64_C(1) << 9;
    commit_encode(&c, SLOT_A, record);
    record[AT(1, settled_page)] = record[AT(1, settled_root)] = record[94] = 9;
    checksum_set(record, SLOT_BYTES, 0);
    assert_int_equal(decode(record, &c).code, VERDICT_OK);
    assert_true(c.n_settled == 1 && c.stages[0].settled_offset == 13 * 4096);
    assert_true(c.stages[1].settled_offset == 0 && c.stages[1].settled_root == 0);
}

/* Without a rule to grow by a record in slot A or B is sealed, floors or not. */
static void what_never_grew_is_sealed(void **state)
{
    (void)state;
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

static void rules_of_the_tail(void **state)
{
    (void)state;
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

static void rules_of_areas(void **state)
{
    (void)state;
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
    };
    for (size_t i = 0; i < N_OF(rules); i++)
        hold(&rules[i], 1, an_open());
    static const struct rule sealed[] = {
        A(AT(0, digests_offset), 15 * 4096, SHORT, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 1 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(0, digests_offset), 5 * 4096, OVERLAP, 0, "stage.digests_offset"),
        A(AT(1, digests_offset), 13 * 4096, OVERLAP, 1, "stage.digests_offset"),
    };
    for (size_t i = 0; i < N_OF(sealed); i++)
        hold(&sealed[i], 1, a_sealed());
#define P(value, code)                                                                 \
    {                                                                                  \
        AT(0, settled_page), 6, value, VERDICT_##code, STAGES_OFFSET,                  \
            "stage.settled_page"                                                       \
    }
    static const struct rule settled[] = {
        P(14, SHORT),  P(UINT64_C(0xffffffffffff), SHORT),
        P(2, OVERLAP), P(3, OVERLAP),
        P(5, OVERLAP), A(AT(1, offset), 8 * 4096, OVERLAP, 1, "stage.offset"),
    };
    for (size_t i = 0; i < N_OF(settled); i++)
        hold(&settled[i], 1, a_settled());
    /* A sound but enormous stage in a small file: 2^32 blocks, 4 lanes. */
    struct commit c = an_open();
    c.stages[1].geometry = (struct geometry){MAX_BLOCKS, 4, 8};
    c.stages[1].length = UINT64_C(1) << 40;
    uint8_t record[SLOT_BYTES];
    commit_encode(&c, SLOT_A, record);
    verdict_is(reseal_decode(record), VERDICT_SHORT, 376, "stage.offset");
}

static void limits_are_inclusive(void **state)
{
    (void)state;
    static const struct rule inside[] = {
        S(0, bits_set, 2 * 32768, OK),
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
    for (size_t i = 0; i < N_OF(inside); i++) {
        uint8_t record[SLOT_BYTES];
        struct commit c = an_open();
        commit_encode(&c, SLOT_A, record);
        rule_apply(&inside[i], record);
        verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
    }
    /* Thirty stages fill a slot, fourteen the half page. */
    for (int birth = 0; birth < 2; birth++) {
        uint8_t record[SLOT_BYTES];
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
        commit_encode(&c, world.slot, record);
        verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
    }
}

/* All that a record can hold: thirty sealed stages, each with its three areas, and a
 * binding of 64 bytes. */
static void the_fullest_record_is_read(void **state)
{
    (void)state;
    uint8_t record[SLOT_BYTES];
    struct commit out, c = a_sealed();
    uint64_t at = 3 * 4096;
    c.n_stages = MAX_STAGES;
    for (size_t i = 0; i < c.n_stages; i++, at += 4 * 4096) {
        c.stages[i] = c.stages[0];
        c.stages[i].offset = at;
        c.stages[i].floors_offset = at + 2 * 4096;
        c.stages[i].digests_offset = at + 3 * 4096;
    }
    world.available = c.committed_bytes = at;
    c.binding_bytes = BINDING_MAX_BYTES;
    memset(c.binding, 0xb1, sizeof c.binding);
    commit_encode(&c, SLOT_A, record);
    memset(&out, 0xff, sizeof out);
    verdict_is(decode(record, &out), VERDICT_OK, 0, "");
    assert_int_equal(out.binding_bytes, BINDING_MAX_BYTES);
    assert_memory_equal(out.binding, c.binding, sizeof c.binding);
    assert_int_equal(out.stages[MAX_STAGES - 1].digests_offset, at - 4096);
    /* The last area of all counts, too. */
    c.stages[MAX_STAGES - 1].digests_offset = c.stages[0].offset;
    commit_encode(&c, SLOT_A, record);
    assert_int_equal(decode(record, &out).code, VERDICT_OVERLAP);
}

static void what_a_record_lacks_is_zero(void **state)
{
    (void)state;
    uint8_t record[SLOT_BYTES];
    struct commit out, c = an_open();
    commit_encode(&c, SLOT_A, record);
    memset(&out, 0xff, sizeof out);
    verdict_is(decode(record, &out), VERDICT_OK, 0, "");
    assert_true(all_zero(&out.stages[c.n_stages],
                         (MAX_STAGES - c.n_stages) * sizeof c.stages[0]));
}

static void features_may_use_unused_bytes(void **state)
{
    (void)state;
    for (int word = 0; word < 2; word++) {
        uint8_t record[SLOT_BYTES];
        struct commit c = an_open();
        *(word ? &c.ro_compat : &c.compat) = UINT64_C(1) << 50;
        commit_encode(&c, SLOT_A, record);
        record[93] = record[247] = 9;
        record[AT(0, settled_page)] = record[AT(1, settled_root)] =
            record[AT(1, kind_unused)] = 9;
        verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
        /* They are part of what the digest of the table is of. */
        struct commit with, without;
        assert_int_equal(decode(record, &with).code, VERDICT_OK);
        commit_encode(&c, SLOT_A, record);
        assert_int_equal(decode(record, &without).code, VERDICT_OK);
        assert_true(commit_table_digest(&with) != commit_table_digest(&without));
        assert_true(commit_table_digest(&without) == commit_table_digest(&c));
        record[STAGES_OFFSET + 2 * STAGE_BYTES] = 9; /* but no unknown stage */
        verdict_is(reseal_decode(record), VERDICT_UNUSED, 504, "stages");
    }
}

static void damage_is_seen(void **state)
{
    (void)state;
    struct commit (*const make[2])(void) = {an_open, a_birth};
    for (size_t i = 0; i < 2; i++) {
        uint8_t record[SLOT_BYTES];
        struct commit c = make[i](), out;
        size_t n = commit_slot_bytes(world.slot);
        commit_encode(&c, world.slot, record);
        for (size_t bit = 0; bit < n * 8; bit++) {
            record[bit / 8] ^= (uint8_t)(1U << (bit % 8));
            struct verdict v = decode(record, &out);
            if (bit / 8 < 8)
                verdict_is(v, VERDICT_MAGIC, 0, "magic");
            else
                verdict_is(v, VERDICT_CHECKSUM, n - 8, "checksum");
            record[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        }
    }
}

/* What a catalog remembers of a sealed filter is the stage table and nothing else. */
static void table_digest_is_of_the_stages(void **state)
{
    (void)state;
    uint8_t record[SLOT_BYTES];
    struct commit c = a_sealed();
    commit_encode(&c, SLOT_A, record);
    uint64_t digest = commit_table_digest(&c);
    assert_true(digest == XXH3_64bits(record + STAGES_OFFSET, 2 * STAGE_BYTES));
    c.sequence++, c.watermark++, c.generation++, c.keys++;
    assert_true(commit_table_digest(&c) == digest);
    c.stages[1].root ^= 1;
    assert_true(commit_table_digest(&c) != digest);
    c.stages[1].root ^= 1;
    c.n_stages = 1;
    assert_true(commit_table_digest(&c) != digest);
}

/* Hostile records: whatever is accepted lies inside the file, apart from all else,
 * with a geometry that can be probed. */
static void accepted_records_are_safe(void **state)
{
    (void)state;
    static const uint64_t values[] = {
        0,     1,     2,     3,     4,          8,          31,         64,
        4096,  8192,  12288, 20480, UINT64_MAX, 1ULL << 63, 1ULL << 32, 1ULL << 60,
        24576, 53248, 65,    255,   1ULL << 40, 128};
    uint64_t seed = 1;
    size_t n_accepted = 0;
    for (size_t round = 0; round < 100000; round++) {
        uint8_t record[SLOT_BYTES];
        struct commit c = round % 2       ? an_open()
                          : round % 4 / 2 ? a_sealed()
                                          : a_settled();
        commit_encode(&c, SLOT_A, record);
        for (size_t k = 0; k <= round % 3; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            size_t at = 24 + (seed >> 33) % (504 - 24 - 8);
            put_le(record + at, 1U << (seed >> 20 & 3),
                   values[(seed >> 40) % N_OF(values)]);
        }
        checksum_set(record, SLOT_BYTES, 0);
        if (decode(record, &c).code != VERDICT_OK)
            continue;
        n_accepted++;
        assert_in_range(c.n_stages, 1, MAX_STAGES);
        for (size_t i = 0; i < c.n_stages; i++) {
            uint64_t n, end = 0;
            assert_true(geometry_valid(&c.stages[i].geometry));
            assert_true(geometry_bytes(&c.stages[i].geometry, &n));
            assert_true(add_u64(c.stages[i].offset, n, &end));
            assert_true(end <= world.available && c.stages[i].offset >= 12288);
            end = commit_has_digests(&c, i) ? commit_stage(&c, i).digests_offset : 0;
            assert_true(end == 0 || end >= 12288);
            assert_true(end + (end ? digests_bytes(n / PAGE_BYTES) : 0) <=
                        world.available);
            n = floors_bytes(n / PAGE_BYTES);
            if (c.state == STATE_SEALED && c.stages[i].floors_offset == 0)
                continue;
            assert_true(c.stages[i].floors_offset >= 12288);
            assert_true(c.stages[i].floors_offset + n <= world.available);
        }
    }
    assert_true(n_accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(magic_and_places_are_fixed),
        cmocka_unit_test(rules_of_the_head),
        cmocka_unit_test(rules_of_a_stage),
        cmocka_unit_test(rules_of_settled_stages),
        cmocka_unit_test(what_never_grew_is_sealed),
        cmocka_unit_test(rules_of_the_tail),
        cmocka_unit_test(rules_of_areas),
        cmocka_unit_test(limits_are_inclusive),
        cmocka_unit_test(the_fullest_record_is_read),
        cmocka_unit_test(what_a_record_lacks_is_zero),
        cmocka_unit_test(features_may_use_unused_bytes),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(table_digest_is_of_the_stages),
        cmocka_unit_test(accepted_records_are_safe),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
