/* The SIGBUS guard (R15): the only signal handler of the library, and only on request.
 *
 * It lets lost.c look whether the fault is in a mapping of ours. Everything else goes
 * to the handler that was there before, as if the kernel had called it. */
#include "lib/internal.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

/* ---- the handler ---- */

/* What was there before, and before that: a thread may still be in the handler while
 * the guard is removed and installed again. */
static struct sigaction earlier[2];
static atomic_uint which_earlier;
static atomic_bool earlier_spent; /* it had SA_RESETHAND, and ran */
static atomic_bool active;
static bool hooked; /* our handler is in place, or below one that came later */
static unsigned n_users;

static bool is_fault(const siginfo_t *info)
{
    return info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
           info->si_code == BUS_ADRALN || info->si_code == BUS_MCEERR_AR;
}

/* A fault happens again when the handler returns; a signal that was sent does not. */
static void die(int sig, const siginfo_t *info)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(sig, &by_default, NULL);
    if (!is_fault(info))
        raise(sig);
}

/* The mask that the kernel would have run it with: ours blocks everything. */
static void run_earlier(const struct sigaction *e, int sig, siginfo_t *info,
                        void *context)
{
    sigset_t mask, ours;
    sigemptyset(&mask);
    sigorset(&mask, &((ucontext_t *)context)->uc_sigmask, &e->sa_mask);
    if (!(e->sa_flags & SA_NODEFER))
        sigaddset(&mask, sig);
    sigprocmask(SIG_SETMASK, &mask, &ours);
    if (e->sa_flags & SA_SIGINFO)
        e->sa_sigaction(sig, info, context);
    else
        e->sa_handler(sig);
    sigprocmask(SIG_SETMASK, &ours, NULL);
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
    const struct sigaction *e = &earlier[atomic_load(&which_earlier)];
    if (e->sa_handler == SIG_IGN && !is_fault(info))
        return;
    if (e->sa_handler == SIG_IGN || e->sa_handler == SIG_DFL ||
        (((unsigned)e->sa_flags & SA_RESETHAND) &&
         atomic_exchange(&earlier_spent, true)))
        die(sig, info); /* the kernel ignores no fault either */
    else
        run_earlier(e, sig, info, context);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    /* Not MCEERR_AO: memory that failed and that this thread has not touched. It may be
     * in a mapping that another one is closing; and who touches it gets MCEERR_AR. */
    bool loss = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
                info->si_code == BUS_MCEERR_AR;
    if (!loss || !atomic_load(&active) || !lost_replace((uintptr_t)info->si_addr))
        pass_on(sig, info, context);
    errno = saved;
}

/* ---- installing ---- */

static bool is_ours(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == on_sigbus;
}

static int hook(void)
{
    struct sigaction now, mine = {.sa_sigaction = on_sigbus};
    if (sigaction(SIGBUS, NULL, &now) != 0)
        return errno;
    /* One that came later passes on to us; were we above it too, each would pass on to
     * the other. */
    if (is_ours(&now) ||
        (hooked && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))
        return 0;
    unsigned next = !atomic_load(&which_earlier);
    earlier[next] = now;
    atomic_store(&which_earlier, next);
    atomic_store(&earlier_spent, false);
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & SA_RESTART);
    sigfillset(&mine.sa_mask);
    if (sigaction(SIGBUS, &mine, NULL) != 0)
        return errno;
    hooked = true;
    return 0;
}

static void unhook(void)
{
    struct sigaction now, before = earlier[atomic_load(&which_earlier)];
    if (sigaction(SIGBUS, NULL, &now) != 0 || !is_ours(&now))
        return; /* below another: it stays, and passes on everything */
    if (atomic_load(&earlier_spent))
        before = (struct sigaction){.sa_handler = SIG_DFL};
    sigaction(SIGBUS, &before, NULL);
    hooked = false;
}

int tamis_guard_install(struct tamis_diag *diag)
{
    diag_clear(diag);
    int err = io_hold_forks();
    if (err)
        return diag_errno(diag, err, NULL, "cannot guard against SIGBUS");
    err = lost_prepare();
    if (!err)
        err = hook();
    if (!err) {
        n_users++;
        atomic_store(&active, true);
    }
    io_let_forks();
    return err ? diag_errno(diag, err, NULL, "cannot guard against SIGBUS") : 0;
}

void tamis_guard_remove(void)
{
    if (io_hold_forks())
        return;
    if (n_users > 0 && --n_users == 0) {
        atomic_store(&active, false);
        unhook();
    }
    io_let_forks();
}
