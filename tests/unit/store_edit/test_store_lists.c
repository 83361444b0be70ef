/* Lists in the hands of edits: a list has the life of its segment's record. */
#include "tests/support/shop/shop.h"

#define LISTED(name, first, n) "put " name " " first " " n " list=64 watermark=7;"

static void scene_of_twenty(const char *name)
{
    scene(name);
    tamis_store_close(shop.store);
    remove_tree("s");
    shop.store = twenty_listed();
}

TEST_OF_SCENES(lists_and_their_segments)
{
    static const struct scene_row rows[] = {
        {"the first list", "put plain 0 100", LISTED("a", "100", "200"),
         "listed a; unlisted plain; files 3; hits a 100 200; file a clean=1; there "
         "a.list"},
        /* Swept is what no record names, and not a list. */
        {"the sweep leaves lists", LISTED("a", "0", "200"),
         "text filters/00000000000000000000000000000001.tamis x; begin; abort",
         "there a.list; gone filters/00000000000000000000000000000001.tamis"},
        {"a list goes with its segment",
         LISTED("a", "0", "100") LISTED("b", "0", "100") LISTED("c", "0", "100"),
         "drop a; files 4; only c; files 2; call old c.list; there old",
         "replace c 0 300 list=64; files 2; gone old; close; there c.list"},
        {"edits that end leave nothing", LISTED("a", "0", "100"),
         "begin; put b 0 100 list=64; files 4; abort; files 2; begin; put b 0 100 "
         "list=64; in;"
         "put b 0 10; in 0", /* the name is taken by the time of its commit */
         "fails EXISTS commit; files 3"},
        /* A list that is not the record's is never taken, whatever keys it has. */
        {"no filter from another list, or a cut one",
         LISTED("a", "0", "3000") LISTED("b", "5000", "3000") "put plain 0 10",
         "fails NO_SEGMENT from_list plain; told no list of its hashes; copy b.list "
         "a.list",
         "fails MISMATCH from_list a; hits a 0 3000; put cut 0 100 list=48;"
         "fails UNFIT from_list cut; told 48 bits"},
        /* Another process replaces the segment between the snapshot and the commit. */
        {"not over a newer segment", LISTED("a", "0", "3000"),
         "begin; from_list a; in; replace a 7000 4000 list=64; in 0",
         "fails MISMATCH commit; hits a 7000 4000; files 2; close; there a.list"},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(lists_of_packed_segments)
{
    scene_of_twenty(
        "a filter may change its place: the list is of its hashes all the same");
    steps("pack; packed p03; listed p03; files 22");
    struct record packed = record_in(shop.store, "p03");
    steps("unpack p03; loose p03; listed p03");
    struct record r = record_in(shop.store, "p03");
    assert_memory_equal(r.list_uuid, packed.list_uuid, UUID_BYTES);
    assert_true(r.list_digest == packed.list_digest);
    steps("hits p03 3000 300; close; there p03.list; drop p03; files 21");
    /* Another process packs the segment: a filter of its own would undo that. */
    scene_of_twenty("from a list not over a packed one");
    steps("begin; from_list p00; in; pack; in 0; fails MISMATCH commit; packed p00");
    scene_of_twenty("nor by a fold");
    steps("begin; derive p00 p00 how=fold factor=1 replace=1; in; pack; in 0;"
          "fails MISMATCH commit; packed p00");
    /* Another process drops the segment, and attaches the same filter again. */
    scene_of_twenty("not with a list that went");
    steps("copy p00 =f; pack; begin; unpack p00; in; drop p00; attach p00 =f; in 0;"
          "fails MISMATCH commit; told has another filter than was meant; "
          "unlisted p00; files 22");
    scene_of_twenty("no update is undone");
    steps(
        "pack; begin; unpack p00; in; update p00 rank=3; in 0; fails MISMATCH commit; "
        "packed p00; record p00 rank=3");
}

TEST_OF_SCENES(a_filter_from_its_list)
{
    scene("a filter from its list");
    steps("put a 0 30000 binding=sst rank=4 watermark=9 list=64");
    struct record before = record_in(shop.store, "a");
    steps("from_list a error=1e-6; record a rank=4 watermark=9 keys=30000 binding=sst "
          "range=1;"
          "files 2; hits a 0 30000");
    struct record now = record_in(shop.store, "a");
    assert_true(now.file_bytes > before.file_bytes && now.target_error == 1e-6);
    assert_memory_not_equal(now.uuid, before.uuid, UUID_BYTES);
    assert_memory_equal(now.list_uuid, before.list_uuid, UUID_BYTES);
    assert_true(now.last_bytes == before.last_bytes);
    steps("close; there a.list");
}

/* A compaction: the output has all keys of the inputs, which go in the same edit. */
TEST_OF_SCENES(merged_segments)
{
    static const size_t all[] = {0, 1, 2};
    struct tamis_merge_report r;
    scene("merged segments");
    steps(LISTED("a", "0", "3000")
              LISTED("b", "2000", "3000") /* 1000 of them are in a */
          LISTED("c", "9000", "500") "hold; begin; drop a b c");
    IS(tamis_edit_merge(shop.edit, "b", 1, shop.held, all, 3, 0, NULL, &r, NULL),
       TAMIS_ERR_RANGE);
    OK(tamis_edit_merge(shop.edit, "new", 3, shop.held, all, 3, 0, NULL, &r, NULL));
    steps("commit; release; files 2; record new keys=5500 range=1; listed new;"
          "hits new 0 5000; hits new 9000 500; why new 8000 ABSENT;"
          "from_list new error=1e-5; hits new 0 5000"); /* its list is as good as any */
    assert_true(r.n_read == 6500 && r.n_repeats == 1000 && r.n_hashes == 5500);
}

RUN_TESTS(NULL, NULL)
