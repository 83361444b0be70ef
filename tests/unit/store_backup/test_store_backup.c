/* Backup: the copy has what was acknowledged, and nothing by halves. */
#include "tests/unit/store_backup/backup_support.h"
#include "format/checksum.h"

static void the_copy_of_a_quiet_store_is_the_same(void **state)
{
    struct tamis_store_info was, is;
    struct tamis_diag diag;
    char command[3000];
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    uint64_t before = tree_of("s");
    backup(s, "b/");
    assert_true(tree_of("s") == before);
    assert_int_equal(backed_up.n_segments, 4);
    assert_int_equal(backed_up.n_files, 3);
    assert_int_equal(backed_up.n_damaged + backed_up.n_left + seen.n, 0);
    snprintf(command, sizeof command, "diff -r %s %s", path_of("s/filters"),
             path_of("b/filters"));
    assert_int_equal(system(command), 0);
    assert_int_equal(count_files(path_of("b")), 2);
    struct tamis_store *b = store_open("b");
    OK(tamis_store_info(s, &was, NULL));
    OK(tamis_store_info(b, &is, NULL));
    assert_memory_equal(was.uuid, is.uuid, sizeof is.uuid);
    assert_true(was.domain.tag == is.domain.tag && is.complete &&
                was.created == is.created);
    struct tamis_snapshot *x = snapshot_of(s), *y = snapshot_of(b);
    assert_int_equal(x->n, y->n);
    for (size_t i = 0; i < x->n; i++)
        assert_true(entry_is(x->entries[i],
                             y->entries[i]->bytes + y->entries[i]->name_bytes,
                             y->entries[i]->value_bytes));
    tamis_snapshot_release(x);
    tamis_snapshot_release(y);
    check_agw_bare(b);
    assert_int_equal(reason_of(b, "a", 99999), ABSENT_HERE);
    assert_int_equal(reason_of(b, "g", 99999), ABSENT_HERE);
    assert_int_equal(reason_of(b, "w", 99999), ABSENT_HERE);
    grow_keys(b, "g", 5000, 10, 6); /* it goes on */
    tamis_store_close(b);
    check_settled("b");
    before = tree_of("b");
    assert_int_equal(backup_code(s, "b", &diag), TAMIS_ERR_EXISTS);
    assert_int_equal(backup_code(s, "none/b", &diag), ENOENT);
    assert_true(tree_of("b") == before);
    remove_both(s);
}

/* Bytes that a writer will map have their space in the copy, even zeros (R1). */
static void growing_filters_have_their_space(void **state)
{
    enum { MANY = 2 * 1000 * 1000 };
    struct tamis_growth growth = {.error = 0.01, .first_capacity = MANY};
    struct stat st;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_growing(e, "g", 1, &growth, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    grow_keys(s, "g", 0, 10, 1);
    backup(s, "b");
    const char *copy = file_in("b", file_of(s, "s", "g"));
    struct commit c = commit_of(copy);
    uint64_t used = 3 * PAGE_BYTES;
    for (size_t i = 0; i < c.n_stages; i++)
        used += c.stages[i].length + floors_bytes(c.stages[i].length / PAGE_BYTES);
    OK(stat(copy, &st));
    assert_true((uint64_t)st.st_blocks * 512 >= used);
    assert_true((uint64_t)st.st_blocks * 512 < used + 1024 * 1024);
    remove_both(s);
}

/* Files of earlier writers have holes before large stages, and so have their copies. */
static void holes_stay_holes(void **state)
{
    enum { HOLE = 1024 * 1024 };
    char path[1200];
    struct stat st;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    snprintf(path, sizeof path, "%s", path_of("old.tamis"));
    build_file(path, &d, NULL, NULL, NULL);
    open_a_hole(path);
    assert_int_equal(attach_code(s, "h", path, NULL, NULL), 0);
    backup(s, "b");
    OK(stat(file_in("b", file_of(s, "s", "h")), &st));
    assert_true((uint64_t)st.st_size > (uint64_t)st.st_blocks * 512 + HOLE);
    struct tamis_store *copy = store_open("b");
    assert_int_equal(reason_of(copy, "h", 99), TAMIS_HIT);
    tamis_store_close(copy);
    remove_both(s);
}

static void what_serves_nobody_is_left_out(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    put_bound(s, "x", 0, 10, "X", 9);
    put_growing(s, "y");
    const char *a = file_of(s, "s", "a"), *g = file_of(s, "s", "g"),
               *y = file_of(s, "s", "y");
    flip(a, 100);
    assert_int_equal(unlink(file_of(s, "s", "x")), 0);
    file_copy(y, path_of("old"));
    grow_keys(s, "y", 0, 2000, 1);
    file_copy(path_of("old"), y); /* older than the catalog knows */
    assert_int_equal(truncate(g, 9000), 0);
    backup(s, "b");
    assert_int_equal(backed_up.n_left, 4);
    assert_int_equal(backed_up.n_segments, 6);
    assert_int_equal(n_filter_files("b"), 1);
    struct tamis_store *b = store_open("b");
    assert_int_equal(reason_of(b, "a", 99999), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(b, "x", 99999), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(b, "y", 99999), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(b, "g", 99999), TAMIS_NO_FILTER);
    assert_int_equal(record_in(b, "x").rank, 9);
    assert_int_equal(record_in(b, "x").binding[0], 'X');
    check_agw_bare(b);
    tamis_store_close(b);
    check_settled("b");
    remove_both(s);
}

/* ---- what this version does not know ---- */

static uint8_t strange_record[RECORD_MAX_BYTES];
static size_t strange_bytes;

static void strange(uint8_t *bytes, size_t n, size_t feature_at, size_t unused_at,
                    uint64_t seed)
{
    bytes[feature_at + 5] |= 1;
    bytes[unused_at] = 7;
    checksum_set(bytes, n, seed);
}

/* A meta record with a bit of the word at this offset, and a byte that it speaks of. */
static int make_strange_meta(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    const uint8_t *value;
    uint8_t bytes[META_BYTES];
    size_t n;
    OK(catalog_meta_value(t, &value, &n, diag));
    assert_int_equal(n, META_BYTES);
    memcpy(bytes, value, n);
    strange(bytes, n, *(const size_t *)ctx, offsetof(struct meta_disk, unused_b), 0);
    return catalog_set_meta_value(t, bytes, n, diag);
}

static int make_strange(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    size_t compat_at = offsetof(struct meta_disk, compat);
    const uint8_t *value;
    (void)ctx;
    OK(make_strange_meta(t, &compat_at, diag));
    OK(catalog_get(t, "a", 1, &value, &strange_bytes, diag));
    memcpy(strange_record, value, strange_bytes);
    strange(strange_record, strange_bytes, offsetof(struct record_disk, ro_compat),
            offsetof(struct record_disk, list_uuid), XXH3_64bits("a", 1));
    return catalog_replace(t, "a", 1, strange_record, strange_bytes, diag);
}

static int look_strange(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    const uint8_t *value;
    struct meta m;
    size_t n;
    (void)ctx;
    OK(catalog_meta_value(t, &value, &n, diag));
    assert_true(value[offsetof(struct meta_disk, unused_b)] == 0);
    OK(catalog_meta(t, &m, diag));
    assert_true(m.compat == 0);
    OK(catalog_get(t, "a", 1, &value, &n, diag));
    assert_int_equal(n, strange_bytes);
    assert_memory_equal(value, strange_record, n);
    return 0;
}

/* Bits of a record that say what no writer may drop go with their bytes. Should the
 * file be lost, the record still says so. Those of the store that may be ignored are
 * left behind, with their bytes. */
static void records_that_are_not_known_are_copied_as_they_are(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct tamis_store *s = store_agw_bare("s");
        OK(catalog_write(s->catalog, make_strange, NULL, NULL, NULL));
        if (lost)
            OK(unlink(file_of(s, "s", "a")));
        backup(s, "b");
        assert_int_equal(backed_up.n_left, lost);
        struct tamis_store *b = store_open("b");
        OK(catalog_read(b->catalog, look_strange, NULL, NULL));
        check_agw_bare(b);
        assert_int_equal(reason_of(b, "a", 50), lost ? TAMIS_FILE_LOST : TAMIS_HIT);
        tamis_store_close(b);
        remove_both(s);
    }
}

/* It may mean another database, which a copy would lack. */
static void a_feature_of_the_store_is_not_copied_by_halves(void **state)
{
    size_t at = offsetof(struct meta_disk, ro_compat);
    struct tamis_diag diag;
    (void)state;
    for (int opened_later = 0; opened_later < 2; opened_later++) {
        struct tamis_store *s = store_agw_bare("s");
        OK(catalog_write(s->catalog, make_strange_meta, &at, NULL, NULL));
        if (opened_later) {
            tamis_store_close(s);
            s = store_open("s");
            assert_true(s->catalog->read_only);
        }
        assert_int_equal(tamis_store_backup(s, path_of("b"), NULL, NULL, NULL, &diag),
                         TAMIS_ERR_VERSION);
        assert_non_null(strstr(diag.what, "feature"));
        assert_false(exists(path_of("b")));
        tamis_store_close(s);
        remove_tree("s");
    }
}

/* ---- failures ---- */

static ino_t synced[100];
static size_t n_synced;

static int noting_fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(n_synced < 100);
    synced[n_synced++] = st.st_ino;
    return 0;
}

static int is_synced(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)flag, (void)ftw;
    if (strstr(path, "catalog.lmdb"))
        return 0; /* LMDB does that itself */
    for (size_t i = 0; i < n_synced; i++)
        if (synced[i] == st->st_ino)
            return 0;
    fail_msg("%s has its name, and was not synced", path);
    return 1;
}

static int checking_rename(int from_dir, const char *from, int to_dir, const char *to,
                           unsigned flags)
{
    if (strcmp(to, "b") == 0)
        assert_int_equal(nftw(path_of(from), is_synced, 16, FTW_PHYS), 0);
    int rc = calls_before.renameat2(from_dir, from, to_dir, to, flags);
    n_synced = strcmp(to, "b") == 0 ? 0 : n_synced;
    return rc;
}

static void all_is_synced_before_it_has_its_name(void **state)
{
    struct stat st;
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    calls_before = io_calls;
    io_calls.fsync = noting_fsync;
    io_calls.renameat2 = checking_rename;
    backup(s, "b");
    io_calls = calls_before;
    assert_int_equal(stat(test_dir, &st), 0);
    assert_true(n_synced == 1 && synced[0] == st.st_ino); /* and the name, at last */
    remove_both(s);
}

static size_t names_in_test_dir(void)
{
    return count_files(test_dir);
}

static void a_backup_that_fails_leaves_nothing(void **state)
{
    static const int errors[] = {ENOSPC, EIO};
    (void)state;
    fail_never();
    struct tamis_store *s = store_agw_bare("s");
    uint64_t before = tree_of("s");
    size_t n_failed = 0, n_names = names_in_test_dir();
    for (enum call call = CALL_PWRITE; call < N_CALLS; call++) {
        for (unsigned long nth = 1;; nth++) {
            struct tamis_diag diag = {0};
            fail_once(call, nth, errors[nth % 2]);
            int rc = backup_code(s, "b", &diag);
            bool reached = faults[call].n >= nth;
            fail_never();
            if (!reached) {
                OK(rc);
                remove_tree("b");
                break;
            }
            assert_int_not_equal(rc, 0);
            assert_true(diag.what[0] != 0);
            assert_null(strstr(diag.file, ".tmp")); /* the caller's name instead */
            assert_int_equal(names_in_test_dir(), n_names);
            n_failed++;
        }
    }
    assert_true(tree_of("s") == before);
    assert_true(n_failed > 15);
    backup(s, "b"); /* and the next one succeeds */
    remove_both(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_copy_of_a_quiet_store_is_the_same),
        cmocka_unit_test(growing_filters_have_their_space),
        cmocka_unit_test(holes_stay_holes),
        cmocka_unit_test(what_serves_nobody_is_left_out),
        cmocka_unit_test(records_that_are_not_known_are_copied_as_they_are),
        cmocka_unit_test(a_feature_of_the_store_is_not_copied_by_halves),
        cmocka_unit_test(all_is_synced_before_it_has_its_name),
        TEST_WITH_FAULTS(a_backup_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
