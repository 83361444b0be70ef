/* Repair with the catalog at hand: what becomes of files and records that are not what
 * they should be. */
#include "tests/support/shop/shop.h"

TEST_OF_SCENES(a_healthy_store_is_left_alone)
{
    play("filters",
         "put a 0 100 binding=A rank=1; growing g; grow g 1000 300 5; mark; repair;"
         "is done=0 damaged=0 segments=2 whole=1 anew=0 seen=0; stays");
}

/* How a sealed filter's file can be no use any more. It is set aside as it is. */
TEST_OF_SCENES(damaged_files_are_set_aside_and_their_records_stay)
{
    static const char made[] = "put a 0 100 binding=A rank=3 watermark=7;"
                               "put b 100 100 binding=B rank=4 watermark=7; note a";
    static const char then[] =
        "copy a =spoiled; repair; says quarantined a filters/;"
        "is quarantined=1 done=1 segments=2; gone a; same =spoiled aside:a;"
        "record a state=1; as_noted a created; why a 5 NO_FILTER 99999 NO_FILTER; all "
        "99999 "
        "MAYBE;"
        "why b 99999 ABSENT; has b 100 100; settled";
    static const struct scene_row rows[] = {
        {"rot", made, "flip a 4173", then},
        {"its header", made, "flip a 2148", then},
        {"cut", made, "cut a 4097", then},
        {"empty", made, "cut a 0", then},
        {"another filter", made, "build a name=a", then},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(files_and_records)
{
    static const char two[] = "put a 0 100; put b 100 100",
                      bound[] = "put a 0 100 binding=A watermark=7;"
                                "put b 100 100 binding=B rank=1 watermark=7";
    static const struct scene_row rows[] = {
        {"quarantine keeps what an earlier repair has set aside", "put a 0 100",
         "mkdir quarantine; text aside:a old; copy aside:a =old; flip a 4104",
         "repair; same =old aside:a; there aside2:a; settled"},
        {"exchanged files are both set aside", two, "swap a b",
         "repair; is quarantined=2; why a 150 NO_FILTER; why b 50 NO_FILTER; settled"},
        {"an older copy is set aside", "growing g; grow g 0 50 1; copy g =old",
         "grow g 50 2000 2; copy =old g", /* several stages */
         "repair; says an older copy; is quarantined=1; why g 1000 NO_FILTER; settled"},
        {"a file that is missing may come back", "put a 100 100", "move a =gone",
         "mark; repair; says noted a filters/; is done=0 damaged=1; stays;"
         "why a 150 FILE_LOST 1 FILE_LOST; move =gone a; why a 150 HIT"},
        {"a growing filter with a lost page stays, and its writer goes on",
         "growing g; grow g 0 90 1", "lose_page g",
         "repair; says noted g filters/; says pages fail their check; is done=0 "
         "damaged=1;"
         "has g 0 90; grow g 90 50 2; has g 0 140"},
        {"a damaged record is made anew from its file", bound, "rot_record a keys",
         "why a 500 UNREADABLE; repair; says rebuilt a filters/; is done=1; has a 0 "
         "100;"
         "why a 500 ABSENT; record a binding=A; settled"},
        /* The file may be its own, or what a drop left: not believed, nor removed. */
        {"a record that lost its file has no filter", "put a 0 100 binding=A",
         "rot_record a uuid",
         "repair; is rebuilt=1 quarantined=1; gone a; there aside:a; why a 500 "
         "NO_FILTER;"
         "settled"},
        {"a damaged record takes no other segment's file", two,
         "set_record a uuid-of=b rotten=1",
         "repair; is rebuilt=1; there b; gone a; why a 50 NO_FILTER; confirm;"
         "why b 99999 ABSENT; has b 100 100; settled"},
        {"newer formats are left alone", "put a 0 100", "poke a 8 9 0",
         "repair; says noted a; is done=0 unread=1; there a"},
        {"nobody waits for an edit under way", "put z 0 1",
         "begin; put a 0 10; live mark",
         "fails BUSY live repair; stays; commit; live repair; has a 0 10"},
        /* Even if its header is damaged just now. */
        {"a writer at work is left alone", "growing g; writer g; add 0 1; write 3",
         "live repair; is done=0 damaged=0; live flip g 5; live repair; is done=0",
         "live flip g 5; end"},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(a_dry_run_says_the_same_and_changes_nothing)
{
    struct tamis_repair_report dry, wet;
    static struct seen said;
    scene("damage of many kinds");
    steps("put a 0 10; put b 10 10; put c 20 10; put d 30 10; put e 40 10; growing g;"
          "grow g 0 50 1; flip a 4105; flip b 300; lose c;"
          "text filters/00112233445566778899aabbccddeeff.tamis x;"
          "text catalog.lmdb.01234567.tmp x; rot_record e keys; kill 50");
    for (int lost = 0; lost < 2; lost++) {
        if (lost)
            steps("lose catalog");
        uint64_t before = tree_of("s");
        OK(repair_code("s", 1, NULL, &dry, NULL));
        assert_true(tree_of("s") == before);
        said = seen;
        copy_tree("s", "t");
        OK(repair_code("t", 0, NULL, &wet, NULL));
        IS(seen.n, said.n);
        for (size_t i = 0; i < seen.n; i++)
            assert_string_equal(seen.text[i], said.text[i]);
        assert_memory_equal(&dry, &wet, sizeof dry);
        assert_true(wet.n_quarantined >= 2 && wet.n_swept >= 1 && wet.n_finished == 1 &&
                    wet.n_rebuilt >= 1);
        check_settled("t");
    }
}

RUN_TESTS(NULL, NULL)
