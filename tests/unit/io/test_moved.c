/* A copy takes the name of a growing filter's file while the filter is open, and a
 * writer goes on in the copy (SPEC.md 9.1, 13.5): keys that it acknowledges are in no
 * file that the reader has, so the reader must not call them ABSENT. */
#include "tests/support/moved_support.h"

/* It may have seen the file before a copy took the name. */
TEST(a_look_that_was_held_up_clears_nothing)
{
    struct looks l = {.told = 0};
    uint64_t ms = 1000000, now = look_clock();
    look_note(&l, now, TAMIS_NO_REASON);
    look_note(&l, now + 2 * ms, TAMIS_UNREADABLE);
    look_note(&l, now + ms, TAMIS_NO_REASON);
    IS(looks_known(&l), TAMIS_UNREADABLE);
    look_note(&l, now + 3 * ms, TAMIS_NO_REASON);
    IS(looks_known(&l), TAMIS_NO_REASON);
    look_note(&l, now + 4 * ms, TAMIS_MISMATCH);
    look_note(&l, now + 5 * ms, TAMIS_NO_REASON);
    IS(looks_known(&l), TAMIS_MISMATCH);
}

TEST(a_copy_that_takes_the_name_is_noticed)
{
    const char *path = make();
    FILTER f = open_filter(path);
    filter_must_say(f, TAMIS_NO_REASON); /* it lacks them, and looks */
    OK(link(path, path_of("old")));
    replace(path);
    go_on_in(open_writer(path));
    pass(1000);
    filter_must_say(f, TAMIS_MISMATCH);
    OK(rename(path_of("old"), path)); /* nobody says what came meanwhile */
    pass(1000);
    filter_must_say(f, TAMIS_MISMATCH);
}

TEST(every_way_notices_by_itself)
{
    enum { WAYS = 3 };
    for (int way = 0; way < WAYS; way++) {
        const char *path = make();
        FILTER f = open_filter(path);
        uint64_t tag = filter_domain(f).tag, bits[2] = {0};
        struct tamis_key k = {.tag = tag, .hash = keys[BEFORE]};
        struct tamis_explanation told;
        filter_must_say(f, TAMIS_NO_REASON);
        replace(path);
        go_on_in(open_writer(path));
        pass(1000);
        size_t n = way == 0   ? tamis_filter_probe(f, &k, NULL)
                   : way == 1 ? tamis_filter_probe_batch(f, tag, keys + BEFORE, AFTER,
                                                         bits, NULL)
                              : tamis_filter_explain(f, &k, &told);
        IS(n, 0);
        IS(bits[0] | bits[1], 0);
    }
}

TEST(a_filter_without_a_name_goes_on)
{
    const char *path = make();
    FILTER f;
    FD fd = open_to_read(path);
    OK(tamis_filter_open(NULL, INSIDE(.fd = fd), &f, NULL));
    replace(path);
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
}

/* The reader's file is sealed, by its other name, or by its first one, which it has
 * again; the keys are in the copy. */
TEST(nor_does_a_seal_hide_it)
{
    for (int known = 0; known < 3; known++) {
        const char *path = make();
        unlink(path_of("old"));
        OK(link(path, path_of("old")));
        FILTER f = open_filter(path);
        filter_must_say(f, TAMIS_NO_REASON);
        replace(path);
        go_on_in(open_writer(path));
        if (known)
            pass(1000), filter_must_say(f, TAMIS_MISMATCH);
        if (known == 2)
            OK(rename(path_of("old"), path));
        struct tamis_writer *w = open_writer(known == 2 ? path : path_of("old"));
        seal_and_close(w, 2);
        filter_must_say(f, TAMIS_MISMATCH);
    }
}

/* Neither by who opened it before the seal nor by who opens it afterwards. */
TEST(after_a_seal_there_is_no_look)
{
    const char *path = make();
    FILTER f = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    filter_must_say(f, TAMIS_NO_REASON);
    seal_and_close(w, 2);
    filter_must_say(f, TAMIS_NO_REASON);
    FILTER later = open_filter(path);
    n_looks = 0;
    replace(path);
    pass(1000);
    filter_must_say(f, TAMIS_NO_REASON);
    filter_must_say(later, TAMIS_NO_REASON);
    IS(n_looks, 0);
}

TEST(a_look_that_fails_is_no_proof_of_either)
{
    const int errors[] = {EACCES, EIO};
    FILTER f = open_filter(make());
    for (size_t i = 0; i < 2; i++) {
        filter_must_say(f, TAMIS_NO_REASON);
        pass(1000);
        look_error = errors[i];
        filter_must_say(f, TAMIS_UNREADABLE);
        look_error = 0;
    }
    filter_must_say(f, TAMIS_NO_REASON);
}

TEST(between_looks_there_is_no_system_call)
{
    FILTER f = open_filter(make());
    filter_must_say(f, TAMIS_NO_REASON);
    n_looks = 0;
    pass(499);
    filter_must_say(f, TAMIS_NO_REASON);
    IS(n_looks, 0);
    pass(1);
    filter_must_say(f, TAMIS_NO_REASON);
    IS(n_looks, 1);
}

/* A time namespace of a child's own, a process that was saved and restored. */
TEST(a_clock_that_is_set_back_is_noticed)
{
    for (unsigned back = 2; back <= 1000; back *= 10) {
        const char *path = make();
        pass(1000000);
        FILTER f = open_filter(path);
        filter_must_say(f, TAMIS_NO_REASON);
        set_back(back);
        n_looks = 0;
        filter_must_say(f, TAMIS_NO_REASON);
        IS(n_looks, 1);
        pass(1000);
        look_error = EIO;
        filter_must_say(f, TAMIS_UNREADABLE);
        look_error = 0;
        pass(1000);
        filter_must_say(f, TAMIS_NO_REASON);
        set_back(back);
        replace(path);
        filter_must_say(f, TAMIS_MISMATCH);
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

TEST(no_probe_waits_for_a_look)
{
    const char *path = make();
    enum tamis_reason why;
    asked = open_filter(path);
    filter_must_say(asked, TAMIS_NO_REASON);
    pass(500);
    in_the_look = ask_meanwhile;
    nested = TAMIS_UNREADABLE;
    ask(asked, keys[BEFORE], &why);
    IS(nested, TAMIS_NO_REASON);
    IS(why, TAMIS_NO_REASON);
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

static int ask_in_child(void *path)
{
    filter_must_say(asked, TAMIS_NO_REASON);
    replace(path);
    pass(1000);
    filter_must_say(asked, TAMIS_MISMATCH);
    return 0;
}

TEST(a_child_looks_on)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", make());
    asked = open_filter(path);
    filter_must_say(asked, TAMIS_NO_REASON);
    in_child(ask_in_child, path);
    tamis_filter_close(asked);
}

/* Two writers, two files, one name: only one of them is told that its keys are in. */
TEST(a_writer_of_a_lost_file_is_told)
{
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
        IS(rc, TAMIS_ERR_REPLACED);
        IS(diag.code, rc);
        assert_non_null(strstr(diag.what, "open it again"));
        tamis_writer_close(w, NULL);
        go_on_in(other);
    }
}

TEST(and_one_that_cannot_look)
{
    WRITER w = open_writer(make());
    look_error = EIO;
    IS(tamis_writer_commit(w, 2, NULL), EIO);
    look_error = 0;
    OK(tamis_writer_commit(w, 2, NULL));
}

TEST(a_writer_that_creates_knows_its_name)
{
    const char *path = path_of("f");
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, 100);
    OK(tamis_writer_commit(w, 1, NULL));
    replace(path);
    IS(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_REPLACED);
    tamis_writer_close(w, NULL);
}

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
    tamis_writer_close(w, NULL);
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

RUN_TESTS(set_up, test_dir_remove)
