#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- builder: keys in, a sealed filter out -------------------------------
 *
 * Makes a sealed filter in one go. Threads: one at a time. Fork: usable by one side. */

struct tamis_builder;

/* Kinds of filters, as files number them. */
enum tamis_kind { TAMIS_BLOOM = 1, TAMIS_PACK = 2, TAMIS_RIBBON = 3 };

struct tamis_builder_options {
    size_t size;
    const struct tamis_domain *domain; /* default: a random one */
    double error;                      /* 1e-8 .. 0.5; default 0.01 */
    struct tamis_identity identity;
    uint64_t watermark;
    /* Bytes for the hashes (8 each) and the filter together; default 64 MiB. Hashes
     * that have no room beside their filter are spooled to a file. A filter that takes
     * more than 7/8 of the limit is built all the same, in its size and 1/8 of the
     * limit. */
    uint64_t memory_limit;
    const char *spool_dir; /* default $TMPDIR, else /tmp; the file is unlinked */
    /* Threads for finishing, the caller's included; default 1; more than 256 are 256.
     * Each takes half a MiB. As many run as the limit has room for without spooling
     * hashes. They have all signals blocked, and are joined before finishing returns.
     * If none can be started, it goes on without. */
    uint32_t n_threads;
    /* Not 0: finishing asks the finished bits for every added hash. If memory has
     * changed since (a bit, a hash, the key range, the domain or the watermark) it
     * fails with ERR_DAMAGED and publishes nothing. Otherwise a bit that flips before
     * the page's digest is made goes unnoticed, and a key is lost. The check reads a
     * spool twice. It misses a key or hash that changes before tamis_builder_add has
     * counted it, and a key range that changes after tamis_edit_put(). */
    uint64_t check; /* of 64 bits: an older caller has padding in the place of 32 */
    /* Not 0: tamis_builder_finish() can make a list of the hashes, too, cut to so many
     * bits: 1 to 64, all of them. Spooled hashes are then sorted as they are
     * written, which takes 15 ns a hash. */
    uint64_t list_bits;
    /* TAMIS_BLOOM (or 0) or TAMIS_RIBBON. A ribbon takes a few per cent more than
     * log2(1/error) bits a key, where a Bloom filter takes 44% more; building it takes
     * about ten times as long, asking it up to three times. It is neither united nor
     * packed. With hashes that are not evenly spread it is larger. If hashes are
     * spooled, the spool is read once for each portion of them that has room in memory.
     * Hashes that pages bump, 0.5% if evenly spread, stay in memory beside the
     * limit. */
    uint64_t kind;
};

/* Creates a builder; tamis_edit_builder() makes one for a store. It writes nothing. The
 * caller frees it. ERR_RANGE, ENOMEM. */
int tamis_builder_create(const struct tamis_builder_options *opt,
                         struct tamis_builder **out, struct tamis_diag *diag);
/* Adds a key. Any add may fail for lack of memory or spool space (an errno); then later
 * adds and finishing fail, too. */
int tamis_builder_add_key(struct tamis_builder *builder, const void *key,
                          size_t n_bytes);
/* Adds n keys, faster. A key that has its bytes is hashed anew; its hash and tag are
 * ignored. A key with NULL bytes counts as in tamis_builder_add_hashes(); an empty key
 * needs a pointer, as tamis_key_of() gives it. A foreign hash is ERR_MISMATCH: no key
 * after it is added, nor up to 255 keys before it. */
int tamis_builder_add_keys(struct tamis_builder *builder, const struct tamis_key *keys,
                           size_t n);
/* Adds n hashes of the builder's domain (else ERR_MISMATCH, and none is added). The
 * builder's keys then have no range. */
int tamis_builder_add_hashes(struct tamis_builder *builder, uint64_t tag,
                             const uint64_t *hashes, size_t n);
struct tamis_finish_options {
    size_t size;
    /* If it has a name, this name and binding replace the builder's: many engines know
     * those of their file only after the last key. store_uuid is ignored. */
    struct tamis_identity identity;
    /* Not 0: a list of the hashes in the place of a filter, each hash once. ERR_RANGE
     * without list_bits. `check` says nothing of it. It takes 3 MiB beside the
     * builder's memory, and 256 bytes for each time that hashes were spooled. */
    int list;
    /* Where to write, if `path` is NULL: at `offset`, a multiple of 4096, of this
     * descriptor. Nothing is synced: the caller does that. Not a list (ERR_RANGE). */
    int fd;
    uint64_t offset;
};
/* Makes a filter of the keys so far; one without keys is legal. It creates the file
 * `path`, which must not exist (ERR_EXISTS). On return the file and its name are
 * durable; on failure nothing of it stays. A killed process leaves a file PATH.<8 hex
 * digits>.tmp; remove it by hand. *n_bytes, which may be NULL, is the length of the
 * filter, 0 on failure. The builder may then make a list, too, or take more keys. */
int tamis_builder_finish(struct tamis_builder *builder, const char *path,
                         const struct tamis_finish_options *opt, uint64_t *n_bytes,
                         struct tamis_diag *diag);
/* Frees the builder, and what it has spooled. */
void tamis_builder_free(struct tamis_builder *builder);
