/* Open filters, for other rooms: what the public calls lack. view.h has the inside. */
#ifndef TAMIS_FILTER_FILTER_H
#define TAMIS_FILTER_FILTER_H

#include "lib/filter/header.h"
#include "lib/page/page.h"
#include "lib/kernel/list/list_spot.h"

/* ==== residency.c: what of it is in memory (public calls, too) ========== */

/* Bytes that probes use within the first `limit` bytes of the mapping. All counts here
 * are of whole pages of the machine. */
uint64_t filter_used_bytes(struct tamis_filter *f, uint64_t limit);
uint64_t filter_mapped_bytes(struct tamis_filter *f);
/* Progress over several filters. fn may be NULL. */
struct warming {
    tamis_progress_fn *fn;
    void *ctx;
    uint64_t done, total;
};
/* Reads them in; EIO, ECANCELED. */
int filter_warm_first(struct tamis_filter *f, uint64_t limit, struct warming *w);
/* Locks the first n_bytes of the mapping without reading them, or as many as the limit
 * allows (EPERM, ENOMEM, EAGAIN). *locked: how many. */
int filter_lock_first(struct tamis_filter *f, uint64_t n_bytes, uint64_t *locked);
int filter_unlock_beyond(struct tamis_filter *f, uint64_t n_bytes);
const char *filter_path(const struct tamis_filter *f);      /* for messages */
const uint8_t *filter_set_id(const struct tamis_filter *f); /* of its keys */

/* ==== verify.c: every page, by reading ================================= */

/* Every page of a whole file with this header, as tamis_filter_verify() checks it. An
 * errno if a page can't be read: then *report is undefined. */
int filter_scrub(int fd, const struct header *h, struct tamis_verify *report);

/* ==== list.c: lists, for the room that reads them in order ==== */

/* The facts of a list's descriptors, and where to look first. */
struct list_kernel;
struct list_map {
    uint64_t n_hashes, n_pages;
    uint32_t hash_bits;
    const struct list_kernel *kernel;
    struct list_plane plane;
    _Atomic uint32_t guide[]; /* the plane's */
};

/* NULL if the filter is no list. */
const struct list_map *filter_list(struct tamis_filter *f);
/* Its pages of hashes (LIST_PAGES) or its table of first values (LIST_INDEX). */
struct stage *filter_list_stage(struct tamis_filter *f, size_t i);
/* list.c: the pages of a list, one after the other. */
struct list_order {
    uint64_t page;       /* the next */
    uint64_t n_given;    /* values of the pages that were read */
    bool from_the_start; /* so that all are counted at the end */
    bool has_last, has_table;
    uint64_t last; /* value of the page before */
    uint64_t table_page;
    size_t failed_stage; /* LIST_PAGES or LIST_INDEX: which page failed */
    uint64_t failed_page;
    uint8_t table[PAGE_BYTES], copy[PAGE_BYTES];
};
void list_order_begin(struct list_order *o);
/* Reads the next page: *n values. False: a page failed, and the order stays at it. */
bool list_order_next(struct tamis_filter *f, struct list_order *o, uint64_t *values,
                     uint32_t *n);

/* ==== filter.c, probe.c, info.c ==== */

/* A segment's filter, as a store opens it. */
struct segment_file {
    struct bounds known;
    /* Not NULL: without a mapping if it is sealed for good, found by this name in the
     * directory `at`, which is open longer. */
    const char *unmapped;
    int at;
};
/* tamis_filter_open() on our own descriptor, of a whole file; `path` is for messages.
 * `as` is not NULL: as a segment's filter. ERR_MISMATCH for an older copy, and for a
 * kind that answers for no segment. */
int filter_open_fd(int fd, const char *path, const struct tamis_filter_options *opt,
                   const struct segment_file *as, struct tamis_filter **out,
                   struct tamis_diag *diag);
bool filter_is_unmapped(const struct tamis_filter *f);
/* From now on probes compare the file with DIR/NAME, from the directory `at`. Does
 * nothing if the filter is sealed for good. No other thread may have the filter yet. */
int filter_name_in(struct tamis_filter *f, int at, const char *dir, const char *name);
/* A probe that requires this watermark instead of the filter's. `now` is look_clock(),
 * or 0: read if needed. */
enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    uint64_t now, const struct tamis_key *key,
                                    enum tamis_reason *why);
/* info.c: tamis_filter_explain() for at least this watermark. */
enum tamis_answer filter_explain_from(struct tamis_filter *f, uint64_t min_watermark,
                                      const struct tamis_key *key,
                                      struct tamis_explanation *out);
size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t now, uint64_t tag, const uint64_t *hashes,
                               size_t n, uint64_t *absent, enum tamis_reason *why);
/* The geometry of a filter that is one plane of bits: sealed for good, one stage, this
 * domain and watermark. False: it is none. */
bool filter_geometry(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                     struct geometry *g);
/* Its bits, if they need no more checks: all pages are good. False: not so now. Holds
 * until stage_epoch() grows. */
bool filter_plane(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                  struct plane *plane);
/* Copies blocks of a lane of it; each page is checked as it was copied, for what probes
 * remember of it may be older than its damage. False: one fails. */
bool filter_copy_blocks(struct tamis_filter *f, uint32_t lane, uint64_t first,
                        uint64_t n, uint8_t *out);
/* As tamis_filter_verify(). Sets *h to its header: zeros if that cannot be read. */
int filter_verify(struct tamis_filter *f, struct header *h, struct tamis_verify *report,
                  struct tamis_diag *diag);
/* Prefetches the lines that a probe reads first. */
void filter_prefetch(struct tamis_filter *f, uint64_t h);
/* For hashing. */
struct tamis_domain filter_domain(const struct tamis_filter *f);
/* From now on pages are counted in `counts`, not in the filter. No other thread may
 * have the filter yet. */
void filter_count_pages(struct tamis_filter *f, struct page_counts *counts);
/* Lends it to a caller, whose tamis_filter_close() returns it. */
void filter_lend(struct tamis_filter *f);
/* From now on tamis_filter_close() does nothing, however often callers close what many
 * of them have: only filter_close() closes it. No other thread may have it yet. */
void filter_keep(struct tamis_filter *f);
void filter_close(struct tamis_filter *f);
const struct page_counts *filter_page_counts(const struct tamis_filter *f);

/* ==== key.c: hashes of many keys at once; the public calls hash one ==== */

/* Hashes of n keys, of the bytes that they have. */
void hash_keys(uint64_t seed, const struct tamis_key *keys, size_t n, uint64_t *hashes);

/* ERR_RANGE unless the domain is NULL or one that tamis_domain_init() makes. */
int domain_check(const struct tamis_domain *domain, struct tamis_diag *diag);

#endif
