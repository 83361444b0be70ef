/* Stage descriptors: encode, and decode with every check of SPEC.md §8.3 in its order.
 */
#include "area.h"

_Static_assert(sizeof(struct stage_disk) == STAGE_BYTES &&
                   offsetof(struct stage_disk, n_blocks) == AREA_OFFSET,
               "SPEC.md section 6");

#define F(member, type) FIELD(struct stage_disk, member, type)
const struct field stage_fields[] = {
    F(offset, FIELD_UINT),         F(length, FIELD_UINT),
    F(capacity, FIELD_UINT),       F(keys, FIELD_UINT),
    F(target_error, FIELD_F64),    F(floors_offset, FIELD_UINT),
    F(digests_offset, FIELD_UINT), F(root, FIELD_HEX),
    F(layout, FIELD_UINT),         F(unused, FIELD_UNUSED),
    F(n_blocks, FIELD_UINT),       F(bits_set, FIELD_UINT),
    F(lanes, FIELD_UINT),          F(words, FIELD_UINT),
    F(kind_unused, FIELD_UNUSED),
};
#undef F
const size_t n_stage_fields = sizeof stage_fields / sizeof stage_fields[0];

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
    d.n_blocks = le64_of(s->geometry.n_blocks);
    d.bits_set = le64_of(s->bits_set);
    d.lanes = (uint8_t)s->geometry.lanes;
    d.words = (uint8_t)s->geometry.words;
    memcpy(out, &d, sizeof d);
    if (s->layout != LAYOUT_SPLIT_BLOCKS)
        area_encode(s, out + AREA_OFFSET);
}

#define AT(code, member)                                                               \
    ((struct verdict){VERDICT_##code, (uint32_t)offsetof(struct stage_disk, member),   \
                      "stage." #member})

static void stage_load(const struct stage_disk *d, bool own, struct stage_desc *s)
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
    if (own) {
        area_load((const uint8_t *)d + AREA_OFFSET, s);
        return;
    }
    s->bits_set = le64_get(d->bits_set);
    s->geometry.n_blocks = le64_get(d->n_blocks);
    s->geometry.lanes = d->lanes;
    s->geometry.words = d->words;
}

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
    stage_load(d, area_is_own(id->kind, i, c), &c->stages[i]);
    return check_stage(d, i, slot, id->kind, c);
}
