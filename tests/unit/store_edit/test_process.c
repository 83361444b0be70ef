/* The store between processes, real ones: this program runs itself with an argument.
 * Edits of others, what fork() leaves to the child, who may only read, and what the
 * calls cost in system calls. */
#include <spawn.h>
#include <sys/prctl.h>

#include "tests/support/store_support.h"

extern char **environ;

/* This program again. */
static pid_t run(const char *mode, const char *arg)
{
    char self[] = "/proc/self/exe";
    char *argv[] = {self, strdup(mode), strdup(test_dir), strdup(arg), NULL};
    pid_t pid;
    OK(posix_spawn(&pid, self, NULL, NULL, argv, environ));
    for (int i = 1; i < 4; i++)
        free(argv[i]);
    return pid;
}

static int wait_for(pid_t pid)
{
    int status;
    IS(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void sleep_a_ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Shared by the processes of a test, in a mapped file. */
struct shared {
    _Atomic uint64_t ready, go;
};

static struct shared *share(void)
{
    FD fd = open(path_of("shared"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        abort();
    struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        abort();
    return s;
}

static void wait_until(_Atomic uint64_t *v, uint64_t at_least)
{
    for (int i = 0; i < 60000; i++) { /* a minute, for machines that are slow or busy */
        if (*v >= at_least)
            return;
        sleep_a_ms();
    }
    fail_msg("waited in vain for another process");
}

/* In the helper processes there is no test to fail. */
#define MUST(call)                                                                     \
    do {                                                                               \
        int must_rc = (call);                                                          \
        if (must_rc) {                                                                 \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
                    tamis_strerror(must_rc));                                          \
            _exit(9);                                                                  \
        }                                                                              \
    } while (0)

/* ---- an edit in another process ---- */

static int be_editor(struct shared *shared)
{
    STORE s;
    struct tamis_edit *e;
    MUST(tamis_store_open(path_of("s"), NULL, &s, NULL));
    MUST(tamis_edit_begin(s, NULL, &e, NULL));
    if (edit_expect_none(e, "theirs", 6, NULL) == TAMIS_ERR_EXISTS) {
        tamis_edit_abort(e);
        return 5;
    }
    MUST(put_keys(e, "theirs", 0, 10, NULL));
    shared->ready = 1;
    while (!shared->go)
        sleep_a_ms();
    MUST(tamis_edit_commit(e, NULL));
    return 0;
}

TEST_IN_DIR(a_sweep_spares_the_edits_of_others)
{
    struct shared *shared = share();
    struct tamis_store *s = store_new("s");
    pid_t editor = run("editor", "");
    wait_until(&shared->ready, 1);
    put_segment(s, "ours", 0, 10); /* the first edit here: it would sweep */
    IS(n_filter_files("s"), 2);
    shared->go = 1;
    IS(wait_for(editor), 0);
    IS(reason_of(s, "theirs", 5), TAMIS_HIT);

    shared->ready = shared->go = 0;
    editor = run("editor", ""); /* which sees what it committed */
    IS(wait_for(editor), 5);
    drop_segment(s, "theirs");
    editor = run("editor", "");
    wait_until(&shared->ready, 1);
    OK(kill(editor, SIGKILL));
    wait_for(editor);
    IS(n_filter_files("s"), 2); /* one is an orphan */
    tamis_store_close(s);
    s = store_open("s");
    tamis_edit_abort(edit_new(s));
    IS(n_filter_files("s"), 1);
    tamis_store_close(s);
    munmap(shared, 4096);
}

static int be_adder(const char *arg)
{
    char name[32];
    STORE s;
    struct tamis_edit *e;
    MUST(tamis_store_open(path_of("s"), NULL, &s, NULL));
    MUST(tamis_edit_begin(s, NULL, &e, NULL));
    for (int i = 0; i < atoi(arg); i++) {
        snprintf(name, sizeof name, "segment-%d", i);
        MUST(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
    }
    MUST(tamis_edit_commit(e, NULL));
    return 0;
}

/* LMDB's MDB_MAP_RESIZED: the catalog outgrew our map in another process. */
TEST_IN_DIR(a_catalog_that_others_grew)
{
    STORE s = store_new("s");
    OK(mdb_env_set_mapsize(s->catalog->env, 1 << 17));
    IS(wait_for(run("adder", "5000")), 0);
    struct tamis_snapshot *snap = snapshot_of(s);
    IS(tamis_snapshot_info(snap).n_segments, 5000);
    tamis_snapshot_release(snap);
    put_segment(s, "one more", 0, 3);
    IS(reason_of(s, "segment-4999", 0), TAMIS_NO_FILTER);
}

/* ---- fork ---- */

struct inherited {
    struct tamis_store *store;
    struct tamis_edit *edit, *other;
    struct tamis_writer *writer;
    struct tamis_snapshot *snapshot;
};

#define FORKED(call) MUST((call) != TAMIS_ERR_FORKED)

static void child_is_refused(const struct inherited *in)
{
    struct tamis_store_info info;
    struct tamis_snapshot *snap;
    struct tamis_writer *w;
    struct tamis_edit *e;
    struct tamis_builder *b;
    struct tamis_filter_info f;
    FORKED(tamis_store_info(in->store, &info, NULL));
    FORKED(tamis_snapshot_current(in->store, &snap, NULL));
    FORKED(tamis_store_writer(in->store, "g", 1, NULL, &w, NULL));
    FORKED(tamis_edit_begin(in->store, NULL, &e, NULL));
    FORKED(tamis_edit_builder(in->edit, "x", 1, 0, NULL, &b, NULL));
    FORKED(tamis_edit_put_bare(in->edit, "x", 1, NULL, NULL));
    FORKED(tamis_edit_drop(in->edit, "a", 1, NULL, NULL));
    FORKED(tamis_edit_update(in->edit, "a", 1, NULL, NULL, NULL));
    FORKED(tamis_edit_reconcile(in->edit, NULL, NULL, 0, NULL, NULL));
    FORKED(tamis_edit_commit(in->edit, NULL));
    tamis_edit_abort(in->other);
    FORKED(tamis_writer_add_key(in->writer, "x", 1));
    FORKED(tamis_writer_commit(in->writer, 1, NULL));
    FORKED(tamis_writer_info(in->writer, &f, NULL));
    tamis_writer_close(in->writer, NULL);
}

static enum tamis_answer ask_first(struct tamis_snapshot *snap, uint64_t i)
{
    struct tamis_domain d = tamis_snapshot_info(snap).domain;
    struct tamis_key key = tamis_key_of(&d, key_text(i), strlen(key_text(i)));
    struct tamis_target t;
    MUST(tamis_snapshot_find(snap, "a", 1, NULL, 0, 0, &t));
    key.bytes = NULL;
    return tamis_snapshot_probe(snap, &t, &key, NULL);
}

static int be_child(const struct inherited *in, struct shared *shared)
{
    STORE fresh;
    child_is_refused(in);
    /* The snapshot works, even for a filter that nobody had opened yet. */
    MUST(ask_first(in->snapshot, 5) != TAMIS_MAYBE);
    MUST(ask_first(in->snapshot, 5000) != TAMIS_ABSENT);
    shared->ready = 1;
    while (!shared->go)
        sleep_a_ms();
    /* And a store that the child opens itself is as good as any. */
    MUST(tamis_store_open(path_of("s"), NULL, &fresh, NULL));
    struct tamis_edit *e;
    MUST(tamis_edit_begin(fresh, NULL, &e, NULL));
    MUST(tamis_edit_put_bare(e, "child", 5, NULL, NULL));
    MUST(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(in->snapshot);
    tamis_store_close(in->store);
    return 0;
}

TEST_IN_DIR(a_forked_child_touches_nothing)
{
    struct inherited in;
    struct shared *shared = share();
    in.store = store_new("s");
    put_segment(in.store, "a", 0, 10);
    put_growing(in.store, "g");
    OK(tamis_store_writer(in.store, "g", 1, NULL, &in.writer, NULL));
    OK(tamis_writer_add_key(in.writer, "k", 1));
    in.snapshot = snapshot_of(in.store);
    in.edit = edit_new(in.store);
    in.other = edit_new(in.store);
    OK(put_keys(in.edit, "b", 0, 10, NULL));
    OK(put_keys(in.other, "c", 0, 10, NULL));
    pid_t child = fork();
    if (child == 0)
        _exit(be_child(&in, shared));
    wait_until(&shared->ready, 1);
    IS(n_filter_files("s"), 4);
    OK(tamis_writer_commit(in.writer, 1, NULL));
    OK(tamis_writer_close(in.writer,
                          NULL)); /* the lock is free, though the child lives */
    OK(tamis_store_writer(in.store, "g", 1, NULL, &in.writer, NULL));
    OK(tamis_writer_close(in.writer, NULL));
    OK(tamis_edit_commit(in.edit, NULL));
    tamis_edit_abort(in.other);
    shared->go = 1;
    IS(wait_for(child), 0);
    IS(reason_of(in.store, "b", 5), TAMIS_HIT);
    IS(reason_of(in.store, "child", 5), TAMIS_NO_FILTER);
    IS(ask_first(in.snapshot, 5), TAMIS_MAYBE);
    tamis_snapshot_release(in.snapshot);
    tamis_store_close(in.store);
    munmap(shared, 4096);
}

/* ---- who may only read ---- */

static int be_unprivileged(void)
{
    struct tamis_store *s;
    struct tamis_store_info info;
    struct tamis_edit *e;
    struct tamis_writer *w;
    struct tamis_diag diag;
    if (getuid() == 0 && setuid(65534) != 0)
        return 8;
    MUST(chmod(path_of("s/catalog.lmdb-lock"), 0444) != 0 && getuid() != 65534);
    MUST(tamis_store_open(path_of("s"), NULL, &s, &diag));
    MUST(tamis_store_info(s, &info, NULL));
    MUST(info.read_only != 1);
    MUST(tamis_edit_begin(s, NULL, &e, NULL) != TAMIS_ERR_READ_ONLY);
    MUST(tamis_store_writer(s, "g", 1, NULL, &w, NULL) != TAMIS_ERR_READ_ONLY);
    MUST(reason_of(s, "a", 5) != TAMIS_HIT);
    MUST(reason_of(s, "a", 500) != ABSENT_HERE);
    tamis_store_close(s);
    return 0;
}

TEST_IN_DIR(some_may_only_read)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_growing(s, "g");
    tamis_store_close(s);
    OK(chmod(test_dir, 0755));
    OK(chmod(path_of("s/catalog.lmdb"), 0444));
    OK(chmod(path_of("s/catalog.lmdb-lock"), 0444));
    IS(wait_for(run("unprivileged", "")), 0);
    OK(chmod(path_of("s/catalog.lmdb-lock"), 0666));
    IS(wait_for(run("unprivileged", "")), 0);
}

/* ---- what it costs in system calls ---- */

/* Between two calls of getppid(): `current` n times, or one question to n segments. */
static int be_traced(const char *mode, const char *arg)
{
    STORE s;
    SNAPSHOT snap;
    MUST(tamis_store_open(path_of("s"), NULL, &s, NULL));
    MUST(tamis_snapshot_current(s, &snap, NULL));
    struct tamis_key key = key_in(s, 1000000);
    key.bytes = NULL;
    getppid();
    if (strcmp(mode, "current-loop") == 0) {
        for (int i = 0; i < atoi(arg); i++) {
            tamis_snapshot_release(snap);
            MUST(tamis_snapshot_current(s, &snap, NULL));
        }
    } else {
        MUST(ASK(snap, ALL, KEYS(&key, 1)) != TAMIS_ABSENT);
    }
    getppid();
    return 0;
}

/* How many system calls there were between the two, as strace saw them. */
static int traced_calls(const char *mode, const char *arg)
{
    char self[400], line[4000];
    int n = 0, marks = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    const char *log = path_of("strace");
    pid_t pid = fork();
    if (pid == 0) {
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* it traces, too */
        execlp("strace", "strace", "-f", "-qq", "-o", log, self, mode, test_dir, arg,
               (char *)NULL);
        fprintf(stderr, "strace is missing: apt-get install strace\n");
        _exit(127);
    }
    IS(wait_for(pid), 0);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        bool mark = strstr(line, "getppid(") != NULL;
        n += marks == 1 && !mark;
        marks += mark;
    }
    fclose(f);
    IS(marks, 2);
    return n;
}

TEST_IN_DIR(an_unchanged_snapshot_costs_no_system_call)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    /* A sanitizer may map memory of its own; one call for each would be a thousand. */
    assert_in_range(traced_calls("current-loop", "1000"), 0, 10);
}

TEST_IN_DIR(first_use_costs_six_system_calls)
{
    char name[32];
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "%d", i);
        OK(put_keys(e, name, (uint64_t)i, 1, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    int n = traced_calls("first-use", "");
    print_message("%.2f system calls a segment on first use\n", n / 500.0);
    assert_true(n <= 6 * 500 + 60); /* and a few of malloc's */
}

static int be(char **argv)
{
    snprintf(test_dir, sizeof test_dir, "%s", argv[2]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* gone when the test is */
    if (strcmp(argv[1], "editor") == 0)
        return be_editor(share());
    if (strcmp(argv[1], "adder") == 0)
        return be_adder(argv[3]);
    if (strcmp(argv[1], "unprivileged") == 0)
        return be_unprivileged();
    return be_traced(argv[1], argv[3]);
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return be(argv);
    return run_listed_tests(NULL, NULL);
}
