/* Creating and opening a store, and what is none or a newer one. */
#include "tests/support/shop/shop.h"

#include <sys/file.h>

/* 0: made a store, 1: found one, as it is meant. */
static int make_or_find(const char *path, enum tamis_create how)
{
    struct tamis_open_options opt = {.size = sizeof opt, .create = how};
    struct tamis_store *s;
    int rc = tamis_store_open(path, &opt, &s, NULL);
    if (rc)
        return rc == TAMIS_ERR_EXISTS && how == TAMIS_CREATE_NEW ? 1 : rc;
    return !store_info(s).is_new;
}

TEST_IN_DIR(create_refuses_what_is_there)
{
    struct tamis_diag diag;
    OK(create_store(path_of("s"), NULL, &diag));
    IS(create_store(path_of("s"), NULL, &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.what, "a store is here"));
    file_write(path_of("file"), "x", 1);
    IS(create_store(path_of("file"), NULL, NULL), TAMIS_ERR_EXISTS);
    mkdir(path_of("full"), 0777);
    file_write(path_of("full/x"), "x", 1);
    IS(create_store(path_of("full"), NULL, NULL), TAMIS_ERR_EXISTS);
    IS(make_or_find(path_of("full"), TAMIS_CREATE_IF_MISSING), TAMIS_ERR_NO_STORE);
    IS(make_or_find(path_of("s"), (enum tamis_create)3), TAMIS_ERR_RANGE);
    IS(count_files(path_of("full")), 1);
    IS(create_store(path_of("no/where"), NULL, NULL), ENOENT);
    mkdir(path_of("empty"), 0777);
    OK(create_store(path_of("empty/"), NULL, NULL));
    tamis_store_close(store_open("empty/"));
}

TEST_IN_DIR(create_checks_its_options)
{
    static const struct tamis_growth bad[] = {
        {.error = 0.6},      {.error = 1e-9},
        {.factor = 1.1},     {.factor = 17},
        {.tightening = 0.4}, {.tightening = 0.96},
        {.error = -1},       {.first_capacity = (UINT64_C(1) << 32) + 1},
    };
    struct tamis_open_options opt = {.size = sizeof opt};
    for (size_t i = 0; i < N_OF(bad); i++) {
        opt.growth = bad[i];
        IS(create_store(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
        assert_false(exists(path_of("s")));
    }
    struct tamis_domain forged = {.hash_id = 1, .seed = 5, .tag = 6};
    opt = (struct tamis_open_options){.size = sizeof opt, .domain = &forged};
    IS(create_store(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
    opt.size = 3;
    IS(create_store(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
    IS(create_store("", NULL, NULL), TAMIS_ERR_RANGE);
}

/* Several processes create one store at once: one does, the others find it. */
TEST_IN_DIR(creating_at_once_makes_one_store)
{
    enum { ROUNDS = 20, CREATORS = 4 };
    for (int round = 0; round < ROUNDS; round++) {
        char name[16];
        int n_made = 0, n_told = 0, status;
        snprintf(name, sizeof name, "s%d", round);
        mkdir(path_of(name), 0777);
        for (int i = 0; i < CREATORS; i++)
            if (fork() == 0)
                _exit(make_or_find(path_of(name), round % 2 ? TAMIS_CREATE_NEW
                                                            : TAMIS_CREATE_IF_MISSING));
        for (int i = 0; i < CREATORS; i++) {
            assert_true(wait(&status) > 0 && WIFEXITED(status));
            n_made += WEXITSTATUS(status) == 0;
            n_told += WEXITSTATUS(status) == 1;
        }
        IS(n_made, 1);
        IS(n_told, CREATORS - 1);
        STORE s = store_open(name);
        IS(store_info(s).complete, round % 2); /* the directory may have been lost */
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
TEST_IN_DIR(who_waits_as_well_is_not_in_the_way)
{
    pthread_t thread;
    OK(mkdir(path_of("s"), 0777));
    int dir = open(path_of("s"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    OK(flock(dir, LOCK_SH));
    OK(pthread_create(&thread, NULL, hold_for_a_moment, &dir));
    OK(create_store(path_of("s"), NULL, NULL));
    OK(pthread_join(thread, NULL));
    close(dir);
    tamis_store_close(store_open("s"));
}

TEST_IN_DIR(info_says_what_create_was_told)
{
    STORE s = store_new("s");
    struct tamis_store_info info = store_info(s);
    IS(info.domain.seed, 42);
    IS(info.growth.first_capacity, 100);
    assert_true(info.growth.factor == 1.9 && info.growth.error == 1e-4);
    IS(info.n_segments, 0);
    assert_true(info.complete && !info.read_only && info.created > 0);
    assert_true(info.catalog_bytes >= 8192);
    assert_false(all_zero(info.uuid, sizeof info.uuid));
    tamis_store_close(NULL);
}

TEST_OF_SCENES(open_says_what_is_wrong)
{
    static const struct scene_row rows[] = {
        {"no directory", "close", "use none",
         "fails NO_STORE open; told no such directory"},
        {"a file", "close", "text =file x; use file",
         "fails NOT_TAMIS open; told not a directory"},
        /* Opening creates nothing. */
        {"an empty directory, with filters/, with a directory for a catalog", "close",
         "mkdir =dir; use dir",
         "fails NO_STORE open; told no store in this; mkdir filters; fails NO_STORE "
         "open;"
         "told cut short; gone catalog lock; mkdir catalog; fails NOT_TAMIS open;"
         "told not a regular file"},
        /* A lost catalog is no missing store: its filters may be needed yet. */
        {"filters without a catalog, and what a creation has left",
         "put a 0 10; close; lose lock; move catalog catalog.lmdb.0123abcd.tmp; mark",
         "fails NO_STORE open missing; told filters/ is there; stays; lose a",
         "open missing; complete 0; segments 0; gone catalog.lmdb.0123abcd.tmp;"
         "put b 0 10; open missing; confirm; hits b 0 10"},
        {"no filters/", "close", "move filters =away",
         "fails DAMAGED open; told filters/ is missing"},
        {"an empty catalog", "close", "cut catalog 0",
         "fails NOT_TAMIS open; told empty"},
        {"100 bytes", "close", "cut catalog 100",
         "fails NOT_TAMIS open; told too short"},
        {"a page", "close", "cut catalog 4096", "fails NOT_TAMIS open; told too short"},
        {"two pages", "close", "cut catalog 8192",
         "fails DAMAGED open; told cut short"},
        {"zeros", "close", "zero catalog 0 3", "fails NOT_TAMIS open; told zeros"},
        {"zeros in the second meta page", "close", "zero catalog 1",
         "fails NOT_TAMIS open; told zeros"},
        {"a script", "close",
         "text catalog #!/bin/sh.surely.no.catalog,.but.long.enough.to.be.looked.at"
         "............................................................................."
         ".."
         "............................................................................."
         "..",
         "fails NOT_TAMIS open; told wrong magic"},
        {"a newer version", "close", "meta major=2",
         "fails VERSION open; told does not read"},
        {"a newer feature", "close", "meta incompat=1",
         "fails VERSION open; told feature"},
        {"a first record that rotted", "close", "rot_meta",
         "fails DAMAGED open; told checksum"},
        {"no first record", "close", "lose_meta",
         "fails NOT_TAMIS open; told cut short"},
        {"somebody else's database", "close",
         "mkdir =o; use o; mkdir filters; rubbish accounts a",
         "fails NOT_TAMIS open; told no catalog of tamis"},
        {"an unknown feature of those who write", "put a 0 10",
         "meta ro_compat=0x8000000000000000",
         "fails READ_ONLY begin; fails READ_ONLY repair; why a 3 HIT 77 ABSENT"},
    };
    IS(FORMAT_MAJOR, 1);
    PLAY_ROWS(rows);
}

/* It is whole, and repair leaves it alone: where it was written it is good. */
TEST_OF_SCENES(a_catalog_of_another_machine_is_not_lost)
{
    static const uint8_t magic[2][4] = {{0xde, 0xc0, 0xef, 0xbe},
                                        {0xbe, 0xef, 0xc0, 0xde}};
    size_t n;
    scene("another machine");
    steps("close");
    char path[1024];
    snprintf(path, sizeof path, "%s", path_at("catalog"));
    FREED uint8_t *good = file_read(path, &n);
    for (int word = 32; word <= 64; word += 32)
        for (int big = 0; big < 2; big++) {
            uint64_t at = word == 32 ? 12 : 16;
            if (memcmp(good + at, magic[big], 4) == 0)
                continue;
            file_write(path, good, n);
            file_poke(path, 16, (uint8_t[4]){0}, 4);
            file_poke(path, at, magic[big], 4);
            steps("fails VERSION open; told another kind of machine; mark;"
                  "fails VERSION repair; stays");
        }
}

TEST_OF_SCENES(features_that_come_later_are_heeded)
{
    play("that writers must know",
         "put a 0 10; begin; bare x; mark_meta ro_compat; fails VERSION commit;"
         "told feature; fails VERSION confirm; segments 1");
    play("that all must know",
         "put a 0 10; begin; bare x; mark_meta incompat; fails VERSION commit;"
         "told feature; fails VERSION confirm; fails VERSION hold");
    play("of a record that a writer is about to raise",
         "growing g; writer g; set_record g ro_compat=32; add 0 10; write 9; end;"
         "record g ro_compat=32 watermark=0; why g 5 HIT");
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
TEST_IN_DIR(a_lock_that_fails_opens_nothing)
{
    struct tamis_diag diag;
    struct tamis_store *s;
    tamis_store_close(store_new("s"));
    files_lock_fails = ENOLCK;
    IS(tamis_store_open(path_of("s"), NULL, &s, &diag), ENOLCK);
    files_lock_fails = 0;
    assert_non_null(strstr(diag.what, "which lock file"));
    tamis_store_close(store_open("s"));
}

static int use_descriptor_0(void *ctx)
{
    next_duplicate_is_0 = true;
    struct tamis_store *s = store_open("s");
    assert_false(next_duplicate_is_0);
    put_segment(s, "a", 0, 5);
    IS(reason_of(s, "a", 2), TAMIS_HIT);
    tamis_store_close(s);
    return fcntl(0, F_GETFD) < 0 ? 0 : 1;
}

/* A service may have closed its standard input. */
TEST_IN_DIR(descriptor_0_is_as_good_as_any)
{
    tamis_store_close(store_new("s"));
    in_child(use_descriptor_0, NULL);
}

RUN_TESTS(NULL, NULL)
