/* Creating and opening a store, and what is none or a newer one. */
#include "tests/support/store_support.h"
#include "format/checksum.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void create_refuses_what_is_there(void **state)
{
    struct tamis_diag diag;
    (void)state;
    OK(tamis_store_create(path_of("s"), NULL, &diag));
    assert_int_equal(tamis_store_create(path_of("s"), NULL, &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.what, "a store is here"));
    file_write(path_of("file"), "x", 1);
    assert_int_equal(tamis_store_create(path_of("file"), NULL, NULL), TAMIS_ERR_EXISTS);
    mkdir(path_of("full"), 0777);
    file_write(path_of("full/x"), "x", 1);
    assert_int_equal(tamis_store_create(path_of("full"), NULL, NULL), TAMIS_ERR_EXISTS);
    assert_int_equal(count_files(path_of("full")), 1);
    assert_int_equal(tamis_store_create(path_of("no/where"), NULL, NULL), ENOENT);
    mkdir(path_of("empty"), 0777);
    OK(tamis_store_create(path_of("empty/"), NULL, NULL));
    tamis_store_close(store_open("empty/"));
}

static void create_checks_its_options(void **state)
{
    static const struct tamis_growth bad[] = {
        {.error = 0.6},      {.error = 1e-9},
        {.factor = 1.1},     {.factor = 17},
        {.tightening = 0.4}, {.tightening = 0.96},
        {.error = -1},       {.first_capacity = (UINT64_C(1) << 32) + 1},
    };
    struct tamis_store_options opt = {.size = sizeof opt};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        opt.growth = bad[i];
        assert_int_equal(tamis_store_create(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
        assert_false(exists(path_of("s")));
    }
    struct tamis_domain forged = {.hash_id = 1, .seed = 5, .tag = 6};
    opt = (struct tamis_store_options){.size = sizeof opt, .domain = &forged};
    assert_int_equal(tamis_store_create(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
    opt.size = 3;
    assert_int_equal(tamis_store_create(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_store_create("", NULL, NULL), TAMIS_ERR_RANGE);
}

static void create_removes_what_it_made_on_failure(void **state)
{
    (void)state;
    struct io_calls saved = io_calls;
    io_calls.fsync = fail_fsync;
    assert_int_equal(tamis_store_create(path_of("s"), NULL, NULL), EIO);
    assert_false(exists(path_of("s")));
    mkdir(path_of("empty"), 0777);
    assert_int_equal(tamis_store_create(path_of("empty"), NULL, NULL), EIO);
    assert_int_equal(count_files(path_of("empty")), 0);
    io_calls = saved;
}

/* Several processes create one store at once: one does, the others are told. */
static void creating_at_once_makes_one_store(void **state)
{
    enum { ROUNDS = 20, CREATORS = 4 };
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        char name[16];
        int n_made = 0, n_told = 0, status;
        snprintf(name, sizeof name, "s%d", round);
        mkdir(path_of(name), 0777);
        for (int i = 0; i < CREATORS; i++)
            if (fork() == 0) {
                int rc = tamis_store_create(path_of(name), NULL, NULL);
                _exit(rc == 0 ? 0 : rc == TAMIS_ERR_EXISTS ? 1 : 2);
            }
        for (int i = 0; i < CREATORS; i++) {
            assert_true(wait(&status) > 0 && WIFEXITED(status));
            n_made += WEXITSTATUS(status) == 0;
            n_told += WEXITSTATUS(status) == 1;
        }
        assert_int_equal(n_made, 1);
        assert_int_equal(n_told, CREATORS - 1);
        tamis_store_close(store_open(name));
    }
}

static void *hold_for_a_moment(void *arg)
{
    int dir = *(int *)arg;
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    OK(flock(dir, LOCK_UN));
    return NULL;
}

/* One that waits for its turn, as we do, and was not let run just then. */
static void who_waits_as_well_is_not_in_the_way(void **state)
{
    pthread_t thread;
    (void)state;
    OK(mkdir(path_of("s"), 0777));
    int dir = open(path_of("s"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    OK(flock(dir, LOCK_SH));
    OK(pthread_create(&thread, NULL, hold_for_a_moment, &dir));
    OK(tamis_store_create(path_of("s"), NULL, NULL));
    OK(pthread_join(thread, NULL));
    close(dir);
    tamis_store_close(store_open("s"));
}

static void info_says_what_create_was_told(void **state)
{
    struct tamis_store *s = store_new("s");
    struct tamis_store_info info;
    (void)state;
    OK(tamis_store_info(s, &info, NULL));
    assert_int_equal(info.domain.seed, 42);
    assert_int_equal(info.growth.first_capacity, 100);
    assert_true(info.growth.factor == 1.9 && info.growth.error == 1e-4);
    assert_int_equal(info.n_segments, 0);
    assert_true(info.complete && !info.read_only && info.created > 0);
    assert_true(info.catalog_bytes >= 8192);
    assert_false(all_zero(info.uuid, sizeof info.uuid));
    tamis_store_close(s);
    tamis_store_close(NULL);
}

static int open_code(const char *name, const char *want)
{
    struct tamis_store *s = (void *)1;
    struct tamis_diag diag = {0};
    int rc = tamis_store_open(path_of(name), &s, &diag);
    assert_null(s);
    assert_int_equal(rc, diag.code);
    if (!strstr(diag.what, want))
        fail_msg("'%s' does not say '%s'", diag.what, want);
    return rc;
}

static void open_says_what_is_wrong(void **state)
{
    (void)state;
    assert_int_equal(open_code("none", "no such directory"), TAMIS_ERR_NO_STORE);
    file_write(path_of("file"), "x", 1);
    assert_int_equal(open_code("file", "not a directory"), TAMIS_ERR_NOT_TAMIS);
    mkdir(path_of("dir"), 0777);
    assert_int_equal(open_code("dir", "no store in this"), TAMIS_ERR_NO_STORE);
    mkdir(path_of("dir/filters"), 0777);
    assert_int_equal(open_code("dir", "cut short"), TAMIS_ERR_NO_STORE);
    assert_int_equal(count_files(path_of("dir")), 1); /* open creates nothing */
    mkdir(path_of("dir/catalog.lmdb"), 0777);
    assert_int_equal(open_code("dir", "not a regular file"), TAMIS_ERR_NOT_TAMIS);
    tamis_store_close(store_new("s"));
    rmdir(path_of("s/filters"));
    assert_int_equal(open_code("s", "filters/ is missing"), TAMIS_ERR_DAMAGED);
}

static void open_refuses_damaged_catalog_files(void **state)
{
    size_t n;
    (void)state;
    tamis_store_close(store_new("s"));
    const char *path = path_of("s/catalog.lmdb");
    uint8_t *good = file_read(path, &n), *zeros = calloc(1, n);
    file_write(path, "", 0);
    assert_int_equal(open_code("s", "empty"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, 100);
    assert_int_equal(open_code("s", "too short"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, 4096);
    assert_int_equal(open_code("s", "too short"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, 8192);
    assert_int_equal(open_code("s", "cut short"), TAMIS_ERR_DAMAGED);
    file_write(path, zeros, n);
    assert_int_equal(open_code("s", "zeros"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, n);
    file_poke(path, 4096, zeros, 4096);
    assert_int_equal(open_code("s", "zeros"), TAMIS_ERR_NOT_TAMIS);
    file_write(path,
               "#!/bin/sh\n# surely no catalog, but long enough to be looked at "
               "................................................................"
               "................................................................",
               180);
    assert_int_equal(open_code("s", "wrong magic"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, n);
    tamis_store_close(store_open("s"));
    free(good);
    free(zeros);
}

/* It is whole, and repair leaves it alone: where it was written it is good. */
static void a_catalog_of_another_machine_is_not_lost(void **state)
{
    static const uint8_t magic[2][4] = {{0xde, 0xc0, 0xef, 0xbe},
                                        {0xbe, 0xef, 0xc0, 0xde}};
    size_t n;
    (void)state;
    tamis_store_close(store_new("s"));
    const char *path = path_of("s/catalog.lmdb");
    uint8_t *good = file_read(path, &n);
    for (int word = 32; word <= 64; word += 32)
        for (int big = 0; big < 2; big++) {
            uint64_t at = word == 32 ? 12 : 16;
            if (memcmp(good + at, magic[big], 4) == 0)
                continue;
            file_write(path, good, n);
            file_poke(path, 16, (uint8_t[4]){0}, 4);
            file_poke(path, at, magic[big], 4);
            assert_int_equal(open_code("s", "another kind of machine"),
                             TAMIS_ERR_VERSION);
            uint8_t *before = file_read(path, &n);
            assert_int_equal(tamis_store_repair(path_of("s"), NULL, NULL, NULL),
                             TAMIS_ERR_VERSION);
            file_has(path, before, n);
            free(before);
        }
    free(good);
}

static void open_checks_the_first_record(void **state)
{
    uint8_t bytes[META_BYTES];
    (void)state;
    tamis_store_close(store_new("s"));
    struct meta m = meta_in("s");
    m.major = FORMAT_MAJOR + 1;
    put_meta("s", &m);
    assert_int_equal(open_code("s", "does not read"), TAMIS_ERR_VERSION);
    m.major = FORMAT_MAJOR;
    m.incompat = 1;
    put_meta("s", &m);
    assert_int_equal(open_code("s", "feature"), TAMIS_ERR_VERSION);
    meta_encode(&m, bytes);
    bytes[100] ^= 1;
    poke_catalog("s", "meta", "store", bytes, sizeof bytes);
    assert_int_equal(open_code("s", "checksum"), TAMIS_ERR_DAMAGED);
    poke_catalog("s", "meta", "store", NULL, 0);
    assert_int_equal(open_code("s", "cut short"), TAMIS_ERR_NOT_TAMIS);
    mkdir(path_of("other"), 0777);
    mkdir(path_of("other/filters"), 0777);
    poke_catalog("other", "accounts", "a", "1", 1);
    assert_int_equal(open_code("other", "no catalog of tamis"), TAMIS_ERR_NOT_TAMIS);
}

static void unknown_ro_feature_opens_read_only(void **state)
{
    struct tamis_edit *e;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    struct meta m = meta_in("s");
    m.ro_compat = UINT64_C(1) << 63;
    put_meta("s", &m);
    s = store_open("s");
    assert_int_equal(tamis_edit_begin(s, &e, NULL), TAMIS_ERR_READ_ONLY);
    assert_null(e);
    assert_int_equal(reason_of(s, "a", 3), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 77), ABSENT_HERE);
    tamis_store_close(s);
}

/* As a newer version, in another process, marks a store that we have open. */
static int mark_meta(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    const uint8_t *value;
    uint8_t bytes[META_BYTES];
    size_t n;
    OK(catalog_meta_value(t, &value, &n, diag));
    memcpy(bytes, value, n);
    bytes[*(const size_t *)ctx] |= 32;
    checksum_set(bytes, n, 0);
    return catalog_set_meta_value(t, bytes, n, diag);
}

static int mark_record(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    const uint8_t *value;
    uint8_t bytes[RECORD_MAX_BYTES];
    size_t n;
    (void)ctx;
    OK(catalog_get(t, "g", 1, &value, &n, diag));
    memcpy(bytes, value, n);
    bytes[offsetof(struct record_disk, ro_compat)] |= 32;
    bytes[offsetof(struct record_disk, list_uuid)] = 77;
    checksum_set(bytes, n, XXH3_64bits("g", 1));
    return catalog_replace(t, "g", 1, bytes, n, diag);
}

static int look_at_mark(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    const uint8_t *value;
    size_t n;
    (void)ctx;
    OK(catalog_get(t, "g", 1, &value, &n, diag));
    assert_int_equal(value[offsetof(struct record_disk, list_uuid)], 77);
    return 0;
}

static void features_that_come_later_are_heeded(void **state)
{
    static const size_t words[] = {offsetof(struct meta_disk, ro_compat),
                                   offsetof(struct meta_disk, incompat)};
    struct tamis_diag diag;
    struct tamis_snapshot *snap;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t at = words[i];
        const char *name = i ? "t" : "s";
        struct tamis_store *s = store_new(name);
        put_segment(s, "a", 0, 10);
        struct tamis_edit *e = edit_new(s);
        OK(tamis_edit_put_bare(e, "x", 1, NULL, NULL));
        OK(catalog_write(s->catalog, mark_meta, &at, NULL, NULL));
        assert_int_equal(tamis_edit_commit(e, &diag), TAMIS_ERR_VERSION);
        assert_non_null(strstr(diag.what, "feature"));
        assert_int_equal(tamis_store_confirm_complete(s, NULL), TAMIS_ERR_VERSION);
        assert_int_equal(tamis_snapshot_current(s, &snap, NULL),
                         i ? TAMIS_ERR_VERSION : 0);
        if (!i)
            assert_int_equal(tamis_snapshot_n_segments(snap), 1);
        tamis_snapshot_release(snap);
        tamis_store_close(s);
    }
}

static void a_record_marked_later_is_left_as_it_is(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_of_g();
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    OK(catalog_write(s->catalog, mark_record, NULL, NULL, NULL));
    OK(tamis_writer_add_key(w, "k", 1));
    OK(tamis_writer_commit(w, 9, NULL));
    tamis_writer_close(w);
    OK(catalog_read(s->catalog, look_at_mark, NULL, NULL));
    tamis_store_close(s);
}

static void one_environment_per_process(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    assert_int_equal(symlink(path_of("s"), path_of("link")), 0);
    struct tamis_store *b = store_open("link"), *c = store_open("s//");
    assert_ptr_equal(a->catalog, b->catalog);
    assert_ptr_equal(a->catalog, c->catalog);
    tamis_store_close(a);
    put_segment(b, "x", 0, 5);
    assert_int_equal(reason_of(c, "x", 2), TAMIS_HIT);
    tamis_store_close(b);
    tamis_store_close(c);
    a = store_open("s");
    assert_int_equal(reason_of(a, "x", 2), TAMIS_HIT);
    tamis_store_close(a);
}

/* ---- descriptors and locks ---- */

static int files_lock_fails; /* an errno for who locks a part of a file */
static bool next_duplicate_is_0;

int fcntl(int fd, int how, ...)
{
    va_list args;
    struct stat st;
    va_start(args, how);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (how == F_OFD_SETLK && files_lock_fails && fstat(fd, &st) == 0 &&
        S_ISREG(st.st_mode))
        return errno = files_lock_fails, -1;
    if (how == F_DUPFD_CLOEXEC && next_duplicate_is_0) {
        next_duplicate_is_0 = false;
        close(0);
        errno = 0;
    }
    return (int)syscall(SYS_fcntl, fd, how, argument);
}

/* Without the lock nobody would know which lock file this process uses. */
static void a_lock_that_fails_opens_nothing(void **state)
{
    struct tamis_diag diag;
    struct tamis_store *s;
    (void)state;
    tamis_store_close(store_new("s"));
    files_lock_fails = ENOLCK;
    assert_int_equal(tamis_store_open(path_of("s"), &s, &diag), ENOLCK);
    files_lock_fails = 0;
    assert_non_null(strstr(diag.what, "which lock file"));
    tamis_store_close(store_open("s"));
}

static int use_descriptor_0(void *ctx)
{
    (void)ctx;
    next_duplicate_is_0 = true;
    struct tamis_store *s = store_open("s");
    assert_false(next_duplicate_is_0);
    put_segment(s, "a", 0, 5);
    assert_int_equal(reason_of(s, "a", 2), TAMIS_HIT);
    tamis_store_close(s);
    return fcntl(0, F_GETFD) < 0 ? 0 : 1;
}

/* A service may have closed its standard input. */
static void descriptor_0_is_as_good_as_any(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    in_child(use_descriptor_0, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(create_refuses_what_is_there),
        TEST(create_checks_its_options),
        TEST(create_removes_what_it_made_on_failure),
        TEST(creating_at_once_makes_one_store),
        TEST(who_waits_as_well_is_not_in_the_way),
        TEST(info_says_what_create_was_told),
        TEST(open_says_what_is_wrong),
        TEST(open_refuses_damaged_catalog_files),
        TEST(a_catalog_of_another_machine_is_not_lost),
        TEST(open_checks_the_first_record),
        TEST(unknown_ro_feature_opens_read_only),
        TEST(features_that_come_later_are_heeded),
        TEST(a_record_marked_later_is_left_as_it_is),
        TEST(one_environment_per_process),
        TEST(a_lock_that_fails_opens_nothing),
        TEST(descriptor_0_is_as_good_as_any),
    };
    return cmocka_run_group_tests_name("store_open", tests, NULL, NULL);
}
