/* Settling (R17): a stage that growth has left behind gets its digests as soon as no
 * add can change it any more, while the filter stays open. A seal does so for all.
 * Digests then detect damage there that floors cannot. Called by commits and by
 * growth, with the mutex held; it waits for no add, and what cannot be done now is
 * tried again at the next commit.
 *
 *      publish stage i + 1    adds that began before may still set bits in stage i
 *      settle_note()          which adds are in flight now?
 *      ...
 *      writer_settle()        have all of them ended? Then stage i is as it will be */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <sched.h>

/* ---- adds that may still change a stage that was left ---- */

/* Each number is read after the new stage was published, and an add says that it is in
 * flight before it asks for the newest stage, all of it sequentially consistent. So an
 * add that is not in these numbers has seen the new stage. */
void settle_note(struct tamis_writer *w)
{
    for (size_t i = 0; i < N_SHARDS + N_SHARED; i++) {
        uint32_t n = atomic_load(&w->in_flight[i].n);
        w->noted[i] = i < N_SHARDS && !(n & 1) ? 0 : n;
    }
    w->n_left = atomic_load(&w->n_stages) - 1;
}

/* The shard of one thread counts its adds, so a number that moved on is enough: the
 * add that was noted has ended, and the next one saw the new stage. A shared shard has
 * to be seen empty. New adds take the other one (add.c), so it will be. */
static bool ended(const struct tamis_writer *w, size_t shard)
{
    uint32_t n = atomic_load(&w->in_flight[shard].n);
    return shard < N_SHARDS ? n != w->noted[shard] : n == 0;
}

/* How many stages no add can change any more. */
static uint32_t n_drained(struct tamis_writer *w)
{
    bool all = true;
    for (size_t i = 0; i < N_SHARDS + N_SHARED; i++) {
        if (w->noted[i] && ended(w, i))
            w->noted[i] = 0;
        all &= !w->noted[i];
    }
    for (; all && w->n_drained < w->n_left; w->n_drained++)
        atomic_store(&w->stages[w->n_drained]->drained, true);
    return w->n_drained;
}

/* ---- digests ---- */

/* A copy of a page for its digest, in a stage without adds. It is checked anew,
 * whatever the first touch found: by its digest if `settled` is given, else by the
 * latest floors, which are in memory. If it fails, page and copy become all ones, and
 * the result is false: a digest would make a page that lost keys good (R11). */
static bool writer_sound_copy(struct tamis_writer *w, struct writer_stage *s,
                              struct stage *settled, uint64_t page,
                              uint8_t copy[PAGE_BYTES])
{
    uint16_t counts[SECTORS_PER_PAGE];
    bool good = !stage_is_bad(&s->stage, page);
    stage_read_ahead(&s->stage, page);
    if (settled) {
        good = stage_copy_page(settled, page, copy) && good;
    } else {
        page_copy(copy, s->stage.bits + page * PAGE_BYTES);
        w->kernel->count_page(copy, counts);
        for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
            good &= counts[i] >= atomic_load(&s->floors[page * SECTORS_PER_PAGE + i]);
    }
    if (good)
        return true;
    writer_condemn_page(w, s, page);
    memset(copy, 0xff, PAGE_BYTES);
    return false;
}

/* When a stage is settled, a page that failed gets a wrong digest, and so fails again.
 * In a sealed filter it is all ones, and good. */
static void digest_pages(struct tamis_writer *w, struct stage_desc *d,
                         struct writer_stage *s, struct stage *settled,
                         uint8_t *digests, uint64_t *n_damaged)
{
    _Alignas(CACHE_LINE) uint8_t copy[PAGE_BYTES];
    uint64_t n_bits = 0;
    for (uint64_t page = 0; page < s->stage.n_pages; page++) {
        bool good = writer_sound_copy(w, s, settled, page, copy);
        digest_put(digests, page, good || n_damaged ? page_digest(copy) : 0);
        if (!n_damaged)
            continue;
        *n_damaged += !good;
        n_bits += page_bits(w->kernel, copy);
    }
    if (n_damaged)
        d->bits_set = n_bits;
}

/* Digests every page of stage s, and writes the digests from *end on, which it moves;
 * `settled` as of writer_sound_copy(). To seal, *n_damaged counts pages that failed,
 * and d->bits_set is counted anew; NULL: to settle. If it fails, *d is as it was, but
 * for bits_set. Settling allocates first, so that a full disk costs no look at the
 * pages. A seal checks first: new space would put zeros behind the end of a truncated
 * file, where a page has to be found lost. */
static int writer_digest_stage(struct tamis_writer *w, struct stage_desc *d,
                               struct writer_stage *s, struct stage *settled,
                               uint64_t *end, uint64_t *n_damaged)
{
    struct digest_tree t;
    digest_tree_of(s->stage.n_pages, &t);
    uint64_t n = t.n_bytes, root = 0;
    uint8_t *digests = calloc(1, n ? (size_t)n : DIGEST_BYTES);
    int err = digests ? 0 : ENOMEM;
    if (!err && n && !n_damaged)
        err = io_allocate(w->guard.fd, *end, n);
    if (!err) {
        digest_pages(w, d, s, settled, digests, n_damaged);
        root = n ? digest_tree_finish(&t, digests) : digest_at(digests, 0);
    }
    if (!err && n && n_damaged)
        err = io_allocate(w->guard.fd, *end, n);
    if (!err && n)
        err = io_write(w->guard.fd, digests, (size_t)n, *end);
    free(digests);
    if (err)
        return err;
    d->root = root;
    d->digests_offset = n ? *end : 0;
    *end += n;
    return 0;
}

bool writer_settle(struct tamis_writer *w, struct commit *c, uint64_t *end)
{
    uint32_t n = n_drained(w);
    uint8_t before = c->n_settled;
    for (; c->n_settled < n; c->n_settled++) {
        uint32_t i = c->n_settled;
        if (writer_digest_stage(w, &c->stages[i], w->stages[i], NULL, end, NULL)) {
            io_calls.ftruncate(w->guard.fd, (off_t)*end); /* no slot names them */
            break;
        }
    }
    return c->n_settled != before;
}

/* ---- checks against them ---- */

/* Stage i, checked by its digests, all pages unchecked yet. */
struct settled {
    struct stage stage;
    struct mapping map;
};

static int settled_open(struct tamis_writer *w, uint32_t i, struct settled *out)
{
    const struct stage_desc *d = &w->commit.stages[i];
    struct writer_stage *s = w->stages[i];
    memset(out, 0, sizeof *out);
    int err = 0;
    void *memory = calloc(1, stage_memory(d, true));
    if (!memory)
        return ENOMEM;
    if (d->digests_offset)
        err = writer_map(w, d->digests_offset, digests_bytes(s->stage.n_pages), false,
                         &out->map);
    if (err) {
        free(memory);
        return err;
    }
    stage_init(&out->stage, d, true, &w->identity, TAMIS_CHECK_LAZY, &s->bits_map,
               s->stage.bits, NULL, out->map.base, memory);
    return 0;
}

/* ---- seal (R11) ----
 *
 * Stops the adds, checks every page against its floors, digests it, and closes the
 * filter for ever. */

static void stop_adds(struct tamis_writer *w)
{
    atomic_store(&w->state, WRITER_SEALING);
    SYNC_POINT("seal: adds are told");
    for (size_t i = 0; i < N_SHARDS; i++)
        while (atomic_load(&w->in_flight[i].n) & 1)
            sched_yield();
    for (size_t i = N_SHARDS; i < N_SHARDS + N_SHARED; i++)
        while (atomic_load(&w->in_flight[i].n))
            sched_yield();
}

/* A settled stage is checked by its digests, and digested anew: a page that fails now
 * is all ones, and good, in the sealed filter. */
static int seal_stage(struct tamis_writer *w, struct commit *c, uint32_t i,
                      uint64_t *end, uint64_t *n_damaged)
{
    struct settled settled;
    if (i >= w->commit.n_settled)
        return writer_digest_stage(w, &c->stages[i], w->stages[i], NULL, end,
                                   n_damaged);
    int err = settled_open(w, i, &settled);
    if (err)
        return err;
    err = writer_digest_stage(w, &c->stages[i], w->stages[i], &settled.stage, end,
                              n_damaged);
    map_drop(&settled.map);
    free(settled.stage.pages);
    return err;
}

static int seal_locked(struct tamis_writer *w, uint64_t watermark, uint64_t *n_damaged,
                       struct tamis_diag *diag)
{
    struct commit c;
    uint64_t before, end;
    writer_next_record(w, &c);
    int err = io_size(w->guard.fd, &before);
    if (err)
        return diag_errno(diag, err, w->path, "writing digests");
    if (!align_up_u64(before, PAGE_BYTES, &end))
        err = EFBIG;
    uint64_t first = end;
    for (uint32_t i = 0; i < c.n_stages && !err; i++)
        err = seal_stage(w, &c, i, &end, n_damaged);
    if (err) { /* no slot names the digests: the filter is open as before */
        io_calls.ftruncate(w->guard.fd, (off_t)before);
        return diag_errno(diag, err, w->path, "writing digests");
    }
    err = writer_sync(w);
    if (err)
        return writer_poison(w, err, "syncing keys and digests", diag);
    if (end != first) /* else the file may well end before `end` */
        c.committed_bytes = end;
    c.watermark = watermark;
    c.state = STATE_SEALED;
    c.n_settled = 0;
    c.clean = 1;
    c.generation++;
    return writer_write_record(w, &c, true, diag);
}

int tamis_writer_seal(struct tamis_writer *w, uint64_t watermark, uint64_t *n_damaged,
                      struct tamis_diag *diag)
{
    uint64_t ours = 0;
    diag_clear(diag);
    if (n_damaged)
        *n_damaged = 0;
    int err = call_may_begin(w);
    if (err)
        return diag_own(diag, err, w->path);
    writer_lock(w);
    uint32_t state = atomic_load(&w->state);
    if (state == WRITER_OPEN && atomic_load(&w->lost))
        state = WRITER_POISONED;
    if (state != WRITER_OPEN)
        err = state == WRITER_POISONED ? TAMIS_ERR_POISONED : TAMIS_ERR_SEALED;
    else if (watermark < w->commit.watermark)
        err = TAMIS_ERR_RANGE;
    if (err) {
        writer_unlock(w);
        return diag_own(diag, err, w->path);
    }
    stop_adds(w);
    err = seal_locked(w, watermark, &ours, diag);
    if (!err)
        atomic_store(&w->state, WRITER_SEALED);
    else if (atomic_load(&w->state) == WRITER_SEALING)
        atomic_store(&w->state, WRITER_OPEN);
    if (!err)
        err = writer_acknowledge(w, diag);
    if (!err)
        err = writer_changed(w, diag);
    writer_unlock(w);
    if (n_damaged && !err)
        *n_damaged = ours;
    return err;
}
