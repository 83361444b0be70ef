/* Packing and unpacking of segments that a newer version has marked (SPEC.md §5.2):
 * they are left, and called newer. Also records with wrong numbers of keys. */
#include "tests/support/shop/shop.h"
#include "tests/support/algebra_support.h"

/* A bit of a record that this version does not know. */
#define BIT "0x20000000000"

TEST_OF_SCENES(marks_of_a_newer_version)
{
    static const struct scene_row rows[] = {
        {"in records", "many 8 60; set_record s1 ro_compat=" BIT,
         "pack; is packed=7 newer=1 why_left=8; record s1 ro_compat=" BIT,
         "set_record s2 ro_compat=" BIT "; pack how=ALL; is packed=6 newer=2;"
         "fails VERSION unpack s2; record s2 ro_compat=" BIT "; why s2 2000 HIT;"
         /* A bit that may be ignored: the record is written without it. */
         "set_record s3 compat=" BIT "; pack how=ALL; is packed=6; record s3 compat=0"},
        /* A backup without the pack, whose tombstones are lost. */
        {"in records that are backed up", "many 4 60; pack",
         "set_record s1 ro_compat=" BIT "; lose dead; note s1; backup copy",
         "use copy; record s1 ro_compat=" BIT
         "; placed s1; why s1 1000 FILE_LOST; why s2 2000 FILE_LOST"},
        {"ribbons are said to be ribbons", "many 3 60; put ribbon 7000 900 kind=ribbon",
         "pack", "is packed=3 ribbons=1 stages=0 why_left=9"},
    };
    IS(TAMIS_LEFT_NEWER, 8);
    IS(TAMIS_LEFT_RIBBON, 9);
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(files_of_a_newer_version)
{
    scene("in files");
    steps("many 8 60; close");
    struct commit c = commit_of(path_at("s1"));
    c.ro_compat = 0x100;
    put_commit(path_at("s1"), &c);
    steps("pack; is packed=7 newer=1; close");
    IS(commit_of(path_at("s1")).ro_compat, 0x100);
    steps("why s1 1000 HIT");
}

/* Nobody removes the file of a part of a kind that is not known, nor the other files of
 * its record. */
TEST_OF_SCENES(parts_of_a_newer_version)
{
    static const struct scene_row rows[] = {
        {"a part", "put a 0 100 list=64; put b 300 100; put x 500 100; put y 700 100",
         "call odd x; call orphan y; move_record x; move_record y; part a odd",
         "why a 0 UNREADABLE; hits b 300 100; orphans; is orphans=1;"
         "put c 900 10; there odd a a.list; gone orphan;"
         "repair; says left alone: its record is of a newer; is done=0;"
         "there odd a a.list; hits b 300 100;"
         "drop a; close; put d 950 10; gone odd a a.list"},
        {"a part beside a column", "many 9 300; pack; copy catalog =good",
         "part s1 pack; put z 9000 10; why s1 1000 UNREADABLE; why s2 2000 HIT",
         "close; copy =good catalog; why s1 1000 HIT"},
    };
    PLAY_ROWS(rows);
}

/* A record without keys: its column keeps its blocks, and with them its error. */
TEST_OF_SCENES(a_column_of_no_keys_is_not_folded)
{
    scene("records without keys");
    steps(
        "put s0 0 20000; put s1 100000 20000; put s2 200000 20000; put s3 300000 20000;"
        "pack; set_record s0 keys=0; set_record s1 keys=0; set_record s2 keys=0;"
        "set_record s3 keys=0; pack how=ALL; is packed=4");
    unsigned n_absent = 0;
    for (int i = 0; i < 2000; i++)
        n_absent += reason_of_hash(shop.store, "s1", random_u64()) == TAMIS_NO_REASON;
    assert_true(n_absent > 1900);
    for (uint64_t k = 100000; k < 120000; k += 7)
        IS(reason_of(shop.store, "s1", k), TAMIS_HIT);
    steps("unpack s1 s1 s1 s1; why s1 100000 HIT"); /* which is once */
}

RUN_TESTS(NULL, NULL)
