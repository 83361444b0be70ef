/* Catalog records: encode, and decode with every check of SPEC.md §13.6 and §13.7 in
 * its order. */
#include "record.h"
#include "checksum.h"
#include "hash.h"
#include "pack.h"

const char *const catalog_names[] = {"meta", "packs", "segments"};

_Static_assert(sizeof(struct meta_disk) == META_BYTES, "SPEC.md section 13");
_Static_assert(sizeof(struct record_disk) == RECORD_HEAD_BYTES &&
                   sizeof(struct part_disk) == PART_BYTES,
               "SPEC.md section 13");
_Static_assert(sizeof(struct listing_disk) == LISTING_BYTES &&
                   sizeof(struct dead_disk) == DEAD_HEAD_BYTES,
               "SPEC.md section 17");

#define F(member, type)    FIELD_OF(struct meta_disk, struct meta, member, type)
#define NONE(member, type) FIELD(struct meta_disk, member, type)
const struct field meta_fields[] = {
    NONE(magic, FIELD_BYTES),       F(major, FIELD_UINT),
    F(minor, FIELD_UINT),           F(hash_id, FIELD_UINT),
    F(complete, FIELD_UINT),        F(compat, FIELD_HEX),
    F(ro_compat, FIELD_HEX),        F(incompat, FIELD_HEX),
    F(store_uuid, FIELD_UUID),      F(hash_seed, FIELD_HEX),
    F(target_error, FIELD_F64),     F(growth_factor, FIELD_F64),
    F(tightening_ratio, FIELD_F64), F(first_capacity, FIELD_UINT),
    F(created, FIELD_TIME),         NONE(unused, FIELD_UNUSED),
    NONE(checksum, FIELD_HEX),
};
#undef F
#undef NONE
const size_t n_meta_fields = sizeof meta_fields / sizeof meta_fields[0];

void meta_encode(const struct meta *m, uint8_t out[META_BYTES])
{
    struct meta_disk d;
    memset(&d, 0, sizeof d);
    memcpy(d.magic, MAGIC_STORE, sizeof d.magic);
    fields_store(meta_fields, n_meta_fields, m, &d);
    memcpy(out, &d, sizeof d);
    checksum_set(out, META_BYTES, 0);
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
    if (magic_is(d.magic, MAGIC_OF("T", "S", "T"))) /* the first draft's */
        return AT(DRAFT, magic);
    if (!magic_is(d.magic, MAGIC_STORE))
        return AT(MAGIC, magic);
    if (le16_get(d.major) != FORMAT_MAJOR)
        return AT(VERSION, major);
    if (!checksum_good(&d, sizeof d, 0))
        return AT(CHECKSUM, checksum);
    fields_load(meta_fields, n_meta_fields, &d, m);
    struct verdict v = meta_check(&d, m);
    if (v.code != VERDICT_OK)
        memset(m, 0, sizeof *m);
    return v;
}

static uint64_t name_seed(const void *name, size_t name_bytes)
{
    return XXH3_64bits(name, name_bytes);
}

/* Adds a part behind the n parts that the record has. */
static size_t add_part(uint8_t *record, size_t n, uint8_t kind, const uint8_t *uuid,
                       uint64_t digest, uint32_t column)
{
    struct part_disk p = {
        .table_digest = le64_of(digest), .column = le32_of(column), .kind = kind};
    memcpy(p.uuid, uuid, sizeof p.uuid);
    memcpy(record + RECORD_HEAD_BYTES + n * PART_BYTES, &p, sizeof p);
    return n + 1;
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

    size_t n = 0;
    if (record_packed(r))
        n = add_part(out, n, PART_COLUMN, r->place.uuid, r->place.digest,
                     r->place.column);
    else if (r->state != RECORD_NO_FILTER)
        n = add_part(out, n, PART_FILE, r->uuid, r->table_digest, 0);
    if (record_listed(r))
        n = add_part(out, n, PART_LIST, r->list_uuid, r->list_digest, 0);
    d.n_parts = (uint8_t)n;
    memcpy(out, &d, sizeof d);
    n = sizeof d + n * PART_BYTES;
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
    r->place = (struct pack_place){.digest = 0};
    memset(r->list_uuid, 0, sizeof r->list_uuid);
    r->list_digest = 0;
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
    if (d->n_parts > RECORD_MAX_PARTS)
        return AT(RANGE, n_parts);
    if (!r->compat && !r->ro_compat && !all_zero(d->unused, sizeof d->unused))
        return AT(UNUSED, unused);
    return record_check_range(r);
}

static bool length_agrees(const struct record_disk *d, size_t n_bytes)
{
    return n_bytes == sizeof *d + d->n_parts * (size_t)PART_BYTES +
                          le16_get(d->first_bytes) + le16_get(d->last_bytes) + 8;
}

/* A range whose ends are exchanged would call every key absent. */
static bool range_in_order(const struct record *r, const uint8_t *ends)
{
    struct piece first = {ends, r->first_bytes}, last = {ends + first.n, r->last_bytes};
    return name_compare(first, last) <= 0;
}

/* ---- parts ---- */

#define AT_PART(code, i, member)                                                       \
    ((struct verdict){VERDICT_##code,                                                  \
                      (uint32_t)(RECORD_HEAD_BYTES + (i)*PART_BYTES +                  \
                                 offsetof(struct part_disk, member)),                  \
                      "part." #member})

/* Part i, with the kind of the one before, or 0. */
static struct verdict part_check(const struct part_disk *p, unsigned i, uint8_t before,
                                 const struct record *r)
{
    bool is_file = p->kind == PART_FILE, is_column = p->kind == PART_COLUMN;
    uint32_t column = le32_get(p->column);
    if (p->kind < before || (p->kind == before && p->kind <= PART_LIST))
        return AT_PART(RANGE, i, kind);
    if (p->kind > PART_LIST)
        return AT_PART(KIND, i, kind);
    if (r->state != RECORD_SEALED && !(is_file && r->state == RECORD_GROWING))
        return AT_PART(RANGE, i, kind);
    if (is_column && before == PART_FILE)
        return AT_PART(RANGE, i, kind);
    if (all_zero(p->uuid, UUID_BYTES) ||
        (is_file && memcmp(p->uuid, r->uuid, UUID_BYTES) != 0))
        return AT_PART(RANGE, i, uuid);
    if (is_file && le64_get(p->table_digest) != r->table_digest)
        return AT_PART(RANGE, i, table_digest);
    if (is_column && column >= PACK_MAX_COLUMNS)
        return AT_PART(RANGE, i, column);
    if (!is_column && column)
        return AT_PART(UNUSED, i, column);
    if (!r->compat && !r->ro_compat && !all_zero(p->unused, sizeof p->unused))
        return AT_PART(UNUSED, i, unused);
    return VERDICT_GOOD;
}

static void part_load(const struct part_disk *p, struct record *r)
{
    if (p->kind == PART_COLUMN) {
        r->place = part_place(p);
    } else if (p->kind == PART_LIST) {
        memcpy(r->list_uuid, p->uuid, UUID_BYTES);
        r->list_digest = le64_get(p->table_digest);
    }
}

static struct verdict load_parts(const struct record_disk *d, struct record *r)
{
    const struct part_disk *p = (const void *)(d + 1);
    for (unsigned i = 0; i < d->n_parts; i++) {
        struct verdict v = part_check(&p[i], i, i ? p[i - 1].kind : 0, r);
        if (v.code != VERDICT_OK)
            return v;
        part_load(&p[i], r);
    }
    bool answers = d->n_parts && p->kind <= PART_COLUMN;
    return answers || r->state == RECORD_NO_FILTER ? VERDICT_GOOD : AT(RANGE, n_parts);
}

static struct verdict decode_head(const uint8_t *in, size_t n_bytes, const void *name,
                                  size_t name_bytes, struct record *r)
{
    const struct record_disk *d = (const void *)in;
    if (n_bytes < sizeof *d + 8)
        return (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "record"};
    if (!segment_name_valid(name, name_bytes) ||
        !checksum_good(in, n_bytes, name_seed(name, name_bytes)))
        return (struct verdict){VERDICT_CHECKSUM, (uint32_t)n_bytes - 8, "checksum"};
    record_load(d, r);
    struct verdict v = record_check(d, r);
    if (v.code == VERDICT_OK && !length_agrees(d, n_bytes))
        v = (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "record"};
    if (v.code == VERDICT_OK && !range_in_order(r, record_keys(d)))
        v = AT(RANGE, first_bytes);
    return v.code == VERDICT_OK ? load_parts(d, r) : v;
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
        const uint8_t *keys = record_keys((const void *)in);
        memcpy(r->first, keys, r->first_bytes);
        memcpy(r->last, keys + r->first_bytes, r->last_bytes);
    }
    return v;
}

const struct part_disk *record_parts(const uint8_t *in, size_t n_bytes,
                                     const void *name, size_t name_bytes, unsigned *n)
{
    struct record r;
    const struct record_disk *d = (const void *)in;
    struct verdict v = record_decode_head(in, n_bytes, name, name_bytes, &r);
    *n = 0;
    if ((v.code != VERDICT_OK && v.code != VERDICT_KIND) ||
        d->n_parts > RECORD_MAX_PARTS || !length_agrees(d, n_bytes))
        return NULL;
    *n = d->n_parts;
    return (const void *)(d + 1);
}

/* ---- packs ---- */

#undef AT
#define AT(code, member) VERDICT_AT(VERDICT_##code, struct listing_disk, member)

uint64_t name_sum(const void *name, size_t name_bytes, uint32_t column)
{
    return XXH3_64bits_withSeed(name, name_bytes, column);
}

void listing_encode(const struct listing *l, const uint8_t uuid[UUID_BYTES],
                    uint8_t out[LISTING_BYTES])
{
    struct listing_disk d = {
        .table_digest = le64_of(l->table_digest),
        .chunks_sum = le64_of(l->chunks_sum),
        .names_sum = le64_of(l->names_sum),
        .n_columns = le32_of(l->n_columns),
        .n_listed = le32_of(l->n_listed),
        .n_overridden = le32_of(l->n_overridden),
    };
    memcpy(out, &d, sizeof d);
    checksum_set(out, sizeof d, name_seed(uuid, UUID_BYTES));
}

struct verdict listing_decode(const uint8_t *in, size_t n_bytes,
                              const uint8_t uuid[UUID_BYTES], struct listing *l)
{
    struct listing_disk d;
    memset(l, 0, sizeof *l);
    if (n_bytes != sizeof d)
        return (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "listing"};
    memcpy(&d, in, sizeof d);
    if (!checksum_good(&d, sizeof d, name_seed(uuid, UUID_BYTES)))
        return AT(CHECKSUM, checksum);
    struct listing out = {
        .table_digest = le64_get(d.table_digest),
        .chunks_sum = le64_get(d.chunks_sum),
        .names_sum = le64_get(d.names_sum),
        .n_columns = le32_get(d.n_columns),
        .n_listed = le32_get(d.n_listed),
        .n_overridden = le32_get(d.n_overridden),
    };
    if (out.n_columns < 1 || out.n_columns > PACK_MAX_COLUMNS)
        return AT(RANGE, n_columns);
    if (out.n_listed > out.n_columns)
        return AT(RANGE, n_listed);
    if (out.n_overridden > out.n_columns - out.n_listed ||
        (!out.n_overridden && !out.n_listed))
        return AT(RANGE, n_overridden);
    *l = out;
    return VERDICT_GOOD;
}

void chunk_key(const uint8_t uuid[UUID_BYTES], uint32_t number,
               uint8_t key[CHUNK_KEY_BYTES])
{
    memcpy(key, uuid, UUID_BYTES);
    for (int i = 0; i < 4; i++)
        key[UUID_BYTES + i] = (uint8_t)(number >> (24 - 8 * i));
}

static uint64_t chunk_seed(const uint8_t uuid[UUID_BYTES], uint32_t number)
{
    uint8_t key[CHUNK_KEY_BYTES];
    chunk_key(uuid, number, key);
    return name_seed(key, sizeof key);
}

uint64_t chunk_seal(const uint8_t uuid[UUID_BYTES], uint32_t n_columns, uint32_t number,
                    uint8_t *bits)
{
    size_t n = chunk_bytes(n_columns, number);
    checksum_set(bits, n, chunk_seed(uuid, number));
    struct le64 sum;
    memcpy(&sum, bits + n - sizeof sum, sizeof sum);
    return le64_get(sum);
}

struct verdict chunk_check(const uint8_t *in, size_t n_bytes,
                           const uint8_t uuid[UUID_BYTES], uint32_t n_columns,
                           uint32_t number, uint64_t *checksum)
{
    struct le64 sum;
    if (number >= listing_chunks(n_columns) ||
        n_bytes != chunk_bytes(n_columns, number))
        return (struct verdict){VERDICT_SHORT, (uint32_t)n_bytes, "chunk"};
    size_t n = n_bytes - sizeof sum;
    uint32_t left = n_columns - number * CHUNK_COLUMNS;
    if (!checksum_good(in, n_bytes, chunk_seed(uuid, number)))
        return (struct verdict){VERDICT_CHECKSUM, (uint32_t)n, "checksum"};
    if (left < 8 * n && in[n - 1] >> left % 8) /* bits behind the last column */
        return (struct verdict){VERDICT_UNUSED, (uint32_t)n - 1, "chunk"};
    memcpy(&sum, in + n, sizeof sum);
    *checksum = le64_get(sum);
    return VERDICT_GOOD;
}

/* ---- tombstones ---- */

#define DEAD(code, member) VERDICT_AT(VERDICT_##code, struct dead_disk, member)

void dead_encode(const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                 uint32_t n_columns, uint8_t *file)
{
    struct dead_disk d = {.major = le16_of(FORMAT_MAJOR),
                          .minor = le16_of(FORMAT_MINOR),
                          .n_columns = le32_of(n_columns),
                          .table_digest = le64_of(table_digest)};
    memcpy(d.magic, MAGIC_DEAD, sizeof d.magic);
    memcpy(d.uuid, uuid, UUID_BYTES);
    memcpy(file, &d, sizeof d);
    checksum_set(file, dead_bytes(n_columns), 0);
}

struct verdict dead_decode(const uint8_t *in, size_t n_bytes,
                           const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                           uint32_t *n_columns)
{
    struct dead_disk d;
    *n_columns = 0;
    if (n_bytes < sizeof d)
        return DEAD(SHORT, magic);
    memcpy(&d, in, sizeof d);
    uint32_t n = le32_get(d.n_columns);
    if (!magic_is(d.magic, MAGIC_DEAD))
        return DEAD(MAGIC, magic);
    if (le16_get(d.major) != FORMAT_MAJOR)
        return DEAD(VERSION, major);
    if (n < 1 || n > PACK_MAX_COLUMNS || n_bytes != dead_bytes(n))
        return DEAD(SHORT, n_columns);
    if (!checksum_good(in, n_bytes, 0))
        return DEAD(CHECKSUM, magic);
    if (memcmp(d.uuid, uuid, UUID_BYTES) != 0)
        return DEAD(IDENTITY, uuid);
    if (le64_get(d.table_digest) != table_digest)
        return DEAD(IDENTITY, table_digest);
    *n_columns = n;
    return VERDICT_GOOD;
}
