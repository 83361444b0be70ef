/* For tests of derived filters and of estimates: sources, and what must hold for the
 * results. */
#ifndef TAMIS_TESTS_ALGEBRA_SUPPORT_H
#define TAMIS_TESTS_ALGEBRA_SUPPORT_H

#include "support.h"

/* Eight pages, of one lane: 24,000 keys at 1%. */
enum { N = 24000, WATERMARK = 3 };
static uint64_t keys[3][N];
static struct tamis_domain domain;

static UNUSED int set_up(void **state)
{
    tamis_domain_init(&domain, 1, 42);
    for (size_t i = 0; i < 3; i++)
        random_hashes(keys[i], N);
    return test_dir_create(state);
}

/* ---- sources ---- */

static UNUSED const char *build(const char *name, const uint64_t *hashes, size_t n,
                                double error)
{
    const char *path = path_of(name);
    struct tamis_builder *b;
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &domain, .error = error, .watermark = WATERMARK};
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, hashes, n), 0);
    assert_int_equal(tamis_builder_finish_file(b, path, NULL), 0);
    tamis_builder_free(b);
    return path;
}

static UNUSED struct tamis_filter *built(const char *name, const uint64_t *hashes,
                                         size_t n, double error)
{
    return open_filter(build(name, hashes, n, error));
}

static UNUSED struct tamis_filter *grown(const char *name, const uint64_t *hashes,
                                         size_t n)
{
    const char *path = path_of(name);
    struct tamis_writer *w;
    struct tamis_writer_options opt = {.size = sizeof opt,
                                       .growth = {.factor = 2, .first_capacity = 1000},
                                       .domain = &domain};
    assert_int_equal(tamis_writer_create(path, &opt, &w, NULL), 0);
    add_hashes(w, hashes, n);
    assert_int_equal(tamis_writer_seal(w, WATERMARK, NULL, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    return open_filter(path);
}

static UNUSED void flip_pages(const char *path, uint64_t step)
{
    struct commit c = commit_of(path);
    for (uint32_t i = 0; i < c.n_stages; i++)
        for (uint64_t at = 0; at < c.stages[i].length; at += step * PAGE_BYTES) {
            uint8_t zeros[64] = {0};
            file_poke(path, c.stages[i].offset + at + 128, zeros, sizeof zeros);
        }
}

/* The header of a filter that was sealed at birth, made by hand. */
static UNUSED void put_commit(const char *path, const struct commit *c)
{
    uint8_t record[SLOT_BYTES] = {0};
    commit_encode(c, SLOT_BIRTH, record);
    file_poke(path, commit_slot_offset(SLOT_BIRTH), record, BIRTH_BYTES);
}

static UNUSED struct identity identity_of(const char *path)
{
    size_t n;
    struct identity id;
    uint8_t *header = file_read(path, &n);
    assert_int_equal(identity_decode(header, n, &id).code, VERDICT_OK);
    free(header);
    return id;
}

static UNUSED void put_identity(const char *path, const struct identity *id)
{
    uint8_t bytes[IDENTITY_BYTES] = {0};
    identity_encode(id, bytes);
    file_poke(path, 0, bytes, sizeof bytes);
}

/* ---- results ---- */

/* Stage i of a file is, bit for bit, what the reference makes of these hashes. */
static UNUSED void check_bits(const char *path, uint32_t i, const uint64_t *const *sets,
                              size_t n_sets)
{
    size_t n;
    struct commit c = commit_of(path);
    const struct stage_desc *s = &c.stages[i];
    uint8_t *file = file_read(path, &n), *bits = calloc(1, s->length);
    for (size_t k = 0; k < n_sets; k++)
        for (size_t j = 0; j < N; j++)
            geometry_add(bits, &s->geometry, sets[k][j]);
    assert_memory_equal(file + s->offset, bits, s->length);
    free(file), free(bits);
}

static UNUSED void check_whole(const char *path)
{
    struct tamis_verify report;
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    assert_true(report.n_pages > 0);
    tamis_filter_close(f);
}

static UNUSED void check_present(const char *path, const uint64_t *hashes, size_t n)
{
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, hashes, n), 0);
    tamis_filter_close(f);
}

static UNUSED double target_of(const char *path)
{
    struct tamis_filter_info info;
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(tamis_filter_info(f, &info), 0);
    tamis_filter_close(f);
    return info.growth.error;
}

/* At most so many of other keys are found, and at least a few are not. */
static UNUSED double measured_error(const char *path)
{
    enum { PROBES = 100000 };
    static uint64_t others[PROBES];
    struct tamis_filter *f = open_filter(path);
    random_hashes(others, PROBES);
    double error = 1 - (double)count_absent(f, others, PROBES) / PROBES;
    tamis_filter_close(f);
    return error;
}

static UNUSED void close_all(struct tamis_filter **f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tamis_filter_close(f[i]);
}

#endif
