/* A snapshot from inside, and what is counted of its probes. */
#ifndef TAMIS_STORE_SNAPSHOT_SNAPSHOT_H
#define TAMIS_STORE_SNAPSHOT_SNAPSHOT_H

#include "lib/kernel/kernel.h"
#include "lib/error.h"
#include "lib/page/page.h"
#include "lib/store/base/counters.h"
#include "lib/store/catalog/catalog.h"
#include "lib/store/snapshot/entry.h"
#include "lib/store/snapshot/shared.h"

/* ==== planes.c: what a snapshot has at hand of its loose segments ==== */

struct planes {
    const struct kernel *kernel;
    struct plane *plane;     /* by number; valid once it was ready */
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
/* The first eight bytes as a number, padded with zeros: if two differ, they order their
 * keys. */
static inline uint64_t key_prefix(const void *key, size_t n_bytes)
{
    uint8_t b[8] = {0};
    if (__builtin_expect(n_bytes >= sizeof b, 1))
        memcpy(b, key, sizeof b);
    else if (n_bytes)
        memcpy(b, key, n_bytes);
    return (uint64_t)b[0] << 56 | (uint64_t)b[1] << 48 | (uint64_t)b[2] << 40 |
           (uint64_t)b[3] << 32 | (uint64_t)b[4] << 24 | (uint64_t)b[5] << 16 |
           (uint64_t)b[6] << 8 | (uint64_t)b[7];
}

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
    uint32_t *slots;         /* of `named`: index + 1; NULL: the order is the same */
    struct names by_name;    /* the caller's: -> index + 1, or NAME_TWICE */
    struct shared_files shared;
    struct planes planes;
    struct counters counts;
    struct ledger *ledger;                       /* NULL: filters of the caller's */
    struct tamis_snapshot *next_live, **to_live; /* under the ledger's lock */
};
#define NAME_TWICE UINT32_MAX
enum { NUMBER_BITS = 28 }; /* of a number: the most segments of a snapshot */
struct tamis_snapshot *snapshot_hold(struct tamis_snapshot *s); /* one reference more */
/* The list as of now. It has what `previous` (may be NULL) has open. */
int snapshot_load(struct catalog *c, const struct tamis_snapshot *previous,
                  struct tamis_snapshot **out, struct tamis_diag *diag);
/* segment.c: tamis_snapshot_filter(); `open` says whether a loose filter is kept. */
int segment_filter(struct tamis_snapshot *snapshot, size_t index, entry_filter_fn *open,
                   struct tamis_filter **out, struct tamis_diag *diag);
/* *slot is the number + 1 of the segment of this name, or NAME_TWICE. *near (may be
 * NULL): where the next name may be. ERR_NO_SEGMENT: there is none. Other errors: a
 * file that cannot tell may have it. */
int snapshot_slot(const struct tamis_snapshot *s, const void *name, size_t name_bytes,
                  size_t *near, uint32_t *slot, enum tamis_reason *why);

/* Has the segment a record? Else a shared file has it, or nothing is there. */
static inline bool is_loose(const struct tamis_snapshot *s, size_t index)
{
    return index < s->n_loose;
}
/* listed.c: the list that its record names; false: none. */
bool segment_list(const struct tamis_snapshot *s, size_t index,
                  uint8_t uuid[UUID_BYTES], uint64_t *digest);

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
    return !t->refusal && t->snapshot == s->serial && t->slot - 1U < s->n;
}

/* The same of a loose one? */
static inline bool target_loose(const struct tamis_snapshot *s,
                                const struct tamis_target *t)
{
    uint64_t slot = (uint64_t)t->refusal << 32 | t->slot;
    return slot - 1 < s->n_loose && t->snapshot == s->serial;
}

/* Would target_reason() find nothing against this target, given a key of the snapshot's
 * domain, and a ready plane or a range that excludes the key? False: ask it. */
static inline bool target_plain(const struct tamis_snapshot *s,
                                const struct tamis_target *t)
{
    return target_loose(s, t) &&
           (!t->min_watermark ||
            s->entries[t->slot - 1]->watermark >= t->min_watermark);
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
