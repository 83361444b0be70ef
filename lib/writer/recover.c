/* Recovery: before its first add a writer takes over the floors. After an unclean end
 * (R3) it checks, dirties and recounts every page of every stage, and finishes a seal
 * that its predecessor had begun.
 *
 * The pages of a dead writer may be in the page cache only, perhaps marked clean by a
 * failed write-back. Reading them proves nothing. So every page is dirtied again, and
 * the next sync writes it before a watermark is reported. */
#include "lib/writer/inside.h"
#include "lib/plan/plan.h"

/* A store that changes nothing and still dirties the page. Compilers may turn
 * fetch_or(p, 0) into a load, and clang does; hence the assembly. */
static void touch_byte(uint8_t *p)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("lock; orb $0, %0" : "+m"(*p) : : "memory", "cc");
#elif defined(__aarch64__)
    uint32_t v, failed;
    __asm__ volatile("1: ldxrb %w0, %2\n stxrb %w1, %w0, %2\n cbnz %w1, 1b"
                     : "=&r"(v), "=&r"(failed), "+Q"(*p)
                     :
                     : "memory");
#else
    uint8_t v = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (
        !__atomic_compare_exchange_n(p, &v, v, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
#endif
}

/* Takes one sector of floors into memory. One that fails its own check guards
 * nothing any more: its pages are condemned. In a settled stage, pages whose
 * digests are right get new floors. */
static int load_sector(struct tamis_writer *w, struct writer_stage *s, uint64_t sector)
{
    struct floor_sector_disk d;
    uint64_t at = s->stage.floors_offset + sector * SECTOR_BYTES;
    uint64_t page = sector * PAGES_PER_FLOOR_SECTOR,
             end = page + PAGES_PER_FLOOR_SECTOR;
    size_t got;
    int err = io_read(w->guard.fd, &d, sizeof d, at, &got);
    if (err)
        return err;
    bool good = got == sizeof d && floor_sector_good(&d, w->identity.uuid, at);
    for (; page < end && page < s->stage.n_pages; page++) {
        const struct le16 *floor = floor_sector_page(&d, page);
        for (size_t i = 0; good && i < SECTORS_PER_PAGE; i++)
            atomic_store(&s->floors[page * SECTORS_PER_PAGE + i], le16_get(floor[i]));
        if (!good && s->stage.by_digests && stage_page_good(&s->stage, page))
            stage_set_dirty(s, page);
        else if (!good)
            stage_condemn(s, page);
    }
    return 0;
}

static int load_floors(struct tamis_writer *w, struct writer_stage *s)
{
    uint64_t n =
        (s->stage.n_pages + PAGES_PER_FLOOR_SECTOR - 1) / PAGES_PER_FLOOR_SECTOR;
    int err = 0;
    for (uint64_t i = 0; i < n && !err; i++)
        err = load_sector(w, s, i);
    return err;
}

/* Checks first: a page that lost bits is condemned before its counts are believed. */
static void recover_stage(struct tamis_writer *w, struct writer_stage *s)
{
    uint64_t n_bits = 0;
    _Alignas(CACHE_LINE) uint8_t copy[PAGE_BYTES];
    for (uint64_t page = 0; page < s->stage.n_pages && !atomic_load(&w->lost); page++) {
        uint8_t *live = s->stage.bits + page * PAGE_BYTES;
        stage_read_ahead(&s->stage, page);
        if (!stage_page_good(&s->stage, page))
            stage_condemn(s, page);
        touch_byte(live);
        page_copy(copy, live);
        n_bits += page_bits(w->kernel, copy);
        atomic_fetch_or(&s->dirty[page / 64], UINT64_C(1) << (page % 64));
    }
    /* R9: these counts are recomputed, and only growth depends on them. */
    uint64_t keys = plan_keys_of_bits(&s->stage.geometry, n_bits);
    s->base_bits = n_bits;
    s->base_keys = keys > s->base_keys && keys != UINT64_MAX ? keys : s->base_keys;
}

int writer_recover(struct tamis_writer *w, bool unclean, struct tamis_diag *diag)
{
    for (uint32_t i = 0; i < w->commit.n_stages; i++) {
        int err = load_floors(w, w->stages[i]);
        if (err)
            return diag_errno(diag, err, w->path, "reading floors");
        if (unclean)
            recover_stage(w, w->stages[i]);
    }
    return atomic_load(&w->lost) ? diag_errno(diag, EIO, w->path, "checking the pages")
                                 : 0;
}

/* ---- a seal that may be in the page cache only ---- */

/* Dirties the whole file again, by writing its own bytes: bytes of a dead writer may be
 * in the page cache only, on pages that a failed sync has marked clean (R3, R4). A
 * hole, or space that was never written, reads as zeros anyway. */
static int rewrite(int fd, uint64_t n_bytes)
{
    enum { BUFFER_BYTES = 1 << 16 };
    uint8_t *buffer = malloc(BUFFER_BYTES);
    int err = buffer ? 0 : ENOMEM;
    for (uint64_t at = 0; at < n_bytes && !err; at += BUFFER_BYTES) {
        size_t n = n_bytes - at < BUFFER_BYTES ? (size_t)(n_bytes - at) : BUFFER_BYTES,
               got;
        err = io_read(fd, buffer, n, at, &got);
        if (!err && !all_zero(buffer, got))
            err = io_write(fd, buffer, got, at);
    }
    free(buffer);
    return err;
}

static int sync_data(int fd)
{
    return io_calls.fdatasync(fd) == 0 ? 0 : errno;
}

static int write_and_sync(int fd, const uint8_t slot[SLOT_BYTES], uint8_t to)
{
    int err = io_write(fd, slot, SLOT_BYTES, commit_slot_offset(to));
    return err ? err : sync_data(fd);
}

/* The slot that was chosen, as bytes. */
static int read_chosen(int fd, const struct header *h, uint8_t slot[SLOT_BYTES])
{
    uint64_t sequence;
    size_t got;
    int err = io_read(fd, slot, SLOT_BYTES, commit_slot_offset(h->commit.slot), &got);
    if (!err && (got < SLOT_BYTES ||
                 commit_frame(slot, h->commit.slot, &h->identity, &sequence).code !=
                     VERDICT_OK ||
                 sequence != h->commit.sequence))
        err = EIO; /* nobody else may write it */
    return err;
}

int slot_settle(int fd, const struct header *h)
{
    uint8_t slot[SLOT_BYTES];
    int err = read_chosen(fd, h, slot);
    return err ? err : write_and_sync(fd, slot, h->commit.slot);
}

/* Writes B, then A, which may be the torn one: one slot is always whole. Both get
 * copies of the whole record, with the bytes that this version does not know. */
static int mirror_slots(int fd, const struct header *h)
{
    const struct slot_health *s = &h->health;
    uint8_t slot[SLOT_BYTES];
    int err = read_chosen(fd, h, slot);
    if (err)
        return err;
    commit_renumber(slot, SLOT_B);
    err = write_and_sync(fd, slot, SLOT_B);
    if (err || (s->frame[SLOT_A].code == VERDICT_OK &&
                s->sequence[SLOT_A] == h->commit.sequence))
        return err;
    commit_renumber(slot, SLOT_A);
    return write_and_sync(fd, slot, SLOT_A);
}

int seal_settle(int fd, const char *path, struct header *h, struct tamis_diag *diag)
{
    int err = header_load(fd, true, 0, 0, path, h, diag); /* as it is under the lock */
    if (err || h->commit.state != STATE_SEALED || h->identity.header_pages != 3)
        return err;
    err = header_check_features(h, path, diag);
    if (err)
        return err;
    err = rewrite(fd, h->commit.committed_bytes);
    if (!err)
        err = sync_data(fd);
    if (!err)
        err = mirror_slots(fd, h);
    return err ? diag_errno(diag, err, path, "making a seal durable") : 0;
}
