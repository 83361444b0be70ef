/* Filters made by hand to hurt, their checksums right: every one gets a verdict that
 * says what is wrong, with which field and at which byte; all ways in agree on it; no
 * memory is taken for what a file only claims to have. A case for each kind of verdict:
 * the tests of format/ have all damages. */
#include "tests/support/one_file.h"

enum { N_KEYS = 3000 };
static uint64_t keys[N_KEYS];
static uint8_t *sealed, *growing; /* good files */
static size_t n_sealed, n_growing;

static int set_up(void **state)
{
    random_hashes(keys, N_KEYS);
    if (one_file_create(state) != 0)
        return -1;
    BUILD(path, keys, N_KEYS, .error = 1e-6, .identity.name = "seg",
          .identity.name_bytes = 3);
    sealed = file_read(path, &n_sealed);
    grow_to(path, 600, keys, N_KEYS, 1);
    growing = file_read(path, &n_growing);
    return 0;
}

static int tear_down(void **state)
{
    free(sealed);
    free(growing);
    return test_dir_remove(state);
}

/* ---- one a line: what is done to a good record, and the verdict that is due ---- */

/* Changes a decoded commit record; identities are changed as bytes. */
typedef void hurt_fn(struct commit *c);
enum base { BIRTH, GROWN };

#define BIG_PAGE (UINT64_MAX - 4095)
#define HURT(name, ...)                                                                \
    static void name(struct commit *c)                                                 \
    {                                                                                  \
        struct stage_desc *s = &c->stages[0];                                          \
        (void)s;                                                                       \
        __VA_ARGS__;                                                                   \
    }
HURT(blocks_2_58_length_wraps, s->geometry.n_blocks = UINT64_C(1) << 58;
     s->length = s->geometry.n_blocks * 64 * s->geometry.lanes)
HURT(blocks_2_32, commit_unsettle(c); s->geometry.n_blocks = UINT64_C(1) << 32;
     s->geometry.lanes = 4; s->length = UINT64_C(1) << 40)
HURT(length_huge, s->length = BIG_PAGE)
HURT(offset_that_wraps, s->offset = BIG_PAGE)
HURT(digests_in_the_bits, s->digests_offset = s->offset)
HURT(stage_over_header, s->offset = 2 * PAGE_BYTES)
HURT(stages_255, c->n_stages = 255)
HURT(committed_past_the_end, c->committed_bytes += PAGE_BYTES)
HURT(sequence_zero, c->sequence = 0)
HURT(layout_unknown, s->layout = 2)
HURT(feature_unknown, c->incompat = UINT64_C(1) << 63)
HURT(binding_255, c->binding_bytes = 255)

struct hostile {
    const char *name;
    hurt_fn *hurt;
    enum base base;
    int code;
    const char *field, *why; /* in the message */
    uint32_t at;             /* in the record; stages count from 248 */
};

static const struct hostile cases[] = {
#define AT_STAGE(member) STAGES_OFFSET + offsetof(struct stage_disk, member)
#define RANGE_OF(fn, base, member)                                                     \
    {                                                                                  \
#fn, fn, base, TAMIS_ERR_DAMAGED, "stage." #member, "out of range",            \
            AT_STAGE(member)                                                           \
    }
#define HEAD(fn, base, member, code, why)                                              \
    {                                                                                  \
#fn, fn, base, code, #member, why, offsetof(struct commit_disk, member)        \
    }
#define AREA(fn, base, member, why)                                                    \
    {                                                                                  \
#fn, fn, base, TAMIS_ERR_DAMAGED, "stage." #member, why, STAGES_OFFSET         \
    }
    RANGE_OF(blocks_2_58_length_wraps, GROWN, n_blocks),
    RANGE_OF(length_huge, BIRTH, length),
    {"layout_unknown", layout_unknown, GROWN, TAMIS_ERR_VERSION, "stage.layout",
     "does not know", AT_STAGE(layout)},
    HEAD(stages_255, GROWN, n_stages, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(sequence_zero, BIRTH, sequence, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(binding_255, GROWN, binding_bytes, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(feature_unknown, GROWN, incompat, TAMIS_ERR_VERSION, "does not know"),
    HEAD(committed_past_the_end, GROWN, committed_bytes, TAMIS_ERR_DAMAGED, "shorter"),
    AREA(blocks_2_32, GROWN, offset, "shorter"),
    AREA(blocks_2_32, BIRTH, offset, "shorter"),
    AREA(offset_that_wraps, GROWN, offset, "shorter"),
    AREA(digests_in_the_bits, BIRTH, digests_offset, "overlap"),
    AREA(stage_over_header, GROWN, offset, "overlap"),
};

static void ignore_field(void *ctx, const struct tamis_field *field)
{
    ++*(int *)ctx;
}

static void expect_diag(const struct hostile *h, int code, uint64_t at,
                        const struct tamis_diag *diag)
{
    if (code == h->code && diag->code == h->code && strstr(diag->what, h->field) &&
        strstr(diag->what, h->why) && diag->has_offset && diag->offset == at &&
        strcmp(diag->file, path) == 0)
        return;
    fail_msg("%s: %d, '%s' at %llu of %s, not %s (%s) at %llu", h->name, code,
             diag->what, (unsigned long long)diag->offset, diag->file, h->field, h->why,
             (unsigned long long)at);
}

/* Opening in each mode, for writing, and printing: the same verdict. */
static void expect_refused(const struct hostile *h, uint64_t at)
{
    struct tamis_filter *f;
    struct tamis_writer *w;
    struct tamis_diag diag;
    int n_fields = 0;
    for (int mode = TAMIS_CHECK_LAZY; mode <= TAMIS_CHECK_NONE; mode++) {
        struct tamis_filter_options opt = {.size = sizeof opt,
                                           .check = (enum tamis_check)mode};
        int rc = tamis_filter_open(path, &opt, &f, &diag);
        expect_diag(h, rc, at, &diag);
        assert_null(f);
    }
    int rc = tamis_writer_open(path, NULL, &w, &diag);
    expect_diag(h, rc, at, &diag);
    assert_null(w);
    rc = tamis_file_fields(path, 0, ignore_field, &n_fields, &diag);
    expect_diag(h, rc, at, &diag);
    assert_true(n_fields > 20);
}

static void put_record(uint8_t *file, const struct commit *c, uint8_t slot)
{
    uint8_t record[SLOT_BYTES];
    struct commit fits = *c;
    if (fits.n_stages > MAX_STAGES)
        fits.n_stages = MAX_STAGES;
    if (slot == SLOT_BIRTH && fits.n_stages > MAX_BIRTH_STAGES)
        fits.n_stages = MAX_BIRTH_STAGES;
    if (fits.binding_bytes > BINDING_MAX_BYTES)
        fits.binding_bytes = BINDING_MAX_BYTES;
    commit_encode(&fits, slot, record);
    struct commit_disk *d = (struct commit_disk *)(void *)record;
    d->n_stages = c->n_stages;
    d->binding_bytes = c->binding_bytes;
    checksum_set(record, commit_slot_bytes(slot), 0);
    memcpy(file + commit_slot_offset(slot), record, commit_slot_bytes(slot));
}

/* The file becomes the good one, with this record in its slots, or in slot A alone. */
static void write_record(bool birth, const struct commit *c, bool only_a)
{
    size_t n = birth ? n_sealed : n_growing;
    FREED uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    memcpy(bytes, birth ? sealed : growing, n);
    put_record(bytes, c, birth ? SLOT_BIRTH : SLOT_A);
    if (!birth && !only_a)
        put_record(bytes, c, SLOT_B);
    file_write(path, bytes, n);
}

static struct commit good_record(bool birth)
{
    file_write(path, birth ? sealed : growing, birth ? n_sealed : n_growing);
    return commit_of(path);
}

static void make_case(const struct hostile *h, bool only_a)
{
    struct commit c = good_record(h->base == BIRTH);
    if (only_a)
        c.sequence++; /* A wins; B is good, and must not be fallen back to */
    h->hurt(&c);
    write_record(h->base == BIRTH, &c, only_a);
}

TEST(every_case_has_its_verdict)
{
    uint64_t before = status_bytes("VmHWM");
    for (size_t i = 0; i < N_OF(cases); i++) {
        const struct hostile *h = &cases[i];
        uint8_t slot = h->base == BIRTH ? SLOT_BIRTH : SLOT_A;
        for (int only_a = 0; only_a <= (h->base == GROWN); only_a++) {
            make_case(h, only_a);
            expect_refused(h, commit_slot_offset(slot) + h->at);
        }
    }
    assert_true(status_bytes("VmHWM") - before < 16 << 20);
}

static const struct hostile_identity {
    const char *field, *why;
    int code;
    uint32_t at, n_bytes;
    uint64_t value;
} identities[] = {
    {"header_pages", "out of range", TAMIS_ERR_DAMAGED, 12, 4, UINT32_MAX},
    {"name", "out of range", TAMIS_ERR_DAMAGED, 78, 2, 200},
    {"kind", "does not know", TAMIS_ERR_VERSION, 72, 2, 9},
    {"major", "does not read", TAMIS_ERR_VERSION, 8, 2, 2},
    {"kind_area", "not zero", TAMIS_ERR_DAMAGED, 384, 1, 1},
};

TEST(every_identity_has_its_verdict)
{
    for (size_t i = 0; i < N_OF(identities); i++) {
        const struct hostile_identity *w = &identities[i];
        const struct hostile h = {w->field, NULL, GROWN, w->code, w->field, w->why, 0};
        FREED uint8_t *bytes = malloc(n_growing);
        assert_non_null(bytes);
        memcpy(bytes, growing, n_growing);
        for (uint32_t k = 0; k < w->n_bytes; k++)
            bytes[w->at + k] = (uint8_t)(w->value >> (8 * k));
        checksum_set(bytes, IDENTITY_BYTES, 0);
        file_write(path, bytes, n_growing);
        /* A field's own offset, but for a name that its length runs beyond. */
        expect_refused(&h, strcmp(w->field, "name") == 0 ? 128 : w->at);
    }
}

/* A file that has the size it claims, and nothing in it: a stage of 2^32 blocks and
 * four lanes, 1 TiB, all of it a hole. */
TEST(a_tebibyte_of_holes_takes_no_memory)
{
    struct tamis_diag diag;
    FILTER f;
    /* Its own memory. Pages of a file that it maps are the page cache's: how many come
     * with the one that is asked for, the kernel decides. */
    uint64_t before = status_bytes("RssAnon");
    struct commit c = good_record(false);
    commit_unsettle(&c);
    c.n_stages = 1;
    c.stages[0].geometry = (struct geometry){MAX_BLOCKS, MAX_LANES, 1};
    c.stages[0].length = UINT64_C(1) << 40;
    c.stages[0].floors_offset = c.stages[0].offset + c.stages[0].length;
    c.stages[0].bits_set = 0;
    c.committed_bytes =
        c.stages[0].floors_offset + floors_bytes(c.stages[0].length / PAGE_BYTES);
    write_record(false, &c, false);
    OK(truncate(path, (off_t)c.committed_bytes));
    int rc = tamis_filter_open(path, NULL, &f, &diag);
    if (rc) {
        /* No address space for it: a verdict as well. */
        IS(rc, ENOMEM);
        assert_non_null(strstr(diag.what, "cannot map"));
        return;
    }
    /* Some keys only: each touches pages of its own, under ASan pages of its shadow,
     * too, and some Linux kernels count pages that were only read as memory. */
    for (size_t i = 0; i < N_KEYS; i += 3)
        IS(why_of(f, keys[i]), TAMIS_DAMAGED);
    assert_true(status_bytes("RssAnon") < before + (64 << 20));
}

/* Counts that lie lead nowhere (R9). */
TEST(counts_that_lie_change_no_answer)
{
    struct commit c = good_record(false);
    for (int i = 0; i < 2; i++) {
        uint64_t lie = i ? UINT64_MAX : 0;
        c.keys = lie;
        for (size_t k = 0; k < c.n_stages; k++) {
            c.stages[k].keys = c.stages[k].capacity = lie;
            c.stages[k].bits_set = i ? c.stages[k].length * 8 : 0;
        }
        write_record(false, &c, false);
        FILTER f = open_filter(path);
        IS(count_absent(f, keys, N_KEYS), 0);
        struct tamis_filter_info info = filter_info(f);
        assert_true(info.expected_error >= 0 && info.expected_error <= 1);
        struct tamis_writer *w = open_writer(path);
        add_hashes(w, keys, 100);
        OK(tamis_writer_close(w, NULL));
        all_there(path, keys, N_KEYS);
    }
}

/* The next commit's number would wrap, and an older slot win. Readers need no more. */
TEST(numbers_at_their_end_are_not_written)
{
    static const uint64_t ends[][2] = {{UINT64_MAX, 1},
                                       {UINT64_MAX - (1 << 20), 1},
                                       {1, UINT64_MAX},
                                       {1, UINT64_C(1) << 63},
                                       {UINT64_C(1) << 63, 1}};
    struct commit c = good_record(false);
    for (size_t i = 0; i < N_OF(ends); i++) {
        c.sequence = ends[i][0];
        c.generation = ends[i][1];
        write_record(false, &c, false);
        struct tamis_diag diag = writer_refused(path, TAMIS_ERR_DAMAGED);
        assert_non_null(strstr(diag.what, "sequence or generation"));
        all_there(path, keys, N_KEYS);
    }
}

RUN_TESTS(set_up, tear_down)
