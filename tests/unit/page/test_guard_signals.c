/* The SIGBUS guard as a signal handler (R15): nothing without it, everything that is
 * not ours goes to whom it would have gone to, and removing it puts things back. */
#include "tests/support/filters.h"
#include "tests/unit/page/guard_handlers.h"

/* ---- without it ---- */

static void use_everything(void)
{
    const char *path = path_of("everything"), *open_path = path_of("everything-open");
    unlink(path);
    unlink(open_path);
    build_filter(path, keys, N_KEYS);
    struct tamis_filter *f = open_filter(path);
    IS(count_absent(f, keys, N_KEYS), 0);
    verified(f);
    tamis_filter_close(f);
    WRITER w = create_writer(open_path, 0.01, 2, 1000);
    add_hashes(w, keys, N_KEYS);
    OK(tamis_writer_seal(w, 1, NULL, NULL));
}

static void handle_nothing(int sig)
{
}

TEST(test_nothing_is_installed_unasked)
{
    struct sigaction mine = {.sa_handler = handle_nothing, .sa_flags = SA_RESTART}, now;
    static void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, handle_nothing};
    for (size_t i = 0; i < 3; i++) {
        mine.sa_handler = handlers[i];
        OK(sigaction(SIGBUS, &mine, NULL));
        use_everything();
        OK(sigaction(SIGBUS, NULL, &now));
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

TEST(test_fatal_without_it)
{
    FILTER f = cut_filter(path_of("fatal"));
    killed_in_child(probe_cut_by_default, f);
    killed_in_child(remove_then_probe, f);
    in_child(install_and_probe, f);
}

/* ---- what was there before ---- */

static void earlier_plain(int sig)
{
    seen.n++;
    seen.signal = sig;
    see_mask();
    mend();
}

TEST_WITH(NULL, end_guarded, test_passes_on_what_is_not_ours)
{
    before(earlier_info, NULL, 0);
    guard_on();
    struct tamis_filter *f = cut_filter(path_of("ours"));
    IS(count_absent(f, keys, N_KEYS), 0);
    IS(seen.n, 0); /* that was ours */

    uint8_t *page = foreign_page(NULL);
    to_mend = page;
    IS(touch_page(page + 77), 0);
    IS(seen.n, 1);
    IS(seen.signal, SIGBUS);
    IS(seen.code, BUS_ADRERR);
    assert_ptr_equal((uintptr_t)seen.address & ~(uintptr_t)4095, page);
    assert_non_null(seen.context);
    IS(seen.usr1_blocked, 1); /* its mask */
    IS(seen.bus_blocked, 1);
    IS(seen.hup_blocked, 0);
    fault_elsewhere();
    IS(seen.n, 2);

    to_mend = NULL;
    raise(SIGBUS);
    IS(seen.n, 3);
    IS(seen.code, SI_TKILL);
    IS(count_absent(f, keys, N_KEYS), 0);
    IS(seen.n, 3);
    tamis_filter_close(f);

    guard_off();
    struct sigaction now;
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_sigaction == earlier_info);
    signal(SIGBUS, SIG_DFL);
}

TEST_WITH(NULL, end_guarded, test_passes_on_as_it_was_asked_for)
{
    before(NULL, earlier_plain, SA_NODEFER);
    guard_on();
    fault_elsewhere();
    IS(seen.n, 1);
    IS(seen.signal, SIGBUS);
    IS(seen.bus_blocked, 0);
    IS(seen.usr1_blocked, 1);
}

static struct mapping map_built(const char *name)
{
    struct mapping m;
    build_filter(path_of(name), keys, N_KEYS);
    FD fd = open_to_read(path_of(name));
    IS(map_file(fd, 0, 16384, false, NULL, &m), 0);
    return m;
}

/* Memory that failed and that nobody has touched: the signal comes to any thread, at
 * any time, and whoever closes the mapping need not wait for it. */
TEST_WITH(NULL, end_guarded, test_passes_on_what_nobody_touched)
{
    before(earlier_info, NULL, 0);
    guard_on();
    struct mapping m = map_built("untouched");
    siginfo_t info = {.si_signo = SIGBUS};
    info.si_code = BUS_MCEERR_AO;
    info.si_addr = m.base + PAGE_BYTES;
    IS(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info), 0);
    IS(seen.n, 1);
    IS(seen.code, BUS_MCEERR_AO);
    assert_false(lost_page(&m, m.base + PAGE_BYTES));
    map_drop(&m);
}

/* The addresses of a filter that was closed are nobody's of ours. */
TEST_WITH(NULL, end_guarded, test_closed_mapping_is_forgotten)
{
    before(earlier_info, NULL, 0);
    guard_on();
    struct mapping m = map_built("closed");
    void *at = m.address;
    map_drop(&m);
    to_mend = foreign_page(at);
    assert_ptr_equal(to_mend, at);
    IS(touch_page(at), 0);
    IS(seen.n, 1);
    munmap(at, 4096);
}

TEST_WITH(NULL, end_guarded, test_handler_may_jump_out)
{
    FILTER f = cut_filter(path_of("jump"));
    volatile int n = 0;
    sigset_t now;
    before(NULL, jump_out, 0);
    guard_on();
    uint8_t *page = foreign_page(NULL);
    for (volatile int i = 0; i < 2; i++) {
        if (sigsetjmp(out, 1) == 0)
            touch_page(page);
        else
            n++;
        sigprocmask(SIG_SETMASK, NULL, &now);
        IS(sigismember(&now, SIGBUS), 0);
    }
    IS(n, 2);
    IS(count_absent(f, keys, N_KEYS), 0);
    munmap(page, 4096);
}

/* ---- the default, ignoring, and one shot ---- */

static int meet_guarded(void (*handler)(int), bool sent)
{
    signal(SIGBUS, handler);
    return tamis_guard_install(NULL) ? 1
           : sent                    ? raise(SIGBUS)
                                     : touch_page(foreign_page(NULL));
}

static int fault_by_default(void *nothing)
{
    return meet_guarded(SIG_DFL, false);
}

static int sent_by_default(void *nothing)
{
    return meet_guarded(SIG_DFL, true);
}

static int fault_ignored(void *nothing)
{
    return meet_guarded(SIG_IGN, false);
}

static int sent_ignored(void *nothing)
{
    return meet_guarded(SIG_IGN, true);
}

static bool one_shot_seen(void)
{
    before(NULL, earlier_plain, (int)SA_RESETHAND);
    if (tamis_guard_install(NULL) != 0)
        return false;
    fault_elsewhere();
    return seen.n == 1;
}

static int one_shot(void *nothing)
{
    return !one_shot_seen() || touch_page(foreign_page(NULL)); /* none any more */
}

static int one_shot_removed(void *nothing)
{
    struct sigaction now;
    bool was_seen = one_shot_seen();
    tamis_guard_remove();
    sigaction(SIGBUS, NULL, &now);
    return was_seen && now.sa_handler == SIG_DFL ? 0 : 2;
}

TEST(test_no_handler_before)
{
    killed_in_child(fault_by_default, NULL);
    killed_in_child(sent_by_default, NULL);
    killed_in_child(fault_ignored, NULL);
    in_child(sent_ignored, NULL);
    killed_in_child(one_shot, NULL);
    in_child(one_shot_removed, NULL);
}

/* ---- handlers that come later ---- */

TEST(test_tells_why_it_cannot)
{
    struct tamis_diag diag;
    memset(&diag, 1, sizeof diag);
    OK(tamis_guard_install(&diag));
    IS(diag.code, 0);
    tamis_guard_remove();
}

RUN_TESTS(set_up, test_dir_remove)
