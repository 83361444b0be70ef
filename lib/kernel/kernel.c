/* Chooses the kernel for this machine, once, at run time; and sets up what kernels ask:
 * planes in a row (kernel.h), the stages of a filter, and ribbon planes (ribbon.h). */
#include "lib/kernel/kernel.h"
#include "lib/kernel/ribbon.h"

#include <pthread.h>
#include <stdlib.h>

static bool can_run(size_t i)
{
#if defined(__x86_64__) && !defined(ONLY_SCALAR)
    /* The processor has it, and the system saves its registers. */
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    return i == 1 ? avx2
                  : avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
#else
    return i == 0;
#endif
}

static const struct kernel *const fast[] = {
#if defined(ONLY_SCALAR)
    NULL,
#elif defined(__x86_64__)
    &kernel_avx512,
    &kernel_avx2,
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    &kernel_neon,
#else
    NULL,
#endif
};

const struct kernel *kernel_at(size_t i)
{
    for (size_t k = 0; k < sizeof fast / sizeof fast[0]; k++)
        if (fast[k] && can_run(k) && i-- == 0)
            return fast[k];
    return i == 0 ? &kernel_scalar : NULL;
}

static const struct kernel *kernel_choose(void)
{
    const char *name = getenv("TAMIS_KERNEL");
    const struct kernel *k = kernel_at(0);
    for (size_t i = 0; name && kernel_at(i); i++)
        if (strcmp(kernel_at(i)->name, name) == 0)
            k = kernel_at(i);
    return k;
}

/* pthread_once() would make a probe wait for another thread, and for ever if that one
 * has jumped out. Here two threads may choose at a time: the first choice stays. */
const struct kernel *kernel_get(void)
{
    static const struct kernel *_Atomic chosen;
    const struct kernel *k = atomic_load_explicit(&chosen, memory_order_acquire),
                        *none = NULL;
    if (k)
        return k;
    k = kernel_choose();
    return atomic_compare_exchange_strong(&chosen, &none, k) ? k : none;
}

/* ---- what kernels ask ---- */

void plane_row_begin(struct plane_row *row, const struct plane *planes, size_t n)
{
    memset(row, 0, sizeof *row);
    row->planes = planes;
    row->n = (uint32_t)n;
    if (n > ROW_COLUMNS)
        return;
    for (size_t i = 0; i < n; i++)
        if (planes[i].n_blocks > UINT32_MAX)
            return;
    for (size_t i = 0; i < ROW_COLUMNS; i++) {
        const struct plane *p = &planes[i < n ? i : 0];
        row->words[i] = (uint8_t)p->words;
        row->n_blocks[i] = p->n_blocks;
        row->bits[i] = p->bits;
    }
    row->n_columns = (uint32_t)n;
    row->all = (UINT32_C(1) << n) - 1;
}

/* ---- ribbons: tables of blocks ---- */

static struct ribbon_entry entry_of(const struct ribbon_shape *s, uint32_t block)
{
    uint32_t n = ribbon_columns(s, block), at = ribbon_block_at(s, block);
    /* Keys that begin in the last block end there. */
    uint32_t next = ribbon_block_at(s, block + (block + 1 < s->blocks));
    uint32_t end = next + 8 * RIBBON_WORDS;
    uint32_t before = end > PAGE_BYTES ? (end - PAGE_BYTES + 7) / 8 : 0;
    uint32_t n_first = n < RIBBON_WORDS ? n : RIBBON_WORDS;
    return (struct ribbon_entry){
        .here = (uint16_t)(at - 8 * before),
        .next = (uint16_t)(next - 8 * before),
        .threshold = (uint16_t)ribbon_threshold_at(s, block),
        .before = (uint8_t)before,
        .first = (uint8_t)(((1U << n_first) - 1) << before),
    };
}

void ribbon_plane_init(struct ribbon_plane *p, const uint8_t *bits,
                       const struct ribbon_geometry *g)
{
    struct ribbon_entry *e = p->entries;
    p->bits = bits;
    p->n_pages = g->n_pages;
    p->n_long = g->n_long;
    p->blocks = g->blocks;
    for (uint32_t more = 0; more < 2; more++) {
        struct ribbon_shape s = ribbon_shape_of(g->blocks + more);
        p->sizes[more] = (struct ribbon_size){s.blocks * RIBBON_WIDTH + 1,
                                              ribbon_last_row(s.blocks), e};
        for (uint32_t b = 0; b < s.blocks; b++)
            *e++ = entry_of(&s, b);
    }
}
