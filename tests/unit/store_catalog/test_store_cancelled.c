/* A thread that is cancelled in a call of the store leaves a store that other threads
 * and processes can use, wherever in the call it was. */
#include "tests/support/cancel_support.h"
#include "tests/support/store_support.h"

static struct tamis_store *s, *opened;
static struct tamis_edit *edit;
static struct tamis_writer *w;
static enum { NOT_MADE, CUT_SHORT, MADE } call;

static int set_up(void **state)
{
    return set_alarm(state) || test_dir_create(state);
}

static int open_and_put(void *ctx)
{
    (void)ctx;
    struct tamis_store *mine = store_open("s");
    put_segment(mine, "theirs", 0, 10);
    drop_segment(mine, "theirs");
    tamis_store_close(mine);
    return 0;
}

/* By another process, and by this one. */
static void expect_use(void)
{
    in_child(open_and_put, NULL);
    put_segment(s, "ours", 0, 10);
    assert_int_equal(reason_of(s, "ours", 3), TAMIS_HIT);
    drop_segment(s, "ours");
}

/* Cancelled at each of its system calls; `after` finds out what became of it. */
static void each_call(void (*fn)(void), void (*after)(void))
{
    unsigned long nth = 0;
    bool reached = true;
    for (; reached; nth++) {
        call = CUT_SHORT;
        reached = cancelled_at(fn, nth);
        assert_true(reached || call == MADE);
        after();
    }
    assert_true(nth > 2);
}

static void made(int rc)
{
    call = rc == 0 ? MADE : NOT_MADE;
}

static void open_it(void)
{
    made(tamis_store_open(path_of("s"), &opened, NULL));
}

static void after_open(void)
{
    assert_int_equal(call, MADE);
    tamis_store_close(opened);
    s = store_open("s");
    expect_use();
    tamis_store_close(s);
}

static void close_it(void)
{
    tamis_store_close(opened);
    call = MADE;
}

static void test_open_and_close(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    each_call(open_it, after_open);
    opened = store_open("s");
    call = CUT_SHORT;
    cancelled(close_it);
    assert_int_equal(call, MADE);
    s = store_open("s");
}

static void create_it(void)
{
    made(tamis_store_create(path_of("new"), NULL, NULL));
}

static void remove_new(void)
{
    unlink(path_of("new/catalog.lmdb"));
    unlink(path_of("new/catalog.lmdb-lock"));
    assert_int_equal(rmdir(path_of("new/filters")), 0);
    assert_int_equal(rmdir(path_of("new")), 0);
}

static void after_create(void)
{
    assert_int_not_equal(call, NOT_MADE);
    if (call == CUT_SHORT)
        OK(tamis_store_create(path_of("new"), NULL, NULL));
    tamis_store_close(store_open("new"));
    remove_new();
}

static void test_create(void **state)
{
    (void)state;
    each_call(create_it, after_create);
}

static void begin(void)
{
    made(tamis_edit_begin(s, &edit, NULL));
}

static void after_begin(void)
{
    assert_int_not_equal(call, NOT_MADE);
    if (call == MADE)
        tamis_edit_abort(edit);
    expect_use();
}

static void commit(void)
{
    made(tamis_edit_commit(edit, NULL));
}

static void put_one(void)
{
    edit = edit_new(s);
    OK(put_keys(edit, "c", 0, 10, NULL));
}

static void after_commit(void)
{
    assert_int_equal(call, MADE);
    assert_int_equal(reason_of(s, "c", 3), TAMIS_HIT);
    drop_segment(s, "c");
    expect_use();
    put_one();
}

static void test_edit(void **state)
{
    (void)state;
    each_call(begin, after_begin);
    put_one();
    each_call(commit, after_commit);
    tamis_edit_abort(edit);
}

static void confirm(void)
{
    made(tamis_store_confirm_complete(s, NULL));
}

static void after_confirm(void)
{
    assert_int_not_equal(call, NOT_MADE);
    expect_use();
}

static void test_transaction(void **state)
{
    (void)state;
    each_call(confirm, after_confirm);
}

static void open_writer_of_h(void)
{
    made(tamis_store_writer(s, "h", 1, &w, NULL));
}

static void after_writer(void)
{
    assert_int_not_equal(call, NOT_MADE);
    if (call == CUT_SHORT)
        OK(tamis_store_writer(s, "h", 1, &w, NULL));
    add_keys(w, 0, 10);
    OK(tamis_writer_close(w));
    expect_use();
}

static void test_writer(void **state)
{
    (void)state;
    put_growing(s, "h");
    each_call(open_writer_of_h, after_writer);
    tamis_store_close(s);
}

static void repair(void)
{
    made(tamis_store_repair(path_of("new"), NULL, NULL, NULL));
}

static void after_repair(void)
{
    assert_int_equal(call, MADE);
    tamis_store_close(store_open("new"));
    unlink(path_of("new/catalog.lmdb"));
}

static void test_repair(void **state)
{
    (void)state;
    OK(tamis_store_create(path_of("new"), NULL, NULL));
    s = store_open("new");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    unlink(path_of("new/catalog.lmdb"));
    each_call(repair, after_repair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_and_close), cmocka_unit_test(test_create),
        cmocka_unit_test(test_edit),           cmocka_unit_test(test_transaction),
        cmocka_unit_test(test_writer),         cmocka_unit_test(test_repair),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
