/* Probing one segment of a snapshot. probe_target() says TAMIS_NO_REASON, the one thing
 * that becomes ABSENT, only where it has a proof: a healthy filter of this very
 * segment, or a key range of a sealed one whose file is the record's. Probes of many
 * segments (probe_many.c, probe_keys.c) either end here, or know that all of this
 * holds.
 */
#include "lib/store/snapshot/snapshot.h"
#include "format/record.h"
#include "lib/filter/filter.h"
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"

#include <string.h>

enum tamis_reason target_reason(const struct tamis_snapshot *s,
                                const struct tamis_target *t, uint64_t tag)
{
    if (!s || !t)
        return TAMIS_UNKNOWN_SEGMENT;
    enum tamis_reason lost = origin_known(s->origin);
    if (lost != TAMIS_NO_REASON)
        return lost;
    if (t->refusal)
        return t->refusal <= TAMIS_UNREADABLE ? (enum tamis_reason)t->refusal
                                              : TAMIS_UNREADABLE;
    if (t->slot == 0)
        return TAMIS_UNKNOWN_SEGMENT;
    if (t->snapshot != s->serial) /* its number here is another segment's */
        return TAMIS_MISMATCH;
    if (t->slot > s->n)
        return TAMIS_UNKNOWN_SEGMENT;
    if (!is_loose(s, t->slot - 1))
        return tag != s->domain.tag         ? TAMIS_MISMATCH
               : packs_have(s, t->slot - 1) ? TAMIS_NO_REASON
                                            : TAMIS_UNKNOWN_SEGMENT;
    const struct entry *e = s->entries[t->slot - 1];
    if (!e->state)
        return TAMIS_UNREADABLE;
    if (e->state == RECORD_NO_FILTER)
        return TAMIS_NO_FILTER;
    if (!e->borrowed && tag != s->domain.tag)
        return TAMIS_MISMATCH; /* filters of the caller's compare for themselves */
    if (e->state == RECORD_SEALED && e->watermark < t->min_watermark)
        return TAMIS_BEHIND;
    return TAMIS_NO_REASON;
}

static inline enum tamis_reason ask(struct tamis_snapshot *s,
                                    const struct tamis_target *t, uint64_t now,
                                    const struct tamis_key *key, bool *by_range)
{
    if (!key)
        return TAMIS_MISMATCH;
    enum tamis_reason why = target_reason(s, t, key->tag);
    if (why != TAMIS_NO_REASON)
        return why;
    size_t index = t->slot - 1;
    struct entry *e = is_loose(s, index) ? s->entries[index] : NULL;
    if (!e || e->elsewhere) {
        struct seat seat = packs_seat(s, index);
        return seat.band ? seat_ask(s, index, &seat, t->min_watermark, key, by_range)
                         : seat.why;
    }
    struct tamis_filter *f = entry_filter_or_reason(e, s->dir, &s->domain, &why);
    if (!f)
        return why;
    /* Only now: a record whose file is there and matches is not an older one. */
    if (outside_range(e, key)) {
        *by_range = true;
        return TAMIS_NO_REASON;
    }
    if (filter_probe_from(f, t->min_watermark, now, key, &why) == TAMIS_ABSENT)
        return TAMIS_NO_REASON;
    return why != TAMIS_NO_REASON ? why : TAMIS_UNREADABLE;
}

enum tamis_reason probe_target(struct tamis_snapshot *s, const struct tamis_target *t,
                               uint64_t now, const struct tamis_key *key,
                               bool *by_range)
{
    return ask(s, t, now, key, by_range);
}

enum tamis_answer tamis_snapshot_probe(struct tamis_snapshot *snapshot,
                                       const struct tamis_target *target,
                                       const struct tamis_key *key,
                                       enum tamis_reason *why)
{
    bool by_range = false;
    uint64_t now = snapshot ? origin_clock(snapshot->origin) : 0;
    enum tamis_reason reason = ask(snapshot, target, now, key, &by_range);
    if (snapshot && counters_on(&snapshot->counts))
        count_one(snapshot, target, reason, by_range);
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* As count_word(): a batch does not say which maybes only damage says. */
static void count_at_seat(struct tamis_snapshot *s, const struct tamis_target *t,
                          const struct seat *seat, const uint64_t *hashes,
                          uint64_t absent, uint64_t maybe)
{
    bool damaged = atomic_load_explicit(
        &filter_page_counts(seat_filter(seat))->n_damaged, memory_order_relaxed);
    count_keys(counters_sheet(&s->counts, s->n), t->slot, absent, damaged ? 0 : maybe);
    for (uint64_t m = damaged ? maybe : 0; m; m &= m - 1)
        count_one(s, t, seat_probe(seat, hashes[__builtin_ctzll(m)]), false);
}

static size_t batch_at_seat(struct tamis_snapshot *s, const struct tamis_target *t,
                            const struct seat *seat, const uint64_t *hashes, size_t n,
                            uint64_t *absent)
{
    size_t n_absent = 0;
    for (size_t done = 0; done < n; done += 64) {
        uint64_t word = 0;
        size_t some = n - done < 64 ? n - done : 64;
        seat_probe_many(seat, hashes + done, some, &word);
        absent[done / 64] = word;
        n_absent += (size_t)__builtin_popcountll(word);
        if (counters_on(&s->counts)) {
            uint64_t asked = some < 64 ? (UINT64_C(1) << some) - 1 : UINT64_MAX;
            count_at_seat(s, t, seat, hashes + done, word, asked & ~word);
        }
    }
    return n_absent;
}

size_t tamis_snapshot_probe_batch(struct tamis_snapshot *snapshot,
                                  const struct tamis_target *target, uint64_t tag,
                                  const uint64_t *hashes, size_t n, uint64_t *absent,
                                  enum tamis_reason *why)
{
    uint64_t now = snapshot ? origin_clock(snapshot->origin) : 0;
    enum tamis_reason reason = target_reason(snapshot, target, tag);
    struct tamis_filter *f = NULL;
    size_t n_absent = 0;
    if (absent)
        memset(absent, 0, (n / 64 + (n % 64 != 0)) * sizeof *absent);
    if (reason == TAMIS_NO_REASON && n && (!hashes || !absent))
        reason = TAMIS_MISMATCH;
    size_t index = reason == TAMIS_NO_REASON ? target->slot - 1 : 0;
    struct entry *e = reason == TAMIS_NO_REASON && is_loose(snapshot, index)
                          ? snapshot->entries[index]
                          : NULL;
    if (reason == TAMIS_NO_REASON && (!e || e->elsewhere)) {
        struct seat seat = packs_seat(snapshot, index);
        reason = seat.band ? seat_check(snapshot, index, &seat, target->min_watermark)
                           : seat.why;
        if (reason == TAMIS_NO_REASON) {
            if (why)
                *why = reason;
            return batch_at_seat(snapshot, target, &seat, hashes, n, absent);
        }
    } else if (e) {
        f = entry_filter_or_reason(e, snapshot->dir, &snapshot->domain, &reason);
    }
    if (f)
        n_absent = filter_probe_batch_from(f, target->min_watermark, now, tag, hashes,
                                           n, absent, &reason);
    if (snapshot && counters_on(&snapshot->counts)) {
        if (reason == TAMIS_NO_REASON)
            count_batch(snapshot, target, f, hashes, n, absent);
        else
            count_refused(snapshot, target, reason, n);
    }
    if (why)
        *why = reason;
    return n_absent;
}
