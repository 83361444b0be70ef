/* A copy takes the name of a growing filter's file while the filter is open, and a
 * writer goes on in the copy (SPEC.md 8.6): keys that it acknowledges are in no file
 * that the reader has, so the reader must not call them ABSENT. */
#include "tests/support/moved_support.h"

#include <pthread.h>

/* What must be said of the keys that came later, in every way to ask. */
static void filter_must_say(struct tamis_filter *f, enum tamis_reason want)
{
    size_t absent = want == TAMIS_NO_REASON ? AFTER : 0;
    uint64_t tag = tamis_filter_domain(f).tag, bits[AFTER / 64 + 1];
    struct tamis_key k[AFTER];
    struct tamis_explanation told;
    enum tamis_reason why;
    for (size_t i = 0; i < AFTER; i++) {
        k[i] = tamis_key_of_hash(tag, keys[BEFORE + i]);
        bool said = tamis_filter_probe(f, &k[i], &why) == TAMIS_ABSENT;
        assert_int_equal(why, want);
        assert_int_equal(said, absent != 0);
    }
    assert_int_equal(tamis_filter_probe_batch(f, tag, keys + BEFORE, AFTER, bits, &why),
                     absent);
    assert_int_equal(why, want);
    assert_int_equal(tamis_filter_probe_keys(f, k, AFTER, bits, &why), absent);
    assert_int_equal(why, want);
    assert_int_equal(tamis_filter_explain(f, &k[0], &told), absent != 0);
    assert_int_equal(told.reason, want);
    assert_int_equal(count_absent(f, keys, BEFORE), 0);
}

/* ---- a filter by its path ---- */

static void a_copy_that_takes_the_name_is_noticed(void **state)
{
    (void)state;
    const char *path = make();
    struct tamis_filter *f = open_filter(path);
    filter_must_say(f, TAMIS_NO_REASON); /* it lacks them, and looks */
    OK(link(path, path_of("old")));
    replace(path);
    go_on_in(open_writer(path));
    pass(1000);
    filter_must_say(f, TAMIS_MISMATCH);
    OK(rename(path_of("old"), path)); /* nobody says what came meanwhile */
    pass(1000);
    filter_must_say(f, TAMIS_MISMATCH);
    tamis_filter_close(f);
}

static void every_way_notices_by_itself(void **state)
{
    enum { WAYS = 4 };
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        const char *path = make();
        struct tamis_filter *f = open_filter(path);
        uint64_t tag = tamis_filter_domain(f).tag, bits[2] = {0};
        struct tamis_key k = tamis_key_of_hash(tag, keys[BEFORE]);
        struct tamis_explanation told;
        filter_must_say(f, TAMIS_NO_REASON);
        replace(path);
        go_on_in(open_writer(path));
        pass(1000);
        size_t n = way == 0   ? tamis_filter_probe(f, &k, NULL)
                   : way == 1 ? tamis_filter_probe_batch(f, tag, keys + BEFORE, AFTER,
                                                         bits, NULL)
                   : way == 2 ? tamis_filter_probe_keys(f, &k, 1, bits, NULL)
                              : tamis_filter_explain(f, &k, &told);
        assert_int_equal(n, 0);
        assert_int_equal(bits[0] | bits[1], 0);
        tamis_filter_close(f);
    }
}

static void the_path_is_the_one_that_was_given(void **state)
{
    char before[1024];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    OK(mkdir(path_of("d"), 0777));
    make_at(path_of("d/f"));
    OK(symlink("d", path_of("link")));
    OK(chdir(test_dir));
    struct tamis_filter *relative = open_filter("d/f"), *linked = open_filter("link/f");
    OK(chdir("/"));
    filter_must_say(relative, TAMIS_NO_REASON);
    filter_must_say(linked, TAMIS_NO_REASON);
    /* A link that leads to another directory leads to another file. */
    OK(mkdir(path_of("e"), 0777));
    file_copy(path_of("d/f"), path_of("e/f"));
    OK(unlink(path_of("link")));
    OK(symlink("e", path_of("link")));
    pass(1000);
    filter_must_say(relative, TAMIS_NO_REASON);
    filter_must_say(linked, TAMIS_MISMATCH);
    /* The directory itself. */
    OK(rename(path_of("d"), path_of("was")));
    OK(rename(path_of("e"), path_of("d")));
    pass(1000);
    filter_must_say(relative, TAMIS_MISMATCH);
    tamis_filter_close(relative);
    tamis_filter_close(linked);
    OK(chdir(before));
}

static void a_name_that_is_gone_is_no_fault(void **state)
{
    (void)state;
    const char *path = make();
    struct tamis_filter *f = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    OK(rename(path, path_of("elsewhere")));
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
    go_on_in(w);
    assert_int_equal(count_absent(f, keys, BEFORE + AFTER), 0);
    OK(unlink(path_of("elsewhere")));
    pass(1000);
    assert_int_equal(count_absent(f, keys, BEFORE + AFTER), 0);
    tamis_filter_close(f);
}

static void a_filter_without_a_name_goes_on(void **state)
{
    (void)state;
    const char *path = make();
    struct tamis_filter *f;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    OK(tamis_filter_open_fd(fd, 0, 0, NULL, &f, NULL));
    replace(path);
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
    close(fd);
    tamis_filter_close(f);
}

static void a_sealed_filter_is_not_looked_at(void **state)
{
    (void)state;
    const char *path = make();
    struct tamis_writer *w = open_writer(path);
    OK(tamis_writer_seal(w, 2, NULL, NULL));
    OK(tamis_writer_close(w));
    struct tamis_filter *f = open_filter(path);
    replace(path);
    n_looks = 0;
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 0);
    tamis_filter_close(f);
}

/* The reader's file is sealed, by its other name; the keys are in the copy. */
static void nor_does_a_seal_hide_it(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        const char *path = make();
        unlink(path_of("old"));
        OK(link(path, path_of("old")));
        struct tamis_filter *f = open_filter(path);
        filter_must_say(f, TAMIS_NO_REASON);
        replace(path);
        go_on_in(open_writer(path));
        if (known)
            pass(1000), filter_must_say(f, TAMIS_MISMATCH);
        struct tamis_writer *w = open_writer(path_of("old"));
        OK(tamis_writer_seal(w, 2, NULL, NULL));
        OK(tamis_writer_close(w));
        filter_must_say(f, TAMIS_MISMATCH);
        tamis_filter_close(f);
    }
}

static void after_a_seal_there_is_no_look(void **state)
{
    (void)state;
    const char *path = make();
    struct tamis_filter *f = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    filter_must_say(f, TAMIS_NO_REASON);
    OK(tamis_writer_seal(w, 2, NULL, NULL));
    OK(tamis_writer_close(w));
    filter_must_say(f, TAMIS_NO_REASON);
    n_looks = 0;
    replace(path);
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 0);
    tamis_filter_close(f);
}

/* As a mount of the file does (a container's, perhaps), this path goes on naming it. */
static const char *path_of_open(const char *path)
{
    static char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", open(path, O_RDONLY | O_CLOEXEC));
    return link;
}

static void a_name_that_holds_on_to_the_file_hides_nothing(void **state)
{
    (void)state;
    const char *path = make(), *held = path_of_open(path);
    struct tamis_filter *f = open_filter(held);
    struct tamis_writer *w = open_writer(held);
    OK(tamis_writer_commit(w, 1, NULL));
    filter_must_say(f, TAMIS_NO_REASON);
    replace(path);
    go_on_in(open_writer(path));
    pass(1000);
    filter_must_say(f, TAMIS_UNREADABLE);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), ESTALE);
    tamis_writer_close(w);
    tamis_filter_close(f);
}

static void nor_need_a_file_be_in_a_directory(void **state)
{
    (void)state;
    const char *path = make(), *held = path_of_open(path);
    OK(unlink(path));
    struct tamis_filter *f = open_filter(held);
    filter_must_say(f, TAMIS_NO_REASON);
    go_on_in(open_writer(held));
    pass(1000);
    assert_int_equal(count_absent(f, keys, BEFORE + AFTER), 0);
    tamis_filter_close(f);
}

/* ---- looks ---- */

static void a_look_that_fails_is_no_proof_of_either(void **state)
{
    (void)state;
    const int errors[] = {EACCES, EIO};
    struct tamis_filter *f = open_filter(make());
    for (size_t i = 0; i < 2; i++) {
        filter_must_say(f, TAMIS_NO_REASON);
        pass(1000);
        look_error = errors[i];
        filter_must_say(f, TAMIS_UNREADABLE);
        look_error = 0;
    }
    filter_must_say(f, TAMIS_NO_REASON);
    tamis_filter_close(f);
}

static void between_looks_there_is_no_system_call(void **state)
{
    (void)state;
    struct tamis_filter *f = open_filter(make());
    filter_must_say(f, TAMIS_NO_REASON);
    n_looks = 0;
    pass(499);
    filter_must_say(f, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 0);
    pass(1);
    filter_must_say(f, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 1);
    tamis_filter_close(f);
}

/* A time namespace of a child's own, a process that was saved and restored. */
static void a_clock_that_is_set_back_is_noticed(void **state)
{
    (void)state;
    for (unsigned back = 2; back <= 1000; back *= 10) {
        const char *path = make();
        pass(1000000);
        struct tamis_filter *f = open_filter(path);
        filter_must_say(f, TAMIS_NO_REASON);
        nanoseconds -= back * UINT64_C(1000000000);
        n_looks = 0;
        filter_must_say(f, TAMIS_NO_REASON);
        assert_int_equal(n_looks, 1);
        pass(1000);
        look_error = EIO;
        filter_must_say(f, TAMIS_UNREADABLE);
        look_error = 0;
        pass(1000);
        filter_must_say(f, TAMIS_NO_REASON);
        nanoseconds -= back * UINT64_C(1000000000);
        replace(path);
        filter_must_say(f, TAMIS_MISMATCH);
        tamis_filter_close(f);
    }
}

static sigjmp_buf out;
static struct tamis_filter *asked;
static enum tamis_reason nested;

static void jump_out(void)
{
    siglongjmp(out, 1);
}

static void ask_meanwhile(void)
{
    ask(asked, keys[BEFORE], &nested);
}

static void no_probe_waits_for_a_look(void **state)
{
    (void)state;
    const char *path = make();
    enum tamis_reason why;
    asked = open_filter(path);
    filter_must_say(asked, TAMIS_NO_REASON);
    pass(500);
    in_the_look = ask_meanwhile;
    nested = TAMIS_UNREADABLE;
    ask(asked, keys[BEFORE], &why);
    assert_int_equal(nested, TAMIS_NO_REASON);
    assert_int_equal(why, TAMIS_NO_REASON);
    pass(500);
    in_the_look = jump_out;
    if (sigsetjmp(out, 0) == 0)
        ask(asked, keys[BEFORE], &why);
    assert_null(in_the_look);
    filter_must_say(asked, TAMIS_NO_REASON);
    replace(path);
    pass(500); /* what was known is not valid any more */
    filter_must_say(asked, TAMIS_MISMATCH);
    tamis_filter_close(asked);
}

static void *probe_cancelled(void *why)
{
    pthread_cancel(pthread_self());
    errno = 77;
    ask(asked, keys[BEFORE], why);
    bool kept = errno == 77;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return kept ? why : NULL;
}

static void a_look_is_no_cancellation_point(void **state)
{
    (void)state;
    const char *path = make();
    enum tamis_reason why;
    pthread_t thread;
    void *result;
    asked = open_filter(path);
    unlink(path); /* so that the look fails, and sets errno */
    n_looks = 0;
    OK(pthread_create(&thread, NULL, probe_cancelled, &why));
    OK(pthread_join(thread, &result));
    assert_ptr_equal(result, &why);
    assert_int_equal(why, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 1);
    tamis_filter_close(asked);
}

static int ask_in_child(void *path)
{
    filter_must_say(asked, TAMIS_NO_REASON);
    replace(path);
    pass(1000);
    filter_must_say(asked, TAMIS_MISMATCH);
    return 0;
}

static void a_child_looks_on(void **state)
{
    char path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s", make());
    asked = open_filter(path);
    filter_must_say(asked, TAMIS_NO_REASON);
    in_child(ask_in_child, path);
    tamis_filter_close(asked);
}

/* ---- writers ---- */

/* Two writers, two files, one name: only one of them is told that its keys are in. */
static void a_writer_of_a_lost_file_is_told(void **state)
{
    (void)state;
    for (int seal = 0; seal < 2; seal++) {
        const char *path = make();
        struct tamis_diag diag = {0};
        struct tamis_writer *w = open_writer(path);
        add_hashes(w, keys + BEFORE, AFTER / 2);
        OK(tamis_writer_commit(w, 2, NULL));
        replace(path);
        struct tamis_writer *other = open_writer(path);
        add_hashes(w, keys + BEFORE, AFTER);
        int rc = seal ? tamis_writer_seal(w, 3, NULL, &diag)
                      : tamis_writer_commit(w, 3, &diag);
        assert_int_equal(rc, TAMIS_ERR_REPLACED);
        assert_int_equal(diag.code, rc);
        assert_non_null(strstr(diag.what, "open it again"));
        tamis_writer_close(w);
        go_on_in(other);
    }
}

static void and_one_that_cannot_look(void **state)
{
    (void)state;
    struct tamis_writer *w = open_writer(make());
    look_error = EIO;
    assert_int_equal(tamis_writer_commit(w, 2, NULL), EIO);
    look_error = 0;
    OK(tamis_writer_commit(w, 2, NULL));
    OK(tamis_writer_close(w));
}

static void a_writer_that_creates_knows_its_name(void **state)
{
    (void)state;
    const char *path = path_of("f");
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, 100);
    OK(tamis_writer_commit(w, 1, NULL));
    replace(path);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_REPLACED);
    tamis_writer_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_that_takes_the_name_is_noticed),
        cmocka_unit_test(every_way_notices_by_itself),
        cmocka_unit_test(the_path_is_the_one_that_was_given),
        cmocka_unit_test(a_name_that_is_gone_is_no_fault),
        cmocka_unit_test(a_filter_without_a_name_goes_on),
        cmocka_unit_test(a_sealed_filter_is_not_looked_at),
        cmocka_unit_test(nor_does_a_seal_hide_it),
        cmocka_unit_test(after_a_seal_there_is_no_look),
        cmocka_unit_test(a_name_that_holds_on_to_the_file_hides_nothing),
        cmocka_unit_test(nor_need_a_file_be_in_a_directory),
        cmocka_unit_test(a_look_that_fails_is_no_proof_of_either),
        cmocka_unit_test(between_looks_there_is_no_system_call),
        cmocka_unit_test(a_clock_that_is_set_back_is_noticed),
        cmocka_unit_test(no_probe_waits_for_a_look),
        cmocka_unit_test(a_look_is_no_cancellation_point),
        cmocka_unit_test(a_child_looks_on),
        cmocka_unit_test(a_writer_of_a_lost_file_is_told),
        cmocka_unit_test(and_one_that_cannot_look),
        cmocka_unit_test(a_writer_that_creates_knows_its_name),
    };
    random_hashes(keys, BEFORE + AFTER);
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
