/* A checked builder: whatever bit flips in memory while a filter is built, in bits,
 * hashes or headers, no filter comes of it that lacks a key. The program is linked with
 * the calls wrapped (TEST_WRAP in the Makefile). */
#include "tests/unit/builder/builder_support.h"
#include "lib/builder/inside.h"

/* Several lanes of FEW keys share a page. Lanes of MANY are sliced, an eighth as large
 * as the smallest that a builder slices, in regions an eighth as large. */
enum { FEW = 4000, MANY = N_KEYS / 8, REGION = 32 << 10, SLICED = 128 << 10 };

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
static uint8_t *byte_of(uint8_t *lane, uint64_t h, uint8_t *mask)
{
    uint32_t word = geometry_start(h), bit = geometry_bit(h, word);
    *mask = (uint8_t)(1U << bit % 8);
    return lane + geometry_block(h, geometry.n_blocks) * BLOCK_BYTES + word * 8 +
           bit / 8;
}

static void stick(uint8_t *lane, uint64_t h, const uint64_t *hashes, size_t n)
{
    uint8_t mask, *at = byte_of(lane, h, &mask);
    /* Only the thread that fills the region of this block may touch it. */
    for (size_t i = 0; i < n; i++)
        if (geometry_block(hashes[i], geometry.n_blocks) ==
            geometry_block(h, geometry.n_blocks))
            *at &= (uint8_t)~mask;
}

static void fill_and_flip(uint8_t *lane, uint64_t n_blocks, uint32_t words,
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
    if (n_threads > 1 && g->n_blocks * BLOCK_BYTES > SLICED)
        region_bytes = REGION;
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

static int flip_nothing(void **state)
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
    {FEW, 0.01, 1, 0},        {FEW, 1e-6, 1, 0},     {FEW, 1e-4, 1, 4096},
    {MANY, 0.01, 3, 0},       {MANY, 1e-6, 2, 0},    {MANY, 1e-4, 3, 9 << 17},
    {MANY, 0.01, 1, 1 << 17}, {FEW * 5, 1e-8, 3, 0},
};
enum { N_WAYS = N_OF(ways) };

static struct tamis_builder *builder_for(const struct way *way, bool check)
{
    return BUILDER_AS(.domain = &domain, .error = way->error, .watermark = 41,
                      .memory_limit = way->memory_limit, .spool_dir = test_dir,
                      .n_threads = way->n_threads, .check = check);
}

static struct tamis_builder *full_builder(const struct way *way, bool check)
{
    struct tamis_builder *b = builder_for(way, check);
    for (size_t done = 0; done < way->n; done += 1000)
        OK(tamis_builder_add_hashes(b, domain.tag, keys + done, 1000));
    return b;
}

static void expect_refused(struct tamis_builder *b)
{
    struct tamis_diag diag;
    uint8_t header[PAGE_BYTES] = {0}, zeros[PAGE_BYTES] = {0};
    uint64_t n_bytes = 1;
    size_t n_files = count_files(test_dir);
    IS(tamis_builder_finish(b, path_of("refused"), NULL, NULL, &diag),
       TAMIS_ERR_DAMAGED);
    assert_non_null(strstr(diag.what, "memory"));
    assert_non_null(strstr(diag.file, "refused"));
    IS(count_files(test_dir), n_files);
    FD fd = open(path_of("engine"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    IS(tamis_builder_finish(b, NULL, INTO(.fd = fd), &n_bytes, &diag),
       TAMIS_ERR_DAMAGED);
    IS(n_bytes, 0);
    assert_true(pread(fd, header, sizeof header, 0) >= 0);
    assert_memory_equal(header, zeros, sizeof header);
    tamis_builder_free(b);
}

/* Without the check the same flip loses a key, and no digest tells. */
static void expect_lost(struct tamis_builder *b, const uint64_t *hashes, size_t n)
{
    OK(tamis_builder_finish(b, path_of("lossy"), NULL, NULL, NULL));
    FILTER f = open_filter(path_of("lossy"));
    verified(f);
    assert_true(count_absent(f, hashes, n) > 0);
    unlink(path_of("lossy"));
    tamis_builder_free(b);
}

/* By the check; or else keys are lost. */
static void expect_checked(struct tamis_builder *b, const uint64_t *hashes, size_t n)
{
    if (b->checks)
        expect_refused(b);
    else
        expect_lost(b, hashes, n);
}

static void expect_good(struct tamis_builder *b, size_t n)
{
    struct tamis_diag diag;
    if (tamis_builder_finish(b, path_of("good"), NULL, NULL, &diag) != 0)
        fail_msg("%s", diag.what);
    all_there(path_of("good"), keys, n);
    unlink(path_of("good"));
}

TEST_WITH(flip_nothing, NULL, test_good_memory_passes)
{
    unsigned seen = 0;
    for (size_t i = 0; i < N_WAYS; i++) {
        BUILDER b = full_builder(&ways[i], true);
        expect_good(b, ways[i].n);
        seen |= 1U << (was_sliced * 4 + (b->n_spooled > 0) * 2 + (b->asked.lanes > 1));
        /* More keys, some of them again. */
        OK(tamis_builder_add_hashes(b, domain.tag, keys + FEW / 2, FEW));
        expect_good(b, ways[i].n);
    }
    /* With and without slices, spool and second lane: all but one. */
    IS(seen | 1U << 6, 0xff);
    BUILDER b = builder_for(&ways[0], true);
    expect_good(b, 0);
    const uint64_t twice[] = {keys[0], keys[0]};
    OK(tamis_builder_add_hashes(b, domain.tag, twice, 2));
    expect_good(b, 1);
}

TEST_WITH(flip_nothing, NULL, test_a_bit_of_the_filter)
{
    for (size_t i = 0; i < N_WAYS; i++) {
        struct tamis_plan plan;
        tamis_plan_filter(ways[i].n, ways[i].error, NULL, &plan);
        for (stuck_lane = 0; stuck_lane < (int)plan.lanes; stuck_lane++) {
            expect_refused(full_builder(&ways[i], true));
            expect_lost(full_builder(&ways[i], false), keys + victim, 1);
        }
    }
    /* It was memory, not the builder: where it holds, the filter is made. */
    stuck_lane = 0;
    BUILDER b = full_builder(&ways[0], true);
    IS(tamis_builder_finish(b, path_of("x"), NULL, NULL, NULL), TAMIS_ERR_DAMAGED);
    flip_nothing(NULL);
    expect_good(b, FEW);
}

/* In the first region and the last one. */
TEST_WITH(flip_nothing, NULL, test_a_bit_at_the_edges)
{
    for (size_t i = 0; i < 2 * N_WAYS; i++) {
        const struct way *way = &ways[i / 2];
        stuck_lane = i % 2 ? -1 : 0;
        digest_flips = i % 2;
        size_t lowest = 0, highest = 0;
        for (size_t k = 0; k < way->n; k++) {
            lowest = keys[k] < keys[lowest] ? k : lowest;
            highest = keys[k] > keys[highest] ? k : highest;
        }
        victim = lowest;
        expect_refused(full_builder(way, true));
        victim = highest;
        expect_refused(full_builder(way, true));
    }
}

TEST_WITH(flip_nothing, NULL, test_a_bit_before_its_digest)
{
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            digest_flips = true;
            expect_checked(b, keys + victim, 1);
            digest_flips = false;
        }
}

static void add_numbers(struct tamis_builder *b, unsigned from, unsigned to)
{
    char key[16];
    for (; from < to; from++)
        OK(tamis_builder_add_key(b, key, (size_t)sprintf(key, "%07u", from)));
}

/* Everything that answers rest on beside the bits. */
#define NOTED(member, byte, mask)                                                      \
    {                                                                                  \
#member, offsetof(struct tamis_builder, member) + (byte), mask                 \
    }
static const struct noted {
    const char *name;
    size_t at;
    uint8_t mask;
} noted[] = {
    NOTED(range.first, 3, 64),
    NOTED(range.last, 6, 1),
    NOTED(range.last_bytes, 0, 1),
    NOTED(first_prefix, 0, 1),
    NOTED(last_prefix, 7, 0x80),
    NOTED(range.known, 0, 1), /* by hashes it is not */
    NOTED(domain.seed, 1, 2),
    NOTED(domain.tag, 1, 2),
    NOTED(watermark, 1, 2),
    NOTED(range.first_bytes, 3, 0x40),
    NOTED(range.last_bytes, 3, 0x40),
};
enum { N_WITH_MORE = 9 }; /* the last two make a range longer than there are bytes */

TEST_WITH(flip_nothing, NULL, test_what_is_noted)
{
    for (size_t what = 0; what < N_OF(noted); what++)
        for (int more = 0; more < 3; more++) {
            struct tamis_builder *b = builder_for(&ways[0], true);
            add_numbers(b, 500, 600);
            if (strcmp(noted[what].name, "range.known") == 0)
                OK(tamis_builder_add_hashes(b, domain.tag, keys, 1));
            ((uint8_t *)b)[noted[what].at] ^= noted[what].mask;
            /* Keys that change it, and hide the flip; and keys that don't. */
            if (more == 1 && what < N_WITH_MORE)
                add_numbers(b, 400, 700);
            if (more == 2 && what < N_WITH_MORE)
                add_numbers(b, 510, 520);
            print_message("%s\n", noted[what].name);
            expect_refused(b);
        }
    BUILDER b = builder_for(&ways[0], true);
    add_numbers(b, 500, 600);
    add_numbers(b, 400, 700);
    OK(tamis_builder_add_hashes(b, domain.tag, keys, FEW));
    add_numbers(b, 300, 800);
    assert_false(b->changed);
    expect_good(b, FEW);
}

TEST_WITH(flip_nothing, NULL, test_the_header)
{
    static const struct way few_words = {FEW, 0.1, 1, 0}, two_lanes = {FEW, 1e-4, 1, 0};
    for (header_flips = 1; header_flips < N_FLIPS; header_flips++)
        expect_refused(full_builder(
            header_flips == FLIP_LANES || header_flips == FLIP_LENGTH ? &two_lanes
                                                                      : &few_words,
            true));
    header_flips = FLIP_WORDS;
    expect_lost(full_builder(&few_words, false), keys, FEW);
    header_flips = FLIP_LANES;
    expect_lost(full_builder(&two_lanes, false), keys, FEW);
}

/* Keys as long as a range may have them, and longer. One key of each length is the
 * first so far, and one the last. */
TEST_WITH(flip_nothing, NULL, test_long_keys)
{
    static uint8_t key[1100];
    BUILDER b = builder_for(&ways[0], true);
    for (size_t n = 1020; n < 1030; n++) {
        key[0] = (uint8_t)(1100 - n);
        OK(tamis_builder_add_key(b, key, n));
        key[0] = (uint8_t)(n - 900);
        OK(tamis_builder_add_key(b, key, n));
    }
    OK(tamis_builder_finish(b, path_of("long"), NULL, NULL, NULL));
    unlink(path_of("long"));
}

/* A caller of before has no such field, and its padding says nothing. */
TEST_WITH(flip_nothing, NULL, test_an_older_caller)
{
    struct tamis_builder_options opt;
    memset(&opt, 0xff, sizeof opt);
    opt = (struct tamis_builder_options){.domain = &domain};
    memset((char *)&opt.n_threads + sizeof opt.n_threads, 0xff,
           sizeof opt - offsetof(struct tamis_builder_options, n_threads) -
               sizeof opt.n_threads);
    opt.size = offsetof(struct tamis_builder_options, check);
    assert_true(opt.size == 96 && sizeof opt > opt.size);
    BUILDER b = builder_made(&opt);
    assert_false(b->checks);
}

TEST_WITH(flip_nothing, NULL, test_a_hash)
{
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            assert_true(b->n_hashes > 0);
            b->hashes[b->n_hashes / 2] ^= UINT64_C(1) << 62;
            expect_checked(b, keys, ways[i].n);
        }
}

/* When one lane has it and the next one has not. */
TEST_WITH(flip_nothing, NULL, test_a_hash_between_lanes)
{
    static const struct way way = {FEW, 1e-6, 1, 0};
    for (int check = 0; check < 2; check++) {
        struct tamis_builder *b = full_builder(&way, check);
        late_victim = &b->hashes[FEW / 2];
        expect_checked(b, keys, FEW);
    }
}

/* Two of them, so that a plain sum would be what it was. */
TEST_WITH(flip_nothing, NULL, test_two_hashes)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        struct tamis_builder *b = full_builder(&ways[0], true);
        uint64_t mask = UINT64_C(1) << bit;
        size_t up = 0, down = 0;
        while (b->hashes[up] & mask)
            up++;
        while (!(b->hashes[down] & mask))
            down++;
        b->hashes[up] ^= mask;
        b->hashes[down] ^= mask;
        expect_refused(b);
    }
}

TEST_WITH(flip_nothing, NULL, test_a_hash_that_is_lost_or_there_twice)
{
    struct tamis_builder *b = builder_for(&ways[0], true);
    const uint64_t some[] = {1, 0, 2, -LANE_MULTIPLIER, 3, 0};
    OK(tamis_builder_add_hashes(b, domain.tag, some, 6));
    b->n_hashes--;
    expect_refused(b);
    b = full_builder(&ways[0], true);
    b->hashes[7] = b->hashes[8];
    expect_refused(b);
}

static struct tamis_builder *spooling;
static ssize_t flip_and_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (spooling && buf == spooling->hashes) {
        spooling->hashes[n / sizeof *spooling->hashes / 2] ^= UINT64_C(1) << 62;
        spooling = NULL;
    }
    return pwrite(fd, buf, n, offset);
}

/* The spool gets the wrong hash, and gives it back as it was. */
TEST_WITH(flip_nothing, NULL, test_a_hash_on_its_way_to_the_spool)
{
    static const struct way way = {FEW, 0.01, 1, 4096};
    io_calls.pwrite = flip_and_pwrite;
    for (int check = 0; check < 2; check++) {
        struct tamis_builder *b = spooling = builder_for(&way, check);
        OK(tamis_builder_add_hashes(b, domain.tag, keys, FEW));
        assert_null(spooling);
        expect_checked(b, keys, FEW);
    }
    io_calls.pwrite = pwrite;
}

RUN_TESTS(set_up, test_dir_remove)
