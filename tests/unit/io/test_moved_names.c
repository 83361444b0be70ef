/* The name that a reader of a growing filter looks at, and its answer to what it finds
 * there (SPEC.md 13.5). test_moved.c has the looks. */
#include "tests/support/moved_support.h"

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

static const char *hidden; /* the kernel gives this path, and another mount is there */

char *realpath(const char *restrict path, char *restrict resolved)
{
    if (hidden && strcmp(path, ".") == 0)
        return strdup(hidden);
    assert_null(resolved);
    return canonicalize_file_name(path);
}

static void a_mount_may_hide_the_working_directory(void **state)
{
    char before[1024];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    make();
    OK(mkdir(path_of("empty"), 0777));
    OK(chdir(test_dir));
    hidden = path_of("empty");
    struct tamis_filter *f = open_filter("f");
    hidden = NULL;
    OK(chdir("/"));
    filter_must_say(f, TAMIS_NO_REASON);
    replace(path_of("f"));
    go_on_in(open_writer(path_of("f")));
    pass(1000);
    filter_must_say(f, TAMIS_MISMATCH);
    tamis_filter_close(f);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_the_one_that_was_given),
        cmocka_unit_test(a_mount_may_hide_the_working_directory),
        cmocka_unit_test(a_name_that_is_gone_is_no_fault),
        cmocka_unit_test(a_name_that_holds_on_to_the_file_hides_nothing),
        cmocka_unit_test(nor_need_a_file_be_in_a_directory),
    };
    random_hashes(keys, BEFORE + AFTER);
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
