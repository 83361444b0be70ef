/* Mappings of a file's parts: made, watched for pages that are lost, dropped. */
#include "lib/page/page.h"
#include "lib/io/io.h"

#include <sys/mman.h>

/* At most MAX_KEPT mappings keep a descriptor: the application needs the others. */
enum { MAX_KEPT = 64, OUR_FIRST = 3 /* others dup2() over those below */ };
static _Atomic int n_kept;

int map_file(int fd, uint64_t offset, uint64_t n_bytes, bool writable,
             _Atomic bool *alarm, struct mapping *m)
{
    /* The filter starts at a multiple of 4096; the machine's pages may be larger. */
    uint64_t machine_page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t before = offset % machine_page;
    *m = (struct mapping){0};
    if (n_bytes == 0 || n_bytes > SIZE_MAX - machine_page)
        return EOVERFLOW;
    void *p = io_calls.mmap(NULL, (size_t)(n_bytes + before),
                            writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                            fd, (off_t)(offset - before));
    if (p == MAP_FAILED)
        return errno;
    m->address = p;
    m->n_bytes = (size_t)(n_bytes + before);
    m->base = (uint8_t *)p + before;
    int err = lost_watch(m, writable, alarm);
    if (err) {
        map_drop(m);
        return err;
    }
    /* Advice: a failure costs nothing. It is about the disk alone: pages in memory are
     * mapped around a fault all the same, large folios by huge pages (1 GiB in 512
     * faults, with it and without). Cold, 200 random touches read 200 pages of a file
     * of 1 GiB with it, 200,091 without. */
    if (m->n_bytes >= RANDOM_ADVICE_BYTES)
        map_at_random(m);
    return 0;
}

void map_at_random(const struct mapping *m)
{
    io_calls.madvise(m->address, m->n_bytes, MADV_RANDOM);
}

static void read_soon(const uint8_t *from, uint64_t n_bytes)
{
    uintptr_t at = (uintptr_t)from, before = at % (uintptr_t)sysconf(_SC_PAGESIZE);
    io_calls.madvise((void *)(at - before), n_bytes + before, MADV_WILLNEED);
}

/* The disk reads a piece while the caller looks at the one before. Digests and floors
 * lie elsewhere: each of their pages would be a read that the caller waits for. */
void stage_read_ahead(const struct stage *s, uint64_t page)
{
    enum { PIECE = (2 << 20) / PAGE_BYTES };
    uint64_t begin = page ? page + PIECE : 0, end = page + 2 * PIECE;
    end = end < s->n_pages ? end : s->n_pages;
    if (s->map->reader)
        return;
    if (page == 0 && s->digests)
        read_soon(s->digests, digests_bytes(s->n_pages));
    if (page == 0 && s->floors)
        read_soon(s->floors, floors_bytes(s->n_pages));
    if (page % PIECE == 0 && begin < end)
        read_soon(s->bits + begin * PAGE_BYTES, (end - begin) * PAGE_BYTES);
}

void map_keep_file(struct mapping *m, int fd, uint64_t offset)
{
    if (atomic_fetch_add(&n_kept, 1) < MAX_KEPT)
        m->file = 1 + fcntl(fd, F_DUPFD_CLOEXEC, OUR_FIRST);
    if (!m->file)
        atomic_fetch_sub(&n_kept, 1);
    m->offset = offset;
}

void map_leave_file(struct mapping *m)
{
    if (!m->file)
        return;
    close(m->file - 1);
    atomic_fetch_sub(&n_kept, 1);
    m->file = 0;
}

void map_drop(struct mapping *m)
{
    lost_forget(m); /* first: another mapping may get its addresses */
    map_leave_file(m);
    if (m->address)
        munmap(m->address, m->n_bytes);
    *m = (struct mapping){0};
}

void map_abandon(struct mapping *m)
{
    lost_forget(m);
    *m = (struct mapping){0};
}
