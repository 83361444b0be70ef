/* Network file systems: bits could vanish there, so nobody may write on one; reading is
 * allowed. This program's fstatfs() says what it is told to. */
#include "support.h"
#include "lib/filter/writer.h"

#include <sys/syscall.h>
#include <sys/vfs.h>

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
        assert_int_equal(count_files(test_dir), n_files); /* nothing is left behind */
        tamis_filter_close(open_filter(path_of("there")));
    }
    told_type = 0xEF53; /* ext4 */
    tamis_writer_close(open_writer(path_of("there")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_writes_there),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
