/* Lists damages of a file: every bit of what is not bits of a stage, every sector,
 * every length, slots and copies, and two at once at random. */
#include "tests/rot/rot.h"

const char *const class_names[N_CLASSES] = {
    [ON_BITS_OF_HEADER] = "bits of identity, heads",
    [ON_BITS_OF_DESCRIPTORS] = "bits of descriptors",
    [ON_BITS_OF_FLOORS] = "bits of floors",
    [ON_BITS_OF_DIGESTS] = "bits of digests",
    [ON_BITS_OF_STAGES] = "bits of stages",
    [ON_SECTORS] = "sectors",
    [ON_LENGTH] = "lengths",
    [ON_SLOTS] = "slots and floors misplaced",
    [ON_WHOLE] = "whole files",
    [ON_TWO] = "two at once",
};

struct list {
    const struct kind *k;
    const struct effort *effort;
    uint64_t turn;
    damage_fn *fn;
    void *ctx;
};

/* One in `every`, of each class the same. */
static bool due(struct list *l, uint64_t every)
{
    return l->turn++ % every == 0;
}

static void bits(struct list *l, uint64_t at, uint64_t n, uint64_t every,
                 enum damage_class class)
{
    for (uint64_t i = 0; i < n * 8; i++) {
        struct damage d = {
            .what = FLIP, .at = l->k->offset + at + i / 8, .n = 1, .value = i % 8};
        if (due(l, every))
            l->fn(l->ctx, &d, 1, class);
    }
}

/* Damages descriptors more than the rest: a reader computes with them. */
static void record_bits(struct list *l, uint64_t at, uint64_t n)
{
    uint64_t every = l->effort->every;
    uint64_t stages = (uint64_t)l->k->commit.n_stages * STAGE_BYTES;
    bits(l, at, STAGES_OFFSET, every, ON_BITS_OF_HEADER);
    bits(l, at + STAGES_OFFSET, stages, (every + 7) / 8, ON_BITS_OF_DESCRIPTORS);
    bits(l, at + STAGES_OFFSET + stages, n - STAGES_OFFSET - stages, every,
         ON_BITS_OF_HEADER);
}

static void all_bits(struct list *l)
{
    const struct commit *c = &l->k->commit;
    uint64_t every = l->effort->every * (l->k->large ? 16 : 1);
    bits(l, 0, 128, (l->effort->every + 7) / 8, ON_BITS_OF_HEADER); /* its numbers */
    bits(l, 128, IDENTITY_BYTES - 128, l->effort->every, ON_BITS_OF_HEADER);
    if (l->k->id.header_pages == 1) {
        record_bits(l, commit_slot_offset(SLOT_BIRTH), BIRTH_BYTES);
    } else {
        bits(l, IDENTITY_BYTES, PAGE_BYTES - IDENTITY_BYTES, every, ON_BITS_OF_HEADER);
        record_bits(l, commit_slot_offset(SLOT_A), SLOT_BYTES);
        record_bits(l, commit_slot_offset(SLOT_B), SLOT_BYTES);
    }
    for (uint32_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *s = &c->stages[i];
        uint64_t n_pages = s->length / PAGE_BYTES;
        if (s->floors_offset)
            bits(l, s->floors_offset, floors_bytes(n_pages), every, ON_BITS_OF_FLOORS);
        if (s->digests_offset)
            bits(l, s->digests_offset, digests_bytes(n_pages), every,
                 ON_BITS_OF_DIGESTS);
        /* Not asked for, and a sector of them is what its floor guards. */
        bits(l, s->offset, s->length, every * 8, ON_BITS_OF_STAGES);
    }
}

static void sectors(struct list *l)
{
    static const struct damage kinds[] = {
        {.what = FILL, .value = 0}, {.what = FILL, .value = 0xff}, {.what = NOISE}};
    uint64_t every = l->k->large && l->effort->every > 1 ? 16 : 1;
    for (uint64_t at = 0; at < l->k->now.n; at += SECTOR_BYTES) {
        for (size_t i = 0; i < 3; i++) {
            struct damage d = kinds[i];
            d.at = at;
            d.n = SECTOR_BYTES;
            if (due(l, every))
                l->fn(l->ctx, &d, 1, ON_SECTORS);
        }
    }
}

/* Every length; else every boundary, one byte more and less, and some others. */
static void lengths(struct list *l)
{
    uint64_t every = l->effort->every * (l->k->large ? 64 : 1);
    for (uint64_t n = l->k->now.n; n-- > 0;) {
        uint64_t near = (n + 1) % (l->k->large ? PAGE_BYTES : SECTOR_BYTES);
        struct damage d = {.what = CUT, .n = n};
        if (due(l, every) || near <= 2)
            l->fn(l->ctx, &d, 1, ON_LENGTH);
    }
}

static struct damage copy(const struct kind *k, uint64_t to, const struct image *from,
                          uint64_t at, uint64_t n)
{
    return (struct damage){.what = COPY,
                           .at = k->offset + to,
                           .n = n,
                           .from = from,
                           .from_at = k->offset + at};
}

/* Slots swapped, doubled, from other files and from earlier times. */
static void slots(struct list *l)
{
    const struct kind *k = l->k;
    uint64_t a = commit_slot_offset(SLOT_A), b = commit_slot_offset(SLOT_B);
    struct damage d[2];
    if (k->id.header_pages == 1) {
        d[0] = copy(k, IDENTITY_BYTES, &k->other, IDENTITY_BYTES, BIRTH_BYTES);
        l->fn(l->ctx, d, 1, ON_SLOTS);
        d[0] = copy(k, 0, &k->other, 0, IDENTITY_BYTES);
        l->fn(l->ctx, d, 1, ON_SLOTS);
        return;
    }
    d[0] = copy(k, a, &k->now, b, SLOT_BYTES);
    d[1] = copy(k, b, &k->now, a, SLOT_BYTES);
    l->fn(l->ctx, d, 1, ON_SLOTS);
    l->fn(l->ctx, d + 1, 1, ON_SLOTS);
    l->fn(l->ctx, d, 2, ON_SLOTS);
    for (size_t i = 0; i <= k->n_past + 1; i++) {
        const struct image *from = i < k->n_past    ? &k->past[i]
                                   : i == k->n_past ? &k->other
                                                    : &k->ahead;
        d[0] = copy(k, a, from, a, SLOT_BYTES);
        d[1] = copy(k, b, from, b, SLOT_BYTES);
        l->fn(l->ctx, d, 1, ON_SLOTS);
        l->fn(l->ctx, d + 1, 1, ON_SLOTS);
        l->fn(l->ctx, d, 2, ON_SLOTS);
    }
}

/* Floor sectors in the place of others: of the same stage, and of other stages. */
static void floors_moved(struct list *l)
{
    const struct commit *c = &l->k->commit;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        uint64_t from = c->stages[i].floors_offset;
        for (uint32_t j = 0; from && j < c->n_stages; j++) {
            uint64_t n = c->stages[j].length / PAGE_BYTES,
                     to = c->stages[j].floors_offset;
            for (uint64_t page = 0; page < n; page += PAGES_PER_FLOOR_SECTOR) {
                struct damage d = copy(l->k, to + floor_sector_of(page), &l->k->now,
                                       from, SECTOR_BYTES);
                if (d.at != d.from_at)
                    l->fn(l->ctx, &d, 1, ON_SLOTS);
            }
        }
    }
}

static void wholes(struct list *l)
{
    struct damage d = {.what = REPLACE, .from = &l->k->other};
    l->fn(l->ctx, &d, 1, ON_WHOLE);
    for (size_t i = 0; i < l->k->n_past; i++) {
        d.from = &l->k->past[i];
        l->fn(l->ctx, &d, 1, ON_WHOLE);
    }
}

/* ---- at random ---- */

static uint64_t somewhere(const struct kind *k, uint64_t near)
{
    const struct stage_desc *s = &k->commit.stages[random_below(k->commit.n_stages)];
    uint64_t n_pages = s->length / PAGE_BYTES, at;
    switch (random_below(near ? 8 : 5)) {
    case 0:
        return k->offset + random_below((uint64_t)k->id.header_pages * PAGE_BYTES);
    case 1:
        if (s->floors_offset)
            return k->offset + s->floors_offset + random_below(n_pages * 16);
        return k->offset + s->offset + random_below(s->length);
    case 2:
        if (s->digests_offset)
            return k->offset + s->digests_offset + random_below(n_pages * 8);
        return k->offset + s->offset + random_below(s->length);
    case 3:
        return k->offset + s->offset + random_below(s->length);
    case 4:
        return random_below(k->now.n);
    default: /* in the same sector */
        at = near / SECTOR_BYTES * SECTOR_BYTES + random_below(SECTOR_BYTES);
        return at < k->now.n ? at : k->now.n - 1;
    }
}

struct damage damage_random(const struct kind *k, uint64_t near)
{
    struct damage d = {.at = somewhere(k, near), .n = SECTOR_BYTES};
    uint64_t sector = d.at / SECTOR_BYTES * SECTOR_BYTES;
    switch (random_below(12)) {
    case 0:
        d.what = FILL;
        d.at = sector;
        d.value = random_below(2) ? 0xff : 0;
        break;
    case 1:
        d.what = NOISE;
        d.at = sector;
        d.value = (uint8_t)random_u64();
        break;
    case 2:
    case 3: /* a sector from earlier, or from another file */
        d.what = COPY;
        d.at = d.from_at = sector;
        d.from = k->n_past && random_below(4) ? &k->past[random_below(k->n_past)]
                                              : &k->other;
        break;
    case 4: /* from elsewhere in this one */
        d.what = COPY;
        d.at = sector;
        d.from = &k->now;
        d.from_at = somewhere(k, 0) / SECTOR_BYTES * SECTOR_BYTES;
        break;
    case 5: /* a page, or a slot */
        d.what = COPY;
        d.at = d.from_at = d.at / PAGE_BYTES * PAGE_BYTES;
        d.n = PAGE_BYTES;
        d.from = k->n_past ? &k->past[random_below(k->n_past)] : &k->other;
        break;
    case 6:
        d.what = CUT;
        d.n = random_below(8) ? k->now.n - random_below(k->now.n / 4 + 1)
                              : random_below(k->now.n);
        break;
    default:
        d.what = FLIP;
        d.n = 1;
        d.value = (uint8_t)random_below(8);
    }
    return d;
}

static void pairs(struct list *l)
{
    for (uint64_t i = 0; i < l->effort->n_pairs; i++) {
        struct damage d[2];
        d[0] = damage_random(l->k, 0);
        d[1] = damage_random(l->k, d[0].at);
        l->fn(l->ctx, d, 2, ON_TWO);
    }
}

void damages_each(const struct kind *k, const struct effort *e, uint64_t skip,
                  damage_fn *fn, void *ctx)
{
    struct list l = {k, e, e->every > 1 ? skip % e->every : 0, fn, ctx};
    all_bits(&l);
    sectors(&l);
    lengths(&l);
    slots(&l);
    floors_moved(&l);
    wholes(&l);
    pairs(&l);
}
