#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- what of a filter is in memory --------------------------------------------------
 *
 * Opening reads a filter's header; its pages come from the disk as they are probed, one
 * at a time, and the kernel drops them again as it needs the memory. These calls bring
 * them in ahead of the first probe, keep them, and count them. They count what probes
 * use, in pages of the machine's: the header, the bits of all stages and what they are
 * checked with, not the holes between. Of a filter that grows they mean what is mapped
 * now: a stage that is added later is neither warm nor locked. Any thread may call them
 * while others probe. A forked child has the pages, and none of the locks. */

struct tamis_residency {
    uint64_t n_pages;    /* of the machine's size, sysconf(_SC_PAGESIZE) */
    uint64_t n_resident; /* of them in memory, whoever brought them there */
};
/* mincore(2): of a file that the process neither owns nor may write, Linux 5.2 and
 * later say that every page is in memory. The answer may be old when it is there.
 * Reads nothing; the header is in memory because the filter is open. An errno. */
int tamis_filter_residency(struct tamis_filter *filter, struct tamis_residency *out);

/* Hears how far it has come, every 8 MiB or more often, in the thread that called.
 * Other than 0: stop. */
typedef int tamis_progress_fn(void *ctx, uint64_t done_bytes, uint64_t total_bytes);

/* Reads what is not in memory yet, in large pieces, and maps all of it. It checks
 * nothing: a page is checked before its first use, as always. fn may be NULL. ECANCELED
 * if fn said stop; EIO if a page cannot be had, and what follows it was not read. (On
 * kernels before 5.14 such a page is SIGBUS, as in a probe.) Nothing keeps the kernel
 * from dropping pages again but a lock. */
int tamis_filter_warm(struct tamis_filter *filter, tamis_progress_fn *fn, void *ctx);
/* Locks the filter in memory, or as much of its beginning as *budget_bytes allows, in
 * whole pages of the mapping (holes count, as they do for the kernel), reads that part,
 * and takes it off the budget; what is beyond, locked by an earlier call, is unlocked:
 * a budget of 0 unlocks all. The lock ends when the filter is closed, and covers what
 * is mapped now: call again when a filter has grown. EPERM, ENOMEM or EAGAIN: the limit
 * of locked memory (RLIMIT_MEMLOCK) let it lock less than that, or nothing; the budget
 * says how much, and all goes on without. EIO as above, with the lock. */
int tamis_filter_lock(struct tamis_filter *filter, uint64_t *budget_bytes);
