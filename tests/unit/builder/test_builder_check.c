/* A checked builder: whatever bit flips in memory while a filter is built, no filter
 * comes of it that lacks a key. */
#include "tests/support/support.h"
#include "lib/builder/inside.h"

enum { FEW = 5000, MANY = 1000 * 1000 };
static uint64_t keys[MANY];
static struct tamis_domain domain;

/* ---- memory that flips ---- */

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
/* What the header says is another; 0: nothing. */
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
    (void)state;
    victim = 3210;
    stuck_lane = -1;
    late_victim = NULL;
    digest_flips = false;
    header_flips = 0;
    return 0;
}

/* ---- builders ---- */

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
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static struct tamis_builder *builder_for(const struct way *way, bool check)
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
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    return b;
}

static struct tamis_builder *full_builder(const struct way *way, bool check)
{
    struct tamis_builder *b = builder_for(way, check);
    for (size_t done = 0; done < way->n; done += 1000)
        assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys + done, 1000), 0);
    return b;
}

static void expect_refused(struct tamis_builder *b)
{
    struct tamis_diag diag;
    uint8_t header[PAGE_BYTES] = {0}, zeros[PAGE_BYTES] = {0};
    uint64_t n_bytes = 1;
    size_t n_files = count_files(test_dir);
    assert_int_equal(tamis_builder_finish_file(b, path_of("refused"), &diag),
                     TAMIS_ERR_DAMAGED);
    assert_non_null(strstr(diag.what, "memory"));
    assert_non_null(strstr(diag.file, "refused"));
    assert_int_equal(count_files(test_dir), n_files);
    int fd = open(path_of("engine"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(tamis_builder_finish_fd(b, fd, 0, &n_bytes, &diag),
                     TAMIS_ERR_DAMAGED);
    assert_int_equal(n_bytes, 0);
    assert_true(pread(fd, header, sizeof header, 0) >= 0);
    assert_memory_equal(header, zeros, sizeof header);
    close(fd);
    unlink(path_of("engine"));
    tamis_builder_free(b);
}

/* Without the check the same flip loses a key, and no digest tells. */
static void expect_lost(struct tamis_builder *b, const uint64_t *hashes, size_t n)
{
    struct tamis_verify report;
    assert_int_equal(tamis_builder_finish_file(b, path_of("lossy"), NULL), 0);
    struct tamis_filter *f = open_filter(path_of("lossy"));
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    assert_true(count_absent(f, hashes, n) > 0);
    tamis_filter_close(f);
    unlink(path_of("lossy"));
    tamis_builder_free(b);
}

static void expect_good(struct tamis_builder *b, size_t n)
{
    struct tamis_diag diag;
    if (tamis_builder_finish_file(b, path_of("good"), &diag) != 0)
        fail_msg("%s", diag.what);
    struct tamis_filter *f = open_filter(path_of("good"));
    assert_int_equal(count_absent(f, keys, n), 0);
    tamis_filter_close(f);
    unlink(path_of("good"));
}

/* ---- tests ---- */

static void test_good_memory_passes(void **state)
{
    unsigned seen = 0;
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++) {
        struct tamis_builder *b = full_builder(&ways[i], true);
        expect_good(b, ways[i].n);
        seen |= 1U << (was_sliced * 4 + (b->n_spooled > 0) * 2 + (b->asked.lanes > 1));
        /* More keys, some of them again. */
        assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys + FEW / 2, FEW),
                         0);
        expect_good(b, ways[i].n);
        tamis_builder_free(b);
    }
    /* With and without slices, spool and second lane: all but one. */
    assert_int_equal(seen | 1U << 6, 0xff);
    struct tamis_builder *b = builder_for(&ways[0], true);
    expect_good(b, 0);
    const uint64_t twice[] = {keys[0], keys[0]};
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, twice, 2), 0);
    expect_good(b, 1);
    tamis_builder_free(b);
}

static void test_a_bit_of_the_filter(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++) {
        struct tamis_plan plan;
        tamis_plan_filter(ways[i].n, ways[i].error, &plan);
        for (stuck_lane = 0; stuck_lane < (int)plan.lanes; stuck_lane++) {
            expect_refused(full_builder(&ways[i], true));
            expect_lost(full_builder(&ways[i], false), keys + victim, 1);
        }
    }
    /* It was memory, not the builder: where it holds, the filter is made. */
    stuck_lane = 0;
    struct tamis_builder *b = full_builder(&ways[0], true);
    assert_int_equal(tamis_builder_finish_file(b, path_of("x"), NULL),
                     TAMIS_ERR_DAMAGED);
    flip_nothing(NULL);
    expect_good(b, FEW);
    tamis_builder_free(b);
}

/* In the first region and the last one. */
static void test_a_bit_at_the_edges(void **state)
{
    (void)state;
    stuck_lane = 0;
    for (size_t i = 0; i < N_WAYS; i++) {
        size_t lowest = 0, highest = 0;
        for (size_t k = 0; k < ways[i].n; k++) {
            lowest = keys[k] < keys[lowest] ? k : lowest;
            highest = keys[k] > keys[highest] ? k : highest;
        }
        victim = lowest;
        expect_refused(full_builder(&ways[i], true));
        victim = highest;
        expect_refused(full_builder(&ways[i], true));
    }
}

static void test_a_bit_before_its_digest(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            digest_flips = true;
            if (check)
                expect_refused(b);
            else
                expect_lost(b, keys + victim, 1);
            digest_flips = false;
        }
}

static void test_a_hash(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_WAYS; i++)
        for (int check = 0; check < 2; check++) {
            struct tamis_builder *b = full_builder(&ways[i], check);
            assert_true(b->n_hashes > 0);
            b->hashes[b->n_hashes / 2] ^= UINT64_C(1) << 62;
            if (check)
                expect_refused(b);
            else
                expect_lost(b, keys, ways[i].n);
        }
}

/* When one lane has it and the next one has not. */
static void test_a_hash_between_lanes(void **state)
{
    static const struct way way = {FEW, 1e-6, 1, 0};
    (void)state;
    for (int check = 0; check < 2; check++) {
        struct tamis_builder *b = full_builder(&way, check);
        late_victim = &b->hashes[FEW / 2];
        if (check)
            expect_refused(b);
        else
            expect_lost(b, keys, FEW);
    }
}

/* Two of them, so that a plain sum would be what it was. */
static void test_two_hashes(void **state)
{
    (void)state;
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

static void test_a_hash_that_is_lost_or_there_twice(void **state)
{
    (void)state;
    struct tamis_builder *b = builder_for(&ways[0], true);
    const uint64_t some[] = {1, 0, 2, -LANE_MULTIPLIER, 3, 0};
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, some, 6), 0);
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
static void test_a_hash_on_its_way_to_the_spool(void **state)
{
    static const struct way way = {FEW, 0.01, 1, 4096};
    (void)state;
    io_calls.pwrite = flip_and_pwrite;
    for (int check = 0; check < 2; check++) {
        struct tamis_builder *b = spooling = builder_for(&way, check);
        assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, FEW), 0);
        assert_null(spooling);
        if (check)
            expect_refused(b);
        else
            expect_lost(b, keys, FEW);
    }
    io_calls.pwrite = pwrite;
}

static void add_numbers(struct tamis_builder *b, unsigned from, unsigned to)
{
    char key[16];
    for (; from < to; from++)
        assert_int_equal(
            tamis_builder_add_key(b, key, (size_t)sprintf(key, "%07u", from)), 0);
}

/* Everything that answers rest on beside the bits. */
static void test_what_is_noted(void **state)
{
    (void)state;
    for (int what = 0; what < 11; what++)
        for (int more = 0; more < 3; more++) {
            struct tamis_builder *b = builder_for(&ways[0], true);
            add_numbers(b, 500, 600);
            if (what == 5)
                assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 1), 0);
            switch (what) {
            case 0:
                b->range.first[3] ^= 64;
                break;
            case 1:
                b->range.last[6] ^= 1;
                break;
            case 2:
                b->range.last_bytes ^= 1;
                break;
            case 3:
                b->first_prefix ^= 1;
                break;
            case 4:
                b->last_prefix ^= UINT64_C(1) << 63;
                break;
            case 5:
                b->range.known = true;
                break;
            case 6:
                b->domain.seed ^= 1 << 9;
                break;
            case 7:
                b->domain.tag ^= 1 << 9;
                break;
            case 8:
                b->watermark ^= 1 << 9;
                break;
            case 9:
                b->range.first_bytes ^= 1 << 30;
                break;
            default:
                b->range.last_bytes ^= 1 << 30;
                break;
            }
            /* Keys that change it, and hide the flip; and keys that don't. */
            if (more == 1 && what < 9)
                add_numbers(b, 400, 700);
            if (more == 2 && what < 9)
                add_numbers(b, 510, 520);
            expect_refused(b);
        }
    struct tamis_builder *b = builder_for(&ways[0], true);
    add_numbers(b, 500, 600);
    add_numbers(b, 400, 700);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, FEW), 0);
    add_numbers(b, 300, 800);
    assert_false(b->changed);
    expect_good(b, FEW);
    tamis_builder_free(b);
}

static void test_the_header(void **state)
{
    static const struct way few_words = {FEW, 0.1, 1, 0}, two_lanes = {FEW, 1e-4, 1, 0};
    (void)state;
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

/* As long as a range may have them, and longer. Of each length one key is the first so
 * far, and one the last. */
static void test_long_keys(void **state)
{
    static uint8_t key[1100];
    struct tamis_builder *b = builder_for(&ways[0], true);
    (void)state;
    for (size_t n = 1020; n < 1030; n++) {
        key[0] = (uint8_t)(1100 - n);
        assert_int_equal(tamis_builder_add_key(b, key, n), 0);
        key[0] = (uint8_t)(n - 900);
        assert_int_equal(tamis_builder_add_key(b, key, n), 0);
    }
    assert_int_equal(tamis_builder_finish_file(b, path_of("long"), NULL), 0);
    unlink(path_of("long"));
    tamis_builder_free(b);
}

/* A caller of before has no such field, and its padding says nothing. */
static void test_an_older_caller(void **state)
{
    struct tamis_builder_options opt;
    struct tamis_builder *b;
    (void)state;
    memset(&opt, 0xff, sizeof opt);
    opt = (struct tamis_builder_options){.domain = &domain};
    memset((char *)&opt.n_threads + sizeof opt.n_threads, 0xff,
           sizeof opt - offsetof(struct tamis_builder_options, n_threads) -
               sizeof opt.n_threads);
    opt.size = offsetof(struct tamis_builder_options, check);
    assert_true(opt.size == 96 && sizeof opt == 104);
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_false(b->checks);
    tamis_builder_free(b);
}

static int set_up(void **state)
{
    tamis_domain_init(&domain, 1, 0x5eed);
    random_hashes(keys, MANY);
    return test_dir_create(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_good_memory_passes, flip_nothing),
        cmocka_unit_test_setup(test_a_bit_of_the_filter, flip_nothing),
        cmocka_unit_test_setup(test_a_bit_at_the_edges, flip_nothing),
        cmocka_unit_test_setup(test_a_bit_before_its_digest, flip_nothing),
        cmocka_unit_test_setup(test_a_hash, flip_nothing),
        cmocka_unit_test_setup(test_a_hash_between_lanes, flip_nothing),
        cmocka_unit_test_setup(test_two_hashes, flip_nothing),
        cmocka_unit_test_setup(test_a_hash_that_is_lost_or_there_twice, flip_nothing),
        cmocka_unit_test_setup(test_a_hash_on_its_way_to_the_spool, flip_nothing),
        cmocka_unit_test_setup(test_what_is_noted, flip_nothing),
        cmocka_unit_test_setup(test_the_header, flip_nothing),
        cmocka_unit_test_setup(test_long_keys, flip_nothing),
        cmocka_unit_test_setup(test_an_older_caller, flip_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
