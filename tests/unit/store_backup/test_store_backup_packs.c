/* Backups of what is hurt: what is left out is told by its own name. */
#include "tests/support/shop/shop.h"

/* Pack or tombstones are missing, a page of the pack is damaged: damage, and no error
 * of this moment. */
TEST_OF_SCENES(what_is_hurt_is_named)
{
    static const struct scene_row rows[] = {
        {"no pack", "many 5 300; pack", "call it pack; lose it",
         "backup copy; is seen=1 left=1 damaged=0 errors=0; says {it};"
         "says left out, its segments are MAYBE there: the file is missing"},
        {"no tombstones", "many 5 300; pack", "call it dead; lose it",
         "backup copy; is seen=1 left=1 files=1 damaged=0 errors=0; says {it}; says "
         "left out, its segments are MAYBE there: the file is missing; use copy; every "
         "5 FILE_LOST; confirm; close; every 5 HIT"},
        {"a bad page", "many 5 300; pack", "call it pack; zero it 1",
         "backup copy; is seen=1 left=0 damaged=1 errors=0; says {it};"
         "says pages fail their check; use copy; none_lost 5"},
    };
    PLAY_ROWS(rows);
}

RUN_TESTS(NULL, NULL)
