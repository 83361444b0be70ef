/* What tamis_edit_pack() packs, and where the blocks are: in the segment's own file, or
 * in a column of another pack. Files are checked page by page before a bit is copied. A
 * process may map only so many files, so that of many only the first stay open; the
 * others are opened, and checked, a second time when their band is written. */
#include "lib/store/edit/inside.h"
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
    return p->inputs && p->sources ? 0 : ENOMEM;
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
    uint64_t by_bits = plan_keys_of_bits(&g, stage.bits_set);
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

/* It was folded to the least that keeps its error when it was packed first. */
static void take_column(struct packing *p, size_t index, const struct seat *seat)
{
    p->sources[p->n] = (struct pack_source){
        .geometry = seat->band->geometry,
        .keys = le64_get(entry_record(p->snapshot->entries[index])->keys),
        .target_error = 0,
    };
    take(p, index)->seat = seat;
}

int input_consider(struct packing *p, size_t index, struct tamis_diag *diag)
{
    const struct entry *e = p->snapshot->entries[index];
    const struct seat *seat = packs_seat(&p->snapshot->packs, index);
    if (p->chosen && !p->chosen[index])
        p->report->n_packed_before += e->packed;
    else if (e->packed && p->opt.repack == TAMIS_REPACK_NONE)
        p->report->n_packed_before++;
    else if (seat)
        take_column(p, index, seat);
    else if (e->state == RECORD_NO_FILTER)
        p->report->n_bare++;
    else if (e->state == RECORD_GROWING)
        p->report->n_growing++;
    else
        return consider_file(p, index, diag);
    return 0;
}

/* ---- columns of other packs ---- */

struct numbering {
    struct packing *packing;
    const struct tamis_filter *pack;
    uint32_t *by_segment; /* number of the input + 1 */
};

static int note_blocks(void *ctx, uint32_t band, uint32_t column,
                       const struct column *col)
{
    struct numbering *n = ctx;
    struct tamis_snapshot *s = n->packing->snapshot;
    uint32_t slot = names_get(&s->by_name, col->name, col->name_bytes);
    const struct seat *seat = slot ? packs_seat(&s->packs, slot - 1) : NULL;
    (void)band;
    if (seat && seat->pack == n->pack && seat->column == column &&
        n->by_segment[slot - 1])
        n->packing->sources[n->by_segment[slot - 1] - 1].geometry.n_blocks =
            col->own_blocks;
    return 0;
}

static bool any_column(const struct packing *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->inputs[i].seat)
            return true;
    return false;
}

/* A pack whose table fails its checks: its columns have all the band's blocks. */
int inputs_of_packs(struct packing *p, struct tamis_diag *diag)
{
    struct tamis_snapshot *s = p->snapshot;
    struct numbering n = {.packing = p};
    int rc = 0;
    if (!any_column(p))
        return 0;
    n.by_segment = calloc(s->n + 1, sizeof *n.by_segment);
    if (!n.by_segment)
        return diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
    for (uint32_t i = 0; i < p->n; i++)
        if (p->inputs[i].seat)
            n.by_segment[p->inputs[i].segment] = i + 1;
    for (size_t i = 0; i < s->packs.n && (!rc || rc == TAMIS_ERR_DAMAGED); i++) {
        struct open_pack *pack = s->packs.views[i].pack;
        n.pack = pack ? pack->filter : NULL;
        rc = pack ? pack_each_column(pack->filter, note_blocks, &n, diag) : 0;
    }
    if (rc == TAMIS_ERR_DAMAGED)
        rc = 0;
    if (!rc)
        diag_clear(diag);
    free(n.by_segment);
    return rc;
}

/* ---- for pack_write() ---- */

void input_facts(void *ctx, uint32_t source, struct column *out)
{
    const struct packing *p = ctx;
    entry_facts(p->snapshot->entries[p->inputs[source].segment], out);
}

/* Were all pages good to the end? One that was found bad while it was copied may have
 * given fewer bits than it had. */
static void check_still_good(struct packing *p, struct pack_input *o)
{
    struct plane plane;
    if (o->filter && !filter_plane(o->filter, p->snapshot->domain.tag, 0, &plane))
        o->gone = true;
}

/* Files beyond the first that are open belong to one band. */
static void close_band(struct packing *p)
{
    for (size_t i = 0, n_kept = 0; i < p->n; i++) {
        struct pack_input *o = &p->inputs[i];
        if (o->seat || n_kept++ < p->n_open)
            continue;
        check_still_good(p, o);
        input_close(o);
    }
}

/* Blocks of what is gone: all ones, so that the column would answer MAYBE. */
void input_blocks(void *ctx, uint32_t source, uint32_t lane, uint64_t first, uint64_t n,
                  uint8_t *out)
{
    struct packing *p = ctx;
    struct pack_input *o = &p->inputs[source];
    const struct pack_source *s = &p->sources[source];
    size_t n_bytes = (size_t)n * BLOCK_BYTES;
    if (o->seat && !o->gone)
        o->gone = pack_gather(o->seat->pack, o->seat->band, o->seat->column,
                              s->geometry.n_blocks, lane, first, n, out) != 0;
    if (!o->seat && !o->gone && !o->filter) {
        if (p->band != s->band)
            close_band(p);
        p->band = s->band;
        o->gone = open_file(p, p->snapshot->entries[o->segment], o, NULL) != 0;
    }
    if (o->gone)
        memset(out, 0xff, n_bytes);
    else if (!o->seat)
        memcpy(out, o->plane.bits + (lane * o->plane.n_blocks + first) * BLOCK_BYTES,
               n_bytes);
}

void inputs_check(struct packing *p)
{
    for (size_t i = 0; i < p->n; i++)
        check_still_good(p, &p->inputs[i]);
}
