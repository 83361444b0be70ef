/* Checks of every page. tamis_filter_verify() checks an open filter through its
 * mapping, as probes do, and both slots. filter_scrub() reads a file that is not open.
 * In a mapping a page that can't be read is a signal, or, with the guard, ones and
 * damage. To filter_scrub() it is an error, which says nothing of the page. */
#include "lib/filter/view.h"
#include "format/integrity.h"
#include "format/ribbon.h"
#include "lib/io/io.h"

#include <errno.h>
#include <stdlib.h>
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
        verify_stage(f, &h->commit.stages[i], &v->stages[i], i, report);
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

enum { SPAN_PAGES = PAGES_PER_FLOOR_SECTOR, FLOOR_TRIES = 64 };

/* The page of digests of a level that was read last. */
struct level {
    bool known, good;
    uint64_t i;
    uint8_t page[PAGE_BYTES];
};
struct scrub {
    int fd;
    const struct header *h;
    struct stage_desc d;
    bool by_digests;
    struct digest_tree tree;
    struct level level[MAX_DIGEST_LEVELS];
    struct floor_sector_disk before, after;
    uint8_t pages[SPAN_PAGES * PAGE_BYTES];
};

/* ---- sealed, settled ---- */

static int load_digests(struct scrub *s, uint32_t level, uint64_t i);

/* *sure: false if the page with the digest is damaged. */
static int digest_of(struct scrub *s, uint32_t level, uint64_t i, uint64_t *digest,
                     bool *sure)
{
    const struct level *above = &s->level[level + 1];
    *digest = s->d.root;
    *sure = true;
    if (level + 1 == s->tree.n_levels)
        return 0;
    int rc = load_digests(s, level + 1, i / DIGESTS_PER_PAGE);
    if (rc)
        return rc;
    *digest = digest_at(above->page, i % DIGESTS_PER_PAGE);
    *sure = above->good;
    return 0;
}

static int load_digests(struct scrub *s, uint32_t level, uint64_t i)
{
    struct level *l = &s->level[level];
    uint64_t expected, at = s->d.digests_offset + s->tree.offset[level];
    size_t got = 0;
    bool sure;
    if (l->known && l->i == i)
        return 0;
    l->known = false;
    int rc = digest_of(s, level, i, &expected, &sure);
    if (!rc)
        rc = io_read(s->fd, l->page, PAGE_BYTES, at + i * PAGE_BYTES, &got);
    if (rc)
        return rc;
    l->good = sure && got == PAGE_BYTES && page_digest(l->page) == expected;
    l->i = i;
    l->known = true;
    return 0;
}

static int check_digest(struct scrub *s, uint64_t page, const uint8_t *bytes,
                        bool *good)
{
    uint64_t expected;
    int rc = digest_of(s, 0, page, &expected, good);
    if (!rc && *good)
        *good = page_digest(bytes) == expected;
    return rc;
}

/* ---- open, not settled ---- */

/* Tries again while a writer may be at work. If a sector stays bad, all pages fail. */
static int read_floors(struct scrub *s, uint64_t page, struct floor_sector_disk *d)
{
    uint64_t at = s->d.floors_offset + floor_sector_of(page);
    for (int tries = 0; tries < FLOOR_TRIES; tries++) {
        size_t got;
        int rc = io_read(s->fd, d, sizeof *d, at, &got);
        if (rc)
            return rc;
        if (got == sizeof *d && floor_sector_good(d, s->h->identity.uuid, at))
            return 0;
    }
    memset(d, 0xFF, sizeof *d); /* floors that nothing meets */
    return 0;
}

/* Reads floors, bits, floors: page/check.c says why. */
static bool check_open(const struct scrub *s, uint64_t page, const uint8_t *bytes)
{
    const struct le16 *after = floor_sector_page(&s->after, page);
    return page_meets_floors(bytes, floor_sector_page(&s->before, page)) &&
           le16_get(after[0]) != FLOOR_DAMAGED;
}

/* ---- both ---- */

/* The used bytes of a page. Zeros follow the blocks, and a table. */
size_t stage_used_bytes(const struct stage_desc *d, uint64_t page)
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

static int read_span(struct scrub *s, uint64_t first, size_t n, size_t *got)
{
    int rc = s->by_digests ? 0 : read_floors(s, first, &s->before);
    if (!rc)
        rc = io_read(s->fd, s->pages, n * PAGE_BYTES, s->d.offset + first * PAGE_BYTES,
                     got);
    return rc || s->by_digests ? rc : read_floors(s, first, &s->after);
}

static int scrub_span(struct scrub *s, uint64_t first, size_t n,
                      struct tamis_verify *report)
{
    size_t got = 0;
    int rc = read_span(s, first, n, &got);
    for (size_t i = 0; i < n && !rc; i++) {
        const uint8_t *bytes = s->pages + i * PAGE_BYTES;
        bool good = (i + 1) * PAGE_BYTES <= got;
        if (good && s->by_digests)
            rc = check_digest(s, first + i, bytes, &good);
        else if (good)
            good = check_open(s, first + i, bytes);
        size_t used = s->by_digests ? stage_used_bytes(&s->d, first + i) : PAGE_BYTES;
        good = good && all_zero(bytes + used, PAGE_BYTES - used);
        report->n_pages++;
        if (!rc && !good && report->n_damaged++ == 0)
            report->first_damaged = s->d.offset + (first + i) * PAGE_BYTES;
    }
    return rc;
}

/* Is the last page of each level zero behind its last digest? If not, that page has
 * failed. */
static int scrub_digests(struct scrub *s, struct tamis_verify *report)
{
    bool good = true;
    int rc = 0;
    for (uint32_t k = 1; k < s->tree.n_levels && !rc && good; k++) {
        uint64_t last = s->tree.n_pages[k] - 1;
        size_t used = s->tree.n_pages[k - 1] * DIGEST_BYTES - last * PAGE_BYTES;
        const struct level *l = &s->level[k];
        rc = load_digests(s, k, last);
        good = rc || !l->good || all_zero(l->page + used, PAGE_BYTES - used);
    }
    if (!good && report->n_damaged++ == 0)
        report->first_damaged = s->d.offset + s->d.length - PAGE_BYTES;
    return rc;
}

static int scrub_stage(struct scrub *s, uint32_t n, struct tamis_verify *report)
{
    int rc = 0;
    s->d = s->h->commit.stages[n];
    s->by_digests = commit_has_digests(&s->h->commit, n);
    uint64_t n_pages = s->d.length / PAGE_BYTES;
    digest_tree_of(n_pages, &s->tree);
    for (size_t i = 0; i < MAX_DIGEST_LEVELS; i++)
        s->level[i].known = false;
    for (uint64_t page = 0; page < n_pages && !rc; page += SPAN_PAGES) {
        uint64_t left = n_pages - page;
        rc = scrub_span(s, page, left < SPAN_PAGES ? (size_t)left : SPAN_PAGES, report);
    }
    return rc || !s->by_digests ? rc : scrub_digests(s, report);
}

int filter_scrub(int fd, const struct header *h, struct tamis_verify *report)
{
    memset(report, 0, sizeof *report);
    struct scrub *s = malloc(sizeof *s);
    int rc = s ? 0 : ENOMEM;
    if (s) {
        s->fd = fd;
        s->h = h;
    }
    for (uint32_t i = 0; i < h->commit.n_stages && !rc; i++)
        rc = scrub_stage(s, i, report);
    free(s);
    return rc;
}
