/* Values of a list in order: all of them, in any pieces, from anywhere; and an error at
 * the first page that is not what it should be. */
#include "tests/support/list_support.h"

enum { N = 60000 };
static uint64_t values[N], got[N + 4000];

static struct tamis_list_cursor *cursor_on(struct tamis_filter *f)
{
    struct tamis_list_cursor *c = NULL;
    assert_int_equal(tamis_list_cursor_create(f, &c, NULL), 0);
    return c;
}

/* Reads to the end in pieces of at most `most`; returns how many. */
static size_t read_all(struct tamis_list_cursor *c, size_t most)
{
    size_t n = 0, some;
    do {
        size_t room = most ? most : random_below(9000) + 1;
        room = room < N + 4000 - n ? room : N + 4000 - n;
        assert_int_equal(tamis_list_cursor_next(c, got + n, room, &some, NULL), 0);
        assert_true(some <= room);
        n += some;
    } while (some);
    return n;
}

static void all_values_come_in_order(void **state)
{
    static const size_t sizes[] = {0, 1, 700, 5000, N};
    static const uint32_t bits[] = {64, 40, 17};
    (void)state;
    for (size_t i = 0; i < 5; i++)
        for (size_t b = 0; b < 3; b++) {
            size_t n = make_values((enum shape)((i + b) % N_SHAPES), values, sizes[i],
                                   bits[b]);
            write_list("list", values, n, bits[b]);
            struct tamis_filter *f = open_filter(path_of("list"));
            struct tamis_list_facts facts;
            assert_int_equal(tamis_list_facts(f, &facts), 0);
            assert_true(facts.n_hashes == n && facts.hash_bits == bits[b]);
            struct tamis_list_cursor *c = cursor_on(f);
            tamis_filter_close(f); /* the cursor keeps what it needs */
            assert_int_equal(read_all(c, i == 2 ? 1 : 0), n);
            assert_memory_equal(got, values, n * sizeof got[0]);
            for (int k = 0; k < 200; k++) {
                uint64_t at = list_cut(random_u64(), bits[b]);
                if (n && k % 2)
                    at = values[random_below(n)] + random_below(2);
                size_t first = 0, some;
                while (first < n && values[first] < at)
                    first++;
                assert_int_equal(tamis_list_cursor_seek(c, at, NULL), 0);
                assert_int_equal(tamis_list_cursor_next(c, got, 3, &some, NULL), 0);
                assert_int_equal(some, n - first < 3 ? n - first : 3);
                assert_memory_equal(got, values + first, some * sizeof got[0]);
            }
            tamis_list_cursor_free(c);
        }
    tamis_list_cursor_free(NULL);
}

/* Each page in turn is damaged, of values and of the table: values before it come, then
 * an error that stays until a seek to elsewhere. */
static void a_bad_page_is_never_skipped(void **state)
{
    struct tamis_stage_info pages, table;
    struct tamis_diag diag;
    (void)state;
    size_t n = make_values(EVEN, values, 5000, 64), n_bytes, some;
    write_list("bad", values, n, 64);
    struct tamis_filter *f = open_filter(path_of("bad"));
    assert_int_equal(tamis_filter_stage(f, LIST_PAGES, &pages), 0);
    assert_int_equal(tamis_filter_stage(f, LIST_INDEX, &table), 0);
    tamis_filter_close(f);
    uint8_t *bytes = file_read(path_of("bad"), &n_bytes);
    uint64_t n_pages = pages.bits_bytes / PAGE_BYTES;
    for (uint64_t p = 0; p <= n_pages; p++) {
        uint64_t at = p < n_pages ? pages.offset + p * PAGE_BYTES : table.offset;
        flip(path_of("bad"), at + 77);
        f = open_filter(path_of("bad"));
        struct tamis_list_cursor *c = cursor_on(f);
        size_t given = 0;
        int err;
        while ((err = tamis_list_cursor_next(c, got, 100, &some, &diag)) == 0 && some) {
            assert_memory_equal(got, values + given, some * sizeof got[0]);
            given += some;
        }
        assert_int_equal(err, TAMIS_ERR_DAMAGED);
        assert_int_equal(some, 0);
        assert_int_equal(diag.offset, at);
        assert_true(given < n && (p > 0 || given == 0));
        assert_int_equal(tamis_list_cursor_next(c, got, 100, &some, NULL),
                         TAMIS_ERR_DAMAGED);
        bool first = p != 0 && p != n_pages;
        assert_int_equal(tamis_list_cursor_seek(c, values[3], NULL),
                         first ? 0 : TAMIS_ERR_DAMAGED);
        assert_int_equal(tamis_list_cursor_next(c, got, 2, &some, NULL),
                         first ? 0 : TAMIS_ERR_DAMAGED);
        assert_int_equal(some, first ? 2 : 0);
        tamis_list_cursor_free(c);
        tamis_filter_close(f);
        file_poke(path_of("bad"), at, bytes + at, PAGE_BYTES);
    }
    free(bytes);
}

/* Pages and entries that are good by themselves, but do not continue the list. */
static void pages_that_do_not_follow_are_damage(void **state)
{
    size_t some, n = make_values(EVEN, values, 5000, 64);
    (void)state;
    for (int what = 0; what < 4; what++) {
        write_list("order", values, n, 64);
        struct tamis_stage_info pages, table;
        size_t n_bytes;
        struct tamis_filter *f = open_filter(path_of("order"));
        assert_int_equal(tamis_filter_stage(f, LIST_PAGES, &pages), 0);
        assert_int_equal(tamis_filter_stage(f, LIST_INDEX, &table), 0);
        tamis_filter_close(f);
        uint8_t *b = file_read(path_of("order"), &n_bytes);
        uint8_t *page = b + pages.offset, *entry = b + table.offset;
        if (what == 0) { /* a page twice, its entry, too */
            memcpy(page + 3 * PAGE_BYTES, page + 2 * PAGE_BYTES, PAGE_BYTES);
            memcpy(entry + 3 * 8, entry + 2 * 8, 8);
        } else if (what == 1) { /* an entry of one more */
            entry[2 * 8]++;
        } else if (what == 2) { /* one value less in the list than in its pages */
            struct le64 less = le64_of(n - 1);
            memcpy(b + IDENTITY_BYTES + STAGES_OFFSET + AREA_OFFSET, &less,
                   sizeof less);
        } else { /* no values in a page */
            memset(page + 2 * PAGE_BYTES, 0, PAGE_BYTES);
            memset(entry + 2 * 8, 0, 8);
        }
        file_write(path_of("order"), b, n_bytes);
        free(b);
        reseal_list("order");
        f = open_filter(path_of("order"));
        struct tamis_list_cursor *c = cursor_on(f);
        size_t given = 0;
        int err;
        while ((err = tamis_list_cursor_next(c, got, 100, &some, NULL)) == 0 && some) {
            assert_memory_equal(got, values + given, some * sizeof got[0]);
            given += some;
        }
        assert_int_equal(err, TAMIS_ERR_DAMAGED);
        assert_int_equal(some, 0);
        tamis_list_cursor_free(c);
        const char *merged = path_of("merged");
        assert_int_equal(tamis_list_merge(&f, 1, merged, NULL, NULL, NULL),
                         TAMIS_ERR_DAMAGED);
        assert_false(exists(merged));
        tamis_filter_close(f);
    }
}

static void other_filters_have_no_values(void **state)
{
    struct tamis_builder_options o = {.size = sizeof o, .error = 0.01};
    struct tamis_list_facts facts = {1, 1};
    struct tamis_list_cursor *c;
    struct tamis_builder *b;
    struct tamis_diag diag;
    (void)state;
    assert_int_equal(tamis_builder_create(&o, &b, NULL), 0);
    assert_int_equal(tamis_builder_finish_file(b, path_of("bloom"), NULL), 0);
    tamis_builder_free(b);
    struct tamis_filter *f = open_filter(path_of("bloom"));
    assert_int_equal(tamis_list_facts(f, &facts), TAMIS_ERR_UNFIT);
    assert_int_equal(facts.n_hashes, 0);
    assert_int_equal(tamis_list_cursor_create(f, &c, &diag), TAMIS_ERR_UNFIT);
    assert_null(c);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values_come_in_order),
        cmocka_unit_test(a_bad_page_is_never_skipped),
        cmocka_unit_test(pages_that_do_not_follow_are_damage),
        cmocka_unit_test(other_filters_have_no_values),
    };
    return cmocka_run_group_tests_name("list cursor", tests, test_dir_create,
                                       test_dir_remove);
}
