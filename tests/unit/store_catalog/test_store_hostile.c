/* Stores made by hand to hurt: things in the place of the catalog, its lock file, the
 * directory of filters and what is in it; records with good checksums that say what no
 * writer says; names that look like paths. */
#include "tests/support/shop/shop.h"

#define A_AND_B "put a 0 100; growing b;"

/* LMDB would follow a link, and write to what it finds there. In place of a filter:
 * every answer MAYBE, and a message that says what is there. */
TEST_OF_SCENES(things_in_the_place_of_others)
{
    static const struct {
        const char *thing, *words;
    } rows[] = {{"fifo", "not a regular file"},
                {"mkdir", "directory"},
                {"socket", "not a regular file"},
                {"link", "symbolic link"}};
    alarm(60); /* nothing here may wait for a FIFO's other end */
    for (int i = 0; i < 4; i++) {
        const char *thing = rows[i].thing, *target = i == 3 ? "=moved" : "";
        play("the catalog",
             A_AND_B "move catalog =moved; %s catalog %s; fails NOT_TAMIS open;"
                     "told catalog.lmdb is not a regular file; told_file /s",
             thing, target);
        play("the lock file",
             A_AND_B
             "text lock x; lose lock; text =moved precious; text =want precious; %s "
             "lock %s;"
             "fails NOT_TAMIS open; told catalog.lmdb-lock is not a regular file;"
             "told_file /s; same =moved =want",
             thing, target);
        if (i != 1) /* an empty directory: its filters are lost */
            play("the filters",
                 A_AND_B "move filters =moved; %s filters %s; fails DAMAGED open;"
                         "told filters/ is no directory; told_file /s",
                 thing, target);
        for (const char *name = "a"; name; name = *name == 'a' ? "b" : NULL)
            play("a filter",
                 A_AND_B "live move %s =moved; live %s %s %s; hash %s 7 UNREADABLE;"
                         "fails ANY filter %s; told %s; told_file {%s}; %s",
                 name, thing, name, target, name, name, rows[i].words, name,
                 *name == 'a' ? "writer b; end" : "fails ANY writer b");
    }
    alarm(0);
}

/* A hard link is the file, under however many names: a backup made of links shares
 * what its writer adds. */
TEST_OF_SCENES(hard_links_are_the_file)
{
    scene("hard links");
    steps(A_AND_B "close");
    OK(link(path_at("a"), path_of("link-a")));
    OK(link(path_at("b"), path_of("link-b")));
    steps("hash a 7 HIT 700 ABSENT; writer b; add 0 1; end; drop a");
    FILTER f = open_filter(path_of("link-a"));
    IS(ask(f, key_in(shop.store, 7).hash, NULL), TAMIS_MAYBE);
}

/* ---- names ---- */

/* Names are bytes in the catalog and nothing else: no file is ever called so. */
TEST_IN_DIR(names_like_paths_stay_names)
{
    static const char *const names[] = {
        "../x",     "/etc/passwd", ".",    "..",   "a/b",
        "filters/", "\xff\xfe",    "%s%n", "$(x)", " "};
    enum { N = N_OF(names) };
    STORE s = store_new("names");
    for (size_t i = 0; i < N; i++)
        put_segment(s, names[i], i * 100, 100);
    for (size_t i = 0; i < N; i++) {
        IS(reason_of(s, names[i], i * 100 + 50), TAMIS_HIT);
        IS(reason_of(s, names[i], i * 100 + 5000), ABSENT_HERE);
    }
    IS(n_filter_files("names"), N);
    IS(count_files(path_of("names")), 3);
    assert_false(exists(path_of("x")) || exists(path_of("names/x")));
    for (size_t i = 0; i < N; i++)
        drop_segment(s, names[i]);
    IS(n_filter_files("names"), 0);
}

/* ---- records ---- */

typedef void hurt_fn(struct record *r);
#define HURT(name, ...)                                                                \
    static void name(struct record *r)                                                 \
    {                                                                                  \
        __VA_ARGS__;                                                                   \
    }
HURT(error_nan, r->target_error = __builtin_nan(""))
HURT(feature, r->incompat = 1)
HURT(other_uuid, r->uuid[0] ^= 1)
HURT(sequence_ahead, r->min_sequence = UINT64_MAX)
HURT(stages_ahead, r->min_stages = 30)
HURT(digest_other, r->table_digest ^= 1)
HURT(digest_zero, r->table_digest = 0)
HURT(generation_ahead, r->generation = UINT64_MAX)
HURT(watermark_ahead, r->watermark = UINT64_MAX)
HURT(counts, r->keys = r->file_bytes = UINT64_MAX)

/* The record of "a", changed and sealed anew, beyond what any writer says. */
static void hurt_record(hurt_fn *harm)
{
    uint8_t value[RECORD_MAX_BYTES];
    struct record r = record_in(opened(), "a");
    closed();
    harm(&r);
    size_t n = record_encode(&r, "a", 1, value);
    checksum_set(value, n, XXH3_64bits("a", 1));
    poke_catalog("s", "segments", "a", value, n);
}

TEST_OF_SCENES(hostile_records_are_maybe)
{
    static const struct {
        const char *name;
        hurt_fn *harm;
        enum tamis_reason why;
        const char *words;
    } cases[] = {
#define CASE(fn, why, words) {#fn, fn, TAMIS_##why, words}
        CASE(error_nan, UNREADABLE, "damaged"),
        CASE(feature, UNREADABLE, "newer tamis"),
        CASE(other_uuid, FILE_LOST, "No such file"),
        CASE(sequence_ahead, MISMATCH, "older copy"),
        CASE(stages_ahead, MISMATCH, "older copy"),
        CASE(generation_ahead, MISMATCH, "older copy"),
        CASE(watermark_ahead, MISMATCH, "older copy"),
        CASE(digest_other, MISMATCH, "another version"),
        CASE(digest_zero, MISMATCH, "another version"),
        CASE(counts, HIT, ""),
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        const char *why = tamis_reason_name(cases[i].why);
        bool good = cases[i].why == TAMIS_HIT;
        scene(cases[i].name);
        steps(A_AND_B);
        hurt_record(cases[i].harm);
        steps("why a 7 %s; hash a 7 %s; %s filter a; told %s;"
              /* Nothing of it is in the way of an edit. */
              "drop a; put a 0 10; confirm; why a 7 HIT",
              why, why, good ? "" : "fails ANY", cases[i].words);
    }
}

RUN_TESTS(NULL, NULL)
