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
        /* As no edit makes them. A sealed file serves both; one that grows has one
         * place, and its other segment none. */
        {"two records of one file", "put a 0 10; growing g; grow g 100 10 1",
         "bare b; bare h; set_record b all-of=a; set_record h all-of=g",
         "backup copy; is seen=1 left=1 segments=4; says another segment has the same "
         "file; use copy; files 2; has a 0 10; has b 0 10; has g 100 10; why b 99999 "
         "ABSENT; why g 99999 ABSENT; why h 99999 NO_FILTER"},
    };
    PLAY_ROWS(rows);
}

RUN_TESTS(NULL, NULL)
