/* Stores with what SPEC.md 10.1 reserves, in the hands of code that does not know it:
 * every answer is MAYBE or right, every writer refuses, and no byte of what came later
 * is lost. */
#include "tests/unit/store_catalog/extensions.h"

static void copy_store(const char *from, const char *to)
{
    char command[2400];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s%s' '%s'", path_of(to),
             GOLDEN, from, path_of(to));
    OK(system(command));
}

/* ---- a store whose meta record forbids ---- */

static const uint64_t META_BITS =
    META_RO_PACKS | META_RO_RIBBONS | META_RO_MAPS | META_RO_LISTS | META_RO_COUNTED;

struct meta_bits {
    const char *store;
    uint8_t bytes[META_BYTES];
};

static int poke_meta(void *ctx)
{
    struct meta_bits *m = ctx;
    poke_catalog(m->store, "meta", "store", m->bytes, sizeof m->bytes);
    return 0;
}

/* By another process: one that has a catalog open must not open it once more. */
static void set_meta_bits(const char *store, uint64_t ro_compat)
{
    struct meta_bits bits = {.store = store};
    struct meta m = meta_in(store);
    m.ro_compat = ro_compat;
    meta_encode(&m, bits.bytes);
    in_child(poke_meta, &bits);
}

static void check_store_answers(const char *store, const char *name)
{
    STORE s = store_open(store);
    struct tamis_domain domain = tamis_store_domain(s);
    SNAPSHOT now = snapshot_of(s);
    struct answers list = {.in = open_answers(name)};
    size_t n = 0;
    for (; answers_next(&list); n++) {
        const char *segment = list.run.who;
        struct tamis_key k = tamis_key_of(&domain, list.key, list.key_bytes);
        enum tamis_reason why;
        struct tamis_target t = found_in(now, segment);
        tamis_snapshot_probe(now, &t, &k, &why);
        assert_string_equal(tamis_reason_name(why),
                            list.absent ? "ABSENT" : list.run.maybe);
        IS(tamis_snapshot_probe_all(now, &k, NULL, NULL), TAMIS_MAYBE);
    }
    fclose(list.in);
    assert_false(list.malformed);
    assert_true(n >= 1200);
}

/* And of what is in, nothing is absent: by number, as the files were made. */
static void check_store_keys(const char *store)
{
    static const struct {
        const char *segment;
        uint64_t first;
        enum tamis_reason reason;
    } kept[] = {{"loose", 0, TAMIS_HIT},      {"packed", 50, TAMIS_FILE_LOST},
                {"kept", 100, TAMIS_HIT},     {"cold", 150, TAMIS_UNREADABLE},
                {"listed", 200, TAMIS_HIT},   {"growing", 0, TAMIS_HIT},
                {"bare", 0, TAMIS_NO_FILTER}, {"counted", 0, TAMIS_NO_FILTER}};
    STORE s = store_open(store);
    struct tamis_domain domain = tamis_store_domain(s);
    SNAPSHOT now = snapshot_of(s);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        for (uint64_t k = 0; k < N_KEYS; k++) {
            char key[64];
            enum tamis_reason why;
            size_t n = key_number(key, (unsigned)(kept[i].first + k));
            struct tamis_key whole = tamis_key_of(&domain, key, n);
            struct tamis_target t = found_in(now, kept[i].segment);
            IS(tamis_snapshot_probe(now, &t, &whole, &why), TAMIS_MAYBE);
            IS(why, kept[i].reason);
        }
}

TEST(later_store_answers)
{
    copy_store("store-later", "later");
    uint64_t before = tree_of("later");
    check_store_answers("later", "store-later");
    check_store_keys("later");
    IS(tree_of("later"), before);
}

static bool refused(int code)
{
    return code == TAMIS_ERR_VERSION || code == TAMIS_ERR_READ_ONLY;
}

static int backup_to(struct tamis_store *s, const char *to)
{
    struct tamis_backup_report report;
    return tamis_store_backup(s, path_of(to), NULL, &report, NULL);
}

/* All that writes to a store, tried from the start. */
static void all_writers_are_refused(const char *store)
{
    struct tamis_store *s = store_open(store);
    struct tamis_edit *e = NULL;
    struct tamis_writer *w = NULL;
    uint64_t before = tree_of(store), n_orphans;
    struct tamis_store_info info = store_info(s);
    assert_true(info.read_only);
    assert_true(refused(tamis_edit_begin(s, NULL, &e, NULL)));
    assert_true(refused(tamis_store_writer(s, "growing", 7, NULL, &w, NULL)));
    assert_true(refused(tamis_store_confirm(s, NULL, NULL)));
    assert_true(refused(backup_to(s, "copy")));
    assert_false(exists(path_of("copy")));
    assert_null(e);
    assert_null(w);
    OK(tamis_store_orphans(s, NULL, NULL, &n_orphans, NULL)); /* only looks */
    tamis_store_close(s);
    struct tamis_repair_report report;
    assert_true(refused(tamis_store_repair(path_of(store), NULL, &report, NULL)));
    IS(tree_of(store), before);
}

TEST(later_store_is_not_written)
{
    copy_store("store-later", "later");
    all_writers_are_refused("later");
    for (unsigned bit = 0; bit < 5; bit++) { /* each of them alone */
        if (META_RO_COMPAT_KNOWN >> bit & 1)
            continue;
        set_meta_bits("later", UINT64_C(1) << bit);
        all_writers_are_refused("later");
    }
}

/* Begun while the store was one of 1.0: the bits come before the end. */
TEST(bits_come_while_others_write)
{
    copy_store("store-later", "later");
    set_meta_bits("later", 0);
    struct tamis_store *s = store_open("later");
    char key[64];
    /* No edit has begun yet: the first one of a store sweeps. */
    struct tamis_writer *w = writer_of(s, "growing");
    set_meta_bits("later", META_BITS);
    uint64_t before = tree_of("later/filters");
    struct tamis_edit *e = edit_new(s);
    IS(tree_of("later/filters"), before); /* nothing was swept */
    OK(tamis_edit_drop(e, "packed", 6, NULL));
    OK(tamis_edit_drop(e, "kept", 4, NULL));
    OK(tamis_edit_drop(e, "listed", 6, NULL));
    OK(put_keys(e, "new", 0, 100, NULL));
    IS(tamis_edit_commit(e, NULL), TAMIS_ERR_VERSION);
    e = edit_new(s);
    OK(tamis_edit_retain(e, NULL, 0, NULL));
    IS(tamis_edit_commit(e, NULL), TAMIS_ERR_VERSION);
    IS(tree_of("later/filters"), before);
    IS(tamis_store_confirm(s, NULL, NULL), TAMIS_ERR_VERSION);
    IS(backup_to(s, "copy"), TAMIS_ERR_VERSION);
    /* The writer's own file is not the catalog's: it may grow, and be behind there. */
    for (unsigned i = N_KEYS; i < 3000; i++) {
        int rc = tamis_writer_add_key(w, key, key_number(key, i));
        assert_true(rc == 0);
    }
    int rc = tamis_writer_commit(w, 3000, NULL);
    bool acknowledged = rc == 0;
    assert_true(acknowledged || rc == TAMIS_ERR_VERSION);
    tamis_writer_close(w);
    tamis_store_close(s);
    s = store_open("later");
    struct tamis_domain domain = tamis_store_domain(s);
    struct tamis_snapshot *now = snapshot_of(s);
    struct tamis_target t = found_in(now, "growing");
    for (unsigned i = 0; i < (acknowledged ? 3000 : N_KEYS); i++) {
        struct tamis_key k = tamis_key_of(&domain, key, key_number(key, i));
        IS(tamis_snapshot_probe(now, &t, &k, NULL), TAMIS_MAYBE);
    }
    tamis_snapshot_release(now);
    tamis_store_close(s);
    check_store_keys("later");
}

/* A catalog that repair would make anew: not where a meta record with a bit is left. */
TEST(a_lost_later_catalog_is_left)
{
    uint8_t page[4096];
    struct tamis_repair_report report;
    copy_store("store-later", "later");
    memset(page, 0x55, sizeof page); /* both of LMDB's own meta pages */
    file_poke(path_of("later/catalog.lmdb"), 0, page, sizeof page);
    file_poke(path_of("later/catalog.lmdb"), 4096, page, sizeof page);
    uint64_t before = tree_of("later");
    IS(tamis_store_repair(path_of("later"), NULL, &report, NULL), TAMIS_ERR_VERSION);
    IS(tree_of("later"), before);
}

/* Without any catalog nothing forbids. What cannot be read goes to quarantine, none of
 * it away, and the list proves nothing by itself until somebody confirms it. */
TEST(without_a_catalog_nothing_is_lost)
{
    struct tamis_repair_report report;
    copy_store("store-later", "later");
    size_t n = n_filter_files("later");
    OK(unlink(path_of("later/catalog.lmdb")));
    OK(tamis_store_repair(path_of("later"), NULL, &report, NULL));
    assert_true(report.rebuilt);
    assert_false(report.complete);
    IS(n_filter_files("later") + count_files(path_of("later/quarantine")), n);
    STORE s = store_open("later");
    struct tamis_domain domain = tamis_store_domain(s);
    SNAPSHOT now = snapshot_of(s);
    for (unsigned i = 0; i < 900; i++) {
        char key[64];
        uint8_t reasons[16];
        struct tamis_key k = tamis_key_of(&domain, key, key_number(key, i));
        memset(reasons, 0, sizeof reasons);
        IS(tamis_snapshot_probe_all(now, &k, NULL, reasons), TAMIS_MAYBE);
        for (size_t j = 0; j < tamis_snapshot_n_segments(now); j++)
            assert_int_not_equal(reasons[j], TAMIS_NO_REASON);
    }
}

/* ---- a store whose files speak for themselves ---- */

TEST(growing_store_answers)
{
    copy_store("store-growing", "growing");
    uint64_t before = tree_of("growing");
    check_store_answers("growing", "store-growing");
    IS(tree_of("growing"), before);
}

TEST(a_series_in_a_store_is_left)
{
    struct tamis_writer *w;
    struct tamis_repair_report report;
    copy_store("store-growing", "growing");
    struct tamis_store *s = store_open("growing");
    char file[900];
    snprintf(file, sizeof file, "%s",
             file_of(s, "growing", "series") + strlen(test_dir) + 1);
    uint64_t before = tree_of(file);
    IS(tamis_store_writer(s, "series", 6, NULL, &w, NULL), TAMIS_ERR_VERSION);
    tamis_store_close(s);
    tamis_store_repair(path_of("growing"), NULL, &report, NULL);
    IS(report.n_quarantined, 0);
    IS(tree_of(file), before);
    check_store_answers("growing", "store-growing");
}

/* Backups have the records and the files as they are, and the copy answers alike. */
TEST(growing_store_is_copied)
{
    copy_store("store-growing", "growing");
    struct tamis_store *s = store_open("growing");
    OK(backup_to(s, "copied"));
    tamis_store_close(s);
    check_store_answers("copied", "store-growing");
}

TEST(settled_in_a_store_is_written_on)
{
    copy_store("store-growing", "growing");
    STORE s = store_open("growing");
    struct tamis_writer *w = writer_of(s, "settled");
    write_on(w, 1500);
    OK(tamis_writer_close(w));
    check_present(file_of(s, "growing", "settled"), 1500);
}

RUN_TESTS(test_dir_create, test_dir_remove)
