/* Edits: put, drop, retain, abort, and commits that fail. */
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
        {"retain keeps the named and its own", "put a 0 10; put b 10 10; put c 20 10",
         "begin; put own 30 10; retain b unknown later; fails NO_SEGMENT drop a;"
         "fails EXISTS put b 0 1; put c 90 5; commit", /* c is free again */
         "why a 5 UNKNOWN_SEGMENT; why b 15 HIT; why c 25 ABSENT 91 HIT; why own 35 "
         "HIT;"
         "files 3; retain; files 0"},
        {"what a retain took off is put as a column",
         "put a 0 10; put b 10 10 packed=1",
         "begin; retain; put a 50 10 packed=1; put b 60 10 packed=1;"
         "fails EXISTS put a 0 1; commit",
         "why a 5 ABSENT 55 HIT; why b 15 ABSENT 65 HIT"},
        {"what is no column is refused", "begin",
         "fails UNFIT put a 0 10 packed=1 replace=1; told replaces no segment;"
         "fails UNFIT put a 0 10 packed=1 list=64; told has no list;"
         "fails UNFIT put a 0 5000 packed=1 kind=ribbon; told ribbon;"
         "fails UNFIT put a 0 5000 packed=1 kind=ribbon memory=1; told ribbon",
         "commit; files 0; segments 0"},
        {"a column that an edit put is its own",
         "put a 0 10; begin; drop a; put a 10 10 packed=1; fails EXISTS put a 0 1",
         "put c 20 10 packed=1; retain; fails EXISTS put c 0 1; drop a; commit",
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
         "put e 0 10 packed=1; replace e 60 10; derive d d how=fold factor=1 replace=1;"
         "in; replace c 0 10",
         "drop a; in 1; fails EXISTS put a 0 1; commit; hits a 50 10; why a 5 ABSENT;"
         "why b 55 NO_FILTER; why c 5 ABSENT; hits none 0 10; hits d 0 10; hits e 60 "
         "10",
         "begin; derive d d how=fold factor=1 replace=1; in; replace d 90 9; in 0;"
         "fails MISMATCH commit; hits d 90 9; retain; files 0"},
        /* Its name may be the damaged part: another segment may have gone with it. */
        {"an unreadable record is replaced",
         "put a 0 10; put b 20 10; rot_record a keys",
         "complete 1; replace a 50 10; complete 0; why a 5 MISMATCH; files 3",
         "confirm; hits a 50 10; why a 5 ABSENT; hits b 20 10; begin; abort; files 2"},
        /* A segment of an engine's file goes only while it is that file's. One that
         * begins with its binding is another one, and so is none. */
        {"a binding that was replaced is not dropped",
         "bare a binding=db1/7; put none 0 10; begin 1;"
         "fails NO_SEGMENT drop_if b binding=db1/7; drop_if a binding=db1/7;"
         "put a 0 100; in",
         "begin; drop a; bare a binding=db2/7; commit; in 1; fails MISMATCH commit;"
         "told segment 'a' has another binding; why a 250 NO_FILTER; files 1;"
         "fails MISMATCH drop_if a binding=db2/; fails MISMATCH drop_if a "
         "binding=db2/71;"
         "fails MISMATCH drop_if a binding=",
         "begin; drop_if a binding=db2/7; drop_if none binding=; commit; files "
         "0"},
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

TEST_OF_SCENES(names_that_are_none_are_retained_by_nobody)
{
    static const struct tamis_name live[] = {{"b", 1}, {"", 0}, {NULL, 0}};
    scene("names that are none");
    steps("put a 0 10; put b 10 10; begin");
    OK(tamis_edit_retain(shop.edit, live, 3, NULL));
    steps("commit; files 1; why b 15 HIT");
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
        OK(tamis_builder_add_hashes(b, builder_domain(b).tag, &hash, 1));
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
