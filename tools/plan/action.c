/* Chooses the action for each filter of a plan: what --apply does, and what the table
 * shows. It only compares figures. A choice of PLAN_SHRINK is a hope: a damaged page
 * may leave no room for the fold. */
#include "inside.h"

/* Would a rebuild have the same size, and hardly less error? By chance the bits may
 * suggest a few keys too many, and so more error than was planned. */
static bool is_as_planned(const struct planned *s, const struct tamis_plan *to)
{
    return s->only.n_blocks == to->n_blocks && s->only.lanes == to->lanes &&
           tamis_plan_error(to->lanes, s->only.words, to->n_blocks, to->n_keys) <=
               1.01 * to->error;
}

bool plan_is_larger(const struct store_plan *p, uint64_t n_bytes, size_t i)
{
    uint64_t planned = p->shares[i].plan.file_bytes;
    return n_bytes > planned + (p->is_tight ? 0 : planned / 64);
}

/* A fold neither takes a ribbon nor makes one. A filter that is as good as planned
 * stays, whatever its kind. */
static enum plan_action action_of_ribbon(const struct store_plan *p, size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    bool errs_more = s->error_now > to->error && s->error_now > to->plan.error;
    return errs_more || plan_is_larger(p, s->bytes_now, i) ? PLAN_REBUILD : PLAN_KEEP;
}

enum plan_action plan_action(const struct store_plan *p, size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    if (s->unread != NULL)
        return PLAN_UNREAD;
    if (s->state == TAMIS_SEGMENT_GROWING)
        return PLAN_SEAL;
    if (to->plan.file_bytes == 0)
        return PLAN_REMOVE;
    if (s->is_ribbon || plan_is_ribbon(to))
        return action_of_ribbon(p, i);
    if (is_as_planned(s, &to->plan))
        return PLAN_KEEP;
    if (s->error_now > to->error)
        return PLAN_REBUILD;
    if (s->error_folded <= to->error)
        return PLAN_SHRINK;
    return plan_is_larger(p, s->bytes_now, i) ? PLAN_REBUILD /* and no factor fits */
                                              : PLAN_KEEP;
}

const char *plan_action_name(enum plan_action action)
{
    static const char *const names[] = {"keep",   "shrink", "rebuild",
                                        "remove", "seal",   "unread"};
    return names[action];
}
