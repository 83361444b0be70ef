/* Stage descriptors: encode, and decode with every check of SPEC.md §8.3 in its order.
 */
#include "area.h"

_Static_assert(sizeof(struct stage_disk) == STAGE_BYTES &&
                   offsetof(struct stage_disk, n_blocks) == AREA_OFFSET,
               "SPEC.md section 6");

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

#define AT(code, member)                                                               \
    ((struct verdict){VERDICT_##code, (uint32_t)offsetof(struct stage_disk, member),   \
                      "stage." #member})

/* Integrity areas: an open stage has floors; a sealed or settled stage of more than one
 * page has digests, and floors if it once was open; one sealed at birth never had any.
 */
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
