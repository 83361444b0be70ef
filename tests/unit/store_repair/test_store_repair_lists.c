/* Lists in the hands of repair and backup: a list that is good stays with its segment,
 * and a bad one costs nothing else. */
#include "tests/support/shop/shop.h"

static const char two_lists[] =
    "put a 0 2000 list=64; put b 5000 2000 list=64; put plain 9000 100";
#define ALL_HIT "hits a 0 2000; hits b 5000 2000;"

TEST_OF_SCENES(lists_that_are_bad_or_missing)
{
    static const struct scene_row rows[] = {
        {"good lists are left", two_lists, "orphans; is orphans=0; mark",
         "repair; is done=0 seen=0; stays"},
        {"a bad list goes alone", two_lists, "flip a.list 4196",
         "repair; is quarantined=1; says its list: 1 of; unlisted a; listed b; files "
         "4;" ALL_HIT "settled"},
        {"a missing list is forgotten", two_lists, "lose a.list",
         "repair; is rebuilt=1 done=1; says its list is missing; unlisted a; listed "
         "b;" ALL_HIT "settled"},
        /* A disk, a copy that is not done. */
        {"a list stays named without its filter", two_lists,
         "move a =f; move a.list =l",
         "repair; is done=0 damaged=1; says its list is missing; move =f a; move =l "
         "a.list;"
         "listed a; settled"},
        /* Nothing tells any more which segment it was, but for its damaged record. */
        {"a list goes with its record", two_lists,
         "poke a 0 88; poke a.list 0 88; rot_record a keys",
         "repair; is swept=0; there aside:a aside:a.list; settled"},
        /* A repair without a meta record makes no filter from a list. The next does. */
        {"a whole list keeps its filter", two_lists, "flip a 4196; noise_meta",
         "repair; is anew=1 quarantined=0; says noted a filters/{a} 1 of ;"
         "says left, for its list may make it anew; there a a.list;"
         "repair; says made anew from its list; listed a; confirm;" ALL_HIT "settled"},
        {"a list that cannot be read keeps its filter", two_lists,
         "flip a 4196; unreadable a.list",
         "repair; is quarantined=0; says left, for its list may make it anew;"
         "unreadable; repair; says made anew from its list;" ALL_HIT "settled"},
        {"another segment's list is not believed", two_lists, "copy b.list a.list",
         "repair; says its list: ; unlisted a; listed b"},
        {"a list comes back to its record", two_lists, "rot_record a keys",
         "repair; is quarantined=0; says made anew from the file; listed a b;"
         "files 5; settled"},
        {"backups have lists", two_lists, "backup b",
         "is segments=3 files=5 damaged=0 left=0; call was a.list; use b; segments 3;"
         "same was a.list; listed a b;" ALL_HIT "repair; is seen=0"},
        {"backups leave lost lists; repair can make a filter anew there", two_lists,
         "lose a.list b; backup b",
         "is segments=3 left=2; says its segment is without a list there; use b; "
         "unlisted a;"
         "listed b; why b 5000 FILE_LOST; hits a 0 2000; files 3"},
        {"backups have the list of a lost filter", two_lists, "lose a; backup b",
         "is left=1; use b; repair; says made anew from its list;" ALL_HIT "settled"},
        {"backups copy rot as it is", two_lists, "flip a.list 4196; backup b",
         "is damaged=1 left=0; use b; repair; says its list: 1 of"},
    };
    PLAY_ROWS(rows);
}

/* The catalog is lost, or a record of it. */
TEST_OF_SCENES(lists_go_with_their_keys)
{
    static const char of_another[] =
        "put a 0 2000 list=64; call old a.list; copy old =old; replace a 7000 500";
    static const struct scene_row rows[] = {
        /* A segment of which nothing but the list is left is listed all the same: it
         * has keys. */
        {"lists without a catalog", two_lists, "lose b; lose catalog",
         "repair; is anew=1 whole=0 quarantined=1; says a list: nothing says; files 3;"
         "listed a; confirm plain; why a 1 HIT; why b 5001 NO_FILTER; why plain 9001 "
         "HIT; settled"},
        {"whatever was made of the same keys", two_lists,
         "put cut 20000 2000 list=30; from_list a error=0.1; pack a b cut; unpack b;"
         "lose catalog",
         "repair; is anew=1 quarantined=0; listed a b cut; packed a cut; loose b;"
         "confirm;" ALL_HIT "hits cut 20000 2000; settled"},
        {"a damaged column", two_lists, "pack a b; zero pack 1; lose catalog",
         "repair; is anew=1 quarantined=0; packed a b; listed a b;"
         "repair; says made anew from its list; confirm;" ALL_HIT "settled"},
        {"a damaged filter", two_lists, "flip a 4196; lose catalog",
         "repair; is anew=1 quarantined=0; says left, for its list may make it anew;"
         "repair; says made anew from its list; listed a b; confirm;" ALL_HIT
         "settled"},
        {"a damaged filter with a cut list", "put a 0 2000 list=30",
         "flip a 4196; lose catalog",
         "repair; is anew=1 quarantined=2; record a state=1; settled"},
        {"a damaged list costs no filter", two_lists, "flip a.list 4196; lose catalog",
         "repair; is anew=1 quarantined=1; says a list: 1 of; unlisted a; listed b;"
         "confirm;" ALL_HIT "settled"},
        {"the list of a segment that was replaced", of_another,
         "copy =old old; lose catalog",
         "repair; is anew=1 quarantined=1; there aside:old; unlisted a;"
         "confirm; hits a 7000 500; settled"},
        {"it makes no damaged filter anew", of_another,
         "copy =old old; flip a 4196; lose catalog",
         "repair; is anew=1 quarantined=2; record a state=1; repair; is done=0"},
        {"it makes no damaged column anew", of_another,
         "pack a; copy =old old; zero pack 1; lose catalog",
         "repair; is anew=1 quarantined=1; unlisted a; repair; is rebuilt=0; packed a"},
    };
    PLAY_ROWS(rows);
}

/* A list that no longer looks like one would be removed if it were taken for an orphan.
 * A cut list makes no filter, so it goes even if it is whole. */
TEST_OF_SCENES(a_bad_list_goes_with_its_filter)
{
    static const char *const hurt[] = {"flip %s 4196", "poke %s 0 88", NULL};
    for (int i = 0; i < 2 * 2 * 3; i++) {
        int bits = i & 1 ? 30 : 64, list = i / 4;
        char filter[40], its[40] = "";
        if (list == 2 && (bits == 64 || (i & 2)))
            continue;
        snprintf(filter, sizeof filter, i & 2 ? "poke a 0 88" : "flip a 4196");
        if (hurt[list])
            snprintf(its, sizeof its, list ? "poke a.list 0 88" : "flip a.list 4196");
        const char *why = list == 0 ? "1 of "
                          : list == 1
                              ? "magic"
                              : "the segment's filter is quarantined, and a list "
                                "of 30 bits makes none";
        play("a list and its filter",
             "put a 0 5000 kind=ribbon list=%d; %s; %s; repair dry;"
             "says quarantined a filters/{a.list} its list: %s;"
             "repair; says quarantined a filters/{a.list} its list: %s; is "
             "quarantined=2 done=2; there aside:a aside:a.list;"
             "files 0; record a state=1; settled",
             bits, filter, its, why, why);
    }
}

RUN_TESTS(NULL, NULL)
