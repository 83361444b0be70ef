/* Packs whose digests are right, and which break a rule of SPEC.md §17: verify names
 * the page, and who reads the table of columns refuses it. */
#include "tests/support/pack_support.h"

enum { N_OWN = 24 };

static struct stage_desc stages[PACK_STAGES];
static uint8_t *bytes;

/* The entry of a column. */
static struct column_disk *entry_of(uint32_t column)
{
    uint8_t *at = bytes + stages[PACK_COLUMNS].offset;
    for (; column; column--) {
        const struct column_disk *d = (const void *)at;
        at += column_bytes(le16_get(d->name_bytes), d->binding_bytes);
    }
    return (void *)at;
}

static struct band_disk *first_band(void)
{
    return (void *)(bytes + stages[PACK_BANDS].offset);
}

#define HURT(name, statement)                                                          \
    static void name(void)                                                             \
    {                                                                                  \
        statement;                                                                     \
    }
HURT(lanes, first_band()->lanes = 5)
HURT(no_blocks, entry_of(0)->own_blocks = le64_of(0))
HURT(one_name, memcpy(entry_of(1) + 1, entry_of(2) + 1, strlen("segment-0")))
HURT(one_uuid, memcpy(entry_of(1)->uuid, entry_of(5)->uuid, UUID_BYTES))
/* A column says that it repeats a block which it does not: unpacked it would lack keys.
 */
HURT(false_repeats, entry_of(3)->own_blocks = le64_of(N_OWN / 2))
/* One of two blocks that should be the same lacks a bit. */
static void a_bit_of_one_block(void)
{
    const struct band *b = &plan.bands[0];
    uint8_t *rows = bytes + stages[PACK_ROWS].offset;
    for (uint64_t row = 0;; row += b->row_bytes)
        if (rows[row] & 1) {
            rows[row] &= (uint8_t)~1U;
            return;
        }
}

static void beyond_the_last_column(void)
{
    const struct band *b = &plan.bands[0];
    assert_true(b->n_columns < 8 * b->row_bytes);
    bytes[stages[PACK_ROWS].offset + b->row_bytes - 1] |= 0x80;
}

HURT(behind_the_bands, bytes[stages[PACK_BANDS].offset + PAGE_BYTES - 1] = 1)
HURT(behind_the_columns,
     bytes[stages[PACK_COLUMNS].offset + stages[PACK_COLUMNS].used_bytes] = 1)

static const struct {
    void (*hurt)(void);
    size_t stage; /* that has the page */
    int listed;   /* pack_each_column() */
} cases[] = {
    {lanes, PACK_BANDS, TAMIS_ERR_DAMAGED},
    {no_blocks, PACK_COLUMNS, TAMIS_ERR_DAMAGED},
    {one_name, PACK_COLUMNS, TAMIS_ERR_DAMAGED},
    {one_uuid, PACK_COLUMNS, TAMIS_ERR_DAMAGED},
    {false_repeats, PACK_COLUMNS, 0},
    {a_bit_of_one_block, PACK_COLUMNS, 0},
    {beyond_the_last_column, PACK_ROWS, 0},
    {behind_the_bands, PACK_BANDS, 0},
    {behind_the_columns, PACK_COLUMNS, 0},
};

static int any_column(void *ctx, uint32_t band, uint32_t column,
                      const struct column *col)
{
    return 0;
}

static void check_case(size_t i, const uint8_t *good, size_t n_bytes)
{
    const struct stage_desc *s = &stages[cases[i].stage];
    struct tamis_verify report;
    memcpy(bytes, good, n_bytes);
    cases[i].hurt();
    file_write(path_of("crafted"), bytes, n_bytes);
    reseal_file("crafted");
    FILTER f = open_filter(path_of("crafted"));
    IS(pack_each_column(f, any_column, NULL, NULL), cases[i].listed);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.n_damaged, 1);
    assert_in_range(report.first_damaged, s->offset, s->offset + s->length - 1);
    /* The page stays as one that failed. */
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.n_damaged, 1);
}

/* Twelve columns of one band; the first has half as many blocks, each of them twice. */
TEST(broken_rules_are_damage)
{
    struct identity id;
    struct commit c;
    size_t n_bytes;
    add_source((struct geometry){N_OWN / 2, 1, 6}, 600, 0.01);
    for (size_t i = 1; i < 12; i++)
        add_source((struct geometry){N_OWN, 1, 6}, 1000, 0.01);
    struct tamis_filter *f = pack_sources("pack", NULL);
    verified(f);
    tamis_filter_close(f);
    IS(plan.n_bands, 1);
    IS(plan.bands[0].geometry.n_blocks, N_OWN);
    IS(plan.order[0], 0);
    uint8_t *good = file_read(path_of("pack"), &n_bytes);
    identity_decode(good, n_bytes, &id);
    commit_decode(good + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &c);
    memcpy(stages, c.stages, sizeof stages);
    bytes = malloc(n_bytes);
    for (size_t i = 0; i < N_OF(cases); i++)
        check_case(i, good, n_bytes);
    free(bytes);
    free(good);
    forget_sources();
}

RUN_TESTS(test_dir_create, test_dir_remove)
