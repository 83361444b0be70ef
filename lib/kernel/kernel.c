/* Chooses the kernel for this machine, once, at run time. */
#include "lib/kernel/kernel.h"

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
