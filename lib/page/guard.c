/* The SIGBUS guard (R15): the only signal handler of the library, and only on request.
 *
 * It lets watch.c look whether the fault is in a mapping of ours. Everything else goes
 * to the handler that was there before, as if the kernel had called it. */
#include "lib/page/page.h"
#include "lib/io/io.h"

#include <signal.h>
#include <ucontext.h>

/* ---- the handler ---- */

/* Our handler may be in the chain more than once. A handler that was installed later
 * may pass on to ours or not, which cannot be told. So if the guard is installed again,
 * it is put above that handler, too. Each level keeps the handler that was there
 * before. There are more entries than may be in use: a thread may still be passing on
 * to an entry that was just taken away. */
enum { MAX_LEVELS = 8, N_LEVELS = 2 * MAX_LEVELS, NO_LEVEL = -1 };
struct level {
    struct sigaction earlier;
    atomic_bool spent; /* it had SA_RESETHAND, and ran */
    int below;         /* where it goes when that one passes on to us, or NO_LEVEL */
    uintptr_t number;  /* of all that there have been */
};
static struct level levels[N_LEVELS];
static atomic_int top_level;
static atomic_bool active;
static bool hooked; /* our handler is in place, or below one that came later */
static unsigned n_users, n_hooked;

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
                        ucontext_t *context)
{
    sigset_t mask, ours;
    sigemptyset(&mask);
    sigorset(&mask, &context->uc_sigmask, &e->sa_mask);
    if (!(e->sa_flags & SA_NODEFER))
        sigaddset(&mask, sig);
    sigprocmask(SIG_SETMASK, &mask, &ours);
    if (e->sa_flags & SA_SIGINFO)
        e->sa_sigaction(sig, info, context);
    else
        e->sa_handler(sig);
    sigprocmask(SIG_SETMASK, &ours, NULL);
}

static void pass_to(struct level *l, int sig, siginfo_t *info, ucontext_t *context)
{
    const struct sigaction *e = &l->earlier;
    if (e->sa_handler == SIG_IGN && !is_fault(info))
        return;
    if (e->sa_handler == SIG_IGN || e->sa_handler == SIG_DFL ||
        (((unsigned)e->sa_flags & SA_RESETHAND) && atomic_exchange(&l->spent, true)))
        die(sig, info); /* the kernel ignores no fault either */
    else
        run_earlier(e, sig, info, context);
}

/* The stack does not tell whether the kernel calls us, or the handler to which we have
 * passed the signal on: handlers jump out, fault themselves, and run on other stacks.
 * So the signal says it, in uc_link, which the kernel sets to NULL and leaves alone. */
static void *mark_of(const struct level *l)
{
    return (void *)((uintptr_t)levels + l->number);
}

/* NULL: no handler is left, for the lowest one passes on to us. */
static struct level *next_level(const ucontext_t *context)
{
    for (struct level *l = levels; l < levels + N_LEVELS; l++)
        if ((void *)context->uc_link == mark_of(l))
            return l->below == NO_LEVEL ? NULL : &levels[l->below];
    return &levels[atomic_load(&top_level)];
}

static void pass_on(int sig, siginfo_t *info, ucontext_t *context)
{
    struct level *to = next_level(context);
    void *before = context->uc_link;
    if (!to) {
        die(sig, info);
        return;
    }
    context->uc_link = mark_of(to);
    pass_to(to, sig, info, context);
    context->uc_link = before;
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

/* One that is not in use, nor was the last that was. */
static int free_level(int below)
{
    bool used[N_LEVELS] = {false};
    int n = 0;
    used[atomic_load(&top_level)] = true;
    for (int i = below; i != NO_LEVEL; i = levels[i].below, n++)
        used[i] = true;
    if (n >= MAX_LEVELS)
        return NO_LEVEL;
    for (n = 0; used[n]; n++)
        ;
    return n;
}

static int hook(void)
{
    struct sigaction now, mine = {.sa_sigaction = on_sigbus};
    if (sigaction(SIGBUS, NULL, &now) != 0)
        return errno;
    if (is_ours(&now)) {
        hooked = true;
        return 0;
    }
    /* Another handler may pass signals on to us; SIG_DFL and SIG_IGN do not. */
    bool any = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
    int below = hooked && any ? atomic_load(&top_level) : NO_LEVEL;
    int level = free_level(below);
    if (level == NO_LEVEL)
        return EAGAIN;
    levels[level].earlier = now;
    levels[level].below = below;
    levels[level].number = ++n_hooked;
    atomic_store(&levels[level].spent, false);
    atomic_store(&top_level, level);
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & SA_RESTART);
    sigfillset(&mine.sa_mask);
    if (sigaction(SIGBUS, &mine, NULL) != 0)
        return errno;
    hooked = true;
    return 0;
}

static void unhook(void)
{
    const struct level *l = &levels[atomic_load(&top_level)];
    struct sigaction now, before = l->earlier;
    if (sigaction(SIGBUS, NULL, &now) != 0 || !is_ours(&now))
        return; /* below another: it stays, and passes on everything */
    if (atomic_load(&l->spent))
        before = (struct sigaction){.sa_handler = SIG_DFL};
    sigaction(SIGBUS, &before, NULL);
    hooked = l->below != NO_LEVEL;
    if (hooked)
        atomic_store(&top_level, l->below);
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
