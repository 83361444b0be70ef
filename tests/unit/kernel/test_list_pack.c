/* Pages of lists made fast, compared byte by byte with those of the reference. */
#include "tests/support/support.h"
#include "lib/sort/sort.h"

enum { MOST = 4000 };

static uint64_t values[MOST];

static size_t rising(size_t n)
{
    size_t kept = n > 0;
    sort_hashes(values, n);
    for (size_t i = 1; i < n; i++)
        if (values[i] != values[kept - 1])
            values[kept++] = values[i];
    return kept;
}

/* By each kernel. The pages that are filled had other bytes before. */
static void expect_same(size_t n)
{
    uint8_t wanted[PAGE_BYTES], page[PAGE_BYTES];
    const struct kernel *each;
    memset(wanted, 0xaa, sizeof wanted);
    size_t n_wanted = list_page_fill(values, n, wanted);
    for (size_t i = 0; (each = kernel_at(i)); i++) {
        memset(page, 0x55, sizeof page);
        IS(kernel_list(each)->encode(values, n, page), n_wanted);
        assert_memory_equal(page, wanted, sizeof page);
    }
}

/* Random values; some gaps are wide beside the others, and many are narrow. */
TEST(test_random_and_odd)
{
    unsigned n_rounds = by_form(3000, 60000);
    for (unsigned round = 0; round < n_rounds; round++) {
        size_t n = random_below(MOST) + 1;
        uint64_t shift = random_below(56), odd = 1 + random_below(4000);
        for (size_t i = 0; i < n; i++) {
            values[i] = random_u64() >> shift;
            if (random_below(odd) == 0)
                values[i] = random_u64();
            if (round % 3 == 1)
                values[i] = (values[i] & ~UINT64_C(255)) | (random_u64() & 3);
        }
        expect_same(rising(n));
    }
}

/* Gaps of the same width, of which a few have as many zeros as a word holds: eight
 * values have more bits of unary than a word has. */
TEST(test_many_zeros)
{
    for (unsigned round = 0; round < by_form(3000, 60000); round++) {
        size_t n = 257 + random_below(MOST - 257);
        unsigned bits = 8 + (unsigned)random_below(43);
        uint64_t most = 1 + random_below(70), value = random_u64() >> 1;
        for (size_t i = 0; i < n; i++) {
            uint64_t zeros = random_below(30) ? random_below(3) : random_below(most);
            value += (zeros << bits) + random_below(UINT64_C(1) << bits) + 1;
            values[i] = value;
        }
        expect_same(rising(n));
    }
}

/* A gap at each place behind the last whole group: its zeros may fit 32 bits by their
 * low part alone. */
TEST(test_a_wide_gap_in_the_tail)
{
    for (size_t n = 513; n <= 640; n += 127)
        for (size_t at = n - 64; at < n; at++)
            for (unsigned bit = 30; bit < 63; bit++) {
                for (size_t i = 0; i < n; i++)
                    values[i] = 5 + 1000 * i + (i >= at ? UINT64_C(1) << bit : 0);
                expect_same(n);
            }
}

/* From none to a few more than a page of narrow gaps holds. */
TEST(test_counts)
{
    for (size_t n = 0; n < MOST; n += 1 + n / 50) {
        for (size_t i = 0; i < n; i++)
            values[i] = i * 200 + random_below(200);
        expect_same(n);
        for (size_t i = 0; i < n; i++)
            values[i] = i << 52 | random_below(UINT64_C(1) << 52);
        expect_same(n);
    }
}

/* By each kernel: one value that is not above the one before, at each place. */
TEST(test_rise)
{
    const struct kernel *each;
    for (size_t k = 0; (each = kernel_at(k)); k++)
        for (size_t n = 0; n < 20; n++) {
            bool (*rise)(const uint64_t *, size_t) = kernel_list(each)->rise;
            for (size_t i = 0; i < n; i++)
                values[i] = (i << 59) + i + 1; /* some would be negative */
            assert_true(rise(values, n));
            for (size_t at = 1; at < n; at++) {
                uint64_t was = values[at];
                values[at] = values[at - 1];
                assert_false(rise(values, n));
                values[at]--;
                assert_false(rise(values, n));
                values[at] = was;
            }
        }
}

RUN_TESTS(NULL, NULL)
