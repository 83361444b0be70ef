/* After a fork (R14) the child has readers, but no writer and no lock. */
#include "tests/support/filters.h"

enum { N_KEYS = 50 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

static int use_parents_writer(void *ctx)
{
    struct tamis_writer *w = ctx;
    struct tamis_filter_info info;
    uint64_t tag = w->domain.tag;
    if (tamis_writer_add_hashes(w, tag, keys + 100, 1) != TAMIS_ERR_FORKED)
        return 1;
    if (tamis_writer_add_key(w, "k", 1) != TAMIS_ERR_FORKED)
        return 2;
    if (tamis_writer_commit(w, 99, NULL) != TAMIS_ERR_FORKED)
        return 3;
    if (tamis_writer_seal(w, 99, NULL, NULL) != TAMIS_ERR_FORKED)
        return 4;
    if (tamis_writer_info(w, &info, NULL) != TAMIS_ERR_FORKED)
        return 5;
    return tamis_writer_close(w, NULL) == 0 ? 0 : 6;
}

TEST(test_forked_child_cannot_write)
{
    struct tamis_writer *w = create_writer(path_of("forked"), 0.01, 2, 1000);
    size_t n;
    add_hashes(w, keys, 100);
    OK(tamis_writer_commit(w, 1, NULL));
    FREED uint8_t *before = file_read(path_of("forked"), &n);
    in_child(use_parents_writer, w);
    file_has(path_of("forked"), before, n);
    /* The child's close did not let go of the parent's lock. */
    writer_refused(path_of("forked"), TAMIS_ERR_BUSY);
    add_hashes(w, keys + 100, 100);
    commit_and_close(w, 2);
}

/* A child that outlives its parent's writer, and reads on through the parent's reader
 * while that writer grows and seals. */
struct family {
    struct tamis_filter *f;
    int to_child[2], to_parent[2];
};

/* Every step: the parent says how many keys there are, the child how it went. */
static int child_reads(struct family *fam)
{
    uint32_t n;
    while (read(fam->to_child[0], &n, sizeof n) == sizeof n && n) {
        uint32_t lost = (uint32_t)count_absent(fam->f, keys, n);
        uint32_t told = (uint32_t)count_absent(fam->f, keys + N_KEYS - 1000, 1000);
        uint32_t answer = lost == 0 && told > 900 ? n : 0;
        if (write(fam->to_parent[1], &answer, sizeof answer) != sizeof answer)
            return 1;
    }
    tamis_filter_close(fam->f);
    return 0;
}

static void step(struct family *fam, uint32_t n)
{
    uint32_t answer = 0;
    IS(write(fam->to_child[1], &n, sizeof n), sizeof n);
    if (n)
        IS(read(fam->to_parent[0], &answer, sizeof answer), sizeof answer);
    IS(answer, n);
}

TEST(test_child_reads_on_and_keeps_no_lock)
{
    const char *path = path_of("family");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 100);
    struct family fam = {.f = open_filter(path)};
    int status;
    OK(pipe(fam.to_child));
    OK(pipe(fam.to_parent));
    add_hashes(w, keys, 50);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fam.to_child[1]);
        _exit(child_reads(&fam));
    }
    step(&fam, 50);
    add_hashes(w, keys + 50, 19950); /* seven stages more */
    step(&fam, 20000);
    OK(tamis_writer_close(w, NULL));
    /* The child lives, and has a copy of every descriptor but the lock's. */
    w = open_writer(path);
    add_hashes(w, keys + 20000, 1000);
    step(&fam, 21000);
    OK(tamis_writer_seal(w, 1, NULL, NULL));
    step(&fam, 21000);
    OK(tamis_writer_close(w, NULL));
    step(&fam, 0);
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    IS(count_absent(fam.f, keys, 21000), 0);
    tamis_filter_close(fam.f);
    for (int i = 0; i < 2; i++)
        close(fam.to_child[i]), close(fam.to_parent[i]);
}

/* A writer that is killed while a child of it lives: the kernel frees the lock, for
 * the child has neither its descriptor nor its mappings (which would hold it too). */
TEST(test_killed_parent_of_a_living_child)
{
    const char *path = path_of("killed");
    int to_test[2], to_orphan[2], status;
    char c;
    OK(pipe(to_test));
    OK(pipe(to_orphan));
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        struct tamis_writer *w = create_writer(path, 0.01, 2, 100);
        add_hashes(w, keys, 1000); /* several stages, so several mappings */
        tamis_writer_commit(w, 5, NULL);
        if (fork() == 0) {
            close(to_orphan[1]);
            if (write(to_test[1], "c", 1) == 1 && read(to_orphan[0], &c, 1) == 0)
                tamis_writer_close(w, NULL); /* a copy: touches nothing */
            _exit(0);
        }
        pause();
    }
    IS(read(to_test[0], &c, 1), 1); /* the child has begun */
    OK(kill(parent, SIGKILL));
    IS(waitpid(parent, &status, 0), parent);
    struct tamis_writer *w = open_writer(path);
    IS(w->watermark, 5);
    close(to_orphan[1]);
    OK(close(to_test[1]));
    IS(read(to_test[0], &c, 1), 0); /* the child has ended */
    add_hashes(w, keys + 1000, 1000);
    commit_and_close(w, 6);
    all_there(path, keys, 2000);
    close(to_test[0]);
    close(to_orphan[0]);
}

static struct {
    bool active;
    void *at; /* what has just been mapped */
    atomic_int thread;
    atomic_bool begun, done;
    int status, left;
} race;
static struct io_calls calls_of_before;

/* Runs before the library's own handler, which came earlier. */
static void fork_begins(void)
{
    if (race.active)
        atomic_store(&race.begun, true);
}

/* Does the child have the mapping? */
static void *forker(void *unused)
{
    uint8_t resident;
    atomic_store(&race.thread, (int)syscall(SYS_gettid));
    pid_t child = fork();
    if (child == 0)
        _exit(mincore(race.at, 1, &resident) == 0);
    IS(waitpid(child, &race.status, 0), child);
    atomic_store(&race.done, true);
    return unused;
}

/* Has the thread begun to fork, and does it wait for somebody? */
static bool waits(void)
{
    char path[64], line[512] = "";
    if (!atomic_load(&race.begun))
        return false;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&race.thread));
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool got = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    const char *state = got ? strrchr(line, ')') : NULL;
    return state && state[1] == ' ' && state[2] == 'S' && !atomic_load(&race.done);
}

static pthread_t racing;

/* Returns when the fork is over, or waits until it may go on. */
static void *racing_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    void *p = calls_of_before.mmap(at, n, prot, flags, fd, offset);
    if (p == MAP_FAILED || fd < 0 || race.left-- != 0)
        return p;
    race.at = p;
    race.active = true;
    OK(pthread_create(&racing, NULL, forker, NULL));
    while (!atomic_load(&race.done) && !waits())
        sched_yield();
    return p;
}

/* True if the nth mapping was raced for. */
static bool race_for(int nth)
{
    const char *path = path_of("race");
    calls_of_before = io_calls;
    io_calls.mmap = racing_mmap;
    race.left = nth;
    race.begun = race.done = false;
    struct tamis_writer *w = create_writer(path, 0.01, 2, 100);
    add_hashes(w, keys, 1000);
    OK(tamis_writer_close(w, NULL));
    io_calls = calls_of_before;
    OK(unlink(path));
    if (!race.active)
        return false;
    OK(pthread_join(racing, NULL));
    race.active = false;
    assert_true(WIFEXITED(race.status));
    IS(WEXITSTATUS(race.status), 0);
    return true;
}

TEST(test_fork_while_a_stage_is_mapped)
{
    int n = 0;
    io_fork_epoch(); /* the library's handlers first, so that ours run before them */
    OK(pthread_atfork(fork_begins, NULL, NULL));
    while (race_for(n))
        n++;
    assert_true(n >= 6); /* bits and floors of several stages */
}

RUN_TESTS(set_up, test_dir_remove)
