/* The catalog's records copied without LMDB (copy.c): what LMDB reads, or nothing. Each
 * call that reads or writes the file is a place where the other side may come in. */
#include "tests/unit/store_catalog/copied_catalog.h"

#include <sys/uio.h>

#define TEST_WITH_CATALOG(name) TEST_WITH(new_catalog, close_catalog, name)

TEST_WITH_CATALOG(what_lmdb_reads)
{
    enum { MANY = 10000, VALUE = 4 << 20 };
    char name[300];
    MDB_dbi dbi[CATALOG_DBS];
    uint8_t *value = malloc(VALUE);
    assert_non_null(value);
    for (size_t i = 0; i < VALUE; i++)
        value[i] = (uint8_t)random_u64();
    for (int i = 0; i < 2; i++) { /* empty, then a few */
        MDB_txn *t = begin(env, 0, dbi);
        OK(mdb_drop(t, dbi[CATALOG_SEGMENTS], 0));
        if (i) {
            put(t, dbi[CATALOG_META], "later", value, 40000);
            put(t, dbi[CATALOG_SEGMENTS], "a", value, 0);
            put(t, dbi[CATALOG_SEGMENTS], "long", value, RECORD_MAX_BYTES);
            put(t, dbi[CATALOG_SEGMENTS], "longer", value, RECORD_MAX_BYTES + 1);
            put(t, dbi[CATALOG_PACKS], "chunk", value, CHUNK_MAX_BYTES);
            put(t, dbi[CATALOG_PACKS], "larger", value, CHUNK_MAX_BYTES + 1);
        }
        OK(mdb_txn_commit(t));
        check_same(copy(), env);
    }
    MDB_txn *t = begin(env, 0, dbi);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%0*llx", i % 3 ? 16 : 250,
                 (unsigned long long)random_u64());
        put(t, dbi[CATALOG_SEGMENTS], name, value + i, i % 700);
    }
    for (unsigned i = 0; i < by_form(5, 40); i++) { /* 300 KB of numbers, once free */
        snprintf(name, sizeof name, "big%u", i);
        put(t, dbi[CATALOG_SEGMENTS], name, value, VALUE);
    }
    OK(mdb_txn_commit(t));
    check_same(copy(), env);
    for (int round = 0; round < 3; round++) {
        MDB_cursor *cursor;
        MDB_val key, data;
        t = begin(env, 0, dbi);
        OK(mdb_cursor_open(t, dbi[CATALOG_SEGMENTS], &cursor));
        while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == 0)
            if (data.mv_size == VALUE || random_below(4))
                OK(mdb_cursor_del(cursor, 0));
        mdb_cursor_close(cursor);
        OK(mdb_txn_commit(t));
        check_same(copy(), env);
    }
    free(value);
    t = begin(env, 0, dbi); /* a list that is not there is no empty list */
    OK(mdb_drop(t, dbi[CATALOG_SEGMENTS], 1));
    OK(mdb_txn_commit(t));
    struct catalog_copy *c;
    IS(catalog_copy_read(fd, path(), &c, NULL), TAMIS_ERR_NOT_TAMIS);
}

/* ---- a reader meets commits ---- */

static unsigned n_reads, commit_at, n_commits;

static ssize_t commit_then_read(int file, void *p, size_t n, off_t at)
{
    n_reads++;
    for (unsigned i = 0; i < n_commits && (n_reads == commit_at || !commit_at); i++)
        write_list();
    return pread(file, p, n, at);
}

/* One to three transactions before each read in turn: the third goes over pages of the
 * first that was met. */
TEST_WITH_CATALOG(commits_between_any_two_reads)
{
    struct io_calls calm = io_calls;
    io_calls.pread = commit_then_read;
    for (n_commits = 1; n_commits <= 3; n_commits++)
        for (commit_at = 1, n_reads = 1; commit_at <= n_reads; commit_at++) {
            n_reads = 0;
            check_list(copy(), 0);
        }
    commit_at = 0; /* before every read */
    n_commits = 1;
    struct catalog_copy *c;
    struct tamis_diag diag = {0};
    IS(catalog_copy_read(fd, path(), &c, &diag), TAMIS_ERR_BUSY);
    assert_non_null(strstr(diag.what, "met a commit"));
    io_calls = calm;
    uint64_t newest = write_list();
    check_list(copy(), newest);
}

/* The meta page 1 is half of transaction T - 2 and half of T; and in the second look,
 * after T + 1, half of T + 2, which has the same root as T - 2, and half of T. */
enum { META_NUMBER = 16 + 24 + 2 * 48 + 8 };
static uint8_t torn[256];
static unsigned n_looks[2];

static ssize_t read_torn(int file, void *p, size_t n, off_t at)
{
    ssize_t got = pread(file, p, n, at);
    if (at > 4096)
        return got;
    unsigned look = ++n_looks[at == 4096];
    if (at == 4096 && look <= 2)
        memcpy(p, torn, META_NUMBER);
    if (at == 0 && look == 2)
        write_list();
    return got;
}

TEST_WITH_CATALOG(a_meta_page_is_never_taken_half)
{
    while (write_list() % 2 == 0)
        ;
    IS(pread(fd, torn, sizeof torn, 4096), sizeof torn);
    write_list();
    uint64_t newest = write_list();
    struct io_calls calm = io_calls;
    io_calls.pread = read_torn;
    struct catalog_copy *c = copy();
    io_calls = calm;
    check_list(c, newest + 1);
}

/* ---- a writer is met, or ends, at any of its writes ---- */

#define SHOWN __attribute__((visibility("default")))
static void (*at_write)(const void *p, size_t n, off_t at);

SHOWN ssize_t pwrite(int file, const void *p, size_t n, off_t at)
{
    if (at_write)
        at_write(p, n, at);
    return syscall(SYS_pwrite64, file, p, n, at);
}

SHOWN ssize_t writev(int file, const struct iovec *v, int n)
{
    if (at_write)
        at_write(NULL, 0, 2 * 4096);
    return syscall(SYS_writev, file, v, n);
}

static uint64_t before;
static unsigned n_writes, end_at, part;

static void read_meanwhile(const void *p, size_t n, off_t at)
{
    n_writes++;
    check_list(copy(), before);
}

TEST_WITH_CATALOG(a_commit_under_way_is_not_seen)
{
    at_write = read_meanwhile;
    for (int i = 0; i < 20; i++) {
        struct catalog_copy *c = copy();
        before = c->txn;
        catalog_copy_free(c);
        n_writes = 0;
        uint64_t txn = write_list();
        IS(txn, before + 1);
        assert_true(n_writes >= 2);
        check_list(copy(), txn);
    }
    at_write = NULL;
}

/* Ends the process before a write, or with a part of the meta page written. */
static void end_here(const void *p, size_t n, off_t at)
{
    bool meta = at < 2 * 4096;
    if (++n_writes < end_at && !meta)
        return;
    if (meta && syscall(SYS_pwrite64, fd, p, part < n ? part : n, at) < 0)
        _exit(2);
    _exit(meta ? part >= n : 3);
}

static int killed_writer(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        env = open_env(path(), 0);
        n_writes = 0;
        at_write = end_here;
        write_list();
        _exit(4);
    }
    IS(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST_WITH_CATALOG(what_lmdb_reads_after_a_kill)
{
    close(fd);
    fd = open(path(), O_RDWR | O_CLOEXEC);
    int how = 3;
    for (end_at = 1, part = 0; how != 1; end_at++, part += how == 0 ? 8 : 0) {
        uint64_t last = write_list();
        mdb_env_close(env);
        how = killed_writer();
        struct catalog_copy *c = copy();
        env = open_env(path(), 0);
        check_same(copy(), env);
        check_list(c, last + (how == 1));
        assert_true(how == 0 || how == 1 || how == 3);
    }
    assert_true(end_at > 3 && part > 100);
}

/* ---- damage ---- */

/* The copy of a damaged file has the records that LMDB reads, after the walk. */
static bool taken_as_lmdb_does(const char *hurt, int file)
{
    struct catalog_copy *c;
    int rc = catalog_copy_read(file, hurt, &c, NULL);
    int walked = catalog_file_scrub(file, hurt, NULL);
    if (rc) {
        assert_true(rc < 0 && rc != TAMIS_ERR_BUSY);
        assert_true(rc == walked || (walked == 0 && rc == TAMIS_ERR_NOT_TAMIS));
        return false;
    }
    IS(walked, 0);
    MDB_env *e = open_env(hurt, MDB_RDONLY | MDB_NOLOCK);
    if (e) {
        check_same(c, e);
        mdb_env_close(e);
    } else /* the size of its map makes no sense */
        catalog_copy_free(c);
    return true;
}

/* Each byte of the meta pages, bytes of the others, and files cut short. */
TEST_WITH_CATALOG(damage_is_taken_as_lmdb_does)
{
    enum { META_BYTES_USED = 160 };
    size_t n, n_taken = 0, n_refused = 0, others = by_form(1500, 40000);
    const char *hurt = path_of("hurt.lmdb");
    FREED uint8_t *bytes = file_read(path(), &n);
    file_write(hurt, bytes, n);
    FD file = open(hurt, O_RDWR | O_CLOEXEC);
    assert_true(taken_as_lmdb_does(hurt, file));
    for (size_t i = 0; i < 2 * META_BYTES_USED + others; i++) {
        size_t at = i / META_BYTES_USED * 4096 + i % META_BYTES_USED;
        if (i >= 2 * META_BYTES_USED)
            at = 2 * 4096 + random_below(n - 2 * 4096);
        if (i >= 2 * META_BYTES_USED && i % 2)
            at = at / 4096 * 4096 + at % 64; /* the head, and where the nodes are */
        uint8_t bad = bytes[at] ^ (uint8_t)(1 << random_below(8));
        IS(pwrite(file, &bad, 1, (off_t)at), 1);
        *(taken_as_lmdb_does(hurt, file) ? &n_taken : &n_refused) += 1;
        IS(pwrite(file, &bytes[at], 1, (off_t)at), 1);
    }
    assert_true(n_taken > 100 && n_refused > 100);
    for (size_t cut = n; cut > 0;
         cut -= 1 + random_below(cut > 9000 ? 8192 : 64) % cut) {
        OK(ftruncate(file, (off_t)cut));
        taken_as_lmdb_does(hurt, file);
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
