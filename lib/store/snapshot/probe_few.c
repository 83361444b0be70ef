/* Few segments: what an engine's get or MultiGet asks of those that may hold its keys.
 *
 * Where nothing is left to be asked but bits, kernel/cells.h asks all pairs at once:
 * there is no window and no tile to set up. Anything else (a segment that is not ready,
 * a target that something speaks against, a key of another domain, segments without
 * records) is left to probe_many.c and probe_keys.c. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/kernel/kernel.h"
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"

#include <string.h>

/* For more keys, on more than a handful of segments, the kernel's grid is quicker. */
enum { WORD = 64, FEW_KEYS = 32, HANDFUL = 4 };

/* Sets `deep` and `alike` where planes differ, or have several lanes. */
static __attribute__((noinline)) void unlike(struct few_planes *f)
{
    uint32_t others = 0;
    for (size_t i = 0; i < f->n; i++) {
        f->deep |= (uint64_t)(f->plane[i]->lanes > 1) << i;
        others |= f->plane[i]->ring ^ f->plane[0]->ring;
    }
    f->alike = !others;
}

/* Prefetches what a key reads in a plane: how much a processor has in flight at a time
 * decides how long a key takes. */
static inline void take(struct few_planes *f, size_t i, const struct plane *p,
                        uint64_t h)
{
    f->plane[i] = p;
    f->line[i] = plane_block(p, 0, h);
    __builtin_prefetch(f->line[i]);
}

/* Takes the planes of these segments, if all are ready. `listed` is a constant. */
static inline bool take_planes(struct few_planes *f, struct tamis_snapshot *s,
                               const struct tamis_target *targets, size_t n,
                               bool listed, uint64_t h)
{
    const struct plane *const planes = s->planes.plane;
    uint64_t any = 0, all = UINT64_MAX, epoch = stage_epoch();
    for (size_t i = 0; i < n; i++) {
        uint32_t at = listed ? targets[i].slot - 1 : (uint32_t)i;
        if ((listed && !target_plain(s, &targets[i])) || !plane_is_ready(s, at, epoch))
            return false;
        take(f, i, &planes[at], h);
        any |= plane_shape(&planes[at]);
        all &= plane_shape(&planes[at]);
    }
    f->n = n;
    f->deep = 0;
    f->alike = any == all;
    if (any != all || (uint16_t)any > 1)
        unlike(f);
    return true;
}

/* targets NULL: all segments. */
__attribute__((always_inline)) static inline bool
few_begin(struct few_planes *f, struct tamis_snapshot *s,
          const struct tamis_target *targets, size_t n, uint64_t h)
{
    if (n - 1 >= FEW_PLANES || (!targets && (!s->complete || s->n != s->n_loose)))
        return false;
    return targets ? take_planes(f, s, targets, n, true, h)
                   : take_planes(f, s, NULL, n, false, h);
}

static size_t index_of(const struct tamis_snapshot *s, const struct few_planes *f,
                       size_t i)
{
    return (size_t)(f->plane[i] - s->planes.plane);
}

/* The segments whose range excludes the key. */
static uint64_t excluded(const struct tamis_snapshot *s, const struct few_planes *f,
                         const struct tamis_key *key)
{
    uint64_t prefix, out = 0;
    if (!key->bytes)
        return 0;
    prefix = key_prefix(key->bytes, key->n_bytes);
    for (size_t i = 0; i < f->n; i++)
        out |= (uint64_t)outside_gate(s, index_of(s, f, i), prefix, key) << i;
    return out;
}

static void count(struct tamis_snapshot *s, const struct few_planes *f, size_t n,
                  const uint64_t *rows, const uint64_t *by_range)
{
    struct sheet *sheet = counters_sheet(&s->counts, s->n);
    for (size_t i = 0; i < n; i++)
        if (by_range[i])
            count_excluded(s, by_range[i]);
    for (size_t p = 0; p < f->n; p++) {
        uint64_t absent = 0, hits = 0;
        for (size_t i = 0; i < n; i++) {
            absent |= ((rows[i] & ~by_range[i]) >> p & 1) << i;
            hits |= (~rows[i] >> p & 1) << i;
        }
        count_keys(sheet, (uint32_t)index_of(s, f, p) + 1, absent, hits);
    }
}

/* Apart: with ranges, or counting. */
static __attribute__((noinline)) size_t ask_and_count(struct tamis_snapshot *s,
                                                      const struct few_planes *f,
                                                      const struct tamis_key *keys,
                                                      size_t n, uint64_t *rows)
{
    uint64_t by_range[WORD], any = 0;
    for (size_t i = 0; i < n; i++)
        any |= by_range[i] = s->planes.any_range ? excluded(s, f, &keys[i]) : 0;
    size_t n_absent =
        s->planes.kernel->answer_cells(f, keys, n, any ? by_range : NULL, rows);
    if (counters_on(&s->counts))
        count(s, f, n, rows, by_range);
    return n_absent;
}

/* At most 64 keys; adds those that are absent from all. False: nothing was asked. */
static inline bool ask(struct tamis_snapshot *s, const struct few_planes *f,
                       const struct tamis_key *keys, size_t n, uint64_t *rows,
                       size_t *n_absent)
{
    uint64_t foreign = 0;
    for (size_t i = 0; i < n; i++)
        foreign |= keys[i].tag ^ s->domain.tag;
    if (foreign || origin_quick(s->origin, n) != TAMIS_NO_REASON)
        return false;
    if (s->planes.any_range || counters_on(&s->counts))
        *n_absent += ask_and_count(s, f, keys, n, rows);
    else
        *n_absent += s->planes.kernel->answer_cells(f, keys, n, NULL, rows);
    return true;
}

/* ---- the ways in ---- */

bool probe_few(struct tamis_snapshot *s, const struct tamis_target *targets, size_t n,
               const struct tamis_key *keys, size_t n_keys, uint64_t *absent,
               size_t *n_absent)
{
    struct few_planes f;
    if (!s || !targets || !keys || !absent || n_keys - 1 >= FEW_KEYS ||
        n - 1 >= FEW_PLANES)
        return false;
    /* Before anything else, for a caller that jumps out of the probe: MAYBE. One by
     * one, lest it become a call that takes longer. */
    for (size_t i = 0; i < n_keys; i++)
        __atomic_store_n(&absent[i], 0, __ATOMIC_RELAXED);
    return few_begin(&f, s, targets, n, keys->hash) &&
           ask(s, &f, keys, n_keys, absent, n_absent);
}

size_t probe_few_keys(struct tamis_snapshot *s, const struct tamis_target *targets,
                      size_t n, const struct tamis_key *keys, size_t n_keys,
                      uint64_t *absent, size_t *n_absent)
{
    struct few_planes f;
    uint64_t own[WORD];
    size_t done = 0, some;
    if (n_keys > FEW_KEYS && n > HANDFUL)
        return 0;
    for (; done < n_keys; done += some) {
        uint64_t *rows = absent ? absent + done : own;
        some = n_keys - done < WORD ? n_keys - done : WORD;
        if (!few_begin(&f, s, targets, n, keys[done].hash) ||
            !ask(s, &f, keys + done, some, rows, n_absent))
            return done;
    }
    return done;
}

/* Answers leave when they are whole: whoever jumps out of a probe, from a signal
 * handler of the host's perhaps, is left with MAYBE. */
bool probe_few_segments(struct tamis_snapshot *s, const struct tamis_target *targets,
                        size_t n, const struct tamis_key *key, struct outputs *to,
                        enum tamis_answer *answer)
{
    struct few_planes f;
    uint64_t row;
    size_t everywhere = 0;
    if (!s || !key)
        return false;
    if (!few_begin(&f, s, targets, n, key->hash))
        return false;
    if (to->absent)
        *to->absent = 0;
    if (to->reasons)
        memset(to->reasons, TAMIS_UNREADABLE, n);
    if (!ask(s, &f, key, 1, &row, &everywhere))
        return false;
    if (to->absent)
        *to->absent = row;
    for (size_t i = 0; to->reasons && i < n; i++)
        to->reasons[i] = row >> i & 1 ? TAMIS_NO_REASON : TAMIS_HIT;
    uint64_t hits = UINT64_MAX >> (WORD - n) & ~row;
    for (uint64_t m = to->candidates ? hits : 0; m; m &= m - 1, to->n_segments++)
        if (to->n_segments < to->max_segments)
            to->segments[to->n_segments] = (uint32_t)__builtin_ctzll(m);
    *answer = everywhere ? TAMIS_ABSENT : TAMIS_MAYBE;
    return true;
}
