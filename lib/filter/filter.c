/* Open one filter for reading, and probe it.
 *
 * What a probe uses is a view: an immutable set of mapped stages. A sealed filter
 * has one view for ever. A growing one gets a new view when its stage table
 * changes; readers notice by one relaxed load of slot A's raw sequence number per
 * probe (R6). Old views stay until the filter is closed, since another thread may
 * still be probing them; there are at most as many as stage tables, some 32, and a file
 * that shows MAX_VIEWS of them is refused. */
#include "lib/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* Twice what 30 growths and a seal come to. */
enum { MAX_VIEWS = 64 };

/* ---- views ---- */

static void view_free(struct view *v)
{
    if (!v)
        return;
    map_drop(&v->map);
    free(v);
}

static size_t view_bytes(const struct commit *c, size_t *bitmaps)
{
    size_t n = sizeof(struct view) + c->n_stages * sizeof(struct stage);
    *bitmaps = n = (n + 63) / 64 * 64;
    for (size_t i = 0; i < c->n_stages; i++)
        n += stage_memory(&c->stages[i], c->state == STATE_SEALED);
    return n;
}

static void view_stages(struct view *v, const struct tamis_filter *f,
                        const struct commit *c, size_t bitmaps)
{
    bool sealed = c->state == STATE_SEALED;
    uint8_t *memory = (uint8_t *)v + bitmaps, *base = v->map.base;
    v->n_stages = c->n_stages;
    for (size_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *d = &c->stages[i];
        stage_init(&v->stages[i], d, sealed, &f->identity, f->mode, &v->map,
                   base + d->offset, sealed ? NULL : base + d->floors_offset,
                   d->digests_offset ? base + d->digests_offset : NULL, memory);
        memory += stage_memory(d, sealed);
    }
}

/* The stage table without its counts. Generations number tables, but a table that was
 * seen and never became durable may have had the same number. */
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

/* Once slot B says so too, slot A's record is durable (R1). Before that a seal may be
 * seen and undone by a power cut, so slot A is watched as before. */
static bool sealed_for_good(const struct header *h)
{
    if (h->commit.state != STATE_SEALED || h->identity.header_pages == 1)
        return h->commit.state == STATE_SEALED;
    return header_is_mirrored(h);
}

static int view_create(const struct tamis_filter *f, int fd, const struct header *h,
                       struct view **out)
{
    const struct commit *c = &h->commit;
    size_t bitmaps, n_bytes = view_bytes(c, &bitmaps);
    struct view *v = calloc(1, n_bytes);
    *out = NULL;
    if (!v)
        return ENOMEM;
    int err = map_file(fd, f->offset, c->committed_bytes, false, NULL, &v->map);
    if (err) {
        free(v);
        return err;
    }
    view_stages(v, f, c, bitmaps);
    v->generation = c->generation;
    v->shape = table_shape(c);
    v->sequence = c->sequence;
    atomic_init(&v->watermark, c->watermark);
    if (!sealed_for_good(h)) {
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
static void remember_slot(struct view *v, const struct header *h)
{
    atomic_store(&v->raw_checksum, h->raw_checksum_a);
    atomic_store(&v->watch_checksum, h->health.frame[0].code != VERDICT_OK);
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
    if (!err && h.commit.generation == v->generation &&
        table_shape(&h.commit) == v->shape && !sealed_for_good(&h)) {
        v->sequence = h.commit.sequence;
        atomic_store(&v->watermark, h.commit.watermark);
        atomic_store(&v->refusal, TAMIS_NO_REASON);
        remember_slot(v, &h);
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
    remember_slot(fresh, &h);
    fresh->older = v;
    fresh->n_older = v->n_older + 1;
    atomic_store_explicit(&f->view, fresh, memory_order_release);
    /* The descriptor stays until the filter is closed, even after a seal: another
     * thread may be reading the header through it. */
}

static bool is_current(const struct view *v)
{
    if (!v->live_sequence)
        return true;
    if (__atomic_load_n(v->live_sequence, __ATOMIC_ACQUIRE) !=
        atomic_load_explicit(&v->raw_sequence, memory_order_acquire))
        return false;
    return !atomic_load_explicit(&v->watch_checksum, memory_order_relaxed) ||
           __atomic_load_n(v->live_checksum, __ATOMIC_ACQUIRE) ==
               atomic_load(&v->raw_checksum);
}

/* One thread refreshes, the others wait. A fork may copy the mark of a thread that
 * does not exist in the child: a mark of another epoch is free to take. */
static struct view *refresh(struct tamis_filter *f)
{
    unsigned mine = io_fork_epoch() + 1, seen = 0;
    while (!atomic_compare_exchange_strong(&f->refreshing, &seen, mine)) {
        if (seen != mine && atomic_compare_exchange_strong(&f->refreshing, &seen, mine))
            break;
        seen = 0;
        sched_yield();
    }
    if (!is_current(atomic_load(&f->view)))
        refresh_locked(f);
    atomic_store(&f->refreshing, 0);
    return atomic_load_explicit(&f->view, memory_order_acquire);
}

struct view *filter_view(struct tamis_filter *f)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    return is_current(v) ? v : refresh(f);
}

/* ---- opening ---- */

enum tamis_reason filter_open_reason(int code)
{
    if (code == ENOENT)
        return TAMIS_FILE_LOST;
    if (code == TAMIS_ERR_MISMATCH)
        return TAMIS_MISMATCH;
    return TAMIS_UNREADABLE;
}

static int mismatch(struct tamis_diag *diag, const char *path, const char *what)
{
    return diag_fail(diag, TAMIS_ERR_MISMATCH, path, "%s", what);
}

/* Is this the filter that the caller means? */
static int check_expected(const struct tamis_filter_options *o,
                          const struct bounds *known, const struct header *h,
                          const char *path, struct tamis_diag *diag)
{
    const struct identity *id = &h->identity;
    const struct commit *c = &h->commit;
    struct bounds least = {.sequence = o->min_sequence, .n_stages = o->min_stages};
    if (o->domain && o->domain->tag != hash_domain_tag(id->hash_id, id->hash_seed))
        return mismatch(diag, path, "another hash or seed than expected");
    if (o->uuid && memcmp(o->uuid, id->uuid, UUID_BYTES) != 0)
        return mismatch(diag, path, "another filter than expected (UUID differs)");
    if (o->store_uuid && memcmp(o->store_uuid, id->store_uuid, UUID_BYTES) != 0)
        return mismatch(diag, path, "belongs to another store");
    if (o->name && (o->name_bytes != id->name_bytes ||
                    memcmp(o->name, id->name, id->name_bytes) != 0))
        return mismatch(diag, path, "is the filter of another segment");
    if (o->binding && (o->binding_bytes != c->binding_bytes ||
                       memcmp(o->binding, c->binding, c->binding_bytes) != 0))
        return mismatch(diag, path, "its binding differs from the one expected");
    if (commit_is_older(c, &least) || (known && commit_is_older(c, known)))
        return mismatch(diag, path, "an older copy than the catalog has seen (R5)");
    if (o->table_digest && c->state == STATE_SEALED &&
        o->table_digest != commit_table_digest(c))
        return mismatch(diag, path, "another version than the catalog has sealed");
    if (o->table_digest && c->state != STATE_SEALED)
        return mismatch(diag, path, "open, but the catalog has seen it sealed");
    return 0;
}

static int check_every_page(struct tamis_filter *f, const char *path,
                            struct tamis_diag *diag)
{
    struct tamis_verify report;
    int err = tamis_filter_verify(f, &report, NULL);
    if (err == 0 ||
        (err == TAMIS_ERR_DAMAGED && report.n_pages > 0 && report.n_damaged == 0))
        return 0; /* a stale slot alone loses nothing */
    diag_fail(diag, err, path,
              report.n_damaged ? "page fails its check" : "cannot check");
    diag_at(diag, report.first_damaged);
    return err;
}

static int open_view(struct tamis_filter *f, int fd, const struct header *h,
                     const char *path, struct tamis_diag *diag)
{
    struct view *v;
    int err = view_create(f, fd, h, &v);
    if (err)
        return diag_errno(diag, err, path, "cannot map");
    remember_slot(v, h);
    atomic_init(&f->view, v);
    if (!v->live_sequence)
        return 0;
    /* Growing: the descriptor is needed again. */
    f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return f->fd >= 0 ? 0 : diag_errno(diag, errno, path, "cannot keep a descriptor");
}

static int open_fd(int fd, bool ours, uint64_t offset, uint64_t n_bytes,
                   const char *path, const struct tamis_filter_options *opt,
                   const struct bounds *known, struct tamis_filter **out,
                   struct tamis_diag *diag)
{
    struct tamis_filter_options o;
    struct header h;
    *out = NULL;
    int err = options_copy(&o, sizeof o, opt);
    if (err || o.check > TAMIS_CHECK_NONE)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "options are not valid");
    err = header_load(fd, ours, offset, n_bytes, path, &h, diag);
    if (!err)
        err = check_expected(&o, known, &h, path, diag);
    if (err)
        return err;

    struct tamis_filter *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (!f || !copy) {
        free(f);
        free(copy);
        return diag_errno(diag, ENOMEM, path, "cannot open");
    }
    f->path = copy;
    f->fd = -1;
    f->identity = h.identity;
    f->offset = offset;
    f->limit = n_bytes;
    f->mode = o.check == TAMIS_CHECK_FULL ? TAMIS_CHECK_LAZY : o.check;
    f->min_watermark = o.min_watermark;
    f->tag = hash_domain_tag(h.identity.hash_id, h.identity.hash_seed);
    f->kernel = kernel_get();
    err = open_view(f, fd, &h, path, diag);
    if (!err && o.check == TAMIS_CHECK_FULL)
        err = check_every_page(f, path, diag);
    if (err)
        tamis_filter_close(f);
    else
        *out = f;
    return err;
}

int filter_open_fd(int fd, const char *path, const struct tamis_filter_options *opt,
                   const struct bounds *known, struct tamis_filter **out,
                   struct tamis_diag *diag)
{
    return open_fd(fd, true, 0, 0, path, opt, known, out, diag);
}

int tamis_filter_open_fd(int fd, uint64_t offset, uint64_t n_bytes,
                         const struct tamis_filter_options *opt,
                         struct tamis_filter **out, struct tamis_diag *diag)
{
    diag_clear(diag);
    return open_fd(fd, false, offset, n_bytes, "(descriptor)", opt, NULL, out, diag);
}

int tamis_filter_open(const char *path, const struct tamis_filter_options *opt,
                      struct tamis_filter **out, struct tamis_diag *diag)
{
    int fd;
    *out = NULL;
    diag_clear(diag);
    int err = io_open(path, O_RDONLY, &fd);
    if (err)
        return diag_open(diag, err, path, "cannot open");
    err = filter_open_fd(fd, path, opt, NULL, out, diag);
    close(fd);
    return err;
}

void tamis_filter_close(struct tamis_filter *f)
{
    if (!f)
        return;
    struct view *v = atomic_load(&f->view);
    while (v) {
        struct view *older = v->older;
        view_free(v);
        v = older;
    }
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f);
}

/* ---- probing ---- */

static inline enum tamis_reason probe_view(struct view *v, const struct kernel *k,
                                           uint64_t h)
{
    /* The last stages hold most keys. */
    for (uint32_t i = v->n_stages; i-- > 0;) {
        enum tamis_reason r = stage_probe(&v->stages[i], k, h);
        if (r != TAMIS_NO_REASON)
            return r;
    }
    return TAMIS_NO_REASON;
}

/* Why every probe of this view is MAYBE, or NO_REASON. */
static inline enum tamis_reason view_refusal(const struct view *v,
                                             uint64_t min_watermark)
{
    uint32_t refusal = atomic_load_explicit(&v->refusal, memory_order_relaxed);
    if (refusal)
        return (enum tamis_reason)refusal;
    /* Acquire: the bits are loaded after the watermark that vouches for them. */
    if (atomic_load_explicit(&v->watermark, memory_order_acquire) < min_watermark)
        return TAMIS_BEHIND;
    return TAMIS_NO_REASON;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static enum tamis_answer answer(enum tamis_reason reason, enum tamis_reason *why)
{
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    const struct tamis_key *key, enum tamis_reason *why)
{
    if (!f || !key)
        return answer(TAMIS_UNREADABLE, why);
    if (key->tag != f->tag)
        return answer(TAMIS_MISMATCH, why);
    struct view *v = filter_view(f);
    enum tamis_reason reason =
        view_refusal(v, at_least(min_watermark, f->min_watermark));
    if (reason == TAMIS_NO_REASON)
        reason = probe_view(v, f->kernel, key->hash);
    return answer(reason, why);
}

enum tamis_answer tamis_filter_probe(struct tamis_filter *f,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    return filter_probe_from(f, 0, key, why);
}

size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t tag, const uint64_t *hashes, size_t n,
                               uint64_t *absent, enum tamis_reason *why)
{
    size_t n_absent = 0;
    memset(absent, 0, (n + 63) / 64 * sizeof *absent);
    if (!f || tag != f->tag) {
        answer(f ? TAMIS_MISMATCH : TAMIS_UNREADABLE, why);
        return 0;
    }
    struct view *v = filter_view(f);
    enum tamis_reason reason =
        view_refusal(v, at_least(min_watermark, f->min_watermark));
    if (why)
        *why = reason;
    for (size_t i = 0; reason == TAMIS_NO_REASON && i < n; i++) {
        uint64_t bit = probe_view(v, f->kernel, hashes[i]) == TAMIS_NO_REASON;
        absent[i / 64] |= bit << (i % 64);
        n_absent += bit;
    }
    return n_absent;
}

size_t tamis_filter_probe_batch(struct tamis_filter *f, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why)
{
    return filter_probe_batch_from(f, 0, tag, hashes, n, absent, why);
}

/* ---- what it is ---- */

struct tamis_domain tamis_filter_domain(const struct tamis_filter *f)
{
    return (struct tamis_domain){f->identity.hash_id, f->identity.hash_seed, f->tag};
}
