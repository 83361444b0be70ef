/* Tests that list themselves, and one main() for them. TEST(name) { ... } runs after
 * the tests above it in its file, and RUN_TESTS() ends the file. */
#ifndef TAMIS_TESTS_UNIT_UNIT_H
#define TAMIS_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>

#define UNUSED      __attribute__((unused))
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Tests, fixtures, handlers and stand-ins for system calls take what their caller
 * gives. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { TESTS_MAX = 100 };
static struct CMUnitTest listed_tests[TESTS_MAX];
static int places_in_file[TESTS_MAX];
static size_t n_listed_tests;

/* Constructors run in an order that nobody promises. */
static UNUSED void list_test(const struct CMUnitTest *test, int place)
{
    size_t i = n_listed_tests++;
    if (i >= TESTS_MAX)
        abort();
    for (; i && places_in_file[i - 1] > place; i--) {
        listed_tests[i] = listed_tests[i - 1];
        places_in_file[i] = places_in_file[i - 1];
    }
    listed_tests[i] = *test;
    places_in_file[i] = place;
}

/* The rest is the initializer of a struct CMUnitTest. */
#define LIST_TEST(name, ...)                                                           \
    static void name(void **state);                                                    \
    __attribute__((constructor)) static void list_##name(void)                         \
    {                                                                                  \
        static const struct CMUnitTest test = __VA_ARGS__;                             \
        list_test(&test, __COUNTER__);                                                 \
    }

#define TEST_WITH(set_up, tear_down, name)                                             \
    LIST_TEST(name, cmocka_unit_test_setup_teardown(name, set_up, tear_down))          \
    static void name(void **state)
#define TEST(name) TEST_WITH(NULL, NULL, name)

static UNUSED int run_listed_tests(int (*set_up)(void **), int (*tear_down)(void **))
{
    return _cmocka_run_group_tests(program_invocation_short_name, listed_tests,
                                   n_listed_tests, set_up, tear_down);
}

/* For a file whose main() does no more; either may be NULL. */
#define RUN_TESTS(set_up, tear_down)                                                   \
    int main(void)                                                                     \
    {                                                                                  \
        return run_listed_tests(set_up, tear_down);                                    \
    }

#define IS(a, b) assert_int_equal(a, b)
/* A call returned 0, as nearly all calls do. */
#define OK(call) IS(call, 0)

#endif
