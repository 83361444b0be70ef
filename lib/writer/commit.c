/* Commit: what makes a writer's keys durable. The order of every write and sync here
 * is the protocol of SPEC.md section 10; the rule numbers are its. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <errno.h>
#include <stdlib.h>

/* ---- floors (R8) ---- */

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

int writer_write_floors(struct tamis_writer *w, struct writer_stage *s, uint64_t sector,
                        uint64_t end)
{
    struct floor_sector_disk d[FLOOR_SECTORS_AT_ONCE];
    int err = 0;
    while (sector < end && !err) {
        size_t n = 0;
        uint64_t at = s->stage.floors_offset + sector * SECTOR_BYTES;
        /* Under a lock, for two threads may write one: the later has the later floors.
         */
        pthread_mutex_lock(&w->floors_mutex);
        while (sector < end && n < FLOOR_SECTORS_AT_ONCE)
            encode_floors(w, s, sector++, &d[n++]);
        err = io_write(w->guard.fd, d, n * sizeof d[0], at);
        pthread_mutex_unlock(&w->floors_mutex);
    }
    return err;
}

/* Counts a page and raises its floors. Bits that come in meanwhile make the counts at
 * worst too low, which a lower bound may be. Bits that went make the page a damaged
 * one, now, before later ones can fill the sector up. Has any floor changed? */
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
        writer_fill_page(w, s, page);
    return raised || lost;
}

/* Takes the marks and counts the pages that they name; `taken` gets the pages whose
 * floors are to be written: those that are dirty, and of those where an add has found
 * its bits only the ones that nobody has counted yet. */
static void count_dirty(struct tamis_writer *w, struct writer_stage *s, uint64_t *taken)
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
static int write_floors(struct tamis_writer *w, struct writer_stage *s,
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

/* ---- the record (R1, R2) ---- */

/* R4: after a failed write or sync of the protocol nothing is retried; what the
 * disk holds is unknown until the file is opened again. */
int writer_poison(struct tamis_writer *w, int os_errno, const char *doing,
                  struct tamis_diag *diag)
{
    atomic_store(&w->state, WRITER_POISONED);
    return diag_errno(diag, os_errno, w->path, doing);
}

int writer_check_lost(struct tamis_writer *w, struct tamis_diag *diag)
{
    if (!writer_is_broken(w))
        return 0;
    atomic_store(&w->state, WRITER_POISONED);
    return diag_fail(diag, TAMIS_ERR_POISONED, w->path,
                     "a page of the file could not be read or written");
}

/* Under a lock, and its failure kept: the kernel tells one caller only, and a page may
 * be filled by one thread while another commits. */
int writer_sync(struct tamis_writer *w)
{
    pthread_mutex_lock(&w->sync_mutex);
    int err = w->sync_error;
    if (!err)
        err = w->sync_error = io_calls.fdatasync(w->guard.fd) == 0 ? 0 : errno;
    pthread_mutex_unlock(&w->sync_mutex);
    return err;
}

int writer_write_slot(struct tamis_writer *w, const struct commit *c, uint8_t slot)
{
    uint8_t raw[SLOT_BYTES];
    commit_encode(c, slot, raw);
    return io_write(w->guard.fd, raw, sizeof raw, commit_slot_offset(slot));
}

/* Slot A, sync, acknowledge, slot B; and, when the table, the state or the clean
 * flag changed, B synced too before anyone is told. */
int writer_write_record(struct tamis_writer *w, const struct commit *c, bool table,
                        struct tamis_diag *diag)
{
    /* R15: whatever this record vouches for has been looked at by now. */
    int err = writer_check_lost(w, diag);
    if (err)
        return err;
    err = writer_write_slot(w, c, SLOT_A);
    if (!err)
        err = writer_sync(w);
    if (err)
        return writer_poison(w, err, "writing commit slot A", diag);
    SYNC_POINT("commit: slot A written");
    /* A page that was found lost meanwhile: the record may stand, but nobody is told.
     */
    err = writer_check_lost(w, diag);
    if (err)
        return err;
    err = writer_write_slot(w, c, SLOT_B);
    if (!err && table)
        err = writer_sync(w);
    if (err && table)
        return writer_poison(w, err, "writing commit slot B", diag);
    if (err) /* this commit stands; the next one must not overwrite A */
        atomic_store(&w->state, WRITER_POISONED);
    w->commit = *c;
    atomic_store(&w->watermark, c->watermark);
    return 0;
}

/* The record as it will be, counts as of now. */
void writer_next_record(struct tamis_writer *w, struct commit *c)
{
    *c = w->commit;
    c->sequence++;
    c->keys = 0;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        c->stages[i].keys = stage_keys_now(w->stages[i]);
        /* Bits lost to damage and set again count twice; a count that no stage can
         * have would make the record one that nobody reads (R9). */
        uint64_t n = stage_bits_now(w->stages[i]), most = c->stages[i].length * 8;
        c->stages[i].bits_set = n < most ? n : most;
        c->keys += c->stages[i].keys;
    }
}

static uint64_t *taken_of(uint64_t **taken, uint32_t i, const struct writer_stage *s)
{
    taken[i] = calloc((size_t)(s->stage.n_pages + 63) / 64, sizeof *taken[i]);
    return taken[i];
}

/* Gives the marks back after a failure: the floors are still to be written. */
static void free_taken(struct tamis_writer *w, uint64_t **taken, bool give_back)
{
    for (uint32_t i = 0; i < w->commit.n_stages; i++) {
        for (uint64_t k = 0;
             give_back && taken[i] && k < (w->stages[i]->stage.n_pages + 63) / 64; k++)
            if (taken[i][k])
                atomic_fetch_or(&w->stages[i]->dirty[k], taken[i][k]);
        free(taken[i]);
    }
}

/* Digests go behind all that the file has, as a stage does (grow.c). */
static bool settle_at_end(struct tamis_writer *w, struct commit *c)
{
    uint64_t end;
    if (c->n_settled + 1 >= c->n_stages || io_size(w->guard.fd, &end) != 0)
        return false;
    end = end > c->committed_bytes ? end : c->committed_bytes;
    if (!align_up_u64(end, PAGE_BYTES, &end))
        return false;
    uint64_t first = end;
    bool any = writer_settle(w, c, &end);
    if (end != first)
        c->committed_bytes = end;
    return any;
}

int writer_commit_locked(struct tamis_writer *w, uint64_t watermark, uint8_t clean,
                         bool table, struct tamis_diag *diag)
{
    uint64_t *taken[MAX_STAGES] = {NULL};
    struct commit c;
    if (atomic_load(&w->state) == WRITER_POISONED)
        return diag_fail(diag, TAMIS_ERR_POISONED, w->path, "%s",
                         tamis_strerror(TAMIS_ERR_POISONED));
    if (writer_check_lost(w, diag))
        return TAMIS_ERR_POISONED;
    for (uint32_t i = 0; i < w->commit.n_stages; i++) {
        if (!taken_of(taken, i, w->stages[i])) {
            free_taken(w, taken, true);
            return diag_errno(diag, ENOMEM, w->path, "cannot commit");
        }
    }
    writer_next_record(w, &c);
    c.watermark = watermark;
    c.clean = clean;
    /* R8: floors are counted before the data sync, and written after it. */
    for (uint32_t i = 0; i < c.n_stages; i++)
        count_dirty(w, w->stages[i], taken[i]);
    /* Both slots shall have the record that names digests (R17). */
    table |= settle_at_end(w, &c);
    int err = writer_sync(w);
    if (err) {
        free_taken(w, taken, true);
        return writer_poison(w, err, "syncing the keys", diag);
    }
    if (writer_check_lost(w, diag)) {
        free_taken(w, taken, true);
        return TAMIS_ERR_POISONED;
    }
    for (uint32_t i = 0; i < c.n_stages && !err; i++)
        err = write_floors(w, w->stages[i], taken[i]);
    free_taken(w, taken, err != 0);
    if (err)
        return writer_poison(w, err, "writing floors", diag);
    return writer_write_record(w, &c, table, diag);
}

/* Tells the catalog, if there is one, what the commit just written changed. */
int writer_changed(struct tamis_writer *w, struct tamis_diag *diag)
{
    return w->hooks.changed ? w->hooks.changed(w->hooks.ctx, &w->commit, diag) : 0;
}

int writer_tell_again(struct tamis_writer *w, struct tamis_diag *diag)
{
    pthread_mutex_lock(&w->mutex);
    int err = w->hook_due ? writer_changed(w, diag) : 0;
    w->hook_due = err != 0;
    pthread_mutex_unlock(&w->mutex);
    return err;
}

int tamis_writer_commit(struct tamis_writer *w, uint64_t watermark,
                        struct tamis_diag *diag)
{
    diag_clear(diag);
    if (w->fork_epoch != io_fork_epoch())
        return diag_fail(diag, TAMIS_ERR_FORKED, w->path, "%s",
                         tamis_strerror(TAMIS_ERR_FORKED));
    /* A stage may be full though no add here has said so: the writer before this one
     * died, or had no room, and its keys were found there when they came again. */
    atomic_store(&w->grow_failed, false);
    writer_grow(w);
    pthread_mutex_lock(&w->mutex);
    int err;
    if (atomic_load(&w->state) == WRITER_SEALED)
        err = diag_fail(diag, TAMIS_ERR_SEALED, w->path, "%s",
                        tamis_strerror(TAMIS_ERR_SEALED));
    else if (watermark < w->commit.watermark)
        err = diag_fail(diag, TAMIS_ERR_RANGE, w->path,
                        "watermark %llu is below the committed %llu",
                        (unsigned long long)watermark,
                        (unsigned long long)w->commit.watermark);
    else
        /* A bound is raised below: to what both slots have, for rot of one of them must
         * not bring back a record that the catalog takes for an older copy (R2, R5). */
        err = writer_commit_locked(w, watermark, 0, w->hook_due, diag);
    /* Bounds that the catalog could not take at growth: once more. */
    if (!err && w->hook_due)
        w->hook_due = writer_changed(w, NULL) != 0;
    if (!err && w->hooks.acknowledge)
        err = w->hooks.acknowledge(w->hooks.ctx, diag);
    pthread_mutex_unlock(&w->mutex);
    return err;
}

int tamis_writer_info(struct tamis_writer *w, struct tamis_filter_info *info)
{
    struct commit c;
    memset(info, 0, sizeof *info);
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    pthread_mutex_lock(&w->mutex);
    c = w->commit;
    if (c.state == STATE_OPEN)
        writer_next_record(w, &c), c.sequence = w->commit.sequence;
    pthread_mutex_unlock(&w->mutex);
    header_info(&w->identity, &c, info);
    return 0;
}
