/* The builder: the same bits however the keys came in, its counts, refusals and notes
 * about keys; and a spool that fails or lies makes no filter. */
#include "tests/unit/builder/builder_support.h"

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
    IS(builder_facts(one).n_keys, builder_facts(many).n_keys);
    assert_memory_equal(builder_facts(one).range, builder_facts(many).range,
                        sizeof(struct key_range));
    finish(one, path_of("one by one"));
    finish(many, path_of("by the batch"));
    assert_same_file(path_of("one by one"), path_of("by the batch"));
}

TEST_WITH_FAULTS(test_spool_failures_stick)
{
    size_t n_files = count_files(test_dir);
    struct tamis_diag diag;
    for (uint64_t list_bits = 0; list_bits <= 64; list_bits += 64) {
        BUILDER b = BUILDER_AS(.domain = &domain, .memory_limit = 4096,
                               .spool_dir = test_dir, .list_bits = list_bits);
        fail_once(CALL_PWRITE, 2, ENOSPC);
        IS(tamis_builder_add_hashes(b, domain.tag, keys, 200000), ENOSPC);
        /* It is unknown which hashes got lost, so no filter may come of it. */
        IS(tamis_builder_add_hashes(b, domain.tag, keys, 1), ENOSPC);
        IS(tamis_builder_add_key(b, "k", 1), ENOSPC);
        IS(tamis_builder_finish(b, path_of("failed"), NULL, NULL, &diag), ENOSPC);
        IS(diag.os_errno, ENOSPC);
    }
    BUILDER b = BUILDER_AS(.memory_limit = 4096, .spool_dir = path_of("nowhere"));
    IS(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, keys, 10000), ENOENT);
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
    IS(tamis_builder_finish(b, path_of("late"), NULL, NULL, &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "cannot spool"));
    /* This is no reason for another failure. */
    uint64_t n_bytes;
    IS(tamis_builder_finish(b, NULL, INTO(.fd = -1, .offset = INT64_MAX - 4095),
                            &n_bytes, &diag),
       EFBIG);
    assert_non_null(strstr(diag.what, "cannot write"));
    fail_once(CALL_PWRITE, 2, ENOSPC);
    IS(tamis_builder_finish(b, path_of("late"), NULL, NULL, &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "cannot write"));
    OK(tamis_builder_finish(b, path_of("late"), NULL, NULL, &diag));
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
        IS(tamis_builder_finish(b, path_of("lied"), NULL, NULL, &diag), EIO);
        assert_non_null(strstr(diag.what, "came back damaged"));
        IS(tamis_builder_finish(b, NULL, INTO(.fd = -1), &n_bytes, &diag), EIO);
        assert_non_null(strstr(diag.what, "came back damaged"));
        IS(count_files(test_dir), n_files);
    }
    OK(tamis_builder_finish(b, path_of("lied"), NULL, NULL, &diag));
    tamis_builder_free(b);
    io_calls.pread = pread;
    all_there(path_of("lied"), keys, 20000);
}

TEST(test_hashes_alone_in_a_batch)
{
    struct tamis_key batch[] = {
        tamis_key_of(&domain, "k", 1),
        (struct tamis_key){.tag = domain.tag, .hash = keys[0]},
        (struct tamis_key){.tag = domain.tag + 1, .hash = keys[1]}};
    struct tamis_builder *b = new_builder(1e-8, 0);
    /* Taken for the empty key it would be lost. */
    OK(tamis_builder_add_keys(b, batch, 2));
    IS(builder_facts(b).n_keys, 2);
    assert_false(builder_facts(b).range->known);
    IS(tamis_builder_add_keys(b, batch, 3), TAMIS_ERR_MISMATCH);
    IS(builder_facts(b).n_keys, 2);
    batch[2] = (struct tamis_key){0}; /* no key's hash, and not the empty key */
    IS(tamis_builder_add_keys(b, batch + 2, 1), TAMIS_ERR_MISMATCH);
    batch[2] = tamis_key_of(&domain, NULL, 0);
    OK(tamis_builder_add_keys(b, batch + 2, 1));
    finish(b, path_of("alone"));
    FILTER f = open_filter(path_of("alone"));
    for (size_t i = 0; i < 3; i++)
        IS(tamis_filter_probe(f, &batch[i], NULL), TAMIS_MAYBE);
}

TEST(test_foreign_hashes_are_refused)
{
    BUILDER b = new_builder(0.01, 0);
    struct tamis_domain other = domain_of(0x5eee);
    IS(tamis_builder_add_hashes(b, other.tag, keys, 10), TAMIS_ERR_MISMATCH);
    IS(tamis_builder_add_hashes(b, 0, keys, 10), TAMIS_ERR_MISMATCH);
    IS(tamis_builder_add_hashes(b, domain.tag, NULL, 10), TAMIS_ERR_RANGE);
    OK(tamis_builder_add_hashes(b, domain.tag, NULL, 0));
    IS(builder_facts(b).n_keys, 0);
    /* Refused, not failed. */
    OK(tamis_builder_add_hashes(b, domain.tag, keys, 10));
    IS(builder_facts(b).n_keys, 10);
}

TEST(test_duplicates_in_a_run_count_once)
{
    BUILDER b = new_builder(0.01, 0);
    const uint64_t mixed[] = {7, 7, 8, 7};
    for (int i = 0; i < 100; i++)
        OK(tamis_builder_add_key(b, "same", 4));
    IS(builder_facts(b).n_keys, 1);
    OK(tamis_builder_add_hashes(b, domain.tag, mixed, 4));
    IS(builder_facts(b).n_keys, 4); /* same, 7, 8, 7 */
    tamis_builder_free(b);
    /* A hash of 0 as the first is not taken for a repetition. */
    b = new_builder(0.01, 0);
    OK(tamis_builder_add_hashes(b, domain.tag, &(uint64_t){0}, 1));
    IS(builder_facts(b).n_keys, 1);
}

TEST(test_options_are_checked)
{
    static const char name[300] = "a name with a NUL in it";
    struct tamis_domain odd = {.hash_id = 1, .seed = 5, .tag = 1};
    const size_t size = sizeof(struct tamis_builder_options);
    const struct tamis_builder_options bad[] = {
        {.size = size, .error = -0.01},
        {.size = size, .error = 9.9e-9},
        {.size = size, .error = 0.5000001},
        {.size = size, .error = 1},
        {.size = size, .error = NAN},
        {.size = size, .error = INFINITY},
        {.size = size, .identity.name = "", .identity.name_bytes = 0},
        {.size = size, .identity.name = name, .identity.name_bytes = 256},
        {.size = size, .identity.name = name, .identity.name_bytes = 24},
        {.size = size, .identity.binding = name, .identity.binding_bytes = 65},
        {.size = size, .domain = &odd},
        {.size = 0},
        {.size = 3},
    };
    for (size_t i = 0; i < N_OF(bad); i++) {
        struct tamis_builder *b = (void *)1;
        struct tamis_diag diag;
        IS(tamis_builder_create(&bad[i], &b, &diag), TAMIS_ERR_RANGE);
        assert_null(b);
        IS(diag.code, TAMIS_ERR_RANGE);
        assert_true(strlen(diag.what) > 10);
    }
    for (int i = 0; i < 2; i++) {
        BUILDER b = builder_made(
            &(struct tamis_builder_options){.size = size, .error = i ? 1e-8 : 0.5});
    }
}

TEST(test_option_structs_of_another_size)
{
    struct {
        struct tamis_builder_options known;
        uint64_t newer;
    } opt = {.known = {.size = sizeof opt}};
    BUILDER b = builder_made(&opt.known);
    tamis_builder_free(b);
    opt.newer = 1; /* asks for something that this library does not know */
    IS(tamis_builder_create(&opt.known, &b, NULL), TAMIS_ERR_RANGE);
    /* An older caller knew size, domain and error only: the rest is not looked at. */
    opt.known = (struct tamis_builder_options){
        .size = offsetof(struct tamis_builder_options, identity),
        .error = 0.25,
        .identity.name = "",
    };
    OK(tamis_builder_create(&opt.known, &b, NULL));
    tamis_builder_free(b);
    OK(tamis_builder_create(NULL, &b, NULL));
}

static void expect_range(struct tamis_builder *b, const void *first, size_t n_first,
                         const void *last, size_t n_last)
{
    const struct key_range *r = builder_facts(b).range;
    assert_true(r->known);
    IS(r->first_bytes, n_first);
    IS(r->last_bytes, n_last);
    assert_memory_equal(r->first, first, n_first);
    assert_memory_equal(r->last, last, n_last);
}

static int compare_keys(const struct tamis_key *a, const struct tamis_key *b)
{
    size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int order = memcmp(a->bytes, b->bytes, n);
    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

TEST(test_key_range)
{
    BUILDER b = new_builder(0.01, 0);
    OK(tamis_builder_add_key(b, "m", 1));
    expect_range(b, "m", 1, "m", 1);
    /* Bytes are unsigned, and a prefix comes before what it starts. */
    OK(tamis_builder_add_key(b, "m\0", 2));
    expect_range(b, "m", 1, "m\0", 2);
    OK(tamis_builder_add_key(b, "\xff", 1));
    OK(tamis_builder_add_key(b, "ab", 2));
    OK(tamis_builder_add_key(b, "a", 1));
    OK(tamis_builder_add_key(b, "\x80", 1));
    expect_range(b, "a", 1, "\xff", 1);
    OK(tamis_builder_add_key(b, NULL, 0));
    expect_range(b, "", 0, "\xff", 1);
    OK(tamis_builder_add_hashes(b, domain.tag, keys, 0));
    assert_true(builder_facts(b).range->known); /* no hash was added */
    OK(tamis_builder_add_hashes(b, domain.tag, keys, 1));
    assert_false(builder_facts(b).range->known);
    OK(tamis_builder_add_key(b, "zz", 2));
    assert_false(builder_facts(b).range->known); /* once unknown, for ever */
}

/* Against a plain search, in batches, of keys that are alike: few letters, NULs, and
 * common beginnings of more than the eight bytes that are compared first. */
TEST(test_key_range_of_many)
{
    static uint8_t bytes[600][16];
    static struct tamis_key batch[600];
    for (int round = 0; round < 300; round++) {
        BUILDER b = new_builder(0.01, 0);
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
            OK(tamis_builder_add_keys(b, batch + done, some));
        }
        expect_range(b, low.bytes, low.n_bytes, high.bytes, high.n_bytes);
    }
}

TEST(test_key_range_of_long_keys)
{
    BUILDER b = new_builder(0.01, 0);
    static uint8_t longest[1024], too_long[1025];
    memset(longest, 'x', sizeof longest);
    memset(too_long, 'a', sizeof too_long);
    OK(tamis_builder_add_key(b, longest, sizeof longest));
    expect_range(b, longest, 1024, longest, 1024);
    /* A first key may be cut: what is left of it still comes before all keys. */
    OK(tamis_builder_add_key(b, too_long, sizeof too_long));
    expect_range(b, too_long, 1024, longest, 1024);
    /* A last key may not: a key between the cut one and the whole would be lost. */
    memset(too_long, 'y', sizeof too_long);
    OK(tamis_builder_add_key(b, too_long, sizeof too_long));
    assert_false(builder_facts(b).range->known);
}

RUN_TESTS(set_up, test_dir_remove)
