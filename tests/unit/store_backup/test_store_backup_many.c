/* Backup of many segments: descriptors and memory. And of a catalog that changes while
 * the backup looks: which file and which record belong together. */
#include "tests/unit/store_backup/backup_support.h"

#include <dlfcn.h>
#include <linux/openat2.h>
#include <malloc.h>

/* ---- when a filter is opened ---- */

static struct {
    void (*act)(void); /* once, before the first */
    const char *name;  /* this one fails */
    int error;
} at_open;

/* In the place of libc's: openat2() has no other name. It takes six arguments, as that
 * does, and its callers may give fewer. */
__attribute__((no_sanitize_address)) long syscall(long number, ...)
{
    static long (*real)(long, ...);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2 && strstr((const char *)a[1], ".tamis")) {
        void (*act)(void) = at_open.act;
        at_open.act = NULL;
        if (act)
            act();
        if (at_open.name && strcmp(at_open.name, (const char *)a[1]) == 0)
            return errno = at_open.error, -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static struct tamis_store *changing;

/* Called at the first read of a filter's bits, not at one of the lock file's head. */
static void (*at_read)(void);

static ssize_t interrupted_pread(int fd, void *buf, size_t n, off_t at)
{
    void (*act)(void) = n < PAGE_BYTES ? NULL : at_read;
    if (act) {
        at_read = NULL;
        act();
    }
    return calls_before.pread(fd, buf, n, at);
}

static int interruptions_on(void **state)
{
    calls_before = io_calls;
    io_calls.pread = interrupted_pread;
    return 0;
}

/* ---- descriptors ---- */

enum { SPARE = 40, MANY = 2 * SPARE };

static void put_many(struct tamis_store *s, char prefix)
{
    struct tamis_edit *e = edit_new(s);
    for (uint64_t i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "%c%llu", prefix, (unsigned long long)i);
        OK(put_keys(e, name, i, 1, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
}

static void put_more(void)
{
    put_many(changing, 'n');
}

static struct rlimit limit_descriptors(void)
{
    struct rlimit was, is;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    close(next);
    OK(getrlimit(RLIMIT_NOFILE, &was));
    is = was;
    is.rlim_cur = (rlim_t)next + SPARE;
    OK(setrlimit(RLIMIT_NOFILE, &is));
    return was;
}

/* Damaged sealed files, lost ones, and such as appear meanwhile, take none. */
TEST_WITH(interruptions_on, faults_off, sealed_files_are_not_all_open_at_once)
{
    struct tamis_store *s = changing = store_new("s");
    put_many(s, 'd');
    put_many(s, 'h');
    for (unsigned i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%u", i);
        flip(file_of(s, "s", name), PAGE_BYTES + 700);
        snprintf(name, sizeof name, "h%u", i);
        flip(file_of(s, "s", name), 100);
    }
    tamis_store_close(s); /* with the files that the snapshots have opened */
    s = changing = store_open("s");
    struct rlimit was = limit_descriptors();
    at_read = put_more;
    int rc = backup_code(s, see);
    OK(setrlimit(RLIMIT_NOFILE, &was));
    OK(rc);
    assert_null(at_read);
    IS(backed_up.n_segments, 3 * MANY);
    IS(backed_up.n_files, 2 * MANY);
    IS(backed_up.n_damaged, MANY);
    IS(backed_up.n_left, MANY);
    IS(n_filter_files("b"), 2 * MANY);
    struct tamis_store *b = store_open("b");
    for (uint64_t i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%u", (unsigned)i);
        check_keys(b, name, i, 1);
        name[0] = 'n';
        check_keys(b, name, i, 1);
        IS(reason_of(b, name, 99999), ABSENT_HERE);
        name[0] = 'h';
        IS(reason_of(b, name, 99999), TAMIS_NO_FILTER);
    }
    tamis_store_close(b);
    remove_both(s);
}

/* A file that is there is not called missing. */
TEST(a_file_that_cannot_be_opened)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_growing(s, "g");
    put_segment(s, "m", 0, 10);
    OK(unlink(file_of(s, "s", "m")));
    const char *names[] = {"a", "g"};
    for (size_t i = 0; i < 2; i++) {
        at_open.name = strrchr(file_of(s, "s", names[i]), '/') + 1;
        at_open.error = i ? EIO : EACCES;
        backup(s);
        at_open.name = NULL;
        IS(backed_up.n_left, 2);
        SAW("noted m filters/");
        SAW("the file is missing");
        SAW(i ? "opening it: Input/output error" : "opening it: Permission denied");
        remove_tree("b");
    }
    remove_both(s);
}

/* ---- memory ---- */

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static size_t n_then;

static void measure(void *ctx, const struct tamis_repair_finding *f)
{
    n_then = allocated();
}

TEST(a_segment_takes_little_memory)
{
    enum { SEGMENTS = 4000, MOST_BYTES = 800 };
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "e%u", i);
        OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    put_segment(s, "z", 0, 10);
    OK(unlink(file_of(s, "s", "z"))); /* so that it is told, when all are listed */
    tamis_store_close(s);
    s = store_open("s");
    size_t n_before = allocated();
    n_then = 0;
    OK(backup_code(s, measure));
    assert_true(n_then > n_before + SEGMENTS * RECORD_HEAD_BYTES); /* it does measure */
    size_t each = (n_then - n_before) / SEGMENTS;
    print_message("%zu bytes a segment\n", each);
    assert_true(each < MOST_BYTES);
    remove_both(s);
}

/* ---- a catalog that changes ---- */

static int other_digest(struct catalog_txn *t, void *ctx)
{
    struct piece value;
    uint8_t changed[RECORD_MAX_BYTES];
    struct record r;
    OK(catalog_get(t, piece_of("a"), &value));
    IS(record_decode(value.at, value.n, "a", 1, &r).code, VERDICT_OK);
    r.table_digest ^= 1;
    value = (struct piece){changed, record_encode(&r, "a", 1, changed)};
    return catalog_replace(t, piece_of("a"), value);
}

static void change_digest(void)
{
    OK(catalog_write(changing->catalog, NULL, 0, other_digest, NULL, NULL, NULL));
}

/* The file of this UUID was copied, and is not the one that the record means now. */
TEST_WITH(interruptions_on, faults_off, a_record_that_changes_its_digest)
{
    changing = store_new("s");
    put_segment(changing, "a", 0, 10);
    at_read = change_digest;
    backup(changing);
    assert_null(at_read);
    SAW("not the filter that the catalog means");
    IS(backed_up.n_left, 1);
    IS(n_filter_files("b"), 0);
    struct tamis_store *b = store_open("b");
    IS(reason_of(b, "a", 99999), TAMIS_NO_FILTER);
    tamis_store_close(b);
    remove_both(changing);
}

static unsigned n_drops;

static void drop_last(void)
{
    changing->catalog->read_only = false;
    drop_segment(changing, n_drops++ ? "y" : "z");
    changing->catalog->read_only = true;
    if (n_drops < 2)
        at_open.act = drop_last; /* the next try as well */
}

/* Edits of other processes commit while the files of the list are opened, and remove
 * some: the list that counts is the one after it. */
TEST(edits_that_nobody_can_hold_off)
{
    changing = store_new("s");
    put_growing(changing, "g");
    put_growing(changing, "y");
    put_growing(changing, "z");
    grow_keys(changing, "g", 0, 10, 1);
    changing->catalog->read_only = true;
    n_drops = 0;
    at_open.act = drop_last;
    backup(changing);
    IS(n_drops, 2);
    IS(backed_up.n_left + seen.n, 0);
    IS(backed_up.n_segments, 1);
    IS(n_filter_files("b"), 1);
    struct tamis_store *b = store_open("b");
    check_keys(b, "g", 0, 10);
    tamis_store_close(b);
    remove_both(changing);
}

static void replace_always(void)
{
    changing->catalog->read_only = false;
    drop_segment(changing, "z");
    put_growing(changing, "z");
    changing->catalog->read_only = true;
    at_open.act = replace_always;
}

TEST(edits_that_never_end)
{
    changing = store_new("s");
    put_growing(changing, "g");
    put_growing(changing, "z");
    changing->catalog->read_only = true;
    at_open.act = replace_always;
    int rc = backup_code(changing, see);
    at_open.act = NULL;
    IS(rc, TAMIS_ERR_BUSY);
    IS(count_files(test_dir), 1); /* the store */
    remove_both(changing);
}

RUN_TESTS(test_dir_create, test_dir_remove)
