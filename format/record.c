/* Catalog records: encode, and decode with every check of SPEC.md §13.6 and §13.7 in
 * its order. */
#include "record.h"
#include "checksum.h"
#include "hash.h"
#include "pack.h"

_Static_assert(sizeof(struct meta_disk) == META_BYTES, "SPEC.md section 13");
_Static_assert(sizeof(struct record_disk) == RECORD_HEAD_BYTES, "SPEC.md section 13");

void meta_encode(const struct meta *m, uint8_t out[META_BYTES])
{
    struct meta_disk d;
    memset(&d, 0, sizeof d);
    memcpy(d.magic, MAGIC_STORE, sizeof d.magic);
    d.major = le16_of(m->major);
    d.minor = le16_of(m->minor);
    d.hash_id = le16_of(m->hash_id);
    d.complete = m->complete;
    d.for_packs = m->for_packs;
    d.compat = le64_of(m->compat);
    d.ro_compat = le64_of(m->ro_compat);
    d.incompat = le64_of(m->incompat);
    memcpy(d.store_uuid, m->store_uuid, sizeof d.store_uuid);
    d.hash_seed = le64_of(m->hash_seed);
    d.target_error = le64_of_f64(m->target_error);
    d.growth_factor = le64_of_f64(m->growth_factor);
    d.tightening_ratio = le64_of_f64(m->tightening_ratio);
    d.first_capacity = le64_of(m->first_capacity);
    d.created = le64_of(m->created);
    memcpy(out, &d, sizeof d);
    checksum_set(out, META_BYTES, 0);
}

static void meta_load(const struct meta_disk *d, struct meta *m)
{
    m->major = le16_get(d->major);
    m->minor = le16_get(d->minor);
    m->hash_id = le16_get(d->hash_id);
    m->complete = d->complete;
    m->for_packs = d->for_packs;
    m->compat = le64_get(d->compat);
    m->ro_compat = le64_get(d->ro_compat);
    m->incompat = le64_get(d->incompat);
    memcpy(m->store_uuid, d->store_uuid, sizeof m->store_uuid);
    m->hash_seed = le64_get(d->hash_seed);
    m->target_error = le64_get_f64(d->target_error);
    m->growth_factor = le64_get_f64(d->growth_factor);
    m->tightening_ratio = le64_get_f64(d->tightening_ratio);
    m->first_capacity = le64_get(d->first_capacity);
    m->created = le64_get(d->created);
}

#define AT(code, member) VERDICT_AT(VERDICT_##code, struct meta_disk, member)

static struct verdict meta_check(const struct meta_disk *d, const struct meta *m)
{
    if (m->incompat)
        return AT(FLAGS, incompat);
    if (!hash_id_known(m->hash_id))
        return AT(KIND, hash_id);
    if (m->complete > 1)
        return AT(RANGE, complete);
    if (m->for_packs > 1)
        return AT(RANGE, for_packs);
    if (all_zero(m->store_uuid, UUID_BYTES))
        return AT(RANGE, store_uuid);
    if (!(m->target_error >= ERROR_MIN && m->target_error <= ERROR_MAX))
        return AT(RANGE, target_error);
    if (!(m->growth_factor >= GROWTH_FACTOR_MIN &&
          m->growth_factor <= GROWTH_FACTOR_MAX))
        return AT(RANGE, growth_factor);
    if (!(m->tightening_ratio >= TIGHTENING_MIN &&
          m->tightening_ratio <= TIGHTENING_MAX))
        return AT(RANGE, tightening_ratio);
    if (m->first_capacity < 1 || m->first_capacity > FIRST_CAPACITY_MAX)
        return AT(RANGE, first_capacity);
    if (!m->compat && !m->ro_compat && !all_zero(d->unused, sizeof d->unused))
        return AT(UNUSED, unused);
    return VERDICT_GOOD;
}

struct verdict meta_decode(const uint8_t *in, size_t n_bytes, struct meta *m)
{
    struct meta_disk d;
    memset(m, 0, sizeof *m);
    if (n_bytes < sizeof d)
        return (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "meta"};
    memcpy(&d, in, sizeof d);
    if (magic_is_draft_store(d.magic))
        return AT(DRAFT, magic);
    if (!magic_is(d.magic, MAGIC_STORE))
        return AT(MAGIC, magic);
    if (le16_get(d.major) != FORMAT_MAJOR)
        return AT(VERSION, major);
    if (!checksum_good(&d, sizeof d, 0))
        return AT(CHECKSUM, checksum);
    meta_load(&d, m);
    struct verdict v = meta_check(&d, m);
    if (v.code != VERDICT_OK)
        memset(m, 0, sizeof *m);
    return v;
}

static uint64_t name_seed(const void *name, size_t name_bytes)
{
    return XXH3_64bits(name, name_bytes);
}

size_t record_encode(const struct record *r, const void *name, size_t name_bytes,
                     uint8_t out[RECORD_MAX_BYTES])
{
    struct record_disk d;
    memset(&d, 0, sizeof d);
    d.state = r->state;
    d.kind = r->kind;
    d.has_range = r->has_range;
    d.binding_bytes = r->binding_bytes;
    d.first_bytes = le16_of(r->first_bytes);
    d.last_bytes = le16_of(r->last_bytes);
    d.compat = le64_of(r->compat);
    d.ro_compat = le64_of(r->ro_compat);
    d.incompat = le64_of(r->incompat);
    memcpy(d.uuid, r->uuid, sizeof d.uuid);
    d.generation = le64_of(r->generation);
    d.table_digest = le64_of(r->table_digest);
    d.file_bytes = le64_of(r->file_bytes);
    d.keys = le64_of(r->keys);
    d.target_error = le64_of_f64(r->target_error);
    d.watermark = le64_of(r->watermark);
    d.min_sequence = le64_of(r->min_sequence);
    d.min_stages = le32_of(r->min_stages);
    d.rank = le32_of(r->rank);
    d.created = le64_of(r->created);
    memcpy(d.binding, r->binding, r->binding_bytes);
    memcpy(d.place_uuid, r->place.uuid, sizeof d.place_uuid);
    d.place_digest = le64_of(r->place.digest);
    d.band = le32_of(r->place.band);
    d.column = le32_of(r->place.column);
    memcpy(d.list_uuid, r->list_uuid, sizeof d.list_uuid);
    d.list_digest = le64_of(r->list_digest);

    size_t n = sizeof d;
    memcpy(out, &d, sizeof d);
    memcpy(out + n, r->first, r->first_bytes);
    n += r->first_bytes;
    memcpy(out + n, r->last, r->last_bytes);
    n += (size_t)r->last_bytes + 8;
    checksum_set(out, n, name_seed(name, name_bytes));
    return n;
}

static void record_load(const struct record_disk *d, struct record *r)
{
    r->state = d->state;
    r->kind = d->kind;
    r->has_range = d->has_range;
    r->binding_bytes = d->binding_bytes;
    r->first_bytes = le16_get(d->first_bytes);
    r->last_bytes = le16_get(d->last_bytes);
    r->compat = le64_get(d->compat);
    r->ro_compat = le64_get(d->ro_compat);
    r->incompat = le64_get(d->incompat);
    memcpy(r->uuid, d->uuid, sizeof r->uuid);
    r->generation = le64_get(d->generation);
    r->table_digest = le64_get(d->table_digest);
    r->file_bytes = le64_get(d->file_bytes);
    r->keys = le64_get(d->keys);
    r->target_error = le64_get_f64(d->target_error);
    r->watermark = le64_get(d->watermark);
    r->min_sequence = le64_get(d->min_sequence);
    r->min_stages = le32_get(d->min_stages);
    r->rank = le32_get(d->rank);
    r->created = le64_get(d->created);
    memcpy(r->binding, d->binding, sizeof r->binding);
    memcpy(r->place.uuid, d->place_uuid, sizeof r->place.uuid);
    r->place.digest = le64_get(d->place_digest);
    r->place.band = le32_get(d->band);
    r->place.column = le32_get(d->column);
    memcpy(r->list_uuid, d->list_uuid, sizeof r->list_uuid);
    r->list_digest = le64_get(d->list_digest);
}

#undef AT
#define AT(code, member) VERDICT_AT(VERDICT_##code, struct record_disk, member)

static struct verdict record_check_range(const struct record *r)
{
    if (r->has_range > 1 || (r->has_range && r->state != RECORD_SEALED))
        return AT(RANGE, has_range);
    if (r->first_bytes > (r->has_range ? RANGE_MAX_BYTES : 0))
        return AT(RANGE, first_bytes);
    if (r->last_bytes > (r->has_range ? RANGE_MAX_BYTES : 0))
        return AT(RANGE, last_bytes);
    return VERDICT_GOOD;
}

static struct verdict record_check_place(const struct record *r)
{
    if (!record_packed(r))
        return r->place.digest || r->place.band || r->place.column
                   ? AT(UNUSED, place_digest)
                   : VERDICT_GOOD;
    if (r->state != RECORD_SEALED)
        return AT(RANGE, place_uuid);
    if (r->place.band >= PACK_MAX_BANDS)
        return AT(RANGE, band);
    if (r->place.column >= PACK_MAX_COLUMNS)
        return AT(RANGE, column);
    return VERDICT_GOOD;
}

static struct verdict record_check_list(const struct record *r)
{
    if (record_listed(r) && r->state != RECORD_SEALED)
        return AT(RANGE, list_uuid);
    return r->list_digest && !record_listed(r) ? AT(UNUSED, list_digest) : VERDICT_GOOD;
}

static struct verdict record_check(const struct record_disk *d, const struct record *r)
{
    if (r->incompat)
        return AT(FLAGS, incompat);
    if (r->state < RECORD_NO_FILTER || r->state > RECORD_SEALED)
        return AT(RANGE, state);
    if (r->state == RECORD_NO_FILTER ? r->kind != 0 : !kind_is_single(r->kind))
        return AT(KIND, kind);
    if (all_zero(r->uuid, UUID_BYTES) != (r->state == RECORD_NO_FILTER))
        return AT(RANGE, uuid);
    if (r->state != RECORD_NO_FILTER &&
        !(r->target_error >= ERROR_MIN && r->target_error <= ERROR_MAX))
        return AT(RANGE, target_error);
    if (r->min_stages > MAX_STAGES)
        return AT(RANGE, min_stages);
    if (r->binding_bytes > BINDING_MAX_BYTES)
        return AT(RANGE, binding_bytes);
    if (!all_zero(d->binding + r->binding_bytes, BINDING_MAX_BYTES - r->binding_bytes))
        return AT(UNUSED, binding);
    struct verdict v = record_check_place(r);
    if (v.code == VERDICT_OK)
        v = record_check_list(r);
    return v.code == VERDICT_OK ? record_check_range(r) : v;
}

/* A range whose ends are exchanged would call every key absent. */
static bool range_in_order(const struct record *r, const uint8_t *ends)
{
    size_t n = r->first_bytes < r->last_bytes ? r->first_bytes : r->last_bytes;
    int order = memcmp(ends, ends + r->first_bytes, n);
    return order < 0 || (order == 0 && r->first_bytes <= r->last_bytes);
}

static struct verdict decode_head(const uint8_t *in, size_t n_bytes, const void *name,
                                  size_t name_bytes, struct record *r)
{
    const struct record_disk *d = (const void *)in;
    if (n_bytes < sizeof *d + 8)
        return (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "record"};
    if (!checksum_good(in, n_bytes, name_seed(name, name_bytes)))
        return (struct verdict){VERDICT_CHECKSUM, (uint32_t)n_bytes - 8, "checksum"};
    record_load(d, r);
    struct verdict v = record_check(d, r);
    if (v.code == VERDICT_OK &&
        n_bytes != sizeof *d + r->first_bytes + r->last_bytes + (size_t)8)
        v = (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "record"};
    if (v.code == VERDICT_OK && !range_in_order(r, in + sizeof *d))
        v = AT(RANGE, first_bytes);
    return v;
}

struct verdict record_decode_head(const uint8_t *in, size_t n_bytes, const void *name,
                                  size_t name_bytes, struct record *r)
{
    struct verdict v = decode_head(in, n_bytes, name, name_bytes, r);
    if (v.code != VERDICT_OK)
        memset(r, 0, offsetof(struct record, first));
    return v;
}

struct verdict record_decode(const uint8_t *in, size_t n_bytes, const void *name,
                             size_t name_bytes, struct record *r)
{
    memset(r, 0, sizeof *r);
    struct verdict v = record_decode_head(in, n_bytes, name, name_bytes, r);
    if (v.code == VERDICT_OK) {
        memcpy(r->first, in + RECORD_HEAD_BYTES, r->first_bytes);
        memcpy(r->last, in + RECORD_HEAD_BYTES + r->first_bytes, r->last_bytes);
    }
    return v;
}
