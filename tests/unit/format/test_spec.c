/* SPEC.md against the code: its offset tables against offsetof (through the field
 * tables), its constants, hashes and salts, and what it reserves. Its rules are for
 * test_spec_rules, the worked example for test_example.
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
            char want[128], got[4 * MAX_CELL_BYTES + 16];
            if (!next_row(&at, &r))
                fail_msg("%s: SPEC.md lacks %s", records[i].name, f->name);
            snprintf(want, sizeof want, "%u | %u | %s | %s", f->offset, f->n_bytes,
                     f->name, type_name(f));
            snprintf(got, sizeof got, "%s | %s | %s | %s", r.cell[0], r.cell[1],
                     r.cell[2], r.cell[3]);
            assert_string_equal(got, want);
            IS(r.n, 5);
        }
        if (next_row(&at, &r))
            fail_msg("%s: SPEC.md has %s too many", records[i].name, r.cell[2]);
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
    assert_string_equal(r.cell[2], "magic");
    assert_memory_equal(r.cell[4], want, 23);
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

TEST(constants_match)
{
    static const struct {
        const char *name;
        uint64_t value;
    } constants[] = {
        {"page bytes", PAGE_BYTES},
        {"sector bytes", SECTOR_BYTES},
        {"block bytes", BLOCK_BYTES},
        {"words per block", WORDS_PER_BLOCK},
        {"most lanes", MAX_LANES},
        {"most words", MAX_WORDS},
        {"most blocks per lane", MAX_BLOCKS},
        {"identity bytes", IDENTITY_BYTES},
        {"slot bytes", SLOT_BYTES},
        {"birth record bytes", BIRTH_BYTES},
        {"commit head bytes", COMMIT_HEAD_BYTES},
        {"stage descriptor bytes", STAGE_BYTES},
        {"most stages", MAX_STAGES},
        {"most stages in slot birth", MAX_BIRTH_STAGES},
        {"most binding bytes", BINDING_MAX_BYTES},
        {"most name bytes", NAME_MAX_BYTES},
        {"pages per floor sector", PAGES_PER_FLOOR_SECTOR},
        {"floor of a damaged sector", FLOOR_DAMAGED},
        {"digests per page", DIGESTS_PER_PAGE},
        {"meta record bytes", META_BYTES},
        {"segment record head bytes", RECORD_HEAD_BYTES},
        {"part bytes", PART_BYTES},
        {"most parts", RECORD_MAX_PARTS},
        {"most bytes of a range's key", RANGE_MAX_BYTES},
        {"major version", FORMAT_MAJOR},
        {"minor version", FORMAT_MINOR},
    };
    const char *at = table("table", "constants");
    struct row r;
    for (size_t i = 0; i < N_OF(constants); i++) {
        assert_true(next_row(&at, &r));
        assert_string_equal(r.cell[0], constants[i].name);
        if (number(r.cell[1]) != constants[i].value)
            fail_msg("%s: SPEC.md says %s", r.cell[0], r.cell[1]);
    }
    assert_false(next_row(&at, &r));
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
    char tag[32];
    snprintf(tag, sizeof tag, "is 0x%016" PRIx64 ".",
             hash_domain_tag(HASH_XXH3_64, UINT64_C(0x0123456789abcdef)));
    assert_non_null(strstr(spec, tag));
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
    IS(n_rows, 7);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        spec_path = argv[1];
    return run_listed_tests(load_spec, free_spec);
}
