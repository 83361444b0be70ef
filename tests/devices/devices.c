/* The guard against SIGBUS where it is needed (R15): pages that a device cannot read
 * (a file system of ours that says EIO), and stores for which there is no space (holes
 * in a stage, blocks shared with a copy). Needs root, for mounts of its own. */
#include "tests/support/guard_support.h"
#include "faulty.h"
#include "full.h"

#include <sched.h>
#include <sys/mount.h>

enum { N_KEYS = 40 * 1000, N_OTHERS = 10 * 1000 };
static uint64_t keys[N_KEYS], others[N_OTHERS];
static struct faulty disk;

/* ---- pages that cannot be read ---- */

static const char *on_disk(const char *name)
{
    static char paths[4][1024];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", disk.mounted_at, name);
    return p;
}

static void break_page(uint64_t at)
{
    faulty_break(&disk, at, at + 1);
}

/* Nothing is lost, most others are told; what verify says; and when the device has come
 * to its senses, a fresh look finds nothing wrong. */
static void check_reader(const char *path, size_t n_keys, uint64_t n_damaged)
{
    struct tamis_verify report;
    uint64_t failures = faulty_failures(&disk);
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, n_keys), 0);
    assert_true(faulty_failures(&disk) > failures);
    if (n_damaged == 1) /* else the checks themselves are gone */
        assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS / 2, N_OTHERS);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.n_damaged, n_damaged ? n_damaged : report.n_pages);
    faulty_mend(&disk);
    IS(count_absent(f, keys, n_keys), 0);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    tamis_filter_close(f);
    f = open_filter(path);
    IS(count_absent(f, keys, n_keys), 0);
    OK(tamis_filter_verify(f, &report, NULL));
}

TEST_WITH_GUARD(test_sealed_page_unreadable)
{
    const char *path = on_disk("sealed");
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    break_page(c.stages[0].offset + 3 * PAGE_BYTES);
    check_reader(path, N_KEYS, 1);
    break_page(c.stages[0].digests_offset);
    check_reader(path, N_KEYS, 0);
}

TEST_WITH_GUARD(test_open_page_unreadable)
{
    const char *path = on_disk("open");
    struct tamis_writer *w = create_writer(path, 0.01, 2, N_KEYS);
    add_hashes(w, keys, N_KEYS / 2);
    OK(tamis_writer_close(w));
    struct commit c = commit_of(path);
    /* Ones meet the floors of the page: it must not pass for that. */
    break_page(c.stages[0].offset + 3 * PAGE_BYTES);
    check_reader(path, N_KEYS / 2, 1);
    break_page(c.stages[0].floors_offset);
    check_reader(path, N_KEYS / 2, 0);
}

TEST_WITH_GUARD(test_header_unreadable)
{
    const char *path = on_disk("header");
    struct tamis_filter *f;
    build_filter(path, keys, 100);
    break_page(0);
    IS(tamis_filter_open(path, NULL, &f, NULL), EIO);
    faulty_mend(&disk);
}

/* A writer that was closed in order looks at a page when it adds to it. */
TEST_WITH_GUARD(test_writer_meets_unreadable_page)
{
    const char *path = on_disk("writer");
    struct tamis_writer *w = create_writer(path, 0.01, 2, N_KEYS);
    uint64_t tag = tamis_writer_domain(w).tag;
    add_hashes(w, keys, 1000);
    OK(tamis_writer_commit(w, 1, NULL));
    OK(tamis_writer_close(w));
    struct commit c = commit_of(path);
    break_page(c.stages[0].offset + 3 * PAGE_BYTES);
    w = open_writer(path);
    IS(tamis_writer_add_hashes(w, tag, keys + 1000, 5000), TAMIS_ERR_POISONED);
    IS(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_POISONED);
    IS(tamis_writer_seal(w, 2, NULL, NULL), TAMIS_ERR_POISONED);
    IS(tamis_writer_close(w), TAMIS_ERR_POISONED);
    /* After that unclean end every page must be looked at: the next one can't start. */
    IS(tamis_writer_open(path, &w, NULL), EIO);
    check_reader(path, 1000, 1);
    w = open_writer(path);
    IS(tamis_writer_watermark(w), 1);
    add_hashes(w, keys + 1000, N_KEYS - 1000);
    OK(tamis_writer_commit(w, 2, NULL));
    OK(tamis_writer_close(w));
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, N_KEYS), 0);
    verified(f);
}

static int probe_unguarded(void *path)
{
    signal(SIGBUS, SIG_DFL);
    struct tamis_filter *f = open_filter(path);
    return (int)count_absent(f, keys, N_KEYS);
}

TEST_WITH_GUARD(test_unreadable_page_without_guard)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", on_disk("unguarded"));
    build_filter(path, keys, N_KEYS);
    break_page(commit_of(path).stages[0].offset + 3 * PAGE_BYTES);
    killed_in_child(probe_unguarded, path);
    faulty_mend(&disk);
}

/* The command asks for the guard: it reports, and does not die. */
static int status_of(const char *command, const char *path)
{
    char line[2048];
    snprintf(line, sizeof line, "'%s/tamis' file %s '%s' >/dev/null 2>&1",
             TAMIS_BUILD_DIR, command, path);
    int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST_WITH_GUARD(test_command_reports_unreadable_page)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", on_disk("reported"));
    build_filter(path, keys, N_KEYS);
    IS(status_of("verify", path), 0);
    break_page(commit_of(path).stages[0].offset + 3 * PAGE_BYTES);
    IS(status_of("verify", path), 3);
    faulty_mend(&disk);
    IS(status_of("verify", path), 0);
}

/* ---- holes, and no space for them ---- */

/* A growing filter that nobody has added to. */
static void make_empty(const char *path)
{
    WRITER w = create_writer(path, 0.01, 2, N_KEYS);
    OK(tamis_writer_commit(w, 1, NULL));
}

/* Its stage is a hole: as after a copy by a program that leaves out zeros. */
static void dig(const char *path)
{
    struct commit c = commit_of(path);
    FD fd = open(path, O_RDWR | O_CLOEXEC);
    OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                 (off_t)c.stages[0].offset, (off_t)c.stages[0].length));
    OK(fsync(fd));
}

/* A filter with half the keys. */
static void make_half(const char *path)
{
    WRITER w = create_writer(path, 0.01, 2, N_KEYS);
    add_hashes(w, keys, N_KEYS / 2);
    OK(tamis_writer_commit(w, 1, NULL));
}

struct scene {
    char path[1024];
    void (*make)(const char *path);
    void (*spoil)(const char *path); /* may be NULL */
    size_t n_before;                 /* keys as of watermark 1 */
};

static struct tamis_writer *open_on_full_disk(struct scene *s)
{
    struct tamis_writer *w = open_writer(s->path);
    if (s->spoil)
        s->spoil(s->path);
    full_fill_up();
    return w;
}

static int add_unguarded(void *scene)
{
    signal(SIGBUS, SIG_DFL);
    struct tamis_writer *w = open_on_full_disk(scene);
    return tamis_writer_add_hashes(w, tamis_writer_domain(w).tag, keys, N_KEYS) + 1000;
}

static void check_all_there(const char *path, size_t n_keys)
{
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, n_keys), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    verified(f);
}

static void write_to_full_disk(struct scene s)
{
    const char *path = s.path;
    snprintf(s.path, sizeof s.path, "%s", on_full("filter"));
    s.make(path);
    struct tamis_writer *w = open_on_full_disk(&s);
    struct tamis_filter *f = open_filter(path);
    uint64_t tag = tamis_writer_domain(w).tag;
    IS(tamis_writer_add_hashes(w, tag, keys, N_KEYS), TAMIS_ERR_POISONED);
    IS(tamis_writer_add_hashes(w, tag, keys, 1), TAMIS_ERR_POISONED);
    IS(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_POISONED);
    IS(tamis_writer_close(w), TAMIS_ERR_POISONED);
    IS(commit_of(path).watermark, 1);
    IS(commit_of(path).clean, 0);
    IS(count_absent(f, keys, s.n_before), 0);
    /* Reading a hole is zeros here and SIGBUS there (tmpfs); nothing was promised. */
    count_absent(f, keys, N_KEYS);
    tamis_filter_close(f);
    /* The next attempt, with space, succeeds. */
    full_make_space();
    w = open_writer(path);
    IS(tamis_writer_watermark(w), 1);
    add_hashes(w, keys, N_KEYS);
    OK(tamis_writer_commit(w, 2, NULL));
    OK(tamis_writer_close(w));
    check_all_there(path, N_KEYS);
    /* Without the guard it is death, and no more than that. */
    unlink(path);
    s.make(path);
    killed_in_child(add_unguarded, &s);
    full_make_space();
    w = open_writer(path);
    IS(tamis_writer_watermark(w), 1);
    OK(tamis_writer_close(w));
    check_all_there(path, s.n_before);
}

/* The scene spoils the file before the writer opens it. Without space, opening is an
 * error and nothing is written; with space, the writer has it for good. */
static void open_on_full(struct scene s)
{
    const char *path = s.path;
    struct tamis_writer *w;
    size_t n, n_after;
    snprintf(s.path, sizeof s.path, "%s", on_full("filter"));
    s.make(path);
    s.spoil(path);
    uint8_t *before = file_read(path, &n);
    full_fill_up();
    IS(tamis_writer_open(path, &w, NULL), ENOSPC);
    uint8_t *after = file_read(path, &n_after);
    IS(n, n_after);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    full_make_space();
    w = open_writer(path);
    full_fill_up();
    add_hashes(w, keys, N_KEYS);
    OK(tamis_writer_commit(w, 2, NULL));
    OK(tamis_writer_close(w));
    check_all_there(path, N_KEYS);
    /* A file that has its space opens on a full disk too. */
    w = open_writer(path);
    OK(tamis_writer_close(w));
    full_make_space();
}

/* Plays a scene on a file system of its own: of `size` bytes, made by mkfs on an image;
 * NULL: tmpfs. */
static void on_full_disk(const char *size, const char *mkfs,
                         void (*play)(struct scene s), struct scene s)
{
    char command[2048] = "";
    const char *image = path_of("image");
    snprintf(command, sizeof command,
             "rm -f '%s' && truncate -s %s '%s' && %s '%s' && mount -o loop '%s' '%s'",
             image, size, image, mkfs ? mkfs : "", image, image, full_dir);
    if (!mkfs)
        snprintf(command, sizeof command, "mount -t tmpfs -o size=%s none '%s'", size,
                 full_dir);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
    play(s);
    OK(umount2(full_dir, MNT_DETACH));
}

#define TMPFS "2m", NULL
#define EXT4  "16M", "mkfs.ext4 -q -m 0 -O ^has_journal"
#define XFS   "320M", "mkfs.xfs -q"
#define BTRFS "128M", "mkfs.btrfs -q --mixed"

#define ON_FULL_DISK(kind, name, play, file_system, ...)                               \
    kind(name)                                                                         \
    {                                                                                  \
        on_full_disk(file_system, play, (struct scene){__VA_ARGS__});                  \
    }

#define HOLED  make_empty, .spoil = dig
#define SHARED make_half, .spoil = full_share
ON_FULL_DISK(TEST, test_holed_copy_on_full_tmpfs, open_on_full, TMPFS, .make = HOLED)
ON_FULL_DISK(TEST, test_holed_copy_on_full_ext4, open_on_full, EXT4, .make = HOLED)
ON_FULL_DISK(TEST, test_holed_copy_on_full_xfs, open_on_full, XFS, .make = HOLED)
ON_FULL_DISK(TEST, test_copy_with_shared_blocks_on_full_xfs, open_on_full, XFS,
             .make = SHARED)
ON_FULL_DISK(TEST_WITH_GUARD, test_hole_on_full_tmpfs, write_to_full_disk, TMPFS,
             .make = HOLED)
ON_FULL_DISK(TEST_WITH_GUARD, test_hole_on_full_ext4, write_to_full_disk, EXT4,
             .make = HOLED)
ON_FULL_DISK(TEST_WITH_GUARD, test_shared_blocks_on_full_btrfs, write_to_full_disk,
             BTRFS, .make = SHARED, .n_before = N_KEYS / 2)
ON_FULL_DISK(TEST_WITH_GUARD, test_shared_blocks_on_full_xfs, write_to_full_disk, XFS,
             .make = SHARED, .n_before = N_KEYS / 2)

/* ---- mounts of our own, that go when we go ---- */

static int set_up(void **state)
{
    char backing[600], at[600];
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        fprintf(stderr, "check-devices needs root: it mounts file systems\n");
        return -1;
    }
    random_hashes(keys, N_KEYS);
    random_hashes(others, N_OTHERS);
    if (test_dir_create(state) != 0)
        return -1;
    snprintf(backing, sizeof backing, "%s/backing", test_dir);
    snprintf(at, sizeof at, "%s/disk", test_dir);
    snprintf(full_dir, sizeof full_dir, "%s/full", test_dir);
    if (mkdir(backing, 0700) || mkdir(at, 0700) || mkdir(full_dir, 0700))
        return -1;
    return faulty_mount(&disk, backing, at);
}

static int tear_down(void **state)
{
    faulty_unmount(&disk);
    umount2(full_dir, MNT_DETACH);
    return test_dir_remove(state);
}

RUN_TESTS(set_up, tear_down)
