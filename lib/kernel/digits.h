/* The loops of every ribbon kernel. The file that includes this one defines KERNEL,
 * RIBBON_SYMBOL, and:
 *
 * - parities_of(here, next, low, high): a bit for each of eight digits, its parity
 * - spots_of(p, hashes, spots), with OWN_SPOTS: where eight keys are
 *
 *     probe_many()   keys --> spots ----(lines are on their way)----> differ?
 *                             32 keys at a time are between the two
 *
 * Nearly all absent keys differ in the first eight digits, so those are tested without
 * a branch, and so are the thresholds. */
#include "lib/kernel/ribbon.h"

#include <string.h>

enum { SPOTS = 8, SPOTS_AHEAD = 4 };

struct spots {
    const uint8_t *page[SPOTS];
    const struct ribbon_entry *entry[SPOTS];
    uint64_t row[SPOTS]; /* in its pair */
    uint64_t low[SPOTS], high[SPOTS];
    uint64_t fingerprint[SPOTS];
};

struct spot {
    const uint8_t *page;
    const struct ribbon_entry *entry;
    uint32_t row;       /* in its pair */
    uint64_t low, high; /* coefficients in its block, and in the next */
    uint32_t fingerprint;
};

KERNEL inline struct spot spot_of(const struct ribbon_plane *p, uint64_t h)
{
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)h * p->n_pages;
    uint64_t page = (uint64_t)(product >> 64);
    const struct ribbon_size *size = &p->sizes[page < p->n_long];
    uint64_t row = (uint64_t)product >> 32;
    /* As ribbon_row(), but without a branch. */
    row = (row * size->n_places >> 32) - RIBBON_WIDTH / 2;
    row &= ~(uint64_t)((int64_t)row >> 63);
    row = row < size->last_row ? row : size->last_row;
    struct ribbon_key k = ribbon_key_of(h);
    return (struct spot){
        p->bits + page * PAGE_BYTES,
        size->entries + row / RIBBON_WIDTH,
        (uint32_t)row % RIBBON_PAIR_ROWS,
        k.coefficients << row % RIBBON_WIDTH,
        k.coefficients >> 1 >> (63 - row % RIBBON_WIDTH),
        k.fingerprint,
    };
}

/* A bit for each of the first eight digits whose parity is not the fingerprint's. */
KERNEL inline uint32_t first_differ(const struct spot *x)
{
    const struct ribbon_entry *e = x->entry;
    uint32_t odd = parities_of(x->page + e->here, x->page + e->next, x->low, x->high);
    return (odd ^ x->fingerprint << e->before) & e->first;
}

KERNEL inline bool is_bumped(const struct spot *x)
{
    return x->row < x->page[x->entry->threshold];
}

/* Asks the other digits, for a key that matches in the first eight. It stands apart,
 * as few keys come here. */
KERNEL __attribute__((noinline)) enum ribbon_answer
later_columns(const struct ribbon_plane *p, uint64_t h)
{
    struct ribbon_place place =
        ribbon_place_of(&(struct ribbon_geometry){p->n_pages, p->n_long, p->blocks}, h);
    struct ribbon_shape shape = ribbon_shape_of(place.blocks);
    uint32_t n = ribbon_columns(&shape, place.row / RIBBON_WIDTH);
    struct spot x = spot_of(p, h);
    const uint8_t *here = x.page + x.entry->here, *next = x.page + x.entry->next;
    for (uint32_t at = RIBBON_WORDS; at < n; at += RIBBON_WORDS) {
        /* The last eight, which stay within the page, have some that were asked. */
        uint32_t from = at + RIBBON_WORDS < n ? at : n - RIBBON_WORDS;
        uint32_t odd = parities_of(here + 8 * from, next + 8 * from, x.low, x.high);
        if ((uint8_t)(odd ^ x.fingerprint >> from))
            return RIBBON_ABSENT;
    }
    return RIBBON_MATCH;
}

KERNEL enum ribbon_answer ribbon_probe_one(const struct ribbon_plane *p, uint64_t h)
{
    struct spot x = spot_of(p, h);
    if (is_bumped(&x))
        return RIBBON_BUMPED;
    if (first_differ(&x))
        return RIBBON_ABSENT;
    return later_columns(p, h);
}

KERNEL enum tamis_answer ribbon_answer(const struct plane *plane,
                                       const struct tamis_key *key,
                                       enum tamis_reason *why)
{
    const struct own_head *head = (const struct own_head *)(const void *)plane;
    struct spot x = spot_of(head->of_kind, key->hash);
    if (RARELY(!first_differ(&x)) || RARELY(is_bumped(&x)) ||
        RARELY(!own_none_lost(head)))
        return head->otherwise(plane, key, why);
    if (why)
        *why = TAMIS_NO_REASON;
    return TAMIS_ABSENT;
}

/* ---- many keys ---- */

#ifndef OWN_SPOTS
KERNEL inline void spots_of(const struct ribbon_plane *p, const uint64_t *hashes,
                            struct spots *s)
{
    for (size_t i = 0; i < SPOTS; i++) {
        struct spot x = spot_of(p, hashes[i]);
        s->page[i] = x.page;
        s->entry[i] = x.entry;
        s->row[i] = x.row;
        s->low[i] = x.low;
        s->high[i] = x.high;
        s->fingerprint[i] = x.fingerprint;
    }
}
#endif

/* Fewer than eight keys are repeated. */
KERNEL inline void spots_begin(const struct ribbon_plane *p, const uint64_t *hashes,
                               size_t n, struct spots *s)
{
    uint64_t some[SPOTS];
    if (n < SPOTS) {
        for (size_t i = 0; i < SPOTS; i++)
            some[i] = hashes[i < n ? i : 0];
        hashes = some;
    }
    spots_of(p, hashes, s);
    for (size_t i = 0; i < SPOTS; i++) {
        const uint8_t *here = s->page[i] + s->entry[i]->here;
        __builtin_prefetch(here);
        __builtin_prefetch(here + BLOCK_BYTES);
        __builtin_prefetch(s->page[i] + s->entry[i]->next + BLOCK_BYTES - 8);
    }
}

KERNEL inline void spots_ask(const struct spots *s, uint64_t *match, uint64_t *bumped)
{
    for (size_t i = 0; i < SPOTS; i++) {
        struct spot x = {s->page[i], s->entry[i], (uint32_t)s->row[i],
                         s->low[i],  s->high[i],  (uint32_t)s->fingerprint[i]};
        *match |= (uint64_t)(first_differ(&x) == 0) << i;
        *bumped |= (uint64_t)is_bumped(&x) << i;
    }
}

/* `match` has the keys that match in the first digit. Returns those of them that match
 * in all. */
KERNEL inline uint64_t in_all_columns(const struct ribbon_plane *p,
                                      const uint64_t *hashes, uint64_t match)
{
    for (uint64_t left = match; left; left &= left - 1)
        if (later_columns(p, hashes[__builtin_ctzll(left)]) != RIBBON_MATCH)
            match &= ~(left & -left);
    return match;
}

KERNEL void ribbon_probe_many(const struct ribbon_plane *p, const uint64_t *hashes,
                              size_t n, uint64_t *match, uint64_t *bumped)
{
    struct spots ring[SPOTS_AHEAD];
    bool more = p->entries[p->blocks - 1].first == 0xff; /* has a page more digits? */
    size_t begun = 0;
    for (; begun < SPOTS_AHEAD && begun * SPOTS < n; begun++)
        spots_begin(p, hashes + begun * SPOTS, n - begun * SPOTS, &ring[begun]);
    for (size_t done = 0; done < n; done += 64) {
        size_t some = n - done < 64 ? n - done : 64;
        uint64_t m = 0, b = 0, wanted = some < 64 ? (UINT64_C(1) << some) - 1 : ~m;
        for (size_t i = 0; i < some; i += SPOTS) {
            struct spots *s = &ring[(done + i) / SPOTS % SPOTS_AHEAD];
            uint64_t eight = 0, eight_bumped = 0;
            spots_ask(s, &eight, &eight_bumped);
            m |= eight << i;
            b |= eight_bumped << i;
            if (begun * SPOTS < n) {
                spots_begin(p, hashes + begun * SPOTS, n - begun * SPOTS, s);
                begun++;
            }
        }
        *bumped++ = b &= wanted;
        m &= wanted & ~b;
        *match++ = more ? in_all_columns(p, hashes + done, m) : m;
    }
}

/* ---- a page solved ---- */

/* Adds the keys of one row, unless one does not fit: then none of them. */
KERNEL inline bool add_row(struct ribbon_room *room, const struct ribbon_equation *keys,
                           size_t n)
{
    uint32_t placed[RIBBON_WIDTH], n_placed = 0; /* a key fits within its 64 rows */
    for (size_t i = 0; i < n; i++) {
        uint64_t c = keys[i].coefficients;
        uint32_t f = keys[i].fingerprint, row = keys[i].row;
        while (c && room->coefficients[row]) {
            c ^= room->coefficients[row];
            f ^= room->fingerprints[row];
            uint32_t zeros = c ? (uint32_t)__builtin_ctzll(c) : 0;
            c >>= zeros;
            row += zeros;
        }
        if (c) {
            room->coefficients[row] = c;
            room->fingerprints[row] = f;
            placed[n_placed++] = row;
        } else if (f) { /* else it is there already */
            while (n_placed)
                room->coefficients[placed[--n_placed]] = 0;
            return false;
        }
    }
    return true;
}

/* Adds the keys of a pair of blocks: returns its threshold. */
KERNEL inline uint32_t add_pair(struct ribbon_room *room,
                                const struct ribbon_equation *keys, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && keys[end].row == keys[i].row; end++)
            ;
        if (!add_row(room, keys + i, end - i))
            return keys[i].row % RIBBON_PAIR_ROWS + 1;
    }
    return 0;
}

/* From the last row to the first: each is what makes its equation true. */
KERNEL inline void write_rows(const struct ribbon_shape *shape,
                              const struct ribbon_room *room, uint8_t *page)
{
    uint64_t window[RIBBON_MAX_COLUMNS] = {0};
    for (uint32_t block = shape->blocks; block-- > 0;) {
        uint32_t n = ribbon_columns(shape, block), first = block * RIBBON_WIDTH;
        for (uint32_t row = first + RIBBON_WIDTH; row-- > first;) {
            uint64_t c = room->coefficients[row];
            uint32_t f = c ? room->fingerprints[row] : 0;
            for (uint32_t j = 0; j < n; j++) {
                uint64_t w = window[j] << 1;
                window[j] = w | ((uint32_t)__builtin_parityll(w & c) ^ (f >> j & 1));
            }
        }
        for (uint32_t j = 0; j < n; j++) {
            struct le64 word = le64_of(window[j]);
            memcpy(page + ribbon_block_at(shape, block) + 8 * j, &word, sizeof word);
        }
    }
}

KERNEL void ribbon_solve(const struct ribbon_shape *shape,
                         const struct ribbon_equation *keys, size_t n,
                         struct ribbon_room *room, uint8_t page[PAGE_BYTES])
{
    size_t rows = (size_t)(shape->blocks + 1) * RIBBON_WIDTH;
    memset(room->coefficients, 0, rows * sizeof room->coefficients[0]);
    memset(page, 0, PAGE_BYTES);
    for (size_t i = 0, end; i < n; i = end) {
        uint32_t pair = keys[i].row / RIBBON_PAIR_ROWS;
        for (end = i + 1; end < n && keys[end].row / RIBBON_PAIR_ROWS == pair; end++)
            ;
        page[ribbon_threshold_at(shape, 2 * pair)] =
            (uint8_t)add_pair(room, keys + i, end - i);
    }
    write_rows(shape, room, page);
}

const struct ribbon_kernel RIBBON_SYMBOL = {
    .probe = ribbon_probe_one,
    .answer = ribbon_answer,
    .probe_many = ribbon_probe_many,
    .solve = ribbon_solve,
};
