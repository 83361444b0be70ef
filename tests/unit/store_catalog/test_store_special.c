/* A name that is no regular file is not even opened: opening a device or a FIFO may
 * already do something. The kernel tells of each opening, by inotify. */
#include "tests/support/store_support.h"

#include <sys/inotify.h>
#include <sys/sysmacros.h>

static int watch;

static void expect_opened(bool opened)
{
    uint8_t events[4096];
    ssize_t n = read(watch, events, sizeof events);
    assert_true(opened ? n > 0 : n < 0 && errno == EAGAIN);
}

static void watch_it(const char *path)
{
    watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(watch >= 0);
    assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    expect_opened(false);
}

static void watched_in_vain(void)
{
    expect_opened(false);
    close(watch);
}

enum special { FIFO, CHARACTERS, BLOCKS, N_SPECIALS };

/* A FIFO; and, for who may make one, a device: null, and the first of the loops. */
static bool make(enum special what, const char *path)
{
    unlink(path);
    if (what == FIFO)
        return mkfifo(path, 0600) == 0;
    return what == CHARACTERS ? mknod(path, S_IFCHR | 0600, makedev(1, 3)) == 0
                              : mknod(path, S_IFBLK | 0600, makedev(7, 0)) == 0;
}

static void test_openings_are_told(void **state)
{
    (void)state;
    assert_true(make(FIFO, path_of("fifo")));
    watch_it(path_of("fifo"));
    close(open(path_of("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    expect_opened(true);
    close(watch);
}

static void test_by_path(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("attaching");
    for (enum special what = FIFO; what < N_SPECIALS; what++) {
        const char *path = path_of("special");
        struct tamis_filter *f;
        struct tamis_writer *w;
        if (!make(what, path))
            continue;
        unlink(path_of("link"));
        OK(symlink(path, path_of("link")));
        watch_it(path);
        assert_int_equal(tamis_filter_open(path, NULL, &f, NULL), EINVAL);
        assert_int_equal(tamis_filter_open(path_of("link"), NULL, &f, NULL), EINVAL);
        assert_int_equal(tamis_writer_open(path, &w, NULL), EINVAL);
        assert_int_not_equal(attach_code(s, "a", path, NULL, NULL), 0);
        watched_in_vain();
    }
    tamis_store_close(s);
}

/* A caller's own descriptor can only be asked. */
static void test_by_descriptor(void **state)
{
    struct tamis_filter *f;
    int ends[2];
    (void)state;
    OK(pipe(ends));
    assert_int_equal(tamis_filter_open_fd(ends[0], 0, 0, NULL, &f, NULL), EINVAL);
    close(ends[0]);
    close(ends[1]);
}

static void test_in_a_store(void **state)
{
    static const char *const stores[] = {"fifos", "characters", "blocks"};
    (void)state;
    for (enum special what = FIFO; what < N_SPECIALS; what++) {
        const char *name = stores[what], *file;
        struct tamis_store *s = store_new(name);
        struct tamis_writer *w;
        put_growing(s, "g");
        file = file_of(s, name, "g");
        if (make(what, file)) {
            watch_it(file);
            assert_int_equal(reason_of_hash(s, "g", 7), TAMIS_UNREADABLE);
            assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), EINVAL);
            watched_in_vain();
        }
        tamis_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openings_are_told),
        cmocka_unit_test(test_by_path),
        cmocka_unit_test(test_by_descriptor),
        cmocka_unit_test(test_in_a_store),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
