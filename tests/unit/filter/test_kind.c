/* The table of kinds (lib/filter/kind.h): each kind that the format lets pass has a
 * whole row, and a filter is asked by its row alone. */
#include "tests/support/algebra_support.h"

enum { N_KEYS = 500 };

static struct tamis_filter *some_filter(void)
{
    unlink(path_of("some"));
    return built("some", keys[0], N_KEYS, 0.01);
}

TEST(test_each_known_kind_has_a_whole_row)
{
    unsigned n = 0;
    for (uint32_t number = 0; number <= UINT16_MAX; number++) {
        const struct filter_kind *k = kind_find((uint16_t)number);
        IS(k != NULL, kind_known((uint16_t)number));
        if (!k)
            continue;
        n++;
        IS(k->number, number);
        assert_true(k->name && k->name[0]);
        assert_true(k->memory && k->map && k->probe && k->probe_many && k->prefetch);
        IS(k->over_target != NULL, number == KIND_BLOOM); /* it grows */
    }
    IS(n, 4);
    assert_ptr_equal(kind_find(KIND_BLOOM), &kind_bloom);
}

static unsigned n_prefetched;

static enum tamis_reason probe_damaged(struct view *v, const struct kernel *k,
                                       uint64_t h)
{
    return TAMIS_DAMAGED;
}

static size_t probe_none(struct view *v, const struct kernel *k, const uint64_t *hashes,
                         size_t n, uint64_t *absent)
{
    return 0;
}

static void prefetch_counted(const struct view *v, uint64_t h)
{
    n_prefetched++;
}

static void explain_damaged(struct stage *s, const struct kernel *k, uint64_t begin,
                            uint64_t h, struct tamis_stage_answer *out)
{
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

/* Not even with all pages good is there a way past its row. */
TEST(test_a_kind_without_planes_is_never_asked_by_one)
{
    const struct filter_kind k = made_up();
    struct tamis_filter *f = some_filter();
    struct header h;
    struct view *v, *first = atomic_load(&f->view);
    struct plane plane;
    FD fd = open_to_read(path_of("some"));
    become(f, &k);
    IS(header_load(fd, true, 0, 0, "some", &h, NULL), 0);
    IS(view_create(f, fd, &h, &v), 0);
    view_made(f, v);
    v->older = first; /* close() frees it, too */
    atomic_store(&f->view, v);

    OK(tamis_filter_verify(f, &(struct tamis_verify){0}, NULL));
    assert_true(stage_all_good(&v->stages[0]));
    assert_false(filter_plane(f, f->tag, 0, &plane));
    for (uint64_t i = 0; i < 100; i++) {
        enum tamis_reason why;
        uint64_t hash = random_u64(), absent;
        IS(why_of(f, hash), TAMIS_DAMAGED);
        IS(tamis_filter_probe_batch(f, f->tag, &hash, 1, &absent, &why), 0);
        struct tamis_key key = {.tag = f->tag, .hash = hash};
        struct tamis_explanation e;
        IS(tamis_filter_explain(f, &key, &e), TAMIS_MAYBE);
        IS(e.stages[0].reason, TAMIS_DAMAGED);
        filter_prefetch(f, hash);
    }
    IS(n_prefetched, 100);
}

static struct tamis_diag d;

static void check_unfit(int err, const struct tamis_diag *diag, const char *what)
{
    char expected[200];
    snprintf(
        expected, sizeof expected,
        "a filter of kind made-up allows no %s: build a Bloom filter from its keys",
        what);
    IS(err, TAMIS_ERR_UNFIT);
    assert_string_equal(diag->what, expected);
    assert_false(exists(path_of("made")));
}

TEST(test_algebra_that_a_kind_lacks_is_refused)
{
    const struct filter_kind k = made_up();
    struct tamis_comparison comparison;
    struct tamis_estimate estimate;
    int equal;
    struct tamis_filter *two[] = {built("one", keys[0], N_KEYS, 0.01),
                                  built("two", keys[0], N_KEYS, 0.01)};
    become(two[1], &k);
    const char *made = path_of("made");
    check_unfit(unite(two, 2, made), &derive_diag, "union");
    check_unfit(intersect(two, 2, made), &derive_diag, "intersection");
    check_unfit(fold(two[1], 1, made), &derive_diag, "fold");
    check_unfit(shrink(two[1], 0.1, made), &derive_diag, "fold");
    check_unfit(tamis_filter_equal(two[0], two[1], &equal, &d), &d, "comparison");
    IS(equal, 0);
    check_unfit(tamis_filter_compare(two[0], two[1], &comparison, &d), &d,
                "comparison");
    check_unfit(tamis_filter_estimate(two[1], 0, 0, &estimate, &d), &d, "estimate");
}

RUN_TESTS(set_up, tear_down)
