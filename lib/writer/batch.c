/* Some keys at a time: which of them older stages have, and the others added to the
 * newest stage. How many, its fill decides: the fuller it is, the fewer. */
#include "lib/writer/inside.h"
#include "lib/sync_point.h"

/* The add relies on the bits of stage i, and leaves marks as if it had set them: the
 * thread that did may still be on its way to its own, unless it has gone (drained). */
static void found_in(struct tamis_writer *w, uint32_t i, uint64_t h)
{
    struct writer_stage *s = w->stages[i];
    const struct geometry *g = &s->stage.geometry;
    if (atomic_load_explicit(&s->drained, memory_order_acquire))
        return;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        stage_set_found(s, geometry_block_offset(g, lane, h) / PAGE_BYTES);
        h = geometry_next_lane(h);
    }
}

/* Which older stage holds a key in healthy pages? `current`: none. */
static uint32_t stage_of_key(const struct tamis_writer *w, uint32_t current, uint64_t h)
{
    for (uint32_t i = current; i-- > 0;)
        if (stage_probe(&w->stages[i]->stage, w->kernel, h) == TAMIS_HIT)
            return i;
    return current;
}

uint64_t older_keys(const struct tamis_writer *w, uint32_t current,
                    const uint64_t *hashes, size_t n, size_t n_next, uint8_t *stage)
{
    uint64_t hits[MAX_STAGES], known = 0;
    if (!current)
        return 0;
    if (!stages_all_good(w, current)) {
        for (size_t k = 0; k < n; k++) {
            uint32_t i = stage_of_key(w, current, hashes[k]);
            known |= (uint64_t)(i < current) << k;
            if (stage)
                stage[k] = (uint8_t)i;
        }
        return known;
    }
    if (n == 1) {
        known = w->kernel->probe_row(&w->stages[current]->older, hashes[0]);
        if (stage && known)
            stage[0] = (uint8_t)__builtin_ctzll(known);
        return known != 0;
    }
    w->kernel->probe_grid(w->planes, current, hashes, n, n_next, hits);
    for (uint32_t i = current; i-- > 0; known |= hits[i])
        for (uint64_t m = stage ? hits[i] : 0; m; m &= m - 1)
            stage[__builtin_ctzll(m)] = (uint8_t)i;
    return known;
}

static uint32_t stage_add(struct tamis_writer *w, struct writer_stage *s, uint64_t h)
{
    const struct geometry *g = &s->stage.geometry;
    uint32_t fresh = 0;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        uint64_t at = geometry_block_offset(g, lane, h), page = at / PAGE_BYTES;
        /* Our bits could mask a loss that only the floors of the last commit show. */
        if (!stage_page_good(&s->stage, page)) {
            if (atomic_load(&w->lost))
                return fresh; /* perhaps it can't be read, and all is well with it */
            if (!writer_condemn_page(w, s, page))
                return fresh;
        }
        SYNC_POINT("add: page looked at");
        uint32_t n = w->kernel->block_add(s->stage.bits + at, g->words, h);
        SYNC_POINT("add: bits set");
        if (n)
            stage_set_dirty(s, page);
        else
            stage_set_found(s, page);
        fresh += n;
        h = geometry_next_lane(h);
    }
    return fresh;
}

bool stage_is_full(const struct tamis_writer *w, const struct writer_stage *s)
{
    return stage_bits_now(s) >= s->n_full_bits &&
           !atomic_load_explicit(&w->grow_failed, memory_order_relaxed);
}

/* The fuller the stage, the fewer: several threads do not overfill it by much. */
size_t adds_at_once(const struct writer_stage *s, size_t n)
{
    enum { SHARE = 32 };
    const struct geometry *g = &s->stage.geometry;
    if (n <= 1)
        return n;
    uint64_t bits = stage_bits_now(s);
    uint64_t room = bits < s->n_full_bits ? s->n_full_bits - bits : 0;
    uint64_t some = room / (g->lanes * g->words) / SHARE;
    some = some < 1 ? 1 : some > ADDS_AT_ONCE ? ADDS_AT_ONCE : some;
    return some < n ? (size_t)some : n;
}

/* A key that an older stage holds in healthy pages is not added again. */
bool writer_add_some(struct tamis_writer *w, unsigned shard, const uint64_t *hashes,
                     size_t *n, uint64_t *changed)
{
    uint8_t stage[ADDS_AT_ONCE];
    uint32_t current = atomic_load(&w->n_stages) - 1; /* after enter() announced it */
    struct writer_stage *s = w->stages[current];
    SYNC_POINT("add: stage chosen");
    uint64_t keys = 0, bits = 0;
    size_t left = *n, some = adds_at_once(s, left);
    *n = some;
    for (size_t i = 0; i < some; i++)
        plane_prefetch(&w->planes[current], hashes[i]);
    uint64_t known = older_keys(w, current, hashes, some, left - some, stage);
    for (size_t i = 0; i < some; i++) {
        if (known >> i & 1) {
            found_in(w, stage[i], hashes[i]);
            continue;
        }
        uint32_t fresh = stage_add(w, s, hashes[i]);
        bits += fresh;
        keys += fresh > 0;
    }
    if (changed)
        *changed = keys;
    if (!keys)
        return false;
    uint64_t after = shard_count(&s->shards[shard].keys, shard, keys);
    shard_count(&s->shards[shard].bits, shard, bits);
    return (after - keys) / s->check_interval != after / s->check_interval &&
           stage_is_full(w, s);
}
