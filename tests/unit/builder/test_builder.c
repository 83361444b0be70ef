/* The builder: the same bits however the keys came in, no byte more than promised, and
 * a spool that fails or lies makes no filter. */
#include "tests/unit/builder/builder_support.h"

static void build(const char *path, double error, uint64_t memory_limit, size_t n)
{
    finish(threaded_builder_of(error, n, 0, memory_limit), path);
}

/* ---- space ---- */

TEST(test_bits_per_key)
{
    static const struct {
        double error, most;
    } cases[] = {
        {0.1, 5.0}, {0.01, 10.15}, {0.001, 14.95}, {1e-4, 20.25}, {1e-6, 30.4}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        const char *path = path_of("space");
        build(path, cases[i].error, 0, N_KEYS);
        double bits = (double)(stat_of(path).st_blocks * 512 - PAGE_BYTES) * 8 / N_KEYS;
        printf("%g: %.3f bits per key, all but a page (at most %g)\n", cases[i].error,
               bits, cases[i].most);
        assert_true(bits <= cases[i].most);
        all_there(path, keys, N_KEYS);
        unlink(path);
    }
}

TEST(test_small_filter_is_8_kib)
{
    build(path_of("small"), 0.01, 0, 1000);
    struct stat st = stat_of(path_of("small"));
    assert_true(st.st_size <= 8192);
    assert_true(st.st_blocks * 512 <= 8192);
}

TEST(test_empty_filter_says_maybe_never)
{
    finish(new_builder(0.01, 0), path_of("nothing"));
    FILTER f = open_filter(path_of("nothing"));
    IS(count_absent(f, keys, 100000), 100000);
    struct tamis_filter_info info = filter_info(f);
    IS(info.keys, 0);
    IS(info.sealed, 1);
    IS(info.growing_kind, 0);
}

/* ---- the same bits whatever the way ---- */

TEST_WITH(repeatable, faults_off, test_spooled_is_the_same_as_in_memory)
{
    enum { N = 100 * 1000 };
    size_t n_files = count_files(test_dir);
    build(path_of("memory"), 0.001, 0, N);
    faults[CALL_PWRITE].n = 0;
    build(path_of("spooled"), 0.001, 4096, N);
    assert_true(faults[CALL_PWRITE].n > N / 512); /* it did spool */
    assert_same_file(path_of("memory"), path_of("spooled"));
    IS(count_files(test_dir), n_files + 2);
}

TEST_WITH(repeatable, faults_off, test_keys_and_hashes_give_the_same_bits)
{
    struct tamis_builder *by_key = new_builder(0.01, 0),
                         *by_hash = new_builder(0.01, 0);
    for (uint64_t i = 0; i < 5000; i++) {
        struct tamis_key key = tamis_key_of(&domain, &i, sizeof i);
        OK(tamis_builder_add_key(by_key, &i, sizeof i));
        OK(tamis_builder_add_hashes(by_hash, key.tag, &key.hash, 1));
    }
    finish(by_key, path_of("by key"));
    finish(by_hash, path_of("by hash"));
    assert_same_file(path_of("by key"), path_of("by hash"));
}

TEST(test_keys_of_any_length)
{
    static const size_t lengths[] = {0,   1,   2,   3,   8,    16,   17,    128,
                                     129, 240, 241, 255, 1024, 4096, 65535, 65536};
    enum { N = N_OF(lengths) };
    FREED uint8_t *bytes = malloc(65536);
    struct tamis_builder *b = new_builder(1e-6, 0);
    assert_non_null(bytes);
    for (size_t i = 0; i < 65536; i++)
        bytes[i] = (uint8_t)random_u64();
    for (size_t i = 0; i < N; i++)
        OK(tamis_builder_add_key(b, bytes, lengths[i]));
    IS(tamis_builder_n_keys(b), N);
    finish(b, path_of("lengths"));
    FILTER f = open_filter(path_of("lengths"));
    for (size_t i = 0; i < N; i++) {
        struct tamis_key key = tamis_key_of(&domain, bytes, lengths[i]);
        IS(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
        /* A NULL key of no bytes is the empty key. */
        key = tamis_key_of(&domain, NULL, 0);
        IS(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
    }
}

TEST_WITH(repeatable, faults_off, test_keys_by_the_batch)
{
    enum { N = 1000 };
    static uint64_t bytes[N];
    static struct tamis_key batch[N];
    struct tamis_builder *one = new_builder(0.01, 0), *many = new_builder(0.01, 0);
    for (uint64_t i = 0; i < N; i++) {
        bytes[i] = random_u64();
        batch[i] = (struct tamis_key){.bytes = &bytes[i],
                                      .n_bytes = i % 9,
                                      .hash = 1, /* is not looked at, nor the tag */
                                      .tag = i};
        OK(tamis_builder_add_key(one, &bytes[i], i % 9));
    }
    for (size_t done = 0, n = 0; done < N; done += n) {
        n = 1 + done * 2 < N - done ? 1 + done * 2 : N - done;
        OK(tamis_builder_add_keys(many, batch + done, n));
    }
    OK(tamis_builder_add_keys(many, NULL, 0));
    IS(tamis_builder_add_keys(many, NULL, 3), TAMIS_ERR_RANGE);
    IS(tamis_builder_n_keys(one), tamis_builder_n_keys(many));
    assert_memory_equal(builder_range(one), builder_range(many),
                        sizeof(struct key_range));
    finish(one, path_of("one by one"));
    finish(many, path_of("by the batch"));
    assert_same_file(path_of("one by one"), path_of("by the batch"));
}

/* ---- a spool that fails ---- */

TEST_WITH_FAULTS(test_spool_failures_stick)
{
    size_t n_files = count_files(test_dir);
    struct tamis_builder *b = new_builder(0.01, 4096);
    struct tamis_diag diag;
    fail_once(CALL_PWRITE, 2, ENOSPC);
    IS(tamis_builder_add_hashes(b, domain.tag, keys, 10000), ENOSPC);
    /* It is unknown which hashes got lost, so no filter may come of it. */
    IS(tamis_builder_add_hashes(b, domain.tag, keys, 1), ENOSPC);
    IS(tamis_builder_add_key(b, "k", 1), ENOSPC);
    IS(tamis_builder_finish_file(b, path_of("failed"), &diag), ENOSPC);
    IS(diag.os_errno, ENOSPC);
    tamis_builder_free(b);

    struct tamis_builder_options opt = {
        .size = sizeof opt, .memory_limit = 4096, .spool_dir = path_of("nowhere")};
    OK(tamis_builder_create(&opt, &b, NULL));
    uint64_t tag = tamis_builder_domain(b).tag;
    IS(tamis_builder_add_hashes(b, tag, keys, 10000), ENOENT);
    tamis_builder_free(b);
    IS(count_files(test_dir), n_files);
}

/* The last hashes join those that are there when the filter is to be made. */
TEST_WITH_FAULTS(test_a_spool_that_fails_in_the_end)
{
    struct tamis_builder *b = new_builder(1e-8, 64 << 10);
    struct tamis_diag diag;
    OK(tamis_builder_add_hashes(b, domain.tag, keys, 5000));
    assert_int_not_equal(faults[CALL_PWRITE].n, 0);
    fail_once(CALL_PWRITE, 1, ENOSPC);
    IS(tamis_builder_finish_file(b, path_of("late"), &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "cannot spool"));
    /* This is no reason for another failure. */
    uint64_t n_bytes;
    IS(tamis_builder_finish_fd(b, -1, INT64_MAX - 4095, &n_bytes, &diag), EFBIG);
    assert_non_null(strstr(diag.what, "cannot write"));
    fail_once(CALL_PWRITE, 2, ENOSPC);
    IS(tamis_builder_finish_file(b, path_of("late"), &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "cannot write"));
    OK(tamis_builder_finish_file(b, path_of("late"), &diag));
    tamis_builder_free(b);
    all_there(path_of("late"), keys, 5000);
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

TEST_WITH_FAULTS(test_a_spool_that_lies_makes_no_filter)
{
    struct tamis_diag diag;
    uint64_t n_bytes;
    size_t n_files = count_files(test_dir);
    struct tamis_builder *b = new_builder(0.01, 64 << 10);
    OK(tamis_builder_add_hashes(b, domain.tag, keys, 20000));
    io_calls.pread = damaging_pread;
    for (spool_damage = 1; spool_damage <= 3; spool_damage++) {
        IS(tamis_builder_finish_file(b, path_of("lied"), &diag), EIO);
        assert_non_null(strstr(diag.what, "came back damaged"));
        IS(tamis_builder_finish_fd(b, -1, 0, &n_bytes, &diag), EIO);
        assert_non_null(strstr(diag.what, "came back damaged"));
        IS(count_files(test_dir), n_files);
    }
    OK(tamis_builder_finish_file(b, path_of("lied"), &diag));
    tamis_builder_free(b);
    io_calls.pread = pread;
    all_there(path_of("lied"), keys, 20000);
}

RUN_TESTS(set_up, test_dir_remove)
