/* The builder: the same bits however the keys came in, no byte more than promised,
 * and what it notes of the keys on their way. */
#include "tests/support/support.h"

#include <math.h>

enum { N_KEYS = 1000 * 1000 };
static uint64_t *keys;
static struct tamis_domain domain;

static int set_up(void **state)
{
    keys = malloc(N_KEYS * sizeof *keys);
    tamis_domain_init(&domain, 1, 0x5eed);
    random_hashes(keys, N_KEYS);
    return keys ? test_dir_create(state) : -1;
}

static int tear_down(void **state)
{
    free(keys);
    return test_dir_remove(state);
}

/* Files compare equal only if UUIDs and times do. */
static void same_bytes(void *buf, size_t n)
{
    memset(buf, 0x42, n);
}

static uint64_t same_time(void)
{
    return 1700000000000000;
}

static int repeatable(void **state)
{
    faults_on(state);
    io_calls.random = same_bytes;
    io_calls.now = same_time;
    return 0;
}

static struct tamis_builder *new_builder(double error, uint64_t memory_limit)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &domain,
        .error = error,
        .memory_limit = memory_limit,
        .spool_dir = test_dir,
    };
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    return b;
}

static void finish(struct tamis_builder *b, const char *path)
{
    struct tamis_diag diag;
    if (tamis_builder_finish_file(b, path, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    tamis_builder_free(b);
}

static void build(const char *path, double error, uint64_t memory_limit, size_t n)
{
    struct tamis_builder *b = new_builder(error, memory_limit);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, n), 0);
    assert_int_equal(tamis_builder_n_keys(b), n);
    finish(b, path);
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n_a, n_b;
    uint8_t *bytes_a = file_read(a, &n_a), *bytes_b = file_read(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(bytes_a, bytes_b, n_a);
    free(bytes_a);
    free(bytes_b);
}

/* ---- space ---- */

static void test_bits_per_key(void **state)
{
    static const struct {
        double error, most;
    } cases[] = {
        {0.1, 5.0}, {0.01, 10.15}, {0.001, 14.95}, {1e-4, 20.25}, {1e-6, 30.4}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = path_of("space");
        struct stat st;
        build(path, cases[i].error, 0, N_KEYS);
        assert_int_equal(stat(path, &st), 0);
        double bits = (double)(st.st_blocks * 512 - PAGE_BYTES) * 8 / N_KEYS;
        printf("%g: %.3f bits per key, all but a page (at most %g)\n", cases[i].error,
               bits, cases[i].most);
        assert_true(bits <= cases[i].most);
        struct tamis_filter *f = open_filter(path);
        assert_int_equal(count_absent(f, keys, N_KEYS), 0);
        tamis_filter_close(f);
        unlink(path);
    }
}

static void test_small_filter_is_8_kib(void **state)
{
    struct stat st;
    (void)state;
    build(path_of("small"), 0.01, 0, 1000);
    assert_int_equal(stat(path_of("small"), &st), 0);
    assert_true(st.st_size <= 8192);
    assert_true(st.st_blocks * 512 <= 8192);
}

static void test_empty_filter_says_maybe_never(void **state)
{
    struct tamis_filter_info info;
    (void)state;
    finish(new_builder(0.01, 0), path_of("nothing"));
    struct tamis_filter *f = open_filter(path_of("nothing"));
    assert_int_equal(count_absent(f, keys, 100000), 100000);
    assert_int_equal(tamis_filter_info(f, &info), 0);
    assert_int_equal(info.keys, 0);
    assert_int_equal(info.sealed, 1);
    assert_int_equal(info.growing_kind, 0);
    tamis_filter_close(f);
}

/* ---- the same bits whatever the way ---- */

static void test_spooled_is_the_same_as_in_memory(void **state)
{
    enum { N = 100 * 1000 };
    size_t n_files = count_files(test_dir);
    (void)state;
    build(path_of("memory"), 0.001, 0, N);
    faults[CALL_PWRITE].n = 0;
    build(path_of("spooled"), 0.001, 4096, N);
    assert_true(faults[CALL_PWRITE].n > N / 512); /* it did spool */
    assert_same_file(path_of("memory"), path_of("spooled"));
    assert_int_equal(count_files(test_dir), n_files + 2);
}

static void test_keys_and_hashes_give_the_same_bits(void **state)
{
    struct tamis_builder *by_key = new_builder(0.01, 0),
                         *by_hash = new_builder(0.01, 0);
    (void)state;
    for (uint64_t i = 0; i < 5000; i++) {
        struct tamis_key key = tamis_key_of(&domain, &i, sizeof i);
        assert_int_equal(tamis_builder_add_key(by_key, &i, sizeof i), 0);
        assert_int_equal(tamis_builder_add_hashes(by_hash, key.tag, &key.hash, 1), 0);
    }
    finish(by_key, path_of("by key"));
    finish(by_hash, path_of("by hash"));
    assert_same_file(path_of("by key"), path_of("by hash"));
}

static void test_keys_of_any_length(void **state)
{
    static const size_t lengths[] = {0,   1,   2,   3,   8,    16,   17,    128,
                                     129, 240, 241, 255, 1024, 4096, 65535, 65536};
    enum { N = sizeof lengths / sizeof lengths[0] };
    uint8_t *bytes = malloc(65536);
    struct tamis_builder *b = new_builder(1e-6, 0);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < 65536; i++)
        bytes[i] = (uint8_t)random_u64();
    for (size_t i = 0; i < N; i++)
        assert_int_equal(tamis_builder_add_key(b, bytes, lengths[i]), 0);
    assert_int_equal(tamis_builder_n_keys(b), N);
    finish(b, path_of("lengths"));
    struct tamis_filter *f = open_filter(path_of("lengths"));
    for (size_t i = 0; i < N; i++) {
        struct tamis_key key = tamis_key_of(&domain, bytes, lengths[i]);
        assert_int_equal(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
        /* A NULL key of no bytes is the empty key. */
        key = tamis_key_of(&domain, NULL, 0);
        assert_int_equal(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
    }
    tamis_filter_close(f);
    free(bytes);
}

static void test_keys_by_the_batch(void **state)
{
    enum { N = 1000 };
    static uint64_t bytes[N];
    static struct tamis_key batch[N];
    struct tamis_builder *one = new_builder(0.01, 0), *many = new_builder(0.01, 0);
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        bytes[i] = random_u64();
        batch[i] = (struct tamis_key){.bytes = &bytes[i],
                                      .n_bytes = i % 9,
                                      .hash = 1, /* is not looked at, nor the tag */
                                      .tag = i};
        assert_int_equal(tamis_builder_add_key(one, &bytes[i], i % 9), 0);
    }
    for (size_t done = 0, n = 0; done < N; done += n) {
        n = 1 + done * 2 < N - done ? 1 + done * 2 : N - done;
        assert_int_equal(tamis_builder_add_keys(many, batch + done, n), 0);
    }
    assert_int_equal(tamis_builder_add_keys(many, NULL, 0), 0);
    assert_int_equal(tamis_builder_add_keys(many, NULL, 3), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_builder_n_keys(one), tamis_builder_n_keys(many));
    assert_memory_equal(builder_range(one), builder_range(many),
                        sizeof(struct key_range));
    finish(one, path_of("one by one"));
    finish(many, path_of("by the batch"));
    assert_same_file(path_of("one by one"), path_of("by the batch"));
}

static void test_hashes_alone_in_a_batch(void **state)
{
    struct tamis_key batch[] = {tamis_key_of(&domain, "k", 1),
                                tamis_key_of_hash(domain.tag, keys[0]),
                                tamis_key_of_hash(domain.tag + 1, keys[1])};
    struct tamis_builder *b = new_builder(1e-8, 0);
    (void)state;
    /* Taken for the empty key it would be lost. */
    assert_int_equal(tamis_builder_add_keys(b, batch, 2), 0);
    assert_int_equal(tamis_builder_n_keys(b), 2);
    assert_false(builder_range(b)->known);
    assert_int_equal(tamis_builder_add_keys(b, batch, 3), TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_builder_n_keys(b), 2);
    batch[2] = (struct tamis_key){0}; /* nobody's hash, and not the empty key */
    assert_int_equal(tamis_builder_add_keys(b, batch + 2, 1), TAMIS_ERR_MISMATCH);
    batch[2] = tamis_key_of(&domain, NULL, 0);
    assert_int_equal(tamis_builder_add_keys(b, batch + 2, 1), 0);
    finish(b, path_of("alone"));
    struct tamis_filter *f = open_filter(path_of("alone"));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tamis_filter_probe(f, &batch[i], NULL), TAMIS_MAYBE);
    tamis_filter_close(f);
}

/* ---- what it counts and refuses ---- */

static void test_foreign_hashes_are_refused(void **state)
{
    struct tamis_domain other;
    struct tamis_builder *b = new_builder(0.01, 0);
    (void)state;
    tamis_domain_init(&other, 1, 0x5eee);
    assert_int_equal(tamis_builder_add_hashes(b, other.tag, keys, 10),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_builder_add_hashes(b, 0, keys, 10), TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, NULL, 10),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, NULL, 0), 0);
    assert_int_equal(tamis_builder_n_keys(b), 0);
    /* Refused, not failed. */
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 10), 0);
    assert_int_equal(tamis_builder_n_keys(b), 10);
    tamis_builder_free(b);
}

static void test_duplicates_in_a_run_count_once(void **state)
{
    struct tamis_builder *b = new_builder(0.01, 0);
    const uint64_t mixed[] = {7, 7, 8, 7};
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(tamis_builder_add_key(b, "same", 4), 0);
    assert_int_equal(tamis_builder_n_keys(b), 1);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, mixed, 4), 0);
    assert_int_equal(tamis_builder_n_keys(b), 4); /* same, 7, 8, 7 */
    tamis_builder_free(b);
    /* A hash of 0 as the first is not taken for a repetition. */
    b = new_builder(0.01, 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, &(uint64_t){0}, 1), 0);
    assert_int_equal(tamis_builder_n_keys(b), 1);
    tamis_builder_free(b);
}

static void test_options_are_checked(void **state)
{
    static const double bad_errors[] = {-0.01, 9.9e-9, 0.5000001, 1, NAN, INFINITY};
    static const char name[300] = "a name with a NUL in it";
    const struct tamis_builder_options good = {.size = sizeof good};
    struct tamis_domain odd = {.hash_id = 1, .seed = 5, .tag = 1};
    struct tamis_builder *b;
    struct tamis_diag diag;
    (void)state;
    struct tamis_builder_options bad[20];
    size_t n = 0;
    for (size_t i = 0; i < sizeof bad_errors / sizeof bad_errors[0]; i++)
        bad[n] = good, bad[n++].error = bad_errors[i];
    bad[n] = good, bad[n].name = "", bad[n++].name_bytes = 0;
    bad[n] = good, bad[n].name = name, bad[n++].name_bytes = 256;
    bad[n] = good, bad[n].name = name, bad[n++].name_bytes = 24;
    bad[n] = good, bad[n].binding = name, bad[n++].binding_bytes = 65;
    bad[n] = good, bad[n++].domain = &odd;
    bad[n] = good, bad[n++].size = 0;
    bad[n] = good, bad[n++].size = 3;
    for (size_t i = 0; i < n; i++) {
        b = (void *)1;
        assert_int_equal(tamis_builder_create(&bad[i], &b, &diag), TAMIS_ERR_RANGE);
        assert_null(b);
        assert_int_equal(diag.code, TAMIS_ERR_RANGE);
        assert_true(strlen(diag.what) > 10);
    }
    const double edges[] = {1e-8, 0.5};
    for (size_t i = 0; i < 2; i++) {
        struct tamis_builder_options edge = {.size = sizeof edge, .error = edges[i]};
        assert_int_equal(tamis_builder_create(&edge, &b, NULL), 0);
        tamis_builder_free(b);
    }
}

static void test_option_structs_of_another_size(void **state)
{
    struct {
        struct tamis_builder_options known;
        uint64_t newer;
    } opt = {.known = {.size = sizeof opt}};
    struct tamis_builder *b;
    (void)state;
    assert_int_equal(tamis_builder_create(&opt.known, &b, NULL), 0);
    tamis_builder_free(b);
    opt.newer = 1; /* asks for something that this library does not know */
    assert_int_equal(tamis_builder_create(&opt.known, &b, NULL), TAMIS_ERR_RANGE);
    /* An older caller knew size, domain and error only: the rest is not looked at. */
    opt.known = (struct tamis_builder_options){
        .size = offsetof(struct tamis_builder_options, name),
        .error = 0.25,
        .name = "",
    };
    assert_int_equal(tamis_builder_create(&opt.known, &b, NULL), 0);
    tamis_builder_free(b);
    assert_int_equal(tamis_builder_create(NULL, &b, NULL), 0);
    tamis_builder_free(b);
}

/* ---- key ranges ---- */

static void expect_range(struct tamis_builder *b, const void *first, size_t n_first,
                         const void *last, size_t n_last)
{
    const struct key_range *r = builder_range(b);
    assert_true(r->known);
    assert_int_equal(r->first_bytes, n_first);
    assert_int_equal(r->last_bytes, n_last);
    assert_memory_equal(r->first, first, n_first);
    assert_memory_equal(r->last, last, n_last);
}

static int compare_keys(const struct tamis_key *a, const struct tamis_key *b)
{
    size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int order = memcmp(a->bytes, b->bytes, n);
    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

static void test_key_range(void **state)
{
    struct tamis_builder *b = new_builder(0.01, 0);
    (void)state;
    assert_int_equal(tamis_builder_add_key(b, "m", 1), 0);
    expect_range(b, "m", 1, "m", 1);
    /* Bytes are unsigned, and a prefix comes before what it starts. */
    assert_int_equal(tamis_builder_add_key(b, "m\0", 2), 0);
    expect_range(b, "m", 1, "m\0", 2);
    assert_int_equal(tamis_builder_add_key(b, "\xff", 1), 0);
    assert_int_equal(tamis_builder_add_key(b, "ab", 2), 0);
    assert_int_equal(tamis_builder_add_key(b, "a", 1), 0);
    assert_int_equal(tamis_builder_add_key(b, "\x80", 1), 0);
    expect_range(b, "a", 1, "\xff", 1);
    assert_int_equal(tamis_builder_add_key(b, NULL, 0), 0);
    expect_range(b, "", 0, "\xff", 1);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 0), 0);
    assert_true(builder_range(b)->known); /* no hash was added */
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 1), 0);
    assert_false(builder_range(b)->known);
    assert_int_equal(tamis_builder_add_key(b, "zz", 2), 0);
    assert_false(builder_range(b)->known); /* once unknown, for ever */
    tamis_builder_free(b);
}

/* Against a plain search, in batches, of keys that are alike: few letters, NULs, and
 * common beginnings of more than the eight bytes that are compared first. */
static void test_key_range_of_many(void **state)
{
    static uint8_t bytes[600][16];
    static struct tamis_key batch[600];
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct tamis_builder *b = new_builder(0.01, 0);
        struct tamis_key low = {0}, high = {0};
        size_t n = 1 + (size_t)random_below(600), same = (size_t)random_below(13);
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < 16; k++)
                bytes[i][k] =
                    k < same ? (uint8_t)0x78 : (uint8_t)(random_below(3) * 127);
            batch[i] = (struct tamis_key){bytes[i], random_below(17), 0, 0};
            if (i == 0 || compare_keys(&batch[i], &low) < 0)
                low = batch[i];
            if (i == 0 || compare_keys(&batch[i], &high) > 0)
                high = batch[i];
        }
        for (size_t done = 0, some; done < n; done += some) {
            some = 1 + (size_t)random_below(n - done);
            assert_int_equal(tamis_builder_add_keys(b, batch + done, some), 0);
        }
        expect_range(b, low.bytes, low.n_bytes, high.bytes, high.n_bytes);
        tamis_builder_free(b);
    }
}

static void test_key_range_of_long_keys(void **state)
{
    struct tamis_builder *b = new_builder(0.01, 0);
    static uint8_t longest[1024], too_long[1025];
    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(too_long, 'a', sizeof too_long);
    assert_int_equal(tamis_builder_add_key(b, longest, sizeof longest), 0);
    expect_range(b, longest, 1024, longest, 1024);
    /* A first key may be cut: what is left of it still comes before all keys. */
    assert_int_equal(tamis_builder_add_key(b, too_long, sizeof too_long), 0);
    expect_range(b, too_long, 1024, longest, 1024);
    /* A last key may not: a key between the cut one and the whole would be lost. */
    memset(too_long, 'y', sizeof too_long);
    assert_int_equal(tamis_builder_add_key(b, too_long, sizeof too_long), 0);
    assert_false(builder_range(b)->known);
    tamis_builder_free(b);
}

/* ---- a spool that fails ---- */

static void test_spool_failures_stick(void **state)
{
    size_t n_files = count_files(test_dir);
    struct tamis_builder *b = new_builder(0.01, 4096);
    struct tamis_diag diag;
    (void)state;
    fail_once(CALL_PWRITE, 2, ENOSPC);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 10000), ENOSPC);
    /* Which hashes got lost is not known, so nothing may come of it. */
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 1), ENOSPC);
    assert_int_equal(tamis_builder_add_key(b, "k", 1), ENOSPC);
    assert_int_equal(tamis_builder_finish_file(b, path_of("failed"), &diag), ENOSPC);
    assert_int_equal(diag.os_errno, ENOSPC);
    tamis_builder_free(b);

    struct tamis_builder_options opt = {
        .size = sizeof opt, .memory_limit = 4096, .spool_dir = path_of("nowhere")};
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    uint64_t tag = tamis_builder_domain(b).tag;
    assert_int_equal(tamis_builder_add_hashes(b, tag, keys, 10000), ENOENT);
    tamis_builder_free(b);
    assert_int_equal(count_files(test_dir), n_files);
}

/* The last hashes join those that are there when the filter is to be made. */
static void test_a_spool_that_fails_in_the_end(void **state)
{
    struct tamis_builder *b = new_builder(1e-8, 64 << 10);
    struct tamis_diag diag;
    (void)state;
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 5000), 0);
    assert_int_not_equal(faults[CALL_PWRITE].n, 0);
    fail_once(CALL_PWRITE, 1, ENOSPC);
    assert_int_equal(tamis_builder_finish_file(b, path_of("late"), &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "cannot spool"));
    /* Which is no reason of another failure. */
    uint64_t n_bytes;
    assert_int_equal(tamis_builder_finish_fd(b, -1, INT64_MAX - 4095, &n_bytes, &diag),
                     EFBIG);
    assert_non_null(strstr(diag.what, "cannot write"));
    fail_once(CALL_PWRITE, 2, ENOSPC);
    assert_int_equal(tamis_builder_finish_file(b, path_of("late"), &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "cannot write"));
    assert_int_equal(tamis_builder_finish_file(b, path_of("late"), &diag), 0);
    tamis_builder_free(b);
    struct tamis_filter *f = open_filter(path_of("late"));
    assert_int_equal(count_absent(f, keys, 5000), 0);
    tamis_filter_close(f);
}

/* A page of the spool that was never written back, two that were exchanged, one bit. */
static int spool_damage;

static ssize_t damaging_pread(int fd, void *buf, size_t n, off_t offset)
{
    static uint8_t page[PAGE_BYTES];
    uint8_t *bytes = buf;
    ssize_t got = pread(fd, buf, n, offset);
    if (offset != 0 || got < 2 * PAGE_BYTES)
        return got;
    if (spool_damage == 1) {
        memset(bytes, 0, sizeof page);
    } else if (spool_damage == 2) {
        memcpy(page, bytes, sizeof page);
        memcpy(bytes, bytes + sizeof page, sizeof page);
        memcpy(bytes + sizeof page, page, sizeof page);
    } else if (spool_damage == 3) {
        bytes[2 * PAGE_BYTES - 1] ^= 0x80;
    }
    return got;
}

static void test_a_spool_that_lies_makes_no_filter(void **state)
{
    struct tamis_diag diag;
    uint64_t n_bytes;
    (void)state;
    size_t n_files = count_files(test_dir);
    struct tamis_builder *b = new_builder(0.01, 64 << 10);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 20000), 0);
    io_calls.pread = damaging_pread;
    for (spool_damage = 1; spool_damage <= 3; spool_damage++) {
        assert_int_equal(tamis_builder_finish_file(b, path_of("lied"), &diag), EIO);
        assert_non_null(strstr(diag.what, "came back damaged"));
        assert_int_equal(tamis_builder_finish_fd(b, -1, 0, &n_bytes, &diag), EIO);
        assert_non_null(strstr(diag.what, "came back damaged"));
        assert_int_equal(count_files(test_dir), n_files);
    }
    assert_int_equal(tamis_builder_finish_file(b, path_of("lied"), &diag), 0);
    tamis_builder_free(b);
    io_calls.pread = pread;
    struct tamis_filter *f = open_filter(path_of("lied"));
    assert_int_equal(count_absent(f, keys, 20000), 0);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_per_key),
        cmocka_unit_test(test_small_filter_is_8_kib),
        cmocka_unit_test(test_empty_filter_says_maybe_never),
        cmocka_unit_test_setup_teardown(test_spooled_is_the_same_as_in_memory,
                                        repeatable, faults_off),
        cmocka_unit_test_setup_teardown(test_keys_and_hashes_give_the_same_bits,
                                        repeatable, faults_off),
        cmocka_unit_test(test_keys_of_any_length),
        cmocka_unit_test_setup_teardown(test_keys_by_the_batch, repeatable, faults_off),
        cmocka_unit_test(test_hashes_alone_in_a_batch),
        cmocka_unit_test(test_foreign_hashes_are_refused),
        cmocka_unit_test(test_duplicates_in_a_run_count_once),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_option_structs_of_another_size),
        cmocka_unit_test(test_key_range),
        cmocka_unit_test(test_key_range_of_many),
        cmocka_unit_test(test_key_range_of_long_keys),
        TEST_WITH_FAULTS(test_spool_failures_stick),
        TEST_WITH_FAULTS(test_a_spool_that_fails_in_the_end),
        TEST_WITH_FAULTS(test_a_spool_that_lies_makes_no_filter),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
