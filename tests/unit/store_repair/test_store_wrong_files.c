/* Files that are whole and not what their record needs: a list or a pack as a segment's
 * own filter, a list that breaks a rule, another segment's column. No reader believes
 * them, and repair makes no record of them. */
#include "tests/support/shop/shop.h"

/* Keys of "v" are in no other file. */
#define SOME_SEGMENTS                                                                  \
    "put b 5000 300; put c 6000 300; pack; put a 0 300 list=64 watermark=7;"           \
    "put v 9000 300 list=64 watermark=7;"
#define ALL_STAY "hits a 0 300; hits b 5000 300; hits c 6000 300;"

/* The record of "v" names the pack of b and c as its filter, or the list of a. */
TEST_OF_SCENES(other_kinds_are_no_filter)
{
    for (int pack = 0; pack < 2; pack++) {
        scene(pack ? "a pack" : "a list");
        steps(SOME_SEGMENTS);
        struct record of = record_in(shop.store, pack ? "b" : "a"),
                      v = record_in(shop.store, "v");
        memcpy(v.uuid, pack ? of.place.uuid : of.list_uuid, UUID_BYTES);
        v.table_digest = pack ? of.place.digest : of.list_digest;
        v.list_digest = v.watermark = 0;
        memset(v.list_uuid, 0, UUID_BYTES);
        put_record("v", &v, 0);
        steps("fails MISMATCH filter v; told no segment's filter; hits v 9000 300 "
              "MISMATCH;" ALL_STAY
              "repair; says no segment's filter; is rebuilt=1; record v state=1;"
              "hash v 9000 NO_FILTER;" ALL_STAY "settled");
    }
}

/* The records of b and c name each other's column: the sum of names does not agree, and
 * no column counts (SPEC.md §17.4). Or they have each other's UUID. */
TEST_OF_SCENES(exchanged_columns_are_told)
{
    struct tamis_verify rows;
    scene("columns");
    steps(SOME_SEGMENTS);
    struct record b = record_in(shop.store, "b"), c = record_in(shop.store, "c");
    struct pack_place place = b.place;
    b.place = c.place;
    c.place = place;
    for (int filters = 0; filters < 2; filters++) {
        put_record("b", filters ? &c : &b, 0);
        put_record("c", filters ? &b : &c, 0);
        SNAPSHOT snap = snapshot_of(opened());
        for (size_t i = 0; i < 4; i++)
            IS(tamis_snapshot_pack(snap, i, NULL, NULL, &rows),
               i == 0 || i == 3 ? TAMIS_ERR_NO_SEGMENT
               : filters        ? TAMIS_ERR_MISMATCH
                                : TAMIS_ERR_DAMAGED);
    }
}

TEST_OF_SCENES(lists_that_are_no_good)
{
    scene("no record is made of a list that has the segment's name");
    steps(SOME_SEGMENTS);
    struct record v = record_in(shop.store, "v");
    memcpy(v.uuid, v.list_uuid, UUID_BYTES);
    put_record("v", &v, offsetof(struct record_disk, keys));
    steps("repair; says no file is known to be its own; record v state=1");
    /* All digests of the list are right, the record's, too. */
    scene("a list that breaks a rule is set aside");
    steps(SOME_SEGMENTS "note v; flip v.list %d",
          PAGE_BYTES + LIST_HEAD_BYTES); /* leader */
    const char *list = path_at("v.list");
    reseal_file(list + strlen(test_dir) + 1);
    {
        FILTER f = open_filter(list);
        noted.list_digest = filter_info(f).table_digest;
    }
    put_record("v", &noted, 0);
    steps("repair; says its list: 1 of; is quarantined=1; unlisted v; hits v 9000 300;"
          "settled");
}

RUN_TESTS(NULL, NULL)
