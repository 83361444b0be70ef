/* The part of cmocka that these tests use, for machines without cmocka: the same unit
 * tests, unchanged, are compiled for other processors and run under qemu-user,
 * and installing a foreign libcmocka would change the package database of the machine
 * that builds them. Output is in cmocka's form, which tests/unit.sh counts. */
#ifndef TAMIS_TESTS_ARCH_CMOCKA_H
#define TAMIS_TESTS_ARCH_CMOCKA_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state), (*teardown)(void **state);
};

#define cmocka_unit_test_setup_teardown(f, setup, teardown)                            \
    {                                                                                  \
#f, f, setup, teardown                                                         \
    }

static jmp_buf shim_out;

__attribute__((noreturn, format(printf, 3, 4))) static inline void
shim_fail(const char *file, int line, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    printf("%s:%d: ", file, line);
    vprintf(format, ap);
    putchar('\n');
    va_end(ap);
    longjmp(shim_out, 1);
}

static inline void shim_equal(uintmax_t a, uintmax_t b, int same, const char *file,
                              int line)
{
    if ((a == b) != same)
        shim_fail(file, line, "%#" PRIxMAX " %s %#" PRIxMAX, a, same ? "!=" : "==", b);
}

#define fail()             shim_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...)      shim_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(e)     ((e) ? (void)0 : shim_fail(__FILE__, __LINE__, "false: %s", #e))
#define assert_false(e)    ((e) ? shim_fail(__FILE__, __LINE__, "true: %s", #e) : (void)0)
#define assert_null(p)     assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_int_equal(a, b)                                                         \
    shim_equal((uintmax_t)(a), (uintmax_t)(b), 1, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                     \
    shim_equal((uintmax_t)(a), (uintmax_t)(b), 0, __FILE__, __LINE__)
#define assert_ptr_equal(a, b)     assert_int_equal((uintptr_t)(a), (uintptr_t)(b))
#define assert_ptr_not_equal(a, b) assert_int_not_equal((uintptr_t)(a), (uintptr_t)(b))
#define assert_in_range(v, low, high)                                                  \
    assert_true((uintmax_t)(v) >= (uintmax_t)(low) &&                                  \
                (uintmax_t)(v) <= (uintmax_t)(high))
#define assert_memory_equal(a, b, n) assert_int_equal(memcmp(a, b, n), 0)
#define assert_string_equal(a, b)                                                      \
    (strcmp(a, b) == 0 ? (void)0                                                       \
                       : shim_fail(__FILE__, __LINE__, "\"%s\" != \"%s\"", a, b))

static inline int shim_run(const struct CMUnitTest *t, void **state)
{
    int bad = t->setup && t->setup(state) != 0;
    printf("[ RUN      ] %s\n", t->name);
    if (!bad && setjmp(shim_out) == 0)
        t->test(state);
    else
        bad = 1;
    if (t->teardown && t->teardown(state) != 0)
        bad = 1;
    printf("[  %s ] %s\n", bad ? "FAILED" : "     OK", t->name);
    fflush(stdout);
    return bad;
}

static inline int shim_group(const struct CMUnitTest *tests, size_t n,
                             int (*setup)(void **), int (*teardown)(void **))
{
    volatile int n_bad = 0;
    static void *state;
    if (setjmp(shim_out) != 0 || (setup && setup(&state) != 0)) {
        puts("[  FAILED  ] group setup");
        return 1;
    }
    for (size_t i = 0; i < n; i++)
        n_bad += shim_run(&tests[i], &state);
    if (teardown && teardown(&state) != 0)
        n_bad++;
    if (n_bad)
        printf("\n %d FAILED TEST(S)\n", n_bad);
    return n_bad;
}

#define _cmocka_run_group_tests(name, tests, n, setup, teardown)                       \
    shim_group(tests, n, setup, teardown)

#endif
