/* Verifies an open filter: every page is checked through its mapping, as probes check
 * it, and both slots. scrub.c does the same by reading, for a file that is not open. */
#include "lib/filter/view.h"

#include <string.h>

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

bool filter_copy_blocks(struct tamis_filter *f, uint32_t lane, uint64_t first,
                        uint64_t n, uint8_t *out)
{
    struct view *v = filter_view(f);
    uint8_t page[PAGE_BYTES];
    uint64_t at = (lane * v->head.plane.n_blocks + first) * BLOCK_BYTES;
    for (uint64_t end = at + n * BLOCK_BYTES, some; at < end; at += some, out += some) {
        uint64_t in_page = at % PAGE_BYTES;
        some = PAGE_BYTES - in_page < end - at ? PAGE_BYTES - in_page : end - at;
        if (!stage_copy_page(&v->stages[0], at / PAGE_BYTES, page))
            return false;
        memcpy(out, page + in_page, some);
    }
    return true;
}
