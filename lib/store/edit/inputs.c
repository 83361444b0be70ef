/* Inputs of tamis_edit_pack(), and where their blocks are: in the segment's own file,
 * or in a column of another pack. Each page is checked as it is copied (SPEC.md §16.4).
 * A process may map only so many files, so that of many only the first stay open; the
 * others are opened a second time when their band is written. */
#include "lib/store/edit/inside.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/io/threads.h"
#include "lib/plan/plan.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = 16384 };

int inputs_alloc(struct packing *p, size_t n)
{
    unsigned room = 1;
    p->segments = calloc(n + 1, sizeof *p->segments);
    p->files = calloc(p->snapshot->n_loose + 1, sizeof *p->files);
    p->sources = calloc(n + 1, sizeof *p->sources);
    p->gone = calloc(n + 1, sizeof *p->gone);
    p->seen = calloc(p->snapshot->n + 1, sizeof *p->seen);
    p->checked = calloc(p->snapshot->packs.n + 1, sizeof *p->checked);
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

void inputs_free(struct packing *p)
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

bool input_is_file(const struct packing *p, size_t i)
{
    const struct tamis_snapshot *s = p->snapshot;
    return is_loose(s, p->segments[i]) && !s->entries[p->segments[i]]->elsewhere;
}

/* ---- which segments ---- */

/* The open filter, every page of it checked, and its geometry. Negative: it cannot be
 * packed, and says so. */
static int open_file(const struct packing *p, size_t segment, struct tamis_filter **f,
                     struct geometry *g, struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    struct tamis_verify pages;
    int rc = entry_open(s->entries[segment], s->dir, &s->domain, f, diag);
    if (rc)
        return *f = NULL, rc;
    rc = filter_check_features(*f, diag);
    if (!rc)
        rc = tamis_filter_verify(*f, &pages, diag);
    if (!rc && !filter_geometry(*f, s->domain.tag, 0, g))
        rc = TAMIS_ERR_UNFIT;
    return rc;
}

/* A segment's file as it was found, or its seat. */
struct look {
    size_t index;
    enum { PASS, AT_SEAT, AT_FILE } at;
    struct seat seat;
    struct tamis_filter *filter;
    struct geometry geometry;
    struct tamis_stage_info stage;
    uint32_t n_stages;
    uint64_t file_bytes;
    int rc;
    struct tamis_diag diag;
};

static int note_stages(struct look *l)
{
    struct tamis_filter_info info;
    int rc = tamis_filter_info(l->filter, &info);
    l->n_stages = rc ? 0 : info.n_stages;
    l->file_bytes = rc ? 0 : info.file_bytes;
    return rc ? rc : tamis_filter_stage(l->filter, 0, &l->stage);
}

static void look_at_file(const struct packing *p, struct look *l)
{
    l->n_stages = 1;
    l->rc = open_file(p, l->index, &l->filter, &l->geometry, &l->diag);
    if (l->filter && (l->rc == TAMIS_ERR_UNFIT || !l->rc)) {
        int failed = note_stages(l);
        l->rc = failed ? failed : l->rc;
    }
    if (l->rc || l->n_stages != 1)
        input_close(&l->filter);
}

void input_left(struct packing *p, size_t segment, enum tamis_left why)
{
    struct tamis_pack_report *r = p->report;
    r->n_left[why]++;
    if (r->why_left == TAMIS_LEFT_NONE ||
        (r->why_left == TAMIS_LEFT_REPLACED && why != TAMIS_LEFT_REPLACED)) {
        r->first_left = (uint32_t)segment;
        r->why_left = why;
    }
}

struct now {
    struct column was;
    struct record record;
};

static int record_by_now(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct now *now = ctx;
    struct piece name = column_name(&now->was);
    return catalog_find_record(t, name.at, name.n, &now->record, diag);
}

void input_lost(struct packing *p, size_t segment)
{
    struct now now;
    struct seat seat = packs_seat(p->snapshot, segment);
    struct pack_place place = {.digest = 0};
    if (seat.view)
        place = seat_place(&seat);
    bool known = segment_facts(p->snapshot, segment, &now.was, NULL) == 0;
    int rc = known ? catalog_read(p->edit->catalog, record_by_now, &now, NULL) : 0;
    bool same = !rc && memcmp(now.was.disk.uuid, now.record.uuid, UUID_BYTES) == 0 &&
                memcmp(&place, &now.record.place, sizeof place) == 0;
    bool is_replaced = known && !same && (!rc || rc == TAMIS_ERR_NO_SEGMENT);
    input_left(p, segment, is_replaced ? TAMIS_LEFT_REPLACED : TAMIS_LEFT_UNREADABLE);
}

/* A file that is missing, or another thing in its place, is lost for the segment alone.
 * Other errors may pass, and end the packing. */
static int take_file(struct packing *p, struct look *l, struct tamis_diag *diag)
{
    int rc = l->rc;
    if (rc > 0 && rc != ENOENT && !io_not_regular(rc)) {
        if (diag && l->diag.code)
            *diag = l->diag;
        else
            diag_errno(diag, rc, p->edit->catalog->path, "reading a filter");
        return rc;
    }
    if (rc == TAMIS_ERR_VERSION)
        input_left(p, l->index, TAMIS_LEFT_NEWER);
    else if (l->n_stages != 1) /* the first of a ribbon has no lanes */
        input_left(p, l->index, l->stage.lanes ? TAMIS_LEFT_STAGES : TAMIS_LEFT_RIBBON);
    else if (rc)
        input_lost(p, l->index);
    if (rc || l->n_stages != 1)
        return 0;
    uint64_t by_bits = plan_keys_of_bits(&l->geometry, l->stage.bits_set);
    uint64_t keys = l->stage.keys > by_bits ? l->stage.keys : by_bits;
    p->segments[p->n] = (uint32_t)l->index;
    p->sources[p->n] = (struct pack_source){
        .geometry = l->geometry,
        .folded_blocks = bands_fold(&l->geometry, keys, l->stage.target_error),
        .file_pages = (uint32_t)(l->file_bytes / PAGE_BYTES),
    };
    p->n++;
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

/* It was folded to the least that keeps its error when it was packed first, and is not
 * folded again: how many keys it has is only what a record says. A column whose entry
 * or pack cannot be read stays where it is. */
static int take_column(struct packing *p, size_t index, const struct seat *seat,
                       struct tamis_diag *diag)
{
    struct column col;
    int rc = segment_facts(p->snapshot, index, &col, diag);
    if (rc > 0 && rc != ENOENT && !io_not_regular(rc))
        return rc;
    diag_clear(diag);
    uint64_t own_blocks = rc ? 0 : le64_get(col.disk.own_blocks);
    if (!seat->band || !own_blocks) {
        input_left(p, index, TAMIS_LEFT_UNREADABLE);
        return 0;
    }
    p->segments[p->n] = (uint32_t)index;
    p->sources[p->n] = (struct pack_source){.geometry = seat->band->geometry,
                                            .folded_blocks = own_blocks};
    p->sources[p->n++].geometry.n_blocks = own_blocks;
    return 0;
}

/* Checks all pages of the seat's pack, once. */
static void check_pack(struct packing *p, const struct seat *seat)
{
    struct tamis_verify pages;
    bool *checked = &p->checked[seat->view - p->snapshot->packs.views];
    if (!*checked)
        tamis_filter_verify(seat->view->pack->filter, &pages, NULL);
    *checked = true;
}

bool input_is_damaged(struct packing *p, size_t i)
{
    if (input_is_file(p, i))
        return false; /* a file was checked when it was taken */
    struct seat seat = packs_seat(p->snapshot, p->segments[i]);
    if (!seat.band)
        return true;
    check_pack(p, &seat);
    return pack_column_is_bad(seat.view->pack->filter, seat.band,
                              seat.column - seat.band->first_column,
                              p->sources[i].geometry.n_blocks);
}

/* Where to look, unless the report's counts say already why it is not packed. A segment
 * whose pack cannot be used is left, as one whose file cannot be. */
static void where(struct packing *p, size_t index, struct look *l)
{
    const struct tamis_snapshot *s = p->snapshot;
    const struct entry *e = is_loose(s, index) ? s->entries[index] : NULL;
    *l = (struct look){.index = index};
    if (p->seen[index] || (!e && !packs_have(s, index)))
        return; /* it is listed twice, or no segment */
    p->seen[index] = true;
    bool stays = p->opt.repack == TAMIS_REPACK_NONE;
    bool packed = !e || e->elsewhere;
    if (packed)
        l->seat = packs_seat(s, index);
    if (e &&
        (!e->state || e->name_bytes > NAME_MAX_BYTES)) /* shorter than any record */
        input_left(p, index,
                   e->refusal == TAMIS_ERR_VERSION ? TAMIS_LEFT_NEWER
                                                   : TAMIS_LEFT_UNREADABLE);
    else if (packed && stays)
        input_left(p, index, l->seat.band ? TAMIS_LEFT_PACKED : TAMIS_LEFT_UNREADABLE);
    else if (e && le64_get(entry_record(e)->ro_compat))
        input_left(p, index, TAMIS_LEFT_NEWER);
    else if (packed)
        l->at = AT_SEAT;
    else if (e->state == RECORD_NO_FILTER)
        input_left(p, index, TAMIS_LEFT_BARE);
    else if (e->state == RECORD_GROWING)
        input_left(p, index, TAMIS_LEFT_GROWING);
    else
        l->at = AT_FILE;
}

/* So many files are looked at together, by all threads. */
enum { LOOKS = 128 };
struct looking {
    const struct packing *packing;
    struct look look[LOOKS];
    size_t n;
    _Atomic size_t next;
};

static void look_at_some(void *ctx, unsigned number)
{
    struct looking *all = ctx;
    size_t i;
    (void)number;
    while ((i = atomic_fetch_add(&all->next, 1)) < all->n)
        if (all->look[i].at == AT_FILE)
            look_at_file(all->packing, &all->look[i]);
}

/* In their order, as if they had been looked at one by one. */
static int take_looked(struct packing *p, struct looking *all, struct tamis_diag *diag)
{
    int rc = 0;
    for (size_t i = 0; i < all->n; i++) {
        struct look *l = &all->look[i];
        if (rc)
            input_close(&l->filter);
        else if (l->at == AT_FILE)
            rc = take_file(p, l, diag);
        else if (l->at == AT_SEAT)
            rc = take_column(p, l->index, &l->seat, diag);
    }
    return rc;
}

int inputs_consider(struct packing *p, const uint32_t *segments, size_t n,
                    struct tamis_diag *diag)
{
    struct looking *all = malloc(sizeof *all);
    int rc = all ? 0 : diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t done = 0; done < n && !rc; done += all->n) {
        all->packing = p;
        all->n = n - done < LOOKS ? n - done : LOOKS;
        atomic_init(&all->next, 0);
        for (size_t i = 0; i < all->n; i++)
            where(p, segments ? segments[done + i] : done + i, &all->look[i]);
        threads_run(p->threads, look_at_some, all);
        rc = take_looked(p, all, diag);
    }
    free(all);
    return rc;
}

void inputs_leave(struct packing *p, const bool *leave)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (leave[i] && input_is_file(p, i)) {
            p->n_open -= p->files[p->segments[i]].filter != NULL;
            input_close(&p->files[p->segments[i]].filter);
        }
        if (leave[i])
            continue;
        p->segments[n] = p->segments[i];
        p->sources[n++] = p->sources[i];
    }
    p->n = n;
}

bool inputs_stay_open(const struct packing *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (input_is_file(p, i) && !p->files[p->segments[i]].filter)
            return false;
    return true;
}

/* ---- for pack_write() ---- */

/* If it cannot be read any more, the pack is given up. */
void input_facts(void *ctx, uint32_t source, struct column *out)
{
    struct packing *p = ctx;
    if (segment_facts(p->snapshot, p->segments[source], out, NULL) != 0) {
        p->unread = true;
        column_of_record(&(struct record){0}, "?", 1, out);
    } else if (input_is_file(p, source)) {
        memcpy(out->disk.set_id, p->files[p->segments[source]].set_id, UUID_BYTES);
    }
}

/* Files beyond the first that are open belong to one band. */
static void close_band(struct packing *p)
{
    for (size_t i = 0, n_kept = 0; i < p->n; i++)
        if (input_is_file(p, i) && n_kept++ >= p->n_open)
            input_close(&p->files[p->segments[i]].filter);
}

bool input_blocks(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                  uint64_t first, uint64_t n, uint8_t *out)
{
    struct packing *p = ctx;
    const struct pack_source *s = &p->sources[source];
    struct geometry g;
    if (!input_is_file(p, source)) {
        struct seat seat = packs_seat(p->snapshot, p->segments[source]);
        const struct band *band = seat.band;
        return band && pack_gather(p->windows[thread], seat.view->pack->filter, band,
                                   seat.column - band->first_column,
                                   s->geometry.n_blocks, lane, first, n, out) == 0;
    }
    struct tamis_filter **file = &p->files[p->segments[source]].filter;
    if (!*file) { /* never with threads: inputs_stay_open() */
        uint32_t band = band_of_column(p->plan.bands, p->plan.n_bands, s->column);
        if (p->band != band)
            close_band(p);
        p->band = band;
        if (open_file(p, p->segments[source], file, &g, NULL) != 0)
            return false;
    }
    return filter_copy_blocks(*file, lane, first, n, out);
}
