/* Verifies an open filter: every page is checked through its mapping, as probes check
 * it, and both slots. scrub.c does the same by reading, for a file that is not open. */
#include "lib/filter/view.h"

#include <string.h>

static void verify_stage(struct tamis_filter *f, const struct stage_desc *d,
                         struct stage *s, size_t i, struct tamis_verify *report)
{
    _Alignas(BLOCK_BYTES) uint8_t copy[PAGE_BYTES];
    bool certain;
    for (uint64_t page = 0; page < s->n_pages; page++) {
        size_t used = stage_used_bytes(d, page);
        report->n_pages++;
        stage_read_ahead(s, page);
        bool good = used == PAGE_BYTES ? stage_check_page(s, page)
                                       : stage_copy_page(s, page, copy);
        if (!good && report->n_damaged++ == 0)
            report->first_damaged = filter_page_offset(f, s, page);
        if (good && !all_zero(copy + used, PAGE_BYTES - used))
            verify_blame(f, i, page, report);
    }
    /* And behind the last digest of each level, if that page of digests is good. */
    struct digest_tree t;
    digest_tree_of(s->n_pages, &t);
    for (uint32_t k = 1; s->digests && k < t.n_levels; k++) {
        uint64_t last = (t.n_pages[k] - 1) * PAGE_BYTES;
        size_t used = t.n_pages[k - 1] * DIGEST_BYTES - last;
        const uint8_t *live = s->digests + t.offset[k] + last;
        if (!stage_is_bad(s, s->n_pages - 1) &&
            (!stage_take_page(s, live, copy, &certain) ||
             !all_zero(copy + used, PAGE_BYTES - used)))
            verify_blame(f, i, s->n_pages - 1, report);
    }
}

int tamis_filter_verify(struct tamis_filter *f, struct tamis_verify *report,
                        struct tamis_diag *diag)
{
    struct header h;
    struct question r;
    memset(report, 0, sizeof *report);
    diag_clear(diag);
    int err = filter_header(f, &h, diag);
    if (!err && (err = question_begin(f, &r)) != 0)
        diag_errno(diag, err, f->path, "verifying");
    if (err)
        return err;
    if (h.identity.header_pages == 3)
        report->n_stale_slots = (uint32_t)(h.health.frame[0].code != VERDICT_OK) +
                                (uint32_t)(h.health.frame[1].code != VERDICT_OK);
    struct view *v = filter_view(f);
    for (uint32_t i = 0; i < v->n_stages; i++)
        verify_stage(f, &h.commit.stages[i], &v->stages[i], i, report);
    err = f->kind->judge ? f->kind->judge(f, &h.commit, report) : 0;
    if (err == TAMIS_ERR_DAMAGED && !report->n_damaged) { /* it was good at first */
        report->n_damaged = 1;
        report->first_damaged = filter_page_offset(f, &v->stages[0], 0);
    }
    question_end(f, &r);
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
