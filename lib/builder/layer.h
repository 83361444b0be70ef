/* A stage of ribbon pages being made of hashes, region by region. ribbon.c calls it for
 * stage after stage, layer.c makes one, and its pages. */
#ifndef TAMIS_BUILDER_LAYER_H
#define TAMIS_BUILDER_LAYER_H

#include "lib/builder/inside.h"
#include "lib/kernel/ribbon.h"

/* A growing list. */
struct hash_list {
    uint64_t *hashes;
    size_t n, room;
};
/* False: no memory. */
bool hash_list_append(struct hash_list *l, const uint64_t *hashes, size_t n);

struct layer_worker;
struct layer {
    struct ribbon_geometry g;
    struct fill fill; /* regions, threads and slices only */
    uint8_t *digests; /* level 1 of the tree, 8 bytes a page */
    bool asks;
    struct layer_worker *workers; /* one a thread */
    /* For the call at work: the regions that are made, and where. */
    _Atomic uint32_t next;
    uint32_t end;
    uint8_t *bits;
    uint64_t first_page;
    _Atomic int error;
    /* Over all calls. With `asks`: the keys that the finished pages were asked for, and
     * those of them that the next stage has to have. */
    struct hash_sum asked, passed;
    uint64_t n_lost; /* found nowhere */
    /* In pages of g.blocks, and in longer ones: ribbon_page_odds(). */
    _Atomic uint64_t bumped[2], matches[2];
};

/* At most n hashes a call. ENOMEM. */
int layer_begin(struct layer *l, const struct ribbon_geometry *g, uint8_t *digests,
                uint64_t n, unsigned n_threads, bool asks);
/* The first page of a region. */
uint64_t layer_page(const struct layer *l, uint32_t region);
/* Makes the pages of regions `from` to before `to` at `bits`, of all hashes that map
 * there. Reorders the hashes. ENOMEM. */
int layer_make(struct layer *l, uint32_t from, uint32_t to, uint64_t *hashes, size_t n,
               uint8_t *bits);
/* Moves the hashes that were bumped to *out, as the next stage has them. ENOMEM. */
int layer_take_bumped(struct layer *l, struct hash_list *out);
void layer_end(struct layer *l);
/* Memory that a thread takes beside hashes and pages. */
uint64_t layer_memory(unsigned n_threads);

/* bits.c: writes a stage of split blocks and its digests. `from` has the hashes (NULL:
 * the spool has them), `sum` their sum. *error (may be NULL): the error of the bits. */
int bits_write(struct tamis_builder *b, int fd, uint64_t at, struct stage_desc *s,
               const struct hash_list *from, const struct hash_sum *sum,
               unsigned n_threads, double *error);
/* Writes bits from *written on to `ready` to the file at `at`, in large pieces. The
 * rest of a piece waits, unless these are all. */
int pieces_write(int fd, uint64_t at, const uint8_t *bits, uint64_t *written,
                 uint64_t ready, bool is_all);
/* Memory for level 1 of the digests of `length` bytes. digests_write() writes all. */
uint8_t *digests_alloc(uint64_t length);
int digests_write(int fd, uint64_t at, struct stage_desc *s, uint8_t *digests);

/* ---- pages made from hashes, one by one ---- */

enum {
    RIBBON_MAX_ROWS = (RIBBON_MAX_BLOCKS + 1) * RIBBON_WIDTH,
    RIBBON_MAX_PLACES = RIBBON_MAX_ROWS + 2 * RIBBON_PAIR_ROWS,
    /* A page that gets more bumps all of them: it gets them from a poor hash or an
     * attacker only. */
    RIBBON_MOST_A_ROW = 4,
};

/* A thread's memory for making pages of a stage. */
struct ribbon_desk {
    struct ribbon_geometry geometry;
    const struct ribbon_kernel *kernel;
    struct ribbon_room room;
    uint32_t places[RIBBON_MAX_PLACES];
    struct ribbon_equation equations[RIBBON_MOST_A_ROW * RIBBON_MAX_ROWS];
};

/* NULL: no memory. free() ends it. */
struct ribbon_desk *ribbon_desk_create(const struct ribbon_geometry *g,
                                       const struct kernel *k);

/* Makes page `number` of all hashes that map to it. */
void ribbon_page_make(struct ribbon_desk *d, uint64_t number, const uint64_t *hashes,
                      size_t n, uint8_t page[PAGE_BYTES]);

/* ribbon.c: all stages of a ribbon filter, in the file, and *built set up for them. */
int ribbon_write(struct tamis_builder *b, int fd, uint64_t at, struct built *built);

#endif
