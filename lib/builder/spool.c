/* Keeps a builder's hashes until its filter is made: in memory, and beyond the
 * builder's limit in an unlinked file.
 *
 * The limit is for the hashes and the filter together, since both are in memory in the
 * end; and the filter grows with the keys. Hashes get the memory that the filter
 * leaves, but at least an eighth of the limit: a filter larger than its builder's limit
 * is built all the same. The file is not synced, and may lose hashes as any file may.
 * So hashes that come back are checked. */
#include "lib/builder/inside.h"
#include "lib/plan/plan.h"
#include "lib/sort/sort.h"

enum { LEAST_HASHES = 512, MAPPED_BYTES = HUGE_PAGE_BYTES };

/* ---- how much may stay in memory ---- */

/* How many hashes may stay in memory beside a filter of filter_bytes? */
static size_t beside(const struct tamis_builder *b, uint64_t filter_bytes)
{
    size_t most = b->limit / 8 / sizeof *b->hashes;
    if (filter_bytes < b->limit && (b->limit - filter_bytes) / sizeof *b->hashes > most)
        most = (b->limit - (size_t)filter_bytes) / sizeof *b->hashes;
    return most < LEAST_HASHES ? LEAST_HASHES : most;
}

/* No more than fit beside their own filter, which is about in proportion to them. */
static size_t within_limit(const struct tamis_builder *b, size_t n)
{
    struct tamis_plan plan;
    if (n <= beside(b, UINT64_MAX) || plan_of_bloom(n, b->error, true, &plan) != 0)
        return n < beside(b, UINT64_MAX) ? n : beside(b, UINT64_MAX);
    uint64_t bytes = n * sizeof *b->hashes + plan.file_bytes;
    if (bytes <= b->limit)
        return n;
    size_t share = (size_t)((double)n * ((double)b->limit / (double)bytes));
    return share > beside(b, UINT64_MAX) ? share : beside(b, UINT64_MAX);
}

/* ---- the memory ---- */

/* A mapping of our own grows without being copied, in huge pages: a fault for each
 * small page would cost more than the hashes that go there. */
static void *map_hashes(struct tamis_builder *b, size_t n_bytes)
{
    void *hashes = b->n_mapped ? mremap(b->hashes, b->n_mapped, n_bytes, MREMAP_MAYMOVE)
                               : mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (hashes == MAP_FAILED)
        return NULL;
    if (!b->n_mapped) {
        madvise(hashes, n_bytes, MADV_HUGEPAGE);
        memcpy(hashes, b->hashes ? b->hashes : hashes, b->n_hashes * sizeof *b->hashes);
        free(b->hashes);
    }
    b->n_mapped = n_bytes;
    return hashes;
}

static int resize(struct tamis_builder *b, size_t capacity)
{
    size_t n_bytes = capacity * sizeof *b->hashes;
    uint64_t *hashes =
        b->n_mapped || n_bytes >= MAPPED_BYTES
            ? map_hashes(b, (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES)
            : realloc(b->hashes, n_bytes);
    if (!hashes)
        return ENOMEM;
    b->hashes = hashes;
    b->capacity = capacity;
    return 0;
}

void spool_free(struct tamis_builder *b)
{
    if (b->spool_fd >= 0)
        close(b->spool_fd);
    if (b->n_mapped)
        munmap(b->hashes, b->n_mapped);
    else
        free(b->hashes);
    free(b->runs);
}

/* ---- the file ---- */

/* Hashes that are about to be spooled become a run of their own. */
static int note_run(struct tamis_builder *b)
{
    if (b->n_runs == b->max_runs) {
        size_t max = b->max_runs ? b->max_runs * 2 : 16;
        struct sorted_run *runs = realloc(b->runs, max * sizeof *runs);
        if (!runs)
            return ENOMEM;
        b->runs = runs;
        b->max_runs = max;
    }
    sort_hashes(b->hashes, b->n_hashes);
    b->runs[b->n_runs] = (struct sorted_run){b->n_spooled, b->n_hashes,
                                             hashes_check(0, b->hashes, b->n_hashes)};
    return 0;
}

static int spool(struct tamis_builder *b)
{
    int err = b->spool_fd < 0 ? io_open_nameless(b->spool_dir, &b->spool_fd) : 0;
    if (!err && b->list_bits)
        err = note_run(b);
    if (!err)
        err = io_write(b->spool_fd, b->hashes, b->n_hashes * sizeof *b->hashes,
                       b->n_spooled * sizeof *b->hashes);
    if (err)
        return err;
    b->spool_check = hashes_check(b->spool_check, b->hashes, b->n_hashes);
    b->n_spooled += b->n_hashes;
    b->n_hashes = 0;
    b->n_runs += b->list_bits != 0;
    return 0;
}

int spool_rest(struct tamis_builder *b)
{
    int err = b->n_hashes ? spool(b) : 0;
    b->spool_failed = err != 0;
    return err;
}

int spool_make_room(struct tamis_builder *b, size_t wanted)
{
    /* The filter has grown since it first left no room: it leaves no more now. */
    if (b->n_spooled && b->capacity >= beside(b, UINT64_MAX))
        return spool(b);
    size_t capacity = b->capacity ? b->capacity * 2 : LEAST_HASHES;
    if (capacity - b->n_hashes < wanted)
        capacity = b->n_hashes + wanted;
    capacity = within_limit(b, capacity);
    if (capacity > b->capacity && resize(b, capacity) == 0)
        return 0;
    return b->n_hashes ? spool(b) : ENOMEM; /* memory is short: make do */
}

uint64_t spool_leaves(const struct tamis_builder *b, uint64_t filter_bytes)
{
    if (b->n_spooled || b->n_hashes > beside(b, filter_bytes))
        return b->limit / 8;
    uint64_t taken = filter_bytes + b->n_hashes * sizeof *b->hashes;
    return taken < b->limit ? b->limit - taken : 0;
}

int spool_settle(struct tamis_builder *b, uint64_t filter_bytes)
{
    size_t most = beside(b, filter_bytes);
    if (!b->n_spooled && b->n_hashes <= most)
        return 0;
    int err = spool_rest(b);
    if (!err && b->capacity > most)
        resize(b, most); /* or goes on with more than it should */
    return err;
}

int spool_read_run(struct tamis_builder *b, const struct sorted_run *run, uint64_t done,
                   uint64_t *check, uint64_t *to, size_t room, size_t *n)
{
    uint64_t left = run->n - done;
    size_t got;
    *n = left < room ? (size_t)left : room;
    int err =
        io_read(b->spool_fd, to, *n * sizeof *to, (run->at + done) * sizeof *to, &got);
    if (err || got != *n * sizeof *to)
        return err ? err : EIO;
    *check = hashes_check(*check, to, *n);
    b->spool_damaged = *n == left && *check != run->check;
    return b->spool_damaged ? EIO : 0;
}

int spool_read(struct tamis_builder *b, uint64_t done, uint64_t *check, size_t *n)
{
    const struct sorted_run all = {0, b->n_spooled, b->spool_check};
    return spool_read_run(b, &all, done, check, b->hashes, b->capacity, n);
}
