/* Stage descriptors: encode, and decode with every check of SPEC.md §8.3 in its order.
 */
#include "commit.h"
#include "pack.h"

_Static_assert(sizeof(struct stage_disk) == STAGE_BYTES, "SPEC.md section 6");
_Static_assert(sizeof(struct rows_area_disk) == AREA_BYTES &&
                   sizeof(struct table_area_disk) == AREA_BYTES &&
                   offsetof(struct stage_disk, n_blocks) == AREA_OFFSET,
               "SPEC.md section 17");

#define F(member, type) FIELD(struct stage_disk, member, type)
const struct field stage_fields[] = {
    F(offset, FIELD_UINT),         F(length, FIELD_UINT),
    F(capacity, FIELD_UINT),       F(keys, FIELD_UINT),
    F(target_error, FIELD_F64),    F(floors_offset, FIELD_UINT),
    F(digests_offset, FIELD_UINT), F(root, FIELD_HEX),
    F(layout, FIELD_UINT),         F(settled_page, FIELD_UINT),
    F(settled_root, FIELD_HEX),    F(n_blocks, FIELD_UINT),
    F(bits_set, FIELD_UINT),       F(lanes, FIELD_UINT),
    F(words, FIELD_UINT),          F(kind_unused, FIELD_UNUSED),
};
#undef F
const size_t n_stage_fields = sizeof stage_fields / sizeof stage_fields[0];

#define F(member, type) FIELD(struct rows_area_disk, member, type)
const struct field rows_area_fields[] = {
    F(n_bands, FIELD_UINT), F(n_columns, FIELD_UINT), F(area_unused, FIELD_UNUSED)};
#undef F
const size_t n_rows_area_fields = sizeof rows_area_fields / sizeof rows_area_fields[0];

#define F(member, type) FIELD(struct table_area_disk, member, type)
const struct field table_area_fields[] = {
    F(used_bytes, FIELD_UINT), F(n_entries, FIELD_UINT), F(content, FIELD_UINT),
    F(area_unused, FIELD_UNUSED)};
#undef F
const size_t n_table_area_fields =
    sizeof table_area_fields / sizeof table_area_fields[0];

/* The area of kind 2, from byte 80 on. */
static void area_encode(const struct stage_desc *s, uint8_t *area)
{
    struct rows_area_disk rows = {le32_of(s->n_bands), le32_of(s->n_columns), {0}};
    struct table_area_disk table = {
        le64_of(s->used_bytes), le32_of(s->n_entries), le16_of(s->content), {0}};
    if (s->layout == LAYOUT_ROWS)
        memcpy(area, &rows, sizeof rows);
    else
        memcpy(area, &table, sizeof table);
}

void stage_encode(const struct stage_desc *s, uint8_t out[STAGE_BYTES])
{
    struct stage_disk d;
    memset(&d, 0, sizeof d);
    d.offset = le64_of(s->offset);
    d.length = le64_of(s->length);
    d.capacity = le64_of(s->capacity);
    d.keys = le64_of(s->keys);
    d.target_error = le64_of_f64(s->target_error);
    d.floors_offset = le64_of(s->floors_offset);
    d.digests_offset = le64_of(s->digests_offset);
    d.root = le64_of(s->root);
    d.layout = le16_of(s->layout);
    struct le64 page = le64_of(s->settled_offset / PAGE_BYTES);
    memcpy(d.settled_page, &page, sizeof d.settled_page);
    d.settled_root = le64_of(s->settled_root);
    d.n_blocks = le64_of(s->geometry.n_blocks);
    d.bits_set = le64_of(s->bits_set);
    d.lanes = (uint8_t)s->geometry.lanes;
    d.words = (uint8_t)s->geometry.words;
    memcpy(out, &d, sizeof d);
    if (s->layout == LAYOUT_ROWS || s->layout == LAYOUT_TABLE)
        area_encode(s, out + AREA_OFFSET);
}

#define AT(code, member)                                                               \
    ((struct verdict){VERDICT_##code, (uint32_t)offsetof(struct stage_disk, member),   \
                      "stage." #member})

static void area_load(const struct stage_disk *d, struct stage_desc *s)
{
    struct rows_area_disk rows;
    struct table_area_disk table;
    memcpy(&rows, (const uint8_t *)d + AREA_OFFSET, sizeof rows);
    memcpy(&table, (const uint8_t *)d + AREA_OFFSET, sizeof table);
    if (s->layout == LAYOUT_ROWS) {
        s->n_bands = le32_get(rows.n_bands);
        s->n_columns = le32_get(rows.n_columns);
    } else if (s->layout == LAYOUT_TABLE) {
        s->used_bytes = le64_get(table.used_bytes);
        s->n_entries = le32_get(table.n_entries);
        s->content = le16_get(table.content);
    }
}

static void stage_load(const struct stage_disk *d, bool settled, bool pack,
                       struct stage_desc *s)
{
    s->offset = le64_get(d->offset);
    s->length = le64_get(d->length);
    s->capacity = le64_get(d->capacity);
    s->keys = le64_get(d->keys);
    s->target_error = le64_get_f64(d->target_error);
    s->floors_offset = le64_get(d->floors_offset);
    s->digests_offset = le64_get(d->digests_offset);
    s->root = le64_get(d->root);
    s->layout = le16_get(d->layout);
    if (settled) { /* else the bytes are not ours to read */
        struct le64 page = {{0}};
        memcpy(&page, d->settled_page, sizeof d->settled_page);
        s->settled_offset = le64_get(page) * PAGE_BYTES; /* 48 bits: it can't wrap */
        s->settled_root = le64_get(d->settled_root);
    }
    if (pack) {
        area_load(d, s);
        return;
    }
    s->bits_set = le64_get(d->bits_set);
    s->geometry.n_blocks = le64_get(d->n_blocks);
    s->geometry.lanes = d->lanes;
    s->geometry.words = d->words;
}

/* Integrity areas: an open stage has floors and no digests; a sealed stage of more
 * than one page has digests, and floors if it once was open; one sealed at birth never
 * had any. */
static struct verdict check_integrity(const struct stage_desc *s,
                                      const struct commit *c, uint8_t slot)
{
    bool may_have_floors = slot != SLOT_BIRTH, needs_floors = c->state == STATE_OPEN;
    if (s->floors_offset % PAGE_BYTES != 0 ||
        (s->floors_offset ? !may_have_floors : needs_floors))
        return AT(RANGE, floors_offset);
    if (s->digests_offset % PAGE_BYTES != 0)
        return AT(RANGE, digests_offset);
    bool wants_digests = c->state == STATE_SEALED && s->length > PAGE_BYTES;
    if ((s->digests_offset != 0) != wants_digests)
        return AT(RANGE, digests_offset);
    if (c->state == STATE_OPEN && s->root != 0)
        return AT(RANGE, root);
    return VERDICT_GOOD;
}

/* Digests of a settled stage are asked for where those of a sealed one are. */
static struct verdict check_settled(const struct stage_disk *d,
                                    const struct stage_desc *s, const struct commit *c,
                                    bool settled)
{
    if (settled)
        return (s->settled_offset != 0) == (s->length > PAGE_BYTES)
                   ? VERDICT_GOOD
                   : AT(RANGE, settled_page);
    if (commit_unused_is_ours(c) && !all_zero(d->settled_page, sizeof d->settled_page))
        return AT(UNUSED, settled_page);
    if (commit_unused_is_ours(c) && le64_get(d->settled_root) != 0)
        return AT(UNUSED, settled_root);
    return VERDICT_GOOD;
}

/* Rules C15 to C19 and C22. */
static struct verdict check_blocks(const struct stage_desc *s)
{
    uint64_t n_bytes;
    if (s->layout != LAYOUT_SPLIT_BLOCKS)
        return AT(KIND, layout);
    if (s->geometry.n_blocks < 1 || s->geometry.n_blocks > MAX_BLOCKS ||
        s->geometry.n_blocks % BLOCKS_PER_PAGE != 0)
        return AT(RANGE, n_blocks);
    if (s->geometry.lanes < 1 || s->geometry.lanes > MAX_LANES)
        return AT(RANGE, lanes);
    if (s->geometry.words < 1 || s->geometry.words > MAX_WORDS)
        return AT(RANGE, words);
    if (!geometry_bytes(&s->geometry, &n_bytes) || n_bytes != s->length)
        return AT(RANGE, length);
    return VERDICT_GOOD;
}

#define AREA(code, area, member)                                                       \
    ((struct verdict){VERDICT_##code,                                                  \
                      AREA_OFFSET + (uint32_t)offsetof(struct area, member),           \
                      "stage." #member})

/* Rules P4 to P10, which stand in their place in a pack. */
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

static struct verdict check_table(const struct stage_desc *s, size_t i,
                                  const struct stage_desc *rows)
{
    bool bands = i == PACK_BANDS;
    uint64_t n = bands ? rows->n_bands : rows->n_columns, length;
    if (s->layout != LAYOUT_TABLE)
        return AT(KIND, layout);
    if (s->content != (bands ? CONTENT_BANDS : CONTENT_COLUMNS))
        return AREA(KIND, table_area_disk, content);
    if (s->n_entries != n)
        return AREA(RANGE, table_area_disk, n_entries);
    if (s->used_bytes % 8 != 0 ||
        s->used_bytes < n * (bands ? BAND_BYTES : COLUMN_MIN_BYTES) ||
        s->used_bytes > n * (bands ? BAND_BYTES : COLUMN_MAX_BYTES))
        return AREA(RANGE, table_area_disk, used_bytes);
    if (!align_up_u64(s->used_bytes, PAGE_BYTES, &length) || s->length != length)
        return AT(RANGE, length);
    return VERDICT_GOOD;
}

static bool area_unused_is_zero(const struct stage_disk *d, const struct stage_desc *s)
{
    size_t used = s->layout == LAYOUT_ROWS
                      ? offsetof(struct rows_area_disk, area_unused)
                      : offsetof(struct table_area_disk, area_unused);
    return all_zero((const uint8_t *)d + AREA_OFFSET + used, AREA_BYTES - used);
}

/* What is left of the bytes from 80 on. */
static struct verdict check_area(const struct stage_disk *d, const struct stage_desc *s,
                                 const struct commit *c, bool pack)
{
    if (!commit_unused_is_ours(c))
        return VERDICT_GOOD;
    if (!pack)
        return all_zero(d->kind_unused, sizeof d->kind_unused)
                   ? VERDICT_GOOD
                   : AT(UNUSED, kind_unused);
    if (area_unused_is_zero(d, s))
        return VERDICT_GOOD;
    return s->layout == LAYOUT_ROWS ? AREA(UNUSED, rows_area_disk, area_unused)
                                    : AREA(UNUSED, table_area_disk, area_unused);
}

static struct verdict check_stage(const struct stage_disk *d, size_t i, uint8_t slot,
                                  bool pack, const struct commit *c)
{
    const struct stage_desc *s = &c->stages[i];
    struct verdict v = !pack            ? check_blocks(s)
                       : i == PACK_ROWS ? check_rows(s)
                                        : check_table(s, i, &c->stages[PACK_ROWS]);
    if (v.code != VERDICT_OK)
        return v;
    if (s->offset == 0 || s->offset % PAGE_BYTES != 0)
        return AT(RANGE, offset);
    if (!(s->target_error > 0 && s->target_error <= 1))
        return AT(RANGE, target_error);
    if (!pack && s->bits_set > s->length * 8)
        return AT(RANGE, bits_set);
    v = check_settled(d, s, c, i < c->n_settled);
    if (v.code == VERDICT_OK)
        v = check_area(d, s, c, pack);
    return v.code == VERDICT_OK ? check_integrity(s, c, slot) : v;
}

struct verdict stage_decode(const struct stage_disk *d, size_t i, uint8_t slot,
                            const struct identity *id, struct commit *c)
{
    bool pack = id->kind == KIND_PACK;
    stage_load(d, i < c->n_settled, pack, &c->stages[i]);
    return check_stage(d, i, slot, pack, c);
}
