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
        keys[k] = (struct tamis_key){.tag = tag, .hash = random_u64()};
    ask_every_way(snap, NULL, SEGMENTS, keys, KEYS, why);
    for (size_t i = 0; i < KEYS * SEGMENTS; i++)
        assert_true(why[i] > TAMIS_HIT);
}

TEST_OF_SCENES(backups_and_repairs)
{
    play("what was dropped stays dropped in the copy, too",
         "many 40 400; pack; drop s39; put loose 8000000 100; call dead dead;"
         "backup copy; is left=0 damaged=0 segments=40 files=2; use copy;"
         "every 39 HIT; same dead =copy/filters/{dead}");
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
        /* Nobody knows which columns live: no segment is called absent. */
        {"a lost catalog and no tombstones", "many 10 300; pack; put loose 8000000 100",
         "lose dead catalog",
         "repair; is anew=1 quarantined=1 whole=0; every 10 UNKNOWN_SEGMENT"},
        /* Another pack than the records mean. */
        {"another digest under the same UUID", "many 8 300; pack", "other_digest pack",
         "every 8 FILE_LOST"},
        {"another seed", "many 8 300; pack", "other_digest pack seed",
         "every 8 FILE_LOST"},
        {"unpacked ones are as they were", "many 30 500; pack", "unpack s0 s14 s5",
         "loose s0 s14 s5; packed s1 s29; every 30 HIT;"
         "record s14 rank=0 watermark=114 binding=s14 range=1; record s5 range=0"},
        {"ribbons are attached, backed up and listed",
         "put a 0 3000; put r 3000 3000 kind=ribbon; copy r =r; drop r; attach r =r;"
         "backup copy; use copy; hits r 3000 3000",
         "lose catalog",
         "repair; has a 0 3000; has r 3000 3000; confirm; hits r 3000 3000;"
         "file r layout=ribbon"},
        {"a pack is not attached", "many 5 300; pack", "copy pack =p",
         "fails UNFIT attach x =p"},
    };
    PLAY_ROWS(rows);
}

/* Without a catalog and with any rotten page a pack is listed whole, or goes. */
TEST_OF_SCENES(no_record_names_a_pack_that_went)
{
    unsigned n_gone = 0;
    for (int page = 1; page < 12; page++) {
        scene("a rotten page of a pack");
        steps("many 120 30; pack; zero pack %d; lose catalog; repair", page);
        SNAPSHOT now = snapshot_of(opened());
        size_t n = tamis_snapshot_info(now).n_segments;
        for (unsigned i = 0; i < n; i++)
            assert_int_not_equal(reason_of(shop.store, name_of(i), i * 1000),
                                 TAMIS_FILE_LOST);
        assert_true(n == 0 || n == 120);
        n_gone += n == 0;
    }
    assert_true(n_gone > 0 && n_gone < 11);
}

TEST_OF_SCENES(what_cannot_be_unpacked)
{
    uint32_t beyond = 64 + 6, hole = 1, some = 0;
    scene("what cannot be unpacked");
    steps(
        "many 6 500; pack; put t 8000000 100; hold; begin; fails NO_SEGMENT unpack t");
    IS(tamis_edit_unpack(shop.edit, shop.held, &beyond, 1, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_unpack(shop.edit, shop.held, &hole, 1, NULL), TAMIS_ERR_NO_SEGMENT);
    IS(tamis_edit_unpack(shop.edit, NULL, &some, 1, NULL), TAMIS_ERR_RANGE);
    /* Replaced meanwhile: the edit fails, and leaves nothing. The files are the pack,
     * its tombstones, and two loose ones. */
    steps("unpack; unpack s3; in; drop s3; put s3 9000000 10; in 0; fails MISMATCH "
          "commit;"
          "why s3 9000001 HIT; files 4; release; zero pack 1");
    size_t n_damaged = 0;
    SNAPSHOT snap = snapshot_of(opened());
    for (size_t i = 0; tamis_snapshot_next(snap, &i); i++) {
        struct tamis_edit *e = edit_new(shop.store);
        uint32_t at = (uint32_t)i;
        n_damaged += tamis_edit_unpack(e, snap, &at, 1, NULL) == TAMIS_ERR_DAMAGED;
        tamis_edit_abort(e);
    }
    assert_true(n_damaged > 0);
    steps("files 4");
}

RUN_TESTS(NULL, NULL)
