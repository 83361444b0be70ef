#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- a filter in memory: count its pages -----------------------------------------
 *
 * Opening reads a filter's header. Its other pages come from the disk one at a time as
 * they are probed, and may be evicted again. TAMIS_CHECK_FULL reads them all while
 * opening; tamis_snapshot_prepare() loads them in large pieces, and keeps them. */

struct tamis_residency {
    uint64_t n_pages;    /* of the machine's size, sysconf(_SC_PAGESIZE) */
    uint64_t n_resident; /* pages in memory, read by any process */
};
/* Counts the pages that probes use: the header, the bits of all stages and their
 * digests, but not the holes between. For a growing filter it counts pages that are
 * mapped now. It counts by mincore(2), and reads nothing. Linux 5.2 and later report
 * every page as resident if the process neither owns the file nor may write it. The
 * answer may be out of date when it arrives. The header is resident because the filter
 * is open. An errno, ERR_RANGE. Any thread, while others probe. */
int tamis_filter_residency(struct tamis_filter *filter, struct tamis_residency *out,
                           struct tamis_diag *diag);

/* Progress of a merge, or of tamis_snapshot_prepare(): called every 8 MiB or more
 * often, in the thread of the caller. A result other than 0 stops the call. */
typedef int tamis_progress_fn(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
