/* Backups of stores with packs: a failed one leaves nothing, what is left out is told
 * by its own name. */
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
    scene("syncs that fail");
    steps("many 10 300; pack_in_two; put loose 8000000 100");
    calls_before = io_calls;
    io_calls.fsync = failing_fsync;
    bool reached = true;
    for (fail_sync = 1; reached; fail_sync++) {
        n_syncs = 0;
        int rc = tamis_store_backup(opened(), path_of("copy"), NULL, NULL, &shop.diag);
        reached = n_syncs >= fail_sync;
        IS(rc, reached ? ENOSPC : 0);
        assert_string_equal(shop.diag.file, rc ? path_of("copy") : "");
        IS(count_files(test_dir), rc ? 1 : 2);
    }
    io_calls = calls_before;
    assert_true(fail_sync > 7);
}

/* Pack or tombstones are missing, a page of the pack is damaged: damage, and no error
 * of this moment. */
TEST_OF_SCENES(what_is_hurt_is_named)
{
    static const struct scene_row rows[] = {
        {"no pack", "many 5 300; pack", "call it pack; lose it",
         "backup copy; is seen=5 left=5 damaged=0 errors=0; says {it};"
         "says its segment is without a filter there: the file is missing"},
        {"no tombstones", "many 5 300; pack", "call it dead; lose it",
         "backup copy; is seen=5 left=5 damaged=0 errors=0; says {it};"
         "says its segment is without a filter there: the file is missing"},
        {"a bad page", "many 5 300; pack", "call it pack; zero it 1",
         "backup copy; is seen=1 left=0 damaged=1 errors=0; says {it};"
         "says pages fail their check"},
    };
    PLAY_ROWS(rows);
}

RUN_TESTS(NULL, NULL)
