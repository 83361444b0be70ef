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

TEST_IN_DIR(opening_says_so)
{
    char path[1200];
    fill_store();
    struct tamis_store *s = store_open("s");
    snprintf(path, sizeof path, "%s", file_of(s, "s", "g"));
    tamis_store_close(s);
    size_t n_descriptors = count_files("/proc/self/fd");
    for (int filter = 0; filter < 2; filter++) {
        for (unsigned at = 1; at == 1 || n_asked + 1 >= at; at++) {
            struct tamis_filter *f = NULL;
            n_asked = 0;
            fail_at = at;
            int rc = filter ? tamis_filter_open(path, NULL, &f, NULL)
                            : tamis_store_open(path_of("s"), NULL, &s, NULL);
            fail_at = 0;
            if (rc != (n_asked >= at ? ENOMEM : 0))
                fail_msg("allocation %u: %d", at, rc);
            if (!rc && !filter)
                tamis_store_close(s);
            tamis_filter_close(f);
            IS(count_files("/proc/self/fd"), n_descriptors);
        }
        assert_true(n_asked > (filter ? 1 : 5));
    }
}

/* It is on for some snapshots and not for others, then; what is asked is answered. */
TEST_IN_DIR(counting_says_so)
{
    fill_store();
    for (unsigned at = 1; at == 1 || n_asked + 1 >= at; at++) {
        struct tamis_stats stats;
        struct tamis_store *s = store_open("s");
        struct tamis_snapshot *two[2] = {snapshot_of(s)};
        put_segment(s, "c", 200, 100);
        two[1] = snapshot_of(s);
        n_asked = 0;
        fail_at = at;
        int rc = tamis_store_count(s, 1, NULL);
        for (size_t i = 0; i < 2; i++) {
            struct tamis_key key = key_in(s, 5);
            struct tamis_target t = found_in(two[i], "a");
            IS(tamis_snapshot_probe(two[i], &t, &key, NULL), TAMIS_MAYBE);
        }
        unsigned asked = n_asked;
        fail_at = 0;
        if (rc && rc != ENOMEM)
            fail_msg("allocation %u: %d", at, rc);
        OK(tamis_store_stats(s, &stats, NULL));
        assert_in_range(stats.n_probes, rc ? 0 : 2, rc ? 1 : 2);
        tamis_snapshot_release(two[0]), tamis_snapshot_release(two[1]);
        drop_segment(s, "c");
        tamis_store_close(s);
        n_asked = asked;
    }
    assert_true(n_asked >= 3);
}

RUN_TESTS(NULL, NULL)
