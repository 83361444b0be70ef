/* Identity and commit records of every kind. The oracle is a second reading of SPEC.md
 * §5, §6, §8, §17.3, §18.2 and §19.3, by byte offsets and 128-bit sums, that shares
 * nothing with format/: both must agree on what is a filter and what is not, and what
 * is decoded must encode to the same bytes.
 *
 * Input: four bytes, the pages of the file, then the header, up to three pages. */
#include "fuzz/fuzz.h"

#include <xxhash.h>

static bool sum_right(const uint8_t *p, size_t n)
{
    return get_number(p + n - 8, 8) == XXH3_64bits(p, n - 8);
}

/* ---- §8.1, in no order ---- */

static bool growth_by_spec(const uint8_t *p)
{
    uint64_t rule = get_number(p + 76, 2), pages = get_number(p + 12, 4),
             n0 = get_number(p + 112, 8);
    double s = get_real(p + 96), r = get_real(p + 104);
    if (rule == 0)
        return (pages == 1 || pages == 3) && all_zero(p + 96, 24);
    return rule == 1 && pages == 3 && s >= 1.25 && s <= 16 && r >= 0.5 && r <= 0.95 &&
           n0 >= 1 && n0 <= UINT64_C(1) << 32;
}

static bool identity_by_spec(const uint8_t *p, size_t n)
{
    if (n < 2048 || memcmp(p, "\x89TMF\r\n\x1a\n", 8) != 0 ||
        get_number(p + 8, 2) != 1 || !sum_right(p, 2048))
        return false;
    bool features = get_number(p + 16, 8) || get_number(p + 24, 8);
    size_t name = (size_t)get_number(p + 78, 2);
    double error = get_real(p + 88);
    uint64_t kind = get_number(p + 72, 2);
    bool pack = kind == 2;
    if ((kind != 1 && (get_number(p + 12, 4) != 1 || get_number(p + 76, 2) != 0)) ||
        (pack && name != 0))
        return false;
    return get_number(p + 32, 8) == 0 && !all_zero(p + 40, 16) &&
           (kind == 1 || pack || kind == 3 || kind == 5) &&
           get_number(p + 74, 2) == 1 && error >= 1e-8 && error <= 0.5 && name <= 255 &&
           !memchr(p + 128, 0, name) && all_zero(p + 128 + name, 256 - name) &&
           all_zero(p + 896, 16) == pack &&
           (features || (all_zero(p + 384, 512) && all_zero(p + 912, 1128))) &&
           growth_by_spec(p);
}

/* ---- §8.2, §8.3 ---- */

static const size_t slot_at[] = {4096, 8192, 2048}, slot_bytes[] = {4096, 4096, 2048};

static bool whole_by_spec(const uint8_t *header, int slot)
{
    const uint8_t *p = header + slot_at[slot];
    return memcmp(p, "\x89TCR\r\n\x1a\n", 8) == 0 && sum_right(p, slot_bytes[slot]) &&
           memcmp(p + 8, header + 40, 16) == 0 && p[88] == slot;
}

struct area {
    wide begin, end;
};

static wide floors_by_spec(wide pages)
{
    wide sectors = (pages + 30) / 31;
    return (sectors * 512 + 4095) / 4096 * 4096;
}

static wide digests_by_spec(wide pages)
{
    wide sum = 0;
    while (pages > 1)
        sum += pages = (pages + 511) / 512;
    return sum * 4096;
}

static bool blocks_by_spec(const uint8_t *p, bool features)
{
    wide n_blocks = get_number(p + 80, 8), length = get_number(p + 8, 8);
    return get_number(p + 64, 2) == 1 && n_blocks >= 1 && n_blocks <= (wide)1 << 32 &&
           p[96] >= 1 && p[96] <= 4 && p[97] >= 1 && p[97] <= 8 &&
           length == (p[96] * n_blocks * 64 + 4095) / 4096 * 4096 &&
           get_number(p + 88, 8) <= 8 * length && (features || all_zero(p + 98, 30));
}

/* §17.3: descriptor i of a pack, whose first one is `rows`. */
static bool pack_stage_by_spec(const uint8_t *p, size_t i, const uint8_t *rows,
                               bool features)
{
    uint64_t bands = get_number(rows + 80, 4), columns = get_number(rows + 84, 4);
    uint64_t length = get_number(p + 8, 8), used = get_number(p + 80, 8),
             n = i == 1 ? bands : columns;
    if (i == 0)
        return get_number(p + 64, 2) == 2 && bands >= 1 && bands <= 4096 &&
               columns >= bands && columns <= 1048576 && length != 0 &&
               length % 4096 == 0 && (features || all_zero(p + 88, 40));
    wide most = i == 1 ? 32 * (wide)bands + 4 * (wide)columns : 8192 * (wide)n;
    return get_number(p + 64, 2) == 6 && get_number(p + 92, 2) == i &&
           get_number(p + 88, 4) == n &&
           (i == 1 ? used == most : used && used % 4096 == 0 && used <= most) &&
           length == (used + 4095) / 4096 * 4096 && (features || all_zero(p + 94, 34));
}

/* §18.2: descriptor i of a list, whose first one is `pages`. */
static bool list_stage_by_spec(const uint8_t *p, size_t i, const uint8_t *pages,
                               bool features)
{
    uint64_t n_pages = get_number(pages + 8, 8) / 4096, n = get_number(p + 80, 8);
    if (i == 1)
        return get_number(p + 64, 2) == 6 && get_number(p + 92, 2) == 4 &&
               get_number(p + 88, 4) == n_pages && n == 8 * n_pages &&
               get_number(p + 8, 8) == (n + 4095) / 4096 * 4096 &&
               (features || all_zero(p + 94, 34));
    return get_number(p + 64, 2) == 5 && get_number(p + 8, 8) % 4096 == 0 &&
           n_pages >= 1 && n_pages <= 1 << 28 && p[88] >= 1 && p[88] <= 64 &&
           (n ? n >= n_pages && n <= 3583 * n_pages && n <= (wide)1 << p[88]
              : n_pages == 1) &&
           (features || all_zero(p + 89, 39));
}

/* §19.3: a descriptor of a ribbon, but the last one. */
static bool ribbon_stage_by_spec(const uint8_t *p, bool features)
{
    uint64_t length = get_number(p + 8, 8), blocks = get_number(p + 88, 2);
    return get_number(p + 64, 2) == 3 && blocks >= 16 && blocks <= 480 && length &&
           length % 4096 == 0 && length < UINT64_C(1) << 44 &&
           get_number(p + 80, 8) <= length / 4096 && (features || all_zero(p + 90, 38));
}

static bool stage_by_spec(const uint8_t *p, bool sealed, bool digested, int slot,
                          bool features)
{
    wide length = get_number(p + 8, 8);
    double error = get_real(p + 32);
    uint64_t floors = get_number(p + 40, 8), digests = get_number(p + 48, 8);
    return get_number(p, 8) % 4096 == 0 && get_number(p, 8) != 0 && error > 0 &&
           error <= 1 && (features || all_zero(p + 66, 14)) && floors % 4096 == 0 &&
           (slot != 2 || !floors) && (sealed || floors) && digests % 4096 == 0 &&
           (digests != 0) == (digested && length > 4096) &&
           (digested || !get_number(p + 56, 8));
}

static size_t areas_of(const uint8_t *slot, size_t header_bytes, struct area *areas)
{
    size_t n = 0;
    areas[n++] = (struct area){0, header_bytes};
    for (size_t i = 0; i < slot[91]; i++) {
        const uint8_t *p = slot + 248 + 128 * i;
        wide at = get_number(p, 8), length = get_number(p + 8, 8),
             pages = length / 4096;
        wide floors = get_number(p + 40, 8), digests = get_number(p + 48, 8);
        areas[n++] = (struct area){at, at + length};
        if (floors)
            areas[n++] = (struct area){floors, floors + floors_by_spec(pages)};
        if (digests)
            areas[n++] = (struct area){digests, digests + digests_by_spec(pages)};
    }
    return n;
}

static bool areas_by_spec(const uint8_t *slot, size_t header_bytes)
{
    struct area areas[1 + 3 * 30];
    size_t n = areas_of(slot, header_bytes, areas);
    for (size_t i = 0; i < n; i++) {
        if (areas[i].end > get_number(slot + 72, 8))
            return false;
        for (size_t k = 0; k < i; k++)
            if (!(areas[i].end <= areas[k].begin || areas[k].end <= areas[i].begin))
                return false;
    }
    return true;
}

static bool commit_by_spec(const uint8_t *header, int slot, uint64_t available)
{
    const uint8_t *p = header + slot_at[slot];
    bool features = get_number(p + 32, 8) || get_number(p + 40, 8);
    bool sealed = p[89] == 2;
    size_t most = slot == 2 ? 14 : 30, n = p[91], end = 248 + 128 * n;
    if (get_number(p + 48, 8) || !get_number(p + 24, 8) || !get_number(p + 80, 8) ||
        (p[89] != 1 && !sealed) ||
        ((slot == 2 || !get_number(header + 76, 2)) && !sealed) || p[90] > 1 ||
        (sealed && !p[90]) || n < 1 || n > most || p[92] > 64 ||
        !all_zero(p + 96 + p[92], 64u - p[92]) || (p[93] && (sealed || p[93] >= n)) ||
        (!features && (!all_zero(p + 94, 2) || !all_zero(p + 160, 88))) ||
        get_number(p + 72, 8) % 4096 || get_number(p + 72, 8) > available)
        return false;
    uint64_t kind = get_number(header + 72, 2);
    if ((kind == 2 && n != 3) || (kind == 3 && n < 2) || (kind == 5 && n != 2))
        return false;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *d = p + 248 + 128 * i;
        if (!stage_by_spec(d, sealed, sealed || i < p[93], slot, features) ||
            !(kind == 2                ? pack_stage_by_spec(d, i, p + 248, features)
              : kind == 5              ? list_stage_by_spec(d, i, p + 248, features)
              : kind == 3 && i + 1 < n ? ribbon_stage_by_spec(d, features)
                                       : blocks_by_spec(d, features)))
            return false;
    }
    return all_zero(p + end, slot_bytes[slot] - 8 - end) &&
           areas_by_spec(p, slot == 2 ? 4096 : 12288);
}

/* The slot that counts, or -1. */
static int choice_by_spec(const uint8_t *header)
{
    if (get_number(header + 12, 4) == 1)
        return whole_by_spec(header, 2) ? 2 : -1;
    bool a = whole_by_spec(header, 0), b = whole_by_spec(header, 1);
    bool features = get_number(header + 16, 8) || get_number(header + 24, 8);
    if ((!features && !all_zero(header + 2048, 2048)) || (!a && !b))
        return -1;
    if (a && b)
        return get_number(header + 8192 + 24, 8) > get_number(header + 4096 + 24, 8);
    return a ? 0 : 1;
}

/* ---- against format/ ---- */

static void check_verdict(struct verdict v)
{
    MUST(v.field && v.field[0]);
    MUST(v.offset <= HEADER_MAX_BYTES);
    MUST(verdict_error(v.code) != 0);
}

/* A decoded identity must encode to the same bytes. */
static void check_identity(const uint8_t *header, const struct identity *id)
{
    uint8_t again[IDENTITY_BYTES];
    if (id->compat || id->ro_compat)
        return;
    identity_encode(id, again);
    MUST(memcmp(again, header, sizeof again) == 0);
}

static void check_commit(const uint8_t *header, const struct commit *c)
{
    uint8_t again[SLOT_BYTES];
    MUST(c->table_digest ==
         XXH3_64bits(header + slot_at[c->slot] + 248, (size_t)128 * c->n_stages));
    if (c->compat || c->ro_compat)
        return;
    commit_encode(c, c->slot, again);
    MUST(memcmp(again, header + slot_at[c->slot], slot_bytes[c->slot]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t header[HEADER_MAX_BYTES] = {0};
    struct identity id;
    struct commit c;
    struct slot_health health;
    if (n < 4)
        return 0;
    uint64_t available = get_number(data, 4) * PAGE_BYTES;
    n = n - 4 < sizeof header ? n - 4 : sizeof header;
    memcpy(header, data + 4, n);

    struct verdict v = identity_decode(data + 4, n, &id);
    MUST((v.code == VERDICT_OK) == identity_by_spec(header, n));
    if (v.code != VERDICT_OK) {
        check_verdict(v);
        MUST(all_zero(&id, sizeof id));
        return 0;
    }
    check_identity(header, &id);
    v = commit_choose_slot(header, &id, available, &c, &health);
    int slot = choice_by_spec(header);
    MUST((v.code == VERDICT_OK) ==
         (slot >= 0 && commit_by_spec(header, slot, available)));
    if (v.code != VERDICT_OK) {
        check_verdict(v);
        return 0;
    }
    MUST(c.slot == slot);
    check_commit(header, &c);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    if (n < 4 + IDENTITY_BYTES || draw_below(&rng, 8) == 0)
        n = LLVMFuzzerMutate(data, n, max);
    else
        mutate_header(data + 4, n - 4, &rng);
    if (n > 4 && draw_below(&rng, 16))
        reseal_header(data + 4, n - 4);
    return n;
}
