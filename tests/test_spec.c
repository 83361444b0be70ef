/* SPEC.md against the code: its offset tables against offsetof (through the field
 * tables), its constants, hashes, salts and rules, the sections that format/ cites,
 * and the worked example, byte for byte and probe for probe.
 *
 * Usage: test_spec [SPEC.md]. Tables that are read here follow a line such as
 * "<!-- table: identity_disk -->" in the text. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/hash.h"
#include "format/integrity.h"
#include "format/record.h"

#ifndef TAMIS_SOURCE_DIR
#define TAMIS_SOURCE_DIR "."
#endif
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *spec_path = TAMIS_SOURCE_DIR "/SPEC.md";
static char *spec; /* the whole text, NUL-terminated */

/* ---- reading ---- */

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    assert_true(n > 0 && feof(f));
    fclose(f);
    return text;
}

static int load_spec(void **state)
{
    (void)state;
    spec = read_text(spec_path);
    return 0;
}

static int free_spec(void **state)
{
    (void)state;
    free(spec);
    return 0;
}

/* The text after "<!-- WHAT: NAME -->\n", from `from` on; NULL if there is none. */
static const char *marker(const char *from, const char *what, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "<!-- %s: %s -->\n", what, name);
    const char *at = strstr(from, line);
    return at ? at + strlen(line) : NULL;
}

enum { MAX_CELLS = 12, MAX_CELL_BYTES = 160 };
struct row {
    size_t n;
    char cell[MAX_CELLS][MAX_CELL_BYTES];
};

/* Reads "| a | b |" at *at, which it moves to the next line; false if it is none. */
static bool next_row(const char **at, struct row *r)
{
    const char *p = *at;
    memset(r, 0, sizeof *r);
    if (*p != '|')
        return false;
    for (p++; *p && *p != '\n' && r->n < MAX_CELLS;) {
        const char *end = p + strcspn(p, "|\n");
        if (*end != '|')
            break;
        while (*p == ' ')
            p++;
        int n = (int)(end - p);
        while (n > 0 && p[n - 1] == ' ')
            n--;
        snprintf(r->cell[r->n++], MAX_CELL_BYTES, "%.*s", n, p);
        p = end + 1;
    }
    p += strcspn(p, "\n");
    *at = *p ? p + 1 : p;
    return true;
}

/* The first row of a table, past its two lines of head. */
static const char *table(const char *what, const char *name)
{
    struct row r;
    const char *at = marker(spec, what, name);
    if (!at)
        fail_msg("SPEC.md has no \"%s: %s\"", what, name);
    assert_true(next_row(&at, &r) && next_row(&at, &r));
    assert_memory_equal(r.cell[0], "---", 3);
    return at;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t v = strtoull(text, &end, 0);
    if (end == text || *end)
        fail_msg("\"%s\" is no number", text);
    return v;
}

/* ---- records ---- */

/* Not const: how many fields there are is known when the program runs. */
static struct record_table {
    const char *name;
    const struct field *fields;
    const size_t *n_fields;
    size_t n_bytes;
} records[] = {
    {"identity_disk", identity_fields, &n_identity_fields, IDENTITY_BYTES},
    {"commit_disk", commit_fields, &n_commit_fields, COMMIT_HEAD_BYTES},
    {"stage_disk", stage_fields, &n_stage_fields, STAGE_BYTES},
    {"floor_sector_disk", floor_sector_fields, &n_floor_sector_fields, SECTOR_BYTES},
    {"meta_disk", meta_fields, &n_meta_fields, META_BYTES},
    {"record_disk", record_fields, &n_record_fields, RECORD_HEAD_BYTES},
};

static const char *type_name(const struct field *f)
{
    switch ((enum field_type)f->type) {
    case FIELD_UINT:
    case FIELD_HEX:
        return f->n_bytes == 1   ? "u8"
               : f->n_bytes == 2 ? "u16"
               : f->n_bytes == 4 ? "u32"
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

static void fields_cover_their_records(void **state)
{
    (void)state;
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
        assert_int_equal(at, records[i].n_bytes);
    }
}

static void offset_tables_match(void **state)
{
    (void)state;
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
            assert_int_equal(r.n, 5);
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

static void magics_match(void **state)
{
    (void)state;
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

static void constants_match(void **state)
{
    (void)state;
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
        {"most stages sealed at birth", MAX_BIRTH_STAGES},
        {"most binding bytes", BINDING_MAX_BYTES},
        {"most name bytes", NAME_MAX_BYTES},
        {"pages per floor sector", PAGES_PER_FLOOR_SECTOR},
        {"floor of a damaged sector", FLOOR_DAMAGED},
        {"digests per page", DIGESTS_PER_PAGE},
        {"meta record bytes", META_BYTES},
        {"segment record head bytes", RECORD_HEAD_BYTES},
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
    snprintf(version, sizeof version, "\nVersion %d.%d, ", FORMAT_MAJOR, FORMAT_MINOR);
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
    assert_int_equal(cell[0], '`');
    for (const char *p = cell + 1; *p && *p != '`'; p += 2) {
        char two[3] = {p[0], p[1], 0};
        key[n++] = (uint8_t)strtoul(two, NULL, 16);
    }
    assert_true(n > 0 && n * times <= 1024);
    for (size_t i = n; i < n * times; i++)
        key[i] = key[i - n];
    return n * times;
}

static void hashes_match(void **state)
{
    (void)state;
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

static void salts_match(void **state)
{
    (void)state;
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

static void digest_sizes_match(void **state)
{
    (void)state;
    const char *at = table("table", "digests");
    struct row r;
    size_t n_rows = 0;
    for (; next_row(&at, &r); n_rows++)
        assert_true(digests_bytes(number(r.cell[0])) == number(r.cell[2]));
    assert_int_equal(n_rows, 7);
}

/* ---- rules and sections ---- */

static bool verdict_exists(const char *name)
{
    static const char *const names[] = {"SHORT",    "MAGIC",  "VERSION", "CHECKSUM",
                                        "FLAGS",    "UNUSED", "RANGE",   "OVERLAP",
                                        "IDENTITY", "KIND"};
    assert_int_equal(N_OF(names), VERDICT_KIND);
    for (size_t i = 0; i < N_OF(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool field_exists(const struct record_table *t, const char *name)
{
    static const char *const whole[] = {"identity", "checksum", "meta", "record"};
    for (size_t i = 0; i < *t->n_fields; i++)
        if (strcmp(t->fields[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < N_OF(whole); i++)
        if (strcmp(whole[i], name) == 0)
            return true;
    return false;
}

/* Each rule names a verdict and a field that exist. That the code keeps to them, in
 * their order, is for test_identity, test_commit, test_slots and test_record. */
static void rules_name_what_exists(void **state)
{
    (void)state;
    size_t n_rules = 0;
    for (size_t i = 0; i < N_OF(records); i++) {
        const char *at = spec;
        while ((at = marker(at, "rules", records[i].name))) {
            struct row r;
            assert_true(next_row(&at, &r) && next_row(&at, &r));
            for (uint64_t last = 0; next_row(&at, &r); n_rules++) {
                if (!verdict_exists(r.cell[2]))
                    fail_msg("rule \"%s\": no verdict %s", r.cell[1], r.cell[2]);
                if (!field_exists(&records[i], r.cell[3]))
                    fail_msg("rule \"%s\": no field %s", r.cell[1], r.cell[3]);
                assert_true(last == 0 || number(r.cell[0]) == last + 1);
                last = number(r.cell[0]);
            }
        }
    }
    assert_int_equal(n_rules, 20 + 4 + 12 + 13 + 14 + 14);
}

/* The heading "## 4. Geometry" or "### 9.3 ..." of section "4" or "9.3". */
static const char *section(const char *name)
{
    char heading[32];
    bool sub = strchr(name, '.') != NULL;
    snprintf(heading, sizeof heading, sub ? "\n### %s " : "\n## %s. ", name);
    return strstr(spec, heading);
}

/* The section that a citation at p names: "\u00a79.1", "SPEC.md section 9". */
static bool cited(const char *p, char name[8])
{
    static const char sign[] = "\xc2\xa7", words[] = "SPEC.md section";
    name[0] = 0;
    if (strncmp(p, sign, 2) == 0)
        p += 2;
    else if (strncmp(p, words, sizeof words - 1) == 0)
        p += sizeof words - 1 + (p[sizeof words - 1] == 's') + 1;
    else
        return false;
    size_t n = strspn(p, "0123456789.");
    while (n > 0 && p[n - 1] == '.')
        n--;
    if (n == 0 || n > 7)
        return false;
    memcpy(name, p, n);
    name[n] = 0;
    return true;
}

static void check_citations(const char *file, bool header)
{
    char path[512], name[8];
    snprintf(path, sizeof path, TAMIS_SOURCE_DIR "/format/%s", file);
    char *text = read_text(path);
    size_t n_cited = 0;
    for (const char *p = text; *p; p++) {
        if (!cited(p, name))
            continue;
        const char *s = section(name);
        if (!s)
            fail_msg("format/%s cites section %s, which SPEC.md lacks", file, name);
        /* A header's first citation is its own section, which names it back. */
        char back[300];
        snprintf(back, sizeof back, "`format/%s`", file);
        const char *found = strstr(s, back), *end = strstr(s + 1, "\n## ");
        if (header && n_cited == 0 && (!found || (end && found > end)))
            fail_msg("section %s does not name format/%s", name, file);
        n_cited++;
    }
    if (header && n_cited == 0 && strcmp(file, "field.h") != 0)
        fail_msg("format/%s cites no section", file);
    free(text);
}

static void sections_are_named_both_ways(void **state)
{
    (void)state;
    DIR *dir = opendir(TAMIS_SOURCE_DIR "/format");
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t length = strlen(e->d_name);
        if (length < 3 || e->d_name[0] == '.' || e->d_name[length - 2] != '.')
            continue;
        check_citations(e->d_name, e->d_name[length - 1] == 'h');
        n++;
    }
    closedir(dir);
    assert_true(n >= 14);
    /* And SPEC.md's own cross references lead somewhere. */
    char name[8];
    for (const char *p = spec; *p; p++)
        if (cited(p, name) && !section(name))
            fail_msg("SPEC.md cites section %s, which it lacks", name);
}

/* ---- the worked example ---- */

enum { EXAMPLE_BYTES = 16384 };
static struct example {
    uint8_t bytes[EXAMPLE_BYTES];
    struct identity id;
    struct commit c;
} example;

/* "00000010  89 54 ... 1a  0a ..." into the example; false at the closing fence. */
static bool dump_line(const char **at)
{
    char *p;
    if (strncmp(*at, "```", 3) == 0)
        return false;
    uint64_t offset = strtoull(*at, &p, 16);
    assert_true(p == *at + 8 && offset % 16 == 0 && offset < EXAMPLE_BYTES);
    for (size_t i = 0; i < 16; i++)
        example.bytes[offset + i] = (uint8_t)strtoul(p, &p, 16);
    assert_int_equal(*p, '\n');
    *at = p + 1;
    return true;
}

static void example_is_a_filter(void **state)
{
    (void)state;
    static const char mark[] = "<!-- bytes -->\n```\n";
    struct slot_health health;
    size_t n_lines = 0;
    for (const char *at = strstr(spec, mark); at; at = strstr(at, mark))
        for (at += sizeof mark - 1; dump_line(&at);)
            n_lines++;
    assert_true(n_lines > 30);
    assert_int_equal(identity_decode(example.bytes, EXAMPLE_BYTES, &example.id).code,
                     VERDICT_OK);
    assert_int_equal(
        commit_choose(example.bytes, &example.id, EXAMPLE_BYTES, &example.c, &health)
            .code,
        VERDICT_OK);
    /* And it is what this code would have written. */
    uint8_t header[PAGE_BYTES];
    identity_encode(&example.id, header);
    commit_encode(&example.c, SLOT_BIRTH, header + IDENTITY_BYTES);
    assert_memory_equal(header, example.bytes, PAGE_BYTES);
    assert_true(example.c.committed_bytes == EXAMPLE_BYTES);
}

static void example_holds_its_keys(void **state)
{
    (void)state;
    static uint8_t bits[2 * PAGE_BYTES];
    const struct stage_desc *s = &example.c.stages[0];
    char line[256], *rest = line;
    assert_true(s->length == sizeof bits);
    memset(bits, 0, sizeof bits);
    const char *at = strstr(spec, "with the keys\n\n    ");
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at + 19, "\n"), at + 19);
    size_t n_keys = 0;
    for (char *key; (key = strtok_r(rest, " ", &rest)); n_keys++)
        geometry_add(bits, &s->geometry,
                     hash_key(example.id.hash_seed, key, strlen(key)));
    assert_true(n_keys == s->keys);
    assert_memory_equal(bits, example.bytes + s->offset, sizeof bits);
    uint64_t n_set = 0;
    for (size_t i = 0; i < sizeof bits; i += SECTOR_BYTES)
        n_set += sector_count(bits + i);
    assert_true(n_set == s->bits_set);

    uint8_t digests[PAGE_BYTES] = {0};
    struct digest_tree t;
    digest_tree_of(2, &t);
    for (size_t i = 0; i < 2; i++) {
        struct le64 d = le64_of(page_digest(bits + i * PAGE_BYTES));
        memcpy(digests + i * DIGEST_BYTES, &d, sizeof d);
    }
    assert_memory_equal(digests, example.bytes + s->digests_offset, PAGE_BYTES);
    assert_true(digest_tree_finish(&t, digests) == s->root);
}

/* The rows of one probe, and its answer, as this code computes them. */
static void check_probe(const char *key, const char *at)
{
    const struct stage_desc *s = &example.c.stages[0];
    const struct geometry *g = &s->geometry;
    uint64_t h = hash_key(example.id.hash_seed, key, strlen(key));
    bool hit = geometry_probe(example.bytes + s->offset, g, h), on = true;
    struct row r;
    assert_true(next_row(&at, &r) && next_row(&at, &r));
    for (uint32_t lane = 0; on && lane < g->lanes; lane++) {
        for (uint32_t i = 0; on && i < g->words; i++) {
            uint32_t word = (geometry_start(h) + i) % 8, bit = geometry_bit(h, word);
            uint64_t byte =
                s->offset + geometry_block_offset(g, lane, h) + word * 8 + bit / 8;
            char want[256];
            on = example.bytes[byte] >> (bit % 8) & 1;
            int n = snprintf(want, sizeof want,
                             "| %u | 0x%016" PRIx64 " | %" PRIu64
                             " | 0x%08x | %u | %u | %u | %" PRIu64 " | 0x%02x | %s |\n",
                             lane, h, geometry_block(h, g->n_blocks), (uint32_t)h,
                             geometry_start(h), word, bit, byte, example.bytes[byte],
                             on ? "yes" : "no");
            if (strncmp(at, want, (size_t)n) != 0)
                fail_msg("probe of %s: want %s", key, want);
            at += n;
        }
        h = geometry_next_lane(h);
    }
    assert_int_equal(on, hit);
    const char *answer = hit ? "\nAnswer: MAYBE (HIT).\n" : "\nAnswer: ABSENT.\n";
    assert_memory_equal(at, answer, strlen(answer));
}

static void example_probes_match(void **state)
{
    (void)state;
    static const char mark[] = "<!-- probe: ";
    size_t n_probes = 0;
    for (const char *at = strstr(spec, mark); at; at = strstr(at, mark), n_probes++) {
        char key[64];
        at += sizeof mark - 1;
        snprintf(key, sizeof key, "%.*s", (int)strcspn(at, " "), at);
        at = strchr(at, '\n') + 1;
        check_probe(key, at);
    }
    assert_true(n_probes >= 3);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        spec_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_cover_their_records),
        cmocka_unit_test(offset_tables_match),
        cmocka_unit_test(magics_match),
        cmocka_unit_test(constants_match),
        cmocka_unit_test(hashes_match),
        cmocka_unit_test(salts_match),
        cmocka_unit_test(digest_sizes_match),
        cmocka_unit_test(rules_name_what_exists),
        cmocka_unit_test(sections_are_named_both_ways),
        cmocka_unit_test(example_is_a_filter),
        cmocka_unit_test(example_holds_its_keys),
        cmocka_unit_test(example_probes_match),
    };
    return cmocka_run_group_tests_name("spec", tests, load_spec, free_spec);
}
