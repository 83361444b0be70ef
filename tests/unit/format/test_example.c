/* SPEC.md's examples against the code: the bytes of the worked one decode and are what
 * the code would write, hold the keys that it says, and answer its probes step by
 * step.
 *
 * Usage: test_example [SPEC.md]. */
#include "tests/support/spec_text.h"

#include <inttypes.h>

#include "format/commit.h"
#include "format/hash.h"
#include "format/integrity.h"

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
    assert_true(n_probes >= 2);
}

RUN_SPEC_TESTS
