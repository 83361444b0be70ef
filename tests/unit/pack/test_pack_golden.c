/* Golden packs: each column answers as when its pack was made, to the library and to
 * the reference that reads bit by bit. */
#include "tests/support/support.h"
#include "tests/golden/answers.h"
#include "lib/filter/pack.h"
#include "lib/pack/pack.h"

#define GOLDEN TAMIS_SOURCE_DIR "/tests/golden/packs/"

/* The column of a segment. */
struct wanted {
    const char *name;
    const struct band *bands, *band;
    uint32_t column;
};

static int find_column(void *ctx, uint32_t band, uint32_t column,
                       const struct column *col)
{
    struct wanted *w = ctx;
    if (col->name_bytes != strlen(w->name) ||
        memcmp(col->name, w->name, col->name_bytes) != 0)
        return 0;
    w->band = &w->bands[band];
    w->column = column;
    return 0;
}

static const uint8_t *rows_of(const uint8_t *file, const struct commit *c)
{
    return file + c->stages[PACK_ROWS].offset;
}

/* Answers of one pack; returns how many keys were absent. */
static size_t check_pack(const char *name, bool rotten, size_t *n_columns)
{
    char path[1000];
    struct tamis_filter *f;
    struct tamis_diag diag;
    struct identity id;
    struct commit c;
    size_t n_bytes, n_absent = 0;
    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    uint8_t *file = file_read(path, &n_bytes);
    assert_int_equal(identity_decode(file, n_bytes, &id).code, VERDICT_OK);
    assert_int_equal(
        commit_decode(file + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &c).code,
        VERDICT_OK);
    if (tamis_filter_open(path, NULL, &f, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    struct tamis_domain d = tamis_filter_domain(f);
    snprintf(path, sizeof path, "%s%s.answers", GOLDEN, name);
    struct answers list = {.in = fopen(path, "r")};
    assert_non_null(list.in);
    uint32_t n_bands;
    struct wanted w = {.bands = pack_bands(f, &n_bands)};
    for (*n_columns = 0; answers_next(&list);) {
        struct tamis_key k = tamis_key_of(&d, list.key, list.key_bytes);
        if (list.next == 1) {
            w.name = list.run.who;
            w.band = NULL;
            assert_int_equal(pack_each_column(f, find_column, &w, NULL), 0);
            assert_non_null(w.band);
            ++*n_columns;
        }
        enum tamis_reason why = pack_probe_column(f, w.band, w.column, k.hash);
        assert_int_equal(why == TAMIS_NO_REASON, list.absent);
        if (why != TAMIS_NO_REASON && strcmp(list.run.maybe, "MAYBE") != 0)
            assert_string_equal(tamis_reason_name(why), list.run.maybe);
        if (!rotten)
            assert_int_equal(band_probe(rows_of(file, &c), w.band, w.column, k.hash),
                             !list.absent);
        n_absent += (size_t)list.absent;
    }
    assert_false(list.malformed);
    fclose(list.in);
    tamis_filter_close(f);
    free(file);
    return n_absent;
}

static void columns_answer_as_they_did(void **state)
{
    (void)state;
    size_t n;
    size_t n_absent = check_pack("pack.tamis", false, &n);
    assert_true(n == 28 && n_absent > 28 * 200);
    assert_true(check_pack("rotten.tamis", true, &n) < n_absent);
    assert_int_equal(n, 28);
    assert_true(check_pack("wide.tamis", false, &n) > 70 * 250);
    assert_int_equal(n, 70);
}

/* SPEC.md 17.7. */
static void the_example_is_right(void **state)
{
    static const struct {
        unsigned bit, at;
        uint8_t row[8];
    } rows[8] = {
        {16, 4224, {1, 0, 0, 4, 0, 0x40, 1, 2}},
        {112, 4992, {3, 0, 0, 0, 0, 0, 0x48, 0}},
        {131, 5144, {1, 0x20, 4, 0, 0, 0, 0x18, 0}},
        {220, 5856, {0x11, 0, 0, 0x40, 1, 0x10, 0, 0}},
        {318, 6640, {1, 0, 0, 0, 0, 0, 0, 0}},
        {366, 7024, {1, 0, 0, 0, 0x40, 0, 0, 0}},
        {444, 7648, {1, 0, 0, 0, 0x48, 0, 0, 0}},
        {458, 7760, {0x41, 0, 0x42, 0, 0, 0, 0, 0}},
    };
    (void)state;
    size_t n_bytes;
    uint32_t n_bands;
    struct tamis_filter *f;
    uint8_t *file = file_read(GOLDEN "wide.tamis", &n_bytes), block[BLOCK_BYTES] = {0};
    assert_int_equal(tamis_filter_open(GOLDEN "wide.tamis", NULL, &f, NULL), 0);
    struct tamis_domain d = tamis_filter_domain(f);
    struct tamis_key key = tamis_key_of(&d, "key-0\xc3\xa9", 7);
    const struct band *b = pack_bands(f, &n_bands);
    assert_true(d.seed == 0x7a317 && key.hash == UINT64_C(0x7de4287a29c0d7e1));
    assert_true(n_bands == 2 && b->n_columns == 64 && b->row_bytes == 8);
    struct geometry one = {1, 1, 8};
    assert_memory_equal(&b->geometry, &one, sizeof one);
    geometry_add(block, &one, key.hash);
    for (unsigned i = 0, bit = 0; i < 8; i++, bit++) {
        while (!(block[bit / 8] >> bit % 8 & 1))
            bit++;
        assert_int_equal(bit, rows[i].bit);
        assert_int_equal(4096 + band_row(b, 0, 0, bit), rows[i].at);
        assert_memory_equal(file + rows[i].at, rows[i].row, 8);
    }
    free(file);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_answer_as_they_did),
        cmocka_unit_test(the_example_is_right),
    };
    return cmocka_run_group_tests_name("golden packs", tests, NULL, NULL);
}
