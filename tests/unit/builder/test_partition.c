/* Filters that are made by partition: bit by bit what the reference says, whatever the
 * geometry, the threads, the order and the way of the hashes. */
#include "tests/unit/builder/builder_support.h"
#include "lib/builder/inside.h"

enum { MOST_HASHES = 40000, MOST_BYTES = 2100 * PAGE_BYTES };

static uint64_t hashes[MOST_HASHES], given[MOST_HASHES];

static void expect_same_hashes(size_t n)
{
    static uint64_t left[MOST_HASHES], right[MOST_HASHES];
    memcpy(left, given, n * sizeof *left);
    memcpy(right, hashes, n * sizeof *right);
    qsort(left, n, sizeof *left, compare_u64);
    qsort(right, n, sizeof *right, compare_u64);
    assert_memory_equal(left, right, n * sizeof *left);
}

static void expect_finished(struct fill *f, uint64_t n_bytes)
{
    uint64_t n_set = 0;
    assert_true(fill_finished(f) == n_bytes);
    for (uint64_t page = 0; page < n_bytes / PAGE_BYTES; page++) {
        assert_true(digest_at(f->digests, page) ==
                    page_digest(f->bits + page * PAGE_BYTES));
        n_set += page_bits(kernel_get(), f->bits + page * PAGE_BYTES);
    }
    assert_true(atomic_load(&f->bits_set) == n_set);
}

static uint8_t reference[MOST_BYTES], digests[MOST_BYTES / PAGE_BYTES * DIGEST_BYTES];
static _Alignas(PAGE_BYTES) uint8_t bits[MOST_BYTES];

/* In pieces, as from a spool; each is put in another order. */
static void fill(const struct geometry *g, size_t n, size_t piece, unsigned n_threads,
                 size_t region_bytes)
{
    struct fill f;
    uint64_t n_bytes;
    assert_true(geometry_stage_bytes(g, &n_bytes) && n_bytes <= MOST_BYTES);
    memset(reference, 0, (size_t)n_bytes);
    memset(bits, 0, (size_t)n_bytes);
    for (size_t i = 0; i < n; i++)
        geometry_add(reference, g, hashes[i]);
    memcpy(given, hashes, n * sizeof *given);
    IS(fill_begin(&f, g, bits, digests, piece, n_threads, region_bytes), 0);
    IS(fill_finished(&f), 0);
    for (size_t done = 0; done < n || n == 0; done += piece) {
        size_t some = n - done < piece ? n - done : piece;
        IS(fill_add(&f, hashes + done, some, done + some == n), 0);
        if (n == 0)
            break;
    }
    if (memcmp(bits, reference, (size_t)n_bytes) != 0)
        fail_msg("%zu keys by %zu, %u threads, %u lanes, %u words, %llu blocks", n,
                 piece, n_threads, g->lanes, g->words, (unsigned long long)g->n_blocks);
    expect_finished(&f, n_bytes);
    fill_end(&f);
    expect_same_hashes(n);
}

TEST(test_equals_the_reference)
{
    static const unsigned threads[] = {0, 1, 2, 3, 8};
    static const size_t few[] = {0, 1, 2, 31, 32, 33, 255, 256, 257};
    for (int round = 0; round < 200; round++) {
        struct geometry g = {.n_blocks = round % 2 ? 1 + random_below(5000)
                                                   : 64 * (1 + random_below(90)),
                             .lanes = 1 + (uint32_t)random_below(MAX_LANES),
                             .words = 1 + (uint32_t)random_below(MAX_WORDS)};
        size_t n = round % 4 ? (size_t)random_below(MOST_HASHES + 1)
                             : few[(size_t)random_below(N_OF(few))];
        size_t piece = round % 3 ? n + 1 : 1 + (size_t)random_below(n + 1);
        if (n / piece > 50)
            piece = n / 50;
        random_hashes(hashes, n);
        fill(&g, n, piece, threads[round % 5], (size_t)PAGE_BYTES << random_below(6));
    }
}

/* The edges of blocks, regions and slices; and all keys in one place. */
TEST(test_hashes_at_the_edges)
{
    const struct geometry g = {.n_blocks = BLOCKS_PER_PAGE * 7, .lanes = 2, .words = 5};
    for (uint64_t block = 0; block < g.n_blocks; block++) {
        uint64_t first = UINT64_MAX / g.n_blocks * block;
        for (size_t i = 0; i < 32; i++)
            hashes[block * 32 + i] = first + i * 3 - 48;
    }
    hashes[0] = 0;
    hashes[1] = UINT64_MAX;
    for (unsigned n_threads = 1; n_threads <= 3; n_threads++)
        fill(&g, g.n_blocks * 32, g.n_blocks * 32, n_threads, PAGE_BYTES);
    for (size_t i = 0; i < 5000; i++)
        hashes[i] = (uint64_t)i << 10;
    fill(&g, 5000, 5000, 3, PAGE_BYTES);
    for (size_t i = 0; i < 5000; i++)
        hashes[i] = ~((uint64_t)i << 10);
    fill(&g, 5000, 777, 3, PAGE_BYTES);
}

/* More than there may be regions of a page; and runs get shorter, for all to fit. */
TEST(test_many_regions)
{
    const struct geometry g = {
        .n_blocks = BLOCKS_PER_PAGE * 2100, .lanes = 1, .words = 6};
    random_hashes(hashes, MOST_HASHES);
    for (unsigned n_threads = 1; n_threads <= 2; n_threads++)
        fill(&g, MOST_HASHES, MOST_HASHES, n_threads, PAGE_BYTES);
}

static int stop_at_once(void *ctx)
{
    ++*(int *)ctx;
    return ENOSPC;
}

TEST(test_stops_when_told)
{
    const struct geometry g = {
        .n_blocks = BLOCKS_PER_PAGE * 80, .lanes = 3, .words = 4};
    struct fill f;
    int n_calls = 0;
    random_hashes(hashes, 10000);
    memcpy(given, hashes, sizeof given);
    memset(bits, 0, (size_t)g.n_blocks * g.lanes * BLOCK_BYTES);
    IS(fill_begin(&f, &g, bits, digests, 10000, 1, PAGE_BYTES), 0);
    f.between = stop_at_once;
    f.ctx = &n_calls;
    IS(fill_add(&f, hashes, 10000, true), ENOSPC);
    IS(n_calls, 1);
    IS(fill_finished(&f), PAGE_BYTES);
    fill_end(&f);
    expect_same_hashes(10000);
    /* It does not ask where a lane is one region. */
    IS(fill_begin(&f, &g, bits, digests, 10000, 1, 1 << 20), 0);
    assert_null(f.slices);
    f.between = stop_at_once;
    f.ctx = &n_calls;
    f.asks = true;
    IS(fill_add(&f, hashes, 10000, true), ENOSPC);
    IS(n_calls, 2);
    IS(atomic_load(&f.asked[0].n), 0);
    fill_end(&f);
}

/* The bits of a file, by the reference from the hashes. */
static void expect_reference(const char *path, size_t n)
{
    struct commit c = commit_of(path);
    const struct stage_desc *s = &c.stages[0];
    size_t n_bytes;
    FREED uint8_t *file = file_read(path, &n_bytes),
                  *whole = calloc(1, (size_t)s->length);
    assert_non_null(whole);
    for (size_t i = 0; i < n; i++)
        geometry_add(whole, &s->geometry, keys[i]);
    assert_memory_equal(file + s->offset, whole, (size_t)s->length);
    FILTER f = open_filter(path);
    IS(verified(f).n_pages, s->length / PAGE_BYTES);
}

static void build_all_ways(double error, size_t n)
{
    static const uint32_t threads[] = {0, 1, 2, 3, 8, 100000};
    static const uint64_t limits[] = {0, 1 << 20, 64 << 10};
    for (size_t i = 0; i < 6 * 3; i++) {
        if (i > 5 && i % 6 != 1 && i % 6 != 4)
            continue; /* within a limit one thread at most has room for slices */
        finish(threaded_builder_of(error, n, threads[i % 6], limits[i / 6]),
               path_of(i ? "other" : "first"));
        if (i)
            assert_same_file(path_of("first"), path_of("other"));
        else
            expect_reference(path_of("first"), n);
    }
}

TEST_WITH(repeatable, faults_off, test_the_same_file_however_it_is_built)
{
    build_all_ways(0.01, 0);
    build_all_ways(0.01, 1);
    build_all_ways(0.01, 1000);
    build_all_ways(0.01, N_KEYS);
    build_all_ways(1e-4, N_KEYS / 3); /* of two lanes and more */
    build_all_ways(1e-8, N_KEYS / 4);
}

/* After any failure the filter of the next try has every key. */
TEST_WITH(repeatable, faults_off, test_a_failed_finish_then_a_good_one)
{
    for (int round = 0; round < 2; round++) {
        BUILDER b =
            threaded_builder_of(1e-6, N_KEYS / 2, 3, round ? 1 << 20 : 64 << 20);
        size_t n_files = count_files(test_dir);
        unsigned long nth;
        for (nth = 1;; nth++) {
            fail_once(CALL_PWRITE, nth, ENOSPC);
            int err = tamis_builder_finish(b, path_of("attempt"), NULL, NULL, NULL);
            if (!err)
                break;
            IS(err, ENOSPC);
            IS(count_files(test_dir), n_files);
            /* Keys of later calls join those of before. */
            if (nth == 1)
                OK(tamis_builder_add_hashes(b, domain.tag, keys + N_KEYS / 2,
                                            N_KEYS / 8));
        }
        assert_true(nth > 2);
        fail_never();
        IS(tamis_builder_finish(b, path_of("attempt"), NULL, NULL, NULL),
           TAMIS_ERR_EXISTS);
        OK(tamis_builder_finish(b, path_of("again"), NULL, NULL, NULL));
        expect_reference(path_of("attempt"), N_KEYS / 2 + N_KEYS / 8);
        assert_same_file(path_of("attempt"), path_of("again"));
        unlink(path_of("attempt"));
        unlink(path_of("again"));
    }
}

static size_t most_threads, n_open_to_signals;

static unsigned long long blocked(const char *task)
{
    char path[300], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "SigBlk: %llx", &mask) == 1)
            break;
    if (f)
        fclose(f);
    return mask;
}

/* Counts this process's threads, and those that would take a SIGTERM. */
static size_t count_threads(size_t *n_open)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    *n_open = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        n++;
        *n_open += !(blocked(e->d_name) >> (SIGTERM - 1) & 1);
    }
    closedir(dir);
    return n;
}

static ssize_t counting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    size_t n_open, now = count_threads(&n_open);
    if (now > most_threads)
        most_threads = now, n_open_to_signals = n_open;
    return pwrite(fd, buf, n, offset);
}

TEST(test_threads_are_those_asked_for)
{
    static const uint32_t asked[] = {0, 1, 2, 5};
    size_t n_open, before = count_threads(&n_open);
    for (size_t i = 0; i < 5; i++) {
        /* None for what is quickly done. */
        bool few = i == 4;
        size_t open_before = n_open, open_after;
        most_threads = 0;
        io_calls.pwrite = counting_pwrite;
        finish(threaded_builder_of(0.01, few ? 1000 : N_KEYS, few ? 8 : asked[i], 0),
               path_of("counted"));
        io_calls.pwrite = pwrite;
        IS(most_threads, before + (few || !asked[i] ? 0 : asked[i] - 1));
        IS(n_open_to_signals, open_before);
        IS(count_threads(&open_after), before);
    }
}

/* The page cache gets large folios of large writes, in order. */
static uint64_t next_offset;
static size_t n_large, n_small;

static ssize_t sequential_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (offset > 0) { /* the header is last */
        assert_true(next_offset == 0 || (uint64_t)offset == next_offset);
        next_offset = (uint64_t)offset + n;
        n_large += n == 4 << 20 && offset % (4 << 20) == 0;
        n_small += n < 4 << 20;
    }
    return pwrite(fd, buf, n, offset);
}

TEST(test_writes_are_large_and_in_order)
{
    BUILDER b = threaded_builder_of(1e-8, N_KEYS, 3, 0);
    struct tamis_plan plan;
    for (size_t i = 0; i < N_KEYS; i += MOST_HASHES) {
        random_hashes(hashes, MOST_HASHES);
        OK(tamis_builder_add_hashes(b, domain.tag, hashes, MOST_HASHES));
    }
    tamis_plan_filter(builder_facts(b).n_keys, 1e-8, NULL, &plan);
    io_calls.pwrite = sequential_pwrite;
    OK(tamis_builder_finish(b, path_of("large"), NULL, NULL, NULL));
    io_calls.pwrite = pwrite;
    IS(n_large, (plan.bits_bytes + PAGE_BYTES) / (4 << 20) - 1);
    assert_true(n_large >= 1 && n_small <= 3); /* first and last bits, the digests */
}

RUN_TESTS(set_up, test_dir_remove)
