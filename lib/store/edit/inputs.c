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
    p->inputs = calloc(n + 1, sizeof *p->inputs);
    p->sources = calloc(n + 1, sizeof *p->sources);
    p->gone = calloc(n + 1, sizeof *p->gone);
    p->taken = calloc(p->snapshot->n + 1, sizeof *p->taken);
    p->checked = calloc(p->snapshot->packs.n + 1, sizeof *p->checked);
    p->windows[0] = pack_window_new();
    if (!p->inputs || !p->sources || !p->gone || !p->taken || !p->checked ||
        !p->windows[0])
        return ENOMEM;
    while (room < p->opt.n_threads && room < PACK_MAX_THREADS &&
           (p->windows[room] = pack_window_new()) != NULL)
        room++;
    p->threads = threads_start(room, true);
    return 0;
}

static void input_close(struct pack_input *o)
{
    if (o->filter)
        entry_close(o->filter);
    o->filter = NULL;
}

void inputs_free(struct packing *p)
{
    for (size_t i = 0; p->inputs && i < p->n; i++)
        input_close(&p->inputs[i]);
    threads_end(p->threads);
    free(p->inputs);
    free(p->sources);
    free(p->gone);
    free(p->chosen);
    free(p->taken);
    free(p->checked);
    for (size_t i = 0; i < PACK_MAX_THREADS; i++)
        pack_window_free(p->windows[i]);
    pack_plan_free(&p->plan);
}

/* ---- which segments ---- */

/* The open filter, every page of it checked, and its blocks. Negative: it cannot be
 * packed, and says so. */
static int open_file(const struct packing *p, struct pack_input *o,
                     struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    struct entry *e = s->entries[o->segment];
    struct tamis_verify pages;
    int rc = e->packed ? packs_lost(s, o->segment, diag)
                       : entry_open(e, s->dir, &s->domain, &o->filter, diag);
    if (rc)
        return o->filter = NULL, rc;
    rc = filter_check_features(o->filter, diag);
    if (!rc)
        rc = tamis_filter_verify(o->filter, &pages, diag);
    if (!rc && !filter_geometry(o->filter, s->domain.tag, 0, &o->geometry))
        rc = TAMIS_ERR_UNFIT;
    return rc;
}

static struct pack_input *take(struct packing *p, size_t index)
{
    struct pack_input *o = &p->inputs[p->n++];
    o->segment = (uint32_t)index;
    return o;
}

/* What a segment's file was found to be, or the seat that it has. */
struct look {
    size_t index;
    enum { PASS, AT_SEAT, AT_FILE } at;
    const struct seat *seat;
    struct pack_input found;
    struct tamis_stage_info stage;
    uint32_t n_stages;
    uint64_t file_bytes;
    int rc;
    struct tamis_diag diag;
};

static int note_stages(struct look *l)
{
    struct tamis_filter_info info;
    int rc = tamis_filter_info(l->found.filter, &info);
    l->n_stages = rc ? 0 : info.n_stages;
    l->file_bytes = rc ? 0 : info.file_bytes;
    return rc ? rc : tamis_filter_stage(l->found.filter, 0, &l->stage);
}

static void look_at_file(const struct packing *p, struct look *l)
{
    l->found.segment = (uint32_t)l->index;
    l->n_stages = 1;
    l->rc = open_file(p, &l->found, &l->diag);
    if (l->found.filter && (l->rc == TAMIS_ERR_UNFIT || !l->rc)) {
        int failed = note_stages(l);
        l->rc = failed ? failed : l->rc;
    }
    if (l->rc || l->n_stages != 1)
        input_close(&l->found);
}

/* Asks the catalog for the segment's record as of now. */
struct now {
    const struct entry *entry;
    bool same;
};

static int compare_record(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct now *now = ctx;
    const struct entry *e = now->entry;
    const uint8_t *value;
    size_t n_bytes;
    int rc = catalog_get(t, e->bytes, e->name_bytes, &value, &n_bytes, diag);
    now->same = !rc && n_bytes >= sizeof(struct record_disk) && value &&
                memcmp(value, entry_record(e), sizeof(struct record_disk)) == 0;
    return rc == TAMIS_ERR_NO_SEGMENT ? 0 : rc;
}

void input_left(struct packing *p, size_t segment, enum tamis_left why)
{
    struct tamis_pack_report *r = p->report;
    uint64_t *const counts[] = {
        [TAMIS_LEFT_PACKED] = &r->n_packed_before,
        [TAMIS_LEFT_BARE] = &r->n_bare,
        [TAMIS_LEFT_GROWING] = &r->n_growing,
        [TAMIS_LEFT_STAGES] = &r->n_stages,
        [TAMIS_LEFT_UNREADABLE] = &r->n_unreadable,
        [TAMIS_LEFT_REPLACED] = &r->n_replaced,
        [TAMIS_LEFT_LARGER] = &r->n_larger,
        [TAMIS_LEFT_NEWER] = &r->n_newer,
        [TAMIS_LEFT_RIBBON] = &r->n_ribbons,
    };
    ++*counts[why];
    if (r->why_left == TAMIS_LEFT_NONE ||
        (r->why_left == TAMIS_LEFT_REPLACED && why != TAMIS_LEFT_REPLACED)) {
        r->first_left = (uint32_t)segment;
        r->why_left = why;
    }
}

void input_lost(struct packing *p, size_t segment)
{
    struct now now = {.entry = p->snapshot->entries[segment]};
    bool is_replaced =
        catalog_read(p->edit->catalog, compare_record, &now, NULL) == 0 && !now.same;
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
    struct geometry g = l->found.geometry;
    uint64_t by_bits = plan_keys_of_bits(&g, l->stage.bits_set);
    p->sources[p->n] = (struct pack_source){
        .geometry = g,
        .keys = l->stage.keys > by_bits ? l->stage.keys : by_bits,
        .target_error = l->stage.target_error,
        .file_bytes = l->file_bytes,
    };
    memcpy(p->sources[p->n].set_id, filter_set_id(l->found.filter), UUID_BYTES);
    struct pack_input *o = take(p, l->index);
    *o = l->found;
    if (p->n_open < MAX_OPEN)
        p->n_open++;
    else
        input_close(o);
    return 0;
}

/* It was folded to the least that keeps its error when it was packed first, and is not
 * folded again: how many keys it has is only what a record says. A pack without a good
 * table: the column has all blocks of its band. */
static int take_column(struct packing *p, size_t index, const struct seat *seat,
                       struct tamis_diag *diag)
{
    struct pack_source s = {
        .geometry = seat->band->geometry,
        .keys = le64_get(entry_record(p->snapshot->entries[index])->keys),
        .target_error = 0,
    };
    struct column col;
    int rc = packs_column(p->snapshot, index, &col, diag);
    if (rc > 0)
        return rc;
    if (!rc) {
        s.geometry.n_blocks = le64_get(col.disk.own_blocks);
        memcpy(s.set_id, col.disk.set_id, UUID_BYTES);
    } else {
        uuid_random(s.set_id); /* its list, if it has one, will not be known by it */
    }
    diag_clear(diag);
    if (rc == TAMIS_ERR_MISMATCH) {
        input_left(p, index, TAMIS_LEFT_UNREADABLE);
        return 0;
    }
    p->sources[p->n] = s;
    take(p, index)->seat = seat;
    return 0;
}

/* Checks all pages of the seat's pack, once. */
static void check_pack(struct packing *p, const struct seat *seat)
{
    struct tamis_verify pages;
    if (!p->checked[seat->view])
        tamis_filter_verify(seat->pack, &pages, NULL);
    p->checked[seat->view] = true;
}

bool input_is_damaged(struct packing *p, size_t i)
{
    const struct seat *seat = p->inputs[i].seat;
    if (!seat)
        return false; /* a file was checked when it was taken */
    check_pack(p, seat);
    return pack_column_is_bad(seat->pack, seat->band, seat->column,
                              p->sources[i].geometry.n_blocks);
}

/* Where to look, unless the report's counts say already why it is not packed. A segment
 * whose pack cannot be used is left, as one whose file cannot be. */
static void where(struct packing *p, size_t index, struct look *l)
{
    const struct entry *e = p->snapshot->entries[index];
    *l = (struct look){.index = index, .seat = packs_seat(&p->snapshot->packs, index)};
    if (p->taken[index]) /* it is listed twice */
        return;
    p->taken[index] = true;
    bool stays = p->chosen ? !p->chosen[index] : p->opt.repack == TAMIS_REPACK_NONE;
    if (!e->state) /* its record may be shorter than any */
        input_left(p, index,
                   e->refusal == TAMIS_ERR_VERSION ? TAMIS_LEFT_NEWER
                                                   : TAMIS_LEFT_UNREADABLE);
    else if (l->seat && stays)
        input_left(p, index, TAMIS_LEFT_PACKED);
    else if (le64_get(entry_record(e)->ro_compat))
        input_left(p, index, TAMIS_LEFT_NEWER);
    else if (l->seat)
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
            input_close(&l->found);
        else if (l->at == AT_FILE)
            rc = take_file(p, l, diag);
        else if (l->at == AT_SEAT)
            rc = take_column(p, l->index, l->seat, diag);
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
        if (leave[i]) {
            p->n_open -= p->inputs[i].filter != NULL;
            input_close(&p->inputs[i]);
            continue;
        }
        p->inputs[n] = p->inputs[i];
        p->sources[n++] = p->sources[i];
    }
    memset(p->inputs + n, 0, (p->n - n) * sizeof *p->inputs);
    p->n = n;
}

bool inputs_stay_open(const struct packing *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->inputs[i].seat && !p->inputs[i].filter)
            return false;
    return true;
}

/* ---- for pack_write() ---- */

void input_facts(void *ctx, uint32_t source, struct column *out)
{
    const struct packing *p = ctx;
    entry_facts(p->snapshot->entries[p->inputs[source].segment], out);
}

/* Files beyond the first that are open belong to one band. */
static void close_band(struct packing *p)
{
    for (size_t i = 0, n_kept = 0; i < p->n; i++)
        if (!p->inputs[i].seat && n_kept++ >= p->n_open)
            input_close(&p->inputs[i]);
}

bool input_blocks(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                  uint64_t first, uint64_t n, uint8_t *out)
{
    struct packing *p = ctx;
    struct pack_input *o = &p->inputs[source];
    const struct pack_source *s = &p->sources[source];
    if (o->seat)
        return pack_gather(p->windows[thread], o->seat->pack, o->seat->band,
                           o->seat->column, s->geometry.n_blocks, lane, first, n,
                           out) == 0;
    if (!o->filter) { /* never with threads: inputs_stay_open() */
        if (p->band != s->band)
            close_band(p);
        p->band = s->band;
        if (open_file(p, o, NULL) != 0)
            return false;
    }
    return filter_copy_blocks(o->filter, lane, first, n, out);
}
