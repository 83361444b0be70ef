/* Pages of a list: encode, and decode with every check of SPEC.md §18.2.
 */
#include "list.h"

_Static_assert(sizeof(struct list_page_disk) == LIST_HEAD_BYTES,
               "SPEC.md section 18.1");

#define F(member, type) FIELD(struct list_page_disk, member, type)
const struct field list_page_fields[] = {
    F(first, FIELD_HEX),
    F(n_hashes, FIELD_UINT),
    F(gap_bits, FIELD_UINT),
};
#undef F
const size_t n_list_page_fields = sizeof list_page_fields / sizeof list_page_fields[0];

/* ---- encode ---- */

/* How many hashes after the first fit with so many low bits of a gap? Whole groups
 * first, for speed: the zeros of a prefix never become fewer. */
static uint32_t measure(const uint64_t *v, uint32_t n_more, uint32_t gap_bits)
{
    uint64_t zeros = 0;
    uint32_t done = 0;
    while (n_more - done >= LIST_GROUP) {
        uint64_t more = 0;
        for (uint32_t i = done + 1; i <= done + LIST_GROUP; i++) {
            uint64_t z = (v[i] - v[i - 1] - 1) >> gap_bits;
            more += z < PAGE_BYTES * 8 ? z : PAGE_BYTES * 8;
        }
        if (!list_page_fits(done + LIST_GROUP, gap_bits, zeros + more))
            break;
        zeros += more;
        done += LIST_GROUP;
    }
    for (; done < n_more; done++) {
        uint64_t z = (v[done + 1] - v[done] - 1) >> gap_bits;
        if (z > PAGE_BYTES * 8 || !list_page_fits(done + 1, gap_bits, zeros + z))
            break;
        zeros += z;
    }
    return done;
}

/* The best of the three widths around the mean gap of what a page may hold. Random
 * hashes want one of the first two (Golomb and Rice: log2 of the mean * ln 2). */
static uint32_t choose(const uint64_t *v, uint32_t n_more, uint32_t *gap_bits)
{
    enum { SAMPLE = 512 };
    uint32_t sample = n_more < SAMPLE ? n_more : SAMPLE, best = 0;
    uint64_t mean = sample ? (v[sample] - v[0]) / sample : 0;
    int log2 = 63 - __builtin_clzll(mean | 1);
    *gap_bits = LIST_GAP_BITS_MIN;
    for (int g = log2 - 1; g <= log2 + 1; g++) {
        uint32_t bits = g < LIST_GAP_BITS_MIN   ? LIST_GAP_BITS_MIN
                        : g > LIST_GAP_BITS_MAX ? LIST_GAP_BITS_MAX
                                                : (uint32_t)g;
        uint32_t taken = measure(v, n_more, bits);
        if (taken > best) {
            best = taken;
            *gap_bits = bits;
        }
    }
    return best;
}

/* Bits that follow one another, kept until a word of them is whole: to or them into the
 * page one by one would wait for the store before. */
struct bits {
    uint8_t *to;
    uint64_t word;
    uint32_t n; /* in `word`, fewer than 64 */
};

static inline void bits_put(struct bits *b, uint64_t value, uint32_t n)
{
    b->word |= value << b->n;
    b->n += n;
    if (b->n < 64)
        return;
    struct le64 whole = le64_of(b->word);
    memcpy(b->to, &whole, sizeof whole);
    b->to += sizeof whole;
    b->n -= 64;
    b->word = b->n ? value >> (n - b->n) : 0;
}

static void bits_end(struct bits *b)
{
    for (uint32_t i = 0; i < b->n; i += 8)
        *b->to++ = (uint8_t)(b->word >> i);
}

static void put_hashes(const uint64_t *v, const struct list_page *p,
                       uint8_t page[PAGE_BYTES])
{
    uint32_t rest_bits = p->rest_bits, at = p->unary_at * 8;
    struct bits rests = {page + p->rests_at, 0, 0};
    for (uint32_t i = 1; i < p->n; i++) {
        struct le16 top = le16_of((uint16_t)(v[i] >> rest_bits));
        memcpy(page + PAGE_BYTES - p->top_bytes * i, &top, p->top_bytes);
        bits_put(&rests, low_bits(v[i], rest_bits), rest_bits);
        at += (uint32_t)((v[i] - v[i - 1] - 1) >> p->gap_bits);
        page[at / 8] |= (uint8_t)(1 << at % 8);
        at++;
    }
    bits_end(&rests);
}

void list_page_begin(const uint64_t *v, struct list_page *p, uint8_t page[PAGE_BYTES])
{
    p->first = v[0];
    list_page_set_places(p);
    struct list_page_disk d = {le64_of(v[0]), le16_of((uint16_t)p->n),
                               (uint8_t)p->gap_bits};
    memcpy(page, &d, sizeof d);
    for (uint32_t k = 1; k < p->n_groups; k++)
        page[LIST_HEAD_BYTES + k - 1] =
            (uint8_t)(list_high(p, v[k * LIST_GROUP]) >> p->leader_shift);
}

size_t list_page_fill(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    struct list_page p = {0};
    memset(page, 0, PAGE_BYTES);
    if (n == 0)
        return 0;
    n = n < LIST_PAGE_MAX_HASHES ? n : LIST_PAGE_MAX_HASHES;
    p.n = 1 + choose(v, (uint32_t)n - 1, &p.gap_bits);
    list_page_begin(v, &p, page);
    put_hashes(v, &p, page);
    return p.n;
}

/* ---- decode ---- */

static bool leader_good(const uint8_t page[PAGE_BYTES], const struct list_page *p,
                        uint32_t i, uint64_t value)
{
    uint32_t k = i / LIST_GROUP;
    if (i % LIST_GROUP || k >= p->n_groups)
        return true;
    return page[LIST_HEAD_BYTES + k - 1] == list_high(p, value) >> p->leader_shift;
}

/* Value i, from the one before. *at is the next bit in unary. */
static bool next_value(const uint8_t page[PAGE_BYTES], const struct list_page *p,
                       uint32_t i, uint64_t before, uint32_t *at, uint64_t *value)
{
    uint32_t rest_bits = p->rest_bits, zeros = 0;
    uint64_t low = (uint64_t)list_top(page, p, i) << rest_bits;
    if (rest_bits)
        low |= list_bits(page, p->rests_at * 8 + (i - 1) * rest_bits, rest_bits);
    for (;; zeros++) {
        if (*at + zeros >= p->unary_bits)
            return false;
        if (list_bits(page, p->unary_at * 8 + *at + zeros, 1))
            break;
    }
    *at += zeros + 1;
    uint64_t gap = low_bits(low - before - 1, p->gap_bits), high;
    return mul_u64(zeros, UINT64_C(1) << p->gap_bits, &high) &&
           add_u64(gap, high, &gap) && add_u64(before, gap, value) &&
           add_u64(*value, 1, value);
}

static bool rest_is_zero(const uint8_t page[PAGE_BYTES], const struct list_page *p,
                         uint32_t at)
{
    uint32_t n_bits = (p->n - 1) * p->rest_bits;
    for (uint32_t bit = p->rests_at * 8 + n_bits; bit < p->unary_at * 8; bit++)
        if (list_bits(page, bit, 1))
            return false;
    for (; at < p->unary_bits; at++)
        if (list_bits(page, p->unary_at * 8 + at, 1))
            return false;
    return true;
}

bool list_page_decode(const uint8_t page[PAGE_BYTES], uint32_t hash_bits,
                      struct list_page *p, uint64_t values[LIST_PAGE_MAX_HASHES])
{
    uint32_t at = 0;
    if (!list_page_open(page, hash_bits, p))
        return false;
    if (p->n == 0)
        return all_zero(page, PAGE_BYTES);
    values[0] = p->first;
    for (uint32_t i = 1; i < p->n; i++)
        if (!next_value(page, p, i, values[i - 1], &at, &values[i]) ||
            values[i] > list_max(hash_bits) || !leader_good(page, p, i, values[i]))
            return false;
    return rest_is_zero(page, p, at);
}
