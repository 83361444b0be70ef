/* A writer holds mappings, descriptors, memory and the lock while it is open, and
 * nothing of these afterwards. */
#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

#include <malloc.h>

enum { N = 4000 };

static uint64_t keys[N];

static size_t n_open_descriptors(void)
{
    return count_files("/proc/self/fd");
}

static size_t n_mappings(void)
{
    char *line = NULL;
    size_t n = 0, max = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (getline(&line, &max, f) >= 0)
        n += strstr(line, test_dir) != NULL;
    free(line);
    fclose(f);
    return n;
}

/* The mapping numbered fails_at fails. */
static unsigned n_maps, fails_at_map;

static void *nth_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (++n_maps != fails_at_map)
        return calls_before.mmap(at, n, prot, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Bytes that malloc() has given out; 0 where a sanitizer does that. */
static size_t allocated(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void open_use_close(void)
{
    struct tamis_writer *w;
    for (fails_at_map = 1; fails_at_map < 8; fails_at_map++) {
        n_maps = 0;
        io_calls.mmap = nth_mmap;
        int err = tamis_writer_open(path, &w, NULL);
        io_calls.mmap = calls_before.mmap;
        if (!err)
            OK(tamis_writer_close(w));
        IS(n_mappings(), 0);
    }
    w = fresh(300);
    add_hashes(w, keys, N);
    OK(tamis_writer_commit(w, 1, NULL));
    fail_once(CALL_FDATASYNC, 1, EIO);
    IS(tamis_writer_commit(w, 1, NULL), EIO);
    IS(tamis_writer_close(w), TAMIS_ERR_POISONED);
    fail_never();
    w = fresh(50000);
    add_hashes(w, keys, N);
    seal_and_close(w, 1);
    w = fresh(500);
    fail_once(CALL_FDATASYNC, 2, EIO); /* a seal that the next writer settles */
    IS(tamis_writer_seal(w, 1, NULL, NULL), EIO);
    IS(tamis_writer_close(w), TAMIS_ERR_POISONED);
    fail_never();
    writer_refused(path, TAMIS_ERR_SEALED);
    IS(faults[CALL_FDATASYNC].n, 2);
    OK(tamis_writer_close(fresh(300)));
}

/* Nothing is left of a writer that was closed, or could not be opened. */
TEST_WITH_FAULTS(test_nothing_is_left)
{
    struct tamis_writer *w;
    size_t n_fds = n_open_descriptors();
    IS(n_mappings(), 0);
    w = fresh(500);
    add_hashes(w, keys, N);
    assert_true(n_mappings() > 2);
    OK(tamis_writer_close(w));
    IS(n_mappings(), 0);
    IS(n_open_descriptors(), n_fds);
    for (unsigned long nth = 1; nth < 4; nth++) {
        fail_once(CALL_FDATASYNC, nth, EIO);
        int err = tamis_writer_open(path, &w, NULL);
        fail_never();
        if (!err)
            OK(tamis_writer_close(w));
        IS(n_mappings(), 0);
        IS(n_open_descriptors(), n_fds);
    }
    /* The lock, too: even where a copy of the descriptor is left. */
    w = open_writer(path);
    FD copy = dup(w->guard.fd);
    assert_true(copy >= 0);
    OK(tamis_writer_close(w));
    OK(tamis_writer_open(path, &w, NULL));
    OK(tamis_writer_close(w));
}

TEST_WITH_FAULTS(test_memory_is_given_back)
{
    OK(tamis_writer_close(fresh(300)));
    for (int i = 0; i < 10; i++)
        open_use_close(); /* what is allocated once, and malloc()'s own caches */
    size_t before = allocated();
    for (int i = 0; i < 3; i++)
        open_use_close();
    IS(allocated(), before);
}

/* Each array of a stage has room for all its pages, whatever their number. */
TEST_WITH_FAULTS(test_room_for_every_page)
{
    uint64_t n_pages = 0;
    for (uint64_t capacity = 1000; capacity < 2000 * 1000; capacity += capacity / 60) {
        WRITER w = fresh(capacity);
        const struct writer_stage *s = w->stages[0];
        size_t words = (size_t)(s->stage.n_pages + 63) / 64;
        assert_true(malloc_usable_size(s->dirty) >= words * 8);
        assert_true(malloc_usable_size(s->floors) >= s->stage.n_pages * 16);
        size_t pages = (size_t)(s->stage.n_pages + 31) / 32;
        assert_true(malloc_usable_size(s->stage.pages) >= pages * 8);
        n_pages = s->stage.n_pages;
    }
    assert_true(n_pages > 500);
}

SET_UP(one_file_create, random_hashes(keys, N))

RUN_TESTS(set_up, test_dir_remove)
