/* Threads beside the player, which add keys of their own to one filter. */
#include "tests/steps/words.h"

#include <sched.h>

static struct {
    pthread_t thread[HELPERS];
    struct tamis_writer *w;
    struct object *object;
    uint32_t most[HELPERS];
    atomic_bool stop;
    bool run;
} helpers;
atomic_uint helpers_running;
uint32_t helpers_most = 4000;
void (*helper_has_added)(void);

/* n: of the thread's own log, adds that returned. */
static void *help(void *n)
{
    enum { PAUSE = 64 };
    uint32_t k = (uint32_t)((uint32_t *)n - helpers.object->n_helping), i;
    uint8_t bytes[8];
    while ((i = *(uint32_t *)n) < helpers.most[k] && !atomic_load(&helpers.stop)) {
        struct tamis_key key = key_of_helper(helpers.object, k, i, bytes);
        int rc = tamis_writer_add_hashes(helpers.w, key.tag, &key.hash, 1);
        if (rc == TAMIS_ERR_SEALED)
            break;
        if (rc)
            broken_steps("a thread adds: %s", tamis_strerror(rc));
        __atomic_store_n((uint32_t *)n, i + 1, __ATOMIC_SEQ_CST);
        if (helper_has_added)
            helper_has_added();
        if (i % PAUSE == 0)
            sched_yield();
    }
    atomic_fetch_sub(&helpers_running, 1);
    return NULL;
}

void helpers_stop(void)
{
    atomic_store(&helpers.stop, true);
    for (size_t i = 0; i < HELPERS && helpers.run; i++)
        pthread_join(helpers.thread[i], NULL);
    helpers.run = false;
}

int helpers_word(struct player *p, const struct step *s)
{
    helpers_stop();
    if (s->word->text[0] != 't')
        return 0;
    struct object *o = first_object(p, s);
    size_t i = number_of(p, o);
    if (!p->writer[i] && run_writer(p, s) != 0)
        return 1;
    if (!p->writer[i] || is_sealed(o))
        return 0;
    helpers.w = p->writer[i];
    helpers.object = o;
    helpers.run = true;
    atomic_store(&helpers.stop, false);
    atomic_store(&helpers_running, HELPERS);
    for (i = 0; i < HELPERS; i++) {
        uint32_t most =
            o->n_helping[i] + 1 + (uint32_t)draw_below(&p->rng, helpers_most);
        helpers.most[i] = most < HELPER_MOST ? most : HELPER_MOST;
        if (pthread_create(&helpers.thread[i], NULL, help, &o->n_helping[i]) != 0)
            model_broken("no thread");
    }
    return 0;
}
