/* The SIGBUS guard as a signal handler (R15): nothing without it, everything that is
 * not ours goes to whom it would have gone to, and removing it puts things back. */
#include "tests/unit/page/guard_handlers.h"

#include <sys/syscall.h>

/* ---- without it ---- */

static void use_everything(void)
{
    const char *path = path_of("everything"), *open_path = path_of("everything-open");
    struct tamis_verify report;
    unlink(path);
    unlink(open_path);
    build_filter(path, keys, N_KEYS);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    tamis_filter_close(f);
    struct tamis_writer *w = create_writer(open_path, 0.01, 2, 1000);
    add_hashes(w, keys, N_KEYS);
    assert_int_equal(tamis_writer_seal(w, 1, NULL, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
}

static void handle_nothing(int sig)
{
    (void)sig;
}

static void test_nothing_is_installed_unasked(void **state)
{
    struct sigaction mine = {.sa_handler = handle_nothing, .sa_flags = SA_RESTART}, now;
    static void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, handle_nothing};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        mine.sa_handler = handlers[i];
        assert_int_equal(sigaction(SIGBUS, &mine, NULL), 0);
        use_everything();
        assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
        assert_true(now.sa_handler == handlers[i]);
        assert_true(now.sa_flags & SA_RESTART);
    }
    signal(SIGBUS, SIG_DFL);
}

static int probe_cut(void *f)
{
    return (int)count_absent(f, keys, N_KEYS);
}

static int probe_cut_by_default(void *f)
{
    signal(SIGBUS, SIG_DFL);
    return probe_cut(f);
}

static int remove_then_probe(void *f)
{
    signal(SIGBUS, SIG_DFL);
    if (tamis_guard_install(NULL) || tamis_guard_install(NULL))
        return 1;
    tamis_guard_remove();
    tamis_guard_remove();
    tamis_guard_remove(); /* one too many is none */
    return probe_cut(f);
}

static int install_and_probe(void *f)
{
    signal(SIGBUS, SIG_DFL);
    for (int i = 0; i < 3; i++) {
        if (tamis_guard_install(NULL))
            return 1;
        if (i < 2)
            tamis_guard_remove();
    }
    /* One who comes and goes takes nothing from the other. */
    if (tamis_guard_install(NULL))
        return 2;
    tamis_guard_remove();
    return probe_cut(f);
}

static void test_fatal_without_it(void **state)
{
    struct tamis_filter *f = cut_filter(path_of("fatal"));
    (void)state;
    killed_in_child(probe_cut_by_default, f);
    killed_in_child(remove_then_probe, f);
    in_child(install_and_probe, f);
    tamis_filter_close(f);
}

/* ---- what was there before ---- */

static void earlier_plain(int sig)
{
    seen.n++;
    seen.signal = sig;
    see_mask();
    mend();
}

static void test_passes_on_what_is_not_ours(void **state)
{
    (void)state;
    before(earlier_info, NULL, 0);
    guard_on();
    struct tamis_filter *f = cut_filter(path_of("ours"));
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(seen.n, 0); /* that was ours */

    uint8_t *page = foreign_page(NULL);
    to_mend = page;
    assert_int_equal(touch_page(page + 77), 0);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.signal, SIGBUS);
    assert_int_equal(seen.code, BUS_ADRERR);
    assert_ptr_equal((uintptr_t)seen.address & ~(uintptr_t)4095, page);
    assert_non_null(seen.context);
    assert_int_equal(seen.usr1_blocked, 1); /* its mask */
    assert_int_equal(seen.bus_blocked, 1);
    assert_int_equal(seen.hup_blocked, 0);
    fault_elsewhere();
    assert_int_equal(seen.n, 2);

    to_mend = NULL;
    raise(SIGBUS);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.code, SI_TKILL);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(seen.n, 3);
    tamis_filter_close(f);

    guard_off();
    struct sigaction now;
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == earlier_info);
    signal(SIGBUS, SIG_DFL);
}

static void test_passes_on_as_it_was_asked_for(void **state)
{
    (void)state;
    before(NULL, earlier_plain, SA_NODEFER);
    guard_on();
    fault_elsewhere();
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.signal, SIGBUS);
    assert_int_equal(seen.bus_blocked, 0);
    assert_int_equal(seen.usr1_blocked, 1);
    guard_off();
    signal(SIGBUS, SIG_DFL);
}

/* Memory that failed and that nobody has touched: the signal comes to any thread, at
 * any time, and whoever closes the mapping need not wait for it. */
static void test_passes_on_what_nobody_touched(void **state)
{
    struct mapping m;
    siginfo_t info;
    (void)state;
    before(earlier_info, NULL, 0);
    guard_on();
    build_filter(path_of("untouched"), keys, N_KEYS);
    int fd = open(path_of("untouched"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(map_file(fd, 0, 16384, false, NULL, &m), 0);
    close(fd);
    memset(&info, 0, sizeof info);
    info.si_signo = SIGBUS;
    info.si_code = BUS_MCEERR_AO;
    info.si_addr = m.base + PAGE_BYTES;
    assert_int_equal(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info),
                     0);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.code, BUS_MCEERR_AO);
    assert_false(lost_page(&m, m.base + PAGE_BYTES));
    map_drop(&m);
    guard_off();
    signal(SIGBUS, SIG_DFL);
}

/* The addresses of a filter that was closed are nobody's of ours. */
static void test_closed_mapping_is_forgotten(void **state)
{
    struct mapping m;
    (void)state;
    before(earlier_info, NULL, 0);
    guard_on();
    build_filter(path_of("closed"), keys, N_KEYS);
    int fd = open(path_of("closed"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(map_file(fd, 0, 16384, false, NULL, &m), 0);
    close(fd);
    void *at = m.address;
    map_drop(&m);
    to_mend = foreign_page(at);
    assert_ptr_equal(to_mend, at);
    assert_int_equal(touch_page(at), 0);
    assert_int_equal(seen.n, 1);
    munmap(at, 4096);
    guard_off();
    signal(SIGBUS, SIG_DFL);
}

static void test_handler_may_jump_out(void **state)
{
    struct tamis_filter *f = cut_filter(path_of("jump"));
    volatile int n = 0;
    sigset_t now;
    (void)state;
    before(NULL, jump_out, 0);
    guard_on();
    uint8_t *page = foreign_page(NULL);
    if (sigsetjmp(out, 1) == 0)
        touch_page(page);
    else
        n++;
    sigprocmask(SIG_SETMASK, NULL, &now);
    assert_int_equal(sigismember(&now, SIGBUS), 0);
    if (n < 2) {
        if (sigsetjmp(out, 1) == 0)
            touch_page(page);
        else
            n++;
    }
    assert_int_equal(n, 2);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    munmap(page, 4096);
    guard_off();
    tamis_filter_close(f);
    signal(SIGBUS, SIG_DFL);
}

/* ---- the default, ignoring, and one shot ---- */

static int fault_by_default(void *nothing)
{
    (void)nothing;
    signal(SIGBUS, SIG_DFL);
    return tamis_guard_install(NULL) ? 1 : touch_page(foreign_page(NULL));
}

static int sent_by_default(void *nothing)
{
    (void)nothing;
    signal(SIGBUS, SIG_DFL);
    return tamis_guard_install(NULL) ? 1 : raise(SIGBUS);
}

static int fault_ignored(void *nothing)
{
    (void)nothing;
    signal(SIGBUS, SIG_IGN);
    return tamis_guard_install(NULL) ? 1 : touch_page(foreign_page(NULL));
}

static int sent_ignored(void *nothing)
{
    (void)nothing;
    signal(SIGBUS, SIG_IGN);
    return tamis_guard_install(NULL) ? 1 : raise(SIGBUS);
}

static int one_shot(void *nothing)
{
    (void)nothing;
    before(NULL, earlier_plain, (int)SA_RESETHAND);
    if (tamis_guard_install(NULL) != 0)
        return 1;
    fault_elsewhere();
    if (seen.n != 1)
        return 2;
    return touch_page(foreign_page(NULL)); /* there is none any more */
}

static int one_shot_removed(void *nothing)
{
    struct sigaction now;
    (void)nothing;
    before(NULL, earlier_plain, (int)SA_RESETHAND);
    if (tamis_guard_install(NULL) != 0)
        return 1;
    fault_elsewhere();
    tamis_guard_remove();
    sigaction(SIGBUS, NULL, &now);
    return now.sa_handler == SIG_DFL ? 0 : 2;
}

static void test_no_handler_before(void **state)
{
    (void)state;
    killed_in_child(fault_by_default, NULL);
    killed_in_child(sent_by_default, NULL);
    killed_in_child(fault_ignored, NULL);
    in_child(sent_ignored, NULL);
    killed_in_child(one_shot, NULL);
    in_child(one_shot_removed, NULL);
}

/* ---- handlers that come later ---- */

static void test_tells_why_it_cannot(void **state)
{
    struct tamis_diag diag;
    (void)state;
    memset(&diag, 1, sizeof diag);
    assert_int_equal(tamis_guard_install(&diag), 0);
    assert_int_equal(diag.code, 0);
    tamis_guard_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_installed_unasked),
        cmocka_unit_test(test_fatal_without_it),
        cmocka_unit_test_teardown(test_passes_on_what_is_not_ours, end_guarded),
        cmocka_unit_test_teardown(test_passes_on_as_it_was_asked_for, end_guarded),
        cmocka_unit_test_teardown(test_passes_on_what_nobody_touched, end_guarded),
        cmocka_unit_test_teardown(test_closed_mapping_is_forgotten, end_guarded),
        cmocka_unit_test_teardown(test_handler_may_jump_out, end_guarded),
        cmocka_unit_test(test_no_handler_before),
        cmocka_unit_test(test_tells_why_it_cannot),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
