/* An open filter, as other rooms use it beyond the public calls. view.h has its inside.
 */
#ifndef TAMIS_FILTER_FILTER_H
#define TAMIS_FILTER_FILTER_H

#include "lib/filter/header.h"
#include "lib/filter/key.h"
#include "lib/page/page.h"

/* ==== residency.c: what of it is in memory (public calls, too) ========== */

/* Bytes that probes use within the first `limit` of the filter's mapping; whole pages
 * of the machine's here and below. */
uint64_t filter_used_bytes(struct tamis_filter *f, uint64_t limit);
uint64_t filter_mapped_bytes(struct tamis_filter *f);
/* Over several filters; fn may be NULL. */
struct warming {
    tamis_progress_fn *fn;
    void *ctx;
    uint64_t done, total;
};
/* Reads them in; EIO, ECANCELED. */
int filter_warm_first(struct tamis_filter *f, uint64_t limit, struct warming *w);
/* Locks the first n_bytes of the mapping, without reading them, or what the limit
 * leaves (EPERM, ENOMEM, EAGAIN); *locked says how much. */
int filter_lock_first(struct tamis_filter *f, uint64_t n_bytes, uint64_t *locked);
int filter_unlock_beyond(struct tamis_filter *f, uint64_t n_bytes);
const char *filter_path(const struct tamis_filter *f); /* for messages */

/* ==== scrub.c: every page, by reading ================================= */

/* As tamis_filter_verify(), of a filter that is a whole file and has this header; slots
 * are not looked at. An errno if a page can't be read: then *report says nothing. */
int filter_scrub(int fd, const struct header *h, struct tamis_verify *report);

/* ==== filter.c, probe.c, explain.c ==== */

/* tamis_filter_open_fd() of a whole file on a descriptor of ours, with a path for
 * messages. An older copy than `known` (may be NULL) is ERR_MISMATCH. */
int filter_open_fd(int fd, const char *path, const struct tamis_filter_options *opt,
                   const struct bounds *known, struct tamis_filter **out,
                   struct tamis_diag *diag);
/* From now on probes look whether DIR/NAME, which leads from the directory `at`, names
 * its file; of a filter that is sealed for good, nothing. No other thread may have the
 * filter yet. */
int filter_name_in(struct tamis_filter *f, int at, const char *dir, const char *name);
/* The probe, with the watermark that this call requires instead of the filter's. `now`
 * is look_clock(), or 0: it is read if it is needed. */
enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    uint64_t now, const struct tamis_key *key,
                                    enum tamis_reason *why);
/* explain.c: tamis_filter_explain() for at least this watermark. */
enum tamis_answer filter_explain_from(struct tamis_filter *f, uint64_t min_watermark,
                                      const struct tamis_key *key,
                                      struct tamis_explanation *out);
size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t now, uint64_t tag, const uint64_t *hashes,
                               size_t n, uint64_t *absent, enum tamis_reason *why);
/* The bits of a filter that needs no further look at it: sealed for good, one stage,
 * all of it good, of this domain, with that watermark. False: it is not so now. It
 * stays true of the filter until stage_epoch() grows. */
bool filter_plane(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                  struct plane *plane);
/* Asks for the lines that a probe is going to look at first. */
void filter_prefetch(struct tamis_filter *f, uint64_t h);
/* From now on its pages are counted there, not in the filter. No other thread may have
 * the filter yet. */
void filter_count_pages(struct tamis_filter *f, struct page_counts *counts);
const struct page_counts *filter_page_counts(const struct tamis_filter *f);

#endif
