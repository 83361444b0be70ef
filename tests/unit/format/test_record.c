/* format/record.h: catalog records, every rule of SPEC.md sections 13.6 and 13.7 by a
 * mutation of its own. */
#include "format/checksum.h"
#include "format/record.h"
#include "tests/support/rules.h"

static const char NAME[] = "segment 1";
enum { NAME_BYTES = sizeof NAME - 1 };
static size_t record_bytes; /* of the record under test */

static struct meta a_meta(void)
{
    struct meta m = {
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .hash_id = 1,
        .complete = 1,
        .store_uuid = "a store's uuid!!",
        .hash_seed = UINT64_C(0xfedcba9876543210),
        .target_error = 0.01,
        .growth_factor = 2,
        .tightening_ratio = 0.85,
        .first_capacity = 65536,
        .created = UINT64_C(1700000000123456),
    };
    return m;
}

static struct record a_record(void)
{
    struct record r = {
        .state = RECORD_SEALED,
        .kind = KIND_BLOOM,
        .has_range = 1,
        .binding_bytes = 4,
        .first_bytes = 3,
        .last_bytes = 6,
        .uuid = "a filter's uuid!",
        .generation = 1,
        .table_digest = UINT64_C(0x1122334455667788),
        .file_bytes = 16384,
        .keys = 12,
        .target_error = 0.001,
        .watermark = 5,
        .min_sequence = 1,
        .min_stages = 1,
        .rank = 7,
        .created = UINT64_C(1700000000123456),
        .binding = "bind",
        .first = "aaa",
        .last = "zzz\xff\0z",
    };
    return r;
}

static struct verdict decode_meta(uint8_t *bytes)
{
    struct meta m;
    memset(&m, 0xff, sizeof m);
    struct verdict v = meta_decode(bytes, META_BYTES, &m);
    if (v.code != VERDICT_OK)
        assert_true(all_zero(&m, sizeof m));
    return v;
}

static struct verdict meta_reseal(uint8_t *bytes)
{
    checksum_set(bytes, META_BYTES, 0);
    return decode_meta(bytes);
}

static struct verdict record_reseal(uint8_t *bytes)
{
    struct record r;
    checksum_set(bytes, record_bytes, XXH3_64bits(NAME, NAME_BYTES));
    struct verdict v = record_decode(bytes, record_bytes, NAME, NAME_BYTES, &r);
    if (v.code != VERDICT_OK)
        assert_true(all_zero(&r, sizeof r));
    return v;
}

/* The record is good; then the rules. */
static void hold(const struct rule *rules, size_t n, const struct record *r)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    struct record out;
    record_bytes = record_encode(r, NAME, NAME_BYTES, bytes);
    verdict_is(record_decode(bytes, record_bytes, NAME, NAME_BYTES, &out), VERDICT_OK,
               0, "");
    assert_memory_equal(&out, r, sizeof out);
    rules_hold(rules, n, bytes, record_bytes, record_reseal);
}

TEST(round_trips)
{
    uint8_t bytes[RECORD_MAX_BYTES], again[RECORD_MAX_BYTES];
    struct meta in = a_meta(), out;
    in.compat = UINT64_C(1) << 40;
    in.ro_compat = UINT64_C(1) << 41;
    meta_encode(&in, bytes);
    verdict_is(meta_decode(bytes, META_BYTES, &out), VERDICT_OK, 0, "");
    assert_memory_equal(&in, &out, sizeof in);
    assert_memory_equal(bytes, "\x89TMS\r\n\x1a\n", 8);

    struct record all[4] = {a_record(), a_record(), a_record(), a_record()}, r;
    all[0].compat = UINT64_C(1) << 40;
    all[0].ro_compat = UINT64_C(1) << 41;
    all[1].state = RECORD_GROWING; /* no range */
    all[1].has_range = 0;
    all[1].first_bytes = all[1].last_bytes = 0;
    memset(all[1].first, 0, sizeof all[1].first);
    memset(all[1].last, 0, sizeof all[1].last);
    all[2].first_bytes = all[2].last_bytes = RANGE_MAX_BYTES;
    memset(all[2].first, 'a', RANGE_MAX_BYTES);
    memset(all[2].last, 'z', RANGE_MAX_BYTES);
    all[3] = (struct record){.state = RECORD_NO_FILTER, .rank = 3};
    static const size_t expected[4] = {241, 232, 232 + 2 * RANGE_MAX_BYTES, 200};
    for (size_t i = 0; i < 4; i++) {
        size_t n = record_encode(&all[i], NAME, NAME_BYTES, bytes);
        IS(n, expected[i]);
        verdict_is(record_decode(bytes, n, NAME, NAME_BYTES, &r), VERDICT_OK, 0, "");
        IS(record_encode(&r, NAME, NAME_BYTES, again), n);
        assert_memory_equal(bytes, again, n);
        assert_memory_equal(&r, &all[i], sizeof r);
    }
}

#define M(member, value, code) RULE(struct meta_disk, member, value, VERDICT_##code)
#define MB(at, member, value, code)                                                    \
    RULE_BYTE(at, struct meta_disk, member, value, VERDICT_##code)

TEST(rules_of_meta)
{
    static const struct rule rules[] = {
        MB(0, magic, 0, MAGIC),
        MB(1, magic, 'X', MAGIC),
        M(major, 0, VERSION),
        M(major, 2, VERSION),
        M(major, 0xffff, VERSION),
        M(incompat, 1, FLAGS),
        M(incompat, UINT64_C(1) << 63, FLAGS),
        M(hash_id, 0, KIND),
        M(hash_id, 2, KIND),
        M(complete, 2, RANGE),
        M(complete, 255, RANGE),
        M(store_uuid, 0, RANGE),
        ERRORS_OUTSIDE(M),
        GROWTH_OUTSIDE(M),
        MB(104, unused, 1, UNUSED),
        MB(247, unused, 0x80, UNUSED),
    };
    uint8_t bytes[META_BYTES];
    struct meta m = a_meta(), out;
    meta_encode(&m, bytes);
    rules_hold(rules, N_OF(rules), bytes, sizeof bytes, meta_reseal);

    static const struct rule inside[] = {LIMITS_INSIDE(M), M(complete, 0, OK),
                                         M(hash_seed, 0, OK)};
    rules_hold(inside, N_OF(inside), bytes, sizeof bytes, meta_reseal);
    memset(&out, 0xff, sizeof out);
    verdict_is(meta_decode(bytes, 0, &out), VERDICT_SHORT, 0, "meta");
    assert_true(all_zero(&out, sizeof out));
    verdict_is(meta_decode(bytes, 255, &out), VERDICT_SHORT, 255, "meta");
    flips_show(bytes, sizeof bytes, 2, decode_meta);
}

#define R(member, value, code) RULE(struct record_disk, member, value, VERDICT_##code)
#define B(at, member, value, code)                                                     \
    RULE_BYTE(at, struct record_disk, member, value, VERDICT_##code)

TEST(rules_of_a_record)
{
    static const struct rule rules[] = {
        R(incompat, 1, FLAGS),
        R(incompat, UINT64_C(1) << 63, FLAGS),
        R(state, 0, RANGE),
        R(state, 4, RANGE),
        R(state, 0xff, RANGE),
        R(kind, 0, KIND),
        R(kind, KIND_PACK, KIND),
        R(kind, 4, KIND),
        R(kind, KIND_LIST, KIND),
        R(uuid, 0, RANGE),
        R(target_error, F64_NAN, RANGE),
        R(target_error, F64_ZERO, RANGE),
        R(target_error, F64_ONE, RANGE),
        R(min_stages, 31, RANGE),
        R(min_stages, UINT32_MAX, RANGE),
        R(binding_bytes, 65, RANGE),
        R(binding_bytes, 255, RANGE),
        B(120 + 4, binding, 1, UNUSED),
        B(120 + 63, binding, 1, UNUSED),
        R(n_parts, 9, RANGE),
        R(n_parts, 255, RANGE),
        B(185, unused, 1, UNUSED),
        B(191, unused, 1, UNUSED),
        R(has_range, 2, RANGE),
        R(has_range, 255, RANGE),
        R(first_bytes, 1025, RANGE),
        R(first_bytes, 0xffff, RANGE),
        R(last_bytes, 1025, RANGE),
        R(last_bytes, 0xffff, RANGE),
    };
    struct record r = a_record();
    hold(rules, N_OF(rules), &r);

    static const struct rule inside[] = {
        R(target_error, F64_ERROR_MIN, OK), R(target_error, F64_ONE_HALF, OK),
        R(min_stages, 30, OK), R(binding_bytes, 64, OK), R(kind, KIND_RIBBON, OK)};
    hold(inside, N_OF(inside), &r);

    /* Fields that a state forbids. */
    static const struct rule growing[] = {
        R(has_range, 1, RANGE), R(first_bytes, 1, RANGE), R(last_bytes, 1, RANGE)};
    r.state = RECORD_GROWING;
    r.has_range = 0;
    r.first_bytes = r.last_bytes = 0;
    memset(r.first, 0, sizeof r.first);
    memset(r.last, 0, sizeof r.last);
    hold(growing, N_OF(growing), &r);
    static const struct rule bare[] = {R(kind, KIND_BLOOM, KIND), R(uuid, 1, RANGE),
                                       R(has_range, 1, RANGE)};
    r = (struct record){.state = RECORD_NO_FILTER};
    hold(bare, N_OF(bare), &r);
}

enum { PARTS_AT = RECORD_HEAD_BYTES };
#define P(i, member, value, code)                                                      \
    {                                                                                  \
        PARTS_AT + (i)*PART_BYTES + offsetof(struct part_disk, member),                \
            sizeof(((struct part_disk *)0)->member), (value), VERDICT_##code,          \
            PARTS_AT + (i)*PART_BYTES + offsetof(struct part_disk, member),            \
            "part." #member                                                            \
    }

/* A filter of its own, or a column, and a list of the hashes. */
TEST(rules_of_parts)
{
    static const struct rule own[] = {
        P(0, kind, 0, RANGE),         P(0, kind, 255, KIND),
        P(0, uuid, 1, RANGE), /* of another filter */
        P(0, table_digest, 1, RANGE), P(0, column, 1, UNUSED),
        P(0, unused, 1, UNUSED),      P(1, uuid, 0, RANGE),
        P(1, column, 1, UNUSED),      P(1, unused, 1, UNUSED),
    };
    static const struct rule column[] = {
        P(0, uuid, 0, RANGE),
        P(0, column, 1 << 20, RANGE),
        P(0, column, UINT32_MAX, RANGE),
        P(0, unused, 1, UNUSED),
    };
    static const struct rule inside[] = {P(0, column, (1 << 20) - 1, OK),
                                         P(0, table_digest, 0, OK),
                                         P(1, table_digest, 0, OK)};
    struct record r = a_record();
    memcpy(r.list_uuid, "a list", 6);
    r.list_digest = 8;
    hold(own, N_OF(own), &r);
    r.place = (struct pack_place){.uuid = "a pack", .digest = 5, .column = 7};
    hold(column, N_OF(column), &r);
    hold(inside, N_OF(inside), &r);
}

/* How many parts there are, and what they are together. Their files are known where
 * only a kind is not. */
TEST(parts_together)
{
    static const struct {
        uint8_t state, kinds[4];
        enum verdict_code code;
        bool known;
    } cases[] = {
        {RECORD_SEALED, {PART_FILE}, VERDICT_OK, true},
        {RECORD_SEALED, {PART_FILE, PART_LIST}, VERDICT_OK, true},
        {RECORD_SEALED, {PART_COLUMN, PART_LIST}, VERDICT_OK, true},
        {RECORD_SEALED, {0}, VERDICT_RANGE, false},
        {RECORD_SEALED, {PART_LIST}, VERDICT_RANGE, false},
        {RECORD_SEALED, {PART_LIST, PART_FILE}, VERDICT_RANGE, false},
        {RECORD_SEALED, {PART_FILE, PART_COLUMN}, VERDICT_RANGE, false},
        {RECORD_SEALED, {PART_COLUMN, PART_COLUMN}, VERDICT_RANGE, false},
        {RECORD_SEALED, {PART_FILE, PART_LIST, PART_LIST}, VERDICT_RANGE, false},
        {RECORD_SEALED, {PART_FILE, PART_LIST, 4, 4}, VERDICT_KIND, true},
        {RECORD_SEALED, {PART_FILE, 9, 4}, VERDICT_KIND, true},
        {RECORD_SEALED, {200}, VERDICT_KIND, true},
        {RECORD_GROWING, {PART_FILE}, VERDICT_OK, true},
        {RECORD_GROWING, {PART_COLUMN}, VERDICT_RANGE, false},
        {RECORD_GROWING, {PART_FILE, PART_LIST}, VERDICT_RANGE, false},
        {RECORD_GROWING, {PART_FILE, 4}, VERDICT_KIND, true},
        {RECORD_NO_FILTER, {0}, VERDICT_OK, true},
        {RECORD_NO_FILTER, {PART_FILE}, VERDICT_RANGE, false},
        {RECORD_NO_FILTER, {PART_LIST}, VERDICT_RANGE, false},
        {RECORD_NO_FILTER, {4}, VERDICT_KIND, true},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t bytes[RECORD_MAX_BYTES] = {0};
        struct record r = {.state = RECORD_NO_FILTER};
        unsigned n = 0, got;
        if (cases[i].state != RECORD_NO_FILTER)
            r = a_record();
        r.state = cases[i].state;
        r.has_range = 0;
        r.first_bytes = r.last_bytes = 0;
        record_encode(&r, NAME, NAME_BYTES, bytes);
        for (; n < 4 && cases[i].kinds[n]; n++) {
            struct part_disk p = {.table_digest = le64_of(r.table_digest),
                                  .kind = cases[i].kinds[n]};
            memcpy(p.uuid, "a filter's uuid!", UUID_BYTES);
            memcpy(bytes + PARTS_AT + n * PART_BYTES, &p, sizeof p);
        }
        bytes[offsetof(struct record_disk, n_parts)] = (uint8_t)n;
        record_bytes = PARTS_AT + n * PART_BYTES + 8;
        IS(record_reseal(bytes).code, cases[i].code);
        const void *parts = record_parts(bytes, record_bytes, NAME, NAME_BYTES, &got);
        assert_ptr_equal(parts, cases[i].known ? bytes + PARTS_AT : NULL);
        IS(got, cases[i].known ? n : 0);
    }
}

/* ---- packs ---- */

static const uint8_t PACK[UUID_BYTES] = "a pack's uuid: 1", OTHER[UUID_BYTES] = "2";

static struct verdict listing_reseal(uint8_t *bytes)
{
    struct listing l;
    memset(&l, 0xff, sizeof l);
    checksum_set(bytes, LISTING_BYTES, XXH3_64bits(PACK, sizeof PACK));
    struct verdict v = listing_decode(bytes, LISTING_BYTES, PACK, &l);
    if (v.code != VERDICT_OK)
        assert_true(all_zero(&l, sizeof l));
    return v;
}

#define L(member, value, code) RULE(struct listing_disk, member, value, VERDICT_##code)

TEST(rules_of_a_listing)
{
    static const struct rule rules[] = {
        L(n_columns, 0, RANGE),     L(n_columns, (1 << 20) + 1, RANGE),
        L(n_listed, 101, RANGE),    L(n_listed, UINT32_MAX, RANGE),
        L(n_overridden, 41, RANGE), L(n_overridden, UINT32_MAX, RANGE),
    };
    static const struct rule inside[] = {
        L(n_columns, 1 << 20, OK), L(n_overridden, 0, OK), L(n_overridden, 40, OK),
        L(n_listed, 98, OK), L(n_listed, 0, OK)};
    struct listing in = {5, 6, 7, 100, 60, 2}, out;
    uint8_t bytes[LISTING_BYTES];
    listing_encode(&in, PACK, bytes);
    verdict_is(listing_decode(bytes, sizeof bytes, PACK, &out), VERDICT_OK, 0, "");
    assert_memory_equal(&in, &out, offsetof(struct listing, n_overridden) + 4);
    rules_hold(rules, N_OF(rules), bytes, sizeof bytes, listing_reseal);
    for (size_t i = 0; i < N_OF(inside); i++) /* one alone */
        rules_hold(&inside[i], 1, bytes, sizeof bytes, listing_reseal);
    verdict_is(listing_decode(bytes, 43, PACK, &out), VERDICT_SHORT, 43, "listing");
    verdict_is(listing_decode(bytes, sizeof bytes, OTHER, &out), VERDICT_CHECKSUM, 36,
               "checksum");
    in.n_listed = in.n_overridden = 0; /* nothing lives there */
    listing_encode(&in, PACK, bytes);
    verdict_is(listing_decode(bytes, sizeof bytes, PACK, &out), VERDICT_RANGE, 32,
               "n_overridden");
}

TEST(rules_of_chunks)
{
    static const struct {
        uint32_t n_columns, number;
        size_t n_bytes;
    } cases[] = {{1, 0, 9},        {8, 0, 9},           {9, 0, 10},
                 {32575, 0, 4080}, {32576, 0, 4080},    {32577, 0, 4080},
                 {32577, 1, 9},    {1 << 20, 31, 4080}, {1 << 20, 32, 776}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t bytes[CHUNK_MAX_BYTES + 1], key[2][CHUNK_KEY_BYTES];
        uint32_t n_columns = cases[i].n_columns, number = cases[i].number;
        uint32_t left = n_columns - number * 32576;
        size_t n = cases[i].n_bytes;
        uint64_t sum;
        IS(chunk_bytes(n_columns, number), n);
        memset(bytes, 0, sizeof bytes);
        memset(bytes, 0xff, n - 9);
        uint64_t sealed = chunk_seal(PACK, n_columns, number, bytes);
#define CHECK(n, uuid, number) chunk_check(bytes, n, uuid, n_columns, number, &sum)
        verdict_is(CHECK(n, PACK, number), VERDICT_OK, 0, "");
        assert_true(sum == sealed);
        verdict_is(CHECK(n - 1, PACK, number), VERDICT_SHORT, n - 1, "chunk");
        verdict_is(CHECK(n + 1, PACK, number), VERDICT_SHORT, n + 1, "chunk");
        verdict_is(CHECK(n, PACK, 33), VERDICT_SHORT, n, "chunk");
        verdict_is(CHECK(n, OTHER, number), VERDICT_CHECKSUM, n - 8, "checksum");
        for (uint32_t bit = left % 8; bit > 0 && bit < 8 && left < 32576; bit++) {
            bytes[n - 9] = (uint8_t)(1U << bit);
            chunk_seal(PACK, n_columns, number, bytes);
            verdict_is(CHECK(n, PACK, number), VERDICT_UNUSED, n - 9, "chunk");
        }
        chunk_key(PACK, number, key[0]);
        chunk_key(PACK, number + 1, key[1]);
        assert_true(memcmp(key[0], key[1], sizeof key[0]) < 0);
        assert_true(memcmp(PACK, key[0], sizeof PACK) == 0);
    }
    IS(listing_chunks(1), 1);
    IS(listing_chunks(32576), 1);
    IS(listing_chunks(32577), 2);
    IS(listing_chunks(1 << 20), 33);
}

TEST(lengths_must_agree)
{
    static const struct rule rules[] = {
        {4, 2, 2, VERDICT_SHORT, 241, "record"},
        {4, 2, 4, VERDICT_SHORT, 241, "record"},
        {4, 2, 1024, VERDICT_SHORT, 241, "record"},
        {6, 2, 0, VERDICT_SHORT, 241, "record"},
        {6, 2, 1024, VERDICT_SHORT, 241, "record"},
        {184, 1, 0, VERDICT_SHORT, 241, "record"},
        {184, 1, 2, VERDICT_SHORT, 241, "record"},
        {184, 1, 8, VERDICT_SHORT, 241, "record"},
    };
    uint8_t bytes[RECORD_MAX_BYTES + 1];
    struct record r = a_record(), out;
    record_bytes = record_encode(&r, NAME, NAME_BYTES, bytes);
    for (size_t i = 0; i < N_OF(rules); i++)
        rules_hold(&rules[i], 1, bytes, record_bytes, record_reseal);
    /* One byte more than it says, checksum and all. */
    record_bytes++;
    verdict_is(record_reseal(bytes), VERDICT_SHORT, 242, "record");
    verdict_is(record_decode(bytes, 199, NAME, NAME_BYTES, &out), VERDICT_SHORT, 199,
               "record");
    verdict_is(record_decode(bytes, 0, NAME, NAME_BYTES, &out), VERDICT_SHORT, 0,
               "record");
    /* The longest that may be claimed does not fit into what is there. */
    put_le(bytes + 4, 2, 1024);
    put_le(bytes + 6, 2, 1024);
    verdict_is(record_reseal(bytes), VERDICT_SHORT, 242, "record");
}

/* A range upside down would call every key absent. */
TEST(ranges_are_in_order)
{
    static const struct {
        const char *first, *last;
        enum verdict_code code;
    } cases[] = {
        {"a", "b", VERDICT_OK},       {"a", "a", VERDICT_OK},
        {"", "", VERDICT_OK},         {"", "a", VERDICT_OK},
        {"a", "ab", VERDICT_OK},      {"b", "a", VERDICT_RANGE},
        {"ab", "a", VERDICT_RANGE},   {"a", "", VERDICT_RANGE},
        {"\xff", "a", VERDICT_RANGE}, {"a", "\xff", VERDICT_OK},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t bytes[RECORD_MAX_BYTES];
        struct record r = a_record();
        r.first_bytes = (uint16_t)strlen(cases[i].first);
        r.last_bytes = (uint16_t)strlen(cases[i].last);
        memcpy(r.first, cases[i].first, r.first_bytes);
        memcpy(r.last, cases[i].last, r.last_bytes);
        record_bytes = record_encode(&r, NAME, NAME_BYTES, bytes);
        bool good = cases[i].code == VERDICT_OK;
        verdict_is(record_reseal(bytes), cases[i].code, good ? 0 : 4,
                   good ? "" : "first_bytes");
    }
}

TEST(records_know_their_name)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    struct record r = a_record(), out;
    size_t n = record_encode(&r, NAME, NAME_BYTES, bytes);
    memset(&out, 0xff, sizeof out);
    verdict_is(record_decode(bytes, n, "segment 2", NAME_BYTES, &out), VERDICT_CHECKSUM,
               n - 8, "checksum");
    assert_true(all_zero(&out, sizeof out));
    verdict_is(record_decode(bytes, n, NAME, NAME_BYTES - 1, &out), VERDICT_CHECKSUM,
               n - 8, "checksum");
    for (size_t bit = NO_BIT; flip_next(bytes, n, &bit);)
        verdict_is(record_decode(bytes, n, NAME, NAME_BYTES, &out), VERDICT_CHECKSUM,
                   n - 8, "checksum");
    for (size_t cut = 200; cut < n; cut++)
        verdict_is(record_decode(bytes, cut, NAME, NAME_BYTES, &out), VERDICT_CHECKSUM,
                   cut - 8, "checksum");
    /* LMDB has keys of 511 bytes. */
    char name[256];
    memset(name, 'x', sizeof name);
    for (size_t i = 255; i <= 256; i++) {
        n = record_encode(&r, name, i, bytes);
        IS(record_decode(bytes, n, name, i, &out).code,
           i == 255 ? VERDICT_OK : VERDICT_CHECKSUM);
    }
}

TEST(features_may_use_unused_bytes)
{
    for (int word = 0; word < 2; word++) {
        uint8_t bytes[RECORD_MAX_BYTES];
        struct meta m = a_meta();
        *(word ? &m.ro_compat : &m.compat) = UINT64_MAX;
        meta_encode(&m, bytes);
        bytes[200] = 1;
        verdict_is(meta_reseal(bytes), VERDICT_OK, 0, "");
        struct record r = a_record();
        *(word ? &r.ro_compat : &r.compat) = UINT64_C(1) << 33;
        record_bytes = record_encode(&r, NAME, NAME_BYTES, bytes);
        verdict_is(record_reseal(bytes), VERDICT_OK, 0, "");
        bytes[120 + 10] = 1;
        verdict_is(record_reseal(bytes), VERDICT_UNUSED, 120, "binding");
    }
}

RUN_TESTS(NULL, NULL)
