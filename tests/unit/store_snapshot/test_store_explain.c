/* Explanations of an answer: the block named lacks a bit, the page named fails its
 * check, and a range is named only where it excludes the key. */
#include "tests/support/store_support.h"

enum { N = 4000, STAGES = 3 };

/* Has this block of the file every bit of the key in this lane? */
static bool block_has(const char *path, uint64_t offset, uint32_t words, uint64_t h,
                      uint32_t lane)
{
    uint8_t block[BLOCK_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    IS(pread(fd, block, sizeof block, (off_t)offset), sizeof block);
    close(fd);
    for (uint32_t i = 0; i < lane; i++)
        h = geometry_next_lane(h);
    return geometry_block_probe(block, words, h);
}

static void check_filter(const char *path, enum tamis_check mode, struct tamis_key *key,
                         bool present)
{
    struct tamis_filter_options opt = {.size = sizeof opt, .check = mode};
    struct commit c = commit_of(path);
    FILTER f;
    struct tamis_explanation e;
    enum tamis_reason why;
    OK(tamis_filter_open(path, &opt, &f, NULL));
    enum tamis_answer a = tamis_filter_explain(f, key, &e);
    IS(a, tamis_filter_probe(f, key, &why));
    assert_true(e.answer == a && e.reason == why && e.by == TAMIS_BY_FILTER);
    IS(e.n_stages, c.n_stages);
    bool hit = false;
    for (uint32_t i = 0; i < e.n_stages; i++) {
        const struct tamis_stage_answer *s = &e.stages[i];
        hit |= s->reason == TAMIS_HIT;
        if (s->reason != TAMIS_NO_REASON)
            continue;
        assert_in_range(s->offset, c.stages[i].offset,
                        c.stages[i].offset + c.stages[i].length - BLOCK_BYTES);
        assert_false(
            block_has(path, s->offset, c.stages[i].geometry.words, key->hash, s->lane));
    }
    IS(hit, a == TAMIS_MAYBE);
    assert_true(!present || hit);
}

TEST_IN_DIR(names_the_block_that_decided)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_STRICT,
                                             TAMIS_CHECK_NONE};
    STORE s = store_new("s");
    struct tamis_growth growth = {.error = 0.001, .first_capacity = N / 8};
    struct tamis_edit *e = edit_new(s);
    char path[1200];
    OK(tamis_edit_put_growing(e, "g", 1, &growth, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_writer *w = writer_of(s, "g");
    for (uint64_t i = 0; i < N; i++) {
        struct tamis_key key = key_in(s, i);
        OK(tamis_writer_add_key(w, key.bytes, key.n_bytes));
    }
    OK(tamis_writer_commit(w, 1, NULL));
    OK(tamis_writer_close(w, NULL));
    snprintf(path, sizeof path, "%s", file_of(s, "s", "g"));
    assert_true(commit_of(path).n_stages >= STAGES);
    for (size_t m = 0; m < N_OF(modes); m++)
        for (uint64_t i = 0; i < 2 * N; i += 37) {
            struct tamis_key key = key_in(s, i);
            check_filter(path, modes[m], &key, i < N);
        }
}

static void explain(struct tamis_store *s, const char *name, struct tamis_key key,
                    struct tamis_explanation *e)
{
    SNAPSHOT now = snapshot_of(s);
    struct tamis_target t;
    enum tamis_reason why;
    tamis_snapshot_find(now, name, strlen(name), NULL, 0, 0, &t);
    IS(tamis_snapshot_explain(now, &t, &key, e),
       tamis_snapshot_probe(now, &t, &key, &why));
    IS(e->reason, why);
}

TEST_IN_DIR(names_the_range_and_the_page)
{
    STORE s = store_new("s");
    struct tamis_explanation x;
    struct tamis_domain d = tamis_store_domain(s);
    uint8_t zeros[64] = {0};
    put_segment(s, "a", 0, N);
    explain(s, "a", tamis_key_of(&d, "\xff", 1), &x);
    assert_true(x.answer == TAMIS_ABSENT && x.by == TAMIS_BY_RANGE && x.n_stages == 0);
    explain(s, "a", key_in(s, 7), &x);
    assert_true(x.reason == TAMIS_HIT && x.by == TAMIS_BY_FILTER && x.n_stages == 1);
    explain(s, "none", key_in(s, 7), &x);
    assert_true(x.reason == TAMIS_UNKNOWN_SEGMENT && x.by == TAMIS_BY_NOTHING);
    explain(s, "a", (struct tamis_key){0}, &x);
    assert_true(x.reason == TAMIS_MISMATCH && x.by == TAMIS_BY_NOTHING);
    struct tamis_key nothing = {0};
    IS(tamis_filter_explain(NULL, &nothing, &x), TAMIS_MAYBE);
    assert_true(x.reason == TAMIS_UNREADABLE && x.by == TAMIS_BY_NOTHING);
    IS(tamis_snapshot_explain(NULL, NULL, NULL, &x), TAMIS_MAYBE);
    assert_true(x.answer == TAMIS_MAYBE && x.by == TAMIS_BY_NOTHING);
    /* Damage, under the key that is asked for. */
    const char *path = file_of(s, "s", "a");
    struct commit c = commit_of(path);
    struct tamis_key key = key_in(s, 7);
    uint64_t at =
        c.stages[0].offset + geometry_block_offset(&c.stages[0].geometry, 0, key.hash) /
                                 PAGE_BYTES * PAGE_BYTES;
    tamis_store_close(s);
    file_poke(path, at, zeros, sizeof zeros);
    s = store_open("s");
    explain(s, "a", key, &x);
    assert_true(x.reason == TAMIS_DAMAGED && x.by == TAMIS_BY_FILTER);
    assert_true(x.stages[0].reason == TAMIS_DAMAGED && x.stages[0].lane == 0);
    IS(x.stages[0].offset, at);
}

/* If all pages of a key fail, that of its first lane is named. */
TEST_IN_DIR(names_the_first_page_of_several)
{
    struct tamis_domain d;
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &d, .error = 1e-6};
    FILTER f;
    struct tamis_explanation x;
    OK(tamis_domain_init(&d, 1, 7));
    struct tamis_key key = tamis_key_of(&d, "key", 3);
    BUILDER b = builder_made(&opt);
    OK(tamis_builder_add_key(b, "key", 3));
    for (size_t i = 0; i < N; i++) {
        struct tamis_key other = tamis_key_of(&d, &i, sizeof i);
        OK(tamis_builder_add_key(b, other.bytes, other.n_bytes));
    }
    OK(tamis_builder_finish(b, path_of("f"), NULL, NULL, NULL));
    const struct stage_desc s = commit_of(path_of("f")).stages[0];
    assert_true(s.geometry.lanes > 1);
    for (uint64_t at = s.offset; at < s.offset + s.length; at += PAGE_BYTES)
        file_poke(path_of("f"), at, "rot", 3);
    OK(tamis_filter_open(path_of("f"), NULL, &f, NULL));
    IS(tamis_filter_explain(f, &key, &x), TAMIS_MAYBE);
    assert_true(x.stages[0].reason == TAMIS_DAMAGED && x.stages[0].lane == 0);
    IS(x.stages[0].offset, s.offset + geometry_block_offset(&s.geometry, 0, key.hash) /
                                          PAGE_BYTES * PAGE_BYTES);
    tamis_filter_close(f);
    /* A filter that is opened without checks names no damage. */
    struct tamis_filter_options none = {.size = sizeof none, .check = TAMIS_CHECK_NONE};
    OK(tamis_filter_open(path_of("f"), &none, &f, NULL));
    IS(tamis_filter_explain(f, &key, &x), TAMIS_MAYBE);
    IS(x.stages[0].reason, TAMIS_HIT);
}

RUN_TESTS(NULL, NULL)
