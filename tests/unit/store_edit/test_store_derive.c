/* Segments whose filters are made from those of others. */
#include "tests/support/shop/shop.h"

/* "a" has the keys 0 .. 2999, "b" 1500 .. 4499. */
#define TWO "begin; put a 0 3000; put b 1500 3000; commit;"

/* Compares the list and the file of the segment "a". */
static void check_record(struct tamis_store *s)
{
    SNAPSHOT snap = snapshot_of(s);
    uint32_t at = index_named(snap, "a");
    assert_true(segment_at(snap, at).error == 1e-4);
    struct tamis_filter_info file = filter_info(filter_at(snap, at));
    assert_memory_equal(file.store_uuid, s->catalog->meta.store_uuid, UUID_BYTES);
}

TEST_OF_SCENES(derived_segments)
{
    scene("a union replaces its sources, under the name of one of them");
    steps(TWO
          "hold; begin; drop a b; fails RANGE derive a a b how=union; told `replace`;"
          "files 2; abort; begin; drop b;"
          "derive a a b how=union binding=sst rank=3 watermark=9 replace=1; commit;"
          "release;"
          "is bad_pages=0; hits a 0 4500; why b 1 UNKNOWN_SEGMENT; why a 6000 ABSENT;"
          "files 1; range a key00000000 key00004499; record a rank=3;"
          "needs a 9 1 HIT; needs a 10 1 BEHIND; find a binding=sst watermark=9");
    assert_in_range(count_named("derived"), 4200, 4800);
    check_record(shop.store);
    static const struct scene_row rows[] = {
        {"intersection and folds", TWO,
         "begin; derive i a b how=intersection; derive f a how=shrink error=0.5;"
         "derive g b how=fold factor=1; commit",
         "hits i 1500 1500; hits f 0 3000; hits g 1500 1500"},
        /* The range is over all of them, whichever comes first: here each end is in
         * another one than the last, and neither in the first. */
        {"ranges in any order", "put a 0 10; put b 20 10; put c 40 10",
         "derive u a b c how=union; derive v c b a how=union; derive w b c a how=union;"
         "derive x b a c how=union",
         "range u key00000000 key00000049; range v key00000000 key00000049;"
         "range w key00000000 key00000049; range x key00000000 key00000049;"
         "hits u 0 10; hits v 20 10; hits w 40 10; hits x 0 10; hits x 20 10; hits x "
         "40 10;"
         "hits u 20 10; hits u 40 10; hits v 0 10; hits v 40 10; hits w 0 10; hits w "
         "20 10"},
        /* A key that begins as another one does and is longer comes after it. */
        {"ranges of prefixes", "texts a key keyring; texts b ke keyrings",
         "derive u a b how=union; derive v b a how=union",
         "range u ke keyrings; range v ke keyrings"},
        /* A key that was added by hash may be any. */
        {"one unknown range is no range", TWO, "hashed c 77; derive u a c how=union",
         "range u; hash u 77 HIT"},
        /* Made part of another one, a filter that never was the segment's would get a
         * binding, and be believed. */
        {"lists that are not confirmed are refused", TWO, "lose catalog; repair",
         "fails MISMATCH derive u a b how=union; files 2; confirm; derive u a b "
         "how=union;"
         "why u 1 HIT"},
    };
    PLAY_ROWS(rows);
}

/* A call that is refused reports nothing, and leaves no file. */
static void refused(struct tamis_snapshot *snap, const size_t *list, size_t n, int code)
{
    const struct tamis_derivation what = {.operation = TAMIS_UNION};
    struct tamis_derive_report report, nothing = {0};
    memset(&report, 0xff, sizeof report);
    steps("begin");
    IS(tamis_edit_derive(shop.edit, "u", 1, snap, list, n, &what, NULL, &report,
                         &shop.diag),
       code);
    assert_memory_equal(&report, &nothing, sizeof report);
    IS(shop.diag.code, code);
    assert_true(shop.diag.what[0] != 0);
    steps("abort; files 3");
}

TEST_OF_SCENES(refusals)
{
    static const size_t both[] = {0, 1};
    scene("refusals");
    steps(TWO "bare c; growing d; hold");
    struct tamis_snapshot *other;
    refused(shop.held, (size_t[]){0, 2}, 2, TAMIS_ERR_NO_SEGMENT);
    refused(shop.held, (size_t[]){0, 3}, 2, TAMIS_ERR_UNFIT);
    refused(shop.held, (size_t[]){0, 4}, 2, TAMIS_ERR_RANGE);
    refused(shop.held, both, 0, TAMIS_ERR_RANGE);
    refused(NULL, both, 2, TAMIS_ERR_RANGE);
    refused(shop.held, NULL, 2, TAMIS_ERR_RANGE);
    OK(tamis_snapshot_from_filters(NULL, 0, 0, &other));
    refused(other, both, 2, TAMIS_ERR_MISMATCH);
    tamis_snapshot_release(other);
    steps("fails EXISTS derive a a b how=union; fails UNFIT derive x a how=fold "
          "factor=1048576");
}

/* Damage costs reads, in what is made of it too. The report tells the result though it
 * is not made, and the diagnosis its source. */
TEST_OF_SCENES(damaged_pages_become_ones)
{
    play("damaged pages", TWO "zero a 1; begin; derive u a b how=union; is bad_pages=1;"
                              "fails UNFIT derive v a how=shrink error=0.001; is "
                              "bad_pages=1; told_file .tamis;"
                              "commit; hits u 0 4500");
}

RUN_TESTS(NULL, NULL)
