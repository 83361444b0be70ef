/* tamis_edit_pack(): sealed segments of a snapshot, written as columns of one pack.
 * Segments that may not be packed are left as they are, and counted.
 *
 *     segments  --inputs_consider()-->  inputs: where the blocks of each are
 *                                         |
 *                                         |  plan_taken(): without those that grow
 *                                         v
 *                                       pack_make(), then one operation
 *
 * Each page is checked as it is copied (SPEC.md §16.4). The kernel limits the mappings
 * of a process, so only the first MAX_OPEN files stay open; the others are opened again
 * when their band is written. */
#include "lib/store/edit/inside.h"
#include "lib/io/threads.h"
#include "lib/plan/plan.h"

/* ---- inputs: segments that are taken ---- */

/* A file, of a segment that has one. */
struct pack_file {
    struct tamis_filter *filter; /* NULL: it is opened again when its band is written */
    uint8_t set_id[UUID_BYTES];
};
/* Segments that are taken. Their blocks lie in files, or in columns of other packs. */
struct packing {
    struct tamis_edit *edit;
    struct tamis_snapshot *snapshot;
    struct tamis_pack_options opt;
    struct tamis_pack_report *report;
    struct tamis_diag *diag; /* may be NULL */
    bool *seen;              /* by segment: considered before */
    bool *checked;           /* by pack of the snapshot: all of its pages */
    struct threads *threads; /* that help; NULL: none */
    struct pack_window *windows[PACK_MAX_THREADS]; /* each has its own */
    size_t n;                                      /* taken: */
    uint32_t *segments;                            /* of the snapshot */
    struct pack_file *files;                       /* by segment, not by input */
    struct pack_source *sources;
    bool *gone; /* by input: lost while it was packed; its column is dead */
    struct pack_plan plan;
    bool unread;   /* an entry's facts could not be read when it was written */
    size_t n_open; /* files that stay open until the pack is written */
    uint32_t band; /* the band whose files are open, too */
};
enum { MAX_OPEN = 16384 };

static int inputs_alloc(struct packing *p, size_t n)
{
    unsigned room = 1;
    p->segments = calloc(n + 1, sizeof *p->segments);
    p->files = calloc(p->snapshot->n_loose + 1, sizeof *p->files);
    p->sources = calloc(n + 1, sizeof *p->sources);
    p->gone = calloc(n + 1, sizeof *p->gone);
    p->seen = calloc(p->snapshot->n + 1, sizeof *p->seen);
    p->checked = calloc(p->snapshot->shared.n + 1, sizeof *p->checked);
    p->windows[0] = pack_window_new();
    if (!p->segments || !p->files || !p->sources || !p->gone || !p->seen ||
        !p->checked || !p->windows[0])
        return ENOMEM;
    while (room < p->opt.n_threads && room < PACK_MAX_THREADS &&
           (p->windows[room] = pack_window_new()) != NULL)
        room++;
    p->threads = threads_start(room, true);
    return 0;
}

static void input_close(struct tamis_filter **f)
{
    if (*f)
        entry_close(*f);
    *f = NULL;
}

static void inputs_free(struct packing *p)
{
    for (size_t i = 0; p->files && i < p->snapshot->n_loose; i++)
        input_close(&p->files[i].filter);
    threads_end(p->threads);
    free(p->segments);
    free(p->files);
    free(p->sources);
    free(p->gone);
    free(p->seen);
    free(p->checked);
    for (size_t i = 0; i < PACK_MAX_THREADS; i++)
        pack_window_free(p->windows[i]);
    pack_plan_free(&p->plan);
}

/* The file of input i; NULL: it is a column. */
static struct pack_file *input_file(const struct packing *p, size_t i)
{
    const struct entry *e = loose_entry(p->snapshot, p->segments[i]);
    return e && !e->elsewhere ? &p->files[p->segments[i]] : NULL;
}

static void input_add(struct packing *p, size_t segment, struct pack_source source)
{
    p->segments[p->n] = (uint32_t)segment;
    p->sources[p->n++] = source;
}

/* ---- which segments ---- */

/* Opens the filter, checks every page, and sets its header and geometry. Negative: it
 * cannot be packed; *diag says why, but for ERR_VERSION. */
static int input_open(const struct packing *p, size_t segment, struct tamis_filter **f,
                      struct header *h, struct geometry *g, struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    struct tamis_verify pages;
    int rc = entry_open(s, s->entries[segment], f, diag);
    if (rc)
        return *f = NULL, rc;
    rc = filter_verify(*f, h, &pages, diag);
    if (header_check_features(h, NULL, NULL) != 0)
        return TAMIS_ERR_VERSION; /* a copy would lose the feature */
    if (!rc && !filter_geometry(*f, s->domain.tag, 0, g))
        rc = TAMIS_ERR_UNFIT;
    return rc;
}

/* A segment's file as it was found, or its seat; or why the segment is left. */
struct considered {
    size_t index;
    enum { PASS, AT_SEAT, AT_FILE } at;
    enum tamis_left why;
    struct seat seat;
    struct tamis_filter *filter;
    struct pack_source source;
    int rc;
    struct tamis_diag diag;
};

static void look_at_file(const struct packing *p, struct considered *l)
{
    struct header h;
    struct geometry g;
    const struct stage_desc *first = h.commit.stages;
    int rc = l->rc = input_open(p, l->index, &l->filter, &h, &g, &l->diag);
    if (rc == TAMIS_ERR_VERSION)
        l->why = TAMIS_LEFT_NEWER;
    else if (l->filter && (rc == TAMIS_ERR_UNFIT || !rc) && h.commit.n_stages != 1)
        l->why = first->geometry.lanes ? TAMIS_LEFT_STAGES : TAMIS_LEFT_RIBBON;
    if (rc || l->why) {
        input_close(&l->filter);
        return;
    }
    uint64_t by_bits = plan_keys_of_bits(&g, first->bits_set);
    uint64_t keys = first->keys > by_bits ? first->keys : by_bits;
    l->source = (struct pack_source){
        .geometry = g,
        .folded_blocks = bands_fold(&g, keys, first->target_error),
        .file_pages = (uint32_t)(h.commit.committed_bytes / PAGE_BYTES),
    };
}

static void input_left(struct packing *p, size_t segment, enum tamis_left why)
{
    struct tamis_pack_report *r = p->report;
    r->n_left[why]++;
    if (r->why_left == TAMIS_LEFT_NONE ||
        (r->why_left == TAMIS_LEFT_REPLACED && why != TAMIS_LEFT_REPLACED)) {
        r->first_left = (uint32_t)segment;
        r->why_left = why;
    }
}

static void input_lost(struct packing *p, size_t segment)
{
    struct facts was = {.disk.has_range = 0};
    struct wanted now = {.name.at = NULL};
    struct seat seat = segment_seat(p->snapshot, segment);
    struct pack_place place = {.digest = 0};
    if (seat.view)
        place = seat_place(&seat);
    bool known = segment_facts(p->snapshot, segment, &was, NULL) == 0;
    if (known)
        now.name = column_name(&was);
    int rc = known ? catalog_read(p->edit->catalog, store_find_record, &now, NULL) : 0;
    bool same = !rc && memcmp(was.disk.uuid, now.record.uuid, UUID_BYTES) == 0 &&
                memcmp(&place, &now.record.place, sizeof place) == 0;
    bool is_replaced = known && !same && (!rc || rc == TAMIS_ERR_NO_SEGMENT);
    input_left(p, segment, is_replaced ? TAMIS_LEFT_REPLACED : TAMIS_LEFT_UNREADABLE);
}

/* A missing file, or one that is no file, stays so. Other errors may pass, and end the
 * packing. */
static bool error_may_pass(int rc)
{
    return rc > 0 && rc != ENOENT && !io_not_regular(rc);
}

static int take_file(struct packing *p, struct considered *l)
{
    int rc = l->rc;
    if (error_may_pass(rc)) {
        if (p->diag)
            *p->diag = l->diag;
        return rc;
    }
    if (rc) {
        input_lost(p, l->index);
        return 0;
    }
    input_add(p, l->index, l->source);
    struct pack_file *file = &p->files[l->index];
    memcpy(file->set_id, filter_set_id(l->filter), UUID_BYTES);
    if (p->n_open == MAX_OPEN) {
        input_close(&l->filter);
        return 0;
    }
    file->filter = l->filter;
    p->n_open++;
    return 0;
}

/* When the column was packed first, it was folded as far as its error allowed. It is
 * not folded again, for only a record says how many keys it has. A column whose entry
 * or pack cannot be read stays where it is. */
static int take_column(struct packing *p, const struct considered *l)
{
    struct facts col;
    int rc = segment_facts(p->snapshot, l->index, &col, p->diag);
    if (error_may_pass(rc))
        return rc;
    diag_clear(p->diag);
    uint64_t own_blocks = rc ? 0 : le64_get(col.disk.own_blocks);
    if (!l->seat.band || !own_blocks) {
        input_left(p, l->index, TAMIS_LEFT_UNREADABLE);
        return 0;
    }
    struct pack_source source = {.geometry = l->seat.band->geometry,
                                 .folded_blocks = own_blocks};
    source.geometry.n_blocks = own_blocks;
    input_add(p, l->index, source);
    return 0;
}

static bool input_is_damaged(struct packing *p, size_t i)
{
    struct tamis_verify pages;
    if (input_file(p, i))
        return false; /* a file was checked when it was taken */
    struct seat seat = segment_seat(p->snapshot, p->segments[i]);
    if (!seat.band)
        return true;
    bool *checked = &p->checked[seat.view - p->snapshot->shared.views];
    if (!*checked) /* all pages of the pack, once */
        tamis_filter_verify(seat_filter(&seat), &pages, NULL);
    *checked = true;
    return pack_column_is_bad(seat_filter(&seat), seat.band, seat_column(&seat),
                              p->sources[i].geometry.n_blocks);
}

/* Finds where the segment's blocks are, or why it is not packed. A segment whose pack
 * or file cannot be used is left. */
static void where(struct packing *p, size_t index, struct considered *l)
{
    const struct tamis_snapshot *s = p->snapshot;
    const struct entry *e = loose_entry(s, index);
    bool packed = !e || e->elsewhere;
    *l = (struct considered){.index = index};
    if (p->seen[index] || (!e && !seat_taken(s, index)))
        return; /* it is listed twice, or no segment */
    p->seen[index] = true;
    if (packed)
        l->seat = segment_seat(s, index);
    if (e &&
        (!e->state || e->name_bytes > NAME_MAX_BYTES)) /* shorter than any record */
        l->why =
            e->refusal == TAMIS_ERR_VERSION ? TAMIS_LEFT_NEWER : TAMIS_LEFT_UNREADABLE;
    else if (packed && p->opt.repack == TAMIS_REPACK_NONE)
        l->why = l->seat.band ? TAMIS_LEFT_PACKED : TAMIS_LEFT_UNREADABLE;
    else if (e && le64_get(entry_record(e)->ro_compat))
        l->why = TAMIS_LEFT_NEWER;
    else if (!packed && e->state != RECORD_SEALED)
        l->why = e->state == RECORD_GROWING ? TAMIS_LEFT_GROWING : TAMIS_LEFT_BARE;
    else
        l->at = packed ? AT_SEAT : AT_FILE;
}

/* Files that all threads look at together. */
enum { SEGMENTS_AT_ONCE = 128 };
struct considering {
    const struct packing *packing;
    struct considered segments[SEGMENTS_AT_ONCE];
    size_t n;
    _Atomic size_t next;
};

static void look_at_some(void *ctx, unsigned number)
{
    struct considering *all = ctx;
    size_t i;
    (void)number;
    while ((i = atomic_fetch_add(&all->next, 1)) < all->n)
        if (all->segments[i].at == AT_FILE)
            look_at_file(all->packing, &all->segments[i]);
}

/* Takes them in their order, as if they had been looked at one by one. */
static int take_looked(struct packing *p, struct considering *all)
{
    int rc = 0;
    for (size_t i = 0; i < all->n; i++) {
        struct considered *l = &all->segments[i];
        if (rc)
            input_close(&l->filter);
        else if (l->why)
            input_left(p, l->index, l->why);
        else if (l->at == AT_FILE)
            rc = take_file(p, l);
        else if (l->at == AT_SEAT)
            rc = take_column(p, l);
    }
    return rc;
}

static int inputs_consider(struct packing *p, const uint32_t *segments, size_t n)
{
    struct considering *all = malloc(sizeof *all);
    int rc = all ? 0 : diag_errno(p->diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t done = 0; done < n && !rc; done += all->n) {
        all->packing = p;
        all->n = n - done < SEGMENTS_AT_ONCE ? n - done : SEGMENTS_AT_ONCE;
        atomic_init(&all->next, 0);
        for (size_t i = 0; i < all->n; i++)
            where(p, segments ? segments[done + i] : done + i, &all->segments[i]);
        threads_run(p->threads, look_at_some, all);
        rc = take_looked(p, all);
    }
    free(all);
    return rc;
}

static void inputs_leave(struct packing *p, const bool *leave)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct pack_file *file = input_file(p, i);
        if (!leave[i]) {
            p->segments[n] = p->segments[i];
            p->sources[n++] = p->sources[i];
        } else if (file) {
            p->n_open -= file->filter != NULL;
            input_close(&file->filter);
        }
    }
    p->n = n;
}

/* ---- for pack_write() ---- */

/* If the facts cannot be read any more, the pack is given up. */
static int input_facts(void *ctx, uint32_t source, struct facts *out)
{
    struct packing *p = ctx;
    const struct pack_file *file = input_file(p, source);
    p->unread = segment_facts(p->snapshot, p->segments[source], out, NULL) != 0;
    if (p->unread)
        return TAMIS_ERR_DAMAGED;
    if (file)
        memcpy(out->disk.set_id, file->set_id, UUID_BYTES);
    return 0;
}

static bool input_blocks(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                         uint64_t first, uint64_t n, uint8_t *out)
{
    struct packing *p = ctx;
    const struct pack_source *s = &p->sources[source];
    struct header h;
    struct geometry g;
    struct pack_file *file = input_file(p, source);
    if (!file) {
        struct seat seat = segment_seat(p->snapshot, p->segments[source]);
        return seat.band && pack_gather(p->windows[thread], seat_filter(&seat),
                                        seat.band, seat_column(&seat),
                                        s->geometry.n_blocks, lane, first, n, out) == 0;
    }
    if (!file->filter) { /* never with threads: all_open */
        uint32_t band = band_of_column(p->plan.bands, p->plan.n_bands, s->column);
        /* Files beyond the first that are open belong to one band. */
        for (size_t i = 0, n_kept = 0; p->band != band && i < p->n; i++)
            if (input_file(p, i) && n_kept++ >= p->n_open)
                input_close(&input_file(p, i)->filter);
        p->band = band;
        if (input_open(p, p->segments[source], &file->filter, &h, &g, NULL) != 0)
            return false;
    }
    return filter_copy_blocks(file->filter, lane, first, n, out);
}

/* ---- the pack ---- */

/* Plans the segments that were taken, without filters that would grow. If none is left,
 * there is no plan. */
static int plan_taken(struct packing *p)
{
    size_t n_left = 1;
    int rc = 0;
    while (!rc && n_left && p->n) {
        bool *leave = calloc(p->n, sizeof *leave);
        if (!leave)
            return diag_errno(p->diag, ENOMEM, p->edit->catalog->path, "packing");
        pack_plan_free(&p->plan);
        rc = pack_plan_bands(p->edit, p->sources, p->n, &p->plan, p->diag);
        n_left = rc ? 0 : bands_leave(p->sources, p->n, &p->plan, leave);
        for (size_t i = 0; n_left && i < p->n; i++)
            if (leave[i])
                input_left(p, p->segments[i], TAMIS_LEFT_LARGER);
        if (n_left)
            inputs_leave(p, leave);
        free(leave);
    }
    return rc;
}

/* Appends the operation. The inputs are not needed any more. */
static int append_packed(struct packing *p, const struct pack_place *place)
{
    struct edit_op *op;
    int rc =
        edit_op_of_pack(p->edit, place, p->plan.n_columns, p->snapshot, &op, p->diag);
    if (rc)
        return rc;
    for (size_t i = 0; i < p->n; i++)
        if (!p->gone[i])
            op->placed->segments[p->sources[i].column] = p->segments[i] + 1;
    return edit_append(p->edit, op, p->diag);
}

/* Segments with columns that are nobody's are left. */
static void count_packed(struct packing *p)
{
    p->report->n_packed = 0;
    for (size_t i = 0; i < p->n; i++) {
        p->report->n_packed += !p->gone[i];
        p->report->n_repacked += !p->gone[i] && !input_file(p, i);
        if (p->gone[i])
            input_lost(p, p->segments[i]);
    }
}

static int pack_taken(struct packing *p)
{
    struct pack_place place = {.digest = 0};
    bool dry_run = p->opt.dry_run;
    bool all_open = true;
    int rc = plan_taken(p);
    if (rc || !p->n)
        return rc;
    for (size_t i = 0; i < p->n; i++)
        all_open &= !input_file(p, i) || input_file(p, i)->filter;
    struct pack_job job = {.plan = &p->plan,
                           .sources = p->sources,
                           .facts = input_facts,
                           .blocks = input_blocks,
                           .ctx = p,
                           .gone = p->gone,
                           .threads = all_open ? p->threads : NULL};
    rc = pack_make(p->edit, &job, dry_run, p->report, &place, p->diag);
    if (p->unread)
        return diag_fail(
            p->diag, TAMIS_ERR_DAMAGED, p->edit->catalog->filters->path,
            "a table of columns has become unreadable while it was packed");
    if (rc)
        return rc;
    for (size_t i = 0; dry_run && i < p->n; i++)
        p->gone[i] = input_is_damaged(p, i);
    count_packed(p);
    if (dry_run)
        return 0;
    if (p->report->n_packed) /* else all were lost meanwhile */
        rc = append_packed(p, &place);
    if (!rc && p->report->n_packed)
        memcpy(p->report->uuid, place.uuid, UUID_BYTES);
    else /* edit_append() has freed the operation, not its files */
        edit_unlink_pack(p->edit, &place);
    return rc;
}

/* ---- what is worth packing now ---- */

/* Three things are worth packing now: loose segments, packs that are half dead, and
 * packs of about the size of the new one.
 *
 * A pack's weight is the keys of its segments; tiers are powers of FAN_OUT. While there
 * are FAN_OUT - 1 packs of the new one's tier or below, they become part of it. So a
 * segment is rewritten once a tier, there are at most FAN_OUT - 1 packs a tier, and no
 * pack has more dead columns than living ones for long. It is size-tiered compaction,
 * as of LSM-trees (O'Neil et al. 1996). */
enum { FAN_OUT = 5, TIERS = 32 }; /* 5^32: the keys that 64 bits count */

/* A pack as it is now. */
struct weighed {
    uint64_t keys; /* of living segments */
    uint32_t n_living, n_columns;
    bool taken;
};

static unsigned tier_of(uint64_t keys)
{
    unsigned tier = 0;
    for (; keys >= FAN_OUT; keys /= FAN_OUT)
        tier++;
    return tier;
}

/* Takes the living columns' share of the keys in the pack's header. */
static void weigh(const struct tamis_snapshot *s, struct weighed *w)
{
    for (size_t i = 0; i < s->shared.n; i++) {
        const struct shared_view *v = &s->shared.views[i];
        struct tamis_filter_info info;
        if (!v->dead || tamis_filter_info(v->open->filter, &info, NULL) != 0)
            continue;
        w[i].n_columns = v->n_columns;
        w[i].n_living = v->n_listed + v->n_named;
        w[i].keys = info.keys / v->n_columns * w[i].n_living +
                    info.keys % v->n_columns * w[i].n_living / v->n_columns;
    }
}

/* How many packs of this tier or below are not taken? keys not NULL: takes them, and
 * adds their keys. */
static size_t weighed_up_to(struct weighed *w, size_t n, unsigned tier, uint64_t *keys)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (w[i].taken || !w[i].n_living || tier_of(w[i].keys) > tier)
            continue;
        sum++;
        w[i].taken = keys != NULL;
        if (keys)
            *keys += w[i].keys;
    }
    return sum;
}

/* A tier of FAN_OUT packs or more, or TIERS: packs that were made from keys, and packs
 * whose segments were dropped until their tier is a lower one. */
static unsigned crowded_tier(const struct weighed *w, size_t n)
{
    size_t count[TIERS] = {0};
    unsigned tier = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].taken && w[i].n_living)
            count[tier_of(w[i].keys)]++;
    while (tier < TIERS && count[tier] < FAN_OUT)
        tier++;
    return tier;
}

/* Segments that stay loose have no weight: they would call for a merge each time. */
static void choose_packs(const struct packing *loose, struct weighed *w)
{
    const struct tamis_snapshot *s = loose->snapshot;
    size_t n = s->shared.n;
    uint64_t keys = 0;
    bool any = loose->n > 0;
    for (size_t i = 0; i < loose->n; i++)
        keys += le64_get(entry_record(s->entries[loose->segments[i]])->keys);
    for (size_t i = 0; i < n; i++)
        if (w[i].n_living && w[i].n_living <= w[i].n_columns / 2) {
            w[i].taken = any = true;
            keys += w[i].keys;
        }
    for (;;) {
        bool joins = any && weighed_up_to(w, n, tier_of(keys), NULL) >= FAN_OUT - 1;
        unsigned tier = joins ? tier_of(keys) : crowded_tier(w, n);
        if (tier == TIERS)
            return;
        any |= weighed_up_to(w, n, tier, &keys) > 0;
    }
}

/* Counts the columns of a band that stay where they are. */
static void leave_stripe(struct packing *p, const struct stripe *t)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->n_words; i++) {
        uint64_t living = stripe_living(t, i);
        if (!n && living)
            input_left(p, t->first + 64 * i + (size_t)__builtin_ctzll(living),
                       TAMIS_LEFT_PACKED);
        n += (uint64_t)__builtin_popcountll(living);
    }
    p->report->n_left[TAMIS_LEFT_PACKED] += n ? n - 1 : 0;
}

/* The columns of the packs that are chosen; no other one is looked at. */
static int take_columns(struct packing *p, const struct weighed *w)
{
    const struct tamis_snapshot *s = p->snapshot;
    size_t n = 0, most = 1;
    for (size_t i = 0; i < s->shared.n; i++)
        most += w[i].taken ? w[i].n_living : 0;
    uint32_t *columns = malloc(most * sizeof *columns);
    if (!columns)
        return diag_errno(p->diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t i = 0; i < s->n_loose; i++) {
        struct seat seat = segment_seat(s, i);
        if (seat.band && w[seat.view - s->shared.views].taken)
            columns[n++] = (uint32_t)i;
        else if (seat.band)
            input_left(p, i, TAMIS_LEFT_PACKED);
    }
    for (size_t i = 0; i < s->shared.n_stripes; i++) {
        const struct stripe *t = &s->shared.stripes[i];
        if (!w[t->view - s->shared.views].taken)
            leave_stripe(p, t);
        for (uint32_t c = 0; w[t->view - s->shared.views].taken && c < t->n_words * 64;
             c++)
            if (stripe_living(t, c / 64) >> c % 64 & 1)
                columns[n++] = (uint32_t)(t->first + c);
    }
    int rc = inputs_consider(p, columns, n);
    free(columns);
    return rc;
}

/* Takes loose segments that may be packed, and chooses packs to go with them. It does
 * no work for a column that stays, so that it may follow each edit. */
static int pack_auto(struct packing *p)
{
    const struct tamis_snapshot *s = p->snapshot;
    size_t n = 0, n_looked_at = s->shared.n_mute ? s->n : s->n_loose;
    uint32_t *loose = malloc((n_looked_at + 1) * sizeof *loose);
    struct weighed *w = calloc(s->shared.n + 1, sizeof *w);
    int rc =
        loose && w ? 0 : diag_errno(p->diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t i = 0; !rc && i < n_looked_at; i++)
        if ((is_loose(s, i) || seat_taken(s, i)) && !segment_seat(s, i).band)
            loose[n++] = (uint32_t)i;
    if (!rc)
        rc = inputs_consider(p, loose, n);
    if (!rc)
        rc = plan_taken(p);
    if (!rc) {
        weigh(s, w);
        choose_packs(p, w);
        rc = take_columns(p, w);
    }
    free(loose);
    free(w);
    return rc;
}

/* ---- the call ---- */

static int check_call(const struct packing *p, const uint32_t *segments, size_t n,
                      int options)
{
    const char *store = p->edit->catalog->path;
    const struct tamis_snapshot *s = p->snapshot;
    if (options || p->opt.repack > TAMIS_REPACK_AUTO ||
        (segments && p->opt.repack == TAMIS_REPACK_AUTO))
        return diag_fail(p->diag, TAMIS_ERR_RANGE, store, "options are not valid");
    if (!s || !s->dir)
        return diag_fail(p->diag, TAMIS_ERR_RANGE, store, "no snapshot of a store");
    if (s->ledger != p->edit->catalog->ledger)
        return diag_fail(p->diag, TAMIS_ERR_MISMATCH, store,
                         "the snapshot is of another store");
    for (size_t i = 0; segments && i < n; i++)
        if (segments[i] >= s->n)
            return diag_fail(p->diag, TAMIS_ERR_RANGE, store,
                             "the snapshot has no segment %lu",
                             (unsigned long)segments[i]);
    return 0;
}

int tamis_edit_pack(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                    const uint32_t *segments, size_t n,
                    const struct tamis_pack_options *opt,
                    struct tamis_pack_report *report, struct tamis_diag *diag)
{
    struct tamis_pack_report unasked;
    struct packing p = {.edit = edit,
                        .snapshot = snapshot,
                        .report = report ? report : &unasked,
                        .diag = diag};
    *p.report = (struct tamis_pack_report){0};
    int bad = options_copy(&p.opt, sizeof p.opt, opt);
    int rc = p.opt.dry_run ? edit_alive(edit, diag) : edit_usable(edit, diag);
    if (rc)
        return rc;
    rc = check_call(&p, segments, n, bad);
    if (rc)
        return rc;
    n = segments ? n : snapshot->n;
    rc = inputs_alloc(&p, n);
    if (rc)
        diag_errno(diag, rc, edit->catalog->path, "packing");
    if (!rc)
        rc = p.opt.repack == TAMIS_REPACK_AUTO ? pack_auto(&p)
                                               : inputs_consider(&p, segments, n);
    if (!rc && p.n)
        rc = pack_taken(&p);
    inputs_free(&p);
    if (rc)
        *p.report = (struct tamis_pack_report){0};
    return rc;
}
