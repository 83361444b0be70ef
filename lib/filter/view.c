/* A probe uses a view: an immutable set of mapped stages. A sealed filter keeps one
 * view. A growing filter gets a new view when its stage table changes or more of its
 * stages are settled. Readers notice the change because each probe reads both ends of
 * slot A (R6). Old views stay until the filter is closed, since another thread may
 * still be probing them. There are about 60 at most: one for each stage table, one for
 * each stage settled. A file that shows MAX_VIEWS of them is refused.
 *
 * No probe waits for another thread. A thread that finds slot A changed reads the
 * header for itself, and answers by what it read. There is no lock that a thread could
 * leave behind, be it stalled, cancelled, killed by a fork, or gone by siglongjmp(). A
 * new view is published by one compare-and-swap from the view that the thread began
 * with; a thread that was overtaken frees its own. One store of `seen` publishes the
 * rest of the header, and binds it together. */
#include "lib/filter/view.h"
#include "format/hash.h"
#include "lib/sync_point.h"

#include <sys/mman.h>

/* Twice what 29 growths, as many stages settled one by one, and a seal come to. */
enum { MAX_VIEWS = 128 };

/* Sealed for good, a view has no slot that could change. */
static _Alignas(8) const uint8_t no_slot[SLOT_BYTES];

/* ---- views ---- */

/* A probe may run in a signal handler that has interrupted malloc(): it takes memory
 * from the kernel. */
static struct view *view_alloc(size_t n_bytes, bool probing)
{
    if (!probing)
        return calloc(1, n_bytes);
    struct view *v = io_calls.mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (v == MAP_FAILED)
        return NULL;
    v->n_mapped = n_bytes;
    return v;
}

void view_free(struct view *v)
{
    if (!v)
        return;
    map_drop(&v->map);
    free(atomic_load(&v->guide));
    if (v->n_mapped)
        munmap(v, v->n_mapped);
    else
        free(v);
}

static bool view_begin(struct tamis_filter *f, struct view *v)
{
    for (size_t i = 0; i < MAX_MAKERS; i++) {
        struct view *none = NULL;
        if (atomic_compare_exchange_strong(&f->making[i], &none, v))
            return true;
    }
    return false;
}

void view_made(struct tamis_filter *f, struct view *v)
{
    for (size_t i = 0; i < MAX_MAKERS; i++) {
        struct view *mine = v;
        atomic_compare_exchange_strong(&f->making[i], &mine, NULL);
    }
}

/* A view, its stages, from `of_kind` on what its kind adds, and from `bitmaps` on what
 * the stages remember. */
static size_t view_bytes(const struct filter_kind *kind, const struct commit *c,
                         size_t *of_kind, size_t *bitmaps)
{
    size_t n = sizeof(struct view) + c->n_stages * sizeof(struct stage);
    *of_kind = n = (n + 63) / 64 * 64;
    n += kind->memory(c);
    *bitmaps = n = (n + 63) / 64 * 64;
    for (size_t i = 0; i < c->n_stages; i++)
        n += stage_memory(&c->stages[i], commit_has_digests(c, i));
    return n;
}

static void view_stages(struct view *v, const struct tamis_filter *f,
                        const struct commit *c, size_t bitmaps)
{
    uint8_t *memory = (uint8_t *)v + bitmaps, *base = v->map.base;
    v->n_stages = c->n_stages;
    for (size_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *d = &c->stages[i];
        bool digests = commit_has_digests(c, i);
        stage_init(&v->stages[i], d, digests, &f->identity, f->mode, &v->map,
                   base + d->offset, digests ? NULL : base + d->floors_offset,
                   d->digests_offset ? base + d->digests_offset : NULL, memory);
        v->stages[i].counts = f->counts;
        memory += stage_memory(d, digests);
    }
}

/* The stage table without its counts. Generations number tables, but a table that was
 * seen and never became durable may have had the same number. */
static uint64_t table_shape(const struct commit *c)
{
    uint64_t shape[1 + 7 * MAX_STAGES] = {(uint64_t)c->n_settled << 8 | c->state};
    for (size_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *d = &c->stages[i];
        const uint64_t of[7] = {d->offset,
                                d->length,
                                d->floors_offset,
                                d->digests_offset,
                                d->root,
                                d->geometry.n_blocks,
                                d->geometry.lanes << 8 | d->geometry.words};
        memcpy(shape + 1 + 7 * i, of, sizeof of);
    }
    return XXH3_64bits(shape, (1 + 7 * (size_t)c->n_stages) * sizeof shape[0]);
}

bool view_shows(const struct view *v, const struct commit *c)
{
    return table_shape(c) == v->shape;
}

int view_create(struct tamis_filter *f, int fd, const struct header *h,
                struct view **out)
{
    const struct commit *c = &h->commit;
    size_t of_kind, bitmaps, n_bytes = view_bytes(f->kind, c, &of_kind, &bitmaps);
    bool probing = atomic_load(&f->view) != NULL;
    struct view *v = view_alloc(n_bytes, probing);
    if (!v)
        return ENOMEM;
    int err = probing && !view_begin(f, v) ? EAGAIN : 0;
    if (!err && f->unmapped)
        v->map = mapping_of_reader(unmapped_reader(f));
    else if (!err)
        err = map_file(fd, f->offset, c->committed_bytes, false, NULL, &v->map);
    if (!err && f->kind->keeps_file && !f->unmapped)
        map_keep_file(&v->map, fd, f->offset);
    if (err) {
        view_made(f, v);
        view_free(v);
        return err;
    }
    view_stages(v, f, c, bitmaps);
    f->kind->map(v, c, (uint8_t *)v + of_kind);
    v->plain = f->kind->planes && header_sealed_for_good(h) && c->n_stages == 1 &&
               c->watermark >= f->min_watermark;
    if (f->kind->find_answer && header_sealed_for_good(h) &&
        c->watermark >= f->min_watermark)
        for (uint32_t i = 0; i < c->n_stages; i++)
            stage_set_plain(&v->stages[i]);
    if (v->plain)
        stage_set_plain(&v->stages[0]);
    v->generation = c->generation;
    v->shape = table_shape(c);
    atomic_init(&v->sequence, c->sequence);
    atomic_init(&v->watermark, c->watermark);
    v->slot = no_slot;
    if (!header_sealed_for_good(h)) {
        v->slot = v->map.base + commit_slot_offset(SLOT_A);
        v->live_sequence = (const uint64_t *)(const void *)(v->slot + SLOT_SEQUENCE_AT);
        v->live_checksum = (const uint64_t *)(const void *)(v->slot + SLOT_CHECKSUM_AT);
    }
    *out = v;
    return 0;
}

/* Remembers slot A in the view. A slot that was not whole is torn for good, or its
 * writer was held up half-way; then its last word, the checksum, is still to change. */
void view_remember_slot(struct view *v, const struct header *h)
{
    atomic_store(&v->seen,
                 slot_mark(h->raw_sequence_a, h->raw_checksum_a, h->commit.watermark));
}

/* ---- growth, seen from a reader ---- */

static void raise_to(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t now = atomic_load(number);
    while (now < to && !atomic_compare_exchange_weak(number, &now, to))
        ;
}

/* Notes a header that was found good. Threads come here in any order and at any time,
 * each with the header that it read. If they mix headers up, `seen` does not match slot
 * A, and the next probe reads the header again. A lower watermark than the view's never
 * matches `seen`. A lower sequence is looked for afterwards: of two threads, one raises
 * it before the other looks, or stores `seen` after the other. */
static void view_note(struct view *v, const struct header *h)
{
    SYNC_POINT("refresh: header judged");
    raise_to(&v->sequence, h->commit.sequence);
    raise_to(&v->watermark, h->commit.watermark);
    SYNC_POINT("refresh: watermark raised");
    view_remember_slot(v, h);
    if (atomic_load(&v->sequence) != h->commit.sequence)
        atomic_store(&v->seen, 0);
    atomic_store(&v->quick, 0);
}

static bool all_stages_good(struct view *v)
{
    bool all = true;
    for (uint32_t i = 0; i < v->n_stages; i++)
        all &= stage_all_good(&v->stages[i]);
    return all;
}

/* A thread that notes a later header raises the sequence, then ends quick answers
 * (view_note()). So either it comes last, or this thread sees the sequence. */
void view_offer(struct tamis_filter *f, struct view *v, uint64_t epoch)
{
    if (!f->kind->planes || !all_stages_good(v))
        return;
    uint64_t watermark = atomic_load(&v->watermark);
    uint64_t sequence = slot_word(v->slot, SLOT_SEQUENCE_AT),
             checksum = slot_word(v->slot, SLOT_CHECKSUM_AT);
    if (watermark < f->min_watermark)
        return;
    if (v->live_sequence) {
        if (slot_mark(sequence, checksum, watermark) != atomic_load(&v->seen) ||
            sequence != atomic_load(&v->sequence))
            return;
        if (f->named && !looks_last(&f->named->looks, look_clock() + 2 * QUICK_PERIOD))
            return;
    }
    SYNC_POINT("offer: view judged");
    atomic_store(&v->quick, sequence + checksum + epoch + f->tag);
    if (v->live_sequence && atomic_load(&v->sequence) != sequence)
        atomic_store(&v->quick, 0);
}

/* May this header follow the headers that the view had shown by `least`, before this
 * one was read? It may be older than later ones, and still be right. */
static int check_successor(const struct tamis_filter *f, const struct view *v,
                           const struct bounds *least, const struct header *h)
{
    if (memcmp(h->identity.uuid, f->identity.uuid, UUID_BYTES) != 0)
        return TAMIS_ERR_MISMATCH;
    if (h->commit.generation < v->generation)
        return TAMIS_ERR_DAMAGED; /* an older table: its stages went somewhere */
    if (h->commit.sequence < least->sequence)
        return TAMIS_ERR_DAMAGED; /* an older copy put in place: its bits are, too */
    /* An older copy that was recovered since: its sequence leapt. Or a failed sync took
     * back commits that were only visible (R4), until the writer has replayed. */
    return h->commit.watermark < least->watermark ? TAMIS_ERR_DAMAGED : 0;
}

/* Publishes a view of this header; false if another thread was faster. It
 * inherits what its predecessor came to know meanwhile. */
static bool view_publish(struct tamis_filter *f, struct view *v, struct view *fresh,
                         const struct header *h)
{
    struct view *before = v;
    view_remember_slot(fresh, h);
    fresh->older = v;
    fresh->n_older = v->n_older + 1;
    SYNC_POINT("refresh: view made");
    bool first = atomic_compare_exchange_strong(&f->view, &before, fresh);
    view_made(f, fresh);
    if (!first) {
        view_free(fresh);
        return false;
    }
    SYNC_POINT("refresh: view published");
    raise_to(&fresh->sequence, atomic_load(&v->sequence));
    raise_to(&fresh->watermark, atomic_load(&v->watermark));
    if (atomic_load(&fresh->sequence) != h->commit.sequence)
        atomic_store(&fresh->seen, 0);
    atomic_store(&fresh->quick, 0); /* it may have been offered meanwhile */
    /* The descriptor stays until the filter is closed, even after a seal: another
     * thread may be reading the header through it. */
    return true;
}

/* A seal ends the looks at the name (filter_look()): it covers what the file has, and
 * not what a copy has that took the name before. */
static int check_name(struct tamis_filter *f)
{
    enum tamis_reason why =
        f->named ? named_look(f->named, f->fd, look_clock()) : TAMIS_NO_REASON;
    if (f->named && looks_known(&f->named->looks) == TAMIS_MISMATCH)
        why = TAMIS_MISMATCH;
    return why == TAMIS_NO_REASON  ? 0
           : why == TAMIS_MISMATCH ? TAMIS_ERR_MISMATCH
                                   : EIO;
}

/* One look at the file, which brings the view up to it; NULL: another thread has
 * published one meanwhile. On failure this probe is refused, and the next one looks
 * again: keys may be in stages that the old view does not know. */
static struct view *refresh_once(struct tamis_filter *f, struct standing *now)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire), *fresh;
    struct bounds least = {.sequence = atomic_load(&v->sequence),
                           .watermark = atomic_load(&v->watermark)};
    struct header h;
    if (view_is_current(v, now))
        return v;
    int err = header_load(f->fd, false, f->offset, f->limit, f->path, &h, NULL);
    if (!err)
        err = check_successor(f, v, &least, &h);
    *now = (struct standing){TAMIS_NO_REASON, h.commit.watermark};
    if (!err && h.commit.generation == v->generation && view_shows(v, &h.commit) &&
        !header_sealed_for_good(&h)) {
        view_note(v, &h);
        return v;
    }
    if (!err && header_sealed_for_good(&h))
        err = check_name(f);
    if (!err && v->n_older + 1 >= MAX_VIEWS)
        err = TAMIS_ERR_DAMAGED; /* no writer makes so many tables; memory has an end */
    if (!err)
        err = view_create(f, f->fd, &h, &fresh);
    if (!err)
        return view_publish(f, v, fresh, &h) ? fresh : NULL;
    now->refusal = reason_of_error(err);
    return v;
}

/* The rounds have an end, should a filter grow each time that it is looked at. */
struct view *view_refresh(struct tamis_filter *f, struct standing *now)
{
    enum { ROUNDS = 4 };
    struct view *v = NULL;
    int saved = errno, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    for (int i = 0; i < ROUNDS && !v; i++)
        v = refresh_once(f, now);
    if (!v) {
        v = atomic_load_explicit(&f->view, memory_order_acquire);
        now->refusal = TAMIS_UNREADABLE;
    }
    pthread_setcancelstate(cancel, &cancel);
    errno = saved;
    return v;
}
