/* The algebra of filters from inside: sources.c (what goes in), setops.c and fold.c
 * (which pages make the result), pages.c (pages from pages), write.c (a sealed filter,
 * page by page), tally.c (its error), derive.c (all steps), and estimate.c, which makes
 * nothing. */
#ifndef TAMIS_COMBINE_H
#define TAMIS_COMBINE_H

#include "lib/derive/derive.h"
#include "lib/filter/view.h"
#include "lib/plan/plan.h"

/* ---- sources.c ---- */

/* A sealed filter, as it was opened. */
struct source {
    const char *path;
    struct view *view;
    struct header header;
};
/* ERR_UNFIT if the filter's kind has no such algebra. */
int source_can(const struct tamis_filter *f, enum algebra what,
               struct tamis_diag *diag);
/* Takes filters that are sealed, of one domain, and of a kind with this algebra. The
 * caller frees *out. */
int sources_take(struct tamis_filter *const *filters, size_t n, enum algebra what,
                 struct source **out, struct tamis_diag *diag);
/* NULL if it has several. */
const struct geometry *only_stage(const struct source *s);
/* The largest target error (SPEC.md section 16.4). */
double common_target(const struct source *s, size_t n);
bool same_geometry(const struct geometry *a, const struct geometry *b);
/* The size to which all can be folded: the greatest common divisor of their blocks.
 * ERR_UNFIT: they have other shapes, or several stages. */
int common_geometry(const struct source *s, size_t n, const char *doing,
                    struct geometry *out, struct tamis_diag *diag);

/* ---- pages.c ---- */

/* A folded stage of a sealed source: its block b is the union of `factor` blocks from b
 * * factor on. The factor divides the blocks of a lane. */
struct operand {
    struct stage *stage;
    uint64_t factor;
};

/* The only stage of a source, folded to this size, which divides its own. */
struct operand operand_folded_to(const struct source *s, const struct geometry *g);

/* Both filters, each folded to the geometry that they have in common. */
int operands_take(struct tamis_filter *one, struct tamis_filter *other,
                  const char *doing, struct operand o[2], struct geometry *g,
                  struct tamis_diag *diag);

/* Is it of nothing but ones? No keys do that: a damaged page became so when it was
 * copied. */
bool block_is_full(const uint8_t *block);
/* How many of the first n blocks are. */
uint64_t full_blocks_in(const uint8_t page[PAGE_BYTES], uint64_t n);

/* How to read a source page that fails its check: as ones where a key might be missed,
 * as zeros where ones would disprove that keys are contained. The last is as ones, too,
 * and counts pages with full blocks as failed. */
enum damaged_as { DAMAGED_AS_ZEROS, DAMAGED_AS_ONES, FULL_IS_DAMAGED };

/* How many blocks of such a stage its page `page` has: 64, but for the last page. */
uint64_t page_blocks(const struct geometry *g, uint64_t page);
/* Makes page `page` of the folded stage. *n_damaged counts failed source pages. */
void operand_page(const struct operand *o, uint64_t page, enum damaged_as as,
                  uint8_t out[PAGE_BYTES], uint64_t *n_damaged);

/* A stage of the result: the union of operands of one geometry, or their common bits.
 * Damaged pages are ones in both. */
struct recipe {
    struct geometry geometry;
    bool common;
    struct operand *operands;
    size_t n_operands;
    uint64_t keys;   /* by its sources' records, if its bits tell none */
    uint64_t unfold; /* a fold: keys by its source's bits, which tell more; else 0 */
};
void recipe_page(const struct recipe *r, uint64_t page, uint8_t out[PAGE_BYTES],
                 uint64_t *n_damaged);

/* ---- tally.c ---- */

/* The distribution of a stage's bits: its error is the mean of its blocks' errors. Full
 * blocks are all counted. Other blocks of a large stage are measured in one page of
 * `step`: all would cost more than writing. */
struct tally {
    uint64_t step;
    uint64_t n_full[MAX_LANES], n_measured[MAX_LANES];
    double sum[MAX_LANES], squares[MAX_LANES]; /* of measured blocks' errors */
};

/* A filter being made. Its stages have geometries, and keys if known. The rest of their
 * descriptors is filled in. */
struct derived {
    struct tamis_diag *diag; /* the caller's; may be NULL */
    struct identity identity;
    struct commit commit;
    struct recipe recipes[MAX_STAGES]; /* of the stages; each frees its operands */
    double target;                     /* the aim: the result's error may be above it */
    struct tally tallies[MAX_STAGES];
    uint64_t n_damaged;
    double most_error; /* make nothing above it; 0: any */
};
/* Page by page, in order. The stage's geometry and length are known. */
void derived_count_page(struct derived *d, uint32_t stage, uint64_t page,
                        const uint8_t bits[PAGE_BYTES]);
/* After all pages: keys and errors of the stages, and the identity's. */
void derived_judge(struct derived *d);
/* The error for a key in none of the stages. */
double derived_error(const struct commit *c);

/* ---- write.c ---- */

/* Writes it under its name, durable on return (R13), but for a directory entry left to
 * the caller. On failure nothing stays. ERR_EXISTS, ERR_NETWORK, an errno. */
int derived_write(struct derived *d, const struct derive_to *to);

/* ---- setops.c, fold.c: the stages of the result, with their recipes ---- */

int derive_union(struct derived *d, const struct source *s, size_t n);
int derive_intersection(struct derived *d, const struct source *s, size_t n);
int derive_fold(struct derived *d, const struct source *s, uint64_t factor);
int derive_shrink(struct derived *d, const struct source *s, double error);

#endif
