/* No memory: whatever allocation fails says nothing of what is on the disk. This
 * program is linked so that each malloc(), calloc() and realloc() of the library comes
 * here. */
#include "tests/support/repair_support.h"
#include "tests/support/still_disk.h"

static unsigned n_asked, fail_at;

static bool fails(void)
{
    return fail_at && ++n_asked == fail_at;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails() ? (errno = ENOMEM, NULL) : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? (errno = ENOMEM, NULL) : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? (errno = ENOMEM, NULL) : __real_realloc(p, n);
}

static void fill_store(void)
{
    STORE s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    put_growing(s, "g");
}

TEST_IN_DIR(repair_changes_nothing)
{
    fill_store();
    uint64_t before = tree_of("s");
    for (unsigned at = 1; n_asked + 1 >= at; at++) {
        struct tamis_repair_report r;
        n_asked = 0;
        fail_at = at;
        int rc = tamis_store_repair(path_of("s"), NULL, &r, NULL);
        fail_at = 0;
        if (rc && rc != ENOMEM)
            fail_msg("allocation %u: %d", at, rc);
        assert_false(r.rebuilt);
        assert_true(tree_of("s") == before);
    }
    assert_true(n_asked > 10);
}

RUN_TESTS(NULL, NULL)
