/* Packs in the hands of backup and repair: nothing is lost, and nothing that was
 * dropped comes back. */
#include "tests/support/shop/shop.h"
#include "tests/support/shop/ways.h"

/* A list that is not confirmed proves nothing, though packs answer for all of it. */
TEST_OF_SCENES(unconfirmed_packs_prove_nothing)
{
    enum { SEGMENTS = 70, KEYS = 100 };
    static uint8_t why[KEYS * SEGMENTS];
    struct tamis_key keys[KEYS];
    scene("a list that is not confirmed");
    steps("many 70 300; pack; meta complete=0; open");
    uint64_t tag = tamis_store_domain(shop.store).tag;
    SNAPSHOT snap = snapshot_of(shop.store);
    for (size_t k = 0; k < KEYS; k++)
        keys[k] = tamis_key_of_hash(tag, random_u64());
    ask_every_way(snap, NULL, SEGMENTS, keys, KEYS, why);
    for (size_t i = 0; i < KEYS * SEGMENTS; i++)
        assert_true(why[i] > TAMIS_HIT);
}

TEST_OF_SCENES(backups_and_repairs)
{
    static const char *const harm[] = {"lose pack", "zero pack 0", "lose dead",
                                       "cut pack 5000"};
    play("what was dropped stays dropped in the copy, too",
         "many 40 400; pack; drop s39; put loose 8000000 100; call dead dead;"
         "backup copy; is left=0 damaged=0 segments=40 files=2; use copy;"
         "every 39 HIT; same dead =copy/filters/{dead}");
    for (int how = 0; how < 4; how++)
        play(harm[how],
             "many 12 300; pack; %s; backup copy; is left=12; use copy;"
             "every 12 NO_FILTER",
             harm[how]);
    static const struct scene_row rows[] = {
        /* One bad page is told, and left where it is. */
        {"repair leaves packs", "many 20 300; pack; orphans; is orphans=0",
         "repair; is quarantined=0 swept=0 anew=0; every 20 HIT; zero pack 1",
         "repair; is quarantined=0; there pack; none_lost 20"},
        {"a lost catalog is made of the columns that live",
         "many 30 300; pack; drop s29; put loose 8000000 100", "lose catalog",
         "repair; is anew=1 quarantined=0; segments 30; confirm;"
         "why s29 29000 UNKNOWN_SEGMENT; why loose 8000001 HIT; drop s28; close;"
         "every 28 HIT"},
        {"a damaged page is copied as it is", "many 12 300; pack", "zero pack 2",
         "backup copy; is damaged=1 left=0; use copy; none_lost 12"},
        /* Nobody knows which columns live: no segment is called absent. */
        {"a lost catalog and no tombstones", "many 10 300; pack; put loose 8000000 100",
         "lose dead catalog",
         "repair; is anew=1 quarantined=1 whole=0; every 10 UNKNOWN_SEGMENT"},
        /* Not the pack that the records mean. */
        {"another digest under the same UUID", "many 8 300; pack", "other_digest pack",
         "every 8 FILE_LOST"},
        {"a pack is not attached", "many 5 300; pack", "copy pack =p",
         "fails UNFIT attach x =p"},
    };
    PLAY_ROWS(rows);
}

/* Without a catalog, whichever page of a pack is rotten: it is listed whole, or goes.
 */
TEST_OF_SCENES(no_record_names_a_pack_that_went)
{
    unsigned n_gone = 0;
    for (int page = 1; page < 12; page++) {
        scene("a rotten page of a pack");
        steps("many 120 30; pack; zero pack %d; lose catalog; repair", page);
        SNAPSHOT now = snapshot_of(opened());
        size_t n = tamis_snapshot_n_segments(now);
        for (unsigned i = 0; i < n; i++)
            assert_int_not_equal(reason_of(shop.store, name_of(i), i * 1000),
                                 TAMIS_FILE_LOST);
        assert_true(n == 0 || n == 120);
        n_gone += n == 0;
    }
    assert_true(n_gone > 2 && n_gone < 11);
}

static void all_are_there(struct tamis_store *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k += 1 + n_keys[i] / 3)
            IS(reason_of(s, name_of(i), i * 1000 + k), TAMIS_HIT);
}

TEST_IN_DIR(unpacked_filters_answer_alike)
{
    struct tamis_store *s = store_of("s", 30, 500);
    pack_all(s);
    struct tamis_snapshot *packed = snapshot_of(s), *now;
    struct tamis_edit *e = edit_new(s);
    uint32_t half[15];
    for (uint32_t i = 0; i < 15; i++)
        half[i] = 2 * i;
    OK(tamis_edit_unpack(e, packed, half, 15, NULL));
    OK(tamis_edit_commit(e, NULL));
    now = snapshot_of(s);
    for (uint32_t i = 0; i < 30; i++)
        IS(tamis_snapshot_pack(now, i, NULL, NULL), i % 2 ? 0 : TAMIS_ERR_NO_SEGMENT);
    for (unsigned k = 0; k < 2000; k++) {
        uint8_t was[30], is[30];
        struct tamis_key key = key_in(s, random_u64() % 100000);
        key.bytes = NULL;
        tamis_snapshot_probe_all(packed, &key, NULL, was);
        tamis_snapshot_probe_all(now, &key, NULL, is);
        assert_memory_equal(was, is, 30);
    }
    for (uint32_t i = 0; i < 30; i++) {
        struct tamis_segment_info a = segment_at(packed, i);
        struct tamis_segment_info b = segment_at(now, i);
        IS(a.rank, b.rank);
        IS(a.watermark, b.watermark);
        IS(a.keys, b.keys);
        IS(a.binding_bytes, b.binding_bytes);
        assert_memory_equal(a.binding, b.binding, a.binding_bytes);
        IS(a.first_key_bytes, b.first_key_bytes);
    }
    /* The rest, too: then the pack goes. */
    e = edit_new(s);
    for (uint32_t i = 0; i < 15; i++)
        half[i] = 2 * i + 1;
    OK(tamis_edit_unpack(e, now, half, 15, NULL));
    OK(tamis_edit_commit(e, NULL));
    IS(n_filter_files("s"), 30);
    tamis_snapshot_release(packed);
    tamis_snapshot_release(now);
    tamis_store_close(s);
    s = store_open("s");
    all_are_there(s, 30);
    tamis_store_close(s);
    remove_tree("s");
}

/* Not even where a copy of the column was made before: without tombstones nobody can
 * tell whether it counts (SPEC.md §17.5). */
TEST_OF_SCENES(copies_of_columns_answer_nothing)
{
    scene("a column that was copied");
    steps("many 10 300; pack; hold");
    struct tamis_filter *copy;
    for (unsigned i = 0; i < 10; i++)
        OK(tamis_snapshot_filter(shop.held, i, &copy, NULL));
    steps("live lose dead; put another 8000000 10");
    for (unsigned i = 0; i < 10; i++)
        IS(reason_of_hash(shop.store, name_of(i), 7777777), TAMIS_FILE_LOST);
}

TEST_OF_SCENES(what_cannot_be_unpacked)
{
    uint32_t beyond = 7, some = 0;
    scene("what cannot be unpacked");
    steps(
        "many 6 500; pack; put t 8000000 100; hold; begin; fails NO_SEGMENT unpack t");
    IS(tamis_edit_unpack(shop.edit, shop.held, &beyond, 1, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_unpack(shop.edit, NULL, &some, 1, NULL), TAMIS_ERR_RANGE);
    /* Replaced meanwhile: the edit fails, and leaves nothing. The files are the pack,
     * its tombstones, and two loose ones. */
    steps("unpack; unpack s3; in; drop s3; put s3 9000000 10; in 0; fails MISMATCH "
          "commit;"
          "why s3 9000001 HIT; files 4; release; zero pack 1");
    size_t n_damaged = 0;
    SNAPSHOT snap = snapshot_of(opened());
    for (uint32_t i = 0; i < 7; i++) {
        struct tamis_edit *e = edit_new(shop.store);
        n_damaged += tamis_edit_unpack(e, snap, &i, 1, NULL) == TAMIS_ERR_DAMAGED;
        tamis_edit_abort(e);
    }
    assert_true(n_damaged > 0);
    steps("files 4");
}

RUN_TESTS(NULL, NULL)
