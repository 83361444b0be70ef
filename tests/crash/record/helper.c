/* A second thread, which adds a key now and then while a call of the first is at a
 * system call: in lock step, so that all is repeatable. */
#include "tests/crash/record/record.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

uint64_t run_helper_adds;

struct helper {
    pthread_t thread;
    sem_t go;
    atomic_bool busy, quit;
    struct tamis_writer *w;
    uint64_t hash, tag;
    int result;
};

static void *help(void *arg)
{
    struct helper *h = arg;
    for (;;) {
        while (sem_wait(&h->go) != 0)
            ;
        if (atomic_load(&h->quit))
            return NULL;
        h->result = tamis_writer_add_hashes(h->w, h->tag, &h->hash, 1);
        atomic_store(&h->busy, false);
    }
}

void helper_start(struct run *r, size_t object)
{
    r->helper_object = object;
    r->helper = calloc(1, sizeof *r->helper);
    if (!r->helper || sem_init(&r->helper->go, 0, 0) != 0 ||
        pthread_create(&r->helper->thread, NULL, help, r->helper) != 0)
        abort();
}

void helper_stop(struct run *r)
{
    helper_join(r);
    atomic_store(&r->helper->quit, true);
    sem_post(&r->helper->go);
    pthread_join(r->helper->thread, NULL);
    sem_destroy(&r->helper->go);
    free(r->helper);
    r->helper = NULL;
}

void helper_join(struct run *r)
{
    struct object *o = &r->promises.object[r->helper_object];
    if (!r->helper)
        return;
    while (atomic_load(&r->helper->busy))
        sched_yield();
    o->n_done = o->n_added;
}

/* glibc's mark of a mutex that someone waits for: its holder is who asks. */
static bool mutex_contended(struct tamis_writer *w)
{
    return __atomic_load_n(&w->mutex.__data.__lock, __ATOMIC_ACQUIRE) > 1;
}

/* Adds a key, up to where it has to wait for us (it may want to grow the filter). */
void helper_turn(struct run *r)
{
    struct helper *h = r->helper;
    struct object *o = &r->promises.object[r->helper_object];
    struct tamis_writer *w = r->player.writer[r->helper_object];
    uint8_t bytes[8];
    if (!h || !w || atomic_load(&h->busy) || rng_below(&r->rng, 2))
        return;
    struct tamis_key key = key_number(o->keys.range[0].from + o->n_added++, bytes);
    h->w = w;
    h->tag = key.tag;
    h->hash = key.hash;
    atomic_store(&h->busy, true);
    sem_post(&h->go);
    while (atomic_load(&h->busy) && !mutex_contended(w))
        sched_yield();
    run_helper_adds++;
    if (!atomic_load(&h->busy) && h->result)
        o->n_added--; /* refused: sealed or poisoned */
    record_look(r);
}
