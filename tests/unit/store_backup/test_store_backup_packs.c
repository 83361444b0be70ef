/* Backups of stores with packs: a failed one leaves nothing, what is left out is told
 * by its own name, and a filter that is there twice is not lost with one of the two. */
#include "tests/support/shop/shop.h"

static unsigned fail_sync, n_syncs;

static int failing_fsync(int fd)
{
    if (++n_syncs == fail_sync)
        return errno = ENOSPC, -1;
    return calls_before.fsync(fd);
}

/* Each sync in turn: those of filters, packs, tombstones, directories. */
TEST_OF_SCENES(a_failed_one_leaves_nothing)
{
    for (int keep = 0; keep < 2; keep++) {
        scene("syncs that fail");
        steps("many 10 300; pack_in_two keep=%d; put loose 8000000 100", keep);
        calls_before = io_calls;
        io_calls.fsync = failing_fsync;
        bool reached = true;
        for (fail_sync = 1; reached; fail_sync++) {
            n_syncs = 0;
            int rc =
                tamis_store_backup(opened(), path_of("copy"), NULL, NULL, &shop.diag);
            reached = n_syncs >= fail_sync;
            IS(rc, reached ? ENOSPC : 0);
            assert_string_equal(shop.diag.file, rc ? path_of("copy") : "");
            IS(count_files(test_dir), rc ? 1 : 2);
        }
        io_calls = calls_before;
        assert_true(fail_sync > (keep ? 17 : 7));
    }
}

/* Pack or tombstones are missing, a page of the pack is damaged, a kept file is
 * missing: damage, and no error of this moment. */
TEST_OF_SCENES(what_is_hurt_is_named)
{
    static const struct {
        const char *harm, *words[2]; /* without kept files, with them */
    } rows[] = {
        {"call it pack; lose it",
         {"its segment is without a filter there: the file is missing",
          "its segments have files of their own there: the file is missing"}},
        {"call it dead; lose it",
         {"its segment is without a filter there: the file is missing",
          "its segments have files of their own there: the file is missing"}},
        {"call it pack; zero it 1",
         {"pages fail their check", "pages fail their check"}},
        {"call it s2; lose it",
         {NULL, "its segment's pack has the filter there: the file is missing"}}};
    for (int keep = 0; keep < 2; keep++)
        for (int how = 0; how < (keep ? 4 : 3); how++) {
            bool each = !keep && how < 2;
            play(rows[how].harm,
                 "many 5 300; pack keep=%d; %s; backup copy; is seen=%d left=%d "
                 "damaged=%d "
                 "errors=0; says %s; says {it}; use copy; %s",
                 keep, rows[how].harm, each ? 5 : 1, each ? 5 : how != 2, how == 2,
                 rows[how].words[keep], keep && how != 2 ? "each 0 5 HIT" : "open");
        }
}

RUN_TESTS(NULL, NULL)
