/* Commit records of good filters, and where they stand while they are decoded: for the
 * tests of format/commit.h. */
#ifndef TAMIS_TESTS_COMMIT_RECORDS_H
#define TAMIS_TESTS_COMMIT_RECORDS_H

#include "format/checksum.h"
#include "format/commit.h"
#include "format/integrity.h"
#include "tests/support/rules.h"

/* Where a member of stage i is in a record. */
#define AT(i, member)                                                                  \
    (STAGES_OFFSET + (i)*STAGE_BYTES + offsetof(struct stage_disk, member))

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
    c.compat = COMMIT_COMPAT_SETTLED;
    c.n_settled = 1;
    c.stages[0].settled_offset = 13 * 4096;
    c.stages[0].settled_root = UINT64_C(0xfedcba0987654321);
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

#endif
