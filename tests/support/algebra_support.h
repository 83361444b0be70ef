/* For tests of derived filters and of estimates: sources, and what must hold for the
 * results. */
#ifndef TAMIS_TESTS_ALGEBRA_SUPPORT_H
#define TAMIS_TESTS_ALGEBRA_SUPPORT_H

#include "filters.h"

/* Eight pages, of one lane: 24,000 keys at 1%. */
enum { N = 24000, WATERMARK = 3 };
static uint64_t keys[3][N];
static struct tamis_domain domain;

/* Filters that are closed where the test ends, or by forget(). */
static struct tamis_filter *kept[100];
static size_t n_kept;

static UNUSED int set_up(void **state)
{
    tamis_domain_init(&domain, 1, 42);
    for (size_t i = 0; i < 3; i++)
        random_hashes(keys[i], N);
    return test_dir_create(state);
}

/* Names are files in the test's directory; paths are taken as they are. */
static __attribute__((noinline)) const char *place(const char *name)
{
    return name && name[0] != '/' ? path_of(name) : name;
}

static UNUSED struct tamis_filter *opened_as(const char *name,
                                             const struct tamis_filter_options *opt)
{
    assert_true(n_kept < N_OF(kept));
    return kept[n_kept++] = open_as(place(name), opt);
}

static UNUSED struct tamis_filter *opened_file(const char *name)
{
    return opened_as(name, NULL);
}

/* All filters and their files; the next round may use the names anew. */
static UNUSED void forget(void)
{
    while (n_kept)
        tamis_filter_close(kept[--n_kept]);
    test_dir_remove(NULL);
    OK(mkdir(test_dir, 0700));
}

static UNUSED int tear_down(void **state)
{
    forget();
    return test_dir_remove(state);
}

#define TEST_WITH_KEYS(name) TEST_WITH(set_up, tear_down, name)

/* ---- sources ---- */

static UNUSED const char *build(const char *name, const uint64_t *hashes, size_t n,
                                double error)
{
    const char *path = path_of(name);
    BUILD(path, hashes, n, .domain = &domain, .error = error, .watermark = WATERMARK);
    return path;
}

static UNUSED struct tamis_filter *built(const char *name, const uint64_t *hashes,
                                         size_t n, double error)
{
    return opened_file(build(name, hashes, n, error));
}

static UNUSED struct tamis_filter *grown(const char *name, const uint64_t *hashes,
                                         size_t n)
{
    const char *path = path_of(name);
    struct tamis_writer *w = WRITER_AS(
        path, .growth = {.factor = 2, .first_capacity = 1000}, .domain = &domain);
    add_hashes(w, hashes, n);
    seal_and_close(w, WATERMARK);
    return opened_file(path);
}

static UNUSED void flip_pages(const char *path, uint64_t step)
{
    struct commit c = commit_of(place(path));
    for (uint32_t i = 0; i < c.n_stages; i++)
        for (uint64_t at = 0; at < c.stages[i].length; at += step * PAGE_BYTES) {
            uint8_t zeros[64] = {0};
            file_poke(place(path), c.stages[i].offset + at + 128, zeros, sizeof zeros);
        }
}

/* The header of a filter that was sealed at birth, made by hand. */
static UNUSED void put_commit(const char *path, const struct commit *c)
{
    uint8_t record[SLOT_BYTES] = {0};
    commit_encode(c, SLOT_BIRTH, record);
    file_poke(place(path), commit_slot_offset(SLOT_BIRTH), record, BIRTH_BYTES);
}

static UNUSED struct identity identity_of(const char *path)
{
    size_t n;
    struct identity id;
    FREED uint8_t *header = file_read(place(path), &n);
    IS(identity_decode(header, n, &id).code, VERDICT_OK);
    return id;
}

static UNUSED void put_identity(const char *path, const struct identity *id)
{
    uint8_t bytes[IDENTITY_BYTES] = {0};
    identity_encode(id, bytes);
    file_poke(place(path), 0, bytes, sizeof bytes);
}

static UNUSED struct stage_desc first_of(const char *name)
{
    return commit_of(place(name)).stages[0];
}

/* ---- results ---- */

static struct tamis_derive_report derived; /* of the last one */
static struct tamis_diag derive_diag;
static bool asks_no_report; /* nor a diagnosis */

static UNUSED int derive_to(struct tamis_filter *const *f, size_t n,
                            struct tamis_derivation what, const char *out)
{
    if (out)
        unlink(place(out));
    return tamis_filter_derive(f, n, &what, place(out), NULL,
                               asks_no_report ? NULL : &derived,
                               asks_no_report ? NULL : &derive_diag);
}

static UNUSED int unite(struct tamis_filter *const *f, size_t n, const char *out)
{
    return derive_to(f, n, (struct tamis_derivation){.operation = TAMIS_UNION}, out);
}

static UNUSED int intersect(struct tamis_filter *const *f, size_t n, const char *out)
{
    return derive_to(f, n, (struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                     out);
}

static UNUSED int fold(struct tamis_filter *f, uint64_t factor, const char *out)
{
    return derive_to(
        &f, 1, (struct tamis_derivation){.operation = TAMIS_FOLD, .factor = factor},
        out);
}

static UNUSED int shrink(struct tamis_filter *f, double error, const char *out)
{
    return derive_to(
        &f, 1, (struct tamis_derivation){.operation = TAMIS_SHRINK, .error = error},
        out);
}

/* Stage i of a file is, bit for bit, what the reference makes of these hashes. */
static UNUSED void check_bits(const char *path, uint32_t i, const uint64_t *const *sets,
                              size_t n_sets)
{
    size_t n;
    struct commit c = commit_of(place(path));
    const struct stage_desc *s = &c.stages[i];
    uint8_t *file = file_read(place(path), &n), *bits = calloc(1, s->length);
    for (size_t k = 0; k < n_sets; k++)
        for (size_t j = 0; j < N; j++)
            geometry_add(bits, &s->geometry, sets[k][j]);
    assert_memory_equal(file + s->offset, bits, s->length);
    free(file), free(bits);
}

static UNUSED void check_whole(const char *path)
{
    FILTER f = open_filter(place(path));
    assert_true(verified(f).n_pages > 0);
}

static UNUSED void check_present(const char *path, const uint64_t *hashes, size_t n)
{
    FILTER f = open_filter(place(path));
    IS(count_absent(f, hashes, n), 0);
}

static UNUSED double target_of(const char *path)
{
    FILTER f = open_filter(place(path));
    return filter_info(f).growth.error;
}

/* The share of other keys that are found. */
static UNUSED double measured_error(const char *path)
{
    enum { PROBES = 100000 };
    static uint64_t others[PROBES];
    FILTER f = open_filter(place(path));
    random_hashes(others, PROBES);
    return 1 - (double)count_absent(f, others, PROBES) / PROBES;
}

#endif
