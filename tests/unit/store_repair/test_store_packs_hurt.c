/* Packs that are missing, damaged or others than the records mean: backup and repair
 * lose no key, and take nothing for what it is not. */
#include "tests/support/shop/shop.h"

enum { SEGMENTS = 24 };

/* A harm to the first pack of two, and the reason why its segments are MAYBE then. At
 * hand are another pack of the store, a filter of it, and a pack of another store. */
static const struct {
    const char *name, *harm;
    enum tamis_reason why;
    int code;
    const char *words;
} hurts[] = {
    {"unhurt", "close", TAMIS_HIT, 0, ""},
    {"gone", "lose pack", TAMIS_FILE_LOST, ENOENT, "this pack is missing"},
    {"no header", "zero pack 0", TAMIS_FILE_LOST, TAMIS_ERR_NOT_TAMIS,
     "this pack: not a tamis"},
    {"short", "cut pack 5000", TAMIS_FILE_LOST, TAMIS_ERR_DAMAGED,
     "this pack: damaged"},
    {"another digest", "other_digest pack", TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH,
     "this pack: belongs"},
    {"another pack", "copy =another pack", TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH,
     "this pack: belongs"},
    {"a filter", "copy =filter pack", TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH,
     "this pack: belongs"},
    {"a strange pack", "copy =strange pack", TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH,
     "this pack: belongs"},
    {"no tombstones", "lose dead", TAMIS_FILE_LOST, ENOENT,
     ".dead file beside this pack is mi"},
    {"bad tombstones", "flip dead 50", TAMIS_FILE_LOST, TAMIS_ERR_DAMAGED,
     ".dead file beside"},
    {"a directory", "lose pack; mkdir pack", TAMIS_UNREADABLE, EISDIR,
     "this pack: Is a directory"},
    {"a FIFO", "lose pack; fifo pack", TAMIS_UNREADABLE, EINVAL,
     "this pack: not a regular file"},
    {"a directory for tombstones", "call d dead; lose d; mkdir d", TAMIS_FILE_LOST,
     TAMIS_ERR_DAMAGED, ".dead file beside"},
};
enum { N_HURTS = N_OF(hurts) };

static void store_in_two(int how)
{
    scene(hurts[how].name);
    steps("many 3 300; pack; copy pack =strange; anew; many %d 300; pack_in_two;"
          "put loose 8000000 100; copy loose =filter; call d dead; move d =hidden;"
          "copy pack =another; move =hidden d; %s",
          SEGMENTS, hurts[how].harm);
}

/* No segment is ABSENT of a key of its own; returns how many say HIT. */
static unsigned none_is_lost(void)
{
    unsigned n_hits = 0;
    for (unsigned i = 0; i < SEGMENTS; i++) {
        enum tamis_reason why = reason_of(opened(), name_of(i), i * 1000);
        assert_int_not_equal(why, ABSENT_HERE);
        n_hits += why == TAMIS_HIT;
    }
    assert_int_not_equal(reason_of(shop.store, "loose", 8000001), ABSENT_HERE);
    return n_hits;
}

TEST_OF_SCENES(nothing_is_lost)
{
    for (int how = 0; how < N_HURTS; how++) {
        store_in_two(how);
        unsigned n = none_is_lost();
        assert_true(n > 0 && (n == SEGMENTS) == (how == 0));
        steps("own_uuid; backup copy; is left=%d; use copy", how > 0);
        IS(none_is_lost(), n);
        steps("use s; repair; is anew=0; %s", how ? "says the pack of " : "close");
        IS(none_is_lost(), n);
        steps("lose catalog; repair uuid=own; is anew=1"); /* and once more */
        assert_true(none_is_lost() <= SEGMENTS);
        steps("settled");
    }
}

/* Segments of the pack that is hurt say why; the others answer. */
TEST_OF_SCENES(segments_have_the_reason_of_their_pack)
{
    for (int how = 1; how < N_HURTS; how++) {
        store_in_two(how);
        SNAPSHOT snap = snapshot_of(opened());
        unsigned n_hurt = 0;
        for (size_t i = 0; tamis_snapshot_next(snap, &i); i++) {
            FILTER f;
            struct tamis_diag diag;
            struct tamis_target target = tamis_snapshot_target(snap, i);
            struct tamis_key key = key_in(shop.store, 77777777);
            enum tamis_reason why;
            int rc = tamis_snapshot_filter(snap, i, &f, &diag);
            if (rc == 0)
                continue;
            n_hurt++;
            struct tamis_segment_info info = segment_at(snap, i);
            IS(tamis_snapshot_probe(snap, &target, &key, &why), TAMIS_MAYBE);
            if (rc != hurts[how].code || why != hurts[how].why ||
                !strstr(diag.what, hurts[how].words))
                fail_msg("%d, %d, %s", rc, (int)why, diag.what);
            assert_string_equal(strrchr(diag.file, '/'), strrchr(info.file, '/'));
        }
        assert_true(n_hurt > 0 && n_hurt < SEGMENTS);
    }
}

TEST_OF_SCENES(packs_and_catalogs_of_the_moment)
{
    static const struct scene_row rows[] = {
        /* An I/O error says nothing about the bytes: it is no damage. */
        {"a pack that cannot be read is not lost", "many 3 300; pack",
         "unreadable pack",
         "every 3 UNREADABLE; repair; is unread=1 damaged=0;"
         "says the pack of 3 segments: left alone; unreadable; settled"},
        {"nor are names looked up in it", "many 3 300; pack", "unreadable pack; open",
         "fails EIO only s0; told cannot tell; unreadable; segments 3"},
        {"nor are tombstones given up", "many 1 300; pack; set_record s0",
         "unreadable dead; open", "fails EIO only; unreadable; segments 1"},
        {"what is refused may need one", "many 3 300; pack; set_record s1 rotten=1",
         "lose dead", "only s0 s2; told segments stay listed; segments 3"},
        {"segments of a lost pack are not dropped unseen", "many 3 300; pack",
         "other_digest pack; fails DAMAGED only s0; zero pack 0; fails DAMAGED only s0;"
         "lose pack",
         "only; told segments stay listed; segments 3; fails DAMAGED only s0"},
        {"nor are its tombstones", "many 3 300; pack", "unreadable dead",
         "every 3 UNREADABLE; repair; is unread=1 damaged=0;"
         "says the pack of 3 segments: its tombstones: left alone: Input/output;"
         "unreadable; settled"},
        /* Both files of the pack are whole: the catalog is what is wrong. */
        {"an old catalog has dropped columns", "many 9 300; pack; copy catalog =old",
         "drop s2; drop s5; close; copy =old catalog",
         "repair; is damaged=1; says 2 segments were dropped from it: the catalog is "
         "older;"
         "repair; is damaged=1; says 2 segments were dropped from it: the catalog is "
         "older;"
         "fails ENOENT filter s2; told the segment was dropped from this pack"},
        /* By force; the message says what is unknown. */
        {"a list is confirmed without a lost pack",
         "put a 0 100; many 4 300; pack s0 s1 s2 s3; set_record s1; set_record s2;"
         "flip a 4099; repair; is quarantined=1; drop a",
         "meta complete=0; lose pack",
         "fails MISMATCH confirm; says nobody can tell whether; complete 0;"
         "confirm force; told not confirmed: 1 lost pack is; complete 0; segments 2;"
         "fails MISMATCH confirm; says its segment is not listed; confirm force;"
         "told_not lost; complete 1; why s1 1000 NO_FILTER; why s0 0 UNKNOWN_SEGMENT"},
        {"by force the list of a segment stays",
         "put a 0 2000 list=64; put b 5000 2000; pack a b; packed a; call d dead",
         "lose pack d",
         "confirm force; says listed no more; told not confirmed: 1 lost pack is;"
         "bare new; record a state=3; there a.list; repair; says made anew from its "
         "list; listed a;"
         "confirm; hits a 0 2000; why b 5000 UNKNOWN_SEGMENT"},
        {"in a list that is not confirmed it may have any name",
         "many 24 300; pack_in_two; meta complete=0", "lose pack",
         "every 24 FILE_LOST"},
        {"what a newer tamis wrote is not lost",
         "many 3 300; pack; set_record s1 ro_compat=1", "poke dead 8 9",
         "fails VERSION confirm; fails VERSION confirm force; told a newer tamis;"
         "segments 3; lose pack; fails VERSION confirm force; told is not on the "
         "list"},
        /* It will not become a pack: the catalog is not read for each snapshot. */
        {"a directory in a pack's place", "many 24 60; pack", "lose pack; mkdir pack",
         "hold; unchanged; release; why s0 0 UNREADABLE"},
    };
    PLAY_ROWS(rows);
}

/* A record that gives its segment a place that is not there, or is another's: a listed
 * segment's, or one with a record, too. */
TEST_OF_SCENES(a_place_that_is_not_there)
{
    for (int how = 0; how < 6; how++) {
        scene("places");
        steps("many %d 3000", SEGMENTS);
        pack_all(shop.store);
        struct record r = record_in(shop.store, "s0");
        if (how >= 4)
            steps("%s", how == 4 ? "set_record s5; open" : "replace s0 0 9");
        if (how == 5)
            r.place.column = 1 << 19;
        else if (how == 0)
            r.place.column = SEGMENTS;
        else if (how == 1 || how == 4)
            r.place.column = record_in(shop.store, "s5").place.column;
        else
            r.place.digest = how == 2 ? r.place.digest ^ 1 : 0;
        put_record("s0", &r, 0);
        enum tamis_reason why = reason_of(opened(), "s0", 0);
        assert_true(why > TAMIS_HIT);
        none_is_lost();
        assert_true(how != 4 || reason_of(shop.store, "s1", 1000) == TAMIS_UNREADABLE);
        SNAPSHOT snap = snapshot_of(shop.store);
        struct tamis_edit *e = edit_new(shop.store);
        uint32_t one = index_named(snap, "s0");
        assert_int_not_equal(tamis_edit_unpack(e, snap, &one, 1, NULL), 0);
        tamis_edit_abort(e);
        if (how == 0 || how == 2)
            steps("fails DAMAGED drop s0; repair; settled; why s0 0 NO_FILTER; confirm;"
                  "drop s0");
        else if (how == 5)
            steps(
                "lose dead; repair; fails MISMATCH confirm; confirm force; told are "
                "without a filter; complete 0; confirm; why s0 0 NO_FILTER; complete 1;"
                "each 1 24 HIT");
    }
}

RUN_TESTS(NULL, NULL)
