/* Filters in memory and a pack of them, for the tests of packs. */
#ifndef TAMIS_TESTS_PACK_SUPPORT_H
#define TAMIS_TESTS_PACK_SUPPORT_H

#include "tests/support/support.h"
#include "lib/filter/pack.h"
#include "lib/pack/pack.h"

enum { MAX_SOURCES = 2100 };

/* A filter to be packed, with the keys that it has. */
struct some_source {
    uint8_t *bits;
    uint64_t *keys;
    size_t n_keys;
};
static struct some_source some[MAX_SOURCES];
static struct pack_source sources[MAX_SOURCES];
static struct facts columns[MAX_SOURCES];
static size_t n_sources;
static bool gone_sources[MAX_SOURCES];
static struct threads *pack_threads; /* that help pack_sources(); NULL: none */
static struct pack_plan plan;
static const struct tamis_domain some_domain = {1, 77, 0};

static UNUSED bool some_blocks(void *ctx, unsigned thread, uint32_t source,
                               uint32_t lane, uint64_t first, uint64_t n, uint8_t *out)
{
    const struct geometry *g = &sources[source].geometry;
    assert_true(source < n_sources && lane < g->lanes && first + n <= g->n_blocks);
    memcpy(out, some[source].bits + (lane * g->n_blocks + first) * BLOCK_BYTES,
           n * BLOCK_BYTES);
    return true;
}

static UNUSED int some_facts(void *ctx, uint32_t source, struct facts *out)
{
    assert_true(source < n_sources);
    *out = columns[source];
    return 0;
}

/* Adds a source of this geometry with random keys. */
static UNUSED void add_source(struct geometry g, size_t n_keys, double error)
{
    uint64_t n_bytes = 0;
    size_t i = n_sources++;
    assert_true(i < MAX_SOURCES && geometry_bytes(&g, &n_bytes));
    some[i].bits = calloc(1, n_bytes);
    some[i].keys = calloc(n_keys + 1, sizeof *some[i].keys);
    some[i].n_keys = n_keys;
    random_hashes(some[i].keys, n_keys);
    for (size_t k = 0; k < n_keys; k++)
        geometry_add(some[i].bits, &g, some[i].keys[k]);
    sources[i] = (struct pack_source){.geometry = g,
                                      .folded_blocks = bands_fold(&g, n_keys, error)};
    columns[i] = (struct facts){.disk = {.table_digest = le64_of(i + 1),
                                         .generation = le64_of(1),
                                         .watermark = le64_of(10 * i),
                                         .keys = le64_of(n_keys),
                                         .target_error = le64_of_f64(error),
                                         .rank = le32_of((uint32_t)i),
                                         .has_range = i % 4 == 1}};
    char name[32], binding[32];
    size_t n_name = (size_t)snprintf(name, sizeof name, "segment-%zu", i);
    size_t n_binding = (size_t)snprintf(binding, sizeof binding, "b%zu", i);
    bool has_range = i % 4 == 1;
    column_set_strings(&columns[i], (struct piece){(void *)name, n_name},
                       (struct piece){(void *)binding, i % 3 ? n_binding : 0},
                       (struct piece){(const void *)"ab", has_range ? 2 : 0},
                       (struct piece){(const void *)"cde", has_range ? 3 : 0});
    io_calls.random(columns[i].disk.uuid, UUID_BYTES);
    io_calls.random(columns[i].disk.set_id, UUID_BYTES);
}

/* Another name for source i. */
static UNUSED void rename_source(size_t i, const void *name, size_t n)
{
    struct facts was = columns[i];
    column_set_strings(&columns[i], (struct piece){name, n}, column_binding(&was),
                       column_first(&was), column_last(&was));
}

static UNUSED void forget_sources(void)
{
    for (size_t i = 0; i < n_sources; i++) {
        free(some[i].bits);
        free(some[i].keys);
    }
    n_sources = 0;
    pack_plan_free(&plan);
}

/* And the file of the pack that the filter is of. */
static UNUSED void forget_pack(struct tamis_filter *f)
{
    tamis_filter_close(f);
    unlink(path_of("pack"));
    forget_sources();
}

static UNUSED void plan_sources(void)
{
    pack_plan_free(&plan);
    IS(bands_choose(sources, n_sources, &plan), 0);
}

/* Writes the pack that is planned. */
static UNUSED int write_planned(const char *name, pack_blocks_fn *blocks,
                                uint64_t *digest, uint64_t *n_bytes,
                                struct tamis_diag *diag)
{
    uint8_t uuid[UUID_BYTES], store[UUID_BYTES] = {0};
    struct pack_job job = {.plan = &plan,
                           .sources = sources,
                           .facts = some_facts,
                           .blocks = blocks,
                           .gone = gone_sources,
                           .threads = pack_threads,
                           .uuid = uuid,
                           .store_uuid = store,
                           .domain = some_domain};
    io_calls.random(uuid, sizeof uuid);
    memset(gone_sources, 0, sizeof gone_sources);
    unlink(path_of(name));
    FD dir = open(test_dir, O_RDONLY | O_DIRECTORY);
    assert_true(dir >= 0);
    return pack_write(&job, dir, name, digest, n_bytes, diag);
}

/* The same, opened. */
static UNUSED struct tamis_filter *pack_planned(const char *name,
                                                const struct tamis_filter_options *opt)
{
    uint64_t digest = 0, n_bytes = 0;
    struct tamis_diag diag = {0};
    if (write_planned(name, some_blocks, &digest, &n_bytes, &diag) != 0)
        fail_msg("%s", diag.what);
    struct tamis_filter *f = NULL;
    if (tamis_filter_open(path_of(name), opt, &f, &diag) != 0)
        fail_msg("%s", diag.what);
    struct tamis_filter_info info = filter_info(f);
    assert_true(info.table_digest == digest && info.file_bytes == n_bytes);
    return f;
}

static UNUSED struct tamis_filter *pack_sources(const char *name,
                                                const struct tamis_filter_options *opt)
{
    plan_sources();
    return pack_planned(name, opt);
}

static UNUSED const struct band *band_of_source(size_t i)
{
    return &plan.bands[band_of_column(plan.bands, plan.n_bands, sources[i].column)];
}

/* Has source i, folded as in the pack, all bits of the key? By blocks of its own. */
static UNUSED bool folded_has(size_t i, uint64_t h)
{
    const struct geometry *g = &sources[i].geometry;
    uint64_t own = pack_own_blocks(&sources[i], band_of_source(i)),
             fold = g->n_blocks / own;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        uint8_t block[BLOCK_BYTES] = {0};
        uint64_t begin = lane * g->n_blocks + geometry_block(h, own) * fold;
        for (uint64_t b = begin; b < begin + fold; b++)
            for (size_t byte = 0; byte < BLOCK_BYTES; byte++)
                block[byte] |= some[i].bits[b * BLOCK_BYTES + byte];
        if (!geometry_block_probe(block, g->words, h))
            return false;
        h = geometry_next_lane(h);
    }
    return true;
}

#endif
