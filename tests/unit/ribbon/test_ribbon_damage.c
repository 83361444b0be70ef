/* Damaged ribbons: a page that failed its check is DAMAGED for each key that maps to
 * it, in every stage, and never bumps a key. A page that is lost while a reader has the
 * file mapped is not believed either. */
#include "tests/support/guard_support.h"

enum { N = 60000, N_OTHERS = 20000 };

static uint64_t keys[N], others[N_OTHERS];
static struct tamis_domain domain;
static const char *whole;

/* Half of the keys fall on few pages of stage 0, so that other stages have some. */
static int set_up(void **state)
{
    if (test_dir_create(state))
        return -1;
    tamis_domain_init(&domain, 1, 5);
    random_hashes(keys, N);
    random_hashes(others, N_OTHERS);
    for (size_t i = 0; i < N / 2; i++)
        keys[i] >>= 4;
    whole = strdup(path_of("whole"));
    BUILD(whole, keys, N, .domain = &domain, .error = 0.01, .kind = TAMIS_RIBBON);
    return commit_of(whole).n_stages > 2 ? 0 : -1;
}

/* Where a key is by the reference, page by page of `bad` being damaged. */
static enum tamis_reason expected(const uint8_t *file, const struct commit *c,
                                  uint32_t bad_stage, uint64_t bad_page, uint64_t h)
{
    for (uint32_t i = 0; i + 1 < c->n_stages; i++, h = ribbon_next_hash(h)) {
        struct ribbon_geometry g = ribbon_geometry_of(&c->stages[i]);
        struct ribbon_place p = ribbon_place_of(&g, h);
        if (i == bad_stage && p.page == bad_page)
            return TAMIS_DAMAGED;
        enum ribbon_answer a = ribbon_probe(file + c->stages[i].offset, &g, h);
        if (a != RIBBON_BUMPED)
            return a == RIBBON_MATCH ? TAMIS_HIT : TAMIS_NO_REASON;
    }
    const struct stage_desc *last = &c->stages[c->n_stages - 1];
    return geometry_probe(file + last->offset, &last->geometry, h) ? TAMIS_HIT
                                                                   : TAMIS_NO_REASON;
}

static void ask_all(struct tamis_filter *f, const uint8_t *file, const struct commit *c,
                    uint32_t stage, uint64_t page, const uint64_t *hashes, size_t n)
{
    static uint64_t absent[N / 64 + 1];
    size_t n_absent = tamis_filter_probe_batch(f, domain.tag, hashes, n, absent, NULL);
    for (size_t i = 0; i < n; i++) {
        enum tamis_reason why, want = expected(file, c, stage, page, hashes[i]);
        ask(f, hashes[i], &why);
        IS(why, want);
        IS(absent[i / 64] >> i % 64 & 1, want == TAMIS_NO_REASON);
        n_absent -= want == TAMIS_NO_REASON;
    }
    IS(n_absent, 0);
}

/* Each page of each stage of ribbon, by a bit, by zeros and by ones. */
TEST(a_bad_page_is_damaged)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_STRICT};
    struct commit c = commit_of(whole);
    size_t n_bytes;
    uint8_t *file = file_read(whole, &n_bytes), bytes[PAGE_BYTES];
    for (uint32_t s = 0; s + 1 < c.n_stages; s++)
        for (uint64_t page = 0; page < c.stages[s].length / PAGE_BYTES;
             page += 1 + page / 2) {
            const char *path = path_of("bad");
            uint64_t at = c.stages[s].offset + page * PAGE_BYTES;
            memcpy(bytes, file + at, sizeof bytes);
            if (page % 3 == 0)
                bytes[page % PAGE_BYTES] ^= 1;
            else
                memset(bytes, page % 3 == 1 ? 0 : 0xff, sizeof bytes);
            file_copy(whole, path);
            file_poke(path, at, bytes, sizeof bytes);
            for (size_t m = 0; m < 2; m++) {
                FILTER f = OPEN_AS(path, .check = modes[m]);
                ask_all(f, file, &c, s, page, keys, m ? 2000 : N);
                ask_all(f, file, &c, s, page, others, m ? 1000 : N_OTHERS);
                ask_all(f, file, &c, s, page, others, 100);
            }
        }
    free(file);
}

/* Digests are right, and a page is not zero behind its blocks: verify names it. */
TEST(the_rest_of_a_page_is_zero)
{
    struct commit c = commit_of(whole);
    struct ribbon_geometry g = ribbon_geometry_of(&c.stages[0]);
    for (uint64_t page = 0, last = g.n_pages - 1; page <= last; page += last) {
        uint32_t blocks = g.blocks + (page < g.n_long);
        uint64_t at = c.stages[0].offset + page * PAGE_BYTES;
        struct tamis_verify report;
        file_copy(whole, path_of("rest"));
        flip(path_of("rest"), at + ribbon_used_bytes(blocks) - 1);
        flip(path_of("rest"), at + PAGE_BYTES - 1);
        reseal_file("rest");
        FILTER f = open_filter(path_of("rest"));
        bool has_rest = ribbon_used_bytes(blocks) < PAGE_BYTES;
        IS(tamis_filter_verify(f, &report, NULL), has_rest ? TAMIS_ERR_DAMAGED : 0);
        assert_true(report.n_damaged == has_rest);
        assert_true(report.first_damaged == (has_rest ? at : 0));
    }
}

/* A bad page of the last stage is ones: it loses nothing, and nothing else changes. */
TEST(a_bad_last_stage_is_ones)
{
    struct commit c = commit_of(whole);
    const char *path = path_of("bad");
    static const uint8_t zeros[PAGE_BYTES];
    file_copy(whole, path);
    file_poke(path, c.stages[c.n_stages - 1].offset, zeros, sizeof zeros);
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, N), 0);
    assert_true(count_absent(f, others, N_OTHERS) > N_OTHERS / 2);
}

/* Pages that were found good, and are lost after that. */
TEST_WITH_GUARD(a_lost_page_is_not_believed)
{
    struct commit c = commit_of(whole);
    size_t n_bytes;
    FREED uint8_t *file = file_read(whole, &n_bytes);
    for (unsigned few = 0; few < 2; few++) {
        const char *path = path_of("cut");
        file_copy(whole, path);
        FILTER f = OPEN_AS(path, .check = TAMIS_CHECK_FULL);
        ask_all(f, file, &c, MAX_STAGES, 0, others, N_OTHERS);
        cut(path, c.stages[0].offset + PAGE_BYTES);
        /* In calls of each size; single probes last, when all pages are lost. */
        uint64_t absent[N / 64 + 1];
        for (size_t i = 0, n = few ? 8 : N; i < N; i += n)
            IS(tamis_filter_probe_batch(f, domain.tag, keys + i, N - i < n ? N - i : n,
                                        absent, NULL),
               0);
        IS(count_absent(f, keys, N), 0);
        tamis_filter_close(f);
        file_copy(whole, path);
        f = OPEN_AS(path, .check = TAMIS_CHECK_FULL);
        ask_all(f, file, &c, MAX_STAGES, 0, others, N_OTHERS);
        cut(path, c.stages[0].offset + PAGE_BYTES);
        IS(count_absent(f, keys, N), 0);
    }
}

/* One page alone, as its sector is unreadable: the other stages are as they were, and
 * lack its keys. Ones bump every key. */
TEST_WITH_GUARD(one_lost_page_bumps_no_key)
{
    struct commit c = commit_of(whole);
    size_t n_bytes;
    FREED uint8_t *file = file_read(whole, &n_bytes);
    for (uint32_t stage = 0; stage + 1 < c.n_stages; stage++) {
        FILTER f = OPEN_AS(whole, .check = TAMIS_CHECK_FULL);
        struct view *v = atomic_load(&f->view);
        ask_all(f, file, &c, MAX_STAGES, 0, keys, N);
        assert_true(lost_replace((uintptr_t)v->stages[stage].bits));
        ask_all(f, file, &c, stage, 0, keys, N);
        ask_all(f, file, &c, stage, 0, others, N_OTHERS);
        ask_all(f, file, &c, stage, 0, keys, 40);
    }
}

RUN_TESTS(set_up, test_dir_remove)
