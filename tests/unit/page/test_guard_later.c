/* Handlers that come after the SIGBUS guard (R15): those that pass on to it, those that
 * do not, those that jump out, and guards between them. */
#include "tests/unit/page/guard_handlers.h"

static struct sigaction beneath;

static void later(int sig, siginfo_t *info, void *context)
{
    seen.n += 100;
    beneath.sa_sigaction(sig, info, context);
}

static void test_later_handler_that_passes_on(void **state)
{
    struct tamis_filter *f = cut_filter(path_of("later"));
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO}, now;
    (void)state;
    before(earlier_info, NULL, 0);
    guard_on();
    assert_int_equal(sigaction(SIGBUS, &above, &beneath), 0);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(seen.n, 100, 1000000);
    assert_int_equal(seen.n % 100, 0);
    fault_elsewhere();
    assert_int_equal(seen.n % 100, 1);
    /* Removed beneath it: it stays, passes on, and does no more than that; installed
     * again it is above it too and works again, with no circle. */
    tamis_guard_remove();
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == later);
    seen.n = 0;
    fault_elsewhere();
    assert_int_equal(seen.n, 101);
    assert_int_equal(tamis_guard_install(NULL), 0);
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == beneath.sa_sigaction);
    fault_elsewhere();
    assert_int_equal(seen.n, 202);
    tamis_filter_close(f);
    f = cut_filter(path_of("later-2"));
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(seen.n, 202);
    tamis_filter_close(f);
    for (int i = 0; i < 100; i++) { /* and no end of it */
        tamis_guard_remove();
        sigaction(SIGBUS, NULL, &now);
        assert_true(now.sa_sigaction == later);
        assert_int_equal(tamis_guard_install(NULL), 0);
    }
    /* Someone who cleared the table does not keep it from coming back. */
    signal(SIGBUS, SIG_DFL);
    assert_int_equal(tamis_guard_install(NULL), 0);
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == beneath.sa_sigaction);
    assert_true(now.sa_flags & SA_ONSTACK);
    tamis_guard_remove();
    guard_off();
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
}

/* Someone who had kept our handler put it back after it was taken out; installed again
 * the guard finds itself there, and one that comes later and passes on is above it. */
static int put_back_by_another(void *nothing)
{
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO}, kept;
    (void)nothing;
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

static void test_put_back_by_another(void **state)
{
    (void)state;
    in_child(put_back_by_another, NULL);
}

/* One that chained is gone, and one that does not has come: the guard is nowhere,
 * though it was never taken out. */
static void test_later_handler_that_does_not_pass_on(void **state)
{
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO}, now;
    (void)state;
    signal(SIGBUS, SIG_DFL);
    guard_on();
    assert_int_equal(sigaction(SIGBUS, &above, &beneath), 0);
    tamis_guard_remove();
    signal(SIGBUS, SIG_DFL);
    before(earlier_info, NULL, 0);
    assert_int_equal(tamis_guard_install(NULL), 0);
    struct tamis_filter *f = cut_filter(path_of("another"));
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(seen.n, 0);
    fault_elsewhere();
    assert_int_equal(seen.n, 1);
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

static void test_guards_between_handlers(void **state)
{
    static void (*const handlers[])(int, siginfo_t *, void *) = {chained_0, chained_1,
                                                                 chained_2};
    struct sigaction a = {.sa_flags = SA_SIGINFO};
    int n_installed = 0, rc = 0;
    (void)state;
    before(earlier_info, NULL, 0);
    assert_int_equal(tamis_guard_install(NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        a.sa_sigaction = handlers[i];
        assert_int_equal(sigaction(SIGBUS, &a, &chain[i].beneath), 0);
        assert_int_equal(tamis_guard_install(NULL), 0);
    }
    for (int again = 1; again <= 2; again++) {
        fault_elsewhere();
        assert_int_equal(seen.n, again);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(chain[i].n, again);
    }
    while (rc == 0 && n_installed < 100) {
        before(earlier_info, NULL, 0);
        rc = tamis_guard_install(NULL);
        n_installed += rc == 0;
    }
    assert_int_equal(rc, EAGAIN);
    signal(SIGBUS, SIG_DFL); /* nothing is above any more */
    assert_int_equal(tamis_guard_install(NULL), 0);
    for (int i = 0; i < 5 + n_installed; i++)
        tamis_guard_remove();
    sigaction(SIGBUS, NULL, &a);
    assert_true(a.sa_handler == SIG_DFL);
}

/* The guard above a handler that is above the guard, and that jumps out each time. */
static void test_jumps_out_between_guards(void **state)
{
    volatile int n = 0;
    (void)state;
    before(earlier_info, NULL, 0);
    assert_int_equal(tamis_guard_install(NULL), 0);
    before(NULL, jump_out, 0);
    assert_int_equal(tamis_guard_install(NULL), 0);
    uint8_t *page = foreign_page(NULL);
    while (n < 3) {
        if (sigsetjmp(out, 1) == 0)
            touch_page(page);
        n++;
    }
    assert_int_equal(seen.n, 0);
    munmap(page, 4096);
    tamis_guard_remove();
    tamis_guard_remove();
    signal(SIGBUS, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_back_by_another),
        cmocka_unit_test_teardown(test_later_handler_that_passes_on, end_guarded),
        cmocka_unit_test_teardown(test_later_handler_that_does_not_pass_on,
                                  end_guarded),
        cmocka_unit_test_teardown(test_guards_between_handlers, end_guarded),
        cmocka_unit_test_teardown(test_jumps_out_between_guards, end_guarded),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
