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

TEST(test_openings_are_told)
{
    assert_true(make(FIFO, path_of("fifo")));
    watch_it(path_of("fifo"));
    close(open(path_of("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    expect_opened(true);
    close(watch);
}

TEST(test_by_path)
{
    STORE s = store_new("attaching");
    for (enum special what = FIFO; what < N_SPECIALS; what++) {
        const char *path = path_of("special");
        struct tamis_filter *f;
        struct tamis_writer *w;
        if (!make(what, path))
            continue;
        unlink(path_of("link"));
        OK(symlink(path, path_of("link")));
        watch_it(path);
        IS(tamis_filter_open(path, NULL, &f, NULL), EINVAL);
        IS(tamis_filter_open(path_of("link"), NULL, &f, NULL), EINVAL);
        IS(tamis_writer_open(path, NULL, &w, NULL), EINVAL);
        assert_int_not_equal(attach_code(s, "a", path, NULL, NULL), 0);
        watched_in_vain();
    }
}

/* A caller's own descriptor can only be asked. */
TEST(test_by_descriptor)
{
    struct tamis_filter *f;
    int ends[2];
    OK(pipe(ends));
    IS(tamis_filter_open(NULL, INSIDE(.fd = ends[0]), &f, NULL), EINVAL);
    close(ends[0]);
    close(ends[1]);
}

TEST(test_in_a_store)
{
    static const char *const stores[] = {"fifos", "characters", "blocks"};
    for (enum special what = FIFO; what < N_SPECIALS; what++) {
        const char *name = stores[what], *file;
        STORE s = store_new(name);
        struct tamis_writer *w;
        put_growing(s, "g");
        file = file_of(s, name, "g");
        if (make(what, file)) {
            watch_it(file);
            IS(reason_of_hash(s, "g", 7), TAMIS_UNREADABLE);
            IS(tamis_store_writer(s, "g", 1, NULL, &w, NULL), EINVAL);
            watched_in_vain();
        }
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
