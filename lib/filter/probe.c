/* Probes of one filter, one key or many at a time. */
#include "lib/filter/filter.h"

static inline enum tamis_reason probe_view(struct view *v, const struct kernel *k,
                                           uint64_t h)
{
    /* The last stages hold most keys. */
    for (uint32_t i = v->n_stages; i-- > 0;) {
        enum tamis_reason r = stage_probe(&v->stages[i], k, h);
        if (r != TAMIS_NO_REASON)
            return r;
    }
    return TAMIS_NO_REASON;
}

/* Why every probe of this view is MAYBE, or NO_REASON. */
static inline enum tamis_reason view_refusal(const struct view *v,
                                             uint64_t min_watermark)
{
    uint32_t refusal = atomic_load_explicit(&v->refusal, memory_order_relaxed);
    if (refusal)
        return (enum tamis_reason)refusal;
    /* Acquire: the bits are loaded after the watermark that vouches for them. */
    if (atomic_load_explicit(&v->watermark, memory_order_acquire) < min_watermark)
        return TAMIS_BEHIND;
    return TAMIS_NO_REASON;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static enum tamis_answer answer(enum tamis_reason reason, enum tamis_reason *why)
{
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    const struct tamis_key *key, enum tamis_reason *why)
{
    if (!f || !key)
        return answer(TAMIS_UNREADABLE, why);
    if (key->tag != f->tag)
        return answer(TAMIS_MISMATCH, why);
    struct view *v = filter_view(f);
    enum tamis_reason reason =
        view_refusal(v, at_least(min_watermark, f->min_watermark));
    if (reason == TAMIS_NO_REASON)
        reason = probe_view(v, f->kernel, key->hash);
    return answer(reason, why);
}

enum tamis_answer tamis_filter_probe(struct tamis_filter *f,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    return filter_probe_from(f, 0, key, why);
}

size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t tag, const uint64_t *hashes, size_t n,
                               uint64_t *absent, enum tamis_reason *why)
{
    size_t n_absent = 0;
    memset(absent, 0, (n + 63) / 64 * sizeof *absent);
    if (!f || tag != f->tag) {
        answer(f ? TAMIS_MISMATCH : TAMIS_UNREADABLE, why);
        return 0;
    }
    struct view *v = filter_view(f);
    enum tamis_reason reason =
        view_refusal(v, at_least(min_watermark, f->min_watermark));
    if (why)
        *why = reason;
    for (size_t i = 0; reason == TAMIS_NO_REASON && i < n; i++) {
        uint64_t bit = probe_view(v, f->kernel, hashes[i]) == TAMIS_NO_REASON;
        absent[i / 64] |= bit << (i % 64);
        n_absent += bit;
    }
    return n_absent;
}

size_t tamis_filter_probe_batch(struct tamis_filter *f, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why)
{
    return filter_probe_batch_from(f, 0, tag, hashes, n, absent, why);
}
