/* Chooses the states of an event to look at: every combination while there are few,
 * else those most likely to hurt, and random ones. */
#include "tests/crash/choose.h"

static void (*consider)(struct run *r);
/* The item that decides for this one; itself for nearly all. */
static uint16_t leader[DISK_MAX_ITEMS];

/* LMDB writes whole pages: a page of a catalog that is not synced is there, or not. Its
 * meta pages, the first two, may be torn like everything else. */
static void find_leaders(const struct run *r)
{
    enum { META_SECTORS = 2 * PAGE_BYTES / SECTOR_BYTES };
    for (size_t i = 0; i < r->items.n; i++) {
        const struct disk_item *item = &r->items.item[i], *before = item - 1;
        bool same_page =
            i && item->kind == DISK_SECTOR && r->disk.files[item->file].lmdb &&
            item->sector >= META_SECTORS && before->kind == DISK_SECTOR &&
            before->file == item->file &&
            before->sector / SECTORS_PER_PAGE == item->sector / SECTORS_PER_PAGE;
        leader[i] = same_page ? leader[i - 1] : (uint16_t)i;
    }
}

static void consider_one(struct run *r)
{
    for (size_t i = 0; i < r->items.n; i++)
        if (leader[i] != i)
            r->state.choice[i] = r->state.choice[leader[i]]
                                     ? (uint8_t)(r->items.item[i].n_choices - 1)
                                     : 0;
    consider(r);
}

static void every_combination(struct run *r)
{
    uint8_t *choice = r->state.choice;
    size_t n = r->items.n, i;
    memset(choice, 0, n);
    do {
        consider_one(r);
        for (i = 0; i < n; i++) {
            if (leader[i] != i)
                continue;
            if (++choice[i] < r->items.item[i].n_choices)
                break;
            choice[i] = 0;
        }
    } while (i < n);
}

enum area {
    AREA_IDENTITY,
    AREA_A,
    AREA_B,
    AREA_FLOORS,
    AREA_OTHER,
    AREA_BITS,
    N_AREAS
};

/* The use of a sector, by the newest header that the file has had. */
static enum area area_of(const struct disk_file *f, const struct commit *c, size_t at)
{
    (void)f;
    if (at < 3 * (size_t)PAGE_BYTES)
        return at < PAGE_BYTES ? AREA_IDENTITY : at < 2 * PAGE_BYTES ? AREA_A : AREA_B;
    for (size_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *d = &c->stages[i];
        if (at >= d->offset && at < d->offset + d->length)
            return AREA_BITS;
        if (at >= d->floors_offset &&
            at < d->floors_offset + floors_bytes(d->length / PAGE_BYTES))
            return AREA_FLOORS;
    }
    return AREA_OTHER;
}

static void find_areas(const struct run *r, uint8_t *areas)
{
    struct commit c[DISK_MAX_FILES];
    memset(c, 0, sizeof c);
    for (size_t i = 0; i < r->disk.n_files; i++) {
        const struct disk_file *f = &r->disk.files[i];
        struct identity id;
        struct slot_health health;
        if (identity_decode(f->live, (size_t)f->live_bytes, &id).code == VERDICT_OK &&
            f->live_bytes >= identity_header_bytes(&id))
            commit_choose_slot(f->live, &id, f->live_bytes, &c[i], &health);
    }
    for (size_t i = 0; i < r->items.n; i++) {
        const struct disk_item *item = &r->items.item[i];
        areas[i] = N_AREAS;
        if (item->kind == DISK_SECTOR)
            areas[i] = (uint8_t)area_of(&r->disk.files[item->file], &c[item->file],
                                        (size_t)item->sector * SECTOR_BYTES);
    }
}

static uint8_t newest(const struct disk_item *item)
{
    return (uint8_t)(item->n_choices - 1);
}

/* Names and lengths as they were, or as they are. */
static void set_rest(struct run *r, bool new)
{
    for (size_t i = 0; i < r->items.n; i++)
        if (r->items.item[i].kind != DISK_SECTOR)
            r->state.choice[i] = new ? newest(&r->items.item[i]) : 0;
}

/* Only the slots, all but the floors, and so on. */
static void whole_areas(struct run *r)
{
    uint8_t areas[DISK_MAX_ITEMS];
    find_areas(r, areas);
    for (unsigned mask = 0; mask < 1U << N_AREAS; mask++) {
        for (size_t i = 0; i < r->items.n; i++)
            r->state.choice[i] = mask >> areas[i] & 1 ? newest(&r->items.item[i]) : 0;
        set_rest(r, true);
        consider_one(r);
        if (mask % 8 == 7) {
            set_rest(r, false);
            consider_one(r);
        }
    }
}

/* Each alone, and all but each: some of them where there are many. */
static void single_ones(struct run *r)
{
    const struct disk_items *items = &r->items;
    struct rng rng = {mix64(r->rng.state, r->event)};
    for (size_t n = 0; n < items->n && n < 64; n++) {
        size_t i = items->n <= 64 ? n : (size_t)rng_below(&rng, items->n);
        for (size_t k = 0; k < items->n; k++)
            r->state.choice[k] = 0;
        set_rest(r, true);
        r->state.choice[i] = newest(&items->item[i]);
        consider_one(r);
        for (size_t k = 0; k < items->n; k++)
            r->state.choice[k] = newest(&items->item[k]);
        r->state.choice[i] = 0;
        consider_one(r);
    }
}

static void random_ones(struct run *r, unsigned n)
{
    struct rng rng = {mix64(r->rng.state, r->event)};
    while (n-- > 0) {
        static const uint64_t density[] = {1, 4, 7};
        uint64_t of_eight = density[rng_below(&rng, 3)];
        for (size_t i = 0; i < r->items.n; i++) {
            const struct disk_item *item = &r->items.item[i];
            r->state.choice[i] = 0;
            if (item->kind != DISK_SECTOR)
                r->state.choice[i] = (uint8_t)rng_below(&rng, item->n_choices);
            else if (rng_below(&rng, 8) < of_eight)
                r->state.choice[i] =
                    (uint8_t)(1 + rng_below(&rng, item->n_choices - 1U));
        }
        consider_one(r);
    }
}

void choose_states(struct run *r, const struct budget *b, void (*fn)(struct run *r))
{
    /* Not from the run's numbers: how much is explored must not change the run. */
    struct rng rng = {mix64(r->rng.state, r->event)};
    uint64_t n = 1;
    consider = fn;
    disk_items(&r->disk, &rng, &r->items);
    r->state.disk = &r->disk;
    r->state.items = &r->items;
    find_leaders(r);
    for (size_t i = 0; i < r->items.n && n <= b->exhaustive; i++)
        if (leader[i] == i)
            n *= r->items.item[i].n_choices;
    if (n <= b->exhaustive) {
        every_combination(r);
        return;
    }
    if (r->level == 0) {
        whole_areas(r);
        single_ones(r);
    }
    random_ones(r, b->n_random);
}
