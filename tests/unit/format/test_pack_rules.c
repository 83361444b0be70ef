/* format/pack.h, and the descriptors of a pack: every rule of SPEC.md section 17.3 by a
 * mutation of its own, and what is just inside the limits. */
#include "tests/unit/format/commit_records.h"
#include "format/area.h"
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
    world = (struct world){an_identity(1), SLOT_BIRTH, 9 * 4096};
    world.id.kind = KIND_PACK;
    struct commit c = {
        .sequence = 1,
        .committed_bytes = 8 * 4096,
        .generation = 1,
        .state = STATE_SEALED,
        .clean = 1,
        .n_stages = 3,
        .stages = {{.offset = 4096,
                    .length = 3 * 4096,
                    .target_error = 0.01,
                    .digests_offset = 4 * 4096,
                    .root = 5,
                    .layout = LAYOUT_ROWS,
                    .n_bands = 2,
                    .n_columns = 3},
                   {.offset = 5 * 4096,
                    .length = 4096,
                    .target_error = 1,
                    .layout = LAYOUT_TABLE,
                    .used_bytes = 64,
                    .n_entries = 2,
                    .content = CONTENT_BANDS},
                   {.offset = 6 * 4096,
                    .length = 4096,
                    .target_error = 1,
                    .layout = LAYOUT_TABLE,
                    .used_bytes = 3 * 96,
                    .n_entries = 3,
                    .content = CONTENT_COLUMNS}},
    };
    memcpy(c.uuid, world.id.uuid, UUID_BYTES);
    return c;
}

/* ---- descriptors ---- */

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
        {offsetof(struct commit_disk, n_stages), 1, 2, VERDICT_RANGE,
         offsetof(struct commit_disk, n_stages), "n_stages"},
        {offsetof(struct commit_disk, n_stages), 1, 4, VERDICT_RANGE,
         offsetof(struct commit_disk, n_stages), "n_stages"},
        S(0, layout, 1, KIND),
        S(0, layout, 6, KIND),
        A(0, rows_area_disk, n_bands, 0, RANGE),
        A(0, rows_area_disk, n_bands, 4097, RANGE),
        A(0, rows_area_disk, n_columns, 1, RANGE),
        A(0, rows_area_disk, n_columns, (1 << 20) + 1, RANGE),
        S(0, length, 0, RANGE),
        S(0, length, 4097, RANGE),
        {AREA_AT(0, rows_area_disk, area_unused) + 39, 1, 1, VERDICT_UNUSED,
         AREA_AT(0, rows_area_disk, area_unused), "stage.area_unused"},
        S(1, layout, 2, KIND),
        A(1, table_area_disk, content, 2, KIND),
        A(1, table_area_disk, n_entries, 3, RANGE),
        A(1, table_area_disk, used_bytes, 72, RANGE),
        A(1, table_area_disk, used_bytes, 63, RANGE),
        S(1, length, 8192, RANGE),
        S(1, length, 0, RANGE),
        S(2, layout, 1, KIND),
        A(2, table_area_disk, content, 1, KIND),
        A(2, table_area_disk, n_entries, 2, RANGE),
        A(2, table_area_disk, used_bytes, 3 * 88 - 8, RANGE),
        A(2, table_area_disk, used_bytes, 3 * 88 + 4, RANGE),
        A(2, table_area_disk, used_bytes, 3 * 400 + 8, RANGE),
        S(2, settled_page, 1, UNUSED),
        S(2, settled_root, 1, UNUSED),
        {AREA_AT(2, table_area_disk, area_unused) + 33, 1, 1, VERDICT_UNUSED,
         AREA_AT(2, table_area_disk, area_unused), "stage.area_unused"},
        S(2, digests_offset, 7 * 4096, RANGE),
    };
    uint8_t good[SLOT_BYTES];
    struct commit out;
    (void)state;
    commit_encode(&pack, SLOT_BIRTH, good);
    verdict_is(decode(good, &out), VERDICT_OK, 0, "");
    assert_true(out.stages[0].n_bands == 2 && out.stages[0].n_columns == 3);
    assert_true(out.stages[2].used_bytes == 288 && out.stages[2].content == 2);
    for (size_t i = 0; i < N_OF(rules); i++)
        rules_hold(&rules[i], 1, good, BIRTH_BYTES, reseal_decode);
    /* Bytes that are not zero there may be a newer version's. */
    struct commit later = pack;
    later.compat = UINT64_C(1) << 50;
    commit_encode(&later, SLOT_BIRTH, good);
    good[AREA_AT(1, table_area_disk, area_unused)] = 1;
    verdict_is(reseal_decode(good), VERDICT_OK, 0, "");
}

static void a_pack_has_one_header_page_and_no_name(void **state)
{
    static const struct {
        uint32_t pages;
        uint16_t rule, name_bytes;
        const char *field;
    } bad[] = {{3, GROWTH_NONE, 0, "kind"},
               {3, GROWTH_GEOMETRIC, 0, "kind"},
               {1, GROWTH_NONE, 1, "name_bytes"}};
    (void)state;
    for (size_t i = 0; i < N_OF(bad); i++) {
        struct identity id = an_identity(1), out;
        uint8_t bytes[IDENTITY_BYTES];
        id.kind = KIND_PACK;
        identity_encode(&id, bytes);
        verdict_is(identity_decode(bytes, sizeof bytes, &out), VERDICT_OK, 0, "");
        id.header_pages = bad[i].pages;
        id.growth_rule = bad[i].rule;
        id.name[0] = 'x';
        id.name_bytes = bad[i].name_bytes;
        if (bad[i].rule == GROWTH_GEOMETRIC) {
            id.growth_factor = 2;
            id.tightening_ratio = 0.85;
            id.first_capacity = 1000;
        }
        identity_encode(&id, bytes);
        struct verdict v = identity_decode(bytes, sizeof bytes, &out);
        assert_int_equal(v.code, VERDICT_RANGE);
        assert_string_equal(v.field, bad[i].field);
    }
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

#define B(member, value, code) RULE(struct band_disk, member, value, VERDICT_##code)

static void hold_bands(const struct rule *rules, size_t n, uint32_t i)
{
    uint8_t good[BAND_BYTES];
    band_encode(&bands[i], good);
    entry = i;
    verdict_is(decode_band(good), VERDICT_OK, 0, "");
    rules_hold(rules, n, good, sizeof good, decode_band);
}

static void rules_of_bands(void **state)
{
    static const struct rule first[] = {
        B(n_blocks, 0, RANGE),      B(n_blocks, (UINT64_C(1) << 32) + 1, RANGE),
        B(lanes, 0, RANGE),         B(lanes, 5, RANGE),
        B(words, 0, RANGE),         B(words, 9, RANGE),
        B(row_bytes, 0, RANGE),     B(row_bytes, 3, RANGE),
        B(row_bytes, 96, RANGE),    B(row_bytes, 4160, RANGE),
        B(row_bytes, 65, RANGE),    B(n_columns, 0, RANGE),
        B(n_columns, 17, RANGE),    B(first_column, 1, RANGE),
        B(rows_offset, 512, RANGE), B(unused, 1, UNUSED),
    };
    static const struct rule last[] = {
        B(first_column, 1, RANGE),
        B(rows_offset, 8192 + 512, RANGE),
        B(n_columns, 2, RANGE),
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
    (void)state;
    hold_bands(first, N_OF(first), 0);
    hold_bands(last, N_OF(last), 1);
    for (size_t i = 0; i < N_OF(large); i++)
        hold_bands(&large[i], 1, 1);
    /* The first of two bands may not take all columns, nor the last too few pages. */
    pack.stages[0].length = 4 * 4096;
    uint8_t bytes[BAND_BYTES];
    band_encode(&bands[1], bytes);
    entry = 1;
    verdict_is(decode_band(bytes), VERDICT_RANGE,
               offsetof(struct band_disk, rows_offset), "rows_offset");
    pack.stages[0].length = 3 * 4096;
    pack.stages[0].n_columns = 4; /* one would be in no band */
    verdict_is(decode_band(bytes), VERDICT_RANGE, offsetof(struct band_disk, n_columns),
               "n_columns");
    pack.stages[0].n_columns = 1;
    band_encode(&bands[0], bytes);
    entry = 0;
    verdict_is(decode_band(bytes), VERDICT_RANGE, offsetof(struct band_disk, n_columns),
               "n_columns");
    pack = a_pack();
    pack.compat = UINT64_C(1) << 40;
    bytes[offsetof(struct band_disk, unused)] = 1;
    verdict_is(decode_band(bytes), VERDICT_OK, 0, "");
    pack = a_pack();
}

static void rows_have_the_least_bytes(void **state)
{
    static const uint32_t want[][2] = {
        {1, 1},     {8, 1},      {9, 2},      {16, 2},       {17, 4},
        {64, 8},    {65, 16},    {256, 32},   {257, 64},     {512, 64},
        {513, 128}, {1024, 128}, {1025, 192}, {10000, 1280}, {32768, 4096},
    };
    (void)state;
    for (size_t i = 0; i < N_OF(want); i++)
        assert_int_equal(pack_row_bytes(want[i][0]), want[i][1]);
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

static void rules_of_columns(void **state)
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
    (void)state;
    assert_int_equal(column_encode(&c, good), 88);
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
    assert_int_equal(column_encode(&c, good), 400);
    assert_int_equal(column_decode(good, 400, &pack, &bands[0], &out, &used).code,
                     VERDICT_OK);
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
    assert_int_equal(n, v.code == VERDICT_OK ? 10 : 0);
    return v;
}

static struct verdict decode_dead_resealed(uint8_t *bytes)
{
    checksum_set(bytes, N_DEAD_BYTES, 0);
    return decode_dead(bytes);
}

#define D(member, value, code) RULE(struct dead_disk, member, value, VERDICT_##code)

static void rules_of_tombstones(void **state)
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
    (void)state;
    good[DEAD_HEAD_BYTES] = 5;
    dead_encode(PACK_UUID, 99, 10, good);
    assert_int_equal(dead_bytes(10), N_DEAD_BYTES);
    verdict_is(decode_dead(good), VERDICT_OK, 0, "");
    rules_hold(rules, N_OF(rules), good, N_DEAD_BYTES, decode_dead_resealed);
    rules_hold(inside, N_OF(inside), good, N_DEAD_BYTES, decode_dead_resealed);
    for (size_t cut = 0; cut < N_DEAD_BYTES; cut += 19)
        assert_int_equal(dead_decode(good, cut, PACK_UUID, 99, &n).code, VERDICT_SHORT);
    assert_int_equal(dead_decode(good, N_DEAD_BYTES + 1, PACK_UUID, 99, &n).code,
                     VERDICT_SHORT);
    for (size_t bit = DEAD_HEAD_BYTES * 8; bit < N_DEAD_BYTES * 8; bit++) {
        good[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(decode_dead(good).code, VERDICT_CHECKSUM);
        good[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

static int set_up(void **state)
{
    (void)state;
    pack = a_pack();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(rules_of_descriptors, set_up),
        cmocka_unit_test_setup(a_pack_has_one_header_page_and_no_name, set_up),
        cmocka_unit_test_setup(rules_of_bands, set_up),
        cmocka_unit_test(rows_have_the_least_bytes),
        cmocka_unit_test_setup(rules_of_columns, set_up),
        cmocka_unit_test(rules_of_tombstones),
    };
    return cmocka_run_group_tests_name("pack rules", tests, NULL, NULL);
}
