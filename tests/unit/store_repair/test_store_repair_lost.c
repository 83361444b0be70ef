/* Repair without a catalog: a new one is made from the filters. It lists no more than
 * they say, and proves nothing that two of them dispute. Processes that have the store
 * open keep it. */
#include "tests/support/shop/shop.h"

/* Ways to lose a catalog. */
TEST_OF_SCENES(a_lost_catalog_is_made_anew)
{
    static const struct {
        const char *name, *harm;
    } losses[] = {{"missing", "lose catalog"},
                  {"no bytes", "cut catalog 0"},
                  {"cut", "cut catalog 12388"},
                  {"cut deep", "cut catalog 8192"},
                  {"noise", "noise catalog 0"},
                  {"noise inside: its first two pages are good", "noise catalog 2"},
                  {"a text", "text catalog not-a-catalog"},
                  {"no meta record", "lose_meta"}};
    for (size_t i = 0; i < N_OF(losses); i++) {
        scene(losses[i].name);
        steps(AGW);
        struct tamis_store_info was = store_info(shop.store);
        steps(
            "%s; repair; is anew=1 whole=0 segments=3 quarantined=0 swept=0 finished=0;"
            "complete 0;" HAS_AGW "why a 99999 MISMATCH; why g 99999 MISMATCH;"
            "record a binding=A; all 99999 MAYBE;" /* it may lack segments */
            "grow g 5000 10 8; settled; all 99999 MAYBE; hold; confirm; all 99999 "
            "ABSENT;"
            "why a 99999 ABSENT; why g 99999 ABSENT; why w 99999 ABSENT;" HAS_AGW
            "was_all 99999 MAYBE; release; complete 1",
            losses[i].harm);
        struct tamis_store_info is = store_info(shop.store);
        assert_memory_equal(was.uuid, is.uuid, sizeof is.uuid);
        assert_true(was.domain.tag == is.domain.tag);
        steps("%s quarantine/catalog.lmdb; settled", i ? "there" : "gone");
    }
}

TEST_OF_SCENES(what_is_listed_anew)
{
    static const struct scene_row rows[] = {
        /* Only the first record is damaged: the others know more than the files. */
        {"good records are kept", AGW "bare bare", "noise_meta",
         "repair; is anew=1 segments=4;" HAS_AGW "record bare state=1;"
         "record a rank=3 range=1; all 99999 MAYBE; settled"},
        /* One was dropped, and nobody can tell which. */
        {"two files of one name prove nothing", AGW,
         "call first a; copy a =first; replace a 7000 100; move =first first; lose "
         "catalog",
         "repair; says two files claim this segment; is quarantined=2 segments=3;"
         "there aside:first aside:a; gone first a; why a 50 NO_FILTER 7050 "
         "NO_FILTER;" HAS_AGW "settled"},
        {"damaged files are listed where their names are known", AGW "put b 10 10",
         "flip a 4099; flip b 130; lose catalog",
         "repair; is quarantined=2 segments=3;" HAS_AGW
         "why a 99999 NO_FILTER; why b 99999 UNKNOWN_SEGMENT; settled"},
        {"a dead writer's filter is recovered first", AGW, "kill 6000; lose catalog",
         "repair; is finished=1;" HAS_AGW
         "has g 6000 100; record g watermark=9; settled"},
    };
    PLAY_ROWS(rows);
}

static int die_editing(void *ctx)
{
    struct tamis_store *s = store_open("s");
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "new", .binding_bytes = 3};
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "x", 1, NULL, NULL));
    OK(put_keys(e, "x", 9000, 100, &opt));
    _exit(0);
}

/* The only file that claims a name may be an edit's that was killed before it
 * committed: the segment's own had no filter. A caller that does not name its file by a
 * binding gets no proof from it, until it has confirmed the list. */
TEST_OF_SCENES(a_lone_file_may_be_an_uncommitted_edits)
{
    scene("a lone file");
    steps(AGW "bare x binding=old; close"); /* x: keys 0 .. 99, not in any filter */
    in_child(die_editing, NULL);
    steps("lose catalog; repair; is segments=4; hits x 0 100 MISMATCH;"
          "fails MISMATCH find x binding=old; bound x new 9050 HIT 50 ABSENT");
    SNAPSHOT snap = snapshot_of(opened());
    struct tamis_key out = key_in(shop.store, 50);
    for (size_t i = 0; tamis_snapshot_next(snap, &i); i++) {
        struct tamis_target t = tamis_snapshot_target(snap, i);
        IS(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    }
}

/* ---- who has the store open keeps it ---- */

static int repair_is_busy(void *ctx)
{
    struct tamis_diag diag;
    char words[64];
    snprintf(words, sizeof words, "process %d has the store open", (int)getppid());
    return repair_code("s", 0, NULL, NULL, &diag) != TAMIS_ERR_BUSY ||
           !strstr(diag.what, words);
}

/* No repair while a process has the store open, even without LMDB's lock file. */
TEST_OF_SCENES(an_open_store_is_not_rebuilt_under_its_users)
{
    scene("a store that is open");
    steps(AGW "live lose catalog; live mark; fails BUSY live repair; stays");
    in_child(repair_is_busy, NULL);
    steps("live lose lock; live mark; fails BUSY live repair; stays; repair;" HAS_AGW);
}

/* A process that opens the store while its catalog is exchanged gets the new one. */
static pthread_t opener;
static _Atomic bool opening;

static void *open_meanwhile(void *ctx)
{
    STORE s = NULL;
    struct tamis_diag diag = {0};
    opening = true;
    if (tamis_store_open(path_of("s"), NULL, &s, &diag) != 0)
        fail_msg("%s", diag.what);
    SNAPSHOT snap = snapshot_of(s);
    IS(tamis_snapshot_info(snap).n_segments, 3);
    return NULL;
}

static int slow_rename(int from_dir, const char *from, int to_dir, const char *to,
                       unsigned flags)
{
    if (strcmp(to, "catalog.lmdb") == 0) {
        OK(pthread_create(&opener, NULL, open_meanwhile, NULL));
        while (!opening)
            sched_yield();
        for (int i = 0; i < 1000; i++)
            sched_yield(); /* as far as it gets */
    }
    return calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

TEST_OF_SCENES(who_opens_meanwhile_gets_the_new_catalog)
{
    scene("a catalog that is made anew");
    steps(AGW "lose_meta");
    calls_before = io_calls;
    io_calls.renameat2 = slow_rename;
    repair("s");
    io_calls = calls_before;
    OK(pthread_join(opener, NULL));
}

TEST_OF_SCENES(creating_over_an_open_store_fails_at_once)
{
    scene("a store that is open");
    steps(AGW);
    IS(create_store(path_of("s"), NULL, NULL), TAMIS_ERR_EXISTS);
    steps(HAS_AGW);
}

/* The store is open, and its catalog gone: another process has nothing to wait for. */
static void *create_meanwhile(void *ctx)
{
    struct tamis_diag diag;
    char words[64];
    int rc = create_store(path_of("s"), NULL, &diag);
    snprintf(words, sizeof words, "process %d has a store open here", (int)getpid());
    *(int *)ctx = strstr(diag.what, words) ? rc : 1;
    return NULL;
}

TEST_IN_DIR(nor_is_one_made_beside_it)
{
    enum { N = 4 };
    pthread_t threads[N];
    int codes[N];
    struct tamis_store *s = store_new("s");
    OK(unlink(path_of("s/catalog.lmdb")));
    for (int i = 0; i < N; i++)
        OK(pthread_create(&threads[i], NULL, create_meanwhile, &codes[i]));
    for (int i = 0; i < N; i++) {
        OK(pthread_join(threads[i], NULL));
        IS(codes[i], TAMIS_ERR_BUSY);
    }
    tamis_store_close(s);
    OK(create_store(path_of("s"), NULL, NULL));
}

RUN_TESTS(NULL, NULL)
