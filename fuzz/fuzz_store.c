/* A catalog with records made by hand: written by LMDB under names of the input's, some
 * of them over good ones, their checksums right. The store must open, list, answer,
 * verify and let them be dropped; a good segment beside them loses no key, and what
 * is not a record says UNREADABLE.
 *
 * Input: items of a length of the name, a length of the value (2), name, value. The
 * template holds "good" (sealed) and "open" (growing). */
#include "fuzz/fuzz.h"
#include "format/checksum.h"

#include <dirent.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 4, N_KEYS = 200, MAX_ITEMS = 16 };

static struct saved {
    char name[64]; /* within the store */
    uint8_t *bytes;
    size_t n;
} saved[MAX_FILES];
static size_t n_saved;
static char store_path[300];
static struct tamis_domain domain;
static uint8_t good_uuid[UUID_BYTES];

static struct tamis_key key_number(size_t i)
{
    static char text[24];
    int n = snprintf(text, sizeof text, "key-%04zu", i);
    return tamis_key_of(&domain, text, (size_t)n);
}

/* ---- the template ---- */

static void save(const char *name)
{
    char path[700];
    struct stat st;
    struct saved *s = &saved[n_saved++];
    MUST(n_saved <= MAX_FILES);
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s", store_path, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0 && fstat(fd, &st) == 0);
    s->n = (size_t)st.st_size;
    s->bytes = malloc(s->n);
    MUST(s->bytes && pread(fd, s->bytes, s->n, 0) == (ssize_t)s->n);
    close(fd);
}

static void save_filters(void)
{
    char path[400], name[300];
    snprintf(path, sizeof path, "%s/filters", store_path);
    DIR *d = opendir(path);
    MUST(d);
    for (const struct dirent *e; (e = readdir(d));) {
        snprintf(name, sizeof name, "filters/%s", e->d_name);
        if (e->d_name[0] != '.')
            save(name);
    }
    closedir(d);
}

static void make_template(void)
{
    struct tamis_store *s;
    struct tamis_edit *e;
    struct tamis_builder *b;
    struct tamis_snapshot *snapshot;
    struct tamis_segment_info info;
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    opt.growth.first_capacity = 50;
    fuzz_calm_io();
    snprintf(store_path, sizeof store_path, "%s/store", fuzz_dir());
    MUST(tamis_domain_init(&domain, 1, 8) == 0);
    MUST(tamis_store_create(store_path, &opt, NULL) == 0);
    MUST(tamis_store_open(store_path, &s, NULL) == 0);
    MUST(tamis_edit_begin(s, &e, NULL) == 0);
    MUST(tamis_edit_builder(e, "good", 4, 0, NULL, &b, NULL) == 0);
    for (size_t i = 0; i < N_KEYS; i++) {
        struct tamis_key key = key_number(i);
        MUST(tamis_builder_add_key(b, key.bytes, key.n_bytes) == 0);
    }
    MUST(tamis_edit_put(e, b, NULL) == 0);
    tamis_builder_free(b);
    MUST(tamis_edit_put_growing(e, "open", 4, NULL, NULL, NULL) == 0);
    MUST(tamis_edit_commit(e, NULL) == 0);
    MUST(tamis_snapshot_current(s, &snapshot, NULL) == 0);
    MUST(tamis_snapshot_segment(snapshot, 0, &info) == 0);
    memcpy(good_uuid, info.uuid, sizeof good_uuid);
    tamis_snapshot_release(snapshot);
    tamis_store_close(s);
    save("catalog.lmdb");
    save_filters();
    fuzz_remove(store_path);
}

static void restore_template(void)
{
    char path[700];
    MUST(mkdir(store_path, 0777) == 0);
    snprintf(path, sizeof path, "%s/filters", store_path);
    MUST(mkdir(path, 0777) == 0);
    for (size_t i = 0; i < n_saved; i++) {
        snprintf(path, sizeof path, "%s/%s", store_path, saved[i].name);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        MUST(fd >= 0);
        MUST(pwrite(fd, saved[i].bytes, saved[i].n, 0) == (ssize_t)saved[i].n);
        close(fd);
    }
}

/* ---- the records ---- */

struct item {
    const uint8_t *name, *value;
    size_t name_bytes, value_bytes;
};

static size_t parse(const uint8_t *data, size_t n, struct item items[MAX_ITEMS])
{
    size_t at = 0, k = 0;
    while (k < MAX_ITEMS && n - at >= 3) {
        struct item *i = &items[k];
        i->name_bytes = data[at];
        i->value_bytes = data[at + 1] + 256u * data[at + 2];
        at += 3;
        if (i->name_bytes > n - at || i->value_bytes > n - at - i->name_bytes)
            break;
        i->name = data + at;
        i->value = data + at + i->name_bytes;
        at += i->name_bytes + i->value_bytes;
        k += i->name_bytes > 0;
    }
    return k;
}

static void write_records(const struct item *items, size_t n)
{
    char path[400];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    snprintf(path, sizeof path, "%s/catalog.lmdb", store_path);
    MUST(mdb_env_create(&env) == 0);
    MUST(mdb_env_set_maxdbs(env, 8) == 0);
    MUST(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, 0666) == 0);
    MUST(mdb_txn_begin(env, NULL, 0, &txn) == 0);
    MUST(mdb_dbi_open(txn, "segments", 0, &dbi) == 0);
    for (size_t i = 0; i < n; i++) {
        MDB_val k = {items[i].name_bytes, (void *)(uintptr_t)items[i].name};
        MDB_val v = {items[i].value_bytes, (void *)(uintptr_t)items[i].value};
        MUST(mdb_put(txn, dbi, &k, &v, 0) == 0);
    }
    MUST(mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
}

/* ---- questions ---- */

static bool is_named(const struct item *items, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].name_bytes == strlen(name) &&
            memcmp(items[i].name, name, strlen(name)) == 0)
            return true;
    return false;
}

static bool key_of_good(const void *ctx, uint64_t i, struct tamis_key *out)
{
    (void)ctx;
    *out = key_number(i);
    return true;
}

/* A list that may lack segments proves nothing by a name alone (SPEC.md 13.1). */
static void check_good(struct tamis_store *store, bool complete)
{
    struct tamis_snapshot *s;
    struct tamis_target t;
    struct promised_keys keys = {key_of_good, NULL, N_KEYS};
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_snapshot_find(s, "good", 4, NULL, 0, 0, &t) == 0);
    expect_keys_of_segment("good", s, t.slot - 1, &keys,
                           complete ? TAMIS_HIT : TAMIS_MISMATCH);
    tamis_snapshot_release(s);
}

static void check_segment(struct tamis_snapshot *s, size_t i)
{
    struct tamis_segment_info info;
    struct tamis_filter_info filter_info;
    struct tamis_filter *f;
    struct tamis_diag diag;
    struct tamis_verify report;
    struct tamis_target t = tamis_snapshot_target(s, i);
    MUST(tamis_snapshot_segment(s, i, &info) == 0);
    MUST(memchr(info.file, 0, sizeof info.file));
    for (size_t k = 0; k < 20; k++) {
        enum tamis_reason why;
        struct tamis_key key = key_number(k * 31);
        bool absent = tamis_snapshot_probe(s, &t, &key, &why) == TAMIS_ABSENT;
        MUST(absent == (why == TAMIS_NO_REASON));
        MUST(info.state || why == TAMIS_UNREADABLE);
    }
    int rc = tamis_snapshot_filter(s, i, &f, &diag);
    MUST((rc == 0) == (f != NULL) && (rc == 0 || diag.what[0]));
    if (rc == 0) {
        MUST(tamis_filter_info(f, &filter_info) == 0);
        MUST(tamis_filter_verify(f, &report, NULL) == 0);
    }
}

/* The same record, by the decoder alone. */
static void check_item(struct tamis_snapshot *s, const struct item *i)
{
    struct record r;
    struct tamis_target t;
    struct verdict v =
        record_decode(i->value, i->value_bytes, i->name, i->name_bytes, &r);
    int rc = tamis_snapshot_find(s, i->name, i->name_bytes, NULL, 0, 0, &t);
    MUST(rc == verdict_error(v.code));
}

static void drop_all_but_good(struct tamis_store *store)
{
    struct tamis_edit *e;
    struct tamis_snapshot *s;
    const struct tamis_name good = {"good", 4};
    MUST(tamis_edit_begin(store, &e, NULL) == 0);
    MUST(tamis_edit_retain(e, &good, 1, NULL) == 0);
    MUST(tamis_edit_commit(e, NULL) == 0);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_snapshot_n_segments(s) == 1);
    tamis_snapshot_release(s);
}

static void check_writers(struct tamis_store *store, const struct item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tamis_writer *writer;
        struct tamis_diag diag;
        int rc = tamis_store_writer(store, items[i].name, items[i].name_bytes, &writer,
                                    &diag);
        MUST((rc == 0) == (writer != NULL) && (rc == 0 || diag.what[0]));
        if (rc == 0) {
            MUST(tamis_writer_add_key(writer, "k", 1) == 0);
            tamis_writer_close(writer);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct item items[MAX_ITEMS];
    struct tamis_store *store;
    struct tamis_snapshot *s;
    struct tamis_store_info info;
    if (!n_saved)
        make_template();
    fuzz_restart();
    size_t n_items = parse(data, n, items);
    restore_template();
    write_records(items, n_items);
    bool good = !is_named(items, n_items, "good");

    MUST(tamis_store_open(store_path, &store, NULL) == 0);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_store_info(store, &info, NULL) == 0);
    MUST(info.n_segments == tamis_snapshot_n_segments(s));
    for (size_t i = 0; i < info.n_segments; i++)
        check_segment(s, i);
    if (n_items) /* the last one: nothing was written over it */
        check_item(s, &items[n_items - 1]);
    if (good)
        check_good(store, true);
    check_writers(store, items, n_items);
    tamis_snapshot_release(s);
    drop_all_but_good(store);
    if (good) {
        MUST(tamis_store_info(store, &info, NULL) == 0);
        check_good(store, info.complete);
        MUST(tamis_store_confirm_complete(store, NULL) == 0);
        check_good(store, true);
    }
    tamis_store_close(store);
    fuzz_remove(store_path);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    static const uint8_t odd[] = "./\n\xff\x80\\gopen";
    struct item items[MAX_ITEMS];
    uint64_t rng = seed;
    size_t k = parse(data, n, items);
    if (!k || rng_below(&rng, 6) == 0)
        return LLVMFuzzerMutate(data, n, max);
    const struct item *i = &items[rng_below(&rng, k)];
    uint8_t *name = data + (i->name - data), *value = data + (i->value - data);
    if (i->value_bytes < RECORD_HEAD_BYTES + 8 || rng_below(&rng, 8) == 0)
        name[rng_below(&rng, i->name_bytes)] = odd[rng_below(&rng, sizeof odd)];
    else if (rng_below(&rng, 8) == 0)
        memcpy(value + offsetof(struct record_disk, uuid), good_uuid, UUID_BYTES);
    else
        mutate_record(value, record_fields, n_record_fields, &rng);
    if (i->value_bytes >= 8 && rng_below(&rng, 16))
        checksum_set(value, i->value_bytes, XXH3_64bits(name, i->name_bytes));
    return n;
}
