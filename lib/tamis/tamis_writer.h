#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- writer: add to a growing filter ------------------------------------- */

struct tamis_writer;

struct tamis_writer_options {
    size_t size;
    struct tamis_growth growth;        /* zero fields: defaults */
    const struct tamis_domain *domain; /* default: a random one */
    const void *name;
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    const uint8_t *store_uuid;
};

/* Creates a growing filter, durable under its name on return, and opens it. `path` must
 * not exist (ERR_EXISTS); on failure nothing of it stays, and after a kill what
 * tamis_builder_finish_file() leaves. */
int tamis_writer_create(const char *path, const struct tamis_writer_options *opt,
                        struct tamis_writer **out, struct tamis_diag *diag);
/* Opens an existing one, after recovering it if its last writer did not close it.
 * ERR_BUSY (the diag names the holder), ERR_SEALED (for good: a seal that its writer
 * could not bring to the end is made durable first), ERR_NETWORK. Where its stages have
 * holes, or share blocks with a copy, it asks for the space first: ENOSPC here is no
 * SIGBUS later. */
int tamis_writer_open(const char *path, struct tamis_writer **out,
                      struct tamis_diag *diag);
/* Visible at once to every reader on this machine; durable with the next commit.
 * A full stage grows; if that fails the keys go into the last stage all the same
 * (info says over_target). A commit that finds the stage full tries again. If a signal
 * handler leaves the call by a jump, a seal waits for it for ever: close the writer
 * then. (Stages that growth left since get no digests from this writer.) */
int tamis_writer_add_key(struct tamis_writer *writer, const void *key, size_t n_bytes);
int tamis_writer_add_hashes(struct tamis_writer *writer, uint64_t tag,
                            const uint64_t *hashes, size_t n);
/* Makes every add that returned before this call durable, and with them the
 * caller's log position: "all keys up to here are in". Watermarks never fall
 * (ERR_RANGE). A failed sync poisons the writer: close it, reopen, replay.
 * The commit after a growth also digests the stage that growth left, once adds in
 * flight there have ended; growth, open and close do so for stages that still lack
 * digests. Damage that only digests find is then MAYBE. Settling takes 0.24 s of
 * processor time a GB of the stage, 0.5% of what filling it took, and one sync more.
 * ERR_REPLACED: the path that the writer was opened by names another file now, and
 * nobody finds the keys there. Close the writer, open the path, and replay from the
 * watermark of the file that is there. An errno of looking at the path says that nobody
 * knows; commit again. A seal looks, too. If that fails, the file that the writer has
 * is sealed all the same, and a second seal is ERR_SEALED: open the path, and see. */
int tamis_writer_commit(struct tamis_writer *writer, uint64_t watermark,
                        struct tamis_diag *diag);
/* The watermark of the last durable commit: replay from there. */
uint64_t tamis_writer_watermark(const struct tamis_writer *writer);
struct tamis_domain tamis_writer_domain(const struct tamis_writer *writer);
int tamis_writer_info(struct tamis_writer *writer, struct tamis_filter_info *info);
/* Commits, digests every page and closes the filter for ever; durable on return.
 * Waits for adds in flight; later ones get ERR_SEALED. *n_damaged (may be NULL)
 * says how many pages had failed their check: they are sealed as all ones. Of a store's
 * segment: ERR_CATALOG and the like mean that the filter is sealed, but the catalog
 * does not know yet; opening the segment for writing once more tells it. */
int tamis_writer_seal(struct tamis_writer *writer, uint64_t watermark,
                      uint64_t *n_damaged, struct tamis_diag *diag);
/* Marks the filter clean and lets go of it. Keys added since the last commit are
 * made durable, but not acknowledged: the watermark stays. */
int tamis_writer_close(struct tamis_writer *writer);
