/* Facts about an open filter, and the scrub that reads every page of it. */
#include "lib/filter/view.h"

#include <errno.h>

/* A sealed filter's from the mapping (its descriptor is gone), copied and decoded like
 * any other; a growing one's from the file. */
int filter_header(struct tamis_filter *f, struct header *h, struct tamis_diag *diag)
{
    struct view *v = filter_view(f);
    if (v->live_sequence)
        return header_load(f->fd, false, f->offset, f->limit, f->path, h, diag);
    uint8_t raw[HEADER_MAX_BYTES];
    memset(h, 0, sizeof *h);
    h->available = v->map.n_bytes - (size_t)(v->map.base - (uint8_t *)v->map.address);
    size_t n = h->available < sizeof raw ? (size_t)h->available : sizeof raw;
    memcpy(raw, v->map.base, n);
    if (lost_page(&v->map, v->map.base) || lost_page(&v->map, v->map.base + n - 1))
        return diag_errno(diag, EIO, f->path, "reading the header");
    return header_decode(raw, n, f->offset, f->path, h, diag);
}

int tamis_filter_info(struct tamis_filter *f, struct tamis_filter_info *info)
{
    struct header h;
    memset(info, 0, sizeof *info);
    int err = filter_header(f, &h, NULL);
    if (!err)
        header_info(&h.identity, &h.commit, info);
    return err;
}

int tamis_filter_stage(struct tamis_filter *f, uint32_t stage,
                       struct tamis_stage_info *info)
{
    struct header h;
    memset(info, 0, sizeof *info);
    int err = filter_header(f, &h, NULL);
    if (!err && stage >= h.commit.n_stages)
        err = TAMIS_ERR_RANGE;
    if (!err)
        header_stage_info(&h.identity, &h.commit.stages[stage], info);
    return err;
}

static void verify_stage(struct stage *s, uint64_t at, struct tamis_verify *report)
{
    for (uint64_t page = 0; page < s->n_pages; page++) {
        report->n_pages++;
        if (stage_check_page(s, page))
            continue;
        if (report->n_damaged++ == 0)
            report->first_damaged = at + page * PAGE_BYTES;
    }
}

int tamis_filter_verify(struct tamis_filter *f, struct tamis_verify *report,
                        struct tamis_diag *diag)
{
    struct header h;
    memset(report, 0, sizeof *report);
    diag_clear(diag);
    int err = filter_header(f, &h, diag);
    if (err)
        return err;
    if (h.identity.header_pages == 3)
        report->n_stale_slots = (uint32_t)(h.health.frame[0].code != VERDICT_OK) +
                                (uint32_t)(h.health.frame[1].code != VERDICT_OK);
    struct view *v = filter_view(f);
    for (uint32_t i = 0; i < v->n_stages; i++)
        verify_stage(&v->stages[i],
                     f->offset + (uint64_t)(v->stages[i].bits - v->map.base), report);
    if (!report->n_damaged && !report->n_stale_slots)
        return 0;
    if (report->n_damaged)
        diag_fail(
            diag, TAMIS_ERR_DAMAGED, f->path, "%llu of %llu pages fail their check",
            (unsigned long long)report->n_damaged, (unsigned long long)report->n_pages);
    else
        diag_fail(diag, TAMIS_ERR_DAMAGED, f->path, "a commit slot is torn or rotten");
    diag_at(diag, report->n_damaged
                      ? report->first_damaged
                      : f->offset + commit_slot_offset(
                                        h.health.frame[0].code ? SLOT_A : SLOT_B));
    return TAMIS_ERR_DAMAGED;
}
