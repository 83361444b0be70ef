/* For tests of several processes: to run this program again with an argument, to
 * share numbers with it, and to wait for it. */
#ifndef TAMIS_TESTS_PROCESS_SUPPORT_H
#define TAMIS_TESTS_PROCESS_SUPPORT_H

#include <spawn.h>
#include <sys/prctl.h>

#include "tests/support/store_support.h"

extern char **environ;

static UNUSED pid_t run(const char *mode, const char *arg)
{
    char self[] = "/proc/self/exe";
    char *argv[] = {self, strdup(mode), strdup(test_dir), strdup(arg), NULL};
    pid_t pid;
    OK(posix_spawn(&pid, self, NULL, NULL, argv, environ));
    for (int i = 1; i < 4; i++)
        free(argv[i]);
    return pid;
}

static UNUSED int wait_for(pid_t pid)
{
    int status;
    IS(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static UNUSED void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Shared by the processes of a test, in a mapped file. */
struct shared {
    _Atomic uint64_t n_added; /* keys below it have been added */
    _Atomic uint64_t n_base;  /* keys below it are in segment "base" */
    _Atomic uint64_t n_asked, n_absent, n_lost, n_stranger;
    _Atomic uint64_t n_merges, n_seals, ready, go, stop;
};

static UNUSED struct shared *share(void)
{
    FD fd = open(path_of("shared"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        abort();
    struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        abort();
    return s;
}

static UNUSED void wait_until(_Atomic uint64_t *v, uint64_t at_least)
{
    for (int i = 0; i < 60000; i++) { /* a minute, for machines that are slow or busy */
        if (*v >= at_least)
            return;
        sleep_ms(1);
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

static UNUSED enum tamis_answer ask_all(struct tamis_store *s, uint64_t i)
{
    SNAPSHOT snap;
    MUST(tamis_snapshot_current(s, &snap, NULL));
    struct tamis_key key = key_in(s, i);
    enum tamis_answer a = tamis_snapshot_probe_all(snap, &key, NULL, NULL);
    return a;
}

static UNUSED void put_range(struct tamis_edit *e, const char *name, uint64_t n)
{
    BUILDER b;
    MUST(tamis_edit_builder(e, name, strlen(name), 0, NULL, &b, NULL));
    for (uint64_t k = 0; k < n; k++)
        MUST(tamis_builder_add_key(b, key_text(k), strlen(key_text(k))));
    MUST(tamis_edit_put(e, b, NULL));
}

/* Becomes the program of run(): in the test's directory, and gone when the test is. */
static UNUSED void become(char **argv)
{
    snprintf(test_dir, sizeof test_dir, "%s", argv[2]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

#endif
