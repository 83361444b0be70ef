/* The table of kinds (lib/filter/kind.h): each kind that the format lets pass has a
 * whole row, every other is refused at open, and a filter is asked by its row alone. */
#include "tests/support/algebra_support.h"
#include "lib/filter/view.h"

enum { N_KEYS = 500 };

static struct tamis_filter *some_filter(void)
{
    unlink(path_of("some"));
    return built("some", keys[0], N_KEYS, 0.01);
}

static void test_each_known_kind_has_a_whole_row(void **state)
{
    (void)state;
    unsigned n = 0;
    for (uint32_t number = 0; number <= UINT16_MAX; number++) {
        const struct filter_kind *k = kind_find((uint16_t)number);
        assert_int_equal(k != NULL, kind_known((uint16_t)number));
        if (!k)
            continue;
        n++;
        assert_int_equal(k->number, number);
        assert_true(k->name && k->name[0]);
        assert_true(k->memory && k->map && k->probe && k->probe_many && k->prefetch);
        assert_true(k->stage_info && k->over_target);
    }
    assert_int_equal(n, 4);
    assert_ptr_equal(kind_find(KIND_BLOOM), &kind_bloom);
}

static void test_unknown_kinds_are_refused(void **state)
{
    (void)state;
    const uint16_t unknown[] = {0, 4, 6, 9, 256, UINT16_MAX};
    tamis_filter_close(some_filter());
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct identity id = identity_of(path_of("some"));
        struct tamis_diag diag;
        struct tamis_filter *f;
        id.kind = unknown[i];
        file_copy(path_of("some"), path_of("other"));
        put_identity(path_of("other"), &id);
        int err = tamis_filter_open(path_of("other"), NULL, &f, &diag);
        assert_int_equal(err, TAMIS_ERR_VERSION);
        assert_null(f);
        assert_string_equal(diag.what, "kind: kind, layout, hash or growth rule this "
                                       "tamis does not know");
        assert_int_equal(diag.offset, offsetof(struct identity_disk, kind));
        assert_int_equal(reason_of_error(err), TAMIS_UNREADABLE);
    }
}

/* ---- a kind that is made up ---- */

static unsigned n_prefetched;

static enum tamis_reason probe_damaged(struct view *v, const struct kernel *k,
                                       uint64_t h)
{
    (void)v, (void)k, (void)h;
    return TAMIS_DAMAGED;
}

static size_t probe_none(struct view *v, const struct kernel *k, const uint64_t *hashes,
                         size_t n, uint64_t *absent)
{
    (void)v, (void)k, (void)hashes, (void)n, (void)absent;
    return 0;
}

static void prefetch_counted(const struct view *v, uint64_t h)
{
    (void)v, (void)h;
    n_prefetched++;
}

static void explain_damaged(struct stage *s, const struct kernel *k, uint64_t begin,
                            uint64_t h, struct tamis_stage_answer *out)
{
    (void)s, (void)k, (void)h;
    *out = (struct tamis_stage_answer){TAMIS_DAMAGED, 0, begin};
}

static struct filter_kind made_up(void)
{
    struct filter_kind k = kind_bloom;
    k.name = "made-up";
    k.algebra = 0;
    k.planes = false;
    k.probe = probe_damaged;
    k.probe_many = probe_none;
    k.prefetch = prefetch_counted;
    k.explain = explain_damaged;
    return k;
}

/* As open_fd() takes a row on. */
static void become(struct tamis_filter *f, const struct filter_kind *k)
{
    f->kind = k;
    f->probe = k->probe;
    f->probe_many = k->probe_many;
    f->prefetch = k->prefetch;
}

static void test_the_row_of_its_kind_is_taken(void **state)
{
    (void)state;
    struct tamis_filter *f = some_filter();
    assert_ptr_equal(f->kind, &kind_bloom);
    assert_ptr_equal(f->probe, kind_bloom.probe);
    assert_ptr_equal(f->probe_many, kind_bloom.probe_many);
    assert_ptr_equal(f->prefetch, kind_bloom.prefetch);
    tamis_filter_close(f);
}

/* Not even with all pages good is there a way past its row. */
static void test_a_kind_without_planes_is_never_asked_by_one(void **state)
{
    (void)state;
    const struct filter_kind k = made_up();
    struct tamis_filter *f = some_filter();
    struct header h;
    struct view *v, *first = atomic_load(&f->view);
    struct plane plane;
    int fd = open(path_of("some"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    become(f, &k);
    assert_int_equal(header_load(fd, true, 0, 0, "some", &h, NULL), 0);
    assert_int_equal(view_create(f, fd, &h, &v), 0);
    view_made(f, v);
    close(fd);
    v->older = first; /* close() frees it, too */
    atomic_store(&f->view, v);

    assert_int_equal(tamis_filter_verify(f, &(struct tamis_verify){0}, NULL), 0);
    assert_true(stage_all_good(&v->stages[0]));
    assert_false(filter_plane(f, f->tag, 0, &plane));
    for (uint64_t i = 0; i < 100; i++) {
        enum tamis_reason why;
        uint64_t hash = random_u64(), absent;
        assert_int_equal(ask(f, hash, &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_DAMAGED);
        assert_int_equal(tamis_filter_probe_batch(f, f->tag, &hash, 1, &absent, &why),
                         0);
        struct tamis_key key = tamis_key_of_hash(f->tag, hash);
        struct tamis_explanation e;
        assert_int_equal(tamis_filter_explain(f, &key, &e), TAMIS_MAYBE);
        assert_int_equal(e.stages[0].reason, TAMIS_DAMAGED);
        filter_prefetch(f, hash);
    }
    assert_int_equal(n_prefetched, 100);
    tamis_filter_close(f);
}

static void check_unfit(int err, const struct tamis_diag *diag, const char *what)
{
    char expected[200];
    snprintf(
        expected, sizeof expected,
        "a filter of kind made-up allows no %s: build a Bloom filter from its keys",
        what);
    assert_int_equal(err, TAMIS_ERR_UNFIT);
    assert_string_equal(diag->what, expected);
    assert_false(exists(path_of("made")));
}

static void test_algebra_that_a_kind_lacks_is_refused(void **state)
{
    (void)state;
    const struct filter_kind k = made_up();
    struct tamis_diag d;
    enum tamis_answer answer;
    struct tamis_comparison comparison;
    struct tamis_estimate estimate;
    int equal;
    struct tamis_filter *two[] = {built("one", keys[0], N_KEYS, 0.01),
                                  built("two", keys[0], N_KEYS, 0.01)};
    become(two[1], &k);
    const char *made = path_of("made");
    check_unfit(tamis_filter_derive(
                    two, 2, &(struct tamis_derivation){.operation = TAMIS_UNION}, made,
                    NULL, NULL, &d),
                &d, "union");
    check_unfit(tamis_filter_derive(
                    two, 2, &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                    made, NULL, NULL, &d),
                &d, "intersection");
    check_unfit(tamis_filter_derive(
                    &two[1], 1,
                    &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1},
                    made, NULL, NULL, &d),
                &d, "fold");
    check_unfit(tamis_filter_derive(
                    &two[1], 1,
                    &(struct tamis_derivation){.operation = TAMIS_SHRINK, .error = 0.1},
                    made, NULL, NULL, &d),
                &d, "fold");
    check_unfit(tamis_filter_contains(two[0], two[1], &answer, &d), &d, "comparison");
    assert_int_equal(answer, TAMIS_MAYBE);
    check_unfit(tamis_filter_equal(two[0], two[1], &equal, &d), &d, "comparison");
    assert_int_equal(equal, 0);
    check_unfit(tamis_filter_compare(two[0], two[1], &comparison, &d), &d,
                "comparison");
    check_unfit(tamis_filter_estimate(two[1], &estimate, &d), &d, "estimate");
    check_unfit(tamis_filter_estimate_stage(two[1], 0, &estimate, &d), &d, "estimate");
    close_all(two, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_known_kind_has_a_whole_row),
        cmocka_unit_test(test_unknown_kinds_are_refused),
        cmocka_unit_test(test_the_row_of_its_kind_is_taken),
        cmocka_unit_test(test_a_kind_without_planes_is_never_asked_by_one),
        cmocka_unit_test(test_algebra_that_a_kind_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
