/* Locked memory: how much there is, and how much there may be. */
#ifndef TAMIS_TESTS_LOCKED_H
#define TAMIS_TESTS_LOCKED_H

#include "support.h"

#include <linux/capability.h>

static size_t least_unlocked; /* fewer bytes cannot be, as if there were no memory */

/* Sanitizers have one that does nothing, and none of mlock2(). */
int munlock(const void *at, size_t n);
int munlock(const void *at, size_t n)
{
    if (n < least_unlocked) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_munlock, at, n);
}

static UNUSED uint64_t locked_now(void)
{
    return status_bytes("VmLck");
}

/* For children: as someone who may not lock more than the limit says, as root may. */
static UNUSED void limit_locking(rlim_t n_bytes)
{
    const struct rlimit limit = {n_bytes, n_bytes};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct have[2];
    OK(setrlimit(RLIMIT_MEMLOCK, &limit));
    IS(syscall(SYS_capget, &header, have), 0);
    have[0].effective &= ~(1U << CAP_IPC_LOCK);
    have[0].permitted &= ~(1U << CAP_IPC_LOCK);
    IS(syscall(SYS_capset, &header, have), 0);
}

#endif
