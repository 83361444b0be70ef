/* Files with what SPEC.md 10.1 reserves, in the hands of code that does not know it:
 * readers, writers, the algebra, and the store that they are to be attached to. */
#include "tests/unit/store_catalog/extensions.h"

static const char *const kinds[] = {"pack.tamis", "ribbon.tamis", "map.tamis",
                                    "list.tamis"};

/* For readers, writers, the algebra, and a store that they are to be attached to. The
 * noise in the pack, the ribbon and the list is none to code that knows them: kind_area
 * is not zero. */
TEST(later_kinds_are_refused)
{
    tamis_store_close(store_new("attach"));
    STORE s = store_open("attach");
    for (size_t i = 0; i < 4; i++) {
        struct tamis_filter *f;
        struct tamis_writer *w;
        struct tamis_diag diag = {0};
        char path[600];
        snprintf(path, sizeof path, "%s", path_of(kinds[i]));
        file_copy(golden(kinds[i]), path);
        uint64_t before = tree_of(kinds[i]);
        bool known = i != 2;
        int code = known ? TAMIS_ERR_DAMAGED : TAMIS_ERR_VERSION;
        IS(tamis_filter_open(path, NULL, &f, &diag), code);
        IS(diag.offset, known ? offsetof(struct identity_disk, kind_area)
                              : offsetof(struct identity_disk, kind));
        IS(tamis_writer_open(path, &w, NULL), code);
        IS(attach_code(s, "x", path, NULL, "kind"), code);
        IS(tree_of(kinds[i]), before);
    }
    IS(n_filter_files("attach"), 0);
}

static void check_answers(const char *path, const char *name, enum tamis_check mode)
{
    struct tamis_filter_options o = {.size = sizeof o, .check = mode};
    FILTER f;
    struct answers list = {.in = open_answers(name)};
    size_t n = 0;
    OK(tamis_filter_open(path, &o, &f, NULL));
    verified(f);
    struct tamis_domain domain = tamis_filter_domain(f);
    for (; answers_next(&list); n++) {
        struct tamis_key k = tamis_key_of(&domain, list.key, list.key_bytes);
        bool absent = tamis_filter_probe(f, &k, NULL) == TAMIS_ABSENT;
        IS(absent, list.absent);
        assert_false(absent && strcmp(list.run.who, "present") == 0);
    }
    fclose(list.in);
    assert_false(list.malformed);
    IS(n, N_KEYS + 2000);
}

TEST(open_files_answer)
{
    static const char *const names[] = {"series.tamis", "settled.tamis"};
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_STRICT,
                                             TAMIS_CHECK_FULL, TAMIS_CHECK_NONE};
    for (size_t i = 0; i < 2; i++)
        for (size_t m = 0; m < 4; m++) {
            file_copy(golden(names[i]), path_of(names[i]));
            check_answers(path_of(names[i]), names[i], modes[m]);
        }
}

TEST(a_series_is_not_written)
{
    struct tamis_writer *w;
    file_copy(golden("series.tamis"), path_of("series.tamis"));
    uint64_t before = tree_of("series.tamis");
    IS(tamis_writer_open(path_of("series.tamis"), &w, NULL), TAMIS_ERR_VERSION);
    IS(tree_of("series.tamis"), before);
}

/* A writer goes on and seals: either it knows the digests, and keeps its word, or its
 * records have neither the bit nor the bytes. */
TEST(settled_stages_are_written_on)
{
    char path[600];
    snprintf(path, sizeof path, "%s", path_of("settled.tamis"));
    file_copy(golden("settled.tamis"), path);
    FILTER held = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    write_on(w, 1500);
    check_present(path, 1500);
    OK(tamis_writer_seal(w, 5001, NULL, NULL));
    OK(tamis_writer_close(w));
    check_present(path, 1500);
    check_keys_in(held, 1500);
}

/* A backup that 1.0 made of it has the bit and the roots, and zeros for digests: its
 * pages may fail, and no key is lost. */
TEST(digests_that_were_left_out_lose_nothing)
{
    struct tamis_writer *w;
    char path[600];
    snprintf(path, sizeof path, "%s", path_of("settled-copied.tamis"));
    file_copy(golden("settled-copied.tamis"), path);
    struct tamis_filter *f = open_filter(path);
    check_keys_in(f, N_KEYS);
    tamis_filter_close(f);
    if (tamis_writer_open(path, &w, NULL) != 0)
        return;
    write_on(w, 1500);
    OK(tamis_writer_close(w));
    f = open_filter(path);
    check_keys_in(f, 1500);
    tamis_filter_close(f);
}

/* The files are put together from records alone, so they never come out otherwise. */
TEST(made_again_they_are_the_same)
{
    static const char *const names[] = {
        "pack.tamis",   "ribbon.tamis",  "map.tamis",           "list.tamis",
        "series.tamis", "settled.tamis", "settled-copied.tamis"};
    char command[2000], made[40];
    OK(mkdir(path_of("made"), 0777));
    snprintf(command, sizeof command, "%s/tests/golden/make_extensions %s >/dev/null",
             TAMIS_BUILD_DIR, path_of("made"));
    OK(system(command));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n_old, n_new;
        snprintf(made, sizeof made, "made/%s", names[i]);
        FREED uint8_t *old = file_read(golden(names[i]), &n_old);
        FREED uint8_t *new = file_read(path_of(made), &n_new);
        IS(n_old, n_new);
        assert_memory_equal(old, new, n_old);
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
