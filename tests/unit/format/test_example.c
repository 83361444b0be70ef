/* SPEC.md's examples against the code: the bytes of the worked one decode and are what
 * the code would write, hold the keys that it says, and answer its probes step by step;
 * the tables of the others are computed anew.
 *
 * Usage: test_example [SPEC.md]. */
#include "tests/support/spec_text.h"

#include <inttypes.h>

#include "format/hash.h"
#include "format/integrity.h"
#include "format/list.h"
#include "format/pack.h"
#include "format/ribbon.h"

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
    IS(*p, '\n');
    *at = p + 1;
    return true;
}

TEST(example_is_a_filter)
{
    static const char mark[] = "<!-- bytes -->\n```\n";
    struct slot_health health;
    size_t n_lines = 0;
    for (const char *at = strstr(spec, mark); at; at = strstr(at, mark))
        for (at += sizeof mark - 1; dump_line(&at);)
            n_lines++;
    assert_true(n_lines > 30);
    IS(identity_decode(example.bytes, EXAMPLE_BYTES, &example.id).code, VERDICT_OK);
    IS(commit_choose_slot(example.bytes, &example.id, EXAMPLE_BYTES, &example.c,
                          &health)
           .code,
       VERDICT_OK);
    /* And it is what this code would have written. */
    uint8_t header[PAGE_BYTES];
    identity_encode(&example.id, header);
    commit_encode(&example.c, SLOT_BIRTH, header + IDENTITY_BYTES);
    assert_memory_equal(header, example.bytes, PAGE_BYTES);
    assert_true(example.c.committed_bytes == EXAMPLE_BYTES);
}

TEST(example_holds_its_keys)
{
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
    IS(on, hit);
    const char *answer = hit ? "\nAnswer: MAYBE (HIT).\n" : "\nAnswer: ABSENT.\n";
    assert_memory_equal(at, answer, strlen(answer));
}

TEST(example_probes_match)
{
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

/* A golden file, and its commit record. */
static uint8_t *golden(const char *file, struct commit *c)
{
    char path[512];
    struct identity id;
    snprintf(path, sizeof path, TAMIS_SOURCE_DIR "/tests/golden/%s", file);
    uint8_t *bytes = (uint8_t *)read_text(path); /* of less than 1 MiB */
    IS(identity_decode(bytes, 1 << 20, &id).code, VERDICT_OK);
    IS(commit_decode(bytes + IDENTITY_BYTES, SLOT_BIRTH, &id, 1 << 20, c).code,
       VERDICT_OK);
    return bytes;
}

/* The key of the examples of packs and ribbons, whose hash both name. */
static uint64_t example_hash(void)
{
    uint64_t h = hash_key(0x7a317, "key-0\xc3\xa9", 7);
    assert_true(h == UINT64_C(0x7de4287a29c0d7e1));
    return h;
}

/* The next row of the table at *at is this. */
static void row_is(const char **at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void row_is(const char **at, const char *format, ...)
{
    char want[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(want, sizeof want, format, args);
    va_end(args);
    if (strncmp(*at, want, (size_t)n) != 0)
        fail_msg("SPEC.md lacks the row %s", want);
    *at += n;
}

/* "01 00 ..." of the bytes of a row. */
static const char *row_text(const uint8_t *row, size_t n)
{
    static char text[64];
    for (size_t i = 0; i < n; i++)
        snprintf(text + 3 * i, 4, i + 1 < n ? "%02x " : "%02x", row[i]);
    return text;
}

TEST(pack_example_matches)
{
    const char *at = table("table", "pack_example");
    struct commit c;
    struct band b;
    uint8_t *file = golden("packs/wide.tamis", &c), all[8], text[128];
    const struct stage_desc *s = c.stages;
    IS(band_decode(file + s[PACK_BANDS].offset, &c, 0, NULL, &b).code, VERDICT_OK);
    snprintf((char *)text, sizeof text,
             "has %u columns in two bands. Its rows begin at byte %u,", s->n_columns,
             (unsigned)s->offset);
    assert_non_null(strstr(spec, (char *)text));
    assert_true(s->n_bands == 2 && b.geometry.n_blocks == 1 && b.geometry.lanes == 1);
    assert_true(b.row_bytes == sizeof all && b.n_columns == 62);
    uint64_t h = example_hash();
    memset(all, 0xff, sizeof all);
    for (uint32_t i = 0; i < b.geometry.words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        uint32_t bit = word * 64 + geometry_bit(h, word);
        const uint8_t *row = file + s->offset + band_row(&b, 0, 0, bit);
        row_is(&at, "| %u | %u | %u | %s |\n", word, bit, (unsigned)(row - file),
               row_text(row, sizeof all));
        for (size_t k = 0; k < sizeof all; k++)
            all[k] &= row[k];
    }
    row_is(&at, "\nTheir AND is %s.", row_text(all, sizeof all));
    free(file);
}

TEST(table_of_columns_matches)
{
    const char *at = strstr(spec, "\nThe table of columns has 4 pages.");
    struct commit c;
    struct index_page above, p;
    struct le32 place;
    uint32_t n;
    struct piece none = {NULL, 0}, name = {(const uint8_t *)"t40", 3};
    uint8_t *file = golden("packs/wide.tamis", &c);
    const uint8_t *pages = file + c.stages[PACK_COLUMNS].offset;
    assert_non_null(at);
    IS(c.stages[PACK_COLUMNS].used_bytes, 4 * PAGE_BYTES);
    IS(index_open(pages + 3 * PAGE_BYTES, 3, &above).code, VERDICT_OK);
    assert_true(above.level == 1 && above.first_child == 0 && above.n == 3);
    IS(index_name(&above, 0).n, 0);
    assert_memory_equal(index_name(&above, 1).at, "t32", 3);
    assert_true(index_search(&above, name, none, none, &n) && n == 2);
    IS(index_open(pages + PAGE_BYTES, 1, &p).code, VERDICT_OK);
    assert_true(p.level == 0 && p.n == 32);
    assert_true(index_search(&p, name, none, none, &n) && n == 8 + 1);
    IS(c.stages[PACK_BANDS].offset + place_offset(2, 40), 16608);
    memcpy(&place, file + 16608, sizeof place);
    IS(le32_get(place), 72);
    assert_non_null(strstr(at, "\nat byte 16608, is 72,"));
    free(file);
}

TEST(list_example_matches)
{
    static const uint64_t v[] = {0x10000, 0x10007, 0x10130, 0x11111, 0x1ffff};
    const char *at = table("table", "list_example");
    struct list_page p;
    uint8_t page[PAGE_BYTES];
    IS(list_page_fill(v, 5, page), 5);
    assert_true(list_page_open(page, 64, &p) && p.gap_bits == 12);
    row_is(&at, "| 0 | %x | 0 | %03x | | | | |\n", (unsigned)v[0],
           (unsigned)low_bits(v[0], 12));
    for (uint32_t i = 1; i < 5; i++) {
        unsigned low = (unsigned)low_bits(v[i], 12);
        bool step = low <= low_bits(v[i - 1], 12);
        row_is(&at, "| %u | %x | %x | %03x | %02x | %x | %x | %d |\n", i,
               (unsigned)v[i], (unsigned)list_high(&p, v[i]), low,
               list_top(page, &p, i),
               (unsigned)list_bits(page, p.rests_at * 8 + (i - 1) * p.rest_bits,
                                   p.rest_bits),
               (unsigned)((v[i] - v[i - 1] - 1) >> 12), step);
    }
}

TEST(ribbon_example_matches)
{
    const char *at = table("table", "ribbon_example");
    struct commit c;
    uint8_t *file = golden("ribbons/small.tamis", &c);
    const struct ribbon_geometry g = ribbon_geometry_of(&c.stages[0]);
    const uint8_t *page = file + c.stages[0].offset;
    uint64_t h = example_hash();
    struct ribbon_place p = ribbon_place_of(&g, h);
    struct ribbon_shape s = ribbon_shape_of(p.blocks);
    struct ribbon_key key = ribbon_key_of(h);
    uint32_t b = p.row / 64, shift = p.row % 64;
    char line[128];
    snprintf(line, sizeof line, "page %u, at 2360, row %u, b = %u, s = %u\n",
             (unsigned)p.page, p.row, b, shift);
    assert_non_null(strstr(spec, line));
    snprintf(line, sizeof line, "coefficients = %016" PRIx64 ", fingerprint = %08x\n",
             key.coefficients, key.fingerprint);
    assert_non_null(strstr(spec, line));
    IS(page[ribbon_threshold_at(&s, b)], 0);
    IS(ribbon_columns(&s, b), 7);
    for (uint32_t j = 0; j < 7; j++) {
        uint64_t here = ribbon_word(page, ribbon_block_at(&s, b) + 8 * j);
        uint64_t next = ribbon_word(page, ribbon_block_at(&s, b + 1) + 8 * j);
        int parity = __builtin_parityll((here & key.coefficients << shift) ^
                                        (next & key.coefficients >> (64 - shift)));
        row_is(&at, "| %u | %016" PRIx64 " | %016" PRIx64 " | %d | %u |\n", j, here,
               next, parity, key.fingerprint >> j & 1);
    }
    IS(ribbon_page_probe(page, &p, h), RIBBON_MATCH);
    row_is(&at, "\nAll columns match: MAYBE/HIT.\n");
    free(file);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        spec_path = argv[1];
    return run_listed_tests(load_spec, free_spec);
}
