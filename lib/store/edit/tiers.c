/* Chooses what is packed now: what is loose, packs that are half dead, and packs of
 * about the size of the new one.
 *
 * A pack's weight is the keys of its segments; tiers are powers of FAN_OUT. While there
 * are FAN_OUT - 1 packs of the new one's tier or below, they become part of it. So a
 * segment is rewritten once a tier, there are at most FAN_OUT - 1 packs a tier, and no
 * pack has more dead columns than living ones for long. It is size-tiered compaction,
 * as of LSM-trees (O'Neil et al. 1996). */
#include "lib/store/edit/inside.h"

#include <errno.h>
#include <stdlib.h>

enum { FAN_OUT = 4, TIERS = 32 }; /* 4^32: the keys that 64 bits count */

/* A pack as it is now. */
struct weighed {
    uint64_t keys; /* of living segments */
    uint32_t n_living, n_columns;
    bool taken;
};

static unsigned tier_of(uint64_t keys)
{
    unsigned tier = 0;
    for (; keys >= FAN_OUT; keys /= FAN_OUT)
        tier++;
    return tier;
}

static uint64_t keys_of(const struct entry *e)
{
    return le64_get(entry_record(e)->keys);
}

static void weigh(const struct tamis_snapshot *s, struct weighed *w)
{
    for (size_t i = 0; i < s->packs.n; i++)
        w[i].n_columns = s->packs.views[i].pack ? s->packs.views[i].pack->n_columns : 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct seat *seat = packs_seat(&s->packs, i);
        if (!seat)
            continue;
        struct weighed *of = &w[seat->view];
        of->keys += keys_of(s->entries[i]);
        of->n_living++;
    }
}

/* Takes every pack of the tier or below; returns their keys. */
static uint64_t take_packs(struct weighed *w, size_t n, unsigned tier)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].taken && w[i].n_living && tier_of(w[i].keys) <= tier) {
            w[i].taken = true;
            keys += w[i].keys;
        }
    return keys;
}

static size_t count_packs(const struct weighed *w, size_t n, unsigned tier)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += !w[i].taken && w[i].n_living && tier_of(w[i].keys) <= tier;
    return sum;
}

/* A tier of FAN_OUT packs or more, or TIERS: packs that were made from keys, and packs
 * whose segments were dropped until their tier is a lower one. */
static unsigned crowded_tier(const struct weighed *w, size_t n)
{
    size_t count[TIERS] = {0};
    unsigned tier = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].taken && w[i].n_living)
            count[tier_of(w[i].keys)]++;
    while (tier < TIERS && count[tier] < FAN_OUT)
        tier++;
    return tier;
}

/* Segments that stay loose have no weight: they would call for a merge each time. */
static void choose_packs(const struct packing *loose, struct weighed *w)
{
    const struct tamis_snapshot *s = loose->snapshot;
    size_t n = s->packs.n;
    uint64_t keys = 0;
    bool any = loose->n > 0;
    for (size_t i = 0; i < loose->n; i++)
        keys += keys_of(s->entries[loose->inputs[i].segment]);
    for (size_t i = 0; i < n; i++)
        if (w[i].n_living && w[i].n_living <= w[i].n_columns / 2) {
            w[i].taken = any = true;
            keys += w[i].keys;
        }
    for (;;) {
        bool joins = any && count_packs(w, n, tier_of(keys)) >= FAN_OUT - 1;
        unsigned tier = joins ? tier_of(keys) : crowded_tier(w, n);
        if (tier == TIERS)
            return;
        keys += take_packs(w, n, tier);
        any = true;
    }
}

int tiers_choose(struct packing *p)
{
    const struct tamis_snapshot *s = p->snapshot;
    struct weighed *w = calloc(s->packs.n + 1, sizeof *w);
    p->chosen = calloc(s->n + 1, sizeof *p->chosen);
    if (!w || !p->chosen) {
        free(w);
        return ENOMEM;
    }
    weigh(s, w);
    choose_packs(p, w);
    for (size_t i = 0; i < s->n; i++) {
        const struct seat *seat = packs_seat(&s->packs, i);
        p->chosen[i] = !seat || w[seat->view].taken;
    }
    free(w);
    return 0;
}
