/* Inline code of format's headers: the words of verdicts, and tags of domains, which
 * are never 0. No domain is known whose hash is 0, so the hash here is 0 when told. */
#include "tests/support/unit/unit.h"
#include <xxhash.h>

static XXH64_hash_t told;

static XXH64_hash_t told_hash(const void *bytes, size_t n)
{
    return told ? XXH3_64bits(bytes, n) : 0;
}
#define XXH3_64bits(bytes, n) told_hash(bytes, n)
#include "format/hash.h"
#include "format/verdict.h"

TEST(test_no_tag_is_zero)
{
    told = 1;
    uint64_t tag = hash_domain_tag(HASH_XXH3_64, 7);
    assert_true(tag > 1);
    IS(tag, hash_domain_tag(HASH_XXH3_64, 7));
    assert_int_not_equal(tag, hash_domain_tag(HASH_XXH3_64, 8));
    told = 0;
    IS(hash_domain_tag(HASH_XXH3_64, 7), 1);
}

TEST(test_every_verdict_has_words)
{
    for (int i = VERDICT_OK; i <= VERDICT_KIND; i++)
        for (int j = VERDICT_OK; j < i; j++)
            assert_string_not_equal(verdict_text((enum verdict_code)i),
                                    verdict_text((enum verdict_code)j));
    assert_string_equal(verdict_text(VERDICT_OK), "good");
    assert_string_equal(verdict_text((enum verdict_code)(VERDICT_KIND + 1)),
                        "unknown verdict");
}

RUN_TESTS(NULL, NULL)
