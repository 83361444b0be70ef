/* The explorer's disk: the durable bytes of its files, and bytes written since. */
#include "tests/crash/disk/disk.h"

#include <xxhash.h>

/* ---- random numbers: splitmix64 (Steele, Lea, Flood 2014) ---- */

uint64_t mix64(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ b * UINT64_C(0xD6E8FEB86659FD93)) + UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t rng_next(struct rng *r)
{
    return mix64(r->state += UINT64_C(0x9E3779B97F4A7C15), 0);
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    return rng_next(r) % n;
}

static void *grown(void *p, size_t n_bytes)
{
    p = realloc(p, n_bytes);
    if (!p)
        abort(); /* a test without memory has nothing to say */
    return p;
}

/* ---- files ---- */

uint64_t disk_sector_hash(uint32_t at, const uint8_t *bytes)
{
    uint8_t any = 0;
    for (size_t i = 0; i < SECTOR_BYTES; i++)
        any |= bytes[i];
    return any ? XXH3_64bits_withSeed(bytes, SECTOR_BYTES, at + 1) : 0;
}

static void file_reserve(struct disk_file *f, size_t n_bytes)
{
    size_t old = f->capacity, n = old ? old : (size_t)64 * 1024;
    while (n < n_bytes)
        n *= 2;
    if (n == old)
        return;
    f->durable = grown(f->durable, n);
    f->live = grown(f->live, n);
    f->dirty_at = grown(f->dirty_at, n / SECTOR_BYTES * sizeof *f->dirty_at);
    f->lied = grown(f->lied, n / PAGE_BYTES);
    memset(f->durable + old, 0, n - old);
    memset(f->live + old, 0, n - old);
    memset(f->lied + old / PAGE_BYTES, 0, (n - old) / PAGE_BYTES);
    for (size_t i = old / SECTOR_BYTES; i < n / SECTOR_BYTES; i++)
        f->dirty_at[i] = -1;
    f->capacity = n;
}

size_t disk_add_file(struct disk *d, uint64_t inode, const void *bytes, size_t n_bytes)
{
    if (d->n_files == DISK_MAX_FILES)
        abort();
    struct disk_file *f = &d->files[d->n_files];
    memset(f, 0, sizeof *f);
    f->inode = inode;
    file_reserve(f, n_bytes);
    if (n_bytes) {
        memcpy(f->durable, bytes, n_bytes);
        memcpy(f->live, bytes, n_bytes);
    }
    f->durable_bytes = f->live_bytes = n_bytes;
    for (uint32_t i = 0; i < f->capacity / SECTOR_BYTES; i++)
        f->durable_hash += disk_sector_hash(i, f->durable + (size_t)i * SECTOR_BYTES);
    return d->n_files++;
}

int disk_find_file(const struct disk *d, uint64_t inode)
{
    for (size_t i = 0; i < d->n_files; i++)
        if (d->files[i].inode == inode)
            return (int)i;
    return -1;
}

static void sector_clear(struct disk_sector *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->version[i]);
    s->n = s->n_syncing = 0;
}

void disk_free(struct disk *d)
{
    for (size_t i = 0; i < d->n_files; i++) {
        struct disk_file *f = &d->files[i];
        for (size_t k = 0; k < f->n_dirty; k++)
            sector_clear(&f->dirty[k]);
        free(f->durable);
        free(f->live);
        free(f->dirty);
        free(f->dirty_at);
        free(f->lied);
    }
    memset(d, 0, sizeof *d);
}

static struct disk_sector *dirty_sector(struct disk_file *f, uint32_t at)
{
    if (f->dirty_at[at] >= 0)
        return &f->dirty[f->dirty_at[at]];
    if (f->n_dirty == f->dirty_room) {
        f->dirty_room = f->dirty_room ? f->dirty_room * 2 : 64;
        f->dirty = grown(f->dirty, f->dirty_room * sizeof *f->dirty);
    }
    f->dirty_at[at] = (int32_t)f->n_dirty;
    struct disk_sector *s = &f->dirty[f->n_dirty++];
    memset(s, 0, sizeof *s);
    s->at = at;
    return s;
}

/* One version more. When there are too many one of the middle is forgotten, but none
 * that a sync under way is to make durable. */
static void push_version(struct disk_file *f, uint32_t at, const uint8_t *bytes)
{
    struct disk_sector *s = dirty_sector(f, at);
    if (s->n == DISK_MAX_VERSIONS) {
        size_t drop = s->n_syncing < s->n - 1 ? s->n_syncing : s->n - 2;
        free(s->version[drop]);
        for (size_t i = drop; i + 1 < s->n; i++) {
            s->version[i] = s->version[i + 1];
            s->hash[i] = s->hash[i + 1];
        }
        s->n--;
    }
    s->version[s->n] = grown(NULL, SECTOR_BYTES);
    memcpy(s->version[s->n], bytes, SECTOR_BYTES);
    s->hash[s->n] = disk_sector_hash(at, bytes);
    s->n++;
}

/* Stores of a processor reach the page word by word, and write-back copies it at any
 * time: half of the words that changed, in memory order. */
static void push_half(struct disk_file *f, uint32_t at, const uint8_t *old,
                      const uint8_t *new)
{
    uint8_t half[SECTOR_BYTES];
    size_t n = 0;
    memcpy(half, old, sizeof half);
    for (size_t i = 0; i < SECTOR_BYTES; i += 8)
        n += memcmp(old + i, new + i, 8) != 0;
    size_t left = n / 2;
    for (size_t i = 0; i < SECTOR_BYTES && left; i += 8) {
        if (memcmp(old + i, new + i, 8) == 0)
            continue;
        memcpy(half + i, new + i, 8);
        left--;
    }
    if (n > 1)
        push_version(f, at, half);
}

static void set_length(struct disk_file *f, uint64_t n_bytes)
{
    if (n_bytes == f->live_bytes)
        return;
    if (f->n_lengths == DISK_MAX_LENGTHS) {
        size_t drop = f->n_lengths_syncing < f->n_lengths - 1 ? f->n_lengths_syncing
                                                              : f->n_lengths - 2U;
        for (size_t i = drop; i + 1 < f->n_lengths; i++)
            f->length[i] = f->length[i + 1];
        f->n_lengths--;
    }
    f->length[f->n_lengths++] = n_bytes;
    f->live_bytes = n_bytes;
}

void disk_store(struct disk_file *f, const uint8_t *bytes, uint64_t n_bytes,
                bool by_mapping)
{
    uint64_t seen = n_bytes > f->live_bytes ? n_bytes : f->live_bytes;
    uint8_t padded[SECTOR_BYTES];
    file_reserve(f, (size_t)seen + SECTOR_BYTES);
    for (uint32_t at = 0; (uint64_t)at * SECTOR_BYTES < seen; at++) {
        size_t from = (size_t)at * SECTOR_BYTES, n = 0;
        if (from < n_bytes)
            n = n_bytes - from < SECTOR_BYTES ? (size_t)(n_bytes - from) : SECTOR_BYTES;
        const uint8_t *now = bytes + from;
        if (n < SECTOR_BYTES) {
            memset(padded, 0, sizeof padded);
            memcpy(padded, bytes + (n ? from : 0), n);
            now = padded;
        }
        if (memcmp(f->live + from, now, SECTOR_BYTES) == 0)
            continue;
        if (by_mapping)
            push_half(f, at, f->live + from, now);
        memcpy(f->live + from, now, SECTOR_BYTES);
        push_version(f, at, now);
        if (f->lied[from / PAGE_BYTES])
            disk_redirty(f, from / PAGE_BYTES);
    }
    set_length(f, n_bytes);
}

/* ---- syncs ---- */

void disk_sync_begin(struct disk_file *f)
{
    for (size_t i = 0; i < f->n_dirty; i++)
        f->dirty[i].n_syncing = f->dirty[i].n;
    f->n_lengths_syncing = f->n_lengths;
}

static void make_durable(struct disk_file *f, const struct disk_sector *s, size_t v)
{
    uint8_t *to = f->durable + (size_t)s->at * SECTOR_BYTES;
    f->durable_hash -= disk_sector_hash(s->at, to);
    f->durable_hash += s->hash[v];
    memcpy(to, s->version[v], SECTOR_BYTES);
}

static void forget_first(struct disk_sector *s, uint8_t n)
{
    for (size_t i = 0; i < n; i++)
        free(s->version[i]);
    for (size_t i = n; i < s->n; i++) {
        s->version[i - n] = s->version[i];
        s->hash[i - n] = s->hash[i];
    }
    s->n = (uint8_t)(s->n - n);
    s->n_syncing = 0;
}

/* Sectors that are dirty no more leave the list. */
static void drop_clean(struct disk_file *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n_dirty; i++) {
        f->dirty_at[f->dirty[i].at] = f->dirty[i].n ? (int32_t)kept : -1;
        if (f->dirty[i].n)
            f->dirty[kept++] = f->dirty[i];
    }
    f->n_dirty = kept;
}

void disk_sync_end(struct disk_file *f)
{
    for (size_t i = 0; i < f->n_dirty; i++) {
        struct disk_sector *s = &f->dirty[i];
        if (s->n_syncing)
            make_durable(f, s, s->n_syncing - 1U);
        forget_first(s, s->n_syncing);
    }
    drop_clean(f);
    size_t n = f->n_lengths_syncing;
    if (n)
        f->durable_bytes = f->length[n - 1];
    for (size_t i = n; i < f->n_lengths; i++)
        f->length[i - n] = f->length[i];
    f->n_lengths = (uint8_t)(f->n_lengths - n);
    f->n_lengths_syncing = 0;
}

void disk_lie(struct disk_file *f, struct rng *r)
{
    /* The length is metadata, journaled apart: take it as written. */
    for (size_t i = 0; i < f->n_dirty; i++) {
        struct disk_sector *s = &f->dirty[i];
        size_t page = s->at / (PAGE_BYTES / SECTOR_BYTES);
        if (f->lied[page] == 0)
            f->lied[page] = rng_below(r, 2) ? 2 : 3;
        if (f->lied[page] == 3)
            make_durable(f, s, s->n - 1U);
        forget_first(s, s->n);
    }
    drop_clean(f);
    for (size_t page = 0; page < f->capacity / PAGE_BYTES; page++)
        f->lied[page] = f->lied[page] == 2 || f->lied[page] == 1;
    f->has_lied = true;
    f->durable_bytes = f->live_bytes;
    f->n_lengths = f->n_lengths_syncing = 0;
}

void disk_redirty(struct disk_file *f, uint64_t page)
{
    if (!f->lied[page])
        return;
    f->lied[page] = 0;
    for (uint32_t i = 0; i < PAGE_BYTES / SECTOR_BYTES; i++) {
        uint32_t at = (uint32_t)page * (PAGE_BYTES / SECTOR_BYTES) + i;
        size_t from = (size_t)at * SECTOR_BYTES;
        if (f->dirty_at[at] < 0 &&
            memcmp(f->live + from, f->durable + from, SECTOR_BYTES) != 0)
            push_version(f, at, f->live + from);
    }
}
