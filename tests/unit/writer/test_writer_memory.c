/* The memory of a writer's stages, and its lock once it is closed. tests/faults looks
 * for all else that a writer may leave. */
#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

#include <malloc.h>

/* Even where a copy of the descriptor is left. */
TEST_WITH_FAULTS(test_a_closed_writer_has_no_lock)
{
    WRITER w = fresh(500);
    FD copy = dup(w->guard.fd);
    assert_true(copy >= 0);
    OK(tamis_writer_close(w, NULL));
    OK(tamis_writer_open(path, NULL, &w, NULL));
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

RUN_TESTS(one_file_create, test_dir_remove)
