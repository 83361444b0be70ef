/* Backups of stores with packs: a failed one leaves nothing, what is left out is told
 * by its own name, and a filter that is there twice is not lost with one of the two. */
#include "tests/support/repair_support.h"
#include "tests/support/store_packs.h"

static unsigned fail_sync, n_syncs;

static int failing_fsync(int fd)
{
    if (++n_syncs == fail_sync)
        return errno = ENOSPC, -1;
    return calls_before.fsync(fd);
}

static struct tamis_backup_report report;
static unsigned n_errors;

static void see_all(void *ctx, const struct tamis_repair_finding *f)
{
    see(ctx, f);
    n_errors += f->error != 0;
}

static struct tamis_diag diag;

static int back_up(struct tamis_store *s)
{
    n_syncs = 0;
    seen.n = n_errors = 0;
    return tamis_store_backup(s, path_of("copy"), see_all, NULL, &report, &diag);
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
            assert_string_equal(diag.file, rc ? path_of("copy") : "");
            assert_int_equal(count_files(test_dir), rc ? 1 : 2);
        }
        io_calls = calls_before;
        assert_true(fail_sync > (keep ? 17 : 7));
        tamis_store_close(s);
        remove_store("s");
        remove_store("copy");
    }
}

enum { SEGMENTS = 5 };

static void hurt_one(struct tamis_store *s, int how)
{
    if (how == 0)
        OK(unlink(pack_file()));
    else if (how == 1)
        OK(unlink(dead_file()));
    else if (how == 2)
        zero_page(pack_file(), 1);
    else
        OK(unlink(file_of(s, "s", name_of(2))));
}

/* Pack or tombstones are missing, a page of the pack is damaged, a kept file is
 * missing: damage, and no error of this moment. */
static void what_is_hurt_is_named(void **state)
{
    static const char *const words[][2] = {
        {"its segment is without a filter there: the file is missing",
         "its segments have files of their own there: the file is missing"},
        {"its segment is without a filter there: the file is missing",
         "its segments have files of their own there: the file is missing"},
        {"pages fail their check", "pages fail their check"},
        {NULL, "its segment's pack has the filter there: the file is missing"}};
    (void)state;
    for (int keep = 0; keep < 2; keep++)
        for (int how = 0; how < (keep ? 4 : 3); how++) {
            char file[900];
            struct tamis_store *s = store_of("s", SEGMENTS, 300);
            pack_all(s, keep);
            snprintf(file, sizeof file, "%s",
                     how == 0 || how == 2 ? pack_file()
                     : how == 1           ? dead_file()
                                          : file_of(s, "s", name_of(2)));
            hurt_one(s, how);
            OK(back_up(s));
            bool each = !keep && how < 2;
            assert_int_equal(seen.n, each ? SEGMENTS : 1);
            assert_int_equal(report.n_left, each ? SEGMENTS : how != 2);
            assert_int_equal(report.n_damaged, how == 2);
            assert_int_equal(n_errors, 0);
            SAW(words[how][keep]);
            SAW(strrchr(file, '/') + 1);
            tamis_store_close(s);
            s = store_open("copy");
            for (unsigned i = 0; keep && how != 2 && i < SEGMENTS; i++)
                for (unsigned k = 0; k < n_keys[i]; k++)
                    assert_int_equal(reason_of(s, name_of(i), i * 1000 + k), TAMIS_HIT);
            tamis_store_close(s);
            remove_store("s");
            remove_store("copy");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_failed_one_leaves_nothing, faults_off),
        cmocka_unit_test(what_is_hurt_is_named),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
