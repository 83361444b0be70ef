/* Writers of a store's segments, and the catalog behind them. */
#include "tests/support/shop/shop.h"

TEST_OF_SCENES(the_catalog_follows_growth_and_seal)
{
    scene("growth and seal");
    steps("growing g; record g state=2; note g; writer g; add 0 1000; hits g 0 1000; "
          "write 5");
    assert_true(record_in(shop.store, "g").generation > noted.generation);
    steps("seal 6; end; record g state=3 watermark=6; hits g 0 1000; why g 5000 ABSENT;"
          "fails SEALED writer g");
    assert_in_range(record_in(shop.store, "g").keys, 990, 1000);
}

/* An older copy put back and then recovered by a writer that does not ask the catalog,
 * and so leaps over the sequence that the catalog knows (R3). */
#define RECOVERED(mark, twice)                                                         \
    "growing g; writer g; add 0 10; write " mark "; live copy g =old; add 10 10;"      \
    "write " twice "; end; live move =old g; why g 15 MISMATCH; behind g; end;"        \
    "leapt g; close;"

TEST_OF_SCENES(writers)
{
    static const struct scene_row rows[] = {
        {"an older copy put back is MAYBE",
         "growing g; writer g; add 0 50; end; copy g =old; writer g; add 50 300; end",
         "copy g =new; move =old g",
         "why g 5000 MISMATCH; fails MISMATCH writer g; told older copy; live move "
         "=new g;"
         "writer g; seal 0; end; why g 5000 ABSENT 333 HIT"},
        {"the watermark tells a copy that was recovered", RECOVERED("1", "2"),
         "why g 15 MISMATCH 5 MISMATCH; fails MISMATCH writer g; told older copy",
         "backup b; is left=1; backup b2 plain; repair; is quarantined=1"},
        /* SPEC 7.3, "put back": nothing in the file tells. */
        {"without watermarks and growth it passes", RECOVERED("0", "0"), "close",
         "why g 5 HIT 15 ABSENT"},
        {"a segment with a writer is not dropped", "growing g; writer g; add 0 50",
         "begin; drop g; put g 1000 10; fails BUSY commit; told process; files 1;"
         "fails BUSY replace g 1000 10; told process; files 1;"
         "add 50 400; write 7; why g 449 HIT; end",
         "replace g 1000 10; record g keys=10; why g 1005 HIT 5 ABSENT; files 1"},
        {"a writer outlives the handle that it was opened with",
         "growing g; writer g; close", "add 0 400; seal 9; end", "why g 399 HIT"},
    };
    PLAY_ROWS(rows);
    play("a writer says what is wrong",
         "begin; bare bare; put sealed 0 10; growing g; commit; fails NO_SEGMENT "
         "writer no;"
         "fails NO_SEGMENT writer bare; told without a filter; fails SEALED writer "
         "sealed;"
         "writer g; fails BUSY writer g; told %ld; end; writer g; end; live lose g;"
         "fails ENOENT writer g",
         (long)getpid());
    STORE s = store_new("none");
    IS(tamis_store_writer(s, "", 0, NULL, &shop.writer, NULL), TAMIS_ERR_RANGE);
}

struct rewrite {
    const char *name;
    const struct record *record;
};

static int rewrite_record(struct catalog_txn *t, void *ctx)
{
    struct rewrite *r = ctx;
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = record_encode(r->record, r->name, strlen(r->name), value);
    return catalog_replace(t, piece_of(r->name), (struct piece){value, n});
}

/* A writer that died after a growth, or a seal, but before the catalog had it. */
TEST_OF_SCENES(the_catalog_catches_up_with_a_dead_writer)
{
    scene("a dead writer");
    steps("growing g; note g; writer g; add 0 350; end");
    struct tamis_store *s = shop.store;
    struct rewrite r = {"g", &noted};
    OK(catalog_write(s->catalog, NULL, 0, rewrite_record, &r, NULL, NULL));
    steps("why g 5 HIT; writer g");
    assert_true(record_in(s, "g").min_stages > noted.min_stages);
    steps("seal 3; end");
    OK(catalog_write(s->catalog, NULL, 0, rewrite_record, &r, NULL, NULL));
    steps("record g state=2; why g 5 HIT 5000 ABSENT; fails SEALED writer g;"
          "record g state=3");
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
TEST_OF_SCENES(a_seal_is_durable_before_the_catalog_says_so)
{
    scene("sealed behind the store's back");
    steps("growing g; behind g; add 0 50; seal 3; end");
    for (int again = 0; again < 2; again++) {
        memset(calls, 0, sizeof calls);
        real = io_calls;
        io_calls.pwrite = noting_pwrite;
        io_calls.fdatasync = noting_fdatasync;
        steps("fails SEALED writer g");
        io_calls = real;
        assert_string_equal(calls, again ? "" : "wsBs");
        steps("record g state=3");
    }
    steps("why g 49 HIT");
}

static unsigned syncs_to_go;

static int failing_fdatasync(int fd)
{
    if (syncs_to_go-- == 0) {
        errno = EIO;
        return -1;
    }
    return real.fdatasync(fd);
}

/* A seal that could not be made durable is not told to the catalog. */
TEST_OF_SCENES(a_seal_that_is_not_durable_is_not_followed)
{
    scene("syncs that fail");
    steps("growing g; behind g; seal 3; end");
    for (unsigned i = 0; i < 2; i++) {
        real = io_calls;
        syncs_to_go = i;
        io_calls.fdatasync = failing_fdatasync;
        steps("fails EIO writer g");
        io_calls = real;
        steps("record g state=2");
    }
    steps("fails SEALED writer g; record g state=3");
}

static ino_t catalog_inode;

static int failing_catalog(int fd)
{
    struct stat st;
    OK(fstat(fd, &st));
    return st.st_ino == catalog_inode ? (errno = EIO, -1) : 0;
}

static uint64_t noted_sequence(struct tamis_store *s)
{
    SNAPSHOT snap = snapshot_of(s);
    uint64_t n = le64_get(entry_record(snap->entries[0])->min_sequence);
    return n;
}

/* Bounds that the catalog has not noted guard nothing (R5). */
TEST_OF_SCENES(a_catalog_that_cannot_be_told_opens_no_writer)
{
    scene("a catalog that cannot be told");
    steps("growing g");
    struct stat st = stat_of(path_at("catalog"));
    uint64_t before = noted_sequence(shop.store);
    catalog_inode = st.st_ino;
    lmdb_fdatasync = failing_catalog;
    steps("fails EIO writer g; told_file catalog.lmdb");
    lmdb_fdatasync = NULL;
    assert_true(noted_sequence(shop.store) == before);
    steps("writer g"); /* the other's lock is gone */
    assert_true(noted_sequence(shop.store) > before);
    steps("end");
}

RUN_TESTS(NULL, NULL)
