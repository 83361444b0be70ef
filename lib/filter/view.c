/* What a probe uses is a view: an immutable set of mapped stages. A sealed filter has
 * one view for ever. A growing one gets a new view when its stage table changes, or
 * more of its stages are settled;
 * readers notice by a look at both ends of slot A at each probe (R6).
 * Old views stay until the filter is closed, since another thread may still be probing
 * them; there are at most as many as stage tables, and as stages that are settled in
 * their turn, some 60. A file that shows MAX_VIEWS of them is refused. */
#include "lib/filter/filter.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* Twice what 29 growths, as many stages settled one by one, and a seal come to. */
enum { MAX_VIEWS = 128 };

/* ---- views ---- */

void view_free(struct view *v)
{
    if (!v)
        return;
    map_drop(&v->map);
    free(v);
}

/* A view, its stages, planes, and from `bitmaps` on what they remember. */
static size_t view_bytes(const struct commit *c, size_t *planes, size_t *bitmaps)
{
    size_t n = sizeof(struct view) + c->n_stages * sizeof(struct stage);
    *planes = n = (n + 63) / 64 * 64;
    n += c->n_stages * sizeof(struct plane);
    *bitmaps = n = (n + 63) / 64 * 64;
    for (size_t i = 0; i < c->n_stages; i++) {
        struct stage_desc d = commit_stage(c, i);
        n += stage_memory(&d, commit_has_digests(c, i));
    }
    return n;
}

static void view_stages(struct view *v, const struct tamis_filter *f,
                        const struct commit *c, size_t bitmaps)
{
    uint8_t *memory = (uint8_t *)v + bitmaps, *base = v->map.base;
    v->n_stages = c->n_stages;
    for (size_t i = 0; i < c->n_stages; i++) {
        struct stage_desc d = commit_stage(c, i);
        bool digests = commit_has_digests(c, i);
        stage_init(&v->stages[i], &d, digests, &f->identity, f->mode, &v->map,
                   base + d.offset, digests ? NULL : base + d.floors_offset,
                   d.digests_offset ? base + d.digests_offset : NULL, memory);
        v->stages[i].counts = f->counts;
        memory += stage_memory(&d, digests);
        v->planes[i] = plane_of(base + d.offset, &d.geometry);
    }
}

/* The stage table without its counts and what is settled. Generations number tables,
 * but a table that was seen and never became durable may have had the same number. */
static uint64_t table_shape(const struct commit *c)
{
    uint64_t shape[1 + 7 * MAX_STAGES] = {c->state};
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

/* A stage that was settled once never changes again: a record that no longer says so,
 * of a writer that does not know the feature (R17), takes back nothing. The digests
 * that the view has are still in the file, and still right. */
bool view_shows(const struct view *v, const struct commit *c)
{
    return table_shape(c) == v->shape && c->n_settled <= v->n_settled;
}

int view_create(const struct tamis_filter *f, int fd, const struct header *h,
                struct view **out)
{
    const struct commit *c = &h->commit;
    size_t planes, bitmaps, n_bytes = view_bytes(c, &planes, &bitmaps);
    struct view *v = calloc(1, n_bytes);
    *out = NULL;
    if (!v)
        return ENOMEM;
    int err = map_file(fd, f->offset, c->committed_bytes, false, NULL, &v->map);
    if (err) {
        free(v);
        return err;
    }
    v->planes = (struct plane *)(void *)((uint8_t *)v + planes);
    view_stages(v, f, c, bitmaps);
    v->plane = v->planes[0];
    v->plain = header_sealed_for_good(h) && c->n_stages == 1 &&
               c->watermark >= f->min_watermark;
    if (v->plain) /* nobody else has it yet */
        atomic_init(&v->stages[0].plain_good,
                    stage_all_good(&v->stages[0]) ? ALL_GOOD : NOT_YET);
    v->generation = c->generation;
    v->shape = table_shape(c);
    v->n_settled = c->n_settled;
    v->sequence = c->sequence;
    atomic_init(&v->watermark, c->watermark);
    if (!header_sealed_for_good(h)) {
        const uint8_t *slot = v->map.base + commit_slot_offset(SLOT_A);
        v->live_sequence =
            (const uint64_t *)(const void *)(slot +
                                             offsetof(struct commit_disk, sequence));
        v->live_checksum =
            (const uint64_t *)(const void *)(slot + SLOT_BYTES - sizeof(struct le64));
    }
    *out = v;
    return 0;
}

/* What the view remembers of slot A. One that was not whole is torn for good, or its
 * writer was held up half-way: then its last word, the checksum, is still to change. */
void view_remember_slot(struct view *v, const struct header *h)
{
    atomic_store(&v->raw_checksum, h->raw_checksum_a);
    atomic_store(&v->raw_sequence, h->raw_sequence_a);
}

/* ---- growth, seen from a reader ---- */

/* Brings the view up to the file; on failure the old view refuses until a later
 * probe succeeds: keys may be in stages that it does not know. */
static void refresh_locked(struct tamis_filter *f)
{
    struct view *v = atomic_load(&f->view), *fresh;
    struct header h;
    int err = header_load(f->fd, false, f->offset, f->limit, f->path, &h, NULL);
    if (!err && memcmp(h.identity.uuid, f->identity.uuid, UUID_BYTES) != 0)
        err = TAMIS_ERR_MISMATCH;
    if (!err && h.commit.generation < v->generation)
        err = TAMIS_ERR_DAMAGED; /* an older table: its stages went somewhere */
    if (!err && h.commit.sequence < v->sequence)
        err = TAMIS_ERR_DAMAGED; /* an older copy put in place: its bits are, too */
    /* The same, and recovered since: its sequence leapt. Or a failed sync took back
     * what was only visible (R4): who can tell? Until its writer has replayed. */
    if (!err && h.commit.watermark < atomic_load(&v->watermark))
        err = TAMIS_ERR_DAMAGED;
    if (!err && h.commit.generation == v->generation && view_shows(v, &h.commit) &&
        !header_sealed_for_good(&h)) {
        v->sequence = h.commit.sequence;
        atomic_store(&v->watermark, h.commit.watermark);
        atomic_store(&v->refusal, TAMIS_NO_REASON);
        view_remember_slot(v, &h);
        return;
    }
    if (!err && v->n_older + 1 >= MAX_VIEWS)
        err = TAMIS_ERR_DAMAGED; /* no writer makes so many tables; memory has an end */
    if (!err)
        err = view_create(f, f->fd, &h, &fresh);
    if (err) {
        atomic_store(&v->refusal, filter_open_reason(err));
        return;
    }
    view_remember_slot(fresh, &h);
    fresh->older = v;
    fresh->n_older = v->n_older + 1;
    atomic_store_explicit(&f->view, fresh, memory_order_release);
    /* The descriptor stays until the filter is closed, even after a seal: another
     * thread may be reading the header through it. */
}

/* One thread refreshes, the others wait. A fork may copy the mark of a thread that
 * does not exist in the child: a mark of another epoch is free to take. */
struct view *view_refresh(struct tamis_filter *f)
{
    unsigned mine = io_fork_epoch() + 1, seen = 0;
    while (!atomic_compare_exchange_strong(&f->refreshing, &seen, mine)) {
        if (seen != mine && atomic_compare_exchange_strong(&f->refreshing, &seen, mine))
            break;
        seen = 0;
        sched_yield();
    }
    if (!view_is_current(atomic_load(&f->view)))
        refresh_locked(f);
    atomic_store(&f->refreshing, 0);
    return atomic_load_explicit(&f->view, memory_order_acquire);
}
