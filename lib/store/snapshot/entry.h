/* One segment as the catalog describes it, shared by snapshots. */
#ifndef TAMIS_STORE_SNAPSHOT_ENTRY_H
#define TAMIS_STORE_SNAPSHOT_ENTRY_H

#include "format/pack.h"
#include "lib/filter/filter.h"
#include "lib/store/base/base.h"
#include "lib/store/base/counters.h"
#include "lib/store/snapshot/arena.h"

struct entry {
    atomic_size_t refs;
    struct chunk *chunk;                   /* where it is */
    _Atomic(struct tamis_filter *) filter; /* its own file; NULL until first used */
    /* Its column, copied into memory: for callers that want a filter. Probes ask the
     * pack, since only tombstones say whether the column counts. */
    _Atomic(struct tamis_filter *) unpacked;
    /* Of its filter; of those before and after it, too. NULL until somebody counts. */
    _Atomic(struct account *) account;
    atomic_int failure; /* why it can't be opened, finally */
    int refusal;        /* why, as a public code */
    uint16_t state;     /* RECORD_*, or 0: the record is unreadable */
    bool borrowed;      /* the filter is the caller's */
    bool has_range;
    bool packed; /* a column of a pack, at entry_place() */
    uint16_t name_bytes, value_bytes;
    uint32_t rank;
    uint64_t watermark;
    uint8_t bytes[]; /* name, record as in the catalog */
};
/* NULL: no memory. */
struct entry *entry_new(struct arena *a, const void *name, size_t name_bytes,
                        const uint8_t *value, size_t value_bytes);
struct entry *entry_hold(struct entry *e);
void entries_release(struct entry **entries, size_t n);
/* The account, made if nobody has counted yet. NULL: no memory, or the caller's filter.
 */
struct account *entry_account(struct entry *e);
/* The segment's entry in a table of columns, but for its column and own_blocks. The
 * record is good, and whole. */
void column_of_record(const struct record_disk *r, const void *name, size_t name_bytes,
                      struct column *out);
void entry_facts(const struct entry *e, struct column *out);
bool entry_is(const struct entry *e, const uint8_t *value, size_t value_bytes);
/* Is its filter read, and would another entry's be mapped? */
bool entry_may_be_mapped(const struct entry *e);
/* Why a filter with this header, and the record's UUID, is not the record's filter
 * (SPEC.md section 13.3); NULL if it is. */
const char *record_mismatch(const struct record *r, const struct header *h);
/* Opens the filter for the caller alone, who closes it by entry_close(). Both count
 * what a process has mapped. A sealed one for which there is no room is read instead.
 */
int entry_open(struct entry *e, const struct filters_dir *dir,
               const struct tamis_domain *domain, struct tamis_filter **out,
               struct tamis_diag *diag);
void entry_close(struct tamis_filter *f);
/* Is this an error that may not happen again? Then it is not remembered. */
bool entry_may_open_later(int code);
/* So many filters may be mapped: 7/8 of vm.max_map_count. */
size_t entry_max_mapped(void);
/* One more filter may be mapped, and is counted; false: no more. */
bool entry_take_place(void);
void entry_leave_place(void);
/* Puts a filter of entry_open() there, unless another thread was first. Returns what is
 * there then. */
struct tamis_filter *entry_share(_Atomic(struct tamis_filter *) *there,
                                 struct tamis_filter *mine);
/* The open filter; opens it if needed. */
int entry_filter(struct entry *e, const struct filters_dir *dir,
                 const struct tamis_domain *domain, struct tamis_filter **out,
                 struct tamis_diag *diag);
/* The same for probes: on failure NULL and a reason. Does not retry what failed
 * finally. */
struct tamis_filter *entry_filter_or_reason(struct entry *e,
                                            const struct filters_dir *dir,
                                            const struct tamis_domain *domain,
                                            enum tamis_reason *why);

static inline const struct record_disk *entry_record(const struct entry *e)
{
    return (const struct record_disk *)(const void *)(e->bytes + e->name_bytes);
}

/* Below 0, 0 or above: as names are ordered in a catalog. */
static inline int entry_compare_name(const struct entry *e, const void *name,
                                     size_t name_bytes)
{
    size_t n = e->name_bytes < name_bytes ? e->name_bytes : name_bytes;
    int order = n ? memcmp(e->bytes, name, n) : 0;
    return order ? order : (e->name_bytes > name_bytes) - (e->name_bytes < name_bytes);
}

/* Which pack a packed segment is in, PLACE_KEY_BYTES. */
static inline const uint8_t *entry_pack(const struct entry *e)
{
    return record_part(entry_record(e), PART_COLUMN)->uuid;
}

static inline struct pack_place entry_place(const struct entry *e)
{
    return part_place(record_part(entry_record(e), PART_COLUMN));
}

static inline const uint8_t *entry_first(const struct entry *e, size_t *n_bytes)
{
    *n_bytes = le16_get(entry_record(e)->first_bytes);
    return record_keys(entry_record(e));
}

static inline const uint8_t *entry_last(const struct entry *e, size_t *n_bytes)
{
    size_t n_first;
    const uint8_t *first = entry_first(e, &n_first);
    *n_bytes = le16_get(entry_record(e)->last_bytes);
    return first + n_first;
}

#endif
