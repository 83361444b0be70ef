/* Columns of packs as the segments of a snapshot: their places, their facts, and their
 * filters. */
#include "tests/support/shop/shop.h"

/* A column is a filter in memory: of the same facts, with the same answers. */
static void check_own_filter(struct tamis_snapshot *snap, size_t i)
{
    FILTER own = filter_at(snap, i);
    struct tamis_target t = tamis_snapshot_target(snap, i);
    struct tamis_segment_info info = segment_at(snap, i);
    struct tamis_filter_info of = filter_info(own);
    verified(own);
    assert_memory_equal(of.uuid, info.uuid, 16);
    assert_true(of.keys == info.keys && of.watermark == info.watermark);
    assert_true(info.file_bytes > 0);
    /* Its blocks may be repeated to a page: they count once. */
    struct tamis_estimate estimate;
    OK(tamis_filter_estimate(own, 0, 0, &estimate, NULL));
    double off = estimate.keys.value - (double)of.keys;
    assert_true(off * off <= (5 + (double)of.keys / 5) * (5 + (double)of.keys / 5));
    for (unsigned k = 0; k < 500; k++) {
        struct tamis_key key = (struct tamis_key){
            .tag = tamis_snapshot_info(snap).domain.tag, .hash = random_u64()};
        enum tamis_reason why, whole;
        tamis_snapshot_probe(snap, &t, &key, &why);
        tamis_filter_probe(own, &key, &whole);
        IS(why, whole);
    }
}

TEST_IN_DIR(the_place_of_a_segment)
{
    STORE s = store_of("s", 12, 300);
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_pack_place place;
    struct tamis_filter *pack;
    IS(tamis_snapshot_pack(snap, 0, &pack, &place, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_null(pack);
    tamis_snapshot_release(snap);
    struct tamis_pack_report report = pack_all(s);
    snap = snapshot_of(s);
    for (size_t i = 0; i < 12; i++) {
        OK(tamis_snapshot_pack(snap, i, &pack, &place, NULL));
        assert_memory_equal(place.uuid, report.uuid, 16);
        assert_true(place.band < report.n_bands && place.column < place.n_columns);
        assert_true(place.n_columns <= 8 * place.row_bytes);
        struct tamis_segment_info info = segment_at(snap, i);
        char file[700];
        snprintf(file, sizeof file, "%s/%s", path_of("s"), info.file);
        assert_true(exists(file));
        check_own_filter(snap, i);
    }
    IS(tamis_snapshot_pack(snap, 12, &pack, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_pack(NULL, 0, NULL, NULL, NULL), TAMIS_ERR_RANGE);
    /* A snapshot is prepared, its pack as one file. */
    struct tamis_prepare_options warm = {.size = sizeof warm, .warm = 1};
    struct tamis_prepare_report prepared;
    OK(tamis_snapshot_prepare(snap, &warm, &prepared, NULL));
    assert_true(prepared.n_open == 12 && prepared.n_failed == 0);
    assert_true(prepared.warm_bytes < report.file_bytes + 4096);
    remove_tree("s");
}

/* Each counts once, and of each file so much is locked. */
TEST_OF_SCENES(columns_of_two_packs_are_prepared)
{
    struct tamis_prepare_report report;
    scene("two packs");
    steps("many 12 300; pack_in_two; all 0 MAYBE; all 9000 MAYBE; set_record s3; put z "
          "8000000 10");
    SNAPSHOT snap = snapshot_of(opened());
    IS(snap->shared.n, 2);
    OK(tamis_snapshot_prepare(snap, NULL, &report, NULL));
    assert_true(report.n_open == 13 && report.n_failed == 0 && report.n_skipped == 0);
    struct tamis_target t = found_in(snap, "s11");
    struct tamis_prepare_options one = {
        .size = sizeof one, .targets = &t, .n_targets = 1, .warm = 1};
    OK(tamis_snapshot_prepare(snap, &one, &report, NULL));
    assert_true(report.n_open == 1 && report.warm_bytes == report.open_bytes);
}

static struct stage *scrubbed;
static void fetch_amid_a_scrub(const uint8_t *block, uint32_t row_bytes, uint32_t words,
                               uint64_t h, const uint8_t **rows)
{
    stage_mark_bad(scrubbed, 0);
    kernel_get()->fetch_rows(block, row_bytes, words, h, rows);
}

/* Rows of zeros: where bits decide alone, the key is lost. */
TEST_IN_DIR(bits_of_a_column_decide_alone_or_not)
{
    static const uint64_t none, all = 1;
    STORE s = store_of("s", 1, 300);
    pack_all(s);
    SNAPSHOT snap = snapshot_of(s);
    struct stripe *its = &snap->shared.stripes[0];
    struct band_rows *rows = &its->rows;
    struct kernel kernel = *rows->kernel;
    FREED uint8_t *zeros = calloc(rows->n_blocks * rows->lanes, rows->block_bytes);
    verified(its->view->open->filter);
    scrubbed = rows->stage;
    rows->bits = zeros;
    rows->kernel = &kernel;
    for (unsigned i = 0; i < 8; i++) { /* the first probe looks at the store */
        struct tamis_target t = tamis_snapshot_target(snap, 0);
        struct tamis_key key = key_in(s, 0);
        t.snapshot += i == 2;
        t.min_watermark = i == 3;
        t.refusal = i == 4 ? TAMIS_MISMATCH : 0;
        key.tag += i == 5;
        its->living = i == 6 ? &none : &all;
        quick_left = i ? QUICK_PROBES : 0;
        kernel.fetch_rows = i == 7 ? fetch_amid_a_scrub : kernel_get()->fetch_rows;
        IS(tamis_snapshot_probe(snap, &t, &key, NULL), i == 1);
    }
}

/* All bits are ones: the range decides, and for a column that is listed and dead it
 * proves nothing. */
TEST_OF_SCENES(a_dead_column_has_no_range)
{
    scene("dead and listed");
    steps("many 3 300; pack; copy catalog =old; drop s1; copy =old catalog");
    SNAPSHOT snap = snapshot_of(opened());
    struct band_rows *rows = &snap->shared.stripes[0].rows;
    size_t n_bytes = rows->n_blocks * rows->lanes * rows->block_bytes;
    FREED uint8_t *ones = malloc(n_bytes);
    struct tamis_domain domain = tamis_snapshot_info(snap).domain;
    struct tamis_key key = tamis_key_of(&domain, "\xff", 1);
    verified(snap->shared.views[0].open->filter);
    rows->bits = memset(ones, 0xff, n_bytes);
    for (unsigned i = 0; i < 3; i++) {
        struct tamis_target t = tamis_snapshot_target(snap, i), list[] = {t, t, t};
        IS(ASK(snap, LIST(list, 3), KEYS(&key, 1)),
           t.ordinal != found_in(snap, "s1").ordinal);
    }
}

/* Nothing answers for the columns of one of two packs, and the other lacks the key. */
TEST_IN_DIR(a_list_of_a_pack_that_is_lost)
{
    for (unsigned lost = 0; lost < 3; lost++) { /* the last time none is */
        char file[700];
        size_t numbers[3] = {0};
        STORE s = store_of("s", 12, 300);
        pack_in_two(s);
        SNAPSHOT snap = snapshot_of(s);
        while (tamis_snapshot_next(snap, &numbers[1]))
            numbers[1]++;
        numbers[1]--; /* the last one */
        struct tamis_segment_info info = segment_at(snap, numbers[lost]);
        snprintf(file, sizeof file, "%s/%s", path_of("s"), info.file);
        snap = (tamis_snapshot_release(snap), NULL);
        s = (tamis_store_close(s), NULL);
        if (lost < 2)
            OK(unlink(file));
        s = store_open("s");
        snap = snapshot_of(s);
        struct tamis_key key = key_in(s, 8000000);
        struct tamis_target list[40];
        for (size_t i = 0; i < N_OF(list); i++)
            list[i] = tamis_snapshot_target(snap, numbers[i % 2]);
        IS(ASK(snap, LIST(list, N_OF(list)), KEYS(&key, 1)), lost == 2);
        snap = (tamis_snapshot_release(snap), NULL);
        s = (tamis_store_close(s), NULL);
        remove_tree("s");
    }
}

/* Columns of few blocks against a filter of many. */
TEST_IN_DIR(columns_are_compared_by_their_own_blocks)
{
    struct tamis_comparison c;
    STORE s = store_new("s");
    put_segment(s, "a", 0, 60);
    put_segment(s, "b", 30, 60);
    pack_all(s);
    put_segment(s, "c", 0, 60);
    SNAPSHOT snap = snapshot_of(s);
    static const char *const others[] = {"b", "c"};
    for (size_t i = 0; i < 2; i++) {
        FILTER one = filter_at(snap, found_in(snap, "a").ordinal - 1);
        FILTER other = filter_at(snap, found_in(snap, others[i]).ordinal - 1);
        OK(tamis_filter_compare(one, other, &c, NULL));
        assert_true(c.keys[0].value > 50 && c.keys[0].value < 70);
        assert_true(c.keys[1].value > 50 && c.keys[1].value < 70);
        double common = i ? 60 : 30;
        assert_true(c.common.low <= common && c.common.high >= common);
    }
}

/* A segment is of no use to a pack that is gone, and still says which it was. */
TEST_OF_SCENES(the_pack_that_is_lost)
{
    static const uint8_t none[TAMIS_UUID_BYTES];
    struct tamis_pack_place place;
    scene("a lost pack");
    steps("many 1 100");
    struct tamis_pack_report report = pack_all(shop.store);
    steps("put z 8000000 100; lose dead");
    SNAPSHOT snap = snapshot_of(opened());
    for (size_t i = 0; tamis_snapshot_next(snap, &i); i++) {
        bool z = i == 0;
        IS(tamis_snapshot_pack(snap, i, NULL, &place, NULL),
           z ? TAMIS_ERR_NO_SEGMENT : ENOENT);
        assert_memory_equal(place.uuid, z ? none : report.uuid, sizeof none);
    }
}

RUN_TESTS(NULL, NULL)
