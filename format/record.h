/* Catalog records: the values that the LMDB catalog holds (SPEC.md §13, §17.4). LMDB
 * checks nothing of what it returns, so each has a checksum of its own. */
#ifndef TAMIS_FORMAT_RECORD_H
#define TAMIS_FORMAT_RECORD_H

#include "commit.h"

enum {
    META_BYTES = 256,
    RECORD_HEAD_BYTES = 192,
    PART_BYTES = 32,
    RECORD_MAX_PARTS = 8,
    RANGE_MAX_BYTES = 1024, /* a longer last key: no range; a longer first: cut */
    RECORD_MAX_BYTES =
        RECORD_HEAD_BYTES + RECORD_MAX_PARTS * PART_BYTES + 2 * RANGE_MAX_BYTES + 8,
    RECORD_NO_FILTER = 1,
    RECORD_GROWING = 2,
    RECORD_SEALED = 3,
    PART_FILE = 1, /* the filter's own */
    PART_COLUMN = 2,
    PART_LIST = 3,
    LISTING_BYTES = 44,
    CHUNK_KEY_BYTES = UUID_BYTES + 4,
    CHUNK_MAX_BYTES = 4080, /* one page of LMDB's with its head */
    CHUNK_COLUMNS = 8 * (CHUNK_MAX_BYTES - 8),
};

/* Databases, in LMDB's order, and the only key of the first. */
extern const char *const catalog_names[3];
#define CATALOG_META_KEY "store"

/* Database `meta`. */
struct meta_disk {
    uint8_t magic[8];
    struct le16 major;
    struct le16 minor;
    struct le16 hash_id;
    struct le16 complete;
    struct le64 compat;
    struct le64 ro_compat;
    struct le64 incompat;
    uint8_t store_uuid[UUID_BYTES];
    struct le64 hash_seed;
    struct le64 target_error;
    struct le64 growth_factor;
    struct le64 tightening_ratio;
    struct le64 first_capacity;
    struct le64 created;
    uint8_t unused[144];
    struct le64 checksum;
};

struct meta {
    uint16_t major, minor, hash_id;
    uint16_t complete; /* 1: every segment of the engine is listed */
    uint64_t compat, ro_compat, incompat;
    uint8_t store_uuid[UUID_BYTES];
    uint64_t hash_seed;
    double target_error, growth_factor, tightening_ratio;
    uint64_t first_capacity;
    uint64_t created;
};

/* Bytes, in memory that is the caller's. */
struct piece {
    const uint8_t *at; /* NULL: none */
    size_t n;
};
/* Below 0, 0 or above: as bytes, a prefix before longer names. */
static inline int name_compare(struct piece a, struct piece b)
{
    int order = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* Database `segments`, key: the segment's name. After the head come the parts, the
 * bytes of the first and the last key, then the checksum, seeded with XXH3-64 of the
 * name: a record found under another name fails. */
struct record_disk {
    uint8_t state;
    uint8_t kind;
    uint8_t has_range;
    uint8_t binding_bytes;
    struct le16 first_bytes;
    struct le16 last_bytes;
    struct le64 compat;
    struct le64 ro_compat;
    struct le64 incompat;
    uint8_t uuid[UUID_BYTES];
    struct le64 generation;
    struct le64 table_digest;
    struct le64 file_bytes;
    struct le64 keys;
    struct le64 target_error;
    struct le64 watermark;
    struct le64 min_sequence;
    struct le32 min_stages;
    struct le32 rank;
    struct le64 created;
    uint8_t binding[BINDING_MAX_BYTES];
    uint8_t n_parts;
    uint8_t unused[7];
};

/* A file that the segment has. */
struct part_disk {
    uint8_t uuid[UUID_BYTES]; /* of the file in filters/ */
    struct le64 table_digest;
    struct le32 column; /* of the pack, not of the band; 0 unless PART_COLUMN */
    uint8_t kind;
    uint8_t unused[3];
};

/* Where a filter is in a pack. */
struct pack_place {
    uint8_t uuid[UUID_BYTES]; /* the pack's */
    uint64_t digest;          /* its table digest */
    uint32_t column;          /* of the pack, not of the band */
    uint32_t zero;            /* no padding: places are compared as bytes */
};

struct record {
    uint8_t state; /* RECORD_* */
    uint8_t kind;  /* of the filter: KIND_*; 0: there is none */
    uint8_t has_range, binding_bytes;
    uint16_t first_bytes, last_bytes;
    uint64_t compat, ro_compat, incompat;
    uint8_t uuid[UUID_BYTES];
    uint64_t generation;   /* sealed: the file's; growing: a lower bound */
    uint64_t table_digest; /* sealed: commit_table_digest(); else 0 */
    uint64_t file_bytes;
    uint64_t keys;
    double target_error;
    uint64_t watermark;    /* sealed: the file's; growing: a lower bound */
    uint64_t min_sequence; /* R5: an older copy put back has less */
    uint32_t min_stages;
    uint32_t rank;
    uint64_t created;
    uint8_t binding[BINDING_MAX_BYTES];
    struct pack_place place;        /* zeros unless record_packed() */
    uint8_t list_uuid[UUID_BYTES];  /* zeros unless record_listed() */
    uint64_t list_digest;           /* the list's table digest */
    uint8_t first[RANGE_MAX_BYTES]; /* at or below every key, perhaps cut short */
    uint8_t last[RANGE_MAX_BYTES];  /* the greatest key, never cut */
};

/* The same segment without its list; without filter and list. */
static inline void record_unlist(struct record *r)
{
    memset(r->list_uuid, 0, UUID_BYTES);
    r->list_digest = r->compat = 0;
}
static inline void record_make_bare(struct record *r)
{
    record_unlist(r);
    r->state = RECORD_NO_FILTER;
    r->kind = r->has_range = 0;
    r->table_digest = 0;
    r->first_bytes = r->last_bytes = 0;
    r->place = (struct pack_place){.digest = 0};
    memset(r->uuid, 0, UUID_BYTES);
}

/* Is the filter a column of a pack (SPEC.md §17.4)? */
static inline bool record_packed(const struct record *r)
{
    return !all_zero(r->place.uuid, UUID_BYTES);
}

/* Is there a list of the segment's hashes (SPEC.md §13.8)? */
static inline bool record_listed(const struct record *r)
{
    return !all_zero(r->list_uuid, UUID_BYTES);
}

/* Database `packs`, key: a pack's UUID. Behind it in the order of keys are its chunks:
 * bits of the columns that are listed (SPEC.md §17.4). */
struct listing_disk {
    struct le64 table_digest;
    struct le64 chunks_sum;
    struct le64 names_sum;
    struct le32 n_columns;
    struct le32 n_listed;
    struct le32 n_overridden;
    struct le64 checksum;
};

struct listing {
    uint64_t table_digest;
    uint64_t chunks_sum; /* of the checksums of its chunks */
    uint64_t names_sum;  /* of name_sum() of the columns that segment records name */
    uint32_t n_columns, n_listed;
    uint32_t n_overridden; /* as many */
};

/* The number that a record of this name adds to names_sum, if it names this column. */
uint64_t name_sum(const void *name, size_t name_bytes, uint32_t column);

static inline uint32_t listing_chunks(uint32_t n_columns)
{
    return (n_columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS;
}

/* Bytes of a chunk's bits, and of its checksum. */
static inline size_t chunk_bytes(uint32_t n_columns, uint32_t number)
{
    uint32_t left = n_columns - number * CHUNK_COLUMNS;
    return left < CHUNK_COLUMNS ? (left + 7) / 8 + (size_t)8 : CHUNK_MAX_BYTES;
}

void listing_encode(const struct listing *l, const uint8_t uuid[UUID_BYTES],
                    uint8_t out[LISTING_BYTES]);
struct verdict listing_decode(const uint8_t *in, size_t n_bytes,
                              const uint8_t uuid[UUID_BYTES], struct listing *l);
void chunk_key(const uint8_t uuid[UUID_BYTES], uint32_t number,
               uint8_t key[CHUNK_KEY_BYTES]);
/* The checksum of these bits, which it writes behind them; *bits has chunk_bytes(). */
uint64_t chunk_seal(const uint8_t uuid[UUID_BYTES], uint32_t n_columns, uint32_t number,
                    uint8_t *bits);
/* Checks a chunk, and gives its checksum. */
struct verdict chunk_check(const uint8_t *in, size_t n_bytes,
                           const uint8_t uuid[UUID_BYTES], uint32_t n_columns,
                           uint32_t number, uint64_t *checksum);

extern const struct field meta_fields[];
extern const size_t n_meta_fields;
void meta_encode(const struct meta *m, uint8_t out[META_BYTES]);
struct verdict meta_decode(const uint8_t *in, size_t n_bytes, struct meta *m);
/* Does the filter hash as this store does? */
static inline bool meta_hashes(const struct meta *m, const struct identity *id)
{
    return id->hash_id == m->hash_id && id->hash_seed == m->hash_seed;
}

/* The part of this kind; NULL: it has none. The record is good, and whole. */
static inline const struct part_disk *record_part(const struct record_disk *d,
                                                  uint8_t kind)
{
    const struct part_disk *p = (const void *)(d + 1);
    for (unsigned i = 0; i < d->n_parts; i++)
        if (p[i].kind == kind)
            return &p[i];
    return NULL;
}

static inline struct pack_place part_place(const struct part_disk *p)
{
    struct pack_place place = {.digest = le64_get(p->table_digest),
                               .column = le32_get(p->column)};
    memcpy(place.uuid, p->uuid, UUID_BYTES);
    return place;
}

/* Where its first key begins; the last key follows. */
static inline const uint8_t *record_keys(const struct record_disk *d)
{
    return (const uint8_t *)(d + 1) + (size_t)d->n_parts * PART_BYTES;
}

/* The parts of a record that is good, or refused for a kind that this code lacks: their
 * files stay, whatever their kinds. NULL: it may have any file. */
const struct part_disk *record_parts(const uint8_t *in, size_t n_bytes,
                                     const void *name, size_t name_bytes, unsigned *n);

/* Returns the bytes written to out, at most RECORD_MAX_BYTES. */
size_t record_encode(const struct record *r, const void *name, size_t name_bytes,
                     uint8_t out[RECORD_MAX_BYTES]);
struct verdict record_decode(const uint8_t *in, size_t n_bytes, const void *name,
                             size_t name_bytes, struct record *r);
/* Checks as much, but does not touch r->first and r->last, two kilobytes. */
struct verdict record_decode_head(const uint8_t *in, size_t n_bytes, const void *name,
                                  size_t name_bytes, struct record *r);

/* ---- tombstones ---- */

/* Tombstones: the file "<uuid>.dead" (SPEC.md §17.5). Behind the head a bit for each
 * column, then the checksum. */
struct dead_disk {
    uint8_t magic[8];
    struct le16 major;
    struct le16 minor;
    struct le32 n_columns;
    uint8_t uuid[UUID_BYTES];
    struct le64 table_digest;
    uint8_t unused[8];
};
enum {
    DEAD_HEAD_BYTES = 48,
    DEAD_MAX_BYTES = DEAD_HEAD_BYTES + PACK_MAX_COLUMNS / 8 + 8
};

static inline size_t dead_bytes(uint32_t n_columns)
{
    return DEAD_HEAD_BYTES + ((size_t)n_columns + 7) / 8 + 8;
}

/* Writes the head and the checksum of a file of dead_bytes(n_columns) bytes. The caller
 * has put the bits where they belong, at DEAD_HEAD_BYTES. */
void dead_encode(const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                 uint32_t n_columns, uint8_t *file);
/* Checks the file of the pack with this UUID and digest. On VERDICT_OK *n_columns bits
 * begin at DEAD_HEAD_BYTES. */
struct verdict dead_decode(const uint8_t *in, size_t n_bytes,
                           const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                           uint32_t *n_columns);

#endif
