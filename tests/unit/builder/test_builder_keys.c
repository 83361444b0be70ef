/* A builder's counts, refusals and notes about keys: batches, options, key ranges. */
#include "tests/unit/builder/builder_support.h"

#include <math.h>

/* ---- the same bits whatever the way ---- */

static void test_hashes_alone_in_a_batch(void **state)
{
    struct tamis_key batch[] = {tamis_key_of(&domain, "k", 1),
                                tamis_key_of_hash(domain.tag, keys[0]),
                                tamis_key_of_hash(domain.tag + 1, keys[1])};
    struct tamis_builder *b = new_builder(1e-8, 0);
    (void)state;
    /* Taken for the empty key it would be lost. */
    assert_int_equal(tamis_builder_add_keys(b, batch, 2), 0);
    assert_int_equal(tamis_builder_n_keys(b), 2);
    assert_false(builder_range(b)->known);
    assert_int_equal(tamis_builder_add_keys(b, batch, 3), TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_builder_n_keys(b), 2);
    batch[2] = (struct tamis_key){0}; /* nobody's hash, and not the empty key */
    assert_int_equal(tamis_builder_add_keys(b, batch + 2, 1), TAMIS_ERR_MISMATCH);
    batch[2] = tamis_key_of(&domain, NULL, 0);
    assert_int_equal(tamis_builder_add_keys(b, batch + 2, 1), 0);
    finish(b, path_of("alone"));
    struct tamis_filter *f = open_filter(path_of("alone"));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tamis_filter_probe(f, &batch[i], NULL), TAMIS_MAYBE);
    tamis_filter_close(f);
}

/* ---- what it counts and refuses ---- */

static void test_foreign_hashes_are_refused(void **state)
{
    struct tamis_domain other;
    struct tamis_builder *b = new_builder(0.01, 0);
    (void)state;
    tamis_domain_init(&other, 1, 0x5eee);
    assert_int_equal(tamis_builder_add_hashes(b, other.tag, keys, 10),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_builder_add_hashes(b, 0, keys, 10), TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, NULL, 10),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, NULL, 0), 0);
    assert_int_equal(tamis_builder_n_keys(b), 0);
    /* Refused, not failed. */
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 10), 0);
    assert_int_equal(tamis_builder_n_keys(b), 10);
    tamis_builder_free(b);
}

static void test_duplicates_in_a_run_count_once(void **state)
{
    struct tamis_builder *b = new_builder(0.01, 0);
    const uint64_t mixed[] = {7, 7, 8, 7};
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(tamis_builder_add_key(b, "same", 4), 0);
    assert_int_equal(tamis_builder_n_keys(b), 1);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, mixed, 4), 0);
    assert_int_equal(tamis_builder_n_keys(b), 4); /* same, 7, 8, 7 */
    tamis_builder_free(b);
    /* A hash of 0 as the first is not taken for a repetition. */
    b = new_builder(0.01, 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, &(uint64_t){0}, 1), 0);
    assert_int_equal(tamis_builder_n_keys(b), 1);
    tamis_builder_free(b);
}

static void test_options_are_checked(void **state)
{
    static const double bad_errors[] = {-0.01, 9.9e-9, 0.5000001, 1, NAN, INFINITY};
    static const char name[300] = "a name with a NUL in it";
    const struct tamis_builder_options good = {.size = sizeof good};
    struct tamis_domain odd = {.hash_id = 1, .seed = 5, .tag = 1};
    struct tamis_builder *b;
    struct tamis_diag diag;
    (void)state;
    struct tamis_builder_options bad[20];
    size_t n = 0;
    for (size_t i = 0; i < sizeof bad_errors / sizeof bad_errors[0]; i++)
        bad[n] = good, bad[n++].error = bad_errors[i];
    bad[n] = good, bad[n].identity.name = "", bad[n++].identity.name_bytes = 0;
    bad[n] = good, bad[n].identity.name = name, bad[n++].identity.name_bytes = 256;
    bad[n] = good, bad[n].identity.name = name, bad[n++].identity.name_bytes = 24;
    bad[n] = good, bad[n].identity.binding = name, bad[n++].identity.binding_bytes = 65;
    bad[n] = good, bad[n++].domain = &odd;
    bad[n] = good, bad[n++].size = 0;
    bad[n] = good, bad[n++].size = 3;
    for (size_t i = 0; i < n; i++) {
        b = (void *)1;
        assert_int_equal(tamis_builder_create(&bad[i], &b, &diag), TAMIS_ERR_RANGE);
        assert_null(b);
        assert_int_equal(diag.code, TAMIS_ERR_RANGE);
        assert_true(strlen(diag.what) > 10);
    }
    const double edges[] = {1e-8, 0.5};
    for (size_t i = 0; i < 2; i++) {
        struct tamis_builder_options edge = {.size = sizeof edge, .error = edges[i]};
        assert_int_equal(tamis_builder_create(&edge, &b, NULL), 0);
        tamis_builder_free(b);
    }
}

static void test_option_structs_of_another_size(void **state)
{
    struct {
        struct tamis_builder_options known;
        uint64_t newer;
    } opt = {.known = {.size = sizeof opt}};
    struct tamis_builder *b;
    (void)state;
    assert_int_equal(tamis_builder_create(&opt.known, &b, NULL), 0);
    tamis_builder_free(b);
    opt.newer = 1; /* asks for something that this library does not know */
    assert_int_equal(tamis_builder_create(&opt.known, &b, NULL), TAMIS_ERR_RANGE);
    /* An older caller knew size, domain and error only: the rest is not looked at. */
    opt.known = (struct tamis_builder_options){
        .size = offsetof(struct tamis_builder_options, identity),
        .error = 0.25,
        .identity.name = "",
    };
    assert_int_equal(tamis_builder_create(&opt.known, &b, NULL), 0);
    tamis_builder_free(b);
    assert_int_equal(tamis_builder_create(NULL, &b, NULL), 0);
    tamis_builder_free(b);
}

/* ---- key ranges ---- */

static void expect_range(struct tamis_builder *b, const void *first, size_t n_first,
                         const void *last, size_t n_last)
{
    const struct key_range *r = builder_range(b);
    assert_true(r->known);
    assert_int_equal(r->first_bytes, n_first);
    assert_int_equal(r->last_bytes, n_last);
    assert_memory_equal(r->first, first, n_first);
    assert_memory_equal(r->last, last, n_last);
}

static int compare_keys(const struct tamis_key *a, const struct tamis_key *b)
{
    size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int order = memcmp(a->bytes, b->bytes, n);
    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

static void test_key_range(void **state)
{
    struct tamis_builder *b = new_builder(0.01, 0);
    (void)state;
    assert_int_equal(tamis_builder_add_key(b, "m", 1), 0);
    expect_range(b, "m", 1, "m", 1);
    /* Bytes are unsigned, and a prefix comes before what it starts. */
    assert_int_equal(tamis_builder_add_key(b, "m\0", 2), 0);
    expect_range(b, "m", 1, "m\0", 2);
    assert_int_equal(tamis_builder_add_key(b, "\xff", 1), 0);
    assert_int_equal(tamis_builder_add_key(b, "ab", 2), 0);
    assert_int_equal(tamis_builder_add_key(b, "a", 1), 0);
    assert_int_equal(tamis_builder_add_key(b, "\x80", 1), 0);
    expect_range(b, "a", 1, "\xff", 1);
    assert_int_equal(tamis_builder_add_key(b, NULL, 0), 0);
    expect_range(b, "", 0, "\xff", 1);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 0), 0);
    assert_true(builder_range(b)->known); /* no hash was added */
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, 1), 0);
    assert_false(builder_range(b)->known);
    assert_int_equal(tamis_builder_add_key(b, "zz", 2), 0);
    assert_false(builder_range(b)->known); /* once unknown, for ever */
    tamis_builder_free(b);
}

/* Against a plain search, in batches, of keys that are alike: few letters, NULs, and
 * common beginnings of more than the eight bytes that are compared first. */
static void test_key_range_of_many(void **state)
{
    static uint8_t bytes[600][16];
    static struct tamis_key batch[600];
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct tamis_builder *b = new_builder(0.01, 0);
        struct tamis_key low = {0}, high = {0};
        size_t n = 1 + (size_t)random_below(600), same = (size_t)random_below(13);
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < 16; k++)
                bytes[i][k] =
                    k < same ? (uint8_t)0x78 : (uint8_t)(random_below(3) * 127);
            batch[i] = (struct tamis_key){bytes[i], random_below(17), 0, 0};
            if (i == 0 || compare_keys(&batch[i], &low) < 0)
                low = batch[i];
            if (i == 0 || compare_keys(&batch[i], &high) > 0)
                high = batch[i];
        }
        for (size_t done = 0, some; done < n; done += some) {
            some = 1 + (size_t)random_below(n - done);
            assert_int_equal(tamis_builder_add_keys(b, batch + done, some), 0);
        }
        expect_range(b, low.bytes, low.n_bytes, high.bytes, high.n_bytes);
        tamis_builder_free(b);
    }
}

static void test_key_range_of_long_keys(void **state)
{
    struct tamis_builder *b = new_builder(0.01, 0);
    static uint8_t longest[1024], too_long[1025];
    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(too_long, 'a', sizeof too_long);
    assert_int_equal(tamis_builder_add_key(b, longest, sizeof longest), 0);
    expect_range(b, longest, 1024, longest, 1024);
    /* A first key may be cut: what is left of it still comes before all keys. */
    assert_int_equal(tamis_builder_add_key(b, too_long, sizeof too_long), 0);
    expect_range(b, too_long, 1024, longest, 1024);
    /* A last key may not: a key between the cut one and the whole would be lost. */
    memset(too_long, 'y', sizeof too_long);
    assert_int_equal(tamis_builder_add_key(b, too_long, sizeof too_long), 0);
    assert_false(builder_range(b)->known);
    tamis_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hashes_alone_in_a_batch),
        cmocka_unit_test(test_foreign_hashes_are_refused),
        cmocka_unit_test(test_duplicates_in_a_run_count_once),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_option_structs_of_another_size),
        cmocka_unit_test(test_key_range),
        cmocka_unit_test(test_key_range_of_many),
        cmocka_unit_test(test_key_range_of_long_keys),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
