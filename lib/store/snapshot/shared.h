/* The packs of a snapshot: which columns are segments, and their answers (SPEC.md
 * §17.4).
 *
 *     numbers   0 1 2 ... | 64 65 66 ...        | 192 193 ...
 *               loose     | columns of views[0] | columns of views[1]
 *
 * Each pack begins at a multiple of 64, so that its bits and those of numbers are
 * words that agree. Nothing is held for a column but a bit. All of it is made with the
 * snapshot, and never changes. */
#ifndef TAMIS_STORE_SNAPSHOT_SHARED_H
#define TAMIS_STORE_SNAPSHOT_SHARED_H

#include <string.h>

#include "format/pack.h"
#include "lib/filter/filter.h"
#include "lib/store/catalog/listing.h"

struct tamis_snapshot;
struct entry;

static inline size_t bit_words(size_t n_bits)
{
    return n_bits / 64 + (n_bits % 64 != 0);
}

/* Which columns of a pack are listed, and which have tombstones. Snapshots share it
 * while neither changes. */
struct shared_bits {
    atomic_size_t refs;
    uint64_t chunks_sum, sums[MAX_CHUNKS]; /* of the listed bits */
    uint8_t *listed, *dead;
    uint64_t *living; /* a bit for each column of each band, in words of its row */
    size_t n_mute;    /* columns that are listed, and dead */
};
/* A pack as a snapshot sees it. */
struct shared_view {
    uint8_t uuid[UUID_BYTES];
    uint64_t digest;
    uint32_t n_columns;         /* 0: its list does not agree, and nobody knows */
    uint32_t n_listed, n_named; /* n_named: by the records that are there */
    struct open_pack *pack;     /* NULL: it can't be read */
    struct shared_bits *bits;
    const uint8_t *listed; /* a bit for each column */
    const uint8_t *dead;   /* its tombstones' file; NULL: no column counts */
    int failure;           /* why not; an errno or a code */
    size_t base;           /* the number of column 0 */
};
/* Listed columns of a view that have no answer. */
static inline size_t view_mute(const struct shared_view *v)
{
    return v->dead ? v->bits->n_mute : v->n_listed;
}
/* A band as a snapshot sees it: all that a probe of its columns needs. */
struct stripe {
    struct band_rows rows;
    const struct shared_view *view;
    const uint64_t *living; /* a bit for each column: listed, and without a tombstone */
    const struct band *band;
    uint32_t n_words; /* of its columns: a row may be longer */
    size_t first;     /* the number of its first column */
};

struct shared_files {
    struct shared_view *views;
    size_t n;
    struct stripe *stripes; /* those of all packs that have living columns */
    size_t n_stripes;
    size_t n_listed;
    /* Listed columns that no stripe has: always MAYBE. */
    size_t n_mute;
    /* Is the only stripe all there is, and is a row all answers? */
    bool whole;
    uint64_t again; /* one could not be opened: when to try again; 0: never.
                     * Under the catalog's cache_lock. */
};

/* File i, mapped; NULL: it can't be read. */
static inline struct tamis_filter *shared_filter(const struct shared_files *p, size_t i)
{
    return p->views[i].pack ? p->views[i].pack->filter : NULL;
}

/* Reads the listed bits, in the transaction of the entries, which are there; those that
 * `previous` has and that are the same still, it shares. Sets s->complete to false if
 * something does not agree. */
int shared_read(struct tamis_snapshot *s, const struct tamis_snapshot *previous,
                struct catalog_txn *t, struct tamis_diag *diag);
/* Opens the packs, and reads their tombstones: after the list (R18). Packs that cannot
 * be used are no failure. `fresh`: see open_pack_get(). ENOMEM. */
int shared_open(struct tamis_snapshot *s, struct catalog *c, bool fresh);
/* Would a pack open now that did not open before? Looks when it is time to, under the
 * catalog's cache_lock. While none would, the snapshot stays, and so do its targets. */
bool shared_would_open(struct tamis_snapshot *s, struct catalog *c);
void shared_free(struct shared_files *p);

/* For how many segments file i answers, and for how many it does not: then why, an
 * errno or a code. asked: a bit for each number; NULL: all. */
int shared_count(const struct tamis_snapshot *s, size_t i, const uint64_t *asked,
                 uint64_t *n, uint64_t *n_lost, struct tamis_diag *diag);

/* ---- one column ---- */

/* A column of a view that can be used, or why not: `why` is its reason. */
struct seat {
    const struct shared_view *view; /* NULL: there is none */
    const struct band *band;        /* NULL: it cannot be asked */
    uint32_t column;                /* of the pack */
    enum tamis_reason why;
};
/* The file that has it, mapped, and which column of its band it is. */
static inline struct tamis_filter *seat_filter(const struct seat *seat)
{
    return seat->view->pack->filter;
}
static inline uint32_t seat_column(const struct seat *seat)
{
    return seat->column - seat->band->first_column;
}
/* The seat of a number, or of an entry whose record names a column. */
struct seat segment_seat(const struct tamis_snapshot *s, size_t index);
/* Has the number a column? */
bool seat_taken(const struct tamis_snapshot *s, size_t index);
/* Decodes the entry of the column in the pack's table, if the seat is good. */
int seat_describe(const struct seat *seat, struct column *out);
/* For a caller who writes from it (SPEC.md §16.4): what a segment's record or its
 * entry says, and the own blocks and the set id of one that is in a pack. An entry is
 * checked anew, and all of it is a copy. ERR_DAMAGED: it cannot be read. */
int segment_facts(const struct tamis_snapshot *s, size_t index, struct column *out,
                  struct tamis_diag *diag);
/* The same as a record, which names no place and no list. */
int segment_record(const struct tamis_snapshot *s, size_t index, struct record *out,
                   struct tamis_diag *diag);
/* Why a segment of a pack cannot be used: an errno or a code. */
int seat_lost(const struct tamis_snapshot *s, const struct seat *seat,
              struct tamis_diag *diag);
/* Asks the rows for one key. A hit that a range excludes is absent; one whose entry
 * cannot be read is TAMIS_DAMAGED. */
enum tamis_reason seat_ask(const struct tamis_snapshot *s, size_t index,
                           const struct seat *seat, uint64_t min_watermark,
                           const struct tamis_key *key, bool *by_range);
/* Is its watermark below? TAMIS_NO_REASON: it is not. */
enum tamis_reason seat_check(const struct tamis_snapshot *s, size_t index,
                             const struct seat *seat, uint64_t min_watermark);
/* The answer of a column whose rows said `why`: a hit may lie outside its range. */
enum tamis_reason column_hit(const struct shared_view *v, uint32_t column,
                             enum tamis_reason why, const struct tamis_key *key,
                             bool *by_range);
static inline struct pack_place seat_place(const struct seat *seat)
{
    struct pack_place place = {.digest = seat->view->digest, .column = seat->column};
    memcpy(place.uuid, seat->view->uuid, UUID_BYTES);
    return place;
}
/* Sums of counts, which snapshots share: room for them. */
int shared_begin_sums(struct tamis_snapshot *s); /* ENOMEM */
/* Adds to them what a sheet of the snapshot has. */
void shared_fold_sums(struct tamis_snapshot *s, const struct sheet *counted);
/* The sums of its file, and the row of its column in them; NULL: none. */
const struct sheet *seat_sums(const struct seat *seat, size_t *row);

/* ---- names and facts ---- */

/* The next number that a segment has, from *index on. */
bool shared_next(const struct tamis_snapshot *s, size_t *index);
/* Where `to` has the column of this number: the same one, of the same file. */
bool shared_same(const struct tamis_snapshot *from, size_t index,
                 const struct tamis_snapshot *to, size_t *number);
/* *slot is the number + 1 of the segment with this name. ERR_NO_SEGMENT, or another
 * error, and *why: a pack cannot tell. In a list that is not complete it may have the
 * name even if another one has it, for repair may have listed an older column. */
int shared_slot(const struct tamis_snapshot *s, const void *name, size_t name_bytes,
                uint32_t *slot, enum tamis_reason *why);
/* Fills in what the pack has of the column; nothing, if that cannot be read. */
void seat_info(const struct seat *seat, struct tamis_segment_info *info);
/* The rank of a segment; one that cannot be read comes last. */
uint32_t segment_rank(const struct tamis_snapshot *s, size_t index);

/* Copies a column into a filter of its own, for callers that verify, compare or derive.
 * Probes ask the pack. */
int shared_copy(const struct tamis_snapshot *s, size_t index, struct tamis_filter **out,
                struct tamis_diag *diag);

/* Word i of the tombstones. Behind the last ones there may be anything. */
static inline uint64_t dead_word(const struct shared_view *v, size_t i)
{
    return columns_word(v->dead + DEAD_HEAD_BYTES, i);
}

#endif
