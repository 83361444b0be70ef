/* Chooses the action for each filter of a plan: what --apply does, and what the table
 * shows. It only compares figures. A choice of PLAN_SHRINK is a hope: a damaged page
 * may leave no room for the fold. */
#include "inside.h"

bool plan_is_larger(const struct store_plan *p, uint64_t n_bytes, size_t i)
{
    uint64_t planned = p->shares[i].plan.file_bytes;
    return n_bytes > planned + (p->is_tight ? 0 : planned / 64);
}

enum plan_action plan_action(const struct store_plan *p, size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    const struct tamis_plan *plan = &to->plan;
    bool is_larger = plan_is_larger(p, s->bytes_now, i);
    if (s->unread != NULL)
        return PLAN_UNREAD;
    if (s->state == TAMIS_SEGMENT_GROWING)
        return PLAN_SEAL;
    if (plan->file_bytes == 0)
        return PLAN_REMOVE;
    /* A fold neither takes a ribbon nor makes one. A filter that is as good as planned
     * stays, whatever its kind. */
    if (s->is_ribbon || plan_is_ribbon(to))
        return is_larger || (s->error_now > to->error && s->error_now > plan->error)
                   ? PLAN_REBUILD
                   : PLAN_KEEP;
    /* Would a rebuild have the same size, and hardly less error? By chance the bits may
     * suggest a few keys too many, and so more error than was planned. */
    if (s->only.n_blocks == plan->n_blocks && s->only.lanes == plan->lanes &&
        tamis_plan_error(plan->lanes, s->only.words, plan->n_blocks, plan->n_keys) <=
            1.01 * plan->error)
        return PLAN_KEEP;
    if (s->error_now > to->error)
        return PLAN_REBUILD;
    if (s->error_folded <= to->error)
        return PLAN_SHRINK;
    return is_larger ? PLAN_REBUILD /* and no factor fits */ : PLAN_KEEP;
}

const char *plan_action_name(enum plan_action action)
{
    static const char *const names[] = {"keep",   "shrink", "rebuild",
                                        "remove", "seal",   "unread"};
    return names[action];
}
