/* Memory for the entries of a snapshot, in chunks (arena.h). */
#include "lib/store/snapshot/arena.h"
#include "lib/io/io.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AT_ONCE_BYTES = 64 * 1024 };

void chunk_release(struct chunk *c, size_t n)
{
    if (c && atomic_fetch_sub_explicit(&c->refs, n, memory_order_acq_rel) == n)
        free(c);
}

void arena_end(struct arena *a)
{
    if (a->chunk)
        chunk_release(a->chunk, CHUNK_FILLING - a->chunk->n_taken);
    a->chunk = NULL;
}

/* Has the kernel map memory that will be written from end to end in one call, not page
 * by page as it is touched: a third of the time. Kernels before 5.14 do not know it.
 * It is not worth a call for less than AT_ONCE_BYTES; and whether a few pages have a
 * whole one among them would depend on where they are, so that no run repeats another.
 */
static void map_at_once(void *memory, size_t n_bytes)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)memory + n_bytes) / page * page;
    if (from < to)
        io_calls.madvise((void *)from, to - from, MADV_POPULATE_WRITE);
#else
    (void)memory, (void)n_bytes;
#endif
}

void *table_new(size_t n, size_t item_bytes)
{
    void *items = calloc(n, item_bytes);
    if (items && n * item_bytes >= AT_ONCE_BYTES)
        map_at_once(items, n * item_bytes);
    return items;
}

/* As much as is still expected; else twice as much as before. */
static size_t chunk_bytes(const struct arena *a, size_t n_bytes)
{
    size_t want = a->expected ? a->expected : a->last * 2;
    if (want < CHUNK_MIN_BYTES)
        want = CHUNK_MIN_BYTES;
    if (want > CHUNK_MAX_BYTES)
        want = CHUNK_MAX_BYTES;
    return want > n_bytes ? want : n_bytes;
}

/* A chunk that is one huge page, if at least half of it will be used. */
static struct chunk *huge_chunk(const struct arena *a, size_t n_bytes, size_t *size)
{
    *size = CHUNK_HUGE_BYTES - sizeof(struct chunk);
    if (a->expected < CHUNK_HUGE_BYTES / 2 || n_bytes > *size)
        return NULL;
    struct chunk *c = aligned_alloc(CHUNK_HUGE_BYTES, CHUNK_HUGE_BYTES);
    if (c && io_calls.madvise(c, CHUNK_HUGE_BYTES, MADV_HUGEPAGE) == 0)
        map_at_once(c, CHUNK_HUGE_BYTES);
    return c;
}

static struct chunk *small_chunk(const struct arena *a, size_t n_bytes, size_t *size)
{
    *size = chunk_bytes(a, n_bytes);
    struct chunk *c = malloc(sizeof *c + *size);
    if (c && a->expected >= *size && *size >= AT_ONCE_BYTES)
        map_at_once(c, sizeof *c + *size);
    return c;
}

static bool next_chunk(struct arena *a, size_t n_bytes)
{
    size_t size;
    struct chunk *c = huge_chunk(a, n_bytes, &size);
    if (!c)
        c = small_chunk(a, n_bytes, &size);
    if (!c)
        return false;
    arena_end(a);
    atomic_init(&c->refs, CHUNK_FILLING);
    c->pages = a->pages;
    c->n_bytes = size;
    c->used = c->n_taken = 0;
    a->chunk = c;
    a->last = size;
    a->expected -= a->expected < size ? a->expected : size;
    return true;
}

void *arena_take(struct arena *a, size_t n_bytes, struct chunk **in)
{
    n_bytes = (n_bytes + 7) / 8 * 8;
    if ((!a->chunk || n_bytes > a->chunk->n_bytes - a->chunk->used) &&
        !next_chunk(a, n_bytes))
        return NULL;
    void *p = a->chunk->bytes + a->chunk->used;
    a->chunk->used += n_bytes;
    a->chunk->n_taken++;
    *in = a->chunk;
    return p;
}
