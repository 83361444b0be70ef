/* The templates (tests/steps/script.c), from which each case draws a script. Steps
 * before "now" are played in peace. Behind the name: forks, is_asked. */
#include "tests/kill/kill.h"

#define SIZES   "[3 1.25 .1|40 2 .01|200 1.3 .001]"
#define ADDS    "[add g 1..6|fill g 20..300|fill g 20..300]; "
#define HANDLES "[shut|kill] g; writer g; replay g [0|0|1]; "
/* Something of everything, for what repairs it and copies it. */
#define INVENTORY                                                                      \
    "init; begin; put a 20000 1..6; put b 21200 800..1190; bare n; grow g 3 1.25 .1; " \
    "end; put t 23600 2; twice t 24800 1..6; add g 0..5; commit g; "

const struct template templates[] = {
    {"create", false, false,
     "[now; init;|init; now; open;] put a 0 1..6; grow g " SIZES "; " ADDS
     "commit g; shut g; init"},
    {"lone", true, true,
     "now; lone g " SIZES "; [alone g;|] 3..5*(" ADDS "[commit g;|commit g; " HANDLES
     "|]) [seal g;|commit g;] shut g"},
    {"threads", true, true,
     "[lone g|init; open; grow g] " SIZES
     "; now; [open;|] writer g; thread g; 4..6*(" ADDS
     "commit g; ) [unthread; seal g|seal g; unthread|unthread]; shut g"},
    {"grow", true, true,
     "init; begin; put mark 0 1; grow g " SIZES "; end; [hold;|] now; open; "
     "2..4*(" ADDS "commit g; [" HANDLES "|]) [seal g;|] [shut|kill] g"},
    /* Segments are filled, sealed, merged and dropped; each edit replaces "mark". */
    {"store", true, true,
     "init; begin; put mark 0 1; grow a " SIZES "; grow g " SIZES "; end; now; open; "
     "[hold;|] fill a 20..200; [commit a;|] seal a; shut a; begin; replace mark 0 2; "
     "grow b 30 1.6 .001; grow t 3 1.25 .1; end; fill b 10..100; commit b; " ADDS
     "seal b; shut b; begin; drop mark; put mark 0 3; [join m a b|drop a; drop b; put "
     "m 1000 300|only mark g t; put m 1000 300]; drop t; end; pack 0 0..2; " ADDS
     "commit g; [unpack|pack 0 1]; begin; replace mark 0 4; drop m; put n 2000 5; "
     "[end|abort]; [shut|kill] g"},
    {"packs", true, false,
     "init; put a 0 1..6; [put|list] b 10 1..900; put c 1000 1..6; [pack;|] now; open; "
     "begin; "
     "pput d 2000 1..6; pput e 2010 1..6; [drop a;|] end; pack 0..2; begin; "
     "replace b 3000 1..6; [union u c d|fold c|drop c|only c d e]; end; pack 0 1; "
     "[unpack|unpack d|drop d]; put f 50 2; pack 0 2"},
    {"lists", true, false,
     "init; list a 0 1..400; list b 500 1..300; now; open; begin; merge m a b; "
     "[drop a;|] end; fromlist b; [bare c;|] drop m; list d 900 2"},
    /* Few hashes, or most go through the spool; and files of an engine. */
    {"build", false, false,
     "init; now; build f 0 [0..30|4000..9000] 0 [0|8..20000]; embed e 0 "
     "[0..40|4000..7999]; attach x f; embed e 10000 0..40; put a 0 1..6"},
    {"repair", false, false,
     INVENTORY "[shut|kill] g; [rot a 0..32767;|] [lose b;|] [litter 3;|] "
               "[aside a;|] keep; close; [catalog [gone|zero|noise|cut];|] "
               "now; repair; repair 0 0 0 0"},
    {"backup", false, false,
     INVENTORY "[rot a 0..32767;|] [lose b;|] keep; close; now; writer g; "
               "add g 0..2; [commit g;|] add g 1; backup"},
};
const size_t n_templates = sizeof templates / sizeof templates[0];
