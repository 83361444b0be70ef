/* Explains an answer: which lane's block of each stage decided it. It looks twice and
 * is slow, for people. */
#include "lib/filter/view.h"

#include <stdatomic.h>
#include <string.h>

_Static_assert((int)TAMIS_MAX_STAGES == (int)MAX_STAGES, "SPEC.md section 6");

enum tamis_answer filter_explain_from(struct tamis_filter *f, uint64_t min_watermark,
                                      const struct tamis_key *key,
                                      struct tamis_explanation *out)
{
    memset(out, 0, sizeof *out);
    out->answer = filter_probe_from(f, min_watermark, 0, key, &out->reason);
    if (out->reason != TAMIS_NO_REASON && out->reason != TAMIS_HIT &&
        out->reason != TAMIS_DAMAGED)
        return out->answer;
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    out->by = TAMIS_BY_FILTER;
    if (!f->kind->explain)
        return out->answer;
    out->n_stages = v->n_stages;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        struct stage *s = &v->stages[i];
        uint64_t begin = f->offset + (uint64_t)(s->bits - v->map.base);
        f->kind->explain(s, f->kernel, begin, key->hash, &out->stages[i]);
        /* Somebody has added the key in between, or a page has failed. */
        if (out->answer == TAMIS_ABSENT && out->stages[i].reason != TAMIS_NO_REASON) {
            out->answer = TAMIS_MAYBE;
            out->reason = out->stages[i].reason;
        }
    }
    return out->answer;
}

enum tamis_answer tamis_filter_explain(struct tamis_filter *filter,
                                       const struct tamis_key *key,
                                       struct tamis_explanation *out)
{
    return filter_explain_from(filter, 0, key, out);
}
