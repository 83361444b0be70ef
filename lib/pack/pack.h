/* Packs made: many filters in one file, side by side (SPEC.md §17).
 *
 *     sources --bands_choose()--> plan: which column has which place
 *                                  |
 *                 pack_write() <---+   rows, table of bands, table of columns, header
 *
 * lib/filter/pack.h reads what is made here. */
#ifndef TAMIS_PACK_PACK_H
#define TAMIS_PACK_PACK_H

#include "format/pack.h"
#include "lib/filter/pack.h"

#include <stdlib.h>

/* ==== bands.c: which filters lie in one band ==== */

/* One filter that is to become a column; 32 bytes, for there may be a million. The plan
 * sets its column. */
struct pack_source {
    struct geometry geometry; /* of its blocks as they are; from hashes: at least */
    uint64_t folded_blocks;   /* bands_fold(); 0: it is made from hashes, as large as
                                 its band is */
    uint32_t file_pages;      /* of its own file; 0: it has none to go on with */
    uint32_t column;          /* of the pack, or NO_COLUMN: it stays in its file */
};
#define NO_COLUMN UINT32_MAX
/* The least number of blocks a lane to fold to, a divisor of the present one. The error
 * for `keys` stays below the target, or as it is. */
uint64_t bands_fold(const struct geometry *g, uint64_t keys, double target_error);
/* How many blocks a lane is it folded to, if it is in this band? */
uint64_t pack_own_blocks(const struct pack_source *s, const struct band *b);
struct pack_plan {
    struct band *bands;
    uint32_t n_bands, n_columns;
    uint32_t *order;     /* of the columns: numbers of sources */
    uint64_t rows_bytes; /* whole pages */
};
/* Chooses bands: the rows take few bytes, and a probe few lines. ENOMEM, EFBIG (the
 * rows would be longer than a file can be), ERR_RANGE (no source, more than 1048576, or
 * more than 4096 bands). */
int bands_choose(struct pack_source *sources, size_t n, struct pack_plan *out);
/* Marks filters that had better keep their own files: those without a column, else the
 * largest of each band that takes more than twice what its columns take by themselves,
 * if that is much of the pack, or all columns together would grow. Returns how many;
 * without them the others may be well. */
size_t bands_leave(const struct pack_source *sources, size_t n,
                   const struct pack_plan *p, bool *leave);
void pack_plan_free(struct pack_plan *p);

/* ==== hashes.c: columns that never had a file ==== */

struct pack_hashes;
/* Its file, nameless, is made in the directory `dir`; an errno. */
int pack_hashes_new(const char *dir, struct pack_hashes **out);
void pack_hashes_free(struct pack_hashes *h);
/* Takes the hashes and facts of the next filter, and sets the facts' number of keys to
 * the number of different hashes. An errno. */
int pack_hashes_add(struct pack_hashes *h, struct facts *facts, uint32_t lanes,
                    const uint64_t *hashes, size_t n);
/* Was a filter of this name taken? EIO: another one came back. */
int pack_hashes_have(struct pack_hashes *h, struct piece name, bool *have);
/* Blocks [first, first + n) of a lane of filter `number`, which has this column of its
 * band. The caller asks for each block once, in order: lane by lane, and all of them,
 * before those of the next band. EIO: other hashes came back. */
int pack_hashes_blocks(struct pack_hashes *h, uint32_t number, const struct band *b,
                       uint32_t column, uint32_t lane, uint64_t first, uint64_t n,
                       uint8_t *out);
/* Its facts, with the table digest that a column without a file has, once its blocks
 * were read (SPEC.md §17.2). */
int pack_hashes_facts(struct pack_hashes *h, uint32_t number, struct facts *out);
/* Call it when all filters are taken, before their blocks are asked for. It frees the
 * table of names, and the digests of an earlier try. */
void pack_hashes_rest(struct pack_hashes *h);

/* ==== unpack.c: a column as a filter of its own ==== */

/* Copies of pages of rows, each checked as it was copied: what probes remember of a
 * page may be older than its damage (SPEC.md §16.4). 4 MiB; NULL: no memory. */
struct pack_window *pack_window_new(void);
void pack_window_free(struct pack_window *w);
/* Blocks [first, first + n) of a lane of a column that has own_blocks of its own, as
 * its facts say. ERR_DAMAGED: a page of its rows fails its check. */
int pack_gather(struct pack_window *w, struct tamis_filter *pack,
                const struct band *band, uint32_t column, uint64_t own_blocks,
                uint32_t lane, uint64_t first, uint64_t n, uint8_t *out);

/* Writes column `column` of a band, with the facts of its entry, as a sealed filter of
 * kind 1 under its name in `dir`; synced, but for the directory. The caller begins *id
 * and *c by header_begin(); they become those of the file. ERR_DAMAGED: a page of its
 * rows fails its check. EFBIG, ERR_NETWORK, an errno. */
int pack_unpack(struct tamis_filter *pack, const struct band *band, uint32_t column,
                const struct facts *col, struct identity *id, struct commit *c, int dir,
                const char *name);
/* The same as a filter in memory, for the caller to close. */
int pack_unpack_memory(struct tamis_filter *pack, const struct band *band,
                       uint32_t column, const struct facts *col,
                       const struct tamis_domain *domain, struct tamis_filter **out,
                       struct tamis_diag *diag);
/* How long the file will be; 0: too long for a filter. */
uint64_t pack_unpacked_bytes(const struct band *band, uint64_t own_blocks);

/* Would gathering the column meet a page that is known to be bad? Pages are not
 * checked: tamis_filter_verify() does. */
bool pack_column_is_bad(struct tamis_filter *pack, const struct band *band,
                        uint32_t column, uint64_t own_blocks);

/* ==== write.c: the file ==== */

/* Where the blocks of a column come from. Fills out with blocks [first, first + n) of a
 * lane of source number `source`, as they are, before any fold; false: they cannot be
 * read. With threads it is called in each of them, at once; `thread` is its number. */
typedef bool pack_blocks_fn(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                            uint64_t first, uint64_t n, uint8_t *out);
/* The facts of a source, but for own_blocks and column. Asked some times, for the same
 * answer. An error ends the writing. */
typedef int pack_facts_fn(void *ctx, uint32_t source, struct facts *out);
struct pack_job {
    const struct pack_plan *plan;
    const struct pack_source *sources;
    pack_facts_fn *facts;
    pack_blocks_fn *blocks;
    void *ctx;
    /* By source, false at first: blocks could not be read. From there on the column has
     * ones, and is not to be used. NULL: blocks() is never false. */
    bool *gone;
    struct threads *threads; /* that help; NULL: none (lib/io/threads.h) */
    const uint8_t *uuid, *store_uuid;
    struct tamis_domain domain;
    struct pack_index *index; /* of its columns, by their names */
};
/* More threads are not put to work: each has up to 6 MiB, with its window, and all of
 * it must fit 64 MiB. */
enum { PACK_MAX_THREADS = 8 };
/* How long the file will be; ENOMEM, or what facts() returned. Keeps the order of names
 * for pack_write(), which frees it; call pack_index_free() instead if the pack is not
 * written. */
int pack_file_bytes(struct pack_job *job, uint64_t *n_bytes);
void pack_index_free(struct pack_job *job);
/* Writes the pack under its name in `dir`; synced, but for the directory. On failure
 * nothing stays. *table_digest and *file_bytes are the pack's. ERR_EXISTS, ERR_NETWORK,
 * an errno. */
int pack_write(struct pack_job *job, int dir, const char *name, uint64_t *table_digest,
               uint64_t *file_bytes, struct tamis_diag *diag);

#endif
