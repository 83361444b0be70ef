/* The name that a reader of a growing filter looks at, and its answer to what it finds
 * there (SPEC.md 13.5). test_moved.c has the looks. */
#include "tests/support/moved_support.h"

TEST(the_path_is_the_one_that_was_given)
{
    char before[1024];
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

TEST(a_mount_may_hide_the_working_directory)
{
    char before[1024];
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

TEST(a_name_that_is_gone_is_no_fault)
{
    const char *path = make();
    FILTER f = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    OK(rename(path, path_of("elsewhere")));
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
    go_on_in(w);
    IS(count_absent(f, keys, BEFORE + AFTER), 0);
    OK(unlink(path_of("elsewhere")));
    pass(1000);
    IS(count_absent(f, keys, BEFORE + AFTER), 0);
}

/* As a mount of the file does (a container's, perhaps), this path goes on naming it. */
static const char *path_of_open(const char *path)
{
    static char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", open(path, O_RDONLY | O_CLOEXEC));
    return link;
}

TEST(a_name_that_holds_on_to_the_file_hides_nothing)
{
    const char *path = make(), *held = path_of_open(path);
    FILTER f = open_filter(held);
    struct tamis_writer *w = open_writer(held);
    OK(tamis_writer_commit(w, 1, NULL));
    filter_must_say(f, TAMIS_NO_REASON);
    replace(path);
    go_on_in(open_writer(path));
    pass(1000);
    filter_must_say(f, TAMIS_UNREADABLE);
    IS(tamis_writer_commit(w, 2, NULL), ESTALE);
    tamis_writer_close(w);
}

TEST(nor_need_a_file_be_in_a_directory)
{
    const char *path = make(), *held = path_of_open(path);
    OK(unlink(path));
    FILTER f = open_filter(held);
    filter_must_say(f, TAMIS_NO_REASON);
    go_on_in(open_writer(held));
    pass(1000);
    IS(count_absent(f, keys, BEFORE + AFTER), 0);
}

int main(void)
{
    random_hashes(keys, BEFORE + AFTER);
    return run_listed_tests(test_dir_create, test_dir_remove);
}
