/* format/list.h and lib/kernel/list: pages hold values of every shape, all kernels
 * equal the reference, and invalid pages are refused (SPEC.md section 18). */
#include "tests/unit/format/list_reference.h"
#include "tests/support/list_support.h"

enum { N = 9000 };

static uint64_t values[N], decoded[LIST_PAGE_MAX_HASHES];
static uint64_t fast[LIST_PAGE_MAX_HASHES], others[LIST_PAGE_MAX_HASHES];
static uint8_t page[PAGE_BYTES];

static size_t n_absent, n_unsure;

/* Each kernel finds the values of the page and no others. Its quick probe, in one step
 * or two, calls none of them absent, and leaves the same ones open as the others'. */
static void check_kernels(const struct list_page *p, uint64_t value, bool has)
{
    const struct kernel *each;
    bool first = false;
    for (size_t i = 0; (each = kernel_at(i)); i++) {
        const struct list_kernel *k = kernel_list(each);
        struct list_spot s;
        bool lacks = k->lacks(page, p->first, value);
        if (k->find(page, p, value) != has)
            fail_msg("value %llx is %s in the page", (unsigned long long)value,
                     has ? "" : "not");
        assert_false(has && lacks);
        IS(lacks, k->spot(page, p->first, value, &s) && k->spot_lacks(page, &s));
        assert_true(i == 0 || lacks == first);
        first = lacks;
    }
    n_absent += !has;
    n_unsure += !has && !first;
}

static void check_find(const struct list_page *p, uint64_t value)
{
    check_kernels(p, value, has_value(decoded, p->n, value));
}

/* Values of the page; and of some, at all places in a group, their neighbours and
 * values with a bit changed. */
static void check_page(const struct list_page *p, uint32_t hash_bits)
{
    for (uint32_t i = 0; i < p->n; i++) {
        check_find(p, decoded[i]);
        if (i % by_form(7, 3) != 0)
            continue;
        check_find(p, decoded[i] + 1);
        check_find(p, decoded[i] - 1);
        check_find(p, decoded[i] ^ UINT64_C(1) << random_below(hash_bits));
        check_find(p, decoded[i] + (UINT64_C(1) << p->gap_bits));
    }
    check_find(p, 0);
    check_find(p, UINT64_MAX);
}

/* The values of the page to `fast`, by each kernel, and all agree. */
static bool fast_values(uint32_t hash_bits, const struct list_page *p)
{
    const struct kernel *each;
    bool first = false;
    for (size_t i = 0; (each = kernel_at(i)); i++) {
        memset(fast, 0, sizeof fast);
        bool fits = kernel_list(each)->values(page, hash_bits, p, fast);
        assert_true(i == 0 || fits == first);
        if (fits && i > 0)
            assert_memory_equal(fast, others, p->n * sizeof fast[0]);
        memcpy(others, fast, sizeof others);
        first = fits;
    }
    return first;
}

static void check_shape(enum shape shape, uint32_t hash_bits)
{
    size_t n = make_values(shape, values, by_form(4000, N), hash_bits);
    for (size_t done = 0, some; done < n; done += some) {
        struct list_page p, q;
        some = list_page_fill(values + done, n - done, page);
        assert_true(some >= 1 && some <= LIST_PAGE_MAX_HASHES);
        assert_true(list_page_decode(page, hash_bits, &p, decoded));
        IS(p.n, some);
        assert_memory_equal(decoded, values + done, some * sizeof decoded[0]);
        assert_true(list_page_open(page, hash_bits, &q));
        /* Without the padding at the end. */
        assert_memory_equal(&p, &q, offsetof(struct list_page, unary_bits) + 4);
        assert_true(fast_values(hash_bits, &q));
        assert_memory_equal(fast, decoded, some * sizeof fast[0]);
        check_page(&p, hash_bits);
    }
}

TEST(pages_hold_values_of_every_shape)
{
    static const uint32_t bits[] = {1, 7, 9, 17, 25, 28, 29, 30, 33, 40, 63, 64};
    for (size_t i = 0; i < N_OF(bits); i++)
        for (int s = 0; s < N_SHAPES; s++)
            check_shape((enum shape)s, bits[i]);
}

/* The quick probe leaves few of the random values open that are absent. */
TEST(few_absent_values_are_left_open)
{
    n_absent = n_unsure = 0;
    size_t n = make_values(EVEN, values, N, 64);
    struct list_page p;
    list_page_fill(values, n, page);
    assert_true(list_page_decode(page, 64, &p, decoded));
    for (int i = 0; i < 100000; i++)
        check_find(&p, p.first + random_u64() % (decoded[p.n - 1] - p.first));
    assert_true(n_unsure < n_absent / 100);
}

/* One, two and as many values as groups end with, at the ends of the range. */
TEST(few_values)
{
    static const uint64_t ends[] = {0, 1, UINT64_MAX - 1, UINT64_MAX};
    memcpy(values, ends, sizeof ends);
    for (size_t n = 1; n <= 4; n++) {
        struct list_page p;
        size_t some = list_page_fill(values, n, page);
        assert_true(list_page_decode(page, 64, &p, decoded));
        IS(p.n, some);
        assert_memory_equal(decoded, ends, some * sizeof ends[0]);
    }
    for (size_t n = 1; n < 260; n++) {
        struct list_page p;
        for (size_t i = 0; i < n; i++)
            values[i] = i * UINT64_C(0x1234567890) + 5;
        IS(list_page_fill(values, n, page), n);
        assert_true(list_page_decode(page, 64, &p, decoded));
        IS(p.n, n);
        IS(p.n_groups, (n + 62) / 64);
        check_page(&p, 64);
    }
}

TEST(most_values_of_a_page)
{
    struct list_page p;
    for (size_t i = 0; i < N; i++)
        values[i] = i;
    IS(list_page_fill(values, N, page), LIST_PAGE_MAX_HASHES);
    assert_true(list_page_decode(page, 64, &p, decoded));
    check_page(&p, 64);
    /* One more does not fit. */
    page[8] = (uint8_t)(LIST_PAGE_MAX_HASHES + 1);
    page[9] = (uint8_t)((LIST_PAGE_MAX_HASHES + 1) >> 8);
    assert_false(list_page_open(page, 64, &p));
}

static bool decodes(uint32_t hash_bits)
{
    struct list_page p;
    return list_page_decode(page, hash_bits, &p, decoded);
}

/* A page is changed at `at` by `with`: no longer valid. */
static void refused(size_t at, uint8_t with)
{
    assert_true(decodes(64));
    page[at] ^= with;
    assert_false(decodes(64));
    page[at] ^= with;
}

TEST(what_is_not_valid_is_refused)
{
    struct list_page p;
    size_t n = make_values(EVEN, values, 500, 64);
    IS(list_page_fill(values, n, page), n);
    assert_true(list_page_open(page, 64, &p));
    refused(8, 1);                                        /* a hash more, or less */
    refused(10, 64);                                      /* gap_bits */
    refused(LIST_HEAD_BYTES, 1);                          /* a leader */
    refused(p.unary_at, 1);                               /* a one more, or less */
    refused(PAGE_BYTES - p.top_bytes * (p.n - 1) - 1, 1); /* behind unary */
    assert_true(!list_page_open(page, 63, &p) || values[0] >> 63 == 0);
    /* The rests of 499 hashes of 47 bits end within a byte. */
    assert_true((p.n - 1) * p.rest_bits % 8 != 0);
    assert_true(list_page_open(page, 64, &p));
    refused(p.unary_at - 1, 0x80);
    /* gap_bits below 8; more values than a page has room for. */
    page[10] = 7;
    assert_false(list_page_open(page, 64, &p));
    page[10] = 63;
    assert_true(list_page_open(page, 64, &p)); /* 500 * 64 bits fit */
    page[9] = 3;
    assert_false(list_page_open(page, 64, &p));
    /* A page without values is all zero. */
    memset(page, 0, sizeof page);
    assert_true(decodes(64));
    for (size_t at = 0; at < PAGE_BYTES; at += 5)
        if (at != 8 && at != 9)
            refused(at, 1);
}

/* The last value is beyond hash_bits, or its high part beyond 64 bits. */
TEST(values_beyond_hash_bits_are_refused)
{
    struct list_page p;
    for (size_t i = 0; i < 300; i++)
        values[i] = (UINT64_C(1) << 40) - 300 * 12345 + i * 12345;
    values[299] = (UINT64_C(1) << 40) - 1;
    IS(list_page_fill(values, 300, page), 300);
    assert_true(decodes(40));
    assert_false(decodes(39));
    assert_true(list_page_open(page, 40, &p) && fast_values(40, &p));
    memset(page, 0xff, 8); /* first: the greatest there is */
    assert_false(decodes(64));
    assert_true(list_page_open(page, 64, &p));
    assert_false(fast_values(64, &p));
}

/* With any bytes in a page, nothing outside of it is read or written: for sanitizers.
 * The fast decoder and the check of the rest pass the reference's good pages. */
TEST(noise_does_no_harm)
{
    static const uint32_t bits[] = {20, 64};
    static uint8_t whole[PAGE_BYTES];
    for (unsigned round = 0; round < by_form(3000, 100000); round++) {
        uint32_t hash_bits = bits[round / 8 % 2];
        struct list_page p;
        size_t n = round % 8 ? 0 /* sorting takes longer than all the rest */
                             : make_values((enum shape)random_below(N_SHAPES), values,
                                           1500, hash_bits);
        if (n)
            list_page_fill(values, n, whole);
        memcpy(page, whole, sizeof page);
        for (uint64_t k = random_below(5) + 1; k > 0; k--)
            page[random_below(2) ? random_below(24) : random_below(PAGE_BYTES)] =
                (uint8_t)random_u64();
        bool good = list_page_decode(page, hash_bits, &p, decoded);
        if (!list_page_open(page, hash_bits, &p) || p.n == 0)
            continue;
        bool fits = fast_values(hash_bits, &p);
        IS(fits && list_page_valid(page, &p, fast), good);
        if (good)
            assert_memory_equal(fast, decoded, p.n * sizeof fast[0]);
        for (size_t k = 0; k < 20; k++) {
            uint64_t value = list_cut(random_u64(), hash_bits);
            check_kernels(&p, value, kernel_list(kernel_at(0))->find(page, &p, value));
        }
    }
}

RUN_TESTS(NULL, NULL)
