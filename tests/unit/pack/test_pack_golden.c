/* Golden packs: each column answers as when its pack was made, to the library and to
 * the reference that reads bit by bit. */
#include "tests/support/support.h"
#include "tests/golden/answers.h"
#include "lib/filter/pack.h"
#include "tests/unit/pack/band_reference.h"
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
    IS(identity_decode(file, n_bytes, &id).code, VERDICT_OK);
    IS(commit_decode(file + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &c).code,
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
            IS(pack_each_column(f, find_column, &w, NULL), 0);
            assert_non_null(w.band);
            ++*n_columns;
        }
        enum tamis_reason why = pack_probe_column(f, w.band, w.column, k.hash);
        IS(why == TAMIS_NO_REASON, list.absent);
        if (why != TAMIS_NO_REASON && strcmp(list.run.maybe, "MAYBE") != 0)
            assert_string_equal(tamis_reason_name(why), list.run.maybe);
        if (!rotten)
            IS(band_probe(rows_of(file, &c), w.band, w.column, k.hash), !list.absent);
        n_absent += (size_t)list.absent;
    }
    assert_false(list.malformed);
    fclose(list.in);
    tamis_filter_close(f);
    free(file);
    return n_absent;
}

TEST(columns_answer_as_they_did)
{
    size_t n;
    size_t n_absent = check_pack("pack.tamis", false, &n);
    assert_true(n == 27 && n_absent > 27 * 200);
    assert_true(check_pack("rotten.tamis", true, &n) < n_absent);
    IS(n, 27);
    assert_true(check_pack("wide.tamis", false, &n) > 70 * 250);
    IS(n, 70);
}

RUN_TESTS(NULL, NULL)
