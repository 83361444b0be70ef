/* A thread that is held at a named place of the library (lib/sync_point.h), and what
 * threads do meanwhile to the one filter. */
#ifndef TAMIS_TESTS_HELD_SUPPORT_H
#define TAMIS_TESTS_HELD_SUPPORT_H

#define TAMIS_SYNC_POINTS
#include "tests/support/pair_support.h"
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <semaphore.h>

static _Thread_local struct held *me;

struct held {
    const char *at; /* where it stops, the `nth` time that it comes there */
    int nth;
    void (*what)(void *);
    void *ctx;
    pthread_t thread;
    sem_t there, go;
};

static UNUSED struct held t; /* for a test that holds one */

void sync_point(const char *name)
{
    if (!me || !me->at || strcmp(me->at, name) != 0 || --me->nth > 0)
        return;
    me->at = NULL;
    sem_post(&me->there);
    while (sem_wait(&me->go) != 0)
        ;
}

static UNUSED void *run_held(void *ctx)
{
    me = ctx;
    me->what(me->ctx);
    if (me->at) /* it never came there: a test that shows nothing */
        abort();
    return NULL;
}

static UNUSED void start(struct held *h, const char *at, int nth, void (*what)(void *),
                         void *ctx)
{
    *h = (struct held){.at = at, .nth = nth, .what = what, .ctx = ctx};
    sem_init(&h->there, 0, 0);
    sem_init(&h->go, 0, 0);
    OK(pthread_create(&h->thread, NULL, run_held, h));
    while (sem_wait(&h->there) != 0)
        ;
}

static UNUSED void let_go(struct held *h)
{
    sem_post(&h->go);
}

static UNUSED void end(struct held *h)
{
    let_go(h);
    OK(pthread_join(h->thread, NULL));
}

static UNUSED void add(void *key)
{
    add_hashes(writer, key, 1);
}

static UNUSED void commit(uint64_t watermark)
{
    OK(tamis_writer_commit(writer, watermark, NULL));
}

static UNUSED bool is_absent(struct tamis_filter *f, uint64_t key)
{
    return ask(f, key, NULL) == TAMIS_ABSENT;
}

/* The block of a key in stage i of the file, as it is before the key is added. */
static uint8_t without_it[BLOCK_BYTES];

static UNUSED uint64_t block_of(uint32_t i, uint64_t key)
{
    const struct commit c = commit_of(path);
    return c.stages[i].offset + geometry_block_offset(&c.stages[i].geometry, 0, key);
}

static UNUSED void block_read(uint64_t at, uint8_t block[BLOCK_BYTES])
{
    FD fd = open_to_read(path);
    IS(pread(fd, block, BLOCK_BYTES, (off_t)at), BLOCK_BYTES);
}

/* A key that is not in the filter, nor has all its bits there. */
static UNUSED void remember_block(uint32_t i, uint64_t key)
{
    assert_true(is_absent(reader, key));
    block_read(block_of(i, key), without_it);
}

/* Takes back the bits that came with the key, and no others, as a disk may lose them.
 * Is a reader misled that opens the file then? */
static UNUSED bool loss_is_missed(uint32_t i, uint64_t key)
{
    uint8_t now[BLOCK_BYTES];
    uint64_t at = block_of(i, key);
    block_read(at, now);
    assert_memory_not_equal(now, without_it, BLOCK_BYTES);
    file_poke(path, at, without_it, BLOCK_BYTES);
    struct tamis_filter *f = open_filter(path);
    bool missed = is_absent(f, key);
    tamis_filter_close(f);
    file_poke(path, at, now, BLOCK_BYTES);
    return missed;
}

/* The next stage begins, whether or not this one is full. */
static UNUSED void grow(void)
{
    uint32_t n = atomic_load(&writer->n_stages);
    writer->stages[n - 1]->n_full_bits = 0;
    IS(writer_grow(writer), 0);
    IS(atomic_load(&writer->n_stages), n + 1);
}

static volatile bool was_absent;

static UNUSED void probe_key(void *key)
{
    was_absent = is_absent(reader, *(uint64_t *)key);
}

#endif
