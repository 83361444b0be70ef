/* The sheets in which threads count, and what holds the sums. */
#include "lib/store/base/counters.h"

/* ---- numbers of sheets: a thread has one ---- */

_Thread_local unsigned counters_own_sheet = NO_SHEET;

static _Atomic uint64_t sheets_taken; /* bit i: number i + 1 */
static pthread_key_t sheet_key; /* its value is the number, so that it ends with it */
static atomic_bool sheet_key_there;
static pthread_once_t sheet_once = PTHREAD_ONCE_INIT;

/* At the end of a thread. One that counts still later, in a destructor of the host's,
 * takes another number. */
static void sheet_leave(void *number)
{
    counters_own_sheet = NO_SHEET;
    atomic_fetch_and_explicit(&sheets_taken, ~(UINT64_C(1) << ((uintptr_t)number - 1)),
                              memory_order_release);
}

/* The other threads are not in the child. */
static void sheets_after_fork(void)
{
    bool mine = counters_own_sheet != NO_SHEET && counters_own_sheet != SHARED_SHEET;
    atomic_store(&sheets_taken, mine ? UINT64_C(1) << (counters_own_sheet - 1) : 0);
}

static void sheets_prepare(void)
{
    bool there = pthread_key_create(&sheet_key, sheet_leave) == 0;
    atomic_store(&sheet_key_there, there);
    if (there) /* else sheets of threads that the child lacks stay taken there */
        pthread_atfork(NULL, NULL, sheets_after_fork);
}

/* Should the library be unloaded, nobody must call sheet_leave() any more. */
__attribute__((destructor)) static void sheets_forget(void)
{
    if (atomic_exchange(&sheet_key_there, false))
        pthread_key_delete(sheet_key);
}

static unsigned sheet_take(void)
{
    uint64_t taken = atomic_load(&sheets_taken);
    if (!atomic_load(&sheet_key_there))
        return SHARED_SHEET;
    for (;;) {
        unsigned i = (unsigned)__builtin_ctzll(~taken);
        if (i >= N_OWN_SHEETS) /* bit 63 is nobody's, and never set */
            return SHARED_SHEET;
        if (atomic_compare_exchange_strong(&sheets_taken, &taken,
                                           taken | UINT64_C(1) << i)) {
            if (pthread_setspecific(sheet_key, (void *)(uintptr_t)(i + 1)) == 0)
                return i + 1;
            atomic_fetch_and(&sheets_taken, ~(UINT64_C(1) << i));
            return SHARED_SHEET; /* nobody would give it back */
        }
    }
}

/* ---- sheets ---- */

struct sheet *sheet_new(size_t n_segments, bool shared)
{
    size_t n_words = n_segments / 64 + 1, n_rows = n_segments + 1;
    size_t rows = sizeof(struct sheet) + n_rows * sizeof(struct count_row);
    size_t all = rows + n_words * sizeof(_Atomic uint64_t);
    size_t hits = all + n_rows * sizeof(_Atomic uint32_t);
    struct sheet *sheet = calloc(1, hits + n_words + 64);
    if (!sheet) /* 64: the neighbour's line */
        return NULL;
    sheet->shared = shared;
    sheet->all = (void *)((uint8_t *)sheet + rows);
    sheet->hits = (void *)((uint8_t *)sheet + all);
    sheet->touched = (void *)((uint8_t *)sheet + hits);
    return sheet;
}

void sheet_fold(struct sheet *to, const struct sheet *from, size_t first, size_t n)
{
    for (size_t i = 0; i * 64 < n; i++)
        sheet_add(to, &to->all[i], count_read(&from->all[first / 64 + i]));
    for (size_t ordinal = first;
         (ordinal = sheet_next(from, ordinal + 1, first + n)) <= first + n;) {
        const struct count_row *row = &from->rows[ordinal];
        sheet_hit(to, ordinal - first,
                  atomic_load_explicit(&from->hits[ordinal], memory_order_relaxed));
        for (size_t i = 0; i < N_COUNTS; i++)
            if (count_read(&row->n[i]))
                sheet_add(to, &sheet_row(to, ordinal - first)->n[i],
                          count_read(&row->n[i]));
    }
}

int counters_begin(struct counters *c, size_t n_segments)
{
    /* Here, not at the first count: no probe waits for another thread. */
    pthread_once(&sheet_once, sheets_prepare);
    if (!atomic_load(&c->sheets[SHARED_SHEET])) {
        struct sheet *sheet = sheet_new(n_segments, true), *none = NULL;
        if (!sheet)
            return ENOMEM;
        if (!atomic_compare_exchange_strong(&c->sheets[SHARED_SHEET], &none, sheet))
            free(sheet);
    }
    atomic_store_explicit(&c->on, true, memory_order_release);
    quick_end(); /* what is quick counts nothing */
    return 0;
}

/* The first count of a thread, or of a thread in this snapshot. Two of its own may
 * meet here only if a signal handler probes: the first one stays. */
struct sheet *counters_sheet_slowly(struct counters *c, size_t n_segments)
{
    if (counters_own_sheet == NO_SHEET)
        counters_own_sheet = sheet_take();
    struct sheet *there = atomic_load(&c->sheets[counters_own_sheet]);
    struct sheet *sheet = there ? NULL : sheet_new(n_segments, false);
    if (sheet) {
        if (atomic_compare_exchange_strong(&c->sheets[counters_own_sheet], &there,
                                           sheet))
            return sheet;
        free(sheet);
    }
    return there ? there : atomic_load(&c->sheets[SHARED_SHEET]);
}

void counters_free(struct counters *c)
{
    for (size_t i = 0; i < N_OWN_SHEETS + 2; i++)
        free(atomic_load(&c->sheets[i]));
}

/* ---- what holds the sums ---- */

struct account *account_new(struct page_counts *sum)
{
    struct account *t = calloc(1, sizeof *t);
    if (t) {
        atomic_init(&t->refs, 1);
        t->pages.sum = sum;
    }
    return t;
}

void account_release(struct account *t)
{
    if (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        free(t);
}

struct ledger *ledger_new(void)
{
    struct ledger *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    atomic_init(&l->refs, 1);
    l->fork_epoch = io_fork_epoch();
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void ledger_release(struct ledger *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&l->lock);
    free(l);
}

bool ledger_lock(struct ledger *l)
{
    if (!l || l->fork_epoch != io_fork_epoch())
        return false;
    pthread_mutex_lock(&l->lock);
    return true;
}
