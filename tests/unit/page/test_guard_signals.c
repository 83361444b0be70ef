/* The SIGBUS guard as a signal handler (R15): nothing without it, everything that is
 * not ours goes to whom it would have gone to, and removing it puts things back; and
 * handlers that come after it: those that pass on to it, those that do not, those that
 * jump out, and guards between them. */
#include "tests/support/guard_support.h"

enum { N_KEYS = 20 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

/* A sealed filter, checked and then cut off after its header. */
static struct tamis_filter *cut_filter(const char *path)
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

static void see_mask(void)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    seen.usr1_blocked = sigismember(&now, SIGUSR1);
    seen.bus_blocked = sigismember(&now, SIGBUS);
    seen.hup_blocked = sigismember(&now, SIGHUP);
}

static void mend(void)
{
    if (to_mend)
        mmap(to_mend, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = EDOM;
}

static void earlier_info(int sig, siginfo_t *info, void *context)
{
    seen.n++;
    seen.signal = sig;
    seen.code = info->si_code;
    seen.address = info->si_addr;
    seen.context = context;
    see_mask();
    mend();
}

static void before(void (*info)(int, siginfo_t *, void *), void (*plain)(int),
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

static void fault_elsewhere(void)
{
    uint8_t *page = foreign_page(NULL);
    to_mend = page;
    errno = EXDEV;
    IS(touch_page(page + 77), 0);
    IS(errno, EXDEV); /* whatever the handlers did */
    munmap(page, 4096);
    to_mend = NULL;
}

/* The handler in place; NULL: the default. Returns its flags. */
static int handler_is(void (*fn)(int, siginfo_t *, void *))
{
    struct sigaction now;
    OK(sigaction(SIGBUS, NULL, &now));
    assert_true(now.sa_sigaction == fn);
    return now.sa_flags;
}

static sigjmp_buf out;

static void jump_out(int sig)
{
    siglongjmp(out, sig);
}

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
    handler_is(earlier_info);
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

/* Memory that failed before a thread touched it: the signal comes to any thread, at any
 * time, and a thread that closes the mapping need not wait for it. */
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

/* The addresses of a closed filter are not ours any more. */
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

struct met {
    void (*handler)(int);
    bool sent; /* or by a page */
};

static int meet_guarded(void *ctx)
{
    const struct met *m = ctx;
    struct tamis_diag diag = {.code = 1};
    signal(SIGBUS, m->handler);
    return tamis_guard_install(&diag) || diag.code ? 1
           : m->sent                               ? raise(SIGBUS)
                                                   : touch_page(foreign_page(NULL));
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
    killed_in_child(meet_guarded, &(struct met){SIG_DFL, false});
    killed_in_child(meet_guarded, &(struct met){SIG_DFL, true});
    killed_in_child(meet_guarded, &(struct met){SIG_IGN, false});
    in_child(meet_guarded, &(struct met){SIG_IGN, true});
    killed_in_child(one_shot, NULL);
    in_child(one_shot_removed, NULL);
}

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
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO};
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
    handler_is(later);
    seen.n = 0;
    fault_elsewhere();
    IS(seen.n, 101);
    OK(tamis_guard_install(NULL));
    handler_is(beneath.sa_sigaction);
    fault_elsewhere();
    IS(seen.n, 202);
    tamis_filter_close(f);
    f = cut_filter(path_of("later-2"));
    IS(count_absent(f, keys, N_KEYS), 0);
    IS(seen.n, 202);
    tamis_filter_close(f);
    for (int i = 0; i < 100; i++) { /* and no end of it */
        tamis_guard_remove();
        handler_is(later);
        OK(tamis_guard_install(NULL));
    }
    /* Someone who cleared the table does not keep it from coming back. */
    signal(SIGBUS, SIG_DFL);
    OK(tamis_guard_install(NULL));
    assert_true(handler_is(beneath.sa_sigaction) & SA_ONSTACK);
    tamis_guard_remove();
    guard_off();
    handler_is(NULL);
}

/* One that chained is gone, and one that does not has come: the guard is nowhere,
 * though it was never taken out. */
TEST_WITH(NULL, end_guarded, test_later_handler_that_does_not_pass_on)
{
    struct sigaction above = {.sa_sigaction = later, .sa_flags = SA_SIGINFO};
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
    handler_is(earlier_info);
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
    handler_is(NULL);
}

/* The guard above a handler that is above the guard. Handlers leave by a jump, fault
 * themselves, and run on another stack: each fault is the upper handler's, once. */
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
