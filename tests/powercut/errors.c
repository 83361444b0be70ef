/* Device errors under the whole stack (R4): the library on a real file system whose
 * disk answers EIO to flushes, to writes or to reads for a while, loses what it was
 * given, or fails a write-back behind the writer's back, so that the page cache shows
 * bits that the disk does not have. And the guard against SIGBUS where it is needed
 * (R15): pages that the disk cannot read, and stores for which there is no space (holes
 * in a stage, blocks shared with a copy).
 *
 * Each test has two halves: a script while the disk is bad, and one after it has
 * healed, on a file system mounted anew, whose page cache knows only what the disk
 * knows. */
#include "tests/powercut/device.h"
#include "tests/steps/steps.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>

/* How the disk is bad; a test names those that it runs with. */
enum bad {
    BAD_FLUSHES = 1,
    BAD_WRITES = 2,
    BAD_BOTH = 4,
    BAD_READS = 8,
    BAD_LOSES = 16, /* says that it has written, and has not */
    BAD_ONE = 32,   /* one request fails: its nth from then on */
    BAD_FULL = 64,  /* it is full */
    N_BAD = 128,
    SURE = 128, /* with any but BAD_ONE a call must fail */
    BAD_SYNCS = BAD_FLUSHES | BAD_WRITES | BAD_BOTH | SURE,
};

/* Shared by both halves and the one that waits for them. */
struct note {
    struct device *device;
    enum bad bad;
    int nth;
    bool may_fail; /* from a break on, until a writer that has stopped is closed */
    bool failed, stopped;
    unsigned n_told; /* old errors of which a writer that comes back was told */
    uint64_t hash;   /* of a file that must not change */
    struct promises promises;
    char what[400];
};

struct error_test {
    const char *name, *on; /* file systems; NULL: all that have a disk */
    unsigned bad;
    const char *before;
    const char *again; /* by another process, before the disk is unmounted; or NULL */
    const char *after; /* what the disk knows, without what the page cache knew */
};

/* ---- scripts, and words of their own:
 *
 *   break, heal     the disk is bad, or not
 *   writeback FILE  somebody else's write-back meets the bad disk
 *   unread NAME     a file or a segment that cannot be read, and can be again
 *   badpage NAME N  page N of a file cannot be read; N over 1000: of its digests or
 * floors reader NAME N   N pages of it (0: all) are bad for a reader, until the disk is
 * healed full N, space   no block is free, so that calls may fail (1); some are again
 *   dig NAME, share NAME  its first stage is a hole; its blocks are a copy's, too
 *   same NAME       it is as it was when this was said before
 *   killed ... survived   what is between is death by SIGBUS, for it stands there alone
 *   command NAME N  `tamis file verify` ends with that status
 *   expect          the checker (tests/steps/check.c)
 *   clean NAME N, behind NAME, damaged NAME  what a reader says of the filter ---- */

static struct note *note; /* the process's */
static struct script script;

/* Ends the half with that finding, unless so. */
static void __attribute__((format(printf, 2, 3))) must(bool so, const char *format, ...)
{
    va_list args;
    if (so)
        return;
    va_start(args, format);
    vsnprintf(note->what, sizeof note->what, format, args);
    va_end(args);
    _exit(1);
}

_Noreturn void model_broken(const char *text)
{
    must(false, "%s", text);
    _exit(1);
}

/* ---- the disk ---- */

static void device_break(struct note *n)
{
    atomic_store(&n->device->fail_flushes, (n->bad & (BAD_FLUSHES | BAD_BOTH)) != 0);
    atomic_store(&n->device->fail_writes, (n->bad & (BAD_WRITES | BAD_BOTH)) != 0);
    atomic_store(&n->device->fail_reads, n->bad == BAD_READS);
    atomic_store(&n->device->lose_writes, n->bad == BAD_LOSES);
    atomic_store(&n->device->fail_nth, n->nth);
    n->may_fail = true;
}

static void device_heal(struct note *n)
{
    atomic_store(&n->device->fail_flushes, false);
    atomic_store(&n->device->fail_writes, false);
    atomic_store(&n->device->fail_reads, false);
    atomic_store(&n->device->lose_writes, false);
    atomic_store(&n->device->fail_nth, 0);
}

/* ---- calls that fail ---- */

/* A writer that has stopped has stopped for good, whatever the disk does now. */
static bool has_stopped(struct player *p, int rc, const char *call)
{
    if (!note->stopped || strncmp(call, "tamis_writer_", 13) != 0)
        return false;
    must(rc == TAMIS_ERR_POISONED || (rc == 0 && strstr(call, "add")),
         "after a failure, %s: %s", call, tamis_strerror(rc));
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        struct tamis_filter_info info;
        must(!p->writer[i] || (tamis_writer_info(p->writer[i], &info, NULL) == 0 &&
                               info.watermark == p->p->object[i].watermark),
             "the watermark has moved");
    }
    if (strstr(call, "close"))
        note->stopped = note->may_fail = false;
    return true;
}

static void returned(struct player *p, int rc, int expected, const char *call)
{
    if (has_stopped(p, rc, call) || rc == expected)
        return;
    /* A writer that comes back may be told of an old error once, but not for ever. */
    if (rc == EIO && strncmp(call, "opening", 7) == 0 && note->n_told++ == 0)
        return;
    must(note->may_fail, "%s: %s: %s", call, tamis_strerror(rc),
         p->diag.code == NO_DIAG ? "" : p->diag.what);
    note->failed = true;
    note->stopped = strncmp(call, "tamis_writer_", 13) == 0 &&
                    !strstr(call, "create") && !strstr(call, "close");
    p->unsure = strncmp(call, "tamis_edit_commit", 17) == 0;
}

/* ---- the cache shows bits that the disk lost ---- */

static void read_pages(const char *path, int flags, uint8_t *to, size_t n_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    must(fd >= 0 && pread(fd, to, n_bytes, 0) == (ssize_t)n_bytes, "reading: %s",
         strerror(errno));
    close(fd);
}

static void write_back(const char *path)
{
    enum { BYTES = 20480 }; /* the header and the first pages */
    static _Alignas(4096) uint8_t cached[BYTES], on_disk[BYTES];
    struct statfs fs;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    sync_file_range(fd, 0, 0,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
    device_heal(note);
    must(atomic_load(&note->device->n_failed) > 0, "nothing was written back");
    /* btrfs reads data that it has checksums of through the page cache only. */
    if (fstatfs(fd, &fs) == 0 && fs.f_type != BTRFS_SUPER_MAGIC) {
        read_pages(path, 0, cached, BYTES);
        read_pages(path, O_DIRECT, on_disk, BYTES);
        must(memcmp(cached, on_disk, BYTES) != 0, "the disk has what the cache has");
    }
    close(fd);
}

/* ---- reads that fail ---- */

static struct tamis_key stranger(void)
{
    return (struct tamis_key){.tag = steps_domain().tag, .hash = 12345};
}

static void unread_file(const char *path)
{
    static _Alignas(4096) uint8_t page[4096];
    struct tamis_filter *f;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    /* Out of the page cache, so that the disk is asked. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    device_break(note);
    int err = tamis_filter_open(NULL, INSIDE(.fd = fd), &f, NULL);
    must(err == EIO && !f, "a filter that can't be read: %s", tamis_strerror(err));
    device_heal(note);
    must(pread(fd, page, sizeof page, 0) == sizeof page, "reading");
    close(fd);
}

static void unread_segment(struct player *p, const char *name)
{
    struct tamis_snapshot *s = NULL;
    struct tamis_key key = stranger();
    enum tamis_reason why;
    size_t index;
    must(with_store(p) && tamis_snapshot_current(p->store, &s, NULL) == 0, "snapshot");
    must(find_segment(s, name, &index), "find");
    struct tamis_target t = tamis_snapshot_target(s, index);
    device_break(note);
    enum tamis_answer answer = tamis_snapshot_probe(s, &t, &key, &why);
    device_heal(note);
    must(answer == TAMIS_MAYBE && why == TAMIS_UNREADABLE,
         "a segment that can't be read: %s", tamis_reason_name(why));
    tamis_snapshot_release(s);
    player_end(p);
}

/* ---- single pages that cannot be read, through mappings ---- */

static struct stage_desc first_stage(const char *path)
{
    struct identity id;
    struct commit c;
    struct slot_health health;
    size_t n;
    uint8_t *bytes = file_bytes(path, &n);
    must(identity_decode(bytes, n, &id).code == VERDICT_OK &&
             commit_choose_slot(bytes, &id, n, &c, &health).code == VERDICT_OK,
         "no header");
    free(bytes);
    return c.stages[0];
}

/* The page cache has all of the file but that page. */
static void bad_page(const char *path, uint64_t page)
{
    struct stage_desc s = first_stage(path);
    uint64_t tree = s.digests_offset ? s.digests_offset : s.floors_offset;
    uint64_t bad = page > 1000 ? tree : s.offset + page * PAGE_BYTES;
    static uint8_t bytes[PAGE_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
             posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0,
         "emptying the cache");
    for (uint64_t at = 0; at == bad || pread(fd, bytes, PAGE_BYTES, (off_t)at) > 0;)
        at += PAGE_BYTES;
    device_break(note);
    close(fd);
}

static uint64_t n_absent(struct tamis_filter *f, uint32_t from, uint32_t n)
{
    uint8_t bytes[8];
    uint64_t absent = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct tamis_key key = key_number(from + i, bytes);
        absent += tamis_filter_probe(f, &key, NULL) == TAMIS_ABSENT;
    }
    return absent;
}

static uint32_t n_promised(const struct object *o)
{
    return o->grows ? o->watermark : keyset_size(&o->keys);
}

/* Nothing is lost, most others are told. A page that was found bad stays bad. */
static void read_bad(const struct object *o, const char *path, uint64_t n_bad)
{
    enum { STRANGERS = 1000, FROM = 50000000 };
    uint32_t from = o->keys.range[0].from, n = n_promised(o);
    struct tamis_verify report;
    struct tamis_filter *f;
    must(tamis_filter_open(path, NULL, &f, NULL) == 0, "open");
    must(n_absent(f, from, n) == 0, "a key is ABSENT");
    must(n_bad != 1 || n_absent(f, FROM, STRANGERS) > STRANGERS / 2, "all is MAYBE");
    for (int healed = 0; healed < 2; healed++) {
        must(tamis_filter_verify(f, &report, NULL) == TAMIS_ERR_DAMAGED, "verify");
        must(report.n_damaged == (n_bad ? n_bad : report.n_pages), "%llu pages are bad",
             (unsigned long long)report.n_damaged);
        device_heal(note);
        must(n_absent(f, from, n) == 0, "a key is ABSENT when the disk has healed");
    }
    tamis_filter_close(f);
}

/* ---- disks without space ---- */

static const char *beside(const struct player *p, const char *name)
{
    static char path[2 * STEPS_PATH_BYTES];
    path_in(p, name, path);
    return path;
}

static void fill_up(const struct player *p)
{
    off_t at = 0;
    int fd = open(beside(p, "filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (off_t n = 1 << 26; n >= 512; n /= 2)
        while (fallocate(fd, 0, at, n) == 0)
            at += n;
    must(errno == ENOSPC, "filling up: %s", strerror(errno));
    fsync(fd); /* which may give something back */
    while (pwrite(fd, &fd, sizeof fd, at) > 0 && fdatasync(fd) == 0)
        at += PAGE_BYTES;
    close(fd);
}

static void make_space(const struct player *p)
{
    must(unlink(beside(p, "filler")) == 0, "making space");
    sync();
    note->may_fail = false;
}

/* As after a copy by a program that leaves out zeros. */
static void dig(const char *path)
{
    struct stage_desc s = first_stage(path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s.offset,
                   (off_t)s.length) == 0 &&
             fsync(fd) == 0,
         "no hole");
    close(fd);
}

/* Any byte that is stored now needs a block of its own. */
static void share(const struct player *p, const char *path)
{
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = open(beside(p, "twin"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(ioctl(to, FICLONE, from) == 0 && fsync(to) == 0, "no blocks are shared");
    close(from);
    close(to);
}

static void expect_same(const char *path)
{
    uint64_t now = steps_file_hash(path);
    must(!note->hash || note->hash == now, "the file has changed");
    note->hash = note->hash ? 0 : now;
}

/* The child plays on, the parent behind "survived". */
static void be_killed(struct player *p)
{
    const struct rlimit none = {0, 0};
    pid_t pid = process_start(0);
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        setrlimit(RLIMIT_CORE, &none);
        return;
    }
    int status = process_end(pid);
    must(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "no SIGBUS: %d", status);
    while (strcmp(script.step[p->at].word->text, "survived") != 0)
        p->at++;
}

static void command(const char *path, double wanted)
{
    char line[3 * STEPS_PATH_BYTES];
    snprintf(line, sizeof line, "'%s/tamis' file verify '%s' >/dev/null 2>&1",
             TAMIS_BUILD_DIR, path);
    int status = system(line);
    must(WIFEXITED(status) && WEXITSTATUS(status) == (int)wanted, "verify: %#x",
         status);
}

/* ---- what a reader says ---- */

static void ask_reader(struct player *p, const struct step *s, const char *path)
{
    const struct object *o = promised_object(p->p, s->name[0]);
    bool behind = s->word->text[0] == 'b';
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .min_watermark = behind ? o->n_added + 1 : 0};
    struct tamis_filter_info info;
    struct tamis_key key = stranger();
    struct tamis_filter *f;
    enum tamis_reason why;
    uint64_t n_damaged = 0;
    uint8_t bytes[8];
    must(tamis_filter_open(path, &opt, &f, NULL) == 0, "open");
    must(tamis_filter_info(f, &info, NULL) == 0, "info");
    /* R5: who needs more than is there gets MAYBE. */
    must(!behind ||
             (tamis_filter_probe(f, &key, &why) == TAMIS_MAYBE && why == TAMIS_BEHIND),
         "a watermark that is not there is not missed");
    must(s->word->text[0] != 'c' || (!info.sealed && info.clean == (s->number[0] > 0)),
         "clean is %d, sealed %d", info.clean, info.sealed);
    for (uint32_t i = 0; i < n_promised(o); i++) {
        key = key_number(o->keys.range[0].from + i, bytes);
        must(tamis_filter_probe(f, &key, &why) == TAMIS_MAYBE, "key %u is ABSENT", i);
        n_damaged += why == TAMIS_DAMAGED;
    }
    must(s->word->text[0] != 'd' || n_damaged, "nothing was found to be damaged");
    tamis_filter_close(f);
}

/* ---- the words ---- */

static int own_word(struct player *p, const struct step *s)
{
    const char *word = s->word->text;
    struct look look = {.any_damage = note->bad == BAD_LOSES};
    const struct object *o = promised_object(p->p, s->n_names ? s->name[0] : "none");
    char path[2 * STEPS_PATH_BYTES];
    path_in(p, o->name, path);
    if (strcmp(word, "break") == 0)
        device_break(note);
    else if (strcmp(word, "heal") == 0)
        device_heal(note);
    else if (strcmp(word, "expect") == 0)
        steps_expect(p, &look);
    else if (strcmp(word, "writeback") == 0)
        write_back(path);
    else if (strcmp(word, "unread") == 0 && o->place == IN_STORE)
        unread_segment(p, s->name[0]);
    else if (strcmp(word, "unread") == 0)
        unread_file(path);
    else if (strcmp(word, "badpage") == 0)
        bad_page(path, (uint64_t)s->number[0]);
    else if (strcmp(word, "reader") == 0)
        read_bad(o, path, (uint64_t)s->number[0]);
    else if (strcmp(word, "full") == 0)
        fill_up(p), note->may_fail = s->number[0] > 0;
    else if (strcmp(word, "space") == 0)
        make_space(p);
    else if (strcmp(word, "dig") == 0)
        dig(path);
    else if (strcmp(word, "share") == 0)
        share(p, path);
    else if (strcmp(word, "same") == 0)
        expect_same(path);
    else if (strcmp(word, "killed") == 0)
        be_killed(p);
    else if (strcmp(word, "survived") == 0)
        must(false, "no SIGBUS");
    else if (strcmp(word, "command") == 0)
        command(path, s->number[0]);
    else
        ask_reader(p, s, path);
    return 0;
}

static _Noreturn void errors_play(struct note *n, const char *dir, const char *text,
                                  bool must_fail)
{
    static struct player p;
    note = n;
    n->failed = n->stopped = n->may_fail = false;
    p = (struct player){
        .p = &n->promises, .dir = dir, .returned = returned, .own = own_word};
    must(script_parse(text, &script), "no script");
    play(&p, &script);
    must(n->failed || !must_fail, "what is not on the disk is acknowledged");
    _exit(0);
}

static const char *only_fs, *only_test;
static unsigned n_passed, n_failed;

struct bench {
    const struct host_fs *fs;
    const char *dir;
    char fuse[HOST_PATH_BYTES + 8], file[HOST_PATH_BYTES + 16],
        mount[HOST_PATH_BYTES + 8];
    struct host_made made;
    struct host_loop loop;
};

/* ---- the tests ---- */

/* Each step of a writer that has stopped, with the bad disk and with the good one. */
#define STOPPED         "commit f; seal f; heal; commit f; seal f; shut f"
#define COMMITTED       "lone f 5000; fill f 200; commit f; fill f 100; "
#define REPLAY          "writer f; writer f; replay f; commit f; shut f; "
#define AFTER_A_BAD_END "expect; clean f 0; behind f; " REPLAY "expect; clean f 1"
/* A page of bits, then one of what tells whether they are good. */
#define UNREADABLE "badpage f 3; reader f 1; badpage f 1001; reader f 0; expect"
/* Without space, opening is an error and nothing is written; with space, the writer has
 * it for good, and a file that has its space opens on a full disk, too. */
#define OPEN_ON_FULL                                                                   \
    "same f; full 1; writer f; same f; space; writer f; full 0; fill f 40000; commit " \
    "f; shut f; writer f; shut f; space; expect"
/* Keys that were not committed are not there; the next attempt, with space, succeeds.
 * Without the guard the process only dies. */
#define WRITE_ON_FULL(spoil)                                                           \
    "guard 1; writer f; " spoil                                                        \
    " f; full 1; fill f 40000; fill f 1; commit f; shut f; "                           \
    "clean f 0; space; writer f; replay f; commit f; shut f; expect"
#define KILLED_ON_FULL(spoil)                                                          \
    "killed; writer f; " spoil " f; full 1; fill f 40000; survived; space; writer f; " \
    "shut f; expect"
#define EMPTY "lone f 40000 2 .01; commit f; shut f; "
#define HALF  "lone f 40000 2 .01; fill f 20000; commit f; shut f; "

static const struct error_test tests[] = {
    {"commit", NULL, BAD_SYNCS, COMMITTED "break; commit f; " STOPPED, NULL,
     AFTER_A_BAD_END},
    /* If it says 0 all the same, then it must be so. */
    {"commit, perhaps", NULL, BAD_ONE, COMMITTED "break; commit f; heal; commit f",
     NULL, AFTER_A_BAD_END},
    {"close", NULL, BAD_SYNCS, COMMITTED "break; shut f", NULL, AFTER_A_BAD_END},
    {"growth", NULL, BAD_SYNCS, COMMITTED "break; fill f 11700; commit f; " STOPPED,
     NULL, AFTER_A_BAD_END},
    /* The last sync of all may have failed: then the seal stands. */
    {"seal", NULL, BAD_SYNCS, COMMITTED "break; seal f; " STOPPED, NULL,
     "expect; behind f; " REPLAY "expect"},
    /* Every key that is replayed is in the page cache already. */
    {"write-back fails behind a writer", NULL, BAD_WRITES | SURE,
     COMMITTED "break; writeback f; commit f; " STOPPED "; " REPLAY, NULL,
     "expect; clean f 1"},
    {"write-back fails behind a dead writer", NULL, BAD_WRITES,
     COMMITTED "break; writeback f", REPLAY, "expect; clean f 1"},
    /* The floors know (R8). btrfs would answer EIO itself: SIGBUS, since this is a
     * mapping. */
    {"a disk that lies", "ext4 xfs", BAD_LOSES,
     COMMITTED "break; writeback f; commit f; shut f", NULL, "expect; damaged f"},
    /* There or not, but if there then whole. */
    {"build", NULL, BAD_SYNCS | BAD_ONE, "break; build f 0 1000; heal", NULL,
     "expect; build f 0 1000; expect"},
    {"create", NULL, BAD_SYNCS | BAD_ONE, "break; lone f; heal", NULL,
     "expect; lone f; writer f; shut f; expect"},
    {"edit", NULL, BAD_SYNCS | BAD_ONE, "init; put a 0 100; break; put b 200 100; heal",
     NULL, "expect; put c 400 100; expect"},
    {"reads", NULL, BAD_READS, "init; put a 0 100; build f 0 1000; unread f; expect",
     NULL, "unread a; expect"},
    {"a sealed page", NULL, BAD_READS, "guard 1; build f 0 40000 .01; " UNREADABLE,
     NULL, "command f 0; expect"},
    /* Ones meet the floors of the page: it must not pass for that. */
    {"an open page", NULL, BAD_READS, "guard 1; " HALF UNREADABLE, NULL, "expect"},
    {"a page, no guard", NULL, BAD_READS,
     "build f 0 40000 .01; badpage f 3; command f 3; killed; damaged f; survived; "
     "heal; "
     "command f 0",
     NULL, "expect"},
    /* A writer that was closed in order looks at a page when it adds to it. After that
     * unclean end every page must be looked at: the next one can't start. */
    {"a page, a writer", NULL, BAD_READS | SURE,
     "guard 1; lone f 40000 2 .01; fill f 1000; commit f; shut f; badpage f 3; writer "
     "f; "
     "fill f 5000; commit f; seal f; shut f; writer f; reader f 1",
     NULL, "writer f; fill f 100; commit f; shut f; expect; clean f 1"},
    {"a holed copy, full", "tmpfs ext4 xfs", BAD_FULL | SURE,
     EMPTY "dig f; " OPEN_ON_FULL, NULL, "expect"},
    {"a shared copy, full", "xfs", BAD_FULL | SURE, HALF "share f; " OPEN_ON_FULL, NULL,
     "expect"},
    {"a hole, full", "tmpfs ext4", BAD_FULL | SURE, EMPTY WRITE_ON_FULL("dig"), NULL,
     "expect"},
    {"shared blocks, full", "btrfs xfs", BAD_FULL | SURE, HALF WRITE_ON_FULL("share"),
     NULL, "expect"},
    {"a hole, full, no guard", "tmpfs ext4", BAD_FULL, EMPTY KILLED_ON_FULL("dig"),
     NULL, "expect"},
    {"shared blocks, full, no guard", "btrfs xfs", BAD_FULL,
     HALF KILLED_ON_FULL("share"), NULL, "expect"},
};

static const char *bad_name(enum bad bad)
{
    return bad == BAD_FLUSHES  ? "flushes fail"
           : bad == BAD_WRITES ? "writes fail"
           : bad == BAD_BOTH   ? "writes and flushes fail"
           : bad == BAD_READS  ? "reads fail"
           : bad == BAD_ONE    ? "one request fails"
           : bad == BAD_FULL   ? "no space"
                               : "writes are lost";
}

/* ---- one test ---- */

/* One half, in a process of its own: what it leaves open goes with it. */
static bool half(const struct bench *b, const struct error_test *t, struct note *n,
                 const char *text, bool must_fail)
{
    pid_t pid = process_start(120);
    if (pid == 0)
        errors_play(n, b->mount, text, must_fail);
    int status = host_wait(pid);
    if (status == 0)
        return true;
    printf("FAILED %s, %s, %s (%d): %s (status %d): %s\n", b->fs->name, t->name,
           bad_name(n->bad), n->nth, n->what, status, text);
    return false;
}

/* tmpfs has no disk: its files are lost if it is unmounted, so it stays mounted. */
static bool has_disk(const struct bench *b)
{
    return b->fs->mkfs != NULL;
}

static void mount_it(struct bench *b)
{
    if (!has_disk(b)) {
        if (mount("none", b->mount, "tmpfs", 0, "size=2m") != 0)
            host_fail("mounting a tmpfs");
        return;
    }
    host_loop_open(&b->loop, b->file, b->dir);
    int err = host_mount(b->fs, &b->loop, b->mount);
    if (err)
        host_fail("mounting %s: %s", b->fs->name, strerror(err));
}

static void unmount_it(struct bench *b)
{
    host_unmount(b->mount);
    if (has_disk(b))
        host_loop_close(&b->loop);
}

/* False if the disk never failed. */
static bool run_one(struct bench *b, const struct error_test *t, enum bad bad, int nth)
{
    struct note *n = memory_shared(sizeof *n);
    n->device = device_create(&b->made);
    n->bad = bad;
    n->nth = nth;
    device_serve(n->device, b->fuse);
    mount_it(b);
    bool ok = half(b, t, n, t->before, t->bad & SURE && bad != BAD_ONE);
    ok = ok && (!t->again || half(b, t, n, t->again, false));
    device_heal(n);
    if (has_disk(b))
        unmount_it(b);
    bool any = atomic_load(&n->device->n_failed) > 0;
    if (ok && !any && nth <= 1 && bad != BAD_FULL) {
        printf("FAILED %s, %s: the disk never failed\n", b->fs->name, t->name);
        ok = false;
    }
    if (has_disk(b))
        mount_it(b);
    ok = ok && half(b, t, n, t->after, false);
    unmount_it(b);
    device_stop(n->device, b->fuse);
    device_free(n->device);
    munmap(n, sizeof *n);
    n_passed += ok;
    n_failed += !ok;
    return any;
}

/* Each request in its turn, until there are no more. */
static void run_test(struct bench *b, const struct error_test *t, enum bad bad)
{
    int nth = bad == BAD_ONE;
    while (run_one(b, t, bad, nth) && bad == BAD_ONE && nth < 100)
        nth++;
}

static void run_tests(struct bench *b)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        const struct error_test *t = &tests[i];
        if (t->on ? !strstr(t->on, b->fs->name) : !has_disk(b))
            continue;
        for (unsigned bad = 1; bad < N_BAD; bad <<= 1)
            if (t->bad & bad && (!only_test || strstr(t->name, only_test)))
                run_test(b, t, (enum bad)bad);
    }
}

static void run_fs(const struct host_fs *fs, const char *dir)
{
    struct bench b = {.fs = fs, .dir = dir};
    unsigned before = n_passed;
    snprintf(b.fuse, sizeof b.fuse, "%.240s/fuse", dir);
    snprintf(b.file, sizeof b.file, "%s/disk", b.fuse);
    snprintf(b.mount, sizeof b.mount, "%.240s/mount", dir);
    mkdir(b.fuse, 0700);
    mkdir(b.mount, 0700);
    if (has_disk(&b))
        host_mkfs(fs, dir, &b.made);
    else
        host_make_room(&b.made, 1);
    run_tests(&b);
    host_unmake(&b.made);
    printf("ok     device errors under %-5s %3u tests\n", fs->name, n_passed - before);
}

static int run(const char *dir)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < host_n_file_systems; i++)
        if (!only_fs || strcmp(only_fs, host_file_systems[i].name) == 0)
            run_fs(&host_file_systems[i], dir);
    if (!only_fs || strcmp(only_fs, "tmpfs") == 0)
        run_fs(&(const struct host_fs){.name = "tmpfs"}, dir);
    printf("%u passed, %u failed\n", n_passed, n_failed);
    return n_failed || !n_passed;
}

int main(int argc, char **argv)
{
    const struct known_option known[] = {
        {"fs", .text = &only_fs}, {"test", .text = &only_test}, {0}};
    return options_read(argc, argv, known) ? host_run(run) : 2;
}
