/* Stores made by hand to hurt: things in the place of the catalog, its lock file, the
 * directory of filters and what is in it; records with good checksums that say what no
 * writer says; names that look like paths. */
#include "tests/unit/store_catalog/hostile_store.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "format/checksum.h"

/* ---- things in the place of other things ---- */

enum thing { FIFO, DIRECTORY, SOCKET, LINK, N_THINGS };

static void put_thing(enum thing what, const char *at, const char *target)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int s;
    switch (what) {
    case FIFO:
        OK(mkfifo(at, 0666));
        break;
    case DIRECTORY:
        OK(mkdir(at, 0777));
        break;
    case SOCKET:
        s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(strlen(at) < sizeof address.sun_path);
        memcpy(address.sun_path, at, strlen(at) + 1);
        OK(bind(s, (struct sockaddr *)(void *)&address, sizeof address));
        close(s);
        break;
    case LINK:
    case N_THINGS:
        OK(symlink(target, at));
        break;
    }
}

static void in_place_of_the_catalog(void **state)
{
    (void)state;
    alarm(60); /* nothing here may wait for a FIFO's other end */
    for (enum thing what = 0; what < N_THINGS; what++) {
        const char *store = fresh_store();
        OK(rename(in_store(store, "catalog.lmdb"), in_store(store, "real")));
        put_thing(what, in_store(store, "catalog.lmdb"), "real");
        expect_store(store, TAMIS_ERR_NOT_TAMIS, "catalog.lmdb is not a regular file");
    }
    alarm(0);
}

/* LMDB would follow a link, and write to what it finds there. */
static void in_place_of_the_lock_file(void **state)
{
    size_t n;
    (void)state;
    alarm(60);
    file_write(path_of("victim"), "precious", 8);
    for (enum thing what = 0; what < N_THINGS; what++) {
        const char *store = fresh_store();
        unlink(in_store(store, "catalog.lmdb-lock"));
        put_thing(what, in_store(store, "catalog.lmdb-lock"), path_of("victim"));
        expect_store(store, TAMIS_ERR_NOT_TAMIS,
                     "catalog.lmdb-lock is not a regular file");
    }
    uint8_t *bytes = file_read(path_of("victim"), &n);
    assert_true(n == 8 && memcmp(bytes, "precious", 8) == 0);
    free(bytes);
    alarm(0);
}

static void in_place_of_the_filters(void **state)
{
    (void)state;
    for (enum thing what = 0; what < N_THINGS; what++) {
        if (what == DIRECTORY)
            continue; /* an empty one: its filters are lost */
        const char *store = fresh_store();
        OK(rename(in_store(store, "filters"), in_store(store, "elsewhere")));
        put_thing(what, in_store(store, "filters"), "elsewhere");
        expect_store(store, TAMIS_ERR_DAMAGED, "filters/ is no directory");
    }
}

/* In place of a filter: every answer MAYBE, and a message that says what is there. */
static void in_place_of_a_filter(void **state)
{
    static const char *const words[] = {"not a regular file", "directory",
                                        "not a regular file", "symbolic link"};
    (void)state;
    alarm(60);
    for (enum thing what = 0; what < N_THINGS; what++) {
        for (const char *name = "a"; name; name = *name == 'a' ? "b" : NULL) {
            const char *store = fresh_store();
            struct tamis_store *s = store_open(store);
            struct tamis_filter *f;
            struct tamis_writer *w;
            struct tamis_diag diag;
            const char *file = file_of(s, store, name);
            OK(rename(file, path_of("moved")));
            put_thing(what, file, path_of("moved"));
            assert_int_equal(reason_of_hash(s, name, 7), TAMIS_UNREADABLE);
            struct tamis_snapshot *snap = snapshot_of(s);
            assert_int_not_equal(tamis_snapshot_filter(snap, *name == 'b', &f, &diag),
                                 0);
            assert_string_equal(diag.file, file);
            if (!strstr(diag.what, words[what]))
                fail_msg("'%s' does not say '%s'", diag.what, words[what]);
            tamis_snapshot_release(snap);
            assert_int_equal(tamis_store_writer(s, "b", 1, &w, &diag) == 0,
                             *name == 'a');
            tamis_writer_close(w);
            tamis_store_close(s);
        }
    }
    alarm(0);
}

/* A hard link is the file, under however many names: a backup made of links shares
 * what its writer adds. */
static void hard_links_are_the_file(void **state)
{
    (void)state;
    const char *store = fresh_store();
    struct tamis_store *s = store_open(store);
    struct tamis_writer *w;
    OK(link(file_of(s, store, "a"), path_of("link-a")));
    OK(link(file_of(s, store, "b"), path_of("link-b")));
    assert_int_equal(reason_of_hash(s, "a", 7), TAMIS_HIT);
    assert_int_equal(reason_of_hash(s, "a", 700), ABSENT_HERE);
    OK(tamis_store_writer(s, "b", 1, &w, NULL));
    OK(tamis_writer_add_key(w, "k", 1));
    OK(tamis_writer_close(w));
    drop_segment(s, "a");
    struct tamis_filter *f = open_filter(path_of("link-a"));
    assert_int_equal(ask(f, key_in(s, 7).hash, NULL), TAMIS_MAYBE);
    tamis_filter_close(f);
    tamis_store_close(s);
}

/* ---- names ---- */

/* Names are bytes in the catalog and nothing else: no file is ever called so. */
static void names_like_paths_stay_names(void **state)
{
    static const char *const names[] = {
        "../x",     "/etc/passwd", ".",    "..",   "a/b",
        "filters/", "\xff\xfe",    "%s%n", "$(x)", " "};
    enum { N = sizeof names / sizeof names[0] };
    (void)state;
    struct tamis_store *s = store_new("names");
    for (size_t i = 0; i < N; i++)
        put_segment(s, names[i], i * 100, 100);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(reason_of(s, names[i], i * 100 + 50), TAMIS_HIT);
        assert_int_equal(reason_of(s, names[i], i * 100 + 5000), ABSENT_HERE);
    }
    assert_int_equal(n_filter_files("names"), N);
    assert_int_equal(count_files(path_of("names")), 3);
    assert_false(exists(path_of("x")) || exists(path_of("names/x")));
    for (size_t i = 0; i < N; i++)
        drop_segment(s, names[i]);
    assert_int_equal(n_filter_files("names"), 0);
    tamis_store_close(s);
}

/* ---- records ---- */

typedef void hurt_fn(struct record *r);
#define HURT(name, ...)                                                                \
    static void name(struct record *r)                                                 \
    {                                                                                  \
        __VA_ARGS__;                                                                   \
    }
HURT(error_nan, r->target_error = __builtin_nan(""))
HURT(error_2, r->target_error = 2)
HURT(stages_2_32, r->min_stages = UINT32_MAX)
HURT(binding_255, r->binding_bytes = 255)
HURT(range_upside_down, r->first[0] = 'z'; r->last[0] = 'a')
HURT(range_of_a_growing_one, r->state = RECORD_GROWING)
HURT(range_too_long, r->first_bytes = 0xffff)
HURT(no_uuid, memset(r->uuid, 0, UUID_BYTES))
HURT(uuid_of_no_filter, r->state = RECORD_NO_FILTER)
HURT(state_9, r->state = 9)
HURT(feature, r->incompat = 1)
HURT(other_uuid, r->uuid[0] ^= 1)
HURT(sequence_ahead, r->min_sequence = UINT64_MAX)
HURT(stages_ahead, r->min_stages = 30)
HURT(digest_other, r->table_digest ^= 1)
HURT(digest_zero, r->table_digest = 0)
HURT(generation_ahead, r->generation = UINT64_MAX)
HURT(watermark_ahead, r->watermark = UINT64_MAX)
HURT(counts, r->keys = r->file_bytes = UINT64_MAX)

/* The record of "a", changed and sealed anew, beyond what record_encode() takes. */
static void hurt_record(const char *store, hurt_fn *hurt)
{
    struct record r;
    uint8_t value[RECORD_MAX_BYTES];
    struct tamis_store *s = store_open(store);
    struct tamis_snapshot *snap = snapshot_of(s);
    const struct entry *e = snap->entries[0];
    size_t n = e->value_bytes;
    assert_int_equal(record_decode(e->bytes + e->name_bytes, n, "a", 1, &r).code,
                     VERDICT_OK);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    hurt(&r);
    uint8_t binding_bytes = r.binding_bytes;
    uint16_t first_bytes = r.first_bytes;
    r.binding_bytes = binding_bytes > 64 ? 64 : binding_bytes;
    r.first_bytes = first_bytes > 1024 ? 11 : first_bytes;
    n = record_encode(&r, "a", 1, value);
    value[3] = binding_bytes;
    value[4] = (uint8_t)first_bytes, value[5] = (uint8_t)(first_bytes >> 8);
    checksum_set(value, n, XXH3_64bits("a", 1));
    poke_catalog(store, "segments", "a", value, n);
}

static void hostile_records_are_maybe(void **state)
{
    static const struct {
        const char *name;
        hurt_fn *hurt;
        enum tamis_reason why;
        const char *words;
    } cases[] = {
#define CASE(fn, why, words) {#fn, fn, TAMIS_##why, words}
        CASE(error_nan, UNREADABLE, "damaged"),
        CASE(error_2, UNREADABLE, "damaged"),
        CASE(stages_2_32, UNREADABLE, "damaged"),
        CASE(binding_255, UNREADABLE, "damaged"),
        CASE(range_upside_down, UNREADABLE, "damaged"),
        CASE(range_of_a_growing_one, UNREADABLE, "damaged"),
        CASE(range_too_long, UNREADABLE, "damaged"),
        CASE(no_uuid, UNREADABLE, "damaged"),
        CASE(uuid_of_no_filter, UNREADABLE, "damaged"),
        CASE(state_9, UNREADABLE, "damaged"),
        CASE(feature, UNREADABLE, "newer tamis"),
        CASE(other_uuid, FILE_LOST, "No such file"),
        CASE(sequence_ahead, MISMATCH, "older copy"),
        CASE(stages_ahead, MISMATCH, "older copy"),
        CASE(generation_ahead, MISMATCH, "older copy"),
        CASE(watermark_ahead, MISMATCH, "older copy"),
        CASE(digest_other, MISMATCH, "another version"),
        CASE(digest_zero, MISMATCH, "another version"),
        CASE(counts, HIT, ""),
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *store = fresh_store();
        hurt_record(store, cases[i].hurt);
        struct tamis_store *s = store_open(store);
        struct tamis_snapshot *snap = snapshot_of(s);
        struct tamis_filter *f;
        struct tamis_diag diag;
        if (reason_of(s, "a", 7) != cases[i].why ||
            reason_of_hash(s, "a", 7) != cases[i].why)
            fail_msg("%s: %s", cases[i].name,
                     tamis_reason_name(reason_of_hash(s, "a", 7)));
        tamis_snapshot_find(snap, "a", 1, NULL, 0, 0, &(struct tamis_target){0});
        /* By rank, then name; an unreadable one comes last. */
        size_t at = snap->entries[0]->bytes[0] == 'a' ? 0 : 1;
        int rc = tamis_snapshot_filter(snap, at, &f, &diag);
        assert_int_equal(rc == 0, cases[i].why == TAMIS_HIT);
        if (rc && !strstr(diag.what, cases[i].words))
            fail_msg("%s: '%s' does not say '%s'", cases[i].name, diag.what,
                     cases[i].words);
        tamis_snapshot_release(snap);
        /* Nothing of it is in the way of an edit. */
        drop_segment(s, "a");
        put_segment(s, "a", 0, 10);
        OK(tamis_store_confirm_complete(s, NULL));
        assert_int_equal(reason_of(s, "a", 7), TAMIS_HIT);
        tamis_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place_of_the_catalog),
        cmocka_unit_test(in_place_of_the_lock_file),
        cmocka_unit_test(in_place_of_the_filters),
        cmocka_unit_test(in_place_of_a_filter),
        cmocka_unit_test(hard_links_are_the_file),
        cmocka_unit_test(names_like_paths_stay_names),
        cmocka_unit_test(hostile_records_are_maybe),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
