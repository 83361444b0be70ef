/* Batches: the same answers as one key at a time, in the same order, of every kind of
 * filter, at every length, while pages are still to be checked and after that. */
#include "tests/support/support.h"

#include <sys/mman.h>

enum { N_KEYS = 32000, N_ASKED = 2 * N_KEYS, ROOM = N_ASKED / 64 + 2 };

static uint64_t *keys; /* the first half is in every filter */

/* No page follows the last key: a batch that reads beyond its keys crashes. */
static int set_up(void **state)
{
    size_t n = N_ASKED * sizeof *keys, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n_bytes = (n + page - 1) / page * page;
    uint8_t *at = mmap(NULL, n_bytes + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + n_bytes, page, PROT_NONE) != 0)
        return -1;
    keys = (uint64_t *)(void *)(at + n_bytes - n);
    random_hashes(keys, N_ASKED);
    return test_dir_create(state);
}

static void built(const char *path, double error)
{
    struct tamis_builder_options opt = {.size = sizeof opt, .error = error};
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(
        tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, keys, N_KEYS), 0);
    assert_int_equal(tamis_builder_finish_file(b, path, NULL), 0);
    tamis_builder_free(b);
}

/* Six stages and more. */
static void grown(const char *path, double error, bool sealed)
{
    struct tamis_writer *w = create_writer(path, error, 2, 500);
    add_hashes(w, keys, N_KEYS);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    if (sealed)
        assert_int_equal(tamis_writer_seal(w, 2, NULL, NULL), 0);
    tamis_writer_close(w);
}

/* Asks [from, from + n) in a batch and one by one; nothing else of the bitmap changes.
 */
static void compare(struct tamis_filter *batch, struct tamis_filter *single,
                    size_t from, size_t n)
{
    static uint64_t absent[ROOM];
    size_t n_words = (n + 63) / 64, n_absent = 0;
    uint64_t tag = tamis_filter_domain(batch).tag;
    memset(absent, 0xff, sizeof absent);
    size_t got = tamis_filter_probe_batch(batch, tag, keys + from, n, absent, NULL);
    for (size_t i = 0; i < n_words * 64; i++) {
        bool is = absent[i / 64] >> (i % 64) & 1;
        bool should = i < n && ask(single, keys[from + i], NULL) == TAMIS_ABSENT;
        assert_int_equal(is, should);
        assert_false(is && from + i < N_KEYS);
        n_absent += is;
    }
    assert_int_equal(got, n_absent);
    assert_true(absent[n_words] == UINT64_MAX);
}

static void every_length(const char *path)
{
    struct tamis_filter *batch = open_filter(path), *single = open_filter(path);
    compare(batch, single, N_ASKED - 64, 64); /* no page is known yet */
    for (size_t n = 0; n < 200; n++)
        compare(batch, single, random_below(N_ASKED - n), n);
    for (int i = 0; i < 20; i++) {
        size_t n = random_below(20000);
        compare(batch, single, random_below(N_ASKED - n), n);
    }
    compare(batch, single, 0, N_ASKED); /* from here on all pages are known */
    for (size_t n = 0; n < 200; n++)
        compare(batch, single, random_below(N_ASKED - n), n);
    compare(batch, single, 0, N_ASKED);
    assert_true(count_absent(batch, keys + N_KEYS, N_KEYS) > N_KEYS / 2);
    tamis_filter_close(batch);
    tamis_filter_close(single);
}

static void test_every_kind(void **state)
{
    (void)state;
    built(path_of("one lane"), 0.01);
    every_length(path_of("one lane"));
    built(path_of("two lanes"), 0.001);
    every_length(path_of("two lanes"));
    built(path_of("three lanes"), 1e-6);
    every_length(path_of("three lanes"));
    grown(path_of("open"), 0.01, false);
    every_length(path_of("open"));
    grown(path_of("open, lanes"), 1e-5, false);
    every_length(path_of("open, lanes"));
    grown(path_of("sealed"), 0.01, true);
    every_length(path_of("sealed"));
}

/* A page of each stage in turn fails its check, the first one or, where lanes are
 * several, one of the last lane: what lies there is MAYBE, the other pages being all
 * good already or not. */
static void test_a_bad_page_in_any_stage(void **state)
{
    (void)state;
    grown(path_of("whole"), 1e-4, true);
    struct commit c = commit_of(path_of("whole"));
    uint8_t zeros[PAGE_BYTES] = {0};
    assert_true(c.stages[c.n_stages - 1].geometry.lanes > 1);
    for (uint32_t i = 0; i < 2 * c.n_stages; i++) {
        const char *path = path_of("damaged");
        const struct stage_desc *d = &c.stages[i / 2];
        uint64_t last = d->offset + d->length - PAGE_BYTES;
        file_copy(path_of("whole"), path);
        file_poke(path, i % 2 ? last : d->offset, zeros, sizeof zeros);
        struct tamis_filter *batch = open_filter(path), *single = open_filter(path);
        for (int twice = 0; twice < 2; twice++)
            compare(batch, single, 0, N_ASKED);
        tamis_filter_close(batch);
        tamis_filter_close(single);
    }
}

static void test_what_refuses_one_refuses_all(void **state)
{
    (void)state;
    uint64_t absent[4];
    enum tamis_reason why;
    built(path_of("filter"), 0.01);
    struct tamis_filter *f = open_filter(path_of("filter"));
    uint64_t tag = tamis_filter_domain(f).tag;
    memset(absent, 0xff, sizeof absent);
    assert_int_equal(
        tamis_filter_probe_batch(f, tag + 1, keys + N_KEYS, 130, absent, &why), 0);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_true(absent[0] == 0 && absent[1] == 0 && absent[2] == 0);
    assert_true(absent[3] == UINT64_MAX);
    assert_int_equal(tamis_filter_probe_batch(NULL, tag, keys, 64, absent + 3, &why),
                     0);
    assert_int_equal(why, TAMIS_UNREADABLE);
    assert_true(absent[3] == 0);
    assert_int_equal(tamis_filter_probe_batch(f, tag, NULL, 0, NULL, &why), 0);
    assert_int_equal(why, TAMIS_NO_REASON);
    tamis_filter_close(f);
}

/* ---- by key ---- */

static void test_keys_are_hashed_and_asked(void **state)
{
    (void)state;
    enum { N = 3000, IN = 1000 };
    static char text[N][40];
    static struct tamis_key k[N];
    uint64_t absent[N / 64 + 1];
    enum tamis_reason why;
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(NULL, &b, NULL), 0);
    struct tamis_domain d = tamis_builder_domain(b);
    for (size_t i = 0; i < N; i++) {
        size_t n = (size_t)snprintf(text[i], sizeof text[i], "%zu%s", i,
                                    i % 3 ? "" : "a longer key than those");
        k[i] = (struct tamis_key){.bytes = text[i], .n_bytes = i ? n : 0};
        if (i < IN)
            assert_int_equal(tamis_builder_add_key(b, text[i], k[i].n_bytes), 0);
    }
    assert_int_equal(tamis_builder_finish_file(b, path_of("texts"), NULL), 0);
    tamis_builder_free(b);
    tamis_keys_hash(&d, k, N);
    for (size_t i = 0; i < N; i++) {
        struct tamis_key one = tamis_key_of(&d, text[i], k[i].n_bytes);
        assert_true(one.hash == k[i].hash && one.tag == k[i].tag);
        assert_true(k[i].n_bytes == one.n_bytes);
    }

    struct tamis_filter *f = open_filter(path_of("texts"));
    size_t n = tamis_filter_probe_keys(f, k, N, absent, &why);
    assert_int_equal(why, TAMIS_NO_REASON);
    assert_in_range(n, (N - IN) * 9 / 10, N - IN);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(absent[i / 64] >> (i % 64) & 1,
                         tamis_filter_probe(f, &k[i], NULL) == TAMIS_ABSENT);
    /* One of another domain says nothing, and keeps nobody else from it. */
    size_t last = N - 1;
    while (!(absent[last / 64] >> (last % 64) & 1))
        last--;
    k[last].tag++;
    assert_int_equal(tamis_filter_probe_keys(f, k, N, absent, &why), n - 1);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_false(absent[last / 64] >> (last % 64) & 1);
    /* A domain that nobody initialised hashes nothing; what has no bytes stays as it
     * is.
     */
    struct tamis_key odd[3] = {
        {.bytes = "x", .n_bytes = 1}, tamis_key_of_hash(7, 8), {0}};
    tamis_keys_hash(&d, odd, 3);
    assert_true(odd[0].tag == d.tag && odd[1].hash == 8 && odd[1].tag == 7);
    assert_true(!odd[2].bytes && !odd[2].tag);
    tamis_keys_hash(&(struct tamis_domain){0}, odd, 1);
    assert_true(!odd[0].tag && !odd[0].hash);
    assert_int_equal(tamis_filter_probe_keys(f, k, 0, NULL, &why), 0);
    assert_int_equal(tamis_filter_probe_keys(NULL, k, N, absent, &why), 0);
    assert_int_equal(why, TAMIS_UNREADABLE);
    tamis_filter_close(f);
}

/* Nothing to ask, or nowhere to put the answers. */
static void test_without_hashes_or_bitmap(void **state)
{
    struct tamis_key key = {0};
    uint64_t absent[2];
    enum tamis_reason why;
    (void)state;
    built(path_of("nothing"), 0.01);
    struct tamis_filter *f = open_filter(path_of("nothing"));
    uint64_t tag = tamis_filter_domain(f).tag;
    absent[0] = absent[1] = UINT64_MAX;
    assert_int_equal(tamis_filter_probe_batch(f, tag, NULL, 70, absent, &why), 0);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_true(absent[0] == 0 && absent[1] == 0);
    absent[0] = absent[1] = UINT64_MAX;
    assert_int_equal(tamis_filter_probe_keys(f, NULL, 70, absent, &why), 0);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_true(absent[0] == 0 && absent[1] == 0);
    assert_int_equal(tamis_filter_probe_batch(f, tag, keys, 70, NULL, &why), 0);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_int_equal(tamis_filter_probe_keys(f, &key, 1, NULL, &why), 0);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_int_equal(tamis_filter_probe_batch(NULL, tag, keys, 70, NULL, &why), 0);
    assert_int_equal(why, TAMIS_UNREADABLE);
    assert_int_equal(tamis_filter_probe_keys(NULL, &key, 1, NULL, &why), 0);
    assert_int_equal(why, TAMIS_UNREADABLE);
    assert_int_equal(tamis_filter_probe_batch(f, tag, NULL, 0, NULL, &why), 0);
    assert_int_equal(why, TAMIS_NO_REASON);
    tamis_filter_close(f);
}

static void test_a_filter_that_refuses_keys(void **state)
{
    struct tamis_filter_options opt = {.size = sizeof opt, .min_watermark = 1};
    struct tamis_filter *f;
    uint64_t absent = UINT64_MAX;
    enum tamis_reason why;
    (void)state;
    built(path_of("behind"), 0.01);
    assert_int_equal(tamis_filter_open(path_of("behind"), &opt, &f, NULL), 0);
    struct tamis_key key =
        tamis_key_of_hash(tamis_filter_domain(f).tag, keys[N_KEYS + 1]);
    assert_int_equal(tamis_filter_probe_keys(f, &key, 1, &absent, &why), 0);
    assert_int_equal(why, TAMIS_BEHIND);
    assert_true(absent == 0);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_a_bad_page_in_any_stage),
        cmocka_unit_test(test_what_refuses_one_refuses_all),
        cmocka_unit_test(test_keys_are_hashed_and_asked),
        cmocka_unit_test(test_without_hashes_or_bitmap),
        cmocka_unit_test(test_a_filter_that_refuses_keys),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
