/* Mutations that get past checksums: values that hurt, put into fields by the tables
 * of format/ (which a test holds against SPEC.md), and everything resealed. */
#include "fuzz/fuzz.h"
#include "format/checksum.h"

/* ---- values ---- */

/* Limits of the format; powers of two, and their neighbours. */
static uint64_t hostile_number(uint64_t was, uint64_t *rng)
{
    static const uint16_t limits[] = {0, 3, 5, 9, 13, 14, 15, 30, 31, 12288};
    static const int16_t beside[] = {0, 0, 1, -1, 64, -PAGE_BYTES};
    const uint64_t near[] = {was + 1, was - 1, was + PAGE_BYTES, was - PAGE_BYTES,
                             was ^ UINT64_C(1) << draw_below(rng, 64)};
    uint64_t what = draw_below(rng, 8);
    if (what < 5)
        return near[what];
    if (what == 5)
        return limits[draw_below(rng, sizeof limits / sizeof limits[0])];
    return (UINT64_C(1) << draw_below(rng, 64)) +
           (uint64_t)beside[draw_below(rng, sizeof beside / sizeof beside[0])];
}

static uint64_t hostile_real(uint64_t *rng)
{
    static const double values[] = {0,         -0.0,     1,      0.5,       1e-8,
                                    0.95,      1.25,     16,     0x1p-1074, 1e308,
                                    9.9999e-9, 0.500001, 16.001, -1,        0.01};
    static const uint64_t odd[] = {
        UINT64_C(0x7ff8000000000000), UINT64_C(0xfff8000000000001),
        UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000),
        UINT64_C(0x7ff0000000000001),
    };
    uint64_t bits;
    if (draw_below(rng, 2))
        return odd[draw_below(rng, sizeof odd / sizeof odd[0])];
    memcpy(&bits, &values[draw_below(rng, sizeof values / sizeof values[0])], 8);
    return bits;
}

static void put_number(uint8_t *p, size_t n, uint64_t v)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

void mutate_field(uint8_t *record, const struct field *f, uint64_t *rng)
{
    uint8_t *p = record + f->offset;
    if (f->type == FIELD_UINT || f->type == FIELD_HEX || f->type == FIELD_TIME)
        put_number(p, f->n_bytes, hostile_number(get_number(p, f->n_bytes), rng));
    else if (f->type == FIELD_F64)
        put_number(p, 8, hostile_real(rng));
    else if (f->type == FIELD_UUID && draw_below(rng, 2))
        memset(p, 0, f->n_bytes);
    else
        p[draw_below(rng, f->n_bytes)] = (uint8_t)hostile_number(0, rng);
}

void mutate_record(uint8_t *record, const struct field *fields, size_t n, uint64_t *rng)
{
    mutate_field(record, &fields[draw_below(rng, n)], rng);
}

/* ---- headers ---- */

enum { AT_HEADER_PAGES = 12, AT_UUID = 40 };

/* The slots that the header has, as far as the bytes reach. */
static size_t slots_of(const uint8_t *file, size_t n, uint8_t slots[2])
{
    size_t k = 0;
    if (n >= PAGE_BYTES && get_number(file + AT_HEADER_PAGES, 4) != 3)
        slots[k++] = SLOT_BIRTH;
    else
        for (uint8_t s = SLOT_A; s <= SLOT_B; s++)
            if (n >= commit_slot_offset(s) + SLOT_BYTES)
                slots[k++] = s;
    return k;
}

static struct stage_disk *stage_at(uint8_t *slot, size_t i)
{
    return (struct stage_disk *)(void *)(slot + STAGES_OFFSET + i * STAGE_BYTES);
}

static size_t stages_in(const uint8_t *slot, uint8_t number)
{
    size_t n = ((const struct commit_disk *)(const void *)slot)->n_stages;
    size_t most = number == SLOT_BIRTH ? MAX_BIRTH_STAGES : MAX_STAGES;
    return n < most ? n : most;
}

/* A change that checks of single fields let pass: a length that fits its geometry, an
 * area moved whole, a stage more, or the same stage twice. */
static void mutate_table(uint8_t *slot, uint8_t number, uint64_t *rng)
{
    struct commit_disk *head = (struct commit_disk *)(void *)slot;
    size_t n = stages_in(slot, number);
    struct stage_disk *s = stage_at(slot, draw_below(rng, n ? n : 1));
    uint64_t pages = draw_below(rng, 24);
    struct le64 *const at[] = {&s->offset, &s->floors_offset, &s->digests_offset,
                               &head->committed_bytes};
    uint64_t what = draw_below(rng, 7);
    if (what < 4) {
        *at[what] = le64_of(pages * PAGE_BYTES);
    } else if (what == 4) {
        s->n_blocks = le64_of(draw_below(rng, 6 * BLOCKS_PER_PAGE) + 1);
        s->lanes = (uint8_t)(draw_below(rng, MAX_LANES) + 1);
        s->words = (uint8_t)(draw_below(rng, MAX_WORDS) + 1);
        s->length =
            le64_of((s->lanes * le64_get(s->n_blocks) * BLOCK_BYTES + PAGE_BYTES - 1) /
                    PAGE_BYTES * PAGE_BYTES);
    } else if (what == 5 && n &&
               n < (number == SLOT_BIRTH ? MAX_BIRTH_STAGES : MAX_STAGES)) {
        *stage_at(slot, n) = *s;
        head->n_stages++;
    } else if (what == 6 && n > 1) {
        memset(stage_at(slot, n - 1), 0, STAGE_BYTES);
        head->n_stages--;
    }
}

void mutate_header(uint8_t *file, size_t n, uint64_t *rng)
{
    uint8_t slots[2];
    size_t n_slots = slots_of(file, n, slots);
    for (uint64_t times = draw_below(rng, 3) + 1; times > 0; times--) {
        uint64_t where = draw_below(rng, 8);
        if (where == 0 && n >= IDENTITY_BYTES)
            mutate_record(file, identity_fields, n_identity_fields, rng);
        if (where == 0 || !n_slots)
            continue;
        uint8_t number = slots[draw_below(rng, n_slots)];
        uint8_t *slot = file + commit_slot_offset(number);
        if (where < 3)
            mutate_record(slot, commit_fields, n_commit_fields, rng);
        else if (where < 6)
            mutate_record(
                (uint8_t *)stage_at(slot, draw_below(rng, stages_in(slot, number))),
                stage_fields, n_stage_fields, rng);
        else
            mutate_table(slot, number, rng);
    }
}

/* ---- checksums ---- */

void reseal_header(uint8_t *file, size_t n)
{
    uint8_t slots[2];
    size_t n_slots = slots_of(file, n, slots);
    if (n >= IDENTITY_BYTES)
        checksum_set(file, IDENTITY_BYTES, 0);
    for (size_t i = 0; i < n_slots; i++) {
        uint8_t *slot = file + commit_slot_offset(slots[i]);
        memcpy(slot + 8, file + AT_UUID, UUID_BYTES);
        checksum_set(slot, commit_slot_bytes(slots[i]), 0);
    }
}

static bool inside(uint64_t at, uint64_t n_bytes, size_t n)
{
    return at <= n && n_bytes <= n - at;
}

static void seal_floors(uint8_t *file, size_t n, const struct stage_disk *s)
{
    uint64_t at = le64_get(s->floors_offset), length = le64_get(s->length);
    if (!at || length > n)
        return;
    for (uint64_t page = 0; page < length / PAGE_BYTES;
         page += PAGES_PER_FLOOR_SECTOR) {
        uint64_t sector = at + floor_sector_of(page);
        struct floor_sector_disk d;
        if (sector < at || !inside(sector, sizeof d, n))
            return;
        memcpy(&d, file + sector, sizeof d);
        floor_sector_seal(&d, file + AT_UUID, sector);
        memcpy(file + sector, &d, sizeof d);
    }
}

static void seal_digests(uint8_t *file, size_t n, struct stage_disk *s)
{
    uint64_t at = le64_get(s->offset), length = le64_get(s->length);
    uint64_t digests = le64_get(s->digests_offset), n_pages = length / PAGE_BYTES;
    struct digest_tree t;
    if (!n_pages || !inside(at, length, n))
        return;
    if (n_pages == 1) {
        s->root = le64_of(page_digest(file + at));
        return;
    }
    digest_tree_of(n_pages, &t);
    if (!inside(digests, t.n_bytes, n))
        return;
    memset(file + digests, 0, (size_t)t.n_pages[1] * PAGE_BYTES);
    for (uint64_t page = 0; page < n_pages; page++)
        put_number(file + digests + page * DIGEST_BYTES, 8,
                   page_digest(file + at + page * PAGE_BYTES));
    s->root = le64_of(digest_tree_finish(&t, file + digests));
}

/* Calls for each stage of each slot. */
static void each_stage(uint8_t *file, size_t n, bool floors)
{
    uint8_t slots[2];
    size_t n_slots = slots_of(file, n, slots);
    for (size_t i = 0; i < n_slots; i++) {
        uint8_t *slot = file + commit_slot_offset(slots[i]);
        bool sealed = ((struct commit_disk *)(void *)slot)->state == STATE_SEALED;
        for (size_t k = 0; k < stages_in(slot, slots[i]); k++) {
            struct stage_disk d;
            memcpy(&d, stage_at(slot, k), sizeof d);
            if (floors)
                seal_floors(file, n, &d);
            else if (sealed)
                seal_digests(file, n, &d);
            /* An area of a hostile table may be the table: it is taken as it was. */
            if (!floors && sealed)
                memcpy(stage_at(slot, k), &d, sizeof d);
        }
    }
}

void reseal_floors(uint8_t *file, size_t n)
{
    each_stage(file, n, true);
}

void reseal_digests(uint8_t *file, size_t n)
{
    each_stage(file, n, false);
}
