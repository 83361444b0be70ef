/* A filter in a file of its own: it is whole or not at all (R13), has no holes, and
 * replaces nothing. */
#include "tests/unit/builder/builder_support.h"

static void expect_present(const char *path, size_t n)
{
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, n), 0);
    verified(f);
}

/* ---- a file of its own ---- */

TEST_WITH_FAULTS(test_an_existing_file_stays)
{
    BUILDER b = builder_of(0.01, 1000);
    struct tamis_diag diag;
    size_t n_files = count_files(test_dir);
    file_write(path_of("taken"), "precious", 8);
    IS(tamis_builder_finish_file(b, path_of("taken"), &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.file, "taken"));
    file_has(path_of("taken"), "precious", 8);
    /* Nor is a dangling link followed. */
    OK(symlink(path_of("target"), path_of("link")));
    IS(tamis_builder_finish_file(b, path_of("link"), NULL), TAMIS_ERR_EXISTS);
    assert_false(exists(path_of("target")));
    /* A name that somebody takes after the first look. */
    fail_once(CALL_RENAME, 1, EEXIST);
    IS(tamis_builder_finish_file(b, path_of("raced"), NULL), TAMIS_ERR_EXISTS);
    IS(count_files(test_dir), n_files + 2);
    OK(tamis_builder_finish_file(b, path_of("free"), NULL));
    expect_present(path_of("free"), 1000);
}

TEST_WITH_FAULTS(test_rename_never_replaces)
{
    BUILDER b = builder_of(0.01, 1000);
    struct built built;
    const uint8_t uuid[UUID_BYTES] = {1};
    FD dir = open(test_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    file_write(path_of("late"), "precious", 8);
    size_t n_files = count_files(test_dir);
    /* With RENAME_NOREPLACE, and on file systems that do not know it. */
    for (int round = 0; round < 2; round++) {
        if (round)
            fail_from_now(CALL_RENAME, EINVAL);
        IS(builder_finish_at(b, uuid, dir, "late", true, &built, NULL),
           TAMIS_ERR_EXISTS);
        IS(count_files(test_dir), n_files);
    }
    IS(builder_finish_at(b, uuid, dir, "linked", true, &built, NULL), 0);
    IS(count_files(test_dir), n_files + 1);
    expect_present(path_of("linked"), 1000);
}

TEST(test_places_where_no_file_can_be)
{
    BUILDER b = builder_of(0.01, 1000);
    struct tamis_diag diag;
    char long_name[300];
    IS(tamis_builder_finish_file(b, path_of("no/such/dir/f"), &diag), ENOENT);
    assert_non_null(strstr(diag.file, "no/such/dir/f"));
    OK(mkdir(path_of("d"), 0777));
    IS(tamis_builder_finish_file(b, path_of("d"), NULL), TAMIS_ERR_EXISTS);
    IS(tamis_builder_finish_file(b, path_of("d/"), NULL), EISDIR);
    IS(tamis_builder_finish_file(b, "", NULL), EISDIR);
    file_write(path_of("file"), "", 0);
    IS(tamis_builder_finish_file(b, path_of("file/f"), NULL), ENOTDIR);
    memset(long_name, 'n', sizeof long_name);
    long_name[256] = 0;
    IS(tamis_builder_finish_file(b, path_of(long_name), &diag), ENAMETOOLONG);
    long_name[255] = 0; /* the longest there is, temporary name and all */
    OK(tamis_builder_finish_file(b, path_of(long_name), NULL));
    expect_present(path_of(long_name), 1000);
    IS(count_files(path_of("d")), 0);
}

/* As another user, since nothing is read-only to root. */
static int write_into_locked(void *ctx)
{
    struct tamis_builder *b;
    if (geteuid() == 0 && setuid(65534) != 0)
        return 2;
    if (tamis_builder_create(NULL, &b, NULL) != 0)
        return 3;
    return tamis_builder_finish_file(b, path_of("locked/f"), NULL) == EACCES ? 0 : 4;
}

TEST(test_read_only_directory)
{
    if (geteuid() == 0 && chmod(test_dir, 0755) != 0)
        fail();
    OK(mkdir(path_of("locked"), 0555));
    in_child(write_into_locked, NULL);
}

/* Lets the nth call of a kind fail, for n = 1, 2, ... until finishing needs fewer:
 * no name may stay behind, and the builder can try again. */
static void fail_each(enum call call, int error, double filter_error, size_t n_keys)
{
    BUILDER b = builder_of(filter_error, n_keys);
    size_t n_files = count_files(test_dir);
    unsigned long nth;
    for (nth = 1;; nth++) {
        struct tamis_diag diag;
        fail_once(call, nth, error);
        int err = tamis_builder_finish_file(b, path_of("attempt"), &diag);
        if (faults[call].n < nth && err == 0)
            break;
        IS(err, error);
        IS(diag.os_errno, error);
        assert_non_null(strstr(diag.file, "attempt"));
        IS(count_files(test_dir), n_files);
    }
    assert_true(nth > 1); /* there was something to fail */
    fail_never();
    expect_present(path_of("attempt"), n_keys);
    unlink(path_of("attempt"));
}

TEST_WITH_FAULTS(test_failures_leave_no_file)
{
    fail_each(CALL_PWRITE, EIO, 0.01, 1000);
    fail_each(CALL_PWRITE, ENOSPC, 1e-6, N_KEYS); /* with digests */
    fail_each(CALL_FSYNC, EIO, 0.01, 1000);       /* the file, then its directory */
    fail_each(CALL_RENAME, EACCES, 0.01, 1000);
}

static unsigned long n_pieces;
static ssize_t write_short(int fd, const void *buf, size_t n, off_t offset)
{
    if (n_pieces++ % 3 == 1)
        return errno = EINTR, -1;
    return pwrite(fd, buf, n > 1000 ? 1000 : n, offset);
}

static unsigned long n_reads;
static ssize_t read_short(int fd, void *buf, size_t n, off_t offset)
{
    if (n_reads++ % 3 == 1)
        return errno = EINTR, -1;
    return pread(fd, buf, n > 1000 ? 1000 : n, offset);
}

TEST_WITH_FAULTS(test_short_and_interrupted_calls)
{
    io_calls.pwrite = write_short;
    io_calls.pread = read_short;
    BUILD(path_of("pieces"), keys, 20000, .domain = &domain, .memory_limit = 4096);
    assert_true(n_pieces > 100 && n_reads > 100);
    expect_present(path_of("pieces"), 20000);
    FILTER f = open_filter(path_of("pieces"));
    assert_true(count_absent(f, keys + 100000, 100000) > 98500);
}

/* ---- inside another file ---- */

/* A file is as long as planned, and takes as much of the disk. */
TEST(test_no_file_has_holes)
{
    static const size_t sizes[] = {0, 1000, 30000, N_KEYS};
    for (size_t i = 0; i < N_OF(sizes); i++) {
        struct tamis_plan plan;
        BUILD(path_of("dense"), keys, sizes[i], .domain = &domain, .error = 1e-8);
        OK(tamis_plan_filter(sizes[i], 1e-8, &plan));
        struct stat st = stat_of(path_of("dense"));
        IS(st.st_size, plan.file_bytes);
        assert_true((uint64_t)st.st_blocks * 512 >= plan.file_bytes);
    }
}

/* ---- a thread that is cancelled ---- */

struct cancelled {
    struct tamis_builder *builder;
    int err;
};

static void *finish_cancelled(void *ctx)
{
    struct cancelled *c = ctx;
    c->err = tamis_builder_finish_file(c->builder, path_of("cancelled"), NULL);
    pthread_testcancel();
    return NULL;
}

/* It finishes first: its threads work on its stack. */
TEST(test_cancelled_at_work)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &domain, .error = 1e-4, .n_threads = 3};
    struct cancelled c = {.err = -1};
    pthread_t thread;
    void *result;
    size_t n_files = count_files(test_dir), n_tasks = count_files("/proc/self/task");
    OK(tamis_builder_create(&opt, &c.builder, NULL));
    OK(tamis_builder_add_hashes(c.builder, domain.tag, keys, N_KEYS));
    io_calls.pwrite = cancelling_pwrite;
    OK(pthread_create(&thread, NULL, finish_cancelled, &c));
    OK(pthread_join(thread, &result));
    io_calls.pwrite = pwrite;
    assert_true(result == PTHREAD_CANCELED);
    IS(c.err, 0);
    IS(count_files("/proc/self/task"), n_tasks);
    IS(count_files(test_dir), n_files + 1);
    tamis_builder_free(c.builder);
    expect_present(path_of("cancelled"), N_KEYS);
}

RUN_TESTS(set_up, test_dir_remove)
