/* A page of a list: the kernels that ask and read it against the plain reader in
 * tests/unit/format, which decodes bit by bit and checks every rule of SPEC.md 18.2. If
 * the plain reader takes a page, all read the same values. If it refuses a page, the
 * kernels have to end, and to stay within the page.
 *
 * Input: a byte for the bits of a hash, then the page; missing bytes are zero. */
#include "fuzz/fuzz.h"
#include "tests/unit/format/list_reference.h"
#include "lib/kernel/list/list_spot.h"

/* Behind the page lies memory that a sanitizer watches. */
static uint8_t *page_of(const uint8_t *data, size_t n)
{
    uint8_t *page = calloc(1, PAGE_BYTES);
    if (!page)
        abort();
    memcpy(page, data, n < PAGE_BYTES ? n : PAGE_BYTES);
    return page;
}

static bool is_in(const uint64_t *values, size_t n, uint64_t value)
{
    size_t low = 0;
    while (n) {
        size_t half = n / 2;
        if (values[low + half] == value)
            return true;
        if (values[low + half] < value) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return false;
}

/* Each kernel says the same, and its quick probe calls no value of the page absent. */
static void check_one(const uint8_t *page, const struct list_page *p, uint64_t value,
                      bool has)
{
    const struct kernel *each;
    for (size_t i = 0; (each = kernel_at(i)); i++) {
        const struct list_kernel *k = kernel_list(each);
        MUST(k->find(page, p, value) == has);
        MUST(!(k->lacks(page, p->first, value) && has));
    }
}

/* Values, their neighbours, and values that share the low bits of one. */
static void check_found(const uint8_t *page, const struct list_page *p,
                        const uint64_t *values, uint64_t max)
{
    for (size_t i = 0; i < p->n; i++) {
        uint64_t v = values[i], step = UINT64_C(1) << p->gap_bits;
        const uint64_t asked[] = {v, v - 1, v + 1, v + step, v - step, v ^ (step << 1)};
        for (size_t k = 0; k < sizeof asked / sizeof *asked; k++)
            if (asked[k] <= max)
                check_one(page, p, asked[k], is_in(values, p->n, asked[k]));
    }
    check_one(page, p, 0, is_in(values, p->n, 0));
    check_one(page, p, max, is_in(values, p->n, max));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint64_t plain[LIST_PAGE_MAX_HASHES], fast[LIST_PAGE_MAX_HASHES];
    struct list_page p, q;
    if (n < 1)
        return 0;
    uint32_t hash_bits = data[0] % 64 + 1;
    uint8_t *page = page_of(data + 1, n - 1);
    bool valid = list_page_decode(page, hash_bits, &p, plain);
    bool opens = list_page_open(page, hash_bits, &q);
    MUST(opens || !valid);
    if (opens) {
        for (size_t i = 0; kernel_at(i); i++) {
            bool read = kernel_list(kernel_at(i))->values(page, hash_bits, &q, fast);
            MUST((read && list_page_valid(page, &q, fast)) == valid);
            MUST(!valid || (p.n == q.n && !memcmp(plain, fast, p.n * sizeof *plain)));
        }
        if (valid && p.n)
            check_found(page, &q, plain, list_max(hash_bits));
        for (uint64_t i = 0, rng = n; i < 64 && !valid; i++) {
            uint64_t value = draw(&rng) >> (64 - hash_bits);
            check_one(page, &q, value,
                      kernel_list(kernel_at(0))->find(page, &q, value));
        }
    }
    free(page);
    return 0;
}

/* Half of the mutations go to the head, whose fields say where all else lies. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    static const uint8_t hurts[] = {0, 1, 7, 8, 9, 15, 16, 17, 62, 63, 64, 127, 255};
    uint64_t rng = seed;
    if (n < 1 + sizeof(struct list_page_disk) || draw_below(&rng, 2))
        return LLVMFuzzerMutate(data, n, max);
    size_t at = draw_below(&rng, 1 + sizeof(struct list_page_disk));
    data[at] = draw_below(&rng, 2) ? hurts[draw_below(&rng, sizeof hurts)]
                                   : (uint8_t)draw(&rng);
    return n;
}
