/* SPEC.md against the code: its offset tables against offsetof (through the field
 * tables), its version, limits, hashes and salts. Its rules are for test_spec_rules,
 * the worked example for test_example.
 *
 * Usage: test_spec [SPEC.md]. */
#include "tests/unit/format/spec_records.h"

#include <inttypes.h>

#include "format/hash.h"

/* ---- records ---- */

static const char *type_name(const struct field *f)
{
    switch ((enum field_type)f->type) {
    case FIELD_UINT:
    case FIELD_HEX:
        return f->n_bytes == 1   ? "u8"
               : f->n_bytes == 2 ? "u16"
               : f->n_bytes == 4 ? "u32"
               : f->n_bytes == 6 ? "u48"
                                 : "u64";
    case FIELD_F64:
        return "f64";
    case FIELD_TIME:
        return "time";
    case FIELD_BYTES:
        return "bytes";
    case FIELD_UUID:
        return "uuid";
    case FIELD_UNUSED:
        return "zero";
    }
    return "?";
}

TEST(fields_cover_their_records)
{
    for (size_t i = 0; i < N_OF(records); i++) {
        size_t at = 0;
        for (size_t k = 0; k < *records[i].n_fields; k++) {
            const struct field *f = &records[i].fields[k];
            if (f->offset != at || f->n_bytes == 0)
                fail_msg("%s.%s begins at %u, not %zu", records[i].name, f->name,
                         f->offset, at);
            bool whole = f->type == FIELD_BYTES || f->type == FIELD_UNUSED ||
                         (f->type == FIELD_UUID ? f->n_bytes == 16 : f->n_bytes <= 8);
            assert_true(whole);
            at += f->n_bytes;
        }
        IS(at, records[i].n_bytes);
    }
}

TEST(offset_tables_match)
{
    for (size_t i = 0; i < N_OF(records); i++) {
        const char *at = table("table", records[i].name);
        struct row r;
        for (size_t k = 0; k < *records[i].n_fields; k++) {
            const struct field *f = &records[i].fields[k];
            char want[128], got[3 * MAX_CELL_BYTES + 16];
            bool counted = f->type == FIELD_BYTES || f->type == FIELD_UNUSED;
            if (!next_row(&at, &r))
                fail_msg("%s: SPEC.md lacks %s", records[i].name, f->name);
            int n = snprintf(want, sizeof want, "%u | %s | %s", f->offset, f->name,
                             type_name(f));
            if (counted)
                snprintf(want + n, sizeof want - (size_t)n, "[%u]", f->n_bytes);
            snprintf(got, sizeof got, "%s | %s | %s", r.cell[0], r.cell[1], r.cell[2]);
            assert_string_equal(got, want);
            IS(r.n, 4);
        }
        if (next_row(&at, &r))
            fail_msg("%s: SPEC.md has %s too many", records[i].name, r.cell[1]);
    }
}

static void check_magic(const char *name, const uint8_t *record)
{
    const char *at = table("table", name);
    struct row r;
    char want[32] = "";
    assert_true(next_row(&at, &r));
    for (size_t i = 0; i < 8; i++)
        snprintf(want + 3 * i, 4, "%02X ", record[i]);
    assert_string_equal(r.cell[1], "magic");
    assert_memory_equal(r.cell[3], want, 23);
}

TEST(magics_match)
{
    static const struct identity id;
    static const struct commit c;
    static const struct meta m;
    uint8_t record[SLOT_BYTES];
    identity_encode(&id, record);
    check_magic("identity_disk", record);
    commit_encode(&c, SLOT_A, record);
    check_magic("commit_disk", record);
    meta_encode(&m, record);
    check_magic("meta_disk", record);
}

/* ---- numbers ---- */

/* The words of SPEC.md before a number that the code has, too. */
TEST(constants_match)
{
    static const struct {
        const char *before;
        uint64_t value;
    } constants[] = {
        {"| page, sector | ", PAGE_BYTES},
        {"| page, sector | 4096 bytes, ", SECTOR_BYTES},
        {"length = lanes * n_blocks * ", BLOCK_BYTES},
        {"lanes is 1..", MAX_LANES},
        {"words is 1..", MAX_WORDS},
        {"1 <= n_blocks <= 2^", 32},
        {"The identity is bytes 0..", IDENTITY_BYTES - 1},
        {"| A | 0 | 4096 | ", SLOT_BYTES},
        {"| birth | 2 | 2048 | ", BIRTH_BYTES},
        {"n_stages is 1..", MAX_STAGES},
        {"; in slot birth 1..", MAX_BIRTH_STAGES},
        {"binding_bytes <= ", BINDING_MAX_BYTES},
        {"name_bytes <= ", NAME_MAX_BYTES},
        {"contains the floors of ", PAGES_PER_FLOOR_SECTOR},
        {"so a floor of ", FLOOR_DAMAGED},
        {"bytes each, ", DIGESTS_PER_PAGE},
        {"n_parts <= ", RECORD_MAX_PARTS},
        {"first_bytes <= ", RANGE_MAX_BYTES},
        {"1 <= n_bands <= ", PACK_MAX_BANDS},
        {"n_bands <= n_columns <= ", PACK_MAX_COLUMNS},
        {"has the bits of the ", CHUNK_COLUMNS},
        {"16 <= blocks <= ", RIBBON_MAX_BLOCKS},
    };
    for (size_t i = 0; i < N_OF(constants); i++) {
        const char *at = strstr(spec, constants[i].before);
        if (!at ||
            strtoull(at + strlen(constants[i].before), NULL, 0) != constants[i].value)
            fail_msg("SPEC.md has another number after \"%s\"", constants[i].before);
    }
    assert_true(MAX_BLOCKS == UINT64_C(1) << 32);
}

TEST(version_matches)
{
    char version[64];
    snprintf(version, sizeof version, "\nVersion %d.%d ", FORMAT_MAJOR, FORMAT_MINOR);
    assert_non_null(strstr(spec, version));
}

/* Bytes from "`6162`" or "`a5` * 1000" or "(empty)". */
static size_t key_of(const char *cell, uint8_t key[1024])
{
    size_t n = 0, times = 1;
    const char *star = strstr(cell, "` * ");
    if (star)
        times = (size_t)number(star + 4);
    if (strcmp(cell, "(empty)") == 0)
        return 0;
    IS(cell[0], '`');
    for (const char *p = cell + 1; *p && *p != '`'; p += 2) {
        char two[3] = {p[0], p[1], 0};
        key[n++] = (uint8_t)strtoul(two, NULL, 16);
    }
    assert_true(n > 0 && n * times <= 1024);
    for (size_t i = n; i < n * times; i++)
        key[i] = key[i - n];
    return n * times;
}

TEST(hashes_match)
{
    const char *at = table("table", "hashes");
    struct row r;
    size_t n_rows = 0;
    uint8_t key[1024];
    for (; next_row(&at, &r); n_rows++) {
        size_t n = key_of(r.cell[0], key);
        if (hash_key(number(r.cell[1]), key, n) != number(r.cell[2]))
            fail_msg("hash of %s with seed %s is not %s", r.cell[0], r.cell[1],
                     r.cell[2]);
    }
    assert_true(n_rows >= 10);
}

TEST(salts_match)
{
    const char *at = table("table", "salts");
    struct row r;
    for (uint32_t w = 0; w < WORDS_PER_BLOCK; w++) {
        assert_true(next_row(&at, &r));
        assert_true(number(r.cell[0]) == w);
        assert_true(number(r.cell[1]) == geometry_salt[w]);
    }
    assert_false(next_row(&at, &r));
    char multiplier[64];
    snprintf(multiplier, sizeof multiplier, "(h >> 32)) * 0x%016" PRIX64 ") mod 2^64",
             LANE_MULTIPLIER);
    assert_non_null(strstr(spec, multiplier));
}

TEST(digest_sizes_match)
{
    const char *at = table("table", "digests");
    struct row r;
    size_t n_rows = 0;
    for (; next_row(&at, &r); n_rows++)
        assert_true(digests_bytes(number(r.cell[0])) == number(r.cell[2]));
    IS(n_rows, 4);
}

RUN_SPEC_TESTS
