/* Network file systems: bits could vanish there, so nobody may write on one, and pages
 * may be stale, so nobody may read what is being written; and overlays, where a reader
 * is to see its writer. This program's fstatfs() says what it is told to. */
#include "tests/support/support.h"
#include "lib/writer/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum { OVERLAY = 0x794C7630 };
static long told_type;

int fstatfs(int fd, struct statfs *fs)
{
    int r = (int)syscall(SYS_fstatfs, fd, fs);
    if (r == 0 && told_type)
        fs->f_type = (__typeof__(fs->f_type))told_type;
    return r;
}

/* NFS, SMB2, Ceph, 9p: the first, the last and some between of the library's list. */
static const long networks[] = {0x6969, 0xFE534D42, 0x00C36400, 0x01021997, 0x7461636F};

static void test_nobody_writes_there(void **state)
{
    struct tamis_writer *w;
    struct tamis_builder *b;
    struct tamis_diag diag;
    uint64_t key = 42;
    (void)state;
    tamis_writer_close(create_writer(path_of("there"), 0.01, 2, 1000));
    assert_int_equal(tamis_builder_create(NULL, &b, NULL), 0);
    assert_int_equal(tamis_builder_finish_file(b, path_of("sealed"), NULL), 0);
    tamis_builder_free(b);
    struct tamis_filter *sealed = open_filter(path_of("sealed"));
    size_t n_files = count_files(test_dir);
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        told_type = networks[i];
        assert_int_equal(tamis_writer_create(path_of("new"), NULL, &w, &diag),
                         TAMIS_ERR_NETWORK);
        assert_null(w);
        assert_int_equal(tamis_writer_open(path_of("there"), &w, &diag),
                         TAMIS_ERR_NETWORK);
        assert_null(w);
        assert_int_equal(tamis_builder_create(NULL, &b, NULL), 0);
        assert_int_equal(
            tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, &key, 1), 0);
        assert_int_equal(tamis_builder_finish_file(b, path_of("new"), &diag),
                         TAMIS_ERR_NETWORK);
        assert_int_equal(diag.code, TAMIS_ERR_NETWORK);
        tamis_builder_free(b);
        assert_int_equal(tamis_filter_derive(&sealed, 1,
                                             &(struct tamis_derivation){
                                                 .operation = TAMIS_FOLD, .factor = 1},
                                             path_of("new"), NULL, NULL, &diag),
                         TAMIS_ERR_NETWORK);
        assert_int_equal(diag.code, TAMIS_ERR_NETWORK);
        assert_int_equal(count_files(test_dir), n_files); /* nothing is left behind */
    }
    told_type = 0xEF53; /* ext4 */
    tamis_writer_close(open_writer(path_of("there")));
    told_type = 0;
    tamis_filter_close(sealed);
}

static void test_only_what_is_sealed_is_read_there(void **state)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    uint64_t n_damaged;
    (void)state;
    struct tamis_writer *w = create_writer(path_of("read"), 0.01, 2, 1000);
    told_type = 0x6969;
    assert_int_equal(tamis_filter_open(path_of("read"), NULL, &f, &diag),
                     TAMIS_ERR_NETWORK);
    assert_null(f);
    told_type = 0;
    assert_int_equal(tamis_writer_seal(w, 0, &n_damaged, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    told_type = 0x6969;
    tamis_filter_close(open_filter(path_of("read")));
    told_type = 0;
}

/* The seal was cut short between its two slots: a power cut may undo it. */
static void test_half_a_seal_is_not_read_there(void **state)
{
    struct tamis_filter *f;
    uint64_t n_damaged;
    size_t n;
    (void)state;
    struct tamis_writer *w = create_writer(path_of("half"), 0.01, 2, 1000);
    uint8_t *open_then = file_read(path_of("half"), &n);
    assert_int_equal(tamis_writer_seal(w, 0, &n_damaged, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    uint8_t *sealed = file_read(path_of("half"), &n);
    file_poke(path_of("half"), commit_slot_offset(SLOT_B),
              open_then + commit_slot_offset(SLOT_B), SLOT_BYTES);
    told_type = 0xEF53;
    tamis_filter_close(open_filter(path_of("half")));
    told_type = 0x6969;
    assert_int_equal(tamis_filter_open(path_of("half"), NULL, &f, NULL),
                     TAMIS_ERR_NETWORK);
    /* Slot B has it, and slot A has rotted. */
    file_poke(path_of("half"), commit_slot_offset(SLOT_B),
              sealed + commit_slot_offset(SLOT_B), SLOT_BYTES);
    static const uint8_t rot[16] = {1, 2, 3};
    file_poke(path_of("half"), commit_slot_offset(SLOT_A) + 64, rot, sizeof rot);
    tamis_filter_close(open_filter(path_of("half")));
    told_type = 0;
    free(open_then);
    free(sealed);
}

/* Finds the descriptor that reads what is being written. */
static void test_on_an_overlay_it_is_opened_for_writing(void **state)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    uint64_t key = 42;
    int fresh;
    (void)state;
    tamis_writer_close(create_writer(path_of("over"), 0.01, 2, 1000));
    int fd = open(path_of("over"), O_RDONLY | O_CLOEXEC);
    told_type = 0xEF53;
    assert_int_equal(io_open_shared(fd, &fresh), 0);
    assert_int_equal(fresh, -1);
    told_type = OVERLAY;
    assert_int_equal(io_open_shared(fd, &fresh), 0);
    assert_true(fresh >= 0);
    assert_int_equal(fcntl(fresh, F_GETFL) & O_ACCMODE, O_RDWR);
    int again;
    assert_int_equal(io_open_shared(fresh, &again), 0); /* does */
    assert_int_equal(again, -1);
    close(fresh);
    f = open_filter(path_of("over"));
    struct tamis_writer *w = open_writer(path_of("over"));
    add_hashes(w, &key, 1);
    assert_int_equal(count_absent(f, &key, 1), 0);
    tamis_filter_close(f);

    /* A file that is being executed can't be opened for writing, not even by root. */
    told_type = 0;
    fd = (close(fd), open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    told_type = OVERLAY;
    assert_int_equal(io_open_shared(fd, &fresh), ETXTBSY);
    assert_int_equal(fresh, -1);
    close(fd);

    uint64_t n_damaged;
    assert_int_equal(tamis_writer_seal(w, 0, &n_damaged, &diag), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    tamis_filter_close(open_filter(path_of("over")));
    told_type = 0;
}

/* A true one, where a mount may be had: in a namespace of its own. */
static int in_an_overlay(void *ctx)
{
    char options[4096], lower[1024], merged[1024];
    struct tamis_filter *f;
    uint64_t key = 42;
    (void)ctx;
    snprintf(lower, sizeof lower, "%s", path_of("lower"));
    snprintf(merged, sizeof merged, "%s/f", path_of("merged"));
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s/up,workdir=%s/work",
             lower, path_of("layer"), path_of("layer"));
    if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", path_of("layer"), "tmpfs", 0, NULL) != 0 ||
        mkdir(path_of("layer/up"), 0700) != 0 ||
        mkdir(path_of("layer/work"), 0700) != 0 ||
        mount("overlay", path_of("merged"), "overlay", 0, options) != 0)
        return 77;
    f = open_filter(merged);
    struct tamis_writer *w = open_writer(merged);
    if (count_absent(f, &key, 1) != 1)
        return 1;
    add_hashes(w, &key, 1);
    if (tamis_writer_commit(w, 1, NULL) != 0 || count_absent(f, &key, 1) != 0)
        return 2;
    tamis_filter_close(f);
    if (tamis_writer_close(w) != 0 ||
        mount("none", path_of("merged"), NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 3;
    int err = tamis_filter_open(merged, NULL, &f, NULL);
    return err == EROFS ? 0 : 4;
}

static void test_a_reader_sees_its_writer_on_an_overlay(void **state)
{
    int status;
    (void)state;
    assert_int_equal(mkdir(path_of("lower"), 0700), 0);
    assert_int_equal(mkdir(path_of("layer"), 0700), 0);
    assert_int_equal(mkdir(path_of("merged"), 0700), 0);
    tamis_writer_close(create_writer(path_of("lower/f"), 0.01, 2, 1000));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(in_an_overlay(NULL));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        print_message("no mount to be had here: not tried\n");
    else
        assert_int_equal(WEXITSTATUS(status), 0);
    unlink(path_of("lower/f"));
    rmdir(path_of("lower"));
    rmdir(path_of("layer"));
    rmdir(path_of("merged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_writes_there),
        cmocka_unit_test(test_only_what_is_sealed_is_read_there),
        cmocka_unit_test(test_half_a_seal_is_not_read_there),
        cmocka_unit_test(test_on_an_overlay_it_is_opened_for_writing),
        cmocka_unit_test(test_a_reader_sees_its_writer_on_an_overlay),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
