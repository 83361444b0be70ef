/* A repair that is killed at any of its system calls: no key is lost by it, and the
 * next one comes to the same end as one that was never killed. Besides, the order of
 * what it writes, which is what a power cut would show. */
#include "tests/support/repair_support.h"

/* ---- system calls of which the nth is the last one, or fails ---- */

static unsigned long n_calls, die_at, fail_at;
static int fail_with;
static char log_text[4096]; /* a letter a call that changes names */
static size_t log_n;

/* Changes of names that a power cut may undo: those since their directory was synced.
 * Files that are unlinked or replaced are kept aside for this. */
static struct change {
    char kind; /* of dir_letter(), of the directory */
    bool made; /* the name is new */
    char name[700], kept[700], was[700];
} changes[200];
static size_t n_changes;

static void undo(const struct change *c)
{
    if (c->was[0] && rename(c->name, c->was) != 0)
        abort();
    if (c->made && unlink(c->name) != 0)
        abort();
    if (c->kept[0] && rename(c->kept, c->name) != 0)
        abort();
}

static void cut_power(void)
{
    uint64_t mask = random_u64() & random_u64();
    for (size_t i = n_changes; i-- > 0;)
        if (mask >> (i % 64) & 1)
            undo(&changes[i]);
}

static void forget_changes(char kind)
{
    size_t n = 0;
    for (size_t i = 0; i < n_changes; i++)
        if (changes[i].kind != kind)
            changes[n++] = changes[i];
    n_changes = n;
}

/* Before the change is made; was: the name that is replaced's own, before. */
static void note_change(char kind, const char *name, const char *was, bool made)
{
    static unsigned n;
    const char *dir = kind == 'S' ? "s" : kind == 'F' ? "s/filters" : "s/quarantine";
    struct change *c = &changes[n_changes];
    if (!die_at || kind == '-')
        return;
    assert_true(n_changes++ < 199);
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->made = made;
    snprintf(c->name, sizeof c->name, "%s/%s", path_of(dir), name);
    if (was)
        snprintf(c->was, sizeof c->was, "%s/%s", path_of(dir), was);
    snprintf(c->kept, sizeof c->kept, "%s/%u", path_of("kept"), n++);
    if (made || link(c->name, c->kept) != 0)
        c->kept[0] = 0;
}

/* Is this the call that fails? */
static bool step(void)
{
    if (++n_calls == die_at) {
        cut_power();
        _exit(77);
    }
    if (n_calls == fail_at)
        errno = fail_with;
    return n_calls == fail_at;
}

static void note(char c)
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
    assert_int_equal(fstat(fd, &a), 0);
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
    if (++n_reads % 4 == 0 && step())
        return -1;
    return pread(fd, buf, n, at);
}

static ssize_t cut_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return step() ? -1 : calls_before.pwrite(fd, buf, n, at);
}

static int cut_fdatasync(int fd)
{
    (void)fd;
    return step() ? -1 : 0; /* what a kill leaves is in the page cache all the same */
}

static int cut_fsync(int fd)
{
    char c = dir_letter(fd);
    if (step())
        return -1;
    if (c != '-')
        note((char)(c + ('a' - 'A'))); /* s, f, q: synced */
    forget_changes(c);
    return 0;
}

static int cut_ftruncate(int fd, off_t n)
{
    return step() ? -1 : calls_before.ftruncate(fd, n);
}

static int cut_rename(int from_dir, const char *from, int to_dir, const char *to,
                      unsigned flags)
{
    if (step())
        return -1;
    note('R');
    note_change(dir_letter(to_dir), to, from, false);
    return calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

static int cut_unlink(int dir, const char *name, int flags)
{
    char c = dir_letter(dir);
    if (step())
        return -1;
    if (c == 'F')
        note('U');
    if (flags == 0)
        note_change(c, name, NULL, false);
    return calls_before.unlinkat(dir, name, flags);
}

static int cut_link(int from_dir, const char *from, int to_dir, const char *to,
                    int flags)
{
    if (step())
        return -1;
    note('L');
    int rc = calls_before.linkat(from_dir, from, to_dir, to, flags);
    if (rc == 0)
        note_change(dir_letter(to_dir), to, NULL, true);
    return rc;
}

static uint64_t fixed_now(void)
{
    return 1700000000000000;
}

static int cuts_on(void **state)
{
    (void)state;
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

/* ---- a store with a bit of everything ---- */

/* a: rotten. b: good. c: lost. d: its record damaged. g: its writer died. n: grown, and
 * sealed, behind the catalog's back. twice: two files of one name. An orphan, a
 * temporary. */
static void make_origin(bool lost)
{
    char path[1200];
    struct tamis_store *s = store_new("origin");
    for (uint64_t i = 0; i < 4; i++)
        put_bound(s, (char[]){(char)('a' + i), 0}, i * 100, 100, "B", (uint32_t)i);
    put_growing(s, "g");
    grow_keys(s, "g", 1000, 50, 1);
    put_growing(s, "n");
    struct tamis_writer *w = open_writer(file_of(s, "origin", "n"));
    add_keys(w, 2000, 500);
    OK(tamis_writer_seal(w, 2, NULL, NULL));
    OK(tamis_writer_close(w));
    put_segment(s, "twice", 400, 100);
    snprintf(path, sizeof path, "%s", file_of(s, "origin", "twice"));
    file_copy(path, path_of("twice"));
    drop_segment(s, "twice");
    put_segment(s, "twice", 500, 100);
    file_copy(path_of("twice"), path); /* an orphan, as long as the catalog is there */
    flip(file_of(s, "origin", "a"), PAGE_BYTES + 9);
    assert_int_equal(unlink(file_of(s, "origin", "c")), 0);
    strcat(path, ".01234567.tmp");
    file_write(path, "x", 1);
    tamis_store_close(s);
    kill_writer("origin", 1050);
    poke_record("origin", "d", offsetof(struct record_disk, keys));
    if (lost)
        file_poke(path_of("origin/catalog.lmdb"), 0, "lost", 4),
            assert_int_equal(truncate(path_of("origin/catalog.lmdb"), 5000), 0);
}

/* No key is absent from its segment, unless it never was in it. */
static void check_no_loss(bool lost)
{
    struct tamis_store *s;
    int rc = tamis_store_open(path_of("s"), &s, NULL);
    if (rc && lost)
        return; /* as it was */
    OK(rc);
    for (uint64_t i = 0; i < 4; i++)
        check_keys(s, (char[]){(char)('a' + i), 0}, i * 100, 100);
    check_keys(s, "g", 1000, 150);
    check_keys(s, "n", 2000, 500);
    check_keys(s, "twice", 500, 100);
    if (lost)
        assert_int_equal(everywhere(s, 99999), TAMIS_MAYBE);
    tamis_store_close(s);
}

/* Names and what is there under them, in a directory. */
static void put_names(FILE *to, const char *dir, bool bytes)
{
    struct dirent **list;
    int n = scandir(path_of(dir), &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[1500];
        struct stat st;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", path_of(dir), list[i]->d_name);
        assert_int_equal(stat(path, &st), 0);
        fprintf(to, "%s/%s", dir, list[i]->d_name);
        if (bytes && S_ISREG(st.st_mode) && !strstr(path, "catalog")) {
            uint8_t *b = file_read(path, &size);
            fprintf(to, " %zu %016llx", size, (unsigned long long)XXH3_64bits(b, size));
            free(b);
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
    struct tamis_store_info info;
    OK(tamis_store_info(s, &info, NULL));
    fprintf(to, "complete %d seed %llu\n", info.complete,
            (unsigned long long)info.domain.seed);
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
        struct tamis_segment_info g;
        OK(tamis_snapshot_segment(snap, i, &g));
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
        die_at = random_state = at;
        _exit(tamis_store_repair(path_of("s"), &opt, NULL, NULL) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
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
        repair("s");
        char *got = describe();
        if (strcmp(got, want) != 0)
            fail_msg("killed at call %lu:\n%s\ninstead of:\n%s", n, got, want);
        free(got);
        check_no_loss(lost);
        if (n % 4 == 0)
            check_settled("s");
    }
    return n;
}

/* The same with calls that fail: the repair may say so, or do without. */
static unsigned long fail_everywhere(bool lost, const char *want)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    struct tamis_repair_options opt = {.size = sizeof opt};
    unsigned long n = 1, n_reported = 0;
    for (bool reached = true; reached; n++) {
        struct tamis_diag diag = {0};
        copy_tree("origin", "s");
        n_calls = 0;
        fail_at = n;
        fail_with = errors[n % 3];
        int rc = tamis_store_repair(path_of("s"), &opt, NULL, &diag);
        reached = n_calls >= n;
        fail_at = 0;
        n_reported += rc != 0;
        assert_int_equal(rc, diag.code);
        check_no_loss(lost);
        repair("s");
        char *got = describe();
        if (strcmp(got, want) != 0)
            fail_msg("call %lu failed (%d: %s):\n%s\ninstead of:\n%s", n, rc, diag.what,
                     got, want);
        free(got);
        check_no_loss(lost);
    }
    assert_true(n_reported > 5);
    return n;
}

static void check_cuts(bool lost)
{
    make_origin(lost);
    mkdir(path_of("kept"), 0777);
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
    remove_tree("origin");
    remove_tree("s");
}

static void killed_anywhere_with_a_catalog(void **state)
{
    (void)state;
    check_cuts(false);
}

static void killed_anywhere_without_one(void **state)
{
    (void)state;
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
static void names_are_durable_before_what_relies_on_them(void **state)
{
    (void)state;
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
        remove_tree("origin");
        remove_tree("s");
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, cuts_on, faults_off)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(killed_anywhere_with_a_catalog),
        TEST(killed_anywhere_without_one),
        TEST(names_are_durable_before_what_relies_on_them),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
