/* A write-ahead log and a growing filter, through kill -9.
 *
 * The engine appends keys to its log, and syncs it: then they are acknowledged. It adds
 * them to the filter some time later, and commits now and then, with the log position
 * up to which it has added all. The rule that loses nothing:
 *
 *   - the watermark of a commit is what was added, not what was logged;
 *   - the log is trimmed up to what a commit has returned with, not further;
 *   - after a crash the log is replayed from the watermark of the filter on;
 *   - until then a reader that asks for the end of the log gets MAYBE.
 *
 * A child does this and is killed at random moments. The parent replays, and looks for
 * every key that was ever acknowledged.
 *
 *   cc -Ilib replay.c build/libtamis-filter.a -lxxhash -lm -pthread
 *   ./a.out [DIRECTORY]     a named directory stays, and the next run goes on there */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tamis.h>

enum { KILLS = 25, BATCH = 100, KEPT_BACK = 1000 };
enum { COMMIT_EVERY = 3000, N_ABSENT = 100000 };

static int log_fd;
/* Positions in the log, as in the filter, are counts of keys. */
static uint64_t log_end;

_Noreturn static void fail(const char *what, int error, const struct tamis_diag *diag)
{
    fprintf(stderr, "replay: %s: %s: %s\n", what, tamis_strerror(error),
            diag ? diag->what : "");
    exit(2);
}

/* The key at a position: the engine reads it in its log, the test knows it. */
static uint64_t key_at(uint64_t position)
{
    return (position + 1) * 0x9e3779b97f4a7c15;
}

/* ---- the log -------------------------------------------------------------------- */

static void log_open(void)
{
    off_t end;
    log_fd = open("log", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (log_fd < 0 || (end = lseek(log_fd, 0, SEEK_END)) < 0)
        fail("log", errno, NULL);
    log_end = (uint64_t)end / sizeof(uint64_t);
}

/* On return these keys are durable, and their puts are acknowledged. */
static void log_append(void)
{
    uint64_t keys[BATCH];
    for (uint64_t i = 0; i < BATCH; i++)
        keys[i] = key_at(log_end + i);
    if (pwrite(log_fd, keys, sizeof keys, (off_t)(log_end * 8)) != sizeof keys ||
        fdatasync(log_fd))
        fail("log", errno, NULL);
    log_end += BATCH;
}

static uint64_t log_read(uint64_t position)
{
    uint64_t key;
    if (pread(log_fd, &key, sizeof key, (off_t)(position * 8)) != sizeof key)
        fail("log", errno, NULL);
    if (key == 0)
        fail("the log was trimmed too early", ENODATA, NULL);
    return key;
}

/* The log before this position is never read again. */
static void log_trim(uint64_t position)
{
    if (position > 0 && fallocate(log_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                  (off_t)(position * 8)))
        fail("trimming the log", errno, NULL);
}

/* ---- the engine ----------------------------------------------------------------- */

/* Adds what the log has from `position` on, up to `end`. */
static void add(struct tamis_writer *writer, uint64_t position, uint64_t end)
{
    for (; position < end; position++) {
        uint64_t key = log_read(position);
        int rc = tamis_writer_add_key(writer, &key, sizeof key);
        if (rc)
            fail("adding", rc, NULL);
    }
}

/* Opens both and replays; on return the filter has every key of the log. This open
 * recovers a writer that was killed, so keys below the watermark are durable. */
static struct tamis_writer *engine_open(uint64_t *n_replayed)
{
    struct tamis_writer *writer;
    struct tamis_filter_info info;
    struct tamis_diag diag;
    log_open();
    int rc = tamis_writer_open("keys.tamis", NULL, &writer, &diag);
    if (rc == ENOENT)
        rc = tamis_writer_create("keys.tamis", NULL, &writer, &diag);
    if (rc)
        fail("keys.tamis", rc, &diag);
    tamis_writer_info(writer, &info, NULL);
    add(writer, info.watermark, log_end);
    *n_replayed += log_end - info.watermark;
    return writer;
}

/* On return the filter has durably what was added, up to `position`, and the log may be
 * trimmed: up to there, for this commit has returned. After a failed one there is no
 * second try: the writer is done for, to be opened anew, and the log replayed. */
static void engine_commit(struct tamis_writer *writer, uint64_t position)
{
    struct tamis_diag diag;
    int rc = tamis_writer_commit(writer, position, &diag);
    if (rc)
        fail("commit", rc, &diag);
    log_trim(position);
}

/* Until it is killed. The filter lags behind the log, as if another thread fed it. */
static void engine_run(void)
{
    uint64_t n_replayed = 0;
    struct tamis_writer *writer = engine_open(&n_replayed);
    for (uint64_t added = log_end, committed = 0;;) {
        log_append();
        if (log_end - added < KEPT_BACK)
            continue;
        add(writer, added, added + KEPT_BACK / 2);
        added += KEPT_BACK / 2;
        if (added - committed < COMMIT_EVERY)
            continue;
        engine_commit(writer, added);
        committed = added;
    }
}

/* ---- the test ------------------------------------------------------------------- */

static struct tamis_filter *reader_open(uint64_t min_watermark)
{
    struct tamis_filter *filter;
    struct tamis_diag diag;
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .min_watermark = min_watermark};
    int rc = tamis_filter_open("keys.tamis", &opt, &filter, &diag);
    if (rc)
        fail("keys.tamis", rc, &diag);
    return filter;
}

/* How many of the keys from `begin` to `end` are absent. */
static uint64_t count_absent(struct tamis_filter *filter, uint64_t begin, uint64_t end)
{
    uint64_t n = 0;
    struct tamis_filter_info info;
    tamis_filter_info(filter, &info, NULL);
    for (; begin < end; begin++) {
        uint64_t bytes = key_at(begin);
        struct tamis_key key = tamis_key_of(&info.domain, &bytes, sizeof bytes);
        n += tamis_filter_probe(filter, &key, NULL) == TAMIS_ABSENT;
    }
    return n;
}

static void kill_a_child(void)
{
    static long most_us = 40000; /* more, if a child logged nothing: a slow disk */
    int status;
    long us = random() % most_us;
    struct timespec moment = {us / 1000000, us % 1000000 * 1000};
    uint64_t before = log_end;
    pid_t child = fork(); /* while no writer is open: the child could not use it */
    if (child == 0) {
        engine_run();
        _exit(0);
    }
    nanosleep(&moment, NULL);
    if (child < 0 || kill(child, SIGKILL) || waitpid(child, &status, 0) != child)
        fail("a child", errno, NULL);
    if (!WIFSIGNALED(status))
        fail("a child ended by itself", ECHILD, NULL);
    log_open();
    close(log_fd);
    most_us += log_end == before && most_us < 1000000 ? most_us / 2 : 0;
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/replay.XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(made);
    uint64_t n_replayed = 0, n_lost = 0, n_behind = 0, n_hasty = 0, n_absent = 0;
    if (!dir || chdir(dir))
        fail(dir ? dir : made, errno, NULL);
    struct tamis_writer *first = engine_open(&n_replayed); /* makes what is missing */
    if (tamis_writer_close(first, NULL) || close(log_fd))
        fail("keys.tamis", errno, NULL);
    srandom((unsigned)time(NULL));
    for (int i = 0; i < KILLS; i++) {
        kill_a_child();
        /* A reader that wants the whole log gets MAYBE, BEHIND, until all is in. */
        struct tamis_filter *filter = reader_open(log_end);
        struct tamis_filter_info info;
        struct tamis_diag diag;
        int rc = tamis_filter_info(filter, &info, &diag);
        if (rc)
            fail("keys.tamis", rc, &diag);
        n_behind += info.watermark < log_end;
        if (info.watermark < log_end)
            n_hasty += count_absent(filter, log_end, log_end + 1000);
        struct tamis_writer *writer = engine_open(&n_replayed);
        engine_commit(writer, log_end);
        n_lost += count_absent(filter, 0, log_end);
        n_absent = count_absent(filter, log_end, log_end + N_ABSENT);
        tamis_filter_close(filter);
        if ((rc = tamis_writer_close(writer, &diag)))
            fail("keys.tamis", rc, &diag);
        close(log_fd);
    }
    double error = 1 - (double)n_absent / N_ABSENT;
    printf("%d times killed -9: %llu keys logged, %llu added by replay, %llu lost\n",
           KILLS, (unsigned long long)log_end, (unsigned long long)n_replayed,
           (unsigned long long)n_lost);
    printf("%llu times the filter was behind its log: %llu answers of ABSENT then\n",
           (unsigned long long)n_behind, (unsigned long long)n_hasty);
    printf("error %.3f%%, planned at most 1.000%%\n", 100 * error);
    if (n_lost > 0 || n_hasty > 0 || n_replayed == 0 || error > 0.012)
        return 1;
    fflush(stdout);
    return argc > 1 ? 0 : execlp("rm", "rm", "-r", dir, (char *)NULL);
}
