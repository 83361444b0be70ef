/* Edits: put, drop, update, abort, and commits that fail. */
#include "tests/support/shop/shop.h"
#include "lib/builder/inside.h"

TEST_OF_SCENES(edits)
{
    static const struct scene_row rows[] = {
        {"an edit puts and drops",
         "begin; put a 0 100; put b 100 100; put empty 0 0; in; why a 5 "
         "UNKNOWN_SEGMENT; in 0",
         "commit; files 3; hits a 0 100; hits b 100 100; hits empty 0 100 ABSENT",
         "why a 100 ABSENT; drop a; files 2; why a 5 UNKNOWN_SEGMENT"},
        {"it sees its own changes in order", "put a 0 10; begin",
         "fails EXISTS put a 50 10; drop a; fails NO_SEGMENT drop a; put a 50 10;"
         "fails EXISTS put a 60 10; put gone 0 10; drop gone; fails NO_SEGMENT drop "
         "none",
         "commit; files 1; why a 5 ABSENT 55 HIT; why gone 5 UNKNOWN_SEGMENT"},
        {"an abort leaves no files", "begin; put a 0 10; growing g; files 2", "abort",
         "files 0; why a 5 UNKNOWN_SEGMENT"},
        {"nor a pack, mapped or not",
         "begin 1; put a 0 10 packed=1; begin 2; put a 50 10 packed=1; files 4; abort",
         "files 2; unmapped; begin 2; put a 50 10 packed=1; in 1; commit; in 2;"
         "fails EXISTS commit",
         "files 2; unmapped; why a 5 HIT"},
        {"a failed commit changes nothing",
         "put old 0 10; begin 1; put a 0 10; begin 2; drop old; put b 0 10;"
         "put a 50 10; begin 3; drop old; put c 0 10", /* no commit has put a yet */
         "in 1; commit; in 2; fails EXISTS commit; told segment 'a' exists; files 3;"
         "why old 5 HIT; why a 5 HIT; why b 5 UNKNOWN_SEGMENT",
         "drop old; in 3; fails NO_SEGMENT commit; files 1"},
        {"what is no column is refused", "begin",
         "fails UNFIT put a 0 10 packed=1 replace=1; told replaces no segment;"
         "fails UNFIT put a 0 10 packed=1 list=64; told has no list;"
         "fails UNFIT put a 0 5000 packed=1 kind=ribbon; told ribbon;"
         "fails UNFIT put a 0 5000 packed=1 kind=ribbon memory=1; told ribbon",
         "commit; files 0; segments 0"},
        {"a column that an edit put is its own",
         "put a 0 10; begin; drop a; put a 10 10 packed=1",
         "put c 20 10 packed=1; only c; drop a; commit",
         "why a 5 UNKNOWN_SEGMENT; why c 25 HIT; files 2; drop c; files 0"},
        /* A derived filter takes its source's place only while the source is listed. */
        {"a filter that was replaced is not dropped",
         "put a 0 100; note a; begin 1;"
         "fails NO_SEGMENT drop_if b; drop_if a; put a 0 100; in",
         "replace a 200 100; in 1; fails MISMATCH commit;" /* somebody else is faster */
         "told segment 'a' has another filter; files 1; hits a 200 100",
         "note a; begin; drop_if a; bare a; commit; why a 250 NO_FILTER;"
         "fails MISMATCH drop_if a"},
        {"a put may replace",
         "put a 0 10; put b 0 10 packed=1; put d 0 10; begin 1;"
         "replace a 50 10; bare b replace=1; growing c replace=1; replace none 0 10;"
         "derive d d how=fold factor=1 replace=1; in; replace c 0 10",
         "drop a; in 1; fails EXISTS put a 0 1; put e 0 10 packed=1; replace e 60 10;"
         "commit; hits a 50 10; why a 5 ABSENT; why b 55 NO_FILTER; why c 5 ABSENT;"
         "hits none 0 10; hits d 0 10; hits e 60 10",
         "begin; derive d d how=fold factor=1 replace=1; in; replace d 90 9; in 0;"
         "fails MISMATCH commit; hits d 90 9; only; files 0"},
        /* Its name may be the damaged part: another segment may have gone with it. */
        {"an unreadable record is replaced",
         "put a 0 10; put b 20 10; rot_record a keys",
         "complete 1; replace a 50 10; complete 0; why a 5 MISMATCH; files 3",
         "confirm; hits a 50 10; why a 5 ABSENT; hits b 20 10; begin; abort; files 2"},
        /* A segment of an engine's file goes only while it is that file's. One that
         * begins with its binding is another one, and so is none. */
        {"a binding that was replaced is not dropped",
         "bare a binding=db1/7; put none 0 10; begin 1; fails NO_SEGMENT drop_if b "
         "if=db1/7; drop_if a if=db1/7; put a 0 100; in",
         "begin; drop a; bare a binding=db2/7; commit; in 1; fails MISMATCH commit;"
         "told segment 'a' has another binding; why a 250 NO_FILTER; files 1; fails "
         "MISMATCH drop_if a if=db2/; fails MISMATCH drop_if a if=db2/71; fails "
         "MISMATCH drop_if a if=",
         "begin; drop_if a if=db2/7; drop_if none if=; commit; files 0"},
    };
    PLAY_ROWS(rows);
}

/* Drops what the snapshot has and the engine has not; see `only`. */
TEST_OF_SCENES(a_reconcile_makes_the_list_that_of_the_engine)
{
    static const struct scene_row rows[] = {
        {"the dead go, and the missing come",
         "put a 0 10 binding=f/1; put b 10 10; put c 20 10; put p 30 10 packed=1",
         "only a=f/1 d=f/4 c; new 0 1 0",
         "segments 3; why a 5 HIT; why c 25 HIT; bound d f/4 500 NO_FILTER; files 2;"
         "only; segments 0; files 0"},
        {"another file's filter does not answer",
         "put a 0 10 binding=f/1; put b 10 10 binding=f/2 packed=1; bare c binding=f/3",
         "only a=f/7 b=f/8 c=f/3; new 1 1 0",
         "bound a f/7 500 NO_FILTER; bound b f/8 500 NO_FILTER; files 0"},
        {"what the edit puts stays", "put a 0 10; put b 10 10; put c 20 5 packed=1",
         "begin; put own 30 10; growing g; put p 40 10 packed=1; only m later;"
         "put a 90 5 packed=1; put b 96 2; put c 60 5 packed=1; commit; new 1 1",
         "why a 5 ABSENT 91 HIT; why b 15 ABSENT 96 HIT; why c 22 ABSENT 61 HIT; why "
         "own 35 HIT; why p 45 HIT; segments 8;"
         "begin; put p2 50 10 packed=1; only n; put n 0 1; fails EXISTS commit"},
        {"what came after the snapshot stays",
         "put a 0 10; put b 0 10; hold; put late 10 10; put p 20 10 packed=1; bare n",
         "only a; segments 4; why late 15 HIT; why p 25 HIT; why n 500 NO_FILTER",
         "release; only a; segments 1"},
        {"what was replaced since stays",
         "put a 0 10; put b 0 10 packed=1; put c 0 10 packed=1; bare d; hold",
         "replace a 50 10; replace b 60 10; drop c; put c 70 10 packed=1;"
         "bare d replace=1 binding=f/1; only",
         "segments 4; why a 55 HIT; why b 65 HIT; why c 75 HIT; release; begin;"
         "only a=f/1; in; replace a 80 10; in 0; fails MISMATCH commit;"
         "told since the snapshot; why a 85 HIT"},
        {"what was moved since is the same", "put a 0 10; put b 10 10; put c 20 10",
         "hold; pack a b; only b; segments 1; packed b", "only; segments 0; files 0"},
        {"what is out of scope stays",
         "put a 0 10 binding=x/1; put b 0 10 binding=y/1; put p 0 10 binding=y/2 "
         "packed=1; bare c; rubbish segments z",
         "only n=x/2 scope=x/; new 1; segments 5; why a 5 UNKNOWN_SEGMENT",
         "fails MISMATCH only b=x/9 scope=x/; told out of scope; why b 5 HIT; only;"
         "segments 0; files 0"},
        {"a catalog that was made anew is another one", "put a 0 10; hold; close",
         "lose catalog; repair; fails MISMATCH only a; told another store",
         "release; confirm; only a; why a 5 HIT"},
        {"an older one has not what the snapshot has",
         "put a 0 10; close; copy catalog =old; put b 0 10; hold; close",
         "copy =old catalog; fails MISMATCH only a", "release; only a; segments 1"},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(an_update_keeps_the_filter)
{
    static const struct scene_row rows[] = {
        {"of a file, and of a column",
         "put a 0 10 binding=f/1 rank=3 list=64; put b 10 10 binding=f/2 rank=3;"
         "put c 20 10 binding=f/3; pack b c; files 4",
         "update a binding=g/1 rank=5; update b rank=4; update b binding=g/2 rank=1;"
         "update c binding=; record a rank=5 binding=g/1; record b rank=1 binding=g/2;"
         "record c rank=0 binding=; listed a; packed b c; files 4",
         "bound a g/1 5 HIT; bound a f/1 5 MISMATCH; bound b g/2 15 HIT;"
         "why b 500 ABSENT 15 HIT; why a 500 ABSENT; why c 25 HIT 500 ABSENT;"
         "pack how=ALL; bound b g/2 15 HIT 500 ABSENT; drop b; unpack c; drop c;"
         "settled; drop a; files 0"},
        {"if it is what was meant",
         "put a 0 10 binding=f/1; put b 0 10 packed=1; note b; begin; update_if b "
         "rank=7; update_if b if= rank=8; commit; record b rank=8",
         "begin 1; update_if a if=f/1 rank=9; in; update a binding=f/2; replace b 0 10;"
         "in 1; fails MISMATCH commit; in; fails MISMATCH update_if b",
         "begin; update b rank=1; drop b; fails NO_SEGMENT update b; commit"},
        {"a newer version's record is not made anew", "newer_record n",
         "fails VERSION update n", "segments 1"},
    };
    PLAY_ROWS(rows);
}

TEST_IN_DIR(edit_passes_on_memory_and_threads)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .memory_limit = 123456, .n_threads = 7, .check = 1};
    STORE s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_builder *b = builder_in(e, "a", &opt);
    IS(b->limit, 123456);
    IS(b->n_threads, 7);
    assert_true(b->checks);
    tamis_builder_free(b);
    /* A caller of before knew neither. */
    opt.size = offsetof(struct tamis_segment_options, memory_limit);
    OK(tamis_edit_builder(e, "a", 1, 0, &opt, &b, NULL));
    IS(b->limit, 64 << 20);
    IS(b->n_threads, 1);
    assert_false(b->checks);
    tamis_builder_free(b);
    tamis_edit_abort(e);
}

/* A builder that finds that memory changed puts nothing. The edit goes on. */
TEST_IN_DIR(edit_refuses_what_memory_changed)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .check = 1};
    struct tamis_diag diag;
    STORE s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    BUILDER b = builder_in(e, "a", &opt);
    OK(tamis_builder_add_key(b, "key", 3));
    b->hashes[0] ^= 1;
    IS(tamis_edit_put(e, b, NULL, &diag), TAMIS_ERR_DAMAGED);
    assert_non_null(strstr(diag.what, "memory"));
    IS(n_filter_files("s"), 0);
    b->hashes[0] ^= 1;
    OK(tamis_edit_put(e, b, NULL, &diag));
    OK(tamis_edit_commit(e, NULL));
    IS(n_filter_files("s"), 1);
}

TEST_IN_DIR(edit_refuses_bad_arguments)
{
    char name[300];
    struct tamis_builder *b = (void *)1;
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = name, .binding_bytes = 65};
    memset(name, 'n', sizeof name);
    STORE s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    IS(tamis_edit_put_bare(e, "", 0, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_put_bare(e, name, 256, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_put_bare(e, "a\0b", 3, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_put_bare(e, "a", 1, &opt, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_builder(e, "a", 1, 0.7, NULL, &b, NULL), TAMIS_ERR_RANGE);
    assert_null(b);
    IS(tamis_edit_drop(e, NULL, 0, NULL, NULL), TAMIS_ERR_RANGE);
    struct tamis_drop_if bad_if = {.is_bound = 1, .binding_bytes = 5};
    IS(tamis_edit_drop(e, "a", 1, &bad_if, NULL), TAMIS_ERR_RANGE);
    bad_if = (struct tamis_drop_if){NULL, 1, name, 65};
    IS(tamis_edit_drop(e, "a", 1, &bad_if, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_put(e, NULL, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_put(NULL, NULL, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_commit(NULL, NULL), TAMIS_ERR_RANGE);
    struct tamis_growth bad = {.factor = 100};
    IS(tamis_edit_put_growing(e, "a", 1, &bad, NULL, NULL), TAMIS_ERR_RANGE);
    OK(tamis_edit_put_bare(e, name, 255, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_edit_abort(NULL);
}

struct putter {
    struct tamis_edit *edit;
    int number, n_exists;
};

static void *put_many(void *arg)
{
    struct putter *p = arg;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "own-%d-%d", p->number, i);
        struct tamis_builder *b = builder_in(p->edit, name, NULL);
        uint64_t hash = (uint64_t)(p->number * 1000 + i);
        OK(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, &hash, 1));
        OK(tamis_edit_put(p->edit, b, NULL, NULL));
        tamis_builder_free(b);
        snprintf(name, sizeof name, "shared-%d", i);
        int rc = tamis_edit_put_bare(p->edit, name, strlen(name), NULL, NULL);
        assert_true(rc == 0 || rc == TAMIS_ERR_EXISTS);
        p->n_exists += rc != 0;
    }
    return NULL;
}

TEST_IN_DIR(threads_put_into_one_edit)
{
    pthread_t thread[4];
    struct putter p[4];
    int n_exists = 0;
    STORE s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 4; i++) {
        p[i] = (struct putter){e, i, 0};
        OK(pthread_create(&thread[i], NULL, put_many, &p[i]));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        n_exists += p[i].n_exists;
    }
    OK(tamis_edit_commit(e, NULL));
    IS(n_exists, 60);
    struct tamis_snapshot *snap = snapshot_of(s);
    IS(tamis_snapshot_info(snap).n_segments, 100);
    tamis_snapshot_release(snap);
    IS(n_filter_files("s"), 80);
}

TEST_IN_DIR(an_edit_for_a_dry_run_writes_nothing)
{
    struct tamis_edit_options opt = {.size = sizeof opt, .dry_run = 1};
    struct tamis_edit *e;
    STORE s = store_new("s");
    SNAPSHOT snap = snapshot_of(s);
    OK(tamis_edit_begin(s, &opt, &e, NULL));
    IS(tamis_edit_put_bare(e, "a", 1, NULL, NULL), TAMIS_ERR_READ_ONLY);
    IS(tamis_edit_pack(e, snap, NULL, 0, NULL, NULL, NULL), TAMIS_ERR_READ_ONLY);
    IS(tamis_edit_commit(e, NULL), TAMIS_ERR_READ_ONLY);
}

RUN_TESTS(NULL, NULL)
