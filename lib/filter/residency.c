/* Residency: counts the pages of an open filter that are in memory, reads pages ahead
 * of the first probe, and locks them.
 *
 * A filter is mapped with advice for random access, so a fault reads one page.
 * Populating a cold mapping this way takes one read a page, and leaves single pages in
 * memory. So pages are read through a second mapping with the opposite advice, a few
 * MiB at a time: the kernel then reads 2 MiB at once, into folios of that size, and
 * maps them as huge pages. The first mapping is populated afterwards. Measured on 64
 * MiB of a cold file: 16,384 faults that read and no huge page; with the second mapping
 * 32, all in huge pages. */
#include "lib/filter/view.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* A multiple of the size of a huge page. */
enum { STEP_BYTES = 8 << 20 };

static size_t mapped_bytes(const struct mapping *m)
{
    size_t page = machine_page();
    return (m->n_bytes + page - 1) / page * page;
}

static uint8_t *address_of(const struct mapping *m, size_t at)
{
    return (uint8_t *)m->address + at;
}

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* ---- what probes use ---- */

struct range {
    size_t begin, end; /* of the mapping, in whole pages of the machine's */
};
struct ranges {
    size_t n;
    struct range at[1 + 2 * MAX_STAGES]; /* in order, apart */
};

/* In order; they may overlap where the machine's pages are larger than ours. */
static void ranges_add(struct ranges *r, const struct mapping *m, const uint8_t *from,
                       uint64_t n_bytes)
{
    size_t page = machine_page(), at = (size_t)(from - (uint8_t *)m->address);
    size_t i = r->n++;
    struct range one = {at / page * page,
                        (at + (size_t)n_bytes + page - 1) / page * page};
    for (; i > 0 && r->at[i - 1].begin > one.begin; i--)
        r->at[i] = r->at[i - 1];
    r->at[i] = one;
}

static void ranges_merge(struct ranges *r)
{
    size_t n = 0;
    for (size_t i = 1; i < r->n; i++) {
        if (r->at[i].begin > r->at[n].end)
            r->at[++n] = r->at[i];
        else if (r->at[i].end > r->at[n].end)
            r->at[n].end = r->at[i].end;
    }
    r->n = n + 1;
}

/* Earlier writers left holes of up to 2 MiB between stages, which would take as much
 * memory. */
static void ranges_of(const struct tamis_filter *f, const struct view *v,
                      struct ranges *r)
{
    r->n = 0;
    if (f->unmapped)
        return;
    ranges_add(r, &v->map, v->map.base, f->identity.header_pages * PAGE_BYTES);
    for (uint32_t i = 0; i < v->n_stages; i++) {
        const struct stage *s = &v->stages[i];
        ranges_add(r, &v->map, s->bits, s->n_pages * PAGE_BYTES);
        if (s->floors)
            ranges_add(r, &v->map, s->floors, floors_bytes(s->n_pages));
        if (s->digests)
            ranges_add(r, &v->map, s->digests, digests_bytes(s->n_pages));
    }
    ranges_merge(r);
}

uint64_t filter_used_bytes(struct tamis_filter *f, uint64_t limit)
{
    struct ranges r;
    uint64_t n = 0;
    ranges_of(f, filter_view(f), &r);
    for (size_t i = 0; i < r.n && r.at[i].begin < limit; i++)
        n += least(limit, r.at[i].end) - r.at[i].begin;
    return n;
}

uint64_t filter_mapped_bytes(struct tamis_filter *f)
{
    return mapped_bytes(&filter_view(f)->map);
}

const char *filter_path(const struct tamis_filter *f)
{
    return f->path;
}

const uint8_t *filter_set_id(const struct tamis_filter *f)
{
    return f->identity.set_id;
}

/* ---- counting ---- */

static int count_resident(const struct mapping *m, const struct range *range,
                          struct tamis_residency *out)
{
    unsigned char in[4096];
    size_t page = machine_page(), n;
    for (size_t at = range->begin; at < range->end; at += n * page) {
        n = least((range->end - at) / page, sizeof in);
        if (mincore(address_of(m, at), n * page, in) != 0)
            return errno;
        out->n_pages += n;
        for (size_t i = 0; i < n; i++)
            out->n_resident += in[i] & 1;
    }
    return 0;
}

int tamis_filter_residency(struct tamis_filter *filter, struct tamis_residency *out,
                           struct tamis_diag *diag)
{
    struct tamis_residency count = {0};
    struct ranges r;
    diag_clear(diag);
    if (out)
        *out = count;
    if (!out || !filter)
        return diag_own(diag, TAMIS_ERR_RANGE, NULL);
    const struct view *v = filter_view(filter);
    ranges_of(filter, v, &r);
    for (size_t i = 0; i < r.n; i++) {
        int err = count_resident(&v->map, &r.at[i], &count);
        if (err)
            return diag_errno(diag, err, filter->path, "counting its pages");
    }
    *out = count;
    return 0;
}

/* ---- reading in ---- */

/* A second mapping of a part of this one. No child gets it, for it would keep it. */
static void *map_again(const struct mapping *m, size_t at, size_t n)
{
    if (io_hold_forks())
        return MAP_FAILED;
    void *p = mremap(address_of(m, at), 0, n, MREMAP_MAYMOVE);
    if (p != MAP_FAILED)
        io_calls.madvise(p, n, MADV_DONTFORK);
    io_let_forks();
    return p;
}

/* Once the second mapping is made, failures are ignored: the populating that follows
 * finds them. False: it cannot be made: the limit forbids one of a locked mapping. */
static bool read_through_another(const struct mapping *m, size_t at, size_t n)
{
    void *p = map_again(m, at, n);
    if (p == MAP_FAILED)
        return false;
    io_calls.madvise(p, n, MADV_NORMAL);
    io_calls.madvise(p, n, MADV_HUGEPAGE);
    io_calls.madvise(p, n, MADV_POPULATE_READ);
    munmap(p, n);
    return true;
}

/* For kernels that do not know how to populate. Not through a second mapping: the guard
 * watches this one. */
static int touch(const struct mapping *m, size_t at, size_t n)
{
    io_calls.madvise(address_of(m, at), n, MADV_WILLNEED); /* not page by page */
    for (size_t i = 0; i < n; i += machine_page()) {
        (void)__atomic_load_n(address_of(m, at + i), __ATOMIC_RELAXED);
        if (lost_page(m, address_of(m, at + i)))
            return EIO;
    }
    return 0;
}

static int populate(const struct mapping *m, size_t at, size_t n)
{
    if (io_calls.madvise(address_of(m, at), n, MADV_POPULATE_READ) == 0)
        return 0;
    switch (errno) {
    case EINVAL:
        return touch(m, at, n);
    case EFAULT: /* it would be SIGBUS */
    case EHWPOISON:
        return EIO;
    default:
        return errno;
    }
}

static int bring_in(const struct mapping *m, size_t at, size_t n)
{
    uint8_t *p = address_of(m, at);
    if (m->n_bytes < RANDOM_ADVICE_BYTES)
        return populate(m, at, n);
    if (n < HUGE_PAGE_BYTES / 2) { /* the 2 MiB around it may be a hole */
        io_calls.madvise(p, n, MADV_WILLNEED);
        return populate(m, at, n);
    }
    if (read_through_another(m, at, n))
        return populate(m, at, n);
    io_calls.madvise(p, n, MADV_NORMAL);
    int err = populate(m, at, n);
    io_calls.madvise(p, n, MADV_RANDOM);
    return err;
}

int filter_warm_first(struct tamis_filter *f, uint64_t limit, struct warming *w)
{
    struct view *v = filter_view(f);
    struct ranges r;
    ranges_of(f, v, &r);
    for (size_t i = 0; i < r.n; i++) {
        size_t n, end = least(limit, r.at[i].end);
        for (size_t at = r.at[i].begin; at < end; at += n) {
            n = least(STEP_BYTES - at % STEP_BYTES, end - at);
            int err = bring_in(&v->map, at, n);
            if (err)
                return err;
            w->done += n;
            /* It may have grown since the total was made. */
            if (w->fn &&
                w->fn(w->ctx, w->done < w->total ? w->done : w->total, w->total))
                return ECANCELED;
        }
    }
    return 0;
}

/* ---- locking ---- */

int filter_unlock_beyond(struct tamis_filter *f, uint64_t n_bytes)
{
    struct view *v = filter_view(f);
    size_t whole = mapped_bytes(&v->map), from = least(n_bytes, whole);
    int err = 0;
    for (struct view *older = v->older; older; older = older->older)
        if (munlock(older->map.address, mapped_bytes(&older->map)) != 0)
            err = errno;
    if (from < whole && munlock(address_of(&v->map, from), whole - from) != 0)
        err = errno;
    return err;
}

/* Pages are locked as they come in, so that holes stay holes. */
static int lock_bytes(const struct mapping *m, size_t n)
{
    return n == 0 || mlock2(m->address, n, MLOCK_ONFAULT) == 0 ? 0 : errno;
}

int filter_lock_first(struct tamis_filter *f, uint64_t n_bytes, uint64_t *locked)
{
    const struct mapping *m = &filter_view(f)->map;
    size_t page = machine_page(), n_pages = least(n_bytes, mapped_bytes(m)) / page;
    int err = lock_bytes(m, n_pages * page);
    size_t some = err ? 0 : n_pages, none = err == ENOMEM ? n_pages : some + 1;
    /* As much as the limit leaves: it has no better way to say how much that is. */
    while (none - some > 1) {
        size_t half = some + (none - some) / 2;
        if (lock_bytes(m, half * page) == 0)
            some = half;
        else
            none = half;
    }
    *locked = some * page;
    return err;
}
