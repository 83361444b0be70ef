/* Filters made anew from lists: lost, damaged or wrong ones, and no others. */
#include "tests/support/shop/shop.h"

#include <sys/file.h>

#define TWO_LISTS "put a 0 2000 list=64; put b 5000 2000 list=64; put plain 9000 100;"
#define ALL_HIT   "hits a 0 2000; hits b 5000 2000;"

TEST_OF_SCENES(filters_from_lists)
{
    static const struct scene_row rows[] = {
        {"good filters are left", TWO_LISTS, "mark", "repair; is rebuilt=0; stays"},
        {"lost and damaged ones come back; a dry run says the same", TWO_LISTS,
         "note b; lose a; zero b 1; zero plain 1; mark",
         "repair dry; is rebuilt=2; stays; repair; is rebuilt=2; says rebuilt a ;"
         "says made anew from its list;" ALL_HIT "listed a b; as_noted b; repair;"
         "is rebuilt=0"},
        /* Segment a has the list of b, so its filter lacks what it must have. */
        {"wrong ones are found", TWO_LISTS, "set_record a list-of=b",
         "hash a 5000 ABSENT; repair; is rebuilt=1;"
         "says of the 2000 hashes of its list: made anew; hits a 5000 2000"},
        /* A damaged list proves nothing, a cut one too little. */
        {"bad and cut lists are no source", TWO_LISTS,
         "zero a.list 1; lose a; put cut 0 500 list=50; lose cut",
         "repair dry; is rebuilt=0; repair; is rebuilt=0; hash a 1 FILE_LOST"},
        {"a damaged or lost ribbon comes back as one", TWO_LISTS,
         "put r 0 20000 kind=ribbon list=64; zero r 1; zero a 1",
         "repair; is rebuilt=2; file r layout=ribbon; file a layout=bloom; lose r;"
         "repair; is rebuilt=1; file r layout=ribbon"},
        /* A file that an older catalog does not name may be wanted: the edit that makes
         * a filter anew does not sweep it. */
        {"what nothing names is kept", TWO_LISTS,
         "copy catalog =older; put new 20000 100; lose a; copy =older catalog",
         "repair; is rebuilt=1 quarantined=1 swept=0; there aside:new;" ALL_HIT
         "settled"},
        {"another store is left", TWO_LISTS, "lose a; mark",
         "fails MISMATCH repair uuid=other; is done=0; stays"},
    };
    PLAY_ROWS(rows);
}

/* ---- beside other edits ---- */

static void (*meanwhile)(struct tamis_store *s);

static int edit_meanwhile(void *ctx)
{
    STORE s = store_open("s");
    void (*edit)(struct tamis_store * s) = meanwhile;
    meanwhile = NULL;
    edit(s);
    return 0;
}

/* Once repair reads a filter, a process makes an edit, unless it would have to wait. */
static ssize_t read_meanwhile(int fd, void *buf, size_t n, off_t at)
{
    char link[64], path[1024] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (meanwhile && readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, "/filters/")) {
        int dir = open(path_of("s/filters"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool may = flock(dir, LOCK_SH | LOCK_NB) == 0;
        close(dir);
        if (may)
            in_child(edit_meanwhile, NULL);
        meanwhile = NULL;
    }
    return calls_before.pread(fd, buf, n, at);
}

static void pack(struct tamis_store *s)
{
    pack_all(s);
}

static void repack(struct tamis_store *s)
{
    pack_again(s, TAMIS_REPACK_ALL);
}

static void replace(struct tamis_store *s)
{
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "p00", 3, NULL, NULL));
    put_listed_in(e, "p00", 0, 300);
    OK(tamis_edit_commit(e, NULL));
}

TEST_IN_DIR(edits_beside_it_are_no_damage)
{
    void (*const edits[])(struct tamis_store * s) = {pack, repack, replace};
    for (size_t i = 0; i < N_OF(edits); i++) {
        tamis_store_close(twenty_listed());
        if (edits[i] == repack) {
            STORE s = store_open("s");
            pack_all(s);
        }
        calls_before = io_calls;
        io_calls.pread = read_meanwhile;
        meanwhile = edits[i];
        struct tamis_repair_report r = repair("s");
        io_calls = calls_before;
        assert_null(meanwhile);
        IS(n_done(&r) + r.n_damaged + seen.n, 0);
        remove_tree("s");
    }
}

/* The process has seen the store while its pack was away. */
TEST_OF_SCENES(what_has_come_back_is_left)
{
    scene("a pack that was away");
    tamis_store_close(shop.store);
    remove_tree("s");
    shop.store = twenty_listed();
    steps("pack; move pack =away; hash p00 0 FILE_LOST; live move =away pack; live "
          "repair;"
          "is done=0 damaged=0");
}

RUN_TESTS(NULL, NULL)
