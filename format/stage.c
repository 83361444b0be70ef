/* Stage descriptors: encode, and decode with every check of SPEC.md §8.3 in its order,
 * and of §17.3, §18.2 and §19.3 for the bytes that belong to the kind. */
#include "area.h"
#include "integrity.h"
#include "list.h"
#include "pack.h"
#include "ribbon.h"

_Static_assert(sizeof(struct stage_disk) == STAGE_BYTES &&
                   offsetof(struct stage_disk, n_blocks) == AREA_OFFSET,
               "SPEC.md section 6");

_Static_assert(sizeof(struct rows_area_disk) == AREA_BYTES &&
                   sizeof(struct table_area_disk) == AREA_BYTES,
               "SPEC.md section 17");
_Static_assert(sizeof(struct hashes_area_disk) == AREA_BYTES, "SPEC.md section 18");
_Static_assert(sizeof(struct ribbon_area_disk) == AREA_BYTES, "SPEC.md section 19");

#define F(member, type)    FIELD_OF(struct stage_disk, struct stage_desc, member, type)
#define NONE(member, type) FIELD(struct stage_disk, member, type)
#define SHAPE(member)                                                                  \
    FIELD_AS(struct stage_disk, member, FIELD_UINT, struct stage_desc, geometry.member)
const struct field stage_fields[] = {
    F(offset, FIELD_UINT),
    F(length, FIELD_UINT),
    F(capacity, FIELD_UINT),
    F(keys, FIELD_UINT),
    F(target_error, FIELD_F64),
    F(floors_offset, FIELD_UINT),
    F(digests_offset, FIELD_UINT),
    F(root, FIELD_HEX),
    F(layout, FIELD_UINT),
    NONE(unused, FIELD_UNUSED),
    SHAPE(n_blocks),
    F(bits_set, FIELD_UINT),
    SHAPE(lanes),
    SHAPE(words),
    NONE(kind_unused, FIELD_UNUSED),
};
#undef F
#undef NONE
#undef SHAPE
const size_t n_stage_fields = sizeof stage_fields / sizeof stage_fields[0];

#define F(area, member)                                                                \
    FIELD_OF(struct area##_area_disk, struct stage_desc, member, FIELD_UINT)
#define UNUSED(area) FIELD(struct area##_area_disk, area_unused, FIELD_UNUSED)
#define TABLE(area, ...)                                                               \
    const struct field area##_area_fields[] = {__VA_ARGS__, UNUSED(area)};             \
    const size_t n_##area##_area_fields =                                              \
        sizeof area##_area_fields / sizeof area##_area_fields[0]

TABLE(rows, F(rows, n_bands), F(rows, n_columns));
TABLE(table, F(table, used_bytes), F(table, n_entries), F(table, content));
TABLE(hashes, F(hashes, n_hashes), F(hashes, hash_bits));
TABLE(ribbon, F(ribbon, n_long_pages),
      FIELD_AS(struct ribbon_area_disk, blocks, FIELD_UINT, struct stage_desc,
               ribbon_blocks));
#undef F
#undef UNUSED
#undef TABLE

const struct field *area_fields(uint16_t layout, size_t *n)
{
    switch (layout) {
    case LAYOUT_ROWS:
        *n = n_rows_area_fields;
        return rows_area_fields;
    case LAYOUT_HASHES:
        *n = n_hashes_area_fields;
        return hashes_area_fields;
    case LAYOUT_RIBBON:
        *n = n_ribbon_area_fields;
        return ribbon_area_fields;
    case LAYOUT_TABLE:
        *n = n_table_area_fields;
        return table_area_fields;
    }
    *n = 0;
    return NULL;
}

void stage_encode(const struct stage_desc *s, uint8_t out[STAGE_BYTES])
{
    size_t n;
    const struct field *area = area_fields(s->layout, &n);
    memset(out, 0, STAGE_BYTES);
    fields_store(stage_fields, n_stage_fields, s, out);
    if (area)
        memset(out + AREA_OFFSET, 0, AREA_BYTES);
    fields_store(area, n, s, out + AREA_OFFSET);
}

/* A field of the descriptor before the area, and one in the area. */
#define AT(code, member)                                                               \
    ((struct verdict){VERDICT_##code, (uint32_t)offsetof(struct stage_disk, member),   \
                      "stage." #member})
#define AREA(code, area, member)                                                       \
    ((struct verdict){VERDICT_##code,                                                  \
                      AREA_OFFSET + (uint32_t)offsetof(struct area, member),           \
                      "stage." #member})

/* Rules P4 to P10. */
static struct verdict check_rows(const struct stage_desc *s)
{
    if (s->layout != LAYOUT_ROWS)
        return AT(KIND, layout);
    if (s->n_bands < 1 || s->n_bands > PACK_MAX_BANDS)
        return AREA(RANGE, rows_area_disk, n_bands);
    if (s->n_columns < s->n_bands || s->n_columns > PACK_MAX_COLUMNS)
        return AREA(RANGE, rows_area_disk, n_columns);
    if (s->length == 0 || s->length % PAGE_BYTES != 0)
        return AT(RANGE, length);
    return VERDICT_GOOD;
}

/* A table of so many entries; is its used_bytes as they want it? */
static struct verdict check_entries(const struct stage_desc *s, uint16_t content,
                                    uint64_t n_entries, bool used_good)
{
    uint64_t length;
    if (s->layout != LAYOUT_TABLE)
        return AT(KIND, layout);
    if (s->content != content)
        return AREA(KIND, table_area_disk, content);
    if (s->n_entries != n_entries)
        return AREA(RANGE, table_area_disk, n_entries);
    if (!used_good)
        return AREA(RANGE, table_area_disk, used_bytes);
    if (!align_up_u64(s->used_bytes, PAGE_BYTES, &length) || s->length != length)
        return AT(RANGE, length);
    return VERDICT_GOOD;
}

static struct verdict check_table(const struct stage_desc *s, size_t i,
                                  const struct stage_desc *rows)
{
    uint64_t n = rows->n_columns;
    if (i == PACK_BANDS)
        return check_entries(s, CONTENT_BANDS, rows->n_bands,
                             s->used_bytes == place_offset(rows->n_bands, (uint32_t)n));
    return check_entries(s, CONTENT_COLUMNS, n,
                         s->used_bytes != 0 && s->used_bytes % PAGE_BYTES == 0 &&
                             s->used_bytes / PAGE_BYTES <= 2 * n);
}

/* Rules L3 to L6, of the pages of hashes. */
static struct verdict check_hashes(const struct stage_desc *s)
{
    uint64_t n_pages = s->length / PAGE_BYTES;
    if (s->layout != LAYOUT_HASHES)
        return AT(KIND, layout);
    if (n_pages < 1 || n_pages > LIST_MAX_PAGES || s->length % PAGE_BYTES != 0)
        return AT(RANGE, length);
    if (s->hash_bits < 1 || s->hash_bits > 64)
        return AREA(RANGE, hashes_area_disk, hash_bits);
    bool empty = s->n_hashes == 0 && n_pages == 1;
    if (!empty &&
        (s->n_hashes < n_pages || s->n_hashes > n_pages * LIST_PAGE_MAX_HASHES ||
         s->n_hashes - 1 > list_max(s->hash_bits)))
        return AREA(RANGE, hashes_area_disk, n_hashes);
    return VERDICT_GOOD;
}

/* Rules N3 to N6. */
static struct verdict check_ribbon(const struct stage_desc *s)
{
    if (s->layout != LAYOUT_RIBBON)
        return AT(KIND, layout);
    if (s->ribbon_blocks < RIBBON_MIN_BLOCKS || s->ribbon_blocks > RIBBON_MAX_BLOCKS)
        return AREA(RANGE, ribbon_area_disk, blocks);
    if (s->length == 0 || s->length % PAGE_BYTES != 0 ||
        s->length / PAGE_BYTES > RIBBON_MAX_PAGES)
        return AT(RANGE, length);
    if (s->n_long_pages > s->length / PAGE_BYTES)
        return AREA(RANGE, ribbon_area_disk, n_long_pages);
    return VERDICT_GOOD;
}

static struct verdict area_check(const struct stage_desc *s, size_t i,
                                 const struct commit *c, uint16_t kind)
{
    uint64_t n = c->stages[LIST_PAGES].length / PAGE_BYTES; /* of a list */
    if (kind == KIND_LIST) /* rules L3 and L7 to L10, of the table of first values */
        return i == LIST_PAGES ? check_hashes(s)
                               : check_entries(s, CONTENT_FIRSTS, n,
                                               s->used_bytes == n * LIST_ENTRY_BYTES);
    if (kind == KIND_RIBBON)
        return check_ribbon(s);
    return i == PACK_ROWS ? check_rows(s) : check_table(s, i, &c->stages[PACK_ROWS]);
}

static struct verdict area_check_unused(const uint8_t area[AREA_BYTES],
                                        const struct stage_desc *s)
{
    size_t n;
    const struct field *fields = area_fields(s->layout, &n);
    size_t used = n ? fields[n - 1].offset : 0;
    if (all_zero(area + used, AREA_BYTES - used))
        return VERDICT_GOOD;
    return (struct verdict){VERDICT_UNUSED, AREA_OFFSET + (uint32_t)used,
                            "stage.area_unused"};
}

/* Integrity areas: an open stage has floors; a sealed or settled stage of more than one
 * page has digests, and floors if it once was open; one sealed at birth has none. */
static struct verdict check_integrity(const struct stage_desc *s, size_t i,
                                      const struct commit *c, uint8_t slot)
{
    bool may_have_floors = slot != SLOT_BIRTH, needs_floors = c->state == STATE_OPEN;
    bool digests = commit_has_digests(c, i);
    if (s->floors_offset % PAGE_BYTES != 0 ||
        (s->floors_offset ? !may_have_floors : needs_floors))
        return AT(RANGE, floors_offset);
    if (s->digests_offset % PAGE_BYTES != 0 ||
        (s->digests_offset != 0) != (digests && s->length > PAGE_BYTES))
        return AT(RANGE, digests_offset);
    if (!digests && s->root != 0)
        return AT(RANGE, root);
    return VERDICT_GOOD;
}

/* Rules C14 to C18. */
static struct verdict check_blocks(const struct stage_desc *s)
{
    uint64_t n_bytes;
    if (s->layout != LAYOUT_SPLIT_BLOCKS)
        return AT(KIND, layout);
    if (s->geometry.n_blocks < 1 || s->geometry.n_blocks > MAX_BLOCKS)
        return AT(RANGE, n_blocks);
    if (s->geometry.lanes < 1 || s->geometry.lanes > MAX_LANES)
        return AT(RANGE, lanes);
    if (s->geometry.words < 1 || s->geometry.words > MAX_WORDS)
        return AT(RANGE, words);
    if (!geometry_stage_bytes(&s->geometry, &n_bytes) || n_bytes != s->length)
        return AT(RANGE, length);
    return VERDICT_GOOD;
}

/* The bytes from 66 on that no other check reads. */
static struct verdict check_unused(const struct stage_disk *d,
                                   const struct stage_desc *s, const struct commit *c,
                                   bool own)
{
    if (!commit_unused_is_ours(c))
        return VERDICT_GOOD;
    if (!all_zero(d->unused, sizeof d->unused))
        return AT(UNUSED, unused);
    if (own)
        return area_check_unused((const uint8_t *)d + AREA_OFFSET, s);
    return all_zero(d->kind_unused, sizeof d->kind_unused) ? VERDICT_GOOD
                                                           : AT(UNUSED, kind_unused);
}

static struct verdict check_stage(const struct stage_disk *d, size_t i, uint8_t slot,
                                  uint16_t kind, const struct commit *c)
{
    bool own = area_is_own(kind, i, c);
    const struct stage_desc *s = &c->stages[i];
    struct verdict v = own ? area_check(s, i, c, kind) : check_blocks(s);
    if (v.code != VERDICT_OK)
        return v;
    if (s->offset == 0 || s->offset % PAGE_BYTES != 0)
        return AT(RANGE, offset);
    if (!(s->target_error > 0 && s->target_error <= 1))
        return AT(RANGE, target_error);
    if (!own && s->bits_set > s->length * 8)
        return AT(RANGE, bits_set);
    v = check_unused(d, s, c, own);
    return v.code == VERDICT_OK ? check_integrity(s, i, c, slot) : v;
}

struct verdict stage_decode(const struct stage_disk *d, size_t i, uint8_t slot,
                            const struct identity *id, struct commit *c)
{
    struct stage_desc *s = &c->stages[i];
    size_t n;
    fields_load(stage_fields, n_stage_fields, d, s);
    if (area_is_own(id->kind, i, c)) {
        const struct field *area = area_fields(s->layout, &n);
        s->bits_set = 0;
        s->geometry = (struct geometry){0};
        fields_load(area, n, (const uint8_t *)d + AREA_OFFSET, s);
    }
    return check_stage(d, i, slot, id->kind, c);
}

uint64_t stage_place(struct stage_desc *s, uint64_t at)
{
    uint64_t digests = digests_bytes(s->length / PAGE_BYTES);
    s->offset = at;
    s->digests_offset = digests ? at + s->length : 0;
    return at + s->length + digests;
}
