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
    IS(atomic_load(&w->n_stages), STAGES);
    return w;
}

static UNUSED void make_settled(void)
{
    struct tamis_writer *w = grown();
    commit_and_close(w, 1);
    IS(commit_of(path).n_settled, STAGES - 1);
}

/* The record as before any stage was settled. */
static UNUSED void forget_digests(void)
{
    struct commit c = commit_of(path);
    commit_unsettle(&c);
    c.sequence += 1;
    put_slots(path, &c);
}

static UNUSED uint64_t n_damaged(void)
{
    struct tamis_filter *f = open_filter(path);
    struct tamis_verify report, scrub;
    struct header h;
    tamis_filter_verify(f, &report, NULL);
    tamis_filter_close(f);
    FD fd = open_to_read(path);
    IS(header_load(fd, true, 0, 0, path, &h, NULL), 0);
    IS(filter_scrub(fd, &h, &scrub), 0);
    IS(scrub.n_damaged, report.n_damaged);
    return report.n_damaged;
}

static UNUSED size_t n_absent(void)
{
    FILTER f = open_filter(path);
    return count_absent(f, keys, N);
}

SET_UP(one_file_create, random_hashes(keys, N))

#endif
