/* Is an ABSENT one of the exceptions that SPEC.md names? Pages are judged by SPEC.md's
 * text and not with the library's own check. */
#include "tests/rot/rot.h"

const char *const exception_names[N_EXCEPTIONS] = {
    [LOST] = "lost",
    [MASKED] = "masked",
    [PUT_BACK] = "put back",
    [SECTOR] = "sector put back",
    [EXCHANGED] = "exchanged",
    [UNCOMMITTED] = "uncommitted",
    [REMEMBERED] = "remembered",
    [UNCHECKED] = "unchecked",
};

/* ---- pages ---- */

static uint64_t le64_at(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static unsigned bits_of_sector(const uint8_t *p)
{
    unsigned n = 0;
    for (size_t i = 0; i < 512; i += 8)
        n += (unsigned)__builtin_popcountll(le64_at(p + i));
    return n;
}

/* Section 7.1: the floor of a sector, -1 if its floor sector fails. */
static int floor_of(const struct kind *k, const uint8_t *filter,
                    const struct stage_desc *s, uint64_t page, unsigned sector)
{
    uint64_t at = s->floors_offset + page / 31 * 512;
    const uint8_t *p = filter + at, *f = p + 2 * (page % 31 * 8 + sector);
    if (XXH3_64bits_withSeed(p, 504, at) != le64_at(p + 504) ||
        memcmp(p + 496, k->id.uuid, 8) != 0)
        return -1;
    return f[0] | f[1] << 8;
}

static bool open_page_fails(const struct kind *k, const uint8_t *filter,
                            const struct stage_desc *s, uint64_t page)
{
    for (unsigned t = 0; t < 8; t++) {
        int floor = floor_of(k, filter, s, page, t);
        if (floor < 0 || bits_of_sector(filter + s->offset + page * 4096 + t * 512) <
                             (unsigned)floor)
            return true;
    }
    return false;
}

/* Section 7.2: the root is known to be right, so a page is good if it and the pages of
 * digests above it are what they were. */
static bool digest_page_fails(const struct file *f, const struct stage_desc *s,
                              uint64_t page)
{
    const struct kind *k = f->kind;
    const uint8_t *is = f->bytes + k->offset, *was = k->now.bytes + k->offset;
    uint64_t at = s->offset, n_pages = s->length / 4096;
    for (uint64_t level = s->digests_offset;; level += n_pages * 4096) {
        uint64_t from = at + page * 4096;
        bool touched = from + k->offset < f->high && from + k->offset + 4096 > f->low;
        if (touched && memcmp(is + from, was + from, 4096) != 0)
            return true;
        if (n_pages == 1)
            return false;
        at = level;
        page /= 512;
        n_pages = (n_pages + 511) / 512;
    }
}

bool page_fails(const struct file *f, uint32_t stage, uint64_t page)
{
    const struct kind *k = f->kind;
    const uint8_t *filter = f->bytes + k->offset;
    struct stage_desc s = k->commit.stages[stage];
    return commit_has_digests(&k->commit, stage) ? digest_page_fails(f, &s, page)
                                                 : open_page_fails(k, filter, &s, page);
}

uint64_t pages_that_fail(const struct file *f)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->kind->commit.n_stages; i++)
        for (uint64_t p = 0; p < f->kind->commit.stages[i].length / PAGE_BYTES; p++)
            n += page_fails(f, i, p);
    return n;
}

/* ---- keys ---- */

/* Why does this stage, which had the key, not show it? LOST: no reason at all, and
 * there is none for a stage with digests. */
static enum exception why_not(const struct file *f, uint32_t stage, uint64_t h)
{
    const struct kind *k = f->kind;
    const struct stage_desc *s = &k->commit.stages[stage];
    const uint8_t *was = k->now.bytes + k->offset, *is = f->bytes + k->offset;
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        uint64_t at = geometry_block_offset(&s->geometry, lane, h);
        uint64_t page = at / PAGE_BYTES;
        unsigned sector = (unsigned)(at % PAGE_BYTES / SECTOR_BYTES);
        bool set = geometry_block_probe(is + s->offset + at, s->geometry.words, h);
        h = geometry_next_lane(h);
        if (set || page_fails(f, stage, page))
            continue; /* this lane does not say ABSENT */
        if (commit_has_digests(&k->commit, stage))
            return LOST;
        return floor_of(k, is, s, page, sector) < floor_of(k, was, s, page, sector)
                   ? SECTOR
                   : MASKED;
    }
    return LOST;
}

static bool had_key(const struct kind *k, uint32_t stage, uint64_t h)
{
    const struct stage_desc *s = &k->commit.stages[stage];
    return geometry_probe(k->now.bytes + k->offset + s->offset, &s->geometry, h);
}

/* Every stage that had the key must have a reason not to show it. */
static enum exception judge_open(const struct file *f, uint64_t h)
{
    enum exception e = LOST;
    for (uint32_t i = 0; i < f->kind->commit.n_stages; i++) {
        if (!had_key(f->kind, i, h))
            continue;
        enum exception one = why_not(f, i, h);
        if (one == LOST)
            return LOST;
        e = one > e ? one : e;
    }
    return e;
}

/* The latest record is still there, in one slot at least. */
static bool latest_is_there(const struct file *f)
{
    const uint8_t *is = f->bytes, *now = f->kind->now.bytes;
    for (size_t at = PAGE_BYTES; at < 3 * PAGE_BYTES; at += SLOT_BYTES)
        if (memcmp(is + at, now + at, SLOT_BYTES) == 0)
            return true;
    return false;
}

/* The two fields that a reader watches (R6). */
static bool slot_a_is_past(const struct file *f)
{
    enum {
        SEQUENCE = PAGE_BYTES + offsetof(struct commit_disk, sequence),
        CHECKSUM = PAGE_BYTES + SLOT_BYTES - sizeof(struct le64),
    };
    const struct kind *k = f->kind;
    const uint8_t *is = f->bytes;
    for (size_t i = 0; i < k->n_past; i++) {
        const uint8_t *was = k->past[i].bytes;
        if (memcmp(is + SEQUENCE, was + SEQUENCE, sizeof(struct le64)) == 0 &&
            memcmp(is + CHECKSUM, was + CHECKSUM, sizeof(struct le64)) == 0)
            return true;
    }
    return false;
}

enum exception judge(const struct file *f, enum view view,
                     const struct tamis_filter_info *read, size_t key)
{
    const struct kind *k = f->kind;
    bool lone = view == LAZY || view == FULL || view == STRICT;
    /* It goes on with the header that it read (R6), whatever the file says by now. */
    bool knew = view == LIVE || view == LIVE_STRICT;
    if (view == NONE)
        return UNCHECKED;
    if (view == WARM)
        return REMEMBERED;
    if (!knew && memcmp(read->uuid, k->id.uuid, UUID_BYTES) != 0)
        return lone ? EXCHANGED : LOST;
    if (k->id.header_pages == 1)
        return LOST;
    if (key >= k->n_acked)
        return UNCOMMITTED;
    /* Both ends of slot A as this reader knew them, put back before it looked again. */
    if (view == GREW && slot_a_is_past(f))
        return PUT_BACK;
    if (!knew && read->sequence < k->commit.sequence) {
        if (latest_is_there(f))
            return LOST;
        /* One that has not seen the latest knows no better than a newcomer. */
        if (lone || view == GREW)
            return PUT_BACK;
        return view == KNOWN && k->commit.state == STATE_OPEN &&
                       read->sequence >= k->known.min_sequence &&
                       read->n_stages >= k->known.min_stages
                   ? PUT_BACK
                   : LOST;
    }
    return k->commit.state == STATE_OPEN ? judge_open(f, k->keys[key]) : LOST;
}
