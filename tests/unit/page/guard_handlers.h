/* SIGBUS handlers that are there before the guard or come after it, and what they
 * see. */
#ifndef TAMIS_TESTS_GUARD_HANDLERS_H
#define TAMIS_TESTS_GUARD_HANDLERS_H

#include "tests/support/filters.h"
#include "tests/support/guard_support.h"

enum { N_KEYS = 20 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

/* A sealed filter, checked and then cut off after its header. */
static UNUSED struct tamis_filter *cut_filter(const char *path)
{
    build_filter(path, keys, N_KEYS);
    struct tamis_filter *f = open_filter(path);
    verified(f);
    cut(path, PAGE_BYTES);
    return f;
}

static struct {
    volatile sig_atomic_t n, signal, code, usr1_blocked, bus_blocked, hup_blocked;
    void *volatile address;
    void *volatile context;
} seen;
static void *volatile to_mend; /* by the handler */

static UNUSED void see_mask(void)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    seen.usr1_blocked = sigismember(&now, SIGUSR1);
    seen.bus_blocked = sigismember(&now, SIGBUS);
    seen.hup_blocked = sigismember(&now, SIGHUP);
}

static UNUSED void mend(void)
{
    if (to_mend)
        mmap(to_mend, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = EDOM;
}

static UNUSED void earlier_info(int sig, siginfo_t *info, void *context)
{
    seen.n++;
    seen.signal = sig;
    seen.code = info->si_code;
    seen.address = info->si_addr;
    seen.context = context;
    see_mask();
    mend();
}

static UNUSED void before(void (*info)(int, siginfo_t *, void *), void (*plain)(int),
                          int flags)
{
    struct sigaction a = {.sa_flags = flags};
    if (info)
        a.sa_sigaction = info, a.sa_flags |= SA_SIGINFO;
    else
        a.sa_handler = plain;
    sigaddset(&a.sa_mask, SIGUSR1);
    OK(sigaction(SIGBUS, &a, NULL));
    memset(&seen, 0, sizeof seen);
    to_mend = NULL;
}

static UNUSED void fault_elsewhere(void)
{
    uint8_t *page = foreign_page(NULL);
    to_mend = page;
    errno = EXDEV;
    IS(touch_page(page + 77), 0);
    IS(errno, EXDEV); /* whatever the handlers did */
    munmap(page, 4096);
    to_mend = NULL;
}

static sigjmp_buf out;

static UNUSED void jump_out(int sig)
{
    siglongjmp(out, sig);
}

#endif
