/* Fork handlers (R14) after a registration that failed. */
#include "store_support.h"

#include <pthread.h>

/* ---- registrations, counted and made to fail ---- */

typedef void handler(void);
extern void *__dso_handle;
int __register_atfork(handler *, handler *, handler *, void *);

static handler *tried[8], *installed[8];
static size_t n_tried, n_installed, fail_at;

/* In the place of libc's. */
int pthread_atfork(handler *before, handler *parent, handler *child)
{
    assert_true(n_tried < 8);
    tried[n_tried++] = before;
    if (n_tried == fail_at)
        return ENOMEM;
    int rc = __register_atfork(before, parent, child, __dso_handle);
    if (!rc)
        installed[n_installed++] = before;
    return rc;
}

static int create_one(void *ctx)
{
    (void)ctx;
    return tamis_store_create(path_of("first"), NULL, NULL);
}

/* What is registered first is locked last. Did io.c's handlers come after those of the
 * registry, a fork would take the two locks in the other order than closing a store.
 * The first test: handlers are registered once in a process. */
static void handlers_keep_their_order(void **state)
{
    struct tamis_store *s;
    (void)state;
    in_child(create_one, NULL);
    assert_int_equal(n_tried, 0);
    fail_at = 1;
    assert_int_equal(tamis_store_open(path_of("first"), &s, NULL), ENOMEM);
    s = store_open("first");
    tamis_store_close(s);
    assert_int_equal(n_installed, 2);
    assert_true(installed[0] == tried[0] && installed[1] != tried[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_keep_their_order),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
