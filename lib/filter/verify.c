/* Checks of every page. tamis_filter_verify() checks an open filter through its
 * mapping, as probes do, and both slots. filter_scrub() does the same with a file that
 * is not open, by a reader. In a mapping a page that can't be read is a signal, or,
 * with the guard, ones and damage. To filter_scrub() it is an error, which says nothing
 * of the page. */
#include "lib/filter/view.h"
#include "format/ribbon.h"

/* The used bytes of a page. Zeros follow the blocks, and a table. */
static size_t stage_used_bytes(const struct stage_desc *d, uint64_t page)
{
    struct ribbon_geometry g = ribbon_geometry_of(d);
    uint64_t used = 0;
    if (d->layout == LAYOUT_RIBBON)
        return ribbon_used_bytes(g.blocks + (page < g.n_long));
    if (d->layout == LAYOUT_SPLIT_BLOCKS)
        used = d->geometry.n_blocks * d->geometry.lanes * BLOCK_BYTES;
    if (d->layout == LAYOUT_TABLE)
        used = d->used_bytes;
    return page + 1 == g.n_pages && used % PAGE_BYTES ? used % PAGE_BYTES : PAGE_BYTES;
}

/* `from`: where the filter begins in the file. */
static void verify_stage(const struct stage_desc *d, struct stage *s, uint64_t from,
                         struct tamis_verify *report)
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
            report->first_damaged = from + stage_page_offset(s, page);
        if (good && !all_zero(copy + used, PAGE_BYTES - used))
            stage_blame(s, from, page, report);
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
            stage_blame(s, from, s->n_pages - 1, report);
    }
}

int filter_verify(struct tamis_filter *f, struct header *h, struct tamis_verify *report,
                  struct tamis_diag *diag)
{
    struct question r;
    memset(report, 0, sizeof *report);
    diag_clear(diag);
    int err = filter_header(f, h, diag);
    if (!err && (err = question_begin(f, &r)) != 0)
        diag_errno(diag, err, f->path, "verifying");
    if (err)
        return err;
    if (h->identity.header_pages == 3)
        report->n_stale_slots = (uint32_t)(h->health.frame[0].code != VERDICT_OK) +
                                (uint32_t)(h->health.frame[1].code != VERDICT_OK);
    struct view *v = filter_view(f);
    for (uint32_t i = 0; i < v->n_stages; i++)
        verify_stage(&h->commit.stages[i], &v->stages[i], f->offset, report);
    err = f->kind->judge ? f->kind->judge(f, &h->commit, report) : 0;
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
                                        h->health.frame[0].code ? SLOT_A : SLOT_B));
    return TAMIS_ERR_DAMAGED;
}

int tamis_filter_verify(struct tamis_filter *f, struct tamis_verify *report,
                        struct tamis_diag *diag)
{
    struct header h;
    return filter_verify(f, &h, report, diag);
}

bool filter_copy_blocks(struct tamis_filter *f, uint32_t lane, uint64_t first,
                        uint64_t n, uint8_t *out)
{
    struct view *v = filter_view(f);
    uint64_t at = (lane * v->head.plane.n_blocks + first) * BLOCK_BYTES;
    return stage_copy_bytes(&v->stages[0], at, n * BLOCK_BYTES, out);
}

/* ---- by reading ---- */

struct scrub {
    struct page_reader reader;
    int fd, err; /* of the page that could not be read: it is the last one */
    /* Pages of digests, which do not change: each stands above many pages. */
    uint64_t digests, end;
    struct kept {
        uint64_t offset; /* 0: none */
        uint8_t page[PAGE_BYTES];
    } kept[4];
};

static bool scrub_page(struct page_reader *reader, uint64_t offset,
                       uint8_t page[PAGE_BYTES], bool *certain)
{
    struct scrub *s = (struct scrub *)reader;
    struct kept *kept = &s->kept[offset / PAGE_BYTES % 4];
    bool keeps = offset >= s->digests && offset < s->end;
    size_t got = 0;
    if (keeps && kept->offset == offset) {
        memcpy(page, kept->page, PAGE_BYTES);
        return true;
    }
    if (!s->err)
        s->err = io_read(s->fd, page, PAGE_BYTES, offset, &got);
    *certain = !s->err;
    if (keeps && got == PAGE_BYTES) {
        kept->offset = offset;
        memcpy(kept->page, page, PAGE_BYTES);
    }
    return got == PAGE_BYTES;
}

int filter_scrub(int fd, const struct header *h, struct tamis_verify *report)
{
    struct scrub r = {.reader.page = scrub_page, .fd = fd};
    const struct mapping m = mapping_of_reader(&r.reader);
    memset(report, 0, sizeof *report);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* page by page, and all of them */
    for (uint32_t i = 0; i < h->commit.n_stages && !r.err; i++) {
        const struct stage_desc *d = &h->commit.stages[i];
        bool digests = commit_has_digests(&h->commit, i);
        struct stage s;
        void *memory = calloc(1, stage_memory(d, digests));
        if (!memory)
            return ENOMEM;
        stage_init(&s, d, digests, &h->identity, TAMIS_CHECK_STRICT, &m,
                   m.base + d->offset, digests ? NULL : m.base + d->floors_offset,
                   d->digests_offset ? m.base + d->digests_offset : NULL, memory);
        r.digests = d->digests_offset;
        r.end = digests ? d->digests_offset + digests_bytes(s.n_pages) : 0;
        verify_stage(d, &s, 0, report);
        free(memory);
    }
    return r.err;
}
