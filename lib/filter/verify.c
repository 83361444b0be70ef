/* Verifies an open filter: every page is checked through its mapping, as probes check
 * it, and both slots. scrub.c does the same by reading, for a file that is not open. */
#include "lib/filter/view.h"

#include <string.h>

static void verify_stage(const struct tamis_filter *f, struct stage *s,
                         struct tamis_verify *report)
{
    for (uint64_t page = 0; page < s->n_pages; page++) {
        report->n_pages++;
        stage_read_ahead(s, page);
        if (!stage_check_page(s, page) && report->n_damaged++ == 0)
            report->first_damaged = filter_page_offset(f, s, page);
    }
}

/* Is the last page of a table zero behind the table? */
static void judge_rest(struct tamis_filter *f, const struct commit *c, size_t i,
                       struct tamis_verify *report)
{
    const struct stage_desc *d = &c->stages[i];
    struct stage *s = &filter_view(f)->stages[i];
    size_t used = d->used_bytes % PAGE_BYTES;
    uint8_t page[PAGE_BYTES];
    if (d->layout == LAYOUT_TABLE && used && stage_copy_page(s, s->n_pages - 1, page) &&
        !all_zero(page + used, PAGE_BYTES - used))
        verify_blame(f, i, s->n_pages - 1, report);
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
    for (uint32_t i = 0; i < v->n_stages; i++) {
        verify_stage(f, &v->stages[i], report);
        judge_rest(f, &h.commit, i, report);
    }
    err = f->kind->judge ? f->kind->judge(f, &h.commit, report) : 0;
    if (err && !report->n_damaged)
        return diag_errno(diag, err, f->path, "verifying");
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
    uint64_t at = (lane * v->head.plane.n_blocks + first) * BLOCK_BYTES;
    return stage_copy_bytes(&v->stages[0], at, n * BLOCK_BYTES, out);
}
