/* Facts about an open filter, from its header as of now; and why it answers as it does.
 */
#include "lib/filter/view.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

_Static_assert((int)TAMIS_MAX_STAGES == (int)MAX_STAGES, "SPEC.md section 6");

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

/* ---- why ---- */

/* Which lane's block of each stage decided the answer. Looks twice and is slow, for
 * people. */
enum tamis_answer filter_explain_from(struct tamis_filter *f, uint64_t min_watermark,
                                      const struct tamis_key *key,
                                      struct tamis_explanation *out)
{
    memset(out, 0, sizeof *out);
    out->answer = filter_probe_from(f, min_watermark, 0, key, &out->reason);
    if (out->reason != TAMIS_NO_REASON && out->reason != TAMIS_HIT &&
        out->reason != TAMIS_DAMAGED)
        return out->answer;
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    out->by = TAMIS_BY_FILTER;
    if (!f->kind->explain)
        return out->answer;
    out->n_stages = v->n_stages;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        struct stage *s = &v->stages[i];
        uint64_t begin = f->offset + (uint64_t)(s->bits - v->map.base);
        f->kind->explain(s, f->kernel, begin, key->hash, &out->stages[i]);
        /* Somebody has added the key in between, or a page has failed. */
        if (out->answer == TAMIS_ABSENT && out->stages[i].reason != TAMIS_NO_REASON) {
            out->answer = TAMIS_MAYBE;
            out->reason = out->stages[i].reason;
        }
    }
    return out->answer;
}

enum tamis_answer tamis_filter_explain(struct tamis_filter *filter,
                                       const struct tamis_key *key,
                                       struct tamis_explanation *out)
{
    return filter_explain_from(filter, 0, key, out);
}

int filter_check_features(struct tamis_filter *f, struct tamis_diag *diag)
{
    struct header h;
    int err = filter_header(f, &h, diag);
    return err ? err : header_check_features(&h, f->path, diag);
}
