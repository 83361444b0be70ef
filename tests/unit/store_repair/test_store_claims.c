/* Repair without a catalog, where several files claim one segment: packs whose tombstones
 * were put back, and files of its own. No key is lost, other segments keep their filters,
 * and what is said to be set aside is. */
#include "tests/support/store_packs.h"

enum { SEGMENTS = 3 };

static struct tamis_store *lose_catalog(struct tamis_store *s,
                                        struct tamis_repair_report *report)
{
    struct tamis_diag diag = {0};
    tamis_store_close(s);
    OK(unlink(path_of("s/catalog.lmdb")));
    unlink(path_of("s/catalog.lmdb-lock"));
    if (tamis_store_repair(path_of("s"), NULL, report, &diag) != 0)
        fail_msg("%s", diag.what);
    assert_true(report->rebuilt);
    return store_open("s");
}

static size_t n_in_quarantine(void)
{
    return exists(path_of("s/quarantine")) ? count_files(path_of("s/quarantine")) : 0;
}

/* Packs one segment alone. */
static void pack_one(struct tamis_store *s, const char *name, enum tamis_repack repack,
                     bool keep)
{
    struct tamis_pack_options opt = {.size = sizeof opt, .repack = repack, .keep = keep};
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    uint32_t index = t.slot - 1;
    OK(tamis_edit_pack(e, snap, &index, 1, &opt, NULL, NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
}

/* The sweep of an edit takes what nothing names. */
static void sweep(struct tamis_store *s)
{
    put_segment(s, "another", 8000000, 10);
}

static void all_found(struct tamis_store *s, unsigned from)
{
    for (unsigned i = from; i < SEGMENTS; i++)
        for (unsigned k = 0; k < n_keys[i]; k++)
            assert_int_equal(reason_of(s, name_of(i), i * 1000 + k), TAMIS_HIT);
}

/* Its own file and columns of two packs: all of them are the same filter. */
static void one_filter_in_three_files(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct tamis_repair_report report;
        struct tamis_store *s = store_of("s", SEGMENTS, 300);
        pack_all(s, keep);
        char dead[900];
        snprintf(dead, sizeof dead, "%s", dead_file());
        file_copy(dead, path_of("dead"));
        pack_one(s, name_of(0), TAMIS_REPACK_ALL, keep);
        file_copy(path_of("dead"), dead);
        s = lose_catalog(s, &report);
        OK(tamis_store_confirm_complete(s, NULL));
        assert_int_equal(report.n_quarantined, 0);
        assert_int_equal(n_in_quarantine(), 0);
        all_found(s, 0);
        sweep(s);
        all_found(s, 0);
        assert_int_equal(reason_of_hash(s, name_of(0), 7777777), ABSENT_HERE);
        tamis_store_close(s);
        remove_store("s");
    }
}

/* Segment 0 three times anew: in the pack of all, in a pack of its own, and in a file. */
static void three_filters_of_one_segment(void **state)
{
    struct tamis_repair_report report;
    char first[900], second[900] = "";
    (void)state;
    struct tamis_store *s = store_of("s", SEGMENTS, 300);
    pack_all(s, false);
    snprintf(first, sizeof first, "%s", dead_file());
    file_copy(first, path_of("dead"));
    drop_segment(s, name_of(0));
    put_segment(s, name_of(0), 100, 50);
    pack_one(s, name_of(0), TAMIS_REPACK_NONE, false);
    DIR *d = opendir(path_of("s/filters"));
    for (struct dirent *entry; (entry = readdir(d));)
        if (strstr(entry->d_name, ".dead") && !strstr(first, entry->d_name))
            snprintf(second, sizeof second, "%s/%s", path_of("s/filters"), entry->d_name);
    closedir(d);
    char pack[900];
    snprintf(pack, sizeof pack, "%.*s.tamis", (int)strlen(second) - 5, second);
    file_copy(second, path_of("dead2"));
    file_copy(pack, path_of("pack2"));
    drop_segment(s, name_of(0));
    put_segment(s, name_of(0), 200, 50);
    file_copy(path_of("dead"), first);
    file_copy(path_of("dead2"), second);
    file_copy(path_of("pack2"), pack);
    s = lose_catalog(s, &report);
    /* The file, and the pack of which nothing is left; with its tombstones. */
    assert_int_equal(report.n_quarantined, 2);
    assert_int_equal(n_in_quarantine(), 3);
    OK(nftw(path_of("s/quarantine"), remove_one, 16, FTW_DEPTH | FTW_PHYS));
    OK(tamis_store_confirm_complete(s, NULL));
    all_found(s, 1);
    sweep(s);
    all_found(s, 1);
    assert_int_equal(reason_of_hash(s, name_of(0), 7777777), TAMIS_NO_FILTER);
    assert_int_equal(reason_of_hash(s, name_of(1), 7777777), ABSENT_HERE);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_filter_in_three_files),
        cmocka_unit_test(three_filters_of_one_segment),
    };
    return cmocka_run_group_tests_name("store claims", tests, test_dir_create,
                                       test_dir_remove);
}
