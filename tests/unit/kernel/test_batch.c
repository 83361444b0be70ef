/* Batches: the same answers as one key at a time, in the same order, of every kind of
 * filter, at every length, while pages are still to be checked and after that. */
#include "tests/support/filters.h"

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
    BUILD(path, keys, N_KEYS, .error = error);
}

/* Six stages and more. */
static void grown(const char *path, double error, bool sealed)
{
    WRITER w = create_writer(path, error, 2, 500);
    add_hashes(w, keys, N_KEYS);
    OK(tamis_writer_commit(w, 1, NULL));
    if (sealed)
        OK(tamis_writer_seal(w, 2, NULL, NULL));
}

/* Asks [from, from + n) in a batch and one by one; other bits stay as they are. */
static void compare(struct tamis_filter *batch, struct tamis_filter *single,
                    size_t from, size_t n)
{
    static uint64_t absent[ROOM];
    size_t n_words = (n + 63) / 64, n_absent = 0;
    uint64_t tag = filter_domain(batch).tag;
    memset(absent, 0xff, sizeof absent);
    size_t got = tamis_filter_probe_batch(batch, tag, keys + from, n, absent, NULL);
    for (size_t i = 0; i < n_words * 64; i++) {
        bool is = absent[i / 64] >> (i % 64) & 1;
        bool should = i < n && ask(single, keys[from + i], NULL) == TAMIS_ABSENT;
        IS(is, should);
        assert_false(is && from + i < N_KEYS);
        n_absent += is;
    }
    IS(got, n_absent);
    assert_true(absent[n_words] == UINT64_MAX);
}

static void every_length(const char *path)
{
    FILTER batch = open_filter(path), single = open_filter(path);
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
}

TEST(test_every_kind)
{
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
TEST(test_a_bad_page_in_any_stage)
{
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
        FILTER batch = open_filter(path), single = open_filter(path);
        for (int twice = 0; twice < 2; twice++)
            compare(batch, single, 0, N_ASKED);
    }
}

/* A foreign tag, a filter that is behind or none, no hashes, no room for the answers:
 * all are refused, and no bit beyond their words changes. */
TEST(test_what_refuses_one_refuses_all)
{
    enum { FOREIGN = 1, NO_FILTER = 2, NO_HASHES = 4, NO_ROOM = 8, BEHIND = 16 };
    static const struct {
        int what;
        size_t n;
        enum tamis_reason why;
    } rows[] = {
        {FOREIGN, 130, TAMIS_MISMATCH},
        {NO_FILTER, 64, TAMIS_UNREADABLE},
        {NO_FILTER | NO_ROOM, 70, TAMIS_UNREADABLE},
        {NO_HASHES | NO_ROOM, 0, TAMIS_NO_REASON},
        {NO_HASHES, 70, TAMIS_MISMATCH},
        {NO_ROOM, 70, TAMIS_MISMATCH},
        {BEHIND, 1, TAMIS_BEHIND},
    };
    built(path_of("filter"), 0.01);
    FILTER good = open_filter(path_of("filter")),
           behind = OPEN_AS(path_of("filter"), .min_watermark = 1);
    uint64_t tag = filter_domain(good).tag;
    for (size_t i = 0; i < N_OF(rows); i++) {
        int what = rows[i].what;
        uint64_t absent[4];
        enum tamis_reason why = TAMIS_HIT;
        struct tamis_filter *f = what & NO_FILTER ? NULL
                                 : what & BEHIND  ? behind
                                                  : good;
        uint64_t *out = what & NO_ROOM ? NULL : absent;
        memset(absent, 0xff, sizeof absent);
        size_t got = tamis_filter_probe_batch(f, tag + (what & FOREIGN),
                                              what & NO_HASHES ? NULL : keys + N_KEYS,
                                              rows[i].n, out, &why);
        if (got || why != rows[i].why)
            fail_msg("row %zu: %zu are absent, %s", i, got, tamis_reason_name(why));
        for (size_t w = 0; w < 4; w++)
            assert_true(absent[w] == (out && w * 64 < rows[i].n ? 0 : UINT64_MAX));
    }
}

TEST(test_keys_are_hashed_in_a_row)
{
    enum { N = 3000 };
    static char text[N * 40];
    static uint64_t ends[N + 1], hashes[N];
    struct tamis_domain d;
    OK(tamis_domain_init(&d, 1, random_u64()));
    for (size_t i = 0; i < N; i++)
        ends[i + 1] = ends[i] + (i % 7 ? random_below(40) : 0);
    for (size_t i = 0; i < ends[N]; i++)
        text[i] = (char)random_u64();
    OK(tamis_domain_hash(&d, text, ends, N, hashes));
    for (size_t i = 0; i < N; i++)
        IS(hashes[i], tamis_key_of(&d, text + ends[i], ends[i + 1] - ends[i]).hash);
    OK(tamis_domain_hash(&d, NULL, ends, 0, NULL));
    IS(tamis_domain_hash(&(struct tamis_domain){0}, text, ends, N, hashes),
       TAMIS_ERR_RANGE);
    IS(hashes[0] | hashes[N - 1], 0);
    ends[N] = ends[N - 1] - 1;
    IS(tamis_domain_hash(&d, text, ends, N, hashes), TAMIS_ERR_RANGE);
    IS(hashes[0] | hashes[N - 1], 0);
}

RUN_TESTS(set_up, test_dir_remove)
