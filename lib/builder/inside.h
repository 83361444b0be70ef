/* A builder from inside: builder.c (keys in), spool.c (where their hashes are kept),
 * fill.c (hashes to bits), partition.c, threads.c (for that), finish.c (filter out),
 * check.c (was all of it right?). */
#ifndef TAMIS_BUILDER_H
#define TAMIS_BUILDER_H

#include "lib/builder/builder.h"
#include "format/commit.h"
#include "lib/filter/header.h"
#include "lib/kernel/kernel.h"

/* The sum of a list of hashes, whatever their order (check.c). */
struct hash_sum {
    uint64_t n, added, xored;
};

struct tamis_builder {
    struct tamis_domain domain;
    double error;
    struct tamis_identity who; /* in the arrays below */
    uint8_t name[NAME_MAX_BYTES], binding[BINDING_MAX_BYTES], store_uuid[UUID_BYTES];
    uint64_t watermark;
    uint32_t rank;
    uint32_t n_threads, n_at_work; /* may be used; are, at the last finish */
    char *spool_dir;
    int spool_fd;
    int failed;                      /* sticky error of an earlier call */
    uint64_t n_spooled, spool_check; /* builder_check() of all of them, in order */
    bool spool_failed;               /* to take them, when the filter was to be made */
    bool spool_damaged;              /* found when they came back */
    uint64_t *hashes;
    size_t n_hashes, capacity; /* in hashes */
    size_t n_mapped;           /* bytes, where they are in a mapping of their own */
    size_t limit;              /* in bytes, for hashes and filter */
    uint64_t last;             /* the previous hash: equal neighbours are one key */
    uint64_t n_keys;
    struct key_range range;
    uint64_t first_prefix, last_prefix; /* of the range: its keys' first 8 bytes */
    bool checks;             /* the finished filter before it gets its header */
    bool changed;            /* check_notes() found that memory changed */
    struct hash_sum came_in; /* of the hashes that the filter is to hold */
    uint64_t notes;          /* check_notes_digest() as of the last change */
    struct geometry asked;   /* of the bits that were asked at the last finish */
};

/* ==== spool.c ================================================================ */

/* A running check of hashes that leave memory and are to come back. Each step is a
 * bijection, of the check and of the hash: one that is wrong is found for certain. */
static inline uint64_t builder_check(uint64_t check, const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check = geometry_next_lane(check ^ hashes[i]);
    return check;
}

/* All return 0 or an errno. */
/* Room for one hash at least, for `wanted` of them if memory allows. */
int spool_make_room(struct tamis_builder *b, size_t wanted);
/* Returns how much memory the limit leaves beside the hashes and a filter of so many
 * bytes: an eighth if the hashes are in the spool, or are going there. */
uint64_t spool_leaves(const struct tamis_builder *b, uint64_t filter_bytes);
/* Before a filter of so many bytes is made: if it and the hashes are too much together,
 * or some are in the spool, all go there. */
int spool_settle(struct tamis_builder *b, uint64_t filter_bytes);
/* Reads the next hashes of the spool into b->hashes, *n of them, 0 at the end. `done`
 * of them were read before. EIO at the end if these are not the hashes that were
 * written: a filter of them would lack keys, with good digests. */
int spool_read(struct tamis_builder *b, uint64_t done, uint64_t *check, size_t *n);
void spool_free(struct tamis_builder *b);

/* ==== threads.c: threads for the time of one call =============================== */

struct threads;
/* Up to n - 1 threads beside the caller's, as many as can be had; NULL if none. */
struct threads *threads_start(unsigned n);
unsigned threads_size(const struct threads *threads); /* with the caller; of NULL 1 */
/* Each of them runs fn, the caller's as number 0; returns when all are through. */
void threads_run(struct threads *threads, void (*fn)(void *ctx, unsigned number),
                 void *ctx);
void threads_end(struct threads *threads);

/* ==== fill.c: hashes to bits ============================================== */

struct slice;
/* The bits of a stage while they are made. They fall into regions that fit the cache,
 * lane by lane; a region belongs to one thread at a time. */
struct fill {
    struct geometry g;
    uint8_t *bits, *digests; /* of n_bytes; of level 1 of the tree, 8 bytes a page */
    const struct kernel *kernel;
    struct threads *threads;
    uint32_t shift, n_regions; /* 2^shift blocks each, so many a lane */
    uint32_t run_hashes;       /* hashes of one region that are kept together */
    struct slice *slices;      /* NULL: it is done without partition */
    uint32_t lane;             /* at work */
    unsigned steps;            /* that are taken there */
    _Atomic uint32_t next;     /* region to be taken */
    _Atomic bool stop;
    _Atomic uint64_t bits_set;
    _Atomic uint8_t *finished; /* a flag a region, of all lanes */
    uint32_t n_finished;       /* of the first ones, as the caller's thread knows */
    /* Called by the caller's thread now and then while regions are being finished;
     * not 0: stop. May be NULL. */
    int (*between)(void *ctx);
    void *ctx;
    int error; /* of `between` */
    bool asks; /* fill_add() asks, too: all hashes come in one call */
    struct {
        _Atomic uint64_t n, added, xored; /* a hash_sum */
        _Atomic uint64_t n_absent;
    } asked[MAX_LANES];
};

/* Sets up g, bits and digests, for at most n hashes a call. Regions are of about
 * region_bytes, and a lane that is not larger does without (0: what suits); so it does
 * where there is no memory for more. ENOMEM. */
int fill_begin(struct fill *f, const struct geometry *g, uint8_t *bits,
               uint8_t *digests, uint64_t n, unsigned n_threads, size_t region_bytes);
/* Adds n hashes, which get another order. With the last ones the regions' pages are
 * digested and counted, and marked as finished. The result is f->between's. */
int fill_add(struct fill *f, uint64_t *hashes, size_t n, bool is_last);
/* Asks the finished bits for n hashes, which get another order, and sums them. */
int fill_ask(struct fill *f, uint64_t *hashes, size_t n);
/* Was every hash there that was asked for, and was each lane asked for this list? */
bool fill_agrees(struct fill *f, const struct hash_sum *list);
/* Bytes from the start that are finished, all regions before them as well. */
uint64_t fill_finished(struct fill *f);
void fill_end(struct fill *f);
/* Returns the memory that filling takes beside the bits. */
uint64_t fill_memory(const struct geometry *g, unsigned n_threads);

/* Called by partition.c with the runs of a region. */
typedef void fill_fn(struct fill *f, const uint64_t *hashes, size_t n);
/* The hash of a lane, of that of lane 0. */
static inline uint64_t fill_hash(uint64_t h, uint32_t lane)
{
    for (; lane > 0; lane--)
        h = geometry_next_lane(h);
    return h;
}

/* ==== partition.c: hashes sorted by region =================================== */

/* A slice for each thread, of at most n hashes together; f->slices stays NULL if there
 * is no memory for that: slower without, but just as good. */
void slices_create(struct fill *f, uint64_t n);
void slices_free(struct fill *f);
/* Sorts n hashes for the lane at work, in place. */
void slices_partition(struct fill *f, uint64_t *hashes, size_t n);
/* Calls fn with all those of one region, run by run. */
void slices_each(struct fill *f, uint32_t region, fill_fn *fn);

/* ==== check.c: did memory keep what came in? ================================== */

/* One list has one sum. A list in which one hash differs has another one for certain:
 * each step is a bijection. So has a list that lacks a hash. */
static inline void hash_sum_add(struct hash_sum *s, uint64_t h)
{
    uint64_t mixed = geometry_next_lane(geometry_next_lane(h + LANE_MULTIPLIER));
    s->n++;
    s->added += mixed;
    s->xored ^= mixed;
}
/* Adds n hashes to b->came_in, as copy_distinct() takes them. */
void check_came_in(struct tamis_builder *b, const uint64_t *from, size_t n,
                   uint64_t last);
/* A digest of what answers rest on beside the bits: domain, watermark, key range. Each
 * change of them stands between the two calls. */
void check_notes(struct tamis_builder *b); /* sets b->changed if they have changed */
void check_note(struct tamis_builder *b);
/* Does a header that is about to be written say what the builder knows? */
bool check_header(struct tamis_builder *b, const uint8_t header[PAGE_BYTES],
                  uint64_t available);

#endif
