/* Values for inline probes of a snapshot's target (tamis_inline.h). */
#include "lib/store/query/inside.h"
#include "lib/filter/inline.h"

static enum tamis_answer ask_inlined(const struct tamis_inline *value,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    return tamis_snapshot_probe(value->snapshot, &value->target, key, why);
}

/* *why: the target's, whatever the key is, or TAMIS_NO_REASON. */
static size_t ask_few_inlined(const struct tamis_inline *value, uint64_t tag,
                              const uint64_t *hashes, size_t n, uint64_t *absent,
                              enum tamis_reason *why)
{
    const struct tamis_query q = {.size = sizeof q,
                                  .targets = &value->target,
                                  .n_targets = 1,
                                  .hashes = hashes,
                                  .tag = tag,
                                  .n_keys = n,
                                  .absent_from_all = absent};
    const struct tamis_key any = {.tag = tag, .hash = 0};
    bool by_range;
    enum tamis_reason its =
        probe_target(value->snapshot, &value->target, 0, &any, &by_range);
    if (why)
        *why = its == TAMIS_HIT || its == TAMIS_DAMAGED ? TAMIS_NO_REASON : its;
    return tamis_snapshot_query(value->snapshot, &q, NULL);
}

static void release_inlined(struct tamis_inline *value)
{
    inline_release_filter(value);
    tamis_snapshot_release(value->snapshot);
}

static const struct tamis_inline_calls of_snapshot = {ask_inlined, ask_few_inlined,
                                                      release_inlined};

int tamis_snapshot_inline(struct tamis_snapshot *snapshot,
                          const struct tamis_target *target, uint32_t version,
                          struct tamis_inline *out)
{
    int err = inline_begin(target ? snapshot : NULL, version, out);
    if (err)
        return err;
    /* The filter that may answer for this target by its bits alone. */
    enum tamis_reason why = target_reason(snapshot, target, snapshot->domain.tag);
    struct entry *e = why ? NULL : loose_entry(snapshot, target->ordinal - 1);
    struct tamis_filter *f =
        e && !e->elsewhere ? entry_filter_or_reason(snapshot, e, &why) : NULL;
    if (f)
        inline_filter(out, f, target->min_watermark);
    out->snapshot = snapshot_hold(snapshot);
    out->target = *target;
    out->calls = &of_snapshot;
    return 0;
}
