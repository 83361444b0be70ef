/* Handlers that come after the SIGBUS guard (R15): those that pass on to it, those that
 * do not, those that jump out, and guards between them. */
#include "tests/support/filters.h"
#include "tests/unit/page/guard_handlers.h"

static struct sigaction beneath;

static void later(int sig, siginfo_t *info, void *context)
{
    seen.n += 100;
    beneath.sa_sigaction(sig, info, context);
}

/* Someone who had kept our handler put it back after it was taken out; installed again
 * the guard finds itself there, and one that comes later and passes on is above it. */
static int put_back_by_another(void *nothing)
{
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO}, kept;
    before(earlier_info, NULL, 0);
    if (tamis_guard_install(NULL) || sigaction(SIGBUS, NULL, &kept))
        return 1;
    tamis_guard_remove();
    sigaction(SIGBUS, &kept, NULL);
    if (tamis_guard_install(NULL))
        return 2;
    sigaction(SIGBUS, &above, &beneath);
    if (tamis_guard_install(NULL))
        return 3;
    alarm(60);
    fault_elsewhere();
    return seen.n == 101 ? 0 : 4;
}

/* To us it is the bottom, since our handler was taken out, and it passes on to us. */
static int pass_on_in_a_circle(void *nothing)
{
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO};
    signal(SIGBUS, SIG_DFL);
    if (tamis_guard_install(NULL) || sigaction(SIGBUS, NULL, &beneath))
        return 1;
    tamis_guard_remove();
    sigaction(SIGBUS, &above, NULL);
    alarm(60);
    return tamis_guard_install(NULL) ? 2 : touch_page(foreign_page(NULL));
}

TEST(test_put_back_by_another)
{
    in_child(put_back_by_another, NULL);
    killed_in_child(pass_on_in_a_circle, NULL);
}

TEST_WITH(NULL, end_guarded, test_later_handler_that_passes_on)
{
    struct tamis_filter *f = cut_filter(path_of("later"));
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO}, now;
    before(earlier_info, NULL, 0);
    guard_on();
    OK(sigaction(SIGBUS, &above, &beneath));
    IS(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(seen.n, 100, 1000000);
    IS(seen.n % 100, 0);
    fault_elsewhere();
    IS(seen.n % 100, 1);
    /* Removed beneath it: it stays, passes on, and does no more than that; installed
     * again it is above it too and works again, with no circle. */
    tamis_guard_remove();
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == later);
    seen.n = 0;
    fault_elsewhere();
    IS(seen.n, 101);
    OK(tamis_guard_install(NULL));
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == beneath.sa_sigaction);
    fault_elsewhere();
    IS(seen.n, 202);
    tamis_filter_close(f);
    f = cut_filter(path_of("later-2"));
    IS(count_absent(f, keys, N_KEYS), 0);
    IS(seen.n, 202);
    tamis_filter_close(f);
    for (int i = 0; i < 100; i++) { /* and no end of it */
        tamis_guard_remove();
        sigaction(SIGBUS, NULL, &now);
        assert_true(now.sa_sigaction == later);
        OK(tamis_guard_install(NULL));
    }
    /* Someone who cleared the table does not keep it from coming back. */
    signal(SIGBUS, SIG_DFL);
    OK(tamis_guard_install(NULL));
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == beneath.sa_sigaction);
    assert_true(now.sa_flags & SA_ONSTACK);
    tamis_guard_remove();
    guard_off();
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
}

/* One that chained is gone, and one that does not has come: the guard is nowhere,
 * though it was never taken out. */
TEST_WITH(NULL, end_guarded, test_later_handler_that_does_not_pass_on)
{
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO}, now;
    signal(SIGBUS, SIG_DFL);
    guard_on();
    OK(sigaction(SIGBUS, &above, &beneath));
    tamis_guard_remove();
    signal(SIGBUS, SIG_DFL);
    before(earlier_info, NULL, 0);
    OK(tamis_guard_install(NULL));
    struct tamis_filter *f = cut_filter(path_of("another"));
    IS(count_absent(f, keys, N_KEYS), 0);
    IS(seen.n, 0);
    fault_elsewhere();
    IS(seen.n, 1);
    tamis_filter_close(f);
    guard_off();
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == earlier_info);
    signal(SIGBUS, SIG_DFL);
}

/* Handlers that each pass on, the guard put above each: there is an end, and it says
 * so. */
static struct {
    struct sigaction beneath;
    int n;
} chain[3];

#define CHAINED(i)                                                                     \
    static void chained_##i(int sig, siginfo_t *info, void *context)                   \
    {                                                                                  \
        chain[i].n++;                                                                  \
        chain[i].beneath.sa_sigaction(sig, info, context);                             \
    }
CHAINED(0)
CHAINED(1)
CHAINED(2)

TEST_WITH(NULL, end_guarded, test_guards_between_handlers)
{
    static void (*const handlers[])(int, siginfo_t *, void *) = {chained_0, chained_1,
                                                                 chained_2};
    struct sigaction a = {.sa_flags = SA_SIGINFO};
    int n_installed = 0, rc = 0;
    before(earlier_info, NULL, 0);
    OK(tamis_guard_install(NULL));
    for (size_t i = 0; i < 3; i++) {
        a.sa_sigaction = handlers[i];
        OK(sigaction(SIGBUS, &a, &chain[i].beneath));
        OK(tamis_guard_install(NULL));
    }
    for (int again = 1; again <= 2; again++) {
        fault_elsewhere();
        IS(seen.n, again);
        for (size_t i = 0; i < 3; i++)
            IS(chain[i].n, again);
    }
    while (rc == 0 && n_installed < 100) {
        before(earlier_info, NULL, 0);
        rc = tamis_guard_install(NULL);
        n_installed += rc == 0;
    }
    IS(rc, EAGAIN);
    signal(SIGBUS, SIG_DFL); /* nothing is above any more */
    OK(tamis_guard_install(NULL));
    for (int i = 0; i < 5 + n_installed; i++)
        tamis_guard_remove();
    sigaction(SIGBUS, NULL, &a);
    assert_true(a.sa_handler == SIG_DFL);
}

/* The guard above a handler that is above the guard. Handlers leave by a jump, fault
 * themselves, and run on another stack: each fault is still the upper handler's, once.
 */
static struct {
    volatile int n;        /* how often it ran */
    volatile bool jumps;   /* or it passes on */
    void *volatile faults; /* it touches this page first, once */
} upper;

static void run_upper(int sig, siginfo_t *info, void *context)
{
    void *page = upper.faults, *mended = to_mend;
    upper.n++;
    if (page) {
        upper.faults = NULL;
        to_mend = page;
        touch_page(page);
        to_mend = mended;
    }
    if (upper.jumps)
        siglongjmp(out, 1);
    beneath.sa_sigaction(sig, info, context);
}

static __attribute__((noinline)) int touch_deeper(void *page, int depth)
{
    volatile char pad[512] = {0};
    return (depth ? touch_deeper(page, depth - 1) : touch_page(page)) + pad[depth];
}

enum { N_DEPTHS = 8 };
static void *jump_from_each_depth(void *page)
{
    static const int depths[N_DEPTHS] = {0, 0, 10, 20, 5, 30, 30, 0};
    for (volatile size_t i = 0; i < N_DEPTHS; i++)
        if (sigsetjmp(out, 1) == 0)
            touch_deeper(page, depths[i]);
    return NULL;
}

TEST_WITH(NULL, end_guarded, test_jumps_out_between_guards)
{
    static char other[1 << 16];
    const stack_t alternate = {.ss_sp = other, .ss_size = sizeof other},
                  none = {.ss_flags = SS_DISABLE};
    struct sigaction a = {.sa_sigaction = run_upper,
                          .sa_flags = SA_SIGINFO | SA_NODEFER};
    before(earlier_info, NULL, 0);
    OK(tamis_guard_install(NULL));
    OK(sigaction(SIGBUS, &a, &beneath));
    OK(tamis_guard_install(NULL));
    uint8_t *page = foreign_page(NULL), *inner = foreign_page(NULL);
    upper.jumps = true;
    for (int i = 1; i <= 4; i++) {
        sigaltstack(i % 2 ? &none : &alternate, NULL);
        jump_from_each_depth(page);
        IS(upper.n, i * N_DEPTHS);
    }
    run_in_thread(jump_from_each_depth, page);
    IS(upper.n, 5 * N_DEPTHS);
    IS(seen.n, 0);
    for (int i = 1; i <= 2; i++) { /* nothing is left of the jumps */
        upper.n = 0;
        upper.jumps = false;
        upper.faults = i == 2 ? inner : NULL;
        seen.n = 0;
        fault_elsewhere();
        IS(upper.n, i);
        IS(seen.n, i);
        sigaltstack(&none, NULL);
    }
    munmap(page, 4096);
    munmap(inner, 4096);
    tamis_guard_remove();
    tamis_guard_remove();
    signal(SIGBUS, SIG_DFL);
}

RUN_TESTS(set_up, test_dir_remove)
