/* Sums of counts: of a snapshot, of a segment's filter, of a store.
 *
 * When its last holder releases a snapshot, its counts are added to the account of each
 * of its segments' filters and to the ledger of its store. Both are written and read
 * under the ledger's lock, together with the snapshots that are still held. So a sum
 * never falls because a newer snapshot takes the place of an older one. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/plan/plan.h"

/* ---- sums ---- */

static void sum_add_row(struct segment_sum *sum, const struct sheet *sheet,
                        size_t ordinal)
{
    const struct count_row *row = &sheet->rows[ordinal];
    uint64_t hits = atomic_load_explicit(&sheet->hits[ordinal], memory_order_relaxed);
    if (ordinal)
        sum->absent += count_read(&sheet->all[(ordinal - 1) / 64]) - hits;
    sum->n[TAMIS_HIT] += hits;
    sum->absent +=
        count_read(&row->n[TAMIS_NO_REASON]) + count_read(&row->n[COUNT_MANY]);
    for (size_t r = TAMIS_HIT; r < N_REASONS; r++)
        sum->n[r] += count_read(&row->n[r]);
    sum->n_false += count_read(&row->n[COUNT_FALSE]);
}

/* Each segment's absents of probes of many are computed, but their sum is kept. */
static void add_sheet(struct tamis_stats *out, const struct sheet *sheet, size_t n)
{
    out->n_excluded += count_read(&sheet->excluded);
    out->n_absent += count_read(&sheet->absent);
    for (size_t ordinal = 0; (ordinal = sheet_next(sheet, ordinal, n)) <= n;
         ordinal++) {
        const struct count_row *row = &sheet->rows[ordinal];
        out->n_absent += count_read(&row->n[TAMIS_NO_REASON]);
        out->n_maybe[TAMIS_HIT] +=
            atomic_load_explicit(&sheet->hits[ordinal], memory_order_relaxed);
        for (size_t r = TAMIS_HIT; r < N_REASONS; r++)
            out->n_maybe[r] += count_read(&row->n[r]);
        out->n_false_positives += count_read(&row->n[COUNT_FALSE]);
    }
}

static const struct sheet *sheet_at(struct tamis_snapshot *s, size_t i)
{
    return atomic_load_explicit(&s->counts.sheets[i], memory_order_acquire);
}

static void add_snapshot(struct tamis_stats *out, struct tamis_snapshot *s)
{
    for (size_t i = 0; i < N_OWN_SHEETS + 2; i++)
        if (sheet_at(s, i))
            add_sheet(out, sheet_at(s, i), s->n);
}

static void add_segment(struct segment_sum *sum, struct tamis_snapshot *s, size_t index)
{
    for (size_t i = 0; i < N_OWN_SHEETS + 2; i++)
        if (sheet_at(s, i))
            sum_add_row(sum, sheet_at(s, i), index + 1);
}

/* So far n_absent counts the answers that bits gave. */
static void complete(struct tamis_stats *out)
{
    out->max_mapped = entry_max_mapped();
    out->n_absent += out->n_excluded;
    out->n_probes = out->n_absent;
    for (size_t r = 0; r < TAMIS_MAX_REASONS; r++)
        out->n_probes += out->n_maybe[r];
}

static void add_pages(struct tamis_stats *out, const struct page_counts *pages)
{
    out->n_pages_checked += count_read(&pages->n_checked);
    out->n_pages_damaged += count_read(&pages->n_damaged);
}

/* A filter of the caller has its page counts itself. */
static void add_pages_of(struct tamis_stats *out, struct entry *e)
{
    struct tamis_filter *f = atomic_load_explicit(&e->filter, memory_order_acquire);
    struct account *account = atomic_load_explicit(&e->account, memory_order_acquire);
    if (account)
        add_pages(out, &account->pages);
    else if (f)
        add_pages(out, filter_page_counts(f));
    out->n_unmapped += f && filter_is_unmapped(f);
}

/* ---- a snapshot comes and goes ---- */

/* With an account for each segment, and sums of each shared file, which snapshots
 * share: there must be no lack of memory when a snapshot goes. */
int stats_begin(struct tamis_snapshot *s)
{
    for (size_t i = 0; s->ledger && i < s->n_loose; i++)
        if (!entry_account(s->entries[i]))
            return ENOMEM;
    for (size_t i = 0; i < s->shared.n; i++) {
        struct open_pack *p = s->shared.views[i].open;
        struct sheet *none = NULL, *mine;
        if (!p || atomic_load(&p->sums))
            continue;
        mine = sheet_new(p->n_columns, false);
        if (!mine)
            return ENOMEM;
        if (!atomic_compare_exchange_strong(&p->sums, &none, mine))
            free(mine);
    }
    return counters_begin(&s->counts, s->n);
}

int stats_join(struct tamis_snapshot *s)
{
    struct ledger *l = s->ledger;
    if (!ledger_lock(l))
        return 0;
    int rc = l->on ? stats_begin(s) : 0;
    if (!rc) {
        s->next_live = l->live;
        s->to_live = &l->live;
        if (l->live)
            l->live->to_live = &s->next_live;
        l->live = s;
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

/* Where the sums of a segment are kept across snapshots; NULL: nowhere. Adds them, if
 * `sum` is given. */
static const void *kept_sum(const struct tamis_snapshot *s, size_t index,
                            struct segment_sum *sum)
{
    if (is_loose(s, index)) {
        struct account *t = atomic_load(&s->entries[index]->account);
        if (t && sum)
            *sum = t->sum;
        return t;
    }
    struct seat seat = segment_seat(s, index);
    struct open_pack *open = seat.view ? seat.view->open : NULL;
    const struct sheet *sums = open ? atomic_load(&open->sums) : NULL;
    if (sums && sum)
        sum_add_row(sum, sums, seat.column + 1);
    return sums ? &sums->rows[seat.column + 1] : NULL;
}

/* Adds the counts of a shared file's columns to its sums. */
static void fold_view(struct tamis_snapshot *s, const struct shared_view *v)
{
    struct sheet *to = v->open ? atomic_load(&v->open->sums) : NULL;
    for (size_t i = 0; to && i < N_OWN_SHEETS + 2; i++)
        if (sheet_at(s, i))
            sheet_fold(to, sheet_at(s, i), v->base, v->n_columns);
}

void stats_leave(struct tamis_snapshot *s)
{
    if (!ledger_lock(s->ledger))
        return;
    if (s->to_live) /* it has joined */
        *s->to_live = s->next_live;
    if (s->next_live)
        s->next_live->to_live = s->to_live;
    if (sheet_at(s, SHARED_SHEET)) { /* it has counted */
        add_snapshot(&s->ledger->gone, s);
        for (size_t i = 0; i < s->n_loose; i++) {
            struct account *to = atomic_load(&s->entries[i]->account);
            if (to)
                add_segment(&to->sum, s, i);
        }
        for (size_t i = 0; i < s->shared.n; i++)
            fold_view(s, &s->shared.views[i]);
    }
    pthread_mutex_unlock(&s->ledger->lock);
}

/* ---- the public calls ---- */

int tamis_store_count(struct tamis_store *store, int on, struct tamis_diag *diag)
{
    int rc = store_usable(store, false, diag);
    if (rc)
        return rc;
    struct ledger *l = store->catalog->ledger;
    ledger_lock(l);
    l->on = on;
    for (struct tamis_snapshot *s = l->live; s && !rc; s = s->next_live)
        if (on)
            rc = stats_begin(s);
        else
            atomic_store(&s->counts.on, false);
    pthread_mutex_unlock(&l->lock);
    return rc ? diag_errno(diag, rc, store->catalog->path, "counting probes") : 0;
}

int tamis_snapshot_stats(struct tamis_snapshot *snapshot, int of_store,
                         struct tamis_stats *out)
{
    struct tamis_snapshot *s = snapshot;
    struct ledger *l = s && of_store ? s->ledger : NULL;
    if (out)
        *out = (struct tamis_stats){0};
    if (!out || !s || (of_store && !l))
        return TAMIS_ERR_RANGE;
    if (l && !ledger_lock(l))
        return TAMIS_ERR_FORKED;
    if (l) {
        *out = l->gone;
        for (struct tamis_snapshot *live = l->live; live; live = live->next_live)
            add_snapshot(out, live);
        pthread_mutex_unlock(&l->lock);
        add_pages(out, &l->pages);
    } else {
        add_snapshot(out, s);
        for (size_t i = 0; i < s->n_loose; i++)
            add_pages_of(out, s->entries[i]);
    }
    complete(out);
    return 0;
}

/* Where this segment's filter is in another snapshot of the store; n if nowhere. */
static size_t find_account(const struct tamis_snapshot *s,
                           const struct tamis_segment_info *info, const void *sum)
{
    uint32_t ordinal;
    enum tamis_reason why;
    if (snapshot_ordinal(s, info->name, info->name_bytes, NULL, &ordinal, &why) != 0)
        return s->n;
    return kept_sum(s, ordinal - 1, NULL) == sum ? ordinal - 1 : s->n;
}

/* The sum over all snapshots that are or were held. In a child of a fork, and for the
 * caller's own filters, the sum of this snapshot. */
static void sum_segment(struct tamis_snapshot *s, size_t index, struct segment_sum *sum)
{
    struct tamis_segment_info info;
    if (!ledger_lock(s->ledger)) {
        add_segment(sum, s, index);
        return;
    }
    const void *t = kept_sum(s, index, sum);
    if (!t || tamis_snapshot_segment(s, index, &info) != 0) { /* nobody has counted */
        pthread_mutex_unlock(&s->ledger->lock);
        return;
    }
    for (struct tamis_snapshot *live = s->ledger->live; live; live = live->next_live) {
        size_t at = live == s ? index : find_account(live, &info, t);
        if (at < live->n)
            add_segment(sum, live, at);
    }
    pthread_mutex_unlock(&s->ledger->lock);
}

int tamis_snapshot_segment_stats(struct tamis_snapshot *snapshot, size_t index,
                                 struct tamis_segment_stats *out)
{
    if (!out)
        return TAMIS_ERR_RANGE;
    *out = (struct tamis_segment_stats){0};
    if (!snapshot || index >= snapshot->n)
        return TAMIS_ERR_RANGE;
    struct tamis_segment_info info;
    struct entry *e = loose_entry(snapshot, index);
    struct segment_sum sum = {0};
    sum_segment(snapshot, index, &sum);
    /* Caught between two steps of a probe the difference may be below 0. */
    out->counts.n_absent = sum.absent <= INT64_MAX ? sum.absent : 0;
    out->counts.n_false_positives = sum.n_false;
    memcpy(out->counts.n_maybe, sum.n, sizeof sum.n);
    if (e)
        add_pages_of(&out->counts, e);
    complete(&out->counts);
    if (tamis_snapshot_segment(snapshot, index, &info) == 0 && info.state)
        out->target_error = info.error;
    /* If nothing was asked, the measured error is 0, and its bound is 1. */
    uint64_t wrong = sum.n_false, n = wrong + out->counts.n_absent;
    out->measured_error = n ? (double)wrong / (double)n : 0;
    error_interval(wrong, n, &out->error_low, &out->error_high);
    out->over_target = out->target_error > 0 && out->error_low > out->target_error;
    return 0;
}

int tamis_snapshot_report_false_positive(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target)
{
    if (!snapshot || !target)
        return TAMIS_ERR_RANGE;
    if (!target_here(snapshot, target))
        return TAMIS_ERR_NO_SEGMENT;
    size_t index = target->ordinal - 1;
    const struct entry *e = loose_entry(snapshot, index);
    if (e ? !e->state || e->state == RECORD_NO_FILTER : !seat_taken(snapshot, index))
        return TAMIS_ERR_NO_SEGMENT;
    if (!counters_on(&snapshot->counts))
        return 0;
    struct sheet *sheet = counters_sheet(&snapshot->counts, snapshot->n);
    sheet_add(sheet, &sheet_row(sheet, target->ordinal)->n[COUNT_FALSE], 1);
    return 0;
}
