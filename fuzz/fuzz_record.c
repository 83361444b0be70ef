/* Catalog records: the store's meta record and a segment's. As in fuzz_header.c the
 * oracle is SPEC.md (§13, §13.6, §13.7) read once more, by byte offsets.
 *
 * Input: 'm' and a meta record; or else the length of a name, the name, a record. */
#include "fuzz/fuzz.h"
#include "format/checksum.h"

static bool real_within(const uint8_t *p, double low, double high)
{
    return get_real(p) >= low && get_real(p) <= high;
}

static bool meta_by_spec(const uint8_t *p, size_t n)
{
    if (n < 256 || memcmp(p, "\x89TMS\r\n\x1a\n", 8) != 0 ||
        get_number(p + 8, 2) != 1 || get_number(p + 248, 8) != XXH3_64bits(p, 248))
        return false;
    bool features = get_number(p + 16, 8) || get_number(p + 24, 8);
    return get_number(p + 32, 8) == 0 && get_number(p + 12, 2) == 1 &&
           get_number(p + 14, 2) <= 1 && !all_zero(p + 40, 16) &&
           real_within(p + 64, 1e-8, 0.5) && real_within(p + 72, 1.25, 16) &&
           real_within(p + 80, 0.5, 0.95) && get_number(p + 88, 8) >= 1 &&
           get_number(p + 88, 8) <= UINT64_C(1) << 32 &&
           (features || all_zero(p + 104, 144));
}

static bool in_order(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b)
{
    for (size_t i = 0; i < n_a; i++)
        if (i == n_b || a[i] != b[i])
            return i < n_b && a[i] < b[i];
    return true;
}

/* S18 to S26, and what follows them. */
static bool parts_by_spec(const uint8_t *p)
{
    bool features = get_number(p + 8, 8) || get_number(p + 16, 8);
    unsigned n_of[4] = {0};
    for (unsigned i = 0, last = 0; i < p[184]; i++) {
        const uint8_t *part = p + 192 + 32 * i;
        unsigned kind = part[28];
        if (kind < 1 || kind > 3 || kind < last || n_of[kind]++ || all_zero(part, 16) ||
            (!features && !all_zero(part + 29, 3)) ||
            (kind == 1 && memcmp(part, p + 32, 16) != 0) ||
            (kind == 1 && memcmp(part + 16, p + 56, 8) != 0) ||
            get_number(part + 24, 4) >= (kind == 2 ? 1048576 : 1))
            return false;
        last = kind;
    }
    unsigned n_answer = n_of[1] + n_of[2];
    return p[0] == 3   ? n_answer == 1
           : p[0] == 2 ? n_of[1] == 1 && p[184] == 1
                       : !p[184];
}

static bool record_by_spec(const uint8_t *p, size_t n, const uint8_t *name,
                           size_t name_bytes)
{
    uint64_t seed = XXH3_64bits(name, name_bytes);
    if (!name_bytes || name_bytes > 255 || memchr(name, 0, name_bytes))
        return false;
    if (n < 200 || get_number(p + n - 8, 8) != XXH3_64bits_withSeed(p, n - 8, seed))
        return false;
    uint64_t state = p[0], first = get_number(p + 4, 2), last = get_number(p + 6, 2);
    uint64_t most = p[2] ? 1024 : 0;
    bool features = get_number(p + 8, 8) || get_number(p + 16, 8);
    uint64_t keys = 192 + 32u * p[184];
    if (p[184] > 8 || n != keys + first + last + 8 || !parts_by_spec(p))
        return false;
    if (state == 1 ? p[1] != 0 : p[1] != 1 && p[1] != 3)
        return false;
    return get_number(p + 24, 8) == 0 && state >= 1 && state <= 3 &&
           all_zero(p + 32, 16) == (state == 1) &&
           (state == 1 || real_within(p + 80, 1e-8, 0.5)) &&
           get_number(p + 104, 4) <= 30 && p[3] <= 64 &&
           all_zero(p + 120 + p[3], 64u - p[3]) && p[2] <= 1 && (!p[2] || state == 3) &&
           first <= most && last <= most && (features || all_zero(p + 185, 7)) &&
           in_order(p + keys, (size_t)first, p + keys + first, (size_t)last);
}

static void check_meta(const uint8_t *p, size_t n)
{
    struct meta m;
    uint8_t again[META_BYTES];
    struct verdict v = meta_decode(p, n, &m);
    MUST((v.code == VERDICT_OK) == meta_by_spec(p, n));
    MUST(v.code == VERDICT_OK || (v.field[0] && all_zero(&m, sizeof m)));
    if (v.code != VERDICT_OK || m.compat || m.ro_compat)
        return;
    meta_encode(&m, again);
    MUST(memcmp(again, p, sizeof again) == 0);
}

static void check_record(const uint8_t *p, size_t n, const uint8_t *name,
                         size_t name_bytes)
{
    struct record r;
    uint8_t again[RECORD_MAX_BYTES];
    unsigned n_parts;
    struct verdict v = record_decode(p, n, name, name_bytes, &r);
    MUST((v.code == VERDICT_OK) == record_by_spec(p, n, name, name_bytes));
    MUST(v.code == VERDICT_OK || (v.field[0] && all_zero(&r, sizeof r)));
    if (record_parts(p, n, name, name_bytes, &n_parts))
        MUST(n_parts == p[184] && 200 + 32 * n_parts <= n);
    else
        MUST(v.code != VERDICT_OK);
    if (v.code != VERDICT_OK || r.compat || r.ro_compat)
        return;
    MUST(record_encode(&r, name, name_bytes, again) == n);
    MUST(memcmp(again, p, n) == 0);
}

/* Where the record of an input begins. */
static size_t record_at(const uint8_t *data, size_t n)
{
    size_t at = data[0] == 'm' ? 1 : 1 + (size_t)data[0];
    return at < n ? at : n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    size_t at = record_at(data, n);
    if (data[0] == 'm')
        check_meta(data + at, n - at);
    else
        check_record(data + at, n - at, data + 1, at - 1);
    return 0;
}

/* A range's keys grow or shrink, and their lengths with them or not. */
static size_t mutate_range(uint8_t *p, size_t n, size_t room, uint64_t *rng)
{
    size_t first = draw_below(rng, 3) ? draw_below(rng, 40) : 1023 + draw_below(rng, 3);
    size_t last = draw_below(rng, 3) ? draw_below(rng, 40) : 1023 + draw_below(rng, 3);
    struct record_disk *d = (struct record_disk *)(void *)p;
    d->state = RECORD_SEALED;
    d->has_range = 1;
    d->first_bytes = le16_of((uint16_t)first);
    d->last_bytes = le16_of((uint16_t)last);
    size_t want = RECORD_HEAD_BYTES + d->n_parts * (size_t)PART_BYTES + first + last +
                  8 + (draw_below(rng, 8) == 0);
    if (want > room)
        return n;
    if (want > n)
        memset(p + n, 'k', want - n);
    return want;
}

/* A field of a part; or one part more, of any kind, or one less. */
static size_t mutate_parts(uint8_t *p, size_t n, size_t room, uint64_t *rng)
{
    struct record_disk *d = (struct record_disk *)(void *)p;
    size_t i = d->n_parts ? draw_below(rng, d->n_parts) : 0,
           at = RECORD_HEAD_BYTES + i * PART_BYTES;
    if (at + PART_BYTES + 8 > n)
        return n;
    if (draw_below(rng, 3)) {
        mutate_record(p + at, part_fields, n_part_fields, rng);
        return n;
    }
    if (draw_below(rng, 3) == 0) {
        memmove(p + at, p + at + PART_BYTES, n - at - PART_BYTES);
        d->n_parts--;
        return n - PART_BYTES;
    }
    if (n + PART_BYTES > room)
        return n;
    memmove(p + at + PART_BYTES, p + at, n - at);
    p[at + PART_BYTES * draw_below(rng, 2) + offsetof(struct part_disk, kind)] =
        (uint8_t)(1 + draw_below(rng, 5));
    d->n_parts++;
    return n + PART_BYTES;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    bool meta = n && data[0] == 'm';
    size_t at = n ? record_at(data, n) : 0;
    if (n - at < RECORD_HEAD_BYTES + 8 || draw_below(&rng, 8) == 0) {
        n = LLVMFuzzerMutate(data, n, max);
        at = n ? record_at(data, n) : 0;
        meta = n && data[0] == 'm';
    } else if (meta) {
        if (n - at >= META_BYTES)
            mutate_record(data + at, meta_fields, n_meta_fields, &rng);
    } else if (draw_below(&rng, 4) == 0) {
        n = at + mutate_range(data + at, n - at, max - at, &rng);
    } else if (draw_below(&rng, 3) == 0) {
        n = at + mutate_parts(data + at, n - at, max - at, &rng);
    } else {
        mutate_record(data + at, record_fields, n_record_fields, &rng);
    }
    if (n - at >= 8 && draw_below(&rng, 16)) {
        if (meta && n - at >= META_BYTES)
            checksum_set(data + at, META_BYTES, 0);
        else if (!meta)
            checksum_set(data + at, n - at, XXH3_64bits(data + 1, at - 1));
    }
    return n;
}
