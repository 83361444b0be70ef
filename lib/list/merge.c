/* Lists merged: one list of all their hashes, each once. Every page is checked before a
 * hash of it is used. One that fails ends the merge, and nothing of the file stays. */
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/list/list.h"
#include "lib/sort/sort.h"

#include <stdlib.h>

enum { PROGRESS_BYTES = 8 << 20 };

struct merging {
    size_t n;
    struct tamis_list_cursor **sources;
    struct merge *merge;
    struct tamis_merge_options opt;
    struct tamis_diag *diag; /* the caller's; may be NULL */
    uint64_t n_pages, told;  /* of all lists; bytes, when it was told last */
};

/* ---- the sources ---- */

static int open_sources(struct merging *m, struct tamis_filter *const *lists)
{
    int err = 0;
    for (size_t i = 0; i < m->n && !err; i++) {
        err = tamis_list_cursor_create(lists[i], &m->sources[i], m->diag);
        if (err)
            break;
        if (filter_domain(lists[i]).tag != filter_domain(lists[0]).tag)
            err = diag_fail(m->diag, TAMIS_ERR_MISMATCH, filter_path(lists[i]),
                            "a list of another hash or seed than the first: merge "
                            "lists of one store");
        else if (m->sources[i]->list->hash_bits != m->sources[0]->list->hash_bits)
            err = diag_fail(m->diag, TAMIS_ERR_UNFIT, filter_path(lists[i]),
                            "%u bits of each hash, and the first list has %u: merge "
                            "lists of one width",
                            m->sources[i]->list->hash_bits,
                            m->sources[0]->list->hash_bits);
        m->n_pages += m->sources[i]->list->n_pages;
    }
    return err;
}

static int merging_begin(struct merging *m, struct tamis_filter *const *lists, size_t n,
                         const struct tamis_merge_options *opt)
{
    if (options_copy(&m->opt, sizeof m->opt, opt))
        return diag_fail(m->diag, TAMIS_ERR_RANGE, NULL, "options are not valid");
    if (!n || !lists)
        return diag_fail(m->diag, TAMIS_ERR_RANGE, NULL, "no list to merge");
    m->n = n;
    m->sources = calloc(n, sizeof(struct tamis_list_cursor *));
    struct merge_source *s = calloc(n, sizeof *s);
    int err = m->sources && s ? open_sources(m, lists)
                              : diag_errno(m->diag, ENOMEM, NULL, "merging lists");
    for (size_t i = 0; i < n && !err; i++)
        s[i] = (struct merge_source){list_source_next, m->sources[i]};
    if (!err && merge_create(s, n, SIZE_MAX, &m->merge) != 0)
        err = diag_errno(m->diag, ENOMEM, NULL, "merging lists");
    free(s);
    return err;
}

static void end(struct merging *m)
{
    merge_free(m->merge);
    for (size_t i = 0; i < m->n && m->sources; i++)
        tamis_list_cursor_free(m->sources[i]);
    free(m->sources);
}

/* ---- the merge ---- */

static int merging_tell(struct merging *m)
{
    uint64_t done = 0, total = m->n_pages * PAGE_BYTES;
    if (!m->opt.progress)
        return 0;
    for (size_t i = 0; i < m->n; i++)
        done += m->sources[i]->order.page * PAGE_BYTES;
    if (done - m->told < PROGRESS_BYTES && (done < total || done == m->told))
        return 0;
    m->told = done;
    return m->opt.progress(m->opt.progress_ctx, done, total) ? ECANCELED : 0;
}

/* Tells of the source that failed, or else of err. */
static int merge_failed(const struct merging *m, int err, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (list_source_failed(m->sources[i], m->diag))
            return m->sources[i]->failed;
    return diag_errno(m->diag, err, name, "merging lists");
}

static int copy_values(struct merging *m, struct list_writer *w, const char *name)
{
    const uint64_t *block;
    size_t n;
    for (uint64_t i = 1;; i++) {
        int err = merge_next(m->merge, &block, &n);
        if (err)
            return merge_failed(m, err, name);
        err = n ? list_writer_add(w, block, n) : 0;
        if (err == TAMIS_ERR_RANGE)
            return diag_fail(m->diag, TAMIS_ERR_DAMAGED, name,
                             "a list has a page whose hashes are not in order");
        if (err)
            return diag_made(m->diag, err, name, "cannot write the list");
        if (i % 64 == 0 || n == 0)
            err = merging_tell(m);
        if (err)
            return diag_errno(m->diag, err, name, "stopped");
        if (n == 0)
            return 0;
    }
}

static int write_list(struct merging *m, const struct tamis_domain *domain,
                      const struct list_target *to, struct list_written *out)
{
    struct list_options o = {.domain = *domain,
                             .hash_bits = m->sources[0]->list->hash_bits,
                             .who = &m->opt.identity,
                             .watermark = m->opt.watermark};
    struct list_writer *w;
    int err = list_writer_create(&o, to->uuid, to->dir, to->name, &w, m->diag);
    if (err)
        return err;
    err = copy_values(m, w, to->name);
    if (!err)
        return list_writer_finish(w, to->sync_dir, out, m->diag);
    list_writer_abort(w);
    return err;
}

/* A thread that is cancelled in here would leave memory and a temporary file. */
int list_merge(struct tamis_filter *const *lists, size_t n,
               const struct tamis_merge_options *opt, const struct list_target *to,
               struct tamis_merge_report *report, struct list_written *out,
               struct tamis_diag *diag)
{
    struct merging m = {.diag = diag};
    int before = io_hold_cancel();
    memset(report, 0, sizeof *report);
    int err = merging_begin(&m, lists, n, opt);
    if (!err) {
        struct tamis_domain domain = filter_domain(lists[0]);
        err = write_list(&m, &domain, to, out);
    }
    if (!err) {
        for (size_t i = 0; i < n; i++)
            report->n_read += m.sources[i]->list->n_hashes;
        report->n_repeats = merge_repeats(m.merge);
        report->n_hashes = out->n_hashes;
        report->file_bytes = out->file_bytes;
    }
    end(&m);
    io_let_cancel(before);
    return err;
}

int tamis_list_merge(struct tamis_filter *const *lists, size_t n, const char *path,
                     const struct tamis_merge_options *opt,
                     struct tamis_merge_report *report, struct tamis_diag *diag)
{
    struct tamis_merge_report ours;
    struct list_target to = {.sync_dir = true};
    struct list_written written;
    diag_clear(diag);
    if (!report)
        report = &ours;
    memset(report, 0, sizeof *report);
    int err = io_open_new(path, &to.dir, &to.name, diag);
    if (err)
        return err;
    io_calls.random(to.uuid, sizeof to.uuid);
    err = list_merge(lists, n, opt, &to, report, &written, diag);
    if (err && diag && strcmp(diag->file, to.name) == 0)
        diag_in(diag, path);
    close(to.dir);
    return err;
}
