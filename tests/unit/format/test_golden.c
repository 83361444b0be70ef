/* The golden files of format 1.0, frozen: each answers every key of its list exactly as
 * it did when it was made. New ones may be added, never another put in their place. */
#include "tests/support/support.h"
#include "tests/golden/answers.h"

#include <inttypes.h>
#include <xxhash.h>

#define GOLDEN TAMIS_SOURCE_DIR "/tests/golden/"

/* Opens a golden file read-only, in a directory that may be so too. */
static struct tamis_filter *open_golden(const char *name, uint64_t offset,
                                        enum tamis_check check)
{
    struct tamis_filter_options o = {.size = sizeof o, .check = check};
    struct tamis_filter *f;
    struct tamis_diag diag;
    char path[1000];
    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (tamis_filter_open_fd(fd, offset, 0, &o, &f, &diag) != 0)
        fail_msg("%s: %s", name, diag.what);
    close(fd);
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
    {"growing-settled.tamis", 0, 5, 0, 1, 1, 0},
    {"growing-settled-unclean.tamis", 0, 5, 0, 0, 1, 0},
    {"sealed-growing.tamis", 0, 3, 1, 1, 1, 0},
    {"sealed-settled.tamis", 0, 3, 1, 1, 1, 0},
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
enum { N_GOLDENS = sizeof goldens / sizeof goldens[0] };

static void check_answers(const struct golden *g, enum tamis_check check)
{
    struct tamis_filter *f = open_golden(g->name, g->offset, check);
    struct tamis_domain domain = tamis_filter_domain(f);
    char path[1000];
    size_t n = 0, n_damaged = 0;
    snprintf(path, sizeof path, "%s%s.answers", GOLDEN, g->name);
    struct answers list = {.in = fopen(path, "r")};
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
    tamis_filter_close(f);
}

/* Unchecked, the damaged one would say ABSENT; checked as a whole it does not open. */
static void test_answers(void **state)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_STRICT,
                                             TAMIS_CHECK_FULL, TAMIS_CHECK_NONE};
    (void)state;
    for (size_t i = 0; i < N_GOLDENS; i++)
        for (size_t m = 0; m < (goldens[i].damaged ? 2 : 4); m++)
            check_answers(&goldens[i], modes[m]);
}

static void test_states(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GOLDENS; i++) {
        const struct golden *g = &goldens[i];
        struct tamis_filter *f = open_golden(g->name, g->offset, TAMIS_CHECK_LAZY);
        struct tamis_filter_info info;
        struct tamis_verify report;
        assert_int_equal(tamis_filter_info(f, &info), 0);
        assert_int_equal(info.n_stages, g->n_stages);
        assert_int_equal(info.sealed, g->sealed);
        assert_int_equal(info.clean, g->clean);
        assert_int_equal(info.growing_kind, g->growing);
        assert_memory_equal(info.name, "golden", 7);
        assert_int_equal(tamis_filter_verify(f, &report, NULL),
                         g->damaged ? TAMIS_ERR_DAMAGED : 0);
        tamis_filter_close(f);
    }
}

/* The files are those that were published: frozen.tsv has their digests. */
static void test_frozen(void **state)
{
    char line[300], name[200], path[1000], digest[40];
    size_t n_bytes, n = 0;
    (void)state;
    FILE *in = fopen(GOLDEN "frozen.tsv", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        size_t size;
        assert_int_equal(sscanf(line, "%39s\t%zu\t%199s", digest, &n_bytes, name), 3);
        snprintf(path, sizeof path, "%s%s", GOLDEN, name);
        uint8_t *bytes = file_read(path, &size);
        XXH128_hash_t h = XXH3_128bits(bytes, size);
        char now[40];
        snprintf(now, sizeof now, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64,
                 (uint64_t)h.low64);
        if (size != n_bytes || strcmp(now, digest) != 0)
            fail_msg("%s is not the file that was frozen", name);
        free(bytes);
        n++;
    }
    fclose(in);
    assert_true(n >= 2 * N_GOLDENS);
}

/* Stages that were left behind had no digests once (SPEC.md R17). */
static bool is_no_more_written(const char *name)
{
    static const char *const names[] = {"growing-2.tamis", "growing-2-unclean.tamis",
                                        "growing-5.tamis", "growing-5-unclean.tamis",
                                        "sealed-growing.tamis"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        found |= strcmp(names[i], name) == 0;
    return found;
}

/* And the library still writes the same bytes, but for files that it no longer writes.
 */
static void test_same_bytes(void **state)
{
    char command[2000];
    (void)state;
    snprintf(command, sizeof command, "%s/tests/golden/make_golden %s >/dev/null",
             TAMIS_BUILD_DIR, test_dir);
    assert_int_equal(system(command), 0);
    static const char *const kinds[] = {"ribbons", "lists"};
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "mkdir %s/%s && %s/tests/golden/make_%s %s/%s", test_dir, kinds[i],
                 TAMIS_BUILD_DIR, kinds[i], test_dir, kinds[i]);
        assert_int_equal(system(command), 0);
    }
    for (size_t i = 0; i < N_GOLDENS; i++) {
        size_t n_old, n_new;
        char path[1000];
        if (is_no_more_written(goldens[i].name))
            continue;
        snprintf(path, sizeof path, "%s%s", GOLDEN, goldens[i].name);
        uint8_t *old = file_read(path, &n_old);
        uint8_t *new = file_read(path_of(goldens[i].name), &n_new);
        assert_int_equal(n_old, n_new);
        for (size_t k = 0; k < n_old; k++)
            if (old[k] != new[k])
                fail_msg("%s: byte %zu differs", goldens[i].name, k);
        free(old);
        free(new);
    }
}

/* A dead writer's file is picked up, and a clean one goes on, from a copy. */
static void test_writers_go_on(void **state)
{
    static const char *const names[] = {
        "growing-1-unclean.tamis", "growing-2.tamis", "growing-5-unclean.tamis",
        "growing-settled.tamis", "growing-settled-unclean.tamis"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tamis_writer *w;
        char path[1000];
        snprintf(path, sizeof path, "%s%s", GOLDEN, names[i]);
        file_copy(path, path_of("copy.tamis"));
        assert_int_equal(tamis_writer_open(path_of("copy.tamis"), &w, NULL), 0);
        assert_true(tamis_writer_watermark(w) > 0);
        assert_int_equal(tamis_writer_add_key(w, "another", 7), 0);
        assert_int_equal(tamis_writer_commit(w, UINT64_MAX, NULL), 0);
        assert_int_equal(tamis_writer_close(w), 0);
        unlink(path_of("copy.tamis"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),       cmocka_unit_test(test_states),
        cmocka_unit_test(test_frozen),        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_writers_go_on),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
