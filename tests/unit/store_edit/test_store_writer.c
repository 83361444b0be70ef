/* Writers of a store's segments, and the catalog behind them. */
#include "tests/support/store_support.h"

/* Opens a writer of "g" and adds n keys. */
static struct tamis_writer *writer_of_g(struct tamis_store *s, uint64_t first,
                                        uint64_t n)
{
    struct tamis_writer *w;
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_keys(w, first, n);
    return w;
}

static struct tamis_segment_info info_of(struct tamis_store *s, const char *name)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_segment_info info;
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    OK(tamis_snapshot_segment(snap, t.slot - 1, &info));
    tamis_snapshot_release(snap);
    return info;
}

static void the_catalog_follows_growth_and_seal(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_g();
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_GROWING);
    uint64_t before = info_of(s, "g").generation;
    struct tamis_writer *w = writer_of_g(s, 0, 1000); /* n0 is 100: several stages */
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(reason_of(s, "g", i), TAMIS_HIT);
    OK(tamis_writer_commit(w, 5, NULL));
    assert_true(info_of(s, "g").generation > before);
    OK(tamis_writer_seal(w, 6, NULL, NULL));
    OK(tamis_writer_close(w));
    struct tamis_segment_info info = info_of(s, "g");
    assert_int_equal(info.state, TAMIS_SEGMENT_SEALED);
    assert_true(info.keys >= 990 && info.keys <= 1000);
    assert_int_equal(info.watermark, 6);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(reason_of(s, "g", i), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 5000), ABSENT_HERE);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), TAMIS_ERR_SEALED);
    assert_null(w);
    tamis_store_close(s);
}

static void writer_says_what_is_wrong(void **state)
{
    struct tamis_writer *w, *x;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(put_keys(e, "sealed", 0, 10, NULL));
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(tamis_store_writer(s, "no", 2, &w, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(tamis_store_writer(s, "", 0, &w, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_store_writer(s, "bare", 4, &w, &diag), TAMIS_ERR_NO_SEGMENT);
    assert_non_null(strstr(diag.what, "without a filter"));
    assert_int_equal(tamis_store_writer(s, "sealed", 6, &w, NULL), TAMIS_ERR_SEALED);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    assert_int_equal(tamis_store_writer(s, "g", 1, &x, &diag), TAMIS_ERR_BUSY);
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    assert_non_null(strstr(diag.what, pid));
    OK(tamis_writer_close(w));
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(unlink(file_of(s, "s", "g")), 0);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, &diag), ENOENT);
    tamis_store_close(s);
}

static void an_older_copy_put_back_is_maybe(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_of_g();
    struct tamis_writer *w = writer_of_g(s, 0, 50);
    OK(tamis_writer_close(w));
    const char *path = file_of(s, "s", "g");
    file_copy(path, path_of("old"));
    w = writer_of_g(s, 50, 300);
    OK(tamis_writer_close(w));
    file_copy(path, path_of("new"));
    assert_int_equal(rename(path_of("old"), path), 0);
    tamis_store_close(s);
    s = store_open("s");
    assert_int_equal(reason_of(s, "g", 5000), TAMIS_MISMATCH);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "older copy"));
    assert_int_equal(rename(path_of("new"), path), 0);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    OK(tamis_writer_seal(w, 0, NULL, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(reason_of(s, "g", 5000), ABSENT_HERE);
    assert_int_equal(reason_of(s, "g", 333), TAMIS_HIT);
    tamis_store_close(s);
}

/* An older copy put back and then recovered by a writer that does not ask the catalog,
 * and so leaps over the sequence that the catalog knows (R3). */
static struct tamis_store *store_with_a_recovered_copy(uint64_t watermark)
{
    struct tamis_store *s = store_of_g();
    const char *path = file_of(s, "s", "g");
    struct tamis_writer *w = writer_of_g(s, 0, 10);
    OK(tamis_writer_commit(w, watermark, NULL));
    file_copy(path, path_of("old"));
    add_keys(w, 10, 10);
    OK(tamis_writer_commit(w, 2 * watermark, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(rename(path_of("old"), path), 0);
    assert_int_equal(reason_of(s, "g", 15), TAMIS_MISMATCH);
    OK(tamis_writer_open(path, &w, NULL));
    OK(tamis_writer_close(w));
    assert_true(commit_of(path).sequence > record_in(s, "g").min_sequence);
    tamis_store_close(s);
    return store_open("s");
}

static void the_watermark_tells_a_copy_that_was_recovered(void **state)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    struct tamis_backup_report backup;
    struct tamis_repair_report repaired;
    (void)state;
    struct tamis_store *s = store_with_a_recovered_copy(1);
    assert_int_equal(reason_of(s, "g", 15), TAMIS_MISMATCH);
    assert_int_equal(reason_of(s, "g", 5), TAMIS_MISMATCH);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "older copy"));
    OK(tamis_store_backup(s, path_of("b"), NULL, NULL, &backup, NULL));
    assert_int_equal(backup.n_left, 1);
    tamis_store_close(s);
    OK(tamis_store_repair(path_of("s"), NULL, &repaired, NULL));
    assert_int_equal(repaired.n_quarantined, 1);
}

/* SPEC 7.3, "put back": where the watermark stays at 0 and nothing has grown, nothing
 * in the file tells. */
static void without_watermarks_a_recovered_copy_passes(void **state)
{
    (void)state;
    struct tamis_store *s = store_with_a_recovered_copy(0);
    assert_int_equal(reason_of(s, "g", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 15), ABSENT_HERE);
    tamis_store_close(s);
}

struct rewrite {
    const char *name;
    const struct record *record;
};

static int rewrite_record(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct rewrite *r = ctx;
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = record_encode(r->record, r->name, strlen(r->name), value);
    return catalog_replace(t, r->name, strlen(r->name), value, n, diag);
}

/* A writer that died after a growth, or a seal, but before the catalog had it. */
static void the_catalog_catches_up_with_a_dead_writer(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_g();
    struct record old = record_in(s, "g");
    struct rewrite r = {"g", &old};
    struct tamis_writer *w = writer_of_g(s, 0, 350);
    OK(tamis_writer_close(w));
    OK(catalog_write(s->catalog, rewrite_record, &r, NULL, NULL));
    assert_int_equal(reason_of(s, "g", 5), TAMIS_HIT);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    assert_true(record_in(s, "g").min_stages > old.min_stages);
    OK(tamis_writer_seal(w, 3, NULL, NULL));
    OK(tamis_writer_close(w));
    OK(catalog_write(s->catalog, rewrite_record, &r, NULL, NULL));
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_GROWING);
    assert_int_equal(reason_of(s, "g", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 5000), ABSENT_HERE);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), TAMIS_ERR_SEALED);
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_SEALED);
    tamis_store_close(s);
}

static char calls[4096];
static struct io_calls real;

static void note(char what)
{
    size_t n = strlen(calls);
    if (n + 1 < sizeof calls && (n == 0 || calls[n - 1] != what || what != 'w'))
        calls[n] = what;
}

static ssize_t noting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    note(n == SLOT_BYTES && offset == 2 * PAGE_BYTES ? 'B' : 'w');
    return real.pwrite(fd, buf, n, offset);
}

static int noting_fdatasync(int fd)
{
    note('s');
    return real.fdatasync(fd);
}

/* The catalog says sealed only when both slots are durable (R2): the whole file is
 * written and synced again, for what a dead writer left may be in the cache only. */
static void a_seal_is_durable_before_the_catalog_says_so(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_of_g();
    OK(tamis_writer_open(file_of(s, "s", "g"), &w, NULL)); /* behind the store's back */
    add_keys(w, 0, 50);
    OK(tamis_writer_seal(w, 3, NULL, NULL));
    OK(tamis_writer_close(w));
    for (int again = 0; again < 2; again++) {
        memset(calls, 0, sizeof calls);
        real = io_calls;
        io_calls.pwrite = noting_pwrite;
        io_calls.fdatasync = noting_fdatasync;
        int rc = tamis_store_writer(s, "g", 1, &w, NULL);
        io_calls = real;
        assert_int_equal(rc, TAMIS_ERR_SEALED);
        assert_string_equal(calls, again ? "" : "wsBs");
        assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_SEALED);
    }
    assert_int_equal(reason_of(s, "g", 49), TAMIS_HIT);
    tamis_store_close(s);
}

static unsigned syncs_to_go;

/* In the place of libc's, which LMDB calls when it commits. */
static bool catalog_fails;

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    struct stat opened, catalog;
    if (!catalog_fails)
        return 0;
    OK(fstat(fd, &opened));
    OK(stat(path_of("s/catalog.lmdb"), &catalog));
    if (opened.st_ino != catalog.st_ino)
        return 0;
    return errno = EIO, -1;
}

static uint64_t noted_sequence(struct tamis_store *s)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    uint64_t n = le64_get(entry_record(snap->entries[0])->min_sequence);
    tamis_snapshot_release(snap);
    return n;
}

/* Bounds that the catalog has not noted guard nothing (R5). */
static void a_catalog_that_cannot_be_told_opens_no_writer(void **state)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_of_g();
    uint64_t noted = noted_sequence(s);
    catalog_fails = true;
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, &diag), EIO);
    catalog_fails = false;
    assert_null(w);
    assert_non_null(strstr(diag.file, "catalog.lmdb"));
    assert_true(noted_sequence(s) == noted);
    OK(tamis_store_writer(s, "g", 1, &w, NULL)); /* the other's lock is gone */
    assert_true(noted_sequence(s) > noted);
    OK(tamis_writer_close(w));
    tamis_store_close(s);
}

static int failing_fdatasync(int fd)
{
    if (syncs_to_go-- == 0) {
        errno = EIO;
        return -1;
    }
    return real.fdatasync(fd);
}

/* A seal that could not be made durable is not told to the catalog. */
static void a_seal_that_is_not_durable_is_not_followed(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_of_g();
    OK(tamis_writer_open(file_of(s, "s", "g"), &w, NULL));
    OK(tamis_writer_seal(w, 3, NULL, NULL));
    OK(tamis_writer_close(w));
    for (unsigned i = 0; i < 2; i++) {
        real = io_calls;
        syncs_to_go = i;
        io_calls.fdatasync = failing_fdatasync;
        assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), EIO);
        io_calls = real;
        assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_GROWING);
    }
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), TAMIS_ERR_SEALED);
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_SEALED);
    tamis_store_close(s);
}

static void a_segment_with_a_writer_is_not_dropped(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_of_g();
    struct tamis_writer *w = writer_of_g(s, 0, 50);
    for (int retain = 0; retain < 2; retain++) {
        struct tamis_edit *e = edit_new(s);
        OK(retain ? tamis_edit_retain(e, NULL, 0, NULL)
                  : tamis_edit_drop(e, "g", 1, NULL));
        OK(put_keys(e, retain ? "h" : "g", 1000, 10, NULL));
        assert_int_equal(tamis_edit_commit(e, &diag), TAMIS_ERR_BUSY);
        assert_non_null(strstr(diag.what, "process"));
        assert_int_equal(n_filter_files("s"), 1); /* what the edit wrote is gone */
    }
    add_keys(w, 50, 400); /* grows */
    OK(tamis_writer_commit(w, 7, NULL));
    assert_int_equal(reason_of(s, "g", 449), TAMIS_HIT);
    OK(tamis_writer_close(w));
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "g", 1, NULL));
    OK(put_keys(e, "g", 1000, 10, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(info_of(s, "g").keys, 10);
    assert_int_equal(reason_of(s, "g", 1005), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 5), ABSENT_HERE);
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
}

/* A writer outlives the handle that it was opened with. */
static void a_store_closed_too_early_is_harmless(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_of_g();
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    tamis_store_close(s);
    add_keys(w, 0, 400);
    OK(tamis_writer_seal(w, 9, NULL, NULL));
    OK(tamis_writer_close(w));
    s = store_open("s");
    assert_int_equal(reason_of(s, "g", 399), TAMIS_HIT);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_catalog_follows_growth_and_seal),
        TEST(writer_says_what_is_wrong),
        TEST(an_older_copy_put_back_is_maybe),
        TEST(the_watermark_tells_a_copy_that_was_recovered),
        TEST(without_watermarks_a_recovered_copy_passes),
        TEST(the_catalog_catches_up_with_a_dead_writer),
        TEST(a_seal_is_durable_before_the_catalog_says_so),
        TEST(a_seal_that_is_not_durable_is_not_followed),
        TEST(a_catalog_that_cannot_be_told_opens_no_writer),
        TEST(a_segment_with_a_writer_is_not_dropped),
        TEST(a_store_closed_too_early_is_harmless),
    };
    return cmocka_run_group_tests_name("store_writer", tests, NULL, NULL);
}
