/* Packs made of packs: what is asked for, and what the library chooses by itself. */
#include <sys/statvfs.h>

#include "tests/support/shop/shop.h"

/* The free space that statvfs() reports; 0: plenty. */
static uint64_t n_free;

/* A change of the pack's file during a question: text in place of other text. */
static const char *rots_from, *rots_to;

static void rot(const char *from, const char *to)
{
    size_t n;
    FREED uint8_t *bytes = file_read(pack_file(), &n);
    const uint8_t *at = memmem(bytes, n, from, strlen(from));
    assert_non_null(at);
    file_poke(pack_file(), (uint64_t)(at - bytes), to, strlen(to));
}

static int sync_while_it_rots(int fd)
{
    rot(rots_from, rots_to);
    return (io_calls.fsync = fsync)(fd);
}

int fstatvfs(int fd, struct statvfs *fs)
{
    if (rots_from)
        rot(rots_from, rots_to);
    memset(fs, 0, sizeof *fs);
    fs->f_frsize = 1;
    fs->f_bavail = n_free ? n_free : UINT64_MAX;
    return 0;
}

#define PACK(s, ...) pack_with(s, (struct tamis_pack_options){.size = 0, __VA_ARGS__})

/* ---- ALL ---- */

TEST_OF_SCENES(columns_of_other_packs)
{
    scene("in another pack");
    steps("many 150 1500; pack_in_two");
    for (unsigned i = 120; i < 150; i++)
        drop_segment(shop.store, name_of(i));
    steps("files 4; pack how=ALL; is packed=120 repacked=120; files 2; every 120 HIT;"
          "put loose 8000000 500; pack how=ALL; is packed=121 repacked=120;"
          "why loose 8000100 HIT; close; every 120 HIT"); /* with some that are loose */
    scene("from a pack whose table is lost: with all blocks of their band");
    steps("many 60 2000");
    struct tamis_pack_report report = pack_all(shop.store);
    steps("zero pack %d; pack how=ALL; is packed=60; every 60 HIT;"
          "hash s7 9000000 ABSENT; hash s40 9000000 ABSENT; hash s59 9000000 ABSENT",
          (int)(report.file_bytes / PAGE_BYTES - 2));
}

/* Columns with a bad page stay where they are. */
TEST_OF_SCENES(damaged_columns)
{
    scene("damaged columns");
    steps("many 60 400");
    struct tamis_pack_report report = pack_all(shop.store);
    steps("zero pack %d", 1 + (int)random_below(report.rows_bytes / PAGE_BYTES));
    struct tamis_store *s = opened();
    struct tamis_pack_report dry = PACK(s, .repack = TAMIS_REPACK_ALL, .dry_run = 1);
    report = PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_true(dry.n_packed == report.n_packed &&
                dry.n_left[TAMIS_LEFT_UNREADABLE] ==
                    report.n_left[TAMIS_LEFT_UNREADABLE]);
    IS(report.n_packed + report.n_left[TAMIS_LEFT_UNREADABLE], 60);
    assert_true(report.n_left[TAMIS_LEFT_UNREADABLE] > 0 &&
                report.n_repacked == report.n_packed &&
                dry.n_repacked == report.n_packed);
    IS(n_filter_files("s"), report.n_packed ? 4 : 2);
    for (unsigned i = 0; i < 60; i++)
        for (unsigned k = 0; k < n_keys[i]; k++)
            assert_int_not_equal(reason_of(s, name_of(i), i * 1000 + k), ABSENT_HERE);
}

/* Pages that probes have found good, and that rot later: nothing is made of them that
 * would pass for whole. */
TEST_OF_SCENES(rot_is_not_written_anew)
{
    static const char *const how[] = {"unpack", "filter"};
    for (int i = 0; i < 3; i++) {
        scene("rot");
        steps("many 8 1000");
        struct tamis_pack_report report = pack_all(shop.store);
        steps("every 8 HIT; live zero pack 1 %d",
              (int)(report.rows_bytes / PAGE_BYTES));
        for (unsigned k = 0; i < 2 && k < 8; k++)
            steps("fails DAMAGED %s s%u", how[i], k);
        if (i == 2)
            steps("pack how=ALL; is packed=0 unreadable=8");
        steps("close; none_lost 8");
    }
}

/* Names and ranges, likewise: no edit believes them. */
TEST_OF_SCENES(rot_in_a_table_is_not_believed)
{
    static const char name[] = "s7key00007000", other[] = "s9key00007000";
    static const char *const then[] = {"fails DAMAGED put s7 0 10",
                                       "fails DAMAGED only s6 s7",
                                       "fails DAMAGED pack how=ALL"};
    for (size_t i = 0; i < 3; i++) {
        scene("a name rots");
        steps("put s6 6000 100; put s7 7000 100; pack; hits s7 7000 100");
        if (i == 2)
            rots_from = name, rots_to = other;
        else
            rot(name, other);
        steps("%s", then[i]);
        rots_from = NULL;
        rot(other, name);
        steps("close; hits s6 6000 100; hits s7 7000 100");
    }
    char range[32], narrow[] = "key00007000key00007000";
    scene("a range rots, far from the name that is put");
    steps("many 60 300; pack; every 60 HIT");
    snprintf(range, sizeof range, "key00007000key%08u", 6999 + n_keys[7]);
    rots_from = range, rots_to = narrow, io_calls.fsync = sync_while_it_rots;
    steps("derive a s6 s7 how=union");
    rots_from = NULL;
    rot(narrow, range);
    steps("why a %u HIT", 6999 + n_keys[7]);
}

TEST_IN_DIR(blocks_are_checked_as_they_are_copied)
{
    uint8_t blocks[64 * BLOCK_BYTES];
    STORE s = store_of("s", 1, 20);
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_filter *f = filter_at(snap, 0);
    verified(f);
    assert_true(filter_copy_blocks(f, 0, 3, 5, blocks));
    zero_page(file_of(s, "s", name_of(0)), 1);
    assert_false(filter_copy_blocks(f, 0, 3, 5, blocks));
}

/* ---- AUTO ---- */

static size_t n_packs(void)
{
    size_t n = 0;
    DIR *d = opendir(path_of("s/filters"));
    for (const struct dirent *e; (e = readdir(d));)
        n += strstr(e->d_name, ".dead") != NULL;
    closedir(d);
    return n;
}

/* Counts the columns of all packs, dead ones among them. */
static size_t n_columns(struct tamis_store *s)
{
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_pack_place places[64];
    size_t n_seen = 0, sum = 0;
    for (size_t i = 0; tamis_snapshot_next(snap, &i); i++) {
        size_t at = 0;
        assert_true(n_seen < 64);
        OK(tamis_snapshot_pack(snap, i, NULL, &places[n_seen], NULL));
        while (memcmp(places[at].uuid, places[n_seen].uuid, TAMIS_UUID_BYTES) != 0)
            at++;
        if (at == n_seen)
            sum += places[n_seen++].n_columns_of_pack;
    }
    return sum;
}

/* A segment is rewritten once a tier, and there are few packs at any time. */
TEST_IN_DIR(tiers_bound_packs_and_rewrites)
{
    enum { ROUNDS = 125, EACH = 2, KEYS = 20 };
    STORE s = store_new("s");
    uint64_t n_written = 0;
    size_t most = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < EACH; i++)
            put_segment(s, name_of(round * EACH + i), (round * EACH + i) * 1000, KEYS);
        n_written += PACK(s, .repack = TAMIS_REPACK_AUTO).n_packed;
        most = n_packs() > most ? n_packs() : most;
    }
    /* 125 = 5^3: three merges of each, and four packs in each of four tiers. */
    assert_true(n_written <= ROUNDS * EACH * (1 + 3));
    assert_true(n_written > ROUNDS * EACH * 2);
    assert_true(most <= 16 && n_packs() <= 4);
    for (unsigned i = 0; i < ROUNDS * EACH; i++)
        IS(reason_of(s, name_of(i), i * 1000 + 7), TAMIS_HIT);
    struct tamis_pack_report report = PACK(s, .repack = TAMIS_REPACK_AUTO);
    assert_true(report.n_packed == 0 &&
                report.n_left[TAMIS_LEFT_PACKED] == ROUNDS * EACH);
}

/* Segments that are packed as they come, and never loose. */
TEST_IN_DIR(packs_of_new_segments_are_merged)
{
    enum { PACKS = 25, KEYS = 20 };
    STORE s = store_new("s");
    for (unsigned i = 0; i < PACKS; i++) {
        put_segment(s, name_of(i), i * 1000, KEYS);
        IS(pack_all(s).n_packed, 1);
        IS(n_packs(), i / 5 + i % 5 + 1);
        struct tamis_pack_report report = PACK(s, .repack = TAMIS_REPACK_AUTO);
        if (i % 5 != 4)
            IS(report.n_packed, 0);
        else
            IS(n_packs(), i == PACKS - 1 ? 1 : i / 5 + 1);
    }
}

/* Drops some at random, puts as many, packs: each round. By counting: how often a
 * segment is written, and how many columns there are for each that lives. */
TEST_IN_DIR(turnover_is_bounded)
{
    enum { LIVE = 48, EACH = 3, ROUNDS = 160, KEYS = 20 };
    unsigned live[LIVE], n_live = 0, n_put = 0;
    uint64_t n_written = 0;
    size_t most_packs = 0;
    double most_columns = 0;
    STORE s = store_new("s");
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < EACH && round >= LIVE / EACH; i++) {
            uint64_t at = random_below(n_live);
            drop_segment(s, name_of(live[at]));
            live[at] = live[--n_live];
        }
        for (unsigned i = 0; i < EACH; i++, n_put++) {
            put_segment(s, name_of(n_put), n_put * 1000, KEYS);
            live[n_live++] = n_put;
        }
        n_written += PACK(s, .repack = TAMIS_REPACK_AUTO).n_packed;
        size_t packs = n_packs();
        double columns = (double)n_columns(s) / n_live;
        most_packs = packs > most_packs ? packs : most_packs;
        most_columns = columns > most_columns ? columns : most_columns;
    }
    /* 16 batches live, fewer than 5^2: two merges of each, and less than one more when
     * packs that they are in are half dead. */
    assert_true(n_written <= 3 * n_put && n_written > n_put);
    assert_true(most_columns < 2 && most_columns > 1);
    assert_true(most_packs <= 3 * 3);
    for (unsigned i = 0; i < n_live; i++)
        IS(reason_of(s, name_of(live[i]), live[i] * 1000 + 7), TAMIS_HIT);
}

TEST_OF_SCENES(half_dead_packs_are_rewritten)
{
    scene("half dead");
    steps("many 40 300; pack");
    for (unsigned i = 39; i >= 20; i--)
        steps("pack how=AUTO; is packed=0; drop s%u", i);
    steps("pack how=AUTO; is packed=20 repacked=20; every 20 HIT");
    IS(n_packs(), 1);
}

/* ---- room ---- */

TEST_IN_DIR(room_is_asked_for_first)
{
    struct tamis_diag diag;
    STORE s = store_of("s", 30, 300);
    struct tamis_pack_report report = PACK(s, .dry_run = 1);
    assert_true(report.n_packed == 30 && report.file_bytes > report.rows_bytes);
    IS(n_filter_files("s"), 30);
    uint64_t n_bytes = report.file_bytes;
    n_free = n_bytes - 1;
    report = PACK(s, .dry_run = 1);
    IS(report.free_bytes, n_free);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    IS(tamis_edit_pack(e, snap, NULL, 0, NULL, NULL, &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "the pack needs "));
    IS(n_filter_files("s"), 30);
    tamis_edit_abort(e);
    tamis_snapshot_release(snap);
    n_free++;
    report = pack_all(s);
    n_free = 0;
    struct stat st = stat_of(pack_file());
    assert_true(report.file_bytes == n_bytes && (uint64_t)st.st_size == n_bytes);
}

RUN_TESTS(NULL, NULL)
