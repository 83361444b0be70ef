/* Backup: the copy has what was acknowledged, and what was damaged is damaged there. */
#include "tests/support/repair_support.h"

#include <pthread.h>
#include <sys/mman.h>
#include "format/checksum.h"

static struct tamis_backup_report backed_up;

static int backup_code(struct tamis_store *s, const char *to, struct tamis_diag *diag)
{
    seen.n = 0;
    return tamis_store_backup(s, path_of(to), see, NULL, &backed_up, diag);
}

static void backup(struct tamis_store *s, const char *to)
{
    struct tamis_diag diag = {0};
    if (backup_code(s, to, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
}

static struct tamis_store *make(const char *name)
{
    struct tamis_store *s = store_agw(name);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    return s;
}

static void check_all(struct tamis_store *s)
{
    check_agw(s);
    assert_int_equal(reason_of(s, "bare", 1), TAMIS_NO_FILTER);
}

static const char *file_in(const char *store, const char *original)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/filters%s", path_of(store), strrchr(original, '/'));
    return path;
}

static void the_copy_of_a_quiet_store_is_the_same(void **state)
{
    struct tamis_store_info was, is;
    struct tamis_diag diag;
    char command[3000];
    (void)state;
    struct tamis_store *s = make("s");
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
    check_all(b);
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
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

/* What a writer will map has its space in the copy, though it be zeros (R1). */
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
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
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
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

/* ---- damage ---- */

static size_t n_damaged_pages(const char *path)
{
    struct tamis_verify v;
    struct tamis_filter *f = open_filter(path);
    tamis_filter_verify(f, &v, NULL);
    tamis_filter_close(f);
    return v.n_damaged;
}

/* A page that is bad is as bad in the copy; digests and floors are not made anew. */
static void damage_is_not_laundered(void **state)
{
    (void)state;
    struct tamis_store *s = make("s");
    const char *a = file_of(s, "s", "a"), *g = file_of(s, "s", "g"),
               *w = file_of(s, "s", "w");
    struct commit c = commit_of(w);
    flip(a, PAGE_BYTES + 700);
    lose_page(g);
    uint8_t zeros[PAGE_BYTES] = {0};
    file_poke(w, c.stages[0].offset, zeros, sizeof zeros);
    size_t n_a = n_damaged_pages(a), n_g = n_damaged_pages(g), n_w = n_damaged_pages(w);
    assert_true(n_a && n_g && n_w);
    backup(s, "b");
    assert_int_equal(backed_up.n_damaged, 3);
    assert_int_equal(backed_up.n_left, 0);
    SAW("noted a filters/");
    SAW("noted g filters/");
    SAW("noted w filters/");
    assert_int_equal(n_damaged_pages(file_in("b", a)), n_a);
    assert_int_equal(n_damaged_pages(file_in("b", g)), n_g);
    assert_int_equal(n_damaged_pages(file_in("b", w)), n_w);
    struct tamis_store *b = store_open("b");
    check_all(b);
    tamis_store_close(b);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

static bool is_file(int fd)
{
    struct stat st;
    OK(fstat(fd, &st));
    return S_ISREG(st.st_mode);
}

static int losing_fsync(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (is_file(fd))
        lose_page(path);
    return 0;
}

/* Between being written and being checked each copy loses a page. */
static void damage_on_the_way_is_told(void **state)
{
    (void)state;
    struct tamis_store *s = make("s");
    calls_before = io_calls;
    io_calls.fsync = losing_fsync;
    backup(s, "b");
    io_calls = calls_before;
    assert_int_equal(backed_up.n_damaged, 3);
    struct tamis_store *b = store_open("b");
    check_all(b);
    tamis_store_close(b);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

static unsigned fail_read_of_copy, n_reads_of_copy;
static bool written;

static int marking_fsync(int fd)
{
    written |= is_file(fd);
    return 0;
}

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t at)
{
    if (written && ++n_reads_of_copy == fail_read_of_copy)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

static void *no_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)n, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Nothing is mapped for it, where a disk that fails would be a signal (R15). */
static void copies_are_checked_by_reading(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = make("s");
    calls_before = io_calls;
    io_calls.fsync = marking_fsync;
    io_calls.pread = failing_pread;
    io_calls.mmap = no_mmap;
    for (fail_read_of_copy = 1; fail_read_of_copy <= 2; fail_read_of_copy++) {
        written = false;
        n_reads_of_copy = 0;
        assert_int_equal(backup_code(s, "b", &diag), EIO); /* header, first page */
    }
    backup(s, "b");
    io_calls = calls_before;
    assert_int_equal(backed_up.n_files, 3);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

/* Floors that fail their own check fail in the copy, and condemned pages stay so. */
static void bad_floors_stay_bad(void **state)
{
    (void)state;
    struct tamis_store *s = make("s");
    const char *g = file_of(s, "s", "g");
    struct commit c = commit_of(g);
    flip(g, c.stages[c.n_stages - 1].floors_offset + 100);
    lose_page(g); /* of another stage */
    size_t n = n_damaged_pages(g);
    assert_true(c.n_stages > 1 && n > 1);
    backup(s, "b");
    assert_int_equal(n_damaged_pages(file_in("b", g)), n);
    struct tamis_store *b = store_open("b");
    check_all(b);
    grow_keys(b, "g", 6000, 100, 8); /* its writer condemns them for good */
    size_t condemned = n_damaged_pages(file_in("b", g));
    assert_true(condemned > 0);
    backup(b, "b2");
    assert_int_equal(n_damaged_pages(file_in("b2", g)), condemned);
    tamis_store_close(b);
    b = store_open("b2");
    check_all(b);
    check_keys(b, "g", 6000, 100);
    tamis_store_close(b);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
    remove_tree("b2");
}

static void what_serves_nobody_is_left_out(void **state)
{
    (void)state;
    struct tamis_store *s = make("s");
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
    check_all(b);
    tamis_store_close(b);
    check_settled("b");
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
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
            offsetof(struct record_disk, unused), XXH3_64bits("a", 1));
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
        struct tamis_store *s = make("s");
        OK(catalog_write(s->catalog, make_strange, NULL, NULL, NULL));
        if (lost)
            OK(unlink(file_of(s, "s", "a")));
        backup(s, "b");
        assert_int_equal(backed_up.n_left, lost);
        struct tamis_store *b = store_open("b");
        OK(catalog_read(b->catalog, look_strange, NULL, NULL));
        check_all(b);
        assert_int_equal(reason_of(b, "a", 50), lost ? TAMIS_FILE_LOST : TAMIS_HIT);
        tamis_store_close(b);
        tamis_store_close(s);
        remove_tree("s");
        remove_tree("b");
    }
}

/* It may mean another database, which a copy would lack. */
static void a_feature_of_the_store_is_not_copied_by_halves(void **state)
{
    size_t at = offsetof(struct meta_disk, ro_compat);
    struct tamis_diag diag;
    (void)state;
    for (int opened_later = 0; opened_later < 2; opened_later++) {
        struct tamis_store *s = make("s");
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

/* ---- a writer between two reads of the backup ---- */

/* What happens at a read of bits, before it or after it. */
static void (*before_bits)(void), (*after_bits)(void);

/* The catalog's pages are read with the right to write held. */
static bool is_catalog(int fd)
{
    char link[64], target[900] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, target, sizeof target - 1) > 0 &&
           strstr(target, "/catalog.lmdb");
}

static ssize_t interrupted_pread(int fd, void *buf, size_t n, off_t at)
{
    bool bits = n >= PAGE_BYTES && at >= 3 * PAGE_BYTES && !is_catalog(fd);
    if (bits && before_bits) {
        void (*act)(void) = before_bits;
        before_bits = NULL;
        act();
    }
    ssize_t got = calls_before.pread(fd, buf, n, at);
    if (bits && after_bits) {
        void (*act)(void) = after_bits;
        after_bits = NULL;
        act();
    }
    return got;
}

static int interruptions_on(void **state)
{
    (void)state;
    calls_before = io_calls;
    io_calls.pread = interrupted_pread;
    return 0;
}

static struct tamis_writer *writing;

static void add_and_commit(void)
{
    for (uint64_t i = 10; i < 60; i++)
        OK(tamis_writer_add_key(writing, key_text(i), strlen(key_text(i))));
    OK(tamis_writer_commit(writing, 60, NULL));
}

static void add_many(void)
{
    for (uint64_t i = 10; i < 3000; i++)
        OK(tamis_writer_add_key(writing, key_text(i), strlen(key_text(i))));
    OK(tamis_writer_commit(writing, 3000, NULL));
}

/* Keys 0 .. watermark - 1 are in, and no page is damaged for nothing. */
static void check_watermark(const char *store)
{
    struct tamis_store *b = store_open(store);
    struct commit c = commit_of(file_of(b, store, "g"));
    assert_true(c.watermark >= 10);
    check_keys(b, "g", 0, c.watermark);
    assert_int_equal(reason_of(b, "g", 99999), ABSENT_HERE);
    grow_keys(b, "g", c.watermark, 10, c.watermark + 10);
    check_keys(b, "g", 0, c.watermark + 10);
    tamis_store_close(b);
}

static void commits_between_the_reads(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool after = i & 1, growth = i & 2;
        struct tamis_store *s = store_new("s");
        put_growing(s, "g");
        grow_keys(s, "g", 0, 10, 10);
        OK(tamis_store_writer(s, "g", 1, &writing, NULL));
        *(after ? &after_bits : &before_bits) = growth ? add_many : add_and_commit;
        backup(s, "b");
        assert_null(after_bits);
        assert_null(before_bits);
        assert_int_equal(backed_up.n_damaged + backed_up.n_left, 0);
        check_watermark("b");
        OK(tamis_writer_close(writing));
        tamis_store_close(s);
        remove_tree("s");
        remove_tree("b");
    }
}

/* The list is as of one moment: what is dropped after it can still be copied. */
static struct tamis_store *dropping;

static void drop_the_other(void)
{
    drop_segment(dropping, "h");
}

static void a_segment_dropped_between_the_reads(void **state)
{
    (void)state;
    dropping = store_new("s");
    put_growing(dropping, "g");
    put_growing(dropping, "h");
    grow_keys(dropping, "h", 0, 90, 10);
    before_bits = drop_the_other;
    backup(dropping, "b");
    assert_null(before_bits);
    assert_int_equal(backed_up.n_left, 0);
    assert_int_equal(backed_up.n_files, 2);
    struct tamis_store *b = store_open("b");
    check_keys(b, "h", 0, 90);
    assert_int_equal(reason_of(b, "h", 99999), ABSENT_HERE);
    tamis_store_close(b);
    tamis_store_close(dropping);
    remove_tree("s");
    remove_tree("b");
}

/* A writer found that the first page with bits has lost some: it has raised the floors,
 * and is filling the page, half of each sector done. */
static const char *condemned_file;

static void condemn_half(void)
{
    size_t n;
    struct commit c = commit_of(condemned_file);
    uint8_t *bytes = file_read(condemned_file, &n);
    uint64_t at = c.stages[0].offset;
    while (all_zero(bytes + at, PAGE_BYTES))
        at += PAGE_BYTES;
    uint64_t page = (at - c.stages[0].offset) / PAGE_BYTES;
    uint64_t floors = c.stages[0].floors_offset + floor_sector_of(page);
    struct floor_sector_disk d;
    memcpy(&d, bytes + floors, sizeof d);
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        d.floor[page % PAGES_PER_FLOOR_SECTOR * SECTORS_PER_PAGE + i] =
            le16_of(FLOOR_DAMAGED);
    floor_sector_seal(&d, c.uuid, floors);
    file_poke(condemned_file, floors, &d, sizeof d);
    uint8_t half[PAGE_BYTES] = {0};
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        memset(half + i * SECTOR_BYTES, 0xff, SECTOR_BYTES / 2);
    file_poke(condemned_file, at, half, sizeof half);
    free(bytes);
}

static void a_page_condemned_between_the_reads(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "g");
    grow_keys(s, "g", 0, 90, 10);
    condemned_file = file_of(s, "s", "g");
    before_bits = condemn_half;
    backup(s, "b");
    assert_null(before_bits);
    assert_int_equal(backed_up.n_damaged, 1);
    struct tamis_store *b = store_open("b");
    check_keys(b, "g", 0, 90);
    tamis_store_close(b);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

/* ---- everything at once ---- */

struct shared {
    _Atomic uint64_t acknowledged; /* keys 0 .. n - 1 are in g */
    _Atomic uint64_t n_edits;
    _Atomic bool stop;
    struct tamis_store *store;
};

enum { MOST_KEYS = 30000 }; /* then it only commits: all are looked for each time */

static void *commit_always(void *arg)
{
    struct shared *x = arg;
    struct tamis_writer *w;
    OK(tamis_store_writer(x->store, "g", 1, &w, NULL));
    for (uint64_t i = 0; !x->stop;) {
        for (uint64_t end = i + 7; i < end && i < MOST_KEYS; i++) {
            char text[32];
            snprintf(text, sizeof text, "key%08llu", (unsigned long long)i);
            OK(tamis_writer_add_key(w, text, strlen(text)));
        }
        OK(tamis_writer_commit(w, i, NULL));
        x->acknowledged = i;
    }
    OK(tamis_writer_close(w));
    return NULL;
}

static void put_number(struct tamis_edit *e, const char *name)
{
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, name, strlen(name), 0, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, name, strlen(name)));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
}

/* Replaces a few segments over and over, so that files come and go. */
static void *edit_always(void *arg)
{
    struct shared *x = arg;
    for (unsigned i = 0; !x->stop; i++) {
        char name[16];
        snprintf(name, sizeof name, "e%u", i % 4);
        struct tamis_edit *e = edit_new(x->store);
        if (i >= 4)
            OK(tamis_edit_drop(e, name, strlen(name), NULL));
        put_number(e, name);
        OK(tamis_edit_commit(e, NULL));
        x->n_edits++;
    }
    return NULL;
}

static void while_all_goes_on(void **state)
{
    enum { ROUNDS = 12 };
    pthread_t writer, editor;
    struct shared x = {.stop = false};
    (void)state;
    x.store = store_new("s");
    put_growing(x.store, "g");
    OK(pthread_create(&writer, NULL, commit_always, &x));
    OK(pthread_create(&editor, NULL, edit_always, &x));
    while (x.n_edits < 8 || x.acknowledged < 300)
        sched_yield();
    uint64_t last = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = x.acknowledged;
        backup(x.store, "b");
        if (backed_up.n_left + backed_up.n_damaged) {
            show_seen();
            fail_msg("%llu left out, %llu damaged",
                     (unsigned long long)backed_up.n_left,
                     (unsigned long long)backed_up.n_damaged);
        }
        struct tamis_store *b = store_open("b");
        struct commit c = commit_of(file_of(b, "b", "g"));
        assert_true(c.watermark >= before);
        last = c.watermark;
        check_keys(b, "g", 0, c.watermark);
        assert_int_equal(backed_up.n_segments, 5);
        assert_int_equal(n_filter_files("b"), 5);
        grow_keys(b, "g", c.watermark, 5, c.watermark + 5);
        struct tamis_snapshot *snap = snapshot_of(b);
        for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
            struct tamis_filter *f;
            struct tamis_verify v;
            OK(tamis_snapshot_filter(snap, i, &f, NULL));
            OK(tamis_filter_verify(f, &v, NULL));
        }
        tamis_snapshot_release(snap);
        tamis_store_close(b);
        check_settled("b");
        remove_tree("b");
    }
    x.stop = true;
    OK(pthread_join(writer, NULL));
    OK(pthread_join(editor, NULL));
    print_message("%d backups, %llu keys, %llu edits: 0 lost\n", ROUNDS,
                  (unsigned long long)last, (unsigned long long)x.n_edits);
    tamis_store_close(x.store);
    remove_tree("s");
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
    struct tamis_store *s = make("s");
    calls_before = io_calls;
    io_calls.fsync = noting_fsync;
    io_calls.renameat2 = checking_rename;
    backup(s, "b");
    io_calls = calls_before;
    assert_int_equal(stat(test_dir, &st), 0);
    assert_true(n_synced == 1 && synced[0] == st.st_ino); /* and the name, at last */
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
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
    struct tamis_store *s = make("s");
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
            assert_int_equal(names_in_test_dir(), n_names);
            n_failed++;
        }
    }
    assert_true(tree_of("s") == before);
    assert_true(n_failed > 15);
    backup(s, "b"); /* and the next one succeeds */
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_copy_of_a_quiet_store_is_the_same),
        cmocka_unit_test(growing_filters_have_their_space),
        cmocka_unit_test(holes_stay_holes),
        cmocka_unit_test(damage_is_not_laundered),
        cmocka_unit_test(damage_on_the_way_is_told),
        cmocka_unit_test(copies_are_checked_by_reading),
        cmocka_unit_test(bad_floors_stay_bad),
        cmocka_unit_test(what_serves_nobody_is_left_out),
        cmocka_unit_test(records_that_are_not_known_are_copied_as_they_are),
        cmocka_unit_test(a_feature_of_the_store_is_not_copied_by_halves),
        cmocka_unit_test_setup_teardown(commits_between_the_reads, interruptions_on,
                                        faults_off),
        cmocka_unit_test_setup_teardown(a_segment_dropped_between_the_reads,
                                        interruptions_on, faults_off),
        cmocka_unit_test_setup_teardown(a_page_condemned_between_the_reads,
                                        interruptions_on, faults_off),
        cmocka_unit_test(while_all_goes_on),
        cmocka_unit_test(all_is_synced_before_it_has_its_name),
        TEST_WITH_FAULTS(a_backup_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
