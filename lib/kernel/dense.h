/* Numbers side by side, for loops.h: key ranges of many segments, and targets whose
 * numbers follow each other. As many at a time as a register holds. */

enum { LANES = VECTOR_BYTES / 8 };
typedef uint64_t lanes
    __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));

/* Other threads may be writing these words. A thread sanitizer wants atomic reads. */
KERNEL inline lanes load_lanes(const void *at)
{
#ifdef ONLY_SCALAR
    lanes v;
    for (size_t i = 0; i < LANES; i++)
        v[i] = __atomic_load_n((const uint64_t *)at + i, __ATOMIC_RELAXED);
    return v;
#else
    return *(const volatile lanes *)at;
#endif
}

KERNEL inline uint64_t or_lanes(lanes v)
{
    uint64_t all = 0;
    for (size_t i = 0; i < LANES; i++)
        all |= v[i];
    return all;
}

KERNEL uint64_t outside_ends(const void *first, const void *last, size_t n, uint64_t x,
                             uint64_t *near)
{
    lanes out = {0}, equal = {0}, bit;
    for (size_t i = 0; i < LANES; i++)
        bit[i] = UINT64_C(1) << i;
    for (size_t at = 0; at < n; at += LANES, bit <<= LANES) {
        lanes low = load_lanes((const uint64_t *)first + at);
        lanes high = load_lanes((const uint64_t *)last + at);
        out |= (lanes)((low > x) | (high < x)) & bit;
        equal |= (lanes)((low == x) | (high == x)) & bit;
    }
    *near = or_lanes(equal) & UINT64_MAX >> (ITEM - n);
    return or_lanes(out) & UINT64_MAX >> (ITEM - n);
}

/* Three words of eight targets are three registers, where a register is a line. */
KERNEL size_t run_of_targets(const struct tamis_target *t, size_t n)
{
    enum { AT_ONCE = 8, A_LOOK = 128, WORDS_EACH = sizeof *t / 8 };
    enum { N_LANES = AT_ONCE * WORDS_EACH / LANES };
    const struct tamis_target one = {.ordinal = 1};
    uint64_t unit, first = t->ordinal;
    lanes wanted[N_LANES], steps[N_LANES], odd = {0};
    size_t at = 0;
    memcpy(&unit, &one, sizeof unit); /* an ordinal is half of a word */
#pragma GCC unroll 24
    for (size_t i = 0; i < AT_ONCE * WORDS_EACH; i++) {
        size_t word = i % WORDS_EACH;
        steps[i / LANES][i % LANES] = word ? 0 : unit * AT_ONCE;
        wanted[i / LANES][i % LANES] = !word       ? (first + i / WORDS_EACH) * unit
                                       : word == 1 ? 0
                                                   : t->snapshot;
    }
    for (size_t some; at + AT_ONCE <= n; at += some) { /* a look costs some targets */
        const uint8_t *from = (const uint8_t *)(t + at);
        some = n - at < A_LOOK ? (n - at) / AT_ONCE * AT_ONCE : A_LOOK;
        for (size_t k = 0; k < some; k += AT_ONCE, from += AT_ONCE * sizeof *t) {
#pragma GCC unroll 12
            for (size_t i = 0; i < N_LANES; i++) {
                odd |= load_lanes(from + i * VECTOR_BYTES) ^ wanted[i];
                wanted[i] += steps[i];
            }
        }
        if (or_lanes(odd))
            break;
    }
    for (; at < n; at++)
        if ((t[at].ordinal ^ (t->ordinal + (uint32_t)at)) | t[at].refusal |
            t[at].min_watermark | (t[at].snapshot ^ t->snapshot))
            break;
    return at;
}
