/* Commit records of good filters, and where they stand while they are decoded: for the
 * tests of format/commit.h. */
#ifndef TAMIS_TESTS_COMMIT_RECORDS_H
#define TAMIS_TESTS_COMMIT_RECORDS_H

#include "format/area.h"
#include "format/checksum.h"
#include "format/commit.h"
#include "format/integrity.h"
#include "tests/support/rules.h"

/* Where a member of stage i is in a record. */
#define AT(i, member)                                                                  \
    (STAGES_OFFSET + (i)*STAGE_BYTES + offsetof(struct stage_disk, member))

/* Rules of the head, of stage i, and of the area in stage i's descriptor. */
#define R(member, value, code) RULE(struct commit_disk, member, value, VERDICT_##code)
#define B(at, member, value, code)                                                     \
    RULE_BYTE(at, struct commit_disk, member, value, VERDICT_##code)
#define S(i, member, value, code)                                                      \
    {                                                                                  \
        AT(i, member), sizeof(((struct stage_disk *)0)->member), (value),              \
            VERDICT_##code, AT(i, member), "stage." #member                            \
    }
#define AREA_AT(i, area, member)                                                       \
    (STAGES_OFFSET + (i)*STAGE_BYTES + AREA_OFFSET + offsetof(struct area, member))
#define AREA(i, area, member, value, code)                                             \
    {                                                                                  \
        AREA_AT(i, area, member), sizeof(((struct area *)0)->member), (value),         \
            VERDICT_##code, AREA_AT(i, area, member), "stage." #member                 \
    }
#define AREA_BYTE(i, area, byte)                                                       \
    {                                                                                  \
        AREA_AT(i, area, area_unused) + (byte), 1, 1, VERDICT_UNUSED,                  \
            AREA_AT(i, area, area_unused), "stage.area_unused"                         \
    }

/* Where a record stands while it is decoded: the filter and its file. */
static struct world {
    struct identity id;
    uint8_t slot;
    uint64_t available;
} world;

static inline struct identity an_identity(uint32_t header_pages)
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
        .uuid = "0123456789abcdef",
        .set_id = "set of the keys!",
    };
    return id;
}

/* Three good filters of two stages each: open, sealed from growing, sealed at
 * birth. Each also sets the world. */
static inline struct commit an_open(void)
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
static inline struct commit a_settled(void)
{
    struct commit c = an_open();
    c.n_settled = 1;
    c.stages[0].digests_offset = 13 * 4096;
    c.stages[0].root = UINT64_C(0xfedcba0987654321);
    world.available = c.committed_bytes = 14 * 4096;
    return c;
}

static inline struct commit a_sealed(void)
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
static inline struct commit a_birth(void)
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

static inline struct verdict decode(const uint8_t *record, struct commit *c)
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

static inline struct verdict reseal_decode(uint8_t *record)
{
    struct commit c;
    checksum_set(record, commit_slot_bytes(world.slot), 0);
    return decode(record, &c);
}

/* ---- rules ---- */

static inline void encoded_is(const struct commit *c, enum verdict_code code,
                              size_t offset, const char *field)
{
    uint8_t record[SLOT_BYTES];
    commit_encode(c, world.slot, record);
    verdict_is(reseal_decode(record), code, offset, field);
}

static inline void hold(const struct rule *rules, size_t n, struct commit c)
{
    uint8_t good[SLOT_BYTES];
    commit_encode(&c, world.slot, good);
    struct commit out;
    verdict_is(decode(good, &out), VERDICT_OK, 0, "");
    rules_hold(rules, n, good, commit_slot_bytes(world.slot), reseal_decode);
}

/* Each rule for itself. */
static inline void hold_each(const struct rule *rules, size_t n, struct commit c)
{
    for (size_t i = 0; i < n; i++)
        hold(&rules[i], 1, c);
}

/* ---- filters of another kind, sealed at birth ---- */

/* Three pages with digests behind the header, then two of a page each. */
static inline struct commit of_kind(uint16_t kind, uint8_t n_stages,
                                    const struct stage_desc *stages)
{
    static const uint64_t pages[] = {1, 5, 6};
    world = (struct world){an_identity(1), SLOT_BIRTH, (5 + (uint64_t)n_stages) * 4096};
    world.id.kind = kind;
    struct commit c = {
        .sequence = 1,
        .committed_bytes = world.available - 4096,
        .generation = 1,
        .state = STATE_SEALED,
        .clean = 1,
        .n_stages = n_stages,
    };
    for (size_t i = 0; i < n_stages; i++) {
        c.stages[i] = stages[i];
        c.stages[i].offset = pages[i] * 4096;
        c.stages[i].length = i ? 4096 : 3 * 4096;
        if (c.stages[i].target_error == 0)
            c.stages[i].target_error = 0.01;
    }
    c.stages[0].digests_offset = 4 * 4096;
    c.stages[0].root = 5;
    memcpy(c.uuid, world.id.uuid, UUID_BYTES);
    return c;
}

static inline struct commit decoded(const struct commit *c)
{
    uint8_t record[SLOT_BYTES];
    struct commit out;
    commit_encode(c, world.slot, record);
    verdict_is(decode(record, &out), VERDICT_OK, 0, "");
    return out;
}

/* Bytes that are not zero there may be a newer version's. */
static inline void is_a_later_versions(struct commit c, size_t at)
{
    uint8_t record[SLOT_BYTES];
    c.compat = UINT64_C(1) << 50;
    commit_encode(&c, world.slot, record);
    record[at] = 1;
    verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
}

/* An identity of these has this verdict; NULL: it is good. */
static inline void identity_is(struct identity id, uint16_t kind, uint16_t name_bytes,
                               const char *bad_field)
{
    struct identity out;
    uint8_t bytes[IDENTITY_BYTES];
    id.kind = kind;
    id.name[0] = 'x';
    id.name_bytes = name_bytes;
    if (kind == KIND_PACK)
        memset(id.set_id, 0, sizeof id.set_id);
    identity_encode(&id, bytes);
    struct verdict v = identity_decode(bytes, sizeof bytes, &out);
    IS(v.code, bad_field ? VERDICT_RANGE : VERDICT_OK);
    assert_string_equal(v.field, bad_field ? bad_field : "");
}

#endif
