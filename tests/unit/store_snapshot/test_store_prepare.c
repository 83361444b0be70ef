/* Preparing snapshots: what is opened and read in, in which order, and what is told of
 * the rest. */
#include "tests/unit/store_snapshot/prepare_support.h"

static bool is_open(struct tamis_snapshot *snap, size_t i)
{
    return atomic_load(&snap->entries[i]->filter) != NULL;
}

TEST_IN_DIR(opens_all_and_reads_none)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag = {.code = 1};
    STORE s = three();
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    SNAPSHOT snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, NULL, &r, &diag));
    assert_true(r.n_open == 4 && r.n_skipped == 1 && r.n_failed == 0);
    assert_true(r.open_bytes >= 4 * mapped());
    assert_true(r.warm_bytes == 0 && r.locked_bytes == 0 && r.lock_error == 0);
    IS(diag.code, 0);
    for (size_t i = 0; i < 5; i++)
        IS(is_open(snap, i), snap->entries[i]->state != RECORD_NO_FILTER);
    OK(tamis_snapshot_prepare(snap, NULL, NULL, NULL));
}

TEST_IN_DIR(only_what_is_listed)
{
    struct tamis_prepare_report r;
    struct tamis_target t[5];
    STORE s = three();
    SNAPSHOT snap = snapshot_of(s);
    put_ranked(s, "d", 9);
    SNAPSHOT other = snapshot_of(s);
    t[0] = tamis_snapshot_target(snap, 1);
    t[1] = t[0];
    t[2] = tamis_snapshot_target(other, 0);
    IS(tamis_snapshot_find(snap, "none", 4, NULL, 0, 0, &t[3]), TAMIS_ERR_NO_SEGMENT);
    t[4] = (struct tamis_target){.ordinal = 4, .snapshot = t[0].snapshot};
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .targets = t, .n_targets = 5, .warm = 1};
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 1 && r.n_skipped == 3 && r.n_failed == 0);
    IS(r.warm_bytes, mapped());
    assert_true(!is_open(snap, 0) && is_open(snap, 1) && !is_open(snap, 2));
    opt.n_targets = 0; /* none of them */
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 0 && r.n_skipped == 0);
    opt.targets = NULL;
    opt.n_targets = 1;
    IS(tamis_snapshot_prepare(snap, &opt, &r, NULL), TAMIS_ERR_RANGE);
    opt.size = 3;
    IS(tamis_snapshot_prepare(snap, &opt, &r, NULL), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_prepare(NULL, NULL, &r, NULL), TAMIS_ERR_RANGE);
}

/* ---- what is not there ---- */

TEST_IN_DIR(segments_vanish)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = 1 << 20};
    STORE s = three();
    SNAPSHOT snap = snapshot_of(s);
    const char *first = strstr(file_of(s, "s", "b"), "/filters/");
    drop_segment(s, "b");
    drop_segment(s, "a");
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(r.n_open == 1 && r.n_failed == 2 && r.n_unread == 0);
    assert_true(r.warm_bytes == mapped() && r.locked_bytes == mapped());
    IS(diag.code, ENOENT);
    assert_non_null(strstr(diag.file, first)); /* of the two */
    enum tamis_reason why;
    struct tamis_key in = key_in(s, 15);
    in.bytes = NULL;
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    IS(tamis_snapshot_probe(snap, &t, &in, &why), TAMIS_MAYBE);
    IS(why, TAMIS_FILE_LOST);
    tamis_snapshot_release(snap);
    snap = snapshot_of(s); /* and now it is not listed */
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(r.n_open == 1 && r.n_failed == 0 && diag.code == 0);
}

TEST_IN_DIR(tells_how_far_it_is)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag;
    struct heard h = {0};
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .fn = hear, .ctx = &h};
    STORE s = three();
    SNAPSHOT snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(h.n == 3 && h.done == h.total && h.total == 3 * mapped());
    h = (struct heard){.stop_at = 2};
    IS(tamis_snapshot_prepare(snap, &opt, &r, &diag), ECANCELED);
    IS(diag.code, ECANCELED);
    assert_true(h.n == 2 && r.n_open == 3 && r.warm_bytes == 2 * mapped());
    if (page != PAGE_BYTES)
        return;
    h = (struct heard){0};
    OK(truncate(file_of(s, "s", "b"), PAGE_BYTES)); /* pages vanish */
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(r.n_open == 3 && r.n_unread == 1 && r.n_failed == 0);
    IS(r.warm_bytes, 2 * mapped());
    assert_true(h.n == 2 && h.done == h.total && h.total == 3 * mapped());
    IS(diag.code, EIO);
    assert_non_null(strstr(diag.file, "/filters/"));
}

int main(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    return run_listed_tests(NULL, NULL);
}
