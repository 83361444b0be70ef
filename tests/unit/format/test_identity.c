/* format/identity.h: every rule of SPEC.md section 8.1, by a mutation of its own. */
#include "format/checksum.h"
#include "format/identity.h"
#include "tests/support/rules.h"

static struct identity growing(void)
{
    struct identity id = {
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .header_pages = 3,
        .kind = KIND_BLOOM,
        .hash_id = 1,
        .growth_rule = GROWTH_GEOMETRIC,
        .hash_seed = UINT64_C(0xfedcba9876543210),
        .target_error = 0.01,
        .growth_factor = 2,
        .tightening_ratio = 0.85,
        .first_capacity = 65536,
        .created = UINT64_C(1700000000123456),
        .name_bytes = 7,
        .name = "seg\xff-01",
    };
    for (uint8_t i = 0; i < UUID_BYTES; i++) {
        id.uuid[i] = (uint8_t)(0x10 + i);
        id.store_uuid[i] = (uint8_t)(0xa0 + i);
        id.set_id[i] = (uint8_t)(0xc0 + i);
    }
    return id;
}

static struct identity at_birth(void)
{
    struct identity id = growing();
    id.header_pages = 1;
    id.growth_rule = GROWTH_NONE;
    id.growth_factor = id.tightening_ratio = 0;
    id.first_capacity = 0;
    return id;
}

static struct verdict decode(uint8_t *record)
{
    struct identity id;
    memset(&id, 0xff, sizeof id);
    struct verdict v = identity_decode(record, IDENTITY_BYTES, &id);
    if (v.code != VERDICT_OK)
        assert_true(all_zero(&id, sizeof id));
    return v;
}

static struct verdict reseal_decode(uint8_t *record)
{
    checksum_set(record, IDENTITY_BYTES, 0);
    return decode(record);
}

static void hold(const struct rule *rules, size_t n, struct identity id)
{
    uint8_t record[IDENTITY_BYTES];
    identity_encode(&id, record);
    rules_hold(rules, n, record, sizeof record, reseal_decode);
}

static void same(const struct identity *want, const struct identity *got)
{
    uint8_t a[IDENTITY_BYTES], b[IDENTITY_BYTES];
    identity_encode(want, a);
    identity_encode(got, b);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(want->name, got->name, sizeof want->name);
    assert_true(want->hash_seed == got->hash_seed && want->created == got->created);
    assert_true(want->header_pages == got->header_pages);
    assert_true(want->tightening_ratio == got->tightening_ratio);
}

TEST(round_trips)
{
    struct identity in[3] = {growing(), at_birth(), at_birth()}, out;
    in[1].name_bytes = 0; /* built for no segment and no store */
    memset(in[1].name, 0, sizeof in[1].name);
    memset(in[1].store_uuid, 0, UUID_BYTES);
    in[2].name_bytes = 255;
    memset(in[2].name, 0xfe, 255);
    for (size_t i = 0; i < N_OF(in); i++) {
        uint8_t record[IDENTITY_BYTES];
        identity_encode(&in[i], record);
        verdict_is(identity_decode(record, sizeof record, &out), VERDICT_OK, 0, "");
        same(&in[i], &out);
    }
}

TEST(magic_and_places_are_fixed)
{
    uint8_t record[IDENTITY_BYTES];
    struct identity id = growing();
    identity_encode(&id, record);
    assert_memory_equal(record, "\x89TMF\r\n\x1a\n", 8);
    assert_memory_equal(record + 40, id.uuid, 16);
    assert_memory_equal(record + 56, id.store_uuid, 16);
    assert_memory_equal(record + 80, "\x10\x32\x54\x76\x98\xba\xdc\xfe", 8);
    assert_memory_equal(record + 128, "seg\xff-01\0", 8);
    assert_true(all_zero(record + 135, 896 - 135));
    assert_memory_equal(record + 896, id.set_id, 16);
    assert_true(all_zero(record + 912, 2040 - 912));
    IS(identity_header_bytes(&id), 12288);
}

#define R(member, value, code) RULE(struct identity_disk, member, value, VERDICT_##code)
#define B(at, member, value, code)                                                     \
    RULE_BYTE(at, struct identity_disk, member, value, VERDICT_##code)

TEST(rules_of_both)
{
    static const struct rule rules[] = {
        B(0, magic, 0x88, MAGIC),
        B(7, magic, 0, MAGIC),
        R(major, 0, VERSION),
        R(major, 2, VERSION),
        R(major, 0xffff, VERSION),
        R(incompat, 1, FLAGS),
        R(incompat, UINT64_C(1) << 63, FLAGS),
        R(header_pages, 0, RANGE),
        R(header_pages, 2, RANGE),
        R(header_pages, 4, RANGE),
        R(header_pages, UINT32_MAX, RANGE),
        R(uuid, 0, RANGE),
        R(kind, 0, KIND),
        R(kind, 9, KIND),
        R(hash_id, 0, KIND),
        R(hash_id, 2, KIND),
        ERRORS_OUTSIDE(R),
        R(name_bytes, 256, RANGE),
        R(name_bytes, 0xffff, RANGE),
        B(128 + 3, name, 0, RANGE),    /* NUL inside the name */
        B(128 + 7, name, 'x', UNUSED), /* after its end */
        B(128 + 255, name, 1, UNUSED), /* never part of a name */
        B(384, kind_area, 1, UNUSED),
        B(384 + 511, kind_area, 1, UNUSED),
        B(912, unused, 1, UNUSED),
        B(912 + 1127, unused, 0x80, UNUSED),
        R(growth_rule, 2, KIND),
        R(growth_rule, 0xffff, KIND),
        R(set_id, 0, RANGE),
    };
    hold(rules, N_OF(rules), growing());
    hold(rules, N_OF(rules), at_birth());
}

TEST(rules_of_growth)
{
    static const struct rule geometric[] = {GROWTH_OUTSIDE(R)};
    static const struct rule none[] = {
        R(growth_factor, 1, RANGE),
        R(growth_factor, UINT64_C(1) << 63, RANGE), /* -0.0 is not unused */
        R(growth_factor, F64_NAN, RANGE),
        R(tightening_ratio, F64_ONE_HALF, RANGE),
        R(tightening_ratio, UINT64_C(1) << 63, RANGE),
        R(first_capacity, 1, RANGE),
    };
    hold(geometric, N_OF(geometric), growing());
    hold(none, N_OF(none), at_birth());
    uint8_t record[IDENTITY_BYTES];
    struct identity id = growing();
    identity_encode(&id, record);
    /* A filter that grows has two slots; one that never grew may have them. */
    put_le(record + offsetof(struct identity_disk, header_pages), 4, 1);
    verdict_is(reseal_decode(record), VERDICT_RANGE, 76, "growth_rule");
    id = at_birth();
    identity_encode(&id, record);
    put_le(record + offsetof(struct identity_disk, header_pages), 4, 3);
    verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
}

TEST(limits_are_inclusive)
{
    static const struct rule inside[] = {LIMITS_INSIDE(R), R(store_uuid, 0, OK)};
    hold(inside, N_OF(inside), growing());
}

/* A feature that may be ignored may use bytes that we don't; one that may not be
 * ignored is refused whatever else is there. */
TEST(features_may_use_unused_bytes)
{
    struct identity id = growing();
    for (int word = 0; word < 2; word++) {
        uint8_t record[IDENTITY_BYTES];
        identity_encode(&id, record);
        put_le(record + (word ? offsetof(struct identity_disk, ro_compat)
                              : offsetof(struct identity_disk, compat)),
               8, UINT64_C(1) << 40);
        record[400] = record[2039] = 7;
        verdict_is(reseal_decode(record), VERDICT_OK, 0, "");
        record[128 + 200] = 7; /* the name's padding stays zero */
        verdict_is(reseal_decode(record), VERDICT_UNUSED, 128, "name");
    }
}

TEST(short_and_damaged)
{
    uint8_t record[IDENTITY_BYTES];
    struct identity id = growing(), out;
    identity_encode(&id, record);
    /* With the magic it is a filter cut short, without it no filter. */
    for (size_t n = 0; n < sizeof record; n += n < 8 ? 1 : 85) {
        memset(&out, 0xff, sizeof out);
        struct verdict v = identity_decode(record, n, &out);
        if (n < 8)
            verdict_is(v, VERDICT_MAGIC, 0, "magic");
        else
            verdict_is(v, VERDICT_SHORT, n, "identity");
        assert_true(all_zero(&out, sizeof out));
    }
    verdict_is(identity_decode((const uint8_t *)"some text", 9, &out), VERDICT_MAGIC, 0,
               "magic");
    verdict_is(identity_decode(record, 2047, &out), VERDICT_SHORT, 2047, "identity");
    flips_show(record, sizeof record, 2, decode);
    memset(record, 0, sizeof record);
    verdict_is(identity_decode(record, sizeof record, &out), VERDICT_MAGIC, 0, "magic");
}

TEST(names_have_limits)
{
    char name[257];
    memset(name, 'n', sizeof name);
    assert_false(segment_name_valid(name, 0));
    assert_true(segment_name_valid(name, 1));
    assert_true(segment_name_valid("\xff\xfe/../\n", 7));
    assert_true(segment_name_valid(name, 255));
    assert_false(segment_name_valid(name, 256));
    assert_false(segment_name_valid("a\0b", 3));
    /* No name, but bytes where one would be. */
    uint8_t record[IDENTITY_BYTES];
    struct identity id = growing();
    identity_encode(&id, record);
    put_le(record + offsetof(struct identity_disk, name_bytes), 2, 0);
    verdict_is(reseal_decode(record), VERDICT_UNUSED, 128, "name");
}

RUN_TESTS(NULL, NULL)
