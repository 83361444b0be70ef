/* Floors (R8): the lower bounds of set bits that a writer keeps for open stages. They
 * are raised and written at each commit; a page that falls below its floors is
 * condemned. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

enum { FLOOR_SECTORS_AT_ONCE = 32 };

static void encode_floors(const struct tamis_writer *w, const struct writer_stage *s,
                          uint64_t sector, struct floor_sector_disk *d)
{
    uint64_t first = sector * FLOORS_PER_SECTOR,
             n = s->stage.n_pages * SECTORS_PER_PAGE;
    memset(d, 0, sizeof *d);
    for (uint64_t i = 0; i < FLOORS_PER_SECTOR && first + i < n; i++)
        d->floor[i] = le16_of(atomic_load(&s->floors[first + i]));
    floor_sector_seal(d, w->identity.uuid,
                      s->stage.floors_offset + sector * SECTOR_BYTES);
}

static int writer_write_floors(struct tamis_writer *w, struct writer_stage *s,
                               uint64_t sector, uint64_t end)
{
    struct floor_sector_disk d[FLOOR_SECTORS_AT_ONCE];
    int err = 0;
    while (sector < end && !err) {
        size_t n = 0;
        uint64_t at = s->stage.floors_offset + sector * SECTOR_BYTES;
        /* Under a lock, so that the later of two writes of a sector has the later
         * floors. */
        pthread_mutex_lock(&w->floors_mutex);
        while (sector < end && n < FLOOR_SECTORS_AT_ONCE)
            encode_floors(w, s, sector++, &d[n++]);
        err = io_write(w->guard.fd, d, n * sizeof d[0], at);
        pthread_mutex_unlock(&w->floors_mutex);
    }
    return err;
}

/* ---- a page that failed its check ---- */

static uint64_t *first_clear(const struct writer_stage *s, uint64_t page, uint64_t *end)
{
    uint64_t *word = (uint64_t *)(void *)(s->stage.bits + page * PAGE_BYTES);
    size_t i = 0, n = PAGE_BYTES / sizeof *word;
    while (i < n && __atomic_load_n(&word[i], __ATOMIC_RELAXED) == UINT64_MAX)
        i++;
    *end = n - i;
    return word + i;
}

/* Adds come here, too, without the writer's mutex: an add that was cancelled in a write
 * would keep a lock, and a seal would wait for it for ever. */
static int write_and_sync_floors(struct tamis_writer *w, struct writer_stage *s,
                                 uint64_t sector)
{
    int before = io_hold_cancel();
    int err = writer_write_floors(w, s, sector, sector + 1);
    if (!err)
        err = writer_sync(w);
    io_let_cancel(before);
    return err;
}

/* The condemned floors are durable before the first of the ones. After a power cut a
 * page that is half ones may have as many bits as before, and only its floors show the
 * loss. A reader that checks it meanwhile finds them when it looks again. */
bool writer_condemn_page(struct tamis_writer *w, struct writer_stage *s, uint64_t page)
{
    uint64_t left, *word = first_clear(s, page, &left);
    stage_condemn(s, page);
    if (!left)
        return true;
    int err = write_and_sync_floors(w, s, page / PAGES_PER_FLOOR_SECTOR);
    if (err) {
        writer_poison(w, err, "condemning a page", NULL);
        return false;
    }
    atomic_thread_fence(memory_order_release);
    for (; left; left--, word++) {
        __atomic_store_n(word, UINT64_MAX, __ATOMIC_RELAXED);
        SYNC_POINT("fill: one word");
    }
    return true;
}

/* ---- at a commit ---- */

/* Counts a page and raises its floors. Bits that are set meanwhile may be missed: a
 * lower bound may be too low. If bits were lost, the page is damaged, which is found
 * now, before later adds fill the sector up. Returns whether a floor has changed. */
static bool raise_floors(struct tamis_writer *w, struct writer_stage *s, uint64_t page)
{
    uint16_t counts[SECTORS_PER_PAGE];
    bool lost = false, raised = false;
    w->kernel->count_page(s->stage.bits + page * PAGE_BYTES, counts);
    if (lost_page(&s->bits_map, s->stage.bits + page * PAGE_BYTES))
        return false; /* ones of ours: the commit will fail */
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++) {
        _Atomic uint16_t *floor = &s->floors[page * SECTORS_PER_PAGE + i];
        uint16_t n = counts[i];
        uint16_t old = atomic_load(floor);
        lost |= n < old && old != FLOOR_DAMAGED;
        raised |= n > old;
        while (old < n && !atomic_compare_exchange_weak(floor, &old, n))
            ;
    }
    if (lost)
        writer_condemn_page(w, s, page);
    return raised || lost;
}

/* Takes the marks and counts the pages that they name; `taken` gets the pages whose
 * floors are to be written: dirty pages, and pages on which an add found bits that were
 * not counted yet. */
void floors_count_dirty(struct tamis_writer *w, struct writer_stage *s, uint64_t *taken)
{
    for (uint64_t i = 0; i < (s->stage.n_pages + 63) / 64; i++) {
        if (!atomic_load_explicit(&s->dirty[i], memory_order_relaxed) &&
            !atomic_load_explicit(&s->found[i], memory_order_relaxed))
            continue;
        taken[i] = atomic_exchange(&s->dirty[i], 0);
        uint64_t found = atomic_exchange(&s->found[i], 0) & ~taken[i];
        atomic_thread_fence(memory_order_seq_cst); /* the other: mark_page() */
        SYNC_POINT("commit: marks taken");
        for (uint64_t left = taken[i]; left; left &= left - 1)
            raise_floors(w, s, i * 64 + (uint64_t)__builtin_ctzll(left));
        for (; found; found &= found - 1)
            if (raise_floors(w, s, i * 64 + (uint64_t)__builtin_ctzll(found)))
                taken[i] |= found & -found;
        SYNC_POINT("commit: pages counted");
    }
}

/* Do the floors of this sector speak of a page that was counted? */
static bool sector_taken(const struct writer_stage *s, uint64_t sector,
                         const uint64_t *taken)
{
    uint64_t page = sector * PAGES_PER_FLOOR_SECTOR,
             end = page + PAGES_PER_FLOOR_SECTOR;
    for (; page < end && page < s->stage.n_pages; page++)
        if (taken[page / 64] >> (page % 64) & 1)
            return true;
    return false;
}

/* Sectors that lie side by side go together. */
int floors_write_taken(struct tamis_writer *w, struct writer_stage *s,
                       const uint64_t *taken)
{
    uint64_t n =
        (s->stage.n_pages + PAGES_PER_FLOOR_SECTOR - 1) / PAGES_PER_FLOOR_SECTOR;
    int err = 0;
    for (uint64_t sector = 0, end; sector < n && !err; sector = end + 1) {
        for (end = sector; end < n && sector_taken(s, end, taken);)
            end++;
        err = writer_write_floors(w, s, sector, end);
    }
    return err;
}
