/* Words of the explorer: syncs that fail or are cut, a second thread, sectors lost. */
#include "tests/crash/check.h"

/* ---- a sector of bits that is on the disk comes back as zeros ---- */

/* No program wrote it: the disk is as sure of it as of older bytes, and no power cut
 * undoes it. */
static void lose_on_disk(struct disk_file *f, uint32_t sector)
{
    uint8_t *durable = f->durable + (size_t)sector * SECTOR_BYTES;
    f->durable_hash -= disk_sector_hash(sector, durable);
    memset(durable, 0, SECTOR_BYTES);
    memset(f->live + (size_t)sector * SECTOR_BYTES, 0, SECTOR_BYTES);
}

static bool page_is_dirty(const struct disk_file *f, size_t page)
{
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        if (f->dirty_at[page * SECTORS_PER_PAGE + i] >= 0)
            return true;
    return false;
}

/* The sector of a committed key in the page that the next key goes to; 0: none is. */
static uint64_t choose_sector(struct run *r, const struct object *o,
                              const struct disk_file *f)
{
    struct identity id;
    struct commit c;
    struct slot_health health;
    uint8_t bytes[8];
    uint32_t base = o->keys.range[0].from;
    if (identity_decode(f->live, (size_t)f->live_bytes, &id).code != VERDICT_OK ||
        commit_choose_slot(f->live, &id, f->live_bytes, &c, &health).code != VERDICT_OK)
        run_fail(r, "no header");
    const struct stage_desc *d = &c.stages[0];
    uint64_t next = geometry_block_offset(&d->geometry, 0,
                                          key_number(base + o->n_added, bytes).hash);
    uint64_t first = rng_next(&r->rng);
    for (uint64_t i = 0; i < o->watermark; i++) {
        uint32_t number = base + (uint32_t)((first + i) % o->watermark);
        uint64_t at =
            geometry_block_offset(&d->geometry, 0, key_number(number, bytes).hash);
        if (at / PAGE_BYTES == next / PAGE_BYTES)
            return d->offset + at / SECTOR_BYTES * SECTOR_BYTES;
    }
    return 0;
}

static int lose_sector(struct run *r, struct object *o)
{
    static const uint8_t zeros[SECTOR_BYTES];
    char path[2 * STEPS_PATH_BYTES];
    path_of_object(&r->player, o, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return 1;
    record_look(r);
    struct disk_file *f = record_file(r, fd);
    uint64_t at = choose_sector(r, o, f);
    /* A dirty page is in the page cache, and will be written over the rot. */
    if (at && page_is_dirty(f, (size_t)at / PAGE_BYTES))
        run_fail(r, "the page at byte %llu is to rot, and is dirty",
                 (unsigned long long)at);
    if (at && pwrite(fd, zeros, sizeof zeros, (off_t)at) != sizeof zeros)
        abort();
    close(fd);
    if (!at)
        return 0;
    lose_on_disk(f, (uint32_t)(at / SECTOR_BYTES));
    o->lost_page = at / PAGE_BYTES * PAGE_BYTES;
    record_event(r);
    return 0;
}

/* ---- the words ---- */

int own_word(struct player *p, const struct step *s)
{
    struct run *r = p->ctx;
    const char *word = s->word->text;
    unsigned n = (unsigned)s->number[0];
    if (recording != r)
        return 0;
    if (strcmp(word, "failsync") == 0) {
        r->fail_sync = n;
    } else if (strcmp(word, "diesync") == 0) {
        /* At a sync the page cache has the written bytes, and the disk does not. The
         * disk sees no sync, the writer a failed one. */
        r->die_sync = n;
        r->is_killed = false;
    } else if (strcmp(word, "lie") == 0) {
        record_lie(r); /* the error is reported to nobody who is left */
    } else if (strcmp(word, "thread") == 0) {
        if (!r->helper)
            helper_start(r, (size_t)(promised_object(p->p, s->name[0]) - p->p->object));
    } else if (strcmp(word, "unthread") == 0) {
        if (r->helper)
            helper_stop(r);
    } else {
        return lose_sector(r, promised_object(p->p, s->name[0]));
    }
    return 0;
}
