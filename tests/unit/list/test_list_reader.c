/* A reader of lists written from SPEC.md section 18 alone, bit by bit: it shares no
 * code with format/list.c. It reads the library's lists, and the example. */
#include "tests/support/list_support.h"

enum { N = 20000 };
static uint64_t values[N], read_back[N];

/* Bits of a string fill bytes from the lowest bit on. */
static unsigned bit(const uint8_t *bytes, size_t i)
{
    return bytes[i / 8] >> i % 8 & 1;
}

static uint64_t number_at(const uint8_t *bytes, unsigned n_bytes)
{
    uint64_t n = 0;
    while (n_bytes--)
        n = n << 8 | bytes[n_bytes];
    return n;
}

/* The values of a page by section 18.1; returns how many. */
static size_t read_page(const uint8_t *page, uint64_t *v)
{
    size_t n = number_at(page + 8, 2);
    unsigned g = page[10], t = g < 16 ? 1 : 2;
    if (n == 0)
        return 0;
    size_t m = n - 1, groups = (m + 63) / 64;
    const uint8_t *rests = page + 11 + (m ? groups - 1 : 0);
    const uint8_t *unary = rests + (m * (g - 8 * t) + 7) / 8;
    size_t n_bits = (size_t)(page + 4096 - t * m - unary) * 8, at = 0;
    v[0] = number_at(page, 8);
    for (size_t i = 1; i <= m; i++) {
        uint64_t z = 0, low = number_at(page + 4096 - t * i, t);
        for (unsigned b = g - 8 * t; b-- > 0;)
            low = low << 1 | bit(rests, (i - 1) * (g - 8 * t) + b);
        for (; !bit(unary, at); at++, z++)
            assert_true(at < n_bits);
        at++;
        uint64_t before = v[i - 1] & ((UINT64_C(1) << g) - 1);
        v[i] = ((v[i - 1] >> g) + z + (low <= before)) << g | low;
    }
    assert_true(at <= n_bits);
    unsigned s = 0;
    while (n_bits >> s >= 256)
        s++;
    for (size_t k = 1; k < groups; k++)
        IS(page[11 + k - 1], ((v[64 * k] >> g) - (v[0] >> g)) >> s);
    return n;
}

TEST(lists_are_read_from_the_text)
{
    static const uint32_t bits[] = {64, 33, 26, 20};
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (size_t b = 0; b < 4; b++) {
            size_t n = make_values((enum shape)shape, values, N, bits[b]), n_bytes;
            write_list("list", values, n, bits[b]);
            FREED uint8_t *file = file_read(path_of("list"), &n_bytes);
            const uint8_t *first = file + 2048 + 248, *second = first + 128;
            IS(number_at(file + 72, 2), 5);
            IS(number_at(first + 64, 2), 5);
            IS(number_at(first + 80, 8), n);
            IS(first[88], bits[b]);
            IS(number_at(second + 64, 2), 6);
            IS(number_at(second + 92, 2), 4);
            const uint8_t *pages = file + number_at(first, 8);
            const uint8_t *table = file + number_at(second, 8);
            size_t n_pages = number_at(first + 8, 8) / 4096, n_read = 0;
            IS(number_at(second + 88, 4), n_pages);
            for (size_t p = 0; p < n_pages; p++) {
                IS(number_at(pages + p * 4096, 8), number_at(table + p * 8, 8));
                n_read += read_page(pages + p * 4096, read_back + n_read);
            }
            IS(n_read, n);
            assert_memory_equal(read_back, values, n * sizeof values[0]);
        }
}

RUN_TESTS(test_dir_create, test_dir_remove)
