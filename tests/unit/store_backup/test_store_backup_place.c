/* Where a backup goes: file systems that cannot do all, and names that are taken while
 * it is made. */
#include "tests/support/shop/shop.h"

/* Called just before the backup gets its name. */
static void (*at_naming)(void);

static void in_the_way(void)
{
    file_write(path_of("b"), "mine", 4);
}

static void directory_in_the_way(void)
{
    OK(mkdir(path_of("b"), 0700));
    file_write(path_of("b/file"), "mine", 4);
}

static int poor_rename(int from_dir, const char *from, int to_dir, const char *to,
                       unsigned flags)
{
    if (at_naming && strcmp(to, "b") == 0) {
        at_naming();
        at_naming = NULL;
    }
    if (flags)
        return errno = EINVAL, -1;
    return calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

static int no_link(int from_dir, const char *from, int to_dir, const char *to,
                   int flags)
{
    return errno = EPERM, -1;
}

static void on_a_poor_file_system(const char *text)
{
    calls_before = io_calls;
    io_calls.renameat2 = poor_rename;
    io_calls.linkat = no_link;
    steps("%s", text);
    io_calls = calls_before;
}

#define A_AND_G "put a 0 10 binding=A rank=1; growing g; grow g 10 10 1;"

TEST_OF_SCENES(no_hard_links_and_no_careful_rename)
{
    scene("no hard links");
    steps(A_AND_G);
    on_a_poor_file_system("backup b");
    IS(count_files(test_dir), 2);
    IS(count_files(path_of("b")), 2);
    on_a_poor_file_system("use b; has a 0 10; has g 10 10"); /* without a lock file */
}

TEST_OF_SCENES(what_appears_meanwhile_stays)
{
    static void (*const ways[])(void) = {in_the_way, directory_in_the_way};
    for (size_t i = 0; i < 2; i++) {
        scene("something of that name");
        steps(A_AND_G);
        at_naming = ways[i];
        on_a_poor_file_system("fails EXISTS backup b");
        assert_null(at_naming);
        IS(count_files(test_dir), 2); /* s, and that */
        file_has(path_of(i ? "b/file" : "b"), "mine", 4);
    }
}

RUN_TESTS(NULL, NULL)
