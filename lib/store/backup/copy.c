/* A backup's copy of one filter (R16).
 *
 * A sealed file no longer changes. One that grows is read in the order
 *
 *      header, and then for each sector of floors:  floors, their pages, floors again
 *
 * and needs no writer to hold still:
 * - Keys that a commit acknowledged had their bits set before it wrote its record, and
 *   bits are only ever set; so pages that are read after the record have them.
 * - A floor was counted in bits that were there before it was written; so pages that
 * are read after the floors are not below them, unless they have lost bits. Floors read
 *   before the record could be older than the loss that they would have shown.
 * - A writer that finds a loss raises the floors out of reach before it fills the page
 *   (R8). A page read half filled may pass its older floors; so floors are read again,
 *   and a page that was condemned meanwhile is condemned in the copy.
 * - Digests of a settled stage were written before the record that names them (R17).
 * If the header has changed meanwhile, both slots of the copy get the record that was
 * read first, unclean: the copy is a filter after an unclean end.
 *
 * Damage is copied as it is, digests and floors with it: it is damage in the copy. */
#include "lib/store/backup/inside.h"
#include "lib/store/snapshot/snapshot.h"

enum { SPAN_BYTES = PAGES_PER_FLOOR_SECTOR * PAGE_BYTES, FLOOR_TRIES = 64 };

struct span {
    struct floor_sector_disk before, after;
    uint8_t pages[SPAN_BYTES];
};

struct copying {
    int from, to;
    const struct header *h;
    struct span *span;
    bool source_failed;
};

static int read_all(struct copying *c, void *buffer, size_t n, uint64_t at)
{
    size_t got;
    int rc = io_read(c->from, buffer, n, at, &got);
    if (!rc && got < n)
        rc = TAMIS_ERR_DAMAGED;
    if (rc)
        c->source_failed = true;
    return rc;
}

/* Read again while its writer is writing it; what stays bad is copied bad. */
static int read_floors(struct copying *c, struct floor_sector_disk *d, uint64_t at)
{
    int rc = 0;
    for (int i = 0; i < FLOOR_TRIES; i++) {
        rc = read_all(c, d, sizeof *d, at);
        if (rc || floor_sector_good(d, c->h->identity.uuid, at))
            break;
    }
    return rc;
}

/* The copy's floors: the source's, and pages that failed since. */
static void merge_floors(const struct copying *c, uint64_t at)
{
    struct floor_sector_disk *before = &c->span->before, *after = &c->span->after;
    const uint8_t *uuid = c->h->identity.uuid;
    bool changed = false;
    if (!floor_sector_good(before, uuid, at))
        return;
    if (!floor_sector_good(after, uuid, at)) {
        *before = *after;
        return;
    }
    for (size_t i = 0; i < FLOORS_PER_SECTOR; i++) {
        bool condemned = le16_get(after->floor[i]) == FLOOR_DAMAGED;
        if (!condemned || le16_get(before->floor[i]) == FLOOR_DAMAGED)
            continue;
        before->floor[i] = after->floor[i];
        changed = true;
    }
    if (changed)
        floor_sector_seal(before, uuid, at);
}

static int copy_span(struct copying *c, const struct stage_desc *d, uint64_t sector)
{
    uint64_t floors_at = d->floors_offset + sector * SECTOR_BYTES;
    uint64_t at = sector * SPAN_BYTES;
    size_t n = d->length - at < SPAN_BYTES ? (size_t)(d->length - at) : SPAN_BYTES;
    struct span *s = c->span;
    int rc = read_floors(c, &s->before, floors_at);
    if (!rc)
        rc = read_all(c, s->pages, n, d->offset + at);
    if (!rc)
        rc = read_floors(c, &s->after, floors_at);
    if (rc)
        return rc;
    merge_floors(c, floors_at);
    if (!all_zero(s->pages, n))
        rc = io_write(c->to, s->pages, n, d->offset + at);
    return rc ? rc : io_write(c->to, &s->before, sizeof s->before, floors_at);
}

/* Copies bytes that nobody writes any more, as they are. */
static int copy_range(struct copying *c, uint64_t at, uint64_t end)
{
    int rc = 0;
    for (; at < end && !rc; at += SPAN_BYTES) {
        size_t n = end - at < SPAN_BYTES ? (size_t)(end - at) : SPAN_BYTES;
        rc = read_all(c, c->span->pages, n, at);
        if (!rc)
            rc = io_write(c->to, c->span->pages, n, at);
    }
    return rc;
}

static int copy_stage(struct copying *c, const struct stage_desc *d)
{
    uint64_t n_pages = d->length / PAGE_BYTES, n_floors = floors_bytes(n_pages);
    uint64_t n = (d->length + SPAN_BYTES - 1) / SPAN_BYTES;
    /* The copy's writer maps them, and a full disk must not be a signal then (R1, R15).
     */
    int rc = io_allocate(c->to, d->offset, d->length);
    if (!rc)
        rc = io_allocate(c->to, d->floors_offset, n_floors);
    for (uint64_t sector = 0; sector < n && !rc; sector++)
        rc = copy_span(c, d, sector);
    /* The sectors that no page has, to whole pages. */
    if (!rc)
        rc = copy_range(c, d->floors_offset + n * SECTOR_BYTES,
                        d->floors_offset + n_floors);
    /* Digests were written before the record that names them. */
    if (!rc && d->digests_offset)
        rc = copy_range(c, d->digests_offset,
                        d->digests_offset + digests_bytes(n_pages));
    return rc;
}

static int copy_stages(struct copying *c)
{
    const struct commit *k = &c->h->commit;
    int rc = 0;
    for (size_t i = 0; i < k->n_stages && !rc; i++)
        rc = copy_stage(c, &k->stages[i]);
    if (rc)
        return rc;
    return io_calls.ftruncate(c->to, (off_t)k->committed_bytes) == 0 ? 0 : errno;
}

/* ---- the header ---- */

/* The record that was read first, in both slots, unclean. Its bytes, not a new record:
 * there may be some that this version does not know. */
static void set_slots(uint8_t raw[HEADER_MAX_BYTES], const struct commit *c)
{
    uint8_t slot[SLOT_BYTES];
    memcpy(slot, raw + commit_slot_offset(c->slot), sizeof slot);
    if (c->state == STATE_OPEN)
        slot[offsetof(struct commit_disk, clean)] = 0;
    for (uint8_t to = SLOT_A; to <= SLOT_B; to++) {
        commit_renumber(slot, to);
        memcpy(raw + commit_slot_offset(to), slot, sizeof slot);
    }
}

static int copy_header(struct copying *c, uint8_t raw[HEADER_MAX_BYTES])
{
    uint8_t now[HEADER_MAX_BYTES];
    size_t n = (size_t)identity_header_bytes(&c->h->identity);
    int rc = read_all(c, now, n, 0);
    if (!rc && c->h->identity.header_pages == 3 && memcmp(raw, now, n) != 0)
        set_slots(raw, &c->h->commit);
    return rc ? rc : io_write(c->to, raw, n, 0);
}

/* ---- one file ---- */

static int backup_copy_file(struct copying *c, uint8_t raw[HEADER_MAX_BYTES])
{
    int rc;
    if (c->h->commit.state == STATE_SEALED) {
        rc = filter_file_copy(c->from, c->to, c->h->commit.committed_bytes,
                              &c->source_failed);
    } else {
        c->span = malloc(sizeof *c->span);
        rc = c->span ? copy_stages(c) : ENOMEM;
        free(c->span);
    }
    return rc ? rc : copy_header(c, raw);
}

/* Is the copy what the record means, and are its pages good? Read once more, and not
 * through a mapping: a disk that fails here is an error then, not a signal (R15). */
static int backup_check_copy(const struct catalog *k, const struct record *r, int to,
                             const char *path, struct copied *out)
{
    struct header h;
    struct tamis_verify report;
    int rc = header_load(to, true, 0, 0, path, &h, &out->diag);
    bool meant = !rc && meta_hashes(&k->meta, &h.identity) &&
                 memcmp(h.identity.uuid, r->uuid, UUID_BYTES) == 0 &&
                 !record_mismatch(r, &h);
    if (rc == TAMIS_ERR_DAMAGED || (!rc && !meant)) {
        out->left = "not the filter that the catalog means";
        return 0;
    }
    if (!rc)
        rc = filter_scrub(to, &h, &report);
    if (!rc)
        out->n_damaged = report.n_damaged;
    return rc;
}

int backup_copy(const struct catalog *k, const struct record *r, int from, int to,
                const char *path, struct copied *out)
{
    uint8_t raw[HEADER_MAX_BYTES];
    struct header h;
    struct copying c = {.from = from, .to = to, .h = &h};
    memset(out, 0, sizeof *out);
    int rc = header_load_raw(from, true, 0, 0, path, raw, &h, &out->diag);
    if (rc == ENOMEM)
        return rc;
    if (rc) {
        out->left = "unreadable";
        return 0;
    }
    rc = backup_copy_file(&c, raw);
    if (rc && c.source_failed) {
        diag_errno(&out->diag, rc < 0 ? EIO : rc, path, "reading");
        out->left = "unreadable";
        return 0;
    }
    if (!rc && io_calls.fsync(to) != 0)
        rc = errno;
    out->n_bytes = h.commit.committed_bytes;
    return rc ? rc : backup_check_copy(k, r, to, path, out);
}
