/* Backups of stores with packs: a failed one leaves nothing. */
#include "tests/support/store_packs.h"

static unsigned fail_sync, n_syncs;

static int failing_fsync(int fd)
{
    if (++n_syncs == fail_sync)
        return errno = ENOSPC, -1;
    return calls_before.fsync(fd);
}

static int back_up(struct tamis_store *s)
{
    struct tamis_diag diag = {0};
    n_syncs = 0;
    return tamis_store_backup(s, path_of("copy"), NULL, NULL, NULL, &diag);
}

/* Each sync in turn: those of filters, packs, tombstones, directories. */
static void a_failed_one_leaves_nothing(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct tamis_store *s = store_of("s", 10, 300);
        pack_in_two(s, keep);
        put_segment(s, "loose", 8000000, 100);
        calls_before = io_calls;
        io_calls.fsync = failing_fsync;
        int rc = ENOSPC;
        for (fail_sync = 1; rc; fail_sync++) {
            rc = back_up(s);
            assert_int_equal(rc, rc ? ENOSPC : 0);
            assert_int_equal(count_files(test_dir), rc ? 1 : 2);
        }
        io_calls = calls_before;
        assert_true(fail_sync > (keep ? 17 : 7));
        tamis_store_close(s);
        remove_store("s");
        remove_store("copy");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_failed_one_leaves_nothing, faults_off),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
