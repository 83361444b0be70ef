/* Repair without a catalog, where several files claim one segment: packs whose
 * tombstones were put back, and files of its own. No key is lost, other segments keep
 * their filters, and what is said to be set aside is. */
#include "tests/support/shop/shop.h"

/* Columns of two packs, and its own file: all of them are the same filter. The sweep of
 * an edit takes what nothing names. */
TEST_OF_SCENES(one_filter_in_three_files)
{
    static const char *const own[] = {"close", "copy =own own",
                                      "copy =own own; flip own 4099"};
    for (size_t i = 0; i < N_OF(own); i++)
        play("one filter in three files",
             "many 3 300; call own s0; copy own =own; pack; call dead1 dead;"
             "copy dead1 =dead; pack how=ALL s0; copy =dead dead1; %s; lose catalog;"
             "repair; is anew=1 quarantined=%zu; clear_aside; confirm; each 0 3 HIT;"
             "put another 8000000 10; each 0 3 HIT; hash s0 7777777 ABSENT",
             own[i], i / 2);
}

/* Segment 0 three times anew: in the pack of all, in a pack of its own, and in a file.
 * The file goes aside, and the pack of which nothing is left, with its tombstones. */
TEST_OF_SCENES(three_filters_of_one_segment)
{
    for (int i = 0; i < 16; i++) /* which file is met first is chance */
        play(
            "three filters of one segment",
            "many 3 300; pack; call dead1 dead; copy dead1 =dead1; drop s0; put s0 100 "
            "50;"
            "pack s0; call pack2 s0; call_dead dead2 pack2; copy dead2 =dead2;"
            "copy pack2 =pack2; drop s0; put s0 200 50; copy =dead1 dead1; copy =dead2 "
            "dead2;"
            "copy =pack2 pack2; lose catalog; repair; is anew=1 quarantined=2; aside 3;"
            "clear_aside; confirm; each 1 3 HIT; put another 8000000 10; each 1 3 HIT;"
            "hash s0 7777777 NO_FILTER; hash s1 7777777 ABSENT");
}

RUN_TESTS(NULL, NULL)
