/* Which list kernel goes with which kernel. */
#include "lib/kernel/list/list_spot.h"

const struct list_kernel *kernel_list(const struct kernel *k)
{
#if defined(__x86_64__)
    if (k == &kernel_avx512)
        return &list_avx512;
    if (k == &kernel_avx2)
        return &list_avx2;
#endif
    (void)k;
    return &list_plain;
}

const struct list_kernel *kernel_list_best(void)
{
    return kernel_list(kernel_get());
}
