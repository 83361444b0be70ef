/* Repair without a catalog: made anew from the filters, listing no more than they say,
 * and proving nothing that two of them dispute. Who has the store open keeps it. */
#include "tests/support/repair_support.h"

#include <pthread.h>

/* Ways to lose a catalog. */
enum loss {
    MISSING,
    NO_BYTES,
    CUT,
    CUT_DEEP,
    NOISE,
    NOISE_INSIDE,
    TEXT,
    NO_META,
    N_LOSSES
};

static void lose(enum loss how)
{
    const char *path = path_of("s/catalog.lmdb");
    struct stat st;
    uint8_t noise[4096];
    assert_int_equal(stat(path, &st), 0);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)random_u64();
    switch (how) {
    case MISSING:
        assert_int_equal(unlink(path), 0);
        break;
    case NO_BYTES:
        assert_int_equal(truncate(path, 0), 0);
        break;
    case CUT:
        assert_int_equal(truncate(path, 3 * 4096 + 100), 0);
        break;
    case CUT_DEEP:
        assert_int_equal(truncate(path, 2 * 4096), 0);
        break;
    case NOISE:
        for (off_t at = 0; at < st.st_size; at += 4096)
            file_poke(path, (uint64_t)at, noise, sizeof noise);
        break;
    case NOISE_INSIDE: /* its first two pages are good */
        for (off_t at = 2 * 4096; at < st.st_size; at += 4096)
            file_poke(path, (uint64_t)at, noise, sizeof noise);
        break;
    case TEXT:
        file_write(path, "not a catalog\n", 14);
        break;
    case NO_META:
        poke_catalog("s", "meta", "store", NULL, 0);
        break;
    case N_LOSSES:
        break;
    }
}

static void a_lost_catalog_is_made_anew(void **state)
{
    (void)state;
    for (enum loss how = MISSING; how < N_LOSSES; how++) {
        struct tamis_store *s = store_agw("s");
        struct tamis_store_info was, is;
        OK(tamis_store_info(s, &was, NULL));
        tamis_store_close(s);
        lose(how);
        struct tamis_repair_report r = repair("s");
        assert_true(r.rebuilt && !r.complete);
        assert_int_equal(r.n_segments, 3);
        assert_int_equal(r.n_quarantined + r.n_swept + r.n_finished, 0);
        s = store_open("s");
        OK(tamis_store_info(s, &is, NULL));
        assert_memory_equal(was.uuid, is.uuid, sizeof is.uuid);
        assert_true(was.domain.tag == is.domain.tag);
        assert_int_equal(is.complete, 0);
        check_agw(s);
        assert_int_equal(reason_of(s, "a", 99999), TAMIS_MISMATCH);
        assert_int_equal(reason_of(s, "g", 99999), TAMIS_MISMATCH);
        assert_int_equal(record_in(s, "a").binding[0], 'A');
        /* A list that may lack segments proves nothing. */
        assert_int_equal(everywhere(s, 99999), TAMIS_MAYBE);
        grow_keys(s, "g", 5000, 10, 8);
        tamis_store_close(s);
        check_settled("s");
        s = store_open("s");
        assert_int_equal(everywhere(s, 99999), TAMIS_MAYBE);
        struct tamis_snapshot *held = snapshot_of(s);
        OK(tamis_store_confirm_complete(s, NULL));
        assert_int_equal(everywhere(s, 99999), TAMIS_ABSENT);
        assert_int_equal(reason_of(s, "a", 99999), ABSENT_HERE);
        assert_int_equal(reason_of(s, "g", 99999), ABSENT_HERE);
        assert_int_equal(reason_of(s, "w", 99999), ABSENT_HERE);
        check_agw(s);
        struct tamis_key key = key_in(s, 99999);
        assert_int_equal(tamis_snapshot_probe_all(held, &key, NULL, NULL), TAMIS_MAYBE);
        tamis_snapshot_release(held);
        OK(tamis_store_info(s, &is, NULL));
        assert_int_equal(is.complete, 1);
        tamis_store_close(s);
        if (how != MISSING)
            assert_true(exists(path_of("s/quarantine/catalog.lmdb")));
        check_settled("s");
        remove_tree("s");
    }
}

/* Only the first record is damaged: the others know more than the files do. */
static void good_records_are_kept(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    uint8_t noise[META_BYTES] = {1, 2, 3};
    poke_catalog("s", "meta", "store", noise, sizeof noise);
    struct tamis_repair_report r = repair("s");
    assert_true(r.rebuilt && r.n_segments == 4);
    s = store_open("s");
    check_agw(s);
    assert_int_equal(record_in(s, "bare").state, RECORD_NO_FILTER);
    assert_int_equal(record_in(s, "a").rank, 3);
    assert_int_equal(record_in(s, "a").has_range, 1);
    assert_int_equal(everywhere(s, 99999), TAMIS_MAYBE);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* A segment was replaced, and both files are there: one was dropped, and nobody can
 * tell which. */
static void two_files_of_one_name_prove_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw("s");
    const char *first = file_of(s, "s", "a");
    file_copy(first, path_of("first"));
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(put_keys(e, "a", 7000, 100, NULL));
    OK(tamis_edit_commit(e, NULL));
    const char *second = file_of(s, "s", "a");
    tamis_store_close(s);
    assert_int_equal(rename(path_of("first"), first), 0);
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    struct tamis_repair_report r = repair("s");
    SAW("two files claim this segment");
    assert_int_equal(r.n_quarantined, 2);
    assert_int_equal(r.n_segments, 3);
    assert_true(exists(aside_of("s", first)) && exists(aside_of("s", second)));
    assert_false(exists(first) || exists(second));
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 50), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(s, "a", 7050), TAMIS_NO_FILTER);
    check_agw(s);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static int die_editing(void *ctx)
{
    struct tamis_store *s = store_open("s");
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "new", .binding_bytes = 3};
    struct tamis_edit *e = edit_new(s);
    (void)ctx;
    OK(tamis_edit_drop(e, "x", 1, NULL));
    OK(put_keys(e, "x", 9000, 100, &opt));
    _exit(0);
}

/* The only file that claims a name may be an edit's that was killed before it
 * committed: the segment's own had no filter. Who does not say by a binding which file
 * it means gets no proof from it, until it has confirmed the list. */
static void a_lone_file_may_be_an_uncommitted_edits(void **state)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "old", .binding_bytes = 3};
    struct tamis_target t;
    (void)state;
    struct tamis_store *s = store_agw("s"); /* x: keys 0 .. 99, not in any filter */
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "x", 1, &opt, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    in_child(die_editing, NULL);
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    assert_int_equal(repair("s").n_segments, 4);
    s = store_open("s");
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(reason_of(s, "x", i), TAMIS_MISMATCH);
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(tamis_snapshot_find(snap, "x", 1, "old", 3, 0, &t),
                     TAMIS_ERR_MISMATCH);
    OK(tamis_snapshot_find(snap, "x", 1, "new", 3, 0, &t));
    struct tamis_key in = key_in(s, 9050), out = key_in(s, 50);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &in, NULL), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_ABSENT);
    for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
        t = tamis_snapshot_target(snap, i);
        assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_tree("s");
}

static void damaged_files_are_listed_where_their_names_are_known(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw("s");
    put_segment(s, "b", 10, 10);
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    tamis_store_close(s);
    flip(a, PAGE_BYTES + 3); /* a page */
    flip(b, 130);            /* the name */
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_quarantined, 2);
    assert_int_equal(r.n_segments, 3);
    s = store_open("s");
    check_agw(s);
    assert_int_equal(reason_of(s, "a", 99999), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(s, "b", 99999), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static void a_dead_writers_filter_is_recovered_first(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw("s");
    tamis_store_close(s);
    kill_writer("s", 6000);
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_finished, 1);
    s = store_open("s");
    check_agw(s);
    check_keys(s, "g", 6000, 100);
    assert_int_equal(record_in(s, "g").watermark, 9);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* ---- who has the store open keeps it ---- */

static void an_open_store_is_not_rebuilt_under_its_users(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_agw("s");
    for (int lock_too = 0; lock_too < 2; lock_too++) {
        if (!lock_too)
            assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
        else /* and not even LMDB's lock is there any more */
            assert_int_equal(unlink(path_of("s/catalog.lmdb-lock")), 0);
        uint64_t before = tree_of("s");
        assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_BUSY);
        assert_true(tree_of("s") == before);
    }
    tamis_store_close(s);
    repair("s");
    s = store_open("s");
    check_agw(s);
    tamis_store_close(s);
    remove_tree("s");
}

/* A process that opens the store while its catalog is exchanged gets the new one. */
static pthread_t opener;
static _Atomic bool opening;

static void *open_meanwhile(void *ctx)
{
    struct tamis_store *s = NULL;
    struct tamis_diag diag = {0};
    (void)ctx;
    opening = true;
    if (tamis_store_open(path_of("s"), &s, &diag) != 0)
        fail_msg("%s", diag.what);
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(tamis_snapshot_n_segments(snap), 3);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    return NULL;
}

static int slow_rename(int from_dir, const char *from, int to_dir, const char *to,
                       unsigned flags)
{
    if (strcmp(to, "catalog.lmdb") == 0) {
        OK(pthread_create(&opener, NULL, open_meanwhile, NULL));
        while (!opening)
            sched_yield();
        for (int i = 0; i < 1000; i++)
            sched_yield(); /* as far as it gets */
    }
    return calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

static void who_opens_meanwhile_gets_the_new_catalog(void **state)
{
    (void)state;
    tamis_store_close(store_agw("s"));
    lose(NO_META);
    calls_before = io_calls;
    io_calls.renameat2 = slow_rename;
    repair("s");
    io_calls = calls_before;
    OK(pthread_join(opener, NULL));
    remove_tree("s");
}

static void creating_over_an_open_store_fails_at_once(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_agw("s");
    assert_int_equal(tamis_store_create(path_of("s"), NULL, &diag), TAMIS_ERR_EXISTS);
    check_agw(s);
    tamis_store_close(s);
    remove_tree("s");
}

/* The store is open, and its catalog gone: nothing to wait for, whoever else tries. */
static void *create_meanwhile(void *ctx)
{
    struct tamis_diag diag;
    *(int *)ctx = tamis_store_create(path_of("s"), NULL, &diag);
    return NULL;
}

static void nor_is_one_made_beside_it(void **state)
{
    enum { N = 4 };
    pthread_t threads[N];
    int codes[N];
    (void)state;
    struct tamis_store *s = store_new("s");
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, create_meanwhile, &codes[i]),
                         0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(codes[i], TAMIS_ERR_BUSY);
    }
    tamis_store_close(s);
    OK(tamis_store_create(path_of("s"), NULL, NULL));
    remove_tree("s");
}

static int repair_is_busy(void *ctx)
{
    struct tamis_diag diag;
    (void)ctx;
    return repair_code("s", 0, NULL, NULL, &diag) == TAMIS_ERR_BUSY ? 0 : 1;
}

static void nor_under_those_of_another_process(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw("s");
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    in_child(repair_is_busy, NULL);
    tamis_store_close(s);
    repair("s");
    remove_tree("s");
}

/* A child that lives on does not keep a store locked that its parent has closed. */
static void a_forked_child_keeps_nobody_waiting(void **state)
{
    int go[2];
    char byte = 0;
    (void)state;
    struct tamis_store *s = store_agw("s");
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(go[1]);
        _exit(read(go[0], &byte, 1) < 0);
    }
    close(go[0]);
    tamis_store_close(s);
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    repair("s");
    close(go[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_catalog_is_made_anew),
        cmocka_unit_test(good_records_are_kept),
        cmocka_unit_test(two_files_of_one_name_prove_nothing),
        cmocka_unit_test(a_lone_file_may_be_an_uncommitted_edits),
        cmocka_unit_test(damaged_files_are_listed_where_their_names_are_known),
        cmocka_unit_test(a_dead_writers_filter_is_recovered_first),
        cmocka_unit_test(an_open_store_is_not_rebuilt_under_its_users),
        cmocka_unit_test(nor_under_those_of_another_process),
        cmocka_unit_test(who_opens_meanwhile_gets_the_new_catalog),
        cmocka_unit_test(creating_over_an_open_store_fails_at_once),
        cmocka_unit_test(nor_is_one_made_beside_it),
        cmocka_unit_test(a_forked_child_keeps_nobody_waiting),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
