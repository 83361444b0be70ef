/* Preparing a snapshot: its filters opened ahead of their first probe, and as many of
 * them read in, and locked in memory, as the caller wants, in the order of ranks.
 * No failure here changes an answer: the first probe opens a filter that is not open,
 * or answers MAYBE. */
#include "lib/store/snapshot/snapshot.h"

/* A filter of listed segments: first files of many, which every key asks, then the
 * others in the order of ranks. */
struct prepared {
    struct tamis_filter *filter; /* NULL: an earlier one has it */
    uint64_t lock;               /* bytes to lock; once locked, the bytes that are */
};

struct preparing {
    struct tamis_snapshot *snapshot;
    struct tamis_prepare_options opt;
    uint64_t *listed; /* a bit for each segment; NULL: all are */
    struct prepared *files;
    size_t n, max;        /* files */
    struct names filters; /* that are in `files`: pointers, as bytes */
    struct tamis_prepare_report *report;
    struct tamis_diag *diag;
    bool told;        /* diag is about the first failure */
    int unlock_error; /* of the first that failed */
};

/* Where a call that may fail tells why, if it is the first. */
static struct tamis_diag *diag_of_first(const struct preparing *p)
{
    return p->told ? NULL : p->diag;
}

/* ---- opening ---- */

static bool is_wanted(const struct preparing *p, size_t i)
{
    return !p->listed || p->listed[i / 64] >> i % 64 & 1;
}

static int list_segments(struct preparing *p)
{
    const struct tamis_snapshot *s = p->snapshot;
    if (!p->opt.targets)
        return 0;
    p->listed = calloc(s->n / 64 + 2, sizeof *p->listed);
    if (!p->listed)
        return ENOMEM;
    for (size_t i = 0; i < p->opt.n_targets; i++) {
        const struct tamis_target *t = &p->opt.targets[i];
        size_t at = t->ordinal - 1U;
        if (target_here(s, t))
            p->listed[at / 64] |= UINT64_C(1) << at % 64;
        else
            p->report->n_skipped++;
    }
    return 0;
}

static int add_prepared(struct preparing *p, struct tamis_filter *f)
{
    void *more = room_for(p->files, p->n + 1, &p->max, sizeof *p->files);
    if (!more)
        return ENOMEM;
    p->files = more;
    p->files[p->n++] = (struct prepared){.filter = f};
    return 0;
}

static void note_opened(struct preparing *p, int rc, uint64_t n)
{
    *(rc ? &p->report->n_failed : &p->report->n_open) += n;
    p->told |= rc != 0;
}

/* For how many listed segments a shared file answers, and for how many it does not:
 * then why, an errno or a code. */
static int count_answered(const struct preparing *p, const struct shared_view *v,
                          uint64_t *n, uint64_t *n_lost)
{
    struct seat seat = {.view = v, .why = TAMIS_FILE_LOST};
    const uint64_t *asked = p->listed;
    *n_lost = asked ? 0 : view_mute(v);
    *n = asked ? 0 : v->n_listed - *n_lost;
    for (size_t w = 0; asked && w < bit_words(v->n_columns); w++) {
        uint64_t dead = v->dead ? dead_word(v, w) : UINT64_MAX;
        uint64_t bits = columns_word(v->listed, w) & asked[v->base / 64 + w];
        *n += (uint64_t)__builtin_popcountll(bits & ~dead);
        *n_lost += (uint64_t)__builtin_popcountll(bits & dead);
    }
    return *n_lost ? seat_lost(p->snapshot, &seat, diag_of_first(p)) : 0;
}

static int open_loose(struct preparing *p, size_t i)
{
    struct tamis_snapshot *s = p->snapshot;
    struct tamis_diag *diag = diag_of_first(p);
    struct entry *e = s->entries[i];
    struct tamis_filter *f = NULL;
    struct seat seat = segment_seat(s, i);
    if (e->state == RECORD_NO_FILTER) {
        p->report->n_skipped++;
        return 0;
    }
    int rc = !e->elsewhere ? entry_filter(s, e, &f, diag)
             : seat.band   ? 0
                           : seat_lost(s, &seat, diag);
    note_opened(p, rc, 1);
    return rc ? 0 : add_prepared(p, f ? f : seat_filter(&seat));
}

static int open_filters(struct preparing *p)
{
    struct tamis_snapshot *s = p->snapshot;
    int rc = 0;
    for (size_t i = 0; i < s->shared.n && !rc; i++) {
        const struct shared_view *v = &s->shared.views[i];
        uint64_t n, n_lost;
        int lost = count_answered(p, v, &n, &n_lost);
        note_opened(p, 0, n);
        note_opened(p, lost, n_lost);
        rc = n ? add_prepared(p, v->open->filter) : 0;
    }
    for (size_t i = 0; i < s->n_loose && !rc; i++)
        if (is_wanted(p, i))
            rc = open_loose(p, i);
    return rc;
}

/* A file of many, or a caller's filter, may be there several times: it is in memory
 * once. */
static int forget_twins(struct preparing *p)
{
    int rc = 0;
    for (size_t i = 0; i < p->n && !rc; i++) {
        struct tamis_filter **f = &p->files[i].filter;
        if (names_get(&p->filters, f, sizeof *f)) {
            *f = NULL;
            continue;
        }
        rc = names_set(&p->filters, f, sizeof *f, 1);
        p->report->open_bytes += filter_used_bytes(*f, UINT64_MAX);
    }
    return rc;
}

/* ---- locking ---- */

/* Returns how much of the filter may still be locked. To unlock a part takes memory of
 * the kernel; to unlock all of it takes none. */
static uint64_t unlock_beyond(struct preparing *p, struct tamis_filter *f,
                              uint64_t n_bytes)
{
    int err = filter_unlock_beyond(f, n_bytes);
    if (!err)
        return n_bytes;
    p->unlock_error = p->unlock_error ? p->unlock_error : err;
    return filter_unlock_beyond(f, 0) == 0 ? n_bytes : filter_mapped_bytes(f);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Segments that are not listed have no share, nor has a file of such segments alone. */
static uint64_t unlock_unlisted(struct preparing *p)
{
    const struct tamis_snapshot *s = p->snapshot;
    uint64_t stuck = 0;
    for (size_t i = 0; i < s->n_loose; i++) {
        struct tamis_filter *f =
            atomic_load_explicit(&s->entries[i]->filter, memory_order_acquire);
        if (f && !is_wanted(p, i))
            stuck += unlock_beyond(p, f, 0);
    }
    for (size_t i = 0; i < s->shared.n; i++) {
        const struct open_pack *open = s->shared.views[i].open;
        struct tamis_filter *f = open ? open->filter : NULL;
        if (f && !names_get(&p->filters, &f, sizeof f))
            stuck += unlock_beyond(p, f, 0);
    }
    return stuck;
}

/* Divides the budget among the segments, and unlocks what exceeds a share. */
static void share_budget(struct preparing *p)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t left = p->opt.lock_bytes / page * page;
    left -= smaller(unlock_unlisted(p), left);
    for (size_t i = 0; i < p->n; i++) {
        struct prepared *one = &p->files[i];
        if (!one->filter)
            continue;
        one->lock = smaller(filter_mapped_bytes(one->filter), left);
        left -= smaller(unlock_beyond(p, one->filter, one->lock), left);
    }
}

static void lock_filters(struct preparing *p)
{
    struct tamis_prepare_report *report = p->report;
    bool alone = false; /* only those that come first are locked */
    for (size_t i = 0; i < p->n; i++) {
        struct prepared *one = &p->files[i];
        uint64_t want = one->lock;
        if (!one->filter || report->lock_error || !want) {
            one->lock = 0;
            continue;
        }
        int err = filter_lock_first(one->filter, want, &one->lock);
        if (err == ENOMEM && !alone) { /* later ones may be in its way */
            for (size_t later = i + 1; later < p->n; later++)
                if (p->files[later].filter)
                    unlock_beyond(p, p->files[later].filter, 0);
            alone = true;
            err = filter_lock_first(one->filter, want, &one->lock);
        }
        report->lock_error = err;
        report->locked_bytes += one->lock;
    }
    if (!report->lock_error)
        report->lock_error = p->unlock_error;
}

/* ---- reading in ---- */

static uint64_t bytes_to_read(const struct preparing *p, const struct prepared *one)
{
    if (!one->filter)
        return 0;
    return filter_used_bytes(one->filter, p->opt.warm ? UINT64_MAX : one->lock);
}

static int warm_filters(struct preparing *p)
{
    struct warming w = {.fn = p->opt.fn, .ctx = p->opt.ctx};
    for (size_t i = 0; i < p->n; i++)
        w.total += bytes_to_read(p, &p->files[i]);
    int err = 0;
    for (size_t i = 0; i < p->n && err != ECANCELED; i++) {
        struct prepared *one = &p->files[i];
        uint64_t before = w.done, n = bytes_to_read(p, one);
        if (n == 0)
            continue;
        err = filter_warm_first(one->filter, p->opt.warm ? UINT64_MAX : one->lock, &w);
        p->report->warm_bytes += w.done - before;
        if (!err || err == ECANCELED)
            continue;
        p->report->n_unread++;
        diag_errno(diag_of_first(p), err, filter_path(one->filter), "reading it in");
        p->told = true;
        w.done = before + n; /* pages that were not read are done, too */
    }
    return err == ECANCELED ? err : 0;
}

int tamis_snapshot_prepare(struct tamis_snapshot *snapshot,
                           const struct tamis_prepare_options *opt,
                           struct tamis_prepare_report *report, struct tamis_diag *diag)
{
    struct tamis_prepare_report unasked;
    struct preparing p = {
        .snapshot = snapshot, .report = report ? report : &unasked, .diag = diag};
    *p.report = (struct tamis_prepare_report){0};
    diag_clear(diag);
    int err = options_copy(&p.opt, sizeof p.opt, opt);
    if (err || !snapshot || (!p.opt.targets && p.opt.n_targets))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         snapshot ? "options are not valid" : "no snapshot");
    err = list_segments(&p);
    if (!err)
        err = open_filters(&p);
    if (!err)
        err = forget_twins(&p);
    if (!err && p.opt.lock_bytes) {
        share_budget(&p);
        lock_filters(&p);
    }
    if (!err)
        err = warm_filters(&p);
    free(p.listed);
    free(p.files);
    names_clear(&p.filters);
    return err ? diag_errno(diag, err, NULL, "preparing a snapshot, as far as it came")
               : 0;
}
