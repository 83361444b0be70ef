/* A repair that is killed at any of its system calls: no key is lost by it, and the
 * next one comes to the same end as one that was never killed. Besides, the order of
 * what it writes. The same with calls that fail: the repair may say so, or do without.
 * tests/crash cuts the power of a repair. */
#include "tests/support/shop/shop.h"

/* ---- system calls of which the nth is the last one, or fails ---- */

static unsigned long n_calls, die_at, fail_at;
static int fail_with;
static char log_text[4096]; /* a letter a call that changes names */
static size_t log_n;

/* Is this the call that fails? */
static bool fails_here(void)
{
    if (++n_calls == die_at)
        _exit(77);
    if (n_calls == fail_at)
        errno = fail_with;
    return n_calls == fail_at;
}

static void log_change(char c)
{
    if (log_n + 1 < sizeof log_text)
        log_text[log_n++] = c;
    log_text[log_n] = 0;
}

/* Names the directory of the store. */
static char dir_letter(int fd)
{
    static const char *const names[] = {"s", "s/filters", "s/quarantine"};
    struct stat a, b;
    OK(fstat(fd, &a));
    for (size_t i = 0; i < 3; i++)
        if (stat(path_of(names[i]), &b) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return "SFQ"[i];
    return '-';
}

/* Between two reads nothing changes, so that not every one need be the last. */
static ssize_t cut_pread(int fd, void *buf, size_t n, off_t at)
{
    static unsigned n_reads;
    if (++n_reads % 4 == 0 && fails_here())
        return -1;
    return pread(fd, buf, n, at);
}

static ssize_t cut_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return fails_here() ? -1 : calls_before.pwrite(fd, buf, n, at);
}

static int cut_fdatasync(int fd)
{
    return fails_here() ? -1
                        : 0; /* what a kill leaves is in the page cache all the same */
}

static int cut_fsync(int fd)
{
    char c = dir_letter(fd);
    if (fails_here())
        return -1;
    if (c != '-')
        log_change((char)(c + ('a' - 'A'))); /* s, f, q: synced */
    return 0;
}

static int cut_ftruncate(int fd, off_t n)
{
    return fails_here() ? -1 : calls_before.ftruncate(fd, n);
}

static int cut_rename(int from_dir, const char *from, int to_dir, const char *to,
                      unsigned flags)
{
    if (fails_here())
        return -1;
    log_change('R');
    return calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

static int cut_unlink(int dir, const char *name, int flags)
{
    if (fails_here())
        return -1;
    if (dir_letter(dir) == 'F')
        log_change('U');
    return calls_before.unlinkat(dir, name, flags);
}

static int cut_link(int from_dir, const char *from, int to_dir, const char *to,
                    int flags)
{
    if (fails_here())
        return -1;
    log_change('L');
    return calls_before.linkat(from_dir, from, to_dir, to, flags);
}

static uint64_t fixed_now(void)
{
    return 1700000000000000;
}

static int cuts_on(void **state)
{
    calls_before = io_calls;
    io_calls.pread = cut_pread;
    io_calls.pwrite = cut_pwrite;
    io_calls.fdatasync = cut_fdatasync;
    io_calls.fsync = cut_fsync;
    io_calls.ftruncate = cut_ftruncate;
    io_calls.renameat2 = cut_rename;
    io_calls.unlinkat = cut_unlink;
    io_calls.linkat = cut_link;
    io_calls.now = fixed_now;
    return 0;
}

#define TEST_WITH_CUTS(name) TEST_WITH(cuts_on, faults_off, name)

/* ---- a store with a bit of everything ---- */

/* a: rotten. b: good. c: lost. d: its record damaged. g: its writer died. n: grown, and
 * sealed, behind the catalog's back. twice: two files of one name. An orphan, a
 * temporary. */
static void make_origin(bool lost)
{
    scene("a bit of everything");
    steps(
        "put a 0 100 binding=B; put b 100 100 rank=1; put c 200 100 rank=2;"
        "put d 300 100 rank=3; growing g; grow g 1000 50 1; growing n; behind n;"
        "add 2000 500; seal 2; end; put twice 400 100; call first twice;"
        "copy first =twice; replace twice 500 100; copy =twice first; flip a 4105; "
        "lose c;"
        "text filters/0123456789abcdef0123456789abcdef.tamis.01234567.tmp x; kill 1050;"
        "rot_record d keys; close");
    if (lost)
        steps("poke catalog 0 108 111 115 116; cut catalog 5000");
    OK(rename(path_of("s"), path_of("origin")));
}

/* No key is absent from its segment, unless it never was in it. */
static void check_no_loss(bool lost)
{
    struct tamis_store *s;
    int rc = tamis_store_open(path_of("s"), NULL, &s, NULL);
    if (rc && lost)
        return; /* as it was */
    OK(rc);
    for (uint64_t i = 0; i < 4; i++)
        check_keys(s, (char[]){(char)('a' + i), 0}, i * 100, 100);
    check_keys(s, "g", 1000, 150);
    check_keys(s, "n", 2000, 500);
    check_keys(s, "twice", 500, 100);
    if (lost)
        IS(everywhere(s, 99999), TAMIS_MAYBE);
    tamis_store_close(s);
}

/* Names and what is there under them, in a directory. */
static void put_names(FILE *to, const char *dir, bool bytes)
{
    struct dirent **list;
    int n = scandir(path_of(dir), &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[1500];
        size_t size;
        snprintf(path, sizeof path, "%s/%s", path_of(dir), list[i]->d_name);
        struct stat st = stat_of(path);
        fprintf(to, "%s/%s", dir, list[i]->d_name);
        if (bytes && S_ISREG(st.st_mode) && !strstr(path, "catalog")) {
            FREED uint8_t *b = file_read(path, &size);
            fprintf(to, " %zu %016llx", size, (unsigned long long)XXH3_64bits(b, size));
        }
        fputc('\n', to);
        free(list[i]);
    }
    free(list);
}

/* All that matters of a store, as text. Sequence numbers leap at each recovery. */
static char *describe(void)
{
    char *text;
    size_t n_bytes;
    FILE *to = open_memstream(&text, &n_bytes);
    struct tamis_store *s = store_open("s");
    struct tamis_store_info info = store_info(s);
    fprintf(to, "complete %d seed %llu\n", info.complete,
            (unsigned long long)info.domain.seed);
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
        struct tamis_segment_info g = segment_at(snap, i);
        fprintf(to, "%.*s state %d rank %u keys %llu watermark %llu binding %zu %s\n",
                (int)g.name_bytes, (const char *)g.name, (int)g.state, g.rank,
                (unsigned long long)g.keys, (unsigned long long)g.watermark,
                g.binding_bytes, g.file);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    put_names(to, "s", false);
    put_names(to, "s/filters", false);
    put_names(to, "s/quarantine", true);
    fclose(to);
    return text;
}

static int killed_at(unsigned long at)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct tamis_repair_options opt = {.size = sizeof opt};
        n_calls = 0;
        die_at = at;
        _exit(tamis_store_repair(path_of("s"), &opt, NULL, NULL) ? 1 : 0);
    }
    IS(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_repaired(bool lost, const char *want, const char *how,
                           unsigned long n)
{
    repair("s");
    FREED char *got = describe();
    if (strcmp(got, want) != 0) {
        print_message("call %lu\n", n);
        fail_msg("%s:\n%s\ninstead of:\n%s", how, got, want);
    }
    check_no_loss(lost);
}

/* Kills at every call, and every third time the repair that follows as well. */
static unsigned long cut_everywhere(bool lost, const char *want)
{
    unsigned long n = 1;
    for (int code = 77; code == 77; n++) {
        copy_tree("origin", "s");
        code = killed_at(n);
        if (code != 77 && code != 0)
            fail_msg("repair failed (%d), to be killed at call %lu", code, n);
        check_no_loss(lost);
        if (n % 3 == 0)
            killed_at(1 + random_below(n));
        check_repaired(lost, want, "killed at a call", n);
        if (n % 4 == 0)
            check_settled("s");
    }
    return n;
}

static unsigned long fail_everywhere(bool lost, const char *want)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    unsigned long n = 1, n_reported = 0;
    for (bool reached = true; reached; n++) {
        struct tamis_diag diag = {0};
        copy_tree("origin", "s");
        n_calls = 0;
        fail_at = n;
        fail_with = errors[n % 3];
        int rc = repair_code("s", 0, NULL, NULL, &diag);
        reached = n_calls >= n;
        fail_at = 0;
        n_reported += rc != 0;
        IS(rc, diag.code);
        check_no_loss(lost);
        check_repaired(lost, want, "a call failed", n);
    }
    assert_true(n_reported > 5);
    return n;
}

static void check_cuts(bool lost)
{
    make_origin(lost);
    copy_tree("origin", "s");
    struct tamis_repair_report r = repair("s");
    assert_true(r.n_finished >= 1 && r.n_quarantined >= 1 && r.n_swept >= 1);
    char *want = describe();
    check_settled("s");
    unsigned long n = cut_everywhere(lost, want);
    assert_true(n > 20);
    unsigned long m = fail_everywhere(lost, want);
    assert_true(m > 20);
    print_message("killed at %lu system calls, failed at %lu: 0 lost\n", n, m);
    free(want);
}

TEST_WITH_CUTS(killed_anywhere_with_a_catalog)
{
    check_cuts(false);
}

TEST_WITH_CUTS(killed_anywhere_without_one)
{
    check_cuts(true);
}

/* ---- the order on the disk ---- */

/* Is `pattern` (letters, in order, others between them) what was logged? */
static void check_order(const char *pattern, const char *never_before, char what)
{
    const char *at = log_text;
    for (const char *p = pattern; *p; p++) {
        at = strchr(at, *p);
        if (!at)
            fail_msg("'%s' is not in order in '%s'", pattern, log_text);
        at++;
    }
    const char *first = strchr(log_text, what);
    for (const char *p = never_before; first && *p; p++)
        if (!strchr(log_text, *p) || strchr(log_text, *p) > first)
            fail_msg("'%c' is not before '%c' in '%s'", *p, what, log_text);
}

/* Second names are durable before the catalog changes, the catalog before first names
 * go; each directory is synced after its last change. */
TEST_WITH_CUTS(names_are_durable_before_what_relies_on_them)
{
    for (int lost = 0; lost < 2; lost++) {
        make_origin(lost);
        copy_tree("origin", "s");
        log_n = 0;
        die_at = 0;
        repair("s");
        check_order(lost ? "LqRsUf" : "LqUf", "Lq", 'U');
        if (lost)
            check_order("LqRsUf", "Lq", 'R');
        assert_null(strchr(strchr(log_text, 'U'), 'L'));
        assert_null(strchr(strrchr(log_text, 'f'), 'U'));
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
