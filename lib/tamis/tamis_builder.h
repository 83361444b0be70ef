#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- builder: keys in, a sealed filter out ------------------------------- */

struct tamis_builder;

struct tamis_builder_options {
    size_t size;
    const struct tamis_domain *domain; /* default: a random one */
    double error;                      /* 1e-8 .. 0.5; default 0.01 */
    const void *name;                  /* of the segment; default none */
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    const uint8_t *store_uuid; /* 16 bytes; default zero, for no store */
    uint64_t watermark;
    /* Bytes, for the hashes (8 each) and the filter together; default 64 MiB. Hashes
     * that have no room beside their filter are spooled to a file. A filter that takes
     * more than 7/8 of it is built all the same: it, and an eighth of the limit. */
    uint64_t memory_limit;
    const char *spool_dir; /* default $TMPDIR, else /tmp; the file is unlinked */
    /* Threads that finishing may use, with the caller's; default 1, more than 256 are
     * 256. Each takes half a MiB, and as many run as the limit leaves room for: none of
     * them sends hashes to the spool. Those it starts are joined before it returns, and
     * have all signals blocked; where none can be had it goes on without. */
    uint32_t n_threads;
    /* Not 0: finishing asks the finished bits for every hash that was added, and fails
     * with ERR_DAMAGED where memory has changed since: a bit of the filter, a hash, the
     * key range, the domain or the watermark. Then nothing is published. A bit that
     * flips before the page's digest is made is otherwise found by nobody, and a key is
     * lost. A spool is read twice. A key or a hash that changes before
     * tamis_builder_add has counted it stays unseen, and so does a key range that
     * changes between tamis_edit_put() and the commit of its edit. */
    uint64_t check; /* of 64 bits: an older caller has padding in the place of 32 */
};

int tamis_builder_create(const struct tamis_builder_options *opt,
                         struct tamis_builder **out, struct tamis_diag *diag);
/* Adding may fail for want of memory or spool space; then the builder stays failed.
 * Hashes of a foreign tag are refused with ERR_MISMATCH. */
int tamis_builder_add_key(struct tamis_builder *builder, const void *key,
                          size_t n_bytes);
/* The same for n keys, faster. Hash and tag of a key that has its bytes are not looked
 * at. One without (bytes NULL; a key of no bytes has some pointer, as
 * tamis_key_of() gives it) counts as in tamis_builder_add_hashes(): a foreign one is
 * ERR_MISMATCH, and no key after it is added, nor up to 255 of those before it. */
int tamis_builder_add_keys(struct tamis_builder *builder, const struct tamis_key *keys,
                           size_t n);
int tamis_builder_add_hashes(struct tamis_builder *builder, uint64_t tag,
                             const uint64_t *hashes, size_t n);
uint64_t tamis_builder_n_keys(const struct tamis_builder *builder);
struct tamis_domain tamis_builder_domain(const struct tamis_builder *builder);
/* Another name and binding than the builder was made with (NULL: none), for the filter
 * that is made of it next: many an engine knows what its file is called, and what
 * identifies it, only when the last key is in. ERR_RANGE, and nothing has changed. */
int tamis_builder_rename(struct tamis_builder *builder, const void *name,
                         size_t name_bytes, const void *binding, size_t binding_bytes);
/* Creates `path`, which must not exist (ERR_EXISTS). On return the file and its
 * name are durable; on failure nothing of it stays. A process that is killed leaves a
 * file PATH.<8 hex digits>.tmp, to be removed by hand. A filter of no keys is legal. */
int tamis_builder_finish_file(struct tamis_builder *builder, const char *path,
                              struct tamis_diag *diag);
/* Writes the filter at `offset` (a multiple of 4096) of the caller's file and says
 * how long it is. Nothing is synced: that is the caller's to do, with the rest. */
int tamis_builder_finish_fd(struct tamis_builder *builder, int fd, uint64_t offset,
                            uint64_t *n_bytes, struct tamis_diag *diag);
void tamis_builder_free(struct tamis_builder *builder);
