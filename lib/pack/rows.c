/* Blocks to rows: 64 columns at a time, and of those a slab of blocks.
 *
 *     column   0   1   2 ... 63        for each block of the slab
 *     source  [ ] [ ] [ ]    [ ]       64 blocks side by side
 *              |   |   |      |                 |
 *     fold, repeat                       kernel->transpose()
 *              v   v   v      v                 |
 *     blocks  [ ] [ ] [ ]    [ ]  --->  512 rows of 64 bits, put into their places
 *
 * Rows of a slab stay in the cache while all columns go into them.
 *
 * All rows of a pack are made slab by slab: several threads make them, the caller's
 * puts them into the file, in their order.
 *
 *     threads   0        1        2       each takes the next slab, if there is room
 *               v        v        v
 *     ring   [ made ] [ made ] [      ] [ made ]
 *               |  the oldest first
 *               v
 *     put()   thread 0, which makes slabs while the oldest is not ready
 *
 * Bytes do not depend on threads. When blocks cannot be read the threads stop, and the
 * caller's goes on alone from the first slab that was not put. */
#include "lib/pack/inside.h"
#include "lib/io/threads.h"

#include <pthread.h>

/* ---- the rows of a slab ---- */

enum {
    GROUP = 64, /* columns that are turned together */
    SLAB_BYTES = 1 << 20,
    SLAB_BLOCKS = 64, /* a page of each column */
    /* A column's blocks before its fold come in pieces of this size. */
    SOURCE_BYTES = 1 << 16,
    SOURCE_BLOCKS = SOURCE_BYTES / BLOCK_BYTES,
};

/* Neighbouring blocks of a band, whose rows are made together. */
struct slab {
    uint32_t band, lane;
    uint64_t first;
    uint32_t n; /* blocks */
};

/* Where one thread makes rows. */
struct row_maker {
    struct pack_job *job;
    const struct kernel *kernel;
    unsigned thread;
    bool alone;      /* no other thread makes rows of this job */
    uint8_t *blocks; /* of 64 columns, as they are in the band: their slabs */
    uint8_t *source; /* of one column, before its fold */
};

/* The most blocks in a slab. */
static uint32_t slab_blocks(const struct band *b)
{
    uint32_t n = SLAB_BYTES / (BLOCK_BITS * b->row_bytes);
    return n == 0 ? 1 : n > SLAB_BLOCKS ? SLAB_BLOCKS : n;
}

static void row_maker_free(struct row_maker *r)
{
    free(r->blocks);
    free(r->source);
    memset(r, 0, sizeof *r);
}

/* Memory for any band, about 320 KiB. */
static int row_maker_create(struct row_maker *r, struct pack_job *job, unsigned thread)
{
    *r = (struct row_maker){
        .job = job,
        .kernel = kernel_get(),
        .thread = thread,
        .blocks = aligned_alloc(BLOCK_BYTES, GROUP * SLAB_BLOCKS * BLOCK_BYTES),
        .source = aligned_alloc(BLOCK_BYTES, SOURCE_BYTES),
    };
    if (r->blocks && r->source)
        return 0;
    row_maker_free(r);
    return ENOMEM;
}

/* Blocks of a source as they are. If a block cannot be read, the source's column is
 * ones from there on. The place must not depend on threads: while other threads work,
 * it only returns false, and a lone thread makes the slab again. */
static bool read_blocks(struct row_maker *r, uint32_t source, uint32_t lane,
                        uint64_t first, uint64_t n, uint8_t *out)
{
    const struct pack_job *job = r->job;
    if (!(job->gone && job->gone[source]) &&
        job->blocks(job->ctx, r->thread, source, lane, first, n, out))
        return true;
    if (!r->alone)
        return false;
    job->gone[source] = true;
    memset(out, 0xff, (size_t)n * BLOCK_BYTES);
    return true;
}

/* Own blocks [first, first + n) of a column: each the union of `fold` blocks of the
 * source. */
static bool read_own(struct row_maker *r, uint32_t source, uint64_t fold, uint32_t lane,
                     uint64_t first, uint64_t n, uint8_t *out)
{
    if (fold == 1)
        return read_blocks(r, source, lane, first, n, out);
    memset(out, 0, n * BLOCK_BYTES);
    for (uint64_t at = 0, some; at < n * fold; at += some) {
        some = n * fold - at < SOURCE_BLOCKS ? n * fold - at : SOURCE_BLOCKS;
        if (!read_blocks(r, source, lane, first * fold + at, some, r->source))
            return false;
        for (uint64_t i = 0; i < some; i++)
            block_join(out + (at + i) / fold * BLOCK_BYTES,
                       r->source + i * BLOCK_BYTES);
    }
    return true;
}

/* The slab of a column as the band has it. */
static bool read_column(struct row_maker *r, uint32_t source, const struct slab *c,
                        uint8_t *out)
{
    const struct pack_source *s = &r->job->sources[source];
    const struct band *b = &r->job->plan->bands[c->band];
    uint64_t own = pack_own_blocks(s, b), times = b->geometry.n_blocks / own;
    uint64_t fold = s->folded_blocks ? s->geometry.n_blocks / own : 1;
    uint64_t begin = c->first / times, end = (c->first + c->n - 1) / times + 1;
    if (!read_own(r, source, fold, c->lane, begin, end - begin, out))
        return false;
    /* From the end on: a block moves up, and never onto one that is still to move. */
    for (uint32_t i = c->n; times > 1 && i-- > 0;)
        memmove(out + i * BLOCK_BYTES,
                out + ((c->first + i) / times - begin) * BLOCK_BYTES, BLOCK_BYTES);
    return true;
}

/* 64 columns of block i of the slab, to `out` and every row_bytes behind it. */
static void put_rows(struct row_maker *r, uint32_t i, uint32_t n_columns, uint8_t *out,
                     uint32_t row_bytes)
{
    _Alignas(BLOCK_BYTES) uint64_t square[GROUP][WORDS_PER_BLOCK];
    uint32_t n = row_bytes < 8 ? row_bytes : 8;
    for (uint32_t c = 0; c < n_columns; c++)
        memcpy(square[c], r->blocks + (c * SLAB_BLOCKS + i) * BLOCK_BYTES, BLOCK_BYTES);
    memset(square[n_columns], 0, (GROUP - n_columns) * sizeof square[0]);
    r->kernel->transpose(square);
    for (uint32_t word = 0; word < WORDS_PER_BLOCK; word++)
        for (uint32_t bit = 0; bit < GROUP; bit++, out += row_bytes)
            memcpy(out, &square[bit][word], n == 8 ? 8 : n);
}

/* Makes the rows of a slab. False: blocks cannot be read. A lone thread puts ones from
 * there on instead, and never returns false. */
static bool rows_make(struct row_maker *r, const struct slab *slab, uint8_t *out)
{
    const struct band *b = &r->job->plan->bands[slab->band];
    const uint32_t *order = r->job->plan->order + b->first_column;
    for (uint32_t column = 0; column < b->n_columns; column += GROUP) {
        uint32_t left = b->n_columns - column, some = left < GROUP ? left : GROUP;
        for (uint32_t c = 0; c < some; c++)
            if (!read_column(r, order[column + c], slab,
                             r->blocks + (size_t)c * SLAB_BLOCKS * BLOCK_BYTES))
                return false;
        for (uint32_t i = 0; i < slab->n; i++)
            put_rows(r, i, some,
                     out + (size_t)i * BLOCK_BITS * b->row_bytes + column / 8,
                     b->row_bytes);
    }
    /* Zeros behind the last column, to the end of each row. */
    uint32_t used = (b->n_columns + GROUP - 1) / GROUP * 8;
    for (size_t row = 0; used < b->row_bytes && row < (size_t)slab->n * BLOCK_BITS;
         row++)
        memset(out + row * b->row_bytes + used, 0, b->row_bytes - used);
    return true;
}

enum {
    SPARE = 2, /* slabs beyond one a thread: they wait less for each other */
    MAX_RING = PACK_MAX_THREADS + SPARE,
};

struct made {
    struct slab slab;
    bool ready;
    uint8_t *rows;
};

struct row_ring {
    struct pack_job *job;
    put_fn *put;
    void *to;
    struct row_maker makers[PACK_MAX_THREADS];
    unsigned n_threads; /* that have room for their work */
    struct made ring[MAX_RING];
    unsigned n_ring;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    struct slab next;        /* to be taken */
    uint64_t n_taken, n_put; /* slabs */
    bool stop;
    int err; /* of put() */
};

/* ---- which slab ---- */

static bool at_end(const struct row_ring *l, const struct slab *c)
{
    return c->band == l->job->plan->n_bands;
}

/* Sets the slab's number of blocks. */
static void size_slab(const struct row_ring *l, struct slab *c)
{
    if (at_end(l, c))
        return;
    const struct band *b = &l->job->plan->bands[c->band];
    uint64_t left = b->geometry.n_blocks - c->first;
    c->n = left < slab_blocks(b) ? (uint32_t)left : slab_blocks(b);
}

static void go_on(const struct row_ring *l, struct slab *c)
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
    size_slab(l, c);
}

static size_t slab_rows_bytes(const struct row_ring *l, const struct slab *c)
{
    return (size_t)c->n * BLOCK_BITS * l->job->plan->bands[c->band].row_bytes;
}

/* ---- several threads ---- */

/* Call it with the mutex, which it gives back meanwhile. */
static void put_oldest(struct row_ring *l)
{
    struct made *s = &l->ring[l->n_put % l->n_ring];
    pthread_mutex_unlock(&l->mutex);
    int err = l->put(l->to, s->rows, slab_rows_bytes(l, &s->slab));
    pthread_mutex_lock(&l->mutex);
    s->ready = false;
    l->n_put++;
    l->err = err;
    l->stop |= err != 0;
}

static void make_next(struct row_ring *l, unsigned number)
{
    struct made *s = &l->ring[l->n_taken++ % l->n_ring];
    s->slab = l->next;
    go_on(l, &l->next);
    pthread_mutex_unlock(&l->mutex);
    bool good = rows_make(&l->makers[number], &s->slab, s->rows);
    pthread_mutex_lock(&l->mutex);
    s->ready = good;
    l->stop |= !good;
}

/* Does something, if there is something to do. */
static bool step(struct row_ring *l, unsigned number)
{
    if (number == 0 && l->ring[l->n_put % l->n_ring].ready)
        put_oldest(l);
    else if (!at_end(l, &l->next) && l->n_taken - l->n_put < l->n_ring)
        make_next(l, number);
    else
        return false;
    return true;
}

static void work(void *ctx, unsigned number)
{
    struct row_ring *l = ctx;
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

/* The first slab that was not put, and all that follow. */
static void make_alone(struct row_ring *l)
{
    struct slab c =
        l->n_put < l->n_taken ? l->ring[l->n_put % l->n_ring].slab : l->next;
    l->makers[0].alone = true;
    for (; !at_end(l, &c) && !l->err; go_on(l, &c)) {
        rows_make(&l->makers[0], &c, l->ring[0].rows);
        l->err = l->put(l->to, l->ring[0].rows, slab_rows_bytes(l, &c));
    }
}

/* The longest slab of any band. */
static size_t longest_slab(const struct pack_plan *p)
{
    size_t most = 0;
    for (uint32_t i = 0; i < p->n_bands; i++) {
        const struct band *b = &p->bands[i];
        size_t n = (size_t)slab_blocks(b) * BLOCK_BITS * b->row_bytes;
        most = n > most ? n : most;
    }
    return most;
}

static bool add_to_ring(struct row_ring *l)
{
    uint8_t *rows = aligned_alloc(BLOCK_BYTES, longest_slab(l->job->plan));
    if (rows)
        l->ring[l->n_ring++].rows = rows;
    return rows != NULL;
}

/* Makes room for one thread, or fails; then for other threads, as memory allows. */
static int row_ring_create(struct row_ring *l, unsigned n_threads)
{
    for (; l->n_threads < n_threads && l->n_threads < PACK_MAX_THREADS;
         l->n_threads++) {
        struct row_maker *r = &l->makers[l->n_threads];
        if (row_maker_create(r, l->job, l->n_threads) != 0 || !add_to_ring(l))
            break;
    }
    for (int i = 0; i < SPARE && l->n_threads > 1; i++)
        add_to_ring(l);
    return l->n_threads == 0 ? ENOMEM : 0;
}

int slabs_make(struct pack_job *job, put_fn *put, void *to)
{
    struct row_ring l = {.job = job, .put = put, .to = to};
    int err = row_ring_create(&l, threads_size(job->threads));
    size_slab(&l, &l.next);
    if (!err && l.n_threads > 1) {
        pthread_mutex_init(&l.mutex, NULL);
        pthread_cond_init(&l.changed, NULL);
        threads_run(job->threads, work, &l);
        pthread_cond_destroy(&l.changed);
        pthread_mutex_destroy(&l.mutex);
    }
    if (!err)
        make_alone(&l);
    for (size_t i = 0; i < PACK_MAX_THREADS; i++)
        row_maker_free(&l.makers[i]);
    for (size_t i = 0; i < MAX_RING; i++)
        free(l.ring[i].rows);
    return err ? err : l.err;
}
