/* Threads that are held up, or go, in a system call of a probe that maps a growing
 * filter anew. */
#ifndef TAMIS_TESTS_STALL_SUPPORT_H
#define TAMIS_TESTS_STALL_SUPPORT_H

#include "tests/support/pair_support.h"

#include <semaphore.h>

static UNUSED void add_up_to(size_t from, size_t to)
{
    add_hashes(writer, keys + from, to - from);
}

static _Thread_local void (*in_pread)(void), (*after_pread)(void), (*in_mmap)(void);

static UNUSED void call_once(void (**fn)(void))
{
    void (*f)(void) = *fn;
    *fn = NULL;
    if (f)
        f();
}

static UNUSED ssize_t our_pread(int fd, void *buf, size_t n, off_t offset)
{
    call_once(&in_pread);
    ssize_t r = calls_before.pread(fd, buf, n, offset);
    call_once(&after_pread);
    return r;
}

/* Mappings of the file, not of memory. */
static UNUSED void *our_mmap(void *at, size_t n, int prot, int flags, int fd,
                             off_t offset)
{
    if (fd >= 0)
        call_once(&in_mmap);
    return calls_before.mmap(at, n, prot, flags, fd, offset);
}

static sem_t is_there, may_go;

static UNUSED void hold(void)
{
    int cancel; /* sem_wait() is a cancellation point: pread() is to be the first */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    sem_post(&is_there);
    while (sem_wait(&may_go) != 0)
        ;
    pthread_setcancelstate(cancel, &cancel);
}

enum where { IN_PREAD, AFTER_PREAD, IN_MMAP };

/* A thread that is cancelled does not clear the marks that ASan has put on its stack:
 * its end would be an error to ASan. The marks are cleared as before a longjmp(). */
static UNUSED void end_if_cancelled(void)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0) == 0)
        siglongjmp(here, 1);
    pthread_testcancel();
}

static UNUSED void *probe_held(void *where)
{
    void (**points[])(void) = {&in_pread, &after_pread, &in_mmap};
    *points[*(enum where *)where] = hold;
    size_t n_absent = count_absent(reader, keys, FIRST);
    end_if_cancelled();
    return (void *)(uintptr_t)n_absent;
}

static enum where place;

/* Up to so many keys there is one stage more each time. */
static const size_t ends[] = {1000, 2500, N};

static UNUSED void grow_once(enum where where)
{
    size_t before = where ? ends[where - 1] : FIRST;
    uint32_t n_stages = commit_of(path).n_stages;
    add_up_to(before, ends[where]);
    IS(commit_of(path).n_stages, n_stages + 1);
}

static UNUSED pthread_t start_held(enum where where)
{
    pthread_t thread;
    place = where;
    OK(pthread_create(&thread, NULL, probe_held, &place));
    while (sem_wait(&is_there) != 0)
        ;
    return thread;
}

static UNUSED void *end_held(pthread_t thread)
{
    void *result;
    sem_post(&may_go);
    OK(pthread_join(thread, &result));
    return result;
}

static UNUSED size_t n_mappings(void)
{
    char line[4096];
    size_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, path) != NULL;
    fclose(f);
    return n;
}

static UNUSED int stalls_open(void **state)
{
    sem_init(&is_there, 0, 0);
    sem_init(&may_go, 0, 0);
    if (pair_open(state) != 0)
        return -1;
    io_calls.pread = our_pread;
    io_calls.mmap = our_mmap;
    return 0;
}

static UNUSED int stalls_close(void **state)
{
    pair_close(state);
    return n_mappings() == 0 ? 0 : -1;
}

#define TEST_WITH_STALLS(name) TEST_WITH(stalls_open, stalls_close, name)

#endif
