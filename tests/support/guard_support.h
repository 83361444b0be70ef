/* For tests of the SIGBUS guard: truncated files, mappings that belong to nobody, and
 * children that are killed. */
#ifndef TAMIS_TESTS_GUARD_SUPPORT_H
#define TAMIS_TESTS_GUARD_SUPPORT_H

#include "support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* cmocka handles SIGBUS itself while a test runs, so the guard comes and goes inside
 * the test; after a failure its end does what the test did not come to. */
struct guarded_test {
    void (*run)(void **state);
};
static struct sigaction the_guard;
static bool guard_is_on;

static UNUSED void guard_on(void)
{
    assert_int_equal(tamis_guard_install(NULL), 0);
    assert_int_equal(sigaction(SIGBUS, NULL, &the_guard), 0);
    guard_is_on = true;
}

static UNUSED void guard_off(void)
{
    tamis_guard_remove();
    guard_is_on = false;
}

static UNUSED void run_guarded(void **state)
{
    struct guarded_test *test = *state;
    guard_on();
    test->run(state);
    guard_off();
}

static UNUSED int end_guarded(void **state)
{
    (void)state;
    if (guard_is_on) {
        sigaction(SIGBUS, &the_guard, NULL);
        guard_off();
    }
    return 0;
}

#define TEST_WITH_GUARD(f)                                                             \
    {                                                                                  \
#f, run_guarded, NULL, end_guarded, &(struct guarded_test)                     \
        {                                                                              \
            f                                                                          \
        }                                                                              \
    }

static UNUSED void cut(const char *path, uint64_t n_bytes)
{
    assert_int_equal(truncate(path, (off_t)n_bytes), 0);
}

/* The commit record that counts, of a file that has less than it promises. */
static UNUSED struct commit commit_of_cut(const char *path)
{
    uint8_t header[HEADER_MAX_BYTES];
    struct identity id;
    struct commit c;
    struct slot_health health;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, header, sizeof header, 0), sizeof header);
    close(fd);
    assert_int_equal(identity_decode(header, sizeof header, &id).code, VERDICT_OK);
    assert_int_equal(commit_choose_slot(header, &id, INT64_MAX, &c, &health).code,
                     VERDICT_OK);
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

static UNUSED void build_with_error(const char *path, const uint64_t *hashes, size_t n,
                                    double error)
{
    struct tamis_domain domain;
    tamis_domain_init(&domain, 1, 7);
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &domain, .error = error};
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, hashes, n), 0);
    assert_int_equal(tamis_builder_finish_file(b, path, NULL), 0);
    tamis_builder_free(b);
}

static UNUSED void build_filter(const char *path, const uint64_t *hashes, size_t n)
{
    build_with_error(path, hashes, n, 0);
}

/* A page of a file that is nobody's and has no byte: to touch it is SIGBUS. At `at` if
 * that is not NULL. */
static UNUSED uint8_t *foreign_page(void *at)
{
    const char *path = path_of("foreign");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    uint8_t *p = mmap(at, 4096, PROT_READ, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    close(fd);
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
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS)
        fail_msg("the child was not killed by SIGBUS: status %#x", (unsigned)status);
}

#endif
