/* Columns made from hashes, without a file of their own: hashes and facts wait in a
 * nameless file until all sizes are known.
 *
 *     pack_hashes_add()     sorts the hashes of a filter, as each lane has them
 *           |               file: facts of filter 0, its lane 0, lane 1, ..., facts of
 *           |               filter 1, ...
 *           v
 *     pack_hashes_blocks()  reads hashes again, block by block: equal top bits are
 *                           neighbours, and so are blocks (SPEC.md §4)
 *     pack_hashes_facts()   reads facts again, whenever somebody asks
 *
 * The file is not synced, and may lose bytes: bytes that come back are checked. A
 * filter takes 8 bytes of memory, 16 at most to find its name again, and later 8 for
 * its digest. */
#include "lib/pack/pack.h"
#include "format/hash.h"
#include "lib/io/io.h"
#include "lib/sort/sort.h"

enum { SOME_HASHES = 4096 };

/* Stands in the file before a filter's hashes. */
struct head {
    uint64_t sum;       /* of what follows */
    uint64_t check;     /* of all hashes */
    struct facts facts; /* its column_bytes() */
};
enum { BEFORE_FACTS = offsetof(struct head, facts) };

/* A column of the band that is being made: its hashes that were read, their check so
 * far, and the digest of its blocks. */
struct cursor {
    uint64_t at, n, check; /* in the file: n hashes of each lane */
    uint64_t n_read, check_read, digest;
};

struct pack_hashes {
    int fd;
    uint64_t end; /* of the file */
    uint64_t *heads;
    uint64_t *digests; /* of blocks; NULL: nobody has asked for any yet */
    uint32_t n, max;
    uint32_t *buckets; /* by name: number + 1, or 0; at most half of them are taken */
    size_t n_buckets;
    struct cursor *cursors;
    uint32_t n_cursors;
    uint64_t *sorted; /* room for the longest list */
    size_t room;
    const struct kernel *kernel;
    struct facts now;
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

void pack_hashes_rest(struct pack_hashes *h)
{
    free(h->buckets);
    free(h->digests);
    h->buckets = NULL;
    h->n_buckets = 0;
    h->digests = NULL;
}

void pack_hashes_free(struct pack_hashes *h)
{
    if (!h)
        return;
    close(h->fd);
    pack_hashes_rest(h);
    free(h->heads);
    free(h->cursors);
    free(h->sorted);
    free(h);
}

/* ---- facts ---- */

static uint64_t sum_of(const struct head *head, size_t n, uint64_t at)
{
    return XXH3_64bits_withSeed(&head->check, n + sizeof head->check, at);
}

/* Reads a filter's head, and sets *c to the first of its hashes. */
static int read_head(struct pack_hashes *h, uint32_t number, struct facts *out,
                     struct cursor *c)
{
    struct head head;
    uint64_t at = h->heads[number];
    size_t got, n;
    int err = io_read(h->fd, &head, BEFORE_FACTS + COLUMN_MAX_BYTES, at, &got);
    if (err || got < BEFORE_FACTS + sizeof out->disk)
        return err ? err : EIO;
    n = column_bytes(&head.facts.disk);
    if (n > got - BEFORE_FACTS || head.sum != sum_of(&head, n, at))
        return EIO;
    memcpy(out, &head.facts, n);
    *c = (struct cursor){.at = at + BEFORE_FACTS + n,
                         .n = le64_get(out->disk.keys),
                         .check = head.check};
    return 0;
}

int pack_hashes_facts(struct pack_hashes *h, uint32_t number, struct facts *out)
{
    struct cursor unused;
    int err = read_head(h, number, out, &unused);
    out->disk.table_digest = le64_of(h->digests ? h->digests[number] : 0);
    return err;
}

/* ---- names ---- */

/* The bucket of the name, or the free one where it belongs. */
static int find_bucket(struct pack_hashes *h, struct piece name, uint32_t **bucket)
{
    size_t mask = h->n_buckets - 1, i = (size_t)hash_key(0, name.at, name.n) & mask;
    int err = 0;
    for (; !err && *(*bucket = &h->buckets[i]); i = (i + 1) & mask) {
        err = pack_hashes_facts(h, **bucket - 1, &h->now);
        if (!err && name_compare(column_name(&h->now), name) == 0)
            return 0;
    }
    return err;
}

/* Makes room for one more name. The names themselves are in the file. */
static int make_buckets(struct pack_hashes *h)
{
    struct facts facts;
    size_t n = 64;
    int err = 0;
    if (h->n < h->n_buckets / 2)
        return 0;
    pack_hashes_rest(h);
    while (n / 2 <= h->n)
        n *= 2;
    h->buckets = calloc(n, sizeof *h->buckets);
    if (!h->buckets)
        return ENOMEM;
    h->n_buckets = n;
    for (uint32_t i = 0, *bucket; i < h->n && !err; i++) {
        err = pack_hashes_facts(h, i, &facts);
        if (!err)
            err = find_bucket(h, column_name(&facts), &bucket);
        if (!err)
            *bucket = i + 1;
    }
    if (err)
        pack_hashes_rest(h);
    return err;
}

int pack_hashes_have(struct pack_hashes *h, struct piece name, bool *have)
{
    uint32_t *bucket;
    int err = make_buckets(h);
    if (!err)
        err = find_bucket(h, name, &bucket);
    *have = !err && *bucket;
    return err;
}

/* ---- in ---- */

static int hashes_make_room(struct pack_hashes *h, size_t n)
{
    if (h->n == h->max) {
        uint32_t max = h->max ? h->max * 2 : 64;
        uint64_t *heads = realloc(h->heads, max * sizeof *heads);
        if (!heads)
            return ENOMEM;
        h->heads = heads;
        h->max = max;
    }
    if (h->room < n || !h->sorted) {
        h->room = n < SOME_HASHES ? SOME_HASHES : n + n / 4;
        free(h->sorted);
        h->sorted = malloc(h->room * sizeof *h->sorted);
        if (!h->sorted)
            return ENOMEM;
    }
    return make_buckets(h);
}

/* All lanes, at the end of the file and behind the head. */
static int write_lanes(struct pack_hashes *h, uint32_t lanes, size_t n, uint64_t at,
                       uint64_t *check)
{
    int err = 0;
    for (uint32_t lane = 0; lane < lanes && !err; lane++) {
        for (size_t i = 0; i < n && lane > 0; i++)
            h->sorted[i] = geometry_next_lane(h->sorted[i]);
        if (lane > 0)
            sort_hashes(h->sorted, n);
        *check = hashes_check(*check, h->sorted, n);
        err = io_write(h->fd, h->sorted, n * sizeof *h->sorted,
                       at + lane * n * sizeof *h->sorted);
    }
    return err;
}

int pack_hashes_add(struct pack_hashes *h, struct facts *facts, uint32_t lanes,
                    const uint64_t *hashes, size_t n)
{
    struct head head = {.check = 0};
    size_t n_facts = column_bytes(&facts->disk), n_head = BEFORE_FACTS + n_facts;
    uint32_t *bucket;
    int err = hashes_make_room(h, n);
    if (!err)
        err = find_bucket(h, column_name(facts), &bucket);
    if (err)
        return err;
    memcpy(h->sorted, hashes, n * sizeof *hashes);
    sort_hashes(h->sorted, n);
    n = hashes_distinct(h->sorted, h->sorted, n, ~h->sorted[0]);
    facts->disk.keys = le64_of(n);
    err = write_lanes(h, lanes, n, h->end + n_head, &head.check);
    memcpy(&head.facts, facts, n_facts);
    head.sum = sum_of(&head, n_facts, h->end);
    if (!err)
        err = io_write(h->fd, &head, n_head, h->end);
    if (err)
        return err;
    h->heads[h->n] = h->end;
    h->end += n_head + lanes * n * sizeof *hashes;
    *bucket = ++h->n;
    return 0;
}

/* ---- out ---- */

static int begin_column(struct pack_hashes *h, uint32_t number, const struct band *b,
                        uint32_t column)
{
    if (!h->digests && !(h->digests = calloc(h->max, sizeof *h->digests)))
        return ENOMEM;
    if (h->n_cursors < b->n_columns) {
        free(h->cursors); /* those of another band */
        h->cursors = calloc(b->n_columns, sizeof *h->cursors);
        h->n_cursors = h->cursors ? b->n_columns : 0;
        if (!h->cursors)
            return ENOMEM;
    }
    return read_head(h, number, &h->now, &h->cursors[column]);
}

/* Adds the next hashes of the lane that are in the blocks. *done: one was beyond. */
static int add_to_blocks(struct pack_hashes *h, struct cursor *r,
                         const struct geometry *g, uint64_t first, uint64_t n,
                         uint64_t left, bool *done, uint8_t *out)
{
    size_t some = left < SOME_HASHES ? (size_t)left : SOME_HASHES, got, i;
    int err = io_read(h->fd, h->some, some * sizeof *h->some,
                      r->at + r->n_read * sizeof *h->some, &got);
    if (err || got != some * sizeof *h->some)
        return err ? err : EIO;
    for (i = 0; i < some; i++) {
        uint64_t block = geometry_block(h->some[i], g->n_blocks);
        if (block < first)
            return EIO;
        if (block - first >= n)
            break;
        h->kernel->block_add(out + (block - first) * BLOCK_BYTES, g->words, h->some[i]);
    }
    r->n_read += i;
    r->check_read = hashes_check(r->check_read, h->some, i);
    *done = i < some;
    return 0;
}

int pack_hashes_blocks(struct pack_hashes *h, uint32_t number, const struct band *b,
                       uint32_t column, uint32_t lane, uint64_t first, uint64_t n,
                       uint8_t *out)
{
    const struct geometry *g = &b->geometry;
    bool lane_ends = first + n == g->n_blocks, done = false;
    int err = lane == 0 && first == 0 ? begin_column(h, number, b, column) : 0;
    if (err)
        return err;
    struct cursor *r = &h->cursors[column];
    uint64_t lane_end = (lane + 1) * r->n;
    memset(out, 0, n * BLOCK_BYTES);
    while (!err && !done && r->n_read < lane_end)
        err = add_to_blocks(h, r, g, first, n, lane_end - r->n_read, &done, out);
    if (!err && lane_ends &&
        (r->n_read != lane_end || (lane + 1 == g->lanes && r->check_read != r->check)))
        err = EIO;
    for (uint64_t i = 0; i < n; i++)
        r->digest = XXH3_64bits_withSeed(out + i * BLOCK_BYTES, BLOCK_BYTES, r->digest);
    h->digests[number] = r->digest;
    return err;
}
