/* Commit records made by hand to hurt, one a line: what is done to a good record, and
 * the verdict that is due. Included by test_hostile.c alone. */
#ifndef TAMIS_TESTS_HOSTILE_CASES_H
#define TAMIS_TESTS_HOSTILE_CASES_H

#include "format/commit.h"
#include "lib/tamis.h"

/* Changes a decoded commit record; identities are changed as bytes. */
typedef void hurt_fn(struct commit *c);
enum base { BIRTH, GROWN };

#define BIG_PAGE (UINT64_MAX - 4095)
#define HURT(name, ...)                                                                \
    static void name(struct commit *c)                                                 \
    {                                                                                  \
        struct stage_desc *s = &c->stages[0], *t = &c->stages[1];                      \
        (void)s, (void)t;                                                              \
        __VA_ARGS__;                                                                   \
    }
HURT(blocks_2_58_length_wraps, s->geometry.n_blocks = UINT64_C(1) << 58;
     s->length = s->geometry.n_blocks * 64 * s->geometry.lanes)
HURT(blocks_2_32, commit_unsettle(c); s->geometry.n_blocks = UINT64_C(1) << 32;
     s->geometry.lanes = 4; s->length = UINT64_C(1) << 40)
HURT(length_huge, s->length = BIG_PAGE)
HURT(offset_that_wraps, s->offset = BIG_PAGE)
HURT(floors_that_wrap, s->floors_offset = BIG_PAGE)
HURT(digests_past_the_end, s->digests_offset = c->committed_bytes)
HURT(digests_in_the_bits, s->digests_offset = s->offset)
HURT(stage_over_header, s->offset = 2 * PAGE_BYTES)
HURT(stages_255, c->n_stages = 255)
HURT(error_nan, s->target_error = __builtin_nan(""))
HURT(committed_past_the_end, c->committed_bytes += PAGE_BYTES)
HURT(committed_2_63, c->committed_bytes = UINT64_C(1) << 63)
HURT(committed_zero, c->committed_bytes = 0)
HURT(sequence_zero, c->sequence = 0)
HURT(layout_unknown, s->layout = 2)
HURT(feature_unknown, c->incompat = UINT64_C(1) << 63)
HURT(binding_255, c->binding_bytes = 255)
HURT(settled_all, c->n_settled = c->n_stages)

struct hostile {
    const char *name;
    hurt_fn *hurt;
    enum base base;
    int code;
    const char *field, *why; /* in the message */
    uint32_t at;             /* in the record; stages count from 248 */
};

static const struct hostile cases[] = {
#define AT_STAGE(member) STAGES_OFFSET + offsetof(struct stage_disk, member)
#define RANGE_OF(fn, base, member)                                                     \
    {                                                                                  \
#fn, fn, base, TAMIS_ERR_DAMAGED, "stage." #member, "out of range",            \
            AT_STAGE(member)                                                           \
    }
#define HEAD(fn, base, member, code, why)                                              \
    {                                                                                  \
#fn, fn, base, code, #member, why, offsetof(struct commit_disk, member)        \
    }
#define AREA(fn, base, member, why, stage)                                             \
    {                                                                                  \
#fn, fn, base, TAMIS_ERR_DAMAGED, "stage." #member, why,                       \
            STAGES_OFFSET + (stage)*STAGE_BYTES                                        \
    }
    RANGE_OF(blocks_2_58_length_wraps, GROWN, n_blocks),
    RANGE_OF(length_huge, BIRTH, length),
    RANGE_OF(error_nan, GROWN, target_error),
    RANGE_OF(error_nan, BIRTH, target_error),
    RANGE_OF(digests_past_the_end, GROWN, digests_offset), /* one page needs none */
    {"layout_unknown", layout_unknown, GROWN, TAMIS_ERR_VERSION, "stage.layout",
     "does not know", AT_STAGE(layout)},
    HEAD(settled_all, GROWN, n_settled, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(stages_255, GROWN, n_stages, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(sequence_zero, BIRTH, sequence, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(binding_255, GROWN, binding_bytes, TAMIS_ERR_DAMAGED, "out of range"),
    HEAD(feature_unknown, GROWN, incompat, TAMIS_ERR_VERSION, "does not know"),
    HEAD(committed_past_the_end, GROWN, committed_bytes, TAMIS_ERR_DAMAGED, "shorter"),
    HEAD(committed_past_the_end, BIRTH, committed_bytes, TAMIS_ERR_DAMAGED, "shorter"),
    HEAD(committed_2_63, GROWN, committed_bytes, TAMIS_ERR_DAMAGED, "shorter"),
    {"committed_zero", committed_zero, GROWN, TAMIS_ERR_DAMAGED, "header", "shorter",
     STAGES_OFFSET},
    AREA(blocks_2_32, GROWN, offset, "shorter", 0),
    AREA(blocks_2_32, BIRTH, offset, "shorter", 0),
    AREA(offset_that_wraps, GROWN, offset, "shorter", 0),
    AREA(offset_that_wraps, BIRTH, offset, "shorter", 0),
    AREA(floors_that_wrap, GROWN, floors_offset, "shorter", 0),
    AREA(digests_past_the_end, BIRTH, digests_offset, "shorter", 0),
    AREA(digests_in_the_bits, BIRTH, digests_offset, "overlap", 0),
    AREA(stage_over_header, GROWN, offset, "overlap", 0),
};

#endif
