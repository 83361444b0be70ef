/* The packs of a catalog: which of their columns are listed, and where a name is
 * (SPEC.md §17.4).
 *
 *     listings_load()     every pack record, as of a transaction
 *     listings_lookup()   a name: among the records, then in each pack by its index
 *     listed_set() ...    changes, in memory
 *     listings_write()    the chunks and pack records that changed
 *
 * A column that stops being alive is noted in `freed`: it gets a tombstone after the
 * commit. All columns of a new pack are noted so, until they are listed or named. */
#ifndef TAMIS_STORE_CATALOG_LISTING_H
#define TAMIS_STORE_CATALOG_LISTING_H

#include "lib/filter/pack.h"
#include "lib/store/catalog/catalog.h"

/* ---- open packs, which snapshots and edits of a process share ---- */

struct open_pack {
    struct open_pack *next; /* of the catalog's */
    atomic_size_t refs;
    struct tamis_filter *filter;
    const struct band *bands;
    uint32_t n_bands, n_columns;
    _Atomic uint32_t *ranks; /* of columns, each inverted; 0: nobody has read it */
    uint8_t uuid[UUID_BYTES];
    uint64_t digest;
    /* Counts of its columns, across snapshots; NULL until somebody counts. Under the
     * ledger's lock, once it is there. */
    _Atomic(struct sheet *) sums;
};
/* A pack with this digest, as many columns, and good bands; an errno or a code.
 * `fresh`: its files may have changed since somebody opened it. */
int open_pack_get(struct catalog *c, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                  uint32_t n_columns, bool fresh, struct open_pack **out);
/* Call it when the pack's files are removed: no later opener gets this mapping. */
void open_pack_forget(struct catalog *c, const uint8_t uuid[UUID_BYTES],
                      uint64_t digest);
void open_pack_release(struct open_pack *p); /* may be NULL */

/* ---- a bit for each column of a pack ---- */

static inline size_t columns_bytes(uint32_t n_columns)
{
    return ((size_t)n_columns + 7) / 8;
}
static inline bool columns_have(const uint8_t *bits, uint32_t column)
{
    return bits[column / 8] >> column % 8 & 1;
}
static inline void columns_set(uint8_t *bits, uint32_t column, bool on)
{
    bits[column / 8] = (uint8_t)((bits[column / 8] & ~(1U << column % 8)) |
                                 (unsigned)on << column % 8);
}
static inline uint32_t columns_count(const uint8_t *bits, uint32_t n_columns)
{
    uint32_t n = 0;
    size_t i = 0, end = columns_bytes(n_columns);
    for (uint64_t word, w[4]; i + sizeof word <= end; i += sizeof word) {
        memcpy(w, bits + i, i + sizeof w <= end ? sizeof w : sizeof word);
        word = w[0];
        if (i + sizeof w <= end && !~(w[0] & w[1] & w[2] & w[3])) {
            n += 8 * sizeof w;
            i += sizeof w - sizeof word;
            continue;
        }
        /* Most words have all columns or none; and some builds have no popcount. */
        n += ~word ? (uint32_t)__builtin_popcountll(word) : 64;
    }
    for (; i < end; i++)
        n += (uint32_t)__builtin_popcount(bits[i]);
    return n;
}
/* 64 bits at once. The array has eight bytes more than its columns need. */
static inline uint64_t columns_word(const uint8_t *bits, size_t i)
{
    struct le64 word;
    memcpy(&word, bits + i * sizeof word, sizeof word);
    return le64_get(word);
}
/* Clears the bits behind the last column. */
static inline void columns_cut(uint8_t *bits, uint32_t n_columns)
{
    if (n_columns % 8)
        bits[n_columns / 8] &= (uint8_t)((1U << n_columns % 8) - 1);
}

/* ---- the packs of one transaction ---- */

/* For bsearch(): packs begin with their UUIDs, and are in the order of these. */
static inline int compare_pack_uuids(const void *a, const void *b)
{
    return memcmp(a, b, UUID_BYTES);
}
enum { MAX_CHUNKS = (PACK_MAX_COLUMNS + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS };
struct listed {
    uint8_t uuid[UUID_BYTES];
    struct listing now;
    int failure;  /* its record is refused, or it has too many chunks: a public code */
    bool is_new;  /* made in this transaction */
    bool changed; /* `now`, or a chunk */
    bool buries;  /* its tombstones are good */
    int unburied; /* why not, an errno or a code; 0: not tried, or good */
    /* A bit for each column. */
    uint8_t *bits;             /* that are listed, once they are read; columns_word() */
    uint8_t *freed;            /* NULL: none */
    uint8_t *named;            /* that counted records name; NULL: none */
    uint8_t *twice;            /* that several of them name */
    uint64_t sums[MAX_CHUNKS]; /* checksums of its chunks */
    uint64_t dirty;            /* a bit for each chunk that is to be written */
    uint64_t names_sum;        /* of counted records, n_named */
    uint32_t n_named;
    bool agrees; /* after listings_agree(): pack record, chunks and segment records */
    struct open_pack *open;
    int unopened; /* why not; 0: not tried, or open */
};
struct listings {
    struct catalog_txn *txn;
    uint64_t number; /* of the transaction; valid after it, too */
    struct listed *all;
    size_t n, n_sorted; /* the first n_sorted are the catalog's, ordered by UUID */
    bool strange;       /* the catalog has a key that belongs to no pack */
    bool unknown;       /* a counted record has a part that may name any column */
    bool astray;        /* a counted record names a column of no pack */
    const struct listed *passed; /* lookups pass over this pack; NULL: over none */
    uint64_t n_unread;           /* records that cannot be read */
    uint64_t n_newer;            /* of n_unread, for flags of a newer tamis */
    uint64_t n_missing; /* after listings_agree(): more are counted than are there */
};
int listings_load(struct listings *l, struct catalog_txn *t);
void listings_free(struct listings *l);
void listed_free(struct listed *p); /* what it has */
struct listed *listings_find(struct listings *l, const uint8_t uuid[UUID_BYTES]);
/* Does no pack have this place, not even a pack whose record is refused? */
bool listings_lack(struct listings *l, const struct pack_place *at);
/* A pack that is not in the catalog yet: none of its columns is alive. */
int listings_add(struct listings *l, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                 uint32_t n_columns, struct listed **out);
/* Fails if a column that is not alive any more cannot get its tombstone. */
int listings_write(struct listings *l);
/* For repair: lists these columns of a pack, a bit each, and no others, whatever the
 * catalog says. bits NULL: the pack goes. */
int listings_put(struct listings *l, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                 uint32_t n_columns, const uint8_t *bits);
/* Call it after listings_put(). Each pack that was put counts the catalog's records
 * that name its columns, or keeps its number if a newer tamis can read all missing
 * ones. */
int listings_put_names(struct listings *l);
/* Closes the open packs of the process that the list does not have; l NULL: all. For
 * snapshots, and after a commit. */
void open_packs_forget(struct catalog *c, struct listings *l);
/* The text of a finding about a pack: it has n segments, and `what`. */
void listing_say(uint64_t n, const char *what, char *text, size_t n_text);
/* Has the pack no column alive any more? Then its record has gone. */
static inline bool listed_is_gone(const struct listed *p)
{
    return !p->failure && !p->now.n_listed && !p->now.n_overridden;
}

/* Is the column listed? ERR_DAMAGED: record and chunks do not agree. */
int listed_has(struct listings *l, struct listed *p, uint32_t column, bool *has);
/* Lists a column that is not listed, or the other way round; else ERR_DAMAGED. */
int listed_set(struct listings *l, struct listed *p, uint32_t column, bool on);
/* The record of this name names a column, or does not any more. */
int listed_name(struct listings *l, struct listed *p, struct piece name,
                uint32_t column, bool on);
/* Counts a segment record by its parts, NULL if it is refused. ENOMEM. */
int listings_count(struct listings *l, struct piece name, const struct part_disk *parts,
                   unsigned n_parts);
/* Once all are counted: which packs agree (SPEC.md §17.4)? */
int listings_agree(struct listings *l);
/* Calls listings_count() for all records of the catalog, then listings_agree(). */
int listings_note_named(struct listings *l);
/* May a record name any column, or is there a key or a record of no pack? */
static inline bool listings_unsure(const struct listings *l)
{
    return l->strange || l->astray || l->n_unread;
}
/* n_dropped refused records are dropped, which packs may have counted. Packs agree
 * again if they can only have counted these, or if one pack has counted all of them and
 * all that are left. *any: some pack agrees again, and so the list is not complete.
 * Call it after listings_note_named(). */
int listings_forgive(struct listings *l, uint64_t n_dropped, bool *any);
/* The columns that are not alive, a bit each, once the names are noted. ERR_DAMAGED:
 * the pack record, the chunks and the segment records do not agree, or one of these is
 * refused. *bits is malloc'd. */
int listed_unused(struct listings *l, struct listed *p, uint8_t **bits);
/* Opens the pack for its index, once. */
int listed_open(struct listings *l, struct listed *p);
/* Can columns of it get tombstones? Looks once. An errno or a code: no. */
int listed_buries(struct listings *l, struct listed *p);

/* Where a name is: in a segment record, or a listed column. */
struct found {
    struct piece value; /* the record; NULL: it is a column */
    struct listed *pack;
    struct facts column;
};
/* ERR_NO_SEGMENT: nowhere. Any other error: perhaps in a pack that cannot tell. */
int listings_lookup(struct listings *l, struct piece name, struct found *f);
/* Its record, or the one that it would have. A public code: it cannot be read. */
int found_record(const struct found *f, struct piece name, struct record *r);
/* The record of this name no longer names its column. ERR_DAMAGED: no pack has the
 * column, so it cannot get a tombstone. */
int listings_unname(struct listings *l, struct piece name, const struct pack_place *at);

/* ---- a record as the entry of a column, and back ---- */

/* The entry of a segment with this record, but for its column and own_blocks. */
void column_of_record(const struct record *r, struct piece name, struct facts *out);
/* The record that names a column, with what its entry says. */
void record_of_column(const struct facts *col, const uint8_t uuid[UUID_BYTES],
                      uint64_t digest, struct record *r);

#endif
