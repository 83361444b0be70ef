/* Memory that flips while a checked builder works: in bits, hashes and headers. The
 * program is linked with the calls wrapped (TEST_WRAP in the Makefile). */
#ifndef TAMIS_TESTS_MEMORY_FLIPS_H
#define TAMIS_TESTS_MEMORY_FLIPS_H

#include "tests/unit/builder/builder_support.h"
#include "lib/builder/inside.h"

enum { FEW = 5000, MANY = N_KEYS };

/* A key, and a bit of it that is stuck at zero, in the lane that is said; -1: none. */
static size_t victim;
static int stuck_lane;
static uint8_t *lane_0;
static struct geometry geometry;
static bool was_sliced; /* the last filling */
/* A hash flips when the second lane is begun; NULL: none. */
static uint64_t *late_victim;
/* A bit of the victim's in lane 0 flips when its page is about to be digested. */
static bool digest_flips;
/* The part of the header that is flipped; 0: none. */
enum {
    FLIP_WORDS = 1,
    FLIP_LANES,
    FLIP_LENGTH,
    FLIP_WATERMARK,
    FLIP_RECORD,
    FLIP_SEED,
    FLIP_IDENTITY,
    N_FLIPS
};
static int header_flips;

static void (*real_fill)(uint8_t *, uint64_t, uint32_t, const uint64_t *, size_t);

/* Where the first bit of a hash is, which has to be of this lane. */
static UNUSED uint8_t *byte_of(uint8_t *lane, uint64_t h, uint8_t *mask)
{
    uint32_t word = geometry_start(h), bit = geometry_bit(h, word);
    *mask = (uint8_t)(1U << bit % 8);
    return lane + geometry_block(h, geometry.n_blocks) * BLOCK_BYTES + word * 8 +
           bit / 8;
}

static UNUSED void stick(uint8_t *lane, uint64_t h, const uint64_t *hashes, size_t n)
{
    uint8_t mask, *at = byte_of(lane, h, &mask);
    /* Only the thread that fills the region of this block may touch it. */
    for (size_t i = 0; i < n; i++)
        if (geometry_block(hashes[i], geometry.n_blocks) ==
            geometry_block(h, geometry.n_blocks))
            *at &= (uint8_t)~mask;
}

static UNUSED void fill_and_flip(uint8_t *lane, uint64_t n_blocks, uint32_t words,
                                 const uint64_t *hashes, size_t n)
{
    int number = (int)((uint64_t)(lane - lane_0) / (n_blocks * BLOCK_BYTES));
    if (late_victim && number == 1) {
        *late_victim ^= UINT64_C(1) << 62;
        late_victim = NULL;
    }
    real_fill(lane, n_blocks, words, hashes, n);
    if (number == stuck_lane)
        stick(lane, fill_hash(keys[victim], (uint32_t)stuck_lane), hashes, n);
}

const struct kernel *__real_kernel_get(void);
const struct kernel *__wrap_kernel_get(void);
const struct kernel *__wrap_kernel_get(void)
{
    static struct kernel flipping;
    if (!real_fill) {
        flipping = *__real_kernel_get();
        real_fill = flipping.fill;
        flipping.fill = fill_and_flip;
    }
    return &flipping;
}

int __real_fill_begin(struct fill *f, const struct geometry *g, uint8_t *bits,
                      uint8_t *digests, uint64_t n, unsigned n_threads,
                      size_t region_bytes);
int __wrap_fill_begin(struct fill *f, const struct geometry *g, uint8_t *bits,
                      uint8_t *digests, uint64_t n, unsigned n_threads,
                      size_t region_bytes);
int __wrap_fill_begin(struct fill *f, const struct geometry *g, uint8_t *bits,
                      uint8_t *digests, uint64_t n, unsigned n_threads,
                      size_t region_bytes)
{
    lane_0 = bits;
    geometry = *g;
    int err = __real_fill_begin(f, g, bits, digests, n, n_threads, region_bytes);
    was_sliced = f->slices != NULL;
    return err;
}

void __real_fill_end(struct fill *f);
void __wrap_fill_end(struct fill *f);
void __wrap_fill_end(struct fill *f)
{
    lane_0 = NULL; /* readers have other pages */
    __real_fill_end(f);
}

uint64_t __real_page_digest(const uint8_t page[PAGE_BYTES]);
uint64_t __wrap_page_digest(const uint8_t page[PAGE_BYTES]);
uint64_t __wrap_page_digest(const uint8_t page[PAGE_BYTES])
{
    uint8_t mask,
        *at = digest_flips && lane_0 ? byte_of(lane_0, keys[victim], &mask) : NULL;
    if (at && at >= page && at < page + PAGE_BYTES)
        *at &= (uint8_t)~mask;
    return __real_page_digest(page);
}

void __real_commit_encode(const struct commit *c, uint8_t slot, uint8_t *out);
void __wrap_commit_encode(const struct commit *c, uint8_t slot, uint8_t *out);
void __wrap_commit_encode(const struct commit *c, uint8_t slot, uint8_t *out)
{
    struct commit other = *c;
    struct geometry *g = &other.stages[0].geometry;
    if (header_flips == FLIP_WORDS)
        g->words++;
    if (header_flips == FLIP_LANES) { /* as many bytes as before */
        g->n_blocks *= g->lanes;
        g->lanes = 1;
    }
    if (header_flips == FLIP_LENGTH) /* of the lanes that are left */
        other.stages[0].length = g->n_blocks * --g->lanes * BLOCK_BYTES;
    if (header_flips == FLIP_WATERMARK)
        other.watermark++;
    __real_commit_encode(&other, slot, out);
    out[40] ^= header_flips == FLIP_RECORD;
}

void __real_identity_encode(const struct identity *id, uint8_t *out);
void __wrap_identity_encode(const struct identity *id, uint8_t *out);
void __wrap_identity_encode(const struct identity *id, uint8_t *out)
{
    struct identity other = *id;
    other.hash_seed ^= header_flips == FLIP_SEED;
    __real_identity_encode(&other, out);
    out[40] ^= header_flips == FLIP_IDENTITY;
}

static UNUSED int flip_nothing(void **state)
{
    victim = 3210;
    stuck_lane = -1;
    late_victim = NULL;
    digest_flips = false;
    header_flips = 0;
    return 0;
}

struct way {
    size_t n;
    double error;
    uint32_t n_threads;
    uint64_t memory_limit;
};
static const struct way ways[] = {
    {FEW, 0.01, 1, 0},        {FEW, 1e-6, 1, 0},      {FEW, 1e-4, 1, 4096},
    {MANY, 0.01, 3, 0},       {MANY, 1e-6, 2, 0},     {MANY, 1e-4, 3, 9 << 20},
    {MANY, 0.01, 3, 1 << 20}, {FEW * 20, 1e-8, 3, 0},
};
enum { N_WAYS = N_OF(ways) };

static UNUSED struct tamis_builder *builder_for(const struct way *way, bool check)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &domain,
        .error = way->error,
        .watermark = 41,
        .memory_limit = way->memory_limit,
        .spool_dir = test_dir,
        .n_threads = way->n_threads,
        .check = check,
    };
    return builder_made(&opt);
}

static UNUSED struct tamis_builder *full_builder(const struct way *way, bool check)
{
    struct tamis_builder *b = builder_for(way, check);
    for (size_t done = 0; done < way->n; done += 1000)
        OK(tamis_builder_add_hashes(b, domain.tag, keys + done, 1000));
    return b;
}

static UNUSED void expect_refused(struct tamis_builder *b)
{
    struct tamis_diag diag;
    uint8_t header[PAGE_BYTES] = {0}, zeros[PAGE_BYTES] = {0};
    uint64_t n_bytes = 1;
    size_t n_files = count_files(test_dir);
    IS(tamis_builder_finish_file(b, path_of("refused"), &diag), TAMIS_ERR_DAMAGED);
    assert_non_null(strstr(diag.what, "memory"));
    assert_non_null(strstr(diag.file, "refused"));
    IS(count_files(test_dir), n_files);
    FD fd = open(path_of("engine"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    IS(tamis_builder_finish_fd(b, fd, 0, &n_bytes, &diag), TAMIS_ERR_DAMAGED);
    IS(n_bytes, 0);
    assert_true(pread(fd, header, sizeof header, 0) >= 0);
    assert_memory_equal(header, zeros, sizeof header);
    unlink(path_of("engine"));
    tamis_builder_free(b);
}

/* Without the check the same flip loses a key, and no digest tells. */
static UNUSED void expect_lost(struct tamis_builder *b, const uint64_t *hashes,
                               size_t n)
{
    OK(tamis_builder_finish_file(b, path_of("lossy"), NULL));
    FILTER f = open_filter(path_of("lossy"));
    verified(f);
    assert_true(count_absent(f, hashes, n) > 0);
    unlink(path_of("lossy"));
    tamis_builder_free(b);
}

/* By the check; or else keys are lost. */
static UNUSED void expect_checked(struct tamis_builder *b, const uint64_t *hashes,
                                  size_t n)
{
    if (b->checks)
        expect_refused(b);
    else
        expect_lost(b, hashes, n);
}

static UNUSED void expect_good(struct tamis_builder *b, size_t n)
{
    struct tamis_diag diag;
    if (tamis_builder_finish_file(b, path_of("good"), &diag) != 0)
        fail_msg("%s", diag.what);
    all_there(path_of("good"), keys, n);
    unlink(path_of("good"));
}

#endif
