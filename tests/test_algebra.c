/* Filters made from filters: the bits are those that the keys would have made, and no
 * key is lost, whatever becomes of the sources. */
#include "support.h"

#include <math.h>

/* Eight pages, of one lane: 24,000 keys at 1%. */
enum { N = 24000 };
static uint64_t keys[3][N];
static struct tamis_domain domain;

static int set_up(void **state)
{
    tamis_domain_init(&domain, 1, 42);
    for (size_t i = 0; i < 3; i++)
        random_hashes(keys[i], N);
    return test_dir_create(state);
}

/* ---- sources ---- */

static const char *build(const char *name, const uint64_t *hashes, size_t n,
                         double error)
{
    const char *path = path_of(name);
    struct tamis_builder *b;
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &domain, .error = error};
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, hashes, n), 0);
    assert_int_equal(tamis_builder_finish_file(b, path, NULL), 0);
    tamis_builder_free(b);
    return path;
}

static struct tamis_filter *built(const char *name, const uint64_t *hashes, size_t n,
                                  double error)
{
    return open_filter(build(name, hashes, n, error));
}

static struct tamis_filter *grown(const char *name, const uint64_t *hashes, size_t n)
{
    const char *path = path_of(name);
    struct tamis_writer *w;
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = {.first_capacity = 1000}, .domain = &domain};
    assert_int_equal(tamis_writer_create(path, &opt, &w, NULL), 0);
    add_hashes(w, hashes, n);
    assert_int_equal(tamis_writer_seal(w, 1, NULL, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    return open_filter(path);
}

static void flip_pages(const char *path, uint64_t step)
{
    struct commit c = commit_of(path);
    for (uint32_t i = 0; i < c.n_stages; i++)
        for (uint64_t at = 0; at < c.stages[i].length; at += step * PAGE_BYTES) {
            uint8_t zeros[64] = {0};
            file_poke(path, c.stages[i].offset + at + 128, zeros, sizeof zeros);
        }
}

/* ---- results ---- */

/* Stage i of a file is, bit for bit, what the reference makes of these hashes. */
static void check_bits(const char *path, uint32_t i, const uint64_t *const *sets,
                       size_t n_sets)
{
    size_t n;
    struct commit c = commit_of(path);
    const struct stage_desc *s = &c.stages[i];
    uint8_t *file = file_read(path, &n), *bits = calloc(1, s->length);
    for (size_t k = 0; k < n_sets; k++)
        for (size_t j = 0; j < N; j++)
            geometry_add(bits, &s->geometry, sets[k][j]);
    assert_memory_equal(file + s->offset, bits, s->length);
    free(file), free(bits);
}

static void check_whole(const char *path)
{
    struct tamis_verify report;
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    assert_true(report.n_pages > 0);
    tamis_filter_close(f);
}

static void check_present(const char *path, const uint64_t *hashes, size_t n)
{
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, hashes, n), 0);
    tamis_filter_close(f);
}

/* At most so many of other keys are found, and at least a few are not. */
static double measured_error(const char *path)
{
    enum { PROBES = 100000 };
    static uint64_t others[PROBES];
    struct tamis_filter *f = open_filter(path);
    random_hashes(others, PROBES);
    double error = 1 - (double)count_absent(f, others, PROBES) / PROBES;
    tamis_filter_close(f);
    return error;
}

static void close_all(struct tamis_filter **f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tamis_filter_close(f[i]);
}

/* ---- union ---- */

static void test_union_of_one_geometry(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N, 0.01),
                                built("c", keys[2], N, 0.01)};
    const uint64_t *sets[] = {keys[0], keys[1], keys[2]};
    const char *out = path_of("union");
    (void)state;
    assert_int_equal(tamis_filter_union(f, 3, out, NULL, &report, NULL), 0);
    assert_int_equal(report.n_stages, 1);
    assert_int_equal(report.n_damaged, 0);
    assert_in_range(report.keys, 3 * N * 99 / 100, 3 * N * 101 / 100);
    check_bits(out, 0, sets, 3);
    check_whole(out);
    double error = measured_error(out);
    assert_true(error > report.error * 0.9 && error < report.error * 1.1);
    close_all(f, 3);
}

static void test_union_of_sizes(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N / 4, 0.001)};
    struct tamis_derive_options opt = {.size = sizeof opt, .name = "both"};
    const char *out = path_of("union");
    (void)state;
    opt.name_bytes = 4;
    opt.binding = "xy", opt.binding_bytes = 2;
    opt.watermark = 7;
    assert_int_equal(tamis_filter_union(f, 2, out, &opt, &report, NULL), 0);
    assert_int_equal(report.n_stages, 2);
    check_whole(out);
    check_present(out, keys[0], N);
    check_present(out, keys[1], N / 4);
    double error = measured_error(out);
    assert_true(error > report.error * 0.85 && error < report.error * 1.15);
    struct tamis_filter *u = open_filter(out);
    struct tamis_filter_info info;
    assert_int_equal(tamis_filter_info(u, &info), 0);
    assert_string_equal(info.name, "both");
    assert_memory_equal(info.binding, "xy", 2);
    assert_int_equal(info.watermark, 7);
    assert_int_equal(info.keys, report.keys);
    assert_int_equal(info.domain.tag, domain.tag);
    tamis_filter_close(u);
    close_all(f, 2);
}

/* Stages of one growth meet; what comes of a union may be a source again. */
/* Of one shape, the larger one first: two stages all the same. */
static void test_union_of_a_smaller_one(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N / 4, 0.01)};
    const char *out = path_of("union");
    (void)state;
    assert_int_equal(tamis_filter_union(f, 2, out, NULL, &report, NULL), 0);
    assert_int_equal(report.n_stages, 2);
    check_whole(out);
    check_present(out, keys[0], N);
    check_present(out, keys[1], N / 4);
    close_all(f, 2);
}

static void test_union_of_grown(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {grown("a", keys[0], N), grown("b", keys[1], N),
                                built("c", keys[2], N, 0.01)};
    const char *out = path_of("union"), *again = path_of("again");
    (void)state;
    assert_int_equal(tamis_filter_union(f, 2, out, NULL, &report, NULL), 0);
    assert_in_range(report.n_stages, 3, commit_of(path_of("a")).n_stages);
    struct tamis_filter *two[] = {open_filter(out), f[2]};
    assert_int_equal(tamis_filter_union(two, 2, again, NULL, &report, NULL), 0);
    check_whole(again);
    for (size_t i = 0; i < 3; i++)
        check_present(again, keys[i], N);
    tamis_filter_close(two[0]);
    close_all(f, 3);
}

/* More than 14 stages want a header of three pages (SPEC.md 6), more than 30 none. */
static void test_union_of_many(void **state)
{
    enum { MANY = 64 };
    static const double errors[] = {0.1, 0.01, 0.001, 0.0001};
    struct tamis_filter *f[MANY];
    struct tamis_diag diag;
    char name[16];
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "f%zu", i);
        f[i] = built(name, keys[i % 3], (i / 4 + 1) * 1500, errors[i % 4]);
    }
    const char *out = path_of("union");
    assert_int_equal(tamis_filter_union(f, MANY, out, NULL, NULL, &diag),
                     TAMIS_ERR_UNFIT);
    assert_non_null(strstr(diag.what, "30"));
    assert_false(exists(out));
    size_t n = MANY; /* some have the size of another */
    while (tamis_filter_union(f, n, out, NULL, NULL, &diag) == TAMIS_ERR_UNFIT)
        n--;
    assert_int_equal(commit_of(out).n_stages, MAX_STAGES);
    check_whole(out);
    for (size_t i = 0; i < n; i++)
        check_present(out, keys[i % 3], (i / 4 + 1) * 1500);
    close_all(f, MANY);
}

/* ---- fold ---- */

static void test_fold(void **state)
{
    const uint64_t *sets[] = {keys[0]};
    struct tamis_filter *f = built("a", keys[0], N, 0.01);
    struct tamis_derive_report report;
    struct tamis_diag diag;
    uint64_t pages = commit_of(path_of("a")).stages[0].geometry.n_blocks / 64;
    size_t n_folds = 0;
    (void)state;
    for (uint64_t factor = 1; factor <= pages; factor++) {
        const char *out = path_of("fold");
        int rc = tamis_filter_fold(f, factor, out, NULL, &report, &diag);
        assert_int_equal(rc, pages % factor ? TAMIS_ERR_UNFIT : 0);
        assert_int_equal(exists(out), rc == 0);
        if (rc)
            continue;
        n_folds++;
        assert_int_equal(commit_of(out).stages[0].geometry.n_blocks,
                         pages / factor * 64);
        assert_int_equal(report.keys, N);
        check_bits(out, 0, sets, 1);
        check_whole(out);
        remove(out);
    }
    assert_int_equal(n_folds, 4);
    assert_int_equal(tamis_filter_fold(f, 0, path_of("fold"), NULL, NULL, NULL),
                     TAMIS_ERR_UNFIT);
    tamis_filter_close(f);
}

static void test_shrink(void **state)
{
    struct tamis_filter *f = built("a", keys[0], N, 0.001);
    struct tamis_derive_report report;
    struct tamis_diag diag;
    uint64_t last = UINT64_MAX;
    (void)state;
    assert_int_equal(tamis_filter_shrink(f, 1e-6, path_of("small"), NULL, NULL, &diag),
                     TAMIS_ERR_UNFIT);
    assert_false(exists(path_of("small")));
    for (double error = 0.0015; error < 1; error *= 3) {
        const char *out = path_of("small");
        assert_int_equal(tamis_filter_shrink(f, error, out, NULL, &report, NULL), 0);
        assert_true(report.error <= error);
        assert_true(report.file_bytes <= last);
        last = report.file_bytes;
        check_present(out, keys[0], N);
        assert_true(measured_error(out) < error * 1.1 + 0.0005);
        remove(out);
    }
    assert_true(last < commit_of(path_of("a")).committed_bytes / 2);
    tamis_filter_close(f);
}

/* Of a filter that grew the last stage alone has room. */
static void test_shrink_grown(void **state)
{
    struct tamis_filter *f = grown("a", keys[0], N);
    struct commit before = commit_of(path_of("a")), after;
    const char *out = path_of("small");
    uint32_t last = before.n_stages - 1;
    (void)state;
    assert_int_equal(tamis_filter_shrink(f, 0.01, out, NULL, NULL, NULL), 0);
    after = commit_of(out);
    assert_int_equal(after.n_stages, before.n_stages);
    assert_true(after.stages[last].length < before.stages[last].length);
    check_whole(out);
    check_present(out, keys[0], N);
    assert_true(measured_error(out) < 0.0105);
    tamis_filter_close(f);
}

/* ---- intersection ---- */

static void test_intersection(void **state)
{
    static uint64_t one[N + N / 2], other[N + N / 2];
    struct tamis_derive_report report;
    (void)state;
    memcpy(one, keys[0], sizeof keys[0]);
    memcpy(other, keys[0], sizeof keys[0]);
    memcpy(one + N, keys[1], sizeof keys[1] / 2);
    memcpy(other + N, keys[2], sizeof keys[2] / 2);
    struct tamis_filter *f[] = {built("a", one, N + N / 2, 0.01),
                                built("b", other, N + N / 2, 0.01)};
    const char *out = path_of("common");
    assert_int_equal(tamis_filter_intersection(f, 2, out, NULL, &report, NULL), 0);
    check_whole(out);
    check_present(out, keys[0], N);
    assert_true(measured_error(out) < 0.01);
    struct tamis_filter *common = open_filter(out);
    assert_true(count_absent(common, keys[1], N / 2) > N / 2 * 9 / 10);
    tamis_filter_close(common);
    close_all(f, 2);
}

static void test_intersection_of_sizes(void **state)
{
    const char *out = path_of("common");
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    uint64_t pages = commit_of(path_of("a")).stages[0].geometry.n_blocks / 64;
    (void)state;
    assert_int_equal(pages, 8);
    assert_int_equal(tamis_filter_fold(a, 2, path_of("half"), NULL, NULL, NULL), 0);
    struct tamis_filter *f[] = {open_filter(path_of("half")), a};
    assert_int_equal(tamis_filter_intersection(f, 2, out, NULL, NULL, NULL), 0);
    check_bits(out, 0, (const uint64_t *const[]){keys[0]}, 1);
    close_all(f, 2);
}

/* ---- containment and equality ---- */

static enum tamis_answer contains(struct tamis_filter *whole, struct tamis_filter *part)
{
    enum tamis_answer answer = TAMIS_ABSENT;
    assert_int_equal(tamis_filter_contains(whole, part, &answer, NULL), 0);
    return answer;
}

/* A filter of these keys and the geometry of one of N keys. */
static struct tamis_filter *of_size(const char *name, const uint64_t *hashes, size_t n)
{
    static uint64_t padded[N];
    for (size_t i = 0; i < N; i++)
        padded[i] = hashes[i % n];
    /* Equal neighbours alone count as one key: these are sized for N. */
    return built(name, padded, n == 1 ? 1 : N, 0.01);
}

static void test_contains(void **state)
{
    struct tamis_filter *whole = built("whole", keys[0], N, 0.01);
    struct tamis_filter *part = of_size("part", keys[0], N / 10);
    struct tamis_filter *other = of_size("other", keys[1], N / 10);
    (void)state;
    assert_int_equal(contains(whole, part), TAMIS_MAYBE);
    assert_int_equal(contains(whole, whole), TAMIS_MAYBE);
    assert_int_equal(contains(whole, other), TAMIS_ABSENT);
    assert_int_equal(contains(part, whole), TAMIS_ABSENT);
    /* Folded, the one or the other. */
    assert_int_equal(tamis_filter_fold(whole, 2, path_of("half"), NULL, NULL, NULL), 0);
    struct tamis_filter *half = open_filter(path_of("half"));
    assert_int_equal(contains(half, part), TAMIS_MAYBE);
    assert_int_equal(contains(whole, half), TAMIS_MAYBE);
    assert_int_equal(contains(half, other), TAMIS_ABSENT);
    assert_int_equal(contains(other, half), TAMIS_ABSENT);
    struct tamis_filter *all[] = {whole, part, other, half};
    close_all(all, 4);
}

/* A filter of one key is the question for that key. */
static void test_contains_one_key(void **state)
{
    struct tamis_filter *whole = built("whole", keys[0], 200, 0.01);
    size_t n_absent = 0;
    (void)state;
    for (size_t i = 0; i < 200; i++) {
        struct tamis_filter *in = built("in", &keys[0][i], 1, 0.01);
        struct tamis_filter *out = built("out", &keys[1][i], 1, 0.01);
        assert_int_equal(contains(whole, in), TAMIS_MAYBE);
        n_absent += contains(whole, out) == TAMIS_ABSENT;
        tamis_filter_close(in), tamis_filter_close(out);
        remove(path_of("in")), remove(path_of("out"));
    }
    assert_true(n_absent > 180);
    tamis_filter_close(whole);
}

static void test_contains_of_damaged(void **state)
{
    build("whole", keys[0], N, 0.01), build("part", keys[0], N, 0.01);
    (void)state;
    /* Lost bits of the whole are no proof; nor are the ones of damaged parts. */
    flip_pages(path_of("whole"), 1);
    struct tamis_filter *f[] = {open_filter(path_of("whole")),
                                open_filter(path_of("part"))};
    assert_int_equal(contains(f[0], f[1]), TAMIS_MAYBE);
    close_all(f, 2);
    build("sound", keys[0], N, 0.01);
    uint8_t ones[64];
    memset(ones, 0xff, sizeof ones);
    file_poke(path_of("part"), commit_of(path_of("part")).stages[0].offset, ones, 64);
    struct tamis_filter *g[] = {open_filter(path_of("sound")),
                                open_filter(path_of("part"))};
    assert_int_equal(contains(g[0], g[1]), TAMIS_MAYBE);
    close_all(g, 2);
}

/* What was damaged before, and was copied as ones with a good digest, proves nothing
 * either. */
static void test_contains_of_mended(void **state)
{
    struct tamis_derive_report report;
    build("whole", keys[0], N, 0.01), build("part", keys[0], N, 0.01);
    (void)state;
    flip_pages(path_of("part"), 3);
    struct tamis_filter *broken = open_filter(path_of("part"));
    assert_int_equal(
        tamis_filter_fold(broken, 1, path_of("mended"), NULL, &report, NULL), 0);
    assert_true(report.n_damaged > 0);
    check_whole(path_of("mended"));
    struct tamis_filter *f[] = {open_filter(path_of("whole")),
                                open_filter(path_of("mended")), broken};
    assert_int_equal(contains(f[0], f[1]), TAMIS_MAYBE);
    close_all(f, 3);
}

static void test_equal(void **state)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[0], N, 0.01),
                                built("c", keys[1], N, 0.01),
                                built("d", keys[0], N, 0.001), grown("e", keys[0], N)};
    int equal = 0;
    (void)state;
    assert_int_equal(tamis_filter_equal(f[0], f[1], &equal, NULL), 0);
    assert_int_equal(equal, 1);
    for (size_t i = 2; i < 5; i++) {
        assert_int_equal(tamis_filter_equal(f[0], f[i], &equal, NULL), 0);
        assert_int_equal(equal, 0);
    }
    close_all(f, 5);
    flip_pages(path_of("b"), 1);
    struct tamis_filter *g[] = {open_filter(path_of("a")), open_filter(path_of("b"))};
    assert_int_equal(tamis_filter_equal(g[0], g[1], &equal, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(equal, 0);
    close_all(g, 2);
}

/* ---- damage ---- */

/* In every mode, none too, which trusts the medium for its own probes only. */
static void test_damaged_sources(void **state)
{
    struct tamis_derive_report report;
    (void)state;
    for (int mode = TAMIS_CHECK_LAZY; mode <= TAMIS_CHECK_NONE; mode++) {
        struct tamis_filter_options opt = {.size = sizeof opt,
                                           .check = (enum tamis_check)mode};
        struct tamis_filter *f[2];
        build("a", keys[0], N, 0.01), build("b", keys[0], N, 0.01);
        if (mode != TAMIS_CHECK_FULL)
            flip_pages(path_of("a"), 3), flip_pages(path_of("b"), 2);
        assert_int_equal(tamis_filter_open(path_of("a"), &opt, &f[0], NULL), 0);
        assert_int_equal(tamis_filter_open(path_of("b"), &opt, &f[1], NULL), 0);
        assert_int_equal(tamis_filter_union(f, 2, path_of("u"), NULL, &report, NULL),
                         0);
        assert_int_equal(report.n_damaged > 0, mode != TAMIS_CHECK_FULL);
        assert_int_equal(
            tamis_filter_intersection(f, 2, path_of("i"), NULL, &report, NULL), 0);
        assert_int_equal(tamis_filter_fold(f[0], 2, path_of("f"), NULL, &report, NULL),
                         0);
        assert_int_equal(report.n_damaged > 0, mode != TAMIS_CHECK_FULL);
        for (const char *out = "uif"; *out; out++) {
            char name[2] = {*out, 0};
            check_whole(path_of(name));
            check_present(path_of(name), keys[0], N);
            remove(path_of(name));
        }
        close_all(f, 2);
        remove(path_of("a")), remove(path_of("b"));
    }
}

/* ---- refusals ---- */

static void refused(struct tamis_filter **f, size_t n, int code)
{
    struct tamis_diag diag;
    enum tamis_answer answer;
    const char *out = path_of("refused");
    assert_int_equal(tamis_filter_intersection(f, n, out, NULL, NULL, &diag), code);
    assert_int_equal(diag.code, code);
    assert_true(diag.what[0] != 0);
    if (n == 2)
        assert_int_equal(tamis_filter_contains(f[0], f[1], &answer, NULL), code);
    assert_false(exists(out));
}

static void test_refusals(void **state)
{
    struct tamis_domain before = domain;
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    struct tamis_filter *shape = built("shape", keys[0], N, 0.0001);
    struct tamis_filter *size = built("size", keys[0], N * 9 / 10, 0.01);
    struct tamis_filter *stages = grown("stages", keys[0], N);
    tamis_domain_init(&domain, 1, 43);
    struct tamis_filter *seed = built("seed", keys[0], N, 0.01);
    domain = before;
    (void)state;
    struct tamis_writer *w = create_writer(path_of("open"), 0.01, 2, 1000);
    struct tamis_filter *open = open_filter(path_of("open"));
    refused((struct tamis_filter *[]){a, shape}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){a, size}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){a, stages}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){stages, stages}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){a, seed}, 2, TAMIS_ERR_MISMATCH);
    refused((struct tamis_filter *[]){open}, 1, TAMIS_ERR_UNFIT);
    refused(NULL, 0, TAMIS_ERR_RANGE);
    refused((struct tamis_filter *[]){a, NULL}, 2, TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_fold(a, 0, path_of("x"), NULL, NULL, NULL),
                     TAMIS_ERR_UNFIT);
    for (size_t i = 0; i < 4; i++) {
        static const double bad[] = {0, -1, 0.6, NAN};
        assert_int_equal(tamis_filter_shrink(a, bad[i], path_of("x"), NULL, NULL, NULL),
                         TAMIS_ERR_RANGE);
    }
    assert_int_equal(tamis_filter_shrink(a, 1e-6, path_of("x"), NULL, NULL, NULL),
                     TAMIS_ERR_UNFIT);
    /* What is there already stays as it is. */
    file_write(path_of("there"), "x", 1);
    assert_int_equal(tamis_filter_union(&a, 1, path_of("there"), NULL, NULL, NULL),
                     TAMIS_ERR_EXISTS);
    size_t n;
    uint8_t *bytes = file_read(path_of("there"), &n);
    assert_int_equal(n, 1);
    free(bytes);
    struct tamis_filter *all[] = {a, shape, size, stages, seed, open};
    close_all(all, 6);
    tamis_writer_close(w);
}

/* A disk that fails leaves no file, nor a part of one. */
static void test_failing_disk(void **state)
{
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    size_t before = count_files(test_dir);
    (void)state;
    for (unsigned long nth = 1; nth <= 3; nth++) {
        fail_once(CALL_PWRITE, nth, EIO);
        assert_int_equal(tamis_filter_union(&a, 1, path_of("u"), NULL, NULL, NULL),
                         EIO);
        assert_int_equal(count_files(test_dir), before);
    }
    fail_once(CALL_FSYNC, 1, ENOSPC);
    assert_int_equal(tamis_filter_union(&a, 1, path_of("u"), NULL, NULL, NULL), ENOSPC);
    fail_never();
    fail_once(CALL_RENAME, 1, EACCES);
    assert_int_equal(tamis_filter_union(&a, 1, path_of("u"), NULL, NULL, NULL), EACCES);
    assert_int_equal(count_files(test_dir), before);
    tamis_filter_close(a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

static int set_up_faults(void **state)
{
    return set_up(state) || faults_on(state);
}

static int tear_down_faults(void **state)
{
    return faults_off(state) || test_dir_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_union_of_one_geometry),
        TEST(test_union_of_sizes),
        TEST(test_union_of_a_smaller_one),
        TEST(test_union_of_grown),
        TEST(test_union_of_many),
        TEST(test_fold),
        TEST(test_shrink),
        TEST(test_shrink_grown),
        TEST(test_intersection),
        TEST(test_intersection_of_sizes),
        TEST(test_contains),
        TEST(test_contains_one_key),
        TEST(test_contains_of_damaged),
        TEST(test_contains_of_mended),
        TEST(test_equal),
        TEST(test_damaged_sources),
        TEST(test_refusals),
        cmocka_unit_test_setup_teardown(test_failing_disk, set_up_faults,
                                        tear_down_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
