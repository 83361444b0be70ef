/* A filter of five stages, the first four of them settled (SPEC.md R17), and what is
 * lost of it. */
#ifndef TAMIS_TESTS_SETTLE_SUPPORT_H
#define TAMIS_TESTS_SETTLE_SUPPORT_H

#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

enum { N = 16000, STAGES = 5 };

static uint64_t keys[N];

/* All keys in five stages, the first four of them left behind, some of one page. */
static UNUSED struct tamis_writer *grown(void)
{
    struct tamis_writer *w = fresh(600);
    add_hashes(w, keys, N);
    assert_int_equal(atomic_load(&w->n_stages), STAGES);
    return w;
}

static UNUSED void make_settled(void)
{
    struct tamis_writer *w = grown();
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(commit_of(path).n_settled, STAGES - 1);
}

static UNUSED void put_slots(const struct commit *c)
{
    uint8_t raw[SLOT_BYTES];
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        commit_encode(c, slot, raw);
        file_poke(path, commit_slot_offset(slot), raw, sizeof raw);
    }
}

/* The record as a writer leaves it that does not know the feature. */
static UNUSED void forget_digests(void)
{
    struct commit c = commit_of(path);
    commit_unsettle(&c);
    c.sequence += 1;
    put_slots(&c);
}

static UNUSED uint64_t n_damaged(void)
{
    struct tamis_filter *f = open_filter(path);
    struct tamis_verify report, scrub;
    struct header h;
    tamis_filter_verify(f, &report, NULL);
    tamis_filter_close(f);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(header_load(fd, true, 0, 0, path, &h, NULL), 0);
    assert_int_equal(filter_scrub(fd, &h, &scrub), 0);
    close(fd);
    assert_int_equal(scrub.n_damaged, report.n_damaged);
    return report.n_damaged;
}

static UNUSED size_t n_absent(void)
{
    struct tamis_filter *f = open_filter(path);
    size_t n = count_absent(f, keys, N);
    tamis_filter_close(f);
    return n;
}

static UNUSED int set_up(void **state)
{
    random_hashes(keys, N);
    return one_file_create(state);
}

#endif
