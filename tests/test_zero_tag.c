/* The tag of a domain is never 0. No domain is known whose hash is, so format/hash.h is
 * compiled here over a hash that is 0 when it is told to. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <xxhash.h>

static XXH64_hash_t told;

static XXH64_hash_t told_hash(const void *bytes, size_t n)
{
    return told ? XXH3_64bits(bytes, n) : 0;
}
#define XXH3_64bits(bytes, n) told_hash(bytes, n)
#include "format/hash.h"

static void test_no_tag_is_zero(void **state)
{
    (void)state;
    told = 1;
    uint64_t tag = hash_domain_tag(HASH_XXH3_64, 7);
    assert_true(tag > 1);
    assert_int_equal(tag, hash_domain_tag(HASH_XXH3_64, 7));
    assert_int_not_equal(tag, hash_domain_tag(HASH_XXH3_64, 8));
    told = 0;
    assert_int_equal(hash_domain_tag(HASH_XXH3_64, 7), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_tag_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
