/* Packs whose digests are right, and which break a rule of SPEC.md §17: verify names
 * the page, and who reads the table of columns refuses it. */
#include "tests/support/pack_support.h"

enum { N_OWN = 24, NAME_BYTES = 255 };

static struct commit commit;
static const struct stage_desc *const stages = commit.stages;
static uint8_t *bytes;
static size_t n_more; /* how many were added */

static uint8_t *table_page(uint32_t page)
{
    return bytes + stages[PACK_COLUMNS].offset + page * PAGE_BYTES;
}

enum { ABOVE = 2 }; /* two pages of entries */

static struct le32 *place_of(uint32_t column)
{
    return (void *)(bytes + stages[PACK_BANDS].offset + place_offset(1, column));
}

/* The entry of a column. */
static struct column_disk *entry_of(uint32_t column)
{
    struct index_page p;
    uint32_t place = le32_get(*place_of(column)), page = place >> ITEM_BITS;
    IS(index_open(table_page(page), page, &p).code, VERDICT_OK);
    return (void *)(bytes + (index_item(&p, place & 63).at - bytes));
}

static uint8_t *name_in(uint32_t page, uint32_t number)
{
    struct index_page p;
    IS(index_open(table_page(page), page, &p).code, VERDICT_OK);
    return bytes + (index_name(&p, number).at - bytes);
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
HURT(one_name, memcpy(name_in(0, 1), name_in(0, 2), NAME_BYTES))
HURT(order_in_a_page, name_in(0, 3)[0] = 'a')
HURT(order_of_pages, name_in(1, 0)[0] = 'a')
HURT(page_named_too_low, name_in(ABOVE, 1)[0] = 1)
HURT(page_named_too_high, name_in(ABOVE, 1)[0] = 'z')
HURT(first_page_has_a_name, table_page(ABOVE)[PAGE_BYTES - 2] = 9)
HURT(a_level_is_left_out, table_page(ABOVE)[2] = 2)
HURT(another_child, table_page(ABOVE)[4] = 1)
HURT(entries_above, table_page(ABOVE)[2] = 0)
HURT(behind_the_items, table_page(1)[PAGE_BYTES / 2 + 1000] = 1)
HURT(another_column, entry_of(4)->column = le32_of(5))
HURT(another_place, *place_of(4) = *place_of(5))
HURT(no_such_column, entry_of(4)->column = le32_of(12))
/* A column says that it repeats a block, and does not: unpacked it would lack keys. */
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

/* The last page twice: names lead past the first of the two. */
static void a_page_too_many(void)
{
    struct commit c = commit;
    struct stage_desc *s = &c.stages[PACK_COLUMNS];
    memcpy(table_page(ABOVE + 1), table_page(ABOVE), PAGE_BYTES);
    n_more = PAGE_BYTES;
    c.committed_bytes += n_more;
    s->length = s->used_bytes += n_more;
    s->digests_offset += n_more;
    commit_encode(&c, SLOT_BIRTH, bytes + IDENTITY_BYTES);
}

HURT(behind_the_bands, bytes[stages[PACK_BANDS].offset + PAGE_BYTES - 1] = 1)
HURT(behind_the_digests, bytes[stages[PACK_ROWS].digests_offset + PAGE_BYTES - 1] = 1)

static const struct {
    void (*hurt)(void);
    size_t stage; /* that has the page */
} cases[] = {
    {lanes, PACK_BANDS},
    {no_blocks, PACK_COLUMNS},
    {one_name, PACK_COLUMNS},
    {order_in_a_page, PACK_COLUMNS},
    {order_of_pages, PACK_COLUMNS},
    {page_named_too_low, PACK_COLUMNS},
    {page_named_too_high, PACK_COLUMNS},
    {first_page_has_a_name, PACK_COLUMNS},
    {a_level_is_left_out, PACK_COLUMNS},
    {another_child, PACK_COLUMNS},
    {entries_above, PACK_COLUMNS},
    {behind_the_items, PACK_COLUMNS},
    {another_column, PACK_COLUMNS},
    {another_place, PACK_COLUMNS},
    {no_such_column, PACK_COLUMNS},
    {false_repeats, PACK_COLUMNS},
    {a_bit_of_one_block, PACK_COLUMNS},
    {beyond_the_last_column, PACK_ROWS},
    {a_page_too_many, PACK_COLUMNS},
    {behind_the_bands, PACK_BANDS},
    {behind_the_digests, PACK_ROWS},
};

/* No column is described by another's entry. */
static void columns_are_their_own(struct tamis_filter *f)
{
    struct facts col;
    for (uint32_t c = 0; c < 12; c++)
        if (pack_describe(f, c, c % 2, &col) == 0)
            IS(le32_get(col.disk.column), c);
}

static void check_case(size_t i, const uint8_t *good, size_t n_bytes)
{
    const struct stage_desc *s = &stages[cases[i].stage];
    struct tamis_verify report;
    memcpy(bytes, good, n_bytes);
    n_more = 0;
    cases[i].hurt();
    file_write(path_of("crafted"), bytes, n_bytes + n_more);
    reseal_file("crafted");
    FILTER f = open_filter(path_of("crafted"));
    columns_are_their_own(f);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.n_damaged, 1);
    assert_in_range(report.first_damaged, s->offset,
                    s->offset + s->length + n_more - 1);
    /* The page stays as one that failed. */
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.n_damaged, 1);
}

/* Twelve columns of one band; the first has half as many blocks, each of them twice. */
TEST(broken_rules_are_damage)
{
    struct identity id;
    size_t n_bytes;
    add_source((struct geometry){N_OWN / 2, 1, 6}, 600, 0.01);
    for (size_t i = 1; i < 12; i++)
        add_source((struct geometry){N_OWN, 1, 6}, 1000, 0.01);
    for (size_t i = 0; i < 12; i++) {
        uint8_t name[NAME_BYTES];
        memset(name, 'a' + (int)i, NAME_BYTES);
        rename_source(i, name, NAME_BYTES);
    }
    struct tamis_filter *f = pack_sources("pack", NULL);
    verified(f);
    tamis_filter_close(f);
    IS(plan.n_bands, 1);
    IS(plan.bands[0].geometry.n_blocks, N_OWN);
    IS(plan.order[0], 0);
    uint8_t *good = file_read(path_of("pack"), &n_bytes);
    identity_decode(good, n_bytes, &id);
    commit_decode(good + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &commit);
    bytes = calloc(1, n_bytes + PAGE_BYTES);
    for (size_t i = 0; i < N_OF(cases); i++)
        check_case(i, good, n_bytes);
    free(bytes);
    free(good);
    forget_sources();
}

RUN_TESTS(test_dir_create, test_dir_remove)
