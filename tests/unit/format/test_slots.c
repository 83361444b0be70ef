/* commit_choose_slot(): which of two slots counts (SPEC.md section 6), and that no
 * single flipped bit of a header goes unnoticed or loses what was acknowledged. */
#include "tests/unit/format/commit_records.h"

enum { HEADER = 3 * PAGE_BYTES, AVAILABLE = 8 * 4096 };

/* A good commit of an open filter with one or two stages of a page each. */
static struct commit a_commit(uint64_t sequence, uint8_t n_stages)
{
    struct commit c = {
        .sequence = sequence,
        .watermark = sequence * 100,
        .generation = n_stages,
        .state = STATE_OPEN,
        .n_stages = n_stages,
        .committed_bytes = (uint64_t)(3 + 2 * n_stages) * 4096,
        .uuid = "0123456789abcdef",
    };
    for (uint64_t i = 0; i < n_stages; i++)
        c.stages[i] = (struct stage_desc){.offset = (3 + 2 * i) * 4096,
                                          .length = 4096,
                                          .capacity = 300,
                                          .target_error = 0.01,
                                          .floors_offset = (4 + 2 * i) * 4096,
                                          .layout = LAYOUT_SPLIT_BLOCKS,
                                          .geometry = {64, 1, 4}};
    return c;
}

/* A header with these two commits; a NULL one leaves its slot zero. */
static void build(uint8_t header[HEADER], const struct commit *a,
                  const struct commit *b)
{
    struct identity id = an_identity(3);
    memset(header, 0, HEADER);
    identity_encode(&id, header);
    if (a)
        commit_encode(a, SLOT_A, header + 4096);
    if (b)
        commit_encode(b, SLOT_B, header + 8192);
}

static struct verdict choose(const uint8_t *header, struct commit *c,
                             struct slot_health *health)
{
    struct identity id;
    struct verdict v = identity_decode(header, IDENTITY_BYTES, &id);
    IS(v.code, VERDICT_OK);
    v = commit_choose_slot(header, &id, AVAILABLE, c, health);
    if (v.code != VERDICT_OK)
        assert_true(all_zero(c, sizeof *c));
    return v;
}

static void expect(const uint8_t *header, uint8_t slot, uint64_t sequence)
{
    struct commit c;
    struct slot_health health;
    IS(choose(header, &c, &health).code, VERDICT_OK);
    IS(c.slot, slot);
    assert_true(c.sequence == sequence);
    assert_true(c.watermark == sequence * 100);
}

TEST(the_newer_slot_wins)
{
    uint8_t header[HEADER];
    struct commit five = a_commit(5, 1), six = a_commit(6, 2);
    struct commit last = a_commit(UINT64_MAX, 1);
    build(header, &six, &five);
    expect(header, SLOT_A, 6);
    build(header, &five, &six);
    expect(header, SLOT_B, 6);
    build(header, &five, &five);
    expect(header, SLOT_A, 5);
    build(header, &five, NULL);
    expect(header, SLOT_A, 5);
    build(header, NULL, &five);
    expect(header, SLOT_B, 5);
    last.watermark = UINT64_MAX * 100;
    build(header, &five, &last); /* no wrapping around */
    expect(header, SLOT_B, UINT64_MAX);
}

TEST(a_torn_slot_is_passed_over)
{
    uint8_t header[HEADER];
    struct commit c, five = a_commit(5, 1), six = a_commit(6, 2);
    struct slot_health health;
    for (size_t torn_at = 512; torn_at < 4096; torn_at += 512) {
        /* Slot A is half six, half the record of before; B is still five. */
        uint8_t old[SLOT_BYTES];
        commit_encode(&five, SLOT_A, old);
        build(header, &six, &five);
        memcpy(header + 4096 + torn_at, old + torn_at, SLOT_BYTES - torn_at);
        expect(header, SLOT_B, 5);
        choose(header, &c, &health);
        verdict_is(health.frame[0], VERDICT_CHECKSUM, 8184, "checksum");
        verdict_is(health.frame[1], VERDICT_OK, 8192, "");
        assert_true(health.sequence[0] == 0 && health.sequence[1] == 5);
    }
    build(header, NULL, NULL);
    verdict_is(choose(header, &c, &health), VERDICT_MAGIC, 4096, "magic");
    verdict_is(health.frame[1], VERDICT_MAGIC, 8192, "magic");
    build(header, &five, &six);
    header[4096 + 30] ^= 1;
    header[8192 + 30] ^= 1;
    verdict_is(choose(header, &c, &health), VERDICT_CHECKSUM, 8184, "checksum");
    verdict_is(health.frame[1], VERDICT_CHECKSUM, 12280, "checksum");
}

TEST(slots_of_elsewhere_do_not_count)
{
    uint8_t header[HEADER], page[4096];
    struct commit c, five = a_commit(5, 1), nine = a_commit(9, 2);
    struct slot_health health;
    nine.uuid[0] ^= 1; /* another filter's, newer */
    build(header, &nine, &five);
    expect(header, SLOT_B, 5);
    build(header, &five, &nine);
    expect(header, SLOT_A, 5);
    choose(header, &c, &health);
    verdict_is(health.frame[1], VERDICT_IDENTITY, 8200, "uuid");
    nine.uuid[0] ^= 1; /* ours again, but in each other's place */
    build(header, &five, &nine);
    memcpy(page, header + 4096, 4096);
    memcpy(header + 4096, header + 8192, 4096);
    memcpy(header + 8192, page, 4096);
    verdict_is(choose(header, &c, &health), VERDICT_IDENTITY, 4096 + 88, "slot");
    verdict_is(health.frame[1], VERDICT_IDENTITY, 8192 + 88, "slot");
    build(header, &five, NULL); /* A's record copied over B */
    memcpy(header + 8192, header + 4096, 4096);
    expect(header, SLOT_A, 5);
}

/* The newest whole record is the filter's word, even if we cannot read it: the older
 * one may lack a stage, and answer ABSENT for its keys. */
TEST(what_is_whole_and_unreadable_is_final)
{
    uint8_t header[HEADER];
    struct commit c, five = a_commit(5, 1), six = a_commit(6, 2);
    struct slot_health health;
    six.incompat = 2;
    build(header, &six, &five);
    verdict_is(choose(header, &c, &health), VERDICT_FLAGS, 4096 + 48, "incompat");
    IS(health.frame[0].code, VERDICT_OK);
    build(header, &five, &six);
    verdict_is(choose(header, &c, &health), VERDICT_FLAGS, 8192 + 48, "incompat");
    six = a_commit(6, 2);
    six.stages[1].layout = 2;
    build(header, &six, &five);
    verdict_is(choose(header, &c, &health), VERDICT_KIND, 4096 + 376 + 64,
               "stage.layout");
    six = a_commit(6, 2);
    six.committed_bytes = AVAILABLE + 4096; /* a file cut short */
    build(header, &six, &five);
    verdict_is(choose(header, &c, &health), VERDICT_SHORT, 4096 + 72,
               "committed_bytes");
    six = a_commit(4, 2); /* older: it is not read */
    six.incompat = 2;
    build(header, &five, &six);
    expect(header, SLOT_A, 5);
    /* A tie with a different record: A's word. */
    six = a_commit(5, 2);
    six.incompat = 2;
    build(header, &six, &five);
    verdict_is(choose(header, &c, &health), VERDICT_FLAGS, 4096 + 48, "incompat");
}

TEST(page_0_has_nothing_else)
{
    uint8_t header[HEADER];
    struct commit c, five = a_commit(5, 1);
    struct slot_health health;
    for (size_t at = 2048; at < 4096; at++) {
        build(header, &five, &five);
        header[at] = 1;
        memset(&health, 0xff, sizeof health);
        memset(&c, 0xff, sizeof c);
        verdict_is(choose(header, &c, &health), VERDICT_UNUSED, 2048, "page 0");
        assert_true(all_zero(&health, sizeof health));
        /* A feature that may be ignored may be kept there. */
        put_le(header + offsetof(struct identity_disk, compat), 8, 1);
        checksum_set(header, IDENTITY_BYTES, 0);
        verdict_is(choose(header, &c, &health), VERDICT_OK, 4096, "");
    }
}

TEST(one_flipped_bit_loses_nothing)
{
    uint8_t header[HEADER];
    struct commit c, five = a_commit(5, 2);
    struct slot_health health;
    build(header, &five, &five);
    for (size_t bit = NO_BIT; flip_next(header, HEADER, &bit);) {
        struct identity id;
        if (bit / 8 < 2048) {
            assert_int_not_equal(identity_decode(header, 2048, &id).code, VERDICT_OK);
        } else if (bit / 8 < 4096) {
            IS(choose(header, &c, &health).code, VERDICT_UNUSED);
        } else {
            uint8_t slot = bit / 8 < 8192 ? SLOT_B : SLOT_A;
            IS(choose(header, &c, &health).code, VERDICT_OK);
            assert_int_not_equal(health.frame[1 - slot].code, VERDICT_OK);
            assert_true(c.slot == slot && c.sequence == 5 && c.n_stages == 2);
            assert_true(c.watermark == 500);
        }
    }
    expect(header, SLOT_A, 5);
}

TEST(birth_has_one_record)
{
    uint8_t header[PAGE_BYTES]; /* one page is all that is read */
    struct identity id = an_identity(1);
    struct commit out, c = a_commit(1, 1);
    struct slot_health health;
    c.state = STATE_SEALED;
    c.clean = 1;
    c.stages[0].offset = 4096;
    c.stages[0].floors_offset = 0;
    c.committed_bytes = 8192;
    identity_encode(&id, header);
    commit_encode(&c, SLOT_BIRTH, header + 2048);
    verdict_is(choose(header, &out, &health), VERDICT_OK, 2048, "");
    assert_true(out.slot == SLOT_BIRTH && out.n_stages == 1 && out.sequence == 1);
    for (size_t bit = NO_BIT; flip_next(header + 2048, BIRTH_BYTES, &bit);) {
        struct verdict v = choose(header, &out, &health);
        assert_true(v.code == (bit / 8 < 8 ? VERDICT_MAGIC : VERDICT_CHECKSUM));
        assert_true(v.offset == (bit / 8 < 8 ? 2048 : 4088));
    }
    c.n_stages = 0;
    commit_encode(&c, SLOT_BIRTH, header + 2048);
    verdict_is(choose(header, &out, &health), VERDICT_RANGE, 2048 + 91, "n_stages");
}

RUN_TESTS(NULL, NULL)
