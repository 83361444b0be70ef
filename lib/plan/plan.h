/* Sizes and errors of filters, for other rooms. inside.h has plans of stores. */
#ifndef TAMIS_PLAN_PLAN_H
#define TAMIS_PLAN_PLAN_H

#include "format/geometry.h"
#include "format/ribbon.h"
#include "lib/tamis.h"

/* ==== plan.c: sizes and errors ======================================== */

/* A stage that grows, or one of a ribbon, for n_keys at `error`: whole pages a lane,
 * and a power of two of them. */
int plan_stage_geometry(uint64_t n_keys, double error, struct geometry *g,
                        double *expected_error);
/* The geometry of a sealed filter that is built. With at most GRID_KEYS keys it is on a
 * grid of few sizes, so that many filters lie side by side; with more keys it is that
 * of a stage. It has the shape for `error`, and the blocks that the error `allowed`
 * needs, which is not less than `error`. */
enum { GRID_KEYS = 65536 };
int plan_sealed_geometry(uint64_t n_keys, double error, double allowed,
                         struct geometry *g);
double plan_geometry_error(const struct geometry *g, uint64_t n_keys);
/* An error, in two digits, for which plan_sealed_geometry() takes these lanes and
 * words: the nearest to `near`. 0: there is none. It takes some 60 milliseconds. */
double plan_error_of_shape(const struct geometry *shape, uint64_t n_keys, double near);
/* The geometry of one of many filters side by side: the shape that filters of one error
 * share, and the least blocks that keep the error. ERR_TOO_LARGE. */
int plan_packed_geometry(uint64_t n_keys, double error, struct geometry *g);
/* The error for keys of this block; 1 if it is all ones. */
double plan_block_error(const uint8_t *block, uint32_t words);
/* The same for all blocks of a stage. */
double plan_bits_error(const struct geometry *g, const uint8_t *bits);
/* Bits that n_keys distinct keys are expected to set. */
uint64_t plan_expected_bits(const struct geometry *g, uint64_t n_keys);
/* The reverse: distinct keys that explain n_bits set bits. */
uint64_t plan_keys_of_bits(const struct geometry *g, uint64_t n_bits);

/* The public plans, one each. in_file false: blocks in the caller's memory. */
int plan_of_bloom(uint64_t n_keys, double error, bool in_file, struct tamis_plan *plan);
int plan_of_ribbon(uint64_t n_keys, double error, struct tamis_plan *plan);
int plan_in_bytes(uint64_t bits_bytes, uint64_t n_keys, double error,
                  struct tamis_plan *plan);
/* May a filter aim at this error? */
bool plan_error_valid(double error);
/* The public plan of this geometry, as a file with these keys. */
void plan_describe(const struct geometry *g, uint64_t n_keys, struct tamis_plan *plan);

/* ==== ribbon.c: stages of ribbons ==== */

enum {
    RIBBON_MOST_STAGES = 4
}; /* and one of split blocks for the keys that are left */
/* The geometry of stage `stage`, for n_keys keys. No pages: a stage of split blocks is
 * better for these keys. ERR_TOO_LARGE. */
int plan_ribbon_geometry(uint64_t n_keys, double error, uint32_t stage,
                         struct ribbon_geometry *g);

/* ---- the series of a growing filter ---- */

int growth_complete(struct tamis_growth *growth); /* defaults; ERR_RANGE */
/* Capacity and target error of stage i. */
void growth_stage(const struct tamis_growth *growth, uint32_t i, uint64_t *capacity,
                  double *error);

/* ==== intervals.c: how surely is a count or an estimate known? ==== */

/* The 95% bounds of the chance of an error, after k errors in n trials. */
void error_interval(uint64_t k, uint64_t n, double *low, double *high);
/* The keys behind n_set set bits among n_bits counted ones. */
void plan_keys_interval(const struct geometry *g, uint64_t n_bits, uint64_t n_set,
                        struct tamis_interval *out);
/* The estimate of a filter from those of its stages. */
void plan_sum_interval(const struct tamis_interval *parts, uint32_t n,
                       struct tamis_interval *out);
/* `set`: how many of n_bits are set in one, in the other, and in their union. Leaves
 * n_damaged alone. */
void plan_overlap(const struct geometry *g, uint64_t n_bits, const uint64_t set[3],
                  struct tamis_comparison *out);

#endif
