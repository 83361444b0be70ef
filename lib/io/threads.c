/* Threads that help in one call of the library, and are joined before it returns. */
#include "lib/io/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

struct member {
    struct threads *threads;
    pthread_t thread;
    unsigned number;
};

struct threads {
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    void (*fn)(void *ctx, unsigned number);
    void *ctx;
    uint64_t round;   /* of work; a member runs each once */
    unsigned running; /* members that have not finished this round */
    bool end;
    int cancel; /* was it enabled in the caller's thread? */
    unsigned n; /* members beside the caller */
    struct member members[];
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct threads *t = m->threads;
    uint64_t round = 0;
    pthread_mutex_lock(&t->mutex);
    for (;;) {
        while (t->round == round && !t->end)
            pthread_cond_wait(&t->work, &t->mutex);
        if (t->end)
            break;
        round = t->round;
        pthread_mutex_unlock(&t->mutex);
        t->fn(t->ctx, m->number);
        pthread_mutex_lock(&t->mutex);
        if (--t->running == 0)
            pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* Blocks what helpers must not get: a signal that is sent to the process is the
 * caller's. A fault of a mapping goes to the thread that touches it, and kills the
 * process if that one blocks it: so SIGBUS stays as the caller has it. */
static void block_signals(bool read_mappings, sigset_t *before)
{
    sigset_t blocked;
    sigfillset(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
    if (!read_mappings || sigismember(before, SIGBUS))
        return;
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

struct threads *threads_start(unsigned n, bool read_mappings)
{
    struct threads *t =
        n < 2 ? NULL : calloc(1, sizeof *t + (n - 1) * sizeof t->members[0]);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    sigset_t before;
    block_signals(read_mappings, &before);
    for (; t->n + 1 < n; t->n++) {
        struct member *m = &t->members[t->n];
        *m = (struct member){.threads = t, .number = t->n + 1};
        if (pthread_create(&m->thread, NULL, member_main, m) != 0)
            break; /* fewer do the same work */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* A caller that is cancelled while it waits would leave its stack to them. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &t->cancel);
    return t;
}

unsigned threads_size(const struct threads *t)
{
    return t ? t->n + 1 : 1;
}

void threads_run(struct threads *t, void (*fn)(void *ctx, unsigned number), void *ctx)
{
    if (threads_size(t) == 1) {
        fn(ctx, 0);
        return;
    }
    pthread_mutex_lock(&t->mutex);
    t->fn = fn;
    t->ctx = ctx;
    t->running = t->n;
    t->round++;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->mutex);
    fn(ctx, 0);
    pthread_mutex_lock(&t->mutex);
    while (t->running)
        pthread_cond_wait(&t->done, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
}

void threads_end(struct threads *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    t->end = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->mutex);
    while (t->n > 0)
        pthread_join(t->members[--t->n].thread, NULL);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->mutex);
    pthread_setcancelstate(t->cancel, NULL);
    free(t);
}
