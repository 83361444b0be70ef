/* Things in the place of a filter file, and files that change under their readers:
 * links, FIFOs, devices, sockets, other people's files; one that is exchanged, damaged
 * and mended between a check and its use, or that never stops changing. */
#include "tests/support/one_file.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { N_KEYS = 2000 };
static uint64_t keys[N_KEYS];

SET_UP(one_file_create, random_hashes(keys, N_KEYS))

static void build(const char *to)
{
    BUILD(to, keys, N_KEYS, .error = 1e-6);
}

static void grow(const char *to)
{
    grow_to(to, 300, keys, N_KEYS, 1);
}

static void expect_reader(const char *file, int code, const char *words)
{
    struct tamis_diag diag = reader_refused(file, NULL, code);
    assert_string_equal(diag.file, file);
    if (!strstr(diag.what, words))
        fail_msg("%s: '%s' does not say '%s'", file, diag.what, words);
}

static void expect(const char *file, int code, const char *words)
{
    expect_reader(file, code, words);
    struct tamis_diag diag = writer_refused(file, code);
    assert_string_equal(diag.file, file);
}

static void a_socket_at(const char *file)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    FD s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0 && strlen(file) < sizeof address.sun_path);
    memcpy(address.sun_path, file, strlen(file) + 1);
    OK(bind(s, (struct sockaddr *)(void *)&address, sizeof address));
}

/* None of these may block, either: the alarm ends the test. */
TEST(what_is_no_regular_file_is_refused)
{
    alarm(60);
    OK(mkdir(path_of("dir"), 0777));
    OK(mkfifo(path_of("fifo"), 0666));
    a_socket_at(path_of("socket"));
    OK(symlink("loop", path_of("loop")));
    OK(symlink("nowhere", path_of("dangling")));
    OK(symlink("fifo", path_of("to-fifo")));
    expect(path_of("dir"), EISDIR, "directory");
    expect(path_of("fifo"), EINVAL, "not a regular file");
    expect(path_of("to-fifo"), EINVAL, "not a regular file");
    expect("/dev/null", EINVAL, "not a regular file");
    expect("/dev/zero", EINVAL, "not a regular file");
    expect(path_of("socket"), ENXIO, "not a regular file");
    expect(path_of("loop"), ELOOP, "symbolic link");
    expect(path_of("dangling"), ENOENT, "No such file");
    alarm(0);
}

/* A caller's own path may lead through links; a hard link is the file itself, with its
 * lock. */
TEST(links_lead_to_the_file)
{
    grow(path);
    OK(link(path, path_of("hard")));
    OK(symlink("filter", path_of("soft")));
    WRITER w = open_writer(path);
    writer_refused(path_of("hard"), TAMIS_ERR_BUSY);
    writer_refused(path_of("soft"), TAMIS_ERR_BUSY);
    FILTER hard = open_filter(path_of("hard")), soft = open_filter(path_of("soft"));
    uint64_t more[500];
    random_hashes(more, 500);
    add_hashes(w, more, 500);
    IS(count_absent(hard, more, 500), 0);
    IS(count_absent(soft, more, 500), 0);
    IS(count_absent(hard, keys, N_KEYS), 0);
    unlink(path_of("hard"));
    unlink(path_of("soft"));
}

enum { NOBODY = 65534 };

/* In a child, for it gives up root for good. */
static int open_unreadable(void *ctx)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    if (getuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 1;
    if (tamis_filter_open(ctx, NULL, &f, &diag) != EACCES || f)
        return 2;
    return strstr(diag.what, "Permission denied") && strcmp(diag.file, ctx) == 0 ? 0
                                                                                 : 3;
}

/* The owner of a file does not matter if it can be read; for writing as well. */
TEST(files_of_another_owner)
{
    build(path);
    if (getuid() == 0)
        OK(chown(path, NOBODY, NOBODY));
    all_there(path, keys, N_KEYS);
    if (getuid() == 0)
        OK(chown(path, 0, 0));
    OK(chmod(path, 0));
    OK(chmod(test_dir, 0755));
    in_child(open_unreadable, path);
    OK(chmod(path, 0644));
    expect_reader("/etc/passwd", TAMIS_ERR_NOT_TAMIS, "magic");
    static const uint8_t zeros[8192];
    file_write(path_of("empty"), "", 0);
    expect_reader(path_of("empty"), TAMIS_ERR_NOT_TAMIS, "empty");
    file_write(path_of("zeros"), zeros, sizeof zeros);
    expect_reader(path_of("zeros"), TAMIS_ERR_NOT_TAMIS, "");
}

enum { ROUNDS = 1500, ASKED = 64 };

struct race {
    atomic_bool stop;
    unsigned long n_changes;
    const uint8_t *good;
    size_t n;
};

/* Opens and asks again and again, in the modes that check; meanwhile the other thread
 * changes the file. Returns how often there was a filter to ask. */
static size_t ask_for_long(void *(*change)(void *), struct race *r,
                           enum tamis_check least)
{
    pthread_t thread;
    size_t n_opened = 0;
    OK(pthread_create(&thread, NULL, change, r));
    for (int i = 0; i < ROUNDS || (n_opened == 0 && i < 100 * ROUNDS); i++) {
        static const enum tamis_check modes[] = {TAMIS_CHECK_STRICT, TAMIS_CHECK_LAZY,
                                                 TAMIS_CHECK_FULL};
        struct tamis_filter_options opt = {
            .size = sizeof opt,
            .check = least == TAMIS_CHECK_STRICT ? least : modes[i % 3]};
        FILTER f;
        if (tamis_filter_open(path, &opt, &f, NULL) != 0)
            continue;
        n_opened++;
        for (int again = 0; again < 3; again++) {
            size_t first = (size_t)i * ASKED % (N_KEYS - ASKED);
            IS(count_absent(f, keys + first, ASKED), 0);
        }
    }
    atomic_store(&r->stop, true);
    OK(pthread_join(thread, NULL));
    assert_true(r->n_changes > 100);
    return n_opened;
}

static void write_version(const struct race *r, unsigned which)
{
    FREED uint8_t *bytes = malloc(r->n);
    size_t n = r->n;
    if (!bytes)
        abort();
    memcpy(bytes, r->good, r->n);
    if (which % 4 == 1)
        bytes[100] ^= 1; /* the header */
    if (which % 4 == 2)
        memset(bytes + 3 * PAGE_BYTES, 0, PAGE_BYTES); /* bits, or floors */
    if (which % 4 == 3)
        n = r->n / 2;
    int fd = open(path_of("next"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd) != 0 ||
        rename(path_of("next"), path) != 0)
        abort();
}

/* Other files take the name: good, rotten, cut short. */
static void *exchange_files(void *ctx)
{
    struct race *r = ctx;
    while (!atomic_load(&r->stop) || r->n_changes <= 100)
        write_version(r, (unsigned)r->n_changes++);
    return NULL;
}

/* The same file is damaged and mended, a byte of each page in turn. Bits go and come
 * back; headers are wrong for moments. */
static void *damage_and_mend(void *ctx)
{
    struct race *r = ctx;
    FD fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        abort();
    while (!atomic_load(&r->stop) || r->n_changes <= 100) {
        size_t page = r->n_changes++ % (r->n / PAGE_BYTES);
        off_t at = (off_t)(page * PAGE_BYTES);
        static const uint8_t zeros[PAGE_BYTES];
        if (pwrite(fd, zeros, PAGE_BYTES, at) != PAGE_BYTES ||
            pwrite(fd, r->good + at, PAGE_BYTES, at) != PAGE_BYTES)
            abort();
    }
    return NULL;
}

static void race_of(void (*make)(const char *), void *(*change)(void *),
                    enum tamis_check least)
{
    struct race r = {0};
    make(path);
    FREED uint8_t *good = file_read(path, &r.n);
    r.good = good;
    assert_true(ask_for_long(change, &r, least) > 0);
}

TEST(exchanged_between_check_and_use)
{
    race_of(build, exchange_files, TAMIS_CHECK_LAZY);
    race_of(grow, exchange_files, TAMIS_CHECK_LAZY);
}

/* A lazy reader that has found a page good does not look again (SPEC.md §7.1); a strict
 * one asks the very copy that it checked. */
TEST(damaged_between_check_and_use)
{
    race_of(build, damage_and_mend, TAMIS_CHECK_STRICT);
    race_of(grow, damage_and_mend, TAMIS_CHECK_STRICT);
}

/* Each change of the stage table costs a reader a new mapping, and the old one must
 * stay for threads that use it. A filter has 30 stages in its life; a file with a new
 * table at every look is not a filter's. */
TEST(a_table_that_never_rests_takes_no_memory)
{
    grow(path);
    struct commit c = commit_of(path);
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, N_KEYS), 0);
    uint64_t before = status_bytes("VmSize");
    enum tamis_reason why = TAMIS_HIT;
    for (int i = 0; i < 5000; i++) {
        c.sequence++;
        c.generation++;
        put_slots(path, &c);
        IS(ask(f, keys[i % N_KEYS], &why), TAMIS_MAYBE);
    }
    IS(why, TAMIS_UNREADABLE);
    assert_true(status_bytes("VmSize") < before + (64 << 20));
    IS(atomic_load(&f->view)->n_older, 127);
    tamis_filter_close(f);
    /* A reader that opens it now finds a filter. */
    f = open_filter(path);
    IS(count_absent(f, keys, N_KEYS), 0);
    assert_true(count_absent(f, (const uint64_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 8) > 0);
}

RUN_TESTS(set_up, test_dir_remove)
