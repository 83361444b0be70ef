/* Network file systems: bits could vanish there, so no writer may open a file on one;
 * and pages may be stale, so no reader may open a growing filter. And overlays, where a
 * reader is to see its writer. This program's fstatfs() says what it is told to. */
#include "tests/support/filters.h"

#include "tests/support/unit/told_fs.h"

enum { OVERLAY = 0x794C7630 };

/* NFS, SMB2, Ceph, 9p: the first, the last and some between of the library's list. */
static const long networks[] = {0x6969, 0xFE534D42, 0x00C36400, 0x01021997, 0x7461636F};

TEST_IN_DIR(test_nobody_writes_there)
{
    const struct tamis_derivation fold = {.operation = TAMIS_FOLD, .factor = 1};
    struct tamis_writer *w;
    struct tamis_diag diag;
    tamis_writer_close(create_writer(path_of("there"), 0.01, 2, 1000), NULL);
    build_as(path_of("sealed"), NULL, 0, NULL);
    FILTER sealed = open_filter(path_of("sealed"));
    size_t n_files = count_files(test_dir);
    for (size_t i = 0; i < N_OF(networks); i++) {
        told_type = networks[i];
        IS(tamis_writer_create(path_of("new"), NULL, &w, &diag), TAMIS_ERR_NETWORK);
        assert_null(w);
        writer_refused(path_of("there"), TAMIS_ERR_NETWORK);
        BUILDER b = builder_made(NULL);
        OK(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, &(uint64_t){42},
                                    1));
        IS(tamis_builder_finish(b, path_of("new"), NULL, NULL, &diag),
           TAMIS_ERR_NETWORK);
        IS(diag.code, TAMIS_ERR_NETWORK);
        IS(tamis_filter_derive(&sealed, 1, &fold, path_of("new"), NULL, NULL, &diag),
           TAMIS_ERR_NETWORK);
        IS(diag.code, TAMIS_ERR_NETWORK);
        IS(count_files(test_dir), n_files); /* nothing is left behind */
    }
    told_type = 0xEF53; /* ext4 */
    tamis_writer_close(open_writer(path_of("there")), NULL);
    told_type = 0;
}

TEST_IN_DIR(test_only_what_is_sealed_is_read_there)
{
    struct tamis_writer *w = create_writer(path_of("read"), 0.01, 2, 1000);
    told_type = 0x6969;
    reader_refused(path_of("read"), NULL, TAMIS_ERR_NETWORK);
    told_type = 0;
    seal_and_close(w, 0);
    told_type = 0x6969;
    tamis_filter_close(open_filter(path_of("read")));
    told_type = 0;
}

/* The seal was cut short between its two slots: a power cut may undo it. */
TEST_IN_DIR(test_half_a_seal_is_not_read_there)
{
    size_t n;
    struct tamis_writer *w = create_writer(path_of("half"), 0.01, 2, 1000);
    FREED uint8_t *open_then = file_read(path_of("half"), &n);
    seal_and_close(w, 0);
    FREED uint8_t *sealed = file_read(path_of("half"), &n);
    file_poke(path_of("half"), commit_slot_offset(SLOT_B),
              open_then + commit_slot_offset(SLOT_B), SLOT_BYTES);
    told_type = 0xEF53;
    tamis_filter_close(open_filter(path_of("half")));
    told_type = 0x6969;
    reader_refused(path_of("half"), NULL, TAMIS_ERR_NETWORK);
    /* Slot B has it, and slot A has rotted. */
    file_poke(path_of("half"), commit_slot_offset(SLOT_B),
              sealed + commit_slot_offset(SLOT_B), SLOT_BYTES);
    static const uint8_t rot[16] = {1, 2, 3};
    file_poke(path_of("half"), commit_slot_offset(SLOT_A) + 64, rot, sizeof rot);
    tamis_filter_close(open_filter(path_of("half")));
    told_type = 0;
}

/* Finds the descriptor that reads what is being written. */
TEST_IN_DIR(test_on_an_overlay_it_is_opened_for_writing)
{
    uint64_t key = 42;
    int fresh;
    tamis_writer_close(create_writer(path_of("over"), 0.01, 2, 1000), NULL);
    FD fd = open_to_read(path_of("over"));
    told_type = 0xEF53;
    OK(io_open_shared(fd, &fresh));
    IS(fresh, -1);
    told_type = OVERLAY;
    OK(io_open_shared(fd, &fresh));
    assert_true(fresh >= 0);
    IS(fcntl(fresh, F_GETFL) & O_ACCMODE, O_RDWR);
    int again;
    OK(io_open_shared(fresh, &again)); /* does */
    IS(again, -1);
    close(fresh);
    FILTER f = open_filter(path_of("over"));
    struct tamis_writer *w = open_writer(path_of("over"));
    add_hashes(w, &key, 1);
    IS(count_absent(f, &key, 1), 0);

    /* A file that is being executed can't be opened for writing, not even by root. */
    told_type = 0;
    fd = (close(fd), open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    told_type = OVERLAY;
    IS(io_open_shared(fd, &fresh), ETXTBSY);
    IS(fresh, -1);
    seal_and_close(w, 0);
    tamis_filter_close(open_filter(path_of("over")));
    told_type = 0;
}

/* A true one, where a mount may be had: in a namespace of its own. */
static int in_an_overlay(void)
{
    char merged[1024];
    struct tamis_filter *f;
    uint64_t key = 42;
    snprintf(merged, sizeof merged, "%s/f", path_of("merged"));
    if (!mount_overlay("lower", "layer", "merged"))
        return 77;
    f = open_filter(merged);
    struct tamis_writer *w = open_writer(merged);
    if (count_absent(f, &key, 1) != 1)
        return 1;
    add_hashes(w, &key, 1);
    if (tamis_writer_commit(w, 1, NULL) != 0 || count_absent(f, &key, 1) != 0)
        return 2;
    tamis_filter_close(f);
    if (tamis_writer_close(w, NULL) != 0 ||
        mount("none", path_of("merged"), NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 3;
    int err = tamis_filter_open(merged, NULL, &f, NULL);
    return err == EROFS ? 0 : 4;
}

TEST_IN_DIR(test_a_reader_sees_its_writer_on_an_overlay)
{
    OK(mkdir(path_of("lower"), 0700));
    tamis_writer_close(create_writer(path_of("lower/f"), 0.01, 2, 1000), NULL);
    in_own_mounts(in_an_overlay);
}

RUN_TESTS(NULL, NULL)
