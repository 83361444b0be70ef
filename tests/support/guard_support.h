/* For tests of the SIGBUS guard: truncated files, mappings that belong to nobody, and
 * children that are killed. */
#ifndef TAMIS_TESTS_GUARD_SUPPORT_H
#define TAMIS_TESTS_GUARD_SUPPORT_H

#include "filters.h"

/* cmocka handles SIGBUS itself while a test runs, so the guard comes and goes inside
 * the test; after a failure its end does what the test did not come to. */
static struct sigaction the_guard;
static bool guard_is_on;

static UNUSED void guard_on(void)
{
    OK(tamis_guard_install(NULL));
    OK(sigaction(SIGBUS, NULL, &the_guard));
    guard_is_on = true;
}

static UNUSED void guard_off(void)
{
    tamis_guard_remove();
    guard_is_on = false;
}

static UNUSED int end_guarded(void **state)
{
    if (guard_is_on) {
        sigaction(SIGBUS, &the_guard, NULL);
        guard_off();
    }
    return 0;
}

#define TEST_WITH_GUARD(name)                                                          \
    static void name(void **state);                                                    \
    static void name##_with_guard(void **state)                                        \
    {                                                                                  \
        guard_on();                                                                    \
        name(state);                                                                   \
        guard_off();                                                                   \
    }                                                                                  \
    LIST_TEST(name, {#name, name##_with_guard, NULL, end_guarded, NULL})               \
    static void name(void **state)

static UNUSED void cut(const char *path, uint64_t n_bytes)
{
    OK(truncate(path, (off_t)n_bytes));
}

/* The commit record that counts, of a file that has less than it promises. */
static UNUSED struct commit commit_of_cut(const char *path)
{
    uint8_t header[HEADER_MAX_BYTES];
    struct identity id;
    struct commit c;
    struct slot_health health;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    IS(pread(fd, header, sizeof header, 0), sizeof header);
    close(fd);
    IS(identity_decode(header, sizeof header, &id).code, VERDICT_OK);
    IS(commit_choose_slot(header, &id, INT64_MAX, &c, &health).code, VERDICT_OK);
    return c;
}

/* The page of the stage that the hash is about in a lane. */
static UNUSED uint64_t page_in(const struct geometry *g, uint32_t lane, uint64_t hash)
{
    for (uint32_t i = 0; i < lane; i++)
        hash = geometry_next_lane(hash);
    return geometry_block_offset(g, lane, hash) / PAGE_BYTES;
}

/* Does what the handler does when a thread faults on this page. */
static UNUSED void lose(const void *at)
{
    assert_true(lost_replace((uintptr_t)at));
}

static UNUSED void build_filter(const char *path, const uint64_t *hashes, size_t n)
{
    struct tamis_domain domain = domain_of(7);
    BUILD(path, hashes, n, .domain = &domain);
}

/* A page of a file without a byte, which is no filter's: to touch it is SIGBUS. It is
 * at `at`, unless that is NULL. */
static UNUSED uint8_t *foreign_page(void *at)
{
    const char *path = path_of("foreign");
    FD fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    uint8_t *p = mmap(at, 4096, PROT_READ, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static UNUSED int touch_page(void *page)
{
    return *(volatile uint8_t *)page;
}

/* Runs fn in a child, which SIGBUS must kill. */
static UNUSED void killed_in_child(int (*fn)(void *), void *ctx)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        _exit(fn(ctx));
    }
    IS(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS)
        fail_msg("the child was not killed by SIGBUS: status %#x", (unsigned)status);
}

#endif
