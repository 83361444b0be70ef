/* Snapshots: the list of segments as of one transaction. A snapshot copies the records
 * and holds no transaction; asking for the current one costs a comparison when nothing
 * changed. segment.c has the facts of its segments; the room query asks them. */
#include "lib/store/snapshot/snapshot.h"

#include <sys/mman.h>

/* ---- building ---- */

static int add_entry(struct tamis_snapshot *s, struct entry *e, size_t *max)
{
    if (!e)
        return ENOMEM;
    void *more = s->n_loose < NAME_TWICE / 2
                     ? room_for(s->entries, s->n_loose + 1, max, sizeof(struct entry *))
                     : NULL;
    if (!more) {
        entry_release(e);
        return ENOMEM;
    }
    s->entries = more;
    s->entries[s->n_loose++] = e;
    s->n = s->n_segments = s->n_loose;
    return 0;
}

void unmap_room(uint64_t *room)
{
    if (room)
        munmap(room, room[0] * sizeof *room);
}

/* Frees what a snapshot refers to, and leaves it empty. */
static void snapshot_clear(struct tamis_snapshot *s)
{
    for (size_t i = 0; i < s->n_loose; i++)
        entry_release(s->entries[i]);
    if (s->named != s->entries)
        free(s->named);
    free(s->entries);
    free(s->ordinals);
    names_clear(&s->by_name);
    planes_free(&s->planes);
    shared_free(&s->shared);
    unmap_room(atomic_exchange(&s->room, NULL));
    s->entries = s->named = NULL;
    s->ordinals = NULL;
    s->n = s->n_segments = s->n_loose = 0;
}

static struct tamis_snapshot *snapshot_alloc(void)
{
    static atomic_uint_fast64_t n_snapshots;
    struct tamis_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->watch.clock = &trust_clock;
    atomic_init(&s->refs, 1);
    s->serial = 1 + atomic_fetch_add_explicit(&n_snapshots, 1, memory_order_relaxed);
    return s;
}

struct tamis_snapshot *snapshot_hold(struct tamis_snapshot *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void tamis_snapshot_release(struct tamis_snapshot *snapshot)
{
    if (!snapshot ||
        atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel) != 1)
        return;
    stats_leave(snapshot);
    snapshot_clear(snapshot);
    counters_free(&snapshot->counts);
    filters_dir_release(snapshot->dir);
    origin_release(snapshot->origin);
    ledger_release(snapshot->ledger);
    free(snapshot);
}

/* ---- from the catalog ---- */

struct loading {
    struct tamis_snapshot *snapshot;
    const struct tamis_snapshot *previous; /* may be NULL */
    size_t max;
    size_t next; /* of previous->named: all before it are passed */
};

/* A filter whose record has changed, by a growth perhaps, goes on counting. */
static int keep_account(struct entry *e, struct entry *before)
{
    if (!before->state || !e->state ||
        memcmp(entry_record(before)->uuid, entry_record(e)->uuid, UUID_BYTES) != 0)
        return 0;
    struct account *account = entry_account(before);
    if (!account)
        return ENOMEM;
    atomic_fetch_add_explicit(&account->refs, 1, memory_order_relaxed);
    atomic_store(&e->account, account);
    return 0;
}

/* The segment of this name in the snapshot before; NULL: there is none. Names come in
 * their order. */
static struct entry *entry_before(struct loading *l, struct piece name)
{
    const struct tamis_snapshot *s = l->previous;
    int order = 1;
    while (s && l->next < s->n_loose &&
           (order = name_compare(entry_name(s->named[l->next]), name)) < 0)
        l->next++;
    return order == 0 ? s->named[l->next] : NULL;
}

static int load_entry(void *ctx, struct piece name, struct piece value)
{
    struct loading *l = ctx;
    struct entry *before = entry_before(l, name);
    /* One that failed to open may open now, though its record reads the same. */
    if (before && entry_is(before, value) && !atomic_load(&before->failure) &&
        !entry_may_be_mapped(before))
        return add_entry(l->snapshot, entry_hold(before), &l->max);
    struct entry *e = entry_new(&l->snapshot->ledger->pages, name, value);
    if (e && before && keep_account(e, before) != 0) {
        entry_release(e);
        e = NULL;
    }
    return add_entry(l->snapshot, e, &l->max);
}

static int load_in(struct catalog_txn *t, void *ctx)
{
    struct loading *l = ctx;
    struct meta m;
    snapshot_clear(l->snapshot);
    l->max = l->next = 0;
    int rc = catalog_meta(t, &m);
    if (rc)
        return rc;
    l->snapshot->complete = m.complete;
    l->snapshot->number = catalog_txn_number(t);
    rc = catalog_each(t, load_entry, l);
    return rc ? rc : shared_read(l->snapshot, l->previous, t);
}

/* ---- the order ---- */

/* A key is a rank, and under it the place in the order of names. */
static int compare_keys(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The catalog lists its segments by name, and often that is their order. */
static int entries_sort(struct tamis_snapshot *s)
{
    size_t n = s->n_loose, in_order = 1;
    s->named = s->entries;
    while (in_order < n && s->named[in_order - 1]->rank <= s->named[in_order]->rank)
        in_order++;
    if (in_order >= n)
        return 0;
    uint64_t *keys = malloc(n * sizeof *keys);
    struct entry **sorted = malloc(n * sizeof(struct entry *));
    s->ordinals = malloc(n * sizeof *s->ordinals);
    if (!keys || !sorted || !s->ordinals) {
        free(keys);
        free(sorted);
        return ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        keys[i] = (uint64_t)s->named[i]->rank << 32 | i;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = s->named[(uint32_t)keys[i]];
        s->ordinals[(uint32_t)keys[i]] = (uint32_t)i + 1;
    }
    s->entries = sorted;
    free(keys);
    return 0;
}

int snapshot_load(struct catalog *c, const struct tamis_snapshot *previous,
                  struct tamis_snapshot **out, struct tamis_diag *diag)
{
    struct tamis_snapshot *s = snapshot_alloc();
    if (!s)
        return diag_errno(diag, ENOMEM, c->path, "taking a snapshot");
    s->domain = c->domain;
    s->dir = c->filters;
    s->origin = c->origin;
    s->ledger = c->ledger;
    atomic_fetch_add_explicit(&s->dir->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->ledger->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->origin->refs, 1, memory_order_relaxed);
    struct loading l = {.snapshot = s, .previous = previous};
    int rc = catalog_read(c, load_in, &l, diag);
    if (!rc)
        rc = catalog_agrees(c, diag);
    if (!rc) {
        rc = entries_sort(s);
        if (!rc)
            rc = shared_open(s, c, previous == NULL);
        if (!rc)
            rc = planes_make(s);
        if (!rc)
            rc = stats_join(s);
        if (rc)
            diag_errno(diag, rc, c->path, "taking a snapshot");
    }
    if (rc)
        tamis_snapshot_release(s);
    else
        *out = s;
    return rc;
}

/* With cache_lock held. *stale is what the caller releases after unlocking. */
static int current_locked(struct catalog *c, struct tamis_snapshot **out,
                          struct tamis_snapshot **stale, struct tamis_diag *diag)
{
    struct tamis_snapshot *fresh = NULL, *last = c->cached;
    *stale = NULL;
    bool good = last && catalog_is_at(c, last->number);
    if (!good || shared_would_open(last, c)) {
        int rc = snapshot_load(c, last, &fresh, diag);
        if (rc &&
            (!good || rc == TAMIS_ERR_REPLACED || !catalog_is_at(c, last->number)))
            return rc;
        diag_clear(diag);
    }
    if (fresh) {
        *stale = last;
        c->cached = fresh;
        c->release_cached = tamis_snapshot_release;
    }
    *out = snapshot_hold(c->cached);
    return 0;
}

int tamis_snapshot_current(struct tamis_store *store, struct tamis_snapshot **out,
                           struct tamis_diag *diag)
{
    struct tamis_snapshot *stale;
    if (out)
        *out = NULL;
    int rc = store_usable(store, false, diag);
    if (rc)
        return rc;
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the snapshot");
    struct catalog *c = store->catalog;
    int before = io_hold_cancel(); /* or the lock would be held for ever */
    pthread_mutex_lock(&c->cache_lock);
    rc = current_locked(c, out, &stale, diag);
    pthread_mutex_unlock(&c->cache_lock);
    io_let_cancel(before);
    tamis_snapshot_release(stale);
    return rc;
}

/* ---- from filters ---- */

/* A filter that the caller opened, with the record that a catalog would have of it. */
static struct entry *entry_of_filter(struct tamis_filter *f, uint32_t rank)
{
    struct tamis_filter_info info;
    if (tamis_filter_info(f, &info, NULL) != 0)
        return NULL;
    struct record r = {
        .state = info.sealed ? RECORD_SEALED : RECORD_GROWING,
        .binding_bytes = (uint8_t)info.binding_bytes,
        .generation = info.generation,
        .table_digest = info.table_digest,
        .file_bytes = info.file_bytes,
        .keys = info.keys,
        .target_error = info.growth.error,
        .watermark = info.watermark,
        .min_sequence = info.sequence,
        .min_stages = info.n_stages,
        .rank = rank,
        .created = info.created,
    };
    memcpy(r.uuid, info.uuid, UUID_BYTES);
    memcpy(r.binding, info.binding, info.binding_bytes);
    uint8_t value[RECORD_MAX_BYTES];
    struct piece name = {info.name, info.name_bytes};
    size_t n = record_encode(&r, name.at, name.n, value);
    struct entry *e = entry_new(NULL, name, (struct piece){value, n});
    if (!e)
        return NULL;
    /* The record's checks may refuse a foreign filter, but the filter is open. */
    e->state = r.state;
    e->rank = rank;
    e->refusal = 0;
    e->watermark = r.watermark;
    e->borrowed = true;
    atomic_init(&e->filter, f);
    return e;
}

static int index_names(struct tamis_snapshot *s)
{
    for (size_t i = 0; i < s->n_loose; i++) {
        const struct entry *e = s->entries[i];
        if (!e->name_bytes)
            continue;
        bool twice = names_get(&s->by_name, e->bytes, e->name_bytes) != 0;
        int rc = names_set(&s->by_name, e->bytes, e->name_bytes,
                           twice ? NAME_TWICE : (uint32_t)i + 1);
        if (rc)
            return rc;
    }
    return 0;
}

int tamis_snapshot_from_filters(struct tamis_filter *const *filters, size_t n,
                                int count, struct tamis_snapshot **out)
{
    if (!out)
        return TAMIS_ERR_RANGE;
    *out = NULL;
    bool good = (!n || filters) && n >> NUMBER_BITS == 0;
    for (size_t i = 0; i < n && good; i++)
        good = filters[i] != NULL;
    if (!good)
        return TAMIS_ERR_RANGE;
    struct tamis_snapshot *s = snapshot_alloc();
    if (!s)
        return ENOMEM;
    s->complete = true; /* the list is the caller's own */
    if (n)
        s->domain = filter_domain(filters[0]);
    size_t max = 0;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = add_entry(s, entry_of_filter(filters[i], (uint32_t)i), &max);
    if (!rc)
        rc = index_names(s);
    if (!rc)
        rc = planes_make(s);
    if (!rc && count)
        rc = stats_begin(s);
    if (rc)
        tamis_snapshot_release(s);
    else
        *out = s;
    return rc;
}
