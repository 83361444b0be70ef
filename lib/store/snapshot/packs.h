/* The packs of a snapshot: which segments are columns, and their answers (SPEC.md
 * §17.4).
 *
 *     packs    pack 0, pack 1      open files, shared by snapshots
 *     seats    segment -> band and column of a pack; none: it has its own file
 *     slots    column  -> segment; 0: dropped, or never this snapshot's
 *
 * All of it is made with the snapshot, and never changes. */
#ifndef TAMIS_STORE_SNAPSHOT_PACKS_H
#define TAMIS_STORE_SNAPSHOT_PACKS_H

#include "lib/filter/filter.h"
#include "lib/filter/pack.h"
#include "lib/store/base/base.h"

struct tamis_snapshot;

struct seat {
    struct tamis_filter *pack; /* NULL: the segment is in no pack that counts */
    const struct band *band;
    uint32_t column; /* of the band; or COLUMN_DROPPED, COLUMN_NOBODYS: no seat */
    uint32_t view;   /* the pack's number in `views` */
};
/* A tombstone is set. Two records claim it, or it is not there: nobody can tell whose
 * it is. */
#define COLUMN_DROPPED UINT32_MAX
#define COLUMN_NOBODYS (UINT32_MAX - 1)

/* An open pack; snapshots share it. */
struct open_pack {
    atomic_size_t refs;
    struct tamis_filter *filter;
    const struct band *bands;
    uint32_t n_bands, n_columns;
    uint8_t uuid[UUID_BYTES];
    uint64_t digest;
};
/* A pack as a snapshot sees it. */
struct pack_view {
    struct open_pack *pack; /* NULL: it can't be used */
    int failure;            /* why; an errno or a code */
    bool by_tombstones;     /* they are what failed */
    uint32_t *slots;        /* of its columns: index + 1 */
};
/* A band as a snapshot sees it: all that a probe of its columns needs. */
struct stripe {
    struct band_rows rows;
    const uint64_t *living; /* a bit for each column */
    const uint32_t *slots;  /* of its columns */
    uint32_t n_words;       /* of `living`, and of a row */
    uint32_t least, last;   /* index of a living column; least > last: none lives */
    /* Living columns are segments one after the other: column c is segment first + c.
     * Then 64 hits are one word, shifted. */
    bool is_run;
    uint32_t first;
};

struct packs {
    struct pack_view *views;
    size_t n;
    struct stripe *stripes; /* those of all packs that have living columns */
    size_t n_stripes;
    uint64_t *living; /* of all stripes */
    /* Are there no other columns than those of one stripe, and is each the segment of
     * its number? Then a row is all answers. */
    bool whole;
    struct seat *seats; /* by index; NULL: no segment has one */
    uint64_t *seated;   /* a bit for each segment */
    size_t n_seated;
    size_t n_lines; /* lines that a key's first lanes take in all packs */
    bool transient; /* one could not be opened that may be opened later */
};

/* Opens the packs of the entries, or takes those of `previous` (may be NULL), and reads
 * their tombstones: after the records (R18). Packs that cannot be used are no failure.
 * ENOMEM. */
int packs_make(struct tamis_snapshot *s, const struct tamis_snapshot *previous);
void packs_free(struct packs *p);
/* Why the pack of a segment's place cannot be used: an errno or a code. ERR_NO_SEGMENT:
 * it can, and the column does not count. */
int packs_failure(const struct packs *p, size_t index);
/* Why a segment with a record of a place has no seat: an errno or a code; ENOENT also
 * if its column does not count. */
int packs_lost(const struct tamis_snapshot *s, size_t index, struct tamis_diag *diag);

/* ==== packs_ask.c: keys asked of all columns ==== */

/* The segments with index base .. base + 64 * PACK_WORDS - 1 that may have a key, a bit
 * each; only of those that have a seat. *damaged: pages that failed took part, so that
 * a bit may stand for damage alone. The words behind those of n segments are anyone's.
 */
enum { PACK_WORDS = 1024, PACK_WINDOW = 64 * PACK_WORDS };
void packs_ask(const struct packs *p, size_t base, size_t n, uint64_t h,
               uint64_t hits[PACK_WORDS], bool *damaged);

/* The same for many keys, one after the other:
 *
 *     key 0           key 1           key 2
 *     stripe 0 1 2    stripe 0 1 2    stripe 0 1 2
 *            ^ asked next                    ^ fetched next  */
enum { PACKS_AHEAD = 8 };
struct packs_turn {
    const struct packs *packs;
    size_t base, n_words;
    bool whole; /* one stripe that is all segments */
    const uint64_t *hashes;
    size_t n_keys, key;
    size_t stripe; /* whose rows are fetched next, for `key` */
    uint32_t n_fetched, n_asked;
    struct key_rows ring[PACKS_AHEAD];
};
void packs_begin(struct packs_turn *t, const struct packs *p, size_t base, size_t n,
                 const uint64_t *hashes, size_t n_keys);
void packs_next(struct packs_turn *t, uint64_t hits[PACK_WORDS], bool *damaged);

/* unpacked.c, of a segment that has a seat. Its facts, with what only the table of
 * columns knows: its own blocks and set id. ERR_DAMAGED: the table fails its check.
 * ERR_MISMATCH: it has another filter in this place. */
int packs_column(struct tamis_snapshot *s, size_t index, struct column *out,
                 struct tamis_diag *diag);
/* Its filter: a copy of its column in memory, as entry_filter(). */
int unpacked_filter(struct tamis_snapshot *s, size_t index, struct tamis_filter **out,
                    struct tamis_diag *diag);

static inline struct open_pack *packs_of_seat(const struct packs *p,
                                              const struct seat *seat)
{
    return p->views[seat->view].pack;
}

static inline const struct seat *packs_seat(const struct packs *p, size_t index)
{
    return p->seats && p->seats[index].pack ? &p->seats[index] : NULL;
}

#endif
