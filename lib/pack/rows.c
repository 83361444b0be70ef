/* Blocks to rows: 64 columns at a time, and of those a chunk of blocks.
 *
 *     column   0   1   2 ... 63        for each block of the chunk
 *     source  [ ] [ ] [ ]    [ ]       64 blocks side by side
 *              |   |   |      |                 |
 *     fold, repeat                       kernel->transpose()
 *              v   v   v      v                 |
 *     blocks  [ ] [ ] [ ]    [ ]  --->  512 rows of 64 bits, put into their places
 *
 * Rows of a chunk stay in the cache while all columns go into them. */
#include "lib/pack/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = 64, /* columns that are turned together */
    CHUNK_BYTES = 1 << 20,
    CHUNK_BLOCKS = 64, /* a page of each column */
    /* A column's blocks before its fold come in pieces of this size. */
    SOURCE_BYTES = 1 << 16,
    SOURCE_BLOCKS = SOURCE_BYTES / BLOCK_BYTES,
};

uint32_t chunk_blocks(const struct band *b)
{
    uint32_t n = CHUNK_BYTES / (BLOCK_BITS * b->row_bytes);
    return n == 0 ? 1 : n > CHUNK_BLOCKS ? CHUNK_BLOCKS : n;
}

int rows_create(struct rows *r, struct pack_job *job, unsigned thread)
{
    *r = (struct rows){
        .job = job,
        .kernel = kernel_get(),
        .thread = thread,
        .blocks = aligned_alloc(BLOCK_BYTES, GROUP * CHUNK_BLOCKS * BLOCK_BYTES),
        .source = aligned_alloc(BLOCK_BYTES, SOURCE_BYTES),
    };
    if (r->blocks && r->source)
        return 0;
    rows_free(r);
    return ENOMEM;
}

void rows_free(struct rows *r)
{
    free(r->blocks);
    free(r->source);
    memset(r, 0, sizeof *r);
}

/* Blocks of a source as they are. Once some cannot be read, its column is ones from
 * there on. Which ones these are must not depend on threads: so with others at work
 * this only says so, and chunks.c makes the chunk again when it is alone. */
static bool read_blocks(struct rows *r, uint32_t source, uint32_t lane, uint64_t first,
                        uint64_t n, uint8_t *out)
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

static void or_block(uint8_t *to, const uint8_t *from)
{
    uint64_t a[WORDS_PER_BLOCK], b[WORDS_PER_BLOCK];
    memcpy(a, to, sizeof a);
    memcpy(b, from, sizeof b);
    for (size_t i = 0; i < WORDS_PER_BLOCK; i++)
        a[i] |= b[i];
    memcpy(to, a, sizeof a);
}

/* Own blocks [first, first + n) of a column: each the union of `fold` blocks of the
 * source. */
static bool read_own(struct rows *r, uint32_t source, uint64_t fold, uint32_t lane,
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
            or_block(out + (at + i) / fold * BLOCK_BYTES, r->source + i * BLOCK_BYTES);
    }
    return true;
}

/* The chunk of a column as the band has it. */
static bool read_column(struct rows *r, uint32_t source, const struct chunk *c,
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

/* 64 columns of block i of the chunk, to `out` and every row_bytes behind it. */
static void put_rows(struct rows *r, uint32_t i, uint32_t n_columns, uint8_t *out,
                     uint32_t row_bytes)
{
    _Alignas(BLOCK_BYTES) uint64_t square[GROUP][WORDS_PER_BLOCK];
    uint32_t n = row_bytes < 8 ? row_bytes : 8;
    for (uint32_t c = 0; c < n_columns; c++)
        memcpy(square[c], r->blocks + (c * CHUNK_BLOCKS + i) * BLOCK_BYTES,
               BLOCK_BYTES);
    memset(square[n_columns], 0, (GROUP - n_columns) * sizeof square[0]);
    r->kernel->transpose(square);
    for (uint32_t word = 0; word < WORDS_PER_BLOCK; word++)
        for (uint32_t bit = 0; bit < GROUP; bit++, out += row_bytes)
            memcpy(out, &square[bit][word], n == 8 ? 8 : n);
}

bool rows_make(struct rows *r, const struct chunk *chunk, uint8_t *out)
{
    const struct band *b = &r->job->plan->bands[chunk->band];
    const uint32_t *order = r->job->plan->order + b->first_column;
    for (uint32_t column = 0; column < b->n_columns; column += GROUP) {
        uint32_t left = b->n_columns - column, some = left < GROUP ? left : GROUP;
        for (uint32_t c = 0; c < some; c++)
            if (!read_column(r, order[column + c], chunk,
                             r->blocks + (size_t)c * CHUNK_BLOCKS * BLOCK_BYTES))
                return false;
        for (uint32_t i = 0; i < chunk->n; i++)
            put_rows(r, i, some,
                     out + (size_t)i * BLOCK_BITS * b->row_bytes + column / 8,
                     b->row_bytes);
    }
    /* Columns that there are not: the rest of the rows. */
    uint32_t used = (b->n_columns + GROUP - 1) / GROUP * 8;
    for (size_t row = 0; used < b->row_bytes && row < (size_t)chunk->n * BLOCK_BITS;
         row++)
        memset(out + row * b->row_bytes + used, 0, b->row_bytes - used);
    return true;
}
