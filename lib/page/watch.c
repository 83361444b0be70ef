/* The list of mappings, and what becomes of a page of one that is lost (R15).
 *
 * A page of a mapped file that cannot be had (an I/O error, a file cut short, no space
 * for a hole) is SIGBUS in the thread that touches it. If there is a guard (guard.c),
 * it asks here. If the address is in a mapping of ours, the loss is noted, ones are put
 * there, and the thread goes on. Ones say MAYBE, for any page.
 *
 * The list is kept whether there is a guard or not, so that one may come at any time.
 * The handler reads it while other threads open and close filters, so it has no locks:
 * its entries live in arrays that are never freed, and each has a version, odd while
 * it stands for a mapping. The mapping that a thread has just touched stays where it is
 * until the thread is through: an entry that changes under the handler is not that of
 * its own fault, and may be passed over. */
#include "lib/page/page.h"
#include "lib/io/io.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct watched {
    _Atomic uint32_t version; /* odd: a live mapping */
    _Atomic uint32_t next;    /* while free: the next free one's number + 1 */
    uint32_t number;
    _Atomic uint32_t n_faults;
    _Atomic uint32_t epoch; /* 1 + that of the process that has it; 0: children too */
    _Atomic uintptr_t begin, end;
    _Atomic bool writable;
    _Atomic bool *_Atomic alarm;    /* may be NULL */
    _Atomic uint64_t *_Atomic lost; /* a bit per page of the machine's; NULL: none */
};

/* ---- the list ---- */

enum { FIRST_ARRAY = 64, N_ARRAYS = 24 };

static struct watched *_Atomic arrays[N_ARRAYS]; /* each twice as long as the last */
static _Atomic uint32_t n_entries;               /* ever used */
static _Atomic uint64_t free_list; /* a number + 1, and above it a count of changes */

size_t machine_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned array_of(uint32_t number)
{
    return 31 - (unsigned)__builtin_clz(number / FIRST_ARRAY + 1);
}

static struct watched *watched_at(uint32_t number)
{
    unsigned array = array_of(number);
    return &atomic_load(&arrays[array])[number - FIRST_ARRAY * ((1U << array) - 1)];
}

static struct watched *pop_free(void)
{
    uint64_t head = atomic_load(&free_list);
    while ((uint32_t)head) {
        struct watched *g = watched_at((uint32_t)head - 1);
        uint64_t rest = ((head >> 32) + 1) << 32 | atomic_load(&g->next);
        if (atomic_compare_exchange_weak(&free_list, &head, rest))
            return g;
    }
    return NULL;
}

static void push_free(struct watched *g)
{
    uint64_t head = atomic_load(&free_list), mine;
    do {
        atomic_store(&g->next, (uint32_t)head);
        mine = ((head >> 32) + 1) << 32 | (g->number + 1);
    } while (!atomic_compare_exchange_weak(&free_list, &head, mine));
}

static bool array_exists(unsigned array)
{
    struct watched *none = NULL;
    if (array >= N_ARRAYS)
        return false;
    if (atomic_load(&arrays[array]))
        return true;
    size_t n_bytes = ((size_t)FIRST_ARRAY << array) * sizeof(struct watched);
    /* Not from malloc(): a probe may map a filter anew in a signal handler. */
    struct watched *fresh = io_calls.mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return false;
    if (!atomic_compare_exchange_strong(&arrays[array], &none, fresh))
        munmap(fresh, n_bytes); /* another thread has made it */
    return true;
}

static struct watched *take_entry(void)
{
    struct watched *g = pop_free();
    uint32_t number = atomic_load(&n_entries);
    while (!g) {
        if (!array_exists(array_of(number)))
            return NULL;
        if (atomic_compare_exchange_weak(&n_entries, &number, number + 1)) {
            g = watched_at(number);
            g->number = number;
        }
    }
    return g;
}

int lost_watch(struct mapping *m, bool writable, _Atomic bool *alarm)
{
    uintptr_t page = machine_page(), n_pages = (m->n_bytes + page - 1) / page;
    struct watched *g = take_entry();
    if (!g)
        return ENOMEM;
    atomic_store(&g->begin, (uintptr_t)m->address);
    atomic_store(&g->end, (uintptr_t)m->address + n_pages * page);
    atomic_store(&g->writable, writable);
    atomic_store(&g->alarm, alarm);
    atomic_store(&g->lost, NULL);
    atomic_store(&g->n_faults, 0);
    atomic_store(&g->epoch, 0);
    atomic_fetch_add(&g->version, 1);
    m->watched = g;
    m->n_faults = &g->n_faults;
    return 0;
}

/* A bit for each page of the machine's. */
static size_t notes_bytes(const struct watched *g)
{
    uintptr_t n_pages =
        (atomic_load(&g->end) - atomic_load(&g->begin)) / machine_page();
    return (n_pages + 63) / 64 * sizeof(uint64_t);
}

/* Made when the first page is lost, in the signal handler; NULL: no memory. A system
 * call as such: sanitizers put more into the function than a handler may do. */
static _Atomic uint64_t *notes_of(struct watched *g)
{
    _Atomic uint64_t *lost = atomic_load(&g->lost), *fresh;
    if (lost)
        return lost;
#ifdef SYS_mmap2
    long at = syscall(SYS_mmap2, NULL, notes_bytes(g), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
#else
    long at = syscall(SYS_mmap, NULL, notes_bytes(g), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
#endif
    if (at == -1)
        return NULL;
    fresh = (void *)at;
    if (atomic_compare_exchange_strong(&g->lost, &lost, fresh))
        return fresh;
    syscall(SYS_munmap, fresh, notes_bytes(g)); /* another thread has made them */
    return lost;
}

void lost_forget(struct mapping *m)
{
    struct watched *g = m->watched;
    if (!g)
        return;
    atomic_fetch_add(&g->version, 1);
    if (atomic_load(&g->lost))
        munmap(atomic_load(&g->lost), notes_bytes(g));
    push_free(g);
    m->watched = NULL;
}

void map_keep_from_children(struct mapping *m)
{
    /* A failure leaves the lock of a killed parent to its children, no worse. */
    madvise(m->address, m->n_bytes, MADV_DONTFORK);
    atomic_store(&m->watched->epoch, io_fork_epoch() + 1);
}

bool lost_page(const struct mapping *m, const void *at)
{
    atomic_thread_fence(
        memory_order_acquire); /* after what the caller has read there */
    if (!atomic_load(&m->watched->n_faults))
        return false;
    /* Notes come before the ones: without notes there are none yet. */
    _Atomic uint64_t *lost = atomic_load(&m->watched->lost);
    uintptr_t i = ((uintptr_t)at - (uintptr_t)m->address) / machine_page();
    return lost && atomic_load(&lost[i / 64]) >> (i % 64) & 1;
}

/* ---- the page of ones ---- */

enum {
    ONES_BYTES = 1 << 20,
    /* After FAULTS_A_STEP faults a mapping loses twice as much at a time. The kernel
     * limits the number of mappings, and probes may ask for every page of a large file
     * that was cut short. */
    FAULTS_A_STEP = 64,
};

/* Ones for readers, and ones for writers, who set bits there; one that a thread has to
 * itself may clear some (writer/alone.c), but by then all writers that have such ones
 * are poisoned. They are doubled by mremap(), not mapped from a file whose descriptor
 * the host may close. All but a page is written when pages are lost: most processes
 * lose none, and touching a megabyte may take longer than a whole command. */
static struct ones {
    uint8_t *bytes;
    _Atomic size_t n_written;
} ones[2];

/* Threads that come here at once write the same. */
static void write_ones(struct ones *o, size_t n_bytes)
{
    size_t n = atomic_load(&o->n_written);
    if (n >= n_bytes)
        return;
    uint64_t *at = (uint64_t *)(void *)(o->bytes + n);
    for (size_t i = 0; i < (n_bytes - n) / sizeof *at; i++)
        __atomic_store_n(&at[i], UINT64_MAX, __ATOMIC_RELAXED);
    while (n < n_bytes && !atomic_compare_exchange_weak(&o->n_written, &n, n_bytes))
        ;
}

static int make_ones(bool writable)
{
    if (ones[writable].bytes)
        return 0;
    uint8_t *p = io_calls.mmap(NULL, ONES_BYTES, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return errno;
    ones[writable].bytes = p;
    write_ones(&ones[writable], machine_page()); /* the memory for the first page */
    return 0;
}

int lost_prepare(void)
{
    int err = make_ones(false);
    return err ? err : make_ones(true);
}

/* Puts ones in one step, so that no thread meets a hole. It makes the system call
 * itself: sanitizers put more into the function than a handler may do. */
static bool put_ones(uintptr_t begin, uintptr_t end, bool writable)
{
    write_ones(&ones[writable], end - begin);
    if (syscall(SYS_mremap, ones[writable].bytes, 0L, end - begin,
                MREMAP_MAYMOVE | MREMAP_FIXED, begin) != (long)begin)
        return false;
    if (!writable) /* a stray store of the program's is a fault, as before */
        syscall(SYS_mprotect, begin, end - begin, (long)PROT_READ);
    return true;
}

static struct watched *watched_find(uintptr_t at)
{
    uint32_t n = atomic_load(&n_entries);
    for (uint32_t i = 0; i < n; i++) {
        struct watched *g = watched_at(i);
        uint32_t version = atomic_load(&g->version), epoch = atomic_load(&g->epoch);
        if (version % 2 && atomic_load(&g->begin) <= at && at < atomic_load(&g->end) &&
            (!epoch || epoch == io_fork_epoch() + 1) &&
            atomic_load(&g->version) == version)
            return g;
    }
    return NULL;
}

/* All of it before the ones: a thread that sees them can see that they are not the
 * page's. False: no memory to note it in. */
static bool note_loss(struct watched *g, uintptr_t begin, uintptr_t end)
{
    uintptr_t page = machine_page(), first = atomic_load(&g->begin);
    _Atomic bool *alarm = atomic_load(&g->alarm);
    _Atomic uint64_t *lost = notes_of(g);
    if (!lost)
        return false;
    for (uintptr_t at = begin; at < end; at += page) {
        uintptr_t i = (at - first) / page;
        atomic_fetch_or(&lost[i / 64], UINT64_C(1) << (i % 64));
    }
    if (alarm)
        atomic_store(alarm, true);
    return true;
}

bool lost_replace(uintptr_t at)
{
    struct watched *g = watched_find(at);
    if (!g)
        return false;
    uintptr_t bytes = machine_page();
    for (uint32_t n = atomic_fetch_add(&g->n_faults, 1) / FAULTS_A_STEP;
         n > 0 && bytes < ONES_BYTES; n--)
        bytes *= 2;
    uintptr_t begin = at / bytes * bytes, end = begin + bytes;
    begin = begin > atomic_load(&g->begin) ? begin : atomic_load(&g->begin);
    end = end < atomic_load(&g->end) ? end : atomic_load(&g->end);
    return note_loss(g, begin, end) && put_ones(begin, end, atomic_load(&g->writable));
}
