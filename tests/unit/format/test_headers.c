/* Inline code of format's headers: the words of verdicts, and tags of domains, which
 * are never 0. No domain is known whose hash is 0, so the hash here is 0 when told. */
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
#include "format/verdict.h"

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

static void test_every_verdict_has_words(void **state)
{
    (void)state;
    for (int i = VERDICT_OK; i <= VERDICT_KIND; i++)
        for (int j = VERDICT_OK; j < i; j++)
            assert_string_not_equal(verdict_text((enum verdict_code)i),
                                    verdict_text((enum verdict_code)j));
    assert_string_equal(verdict_text(VERDICT_OK), "good");
    assert_string_equal(verdict_text((enum verdict_code)(VERDICT_KIND + 1)),
                        "unknown verdict");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_tag_is_zero),
        cmocka_unit_test(test_every_verdict_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
