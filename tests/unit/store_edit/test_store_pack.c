/* Packs in a store: published, asked in every way, dropped, and put back. */
#include "tests/support/shop/shop.h"
#include "tests/support/shop/ways.h"

/* One key, and others, in brief mostly few: of all segments, and of them in the other
 * order. */
static void ask_in_every_way(struct tamis_snapshot *snap, const struct tamis_key *key,
                             uint8_t reasons[MAX_SEGMENTS])
{
    enum { N = 70 };
    static uint8_t want[N * MAX_SEGMENTS];
    struct tamis_target targets[MAX_SEGMENTS];
    struct tamis_key keys[N];
    size_t n = tamis_snapshot_info(snap).n_numbers;
    size_t n_asked = random_below(by_form(8, 1)) ? 5 : N;
    uint64_t tag = tamis_snapshot_info(snap).domain.tag;
    for (size_t i = 0; i < n; i++)
        targets[i] = tamis_snapshot_target(snap, n - 1 - i);
    for (size_t i = 0; i < n_asked; i++)
        keys[i] = (struct tamis_key){.tag = tag, .hash = random_u64()};
    keys[0] = keys[n_asked - 1] = keys[1] = *key;
    keys[1].tag++;
    ask_every_way(snap, NULL, n, keys, n_asked, want);
    memcpy(reasons, want, n);
    for (size_t i = 0; i < n; i++)
        assert_true(want[n + i] > TAMIS_HIT);
    ask_every_way(snap, targets, n < 3 ? n : random_below(2) ? 3 : n, keys, 2, NULL);
}

/* No key of the first n segments is absent from its own. */
static void check_keys_of(struct tamis_store *s, unsigned n, enum tamis_reason want)
{
    SNAPSHOT snap = snapshot_of(s);
    uint8_t reasons[MAX_SEGMENTS];
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k += 1 + n_keys[i] / 4) {
            struct tamis_key key = key_in(s, i * 1000 + k);
            ask_in_every_way(snap, &key, reasons);
            IS(reasons[index_of(snap, i)], want);
        }
}

/* One row has the answers of all segments, behind the columns of dropped ones. */
TEST_IN_DIR(the_first_columns_are_dead)
{
    enum { N = 64 }; /* one band */
    STORE s = store_new("s");
    for (unsigned i = 0; i < N; i++)
        put_segment(s, name_of(i), i * 1000, 50);
    pack_all(s);
    drop_segment(s, name_of(0)); /* the first two by name */
    drop_segment(s, name_of(1));
    SNAPSHOT snap = snapshot_of(s);
    for (unsigned i = 2; i < N; i++) {
        uint8_t reasons[MAX_SEGMENTS];
        struct tamis_key key = key_in(s, i * 1000 + 7);
        ask_in_every_way(snap, &key, reasons);
        IS(reasons[index_of(snap, i)], TAMIS_HIT);
    }
}

/* Packs, and beside them segments of every other kind. */
TEST_IN_DIR(what_cannot_be_packed_is_left)
{
    static const struct {
        const char *name;
        enum segment_kind kind;
    } others[] = {{"growing", GROWING}, {"stages", STAGES},
                  {"bare", BARE},       {"lost", LOST},
                  {"damaged", DAMAGED}, {"unreadable", UNREADABLE},
                  {"ribbon", RIBBON}};
    STORE s = store_of("s", 80, 500);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < N_OF(others); i++) {
        struct tamis_segment_options opt = {
            .size = sizeof opt, .kind = others[i].kind == RIBBON ? TAMIS_RIBBON : 0};
        if (!put_unbuilt(e, others[i].name, others[i].kind))
            OK(put_keys(e, others[i].name, 1, 300, &opt));
    }
    OK(tamis_edit_commit(e, NULL));
    struct tamis_writer *w = writer_of(s, "stages");
    add_keys(w, 1, 2000);
    OK(tamis_writer_seal(w, 0, NULL, NULL));
    OK(tamis_writer_close(w, NULL));
    OK(tamis_store_writer(s, "growing", 7, NULL, &w, NULL));
    add_keys(w, 1, 300);
    OK(tamis_writer_close(w, NULL));
    for (size_t i = 0; i < N_OF(others); i++)
        hurt(s, others[i].name, others[i].kind);
    struct tamis_pack_report report = pack_all(s);
    IS(report.n_packed, 80);
    assert_true(report.n_left[TAMIS_LEFT_GROWING] == 1 &&
                report.n_left[TAMIS_LEFT_STAGES] == 1 &&
                report.n_left[TAMIS_LEFT_BARE] == 1 &&
                report.n_left[TAMIS_LEFT_RIBBON] == 1);
    IS(report.n_left[TAMIS_LEFT_UNREADABLE], 3);
    static const enum tamis_reason want[] = {
        TAMIS_HIT,     TAMIS_HIT,        TAMIS_NO_FILTER, TAMIS_FILE_LOST,
        TAMIS_DAMAGED, TAMIS_UNREADABLE, TAMIS_HIT};
    for (size_t i = 0; i < N_OF(others); i++)
        IS(reason_of(s, others[i].name, 100), want[i]);
    struct tamis_snapshot *snap = snapshot_of(s);
    for (unsigned k = 1; k < 300; k += 20) {
        uint8_t reasons[MAX_SEGMENTS];
        struct tamis_key key = key_in(s, k);
        ask_in_every_way(snap, &key, reasons);
    }
    tamis_snapshot_release(snap);
    check_keys_of(s, 80, TAMIS_HIT);
    report = pack_all(s); /* again: nothing is left to pack */
    assert_true(report.n_packed == 0 && report.n_left[TAMIS_LEFT_PACKED] == 80);
}

/* ---- tombstones ---- */

TEST_OF_SCENES(tombstones)
{
    /* Segment 2 has other keys by then: an absent from its old column would lose them.
     * Or the process died before it set the tombstone: the next sweep does. */
    for (int died = 0; died < 2; died++)
        play("a dropped column stays dropped",
             "many 20 300; pack; copy catalog =old; copy dead =alive; drop s2;"
             "put s2 5000000 100; why s2 5000050 HIT; %s; close; copy =old catalog;"
             "why s2 5000050 FILE_LOST 77 FILE_LOST; why s3 3000 HIT",
             died ? "copy =alive dead; put another 1 10" : "close");
    static const char *const harm[] = {"lose dead", "flip dead 50", "cut dead 40",
                                       "cut dead 1000000"};
    for (int how = 0; how < 4; how++)
        play("without tombstones no column counts",
             "many 20 300; pack; %s; every 20 FILE_LOST", harm[how]);
    /* Else an older catalog would find a segment that these tombstones do not know. */
    play("no column goes without a tombstone",
         "many 20 300; pack; set_record s3 rank=1; copy catalog =old; call d dead;"
         "move d =d; fails DAMAGED drop s2; fails DAMAGED drop s3; put n 6000000 10;"
         "only n; segments 21; move =d d; drop s2; put s2 5000000 100; close; copy "
         "=old catalog;"
         "why s2 5000050 FILE_LOST");
    /* The process that set the bit may have died before its sync. */
    scene("the names of tombstones are synced, though all are set");
    steps("many 20 300; pack; copy catalog =old; drop s2; close; copy =old catalog; "
          "open");
    faults_on(NULL);
    steps("drop s2");
    assert_true(faults[CALL_FSYNC].n > 0);
    faults_off(NULL);
    scene("a pack without columns goes");
    steps("many 9 300; pack");
    for (unsigned i = 0; i < 9; i++)
        steps("files 2; drop s%u", i);
    steps("files 0");
}

/* ---- while it is packed ---- */

TEST_OF_SCENES(segments_replaced_meanwhile)
{
    scene("while filters are read, and while the pack is written");
    steps(
        "many 30 300; hold; drop s6; put s6 6000 100; begin 1; replace s7 8000000 100;"
        "begin; pack; is replaced=1 unreadable=0; release; in; replace s4 7000000 100;"
        "drop s5; in 0; commit; in 1; commit; why s4 7000001 HIT; why s6 6000 HIT;"
        "why s7 8000001 HIT 7000 ABSENT; why s5 5000 UNKNOWN_SEGMENT; loose s4 s7;"
        "files 5");
    uint32_t n;
    size_t n_bytes, n_dead = 0;
    FREED uint8_t *file = file_read(dead_file(), &n_bytes);
    memcpy(&n, file + 12, 4);
    for (uint32_t c = 0; c < n; c++)
        n_dead += file[DEAD_HEAD_BYTES + c / 8] >> c % 8 & 1;
    assert_true(n == 29 && n_dead == 3);
    /* One that was killed: its files stay until the next sweep. */
    scene("an aborted pack leaves nothing");
    steps("many 30 300; begin; pack; files 32; abort; files 30; begin; pack; live call "
          "d dead;"
          "live copy d =d; abort; copy =d d; put another 1 10; files 31");
    check_keys_of(shop.store, 30, TAMIS_HIT);
}

/* ---- damage ---- */

TEST_IN_DIR(damaged_packs_lose_nothing)
{
    struct tamis_store *s = store_of("s", 60, 400);
    struct tamis_pack_report report = pack_all(s);
    size_t number[60]; /* a column whose page is lost is found by number alone */
    struct tamis_snapshot *whole = snapshot_of(s);
    for (unsigned i = 0; i < 60; i++)
        number[i] = index_of(whole, i);
    tamis_snapshot_release(whole);
    tamis_store_close(s);
    char pack[900];
    snprintf(pack, sizeof pack, "%.*s.tamis", (int)strlen(dead_file()) - 5,
             dead_file());
    file_copy(pack, path_of("whole"));
    for (uint64_t page = 0; page < report.file_bytes / PAGE_BYTES; page += 1) {
        file_copy(path_of("whole"), pack);
        zero_page(pack, page);
        STORE again = store_open("s");
        SNAPSHOT snap = snapshot_of(again);
        for (unsigned i = 0; i < 60; i += 7) {
            uint8_t reasons[MAX_SEGMENTS];
            struct tamis_key key = key_in(again, i * 1000);
            ask_in_every_way(snap, &key, reasons);
            assert_int_not_equal(reasons[number[i]], TAMIS_NO_REASON);
        }
    }
}

TEST_OF_SCENES(bad_calls_are_refused)
{
    struct tamis_diag diag;
    STORE other = NULL;
    scene("bad calls");
    other = store_of("t", 3, 300);
    steps("many 3 300; hold; begin");
    SNAPSHOT theirs = snapshot_of(other);
    struct tamis_edit *e = shop.edit;
    uint32_t beyond[] = {0, 3};
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .repack = (enum tamis_repack)3};
    IS(tamis_edit_pack(e, NULL, NULL, 0, NULL, NULL, &diag), TAMIS_ERR_RANGE);
    IS(tamis_edit_pack(e, theirs, NULL, 0, NULL, NULL, &diag), TAMIS_ERR_MISMATCH);
    IS(tamis_edit_pack(e, shop.held, beyond, 2, NULL, NULL, &diag), TAMIS_ERR_RANGE);
    IS(tamis_edit_pack(NULL, shop.held, NULL, 0, NULL, NULL, &diag), TAMIS_ERR_RANGE);
    IS(tamis_edit_pack(e, shop.held, NULL, 0, &opt, NULL, NULL), TAMIS_ERR_RANGE);
    opt.repack = TAMIS_REPACK_AUTO;
    IS(tamis_edit_pack(e, shop.held, beyond, 1, &opt, NULL, NULL), TAMIS_ERR_RANGE);
    opt.size = 1;
    IS(tamis_edit_pack(e, shop.held, NULL, 0, &opt, NULL, NULL), TAMIS_ERR_RANGE);
    steps("pack s1 s1 s2; is packed=2; commit");
    check_keys_of(shop.store, 3, TAMIS_HIT);
}

RUN_TESTS(NULL, NULL)
