/* The list of a store's packs against its other parts: columns that are listed, named
 * by records, or dead, and what an edit does with each. No state of one of them may
 * pass for another's (SPEC.md 17.4, 17.5). */
#include "tests/support/shop/shop.h"

#include "lib/store/catalog/listing.h"

/* ---- values of the database of packs, put back ---- */

/* The pack record and the first chunk, of a store with one pack. */
static struct kept {
    uint8_t key[CHUNK_KEY_BYTES], value[CHUNK_MAX_BYTES];
    size_t key_bytes, n;
} kept[2];

static int take_row(void *ctx, struct piece key, struct piece value)
{
    size_t *at = ctx;
    assert_true(*at < 2 && key.n <= sizeof kept[0].key && value.n <= CHUNK_MAX_BYTES);
    struct kept *r = &kept[(*at)++];
    memcpy(r->key, key.at, r->key_bytes = key.n);
    memcpy(r->value, value.at, r->n = value.n);
    return 0;
}

static int take_rows(struct catalog_txn *t, void *ctx)
{
    return catalog_each_in(t, CATALOG_PACKS, take_row, ctx);
}

/* A store with one pack, whose list is kept as it is now. */
static void packed_scene(const char *name, unsigned n)
{
    size_t n_rows = 0;
    scene(name);
    steps("many %u 300; pack", n);
    OK(catalog_read(shop.store->catalog, take_rows, &n_rows, NULL));
    IS(n_rows, 2);
}

/* Puts a row; without a value deletes it. */
static int put_row(struct catalog_txn *t, void *ctx)
{
    const struct kept *r = ctx;
    struct piece key = {r->key, r->key_bytes}, value = {r->value, r->n};
    return r->n ? catalog_put_in(t, CATALOG_PACKS, key, value)
                : catalog_delete_in(t, CATALOG_PACKS, key);
}

static void put_back(struct kept *row)
{
    OK(catalog_write(opened()->catalog, NULL, 0, put_row, row, NULL, NULL));
}

TEST_OF_SCENES(parts_of_an_older_list)
{
    static const char *const what[] = {"an older pack record", "an older chunk",
                                       "a chunk behind the last one", "no pack record"};
    for (size_t i = 0; i < 4; i++) {
        struct kept *row = &kept[i == 1 || i == 2];
        packed_scene(what[i], 20);
        steps("drop s2; why s3 3000 HIT 999 ABSENT; all 999 ABSENT");
        row->key[CHUNK_KEY_BYTES - 1] = i == 2;
        row->n *= i < 3;
        put_back(row);
        steps("backup copy; is left=0 files=1; all 999 MAYBE; complete 0; why s3 3000 "
              "UNREADABLE; why s2 2000 UNREADABLE; fails MISMATCH confirm; fails "
              "MISMATCH confirm force; repair; is anew=0; says did not agree; complete "
              "0; why s3 3000 MISMATCH; why s2 2000 UNKNOWN_SEGMENT; settled");
    }
}

static void put_back_all(const struct kept rows[2])
{
    memcpy(kept, rows, sizeof kept);
    put_back(&kept[0]);
    put_back(&kept[1]);
}

/* Changes the tombstones without closing the store. */
static void bury_as_in(const char *file)
{
    file_copy(path_at(file), path_at("d"));
}

/* A process has a snapshot. A newer one takes over nothing that has changed since. */
TEST_OF_SCENES(what_a_snapshot_has_is_not_what_is)
{
    struct kept without_s2[2], all[2];
    size_t n = 0;
    packed_scene("another list of as many segments", 20);
    memcpy(all, kept, sizeof all);
    steps("call d dead; copy d =d; drop s2; copy d =e; all 999 ABSENT");
    OK(catalog_read(opened()->catalog, take_rows, &n, NULL));
    memcpy(without_s2, kept, sizeof kept);
    put_back_all(all);
    bury_as_in("=d");
    steps("why s2 2000 HIT; drop s3; why s3 3000 UNKNOWN_SEGMENT");
    put_back_all(without_s2);
    bury_as_in("=e");
    steps("why s3 3000 HIT 999 ABSENT; all 3000 MAYBE; why s2 2000 UNKNOWN_SEGMENT");
    packed_scene("tombstones of later", 20);
    memcpy(all, kept, sizeof all);
    steps("call d dead; copy d =d; drop s2; copy d =e; copy =d d");
    put_back_all(all);
    steps("why s2 2000 HIT 999 ABSENT");
    bury_as_in("=e");
    steps("put z 9000 50; why s2 999 FILE_LOST; why s3 3000 HIT 999 ABSENT");
    bury_as_in("=d");
    steps("put y 9100 50; why s2 2000 HIT 999 ABSENT");
}

/* An older leaf of records, with as many columns: of a segment that was dropped. */
TEST_OF_SCENES(records_of_another_name)
{
    uint8_t value[RECORD_MAX_BYTES];
    scene("another record, as many names");
    steps("many 3 300; pack; set_record s1; why s0 0 HIT");
    struct record r = record_in(opened(), "s1");
    steps("drop s1; set_record s2; all 999 ABSENT; close");
    poke_catalog("s", "segments", "s2", NULL, 0);
    poke_catalog("s", "segments", "s1", value, record_encode(&r, "s1", 2, value));
    steps("why s0 0 UNREADABLE; all 999 MAYBE; fails MISMATCH confirm; repair;"
          "says did not agree; settled");
}

/* Repair finds an older pack record, and lists the columns anew: none that is another
 * pack's segment, or a record's. */
TEST_OF_SCENES(columns_that_are_listed_anew)
{
    struct kept other = {.key_bytes = UUID_BYTES, .n = 1};
    const char *rest;
    bool dead;
    uint8_t value[RECORD_MAX_BYTES];
    packed_scene("a column that was dropped", 3);
    steps("call d dead; copy d =d; drop s0; put s0 5000 50; pack s0; copy =d d");
    put_back(&kept[0]);
    steps("repair; is anew=0; says did not agree; settled; segments 3; complete 0;"
          "confirm; has s0 5000 50");
    /* The other pack's list is bad, too, and that pack cannot be read. */
    packed_scene("a pack that waits", 3);
    steps("call p pack; call d dead; copy d =d; drop s0; put s0 5000 50; pack s0;"
          "move p =p; lose d; call q pack; move =p p; copy =d d");
    assert_true(
        filter_name_parse(strrchr(path_at("q"), '/') + 1, other.key, &dead, &rest));
    put_back(&other);
    put_back(&kept[0]);
    steps("unreadable q; repair; says one that cannot be read may have; segments 0;"
          "why s0 0 UNREADABLE; unreadable; call_dead e q; move e =e; repair; "
          "says one that cannot be read may have; segments 0;"
          "move =e e; repair; is anew=0; settled; segments 3;"
          "confirm force; why s0 5000 NO_FILTER; why s1 1000 HIT");
    packed_scene("a newer tamis counts its record", 3);
    steps("set_record s1");
    struct record r = record_in(opened(), "s1");
    steps("newer_record s1");
    put_back(&kept[1]);
    steps("repair; says did not agree; close");
    poke_catalog("s", "segments", "s1", value, record_encode(&r, "s1", 2, value));
    steps("confirm; every 3 HIT");
    /* A segment that is not found by name still has its name. */
    packed_scene("the root of a pack's index", 120);
    steps("call p pack; call d dead; copy d =d; drop s0; put s0 7000000 50; pack s0;"
          "copy =d d");
    long root = (long)stat_of(path_at("p")).st_size / PAGE_BYTES - 2;
    steps("zero p %ld; lose catalog; repair; is anew=1; confirm force; why s0 7000000 "
          "NO_FILTER; none_lost 120",
          root);
    for (int page = 1; page < 4; page++) { /* from the end */
        packed_scene("an entry that cannot be read", 3);
        long n = (long)stat_of(path_at("pack")).st_size / PAGE_BYTES;
        steps("set_record s1; zero pack %ld", n - page);
        put_back(&kept[0]);
        steps("repair; is anew=0; settled; none_lost 3");
    }
    packed_scene("nobody can tell whose it is", 3);
    long end = (long)stat_of(path_at("pack")).st_size / PAGE_BYTES;
    steps(
        "set_record s1; set_record s2 place-of=s1; zero pack %ld; repair; says another "
        "record names its column; confirm; why s1 1000 NO_FILTER; why s2 2000 "
        "NO_FILTER; repair; is anew=0; none_lost 3",
        end - 1);
}

/* An older list of one pack is back, and the list is not confirmed. */
TEST_OF_SCENES(a_name_in_two_packs)
{
    scene("a name in two packs");
    steps("put x 0 100 binding=B; put y 5000 100; pack; call d dead; copy d =d");
    size_t n = 0;
    OK(catalog_read(opened()->catalog, take_rows, &n, NULL));
    steps("replace x 9000 50 binding=B; pack x; meta complete=0; copy =d d");
    put_back(&kept[0]);
    put_back(&kept[1]);
    steps("bound y - 5000 MISMATCH; bound x B 9000 DAMAGED 0 DAMAGED");
}

/* A new catalog names it again, or there is none: an edit would sweep what it has. */
TEST_OF_SCENES(a_pack_that_a_rebuild_cannot_read)
{
    packed_scene("an I/O error in a rebuild", 3);
    steps("drop s1");
    put_back(&kept[0]);
    steps("lose_meta; unreadable pack; fails EIO repair; unreadable; repair; is anew=1;"
          "says did not agree; segments 2; bare new; there pack; none_lost 3");
}

/* A packed scene, whose pack record is refused after these steps. */
static void refused_scene(const char *name, unsigned n, const char *before)
{
    packed_scene(name, n);
    steps("%s", before);
    kept[0].value[3] ^= 1;
    put_back(&kept[0]);
}

TEST_OF_SCENES(a_good_pack_is_not_given_up)
{
    refused_scene("its files are good", 3, "close");
    steps("backup copy; is left=0 damaged=1 files=1; only; told segments stay "
          "listed; fails MISMATCH confirm force; told repair the store first; "
          "repair; says did not agree; confirm; segments 3; every 3 HIT; use copy; "
          "repair; confirm; segments 3; every 3 HIT");
    refused_scene("records alone name its columns", 1, "set_record s0");
    steps("repair; says did not agree; is quarantined=0; confirm; every 1 HIT");
    refused_scene(
        "a lost one keeps repair from it", 3,
        "call d dead; put y 5000 50; pack y; move d =d; lose pack; move =d d");
    steps("repair; says left alone; fails MISMATCH confirm; told if repair leaves it "
          "alone; confirm force; told 1 lost pack is; complete 0; repair; says did "
          "not agree; confirm; segments 3; every 3 HIT");
    for (int i = 0; i < 2; i++) {
        refused_scene("its files are bad", 3, i ? "zero pack 0" : "flip dead 50");
        steps("repair; says left alone; fails MISMATCH confirm; told only force; "
              "confirm force; told 1 lost pack is; segments 0");
    }
}

/* ---- how many ---- */

/* Pack records without chunks: they name no column that a lookup would ask for. */
static int put_packs(struct catalog_txn *t, void *ctx)
{
    uint8_t uuid[UUID_BYTES] = {7}, value[LISTING_BYTES];
    const struct listing l = {.n_columns = PACK_MAX_COLUMNS, .n_overridden = 1};
    for (unsigned i = *(unsigned *)ctx; i < 256; i++) {
        uuid[1] = (uint8_t)i;
        listing_encode(&l, uuid, value);
        OK(catalog_put_in(t, CATALOG_PACKS, (struct piece){uuid, sizeof uuid},
                          (struct piece){value, sizeof value}));
    }
    return 0;
}

TEST_OF_SCENES(more_columns_than_numbers)
{
    scene("more columns than numbers");
    steps("bare a");
    for (unsigned first = 1; first < 2; first--) {
        OK(catalog_write(opened()->catalog, NULL, 0, put_packs, &first, NULL, NULL));
        steps(first ? "bare b" : "fails TOO_LARGE bare c; told can number");
    }
}

/* ---- a bit and a name ---- */

static int list_twice(struct catalog_txn *t, void *ctx)
{
    struct listings l;
    struct found f;
    (void)ctx;
    OK(listings_load(&l, t));
    OK(listings_lookup(&l, piece_of("s1"), &f));
    uint32_t column = le32_get(f.column.disk.column);
    IS(listed_set(&l, f.pack, column, true), TAMIS_ERR_DAMAGED);
    IS(listed_set(&l, f.pack, f.pack->now.n_columns, true), TAMIS_ERR_DAMAGED);
    OK(listed_set(&l, f.pack, column, false));
    IS(listed_set(&l, f.pack, column, false), TAMIS_ERR_DAMAGED);
    IS(listed_name(&l, f.pack, column_name(&f.column), column, false),
       TAMIS_ERR_DAMAGED);
    listings_free(&l);
    return 0;
}

TEST_OF_SCENES(a_bit_is_set_once)
{
    scene("a bit");
    steps("many 3 300; pack");
    OK(catalog_read(shop.store->catalog, list_twice, NULL, NULL));
    steps("fails EXISTS put s1 0 10; fails EXISTS bare s1; replace s1 7000 10; "
          "segments 3;"
          "why s1 7000 HIT");
}

/* ---- columns that records name ---- */

TEST_OF_SCENES(a_named_column_is_alive)
{
    static const struct scene_row alive[] = {
        {"the sweep leaves it", "many 3 300; pack; set_record s1; copy catalog =old",
         "bare new; close; copy =old catalog",
         "packed s1; segments 3; why s1 1000 HIT; all 999 ABSENT"},
        {"dead, it is lost",
         "many 3 300; pack; set_record s1; copy catalog =old; drop s1; close",
         "copy =old catalog", "why s1 1000 FILE_LOST 999 FILE_LOST; all 999 MAYBE"},
        {"dead and listed, it is lost", "many 3 300; pack; copy catalog =old; drop s1",
         "copy =old catalog", "why s1 1000 FILE_LOST 999 FILE_LOST; all 999 MAYBE"},
        {"refused, it goes, and its pack agrees",
         "many 4 300; pack; set_record s1 rotten=1; set_record s3 rotten=1",
         "begin; drop s1; drop s3; commit; complete 0; confirm",
         "segments 2; why s0 0 HIT; all 999 ABSENT; repair; is anew=0; complete 1"},
        {"refused, they go one after the other",
         "many 4 300; pack; set_record s1 rotten=1; set_record s3 rotten=1",
         "drop s1; complete 0; drop s3; complete 0; confirm",
         "segments 2; why s0 0 HIT; all 999 ABSENT; repair; is anew=0; complete 1"},
        {"while one is refused, files of a pack that is empty stay",
         "many 1 300; pack; put y 5000 10; call p pack; call d dead; set_record y "
         "rotten=1",
         "drop s0; there p d; drop y", "bare new; gone p d"},
        {"refused, it may not be the one that is counted",
         "many 4 300; pack; set_record s1 rotten=1; put y 5000 10; set_record y "
         "rotten=1;"
         "call d dead; copy d =d",
         "drop y", "same d =d; complete 0; segments 4"},
        {"of a newer tamis, it was not the one that is missing",
         "many 4 300; pack; set_record s1; newer_record y; move_record s1", "drop y",
         "complete 0; all 1001 MAYBE"},
        {"repair leaves it to the newer tamis",
         "many 3 300; pack; set_record s1; newer_record s1", "repair; is rebuilt=0",
         "complete 1; why s0 0 HIT; all 999 MAYBE"},
        {"named twice, it goes to the one that its entry means",
         "many 3 300; pack; set_record s1; set_record s2 place-of=s1",
         "repair; says another filter in its column; says did not agree; confirm",
         "segments 3; why s1 1000 HIT; why s2 2000 NO_FILTER; repair; is anew=0"},
        {"without tombstones nobody knows what a list should be",
         "many 3 300; pack; set_record s1 place-of=s2", "lose dead",
         "repair; says they cannot be read: left alone; fails MISMATCH confirm; told "
         "only force; confirm force; told 1 lost pack; segments 1; why s1 1 NO_FILTER"},
        {"another's column is not buried",
         "many 3 300; pack; set_record s1 place-of=s2; call d dead; copy d =d",
         "fails DAMAGED drop s1", "same d =d; why s2 2000 UNREADABLE"},
    };
    PLAY_ROWS(alive);
    size_t n = 0;
    for (int together = 0; together < 2; together++) {
        packed_scene("refused, they go though a chunk is damaged", 4);
        steps("set_record s1 rotten=1; set_record s3 rotten=1");
        kept[1].value[0] ^= 1;
        put_back(&kept[1]);
        steps(together ? "begin; drop s1; drop s3; commit" : "drop s1; drop s3");
        steps("segments 0; complete 0");
    }
    scene("its pack is not in the list");
    steps("many 1 300; pack; set_record s0; put z 5000 10; all 777999 ABSENT");
    OK(catalog_read(shop.store->catalog, take_rows, &n, NULL));
    for (size_t i = 0; i < n; i++) {
        kept[i].n = 0;
        put_back(&kept[i]);
    }
    steps("backup copy; is left=0 damaged=1 files=2 segments=2; use copy; repair; "
          "confirm; why s0 0 HIT; use s; why s0 0 MISMATCH; all 777999 MAYBE; hash z "
          "777999 MISMATCH; why z 5000 MISMATCH; files 3; close; bare new; files 3; "
          "fails MISMATCH confirm; fails DAMAGED drop s0; only z new; told "
          "segments stay listed; confirm force; complete 0; confirm; complete 1; "
          "why s0 0 NO_FILTER");
}

/* Nobody removes what a part of an unknown kind names (SPEC.md 13.2). */
TEST_OF_SCENES(a_part_of_an_unknown_kind)
{
    uint8_t value[RECORD_MAX_BYTES];
    scene("a part of an unknown kind");
    steps("many 3 300; pack; set_record s1; call p pack; call d dead; copy d =d");
    struct record r = record_in(opened(), "s1");
    steps("drop s1; close; copy =d d");
    size_t n = record_encode(&r, "x", 1, value);
    value[sizeof(struct record_disk) + offsetof(struct part_disk, kind)] = 9;
    checksum_set(value, n, XXH3_64bits("x", 1));
    poke_catalog("s", "segments", "x", value, n);
    steps("bare new; same d =d; drop s0 s2; bare newer; there p d; why x 7 UNREADABLE");
}

/* ---- published after something has changed ---- */

TEST_OF_SCENES(what_changes_while_it_is_packed)
{
    static const struct scene_row changed[] = {
        {"nothing: a record is folded",
         "many 3 300; pack; set_record s1 rank=9; pack how=ALL", "close",
         "is packed=3 repacked=3; files 2; segments 3; record s1 rank=9; set_record s1 "
         "rank=8;"
         "why s1 1000 HIT"},
        {"a listed one gets a record", "many 3 300; pack; begin; pack how=ALL",
         "set_record s1 rank=9; commit",
         "files 2; segments 3; record s1 rank=9; packed s1; why s1 1000 HIT"},
        {"a record changes",
         "many 3 300; pack; set_record s1 rank=8; begin; pack how=ALL",
         "set_record s1 rank=9; commit",
         "files 2; segments 3; record s1 rank=9; packed s1; why s1 1000 HIT"},
        {"a listed one is replaced", "many 3 300; pack; begin; pack how=ALL",
         "in; replace s1 7000 10; in 0; commit",
         "files 3; segments 3; loose s1; why s1 7000 HIT"},
        {"a named one is replaced",
         "many 3 300; pack; set_record s1; begin; pack how=ALL",
         "in; replace s1 7000 10; in 0; commit",
         "files 3; segments 3; loose s1; why s1 7000 HIT"},
        {"a named one is replaced, and packed",
         "many 3 300; pack; set_record s1; begin; pack how=ALL",
         "in; replace s1 7000 10; pack; set_record s1; in 0; commit",
         "files 4; segments 3; packed s1; why s1 7000 HIT"},
    };
    PLAY_ROWS(changed);
}

RUN_TESTS(NULL, NULL)
