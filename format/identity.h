/* Identity: what never changes about a filter (SPEC.md §5). It fills the first
 * half of page 0, is written once and never again. */
#ifndef TAMIS_FORMAT_IDENTITY_H
#define TAMIS_FORMAT_IDENTITY_H

#include "field.h"
#include "verdict.h"

enum {
    FORMAT_MAJOR = 1,
    FORMAT_MINOR = 0,
    IDENTITY_BYTES = 2048,
    UUID_BYTES = 16,
    NAME_MAX_BYTES = 255,
    KIND_BLOOM = 1,
    KIND_PACK = 2,
    KIND_RIBBON = 3,
    KIND_LIST = 5,
    GROWTH_NONE = 0,      /* sealed at birth, or one stage */
    GROWTH_GEOMETRIC = 1, /* Almeida et al., section 4 */
};

struct identity_disk {
    uint8_t magic[8];
    struct le16 major;
    struct le16 minor;
    struct le32 header_pages;
    struct le64 compat;
    struct le64 ro_compat;
    struct le64 incompat;
    uint8_t uuid[UUID_BYTES];
    uint8_t store_uuid[UUID_BYTES];
    struct le16 kind;
    struct le16 hash_id;
    struct le16 growth_rule;
    struct le16 name_bytes;
    struct le64 hash_seed;
    struct le64 target_error;
    struct le64 growth_factor;
    struct le64 tightening_ratio;
    struct le64 first_capacity;
    struct le64 created;
    uint8_t name[256];
    uint8_t kind_area[512];
    uint8_t set_id[UUID_BYTES];
    uint8_t unused[1128];
    struct le64 checksum;
};

struct identity {
    uint16_t major, minor;
    uint32_t header_pages; /* 1: sealed at birth; 3: two slots */
    /* Features: of a bit that is set in compat nothing is known, and it is ignored;
     * in ro_compat it forbids writing; with one in incompat nothing is read. */
    uint64_t compat, ro_compat, incompat;
    uint8_t uuid[UUID_BYTES];
    uint8_t store_uuid[UUID_BYTES]; /* zero: built for no store */
    uint16_t kind, hash_id, growth_rule;
    uint64_t hash_seed;
    double target_error;     /* P, of the whole filter */
    double growth_factor;    /* s */
    double tightening_ratio; /* r */
    uint64_t first_capacity; /* n0, keys */
    uint64_t created;        /* microseconds since 1970 */
    uint16_t name_bytes;     /* 0: built without a segment name */
    uint8_t name[NAME_MAX_BYTES + 1];
    uint8_t set_id[UUID_BYTES]; /* of its keys (SPEC.md §5.3); zero: a pack */
};

extern const struct field identity_fields[];
extern const size_t n_identity_fields;

/* The ranges that a writer keeps to and a reader checks. All are inclusive. */
#define ERROR_MIN          1e-8
#define ERROR_MAX          0.5
#define GROWTH_FACTOR_MIN  1.25
#define GROWTH_FACTOR_MAX  16.0
#define TIGHTENING_MIN     0.5
#define TIGHTENING_MAX     0.95
#define FIRST_CAPACITY_MAX (UINT64_C(1) << 32)

/* Kinds that this code knows. Each has a row in lib/filter/header.c. */
static inline bool kind_known(uint16_t kind)
{
    return kind == KIND_BLOOM || kind == KIND_PACK || kind == KIND_RIBBON ||
           kind == KIND_LIST;
}

/* Does a file of this kind answer for one segment? */
static inline bool kind_is_single(uint16_t kind)
{
    return kind == KIND_BLOOM || kind == KIND_RIBBON;
}

/* A segment's name: 1..255 bytes, none of them NUL. */
bool segment_name_valid(const void *name, size_t n_bytes);

/* Bytes from the start of the filter to its first area. */
static inline uint64_t identity_header_bytes(const struct identity *id)
{
    return (uint64_t)id->header_pages * 4096;
}

/* Bits that may be ignored: what this code takes for unused may then be used (SPEC.md
 * 5.2). */
static inline bool identity_has_features(const struct identity *id)
{
    return id->compat || id->ro_compat;
}

void identity_encode(const struct identity *id, uint8_t out[IDENTITY_BYTES]);
/* n_bytes: how many bytes there are at `in`. On any verdict but VERDICT_OK *id is
 * left zeroed. */
struct verdict identity_decode(const uint8_t *in, size_t n_bytes, struct identity *id);

#endif
