/* The hashes of a builder in order, each once, as a list needs them.
 *
 *     all in memory    sorted there
 *     some spooled     the rest becomes a run, too; then the runs are merged
 *
 * The spool of such a builder has sorted runs (spool.c), and their blocks are read into
 * the memory that the hashes had: it is empty by then. A run that does not come back as
 * it was written ends the merge: its list would lack keys, with good digests. */
#include "lib/builder/inside.h"
#include "lib/sort/sort.h"

enum { LEAST_BLOCK = 64 };

/* A run that is being read; in memory, all of it is the only block. */
struct order_reading {
    struct order *order;
    struct sorted_run run;
    uint64_t done, check;
    uint64_t *block; /* NULL: in memory */
};
struct order {
    struct tamis_builder *builder;
    struct merge *merge;
    size_t block_hashes;
    uint64_t *own; /* blocks that have no room in the builder's memory; NULL: none */
    struct order_reading runs[];
};

static int next_in_memory(void *ctx, const uint64_t **block, size_t *n)
{
    struct order_reading *r = ctx;
    *block = r->order->builder->hashes;
    *n = (size_t)(r->run.n - r->done);
    r->done = r->run.n;
    return 0;
}

static int next_of_run(void *ctx, const uint64_t **block, size_t *n)
{
    struct order_reading *r = ctx;
    *block = r->block;
    int err = spool_read_run(r->order->builder, &r->run, r->done, &r->check, r->block,
                             r->order->block_hashes, n);
    r->done += *n;
    return err;
}

/* Blocks of the runs, in the builder's memory if that has room for them. */
static int share_memory(struct order *o)
{
    struct tamis_builder *b = o->builder;
    uint64_t *at = b->hashes;
    o->block_hashes = b->capacity / b->n_runs;
    if (o->block_hashes < LEAST_BLOCK) {
        o->block_hashes = LEAST_BLOCK;
        at = o->own = malloc(b->n_runs * LEAST_BLOCK * sizeof *o->own);
        if (!at)
            return ENOMEM;
    }
    for (size_t i = 0; i < b->n_runs; i++)
        o->runs[i].block = at + i * o->block_hashes;
    return 0;
}

static int begin_merge(struct order *o, size_t n)
{
    struct merge_source *sources = calloc(n, sizeof *sources);
    struct tamis_builder *b = o->builder;
    int err = sources ? 0 : ENOMEM;
    if (!err && b->n_spooled)
        err = share_memory(o);
    for (size_t i = 0; !err && i < n; i++) {
        o->runs[i].order = o;
        o->runs[i].run =
            b->n_spooled ? b->runs[i] : (struct sorted_run){.n = b->n_hashes};
        sources[i].next = b->n_spooled ? next_of_run : next_in_memory;
        sources[i].ctx = &o->runs[i];
    }
    if (!err)
        err = merge_create(sources, n, b->limit / 8, &o->merge);
    free(sources);
    return err;
}

int order_begin(struct tamis_builder *b, struct order **out)
{
    *out = NULL;
    b->spool_damaged = false;
    int err = b->n_spooled ? spool_rest(b) : 0;
    if (err)
        return err;
    if (!b->n_spooled)
        sort_hashes(b->hashes, b->n_hashes);
    size_t n = b->n_spooled ? b->n_runs : 1;
    struct order *o = calloc(1, sizeof *o + n * sizeof o->runs[0]);
    if (!o)
        return ENOMEM;
    o->builder = b;
    err = begin_merge(o, n);
    if (err) {
        order_end(o);
        return err;
    }
    *out = o;
    return 0;
}

int order_next(void *order, const uint64_t **block, size_t *n)
{
    struct order *o = order;
    return merge_next(o->merge, block, n);
}

void order_end(struct order *o)
{
    if (!o)
        return;
    merge_free(o->merge);
    free(o->own);
    free(o);
}
