/* Lists as files: what goes in is found, what does not is absent, one at a time or
 * many, in each mode, whole or cut; and damage never makes ABSENT of a value. */
#include "tests/support/filters.h"
#include "tests/support/list_support.h"

enum { N = 60000 };
static uint64_t values[N];

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
        size_t told = tamis_filter_probe_batch(f, tamis_filter_domain(f).tag, asked,
                                               some, absent, NULL);
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
        write_list("list", values, n, 64);
        FILTER f = open_filter(path_of("list"));
        for (size_t i = 0; i < n; i++) {
            IS(why_of(f, values[i]), TAMIS_HIT);
        }
    }
}

TEST(facts_of_a_list)
{
    size_t n = make_values(EVEN, values, N, 64);
    struct list_written out = write_list("list", values, n, 64);
    FILTER f = open_filter(path_of("list"));
    IS(filter_info(f).keys, n);
    IS(stat_of(path_of("list")).st_size, out.file_bytes);
    struct tamis_verify report = verified(f);
    IS(report.n_damaged, 0);
    assert_true(report.n_pages > out.file_bytes / PAGE_BYTES - 8);
}

/* In the middle of a file of the caller's. */
TEST(a_list_in_another_file)
{
    uint8_t mine[3 * PAGE_BYTES] = {0};
    struct tamis_filter *f;
    size_t n = make_values(EVEN, values, N, 64), n_bytes;
    write_list("list", values, n, 64);
    uint8_t *list = file_read(path_of("list"), &n_bytes);
    FD fd = open(path_of("host"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    IS(pwrite(fd, mine, sizeof mine, 0), sizeof mine);
    IS(pwrite(fd, list, n_bytes, sizeof mine), n_bytes);
    free(list);
    OK(tamis_filter_open_fd(fd, sizeof mine, n_bytes, NULL, &f, NULL));
    check_answers(f, n, 64);
    tamis_filter_close(f);
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
    struct tamis_stage_info pages = stage_at(f, LIST_PAGES);
    struct tamis_stage_info table = stage_at(f, LIST_INDEX);
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

RUN_TESTS(test_dir_create, test_dir_remove)
