/* A file is damaged, looked at, and made as it was again. The damages: every bit
 * outside the bits of stages, every sector, every length, slots and copies, and some at
 * once at random. */
#include "tests/rot/rot.h"

#include <sys/mman.h>

enum { ROOM = 1 << 20 }; /* for what writers append */

const char *const part_names[N_PARTS] = {
    [BITS_OF_NUMBERS] = "bits of numbers",
    [BITS_OF_HEADER] = "bits of headers",
    [BITS_OF_FLOORS] = "bits of floors",
    [BITS_OF_DIGESTS] = "bits of digests",
    [BITS_OF_STAGES] = "bits of stages",
    [SECTORS] = "sectors",
    [LENGTHS] = "lengths",
    [SLOTS] = "slots and floors misplaced",
    [WHOLE] = "whole files",
    [TWO] = "two or more at once",
};

/* ---- a file ---- */

void file_open(struct file *f, const struct kind *k, const char *path)
{
    const struct image *now = &k->now;
    *f = (struct file){.kind = k, .n = now->n};
    f->fd = path ? open(path, O_RDWR | O_CLOEXEC) : memfd_create("rot", MFD_CLOEXEC);
    CHECK(f->fd >= 0 && pwrite(f->fd, now->bytes, now->n, 0) == (ssize_t)now->n);
    f->bytes = mmap(NULL, now->n + ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    CHECK(f->bytes != MAP_FAILED);
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
}

void file_close(struct file *f)
{
    munmap(f->bytes, f->kind->now.n + ROOM);
    close(f->fd);
}

static void set_length(struct file *f, size_t n)
{
    if (n != f->n)
        CHECK(ftruncate(f->fd, (off_t)n) == 0);
    f->n = n;
}

void file_look(struct file *f)
{
    struct stat st;
    CHECK(fstat(f->fd, &st) == 0 && (size_t)st.st_size <= f->kind->now.n + ROOM);
    f->n = (size_t)st.st_size;
    f->low = 0;
    f->high = f->kind->now.n;
}

static void differs(struct file *f, size_t from, size_t to)
{
    bool first = f->low >= f->high;
    f->low = first || from < f->low ? from : f->low;
    f->high = first || to > f->high ? to : f->high;
}

void file_mend(struct file *f)
{
    const struct image *now = &f->kind->now;
    size_t high = f->high < now->n ? f->high : now->n;
    set_length(f, now->n);
    if (f->low < high)
        memcpy(f->bytes + f->low, now->bytes + f->low, high - f->low);
    f->low = f->high = 0;
}

/* ---- one damage ---- */

static void put(struct file *f, uint64_t at, const uint8_t *bytes, uint64_t n)
{
    if (at >= f->n)
        return; /* was cut off */
    size_t some = n < f->n - at ? (size_t)n : f->n - (size_t)at;
    memmove(f->bytes + at, bytes, some);
    differs(f, (size_t)at, (size_t)at + some);
}

static void put_noise(struct file *f, const struct damage *d)
{
    uint8_t noise[SECTOR_BYTES];
    uint64_t state = d->at << 8 | d->value;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(draw(&state) >> 24);
    put(f, d->at, noise, d->n);
}

/* Not cut short on the way: readers that look on have it mapped. */
static void replace(struct file *f, const struct image *by)
{
    CHECK(by->n <= f->kind->now.n + ROOM);
    if (by->n > f->n)
        set_length(f, by->n);
    memcpy(f->bytes, by->bytes, by->n);
    set_length(f, by->n);
    differs(f, 0, f->kind->now.n);
}

/* The first level of digests made to fit the pages as they are; the root is not. */
static void mend_digests(struct file *f)
{
    const struct kind *k = f->kind;
    for (size_t i = 0; i < k->commit.n_stages; i++) {
        const struct stage_desc *s = &k->commit.stages[i];
        uint64_t at = k->offset + s->offset, n_pages = s->length / PAGE_BYTES;
        for (uint64_t p = 0; s->digests_offset && p < n_pages; p++) {
            if (at + (p + 1) * PAGE_BYTES > f->n)
                break;
            struct le64 d = le64_of(page_digest(f->bytes + at + p * PAGE_BYTES));
            put(f, k->offset + s->digests_offset + p * DIGEST_BYTES,
                (const uint8_t *)&d, sizeof d);
        }
    }
}

static void do_one(struct file *f, const struct damage *d)
{
    uint8_t bytes[SLOT_BYTES];
    if (d->what == FLIP && d->at < f->n) {
        bytes[0] = (uint8_t)(f->bytes[d->at] ^ 1 << d->value);
        put(f, d->at, bytes, 1);
    } else if (d->what == FILL) {
        memset(bytes, d->value, (size_t)d->n);
        put(f, d->at, bytes, d->n);
    } else if (d->what == NOISE) {
        put_noise(f, d);
    } else if (d->what == COPY && d->from_at < d->from->n) {
        uint64_t most = d->from->n - d->from_at;
        put(f, d->at, d->from->bytes + d->from_at, d->n < most ? d->n : most);
    } else if (d->what == CUT && d->n < f->n) {
        differs(f, (size_t)d->n, f->kind->now.n);
        set_length(f, (size_t)d->n);
    } else if (d->what == REPLACE) {
        replace(f, d->from);
    } else if (d->what == MEND) {
        mend_digests(f);
    }
}

void damage_do(struct file *f, const struct damages *d)
{
    for (size_t i = 0; i < d->n; i++)
        do_one(f, &d->of[i]);
}

const char *damage_say(const struct damages *all)
{
    static const char *const names[] = {"flipped",       "filled",    "noise",
                                        "copied",        "cut short", "replaced",
                                        "digests mended"};
    static char text[700];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", part_names[all->part]);
    for (size_t i = 0; i < all->n; i++) {
        const struct damage *d = &all->of[i];
        n += (size_t)snprintf(
            text + n, sizeof text - n, "; %s at %llu, %llu bytes, value %u, from %llu",
            names[d->what], (unsigned long long)d->at, (unsigned long long)d->n,
            d->value, (unsigned long long)d->from_at);
    }
    return text;
}

/* ---- lists ---- */

static struct {
    struct file *f;
    uint64_t turn;
} list;

/* Is the next one, of one_in, due? */
static bool due(uint64_t one_in)
{
    return list.turn++ % (one_in ? one_in : 1) == 0;
}

static void try_one(enum part part, struct damage d)
{
    if (trial())
        readers_try(list.f, &(struct damages){{d}, 1, part});
}

/* Numbers more than the rest: a reader computes with them. Bits of stages less: they
 * are not asked for, and a sector of them is what its floor guards. */
static void try_bits(const struct kind *k)
{
    uint64_t large = k->large ? 16 : 1;
    const uint64_t one_in[] = {[BITS_OF_NUMBERS] = (every + 7) / 8,
                               [BITS_OF_HEADER] = every,
                               [BITS_OF_FLOORS] = every * large,
                               [BITS_OF_DIGESTS] = every * large,
                               [BITS_OF_STAGES] = every * large * 8};
    for (size_t r = 0; r < k->n_regions; r++)
        for (uint64_t i = 0; i < k->regions[r].n * 8; i++)
            if (due(one_in[k->regions[r].part]))
                try_one(k->regions[r].part,
                        (struct damage){
                            .at = k->regions[r].at + i / 8, .n = 1, .value = i % 8});
}

static void try_sectors(const struct kind *k)
{
    static const struct damage how[] = {
        {.what = FILL, .value = 0}, {.what = FILL, .value = 0xff}, {.what = NOISE}};
    for (uint64_t at = 0; at < k->now.n; at += SECTOR_BYTES)
        for (size_t i = 0; i < 3; i++) {
            struct damage d = how[i];
            d.at = at;
            d.n = SECTOR_BYTES;
            if (due(k->large && every > 1 ? 16 : 1))
                try_one(SECTORS, d);
        }
}

/* Every length; else every boundary, one byte more and less, and some others. */
static void try_lengths(const struct kind *k)
{
    for (uint64_t n = k->now.n; n-- > 0;) {
        uint64_t near = (n + 1) % (k->large ? PAGE_BYTES : SECTOR_BYTES);
        if (due(every * (k->large ? 64 : 1)) || near <= 2)
            try_one(LENGTHS, (struct damage){.what = CUT, .n = n});
    }
}

static struct damage copy(uint64_t to, const struct image *from, uint64_t at,
                          uint64_t n)
{
    uint64_t offset = list.f->kind->offset;
    return (struct damage){
        .what = COPY, .at = offset + to, .n = n, .from = from, .from_at = offset + at};
}

/* One slot from there, the other, both: `swap`: into each other's places. */
static void try_slots(const struct image *from, bool swap)
{
    uint64_t a = commit_slot_offset(SLOT_A), b = commit_slot_offset(SLOT_B);
    struct damage d[2] = {copy(a, from, swap ? b : a, SLOT_BYTES),
                          copy(b, from, swap ? a : b, SLOT_BYTES)};
    try_one(SLOTS, d[0]);
    try_one(SLOTS, d[1]);
    if (trial())
        readers_try(list.f, &(struct damages){{d[0], d[1]}, 2, SLOTS});
}

/* The same with the file as long as then: the newest slot has lost stages. */
static void try_cut_slots(const struct image *from)
{
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        uint64_t at = commit_slot_offset(slot);
        struct damage cut = {.what = CUT, .n = from->n};
        if (trial())
            readers_try(list.f, &(struct damages){
                                    {copy(at, from, at, SLOT_BYTES), cut}, 2, TWO});
    }
}

static void try_all_slots(const struct kind *k)
{
    if (k->id.header_pages == 1) {
        try_one(SLOTS, copy(IDENTITY_BYTES, &k->other, IDENTITY_BYTES, BIRTH_BYTES));
        try_one(SLOTS, copy(0, &k->other, 0, IDENTITY_BYTES));
        return;
    }
    try_slots(&k->now, true);
    for (size_t i = 0; i < k->n_past; i++) {
        try_slots(&k->past[i], false);
        try_cut_slots(&k->past[i]);
    }
    try_slots(&k->other, false);
    try_slots(&k->ahead, false);
}

/* Floor sectors in the place of others: of the same stage, and of other stages. */
static void try_floors(const struct kind *k)
{
    const struct commit *c = &k->commit;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        uint64_t from = c->stages[i].floors_offset;
        for (uint32_t j = 0; from && j < c->n_stages; j++) {
            uint64_t n = c->stages[j].length / PAGE_BYTES,
                     to = c->stages[j].floors_offset;
            for (uint64_t page = 0; page < n; page += PAGES_PER_FLOOR_SECTOR)
                if (to + floor_sector_of(page) != from)
                    try_one(SLOTS, copy(to + floor_sector_of(page), &k->now, from,
                                        SECTOR_BYTES));
        }
    }
}

/* An older sector of bits together with its floors. */
static void try_sectors_of_past(const struct kind *k)
{
    const struct stage_desc *s = &k->commit.stages[0];
    for (size_t i = 0; i < k->n_past && s->floors_offset; i++)
        for (uint64_t at = 0; at < s->length; at += SECTOR_BYTES) {
            uint64_t bits = s->offset + at,
                     floors = s->floors_offset + floor_sector_of(at / PAGE_BYTES);
            if (due(8) && trial())
                readers_try(
                    list.f,
                    &(struct damages){{copy(bits, &k->past[i], bits, SECTOR_BYTES),
                                       copy(floors, &k->past[i], floors, SECTOR_BYTES)},
                                      2,
                                      TWO});
        }
}

/* ---- at random ---- */

/* A filter has no digests or no floors; stages instead. NULL: it is no filter. */
static const struct region *random_region(const struct kind *k, enum part part)
{
    const struct region *r = NULL;
    uint64_t n = 0;
    for (size_t i = 0; i < k->n_regions; i++)
        if (k->regions[i].part == part && random_below(++n) == 0)
            r = &k->regions[i];
    return r || part == BITS_OF_STAGES ? r : random_region(k, BITS_OF_STAGES);
}

/* In any part of the filter, whatever its size; or anywhere; or near. */
static uint64_t somewhere(const struct kind *k, uint64_t near)
{
    static const enum part parts[] = {BITS_OF_NUMBERS, BITS_OF_HEADER, BITS_OF_FLOORS,
                                      BITS_OF_DIGESTS, BITS_OF_STAGES, BITS_OF_STAGES};
    enum { N = sizeof parts / sizeof parts[0] };
    uint64_t at = near / SECTOR_BYTES * SECTOR_BYTES + random_below(SECTOR_BYTES),
             chosen = random_below(near ? N + 4 : N + 1);
    if (chosen > N)
        return at < k->now.n ? at : k->now.n - 1;
    const struct region *r = chosen < N ? random_region(k, parts[chosen]) : NULL;
    return r ? r->at + random_below(r->n) : random_below(k->now.n);
}

static const struct image *random_past(const struct kind *k)
{
    return k->n_past && random_below(4) ? &k->past[random_below(k->n_past)] : &k->other;
}

struct damage damage_random(const struct kind *k, uint64_t near)
{
    uint64_t at = somewhere(k, near), sector = at / SECTOR_BYTES * SECTOR_BYTES,
             page = at / PAGE_BYTES * PAGE_BYTES, n = k->now.n;
    struct damage d = {.at = sector, .n = SECTOR_BYTES, .from_at = sector};
    switch (random_below(13)) {
    case 0:
        d.what = FILL;
        d.value = random_below(2) ? 0xff : 0;
        return d;
    case 1:
        d.what = NOISE;
        d.value = (uint8_t)random_u64();
        return d;
    case 2:
    case 3: /* a sector from earlier, or from another file */
        d.what = COPY;
        d.from = random_past(k);
        return d;
    case 4: /* from elsewhere in this one */
        d.what = COPY;
        d.from = &k->now;
        d.from_at = somewhere(k, 0) / SECTOR_BYTES * SECTOR_BYTES;
        return d;
    case 5: /* a page, or a slot */
        return (struct damage){.what = COPY,
                               .at = page,
                               .n = PAGE_BYTES,
                               .from = random_past(k),
                               .from_at = page};
    case 6:
        return (struct damage){.what = CUT,
                               .n = random_below(8) ? n - random_below(n / 4 + 1)
                                                    : random_below(n)};
    case 7:
        return (struct damage){.what = MEND, .at = at};
    default:
        return (struct damage){
            .what = FLIP, .at = at, .n = 1, .value = (uint8_t)random_below(8)};
    }
}

static void try_pairs(const struct kind *k)
{
    enum { PAIRS = 28800, LARGE = 4 };
    for (uint64_t i = 0; i < PAIRS / every / (k->large ? LARGE : 1); i++) {
        if (!trial())
            continue;
        struct damages d = {.n = 2, .part = TWO};
        if (random_below(4) == 0)
            d.n += random_below(MOST_AT_ONCE - 1);
        for (size_t n = 0; n < d.n; n++)
            d.of[n] = damage_random(k, n ? d.of[0].at : 0);
        readers_try(list.f, &d);
    }
}

void damages_try(struct file *f)
{
    const struct kind *k = f->kind;
    list.f = f;
    list.turn = random_below(every); /* other bits with another seed */
    try_bits(k);
    try_sectors(k);
    try_lengths(k);
    try_all_slots(k);
    try_floors(k);
    try_sectors_of_past(k);
    try_one(WHOLE, (struct damage){.what = REPLACE, .from = &k->other});
    for (size_t i = 0; i < k->n_past; i++)
        try_one(WHOLE, (struct damage){.what = REPLACE, .from = &k->past[i]});
    try_pairs(k);
}
