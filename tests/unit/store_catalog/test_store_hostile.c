/* Stores made by hand to hurt: things in the place of the catalog, its lock file, the
 * directory of filters and what is in it; records with good checksums that say what no
 * writer says; names that look like paths; a catalog that leads back into itself. */
#include "tests/support/store_support.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "format/checksum.h"

/* One store of a sealed segment "a" (keys 0..99) and a growing one "b", closed. */
static const char *fresh_store(void)
{
    static char name[16];
    static unsigned n;
    snprintf(name, sizeof name, "s%u", n++);
    struct tamis_store *s = store_new(name);
    put_segment(s, "a", 0, 100);
    put_growing(s, "b");
    tamis_store_close(s);
    return name;
}

static const char *in_store(const char *store, const char *file)
{
    char both[200];
    snprintf(both, sizeof both, "%s/%s", store, file);
    return path_of(both);
}

static void expect_store(const char *store, int code, const char *words)
{
    struct tamis_store *s;
    struct tamis_diag diag;
    int rc = tamis_store_open(path_of(store), &s, &diag);
    if (rc != code || s || !strstr(diag.what, words) || !strstr(diag.file, store))
        fail_msg("%d, not %d: '%s' (%s) does not say '%s'", rc, code, diag.what,
                 diag.file, words);
}

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

/* ---- a catalog's pages ---- */

/* A file cut short is walked before LMDB may map it. Here page 2 is a branch with 1900
 * children, each of them page 2. */
static void pages_that_lead_back_end(void **state)
{
    size_t n;
    (void)state;
    const char *store = fresh_store();
    uint8_t *bytes = file_read(in_store(store, "catalog.lmdb"), &n);
    uint64_t root = 2, last = 1000000;
    uint16_t branch = 1, lower = 16 + 2 * 1900, at = 4080;
    assert_true(n >= 3 * 4096);
    for (uint64_t meta = 0; meta < 2; meta++) {
        uint64_t txn = 1000 + meta;
        uint8_t *m = bytes + meta * 4096 + 16; /* after the page's head */
        memcpy(m + 24 + 40, &root, 8);         /* of the free pages */
        memcpy(m + 24 + 48 + 40, &root, 8);    /* of the databases */
        memcpy(m + 24 + 96, &last, 8);
        memcpy(m + 24 + 104, &txn, 8);
    }
    uint8_t *page = bytes + 2 * 4096;
    memset(page, 0, 4096);
    memcpy(page, &root, 8);
    memcpy(page + 10, &branch, 2);
    memcpy(page + 12, &lower, 2);
    for (size_t i = 16; i < lower; i += 2)
        memcpy(page + i, &at, 2);
    memcpy(page + at, &root, 2); /* a node: the child's number first */
    file_write(in_store(store, "catalog.lmdb"), bytes, n);
    free(bytes);
    alarm(60);
    expect_store(store, TAMIS_ERR_DAMAGED, "cut short");
    alarm(0);
}

/* ---- one bit of a catalog ---- */

/* No crash, no key ABSENT that is there, no filter of the list removed. False if the
 * damage was seen at once. */
static bool check_flipped(const char *store, const char *filter)
{
    struct tamis_store *s;
    struct tamis_edit *e;
    if (tamis_store_open(path_of(store), &s, NULL) != 0)
        return false;
    assert_int_not_equal(reason_of(s, "a", 7), ABSENT_HERE);
    if (tamis_edit_begin(s, &e, NULL) == 0) {
        if (tamis_edit_drop(e, "b", 1, NULL) != 0)
            tamis_edit_abort(e);
        else if (tamis_edit_commit(e, NULL) != 0) /* frees it all the same */
            assert_int_equal(access(filter, F_OK), 0);
    }
    assert_int_not_equal(reason_of(s, "a", 7), ABSENT_HERE);
    tamis_store_close(s);
    assert_int_equal(access(filter, F_OK), 0);
    return true;
}

/* Of the pages' heads, and of what is not zero behind them, some bits; the free list
 * has pages by then. */
static void a_flipped_bit_loses_no_key(void **state)
{
    (void)state;
    size_t n, n_seen = 0, n_flipped = 0;
    const char *store = fresh_store();
    struct tamis_store *s = store_open(store);
    put_segment(s, "c", 0, 10);
    drop_segment(s, "c");
    char filter[900];
    snprintf(filter, sizeof filter, "%s", file_of(s, store, "a"));
    tamis_store_close(s);
    uint8_t *bytes = file_read(in_store(store, "catalog.lmdb"), &n);
    for (size_t i = 0; i < n; i++) {
        if (i % 4096 >= 24 && !bytes[i])
            continue;
        uint8_t bit = (uint8_t)(1 << (i * 5 % 8));
        bytes[i] ^= bit;
        file_write(in_store(store, "catalog.lmdb"), bytes, n);
        bytes[i] ^= bit;
        n_seen += !check_flipped(store, filter);
        n_flipped++;
    }
    free(bytes);
    assert_true(n_flipped > 300);
    assert_true(n_seen > n_flipped / 8);
}

/* ---- damage while a store is open ---- */

static void poke(const char *store, size_t at, const void *bytes, size_t n)
{
    int fd = open(in_store(store, "catalog.lmdb"), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
    close(fd);
}

/* The newest meta page's bytes, from its trees on: [0] of free pages, [48] of
 * databases. */
static const uint8_t *newest_trees(const uint8_t *bytes)
{
    const uint8_t *a = bytes + 40, *b = bytes + 4096 + 40;
    uint64_t ta, tb;
    memcpy(&ta, a + 104, 8);
    memcpy(&tb, b + 104, 8);
    return ta > tb ? a : b;
}

/* A free page that becomes one in use: no transaction may begin to write. */
static void a_free_page_in_use_is_not_written(void **state)
{
    (void)state;
    const char *store = fresh_store();
    struct tamis_store *s = store_open(store);
    put_segment(s, "c", 0, 10);
    size_t n;
    uint8_t *bytes = file_read(in_store(store, "catalog.lmdb"), &n);
    const uint8_t *trees = newest_trees(bytes);
    uint64_t free_root, used;
    uint16_t node, key;
    memcpy(&free_root, trees + 40, 8);
    memcpy(&used, trees + 48 + 40, 8);
    memcpy(&node, bytes + free_root * 4096 + 16, 2);
    memcpy(&key, bytes + free_root * 4096 + node + 6, 2);
    size_t at = (size_t)free_root * 4096 + node + 8 + key;
    uint64_t one[2] = {1, used};
    poke(store, at, one, sizeof one);
    assert_int_equal(tamis_store_confirm_complete(s, NULL), TAMIS_ERR_DAMAGED);
    tamis_store_close(s);
    expect_store(store, TAMIS_ERR_DAMAGED, "makes no sense");
    free(bytes);
}

/* The root counts one more than there are: one has gone. */
static void a_tree_that_lost_an_entry_is_damage(void **state)
{
    (void)state;
    const char *store = fresh_store();
    size_t n;
    uint8_t *bytes = file_read(in_store(store, "catalog.lmdb"), &n);
    const uint8_t *entries = newest_trees(bytes) + 48 + 32;
    uint64_t more;
    memcpy(&more, entries, 8);
    more++;
    poke(store, (size_t)(entries - bytes), &more, 8);
    expect_store(store, TAMIS_ERR_DAMAGED, "makes no sense");
    free(bytes);
}

/* The last key of a leaf is cut off while the store is open: its segment is not absent.
 */
static void a_list_that_is_short_is_no_list(void **state)
{
    (void)state;
    const char *store = fresh_store();
    struct tamis_store *s = store_open(store);
    size_t n, n_cut = 0;
    uint8_t *bytes = file_read(in_store(store, "catalog.lmdb"), &n);
    for (size_t page = 2; page < n / 4096; page++) {
        uint16_t lower, flags;
        memcpy(&flags, bytes + page * 4096 + 10, 2);
        memcpy(&lower, bytes + page * 4096 + 12, 2);
        uint16_t cut = (uint16_t)(lower - 2);
        /* The records of "a" and "b" are in one leaf. */
        if (flags == 2 && lower == 20 &&
            memmem(bytes + page * 4096, 4096, "segments", 8) == NULL) {
            poke(store, page * 4096 + 12, &cut, 2);
            n_cut++;
        }
    }
    assert_true(n_cut > 0);
    struct tamis_snapshot *snap;
    assert_int_equal(tamis_snapshot_current(s, &snap, NULL), TAMIS_ERR_DAMAGED);
    tamis_store_close(s);
    free(bytes);
}

/* The newer meta page's page size: LMDB takes it from there, and would crash. */
static void a_page_size_that_rotted_is_no_crash(void **state)
{
    (void)state;
    const char *store = fresh_store();
    size_t n;
    uint8_t *bytes = file_read(in_store(store, "catalog.lmdb"), &n);
    size_t at = (size_t)(newest_trees(bytes) - bytes);
    uint32_t good;
    memcpy(&good, bytes + at, 4);
    for (unsigned bit = 0; bit < 32; bit++) {
        struct tamis_store *s;
        uint32_t bad = good ^ UINT32_C(1) << bit;
        poke(store, at, &bad, 4);
        assert_int_not_equal(tamis_store_open(path_of(store), &s, NULL), 0);
    }
    poke(store, at, &good, 4);
    tamis_store_close(store_open(store));
    free(bytes);
}

/* A write of a leaf is lost: it has as many entries as before, but older records. */
static void a_leaf_that_is_older_loses_no_key(void **state)
{
    (void)state;
    const char *store = fresh_store();
    struct tamis_store *s = store_open(store);
    uint8_t *old[8];
    size_t n[8], n_tried = 0;
    for (size_t i = 0; i < 8; i++) {
        if (i) {
            drop_segment(s, "a");
            put_segment(s, "a", 100 * i, 100);
        }
        old[i] = file_read(in_store(store, "catalog.lmdb"), &n[i]);
    }
    tamis_store_close(s);
    for (size_t i = 0; i < 7; i++)
        for (size_t at = 2 * 4096; at + 4096 <= n[i]; at += 4096) {
            if (memcmp(old[i] + at, old[7] + at, 4096) == 0)
                continue;
            poke(store, at, old[i] + at, 4096);
            OK(unlink(in_store(store, "catalog.lmdb-lock")));
            if (tamis_store_open(path_of(store), &s, NULL) == 0) {
                assert_int_not_equal(reason_of(s, "a", 750), ABSENT_HERE);
                tamis_store_close(s);
                n_tried++;
            } else
                close(
                    open(in_store(store, "catalog.lmdb-lock"), O_CREAT | O_RDWR, 0666));
            poke(store, at, old[7] + at, 4096);
        }
    assert_true(n_tried > 0);
    for (size_t i = 0; i < 8; i++)
        free(old[i]);
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
        cmocka_unit_test(pages_that_lead_back_end),
        cmocka_unit_test(a_flipped_bit_loses_no_key),
        cmocka_unit_test(a_free_page_in_use_is_not_written),
        cmocka_unit_test(a_leaf_that_is_older_loses_no_key),
        cmocka_unit_test(a_page_size_that_rotted_is_no_crash),
        cmocka_unit_test(a_tree_that_lost_an_entry_is_damage),
        cmocka_unit_test(a_list_that_is_short_is_no_list),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
