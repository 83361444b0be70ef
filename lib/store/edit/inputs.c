/* Inputs of tamis_edit_pack(), and where their blocks are: in the segment's own file,
 * or in a column of another pack. Each page is checked as it is copied (SPEC.md §16.4).
 * A process may map only so many files, so that of many only the first stay open; the
 * others are opened a second time when their band is written. */
#include "lib/store/edit/inside.h"
#include "lib/derive/derive.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = 16384 };

int inputs_alloc(struct packing *p, size_t n)
{
    p->inputs = calloc(n + 1, sizeof *p->inputs);
    p->sources = calloc(n + 1, sizeof *p->sources);
    p->taken = calloc(p->snapshot->n + 1, sizeof *p->taken);
    p->window = pack_window_new();
    return p->inputs && p->sources && p->taken && p->window ? 0 : ENOMEM;
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
    free(p->inputs);
    free(p->sources);
    free(p->chosen);
    free(p->taken);
    pack_window_free(p->window);
    pack_plan_free(&p->plan);
}

/* ---- which segments ---- */

/* The open filter, every page of it checked, and its blocks. Negative: it cannot be
 * packed, and says so. */
static int open_file(const struct packing *p, const struct entry *e,
                     struct pack_input *o, struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    struct tamis_verify pages;
    int rc = entry_open(e, s->dir, &s->domain, &o->filter, diag);
    if (rc)
        return o->filter = NULL, rc;
    rc = tamis_filter_verify(o->filter, &pages, diag);
    if (!rc && !filter_plane(o->filter, s->domain.tag, 0, &o->plane))
        rc = TAMIS_ERR_UNFIT;
    return rc;
}

static struct pack_input *take(struct packing *p, size_t index)
{
    struct pack_input *o = &p->inputs[p->n++];
    o->segment = (uint32_t)index;
    return o;
}

static int stages_of(struct tamis_filter *f, struct tamis_stage_info *stage,
                     uint32_t *n_stages)
{
    struct tamis_filter_info info;
    int rc = tamis_filter_info(f, &info);
    *n_stages = rc ? 0 : info.n_stages;
    return rc ? rc : tamis_filter_stage(f, 0, stage);
}

static int consider_file(struct packing *p, size_t index, struct tamis_diag *diag)
{
    const struct entry *e = p->snapshot->entries[index];
    struct pack_input found = {.segment = (uint32_t)index}, *o;
    struct tamis_stage_info stage;
    uint32_t n_stages = 1;
    int rc = open_file(p, e, &found, diag);
    if (found.filter && (rc == TAMIS_ERR_UNFIT || !rc)) {
        int failed = stages_of(found.filter, &stage, &n_stages);
        rc = failed ? failed : rc;
    }
    if (rc || n_stages != 1)
        input_close(&found);
    if (rc > 0 && rc != ENOENT)
        return diag && diag->code
                   ? rc
                   : diag_errno(diag, rc, p->edit->catalog->path, "reading a filter");
    diag_clear(diag);
    if (n_stages != 1)
        p->report->n_stages++;
    else if (rc)
        p->report->n_unreadable++;
    if (rc || n_stages != 1)
        return 0;
    struct geometry g = {found.plane.n_blocks, found.plane.lanes, found.plane.words};
    uint32_t run = filter_repeats(found.filter); /* if it was unpacked */
    struct geometry own = {g.n_blocks / run, g.lanes, g.words};
    uint64_t by_bits = plan_keys_of_bits(&own, stage.bits_set / run);
    p->sources[p->n] = (struct pack_source){
        .geometry = g,
        .keys = stage.keys > by_bits ? stage.keys : by_bits,
        .target_error = stage.target_error,
    };
    o = take(p, index);
    *o = found;
    if (p->n_open < MAX_OPEN)
        p->n_open++;
    else
        input_close(o);
    return 0;
}

/* It was folded to the least that keeps its error when it was packed first. A pack
 * without a good table: the column has all blocks of its band. */
static int take_column(struct packing *p, size_t index, const struct seat *seat,
                       struct tamis_diag *diag)
{
    struct pack_source s = {
        .geometry = seat->band->geometry,
        .keys = le64_get(entry_record(p->snapshot->entries[index])->keys),
        .target_error = 0,
    };
    int rc = packs_own_blocks(p->snapshot, index, &s.geometry.n_blocks, diag);
    if (rc > 0)
        return rc;
    diag_clear(diag);
    if (rc == TAMIS_ERR_MISMATCH) {
        p->report->n_unreadable++;
        return 0;
    }
    p->sources[p->n] = s;
    take(p, index)->seat = seat;
    return 0;
}

int input_consider(struct packing *p, size_t index, struct tamis_diag *diag)
{
    const struct entry *e = p->snapshot->entries[index];
    const struct seat *seat = packs_seat(&p->snapshot->packs, index);
    if (p->taken[index]) /* it is listed twice */
        return 0;
    p->taken[index] = true;
    if (p->chosen && !p->chosen[index])
        p->report->n_packed_before += e->packed;
    else if (e->packed && p->opt.repack == TAMIS_REPACK_NONE)
        p->report->n_packed_before++;
    else if (seat)
        return take_column(p, index, seat, diag);
    else if (e->state == RECORD_NO_FILTER)
        p->report->n_bare++;
    else if (e->state == RECORD_GROWING)
        p->report->n_growing++;
    else
        return consider_file(p, index, diag);
    return 0;
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

static bool copy_blocks(struct packing *p, struct pack_input *o, uint32_t source,
                        uint32_t lane, uint64_t first, uint64_t n, uint8_t *out)
{
    const struct pack_source *s = &p->sources[source];
    if (o->seat)
        return pack_gather(p->window, o->seat->pack, o->seat->band, o->seat->column,
                           s->geometry.n_blocks, lane, first, n, out) == 0;
    if (!o->filter) {
        if (p->band != s->band)
            close_band(p);
        p->band = s->band;
        if (open_file(p, p->snapshot->entries[o->segment], o, NULL) != 0)
            return false;
    }
    return filter_copy_blocks(o->filter, lane, first, n, out);
}

void input_blocks(void *ctx, uint32_t source, uint32_t lane, uint64_t first, uint64_t n,
                  uint8_t *out)
{
    struct packing *p = ctx;
    struct pack_input *o = &p->inputs[source];
    if (!o->gone)
        o->gone = !copy_blocks(p, o, source, lane, first, n, out);
    if (o->gone)
        memset(out, 0xff, (size_t)n * BLOCK_BYTES);
}
