/* A snapshot from inside, and what is counted of its probes. */
#ifndef TAMIS_STORE_SNAPSHOT_SNAPSHOT_H
#define TAMIS_STORE_SNAPSHOT_SNAPSHOT_H

#include "lib/filter/filter.h"
#include "lib/store/catalog/listing.h"

/* ==== entry.c: a segment as the catalog describes it, shared by snapshots ==== */

struct entry {
    atomic_size_t refs;
    struct page_counts *pages;             /* of the ledger; NULL: it counts nothing */
    _Atomic(struct tamis_filter *) filter; /* its own file; NULL until first used */
    /* Its filter's counts, which its later entries share. NULL: none were made yet. */
    _Atomic(struct account *) account;
    atomic_int failure; /* why it can't be opened, finally */
    int refusal;        /* why, as a public code */
    uint16_t state;     /* RECORD_*, or 0: the record is unreadable */
    bool borrowed;      /* the filter is the caller's */
    bool has_range;
    bool elsewhere;     /* the record names a place in another file, entry_place(); */
    atomic_bool agrees; /* the place's entry was seen to say the same */
    uint16_t name_bytes, value_bytes;
    uint32_t rank;
    uint64_t watermark;
    uint8_t bytes[]; /* name, record as in the catalog */
};
/* NULL: no memory. */
struct entry *entry_new(struct page_counts *pages, struct piece name,
                        struct piece value);
struct entry *entry_hold(struct entry *e);
void entry_release(struct entry *e);
/* The account, made at the first count. NULL: no memory, or the caller's filter. */
struct account *entry_account(struct entry *e);
bool entry_is(const struct entry *e, struct piece value);
/* Is its filter read, and would another entry's be mapped? */
bool entry_may_be_mapped(const struct entry *e);
/* Why a filter with this header, and the record's UUID, is not the record's filter
 * (SPEC.md section 13.3); NULL if it is. */
const char *record_mismatch(const struct record *r, const struct header *h);
/* Opens the filter for the caller alone, who closes it by entry_close(). Both count
 * what a process has mapped. A sealed one without a place is read instead. */
int entry_open(const struct tamis_snapshot *s, struct entry *e,
               struct tamis_filter **out, struct tamis_diag *diag);
void entry_close(struct tamis_filter *f);
/* How many filters may be mapped: 7/8 of vm.max_map_count. */
size_t entry_max_mapped(void);
/* One more filter may be mapped, and is counted; false: no more. */
bool entry_take_place(void);
void entry_leave_place(void);
/* The open filter; opens it if needed. entry_look() is for a look, which
 * tamis_filter_close() ends: once ENTRIES_KEPT are mapped, the filter is opened for the
 * caller alone, and not kept. */
enum { ENTRIES_KEPT = 1024 };
typedef int entry_filter_fn(const struct tamis_snapshot *s, struct entry *e,
                            struct tamis_filter **out, struct tamis_diag *diag);
entry_filter_fn entry_filter, entry_look;
/* The same for probes: on failure NULL and a reason. Does not retry what failed
 * finally. */
struct tamis_filter *entry_filter_or_reason(const struct tamis_snapshot *s,
                                            struct entry *e, enum tamis_reason *why);

static inline struct piece entry_name(const struct entry *e)
{
    return (struct piece){e->bytes, e->name_bytes};
}

static inline struct piece entry_value(const struct entry *e)
{
    return (struct piece){e->bytes + e->name_bytes, e->value_bytes};
}

static inline const struct record_disk *entry_record(const struct entry *e)
{
    return (const struct record_disk *)(const void *)(e->bytes + e->name_bytes);
}

static inline struct verdict entry_decode(const struct entry *e, struct record *r)
{
    struct piece value = entry_value(e);
    return record_decode(value.at, value.n, e->bytes, e->name_bytes, r);
}

static inline struct pack_place entry_place(const struct entry *e)
{
    return part_place(record_part(entry_record(e), PART_COLUMN));
}

static inline struct piece entry_first(const struct entry *e)
{
    return (struct piece){record_keys(entry_record(e)),
                          le16_get(entry_record(e)->first_bytes)};
}

static inline struct piece entry_last(const struct entry *e)
{
    struct piece first = entry_first(e);
    return (struct piece){first.at + first.n, le16_get(entry_record(e)->last_bytes)};
}

/* Does a key that is given with its bytes lie outside of these? */
bool outside_keys(const struct tamis_key *key, struct piece first, struct piece last);
/* Does a range prove that the segment has no such key? */
bool outside_range(const struct entry *e, const struct tamis_key *key);

/* ==== shared.c: segments that share files ==== */

/* The packs of a snapshot: which columns are segments, and their answers (SPEC.md
 * §17.4).
 *
 *     numbers   0 1 2 ... | 64 65 66 ...        | 192 193 ...
 *               loose     | columns of views[0] | columns of views[1]
 *
 * Each pack begins at a multiple of 64, so that its bits and those of numbers are
 * words that agree. A snapshot holds a bit for each column, and nothing else. All of it
 * is made with the snapshot, and never changes. */
static inline size_t bit_words(size_t n_bits)
{
    return n_bits / 64 + (n_bits % 64 != 0);
}

/* Which columns of a pack are listed, and which have tombstones. Snapshots share it
 * while neither changes. */
struct shared_bits {
    atomic_size_t refs;
    uint64_t chunks_sum, sums[MAX_CHUNKS]; /* of the listed bits */
    uint8_t *listed;
    const uint8_t *dead; /* their file, or a shared one without tombstones, of which */
    uint8_t head[DEAD_HEAD_BYTES]; /* these differ */
    struct le64 checksum;
    bool all_live;    /* all columns are listed, and none has a tombstone; else: */
    uint64_t *living; /* a bit for each column of each band, in words of its row */
    size_t n_mute;    /* columns that are listed, and dead */
};
/* A pack as a snapshot sees it. */
struct shared_view {
    uint8_t uuid[UUID_BYTES];
    uint64_t digest;
    uint32_t n_columns;         /* 0: its list does not agree, and nobody knows */
    uint32_t n_listed, n_named; /* n_named: by the records that are there */
    struct open_pack *open;     /* NULL: it can't be read */
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
    /* A bit for each column: listed, and without a tombstone. Bits behind the last
     * column say nothing. */
    const uint64_t *living;
    const struct band *band;
    uint32_t n_words; /* of its columns: a row may be longer */
    size_t first;     /* the number of its first column */
};
static inline uint64_t stripe_living(const struct stripe *t, size_t word)
{
    uint32_t n = t->band->n_columns - 64 * (uint32_t)word;
    return t->living[word] & (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX);
}

struct shared_files {
    struct shared_view *views;
    size_t n;
    struct stripe *stripes; /* those of all packs that have living columns */
    uint32_t *firsts;       /* numbers of their first columns; lies behind `stripes` */
    size_t n_stripes;
    size_t n_listed;
    /* Listed columns that no stripe has: always MAYBE. */
    size_t n_mute;
    /* Is the only stripe all there is, and is a row all answers? */
    bool whole;
    uint64_t again; /* one could not be opened: when to try again; 0: never.
                     * Under the catalog's cache_lock. */
};

/* Reads the listed bits, in the transaction of the entries, which are there; those that
 * `previous` has and that are the same still, it shares. Sets s->complete to false if
 * something does not agree. */
int shared_read(struct tamis_snapshot *s, const struct tamis_snapshot *previous,
                struct catalog_txn *t);
/* Opens the packs, and reads their tombstones: after the list (R18). Packs that cannot
 * be used are no failure. `fresh`: see open_pack_get(). ENOMEM. */
int shared_open(struct tamis_snapshot *s, struct catalog *c, bool fresh);
/* Would a pack open now that did not open before? Looks when it is time to, under the
 * catalog's cache_lock. While none would, the snapshot stays, and so do its targets. */
bool shared_would_open(struct tamis_snapshot *s, struct catalog *c);
void shared_free(struct shared_files *p);

/* ---- one column ---- */

/* The last stripe that begins at or before a number; else the first one. The search has
 * no branch that depends on the number. */
static inline size_t stripe_near(const struct shared_files *p, size_t number)
{
    const uint32_t *at = p->firsts;
    for (size_t n = p->n_stripes, half; n > 1; n -= half) {
        half = n / 2;
        at += (at[half] <= number) * half;
    }
    return (size_t)(at - p->firsts);
}

/* The stripe that has the number; NULL: none. */
static inline const struct stripe *stripe_of(const struct shared_files *p,
                                             size_t number)
{
    const struct stripe *t = p->n_stripes ? &p->stripes[stripe_near(p, number)] : NULL;
    return t && number - t->first < t->rows.n_columns ? t : NULL;
}

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
    return seat->view->open->filter;
}
static inline uint32_t seat_column(const struct seat *seat)
{
    return seat->column - seat->band->first_column;
}
/* The seat of a number, or of an entry whose record names a column. */
struct seat segment_seat(const struct tamis_snapshot *s, size_t index);
/* Has the number a column? */
bool seat_taken(const struct tamis_snapshot *s, size_t index);
/* For a caller who writes from it (SPEC.md §16.4): what a segment's record or its
 * entry says, and the own blocks and the set id of one that is in a pack. An entry is
 * checked anew, and all of it is a copy. ERR_DAMAGED: it cannot be read. */
int segment_facts(const struct tamis_snapshot *s, size_t index, struct facts *out,
                  struct tamis_diag *diag);
/* Why a segment of a pack cannot be used: an errno or a code. */
int seat_lost(const struct tamis_snapshot *s, const struct seat *seat,
              struct tamis_diag *diag);
/* Asks the rows for one key. A hit that a range excludes is absent; one whose entry
 * cannot be read is TAMIS_DAMAGED. */
enum tamis_reason seat_ask(const struct tamis_snapshot *s, size_t index,
                           const struct seat *seat, uint64_t min_watermark,
                           const struct tamis_key *key, bool *by_range);
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

/* ---- names and facts ---- */

/* The next number that a segment has, from *index on. */
bool shared_next(const struct tamis_snapshot *s, size_t *index);
/* Where `to` has the column of this number: the same one, of the same file. */
bool shared_same(const struct tamis_snapshot *from, size_t index,
                 const struct tamis_snapshot *to, size_t *number);
/* *ordinal is the number + 1 of the segment with this name. ERR_NO_SEGMENT, or another
 * error, and *why: a pack cannot tell. In a list that is not complete it may have the
 * name even if another one has it, for repair may have listed an older column. */
int shared_ordinal(const struct tamis_snapshot *s, const void *name, size_t name_bytes,
                   uint32_t *ordinal, enum tamis_reason *why);
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

/* ==== planes.c: what a snapshot has at hand of its loose segments ==== */

struct planes {
    const struct kernel *kernel;
    struct plane *plane; /* by number; valid once it was ready */
    /* The same by ordinal, and the ends of ranges. `trusted`: quick_clock() before it
     * was found that the snapshot is quick, and the plane ready. */
    struct watched_plane *watched;
    void *room;              /* where these lie */
    _Atomic uint64_t *state; /* a word for 32 segments: their epoch, which are ready */
    _Atomic uint32_t *written; /* whose plane a thread has written, or begun to */
    /* key_prefix() of the ends of a range that counts; or 0 and UINT64_MAX. */
    _Atomic uint64_t *first, *last;
    bool any_range;
};
int planes_make(struct tamis_snapshot *s); /* of its entries; ENOMEM */
void planes_free(struct planes *p);
/* Call it after a careful probe: the segment may be ready now. */
void planes_offer(struct tamis_snapshot *s, size_t index);

/* Which of 32 does a state call ready now? */
static inline uint64_t planes_of_epoch(uint64_t state, uint64_t epoch)
{
    return state >> 32 == (uint32_t)epoch ? (uint32_t)state : 0;
}

static inline uint64_t planes_half(const struct planes *p, size_t i, uint64_t epoch)
{
    return planes_of_epoch(atomic_load_explicit(&p->state[i], memory_order_acquire),
                           epoch);
}

/* Which of the 64 segments from this one on are ready now? `epoch`: stage_epoch(), to
 * be compared again when their bits were read. */
static inline uint64_t planes_are_ready(const struct planes *p, size_t first,
                                        uint64_t epoch)
{
    size_t i = first / 32, shift = first % 32;
    uint64_t ready = planes_half(p, i, epoch) | planes_half(p, i + 1, epoch) << 32;
    return shift ? ready >> shift | planes_half(p, i + 2, epoch) << (64 - shift)
                 : ready;
}

/* ==== snapshot.c, segment.c ==== */

struct tamis_snapshot {
    struct plane_watch watch; /* otherwise(): once it was quick */
    uint64_t serial;          /* from 1 on, in this process: what its targets carry */
    /* quick_clock() before somebody found that the store is the same, and that nobody
     * counts: as long as it stands, planes and rows alone decide. */
    _Atomic uint64_t quick;
    atomic_size_t refs;
    uint64_t number; /* of the transaction that it shows */
    bool complete;
    struct tamis_domain domain;
    struct filters_dir *dir; /* NULL: filters of the caller's */
    struct origin *origin;   /* the same */
    size_t n;                /* all numbers are below */
    size_t n_segments;       /* that are at a number */
    size_t n_loose;          /* those with a record: numbers from 0 on */
    struct entry **entries;  /* of these, by rank, then name */
    struct entry **named;    /* by name; NULL: the filters are the caller's */
    uint32_t *ordinals;      /* of `named`: index + 1; NULL: the order is the same */
    struct names by_name;    /* the caller's: -> index + 1, or NAME_TWICE */
    struct shared_files shared;
    struct planes planes;
    struct counters counts;
    _Atomic(uint64_t *) room; /* mapped, while no query has it: [0] words; or NULL */
    struct ledger *ledger;    /* NULL: filters of the caller's */
    struct tamis_snapshot *next_live, **to_live; /* under the ledger's lock */
};
#define NAME_TWICE UINT32_MAX
enum { NUMBER_BITS = 28 }; /* of a number of a segment */
struct tamis_snapshot *snapshot_hold(struct tamis_snapshot *s); /* one reference more */
void unmap_room(uint64_t *room);                                /* may be NULL */
/* The list as of now. It has what `previous` (may be NULL) has open. */
int snapshot_load(struct catalog *c, const struct tamis_snapshot *previous,
                  struct tamis_snapshot **out, struct tamis_diag *diag);
/* segment.c: tamis_snapshot_filter(); `open` says whether a loose filter is kept. */
int segment_filter(struct tamis_snapshot *snapshot, size_t index, entry_filter_fn *open,
                   struct tamis_filter **out, struct tamis_diag *diag);
/* *ordinal is the number + 1 of the segment of this name, or NAME_TWICE. *near (may be
 * NULL): where the next name may be. ERR_NO_SEGMENT: there is none. Other errors: a
 * file that cannot tell may have it. */
int snapshot_ordinal(const struct tamis_snapshot *s, const void *name,
                     size_t name_bytes, size_t *near, uint32_t *ordinal,
                     enum tamis_reason *why);

/* Has the segment a record? Else a shared file has it, or nothing is there. */
static inline bool is_loose(const struct tamis_snapshot *s, size_t index)
{
    return index < s->n_loose;
}
/* The entry of its record; NULL: it has none. */
static inline struct entry *loose_entry(const struct tamis_snapshot *s, size_t index)
{
    return is_loose(s, index) ? s->entries[index] : NULL;
}
/* Its name, for messages. */
const char *segment_text(char text[NAME_TEXT_BYTES], const struct tamis_snapshot *s,
                         size_t index);
/* The list that its record names; false: none. */
bool segment_list(const struct tamis_snapshot *s, size_t index,
                  uint8_t uuid[UUID_BYTES], uint64_t *digest);
/* Opens a list of this table digest, from the directory of filters. */
int filters_open_list(const struct filters_dir *d, const struct tamis_domain *domain,
                      const uint8_t uuid[UUID_BYTES], uint64_t digest,
                      struct tamis_filter **out, struct tamis_diag *diag);

/* ==== stats.c: sums of what was counted (public calls, and) ==== */

/* Join once the snapshot is complete; leave once its last holder has released it. */
int stats_join(struct tamis_snapshot *s); /* ENOMEM */
void stats_leave(struct tamis_snapshot *s);
int stats_begin(struct tamis_snapshot *s); /* counts from now on; ENOMEM */

/* ==== for queries ==== */

/* Does the target mean a segment of this snapshot? */
static inline bool target_here(const struct tamis_snapshot *s,
                               const struct tamis_target *t)
{
    return !t->refusal && t->snapshot == s->serial && t->ordinal - 1U < s->n;
}

/* The same of a loose one? */
static inline bool target_loose(const struct tamis_snapshot *s,
                                const struct tamis_target *t)
{
    uint64_t ordinal = (uint64_t)t->refusal << 32 | t->ordinal;
    return ordinal - 1 < s->n_loose && t->snapshot == s->serial;
}

/* Would target_reason() find nothing against this target, given a key of the snapshot's
 * domain, and a ready plane or a range that excludes the key? False: ask it. */
static inline bool target_plain(const struct tamis_snapshot *s,
                                const struct tamis_target *t)
{
    return target_loose(s, t) &&
           (!t->min_watermark ||
            s->entries[t->ordinal - 1]->watermark >= t->min_watermark);
}

static inline bool plane_is_ready(const struct tamis_snapshot *s, size_t index,
                                  uint64_t epoch)
{
    uint64_t state =
        atomic_load_explicit(&s->planes.state[index / 32], memory_order_acquire);
    return !((state ^ epoch << 32) >> 32) && (uint32_t)state >> index % 32 & 1;
}

static inline uint64_t range_end(const _Atomic uint64_t *ends, size_t index)
{
    return atomic_load_explicit(&ends[index], memory_order_relaxed);
}

/* Ends of ranges agree in eight bytes with a key: all bytes are compared, if the range
 * counts. */
static inline bool outside_by_bytes(const struct tamis_snapshot *s, size_t index,
                                    const struct tamis_key *key)
{
    const struct entry *e = s->entries[index];
    return atomic_load_explicit(&e->filter, memory_order_acquire) &&
           outside_range(e, key);
}

#endif
