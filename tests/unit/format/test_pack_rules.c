/* format/pack.h, and the descriptors of a pack: every rule of SPEC.md section 17.3 by a
 * mutation of its own, and what is just inside the limits. */
#include "tests/unit/format/commit_records.h"
#include "format/pack.h"
#include "format/record.h"
#include "tests/support/support.h"

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
         .used_bytes = 64 + 3 * 4,
         .n_entries = 2,
         .content = CONTENT_BANDS},
        {.target_error = 1,
         .layout = LAYOUT_TABLE,
         .used_bytes = 2 * 4096,
         .n_entries = 3,
         .content = CONTENT_COLUMNS}};
    struct commit c = of_kind(KIND_PACK, 3, stages);
    c.stages[2].length = 2 * 4096;
    c.stages[2].digests_offset = c.committed_bytes + 4096;
    c.committed_bytes += 2 * 4096;
    world.available += 2 * 4096;
    return c;
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
        AREA(1, table_area_disk, used_bytes, 80, RANGE),
        S(1, length, 8192, RANGE),
        S(1, length, 0, RANGE),
        S(2, layout, 1, KIND),
        AREA(2, table_area_disk, content, 1, KIND),
        AREA(2, table_area_disk, n_entries, 2, RANGE),
        AREA(2, table_area_disk, used_bytes, 0, RANGE),
        AREA(2, table_area_disk, used_bytes, 2 * 4096 - 8, RANGE),
        AREA(2, table_area_disk, used_bytes, 7 * 4096, RANGE),
        S(2, unused, 1, UNUSED),
        AREA_BYTE(2, table_area_disk, 33),
        S(2, digests_offset, 0, RANGE),
    };
    struct commit out = decoded(&pack);
    assert_true(out.stages[0].n_bands == 2 && out.stages[0].n_columns == 3);
    assert_true(out.stages[2].used_bytes == 8192 && out.stages[2].content == 2);
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
        /* Too few: a page of the stage would belong to no band. */
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

static struct piece piece_of(const char *name)
{
    return (struct piece){(const void *)name, strlen(name)};
}

static struct facts a_column(void)
{
    struct facts c = {.disk = {.uuid = "fedcba9876543210",
                               .set_id = "set of the keys!",
                               .table_digest = le64_of(1),
                               .generation = le64_of(2),
                               .watermark = le64_of(3),
                               .keys = le64_of(4),
                               .target_error = le64_of_f64(0.5),
                               .created = le64_of(6),
                               .own_blocks = le64_of(4),
                               .rank = le32_of(8),
                               .column = le32_of(1),
                               .has_range = 1}};
    column_set_strings(&c, piece_of("abc"), piece_of("xy"), piece_of("k"),
                       piece_of("ka"));
    return c;
}

enum { A_COLUMN_BYTES = 112 };
static size_t n_entry = A_COLUMN_BYTES;

static struct verdict decode_column(uint8_t *bytes)
{
    struct facts col;
    struct verdict v = column_decode(bytes, n_entry, bands, 2, &col);
    assert_true(v.code == VERDICT_OK || all_zero(&col, sizeof col));
    return v;
}

#define K(member, value, code) RULE(struct column_disk, member, value, VERDICT_##code)
#define KB(at, value, code, member)                                                    \
    {                                                                                  \
        (at), 1, (value), VERDICT_##code, offsetof(struct column_disk, member),        \
            #member                                                                    \
    }

TEST(rules_of_columns)
{
    static const struct rule rules[] = {
        KB(offsetof(struct column_disk, binding_bytes), 3, SHORT, name_bytes),
        K(name_bytes, 2, SHORT),
        K(uuid, 0, RANGE),
        K(set_id, 0, RANGE),
        K(generation, 0, RANGE),
        K(target_error, F64_NAN, RANGE),
        K(target_error, F64_ZERO, RANGE),
        K(target_error, F64_ONE + 1, RANGE),
        K(column, 3, RANGE),
        K(own_blocks, 0, RANGE),
        K(own_blocks, 3, RANGE),
        K(own_blocks, 16, RANGE),
        KB(104, 0, RANGE, name_bytes), /* a NUL in the name */
        K(has_range, 2, RANGE),
        K(unused, 1, UNUSED),
        KB(109, 'l', RANGE, first_bytes), /* above the last key */
    };
    uint8_t good[PAGE_BYTES] = {0}, many[1024];
    struct facts c = a_column(), out;
    IS(column_bytes(&c.disk), A_COLUMN_BYTES);
    memcpy(good, &c, A_COLUMN_BYTES);
    verdict_is(decode_column(good), VERDICT_OK, 0, "");
    rules_hold(rules, N_OF(rules), good, A_COLUMN_BYTES, decode_column);
    for (n_entry = 0; n_entry <= PAGE_BYTES - 1; n_entry++)
        if (n_entry != A_COLUMN_BYTES)
            verdict_is(decode_column(good), VERDICT_SHORT,
                       offsetof(struct column_disk, name_bytes), "name_bytes");
    n_entry = A_COLUMN_BYTES;
    good[offsetof(struct column_disk, has_range)] = 0;
    verdict_is(decode_column(good), VERDICT_RANGE,
               offsetof(struct column_disk, first_bytes), "first_bytes");
    /* Eight blocks divide those of the first band, not those of the second. */
    c.disk.own_blocks = le64_of(8);
    memcpy(good, &c, A_COLUMN_BYTES);
    verdict_is(decode_column(good), VERDICT_OK, 0, "");
    c.disk.column = le32_of(2);
    memcpy(good, &c, A_COLUMN_BYTES);
    verdict_is(decode_column(good), VERDICT_RANGE,
               offsetof(struct column_disk, own_blocks), "own_blocks");
    /* The longest one. */
    c = a_column();
    memset(many, 'm', sizeof many);
    column_set_strings(&c, (struct piece){many, 255}, (struct piece){many, 64},
                       (struct piece){many, 1024}, (struct piece){many, 1024});
    IS(column_bytes(&c.disk), COLUMN_MAX_BYTES);
    IS(column_decode((void *)&c, COLUMN_MAX_BYTES, bands, 2, &out).code, VERDICT_OK);
    assert_memory_equal(&out, &c, COLUMN_MAX_BYTES);
    IS(out.band, 0);
}

/* Strings that are too long, or missing, in entries of the right length. */
TEST(lengths_of_columns)
{
    static const struct {
        const char *field;
        uint32_t name, binding, first, last, at;
    } cases[] = {
        {"name_bytes", 0, 3, 1, 2, offsetof(struct column_disk, name_bytes)},
        {"binding_bytes", 1, 65, 1, 2, offsetof(struct column_disk, binding_bytes)},
        {"first_bytes", 1, 1, 1025, 1024, offsetof(struct column_disk, first_bytes)},
        {"last_bytes", 1, 1, 1024, 1025, offsetof(struct column_disk, last_bytes)},
        {"first_bytes", 1, 1, 5, 4, offsetof(struct column_disk, first_bytes)},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t bytes[PAGE_BYTES];
        struct facts c = a_column();
        memset(bytes, 'z', sizeof bytes);
        memcpy(bytes, &c.disk, sizeof c.disk);
        struct column_disk *d = (void *)bytes;
        d->name_bytes = (uint8_t)cases[i].name;
        d->binding_bytes = (uint8_t)cases[i].binding;
        d->first_bytes = le16_of((uint16_t)cases[i].first);
        d->last_bytes = le16_of((uint16_t)cases[i].last);
        n_entry = COLUMN_HEAD_BYTES + cases[i].name + cases[i].binding +
                  cases[i].first + cases[i].last;
        verdict_is(decode_column(bytes), VERDICT_RANGE, cases[i].at, cases[i].field);
    }
    n_entry = A_COLUMN_BYTES;
}

/* ---- pages of the table of columns ---- */

static uint64_t page_number;

static struct verdict open_page(uint8_t *bytes)
{
    struct index_page p;
    return index_open(bytes, page_number, &p);
}

#define X(member, value, code) RULE(struct index_disk, member, value, VERDICT_##code)

TEST(rules_of_pages)
{
    static const struct rule leaf[] = {
        X(n_items, 0, RANGE),    X(n_items, 3, RANGE), /* it ends among the ends */
        X(n_items, 2045, RANGE), X(n_items, 65535, RANGE), X(level, 7, RANGE),
        X(unused, 1, UNUSED),    X(first_child, 1, RANGE),
    };
    static const struct rule above[] = {X(first_child, 4, RANGE),
                                        X(first_child, UINT32_MAX, RANGE)};
    uint8_t page[PAGE_BYTES];
    index_begin(page, 0, 0);
    IS(index_add(page, "abc", 3), 0);
    IS(index_add(page, "", 0), 1);
    page[PAGE_BYTES - 5] = 0x10;
    verdict_is(open_page(page), VERDICT_OK, 0, "");
    rules_hold(leaf, N_OF(leaf), page, sizeof page, open_page);
    page_number = 5;
    index_begin(page, 6, 3);
    index_add(page, "", 0);
    index_add(page, "b", 1);
    verdict_is(open_page(page), VERDICT_OK, 0, "");
    rules_hold(above, N_OF(above), page, sizeof page, open_page);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

enum { N_NAMES = 100, MAX_NAME = 40 };
static char names[N_NAMES][MAX_NAME];

/* Few letters, so that names begin alike. */
static void make_names(void)
{
    memset(names, 0, sizeof names);
    for (size_t i = 0; i < N_NAMES; i++)
        for (size_t k = 0, n = random_u64() % (MAX_NAME - 1); k < n; k++)
            names[i][k] = (char)('a' + random_u64() % 2);
    qsort(names, N_NAMES, MAX_NAME, by_name);
}

static uint32_t fill_page(uint8_t page[PAGE_BYTES], struct index_page *p)
{
    uint32_t n = 0;
    index_begin(page, 1, 0);
    for (size_t i = 0; i < N_NAMES; i++)
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0) {
            memmove(names[n], names[i], MAX_NAME);
            IS(index_add(page, names[n], strlen(names[n])), (int)n);
            n++;
        }
    verdict_is(index_open(page, N_NAMES, p), VERDICT_OK, 0, "");
    return n;
}

TEST(names_are_searched)
{
    uint8_t page[PAGE_BYTES];
    struct piece none = {NULL, 0};
    struct index_page p;
    for (size_t round = 0; round < 300; round++) {
        make_names();
        uint32_t n = fill_page(page, &p), found;
        assert_true(p.n == n && index_rest_is_zero(&p));
        for (uint32_t i = 0; i < n; i++) {
            struct piece name = piece_of(names[i]), before = none;
            assert_true(index_search(&p, name, none, none, &found));
            IS(found, i + 1);
            assert_true(index_search(&p, name, piece_of(names[0]), none, &found));
            assert_true(i == n - 1 || !index_search(&p, name, none, name, &found));
            assert_true(i == 0 || !index_search(&p, piece_of(names[0]), none,
                                                piece_of(names[0]), &found));
            if (i == 0)
                continue;
            before = piece_of(names[i - 1]);
            name.n = name_separator(before, name);
            assert_true(name_compare(before, name) < 0);
            name.n--;
            assert_true(name_compare(before, name) >= 0);
        }
        /* If two names are exchanged, one is not found. */
        uint32_t other = (uint32_t)(random_u64() % (n - 1)), n_wrong = 0;
        char swap[MAX_NAME];
        memcpy(swap, names[other], MAX_NAME);
        memcpy(names[other], names[other + 1], MAX_NAME);
        memcpy(names[other + 1], swap, MAX_NAME);
        index_begin(page, 1, 0);
        for (uint32_t i = 0; i < n; i++)
            index_add(page, names[i], strlen(names[i]));
        for (uint32_t i = 0; i < n; i++)
            n_wrong += !index_search(&p, piece_of(names[i]), none, none, &found) ||
                       found != i + 1;
        assert_true(n_wrong > 0);
    }
}

/* An end that is wrong is an item that is not there, and no byte outside is read. */
TEST(ends_are_checked)
{
    uint8_t page[PAGE_BYTES];
    struct index_page p;
    index_begin(page, 1, 0);
    for (int i = 0; i < 9; i++)
        IS(index_add(page, &"0123456789"[i], 1), i);
    verdict_is(index_open(page, 20, &p), VERDICT_OK, 0, "");
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t end = 0; end < 65536; end += 1 + end / 30) {
            struct le16 good, bad = le16_of((uint16_t)end);
            memcpy(&good, page + PAGE_BYTES - 2 * (i + 1), sizeof good);
            memcpy(page + PAGE_BYTES - 2 * (i + 1), &bad, sizeof bad);
            struct piece it = index_item(&p, i), next = index_item(&p, i + 1);
            assert_true((it.at != NULL) == (end >= 8 + i && end <= PAGE_BYTES - 18));
            assert_true((next.at != NULL) == (end >= 8 && end <= 8 + i + 2));
            if (end > le16_get(good) + 300u)
                assert_null(index_name(&p, i).at); /* longer than any name */
            memcpy(page + PAGE_BYTES - 2 * (i + 1), &good, sizeof good);
        }
    page[30] = 1; /* between items and ends */
    assert_false(index_rest_is_zero(&p));
}

TEST(pages_are_filled)
{
    uint8_t page[PAGE_BYTES], item[COLUMN_MAX_BYTES] = {0};
    for (size_t n_bytes = 0; n_bytes <= sizeof item; n_bytes += 1 + n_bytes / 5) {
        uint32_t n = 0;
        struct index_page p;
        index_begin(page, 1, 0);
        while (index_add(page, item, n_bytes) >= 0)
            n++;
        IS(n, (PAGE_BYTES - INDEX_HEAD_BYTES) / (n_bytes + 2));
        verdict_is(index_open(page, n, &p), VERDICT_OK, 0, "");
        IS(p.n, n);
        IS(index_item(&p, n - 1).n, n_bytes);
    }
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
