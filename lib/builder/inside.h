/* A builder from inside. README.md says what each file has of it. */
#ifndef TAMIS_BUILDER_H
#define TAMIS_BUILDER_H

#include "lib/builder/builder.h"
#include "lib/io/io.h"
#include "lib/io/threads.h"

#include <stdlib.h>
#include <sys/mman.h>

/* The sum of a list of hashes, whatever their order (check.c). */
struct hash_sum {
    uint64_t n, added, xored;
};

/* Hashes of the spool that are in order. */
struct sorted_run {
    uint64_t at, n; /* in hashes */
    uint64_t check; /* hashes_check() of them */
};

struct tamis_builder {
    struct tamis_domain domain;
    double error;
    struct tamis_identity who; /* in the arrays below */
    uint8_t name[NAME_MAX_BYTES], binding[BINDING_MAX_BYTES], store_uuid[UUID_BYTES];
    uint64_t watermark;
    uint32_t rank;
    bool replaces;                 /* a segment that has the name, once it is put */
    uint32_t n_threads, n_at_work; /* allowed; used at the last finish */
    char *spool_dir;
    int spool_fd;
    int failed;                      /* sticky error of an earlier call */
    uint64_t n_spooled, spool_check; /* hashes_check() of all of them, in order */
    bool spool_failed;  /* no hashes could go there when the filter was made */
    bool spool_damaged; /* found when reading back */
    uint64_t *hashes;
    size_t n_hashes, capacity; /* in hashes */
    size_t n_mapped;           /* bytes of their own mapping, or 0 */
    size_t limit;              /* in bytes, for hashes and filter */
    unsigned list_bits;        /* not 0: for a list, so the spool has sorted runs */
    struct sorted_run *runs;
    size_t n_runs, max_runs;
    uint64_t last; /* the previous hash: of equal neighbours one counts */
    uint64_t n_keys;
    uint8_t set_id[UUID_BYTES]; /* of the first n_in_set keys, if has_set_id */
    uint64_t n_in_set;
    bool has_set_id;
    struct key_range range;
    uint64_t first_prefix, last_prefix; /* of the range: its keys' first 8 bytes */
    bool checks;   /* the finished filter before it gets its header */
    uint16_t kind; /* of the filter that is made */
    bool balanced;
    struct builder_size size;
    bool changed;            /* check_notes() found that memory changed */
    struct hash_sum came_in; /* of the filter's hashes */
    uint64_t notes;          /* check_notes_digest() as of the last change */
    struct geometry asked;   /* of the bits asked at the last finish */
};

/* Says why a finish failed, in `doing` if not for the hashes. (bits.c) */
int builder_cannot(const struct tamis_builder *b, int err, const char *path,
                   const char *doing, struct tamis_diag *diag);

/* ==== spool.c ================================================================ */

/* All return 0 or an errno. */
/* Makes room for one hash, or `wanted` if memory allows. */
int spool_make_room(struct tamis_builder *b, size_t wanted);
/* Returns the memory that the limit leaves beside the hashes and a filter of this size:
 * an eighth if the hashes are or will be spooled. */
uint64_t spool_leaves(const struct tamis_builder *b, uint64_t filter_bytes);
/* Before a filter of this size is made: spools all hashes if some are spooled, or if
 * they and the filter exceed the limit. */
int spool_settle(struct tamis_builder *b, uint64_t filter_bytes);
/* Spools the hashes that are in memory. */
int spool_rest(struct tamis_builder *b);
/* Reads the next *n hashes of the spool into b->hashes, 0 at the end. `done` were read
 * before. EIO at the end if they are not the hashes written: their filter would lack
 * keys, with good digests. */
int spool_read(struct tamis_builder *b, uint64_t done, uint64_t *check, size_t *n);
/* Reads a sorted run in the same way, into memory for `room` hashes. */
int spool_read_run(struct tamis_builder *b, const struct sorted_run *run, uint64_t done,
                   uint64_t *check, uint64_t *to, size_t room, size_t *n);
void spool_free(struct tamis_builder *b);

/* ==== fill.c: hashes to bits ============================================== */

struct partition_slice;
/* The bits of a stage being made, lane by lane, in regions that fit the cache. One
 * thread has a region at a time. */
struct fill {
    struct geometry g;
    uint8_t *bits, *digests; /* of n_bytes; level 1 of the tree, 8 bytes a page */
    const struct kernel *kernel;
    struct threads *threads;
    uint32_t shift, n_regions;      /* regions have 2^shift blocks; n_regions a lane */
    uint32_t run_hashes;            /* hashes of one region that are kept together */
    struct partition_slice *slices; /* NULL: no partition */
    uint32_t lane;                  /* at work */
    unsigned steps;                 /* taken there */
    _Atomic uint32_t next;          /* region to be taken */
    _Atomic bool stop;
    _Atomic uint64_t bits_set;
    _Atomic uint8_t *finished; /* a flag per region of each lane */
    uint32_t n_finished;       /* of the first ones, known to the caller's thread */
    /* The caller's thread calls it now and then while regions are finished. Non-zero:
     * stop. May be NULL. */
    int (*between)(void *ctx);
    void *ctx;
    int error; /* of `between` */
    bool asks; /* fill_add() asks, too: one call has all hashes */
    struct {
        _Atomic uint64_t n, added, xored; /* a hash_sum */
        _Atomic uint64_t n_absent;
    } asked[MAX_LANES];
};

/* Cuts a lane of f->g into regions of about region_bytes bytes. */
void fill_choose_regions(struct fill *f, size_t region_bytes);
/* Sets up g, bits and digests, for at most n hashes a call. Regions have about
 * region_bytes (0: a suitable size). Smaller lanes have none, nor does a fill without
 * memory for them. ENOMEM. */
int fill_begin(struct fill *f, const struct geometry *g, uint8_t *bits,
               uint8_t *digests, uint64_t n, unsigned n_threads, size_t region_bytes);
/* Adds n hashes, and reorders them. With the last hashes it digests and counts the
 * regions' pages, and marks the regions finished. Returns f->between's result. */
int fill_add(struct fill *f, uint64_t *hashes, size_t n, bool is_last);
/* Asks the finished bits for n hashes, sums them, and reorders them. */
int fill_ask(struct fill *f, uint64_t *hashes, size_t n);
/* Was every hash found, and each lane asked for exactly this list? */
bool fill_agrees(struct fill *f, const struct hash_sum *list);
/* Bytes from the start of which all regions are finished. */
uint64_t fill_finished(struct fill *f);
void fill_end(struct fill *f);
/* Returns the memory that filling takes beside the bits. */
uint64_t fill_memory(const struct geometry *g, unsigned n_threads);

/* Private memory for bits, in huge pages where there are any; NULL: none.
 * munmap() takes the address and the number of bytes. */
uint8_t *map_bits(size_t n, void **address, size_t *n_bytes);

/* partition.c calls it with the runs of a region. */
typedef void fill_fn(struct fill *f, const uint64_t *hashes, size_t n);
/* A lane's hash, from that of lane 0. */
static inline uint64_t fill_hash(uint64_t h, uint32_t lane)
{
    for (; lane > 0; lane--)
        h = geometry_next_lane(h);
    return h;
}

/* A step of a sort by counting: how many have a place becomes where the first goes. */
static inline void counts_to_starts(uint32_t *places, size_t n)
{
    for (uint32_t at = 0, here; n > 0; n--, places++, at += here) {
        here = *places;
        *places = at;
    }
}

/* ==== partition.c: hashes sorted by region =================================== */

/* Makes a slice per thread, for at most n hashes in all. Without memory f->slices stays
 * NULL: slower, same result. */
void slices_create(struct fill *f, uint64_t n);
void slices_free(struct fill *f);
/* Sorts n hashes for the lane at work, in place. */
void slices_partition(struct fill *f, uint64_t *hashes, size_t n);
/* Calls fn with the hashes of one region, run by run. */
void slices_each(struct fill *f, uint32_t region, fill_fn *fn);

/* ==== check.c: did memory keep what came in? ================================== */

/* Lists with one hash different, or one missing, certainly have different sums: each
 * step is a bijection. */
static inline void hash_sum_add(struct hash_sum *s, uint64_t h)
{
    uint64_t mixed = geometry_next_lane(geometry_next_lane(h + LANE_MULTIPLIER));
    s->n++;
    s->added += mixed;
    s->xored ^= mixed;
}
/* Adds n hashes to b->came_in, as hashes_distinct() takes them. */
void check_came_in(struct tamis_builder *b, const uint64_t *from, size_t n,
                   uint64_t last);
/* A digest of domain, watermark and key range, on which answers rest, too. Change them
 * only between the two calls. */
void check_notes(struct tamis_builder *b); /* sets b->changed if memory changed */
void check_note(struct tamis_builder *b);
/* Does a header to be written state what the builder knows? */
bool check_header(struct tamis_builder *b, const uint8_t header[PAGE_BYTES],
                  uint64_t available);

/* ==== order.c: the hashes in order, for a list ================================ */

struct order;
/* For a builder with list_bits. Nothing may be added or finished before order_end(),
 * and b->hashes stay all that they were, in another order. ENOMEM, or an error of the
 * spool. */
int order_begin(struct tamis_builder *b, struct order **out);
/* The next hashes, none twice; *n is 0 at the end. EIO if the spool lost some. */
int order_next(void *order, const uint64_t **block, size_t *n);
void order_end(struct order *o);

#endif
