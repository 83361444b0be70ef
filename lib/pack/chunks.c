/* All rows of a pack, chunk by chunk: several threads make them, the caller's puts them
 * into the file, in their order.
 *
 *     threads   0        1        2       each takes the next chunk, if a slot is free
 *               v        v        v
 *     slots  [ made ] [ made ] [      ] [ made ]
 *               |  the oldest first
 *               v
 *     put()   thread 0, which makes chunks while the oldest is not ready
 *
 * Bytes do not depend on threads. When blocks cannot be read the threads stop, and the
 * caller's goes on alone from the first chunk that was not put. */
#include "lib/pack/inside.h"
#include "lib/io/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPARE = 2, /* slots beyond one a thread: they wait less for each other */
    MAX_SLOTS = PACK_MAX_THREADS + SPARE,
};

struct slot {
    struct chunk chunk;
    bool made;
    uint8_t *rows;
};

struct line {
    struct pack_job *job;
    put_fn *put;
    void *to;
    struct rows rows[PACK_MAX_THREADS];
    unsigned n_threads; /* that have room for their work */
    struct slot slots[MAX_SLOTS];
    unsigned n_slots;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    struct chunk next;       /* to be taken */
    uint64_t n_taken, n_put; /* chunks */
    bool stop;
    int err; /* of put() */
};

/* ---- which chunk ---- */

static bool at_end(const struct line *l, const struct chunk *c)
{
    return c->band == l->job->plan->n_bands;
}

/* Its number of blocks. */
static void size_chunk(const struct line *l, struct chunk *c)
{
    if (at_end(l, c))
        return;
    const struct band *b = &l->job->plan->bands[c->band];
    uint64_t left = b->geometry.n_blocks - c->first;
    c->n = left < chunk_blocks(b) ? (uint32_t)left : chunk_blocks(b);
}

static void go_on(const struct line *l, struct chunk *c)
{
    const struct geometry *g = &l->job->plan->bands[c->band].geometry;
    c->first += c->n;
    if (c->first == g->n_blocks) {
        c->first = 0;
        c->lane++;
    }
    if (c->lane == g->lanes) {
        c->lane = 0;
        c->band++;
    }
    size_chunk(l, c);
}

static size_t chunk_bytes(const struct line *l, const struct chunk *c)
{
    return (size_t)c->n * BLOCK_BITS * l->job->plan->bands[c->band].row_bytes;
}

/* ---- several threads ---- */

/* With the mutex, which it gives back meanwhile. */
static void put_oldest(struct line *l)
{
    struct slot *s = &l->slots[l->n_put % l->n_slots];
    pthread_mutex_unlock(&l->mutex);
    int err = l->put(l->to, s->rows, chunk_bytes(l, &s->chunk));
    pthread_mutex_lock(&l->mutex);
    s->made = false;
    l->n_put++;
    l->err = err;
    l->stop |= err != 0;
}

static void make_next(struct line *l, unsigned number)
{
    struct slot *s = &l->slots[l->n_taken++ % l->n_slots];
    s->chunk = l->next;
    go_on(l, &l->next);
    pthread_mutex_unlock(&l->mutex);
    bool good = rows_make(&l->rows[number], &s->chunk, s->rows);
    pthread_mutex_lock(&l->mutex);
    s->made = good;
    l->stop |= !good;
}

/* Does something, if there is something to do. */
static bool step(struct line *l, unsigned number)
{
    if (number == 0 && l->slots[l->n_put % l->n_slots].made)
        put_oldest(l);
    else if (!at_end(l, &l->next) && l->n_taken - l->n_put < l->n_slots)
        make_next(l, number);
    else
        return false;
    return true;
}

static void work(void *ctx, unsigned number)
{
    struct line *l = ctx;
    pthread_mutex_lock(&l->mutex);
    while (number < l->n_threads && !l->stop) {
        if (step(l, number))
            pthread_cond_broadcast(&l->changed);
        else if (at_end(l, &l->next) && (number > 0 || l->n_put == l->n_taken))
            break;
        else
            pthread_cond_wait(&l->changed, &l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
}

/* ---- all of it ---- */

/* The first chunk that was not put, and whatever follows. */
static void make_alone(struct line *l)
{
    struct chunk c =
        l->n_put < l->n_taken ? l->slots[l->n_put % l->n_slots].chunk : l->next;
    l->rows[0].alone = true;
    for (; !at_end(l, &c) && !l->err; go_on(l, &c)) {
        rows_make(&l->rows[0], &c, l->slots[0].rows);
        l->err = l->put(l->to, l->slots[0].rows, chunk_bytes(l, &c));
    }
}

/* The longest chunk of any band. */
static size_t slot_bytes(const struct pack_plan *p)
{
    size_t most = 0;
    for (uint32_t i = 0; i < p->n_bands; i++) {
        const struct band *b = &p->bands[i];
        size_t n = (size_t)chunk_blocks(b) * BLOCK_BITS * b->row_bytes;
        most = n > most ? n : most;
    }
    return most;
}

static bool add_slot(struct line *l)
{
    uint8_t *rows = aligned_alloc(BLOCK_BYTES, slot_bytes(l->job->plan));
    if (rows)
        l->slots[l->n_slots++].rows = rows;
    return rows != NULL;
}

/* Room for one thread, or it fails; for the others if there is memory. */
static int line_create(struct line *l, unsigned n_threads)
{
    for (; l->n_threads < n_threads && l->n_threads < PACK_MAX_THREADS;
         l->n_threads++) {
        struct rows *r = &l->rows[l->n_threads];
        if (rows_create(r, l->job, l->n_threads) != 0 || !add_slot(l))
            break;
    }
    for (int i = 0; i < SPARE && l->n_threads > 1; i++)
        add_slot(l);
    return l->n_threads == 0 ? ENOMEM : 0;
}

static void line_free(struct line *l)
{
    for (size_t i = 0; i < PACK_MAX_THREADS; i++)
        rows_free(&l->rows[i]);
    for (size_t i = 0; i < MAX_SLOTS; i++)
        free(l->slots[i].rows);
}

int chunks_make(struct pack_job *job, put_fn *put, void *to)
{
    struct line l = {.job = job, .put = put, .to = to};
    int err = line_create(&l, threads_size(job->threads));
    size_chunk(&l, &l.next);
    if (!err && l.n_threads > 1) {
        pthread_mutex_init(&l.mutex, NULL);
        pthread_cond_init(&l.changed, NULL);
        threads_run(job->threads, work, &l);
        pthread_cond_destroy(&l.changed);
        pthread_mutex_destroy(&l.mutex);
    }
    if (!err)
        make_alone(&l);
    line_free(&l);
    return err ? err : l.err;
}
