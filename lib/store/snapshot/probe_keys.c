/* Many keys, many segments: 64 keys at a time, on 64 segments at a time.
 *
 * A segment's answers are a word, a bit for each of the 64 keys: first those that the
 * range excludes, then those that its bits do; the kernel is given all planes that many
 * of the keys are to be asked of, and of the others only what is asked. The words of 64
 * segments are turned into a word for each key. Hashes are computed before, once. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/filter/filter.h"
#include "lib/kernel/kernel.h"
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"

#include <string.h>

enum {
    TILE = 64,
    FEW = 16, /* for so many keys a plane's lines are not fetched for all */
};

struct keys {
    const struct tamis_key *keys;
    size_t n;
    uint64_t now;   /* origin_clock() */
    uint64_t all;   /* a bit for each */
    uint64_t plain; /* those of the snapshot's domain, while the store is the same */
    uint64_t bytes; /* of these, those that a range may exclude */
    uint64_t hash[TILE], prefix[TILE];
};

struct tile {
    struct tamis_snapshot *snapshot;
    const struct tamis_target *targets; /* NULL: all that are loose */
    struct sheet *sheet;                /* NULL: nothing is counted */
    size_t base, n;
    uint64_t absent[TILE];   /* of each segment, a bit for each key */
    uint64_t by_range[TILE]; /* of these */
    /* The kernel asks these: all planes for all keys. */
    struct plane planes[TILE];
    uint64_t masks[TILE];
    uint8_t at[TILE];
    size_t n_planes;
    /* With care, or of a few keys: in the order of segments. */
    uint64_t slow[TILE], few[TILE];
};

static void keys_begin(struct keys *k, const struct tamis_snapshot *s,
                       const struct tamis_key *keys, size_t n)
{
    k->keys = keys;
    k->n = n < TILE ? n : TILE;
    k->all = n < TILE ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    k->plain = k->bytes = 0;
    for (size_t i = 0; i < k->n; i++) {
        uint64_t bit = UINT64_C(1) << i;
        bool ranged = keys[i].bytes && s->planes.any_range;
        k->hash[i] = keys[i].hash;
        k->plain |= keys[i].tag == s->domain.tag ? bit : 0;
        k->bytes |= ranged ? bit : 0;
        k->prefix[i] = ranged ? key_prefix(keys[i].bytes, keys[i].n_bytes) : 0;
    }
    k->now = origin_clock(s->origin);
    if (origin_known(s->origin) != TAMIS_NO_REASON)
        k->plain = 0; /* probe_target() says why */
    k->bytes &= k->plain;
}

static struct tamis_target target_at(const struct tile *t, size_t i)
{
    return t->targets ? t->targets[t->base + i]
                      : tamis_snapshot_target(t->snapshot, t->base + i);
}

/* ---- with care ---- */

/* *why: what speaks against the filter, be the key what it will. */
static uint64_t ask_filter(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                           const struct keys *k, uint64_t mask, enum tamis_reason *why)
{
    uint64_t absent = 0;
    if (__builtin_popcountll(mask) > FEW) {
        filter_probe_batch_from(f, min_watermark, k->now, tag, k->hash, k->n, &absent,
                                why);
        return absent & mask;
    }
    for (uint64_t m = mask; m; m &= m - 1) {
        enum tamis_reason one;
        if (filter_probe_from(f, min_watermark, k->now, &k->keys[__builtin_ctzll(m)],
                              &one) == TAMIS_ABSENT)
            absent |= m & -m;
        else if (one != TAMIS_HIT && one != TAMIS_DAMAGED)
            *why = one;
    }
    return absent;
}

/* The same at a seat. */
static uint64_t ask_seat(struct tamis_snapshot *s, const struct tamis_target *t,
                         const struct seat *seat, const struct keys *k, uint64_t mask)
{
    uint64_t absent = 0;
    for (uint64_t m = seat->band ? mask : 0; m; m &= m - 1)
        seat_prefetch(seat, k->hash[__builtin_ctzll(m)]);
    for (uint64_t m = mask; m; m &= m - 1) {
        const struct tamis_key *key = &k->keys[__builtin_ctzll(m)];
        bool by_range = false;
        enum tamis_reason why = seat->band ? seat_ask(s, t->slot - 1, seat,
                                                      t->min_watermark, key, &by_range)
                                           : seat->why;
        absent |= why == TAMIS_NO_REASON ? m & -m : 0;
        if (counters_on(&s->counts))
            count_one(s, t, why, by_range);
    }
    return absent;
}

/* Keys of a mask, all of the snapshot's domain, on one segment. */
static uint64_t ask_segment(struct tamis_snapshot *s, const struct tamis_target *t,
                            const struct keys *k, uint64_t mask)
{
    enum tamis_reason why = target_reason(s, t, s->domain.tag);
    uint64_t by_range = 0, absent = 0;
    size_t index = why == TAMIS_NO_REASON ? t->slot - 1 : 0;
    struct entry *e =
        why == TAMIS_NO_REASON && is_loose(s, index) ? s->entries[index] : NULL;
    if (why == TAMIS_NO_REASON && (!e || e->elsewhere)) {
        struct seat seat = packs_seat(s, index);
        return ask_seat(s, t, &seat, k, mask);
    }
    struct tamis_filter *f =
        e ? entry_filter_or_reason(e, s->dir, &s->domain, &why) : NULL;
    for (uint64_t m = f ? mask : 0; m; m &= m - 1)
        if (outside_range(e, &k->keys[__builtin_ctzll(m)]))
            by_range |= m & -m;
    mask &= ~by_range;
    if (f)
        absent = ask_filter(f, s->domain.tag, t->min_watermark, k, mask, &why);
    if (counters_on(&s->counts)) {
        uint64_t maybe = mask & ~absent;
        count_excluded(s, by_range);
        if (f)
            count_word(s, t, f, k->hash, absent, why == TAMIS_NO_REASON ? maybe : 0);
        if (why != TAMIS_NO_REASON)
            count_refused(s, t, why, (size_t)__builtin_popcountll(maybe));
    }
    return by_range | absent;
}

static void ask_with_care(struct tile *t, const struct keys *k)
{
    for (size_t i = 0; i < t->n; i++) {
        struct tamis_target target = target_at(t, i);
        if (t->slow[i]) {
            t->absent[i] |= ask_segment(t->snapshot, &target, k, t->slow[i]);
            if (target_loose(t->snapshot, &target))
                planes_offer(t->snapshot, target.slot - 1);
        }
        /* Keys of another domain, which no segment has; or filters of the caller. */
        for (uint64_t m = k->all & ~k->plain; m; m &= m - 1) {
            bool by_range = false;
            enum tamis_reason why = probe_target(
                t->snapshot, &target, k->now, &k->keys[__builtin_ctzll(m)], &by_range);
            if (why == TAMIS_NO_REASON)
                t->absent[i] |= m & -m;
            if (t->sheet)
                count_one(t->snapshot, &target, why, by_range);
        }
    }
}

/* ---- by what is at hand ---- */

static uint64_t excluded(const struct tamis_snapshot *s, size_t index,
                         const struct keys *k)
{
    uint64_t out = 0;
    if (range_end(s->planes.first, index) == 0 &&
        range_end(s->planes.last, index) == UINT64_MAX)
        return 0;
    for (uint64_t m = k->bytes; m; m &= m - 1) {
        size_t i = (size_t)__builtin_ctzll(m);
        if (outside_gate(s, index, k->prefix[i], &k->keys[i]))
            out |= m & -m;
    }
    return out;
}

/* These keys on a plane that is ready; lines of the few are fetched now. */
static void leave_to_kernel(struct tile *t, size_t i, const struct plane *p,
                            const struct keys *k, uint64_t mask)
{
    if (__builtin_popcountll(mask) > FEW || mask == k->all) {
        t->planes[t->n_planes] = *p;
        t->masks[t->n_planes] = mask;
        t->at[t->n_planes++] = (uint8_t)i;
        return;
    }
    t->few[i] = mask;
    for (uint64_t m = mask; m; m &= m - 1)
        __builtin_prefetch(plane_block(p, 0, k->hash[__builtin_ctzll(m)]));
}

/* Divides what is to be asked of segment i of the tile. */
static void choose(struct tile *t, size_t i, const struct keys *k, uint64_t epoch)
{
    struct tamis_snapshot *s = t->snapshot;
    const struct planes *p = &s->planes;
    size_t at = t->targets ? t->targets[t->base + i].slot - 1U : t->base + i;
    t->absent[i] = t->by_range[i] = t->few[i] = 0;
    t->slow[i] = k->plain;
    if (t->targets ? !target_plain(s, &t->targets[t->base + i]) : !s->complete)
        return;
    t->absent[i] = t->by_range[i] = excluded(s, at, k);
    uint64_t left = k->plain & ~t->absent[i];
    bool ready = plane_is_ready(s, at, epoch);
    t->slow[i] = ready ? 0 : left;
    if (ready && left)
        leave_to_kernel(t, i, &p->plane[at], k, left);
}

static void ask_few(struct tile *t, const struct keys *k)
{
    const struct planes *p = &t->snapshot->planes;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->few[i])
            continue;
        size_t at = t->targets ? t->targets[t->base + i].slot - 1U : t->base + i;
        for (uint64_t m = t->few[i]; m; m &= m - 1)
            if (!p->kernel->probe(&p->plane[at], k->hash[__builtin_ctzll(m)]))
                t->absent[i] |= m & -m;
    }
}

/* Counts the answers of the fast way. */
static void count_fast(const struct tile *t, const struct keys *k)
{
    for (size_t i = 0; i < t->n; i++) {
        uint64_t asked = k->plain & ~(t->by_range[i] | t->slow[i]);
        size_t at = t->targets ? t->targets[t->base + i].slot - 1U : t->base + i;
        if (t->by_range[i])
            count_excluded(t->snapshot, t->by_range[i]);
        if (asked)
            count_keys(t->sheet, (uint32_t)at + 1, t->absent[i] & asked,
                       asked & ~t->absent[i]);
    }
}

static void ask_tile(struct tile *t, const struct keys *k)
{
    struct planes *p = &t->snapshot->planes;
    uint64_t epoch = stage_epoch();
    uint64_t hits[TILE];
    t->n_planes = 0;
    for (size_t i = 0; i < t->n; i++)
        choose(t, i, k, epoch);
    p->kernel->probe_grid(t->planes, t->n_planes, k->hash, k->n, 0, hits);
    for (size_t i = 0; i < t->n_planes; i++)
        t->absent[t->at[i]] |= t->masks[i] & ~hits[i];
    ask_few(t, k);
    if (t->sheet)
        count_fast(t, k);
    ask_with_care(t, k);
}

/* ---- from segments to keys ---- */

/* Bit j of word i becomes bit i of word j: in 64 words, then in halves of them. */
static void transpose(uint64_t words[TILE])
{
    uint64_t low = UINT32_MAX; /* of each 2 * half bits */
    for (uint32_t half = TILE / 2; half; half /= 2, low ^= low << half)
        for (uint32_t i = 0; i < TILE; i++) {
            if (i & half)
                continue;
            uint64_t swap = (words[i] >> half ^ words[i + half]) & low;
            words[i + half] ^= swap;
            words[i] ^= swap << half;
        }
}

/* Returns which of 64 keys are absent from these n segments, and writes rows of n_words
 * words. */
static uint64_t ask_keys(struct tile *t, const struct keys *k, size_t n, uint64_t *rows,
                         size_t n_words)
{
    uint64_t everywhere = k->all;
    for (size_t word = 0; word * TILE < n; word++) {
        t->base = word * TILE;
        t->n = n - t->base < TILE ? n - t->base : TILE;
        ask_tile(t, k);
        for (size_t i = 0; i < t->n; i++)
            everywhere &= t->absent[i];
        if (!rows)
            continue;
        memset(t->absent + t->n, 0, (TILE - t->n) * sizeof t->absent[0]);
        transpose(t->absent);
        for (size_t i = 0; i < k->n; i++)
            rows[i * n_words + word] = t->absent[i];
    }
    return everywhere;
}

/* The same of segments without records. An incomplete list, and keys of another domain,
 * prove nothing. */
static uint64_t ask_all_packs(const struct tile *t, const struct keys *k,
                              uint64_t *rows, size_t n_words)
{
    struct tamis_snapshot *s = t->snapshot;
    struct packs_asked a = {.keys = k->keys,
                            .hashes = k->hash,
                            .n = k->n,
                            .plain = s->complete ? k->plain : 0,
                            .rows = rows,
                            .n_words = n_words,
                            .sheet = t->sheet};
    for (size_t i = 0; t->sheet && i < k->n; i++)
        tell_mute(s, &k->keys[i], !(a.plain >> i & 1), &(struct outputs){0});
    return a.plain & ~(a.plain ? ask_packs(s, &a) : 0);
}

/* At least one segment. */
static __attribute__((noinline)) size_t ask_many(struct tamis_snapshot *s,
                                                 const struct tamis_target *targets,
                                                 size_t n, const struct tamis_key *keys,
                                                 size_t n_keys, uint64_t *absent)
{
    size_t n_words = n / 64 + (n % 64 != 0), n_absent = 0;
    size_t n_listed = targets ? n : s->n_loose;
    struct tile t;
    struct keys k;
    t.snapshot = s;
    t.targets = targets;
    t.sheet = counters_on(&s->counts) ? counters_sheet(&s->counts, s->n) : NULL;
    for (size_t done = 0; done < n_keys; done += k.n) {
        keys_begin(&k, s, keys + done, n_keys - done);
        uint64_t *rows = absent ? absent + done * n_words : NULL;
        uint64_t everywhere = ask_keys(&t, &k, n_listed, rows, n_words);
        if (!targets && s->packs.n_listed)
            everywhere &= ask_all_packs(&t, &k, rows, n_words);
        n_absent += (size_t)__builtin_popcountll(everywhere);
    }
    return n_absent;
}

static __attribute__((noinline)) size_t probe_keys(struct tamis_snapshot *snapshot,
                                                   const struct tamis_target *targets,
                                                   size_t n_targets,
                                                   const struct tamis_key *keys,
                                                   size_t n_keys, uint64_t *absent)
{
    size_t n = targets ? n_targets : snapshot ? snapshot->n : 0, n_absent = 0;
    size_t n_words = n / 64 + (n % 64 != 0);
    if (absent)
        memset(absent, 0, n_keys * n_words * sizeof *absent);
    if (!snapshot || !keys || !n || (!targets && !snapshot->n_segments))
        return 0;
    size_t done = probe_few_keys(snapshot, targets, n, keys, n_keys, absent, &n_absent);
    if (done < n_keys)
        n_absent += ask_many(snapshot, targets, n, keys + done, n_keys - done,
                             absent ? absent + done * n_words : NULL);
    /* An incomplete catalog proves nothing of the segments that it lacks. */
    return targets || snapshot->complete ? n_absent : 0;
}

size_t tamis_snapshot_probe_keys(struct tamis_snapshot *snapshot,
                                 const struct tamis_target *targets, size_t n_targets,
                                 const struct tamis_key *keys, size_t n_keys,
                                 uint64_t *absent)
{
    size_t n_absent = 0;
    if (probe_few(snapshot, targets, n_targets, keys, n_keys, absent, &n_absent))
        return n_absent;
    return probe_keys(snapshot, targets, n_targets, keys, n_keys, absent);
}
