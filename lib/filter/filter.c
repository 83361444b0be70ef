/* Open one filter for reading, if it is the one that the caller means, and close it. */
#include "lib/filter/view.h"
#include "format/hash.h"

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
    const char *differs = identity_differs(&o->identity, id, c);
    if (differs)
        return mismatch(diag, path, differs);
    if (known && !kind_is_single(id->kind))
        return mismatch(diag, path,
                        "a file of another kind, which is no segment's filter");
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
    view_remember_slot(v, h);
    atomic_init(&f->view, v);
    if (!v->live_sequence)
        return 0;
    /* Growing: the descriptor is needed again. */
    f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return f->fd >= 0 ? 0 : diag_errno(diag, errno, path, "cannot keep a descriptor");
}

/* A seal that slot A alone has may be undone, and the filter written further. One that
 * slot B has, and slot A has lost, was durable. */
static bool may_be_written(const struct header *h)
{
    return h->commit.state != STATE_SEALED ||
           (!header_sealed_for_good(h) && h->health.frame[SLOT_A].code == VERDICT_OK);
}

/* Where a writer's changes are seen: the same file, in *fresh if not by `fd` itself. */
static int where_writers_are_seen(int fd, const char *path, int *fresh,
                                  struct tamis_diag *diag)
{
    int err = io_open_shared(fd, fresh);
    if (err == TAMIS_ERR_NETWORK)
        return diag_fail(diag, err, path,
                         "an open filter on a network file system, whose pages may be "
                         "stale: seal it, or read it where it is written");
    return err ? diag_errno(
                     diag, err, path,
                     "an open filter, perhaps on an overlay, where a reader sees "
                     "no writer before it may write itself (use a volume, or a "
                     "sealed filter)")
               : 0;
}

static int open_fd(int fd, bool ours, uint64_t offset, uint64_t n_bytes,
                   const char *path, const struct tamis_filter_options *opt,
                   const struct segment_file *as, struct tamis_filter **out,
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
        err = check_expected(&o, as ? &as->known : NULL, &h, path, diag);
    int fresh = -1;
    if (!err && may_be_written(&h))
        err = where_writers_are_seen(fd, path, &fresh, diag);
    if (err)
        return err;
    if (fresh >= 0) { /* and there all may be different */
        err = open_fd(fresh, true, offset, n_bytes, path, opt, as, out, diag);
        close(fresh);
        return err;
    }

    struct tamis_filter *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (!f || !copy) {
        free(f);
        free(copy);
        return diag_errno(diag, ENOMEM, path, "cannot open");
    }
    atomic_init(&f->refs, 1);
    f->path = copy;
    f->fd = -1;
    f->counts = &f->own_counts;
    f->identity = h.identity;
    f->offset = offset;
    f->limit = n_bytes;
    f->mode = o.check == TAMIS_CHECK_FULL ? TAMIS_CHECK_LAZY : o.check;
    f->min_watermark = o.min_watermark;
    f->tag = hash_domain_tag(h.identity.hash_id, h.identity.hash_seed);
    f->kernel = kernel_get();
    f->kind = kind_find(h.identity.kind); /* one that header_load() has let pass */
    f->answer =
        f->kind->find_answer ? f->kind->find_answer(f->kernel) : f->kernel->answer;
    f->answer_few = f->kind->answer_few ? f->kind->answer_few : f->kernel->answer_few;
    f->probe = f->kind->probe;
    f->probe_many = f->kind->probe_many;
    f->prefetch = f->kind->prefetch;
    if (as && as->unmapped && header_sealed_for_good(&h) &&
        (err = unmapped_new(f, &h.commit, as->at, as->unmapped)) != 0)
        diag_errno(diag, err, path, "cannot open");
    if (!err)
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
                   const struct segment_file *as, struct tamis_filter **out,
                   struct tamis_diag *diag)
{
    return open_fd(fd, true, 0, 0, path, opt, as, out, diag);
}

/* May its file still be written? Then it has a descriptor, too. */
static bool is_live(const struct tamis_filter *f)
{
    return atomic_load(&f->view)->live_sequence != NULL;
}

int filter_name_in(struct tamis_filter *f, int at, const char *dir, const char *name)
{
    return is_live(f) ? named_in(at, dir, name, &f->named) : 0;
}

int tamis_filter_open(const char *path, const struct tamis_filter_options *opt,
                      struct tamis_filter **out, struct tamis_diag *diag)
{
    struct tamis_filter_options o;
    int fd;
    *out = NULL;
    diag_clear(diag);
    if (!path && (!opt || options_copy(&o, sizeof o, opt)))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "neither a path nor options");
    if (!path)
        return open_fd(o.fd, false, o.offset, o.n_bytes, "(descriptor)", opt, NULL, out,
                       diag);
    int err = io_open(path, O_RDONLY, &fd);
    if (err)
        return diag_open(diag, err, path, "cannot open");
    err = filter_open_fd(fd, path, opt, NULL, out, diag);
    close(fd);
    if (err || !is_live(*out))
        return err;
    err = named_path(path, (*out)->fd, &(*out)->named);
    if (!err)
        return 0;
    tamis_filter_close(*out);
    *out = NULL;
    return diag_errno(diag, err, path, "keeping its name");
}

void filter_hold(struct tamis_filter *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

void filter_release(struct tamis_filter *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct view *v = atomic_load(&f->view);
    while (v) {
        struct view *older = v->older;
        view_made(f, v); /* its maker may have gone before it said so */
        view_free(v);
        v = older;
    }
    for (size_t i = 0; i < MAX_MAKERS; i++)
        view_free(atomic_load(&f->making[i]));
    if (f->fd >= 0)
        close(f->fd);
    unmapped_free(f);
    named_free(f->named);
    free(f->path);
    free(f);
}

void tamis_filter_close(struct tamis_filter *f)
{
    if (!f || f->kept)
        return;
    for (size_t lent = atomic_load(&f->lent); lent;)
        if (atomic_compare_exchange_weak(&f->lent, &lent, lent - 1))
            return;
    atomic_store(&f->closed, true);
    for (struct view *v = atomic_load(&f->view); v; v = v->older)
        for (uint32_t i = 0; i < v->n_stages; i++)
            atomic_exchange(&v->stages[i].state, stage_number(&v->stages[i], NEVER));
    filter_release(f);
}

void filter_lend(struct tamis_filter *f)
{
    atomic_fetch_add(&f->lent, 1);
}

void filter_keep(struct tamis_filter *f)
{
    f->kept = true;
}

void filter_close(struct tamis_filter *f)
{
    f->kept = false;
    tamis_filter_close(f);
}

void filter_count_pages(struct tamis_filter *f, struct page_counts *counts)
{
    struct view *v = atomic_load(&f->view);
    f->counts = counts;
    for (uint32_t i = 0; i < v->n_stages; i++)
        v->stages[i].counts = counts;
}

const struct page_counts *filter_page_counts(const struct tamis_filter *f)
{
    return f->counts;
}

struct tamis_domain filter_domain(const struct tamis_filter *f)
{
    return (struct tamis_domain){f->identity.hash_id, f->identity.hash_seed, f->tag};
}
