/* Packs that are missing, damaged or others than the records mean: backup and repair
 * lose no key, and take nothing for what it is not. */
#include "tests/support/store_packs.h"
#include "tests/support/repair_support.h"
#include "format/checksum.h"

enum { SEGMENTS = 24 };

/* ---- what happens to packs ---- */

enum hurt {
    UNHURT,
    GONE,
    NO_HEADER,
    SHORT,
    ANOTHER_DIGEST,
    ANOTHER_PACK, /* of this store */
    A_FILTER,     /* of this store, not of packs */
    STRANGE_PACK, /* of another store */
    NO_TOMBSTONES,
    BAD_TOMBSTONES,
    A_DIRECTORY,
    A_FIFO,
    A_DEAD_DIRECTORY,
    N_HURTS
};

/* Another digest, as if a file had been written anew under the name. */
static void change_digest(const char *path)
{
    size_t n;
    uint8_t *bytes = file_read(path, &n);
    bytes[IDENTITY_BYTES + STAGES_OFFSET + offsetof(struct stage_disk, keys)] ^= 1;
    checksum_set(bytes + IDENTITY_BYTES, BIRTH_BYTES, 0);
    file_write(path, bytes, n);
    free(bytes);
}

static void make_directory(const char *path)
{
    OK(unlink(path));
    OK(mkdir(path, 0777));
}

static void make_fifo(const char *path)
{
    OK(unlink(path));
    OK(mkfifo(path, 0666));
}

/* One of the packs of "s". The files "filter" and "strange" are at hand. */
static void hurt_one(enum hurt how)
{
    char pack[900], dead[900];
    snprintf(pack, sizeof pack, "%s", pack_file());
    snprintf(dead, sizeof dead, "%s", dead_file());
    if (how == GONE)
        OK(unlink(pack));
    else if (how == NO_HEADER)
        zero_page(pack, 0);
    else if (how == SHORT)
        OK(truncate(pack, 5000));
    else if (how == ANOTHER_DIGEST)
        change_digest(pack);
    else if (how == ANOTHER_PACK || how == A_FILTER || how == STRANGE_PACK)
        file_copy(path_of(how == ANOTHER_PACK ? "another"
                          : how == A_FILTER   ? "filter"
                                              : "strange"),
                  pack);
    else if (how == NO_TOMBSTONES)
        OK(unlink(dead));
    else if (how == BAD_TOMBSTONES)
        flip(dead, 50);
    else if (how == A_DIRECTORY)
        make_directory(pack);
    else if (how == A_FIFO)
        make_fifo(pack);
    else if (how == A_DEAD_DIRECTORY)
        make_directory(dead);
}

/* Files to be put in a pack's place. */
static void make_strange(void)
{
    tamis_store_close(store_of("s", 3, 300));
    struct tamis_store *s = store_open("s");
    pack_all(s, false);
    tamis_store_close(s);
    file_copy(pack_file(), path_of("strange"));
    remove_store("s");
}

/* The one that pack_file() does not say. */
static void copy_other_pack(void)
{
    char hidden[900];
    snprintf(hidden, sizeof hidden, "%s", path_of("hidden"));
    char dead[900];
    snprintf(dead, sizeof dead, "%s", dead_file());
    OK(rename(dead, hidden));
    file_copy(pack_file(), path_of("another"));
    OK(rename(hidden, dead));
}

static void store_in_two(bool keep)
{
    struct tamis_store *s = store_of("s", SEGMENTS, 300);
    pack_in_two(s, keep);
    put_segment(s, "loose", 8000000, 100);
    file_copy(file_of(s, "s", "loose"), path_of("filter"));
    tamis_store_close(s);
    copy_other_pack();
}

/* Segments that are not ABSENT of a key of theirs; returns how many say HIT. */
static unsigned none_is_lost(const char *store)
{
    unsigned n_hits = 0;
    struct tamis_store *s = store_open(store);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        enum tamis_reason why = reason_of(s, name_of(i), i * 1000);
        assert_int_not_equal(why, ABSENT_HERE);
        n_hits += why == TAMIS_HIT;
    }
    assert_int_not_equal(reason_of(s, "loose", 8000001), ABSENT_HERE);
    tamis_store_close(s);
    return n_hits;
}

/* ---- */

static void backups_lose_nothing(void **state)
{
    (void)state;
    make_strange();
    for (int keep = 0; keep < 2; keep++)
        for (enum hurt how = UNHURT; how < N_HURTS; how++) {
            struct tamis_backup_report report;
            struct tamis_diag diag = {0};
            store_in_two(keep);
            hurt_one(how);
            unsigned n = none_is_lost("s");
            assert_true(keep ? n == SEGMENTS : n > 0);
            assert_true(keep || (n == SEGMENTS) == (how == UNHURT));
            struct tamis_store *s = store_open("s");
            if (tamis_store_backup(s, path_of("copy"), NULL, NULL, &report, &diag) != 0)
                fail_msg("hurt %d: %s", (int)how, diag.what);
            tamis_store_close(s);
            assert_int_equal(none_is_lost("copy"), n);
            assert_int_equal(report.n_left,
                             keep ? how != UNHURT : SEGMENTS - n); /* the pack */
            remove_store("s");
            remove_store("copy");
        }
}

static void repairs_lose_nothing(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++)
        for (enum hurt how = UNHURT; how < N_HURTS; how++) {
            store_in_two(keep);
            hurt_one(how);
            unsigned n = none_is_lost("s");
            struct tamis_store_info info;
            struct tamis_store *s = store_open("s");
            OK(tamis_store_info(s, &info, NULL));
            tamis_store_close(s);
            struct tamis_repair_report report = repair("s");
            assert_false(report.rebuilt);
            if (how != UNHURT)
                SAW("the pack of ");
            assert_int_equal(none_is_lost("s"), n);
            /* And once more without the catalog. */
            OK(unlink(path_of("s/catalog.lmdb")));
            unlink(path_of("s/catalog.lmdb-lock"));
            OK(repair_code("s", 0, info.uuid, &report, NULL));
            assert_true(report.rebuilt);
            assert_true(none_is_lost("s") <= SEGMENTS);
            check_settled("s");
            remove_store("s");
        }
}

/* ---- reasons ---- */

/* Segments of the pack that is hurt say why; the others answer. */
static void segments_have_the_reason_of_their_pack(void **state)
{
    static const struct {
        enum tamis_reason why;
        int code;
        const char *words;
    } wanted[N_HURTS] = {
        [GONE] = {TAMIS_FILE_LOST, ENOENT, "this pack is missing"},
        [NO_HEADER] = {TAMIS_FILE_LOST, TAMIS_ERR_NOT_TAMIS, "this pack: not a tamis"},
        [SHORT] = {TAMIS_FILE_LOST, TAMIS_ERR_DAMAGED, "this pack: damaged"},
        [ANOTHER_DIGEST] = {TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH, "this pack: belongs"},
        [ANOTHER_PACK] = {TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH, "this pack: belongs"},
        [A_FILTER] = {TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH, "this pack: belongs"},
        [STRANGE_PACK] = {TAMIS_FILE_LOST, TAMIS_ERR_MISMATCH, "this pack: belongs"},
        [NO_TOMBSTONES] = {TAMIS_FILE_LOST, ENOENT,
                           ".dead file beside this pack is mi"},
        [BAD_TOMBSTONES] = {TAMIS_FILE_LOST, TAMIS_ERR_DAMAGED, ".dead file beside"},
        [A_DIRECTORY] = {TAMIS_UNREADABLE, EISDIR, "this pack: Is a directory"},
        [A_FIFO] = {TAMIS_UNREADABLE, EINVAL, "this pack: not a regular file"},
        [A_DEAD_DIRECTORY] = {TAMIS_FILE_LOST, TAMIS_ERR_DAMAGED, ".dead file beside"},
    };
    (void)state;
    make_strange();
    for (enum hurt how = GONE; how < N_HURTS; how++) {
        store_in_two(false);
        hurt_one(how);
        struct tamis_store *s = store_open("s");
        struct tamis_snapshot *snap = snapshot_of(s);
        unsigned n_hurt = 0;
        for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
            struct tamis_filter *f;
            struct tamis_diag diag;
            struct tamis_segment_info info;
            struct tamis_target target = tamis_snapshot_target(snap, i);
            struct tamis_key key = key_in(s, 77777777);
            enum tamis_reason why;
            int rc = tamis_snapshot_filter(snap, i, &f, &diag);
            if (rc == 0)
                continue;
            n_hurt++;
            OK(tamis_snapshot_segment(snap, i, &info));
            assert_int_equal(tamis_snapshot_probe(snap, &target, &key, &why),
                             TAMIS_MAYBE);
            if (rc != wanted[how].code || why != wanted[how].why ||
                !strstr(diag.what, wanted[how].words))
                fail_msg("hurt %d: %d, %d, %s", (int)how, rc, (int)why, diag.what);
            assert_string_equal(strrchr(diag.file, '/'), strrchr(info.file, '/'));
        }
        assert_true(n_hurt > 0 && n_hurt < SEGMENTS);
        tamis_snapshot_release(snap);
        tamis_store_close(s);
        remove_store("s");
    }
}

/* An I/O error says nothing about the bytes: it is no damage. */
static void a_pack_that_cannot_be_read_is_not_lost(void **state)
{
    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        struct stat st;
        tamis_store_close(store_of("s", 3, 300));
        struct tamis_store *s = store_open("s");
        pack_all(s, false);
        OK(stat(dead ? dead_file() : pack_file(), &st));
        unreadable = st.st_ino;
        calls_before = io_calls;
        io_calls.pread = unreadable_pread;
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(reason_of(s, name_of(i), i * 1000), TAMIS_UNREADABLE);
        tamis_store_close(s);
        struct tamis_repair_report report = repair("s");
        assert_int_equal(report.n_unread, 1);
        assert_int_equal(report.n_damaged, 0);
        SAW(dead ? "the pack of 3 segments: its tombstones: left alone: Input/output"
                 : "the pack of 3 segments: left alone");
        io_calls = calls_before;
        check_settled("s");
        remove_store("s");
    }
}

/* Both files of the pack are whole: the catalog is what is wrong. */
static void an_old_catalog_has_dropped_columns(void **state)
{
    (void)state;
    tamis_store_close(store_of("s", 9, 300));
    struct tamis_store *s = store_open("s");
    pack_all(s, false);
    tamis_store_close(s);
    save_catalog("old");
    s = store_open("s");
    drop_segment(s, name_of(2));
    drop_segment(s, name_of(5));
    tamis_store_close(s);
    put_back_catalog("old");
    for (int again = 0; again < 2; again++) {
        struct tamis_repair_report report = repair("s");
        assert_int_equal(report.n_damaged, 2);
        SAW("it was dropped from its pack: the catalog is older");
    }
    struct tamis_filter *f;
    struct tamis_diag diag;
    struct tamis_target t;
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_find(snap, name_of(2), 2, NULL, 0, 0, &t));
    assert_int_equal(tamis_snapshot_filter(snap, t.slot - 1, &f, &diag), ENOENT);
    assert_non_null(strstr(diag.what, "the segment was dropped from this pack"));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- places ---- */

static void rest_answers(struct tamis_store *s, unsigned from, unsigned but)
{
    for (unsigned i = from; i < SEGMENTS; i++)
        if (i != but)
            assert_int_equal(reason_of(s, name_of(i), i * 1000), TAMIS_HIT);
}

/* A record that gives its segment a place that is not there, or is another's. */
static void a_place_that_is_not_there(void **state)
{
    (void)state;
    for (int how = 0; how < 6; how++)
        for (int keep = 0; keep < 2; keep++) {
            uint8_t value[RECORD_MAX_BYTES];
            struct tamis_store *s = store_of("s", SEGMENTS, 3000);
            struct tamis_pack_report report = pack_all(s, keep);
            assert_true(report.n_bands > 1);
            struct record r = record_in(s, name_of(0)), other = r;
            unsigned elsewhere = 0;
            while (other.place.band == r.place.band)
                other = record_in(s, name_of(++elsewhere));
            tamis_store_close(s);
            if (how == 0)
                r.place.band = (uint32_t)report.n_bands;
            else if (how == 1)
                r.place.column = SEGMENTS;
            else if (how == 2)
                r.place.band = other.place.band; /* that column is not in it */
            else if (how == 3)
                r.place.column = other.place.column;
            else if (how == 4)
                r.place.digest ^= 1;
            else
                r.place.digest = 0;
            size_t n = record_encode(&r, name_of(0), strlen(name_of(0)), value);
            poke_catalog("s", "segments", name_of(0), value, n);
            s = store_open("s");
            enum tamis_reason why = reason_of(s, name_of(0), 0);
            assert_int_equal(why, keep && how < 5 ? TAMIS_HIT
                                  : how < 5       ? TAMIS_FILE_LOST
                                                  : why);
            assert_int_not_equal(why, ABSENT_HERE);
            /* That one's column has two names then, though one of them is wrong. */
            rest_answers(s, 1, how == 3 ? elsewhere : 0);
            if (how == 3)
                assert_int_equal(reason_of(s, name_of(elsewhere), elsewhere * 1000),
                                 keep ? TAMIS_HIT : TAMIS_FILE_LOST);
            struct tamis_snapshot *snap = snapshot_of(s);
            struct tamis_target t;
            struct tamis_edit *e = edit_new(s);
            OK(tamis_snapshot_find(snap, name_of(0), strlen(name_of(0)), NULL, 0, 0,
                                   &t));
            uint32_t one = t.slot - 1;
            assert_int_not_equal(tamis_edit_unpack(e, snap, &one, 1, NULL), 0);
            tamis_edit_abort(e);
            tamis_snapshot_release(snap);
            tamis_store_close(s);
            remove_store("s");
        }
}

/* Nobody can tell whose a column is that two records have. */
static void a_column_of_two_is_nobodys(void **state)
{
    uint8_t value[RECORD_MAX_BYTES];
    (void)state;
    struct tamis_store *s = store_of("s", SEGMENTS, 300);
    pack_all(s, false);
    struct pack_place place = record_in(s, name_of(1)).place;
    for (unsigned i = 0; i < 3; i += 2) {
        struct record r = record_in(s, name_of(i));
        r.place = place;
        tamis_store_close(s);
        size_t n = record_encode(&r, name_of(i), strlen(name_of(i)), value);
        poke_catalog("s", "segments", name_of(i), value, n);
        s = store_open("s");
        for (unsigned k = 0; k <= i + 1; k++)
            assert_int_equal(reason_of(s, name_of(k), k * 1000),
                             k < 2 || (k == 2 && i == 2) ? TAMIS_FILE_LOST : TAMIS_HIT);
        rest_answers(s, 4, 0);
    }
    tamis_store_close(s);
    remove_store("s");
}

/* It will not become a pack: the catalog is not read again for each snapshot. */
static void a_directory_in_a_packs_place(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", SEGMENTS, 60);
    pack_all(s, false);
    tamis_store_close(s);
    char pack[900];
    snprintf(pack, sizeof pack, "%s", pack_file());
    OK(unlink(pack));
    OK(mkdir(pack, 0777));
    s = store_open("s");
    struct tamis_snapshot *first = snapshot_of(s), *second = snapshot_of(s);
    assert_ptr_equal(first, second);
    tamis_snapshot_release(first);
    tamis_snapshot_release(second);
    assert_int_equal(reason_of(s, name_of(0), 0), TAMIS_UNREADABLE);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backups_lose_nothing),
        cmocka_unit_test(repairs_lose_nothing),
        cmocka_unit_test(segments_have_the_reason_of_their_pack),
        cmocka_unit_test(a_pack_that_cannot_be_read_is_not_lost),
        cmocka_unit_test(an_old_catalog_has_dropped_columns),
        cmocka_unit_test(a_directory_in_a_packs_place),
        cmocka_unit_test(a_place_that_is_not_there),
        cmocka_unit_test(a_column_of_two_is_nobodys),
    };
    return cmocka_run_group_tests_name("store packs hurt", tests, test_dir_create,
                                       test_dir_remove);
}
