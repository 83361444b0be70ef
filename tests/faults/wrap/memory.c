/* The wrappers around the allocator, and around handlers. */
#include "tests/faults/wrap/wrap.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TAKEN(p) (tally.memory += in_lib && (p) != NULL, (p))

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__real_realpath(const char *path, char *to);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
char *__wrap_realpath(const char *path, char *to);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n)
{
    FAIL_AS(CALL_malloc, NULL);
    void *p = __real_malloc(n);
    if (p && in_lib)
        memset(p, 0xa5, n); /* nobody may count on zeros */
    return TAKEN(p);
}

void *__wrap_calloc(size_t n, size_t size)
{
    FAIL_AS(CALL_calloc, NULL);
    void *p = __real_calloc(n, size);
    return TAKEN(p);
}

void *__wrap_realloc(void *p, size_t n)
{
    FAIL_AS(CALL_realloc, NULL);
    bool fresh = !p;
    void *q = __real_realloc(p, n);
    if (fresh)
        return TAKEN(q);
    return q;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    FAIL_AS(CALL_aligned_alloc, NULL);
    void *p = __real_aligned_alloc(align, n);
    return TAKEN(p);
}

char *__wrap_strdup(const char *s)
{
    FAIL_AS(CALL_strdup, NULL);
    char *p = __real_strdup(s);
    return TAKEN(p);
}

char *__wrap_strndup(const char *s, size_t n)
{
    FAIL_AS(CALL_strndup, NULL);
    char *p = __real_strndup(s, n);
    return TAKEN(p);
}

char *__wrap_realpath(const char *path, char *to)
{
    FAIL_AS(CALL_realpath, NULL);
    char *p = __real_realpath(path, to);
    return TAKEN(p);
}

void __wrap_free(void *p)
{
    tally.memory -= in_lib && p;
    __real_free(p);
}

int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void),
                          void (*child)(void));
int __real_pthread_atfork(void (*before)(void), void (*parent)(void),
                          void (*child)(void));

int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void),
                          void (*child)(void))
{
    const struct fault *f = due(CALL_pthread_atfork);
    return f ? f->code : __real_pthread_atfork(before, parent, child);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how,
                          void *(*fn)(void *), void *arg);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how,
                          void *(*fn)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how,
                          void *(*fn)(void *), void *arg)
{
    const struct fault *f = due(CALL_pthread_create);
    return f ? f->code : __real_pthread_create(thread, how, fn, arg);
}

int __wrap_sigaction(int n, const struct sigaction *now, struct sigaction *before);
int __real_sigaction(int n, const struct sigaction *now, struct sigaction *before);

int __wrap_sigaction(int n, const struct sigaction *now, struct sigaction *before)
{
    FAIL_AS(CALL_sigaction, -1);
    return __real_sigaction(n, now, before);
}

int __wrap_pthread_key_create(pthread_key_t *key, void (*end)(void *));
int __real_pthread_key_create(pthread_key_t *key, void (*end)(void *));

int __wrap_pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    const struct fault *f = due(CALL_pthread_key_create);
    return f ? f->code : __real_pthread_key_create(key, end);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __real_pthread_setspecific(pthread_key_t key, const void *value);

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    const struct fault *f = due(CALL_pthread_setspecific);
    return f ? f->code : __real_pthread_setspecific(key, value);
}
