/* Filters that are asked without a mapping. The kernel limits the mappings of a
 * process; sealed filters of a store beyond the limit are read, a page at a time:
 *
 *     probe --question_begin()--> open the file by its name, compare its header
 *       |   --page_unmapped()---> read a page, and those of its digests up to the root
 *       `-- --question_end()----> close it
 *
 * No page is kept, so each is proven each time, as by TAMIS_CHECK_STRICT. A page that
 * failed is remembered (page/check.c). Warning: the file is found by its name, so that
 * a filter that was dropped is lost to snapshots that still list it. */
#include "lib/filter/view.h"

struct unmapped {
    struct page_reader reader;
    struct tamis_filter *filter;
    uint64_t table_digest;
    int at; /* the directory; the caller's */
    /* The descriptor + 1, and above it how many ask by it: the last one closes it. One
     * that a jump out of a probe has left there stays until the filter is closed. */
    _Atomic uint64_t shared;
    char name[];
};
#define ONE_MORE (UINT64_C(1) << 32)

static int descriptor_of(uint64_t shared)
{
    return (int)(uint32_t)shared - 1;
}

/* Opens the file, if it is still the same filter. */
static int open_again(const struct unmapped *u, int *fd)
{
    const struct tamis_filter *f = u->filter;
    struct header h;
    int err = io_open_raw(u->at, u->name, O_RDONLY, fd);
    if (err)
        return err;
    err = header_load(*fd, true, 0, 0, f->path, &h, NULL);
    if (!err &&
        (memcmp(h.identity.uuid, f->identity.uuid, UUID_BYTES) != 0 ||
         h.identity.hash_seed != f->identity.hash_seed || !header_sealed_for_good(&h) ||
         commit_table_digest(&h.commit) != u->table_digest))
        err = TAMIS_ERR_MISMATCH;
    if (err)
        close(*fd);
    return err;
}

/* Joins the threads that have it open, or opens it. Waits for none of them. */
static int descriptor_take(struct unmapped *u, int *fd)
{
    uint64_t seen = atomic_load(&u->shared), now;
    int mine = -1;
    do {
        int err = seen || mine >= 0 ? 0 : open_again(u, &mine);
        if (err)
            return err;
        now = (seen ? seen : (uint64_t)mine + 1) + ONE_MORE;
    } while (!atomic_compare_exchange_weak(&u->shared, &seen, now));
    *fd = descriptor_of(now);
    if (mine >= 0 && mine != *fd)
        close(mine);
    return 0;
}

static void descriptor_leave(struct unmapped *u)
{
    uint64_t seen = atomic_load(&u->shared), now;
    do
        now = seen < 2 * ONE_MORE ? 0 : seen - ONE_MORE;
    while (!atomic_compare_exchange_weak(&u->shared, &seen, now));
    if (!now)
        close(descriptor_of(seen));
}

int question_begin(struct tamis_filter *f, struct question *r)
{
    if (!f->unmapped)
        return 0;
    r->saved_errno = errno;
    r->cancel = io_hold_cancel();
    int err = descriptor_take(f->unmapped, &r->fd);
    if (err) {
        io_let_cancel(r->cancel);
        errno = r->saved_errno;
    }
    return err;
}

void question_end(struct tamis_filter *f, struct question *r)
{
    if (!f->unmapped)
        return;
    descriptor_leave(f->unmapped);
    io_let_cancel(r->cancel);
    errno = r->saved_errno;
}

/* A page that ends early or gives an I/O error has failed; other errors may pass. */
static bool page_unmapped(struct page_reader *reader, uint64_t offset,
                          uint8_t page[PAGE_BYTES], bool *certain)
{
    struct unmapped *u = (struct unmapped *)reader;
    struct question r;
    size_t got = 0;
    int err = question_begin(u->filter, &r);
    *certain = false;
    if (err)
        return false;
    err = io_read(r.fd, page, PAGE_BYTES, offset, &got);
    *certain = !err || err == EIO;
    question_end(u->filter, &r);
    return got == PAGE_BYTES;
}

int unmapped_new(struct tamis_filter *f, const struct commit *c, int at,
                 const char *name)
{
    size_t n = strlen(name) + 1;
    struct unmapped *u = calloc(1, sizeof *u + n);
    if (!u)
        return ENOMEM;
    u->reader.page = page_unmapped;
    u->filter = f;
    u->table_digest = commit_table_digest(c);
    u->at = at;
    memcpy(u->name, name, n);
    f->unmapped = u;
    f->mode = TAMIS_CHECK_STRICT;
    return 0;
}

struct page_reader *unmapped_reader(struct tamis_filter *f)
{
    return &f->unmapped->reader;
}

/* At addresses that no process has: a stray look is a fault, and no wrong bit. */
struct mapping mapping_of_reader(struct page_reader *r)
{
    static const _Atomic uint32_t none;
    return (struct mapping){
        .reader = r,
        .base = (uint8_t *)((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1)),
        .n_faults = &none,
    };
}

bool filter_is_unmapped(const struct tamis_filter *f)
{
    return f->unmapped != NULL;
}

void unmapped_free(struct tamis_filter *f)
{
    if (f->unmapped && atomic_load(&f->unmapped->shared))
        close(descriptor_of(atomic_load(&f->unmapped->shared)));
    free(f->unmapped);
}
