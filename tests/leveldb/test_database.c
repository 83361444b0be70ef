/* The policy inside real databases: compactions, several versions, tombstones, keys of
 * any bytes; what LevelDB hands it; and tables whose filters are damaged on the disk,
 * where LevelDB's own policy shows that the damage reaches who reads. */
#include <fcntl.h>
#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>
#include "../support/unit/dir.h"

#include "tamis_leveldb.h"

enum { N_KEYS = 20000, KEY_BYTES = 12 };

/* ---- a policy around another, which counts what passes through ---- */

struct seen {
    void *state; /* NULL: LevelDB's own policy, not watched */
    size_t n_filters, n_keys, n_asked, n_absent, n_wrong_keys;
    char first[4096]; /* the first filter */
    size_t first_bytes;
};

static bool is_key(const char *key, size_t n)
{
    return n == KEY_BYTES && (key[0] == 'k' || (uint8_t)key[0] == 0xC3);
}

static char *watch_create(void *ctx, const char *const *keys, const size_t *sizes,
                          int n, size_t *n_bytes)
{
    struct seen *s = ctx;
    char *filter = tamis_leveldb_create(s->state, keys, sizes, n, n_bytes);
    for (int i = 0; i < n; i++)
        s->n_wrong_keys += !is_key(keys[i], sizes[i]);
    s->n_keys += (size_t)n;
    s->n_filters++;
    if (*n_bytes <= sizeof s->first) {
        memcpy(s->first, filter, *n_bytes);
        s->first_bytes = *n_bytes;
    }
    return filter;
}

static uint8_t watch_match(void *ctx, const char *key, size_t n, const char *filter,
                           size_t n_bytes)
{
    struct seen *s = ctx;
    uint8_t may = tamis_leveldb_may_match(s->state, key, n, filter, n_bytes);
    s->n_asked++;
    s->n_absent += !may;
    s->n_wrong_keys += !is_key(key, n);
    return may;
}

static const char *watch_name(void *ctx)
{
    struct seen *s = ctx;
    return tamis_leveldb_name(s->state);
}

static void watch_nothing(void *ctx)
{
}

/* ---- a database ---- */

struct db {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_readoptions_t *reads;
    leveldb_writeoptions_t *writes;
    leveldb_filterpolicy_t *policy;
};

static void good(char *error)
{
    if (error)
        fail_msg("LevelDB: %s", error);
}

/* Takes over the policy; NULL: none. */
static struct db open_db(leveldb_filterpolicy_t *policy)
{
    struct db d = {NULL, leveldb_options_create(), leveldb_readoptions_create(),
                   leveldb_writeoptions_create(), policy};
    char *error = NULL;
    leveldb_options_set_create_if_missing(d.options, 1);
    leveldb_options_set_write_buffer_size(d.options, 256 << 10); /* many tables */
    leveldb_options_set_compression(d.options, leveldb_no_compression); /* see below */
    if (policy)
        leveldb_options_set_filter_policy(d.options, policy);
    d.db = leveldb_open(d.options, path_of("db"), &error);
    good(error);
    return d;
}

static void close_db(struct db *d)
{
    leveldb_close(d->db);
    leveldb_options_destroy(d->options);
    leveldb_readoptions_destroy(d->reads);
    leveldb_writeoptions_destroy(d->writes);
    if (d->policy)
        leveldb_filterpolicy_destroy(d->policy);
}

static leveldb_filterpolicy_t *watched(struct seen *s)
{
    return leveldb_filterpolicy_create(s, watch_nothing, watch_create, watch_match,
                                       watch_name);
}

/* Every second key begins with a byte beyond 0x7f; odd numbers are never put. */
static void key_of(char key[KEY_BYTES + 1], unsigned i)
{
    memcpy(key, i % 4 == 0 ? "k\xff" : "\xc3\xa9", 2);
    snprintf(key + 2, KEY_BYTES - 1, "%010u", i);
}

static void put(struct db *d, unsigned i, char letter)
{
    char key[KEY_BYTES + 1], value[100], *error = NULL;
    key_of(key, i);
    memset(value, letter, sizeof value);
    leveldb_put(d->db, d->writes, key, KEY_BYTES, value, sizeof value, &error);
    good(error);
}

static void drop(struct db *d, unsigned i)
{
    char key[KEY_BYTES + 1], *error = NULL;
    key_of(key, i);
    leveldb_delete(d->db, d->writes, key, KEY_BYTES, &error);
    good(error);
}

/* The first letter of its value; 0: not found. */
static char get(struct db *d, unsigned i)
{
    char key[KEY_BYTES + 1], *error = NULL;
    size_t n;
    key_of(key, i);
    char *value = leveldb_get(d->db, d->reads, key, KEY_BYTES, &n, &error);
    good(error);
    char letter = value ? value[0] : 0;
    leveldb_free(value);
    return letter;
}

static void fill(struct db *d)
{
    for (unsigned i = 0; i < N_KEYS; i++)
        put(d, 2 * (i * 7919 % N_KEYS), 'a');
    leveldb_compact_range(d->db, NULL, 0, NULL, 0);
}

static size_t count_lost(struct db *d)
{
    size_t n_lost = 0;
    for (unsigned i = 0; i < N_KEYS; i++)
        n_lost += get(d, 2 * i) != 'a';
    return n_lost;
}

TEST_IN_DIR(a_database_loses_nothing)
{
    struct seen seen = {.state = tamis_leveldb_state_new(0.01, 0)};
    struct db d = open_db(watched(&seen));
    const leveldb_snapshot_t *before;
    fill(&d);
    IS(count_lost(&d), 0);
    /* Versions that a snapshot keeps, and deletions in younger tables than what they
     * delete: a filter that lacked them would bring the old value back. */
    before = leveldb_create_snapshot(d.db);
    for (unsigned i = 0; i < N_KEYS; i++) {
        if (i % 3 == 0)
            drop(&d, 2 * i);
        if (i % 3 == 1)
            put(&d, 2 * i, 'b');
    }
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < N_KEYS; i++)
            IS(get(&d, 2 * i), i % 3 == 0 ? 0 : i % 3 == 1 ? 'b' : 'a');
        leveldb_readoptions_set_snapshot(d.reads, before);
        IS(count_lost(&d), 0);
        leveldb_readoptions_set_snapshot(d.reads, NULL);
        leveldb_compact_range(d.db, NULL, 0, NULL, 0);
    }
    leveldb_release_snapshot(d.db, before);
    close_db(&d);
    /* Filters were made, of user keys, and they answered. */
    seen.n_asked = seen.n_absent = 0;
    d = open_db(watched(&seen));
    for (unsigned i = 0; i < N_KEYS; i++)
        IS(get(&d, 2 * i + 1), 0);
    IS(seen.n_wrong_keys, 0);
    assert_true(seen.n_filters > 100 && seen.n_keys > N_KEYS);
    assert_true(seen.n_asked > N_KEYS / 2);
    assert_true((double)seen.n_absent > 0.985 * (double)seen.n_asked);
    printf("%zu filters of %zu keys, %zu asked, %zu absent\n", seen.n_filters,
           seen.n_keys, seen.n_asked, seen.n_absent);
    close_db(&d);
    tamis_leveldb_state_free(seen.state);
}

TEST_IN_DIR(other_policies_read_it)
{
    struct db d = open_db(tamis_leveldb_policy(0.01, 0));
    fill(&d);
    close_db(&d);
    leveldb_filterpolicy_t *const policies[] = {NULL, tamis_leveldb_policy(0.001, 0),
                                                tamis_leveldb_policy(0.01, 77),
                                                leveldb_filterpolicy_create_bloom(10)};
    for (size_t i = 0; i < 4; i++) {
        d = open_db(policies[i]);
        IS(count_lost(&d), 0);
        close_db(&d);
    }
}

/* Calls fn on the bytes of every table. Returns how many there are. */
typedef void table_fn(char *bytes, size_t n, void *ctx);

static size_t change_tables(table_fn *fn, void *ctx)
{
    size_t n_tables = 0;
    char name[600];
    struct dirent *e;
    DIR *list = opendir(path_of("db"));
    assert_non_null(list);
    while ((e = readdir(list)) != NULL) {
        if (!strstr(e->d_name, ".ldb"))
            continue;
        snprintf(name, sizeof name, "%s/%s", path_of("db"), e->d_name);
        FILE *f = fopen(name, "r+b");
        assert_non_null(f);
        char *bytes = malloc(8 << 20);
        size_t n = fread(bytes, 1, 8 << 20, f);
        fn(bytes, n, ctx);
        rewind(f);
        IS(fwrite(bytes, 1, n, f), n);
        IS(fclose(f), 0);
        free(bytes);
        n_tables++;
    }
    closedir(list);
    return n_tables;
}

struct change {
    const char *filter;
    size_t n_bytes, at, n_found;
    uint8_t mask;
};

static void change_filter(char *bytes, size_t n, void *ctx)
{
    struct change *c = ctx;
    char *at = memmem(bytes, n, c->filter, c->n_bytes);
    if (at) {
        at[c->at] = (char)(at[c->at] ^ c->mask);
        c->n_found++;
    }
}

/* Each byte of a filter where it lies in its table, changed in two ways. */
TEST_IN_DIR(damaged_filters_lose_no_key)
{
    struct seen seen = {.state = tamis_leveldb_state_new(0.01, 0)};
    struct db d = open_db(watched(&seen));
    char changed[4096];
    fill(&d);
    close_db(&d);
    assert_true(seen.first_bytes >= 69);
    for (size_t at = 0; at < seen.first_bytes; at++) {
        struct change c = {seen.first, seen.first_bytes, at, 0,
                           (uint8_t)(at % 2 ? 0xFF : 1U << at % 8)};
        change_tables(change_filter, &c);
        IS(c.n_found, 1);
        d = open_db(watched(&seen));
        seen.n_absent = 0;
        for (unsigned i = at % 16; i < N_KEYS; i += at % 8 ? 16 : 1)
            IS(get(&d, 2 * i), 'a');
        close_db(&d);
        memcpy(changed, seen.first, seen.first_bytes);
        changed[at] = (char)(changed[at] ^ c.mask);
        c.filter = changed;
        change_tables(change_filter, &c); /* as it was */
        IS(c.n_found, 2);
    }
    tamis_leveldb_state_free(seen.state);
}

static uint64_t varint(const uint8_t **at)
{
    uint64_t v = 0;
    unsigned shift = 0;
    do
        v |= (uint64_t)(**at & 0x7F) << shift;
    while (shift += 7, *(*at)++ & 0x80);
    return v;
}

/* All filters of a table made zeros, but LevelDB's offsets of them not: the metaindex
 * block says behind the policy's name where its filter block is, and the last word of
 * this block how many bytes of filters it begins with. A filter of LevelDB's own ends
 * with the number of its probes, and 0 probes all match: that one stays. */
enum { BLOOM_PROBES = 6 };

static void clear_filters(char *bytes, size_t n, void *ctx)
{
    const char *name = ctx;
    const uint8_t *at = memmem(bytes, n, name, strlen(name));
    assert_non_null(at);
    at += strlen(name);
    uint64_t offset = varint(&at), size = varint(&at);
    const uint8_t *last = (uint8_t *)bytes + offset + size - 5;
    size_t n_filters = last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16;
    assert_true(n_filters > 1000 && n_filters < size);
    for (size_t i = 0; i < n_filters; i++)
        if (bytes[offset + i] != BLOOM_PROBES)
            bytes[offset + i] = 0;
}

static size_t lost_of_cleared(leveldb_filterpolicy_t *(*policy)(void), const char *name)
{
    struct db d = open_db(policy());
    fill(&d);
    close_db(&d);
    assert_true(change_tables(clear_filters, (void *)(uintptr_t)name) >= 1);
    d = open_db(policy());
    size_t n = count_lost(&d);
    close_db(&d);
    return n;
}

static leveldb_filterpolicy_t *ours(void)
{
    return tamis_leveldb_policy(0.01, 0);
}

static leveldb_filterpolicy_t *theirs(void)
{
    return leveldb_filterpolicy_create_bloom(10);
}

TEST_IN_DIR(cleared_filters_lose_no_key)
{
    IS(lost_of_cleared(ours, "tamis.blocks1.0000000000000000"), 0);
}

/* Else the test above would prove nothing. */
TEST_IN_DIR(damage_reaches_who_reads)
{
    size_t n = lost_of_cleared(theirs, "leveldb.BuiltinBloomFilter2");
    printf("LevelDB's own policy lost %zu of %d keys\n", n, N_KEYS);
    assert_true(n > N_KEYS / 2);
}

RUN_TESTS(NULL, NULL)
