/* Backup: the copy has what was acknowledged, and nothing by halves. */
#include "tests/support/shop/shop.h"
#include "tests/unit/store_backup/backup_support.h"

#define AGW_BARE     AGW "bare bare;"
#define HAS_AGW_BARE HAS_AGW "why bare 1 NO_FILTER;"

TEST_OF_SCENES(the_copy_of_a_quiet_store_is_the_same)
{
    char command[3000];
    scene("a quiet store");
    steps(AGW_BARE
          "live mark; backup b/; stays; is segments=4 files=3 damaged=0 left=0 seen=0");
    snprintf(command, sizeof command, "diff -r %s %s", path_of("s/filters"),
             path_of("b/filters"));
    OK(system(command));
    IS(count_files(path_of("b")), 2);
    {
        STORE b = store_open("b");
        struct tamis_store_info was = store_info(shop.store), is = store_info(b);
        assert_memory_equal(was.uuid, is.uuid, sizeof is.uuid);
        assert_true(was.domain.tag == is.domain.tag && is.complete &&
                    was.created == is.created);
        SNAPSHOT x = snapshot_of(shop.store), y = snapshot_of(b);
        IS(x->n, y->n);
        for (size_t i = 0; i < x->n; i++)
            assert_true(entry_is(x->entries[i], entry_value(y->entries[i])));
    }
    steps("use b;" HAS_AGW_BARE
          "why a 99999 ABSENT; why g 99999 ABSENT; why w 99999 ABSENT;"
          "grow g 5000 10 6; settled; mark;" /* it goes on */
          "use s; fails EXISTS backup b; fails ENOENT backup none/b; use b; stays");
}

static const char *file_in(const char *store, const char *original)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/filters%s", path_of(store), strrchr(original, '/'));
    return path;
}

/* Bytes that a writer will map have their space in the copy, even zeros (R1). */
TEST_IN_DIR(growing_filters_have_their_space)
{
    enum { MANY = 2 * 1000 * 1000 };
    struct tamis_growth growth = {.error = 0.01, .first_capacity = MANY};
    STORE s = store_new("s");
    EDIT(s, tamis_edit_put_growing(edit, "g", 1, &growth, NULL, NULL));
    grow_keys(s, "g", 0, 10, 1);
    backup(s);
    const char *copy = file_in("b", file_of(s, "s", "g"));
    struct commit c = commit_of(copy);
    uint64_t used = 3 * PAGE_BYTES;
    for (size_t i = 0; i < c.n_stages; i++)
        used += c.stages[i].length + floors_bytes(c.stages[i].length / PAGE_BYTES);
    struct stat st = stat_of(copy);
    assert_true((uint64_t)st.st_blocks * 512 >= used);
    assert_true((uint64_t)st.st_blocks * 512 < used + 1024 * 1024);
}

/* Files with holes before large stages have copies with holes. */
TEST_IN_DIR(holes_stay_holes)
{
    enum { HOLE = 1024 * 1024 };
    char path[1200];
    STORE s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    snprintf(path, sizeof path, "%s", path_of("old.tamis"));
    build_file(path, &d, NULL, NULL, NULL);
    open_a_hole(path);
    OK(attach_code(s, "h", path, NULL, NULL));
    backup(s);
    struct stat st = stat_of(file_in("b", file_of(s, "s", "h")));
    assert_true((uint64_t)st.st_size > (uint64_t)st.st_blocks * 512 + HOLE);
    STORE copy = store_open("b");
    IS(reason_of(copy, "h", 99), TAMIS_HIT);
}

TEST_OF_SCENES(what_serves_nobody_is_left_out)
{
    play("what serves nobody", AGW_BARE
         "put x 0 10 binding=X rank=9; growing y; flip a 100; lose x; copy y =old;"
         "grow y 0 2000 1; copy =old y;" /* older than the catalog knows */
         "cut g 9000; backup b; is left=4 segments=6; use b; files 1;"
         "why a 99999 NO_FILTER; why x 99999 NO_FILTER; why y 99999 NO_FILTER;"
         "why g 99999 NO_FILTER; record x rank=9 binding=X;" HAS_AGW_BARE "settled");
    /* As no edit makes them. One that grows has one place. */
    play("two records of one file",
         "put a 0 10; put b 0 10; growing g; grow g 100 10 1; growing h; grow h 100 10 "
         "1; set_record b uuid-of=a; set_record h uuid-of=g; backup b;"
         "is segments=4 left=1; seen 1; says another segment has the same file; use b;"
         "files 2; hits a 0 10; hits b 0 10; why b 99999 ABSENT; hits g 100 10;"
         "why g 99999 ABSENT; why h 99999 NO_FILTER");
}

/* ---- what this version does not know ---- */

static uint8_t strange_record[RECORD_MAX_BYTES];
static size_t strange_bytes;

static int make_strange(struct catalog_txn *t, void *ctx)
{
    struct piece value;
    OK(catalog_get(t, piece_of("a"), &value));
    memcpy(strange_record, value.at, strange_bytes = value.n);
    strange_record[offsetof(struct record_disk, ro_compat) + 5] |= 1;
    strange_record[offsetof(struct record_disk, created)] = 7;
    checksum_set(strange_record, strange_bytes, XXH3_64bits("a", 1));
    value.at = strange_record;
    return catalog_replace(t, piece_of("a"), value);
}

static int look_strange(struct catalog_txn *t, void *ctx)
{
    struct piece value;
    struct meta m;
    OK(catalog_meta_value(t, &value));
    assert_true(value.at[offsetof(struct meta_disk, unused)] == 0);
    OK(catalog_meta(t, &m));
    assert_true(m.compat == 0);
    OK(catalog_get(t, piece_of("a"), &value));
    IS(value.n, strange_bytes);
    assert_memory_equal(value.at, strange_record, value.n);
    return 0;
}

/* Bits of a record that say what no writer may drop go with their bytes. Should the
 * file be lost, the record still says so. Those of the store that may be ignored are
 * left behind, with their bytes. */
TEST_OF_SCENES(records_that_are_not_known_are_copied_as_they_are)
{
    for (int lost = 0; lost < 2; lost++) {
        scene("records that are not known");
        steps(AGW_BARE "mark_meta compat");
        OK(catalog_write(shop.store->catalog, NULL, 0, make_strange, NULL, NULL, NULL));
        steps("%s; backup b; is left=%d; use b; open",
              lost ? "live lose a" : "hold; release", lost);
        OK(catalog_read(shop.store->catalog, look_strange, NULL, NULL));
        steps(HAS_AGW_BARE "why a 50 %s", lost ? "FILE_LOST" : "HIT");
    }
}

/* It may mean another database, which a copy would lack. */
TEST_OF_SCENES(a_feature_of_the_store_is_not_copied_by_halves)
{
    for (int opened_later = 0; opened_later < 2; opened_later++) {
        scene("a feature of the store");
        steps(AGW_BARE "mark_meta ro_compat");
        if (opened_later) {
            steps("close; open");
            assert_true(shop.store->catalog->read_only);
        }
        steps("fails VERSION backup b; told feature; gone =b");
    }
}

RUN_TESTS(NULL, NULL)
