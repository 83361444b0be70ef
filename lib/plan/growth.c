/* The series of a growing filter (Almeida et al., *Scalable Bloom Filters*, 2007,
 * section 4): capacity and error of each stage. */
#include "lib/plan/plan.h"
#include "format/commit.h"

#include <math.h>
#include <string.h>

/* Below this the pattern's 32 bits, not the geometry, would set the error. */
static const double STAGE_ERROR_MIN = 0x1p-40;

/* The defaults take 6% fewer bits than n0 65,536 and s 2, as a mean over sizes from
 * 10^4 to 10^9, with 11% more stages. tests/paper/README.md compares others. */
int growth_complete(struct tamis_growth *growth)
{
    if (growth->error == 0)
        growth->error = 0.01;
    if (growth->factor == 0)
        growth->factor = 1.9;
    if (growth->tightening == 0)
        growth->tightening = 0.85;
    if (growth->first_capacity == 0)
        growth->first_capacity = 50000;
    bool good =
        plan_error_valid(growth->error) && growth->factor >= GROWTH_FACTOR_MIN &&
        growth->factor <= GROWTH_FACTOR_MAX && growth->tightening >= TIGHTENING_MIN &&
        growth->tightening <= TIGHTENING_MAX &&
        growth->first_capacity <= FIRST_CAPACITY_MAX;
    return good ? 0 : TAMIS_ERR_RANGE;
}

void growth_stage(const struct tamis_growth *growth, uint32_t i, uint64_t *capacity,
                  double *error)
{
    double keys = ceil((double)growth->first_capacity * pow(growth->factor, i));
    double p0 = growth->error * (1 - growth->tightening);
    /* 2^37 keys have 64 bits each in 2^32 blocks of 4 lanes, enough for 2^-40;
     * beyond that stages stay as they are. */
    *capacity = keys < 0x1p37 ? (uint64_t)keys : UINT64_C(1) << 37;
    *error = fmax(p0 * pow(growth->tightening, i), STAGE_ERROR_MIN);
}

int tamis_plan_stage(const struct tamis_growth *growth, uint32_t stage,
                     struct tamis_plan *plan)
{
    struct tamis_growth g = *growth;
    struct geometry geometry;
    uint64_t capacity;
    double error, expected;
    memset(plan, 0, sizeof *plan);
    if (growth_complete(&g) != 0 || stage >= MAX_STAGES)
        return TAMIS_ERR_RANGE;
    growth_stage(&g, stage, &capacity, &error);
    int err = plan_stage_geometry(capacity, error, &geometry, &expected);
    if (!err)
        plan_describe(&geometry, capacity, plan);
    return err;
}
