/* A pack answers for each of its columns as that column's filter does, folded to the
 * blocks that it has of its own: bit for bit, in each mode, by each kernel. The golden
 * packs answer as when they were made. */
#include "tests/support/filters.h"
#include "tests/support/guard_support.h"
#include "tests/support/pack_support.h"
#include "tests/golden/answers.h"

/* May column `column` of the band have the key? */
static inline bool band_probe(const uint8_t *rows, const struct band *b,
                              uint32_t column, uint64_t h)
{
    const struct geometry *g = &b->geometry;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        uint64_t block = geometry_block(h, g->n_blocks);
        for (uint32_t i = 0; i < g->words; i++) {
            uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
            uint64_t row = band_row(b, lane, block, word * 64 + geometry_bit(h, word));
            if (!(rows[row + column / 8] >> column % 8 & 1))
                return false;
        }
        h = geometry_next_lane(h);
    }
    return true;
}

/* Sizes that divide each other and others, one lane and three, a band of one column. */
static void add_mixed(size_t n)
{
    static const uint64_t blocks[] = {1, 2, 3, 8, 13, 64, 96, 128, 192, 320};
    for (size_t i = 0; i < n; i++) {
        uint64_t n_blocks = blocks[random_below(10)];
        struct geometry g = {n_blocks, 1, 6};
        add_source(g, random_below(n_blocks * 51 + 1), 0.01);
    }
    for (size_t i = 0; i < n / 8; i++)
        add_source((struct geometry){64, 3, 4}, random_below(2000), 0.001);
    add_source((struct geometry){5, 2, 8}, 100, 0.01);
}

static uint8_t *reference; /* the pack's rows, for band_probe() */

static void check_key(struct tamis_filter *f, uint64_t h)
{
    static uint64_t hits[ROW_MAX_WORDS];
    uint32_t n_bands;
    const struct band *bands = pack_bands(f, &n_bands);
    IS(n_bands, plan.n_bands);
    for (uint32_t i = 0; i < n_bands; i++) {
        const struct band *b = &bands[i];
        struct band_rows r = pack_band_rows(f, b);
        bool damaged = false, any = pack_probe_band(&r, h, hits, &damaged), one = false;
        assert_false(damaged);
        for (uint32_t c = 0; c < b->n_columns; c++) {
            bool maybe = hits[c / 64] >> c % 64 & 1;
            IS(maybe, folded_has(plan.order[b->first_column + c], h));
            IS(pack_probe_column(f, b, c, h), maybe ? TAMIS_HIT : TAMIS_NO_REASON);
            if (reference)
                IS(band_probe(reference, b, c, h), maybe);
            one |= maybe;
        }
        IS(any, one);
        for (uint32_t c = b->n_columns; c < 64 * pack_row_words(b); c++)
            assert_false(hits[c / 64] >> c % 64 & 1);
    }
}

static void check_pack(struct tamis_filter *f)
{
    size_t n_bytes;
    struct tamis_stage_info stage = filter_info(f).stages[PACK_ROWS];
    FREED uint8_t *bytes = file_read(path_of("pack"), &n_bytes);
    reference = bytes + stage.offset;
    for (size_t i = 0; i < n_sources; i++)
        for (size_t k = 0; k < some[i].n_keys && k < 3; k++) {
            assert_true(folded_has(i, some[i].keys[k]));
            check_key(f, some[i].keys[k]);
        }
    for (size_t k = 0; k < by_form(400, 3000); k++)
        check_key(f, random_u64());
    reference = NULL;
}

/* Rows may be wider than columns need (SPEC.md §17.3, B5): another writer's pack. */
TEST(rows_wider_than_their_columns)
{
    static const uint32_t widths[] = {8, 16, 64, 128, ROW_MAX_BYTES};
    for (uint32_t lanes = 1; lanes <= 3; lanes += 2)
        for (size_t w = 0; w < N_OF(widths); w++) {
            for (int i = 0; i < 10; i++)
                add_source((struct geometry){1, lanes, 6}, 20, 0.01);
            plan_sources();
            IS(plan.n_bands, 1);
            plan.bands[0].row_bytes = widths[w];
            plan.rows_bytes = band_bytes(&plan.bands[0]);
            struct tamis_filter *f = pack_planned("pack", NULL);
            check_pack(f);
            for (size_t i = 0; i < n_sources; i++)
                IS(count_absent(f, some[i].keys, some[i].n_keys), 0);
            forget_pack(f);
        }
}

/* In every kernel a column is left if it was asked and all its rows have it. */
TEST(every_kernel_asks_rows_alike)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 16, 32, 64, 128, 192};
    enum { MOST = 192, N_WIDTHS = N_OF(widths) };
    const struct kernel *k;
    for (size_t round = 0; round < 100 * N_WIDTHS; round++) {
        uint32_t row_bytes = widths[round % N_WIDTHS], n_words = (row_bytes + 7) / 8;
        uint32_t words = 1 + (uint32_t)round % 8;
        /* Exactly as large as the rows: a sanitizer finds a byte read beyond the last
         * one. */
        FREED uint8_t *block = malloc((size_t)BLOCK_BITS * row_bytes);
        uint64_t h = random_u64(), asked[MOST / 8], left[MOST / 8];
        const uint8_t *rows[MAX_WORDS];
        for (size_t i = 0; i < (size_t)BLOCK_BITS * row_bytes; i++)
            block[i] = (uint8_t)(random_u64() | random_u64()); /* three bits of four */
        for (uint32_t i = 0; i < n_words; i++)
            asked[i] = random_u64() >> (row_bytes < 8 ? 64 - 8 * row_bytes : 0);
        for (size_t i = 0; (k = kernel_at(i)); i++) {
            k->fetch_rows(block, row_bytes, words, h, rows);
            k->and_rows(rows, words, row_bytes, asked, left);
            for (uint32_t c = 0; c < n_words * 64; c++) {
                struct band b = {.geometry = {1, 1, words}, .row_bytes = row_bytes};
                bool has = asked[c / 64] >> c % 64 & 1 && band_probe(block, &b, c, h);
                IS(left[c / 64] >> c % 64 & 1, has);
            }
        }
    }
}

/* The pack's bytes are the same whichever kernel turned the blocks, and as the
 * definition has them. */
TEST(kernels_turn_alike)
{
    _Alignas(64) uint64_t in[64][8], out[64][8];
    const struct kernel *k;
    for (size_t round = 0; round < 50; round++) {
        random_hashes(in[0], 512);
        for (size_t i = 0; (k = kernel_at(i)); i++) {
            memcpy(out, in, sizeof in);
            k->transpose(out);
            for (size_t n = 0; n < 64 * 512; n++) {
                size_t c = n % 64, bit = n / 64;
                const uint8_t *block = (const uint8_t *)in[c];
                const uint8_t *row = (const uint8_t *)&out[bit % 64][bit / 64];
                if ((row[c / 8] >> c % 8 & 1) != (block[bit / 8] >> bit % 8 & 1))
                    fail_msg("%s: bit %zu of block %zu", k->name, bit, c);
            }
        }
    }
}

TEST(columns_answer_as_their_filters)
{
    static const size_t sizes[] = {1, 7, 40, 150, 700};
    for (size_t i = 0; i < N_OF(sizes); i++) {
        add_mixed(sizes[i]);
        struct tamis_filter *f = pack_sources("pack", NULL);
        check_pack(f);
        forget_pack(f);
    }
}

/* A pack that is opened again and again takes n_more descriptors. */
static void descriptors_are(size_t n_more, const struct tamis_filter_options *opt)
{
    struct tamis_filter *f[70];
    size_t n = count_files("/proc/self/fd");
    for (size_t i = 0; i < N_OF(f); i++)
        OK(tamis_filter_open(path_of("pack"), opt, &f[i], NULL));
    IS(count_files("/proc/self/fd"), n + n_more);
    for (size_t i = 0; i < N_OF(f); i++)
        tamis_filter_close(f[i]);
    IS(count_files("/proc/self/fd"), n);
}

TEST(strict_readers_get_the_same)
{
    struct tamis_filter_options strict = {.size = sizeof strict,
                                          .check = TAMIS_CHECK_STRICT};
    add_mixed(60);
    struct tamis_filter *f = pack_sources("pack", &strict);
    for (size_t k = 0; k < 100; k++)
        check_key(f, random_u64());
    descriptors_are(63, &strict); /* and that of f */
    forget_pack(f);
    add_mixed(1);
    f = pack_sources("pack", NULL);
    descriptors_are(0, NULL);
    forget_pack(f);
}

/* The descriptor fails, ends early, or is another file's. */
static ssize_t bad_result;

static ssize_t bad_pread(int fd, void *buf, size_t n, off_t at)
{
    (void)fd, (void)at;
    errno = EIO;
    memset(buf, 0, n);
    return bad_result;
}

/* After a bad read pages are checked where they are mapped. */
static void bad_reads_condemn_nothing(void)
{
    ssize_t (*before)(int, void *, size_t, off_t) = io_calls.pread;
    for (int way = -1; way <= 1; way++) {
        FILTER f = open_filter(path_of("pack"));
        bad_result = way < 1 ? way : PAGE_BYTES;
        io_calls.pread = bad_pread;
        for (size_t k = 0; k < 20; k++)
            check_key(f, some[k].keys[k]);
        io_calls.pread = before;
        IS(verified(f).n_damaged, 0);
    }
}

/* Rows of more than a line reach from one page into the next. */
TEST(rows_cross_pages)
{
    for (size_t i = 0; i < 1500; i++)
        add_source((struct geometry){2, 1, 6}, 64, 0.01);
    struct tamis_filter *f = pack_sources("pack", NULL);
    IS(plan.n_bands, 1);
    IS(plan.bands[0].row_bytes, 192);
    for (size_t k = 0; k < 300; k++)
        check_key(f, k < 100 ? some[k].keys[k % 64] : random_u64());
    descriptors_are(63, NULL);
    bad_reads_condemn_nothing();
    forget_pack(f);
}

/* The entry of source i. */
static void entry_is(const struct facts *col, size_t i)
{
    const struct band *b = band_of_source(i);
    uint64_t own_blocks = pack_own_blocks(&sources[i], b);
    struct facts want = columns[i];
    want.disk.own_blocks = le64_of(own_blocks);
    want.disk.column = le32_of(sources[i].column);
    assert_memory_equal(col, &want, column_bytes(&want.disk));
    IS(col->band, b - plan.bands);
    IS(b->geometry.n_blocks % own_blocks, 0);
}

/* Gives most names n_more equal first bytes, which pages of names must have, too. So a
 * guide's eight bytes tell no names apart. */
static void lengthen_names(size_t n_more)
{
    for (size_t i = 100; i < n_sources; i++) {
        uint8_t name[NAME_MAX_BYTES];
        struct piece was = column_name(&columns[i]);
        memset(name, 'x', n_more);
        memcpy(name + n_more, was.at, was.n);
        rename_source(i, name, n_more + was.n);
    }
}

/* 0 or DAMAGED for each, by name and by number; returns how many are damaged. No name
 * that is there is said to be missing. */
static size_t entries_are_found(struct tamis_filter *f)
{
    size_t n_damaged = 0;
    struct facts col;
    for (size_t i = 0; i < n_sources; i++) {
        uint32_t number = sources[i].column;
        struct piece name = column_name(&columns[i]);
        int rc[3] = {pack_find(f, name.at, name.n, false, &col)};
        if (!rc[0])
            entry_is(&col, i);
        rc[1] = pack_describe(f, number, false, &col);
        if (!rc[1])
            entry_is(&col, i);
        rc[2] = pack_describe(f, number, true, &col);
        if (!rc[2])
            entry_is(&col, i);
        for (size_t k = 0; k < N_OF(rc); k++) {
            assert_true(rc[k] == 0 || rc[k] == TAMIS_ERR_DAMAGED);
            n_damaged += rc[k] != 0;
        }
    }
    return n_damaged;
}

static void strangers_are_not(struct tamis_filter *f)
{
    struct facts col;
    for (size_t i = 0; i < n_sources; i += 7) {
        uint8_t name[NAME_MAX_BYTES + 1];
        size_t n = column_name(&columns[i]).n;
        memcpy(name, columns[i].strings, n);
        name[n] = random_u64() % 2 ? '!' : 0xff;
        IS(pack_find(f, name, n + 1, false, &col), TAMIS_ERR_NO_SEGMENT);
        name[n - 1]--;
        name[0] = random_u64() % 3 ? name[0] : 1;
        name[n] = '!';
        IS(pack_find(f, name, n + 1, false, &col), TAMIS_ERR_NO_SEGMENT);
    }
    IS(pack_find(f, "", 0, false, &col), TAMIS_ERR_NO_SEGMENT);
    IS(pack_find(f, "\xff", 1, false, &col), TAMIS_ERR_NO_SEGMENT);
    IS(pack_describe(f, (uint32_t)n_sources, false, &col), TAMIS_ERR_RANGE);
}

static uint32_t levels_of(const struct tamis_stage_info *table, const char *name)
{
    size_t n;
    FREED uint8_t *file = file_read(path_of(name), &n);
    uint64_t pages = table->bits_bytes / PAGE_BYTES;
    struct index_page p;
    IS(index_open(file + table->offset + (pages - 1) * PAGE_BYTES, pages - 1, &p).code,
       VERDICT_OK);
    return p.level;
}

/* How many entries are damaged once a page is. */
static size_t found_without(const struct tamis_stage_info *table, uint64_t page)
{
    file_copy(path_of("pack"), path_of("rotten"));
    file_poke(path_of("rotten"), table->offset + page * PAGE_BYTES + 2, "x", 1);
    FILTER f = open_filter(path_of("rotten"));
    return entries_are_found(f);
}

/* How many pages are read for the entry of source i, in a file just opened. */
static uint64_t pages_read(size_t i, bool by_name)
{
    struct facts col;
    struct piece name = column_name(&columns[i]);
    uint32_t number = sources[i].column;
    FILTER f = open_filter(path_of("pack"));
    uint64_t before = filter_page_counts(f)->n_checked;
    IS(by_name ? pack_find(f, name.at, name.n, false, &col)
               : pack_describe(f, number, false, &col),
       0);
    return filter_page_counts(f)->n_checked - before;
}

/* Tables of one page, and of levels, are found right by a verify. None of their
 * pages is believed unchecked, and one of each level is enough to find a column. */
TEST(columns_are_found)
{
    static const struct {
        size_t n, n_more;
        uint32_t levels;
    } cases[] = {{1, 0, 0}, {20, 0, 0}, {900, 0, 1}, {1500, 240, 2}};
    struct tamis_filter_options strict = {.size = sizeof strict,
                                          .check = TAMIS_CHECK_STRICT};
    for (size_t i = 0; i < N_OF(cases); i++) {
        for (size_t k = 0; k < cases[i].n; k++)
            add_source((struct geometry){1 + k % 2, 1, 6}, 20, 0.01);
        lengthen_names(cases[i].n_more);
        struct tamis_filter *f = pack_sources("pack", i % 2 ? &strict : NULL);
        struct tamis_stage_info table = filter_info(f).stages[PACK_COLUMNS],
                                bands = filter_info(f).stages[PACK_BANDS];
        verified(f);
        IS(levels_of(&table, "pack"), cases[i].levels);
        IS(entries_are_found(f), 0);
        strangers_are_not(f);
        tamis_filter_close(f);
        for (size_t k = 0; k < n_sources; k += 1 + n_sources / 5) {
            IS(pages_read(k, true), cases[i].levels + 1);
            assert_in_range(pages_read(k, false), 1, 2);
        }
        uint64_t n_pages = table.bits_bytes / PAGE_BYTES;
        for (uint64_t page = 0; page < n_pages; page += 1 + n_pages / 20) {
            size_t n_damaged = found_without(&table, page);
            assert_true(n_damaged > 0 && (n_damaged < 3 * n_sources || n_pages == 1));
        }
        if (bands.bits_bytes > PAGE_BYTES) /* numbers of some columns, and no names */
            assert_in_range(found_without(&bands, 1), 2, 2 * n_sources - 2);
        unlink(path_of("pack"));
        unlink(path_of("rotten"));
        forget_sources();
    }
}

/* Facts have another length since pages were counted by them. */
static size_t key_bytes;

static bool blocks_of_others(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                             uint64_t first, uint64_t n, uint8_t *out)
{
    static const uint8_t key[1000];
    struct facts was = columns[source];
    column_set_strings(&columns[source], column_name(&was), column_binding(&was),
                       (struct piece){key, key_bytes}, column_last(&was));
    return some_blocks(ctx, thread, source, lane, first, n, out);
}

TEST(as_many_pages_are_written_as_were_counted)
{
    uint64_t digest, n_bytes;
    for (size_t i = 0; i < 30; i++)
        add_source((struct geometry){1, 1, 6}, 20, 0.01);
    plan_sources();
    for (int fewer = 0; fewer < 2; fewer++) {
        key_bytes = fewer ? 0 : 1000;
        IS(write_planned("pack", blocks_of_others, &digest, &n_bytes, NULL),
           fewer ? EIO : EFBIG);
        assert_int_not_equal(access(path_of("pack"), F_OK), 0);
    }
    forget_sources();
}

/* As a filter it answers for all columns together. */
TEST(a_pack_is_a_filter_of_all)
{
    uint64_t hashes[640], absent[10];
    add_mixed(20);
    struct tamis_filter *f = pack_sources("pack", NULL);
    IS(verified(f).n_damaged, 0);
    random_hashes(hashes, 600);
    for (size_t i = 0; i < 40; i++)
        hashes[600 + i] = some[i % n_sources].n_keys ? some[i % n_sources].keys[0] : i;
    size_t n_absent =
        tamis_filter_probe_batch(f, filter_domain(f).tag, hashes, 640, absent, NULL);
    size_t n = 0;
    for (size_t k = 0; k < 640; k++) {
        enum tamis_reason why;
        bool any = false;
        for (size_t i = 0; i < n_sources; i++)
            any |= folded_has(i, hashes[k]);
        IS(ask(f, hashes[k], &why), any ? TAMIS_MAYBE : TAMIS_ABSENT);
        IS(why, any ? TAMIS_HIT : TAMIS_NO_REASON);
        IS(absent[k / 64] >> k % 64 & 1, !any);
        n += !any;
    }
    IS(n, n_absent);
    assert_true(n > 0);
    forget_pack(f);
}

static void zero_rows(const char *path, const struct tamis_stage_info *rows,
                      uint64_t page)
{
    uint8_t zeros[PAGE_BYTES] = {0};
    file_poke(path, rows->offset + page * PAGE_BYTES, zeros, sizeof zeros);
}

/* No column with a key says ABSENT; returns how often only damage says MAYBE. */
static size_t keys_stay(struct tamis_filter *f)
{
    size_t n_damaged = 0;
    for (size_t i = 0; i < n_sources; i++)
        for (size_t k = 0; k < some[i].n_keys && k < 5; k++) {
            const struct band *b = band_of_source(i);
            struct band_rows r = pack_band_rows(f, b);
            uint64_t h = some[i].keys[k], hits[ROW_MAX_WORDS];
            uint32_t c = sources[i].column - b->first_column;
            bool damaged = false;
            assert_true(pack_probe_band(&r, h, hits, &damaged));
            assert_true(hits[c / 64] >> c % 64 & 1);
            enum tamis_reason why = pack_probe_column(f, b, c, h);
            assert_true(why == TAMIS_HIT || (why == TAMIS_DAMAGED && damaged));
            n_damaged += why == TAMIS_DAMAGED;
            IS(ask(f, h, NULL), TAMIS_MAYBE);
        }
    return n_damaged;
}

/* Each page of rows in turn is damaged, before it is read or when it was good once, or
 * cannot be read any more: no column with the key becomes absent. */
static void damage_rows(void)
{
    struct tamis_filter *f = pack_sources("pack", NULL);
    struct tamis_stage_info rows = filter_info(f).stages[0];
    tamis_filter_close(f);
    size_t n_damaged = 0;
    for (uint64_t page = 0; page < rows.bits_bytes / PAGE_BYTES; page += 3) {
        enum { ROTTEN, SCRUBBED, LOST } how = page / 3 % 3;
        file_copy(path_of("pack"), path_of("rotten"));
        if (how == ROTTEN)
            zero_rows(path_of("rotten"), &rows, page);
        f = open_filter(path_of("rotten"));
        if (how != ROTTEN)
            IS(keys_stay(f), 0);
        if (how == SCRUBBED) {
            zero_rows(path_of("rotten"), &rows, page);
            damage_of(f);
        } else if (how == LOST) {
            const struct stage *s = &atomic_load(&f->view)->stages[PACK_ROWS];
            assert_true(lost_replace((uintptr_t)(s->bits + page * PAGE_BYTES)));
        }
        n_damaged += keys_stay(f);
        tamis_filter_close(f);
    }
    assert_true(n_damaged > 100);
    unlink(path_of("pack"));
    unlink(path_of("rotten"));
    forget_sources();
}

TEST_WITH_GUARD(damaged_rows_exclude_nothing)
{
    add_mixed(120);
    damage_rows();
    for (size_t i = 0; i < 1500; i++) /* wide rows, which are read */
        add_source((struct geometry){2, 1, 6}, 64, 0.01);
    damage_rows();
}

TEST(without_its_bands_all_is_damaged)
{
    add_mixed(10);
    struct tamis_filter *f = pack_sources("pack", NULL);
    uint32_t n;
    uint64_t absent[1], h = random_u64();
    struct tamis_stage_info s = filter_info(f).stages[PACK_BANDS];
    tamis_filter_close(f);
    /* Any other number of words would do as well, if nobody looked at the digest. */
    uint8_t words = plan.bands[0].geometry.words == 5 ? 4 : 5;
    file_poke(path_of("pack"), s.offset + offsetof(struct band_disk, words), &words, 1);
    f = open_filter(path_of("pack"));
    assert_null(pack_bands(f, &n));
    IS(n, 0);
    IS(why_of(f, h), TAMIS_DAMAGED);
    IS(tamis_filter_probe_batch(f, filter_domain(f).tag, &h, 1, absent, NULL), 0);
    IS(pack_describe(f, 0, true, &(struct facts){.place = 0}), TAMIS_ERR_DAMAGED);
    forget_pack(f);
}

TEST(a_damaged_table_of_columns_is_told)
{
    add_mixed(10);
    struct tamis_filter *f = pack_sources("pack", NULL);
    struct tamis_stage_info s = filter_info(f).stages[PACK_COLUMNS];
    tamis_filter_close(f);
    file_poke(path_of("pack"), s.offset + 3, "x", 1);
    f = open_filter(path_of("pack"));
    IS(pack_describe(f, 0, true, &(struct facts){.place = 0}), TAMIS_ERR_DAMAGED);
    /* Probes do not read it. */
    for (size_t i = 0; i < n_sources; i++) {
        const struct band *b = band_of_source(i);
        if (some[i].n_keys)
            IS(pack_probe_column(f, b, sources[i].column - b->first_column,
                                 some[i].keys[0]),
               TAMIS_HIT);
    }
    filter_prefetch(f, 1); /* changes nothing */
    struct tamis_explanation x;
    struct tamis_key key = {.tag = filter_domain(f).tag, .hash = random_u64()};
    IS(tamis_filter_explain(f, &key, &x), tamis_filter_probe(f, &key, NULL));
    IS(x.n_stages, 0);
    forget_pack(f);
}

#define GOLDEN TAMIS_SOURCE_DIR "/tests/golden/packs/"

static const uint8_t *rows_of(const uint8_t *file, const struct commit *c)
{
    return file + c->stages[PACK_ROWS].offset;
}

/* Answers of one pack; returns how many keys were absent. */
static size_t check_golden(const char *name, bool rotten, size_t *n_columns)
{
    char path[1000];
    struct identity id;
    struct commit c;
    size_t n_bytes, n_absent = 0;
    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    FREED uint8_t *file = file_read(path, &n_bytes);
    IS(identity_decode(file, n_bytes, &id).code, VERDICT_OK);
    IS(commit_decode(file + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &c).code,
       VERDICT_OK);
    FILTER f = open_filter(path);
    struct tamis_domain d = filter_domain(f);
    snprintf(path, sizeof path, "%s%s.answers", GOLDEN, name);
    struct answers list = {.in = fopen(path, "r")};
    assert_non_null(list.in);
    uint32_t n_bands, column = 0;
    const struct band *bands = pack_bands(f, &n_bands), *band = bands;
    struct facts col;
    for (*n_columns = 0; answers_next(&list);) {
        struct tamis_key k = tamis_key_of(&d, list.key, list.key_bytes);
        if (list.next == 1) {
            IS(pack_find(f, list.run.who, strlen(list.run.who), false, &col), 0);
            band = &bands[col.band];
            column = le32_get(col.disk.column) - band->first_column;
            ++*n_columns;
        }
        enum tamis_reason why = pack_probe_column(f, band, column, k.hash);
        IS(why == TAMIS_NO_REASON, list.absent);
        if (why != TAMIS_NO_REASON && strcmp(list.run.maybe, "MAYBE") != 0)
            assert_string_equal(tamis_reason_name(why), list.run.maybe);
        if (!rotten)
            IS(band_probe(rows_of(file, &c), band, column, k.hash), !list.absent);
        n_absent += (size_t)list.absent;
    }
    assert_false(list.malformed);
    fclose(list.in);
    return n_absent;
}

TEST(columns_answer_as_they_did)
{
    size_t n;
    size_t n_absent = check_golden("pack.tamis", false, &n);
    assert_true(n == 27 && n_absent > 27 * 200);
    assert_true(check_golden("rotten.tamis", true, &n) < n_absent);
    IS(n, 27);
    assert_true(check_golden("wide.tamis", false, &n) > 70 * 250);
    IS(n, 70);
}

RUN_TESTS(test_dir_create, test_dir_remove)
