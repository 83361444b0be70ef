/* Lists as files: what goes in is found, what does not is absent, one at a time or
 * many, in each mode, whole or cut; and damage never makes ABSENT of a value. Values in
 * order: all of them, in any pieces, and an error at the first page that is not what it
 * should be. */
#include "tests/support/filters.h"
#include "tests/support/list_support.h"

enum { N = 60000 };
static uint64_t values[N], got[N + 4000];

/* Asks for values, their neighbours and others, singly and together. */
static void check_answers(struct tamis_filter *f, size_t n, uint32_t hash_bits)
{
    enum { BATCH = 1000 };
    static uint64_t asked[BATCH], absent[(BATCH + 63) / 64];
    for (size_t i = 0; i < BATCH; i++) {
        uint64_t v = n ? values[random_below(n)] : 7;
        if (i % 4 == 1)
            v = (v + 1) & list_max(hash_bits);
        if (i % 4 == 2)
            v = list_cut(random_u64(), hash_bits);
        if (i % 4 == 3)
            v ^= UINT64_C(1) << random_below(hash_bits);
        asked[i] = hash_of(v, hash_bits);
        enum tamis_reason why;
        bool has = has_value(values, n, v);
        IS(ask(f, asked[i], &why), has ? TAMIS_MAYBE : TAMIS_ABSENT);
        IS(why, has ? TAMIS_HIT : TAMIS_NO_REASON);
    }
    for (size_t some = 1; some <= BATCH; some += 1 + some / 3) {
        size_t n_absent = 0;
        size_t told = tamis_filter_probe_batch(f, filter_domain(f).tag, asked, some,
                                               absent, NULL);
        for (size_t i = 0; i < some; i++) {
            bool is = absent[i / 64] >> i % 64 & 1;
            IS(is, !has_value(values, n, list_cut(asked[i], hash_bits)));
            n_absent += is;
        }
        IS(told, n_absent);
    }
}

TEST(lists_answer_for_their_values)
{
    static const size_t sizes[] = {0, 1, 2, 65, 700, 5000, N};
    static const uint32_t bits[] = {64, 40, 17, 8};
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_FULL,
                                             TAMIS_CHECK_NONE, TAMIS_CHECK_STRICT};
    for (size_t i = 0; i < N_OF(sizes); i++)
        for (size_t b = 0; b < 4; b++)
            for (int shape = 0; shape < N_SHAPES; shape += sizes[i] < N ? 1 : 2) {
                size_t n = make_values((enum shape)shape, values, sizes[i], bits[b]);
                struct list_written out = write_list("list", values, n, bits[b]);
                IS(out.n_hashes, n);
                FILTER f = OPEN_AS(path_of("list"), .check = modes[(i + b) % 4]);
                check_answers(f, n, bits[b]);
            }
}

/* Each value of many pages, the first of each page too. */
TEST(every_value_is_found)
{
    for (int shape = 0; shape < N_SHAPES; shape++) {
        size_t n = make_values((enum shape)shape, values, N, 64);
        struct list_written out = write_list("list", values, n, 64);
        FILTER f = open_filter(path_of("list"));
        for (size_t i = 0; i < n; i++)
            IS(why_of(f, values[i]), TAMIS_HIT);
        IS(filter_info(f).keys, n);
        IS(stat_of(path_of("list")).st_size, out.file_bytes);
        assert_true(verified(f).n_pages > out.file_bytes / PAGE_BYTES - 8);
    }
}

/* In the middle of a file of the caller's. */
TEST(a_list_in_another_file)
{
    uint8_t mine[3 * PAGE_BYTES] = {0};
    FILTER f;
    size_t n = make_values(EVEN, values, N, 64), n_bytes;
    write_list("list", values, n, 64);
    uint8_t *list = file_read(path_of("list"), &n_bytes);
    FD fd = open(path_of("host"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    IS(pwrite(fd, mine, sizeof mine, 0), sizeof mine);
    IS(pwrite(fd, list, n_bytes, sizeof mine), n_bytes);
    free(list);
    OK(tamis_filter_open(
        NULL, INSIDE(.fd = fd, .offset = sizeof mine, .n_bytes = n_bytes), &f, NULL));
    check_answers(f, n, 64);
}

/* Values that do not rise, or that have too many bits, are an error that stays. */
TEST(what_a_writer_refuses)
{
    static const uint64_t bad[][3] = {{5, 5, 6}, {5, 4, 6}, {5, 6, 1 << 20}};
    uint8_t uuid[UUID_BYTES] = {9};
    struct list_written out;
    struct list_writer *w;
    struct tamis_diag diag;
    FD dir = open(test_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct list_options o = {.domain = list_domain, .hash_bits = 20};
    for (size_t i = 0; i < 3; i++) {
        IS(list_writer_create(&o, uuid, dir, "bad", &w, NULL), 0);
        IS(list_writer_add(w, bad[i], 3), TAMIS_ERR_RANGE);
        IS(list_writer_add(w, bad[i], 0), TAMIS_ERR_RANGE);
        IS(list_writer_finish(w, true, &out, &diag), TAMIS_ERR_RANGE);
        IS(out.file_bytes, 0);
        assert_false(exists(path_of("bad")));
    }
    IS(list_writer_create(&o, uuid, dir, "bad", &w, NULL), 0);
    IS(list_writer_add(w, bad[0], 1), 0);
    IS(list_writer_add(w, bad[0], 1), TAMIS_ERR_RANGE);
    list_writer_abort(w);
    list_writer_abort(NULL);
    o.hash_bits = 65;
    IS(list_writer_create(&o, uuid, dir, "bad", &w, NULL), TAMIS_ERR_RANGE);
    /* A name that is taken. */
    write_list("taken", values, 0, 64);
    o.hash_bits = 64;
    IS(list_writer_create(&o, uuid, dir, "taken", &w, NULL), 0);
    IS(list_writer_finish(w, true, &out, &diag), TAMIS_ERR_EXISTS);
    IS(count_files(test_dir), 3); /* list, host, taken */
}

/* Every byte of a small list is changed. No value is lost, whatever is answered. */
TEST(no_rotten_byte_loses_a_value)
{
    enum { SMALL = 1800 };
    size_t n_bytes, n_absent = 0, n_damaged = 0;
    size_t n = make_values(EVEN, values, SMALL, 64);
    write_list("rot", values, n, 64);
    FREED uint8_t *bytes = file_read(path_of("rot"), &n_bytes);
    for (size_t at = random_below(7); at < n_bytes; at += by_form(7, 1)) {
        struct tamis_filter *f;
        flip(path_of("rot"), at);
        if (tamis_filter_open(path_of("rot"), NULL, &f, NULL) == 0) {
            for (size_t i = at % 3; i < n; i += by_form(13, 3)) {
                enum tamis_reason why;
                IS(ask(f, values[i], &why), TAMIS_MAYBE);
                n_damaged += why == TAMIS_DAMAGED;
                n_absent += ask(f, values[i] + 1, NULL) == TAMIS_ABSENT;
            }
            tamis_filter_close(f);
        }
        file_poke(path_of("rot"), at, bytes + at, 1);
    }
    assert_true(n_absent > 0 && n_damaged > 0);
}

/* One at a time, which is not the way of many. */
static void all_maybe(size_t n)
{
    FILTER f = open_filter(path_of("lie"));
    for (size_t i = 0; i < n; i++)
        IS(ask(f, values[i], NULL), TAMIS_MAYBE);
}

/* The table and the pages disagree, with good digests: DAMAGED, never ABSENT. */
TEST(entries_that_lie_are_damage)
{
    size_t n = make_values(EVEN, values, 5000, 64);
    write_list("lie", values, n, 64);
    struct tamis_filter *f = open_filter(path_of("lie"));
    struct tamis_stage_info pages = filter_info(f).stages[LIST_PAGES];
    struct tamis_stage_info table = filter_info(f).stages[LIST_INDEX];
    tamis_filter_close(f);
    size_t n_bytes;
    FREED uint8_t *bytes = file_read(path_of("lie"), &n_bytes);
    const uint8_t *entries = bytes + table.offset;
    /* Entry 3 becomes one less, and one more, than its page's first value. */
    for (int by = -1; by <= 1; by += 2) {
        uint64_t first = digest_at(entries, 3);
        struct le64 lie = le64_of(first + (uint64_t)(int64_t)by);
        file_write(path_of("lie"), bytes, n_bytes);
        file_poke(path_of("lie"), table.offset + 3 * 8, &lie, sizeof lie);
        reseal_file("lie");
        f = open_filter(path_of("lie"));
        size_t n_damaged = 0;
        for (size_t i = 0; i < n; i++) {
            enum tamis_reason why;
            if (values[i] == first) /* for all that page 2 can tell it is not there */
                continue;
            IS(ask(f, values[i], &why), TAMIS_MAYBE);
            n_damaged += why == TAMIS_DAMAGED;
        }
        assert_true(n_damaged > 100);
        tamis_filter_close(f);
    }
    /* Two pages, each in the other's place: both are valid, and lack what is asked. */
    file_write(path_of("lie"), bytes, n_bytes);
    for (size_t k = 0; k < 2; k++)
        file_poke(path_of("lie"), pages.offset + (2 + k) * PAGE_BYTES,
                  bytes + pages.offset + (3 - k) * PAGE_BYTES, PAGE_BYTES);
    reseal_file("lie");
    all_maybe(n);
    /* A page that is not valid: gap_bits 0, too many hashes, none. */
    static const struct {
        size_t at, n;
        uint8_t byte;
    } heads[] = {{10, 1, 0}, {9, 1, 0xff}, {0, PAGE_BYTES, 0}};
    for (size_t k = 0; k < N_OF(heads); k++) {
        uint8_t with[PAGE_BYTES];
        memset(with, heads[k].byte, sizeof with);
        file_write(path_of("lie"), bytes, n_bytes);
        file_poke(path_of("lie"), pages.offset + 2 * PAGE_BYTES + heads[k].at, with,
                  heads[k].n);
        reseal_file("lie");
        all_maybe(n);
    }
}

/* ---- values in order ---- */

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
            struct tamis_filter_info info = filter_info(f);
            assert_true(info.n_hashes == n && info.hash_bits == bits[b]);
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
    struct tamis_stage_info pages = filter_info(f).stages[LIST_PAGES];
    struct tamis_stage_info table = filter_info(f).stages[LIST_INDEX];
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
    DIGESTS,
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
    case DIGESTS:
        return b[s->digests_offset + PAGE_BYTES - 1] = 1, last;
    case TABLE:
    case N_WRONG:
        break;
    }
    return entry[s[LIST_INDEX].used_bytes] = 1, n_pages;
}

/* A reading in order stops at a page that is good by itself, but wrong or out of place;
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
        int err, stopped = what >= TABLE ? 0 : TAMIS_ERR_DAMAGED;
        read_good(cursor, &err, NULL);
        IS(err, stopped);
        tamis_list_cursor_free(cursor);
        const char *merged = path_of("merged");
        IS(tamis_list_merge(&f, 1, merged, NULL, NULL, NULL), stopped);
        IS(unlink(merged) == 0, what >= TABLE);
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
    struct tamis_list_cursor *c;
    struct tamis_diag diag;
    BUILD(path_of("bloom"), NULL, 0, .error = 0.01);
    FILTER f = open_filter(path_of("bloom"));
    IS(filter_info(f).hash_bits, 0);
    IS(tamis_list_cursor_create(f, &c, &diag), TAMIS_ERR_UNFIT);
    assert_null(c);
}

RUN_TESTS(test_dir_create, test_dir_remove)
