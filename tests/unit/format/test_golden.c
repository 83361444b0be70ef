/* The golden files: each answers every key of its list exactly as it did when it was
 * made, and the library still writes it so. */
#include "tests/support/filters.h"
#include "tests/golden/answers.h"

#define GOLDEN TAMIS_SOURCE_DIR "/tests/golden/"

/* One at a time. */
static const char *golden_path(const char *name, const char *suffix)
{
    static char path[1000];
    snprintf(path, sizeof path, "%s%s%s", GOLDEN, name, suffix);
    return path;
}

/* Opens a golden file read-only, in a directory that may be so too. */
static struct tamis_filter *open_golden(const char *name, uint64_t offset,
                                        enum tamis_check check)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    FD fd = open_to_read(golden_path(name, ""));
    if (tamis_filter_open(NULL, INSIDE(.check = check, .fd = fd, .offset = offset), &f,
                          &diag) != 0)
        fail_msg("%s: %s", name, diag.what);
    return f;
}

static const struct golden {
    const char *name;
    uint64_t offset;
    uint32_t n_stages;
    int sealed, clean, growing, damaged;
} goldens[] = {
    {"empty.tamis", 0, 1, 1, 1, 0, 0},
    {"built.tamis", 0, 1, 1, 1, 0, 0},
    {"two-lanes.tamis", 0, 1, 1, 1, 0, 0},
    {"embedded.bin", 12288, 1, 1, 1, 0, 0},
    {"growing-1.tamis", 0, 1, 0, 1, 1, 0},
    {"growing-1-unclean.tamis", 0, 1, 0, 0, 1, 0},
    {"growing-2.tamis", 0, 2, 0, 1, 1, 0},
    {"growing-2-unclean.tamis", 0, 2, 0, 0, 1, 0},
    {"growing-5.tamis", 0, 5, 0, 1, 1, 0},
    {"growing-5-unclean.tamis", 0, 5, 0, 0, 1, 0},
    {"sealed-growing.tamis", 0, 3, 1, 1, 1, 0},
    {"geometries.tamis", 0, 14, 1, 1, 0, 0},
    {"many-stages.tamis", 0, 30, 1, 1, 1, 0},
    {"digest-levels.tamis", 0, 1, 1, 1, 0, 0},
    {"later-minor.tamis", 0, 1, 0, 1, 1, 0},
    {"torn.tamis", 0, 2, 0, 0, 1, 1},
    {"settled-rotten.tamis", 0, 3, 0, 1, 1, 1},
    {"ribbons/small.tamis", 0, 2, 1, 1, 0, 0},
    {"ribbons/rotten.tamis", 0, 2, 1, 1, 0, 1},
    {"lists/whole.tamis", 0, 2, 1, 1, 0, 0},
    {"lists/cut.tamis", 0, 2, 1, 1, 0, 0},
    {"lists/none.tamis", 0, 2, 1, 1, 0, 0},
    {"lists/rotten.tamis", 0, 2, 1, 1, 0, 1},
};
enum { N_GOLDENS = N_OF(goldens) };

static void check_answers(const struct golden *g, enum tamis_check check)
{
    FILTER f = open_golden(g->name, g->offset, check);
    struct tamis_domain domain = filter_domain(f);
    size_t n = 0, n_damaged = 0;
    struct answers list = {.in = fopen(golden_path(g->name, ".answers"), "r")};
    assert_non_null(list.in);
    while (answers_next(&list)) {
        struct tamis_key k = tamis_key_of(&domain, list.key, list.key_bytes);
        enum tamis_reason why;
        int absent = tamis_filter_probe(f, &k, &why) == TAMIS_ABSENT;
        if (absent != list.absent)
            fail_msg("%s: key %s was %s", g->name, list.key,
                     list.absent ? "ABSENT" : "MAYBE");
        n_damaged += why == TAMIS_DAMAGED;
        if (!absent && strcmp(list.run.maybe, "MAYBE") != 0)
            assert_string_equal(tamis_reason_name(why), list.run.maybe);
        else
            assert_true(absent ? why == TAMIS_NO_REASON
                               : why == TAMIS_HIT || why == TAMIS_DAMAGED);
        assert_false(absent && strcmp(list.run.who, "present") == 0);
        n++;
    }
    fclose(list.in);
    assert_false(list.malformed);
    assert_true(n >= 2000 && (n_damaged > 0) == g->damaged);
}

/* Unchecked, the damaged one would say ABSENT; checked as a whole it does not open. */
TEST(test_answers)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_STRICT,
                                             TAMIS_CHECK_FULL, TAMIS_CHECK_NONE};
    for (size_t i = 0; i < N_GOLDENS; i++)
        for (size_t m = 0; m < (goldens[i].damaged ? 2 : 4); m++)
            check_answers(&goldens[i], modes[m]);
}

TEST(test_states)
{
    for (size_t i = 0; i < N_GOLDENS; i++) {
        const struct golden *g = &goldens[i];
        FILTER f = open_golden(g->name, g->offset, TAMIS_CHECK_LAZY);
        struct tamis_verify report;
        struct tamis_filter_info info = filter_info(f);
        IS(info.n_stages, g->n_stages);
        IS(info.sealed, g->sealed);
        IS(info.clean, g->clean);
        IS(info.growing_kind, g->growing);
        assert_memory_equal(info.name, "golden", 7);
        IS(tamis_filter_verify(f, &report, NULL), g->damaged ? TAMIS_ERR_DAMAGED : 0);
    }
}

/* And the library still writes the same bytes. */
TEST(test_same_bytes)
{
    char command[2000];
    snprintf(command, sizeof command, "%s/tests/golden/make_golden %s >/dev/null",
             TAMIS_BUILD_DIR, test_dir);
    OK(system(command));
    static const char *const kinds[] = {"ribbons", "lists"};
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "mkdir %s/%s && %s/tests/golden/make_%s %s/%s", test_dir, kinds[i],
                 TAMIS_BUILD_DIR, kinds[i], test_dir, kinds[i]);
        OK(system(command));
    }
    for (size_t i = 0; i < N_GOLDENS; i++) {
        size_t n_old, n_new;
        FREED uint8_t *old = file_read(golden_path(goldens[i].name, ""), &n_old);
        FREED uint8_t *new = file_read(path_of(goldens[i].name), &n_new);
        IS(n_old, n_new);
        for (size_t k = 0; k < n_old; k++)
            if (old[k] != new[k])
                fail_msg("%s: byte %zu differs", goldens[i].name, k);
    }
}

/* A dead writer's file is picked up, and a clean one goes on, from a copy. */
TEST(test_writers_go_on)
{
    static const char *const names[] = {"growing-1-unclean.tamis", "growing-2.tamis",
                                        "growing-5.tamis", "growing-5-unclean.tamis"};
    for (size_t i = 0; i < N_OF(names); i++) {
        file_copy(golden_path(names[i], ""), path_of("copy.tamis"));
        struct tamis_writer *w = open_writer(path_of("copy.tamis"));
        assert_true(w->watermark > 0);
        OK(tamis_writer_add_key(w, "another", 7));
        commit_and_close(w, UINT64_MAX);
        unlink(path_of("copy.tamis"));
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
