/* Rot: a sector of bits that is on the disk comes back as zeros. Nobody wrote it: the
 * disk is as sure of it as of what it held before, and no power cut undoes it. */
#include "tests/crash/workloads/workload.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static bool page_is_dirty(const struct disk_file *f, size_t page)
{
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        if (f->dirty_at[page * SECTORS_PER_PAGE + i] >= 0)
            return true;
    return false;
}

static void rot_on_disk(struct disk_file *f, uint32_t sector)
{
    uint8_t *durable = f->durable + (size_t)sector * SECTOR_BYTES;
    f->durable_hash -= disk_sector_hash(sector, durable);
    memset(durable, 0, SECTOR_BYTES);
    memset(f->live + (size_t)sector * SECTOR_BYTES, 0, SECTOR_BYTES);
}

static void rot_in_file(const struct run *r, uint64_t at)
{
    static const uint8_t zeros[SECTOR_BYTES];
    int fd = open(r->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, zeros, sizeof zeros, (off_t)at) != sizeof zeros)
        abort();
    close(fd);
}

bool rot_choose(struct run *r, uint64_t *at)
{
    const struct promise *p = &r->promise;
    const struct stage_desc *d = &r->w->commit.stages[0];
    uint64_t next = geometry_block_offset(&d->geometry, 0, p->keys[p->n_keys]);
    uint64_t first = rng_next(&r->rng);
    for (uint64_t i = 0; i < p->watermark; i++) {
        uint64_t key = p->keys[(first + i) % p->watermark];
        uint64_t of_key = geometry_block_offset(&d->geometry, 0, key);
        if (of_key / PAGE_BYTES != next / PAGE_BYTES)
            continue;
        *at = d->offset + of_key / SECTOR_BYTES * SECTOR_BYTES;
        return true;
    }
    return false;
}

void rot(struct run *r, uint64_t at)
{
    record_look(r);
    struct disk_file *f = &r->disk.files[0];
    /* A dirty page is in the page cache, and will be written over the rot. */
    if (page_is_dirty(f, (size_t)at / PAGE_BYTES))
        run_fail(r, "the page at byte %llu is to rot, and is dirty",
                 (unsigned long long)at);
    rot_on_disk(f, (uint32_t)(at / SECTOR_BYTES));
    rot_in_file(r, at);
    r->promise.lost_page = at / PAGE_BYTES * PAGE_BYTES;
    record_event(r);
}
