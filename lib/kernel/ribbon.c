/* Shared by ribbon kernels: tables of blocks, and which kernel this machine runs. */
#include "lib/kernel/ribbon.h"
#include "lib/kernel/kernel.h"

void ribbon_plane_init(struct ribbon_plane *p, const uint8_t *bits,
                       const struct ribbon_geometry *g)
{
    struct ribbon_entry *e = p->entries;
    p->bits = bits;
    p->n_pages = g->n_pages;
    p->n_long = g->n_long;
    p->blocks = g->blocks;
    for (uint32_t blocks = g->blocks; blocks <= g->blocks + 1; blocks++) {
        struct ribbon_shape s = ribbon_shape_of(blocks);
        for (uint32_t b = 0; b < blocks; b++, e++) {
            uint32_t n = ribbon_columns(&s, b);
            e->here = (uint16_t)ribbon_block_at(&s, b);
            /* Keys that begin in the last block end there. */
            e->next = (uint16_t)ribbon_block_at(&s, b + (b + 1 < blocks));
            e->threshold = (uint16_t)ribbon_threshold_at(&s, b);
            e->columns = (uint8_t)n;
            e->first = (uint8_t)(n < 8 ? (1U << n) - 1 : 0xffU);
        }
    }
}

const struct ribbon_kernel *kernel_ribbon(const struct kernel *k)
{
#if defined(__x86_64__)
    if (k == &kernel_avx512 && __builtin_cpu_supports("avx512vpopcntdq"))
        return &ribbon_avx512;
    if (k == &kernel_avx512 || k == &kernel_avx2)
        return &ribbon_avx2;
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (k == &kernel_neon)
        return &ribbon_neon;
#endif
    return &ribbon_scalar;
}
