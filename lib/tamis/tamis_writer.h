#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- writer: add to a growing filter -------------------------------------
 *
 * One writer a file. Threads: adds, commits, info and seal at once, unless it is one
 * thread's (one_thread); close alone and last. Fork: ERR_FORKED. */

struct tamis_writer;

struct tamis_writer_options {
    size_t size;
    /* For a new filter; opening ignores these three. */
    struct tamis_growth growth;        /* zero fields: defaults */
    const struct tamis_domain *domain; /* default: a random one */
    struct tamis_identity identity;
    /* Not 0: the writer is the calling thread's, until it is closed: adds then take no
     * locked instructions, which are most of their cost. Adds, commits and seals of
     * other threads are refused (ERR_THREAD), and so are those of a signal handler in
     * the middle of an add. Any thread may ask for info, and may close the writer once
     * the owner's calls have returned. A thread that begins after the owner has ended
     * may be taken for it. If a signal handler leaves an add by a jump, the writer
     * refuses all later calls: close it, by the same thread. */
    int one_thread;
};

/* Creates a growing filter and opens it for writing. It is durable under its name on
 * return. `path` must not exist (ERR_EXISTS; ERR_NETWORK, ERR_RANGE). On failure
 * nothing of it stays; a kill leaves what tamis_builder_finish() leaves. */
int tamis_writer_create(const char *path, const struct tamis_writer_options *opt,
                        struct tamis_writer **out, struct tamis_diag *diag);
/* Opens a growing filter, and recovers it if its last writer did not close it.
 * ERR_BUSY: another writer has it open, which is never waited for; the diag names it.
 * ERR_SEALED: the filter is sealed for good; a seal that its writer could not finish is
 * made durable first. ERR_NETWORK. If stages have holes, or share blocks with a copy,
 * it allocates the space first: ENOSPC here prevents a later SIGBUS. */
int tamis_writer_open(const char *path, const struct tamis_writer_options *opt,
                      struct tamis_writer **out, struct tamis_diag *diag);

/* Add keys, visible at once to every reader on this machine, durable with the next
 * commit. A full stage grows. If growth fails, the keys go into the last stage all the
 * same, and info says over_target; a commit that finds the stage full tries again.
 *
 * `hashes` is not checked: NULL is for n = 0 only. ERR_MISMATCH: the tag is not that of
 * the writer's domain, and nothing was added. After any other error some of several
 * keys may be in; you may repeat the whole add.
 *
 * A signal handler may add while its thread adds, commits or seals. If a handler leaves
 * an add, a commit or a seal by a jump, a seal may wait for ever, and stages that
 * growth left since get no digests from this writer. Close the writer then, by the same
 * thread. Commits, seals and info of a thread that is in such a call, or has left it by
 * a jump, may be refused (ERR_THREAD). */
int tamis_writer_add_key(struct tamis_writer *writer, const void *key, size_t n_bytes);
int tamis_writer_add_hashes(struct tamis_writer *writer, uint64_t tag,
                            const uint64_t *hashes, size_t n);
/* Adds n hashes, and says which are new: it clears the (n + 63) / 64 words of the
 * bitmap, then sets bit i % 64 of is_new[i / 64] if no add of hash i had begun when
 * this one was made. That is a proof, as ABSENT is. A hash without a bit may be new,
 * too: it is a false positive, damage is in the way, or the filter grew meanwhile. At
 * most one call of this function, in any thread, is told that a hash is new, and for at
 * most one of its repeats in that call. Calls of the other adds do not count. After a
 * crash hashes that were not committed are new again. Takes some 50 ns a key more than
 * an add.
 *
 * Errors are those of adds; ERR_RANGE: an argument is NULL. After an error no bit is
 * set for the hash that failed and those after it. A signal handler that interrupts
 * such a call of its own thread gets ERR_THREAD. If it leaves the call by a jump, later
 * calls may hang. */
int tamis_writer_add_new(struct tamis_writer *writer, uint64_t tag,
                         const uint64_t *hashes, size_t n, uint64_t *is_new);
/* Makes every add that returned before this call durable, and with them the caller's
 * log position: "all keys up to here are in". Watermarks never fall (ERR_RANGE). A
 * failed sync poisons the writer: close it, reopen, replay.
 *
 * The commit after a growth also digests the stage that growth left, once adds in
 * flight there have ended; growth, open and close do so for stages that still lack
 * digests. Damage that only digests find is then MAYBE. A GB of the stage takes 0.24 s
 * of processor time, 0.5% of filling it, and one more sync.
 *
 * ERR_REPLACED: the writer's path names another file now: readers that open the path do
 * not see the keys of this writer. Close the writer, open the path, and replay from the
 * watermark there. An errno from looking at the path leaves it unknown; commit again. A
 * seal looks, too; if that fails, the writer's file is sealed all the same, and a
 * second seal is ERR_SEALED: open the path and look. */
int tamis_writer_commit(struct tamis_writer *writer, uint64_t watermark,
                        struct tamis_diag *diag);
/* Fills in the state as of now, uncommitted keys included; but the watermark is that of
 * the last durable commit: replay from there. ERR_FORKED, ERR_THREAD. */
int tamis_writer_info(struct tamis_writer *writer, struct tamis_filter_info *info,
                      struct tamis_diag *diag);
/* Commits, digests every page and closes the filter for ever; durable on return. It
 * waits for adds in flight; later adds get ERR_SEALED and are not made. If the digests
 * cannot be written (ENOSPC, ENOMEM), the filter stays open and takes adds again:
 * repeat those that were refused meanwhile. *n_damaged, which may be NULL, is the
 * number of pages that had failed their check; they are sealed as all ones. For a
 * segment of a store, ERR_CATALOG and the like mean that the filter is sealed but the
 * catalog does not say so yet. Opening the segment for writing once more tells it. */
int tamis_writer_seal(struct tamis_writer *writer, uint64_t watermark,
                      uint64_t *n_damaged, struct tamis_diag *diag);
/* Marks the filter clean and frees the writer. Keys since the last commit become
 * durable but are not acknowledged: the watermark stays. ERR_POISONED: a sync failed
 * before, a page was lost, or a jump left a commit, a growth or a seal half done. An
 * errno: a write or a sync of the close itself failed, or ENOMEM. The writer is freed
 * all the same, and the file stays unclean: reopen, and replay from the watermark. */
int tamis_writer_close(struct tamis_writer *writer, struct tamis_diag *diag);
