/* Which filters lie in one band (lib/pack/bands.c): each has a place, none is
 * stretched, each keeps its error, and rows are filled. */
#include "tests/support/support.h"
#include "lib/pack/pack.h"

enum { MOST = 40000 };
static const double ERROR = 0.01;
static struct pack_source sources[MOST];
static uint64_t keys_of[MOST];

static void set_source(size_t i, struct geometry g, uint64_t keys, bool from_keys)
{
    struct tamis_plan file;
    plan_describe(&g, keys, &file);
    keys_of[i] = keys;
    sources[i] = (struct pack_source){
        .geometry = g,
        .folded_blocks = from_keys ? 0 : bands_fold(&g, keys, ERROR),
        .file_pages = from_keys ? 0 : (uint32_t)(file.file_bytes / PAGE_BYTES)};
}

/* Returns how many bytes the rows take, and checks the plan. */
static uint64_t check_plan(size_t n, struct pack_plan *p)
{
    FREED uint8_t *seen = calloc(n, 1);
    uint64_t at = 0, n_bytes, n_left = 0;
    uint32_t column = 0;
    IS(bands_choose(sources, n, p), 0);
    for (size_t i = 0; i < n; i++)
        n_left += sources[i].file_pages && sources[i].column == NO_COLUMN;
    IS(p->n_columns + n_left, n);
    for (uint32_t i = 0; i < p->n_bands; i++) {
        const struct band *b = &p->bands[i];
        assert_true(b->rows_offset == at && b->first_column == column);
        assert_true(b->n_columns >= 1 && b->n_columns <= 8 * b->row_bytes);
        assert_true(i == 0 || b->row_bytes <= p->bands[i - 1].row_bytes);
        n_bytes = band_bytes(b);
        for (uint32_t c = 0; c < b->n_columns; c++) {
            uint32_t k = p->order[column + c];
            const struct pack_source *s = &sources[k];
            struct geometry own = s->geometry;
            assert_true(k < n && !seen[k]++);
            assert_true(s->column == column + c);
            assert_true(s->geometry.lanes == b->geometry.lanes &&
                        s->geometry.words == b->geometry.words);
            own.n_blocks = pack_own_blocks(s, b);
            assert_true(b->geometry.n_blocks % own.n_blocks == 0 &&
                        own.n_blocks >= s->folded_blocks &&
                        (s->folded_blocks ? s->geometry.n_blocks % own.n_blocks == 0
                                          : s->geometry.n_blocks <= own.n_blocks));
            double error = plan_geometry_error(&own, keys_of[k]);
            assert_true(error <= ERROR ||
                        error <= plan_geometry_error(&s->geometry, keys_of[k]));
        }
        at += n_bytes;
        column += b->n_columns;
    }
    assert_true(p->rows_bytes >= at && p->rows_bytes - at < PAGE_BYTES);
    return at;
}

/* 1, 2, 3, and 4, 5, 6 times a power of two. */
static bool is_on_grid(uint64_t n_blocks)
{
    while (n_blocks > 6 && n_blocks % 2 == 0)
        n_blocks /= 2;
    return n_blocks <= 6;
}

/* Small filters of one error have one shape, and the least size of the grid that keeps
 * the error. */
TEST(small_filters_have_few_sizes)
{
    static const double errors[] = {0.1, 0.01, 1e-4, 1e-7};
    for (size_t e = 0; e < 4; e++) {
        struct geometry first, g;
        IS(plan_sealed_geometry(0, errors[e], errors[e], &first), 0);
        for (uint64_t keys = 1; keys <= GRID_KEYS; keys += 1 + keys / 13) {
            IS(plan_sealed_geometry(keys, errors[e], errors[e], &g), 0);
            assert_true(g.lanes == first.lanes && g.words == first.words);
            assert_true(is_on_grid(g.n_blocks));
            assert_true(plan_geometry_error(&g, keys) <= errors[e]);
            if (g.n_blocks * g.lanes <= BLOCKS_PER_PAGE) { /* all that a page has */
                assert_true(2 * g.n_blocks * g.lanes > BLOCKS_PER_PAGE);
                continue;
            }
            do
                g.n_blocks--;
            while (!is_on_grid(g.n_blocks));
            assert_true(plan_geometry_error(&g, keys) > errors[e]);
        }
        IS(plan_sealed_geometry(GRID_KEYS + 1, errors[e], errors[e], &g), 0);
        IS(g.n_blocks % BLOCKS_PER_PAGE, 0);
        IS(plan_sealed_geometry(UINT64_C(1) << 45, errors[e], errors[e], &g),
           TAMIS_ERR_TOO_LARGE);
    }
}

TEST(sizes_of_all_kinds)
{
    struct pack_plan p;
    for (size_t n = 1; n < 3000; n = n * 3 + 1) {
        for (size_t i = 0; i < n; i++) {
            uint64_t n_blocks = 1 + random_below(i % 3 ? 64 : 5000);
            uint32_t lanes = 1 + (uint32_t)random_below(3);
            struct geometry g = {n_blocks, lanes, 3 + (uint32_t)random_below(5)};
            set_source(i, g, random_below(n_blocks * 60), false);
        }
        check_plan(n, &p);
        pack_plan_free(&p);
    }
}

/* A band has 32768 columns at most. */
TEST(equal_filters_share_a_band)
{
    struct pack_plan p;
    for (size_t i = 0; i < MOST; i++)
        set_source(i, (struct geometry){2, 1, 6}, 64, false);
    check_plan(512, &p);
    assert_true(p.n_bands == 1 && p.bands[0].row_bytes == 64);
    pack_plan_free(&p);
    uint64_t n_bytes = check_plan(MOST, &p);
    assert_in_range(p.bands[0].n_columns, 32000, 32768);
    assert_true(n_bytes < MOST / 8 * 2 * 512 * 102 / 100);
    IS(p.n_bands, 2);
    pack_plan_free(&p);
    /* Not a multiple of a line's columns: what is left goes into padding, not into a
     * band of its own. */
    n_bytes = check_plan(10000, &p);
    IS(p.n_bands, 1);
    assert_true(n_bytes < 10000 / 8 * 2 * 512 * 103 / 100);
    pack_plan_free(&p);
}

/* A larger filter than its keys need is folded as far as its error allows. */
TEST(filters_are_folded)
{
    struct pack_plan p;
    for (size_t i = 0; i < 64; i++)
        set_source(i, (struct geometry){64, 1, 6}, 50, false);
    check_plan(64, &p);
    assert_true(p.n_bands == 1 && p.bands[0].geometry.n_blocks == 1);
    pack_plan_free(&p);
    /* One whose error is beyond its target already stays as it is. */
    set_source(0, (struct geometry){64, 1, 6}, 64 * 200, false);
    check_plan(1, &p);
    IS(sources[0].folded_blocks, 64);
    pack_plan_free(&p);
}

/* 71 columns are 64 and seven, where the padding of one wide row would cost more. */
TEST(padding_is_avoided)
{
    struct pack_plan p;
    for (size_t i = 0; i < 71; i++)
        set_source(i, (struct geometry){1024, 1, 6}, 50000, false);
    uint64_t n_bytes = check_plan(71, &p);
    assert_true(n_bytes < (uint64_t)1024 * 512 * 10);
    IS(p.n_bands, 2);
    pack_plan_free(&p);
}

/* 600 segments of 50 to 50,000 keys, log-uniform: as files and packed, from these or
 * from keys. Each file has the error by itself; test_store_balance has those of one
 * edit. A few files stay, and count as they are. Lines that a key takes: loose, one
 * each. */
TEST(sizes_of_a_mixed_store)
{
    enum { N = 600, ROUNDS = 20 };
    for (int from_keys = 0; from_keys < 2; from_keys++) {
        uint64_t n_keys[N], files = 0, in_pages = 0, lines = 0;
        double most = 0;
        for (size_t i = 0; i < N * ROUNDS; i++) {
            struct geometry g;
            struct tamis_plan plan;
            double error, part = (double)random_below(1 << 20) / (1 << 20);
            n_keys[i % N] = (uint64_t)(50 * pow(1000, part));
            IS(plan_stage_geometry(n_keys[i % N], 0.01, &g, &error), 0);
            plan_describe(&g, n_keys[i % N], &plan);
            in_pages += plan.file_bytes;
            if (i % N < N - 1)
                continue;
            struct tamis_plan_packed packed;
            OK(tamis_plan_pack(n_keys, N, 0.01, !from_keys, &packed));
            files += packed.files_bytes;
            lines += packed.n_lines;
            most = fmax(most, packed.bits_per_key);
        }
        print_message("%s: at most %.2f bits a key, %.1f times fewer lines\n",
                      from_keys ? "from keys" : "from files", most,
                      (double)N * ROUNDS / (double)lines);
        assert_true(most < (from_keys ? 11.5 : 12.5));
        assert_true(lines * (from_keys ? 5 : 3) < N * ROUNDS);
        assert_true(from_keys || files * 100 <= in_pages * 105);
    }
}

/* tamis_plan_pack() says what the bands of these segments come to. */
TEST(a_pack_is_planned)
{
    enum { N = 700 };
    for (int from_files = 0; from_files < 2; from_files++) {
        static uint64_t n_keys[N];
        struct tamis_plan_packed packed;
        struct pack_plan p;
        uint64_t keys = 0, files = 0, lines = 0;
        for (size_t i = 0; i < N; i++) {
            struct geometry g;
            n_keys[i] = random_below(i % 3 ? 2000 : 60);
            IS(from_files ? plan_sealed_geometry(n_keys[i], 0.01, 0.01, &g)
                          : plan_packed_geometry(n_keys[i], 0.01, &g),
               0);
            set_source(i, g, n_keys[i], !from_files);
            files += (uint64_t)sources[i].file_pages * PAGE_BYTES;
            keys += n_keys[i];
        }
        check_plan(N, &p);
        for (uint32_t b = 0; b < p.n_bands; b++)
            lines += (p.bands[b].row_bytes + 63) / 64 * p.bands[b].geometry.words;
        OK(tamis_plan_pack(n_keys, N, 0.01, from_files, &packed));
        assert_true(packed.n_bands == p.n_bands && packed.n_lines == lines);
        assert_true(packed.files_bytes == files);
        assert_in_range(packed.rows_bytes, p.rows_bytes,
                        p.rows_bytes * 102 / 100 + 8192);
        assert_true(fabs(packed.bits_per_key * (double)keys / 8 -
                         (double)packed.rows_bytes) < 1);
        pack_plan_free(&p);
        n_keys[3] = 0; /* one without keys, and none with any */
        OK(tamis_plan_pack(&n_keys[3], 1, 0.01, from_files, &packed));
        assert_true(packed.n_bands == 1 && packed.bits_per_key == 0);
        n_keys[3] = (UINT64_C(1) << 48) + 1;
        IS(tamis_plan_pack(n_keys, N, 0.01, from_files, &packed), TAMIS_ERR_RANGE);
        assert_true(packed.rows_bytes == 0 && packed.files_bytes == 0);
        n_keys[3] = UINT64_C(1) << 48;
        IS(tamis_plan_pack(n_keys, N, 1e-8, from_files, &packed), TAMIS_ERR_TOO_LARGE);
        IS(tamis_plan_pack(n_keys, 0, 0.01, from_files, &packed), TAMIS_ERR_RANGE);
        IS(tamis_plan_pack(n_keys, N, 0.7, from_files, &packed), TAMIS_ERR_RANGE);
        IS(tamis_plan_pack(n_keys, PACK_MAX_COLUMNS + 1, 0.01, from_files, &packed),
           TAMIS_ERR_RANGE);
    }
}

TEST(what_cannot_be_planned)
{
    struct pack_plan p;
    IS(bands_choose(sources, 0, &p), TAMIS_ERR_RANGE);
    IS(bands_choose(sources, PACK_MAX_COLUMNS + 1, &p), TAMIS_ERR_RANGE);
    /* Too many sizes that have nothing in common. */
    size_t n = 0;
    for (uint64_t k = 20011; n < 4200; k += 2) {
        bool prime = true;
        for (uint64_t d = 3; d * d <= k && prime; d += 2)
            prime = k % d != 0;
        if (prime) /* columns of other packs, which have no files to stay in */
            sources[n++] = (struct pack_source){{k, 1, 6}, .folded_blocks = k};
    }
    IS(bands_choose(sources, n, &p), TAMIS_ERR_RANGE);
    assert_true(p.bands == NULL && p.order == NULL);
}

RUN_TESTS(NULL, NULL)
