/* Files and records that are not what they should be: MAYBE. */
#include "tests/support/store_support.h"
#include "format/checksum.h"

#include <sys/mman.h>

static void wrong_files_are_maybe(void **state)
{
    size_t n;
    (void)state;
    struct tamis_store *s = store_new("s");
    for (uint64_t i = 0; i < 5; i++)
        put_segment(s, (char[]){(char)('a' + i), 0}, i * 10, 10);
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    rename(a, path_of("tmp")); /* exchange a and b */
    rename(b, a);
    rename(path_of("tmp"), b);
    assert_int_equal(unlink(file_of(s, "s", "c")), 0);
    uint8_t *bytes = file_read(file_of(s, "s", "d"), &n);
    file_poke(file_of(s, "s", "d"), 100, "\xff\xff", 2);
    assert_int_equal(truncate(file_of(s, "s", "e"), 4096), 0);
    assert_int_equal(reason_of_hash(s, "a", 500), TAMIS_MISMATCH);
    assert_int_equal(reason_of_hash(s, "b", 500), TAMIS_MISMATCH);
    assert_int_equal(reason_of_hash(s, "c", 500), TAMIS_FILE_LOST);
    assert_int_equal(reason_of_hash(s, "d", 500), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "e", 500), TAMIS_UNREADABLE);
    file_write(file_of(s, "s", "d"), bytes, n); /* remembered, for this snapshot */
    assert_int_equal(reason_of_hash(s, "d", 500), TAMIS_UNREADABLE);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_diag diag;
    struct tamis_filter *f;
    assert_int_equal(tamis_snapshot_filter(snap, 2, &f, &diag), ENOENT);
    assert_non_null(strstr(diag.file, ".tamis"));
    OK(tamis_snapshot_filter(snap, 3, &f, &diag)); /* asking by name looks again */
    tamis_snapshot_release(snap);
    assert_int_equal(reason_of_hash(s, "d", 500), ABSENT_HERE);
    free(bytes);
    tamis_store_close(s);
}

/* Two empty growing filters differ in nothing but their UUIDs and names. */
static void exchanged_growing_files_are_maybe(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "a");
    put_growing(s, "b");
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    OK(rename(a, path_of("tmp")));
    OK(rename(b, a));
    OK(rename(path_of("tmp"), b));
    assert_int_equal(reason_of(s, "a", 5), TAMIS_MISMATCH);
    assert_int_equal(reason_of(s, "b", 5), TAMIS_MISMATCH);
    assert_int_equal(tamis_store_writer(s, "a", 1, &w, NULL), TAMIS_ERR_MISMATCH);
    assert_null(w);
    tamis_store_close(s);
}

static void other_files_under_the_name_are_maybe(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    put_segment(s, "c", 20, 10);
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    assert_int_equal(unlink(a), 0);
    assert_int_equal(mkdir(a, 0777), 0);
    assert_int_equal(rename(b, path_of("b")), 0);
    assert_int_equal(symlink(path_of("b"), b), 0);
    const char *c = file_of(s, "s", "c");
    assert_int_equal(unlink(c), 0);
    assert_int_equal(mkfifo(c, 0666), 0);
    assert_int_equal(reason_of_hash(s, "a", 5), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "b", 15), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "c", 25), TAMIS_UNREADABLE);
    tamis_store_close(s);
}

static void unreadable_records_stay_listed(void **state)
{
    struct tamis_segment_info info;
    struct tamis_target t;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    tamis_store_close(s);
    poke_catalog("s", "segments", "a", "rubbish", 7);
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = key_in(s, 999);
    enum tamis_reason why;
    assert_int_equal(tamis_snapshot_n_segments(snap), 2);
    assert_int_equal(tamis_snapshot_find(snap, "a", 1, "b", 1, 0, &t),
                     TAMIS_ERR_DAMAGED);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_UNREADABLE);
    uint64_t absent;
    assert_int_equal(tamis_snapshot_probe_all(snap, &key, &absent, NULL), TAMIS_MAYBE);
    assert_int_equal(absent, 1);
    OK(tamis_snapshot_segment(snap, 1, &info));
    assert_true(info.name[0] == 'a' && info.state == 0 && info.binding == NULL);
    tamis_snapshot_release(snap);
    struct tamis_writer *w;
    assert_int_equal(tamis_store_writer(s, "a", 1, &w, NULL), TAMIS_ERR_DAMAGED);
    tamis_store_close(s);
}

/* A record moved under another name must not lend its filter to it. */
static void a_record_belongs_to_its_name(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    struct tamis_snapshot *snap = snapshot_of(s);
    const struct entry *e = snap->entries[0];
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = e->value_bytes;
    memcpy(value, e->bytes + e->name_bytes, n);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    poke_catalog("s", "segments", "b", value, n);
    s = store_open("s");
    assert_int_equal(reason_of_hash(s, "b", 999), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "a", 999), ABSENT_HERE);
    tamis_store_close(s);
}

static bool list_complete(struct tamis_store *s)
{
    struct tamis_store_info info;
    OK(tamis_store_info(s, &info, NULL));
    return info.complete;
}

/* A store of "a" and of "b", whose record came to stand under the name "c". */
static struct tamis_store *misnamed_record(const char *store)
{
    uint8_t value[RECORD_MAX_BYTES];
    struct tamis_store *s = store_new(store);
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    struct tamis_snapshot *snap = snapshot_of(s);
    const struct entry *e = snap->entries[1];
    size_t n = e->value_bytes;
    memcpy(value, e->bytes + e->name_bytes, n);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    poke_catalog(store, "segments", "b", NULL, 0);
    poke_catalog(store, "segments", "c", value, n);
    return store_open(store);
}

/* Key 15 is in "b", of which the list knows nothing. */
static void assert_doubted(struct tamis_store *s, const char *store)
{
    struct tamis_key key = key_in(s, 15);
    struct tamis_snapshot *snap = snapshot_of(s);
    uint64_t absent;
    assert_int_equal(tamis_snapshot_n_segments(snap), 1);
    assert_int_equal(tamis_snapshot_probe_all(snap, &key, &absent, NULL), TAMIS_MAYBE);
    assert_int_equal(absent, 0);
    tamis_snapshot_release(snap);
    assert_false(list_complete(s));
    tamis_store_close(s);
    s = store_open(store);
    assert_false(list_complete(s));
    OK(tamis_store_confirm_complete(s, NULL));
    assert_true(list_complete(s));
    tamis_store_close(s);
}

static void dropped_unreadable_records_leave_the_list_doubtful(void **state)
{
    static const struct tamis_name live[] = {{"a", 1}, {"b", 1}};
    (void)state;
    struct tamis_store *s = misnamed_record("x");
    drop_segment(s, "c");
    assert_doubted(s, "x");
    s = misnamed_record("y");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_retain(e, live, 2, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_doubted(s, "y");
    s = misnamed_record("z");
    e = edit_new(s);
    OK(tamis_edit_drop(e, "c", 1, NULL));
    tamis_edit_abort(e);
    drop_segment(s, "a");
    assert_true(list_complete(s)); /* it is still listed, as it is */
    tamis_store_close(s);
}

/* A newer version's record has a checksum, so its name is right. */
/* A bit of a newer version's that may be ignored, and a byte that it speaks of. */
static int mark_meta(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    const uint8_t *value;
    uint8_t bytes[META_BYTES];
    size_t n;
    (void)ctx;
    OK(catalog_meta_value(t, &value, &n, diag));
    memcpy(bytes, value, n);
    bytes[offsetof(struct meta_disk, compat)] |= 32;
    bytes[offsetof(struct meta_disk, unused_b)] = 77;
    checksum_set(bytes, n, 0);
    return catalog_set_meta_value(t, bytes, n, diag);
}

static void a_list_that_is_doubted_keeps_no_unknown_bits(void **state)
{
    (void)state;
    struct tamis_store *s = misnamed_record("x");
    OK(catalog_write(s->catalog, mark_meta, NULL, NULL, NULL));
    tamis_store_close(s);
    OK(tamis_store_repair(path_of("x"), NULL, NULL, NULL));
    struct meta m = meta_in("x");
    assert_int_equal(m.complete, 0);
    assert_true(m.compat == 0);
}

static void dropped_newer_records_leave_the_list_complete(void **state)
{
    struct record r = {.state = RECORD_NO_FILTER, .incompat = UINT64_C(1) << 60};
    uint8_t value[RECORD_MAX_BYTES];
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    poke_catalog("s", "segments", "n", value, record_encode(&r, "n", 1, value));
    s = store_open("s");
    assert_int_equal(reason_of(s, "n", 5), TAMIS_UNREADABLE);
    drop_segment(s, "n");
    assert_true(list_complete(s));
    assert_int_equal(reason_of(s, "n", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static int mmap_errno;

static void *fail_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)n, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = mmap_errno;
    return MAP_FAILED;
}

static void transient_failures_are_not_remembered(void **state)
{
    static const int code[] = {ENOMEM, EAGAIN, EMFILE, ENFILE};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    assert_int_equal(reason_of_hash(s, "b", 999), ABSENT_HERE);
    struct io_calls saved = io_calls;
    io_calls.mmap = fail_mmap;
    for (size_t i = 0; i < 4; i++) {
        mmap_errno = code[i];
        assert_int_equal(reason_of_hash(s, "a", 999), TAMIS_UNREADABLE);
        assert_int_equal(reason_of_hash(s, "b", 999), ABSENT_HERE); /* mapped */
    }
    io_calls = saved;
    assert_int_equal(reason_of_hash(s, "a", 999), ABSENT_HERE);
    assert_int_equal(reason_of_hash(s, "a", 5), TAMIS_HIT);
    tamis_store_close(s);
}

/* A good file of the right UUID, and yet not the one that the catalog has sealed. */
static void another_table_under_the_uuid_is_maybe(void **state)
{
    size_t n;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    uint8_t *bytes = file_read(file_of(s, "s", "a"), &n);
    bytes[IDENTITY_BYTES + STAGES_OFFSET + offsetof(struct stage_disk, capacity)] ^= 1;
    struct le64 sum = le64_of(XXH3_64bits(bytes + IDENTITY_BYTES, BIRTH_BYTES - 8));
    memcpy(bytes + PAGE_BYTES - 8, &sum, sizeof sum);
    file_write(file_of(s, "s", "a"), bytes, n);
    free(bytes);
    assert_int_equal(reason_of_hash(s, "a", 5), TAMIS_MISMATCH);
    assert_int_equal(reason_of_hash(s, "a", 500), TAMIS_MISMATCH);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_files_are_maybe),
        TEST(exchanged_growing_files_are_maybe),
        TEST(other_files_under_the_name_are_maybe),
        TEST(unreadable_records_stay_listed),
        TEST(a_record_belongs_to_its_name),
        TEST(dropped_unreadable_records_leave_the_list_doubtful),
        TEST(a_list_that_is_doubted_keeps_no_unknown_bits),
        TEST(dropped_newer_records_leave_the_list_complete),
        TEST(transient_failures_are_not_remembered),
        TEST(another_table_under_the_uuid_is_maybe),
    };
    return cmocka_run_group_tests_name("store_damage", tests, NULL, NULL);
}
