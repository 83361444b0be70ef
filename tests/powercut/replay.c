/* The states of a log. A sector is on the disk in its old or in its new version;
 * flushed writes are there; of two unflushed writes to one place either may stay. */
#include "tests/powercut/replay.h"

#include <linux/falloc.h>

enum { PAGE = HOST_PAGE };

static uint64_t page_hash(const uint8_t *bytes, size_t page)
{
    static const uint8_t zeros[PAGE];
    if (memcmp(bytes + page * PAGE, zeros, PAGE) == 0)
        return 0;
    return XXH3_64bits_withSeed(bytes + page * PAGE, PAGE, page + 1);
}

/* ---- base ---- */

static void put(uint8_t *to, const struct device *d, const struct device_entry *e,
                uint64_t from, uint64_t n)
{
    if (e->kind == DEVICE_ZERO)
        memset(to + e->offset + from, 0, (size_t)n);
    else
        memcpy(to + e->offset + from, d->data + e->data + from, (size_t)n);
}

static void make_durable(struct replay *r, const struct device_entry *e)
{
    size_t first = e->offset / PAGE, end = (e->offset + e->n_bytes + PAGE - 1) / PAGE;
    if (e->kind == DEVICE_FLUSH)
        return;
    for (size_t p = first; p < end; p++)
        r->base_hash ^= page_hash(r->base, p);
    put(r->base, r->d, e, 0, e->n_bytes);
    for (size_t p = first; p < end; p++) {
        r->used[p] = 1;
        r->base_hash ^= page_hash(r->base, p);
    }
}

/* The image becomes base again, whatever the file system has done to it. */
static void reset_image(struct replay *r)
{
    if (fallocate(r->image_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  (off_t)(r->n_pages * PAGE)) != 0)
        host_fail("emptying the image");
    for (size_t p = 0; p < r->n_pages; p++)
        if (r->used[p])
            memcpy(r->image + p * PAGE, r->base + p * PAGE, PAGE);
    r->image_is_old = false;
}

static void untouch(struct replay *r)
{
    for (size_t i = 0; i < r->n_touched; i++) {
        size_t p = r->touched[i];
        memcpy(r->image + p * PAGE, r->base + p * PAGE, PAGE);
        r->is_touched[p] = 0;
    }
    r->n_touched = 0;
}

static void advance(struct replay *r, uint64_t n_durable)
{
    for (; r->n_durable < n_durable; r->n_durable++) {
        const struct device_entry *e = &r->d->entry[r->n_durable];
        make_durable(r, e);
        if (!r->image_is_old && e->kind != DEVICE_FLUSH)
            put(r->image, r->d, e, 0, e->n_bytes);
    }
}

/* ---- what is not flushed ---- */

static void touch(struct replay *r, uint64_t offset, uint64_t n)
{
    for (size_t p = offset / PAGE; p < (offset + n + PAGE - 1) / PAGE; p++) {
        if (!r->is_touched[p])
            r->touched[r->n_touched++] = (uint32_t)p;
        r->is_touched[p] = 1;
    }
}

static void put_some(struct replay *r, const struct device_entry *e, uint64_t from,
                     uint64_t n)
{
    touch(r, e->offset + from, n);
    put(r->image, r->d, e, from, n);
}

static void put_sectors(struct replay *r, const struct device_entry *e, struct rng *rng)
{
    for (uint64_t at = 0, n; at < e->n_bytes; at += n) {
        n = r->sector_bytes - (e->offset + at) % r->sector_bytes;
        if (n > e->n_bytes - at)
            n = e->n_bytes - at;
        if (rng_below(rng, 2))
            put_some(r, e, at, n);
    }
}

static void put_unflushed(struct replay *r, const struct device_entry *e,
                          enum fate fate, uint64_t percent, struct rng *rng)
{
    bool keep = rng_below(rng, 100) < percent;
    if (e->kind == DEVICE_FLUSH || fate == FATE_NONE)
        return;
    if (fate == FATE_SECTORS || (fate == FATE_TORN && rng_below(rng, 3) == 0))
        put_sectors(r, e, rng);
    else if (fate == FATE_ALL || keep)
        put_some(r, e, 0, e->n_bytes);
}

void replay_state(struct replay *r, uint64_t cut, enum fate fate, struct rng *rng)
{
    uint64_t percent = 5 + rng_below(rng, 91);
    if (!r->image_is_old)
        untouch(r);
    advance(r, device_durable(r->d, cut));
    if (r->image_is_old) {
        reset_image(r);
        memset(r->is_touched, 0, r->n_pages);
        r->n_touched = 0;
    }
    for (uint64_t i = r->n_durable; i < cut; i++)
        put_unflushed(r, &r->d->entry[i], fate, percent, rng);
    r->image_hash = r->base_hash;
    for (size_t i = 0; i < r->n_touched; i++)
        r->image_hash ^=
            page_hash(r->base, r->touched[i]) ^ page_hash(r->image, r->touched[i]);
}

/* ---- begin and end ---- */

static void *room(uint64_t n, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    void *p = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED)
        host_fail("no memory for an image");
    return p;
}

void replay_begin(struct replay *r, const struct device *d,
                  const struct host_made *made, unsigned sector_bytes,
                  const char *image_path)
{
    memset(r, 0, sizeof *r);
    r->sector_bytes = sector_bytes;
    r->d = d;
    r->n_pages = (size_t)(d->n_bytes / PAGE);
    r->image_fd = open(image_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (r->image_fd < 0 || ftruncate(r->image_fd, (off_t)d->n_bytes) != 0)
        host_fail("making %s", image_path);
    r->image = room(d->n_bytes, r->image_fd);
    r->base = room(d->n_bytes, -1);
    r->used = calloc(r->n_pages, 1);
    r->is_touched = calloc(r->n_pages, 1);
    r->touched = calloc(r->n_pages, sizeof *r->touched);
    if (!r->used || !r->is_touched || !r->touched)
        host_fail("no memory");
    for (size_t p = 0; p < r->n_pages; p++) {
        r->used[p] = made->used[p];
        if (!r->used[p])
            continue;
        memcpy(r->base + p * PAGE, made->bytes + p * PAGE, PAGE);
        r->base_hash ^= page_hash(r->base, p);
    }
    r->image_is_old = true;
}

void replay_end(struct replay *r)
{
    munmap(r->image, r->n_pages * PAGE);
    munmap(r->base, r->n_pages * PAGE);
    close(r->image_fd);
    free(r->used);
    free(r->is_touched);
    free(r->touched);
}
