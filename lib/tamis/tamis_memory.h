#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- a filter in memory: load, lock and count its pages ------------------------
 *
 * Opening reads a filter's header. Its other pages come from the disk one at a time as
 * they are probed, and may be evicted again. These functions load, keep and count the
 * pages that probes use: the header, the bits of all stages and their digests, but not
 * the holes between; for a growing filter those mapped now, not those of a later stage.
 * Any thread may call them while others probe. A forked child has none of the locks. */

struct tamis_residency {
    uint64_t n_pages;    /* of the machine's size, sysconf(_SC_PAGESIZE) */
    uint64_t n_resident; /* pages in memory, whoever brought them there */
};
/* Counts by mincore(2), and reads nothing. Linux 5.2 and later report every page as
 * resident if the process neither owns the file nor may write it. The answer may be out
 * of date when it arrives. The header is resident because the filter is open. Returns
 * an errno. */
int tamis_filter_residency(struct tamis_filter *filter, struct tamis_residency *out);

/* Is called with the progress, every 8 MiB or more often, in the thread of the caller.
 * A result other than 0 stops the call. */
typedef int tamis_progress_fn(void *ctx, uint64_t done_bytes, uint64_t total_bytes);

/* Reads the pages that are not in memory, in large pieces, and maps them all. It checks
 * nothing: each page is checked before its first use, as always. fn may be NULL.
 * ECANCELED if fn stopped it. EIO if a page is unavailable; the pages after it were not
 * read. On kernels before 5.14 such a page raises SIGBUS, as in a probe. Only a lock
 * keeps the kernel from evicting the pages again. */
int tamis_filter_warm(struct tamis_filter *filter, tamis_progress_fn *fn, void *ctx);
/* Locks the filter in memory, or as much of its beginning as *budget_bytes allows,
 * reads that part, and subtracts it from the budget. It counts whole pages of the
 * mapping; holes count, as they do for the kernel. Pages beyond, locked by an earlier
 * call, are unlocked, so a budget of 0 unlocks all. The lock ends when the filter is
 * closed. It covers what is mapped now: call again when a filter has grown. EPERM,
 * ENOMEM or EAGAIN: because of the limit of locked memory (RLIMIT_MEMLOCK) less was
 * locked, or nothing. The budget says how much, and the filter works without. EIO as
 * for tamis_filter_warm(); the lock holds. */
int tamis_filter_lock(struct tamis_filter *filter, uint64_t *budget_bytes);
