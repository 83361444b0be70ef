/* The workloads: templates (tests/steps/script.c), from which each round draws a
 * script. Steps before "now" are durable, and not recorded. */
#include "tests/crash/check.h"

/* Stages of a page or two that are full after a few keys. */
#define TINY  "lone f 1..6 [1.25|2] [.3|.05|.01|1e-6]; "
#define ROOMY "lone f 500 2 .01; "
/* On many pages a page that is lost seldom gets another key's bits. */
#define MANY_PAGES "lone f 5000 2 .01; "
#define FRESH      "0..3"
/* Opened, replayed, gone on, and ended in one way or the other. */
#define SESSION                                                                        \
    "writer f; replay f [0|0|0|1]; add f [0|" FRESH "]; commit f; [shut|kill] f; "

/* A store with something of everything, for what repairs it and copies it. */
#define ITS_KEYS "[1..6|1..6|800..1190]"
#define INVENTORY                                                                      \
    "init; begin; put a 20000 " ITS_KEYS "; put b 21200 " ITS_KEYS                     \
    "; [put c 22400 " ITS_KEYS                                                         \
    ";|] bare n; grow g 3 1.25 .1; end; put t 23600 2; twice t 24800 " ITS_KEYS        \
    "; [put u 26000 2; twice u 27200 " ITS_KEYS ";|] add g 0..5; commit g; "

const struct workload workloads[] = {
    {"create", 1, 0, TINY "[add f 0..2;|] shut f; " SESSION},
    {"commit", 1, 0, ROOMY "3..5*(add f 0..5; commit f; ) shut f"},
    {"grow", 1, 0, TINY "2..4*(add f 0..6; commit f; ) shut f"},
    {"threads", 1, 0,
     "[" TINY "|" TINY "|" ROOMY "] thread f; 2..3*(add f 0..4; commit f; ) [seal f;|] "
     "unthread; shut f"},
    {"seal", 1, 0, TINY "add f 0..8; [commit f;|] add f 0..3; seal f; shut f"},
    /* The last writer died, the machine did not: its stores are in the page cache. */
    {"reopen", 1, 0,
     "[" TINY "|" ROOMY "] 2..3*(add f 0..4; [commit f;|] add f 0..3; "
     "[diesync 1..2; commit f;|diesync 1..2; commit f;|] kill f; diesync 0; " SESSION
     "writer f; alone f; ) shut f"},
    /* Stages nearly full: more dirty sectors than can be enumerated. */
    {"wide", 1, 0,
     "[lone f 400 1.25 [.01|1e-5]; fill f 394..399;|lone f 800 1.25 [.01|1e-5]; fill f "
     "794..799;|lone f 1200 1.25 [.01|1e-5]; fill f 1194..1199;] commit f; add f "
     "5..15; commit f; [seal f;|] shut f"},
    /* Pages whose floors take two sectors. */
    {"floors", 32, 5,
     "lone f 24000 1.25 1e-8; fill f 23994..23999; commit f; add f 5..15; commit f; "
     "[seal f;|] shut f"},
    /* Few hashes, or most go through the spool. */
    {"build", 1, 0, "build f 0 [0..30|0..30|4000..9000] 0 [0|8..20000]"},
    /* Syncs fail, or a write-back fails unseen: then the page cache shows bits that the
     * disk does not have, in pages that count as clean (R3, R4). An engine that asks
     * again must not be told that all is well. */
    {"failed-sync", 1, 0,
     "[" TINY "|" MANY_PAGES "] 2..3*(add f 0..3; commit f; "
     "[add f 1..3; lie; kill f;"
     "|failsync 1..6; add f 1..3; 1..2*(commit f; ) failsync 0; kill f;"
     "|failsync 1..6; add f 1..3; 1..2*(commit f; ) failsync 0; kill f;"
     "|failsync 1..6; add f 1..3; 1..2*(commit f; ) failsync 1..4; shut f; failsync 0;"
     "] " SESSION "writer f; alone f; ) shut f"},
    /* The same where a store's files are made, and sealed. */
    {"failed-store", 1, 0,
     "init; [put a 0 1..6; put b 10 1..900; [pack;|]|] grow g 3 1.25 .1; open; now; "
     "2..3*(failsync 1..5; "
     "[begin; put c 1000 1..6; put d 2000 800; end; begin; put c 1000 1..6; put d 2000 "
     "800; end;|pack 0 1; pack 0 1;|begin; union u a b; replace a 3000 1..6; end; "
     "replace a 4000 1..6;|build e 5000 1..900; attach x e;|"
     "[pack;|] drop a; drop b; replace a 5000 3;|backup; backup;|add g 1..6; commit g; "
     "[seal g;|] [shut|kill] g;] "
     "failsync 0; add g 1..3; [commit|seal] g; [shut|kill] g; [unpack;|]) put z 60 3"},
    {"embed", 1, 0, "embed f 0 [0..40|0..40|4000..7999]; embed f 10000 0..40"},
    /* A sector of an open stage rots between two writers. The second adds to its page,
     * which is condemned on the disk before it is filled (R8). */
    {"rot", 1, 0,
     "[" ROOMY "|" ROOMY "|" ROOMY "|" MANY_PAGES "] fill f 1..200; commit f; "
     "[shut|shut|shut|kill] f; losesector f; writer f; alone f; add f 1..3; commit f; "
     "add f 0..2; [shut|kill] f; " SESSION},
    {"create-store", 4, 0, "init"},
    {"store", 1, 0,
     "init; open; now; begin; put a 0 1..6; [put b 11 1..6|bare b]; end; "
     "build e 50 1..6; begin; grow g 3 1.25 .1; [attach d e|bare c]; [replace a 20 "
     "1..6; |] end; pack 0..2; add g 1..6; commit g; [shut|kill] g; "
     "begin; put h 30 1..6; [drop b; put b 40 1..6;|drop b;|] [only a d g h;|drop c;|]"
     " [end|end|end|abort]; pack 0..2; add g 1..6; [seal|commit] g; [shut|kill] "
     "g; unpack [a|b|d h|]; begin; put i 60 1..6; [drop g|drop a|only b h]; end"},
    {"pack-store", 2, 1,
     "init; put a 0 1..6; [put|list] b 10 1..900; put c 1000 1..6; [pack;|] open; now; "
     "begin; pput d 2000 1..6; pput e 2010 1..6; [drop a;|] end; pack 0 0..2; "
     "begin; replace b 3000 1..6; [union u c d|fold c|drop c|only c d e]; end; pack "
     "0 1; "
     "[unpack|unpack d|drop d]"},
    {"repair", 3, 0,
     INVENTORY "add g 0..5; [shut|kill|kill] g; [rot a 0..32767;|rot a 0..32767;|] "
               "[lose b;||] [litter 3;|] [aside a;||] keep; close; [catalog "
               "[gone|zero|noise|cut];|] now; repair"},
    {"backup", 4, 1,
     INVENTORY "[rot a 0..32767;|] [lose b;||] [litter 3;|] keep; writer g; now; add g "
               "0..2; [commit g;|] add g 1; backup"},
};
const size_t n_workloads = sizeof workloads / sizeof workloads[0];
