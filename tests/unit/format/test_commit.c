/* format/commit.h: what a commit record keeps, what later versions may add to it, and
 * that neither a bit flip goes unnoticed nor a hostile record does harm. */
#include "tests/unit/format/commit_records.h"

TEST(round_trips)
{
    struct commit (*const make[4])(void) = {an_open, a_sealed, a_birth, a_settled};
    for (size_t i = 0; i < 4; i++) {
        uint8_t record[SLOT_BYTES], again[SLOT_BYTES];
        struct commit in = make[i](), out;
        in.slot = world.slot;
        commit_encode(&in, world.slot, record);
        memset(&out, 0xff, sizeof out);
        verdict_is(decode(record, &out), VERDICT_OK, 0, "");
        assert_true(all_zero(&out.stages[2], (MAX_STAGES - 2) * sizeof out.stages[0]));
        commit_encode(&out, world.slot, again);
        assert_memory_equal(record, again, commit_slot_bytes(world.slot));
        assert_memory_equal(out.binding, in.binding, sizeof in.binding);
        assert_true(out.watermark == 77 && out.keys == 1500 && out.generation == 2);
        for (size_t k = 0; k < 2; k++) {
            assert_true(out.stages[k].target_error == in.stages[k].target_error);
            assert_true(out.stages[k].geometry.n_blocks ==
                        in.stages[k].geometry.n_blocks);
            assert_true(out.stages[k].root == in.stages[k].root);
            assert_true(out.stages[k].digests_offset == in.stages[k].digests_offset);
        }
    }
}

TEST(magic_and_places_are_fixed)
{
    uint8_t record[SLOT_BYTES];
    struct commit c = an_open();
    commit_encode(&c, SLOT_B, record);
    assert_memory_equal(record, "\x89TCR\r\n\x1a\n", 8);
    assert_memory_equal(record + 8, world.id.uuid, 16);
    assert_memory_equal(record + 24, "\x09\0\0\0\0\0\0\0", 8);
    assert_memory_equal(record + 88, "\x01\x01\0\x02\x05\0\0\0bind!\0", 14);
    assert_memory_equal(record + 248, "\0\x30\0\0\0\0\0\0", 8);
    assert_memory_equal(record + 376 + 80, "\x80\0\0\0\0\0\0\0", 8);
    IS(commit_slot_offset(SLOT_A), 4096);
    IS(commit_slot_offset(SLOT_B), 8192);
    IS(commit_slot_offset(SLOT_BIRTH), 2048);
}

/* All that a record can hold: thirty sealed stages, each with its three areas, and a
 * binding of 64 bytes. */
TEST(the_fullest_record_is_read)
{
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
    IS(out.binding_bytes, BINDING_MAX_BYTES);
    assert_memory_equal(out.binding, c.binding, sizeof c.binding);
    IS(out.stages[MAX_STAGES - 1].digests_offset, at - 4096);
    /* The last area of all counts, too. */
    c.stages[MAX_STAGES - 1].digests_offset = c.stages[0].offset;
    commit_encode(&c, SLOT_A, record);
    IS(decode(record, &out).code, VERDICT_OVERLAP);
}

TEST(features_may_use_unused_bytes)
{
    for (int word = 0; word < 2; word++) {
        uint8_t record[SLOT_BYTES];
        struct commit c = an_open();
        *(word ? &c.ro_compat : &c.compat) = UINT64_C(1) << 50;
        commit_encode(&c, SLOT_A, record);
        record[94] = record[247] = 9;
        record[AT(0, unused)] = record[AT(1, unused)] = record[AT(1, kind_unused)] = 9;
        verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
        /* They are part of what the digest of the table is of. */
        struct commit with, without;
        IS(decode(record, &with).code, VERDICT_OK);
        commit_encode(&c, SLOT_A, record);
        IS(decode(record, &without).code, VERDICT_OK);
        assert_true(commit_table_digest(&with) != commit_table_digest(&without));
        assert_true(commit_table_digest(&without) == commit_table_digest(&c));
        record[STAGES_OFFSET + 2 * STAGE_BYTES] = 9; /* but no unknown stage */
        verdict_is(reseal_decode(record), VERDICT_UNUSED, 504, "stages");
    }
}

static struct verdict decode_only(uint8_t *record)
{
    struct commit c;
    return decode(record, &c);
}

TEST(damage_is_seen)
{
    struct commit (*const make[2])(void) = {an_open, a_birth};
    for (size_t i = 0; i < 2; i++) {
        uint8_t record[SLOT_BYTES];
        struct commit c = make[i]();
        commit_encode(&c, world.slot, record);
        flips_show(record, commit_slot_bytes(world.slot), 0, decode_only);
    }
}

/* A catalog remembers the stage table of a sealed filter, and nothing else. */
TEST(table_digest_is_of_the_stages)
{
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
TEST(accepted_records_are_safe)
{
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
            end = c.stages[i].digests_offset;
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

RUN_TESTS(NULL, NULL)
