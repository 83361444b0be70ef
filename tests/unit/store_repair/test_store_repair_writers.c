/* Repair beside writers: it looks whether they are there, and takes nothing from them;
 * and what it cannot finish stops nothing else. */
#include "tests/support/shop/shop.h"

/* ---- the system's locks, watched ---- */

static unsigned n_taken;                /* locks taken by descriptor */
static int look_fails;                  /* an errno for each look at a lock */
static struct tamis_writer *closes_now; /* closed while somebody looks */

/* Locks of a filter, and looks at those of LMDB; not those of the catalog. */
static int is_watched(int fd, int how)
{
    char link[64], path[1024];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    const char *base = strrchr(path, '/');
    return fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) &&
           !(base && strcmp(base, "/catalog.lmdb") == 0) &&
           !(base && strcmp(base, "/catalog.lmdb-lock") == 0 && how == F_OFD_SETLK);
}

int fcntl(int fd, int how, ...)
{
    va_list args;
    va_start(args, how);
    void *argument = va_arg(args, void *);
    va_end(args);
    if ((how == F_OFD_SETLK || how == F_OFD_GETLK) && !is_watched(fd, how))
        return (int)syscall(SYS_fcntl, fd, how, argument);
    if (how == F_OFD_SETLK && ((struct flock *)argument)->l_type != F_UNLCK)
        n_taken++;
    if (how == F_OFD_GETLK && look_fails)
        return errno = look_fails, -1;
    if (how == F_OFD_GETLK && closes_now) {
        WRITER w = closes_now;
        closes_now = NULL;
    }
    return (int)syscall(SYS_fcntl, fd, how, argument);
}

#define A_AND_G "put a 0 100; growing g; grow g 100 100 1;"

/* ---- looking ---- */

TEST_OF_SCENES(a_dry_run_takes_no_writers_lock)
{
    scene("dry runs");
    steps(A_AND_G "kill 200");
    n_taken = 0;
    steps("repair dry; is finished=1");
    steps("flip g 5; repair dry; is quarantined=1"); /* in the header */
    IS(n_taken, 0);
}

/* If a look fails, a writer may be there. */
TEST_OF_SCENES(a_lock_that_cannot_be_looked_at)
{
    scene("the filter's: the file is left alone");
    steps(A_AND_G "kill 200");
    for (int torn = 0; torn < 2; torn++) {
        steps("%s; mark", torn ? "flip g 5" : "close");
        look_fails = ENOLCK;
        steps("repair; says noted g filters/; says %s; is done=0; stays",
              strerror(ENOLCK));
        look_fails = 0;
    }
    scene("the catalog's: it is not made anew");
    steps(A_AND_G "lose catalog; mark");
    look_fails = ENOLCK;
    steps("fails ENOLCK repair; told catalog.lmdb-lock; stays");
    look_fails = 0;
}

/* ---- what cannot be finished ---- */

/* A feature that forbids this tamis to write. */
static void forbid_writing(const char *path)
{
    size_t n;
    FREED uint8_t *bytes = file_read(path, &n);
    bytes[offsetof(struct identity_disk, ro_compat)] = 1;
    checksum_set(bytes, IDENTITY_BYTES, 0);
    file_poke(path, 0, bytes, IDENTITY_BYTES);
}

static ssize_t failing_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return errno = ENOSPC, -1;
}

static void on_a_full_disk(const char *text)
{
    calls_before = io_calls;
    io_calls.pwrite = failing_pwrite;
    steps("%s", text);
    io_calls = calls_before;
}

/* Everything else is repaired. A new catalog would promise what may not be durable; a
 * newer tamis' file is set aside: else it would stop every rebuild. */
TEST_OF_SCENES(what_cannot_be_finished_stops_nothing_else)
{
    for (int full = 0; full < 2; full++) {
        scene(full ? "a full disk" : "a newer filter");
        steps(A_AND_G "kill 200; flip a 4105");
        if (!full)
            forbid_writing(path_at("g"));
        steps("repair dry; is finished=%d", full);
        full ? on_a_full_disk("repair") : steps("repair");
        steps(
            "says quarantined a filters/; says noted g filters/; says left unfinished;"
            "is finished=0 unread=1; file g clean=0; gone a; has g 100 200");
        if (full)
            steps("repair; is finished=1");
        steps("settled");
    }
    scene("a rebuild lists nothing unfinished");
    steps(A_AND_G "kill 200; lose catalog");
    on_a_full_disk("fails ENOSPC repair; gone catalog");
    forbid_writing(path_at("g"));
    steps("repair; is quarantined=1; why g 99999 NO_FILTER; settled");
}

/* The header, read before the lock was looked at, says that its writer died. */
TEST_OF_SCENES(a_writer_that_closes_meanwhile_has_not_died)
{
    for (int dry = 0; dry < 2; dry++) {
        scene("a writer that ends");
        steps(A_AND_G "close; open");
        closes_now = writer_of(shop.store, "g");
        steps("live repair %s; is done=0 damaged=0 seen=0", dry ? "dry" : "");
        assert_null(closes_now);
    }
}

static struct tamis_writer *seals_now; /* and closes while its file is read */
static ino_t sealed_file;

static ssize_t sealing_pread(int fd, void *buf, size_t n, off_t at)
{
    struct tamis_writer *w = seals_now;
    struct stat st;
    if (w && fstat(fd, &st) == 0 && st.st_ino == sealed_file) {
        seals_now = NULL;
        OK(tamis_writer_seal(w, 3, NULL, NULL));
        OK(tamis_writer_close(w, NULL));
    }
    return calls_before.pread(fd, buf, n, at);
}

/* The record, read before the file was, does not know of the seal. */
TEST_OF_SCENES(nor_has_one_that_seals_meanwhile)
{
    for (int dry = 0; dry < 2; dry++) {
        scene("a writer that ends");
        steps(A_AND_G "close; open");
        struct stat st = stat_of(path_at("g"));
        sealed_file = st.st_ino;
        seals_now = writer_of(shop.store, "g");
        calls_before = io_calls;
        io_calls.pread = sealing_pread;
        steps("live repair %s; is done=0 damaged=0 seen=0", dry ? "dry" : "");
        io_calls = calls_before;
        assert_null(seals_now);
    }
}

RUN_TESTS(NULL, NULL)
