/* Two copies of the library in one process, as of a plugin and its host. Each is a
 * shared object with the whole library in it, and neither sees the other's symbols. */
#include "tests/support/store_support.h"

#include <dlfcn.h>
#include <poll.h>

struct copy {
    __typeof__(&tamis_store_open) open;
    __typeof__(&tamis_store_close) close;
    __typeof__(&tamis_edit_begin) begin;
    __typeof__(&tamis_edit_put_bare) put_bare;
    __typeof__(&tamis_edit_commit) commit;
    __typeof__(&tamis_store_info) info;
    struct tamis_store *store;
};

static void find(void *object, const char *name, void *function)
{
    void *at = dlsym(object, name);
    assert_non_null(at);
    memcpy(function, &at, sizeof at);
}

static struct copy copy_of(void *object)
{
    struct copy c = {.store = NULL};
    if (!object)
        fail_msg("%s", dlerror());
    find(object, "tamis_store_open", &c.open);
    find(object, "tamis_store_close", &c.close);
    find(object, "tamis_edit_begin", &c.begin);
    find(object, "tamis_edit_put_bare", &c.put_bare);
    find(object, "tamis_edit_commit", &c.commit);
    find(object, "tamis_store_info", &c.info);
    return c;
}

static void load_plugins(struct copy two[2])
{
    two[0] =
        copy_of(dlopen(TAMIS_BUILD_DIR "/tests/plugin_a.so", RTLD_NOW | RTLD_LOCAL));
    two[1] =
        copy_of(dlopen(TAMIS_BUILD_DIR "/tests/plugin_b.so", RTLD_NOW | RTLD_LOCAL));
    assert_true(two[0].open != two[1].open);
}

/* ---- what a copy is asked to do ---- */

static unsigned n_done, n_refused;

static int put(struct copy *c)
{
    char name[16];
    struct tamis_edit *e;
    int rc = c->begin(c->store, NULL, &e, NULL);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "s%04u", n_done);
    OK(c->put_bare(e, name, strlen(name), NULL, NULL));
    return c->commit(e, NULL);
}

static void open_it(struct copy *c)
{
    struct tamis_diag diag = {0};
    int rc = c->open(path_of("s"), NULL, &c->store, &diag);
    if (rc == TAMIS_ERR_BUSY && strstr(diag.what, "copy"))
        n_refused++;
    else if (rc)
        fail_msg("%s: %s", diag.file, diag.what);
}

static void do_one(struct copy *c, char what)
{
    if (what == 'o' && !c->store)
        open_it(c);
    else if (what == 'e' && c->store)
        n_done += put(c) == 0;
    else if (what == 'c' && c->store) {
        c->close(c->store);
        c->store = NULL;
    }
}

/* Upper case: the second copy. It may be refused, and then does nothing. */
static int run_order(void *ctx)
{
    struct copy two[2];
    load_plugins(two);
    for (const char *at = ctx; *at; at++)
        do_one(&two[*at >= 'A' && *at <= 'Z'], (char)(*at | 0x20));
    for (int i = 0; i < 2; i++)
        if (two[i].store)
            two[i].close(two[i].store);
    STORE s = store_open("s");
    IS(store_info(s).n_segments, n_done);
    return n_refused != 0;
}

static int refused(const char *order)
{
    int status;
    tamis_store_close(store_new("s"));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(run_order((void *)(uintptr_t)order));
    IS(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("%s: signal %d", order, WTERMSIG(status));
    remove_tree("s");
    assert_true(WEXITSTATUS(status) <= 1);
    return WEXITSTATUS(status);
}

/* ---- tests ---- */

TEST_IN_DIR(the_second_copy_is_refused)
{
    static const char *const orders[] = {
        "oOeEcC",     "oOeEEeCc",  "oeOEceEC",  "oOcEEC",       "oOCeec",
        "oOcoeEeCec", "oeOEcOEEC", "oOEeCOeEc", "oOeEcoeEeECc",
    };
    for (size_t i = 0; i < N_OF(orders); i++)
        if (!refused(orders[i]))
            fail_msg("%s: both were let in", orders[i]);
}

TEST_IN_DIR(one_after_the_other_they_may)
{
    IS(refused("oecOECoecOEC"), 0);
}

/* ---- what the second copy's close did to the first ---- */

static int order_out[2], answer_in[2];
static pid_t other;

/* Another process puts "p" when it is told to. */
static void start_other(void)
{
    char c;
    OK(pipe(order_out));
    OK(pipe(answer_in));
    other = fork();
    assert_true(other >= 0);
    if (other)
        return;
    struct tamis_edit *e;
    if (read(order_out[0], &c, 1) != 1)
        _exit(1);
    struct tamis_store *s = store_open("s");
    e = edit_new(s);
    OK(tamis_edit_put_bare(e, "p", 1, NULL, NULL));
    c = (char)(tamis_edit_commit(e, NULL) == 0);
    tamis_store_close(s);
    _exit(write(answer_in[1], &c, 1) == 1 ? 0 : 1);
}

static bool tell_other;

/* In the middle of a commit: the other process waits for its end, if LMDB's lock is
 * there still. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    struct pollfd answer = {.fd = answer_in[0], .events = POLLIN};
    if (tell_other) {
        tell_other = false;
        IS(write(order_out[1], "g", 1), 1);
        poll(&answer, 1, 500);
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static int commit_beside_another(void *ctx)
{
    struct copy two[2];
    char committed;
    start_other();
    load_plugins(two);
    do_one(&two[0], 'o');
    do_one(&two[1], 'o');
    do_one(&two[1], 'c');
    tell_other = true;
    int rc = put(&two[0]);
    IS(read(answer_in[0], &committed, 1), 1);
    two[0].close(two[0].store);
    STORE s = store_open("s");
    struct tamis_store_info info = store_info(s);
    IS(info.n_segments, (rc == 0) + committed);
    return 0;
}

TEST_IN_DIR(no_commit_beside_it_is_lost)
{
    tamis_store_close(store_new("s"));
    in_child(commit_beside_another, NULL);
}

/* In a namespace of the loader's of its own the copy has its own LMDB, too. */
static int in_two_namespaces(void *ctx)
{
    struct copy host = copy_of(dlopen(TAMIS_BUILD_DIR "/libtamis.so", RTLD_NOW));
    struct copy plugin =
        copy_of(dlmopen(LM_ID_NEWLM, TAMIS_BUILD_DIR "/libtamis.so", RTLD_NOW));
    open_it(&host);
    open_it(&plugin);
    IS(n_refused, 1);
    OK(put(&host));
    host.close(host.store);
    open_it(&plugin);
    IS(n_refused, 1);
    n_done++;
    OK(put(&plugin));
    plugin.close(plugin.store);
    return 0;
}

TEST_IN_DIR(so_it_is_in_a_namespace_of_its_own)
{
    if (SANITIZED)
        skip(); /* a sanitizer's runtime cannot be there twice */
    tamis_store_close(store_new("s"));
    in_child(in_two_namespaces, NULL);
}

static int with_two_stores(void *ctx)
{
    struct copy two[2];
    load_plugins(two);
    OK(two[0].open(path_of("s"), NULL, &two[0].store, NULL));
    OK(two[1].open(path_of("t"), NULL, &two[1].store, NULL));
    for (int i = 0; i < 2; i++)
        OK(put(&two[i]));
    for (int i = 0; i < 2; i++)
        two[i].close(two[i].store);
    return 0;
}

TEST_IN_DIR(each_may_have_its_own_store)
{
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("t"));
    in_child(with_two_stores, NULL);
}

/* A child of the first copy is another process, and may open the store. */
static int edit_in_child(void *ctx)
{
    struct copy *c = ctx;
    open_it(c);
    IS(n_refused, 0);
    OK(put(c));
    c->close(c->store);
    return 0;
}

static int forked(void *ctx)
{
    struct copy two[2];
    load_plugins(two);
    open_it(&two[0]);
    in_child(edit_in_child, &two[1]);
    n_done++;
    OK(put(&two[0]));
    two[0].close(two[0].store);
    return 0;
}

TEST_IN_DIR(a_forked_child_is_another_process)
{
    tamis_store_close(store_new("s"));
    in_child(forked, NULL);
}

/* ---- the byte ---- */

static int no_namespace; /* an errno for who asks which one this process is in */

__attribute__((visibility("default"))) int fstatat(int dir, const char *restrict path,
                                                   struct stat *restrict st, int flags)
{
    if (no_namespace && strcmp(path, "/proc/self/ns/pid") == 0)
        return errno = no_namespace, -1;
    return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

static int open_code(void *code)
{
    struct copy two[2];
    load_plugins(two);
    IS(two[0].open(path_of("s"), NULL, &two[0].store, NULL), *(int *)code);
    return 0;
}

TEST_IN_DIR(without_proc_the_number_is_enough)
{
    static const int missing[] = {ENOENT, ENOTDIR, EACCES};
    for (size_t i = 0; i < N_OF(missing); i++) {
        no_namespace = missing[i];
        IS(refused("oOeEcC"), 1);
        IS(refused("oecOECoec"), 0);
    }
    no_namespace = 0;
    tamis_store_close(store_new("s"));
    no_namespace = ENOMEM; /* there may be one */
    in_child(open_code, &no_namespace);
    no_namespace = 0;
}

/* A copy may be of another version: all of them take the same byte (SPEC.md 13). */
TEST_IN_DIR(each_version_takes_the_same_byte)
{
    struct stat st = stat_of("/proc/self/ns/pid");
    for (int proc = 0; proc < 2; proc++) {
        off_t n = proc ? (off_t)(st.st_ino & UINT32_MAX) : 0;
        off_t at = ((off_t)1 << 62) + (n << 22) + getpid();
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        no_namespace = proc ? 0 : ENOENT;
        struct tamis_store *s = store_new("s");
        int fd = open(path_of("s"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        OK(fcntl(fd, F_OFD_GETLK, &l));
        assert_true(l.l_type == F_RDLCK && l.l_start == at && l.l_len == 1);
        close(fd);
        tamis_store_close(s);
        remove_tree("s");
    }
    no_namespace = 0;
}

/* ---- a child that has not closed its descriptors yet ---- */

static int may_end[2];
static bool forks_in_the_look;

static void fork_early(void)
{
    char c;
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* no handlers */
    assert_true(child >= 0);
    if (child != 0)
        return;
    close(may_end[1]);
    _exit(read(may_end[0], &c, 1) == 0 ? 0 : 1);
}

__attribute__((visibility("default"))) int fcntl(int fd, int how, ...)
{
    va_list args;
    va_start(args, how);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (how == F_OFD_GETLK && forks_in_the_look) {
        forks_in_the_look = false;
        fork_early();
    }
    return (int)syscall(SYS_fcntl, fd, how, argument);
}

static int close_beside_children(void *ctx)
{
    struct copy two[2];
    int status;
    load_plugins(two);
    OK(pipe(may_end));
    open_it(&two[0]);
    forks_in_the_look = true;
    open_it(&two[1]);
    assert_false(forks_in_the_look);
    IS(n_refused, 1);
    do_one(&two[0], 'c');
    open_it(&two[0]); /* who was refused has no lock */
    fork_early();
    do_one(&two[0], 'c');
    open_it(&two[1]); /* nor has who has closed it */
    IS(n_refused, 1);
    OK(put(&two[1]));
    do_one(&two[1], 'c');
    close(may_end[1]);
    while (wait(&status) > 0)
        IS(status, 0);
    return 0;
}

TEST_IN_DIR(a_child_that_is_being_forked_keeps_no_lock)
{
    tamis_store_close(store_new("s"));
    in_child(close_beside_children, NULL);
}

RUN_TESTS(NULL, NULL)
