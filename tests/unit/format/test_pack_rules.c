/* format/pack.h, and the descriptors of a pack: every rule of SPEC.md section 17.3 by a
 * mutation of its own, and what is just inside the limits. */
#include "tests/unit/format/commit_records.h"
#include "format/pack.h"

/* A pack of three columns in two bands. */
static const struct band bands[] = {
    {.geometry = {8, 1, 6}, .n_columns = 2, .row_bytes = 2},
    {.rows_offset = 8192,
     .geometry = {4, 2, 3},
     .n_columns = 1,
     .first_column = 2,
     .row_bytes = 1},
};
static struct commit pack;

static struct commit a_pack(void)
{
    static const struct stage_desc stages[] = {
        {.layout = LAYOUT_ROWS, .n_bands = 2, .n_columns = 3},
        {.target_error = 1,
         .layout = LAYOUT_TABLE,
         .used_bytes = 64,
         .n_entries = 2,
         .content = CONTENT_BANDS},
        {.target_error = 1,
         .layout = LAYOUT_TABLE,
         .used_bytes = 3 * 96,
         .n_entries = 3,
         .content = CONTENT_COLUMNS}};
    return of_kind(KIND_PACK, 3, stages);
}

static int set_up(void **state)
{
    pack = a_pack();
    return 0;
}

#define TEST_OF_PACK(name) TEST_WITH(set_up, NULL, name)

/* ---- descriptors ---- */

TEST_OF_PACK(rules_of_descriptors)
{
    static const struct rule rules[] = {
        R(n_stages, 2, RANGE),
        R(n_stages, 4, RANGE),
        S(0, layout, 1, KIND),
        S(0, layout, 6, KIND),
        AREA(0, rows_area_disk, n_bands, 0, RANGE),
        AREA(0, rows_area_disk, n_bands, 4097, RANGE),
        AREA(0, rows_area_disk, n_columns, 1, RANGE),
        AREA(0, rows_area_disk, n_columns, (1 << 20) + 1, RANGE),
        S(0, length, 0, RANGE),
        S(0, length, 4097, RANGE),
        AREA_BYTE(0, rows_area_disk, 39),
        S(1, layout, 2, KIND),
        AREA(1, table_area_disk, content, 2, KIND),
        AREA(1, table_area_disk, n_entries, 3, RANGE),
        AREA(1, table_area_disk, used_bytes, 72, RANGE),
        AREA(1, table_area_disk, used_bytes, 63, RANGE),
        S(1, length, 8192, RANGE),
        S(1, length, 0, RANGE),
        S(2, layout, 1, KIND),
        AREA(2, table_area_disk, content, 1, KIND),
        AREA(2, table_area_disk, n_entries, 2, RANGE),
        AREA(2, table_area_disk, used_bytes, 3 * 88 - 8, RANGE),
        AREA(2, table_area_disk, used_bytes, 3 * 88 + 4, RANGE),
        AREA(2, table_area_disk, used_bytes, 3 * 400 + 8, RANGE),
        S(2, unused, 1, UNUSED),
        AREA_BYTE(2, table_area_disk, 33),
        S(2, digests_offset, 7 * 4096, RANGE),
    };
    struct commit out = decoded(&pack);
    assert_true(out.stages[0].n_bands == 2 && out.stages[0].n_columns == 3);
    assert_true(out.stages[2].used_bytes == 288 && out.stages[2].content == 2);
    hold_each(rules, N_OF(rules), pack);
    is_a_later_versions(pack, AREA_AT(1, table_area_disk, area_unused));
}

TEST_OF_PACK(a_pack_has_one_header_page_and_no_name)
{
    struct identity id = an_identity(3);
    identity_is(an_identity(1), KIND_PACK, 0, NULL);
    identity_is(an_identity(1), KIND_PACK, 1, "name_bytes");
    identity_is(id, KIND_PACK, 0, "kind");
    id.growth_rule = GROWTH_NONE;
    id.growth_factor = id.tightening_ratio = 0;
    id.first_capacity = 0;
    identity_is(id, KIND_PACK, 0, "kind");
}

/* ---- bands ---- */

static uint32_t entry; /* which one is decoded */

static struct verdict decode_band(uint8_t *bytes)
{
    struct band b;
    struct verdict v =
        band_decode(bytes, &pack, entry, entry ? &bands[entry - 1] : NULL, &b);
    assert_true(v.code == VERDICT_OK || all_zero(&b, sizeof b));
    return v;
}

#define BAND(member, value, code) RULE(struct band_disk, member, value, VERDICT_##code)

static void hold_bands(const struct rule *rules, size_t n, uint32_t i)
{
    uint8_t good[BAND_BYTES];
    band_encode(&bands[i], good);
    entry = i;
    verdict_is(decode_band(good), VERDICT_OK, 0, "");
    rules_hold(rules, n, good, sizeof good, decode_band);
}

TEST_OF_PACK(rules_of_bands)
{
    static const struct rule first[] = {
        BAND(n_blocks, 0, RANGE),      BAND(n_blocks, (UINT64_C(1) << 32) + 1, RANGE),
        BAND(lanes, 0, RANGE),         BAND(lanes, 5, RANGE),
        BAND(words, 0, RANGE),         BAND(words, 9, RANGE),
        BAND(row_bytes, 0, RANGE),     BAND(row_bytes, 3, RANGE),
        BAND(row_bytes, 96, RANGE),    BAND(row_bytes, 4160, RANGE),
        BAND(row_bytes, 65, RANGE),    BAND(n_columns, 0, RANGE),
        BAND(n_columns, 17, RANGE),    BAND(first_column, 1, RANGE),
        BAND(rows_offset, 512, RANGE), BAND(unused, 1, UNUSED),
    };
    static const struct rule last[] = {
        BAND(first_column, 1, RANGE),
        BAND(rows_offset, 8192 + 512, RANGE),
        BAND(n_columns, 2, RANGE),
    };
    /* Rows that would end behind the stage, by sizes that would wrap, too. */
    static const struct rule large[] = {
        {offsetof(struct band_disk, n_blocks), 8, 9, VERDICT_RANGE,
         offsetof(struct band_disk, rows_offset), "rows_offset"},
        {offsetof(struct band_disk, n_blocks), 8, UINT64_C(1) << 32, VERDICT_RANGE,
         offsetof(struct band_disk, rows_offset), "rows_offset"},
        /* Too few: a page of the stage would be nobody's. */
        {offsetof(struct band_disk, n_blocks), 8, 1, VERDICT_OK, 0, ""},
    };
    hold_bands(first, N_OF(first), 0);
    hold_bands(last, N_OF(last), 1);
    for (size_t i = 0; i < N_OF(large); i++)
        hold_bands(&large[i], 1, 1);
    /* The first of two bands may not take all columns, nor the last too few pages, and
     * no column may be in no band. */
    static const struct {
        uint64_t n_pages;
        uint32_t n_columns, entry;
        struct rule rule;
    } others[] = {
        {4, 3, 1, BAND(rows_offset, 0, RANGE)},
        {3, 4, 1, BAND(n_columns, 0, RANGE)},
        {3, 1, 0, BAND(n_columns, 0, RANGE)},
    };
    uint8_t bytes[BAND_BYTES];
    for (size_t i = 0; i < N_OF(others); i++) {
        entry = others[i].entry;
        pack.stages[0].length = others[i].n_pages * 4096;
        pack.stages[0].n_columns = others[i].n_columns;
        band_encode(&bands[entry], bytes);
        rule_gives(&others[i].rule, decode_band(bytes));
    }
    pack = a_pack();
    pack.compat = UINT64_C(1) << 40;
    bytes[offsetof(struct band_disk, unused)] = 1;
    verdict_is(decode_band(bytes), VERDICT_OK, 0, "");
    pack = a_pack();
}

TEST(rows_have_the_least_bytes)
{
    static const uint32_t want[][2] = {
        {1, 1},     {8, 1},      {9, 2},      {16, 2},       {17, 4},
        {64, 8},    {65, 16},    {256, 32},   {257, 64},     {512, 64},
        {513, 128}, {1024, 128}, {1025, 192}, {10000, 1280}, {32768, 4096},
    };
    for (size_t i = 0; i < N_OF(want); i++)
        IS(pack_row_bytes(want[i][0]), want[i][1]);
}

/* ---- columns ---- */

static size_t n_left; /* bytes of the table from the entry on */

static struct column a_column(void)
{
    struct column c = {.uuid = "fedcba9876543210",
                       .table_digest = 1,
                       .generation = 2,
                       .watermark = 3,
                       .keys = 4,
                       .target_error = 0.5,
                       .created = 6,
                       .own_blocks = 4,
                       .rank = 8,
                       .name_bytes = 3,
                       .binding_bytes = 2,
                       .name = "abc",
                       .binding = "xy"};
    return c;
}

static struct verdict decode_column(uint8_t *bytes)
{
    struct column col;
    size_t used;
    struct verdict v = column_decode(bytes, n_left, &pack, &bands[0], &col, &used);
    assert_true(v.code == VERDICT_OK ? used == 88
                                     : used == 0 && all_zero(&col, sizeof col));
    return v;
}

#define K(member, value, code) RULE(struct column_disk, member, value, VERDICT_##code)
#define KB(at, value, code, member)                                                    \
    {                                                                                  \
        (at), 1, (value), VERDICT_##code, offsetof(struct column_disk, member),        \
            #member                                                                    \
    }

TEST_OF_PACK(rules_of_columns)
{
    static const struct rule rules[] = {
        K(uuid, 0, RANGE),
        K(generation, 0, RANGE),
        K(target_error, F64_NAN, RANGE),
        K(target_error, F64_ZERO, RANGE),
        K(target_error, F64_ONE + 1, RANGE),
        K(own_blocks, 0, RANGE),
        K(own_blocks, 3, RANGE),
        K(own_blocks, 16, RANGE),
        K(name_bytes, 0, RANGE),
        KB(80, 0, RANGE, name_bytes), /* a NUL in the name */
        K(unused, 1, UNUSED),
        KB(85, 1, UNUSED, unused),
        KB(87, 1, UNUSED, unused),
    };
    uint8_t good[COLUMN_MAX_BYTES];
    struct column c = a_column(), out;
    size_t used;
    IS(column_encode(&c, good), 88);
    n_left = 88;
    verdict_is(decode_column(good), VERDICT_OK, 0, "");
    rules_hold(rules, N_OF(rules), good, 88, decode_column);
    for (n_left = 0; n_left < 88; n_left += 29)
        verdict_is(decode_column(good), VERDICT_SHORT,
                   offsetof(struct column_disk, name_bytes), "name_bytes");
    n_left = 87;
    verdict_is(decode_column(good), VERDICT_SHORT,
               offsetof(struct column_disk, name_bytes), "name_bytes");
    /* What a newer minor version says there is its own. */
    n_left = 88;
    pack.compat = UINT64_C(1) << 40;
    good[87] = 1;
    verdict_is(decode_column(good), VERDICT_OK, 0, "");
    good[87] = 0;
    pack = a_pack();
    /* The longest one. */
    memset(c.name, 'n', sizeof c.name);
    memset(c.binding, 'b', sizeof c.binding);
    c.name_bytes = 255;
    c.binding_bytes = 64;
    IS(column_encode(&c, good), 400);
    IS(column_decode(good, 400, &pack, &bands[0], &out, &used).code, VERDICT_OK);
    assert_true(used == 400 && memcmp(&out, &c, sizeof c) == 0);
    good[offsetof(struct column_disk, binding_bytes)] = 65;
    verdict_is(column_decode(good, 4000, &pack, &bands[0], &out, &used), VERDICT_RANGE,
               offsetof(struct column_disk, binding_bytes), "binding_bytes");
}

/* ---- tombstones ---- */

static const uint8_t PACK_UUID[] = "0123456789abcdef";
enum { N_DEAD_BYTES = DEAD_HEAD_BYTES + 2 + 8 }; /* of ten columns */

static struct verdict decode_dead(uint8_t *bytes)
{
    uint32_t n;
    struct verdict v = dead_decode(bytes, N_DEAD_BYTES, PACK_UUID, 99, &n);
    IS(n, v.code == VERDICT_OK ? 10 : 0);
    return v;
}

static struct verdict decode_dead_resealed(uint8_t *bytes)
{
    checksum_set(bytes, N_DEAD_BYTES, 0);
    return decode_dead(bytes);
}

#define D(member, value, code) RULE(struct dead_disk, member, value, VERDICT_##code)

TEST(rules_of_tombstones)
{
    static const struct rule rules[] = {
        D(magic, 0, MAGIC),
        D(major, 2, VERSION),
        D(n_columns, 0, SHORT),
        D(n_columns, 17, SHORT),
        D(n_columns, UINT32_MAX, SHORT),
        D(uuid, 0, IDENTITY),
        D(table_digest, 98, IDENTITY),
    };
    static const struct rule inside[] = {D(minor, 7, OK), D(unused, 1, OK)};
    uint8_t good[N_DEAD_BYTES + 1] = {0};
    uint32_t n;
    good[DEAD_HEAD_BYTES] = 5;
    dead_encode(PACK_UUID, 99, 10, good);
    IS(dead_bytes(10), N_DEAD_BYTES);
    verdict_is(decode_dead(good), VERDICT_OK, 0, "");
    rules_hold(rules, N_OF(rules), good, N_DEAD_BYTES, decode_dead_resealed);
    rules_hold(inside, N_OF(inside), good, N_DEAD_BYTES, decode_dead_resealed);
    for (size_t cut = 0; cut < N_DEAD_BYTES; cut += 19)
        IS(dead_decode(good, cut, PACK_UUID, 99, &n).code, VERDICT_SHORT);
    IS(dead_decode(good, N_DEAD_BYTES + 1, PACK_UUID, 99, &n).code, VERDICT_SHORT);
    for (size_t bit = NO_BIT;
         flip_next(good + DEAD_HEAD_BYTES, N_DEAD_BYTES - DEAD_HEAD_BYTES, &bit);)
        IS(decode_dead(good).code, VERDICT_CHECKSUM);
}

RUN_TESTS(NULL, NULL)
