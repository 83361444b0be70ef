/* Limits of a snapshot: 10,000 segments with 1,024 descriptors. */
#include "tests/support/store_support.h"

#include <malloc.h>

enum { MANY = 10000 };

static int no_sync(int fd)
{
    return 0;
}

static void make_many(struct tamis_store *s)
{
    char name[32];
    struct io_calls saved = io_calls;
    io_calls.fdatasync = no_sync;
    io_calls.fsync = no_sync;
    struct tamis_edit *e = edit_new(s);
    for (uint64_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "segment-%05d", (int)i);
        OK(put_keys(e, name, i * 3, 3, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    io_calls = saved;
}

/* Anonymous memory of this process, which nobody shares, in KiB. (Pages of files count
 * as private as long as only one process has mapped them.) */
static long private_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "Anonymous:", 10) == 0)
            kib = atol(line + 10);
    fclose(f);
    return kib;
}

static void ask_all(struct tamis_snapshot *snap, struct tamis_store *s, uint64_t i,
                    size_t *n_maybe)
{
    static uint8_t reasons[MANY];
    struct tamis_key key = key_in(s, i);
    key.bytes = NULL; /* so that every file is opened */
    IS(ASK(snap, ALL, KEYS(&key, 1), .reasons = reasons),
       i < (uint64_t)MANY * 3 ? TAMIS_MAYBE : TAMIS_ABSENT);
    *n_maybe = 0;
    for (size_t k = 0; k < MANY; k++) {
        assert_true(reasons[k] == TAMIS_HIT || reasons[k] == ABSENT_HERE);
        *n_maybe += reasons[k] == TAMIS_HIT;
    }
}

TEST_IN_DIR(ten_thousand_segments)
{
    struct rlimit limit = {1024, 1024};
    size_t n_maybe;
    OK(setrlimit(RLIMIT_NOFILE, &limit));
    STORE s = store_new("s");
    make_many(s);
    tamis_store_close(s);
    malloc_trim(0);
    long before = private_kib();
    size_t heap = mallinfo2().uordblks + mallinfo2().hblkhd;
    s = store_open("s");
    SNAPSHOT snap = snapshot_of(s);
    ask_all(snap, s, 15000, &n_maybe); /* a key of segment 5000 */
    long kib = private_kib() - before;
    heap = mallinfo2().uordblks + mallinfo2().hblkhd - heap;
    print_message("10,000 segments: %ld private bytes each, %zu of heap\n",
                  kib * 1024 / MANY, heap / MANY);
    /* A sanitizer puts red zones around what is allocated, and keeps notes of it. */
    assert_true(SANITIZED || kib * 1024 / MANY <= 4096);
    assert_true(heap / MANY <= 4096);
    assert_true(n_maybe >= 1 && n_maybe < 20);
    assert_true(count_files("/proc/self/fd") < 30);
    ask_all(snap, s, 29999, &n_maybe);
    assert_true(n_maybe >= 1);
}

RUN_TESTS(NULL, NULL)
