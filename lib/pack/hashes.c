/* Columns made from hashes, without a file of their own: the hashes wait in a nameless
 * file until all sizes are known.
 *
 *     pack_hashes_add()     sorts the hashes of a filter, as each lane has them
 *           |               file: lane 0 of filter 0, lane 1, ..., lane 0 of filter 1
 *           |
 *           v
 *     pack_hashes_blocks()  reads them again, block by block: equal top bits of hashes
 *                           are neighbours, and so are blocks (SPEC.md §4)
 *
 * Nobody syncs the file, and it may lose what it was given: what comes back is checked.
 */
#include "lib/pack/pack.h"
#include "format/hash.h"
#include "lib/io/io.h"
#include "lib/kernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOME_HASHES = 4096, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, PASSES = 8 };

/* The hashes of one filter. */
struct run {
    uint64_t at, n; /* in the file: n of each lane */
    uint64_t check; /* of all lanes */
    /* When they are read: how many were, their check so far, and of the blocks. */
    uint64_t n_read, check_read, digest;
};

struct pack_hashes {
    int fd;
    uint64_t n_hashes; /* in the file */
    struct run *runs;
    uint32_t n, max;
    uint64_t *sorted; /* room for two lists of the longest run */
    size_t room;
    const struct kernel *kernel;
    uint64_t some[SOME_HASHES];
};

int pack_hashes_new(const char *dir, struct pack_hashes **out)
{
    struct pack_hashes *h = calloc(1, sizeof *h);
    if (!h)
        return ENOMEM;
    int err = io_open_nameless(dir, &h->fd);
    if (err) {
        free(h);
        return err;
    }
    h->kernel = kernel_get();
    *out = h;
    return 0;
}

void pack_hashes_free(struct pack_hashes *h)
{
    if (!h)
        return;
    close(h->fd);
    free(h->runs);
    free(h->sorted);
    free(h);
}

/* ---- in ---- */

static int make_room(struct pack_hashes *h, size_t n)
{
    if (h->n == h->max) {
        uint32_t max = h->max ? h->max * 2 : 64;
        struct run *runs = realloc(h->runs, max * sizeof *runs);
        if (!runs)
            return ENOMEM;
        h->runs = runs;
        h->max = max;
    }
    if (h->room < n || !h->sorted) {
        size_t room = n < SOME_HASHES ? SOME_HASHES : n + n / 4;
        uint64_t *sorted = realloc(h->sorted, room * 2 * sizeof *sorted);
        if (!sorted)
            return ENOMEM;
        h->sorted = sorted;
        h->room = room;
    }
    return 0;
}

/* Radix sort, from the lowest digit on. The passes are of an even number, so the result
 * is where the hashes were. */
static void sort(uint64_t *hashes, uint64_t *other, size_t n)
{
    _Static_assert(PASSES % 2 == 0, "the result would be in `other`");
    size_t counts[PASSES][DIGITS] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (unsigned p = 0; p < PASSES; p++)
            counts[p][hashes[i] >> p * DIGIT_BITS & (DIGITS - 1)]++;
    for (unsigned p = 0; p < PASSES; p++) {
        size_t at = 0;
        for (size_t d = 0; d < DIGITS; d++) {
            size_t count = counts[p][d];
            counts[p][d] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++)
            other[counts[p][hashes[i] >> p * DIGIT_BITS & (DIGITS - 1)]++] = hashes[i];
        uint64_t *swap = hashes;
        hashes = other;
        other = swap;
    }
}

static size_t without_repeats(uint64_t *hashes, size_t n)
{
    size_t kept = n > 0;
    for (size_t i = 1; i < n; i++)
        if (hashes[i] != hashes[kept - 1])
            hashes[kept++] = hashes[i];
    return kept;
}

/* Each step is a bijection of check and hash: one wrong hash is certainly found. */
static uint64_t check_of(uint64_t check, const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check = geometry_next_lane(check ^ hashes[i]);
    return check;
}

int pack_hashes_add(struct pack_hashes *h, uint32_t lanes, const uint64_t *hashes,
                    size_t n, uint64_t *n_distinct)
{
    int err = make_room(h, n);
    if (err)
        return err;
    uint64_t *sorted = h->sorted;
    struct run run = {.at = h->n_hashes};
    memcpy(sorted, hashes, n * sizeof *hashes);
    sort(sorted, h->sorted + h->room, n);
    run.n = n = without_repeats(sorted, n);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        for (size_t i = 0; i < n && lane > 0; i++)
            sorted[i] = geometry_next_lane(sorted[i]);
        if (lane > 0)
            sort(sorted, h->sorted + h->room, n);
        run.check = check_of(run.check, sorted, n);
        err = io_write(h->fd, sorted, n * sizeof *sorted,
                       (run.at + lane * run.n) * sizeof *sorted);
        if (err)
            return err;
    }
    h->n_hashes += lanes * run.n;
    h->runs[h->n++] = run;
    *n_distinct = n;
    return 0;
}

void pack_hashes_forget(struct pack_hashes *h)
{
    h->n--; /* what it wrote stays in the file */
}

/* ---- out ---- */

/* Adds the next hashes of the lane that are in the blocks. *done: one was beyond. */
static int add_to_blocks(struct pack_hashes *h, struct run *r,
                         const struct pack_source *s, uint64_t first, uint64_t n,
                         uint64_t left, bool *done, uint8_t *out)
{
    size_t some = left < SOME_HASHES ? (size_t)left : SOME_HASHES, got, i;
    int err = io_read(h->fd, h->some, some * sizeof *h->some,
                      (r->at + r->n_read) * sizeof *h->some, &got);
    if (err || got != some * sizeof *h->some)
        return err ? err : EIO;
    for (i = 0; i < some; i++) {
        uint64_t block = geometry_block(h->some[i], s->geometry.n_blocks);
        if (block < first)
            return EIO;
        if (block - first >= n)
            break;
        h->kernel->block_add(out + (block - first) * BLOCK_BYTES, s->geometry.words,
                             h->some[i]);
    }
    r->n_read += i;
    r->check_read = check_of(r->check_read, h->some, i);
    *done = i < some;
    return 0;
}

int pack_hashes_blocks(struct pack_hashes *h, uint32_t number,
                       const struct pack_source *s, uint32_t lane, uint64_t first,
                       uint64_t n, uint8_t *out)
{
    struct run *r = &h->runs[number];
    bool lane_ends = first + n == s->geometry.n_blocks, done = false;
    uint64_t lane_end = (lane + 1) * r->n;
    int err = 0;
    if (lane == 0 && first == 0)
        r->n_read = r->check_read = r->digest = 0;
    memset(out, 0, n * BLOCK_BYTES);
    while (!err && !done && r->n_read < lane_end)
        err = add_to_blocks(h, r, s, first, n, lane_end - r->n_read, &done, out);
    if (!err && lane_ends && r->n_read != lane_end)
        err = EIO;
    if (!err && lane_ends && lane + 1 == s->geometry.lanes && r->check_read != r->check)
        err = EIO;
    for (uint64_t i = 0; i < n; i++)
        r->digest = XXH3_64bits_withSeed(out + i * BLOCK_BYTES, BLOCK_BYTES, r->digest);
    return err;
}

uint64_t pack_hashes_digest(const struct pack_hashes *h, uint32_t number)
{
    return h->runs[number].digest;
}
