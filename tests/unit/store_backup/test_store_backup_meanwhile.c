/* Backup while writers commit and segments come and go. */
#include "tests/unit/store_backup/backup_support.h"

/* ---- a writer between two reads of the backup ---- */

/* Called before or after a read of bits. */
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
    calls_before = io_calls;
    io_calls.pread = interrupted_pread;
    return 0;
}

static struct tamis_writer *writing;
static uint64_t last_key;

static void add_and_commit(void)
{
    add_keys(writing, 10, last_key - 10);
    OK(tamis_writer_commit(writing, last_key, NULL));
}

/* Keys 0 .. watermark - 1 are in, and no page is damaged for nothing. */
static void check_watermark(const char *store)
{
    STORE b = store_open(store);
    struct commit c = commit_of(file_of(b, store, "g"));
    assert_true(c.watermark >= 10);
    check_keys(b, "g", 0, c.watermark);
    IS(reason_of(b, "g", 99999), ABSENT_HERE);
    grow_keys(b, "g", c.watermark, 10, c.watermark + 10);
    check_keys(b, "g", 0, c.watermark + 10);
}

TEST_WITH(interruptions_on, faults_off, commits_between_the_reads)
{
    for (int i = 0; i < 4; i++) {
        bool after = i & 1, growth = i & 2;
        struct tamis_store *s = store_of_g();
        grow_keys(s, "g", 0, 10, 10);
        writing = writer_of(s, "g");
        last_key = growth ? 3000 : 60;
        *(after ? &after_bits : &before_bits) = add_and_commit;
        backup(s);
        assert_null(after_bits);
        assert_null(before_bits);
        IS(backed_up.n_damaged + backed_up.n_left, 0);
        check_watermark("b");
        OK(tamis_writer_close(writing, NULL));
        remove_both(s);
    }
}

/* The list is as of one moment: what is dropped after it can still be copied. */
static struct tamis_store *dropping;

static void drop_the_other(void)
{
    drop_segment(dropping, "h");
}

TEST_WITH(interruptions_on, faults_off, a_segment_dropped_between_the_reads)
{
    dropping = store_new("s");
    put_growing(dropping, "g");
    put_growing(dropping, "h");
    grow_keys(dropping, "h", 0, 90, 10);
    before_bits = drop_the_other;
    backup(dropping);
    assert_null(before_bits);
    IS(backed_up.n_left, 0);
    IS(backed_up.n_files, 2);
    struct tamis_store *b = store_open("b");
    check_keys(b, "h", 0, 90);
    IS(reason_of(b, "h", 99999), ABSENT_HERE);
    tamis_store_close(b);
    remove_both(dropping);
}

/* A writer found that the first page with bits has lost some: it has raised the floors,
 * and is filling the page, half of each sector done. */
static const char *condemned_file;

static void condemn_half(void)
{
    size_t n;
    struct commit c = commit_of(condemned_file);
    FREED uint8_t *bytes = file_read(condemned_file, &n);
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
}

TEST_WITH(interruptions_on, faults_off, a_page_condemned_between_the_reads)
{
    struct tamis_store *s = store_of_g();
    grow_keys(s, "g", 0, 90, 10);
    condemned_file = file_of(s, "s", "g");
    before_bits = condemn_half;
    backup(s);
    assert_null(before_bits);
    IS(backed_up.n_damaged, 1);
    struct tamis_store *b = store_open("b");
    check_keys(b, "g", 0, 90);
    tamis_store_close(b);
    remove_both(s);
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
    WRITER w = writer_of(x->store, "g");
    for (uint64_t i = 0; !x->stop;) {
        for (uint64_t end = i + 7; i < end && i < MOST_KEYS; i++) {
            char text[32];
            snprintf(text, sizeof text, "key%08llu", (unsigned long long)i);
            OK(tamis_writer_add_key(w, text, strlen(text)));
        }
        OK(tamis_writer_commit(w, i, NULL));
        x->acknowledged = i;
    }
    return NULL;
}

static void put_number(struct tamis_edit *e, const char *name)
{
    BUILDER b = builder_in(e, name, NULL);
    OK(tamis_builder_add_key(b, name, strlen(name)));
    OK(tamis_edit_put(e, b, NULL, NULL));
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
            OK(tamis_edit_drop(e, name, strlen(name), NULL, NULL));
        put_number(e, name);
        OK(tamis_edit_commit(e, NULL));
        x->n_edits++;
    }
    return NULL;
}

TEST(while_all_goes_on)
{
    enum { ROUNDS = 12 };
    pthread_t writer, editor;
    struct shared x = {.stop = false};
    x.store = store_new("s");
    put_growing(x.store, "g");
    OK(pthread_create(&writer, NULL, commit_always, &x));
    OK(pthread_create(&editor, NULL, edit_always, &x));
    while (x.n_edits < 8 || x.acknowledged < 300)
        sched_yield();
    uint64_t last = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = x.acknowledged;
        backup(x.store);
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
        IS(backed_up.n_segments, 5);
        IS(n_filter_files("b"), 5);
        grow_keys(b, "g", c.watermark, 5, c.watermark + 5);
        struct tamis_snapshot *snap = snapshot_of(b);
        for (size_t i = 0; tamis_snapshot_next(snap, &i); i++)
            verified(filter_at(snap, i));
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

RUN_TESTS(test_dir_create, test_dir_remove)
