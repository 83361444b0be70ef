/* Facts about an open filter, from its header as of now. */
#include "lib/filter/view.h"

#include <errno.h>
#include <string.h>

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
        f->kind->stage_info(&h.identity, &h.commit.stages[stage], info);
    return err;
}
