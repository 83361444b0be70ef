/* Explains an answer about a segment: by its key range, its filter, or neither. */
#include "lib/store/query/inside.h"
#include "lib/filter/filter.h"
#include "lib/store/catalog/origin.h"

#include <string.h>

static enum tamis_answer explain_by(struct tamis_explanation *out,
                                    enum tamis_decider by, enum tamis_reason reason)
{
    out->by = by;
    out->reason = reason;
    out->answer = reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
    return out->answer;
}

enum tamis_answer tamis_snapshot_explain(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target,
                                         const struct tamis_key *key,
                                         struct tamis_explanation *out)
{
    bool by_range = false;
    memset(out, 0, sizeof *out);
    uint64_t now = snapshot ? origin_clock(snapshot->origin) : 0;
    enum tamis_reason reason = probe_target(snapshot, target, now, key, &by_range);
    if (by_range)
        return explain_by(out, TAMIS_BY_RANGE, reason);
    if ((reason != TAMIS_NO_REASON && reason != TAMIS_HIT && reason != TAMIS_DAMAGED) ||
        target->refusal)
        return explain_by(out, TAMIS_BY_NOTHING, reason);
    /* The filter was there a moment ago: the target is this snapshot's. */
    size_t index = target->slot - 1;
    struct entry *e = is_loose(snapshot, index) ? snapshot->entries[index] : NULL;
    if (!e || e->elsewhere)
        return explain_by(out, TAMIS_BY_FILTER, reason);
    struct tamis_filter *f =
        entry_filter_or_reason(e, snapshot->dir, &snapshot->domain, &reason);
    return f ? filter_explain_from(f, target->min_watermark, key, out)
             : explain_by(out, TAMIS_BY_NOTHING, reason);
}
