/* The SIGBUS guard with many pages, many mappings, many threads, and after a fork. */
#include "tests/support/guard_support.h"

#include "lib/writer/inside.h"

enum { N_KEYS = 200 * 1000, N_OTHERS = 50 * 1000 };
static uint64_t keys[N_KEYS], others[N_OTHERS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS), random_hashes(others, N_OTHERS))

/* Every page of a large file is lost and asked for. A mapping for each would be more
 * than the kernel allows (65,530). */
TEST_WITH_GUARD(test_large_file_does_not_use_up_the_mappings)
{
    const char *path = path_of("large");
    const uint64_t n_bytes = UINT64_C(512) << 20;
    struct mapping m;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    OK(ftruncate(fd, (off_t)n_bytes));
    IS(map_file(fd, 0, n_bytes, false, NULL, &m), 0);
    OK(ftruncate(fd, 0));
    close(fd);
    size_t before = count_mappings(""), n_ones = 0;
    for (uint64_t at = 0; at < n_bytes; at += 4096)
        n_ones += touch_page(m.base + at) == 0xff;
    IS(n_ones, n_bytes / 4096);
    assert_in_range(count_mappings("") - before, 100, 2000);
    uint8_t *at_begin = m.base;
    map_drop(&m);
    unsigned char resident;
    IS(mincore(at_begin, 4096, &resident), -1);
    IS(errno, ENOMEM); /* gone, every part of it */
    IS(mincore(at_begin + n_bytes - 4096, 4096, &resident), -1);
}

/* However much is given up at a time, it ends where the mapping ends. */
TEST_WITH_GUARD(test_nothing_but_the_mapping_is_replaced)
{
    enum { N = 2048, FIRST = 700, END = 1333 };
    uint8_t *area = mmap(NULL, N * 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mapping m = {.address = area + FIRST * 4096,
                        .n_bytes = (END - FIRST) * 4096};
    size_t n_ones = 0, n_ours = 0;
    assert_ptr_not_equal(area, MAP_FAILED);
    memset(area, 0x11, N * 4096);
    IS(lost_watch(&m, false, NULL), 0);
    for (int i = 0; i < 100; i++)
        for (size_t page = FIRST; page < END; page += 29)
            assert_true(lost_replace((uintptr_t)(area + page * 4096)));
    for (size_t i = 0; i < N * 4096; i++) {
        bool inside = i / 4096 >= FIRST && i / 4096 < END;
        n_ones += inside && area[i] == 0xff && lost_page(&m, area + i);
        n_ours += !inside && area[i] == 0x11;
    }
    IS(n_ones, (END - FIRST) * 4096);
    IS(n_ours, (N - END + FIRST) * 4096);
    lost_forget(&m);
    munmap(area, N * 4096);
}

enum { N_THREADS = 8 };
static struct tamis_filter *shared;
static pthread_barrier_t together;
static atomic_size_t n_lost, n_told;

static void *ask_all(void *nothing)
{
    size_t lost = 0, told = 0;
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < N_KEYS; i++)
        lost += ask(shared, keys[i], NULL) == TAMIS_ABSENT;
    for (size_t i = 0; i < N_OTHERS; i++)
        told += ask(shared, others[i], NULL) == TAMIS_ABSENT;
    atomic_fetch_add(&n_lost, lost);
    atomic_fetch_add(&n_told, told);
    return nothing;
}

/* While they fault, the list of mappings changes under the handler. */
static void *open_and_close(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
        struct tamis_filter *f = NULL;
        if (tamis_filter_open(path_of("other"), NULL, &f, NULL) == 0)
            tamis_filter_close(f);
    }
    return NULL;
}

TEST_WITH_GUARD(test_threads_fault_together)
{
    const char *path = path_of("threads");
    pthread_t threads[N_THREADS], opener;
    atomic_bool stop = false;
    build_filter(path_of("other"), keys, 10);
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    uint64_t kept = c.stages[0].length / PAGE_BYTES / 2;
    shared = open_filter(path);
    verified(shared);
    cut(path, c.stages[0].offset + kept * PAGE_BYTES);
    n_lost = n_told = 0;
    pthread_barrier_init(&together, NULL, N_THREADS);
    OK(pthread_create(&opener, NULL, open_and_close, &stop));
    for (size_t i = 0; i < N_THREADS; i++)
        OK(pthread_create(&threads[i], NULL, ask_all, NULL));
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    pthread_join(opener, NULL);
    pthread_barrier_destroy(&together);
    IS(n_lost, 0);
    assert_in_range(n_told, N_THREADS * N_OTHERS / 3, N_THREADS * N_OTHERS * 6 / 10);
    tamis_filter_close(shared);
}

/* 70,000 mappings: each is found, and none that has gone. */
TEST_WITH_GUARD(test_list_of_mappings)
{
    enum { N = 70000 };
    FREED struct mapping *m = calloc(N, sizeof *m);
    _Atomic bool *alarms = calloc(N, sizeof *alarms);
    uint8_t *area = mmap(NULL, (size_t)N * 4096, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            if (m[i].watched)
                continue;
            m[i] = (struct mapping){.address = area + i * 4096, .n_bytes = 4096};
            alarms[i] = false;
            IS(lost_watch(&m[i], false, &alarms[i]), 0);
        }
        for (size_t i = 1; i < N; i += 2)
            lost_forget(&m[i]);
        for (size_t i = 0; i < N; i += 9999) {
            bool there = i % 2 == 0;
            IS(lost_replace((uintptr_t)(area + i * 4096 + 123)), there);
            IS(atomic_load(&alarms[i]), there);
            if (there)
                assert_true(lost_page(&m[i], area + i * 4096 + 4095));
        }
    }
    /* A place that one leaves another takes: the list does not grow for ever. */
    struct watched *was = m[0].watched;
    lost_forget(&m[0]);
    IS(lost_watch(&m[0], false, NULL), 0);
    assert_ptr_equal(m[0].watched, was);
    assert_false(lost_replace((uintptr_t)area - 1));
    assert_false(lost_replace((uintptr_t)(area + (size_t)N * 4096)));
    for (size_t i = 0; i < N; i++)
        lost_forget(&m[i]);
    assert_false(lost_replace((uintptr_t)area));
    munmap(area, (size_t)N * 4096);
    free(alarms);
}

static int child_asks(void *f)
{
    if (count_absent(f, keys, N_KEYS) != 0)
        return 1;
    return count_absent(f, others, N_OTHERS) < N_OTHERS / 3 ? 2 : 0;
}

TEST_WITH_GUARD(test_forked_child_is_guarded)
{
    const char *path = path_of("child");
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    FILTER f = open_filter(path);
    verified(f);
    cut(path, c.stages[0].offset + c.stages[0].length / PAGE_BYTES / 2 * PAGE_BYTES);
    in_child(child_asks, f); /* which faults first */
    IS(child_asks(f), 0);
    in_child(child_asks, f); /* and inherits ones */
}

/* A child does not have its parent's writer mapped. Another mapping at those addresses
 * is not ours to replace. */
static int child_faults_where_the_writer_was(void *ctx)
{
    struct tamis_writer *w = ctx;
    uint8_t *at = w->stages[0]->bits_map.address;
    signal(SIGBUS, SIG_DFL);
    if (tamis_guard_install(NULL) != 0)
        return 1;
    return touch_page(foreign_page(at));
}

/* Its own filter there is ours, all the same. */
static int child_maps_where_the_writer_was(void *ctx)
{
    struct tamis_writer *w = ctx;
    struct mapping m = {.address = w->stages[0]->bits_map.address, .n_bytes = 4096};
    struct mapping old = w->stages[0]->bits_map;
    foreign_page(m.address);
    if (lost_watch(&m, false, NULL) != 0)
        return 1;
    if (touch_page(m.address) != 0xff || !lost_page(&m, m.address))
        return 2;
    if (lost_page(&old, old.address) || atomic_load(&w->lost))
        return 3;
    lost_forget(&m);
    return tamis_writer_close(w, NULL) == 0 ? 0 : 4;
}

TEST_WITH_GUARD(test_child_has_no_part_in_a_writer)
{
    WRITER w = create_writer(path_of("parents"), 0.01, 2, N_KEYS);
    killed_in_child(child_faults_where_the_writer_was, w);
    in_child(child_maps_where_the_writer_was, w);
    add_hashes(w, keys, N_KEYS);
}

RUN_TESTS(set_up, test_dir_remove)
