/* Values of a list in order: all of them, in any pieces; and an error at the first page
 * that is not what it should be. */
#include "tests/support/filters.h"
#include "tests/support/list_support.h"

enum { N = 60000 };
static uint64_t values[N], got[N + 4000];

static struct tamis_list_cursor *cursor_on(struct tamis_filter *f)
{
    struct tamis_list_cursor *c = NULL;
    OK(tamis_list_cursor_create(f, &c, NULL));
    return c;
}

/* Reads to the end in pieces of at most `most`; returns how many. */
static size_t read_all(struct tamis_list_cursor *c, size_t most)
{
    size_t n = 0, some;
    do {
        size_t room = most ? most : random_below(9000) + 1;
        room = room < N + 4000 - n ? room : N + 4000 - n;
        OK(tamis_list_cursor_next(c, got + n, room, &some, NULL));
        assert_true(some <= room);
        n += some;
    } while (some);
    return n;
}

/* Reads what is right up to the end, or to an error, which *err says; returns how many
 * values there were. */
static size_t read_good(struct tamis_list_cursor *c, int *err, struct tamis_diag *diag)
{
    size_t given = 0, some;
    while ((*err = tamis_list_cursor_next(c, got, 100, &some, diag)) == 0 && some) {
        assert_memory_equal(got, values + given, some * sizeof got[0]);
        given += some;
    }
    IS(some, 0);
    return given;
}

TEST(all_values_come_in_order)
{
    static const size_t sizes[] = {0, 1, 700, 5000, N};
    static const uint32_t bits[] = {64, 40, 17};
    for (size_t i = 0; i < 5; i++)
        for (size_t b = 0; b < 3; b++) {
            size_t n = make_values((enum shape)((i + b) % N_SHAPES), values, sizes[i],
                                   bits[b]);
            write_list("list", values, n, bits[b]);
            struct tamis_filter *f = open_filter(path_of("list"));
            struct tamis_list_facts facts;
            OK(tamis_list_facts(f, &facts));
            assert_true(facts.n_hashes == n && facts.hash_bits == bits[b]);
            struct tamis_list_cursor *c = cursor_on(f);
            tamis_filter_close(f); /* the cursor keeps what it needs */
            IS(read_all(c, i == 2 ? 1 : 0), n);
            assert_memory_equal(got, values, n * sizeof got[0]);
            tamis_list_cursor_free(c);
        }
    tamis_list_cursor_free(NULL);
}

/* Each page in turn is damaged, of values and of the table: values before it come, then
 * an error that stays. */
TEST(a_bad_page_is_never_skipped)
{
    struct tamis_diag diag;
    size_t n = make_values(EVEN, values, 5000, 64), n_bytes, some;
    write_list("bad", values, n, 64);
    struct tamis_filter *f = open_filter(path_of("bad"));
    struct tamis_stage_info pages = stage_at(f, LIST_PAGES);
    struct tamis_stage_info table = stage_at(f, LIST_INDEX);
    tamis_filter_close(f);
    FREED uint8_t *bytes = file_read(path_of("bad"), &n_bytes);
    uint64_t n_pages = pages.bits_bytes / PAGE_BYTES;
    for (uint64_t p = 0; p <= n_pages; p++) {
        uint64_t at = p < n_pages ? pages.offset + p * PAGE_BYTES : table.offset;
        flip(path_of("bad"), at + 77);
        f = open_filter(path_of("bad"));
        struct tamis_list_cursor *c = cursor_on(f);
        int err;
        size_t given = read_good(c, &err, &diag);
        IS(err, TAMIS_ERR_DAMAGED);
        IS(diag.offset, at);
        assert_true(given < n && (p > 0 || given == 0));
        IS(tamis_list_cursor_next(c, got, 100, &some, NULL), TAMIS_ERR_DAMAGED);
        tamis_list_cursor_free(c);
        tamis_filter_close(f);
        file_poke(path_of("bad"), at, bytes + at, PAGE_BYTES);
    }
}

enum wrong {
    A_PAGE_TWICE,
    ENTRY,
    COUNT,
    NO_VALUES,
    LEADER,
    ONE_MORE,
    REST,
    TABLE,
    N_WRONG
};

/* Makes the list wrong below digests that are right; returns the page that breaks a
 * rule, or n_pages for the table. */
static uint64_t make_wrong(enum wrong what, uint8_t *b, const struct stage_desc *s)
{
    uint64_t n_pages = s->length / PAGE_BYTES, last = n_pages - 1;
    uint8_t *page = b + s[LIST_PAGES].offset, *entry = b + s[LIST_INDEX].offset;
    uint8_t *end = page + last * PAGE_BYTES;
    struct le64 less = le64_of(s->n_hashes - 1);
    struct list_page p;
    assert_true(list_page_open(end, 64, &p) && p.n_groups > 1);
    switch (what) {
    case A_PAGE_TWICE:
        memcpy(page + 3 * PAGE_BYTES, page + 2 * PAGE_BYTES, PAGE_BYTES);
        memcpy(entry + 3 * 8, entry + 2 * 8, 8);
        return 3;
    case ENTRY:
        return entry[2 * 8]++, 2;
    case COUNT: /* one value less in the list than in its pages */
        memcpy(b + IDENTITY_BYTES + STAGES_OFFSET + AREA_OFFSET, &less, sizeof less);
        return last;
    case NO_VALUES:
        memset(page + 2 * PAGE_BYTES, 0, PAGE_BYTES);
        memset(entry + 2 * 8, 0, 8);
        return 2;
    case LEADER:
        return end[LIST_HEAD_BYTES] ^= 0xff, last;
    case ONE_MORE:
        return end[PAGE_BYTES - p.top_bytes * (p.n - 1) - 1] ^= 0x80, last;
    case REST:
        assert_true((p.n - 1) * p.rest_bits % 8 != 0);
        return end[p.unary_at - 1] ^= 0x80, last;
    case TABLE:
    case N_WRONG:
        break;
    }
    return entry[s[LIST_INDEX].used_bytes] = 1, n_pages;
}

/* Who reads in order stops at a page that is good by itself, and wrong or out of place;
 * verify names it. */
TEST(wrong_pages_are_damage)
{
    size_t n_bytes, n = make_values(EVEN, values, 5003, 64);
    for (int what = 0; what < N_WRONG; what++) {
        struct tamis_verify report;
        struct identity id;
        struct commit c;
        write_list("order", values, n, 64);
        uint8_t *b = file_read(path_of("order"), &n_bytes);
        identity_decode(b, n_bytes, &id);
        commit_decode(b + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &c);
        uint64_t wrong = make_wrong((enum wrong)what, b, c.stages);
        file_write(path_of("order"), b, n_bytes);
        free(b);
        reseal_file("order");
        FILTER f = open_filter(path_of("order"));
        struct tamis_list_cursor *cursor = cursor_on(f);
        int err, stopped = what == TABLE ? 0 : TAMIS_ERR_DAMAGED;
        read_good(cursor, &err, NULL);
        IS(err, stopped);
        tamis_list_cursor_free(cursor);
        const char *merged = path_of("merged");
        IS(tamis_list_merge(&f, 1, merged, NULL, NULL, NULL), stopped);
        IS(exists(merged), what == TABLE);
        IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
        IS(report.n_damaged, 1);
        IS(report.first_damaged, wrong * PAGE_BYTES < c.stages[LIST_PAGES].length
                                     ? c.stages[LIST_PAGES].offset + wrong * PAGE_BYTES
                                     : c.stages[LIST_INDEX].offset);
    }
}

TEST(the_page_of_no_value_is_zero)
{
    size_t some;
    write_list("none", values, 0, 64);
    flip(path_of("none"), PAGE_BYTES + 4000);
    reseal_file("none");
    FILTER f = open_filter(path_of("none"));
    struct tamis_list_cursor *c = cursor_on(f);
    IS(tamis_list_cursor_next(c, got, 100, &some, NULL), TAMIS_ERR_DAMAGED);
    tamis_list_cursor_free(c);
    damage_of(f);
}

TEST(other_filters_have_no_values)
{
    struct tamis_list_facts facts = {1, 1};
    struct tamis_list_cursor *c;
    struct tamis_diag diag;
    BUILD(path_of("bloom"), NULL, 0, .error = 0.01);
    FILTER f = open_filter(path_of("bloom"));
    IS(tamis_list_facts(f, &facts), TAMIS_ERR_UNFIT);
    IS(facts.n_hashes, 0);
    IS(tamis_list_cursor_create(f, &c, &diag), TAMIS_ERR_UNFIT);
    assert_null(c);
}

RUN_TESTS(test_dir_create, test_dir_remove)
