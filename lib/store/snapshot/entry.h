/* One segment as the catalog describes it, shared by snapshots. */
#ifndef TAMIS_STORE_SNAPSHOT_ENTRY_H
#define TAMIS_STORE_SNAPSHOT_ENTRY_H

#include "format/record.h"
#include "lib/filter/filter.h"
#include "lib/store/base/base.h"
#include "lib/store/base/counters.h"

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
int entry_open(struct entry *e, const struct filters_dir *dir,
               const struct tamis_domain *domain, struct tamis_filter **out,
               struct tamis_diag *diag);
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
typedef int entry_filter_fn(struct entry *e, const struct filters_dir *dir,
                            const struct tamis_domain *domain,
                            struct tamis_filter **out, struct tamis_diag *diag);
entry_filter_fn entry_filter, entry_look;
/* The same for probes: on failure NULL and a reason. Does not retry what failed
 * finally. */
struct tamis_filter *entry_filter_or_reason(struct entry *e,
                                            const struct filters_dir *dir,
                                            const struct tamis_domain *domain,
                                            enum tamis_reason *why);

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

/* Below 0, 0 or above: as names are ordered in a catalog. */
static inline int entry_compare_name(const struct entry *e, struct piece name)
{
    return name_compare(entry_name(e), name);
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

#endif
