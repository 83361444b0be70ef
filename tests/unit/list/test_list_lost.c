/* Pages of a list that rot or are lost while it is open: never ABSENT of a value, in
 * any mode, one at a time or many. Ones are not neutral in a list. */
#include "tests/support/guard_support.h"
#include "tests/support/list_support.h"

enum { N = 400000, ASKED = 300 };
static uint64_t values[N];
static size_t n_values;
static struct tamis_stage_info pages, table;

static struct tamis_filter *open_list(enum tamis_check mode)
{
    struct tamis_filter *f = OPEN_AS(path_of("list"), .check = mode);
    pages = filter_info(f).stages[LIST_PAGES];
    table = filter_info(f).stages[LIST_INDEX];
    return f;
}

static void make_list(void)
{
    n_values = make_values(EVEN, values, N, 64);
    write_list("list", values, n_values, 64);
}

/* Asks for values: returns how many are DAMAGED. None may be absent. */
static size_t ask_values(struct tamis_filter *f)
{
    uint64_t asked[ASKED], absent[(ASKED + 63) / 64];
    size_t n_damaged = 0;
    for (size_t i = 0; i < ASKED; i++) {
        enum tamis_reason why;
        asked[i] = values[random_below(n_values)];
        IS(ask(f, asked[i], &why), TAMIS_MAYBE);
        n_damaged += why == TAMIS_DAMAGED;
    }
    IS(tamis_filter_probe_batch(f, filter_domain(f).tag, asked, ASKED, absent, NULL),
       0);
    return n_damaged;
}

/* All pages of the table, or of values, have rotted into something else. */
static void rot(const struct tamis_stage_info *s, uint8_t with)
{
    FREED uint8_t *bytes = malloc(s->bits_bytes);
    memset(bytes, with, s->bits_bytes);
    file_poke(path_of("list"), s->offset, bytes, s->bits_bytes);
}

TEST(rotten_pages_are_damage)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_STRICT};
    for (int m = 0; m < 2; m++)
        for (int stage = 0; stage < 2; stage++)
            for (int with = 0; with < 2; with++) {
                make_list();
                FILTER f = open_list(modes[m]);
                rot(stage ? &table : &pages, with ? 0xff : 0);
                IS(ask_values(f), ASKED);
            }
}

/* Every second entry from this one on rises, but not to the next one: values of its
 * page are looked for in the page before, which begins with its entry. Only the check
 * of the table tells. */
static void raise_entries(uint64_t from)
{
    size_t n_bytes;
    FREED uint8_t *bytes = file_read(path_of("list"), &n_bytes);
    uint8_t *entries = bytes + table.offset;
    for (uint64_t i = from; i + 1 < pages.bits_bytes / PAGE_BYTES; i += 2) {
        struct le64 raised = le64_of(digest_at(entries, i + 1) - 1);
        memcpy(entries + i * LIST_ENTRY_BYTES, &raised, sizeof raised);
    }
    file_poke(path_of("list"), table.offset, entries, table.bits_bytes);
}

TEST(a_table_that_misleads_is_damage)
{
    make_list();
    FILTER f = open_list(TAMIS_CHECK_LAZY);
    raise_entries(1);
    IS(ask_values(f), ASKED);
}

/* The quick way of one key is open once all pages of values are good: but not before
 * the table's pages are, too. */
TEST(a_page_of_the_table_that_misleads_is_damage)
{
    make_list();
    FILTER f = open_list(TAMIS_CHECK_LAZY);
    struct stage *s = &atomic_load(&f->view)->stages[LIST_PAGES];
    uint64_t n_pages = pages.bits_bytes / PAGE_BYTES;
    assert_true(n_pages > LIST_ENTRIES_PER_PAGE + 2);
    for (uint64_t i = 0; i < n_pages; i++)
        assert_true(stage_page_good(s, i));
    for (size_t i = 0; i < n_values / 2; i++)
        IS(ask(f, values[i], NULL), TAMIS_MAYBE);
    raise_entries(LIST_ENTRIES_PER_PAGE + 1);
    for (size_t i = n_values - 1; i > n_values / 2; i--)
        IS(ask(f, values[i], NULL), TAMIS_MAYBE);
}

/* Strict: what rots after it was good is found, too. */
TEST(strict_probes_check_each_time)
{
    make_list();
    FILTER f = open_list(TAMIS_CHECK_STRICT);
    IS(ask_values(f), 0);
    raise_entries(1);
    IS(ask_values(f), ASKED);
}

/* The file is cut short while all its pages are known to be good: the guard puts ones
 * in their places. */
TEST_WITH_GUARD(pages_that_are_lost_are_damage)
{
    for (int table_only = 0; table_only < 2; table_only++) {
        make_list();
        FILTER f = open_list(TAMIS_CHECK_FULL);
        IS(ask_values(f), 0);
        cut(path_of("list"), table_only ? table.offset : pages.offset);
        IS(ask_values(f), ASKED);
    }
}

/* A page that was lost and has bytes by now that would be a proof: here the page
 * itself, noted as lost. A reader that found no value there must ask for that note. A
 * quick probe leaves the first value open: it has the top of its neighbour. */
static void expect_not_believed(uint64_t other)
{
    FILTER f = open_list(TAMIS_CHECK_FULL);
    assert_false(has_value(values, n_values, other));
    IS(ask(f, other, NULL), TAMIS_ABSENT);
    struct stage *s = filter_list_stage(f, LIST_PAGES);
    const uint8_t *entries = filter_list_stage(f, LIST_INDEX)->bits;
    uint8_t *page = s->bits, kept[PAGE_BYTES];
    for (uint64_t i = 1; i < s->n_pages && digest_at(entries, i) <= other; i++)
        page += PAGE_BYTES;
    memcpy(kept, page, sizeof kept);
    assert_true(lost_replace((uintptr_t)page));
    IS(page[0], 0xff);
    OK(mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE));
    memcpy(page, kept, sizeof kept);
    IS(why_of(f, other), TAMIS_DAMAGED);
    uint64_t absent = 7;
    IS(tamis_filter_probe_batch(f, filter_domain(f).tag, &other, 1, &absent, NULL), 0);
    assert_true(absent == 0);
    memset(page, 0xff, PAGE_BYTES);
}

TEST_WITH_GUARD(a_page_noted_as_lost_is_not_believed)
{
    make_list();
    uint64_t value = values[n_values / 2], next = values[n_values / 2 + 1];
    expect_not_believed(value + 1);
    expect_not_believed(value + (next - value) / 2);
}

RUN_TESTS(test_dir_create, test_dir_remove)
