/* The scenarios that are scripts. A call that fails in every run ("first") shows that
 * the ways out of one failure survive another. */
#include "tests/faults/run.h"

/* One page a stage. */
#define LONE_FEW  "lone f 40 2 .0001; "
#define LONE_MANY "lone f 20000 2 .0001; " /* a seal has a tree of digests to write */
#define WRITTEN   "fill f 15; commit f; fill f 15; commit f; "
#define CLEAN     LONE_FEW WRITTEN "shut f; "
#define PAGES     LONE_MANY WRITTEN "shut f; "
#define SEALING   "writer f; fill f 40; commit f; fill f 10; seal f; seal f; shut f"
/* A sector of the first stage is zeros, with keys in it. */
#define DAMAGED CLEAN "sector f; "

#define STORE                                                                          \
    "init; begin; put a 0 20; bare b; grow g; end; add g 10; commit g; shut g; "
#define READY       STORE "close; now; "
#define READY_LISTS "init; begin; list c 100 2000; list d 1500 2000; end; close; now; "
#define ASKS        "open; info; count; ask; prepare; ask; close"
/* A sealed filter of this store that no record names, a file and a catalog that were
 * never finished. */
#define ORPHANS STORE "put o 100 5; stray o; litter 3; "
#define DEAD    "past g; add g 80; commit g; kill g; " /* the catalog has not heard */
#define REPAIR  "keep; close; now; repair "
#define PACKABLE                                                                       \
    "init; begin; put a 0 20; bare b; grow g; put s 101 150; put t 1000 1500; end; "   \
    "add g 10; commit g; shut g; "
#define PACKED PACKABLE "pack; close; now; "
#define PACKS                                                                          \
    "init; begin; put a 0 20; grow g; put s 101 150; list l 500 40; put t 1000 1500; " \
    "end; pack a s; pack t l; add g 90; commit g; shut g; "
#define BACKED_UP                                                                      \
    "init; begin; put a 0 20; bare b; grow g; put l 101 5; end; add g 90; commit g; "  \
    "shut g; lose l; "

/* With the least memory; or with more, which cannot be had. */
#define BUILD "build built 1 1100 1e-8 "

const struct scenario scripted_scenarios[] = {
    /* Readers of one file: of one that grows meanwhile, they must notice, or say MAYBE;
     * of one so large that reading ahead pays. */
    SCENARIO("reader",
             CLEAN "now; watch f; see f; others; writer f; fill f 120; commit f; "
                   "ours; see f; others; shut f; ours; unlock f; see f"),
    SCENARIO("ask", CLEAN "build built 1 150 .0001; now; read built 1; read built 2; "
                          "read f 1; read f 3"),
    SCENARIO("large",
             "build big 1 250000 1e-8; now; watch big; see big; warm big; see big",
             .cold = true),
    SCENARIO("guard", "now; guard", .cold = true),
    SCENARIO("plan-store", "now; plan 300000; plan .5"),
    /* Filters made from filters. */
    SCENARIO("derive-files",
             "build old 1 800 1e-8; build all 1 1500 1e-8; now; unite u old "
             "all; common c old; shrink s all; compare old"),
    /* Stores that are opened, asked, and followed while others commit. */
    SCENARIO("store-open", READY ASKS),
    /* Filters that cannot be mapped are read. */
    SCENARIO("store-unmapped", "init; put a 0 4; close; now; open; prepare; ask; close",
             .first = "mmap:2:ENOMEM:ever", .gets_around = true),
    /* LMDB's file may end before the last page that it ever counted; then its trees are
     * walked. */
    SCENARIO("store-short", STORE "catalog short; now; " ASKS),
    SCENARIO("store-follow",
             READY "open; hold; others; put n 50 8; add g 80; commit g; "
                   "shut g; ours; hold"),
    SCENARIO("killed", READY ASKS, .prepare = killed_prepare, .check = killed_check),
    /* Builders. */
    SCENARIO("build", BUILD "1"),
    SCENARIO("build-old", BUILD "1", .old_system = true),
    SCENARIO("build-ribbon", "init; now; ribbon r 0 3000 .01; ask"),
    SCENARIO("build-many", "build built 1 900000 .01 67108864"),
    SCENARIO("embed", "embed engine 1 1100 1e-8 1"),
    SCENARIO("build-fails", BUILD "1", .first = "renameat2:1:EIO:ever"),
    SCENARIO("build-starved", BUILD "1", .first = "realloc:1:ENOMEM:ever"),
    SCENARIO("build-short", BUILD "65536", .first = "realloc:2:ENOMEM:ever",
             .gets_around = true),
    SCENARIO("build-eisdir", BUILD "1", .first = "open:1:EISDIR:once",
             .gets_around = true),
    SCENARIO("build-einval", BUILD "1", .first = "open:1:EINVAL:once",
             .gets_around = true),
    /* Writers of one file. */
    SCENARIO("create", LONE_FEW WRITTEN "shut f"),
    SCENARIO("create-old", LONE_FEW WRITTEN "shut f", .old_system = true),
    SCENARIO("grow", CLEAN
             "now; writer f; fill f 40; commit f; fill f 40; commit f; fill f 40; "
             "commit f; fill f 40; commit f; shut f"),
    SCENARIO("grow-old",
             CLEAN
             "now; writer f; fill f 40; commit f; fill f 40; commit f; fill f 40; "
             "commit f; fill f 40; commit f; shut f",
             .old_system = true),
    SCENARIO("unclean",
             LONE_FEW "fill f 30; commit f; fill f 30; commit f; fill f 20; kill f; "
                      "now; writer f; replay f; commit f; shut f"),
    /* The process whose sync has failed opens the filter again. The crash explorer
     * looks at the bytes that the disk lost then. */
    SCENARIO("twice",
             PAGES "now; writer f; fill f 20; commit f; shut f; writer f; replay f; "
                   "commit f; shut f"),
    SCENARIO("seal", CLEAN "now; " SEALING),
    /* After any failure no page that lost keys may become a good one. */
    SCENARIO("damaged", DAMAGED "now; " SEALING),
    /* A seal at once: nothing has looked at the page before. */
    SCENARIO("damaged-seal", DAMAGED "now; writer f; seal f; shut f"),
    SCENARIO("busy", CLEAN "writer f; now; writer f"),
    SCENARIO("create-fails", LONE_FEW WRITTEN "shut f", .first = "fsync:2:EIO:once"),
    SCENARIO("grow-fails",
             CLEAN
             "now; writer f; fill f 40; commit f; fill f 40; commit f; fill f 40; "
             "commit f; fill f 40; commit f; shut f",
             .first = "fallocate:1:ENOSPC:once"),
    SCENARIO("seal-tree", PAGES "now; " SEALING),
    SCENARIO("seal-fails", PAGES "now; " SEALING, .first = "fallocate:1:ENOSPC:once"),
    /* Stores that are created. */
    SCENARIO("store-create", "now; init; now; put n 50 5"),
    SCENARIO("store-old", "now; init; now; put n 50 5", .old_system = true),
    SCENARIO("store-remains", "litter 2; now; init; now; put n 50 5"),
    SCENARIO("store-again", "init; close; now; init"),
    SCENARIO("store-fails", "now; init; now; put n 50 5",
             .first = "renameat2:1:EIO:once"),
    SCENARIO("store-unnamed", "now; init; now; put n 50 5",
             .first = "fsync:2:EIO:once"),
    /* A segment's writer, and a catalog that has yet to hear of it. */
    SCENARIO("segment", READY "writer g; add g 50; commit g; seal g; shut g"),
    SCENARIO("late-seal",
             STORE "past g; add g 20; seal g; shut g; close; now; writer g"),
    SCENARIO("late-growth",
             STORE "past g; add g 80; commit g; shut g; close; now; writer g; "
                   "shut g"),
    SCENARIO("segment-fails", READY "writer g; add g 50; commit g; seal g; shut g",
             .first = "mdb_txn_commit:2:EIO:once"),
    /* Edits: all of it or nothing, and no file left that nothing names. */
    SCENARIO("put", READY "begin; put s 101 15; bare t; end"),
    SCENARIO("put-old", READY "begin; put s 101 15; bare t; end", .old_system = true),
    SCENARIO("replace", READY "begin; replace a 200 12; grow h; drop b; end"),
    SCENARIO("derive", READY "begin; union u a; fold a; end"),
    SCENARIO("derive-empty",
             "init; begin; put v 0 0; put w 0 0; end; close; now; join u v w"),
    SCENARIO("only", READY "begin; put s 101 5; only a; end"),
    SCENARIO("many",
             READY "begin; bare n1; bare n2; bare n3; bare n4; bare n5; bare n6; bare "
                   "n7; bare n8; bare n9; put x 50 3; only x; end"),
    SCENARIO("merge", READY_LISTS "begin; list n 100 3000; merge m c d; drop c; end"),
    SCENARIO("drop-busy", STORE "close; writer g; now; drop g"),
    SCENARIO("attach", "init; bare y; build e 0 30; close; now; attach x e"),
    SCENARIO("abort", READY "begin; put s 101 15; bare t; drop a; abort"),
    SCENARIO("sweep", STORE "litter 13; close; now; begin; put s 101 15; bare t; end"),
    SCENARIO("cold",
             "now; lone l; shut l; init; begin; abort; count; now; begin; put s 101 "
             "15; bare "
             "t; end",
             .cold = true),
    SCENARIO("put-fails", READY "begin; put s 101 15; bare t; end",
             .first = "mdb_txn_commit:2:EIO:once"),
    SCENARIO("put-unsure", READY "begin; put s 101 15; bare t; end",
             .first = "mdb_txn_commit:2:panic:once"),
    SCENARIO("map-full", READY "begin; drop a; put a 200 12; grow h; drop b; end",
             .first = "mdb_put:1:MDB_MAP_FULL:once"),
    SCENARIO("attach-fails", "init; bare y; build e 0 30; close; now; attach x e",
             .first = "renameat2:1:EIO:once"),
    /* Repair: finished, rebuilt, quarantined, swept, damaged, catalog. */
    SCENARIO("repair-damage", ORPHANS "rot a 5600; " REPAIR "0 0 2 2 0 0"),
    SCENARIO("repair-dead", STORE DEAD REPAIR "1 0 0 0 0 0"),
    SCENARIO("repair-sealed", STORE "past g; seal g; shut g; " REPAIR "1 0 0 0 0 0"),
    SCENARIO("repair-list", "init; list l 100 50; lose l; " REPAIR "0 1 0 0 0 0"),
    SCENARIO("repair-record", STORE "keep; spoil a; now; repair 0 1 0 0 0 0"),
    SCENARIO("repair-records",
             "init; begin; list l 100 50; list m 200 60; grow g; end; add g 10; "
             "commit g; shut g; lose l; spoil m; now; repair"),
    SCENARIO("repair-lost",
             STORE DEAD "rot a 5600; keep; catalog gone; now; repair 1 1 1 0 0 1"),
    SCENARIO("repair-zeros", STORE "keep; catalog zero; now; repair 0 1 0 0 0 1"),
    SCENARIO("repair-meta",
             STORE DEAD "rot a 5600; keep; catalog meta; now; repair 1 1 1 0 0 1"),
    SCENARIO("repair-filters", STORE "catalog nofilters; now; repair 0 1 0 0 2 0"),
    /* The first has swept the catalog, the second reports the rest. */
    SCENARIO("repair-again", ORPHANS "rot a 5600; " REPAIR "; repair 0 0 2 1 0 0",
             .first = ">mdb_put:1:ENOMEM:once", .must_fail = true),
    SCENARIO("repair-lost-again",
             STORE DEAD "rot a 5600; keep; catalog gone; now; repair; repair 0 1 1 "
                        "0 0 1",
             .first = ">renameat2:1:EIO:once", .must_fail = true),
    SCENARIO("repair-dry",
             ORPHANS "rot a 5600; past g; kill g; keep; close; now; dry 1 0 2 2 0 "
                     "0; now; repair 1 0 2 2 0 0"),
    SCENARIO("repair-dry-lost", ORPHANS
             "rot a 5600; past g; kill g; keep; catalog gone; now; dry 1 1 1 2 0 1; "
             "now; repair 1 1 1 2 0 1"),
    SCENARIO("confirm",
             STORE DEAD "rot a 5600; keep; catalog gone; repair; now; confirm"),
    SCENARIO("verify-record", ORPHANS "spoil a; now; orphans 1; close; now; repair"),
    SCENARIO("verify",
             ORPHANS "keep; close; now; orphans 2; close; now; repair 0 0 1 2 0 0"),
    /* Backups: left out, damaged. */
    SCENARIO("backup-old", BACKED_UP "close; now; backup 1 0",
             .first = ">renameat2:2:EINVAL:once"),
    SCENARIO("backup-damage", BACKED_UP "rot a 5600; zero g; close; now; backup 1 2"),
    SCENARIO("backup-writer",
             BACKED_UP "close; now; add g 5; commit g; add g 5; backup 1 0; shut "
                       "g"),
    SCENARIO("backup-exists", BACKED_UP "inway; close; now; backup; now; backup 1 0"),
    SCENARIO("backup-fails", BACKED_UP "close; now; backup 1 0",
             .first = ">renameat2:2:EIO:once", .must_fail = true),
    SCENARIO("backup-unnamed", BACKED_UP "close; now; backup 1 0",
             .first = ">fsync:5:EIO:once", .must_fail = true),
    /* Packs. */
    SCENARIO("pack", PACKABLE "close; now; pack"),
    SCENARIO("packer",
             PACKABLE "close; now; begin; drop a; pput m 3000 40; pput a 3100 30; "
                      "only n; end"),
    SCENARIO("repack", PACKED "pack 1"),
    SCENARIO("pack-auto",
             PACKED "pack 2"), /* nothing is loose, and no pack is half dead */
    SCENARIO("unpack", PACKED "unpack"),
    SCENARIO("pack-drop", PACKED "begin; drop a; put n 3100 30; end"),
    SCENARIO("pack-ask", PACKED "ask"),
    SCENARIO("packs-lost", PACKS "keep; catalog gone; now; repair"),
    SCENARIO("packs-twice",
             "init; begin; put a 0 20; put s 101 150; list t 1000 300; end; "
             "pack a s t; twice t 20 9; keep; catalog gone; now; repair"),
    SCENARIO("packs-record", PACKS "keep; spoil g; now; repair"),
    SCENARIO("packs-confirm", PACKS "keep; catalog gone; repair; now; confirm"),
    SCENARIO("packs-damage",
             PACKS "rot s 5600; rot a 5700; lose l; lose t; close; now; "
                   "repair 0 1 0 0 2 0"),
    SCENARIO("packs-backup", PACKS "rot s 5600; rot a 5700; close; now; backup 0 1"),
    SCENARIO("packs-edit",
             PACKS "close; now; begin; union u a t; fold s; pput m 3000 40; "
                   "merge n l l; end; unpack l; pack 2"),
    {0},
};
