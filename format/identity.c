/* Identity: encode, and decode with every check of SPEC.md §8.1 in its order. */
#include "identity.h"
#include "checksum.h"
#include "hash.h"

_Static_assert(sizeof(struct identity_disk) == IDENTITY_BYTES, "SPEC.md section 5");

#define F(member, type)    FIELD_OF(struct identity_disk, struct identity, member, type)
#define NONE(member, type) FIELD(struct identity_disk, member, type)
const struct field identity_fields[] = {
    NONE(magic, FIELD_BYTES),       F(major, FIELD_UINT),
    F(minor, FIELD_UINT),           F(header_pages, FIELD_UINT),
    F(compat, FIELD_HEX),           F(ro_compat, FIELD_HEX),
    F(incompat, FIELD_HEX),         F(uuid, FIELD_UUID),
    F(store_uuid, FIELD_UUID),      F(kind, FIELD_UINT),
    F(hash_id, FIELD_UINT),         F(growth_rule, FIELD_UINT),
    F(name_bytes, FIELD_UINT),      F(hash_seed, FIELD_HEX),
    F(target_error, FIELD_F64),     F(growth_factor, FIELD_F64),
    F(tightening_ratio, FIELD_F64), F(first_capacity, FIELD_UINT),
    F(created, FIELD_TIME),         NONE(name, FIELD_BYTES),
    NONE(kind_area, FIELD_UNUSED),  F(set_id, FIELD_UUID),
    NONE(unused, FIELD_UNUSED),     NONE(checksum, FIELD_HEX),
};
#undef F
#undef NONE
const size_t n_identity_fields = sizeof identity_fields / sizeof identity_fields[0];

bool segment_name_valid(const void *name, size_t n_bytes)
{
    return name && n_bytes >= 1 && n_bytes <= NAME_MAX_BYTES &&
           !memchr(name, 0, n_bytes);
}

void identity_encode(const struct identity *id, uint8_t out[IDENTITY_BYTES])
{
    struct identity_disk d;
    memset(&d, 0, sizeof d);
    memcpy(d.magic, MAGIC_FILTER, sizeof d.magic);
    fields_store(identity_fields, n_identity_fields, id, &d);
    memcpy(d.name, id->name, id->name_bytes);
    memcpy(out, &d, sizeof d);
    checksum_set(out, IDENTITY_BYTES, 0);
}

#define AT(code, member) VERDICT_AT(VERDICT_##code, struct identity_disk, member)

/* A NaN fails both comparisons, and so the check. */
static bool within(double v, double low, double high)
{
    return v >= low && v <= high;
}

static struct verdict check_growth(const struct identity_disk *d,
                                   const struct identity *id)
{
    if (id->growth_rule == GROWTH_NONE) {
        /* The bytes, not the values: a -0.0 is no unused field. */
        if (!all_zero(&d->growth_factor, sizeof d->growth_factor))
            return AT(RANGE, growth_factor);
        if (!all_zero(&d->tightening_ratio, sizeof d->tightening_ratio))
            return AT(RANGE, tightening_ratio);
        if (id->first_capacity != 0)
            return AT(RANGE, first_capacity);
        return VERDICT_GOOD;
    }
    if (id->growth_rule != GROWTH_GEOMETRIC)
        return AT(KIND, growth_rule);
    if (id->header_pages != 3)
        return AT(RANGE, growth_rule);
    if (!within(id->growth_factor, GROWTH_FACTOR_MIN, GROWTH_FACTOR_MAX))
        return AT(RANGE, growth_factor);
    if (!within(id->tightening_ratio, TIGHTENING_MIN, TIGHTENING_MAX))
        return AT(RANGE, tightening_ratio);
    if (id->first_capacity < 1 || id->first_capacity > FIRST_CAPACITY_MAX)
        return AT(RANGE, first_capacity);
    return VERDICT_GOOD;
}

/* Other kinds are made in one go, and a pack for many segments (SPEC.md §17.3, §18.2,
 * §19.3). */
static struct verdict check_kind(const struct identity *id)
{
    if (all_zero(id->set_id, UUID_BYTES) != (id->kind == KIND_PACK))
        return AT(RANGE, set_id);
    if (id->kind != KIND_BLOOM &&
        (id->header_pages != 1 || id->growth_rule != GROWTH_NONE))
        return AT(RANGE, kind);
    if (id->kind == KIND_PACK && id->name_bytes)
        return AT(RANGE, name_bytes);
    return VERDICT_GOOD;
}

static struct verdict check_ranges(const struct identity_disk *d,
                                   const struct identity *id)
{
    if (id->header_pages != 1 && id->header_pages != 3)
        return AT(RANGE, header_pages);
    if (all_zero(id->uuid, UUID_BYTES))
        return AT(RANGE, uuid);
    if (!kind_known(id->kind))
        return AT(KIND, kind);
    if (!hash_id_known(id->hash_id))
        return AT(KIND, hash_id);
    if (!within(id->target_error, ERROR_MIN, ERROR_MAX))
        return AT(RANGE, target_error);
    if (id->name_bytes > NAME_MAX_BYTES)
        return AT(RANGE, name_bytes);
    if (id->name_bytes && !segment_name_valid(id->name, id->name_bytes))
        return AT(RANGE, name);
    if (!all_zero(d->name + id->name_bytes, sizeof d->name - id->name_bytes))
        return AT(UNUSED, name);
    /* A newer minor version may fill unused bytes, under a compat bit that we may
     * ignore: then they are not ours to judge. */
    if (!identity_has_features(id)) {
        if (!all_zero(d->kind_area, sizeof d->kind_area))
            return AT(UNUSED, kind_area);
        if (!all_zero(d->unused, sizeof d->unused))
            return AT(UNUSED, unused);
    }
    struct verdict v = check_growth(d, id);
    return v.code == VERDICT_OK ? check_kind(id) : v;
}

static struct verdict decode(const struct identity_disk *d, struct identity *id)
{
    /* Before the checksum: another major version may keep it elsewhere. */
    if (le16_get(d->major) != FORMAT_MAJOR)
        return AT(VERSION, major);
    if (!checksum_good(d, sizeof *d, 0))
        return AT(CHECKSUM, checksum);
    fields_load(identity_fields, n_identity_fields, d, id);
    memcpy(id->name, d->name, sizeof id->name);
    if (id->incompat)
        return AT(FLAGS, incompat);
    return check_ranges(d, id);
}

struct verdict identity_decode(const uint8_t *in, size_t n_bytes, struct identity *id)
{
    struct identity_disk d;
    memset(id, 0, sizeof *id);
    /* A short text file is no filter; a filter cut short is one that is damaged. */
    if (n_bytes < MAGIC_BYTES)
        return AT(MAGIC, magic);
    if (magic_is_draft_file(in))
        return AT(DRAFT, magic);
    if (!magic_is(in, MAGIC_FILTER))
        return AT(MAGIC, magic);
    if (n_bytes < sizeof d)
        return (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "identity"};
    memcpy(&d, in, sizeof d);
    struct verdict v = decode(&d, id);
    if (v.code != VERDICT_OK)
        memset(id, 0, sizeof *id);
    return v;
}
