/* The reader of tables and of the MANIFEST under damage: whatever byte is changed and
 * wherever a file is cut, it gives the keys that were there, or refuses. */
#include <sys/stat.h>
#include "../support/unit/dir.h"
#include <leveldb/c.h>

#include "database.h"

enum { N_KEYS = 150, MOST = 1 << 16 };

static char manifest[1100], table_path[1100];
static struct ldb_list list;
static uint8_t table[MOST], damaged[MOST];
static size_t n_table;

static int teardown(void **state)
{
    ldb_list_free(&list);
    return test_dir_remove(state);
}

static size_t read_file(const char *path, uint8_t *to)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(to, 1, MOST, f);
    fclose(f);
    return n;
}

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    IS(fwrite(bytes, 1, n, f), n);
    IS(fclose(f), 0);
}

/* Keys k000..k149, every third deleted in a younger version. */
static void make_database(void)
{
    leveldb_options_t *options = leveldb_options_create();
    leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
    char *error = NULL, key[16];
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_block_size(options, 512);
    for (int round = 0; round < 3 && !error; round++) {
        leveldb_t *db = leveldb_open(options, test_dir, &error);
        for (int i = 0; i < N_KEYS && round < 2 && !error; i++) {
            snprintf(key, sizeof key, "k%03d", i);
            if (round == 0)
                leveldb_put(db, writes, key, 4, "value", 5, &error);
            else if (i % 3 == 0)
                leveldb_delete(db, writes, key, 4, &error);
        }
        if (db)
            leveldb_close(db);
    }
    if (error)
        fail_msg("LevelDB: %s", error);
    leveldb_writeoptions_destroy(writes);
    leveldb_options_destroy(options);
}

static int setup(void **state)
{
    char why[LDB_WHY_BYTES], name[200];
    OK(test_dir_create(state));
    make_database();
    IS(ldb_list_read(test_dir, &list, why), LDB_GOOD);
    IS(list.n, 2); /* of the puts, and of the deletions */
    size_t n = read_file(path_of("CURRENT"), damaged);
    snprintf(name, sizeof name, "%.*s", (int)n - 1, (char *)damaged);
    snprintf(manifest, sizeof manifest, "%s/%.30s", test_dir, name);
    snprintf(table_path, sizeof table_path, "%s/%06u.ldb", test_dir,
             (unsigned)list.tables[0].number);
    n_table = read_file(table_path, table);
    IS(n_table, list.tables[0].n_bytes);
    return 0;
}

struct got {
    uint64_t n_keys;
    int is_wrong;
};

static int take(void *ctx, const void *key, size_t n_bytes)
{
    struct got *g = ctx;
    char want[16];
    snprintf(want, sizeof want, "k%03u", (unsigned)g->n_keys++);
    g->is_wrong |= n_bytes != 4 || memcmp(key, want, 4) != 0;
    return 0;
}

/* The keys as they were, or refused. */
static enum ldb_result check(const uint8_t *bytes, size_t n)
{
    struct got got = {0, 0};
    char why[LDB_WHY_BYTES];
    enum ldb_result r = ldb_table_keys(bytes, n, list.tables[0].range, take, &got, why);
    if (r == LDB_GOOD)
        assert_true(got.n_keys == N_KEYS && !got.is_wrong);
    else
        assert_true(r == LDB_DAMAGED && why[0]);
    return r;
}

TEST(a_good_table_is_read)
{
    IS(check(table, n_table), LDB_GOOD);
    assert_string_equal(list.comparator, "leveldb.BytewiseComparator");
}

TEST(every_byte_of_a_table_counts)
{
    size_t n_refused = 0;
    static const uint8_t masks[] = {0x01, 0x80, 0xFF};
    for (size_t i = 0; i < n_table; i++)
        for (size_t m = 0; m < 3; m++) {
            memcpy(damaged, table, n_table);
            damaged[i] ^= masks[m];
            n_refused += check(damaged, n_table) != LDB_GOOD;
        }
    /* The metaindex and the footer's padding say nothing about keys. */
    printf("%zu bytes, %zu of %zu changes refused\n", n_table, n_refused, 3 * n_table);
    assert_true(n_refused > 3 * n_table - 3 * 80);
    for (size_t n = 0; n < n_table; n++) {
        IS(check(table, n), LDB_DAMAGED);
        memcpy(damaged, table, n_table);
        memset(damaged + n, 0, n_table - n);
        IS(check(damaged, n_table), LDB_DAMAGED);
    }
}

static int stop_at_seven(void *ctx, const void *key, size_t n_bytes)
{
    return ++*(int *)ctx == 7;
}

TEST(ranges_and_callbacks_are_heeded)
{
    int n = 0;
    struct got got = {0, 0};
    char why[LDB_WHY_BYTES];
    IS(ldb_table_keys(table, n_table, list.tables[0].range, stop_at_seven, &n, why),
       LDB_STOPPED);
    IS(n, 7);
    IS(ldb_table_keys(table, n_table, list.tables[1].range, take, &got, why),
       LDB_DAMAGED);
    assert_non_null(strstr(why, "MANIFEST"));
}

/* The list as it was, or an earlier state of it, for LevelDB ignores a record that was
 * not written to its end; or the list is refused. */
static enum ldb_result read_damaged(const uint8_t *bytes, size_t n)
{
    struct ldb_list l;
    char why[LDB_WHY_BYTES];
    write_file(manifest, bytes, n);
    enum ldb_result r = ldb_list_read(test_dir, &l, why);
    if (r != LDB_GOOD)
        assert_true(r == LDB_DAMAGED && why[0]);
    for (size_t i = 0; i < l.n; i++)
        assert_true(l.tables[i].number == list.tables[i].number &&
                    strcmp(l.tables[i].range, list.tables[i].range) == 0);
    ldb_list_free(&l);
    return r;
}

TEST(every_byte_of_the_manifest_counts)
{
    static uint8_t good[MOST];
    size_t n = read_file(manifest, good), n_refused = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(damaged, good, n);
        damaged[i] ^= (uint8_t)(i % 2 ? 0xFF : 1U << i % 8);
        n_refused += read_damaged(damaged, n) != LDB_GOOD;
    }
    for (size_t less = 0; less < n; less++)
        read_damaged(good, less);
    printf("%zu of %zu refused\n", n_refused, n);
    assert_true(n_refused > n * 9 / 10);
    IS(read_damaged(good, n), LDB_GOOD);
}

RUN_TESTS(setup, teardown)
