/* Writers of one file: what was acknowledged stays, a failed sync ends the writer, and
 * after it has been opened again its caller replays and goes on. */
#include "tests/faults/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The caller's side: keys are numbered, and a watermark is a number of keys. */
static struct log {
    uint64_t added, acked, asked; /* keys; asked: the highest watermark of any try */
    bool created, sealed;         /* acknowledged */
    uint64_t syncs_at_open;
} l;

static struct tamis_writer_options shape;

static const char *path_in(const struct run *r)
{
    return in_dir(r, "f");
}

static int create(struct run *r, struct tamis_writer **w)
{
    l.syncs_at_open = tally.syncs_failed;
    int rc = TRY(r, tamis_writer_create(path_in(r), &shape, w, &r->diag));
    CHECK(rc == 0 || !*w, "it failed, and there is a writer");
    l.created |= rc == 0;
    return rc;
}

static int open_it(struct run *r, struct tamis_writer **w)
{
    l.syncs_at_open = tally.syncs_failed;
    int rc = TRY(r, tamis_writer_open(path_in(r), w, &r->diag));
    CHECK(rc == 0 || !*w, "it failed, and there is a writer");
    if (rc == 0) {
        uint64_t watermark = tamis_writer_watermark(*w);
        CHECK(watermark >= l.acked, "watermark %llu, acknowledged was %llu",
              (unsigned long long)watermark, (unsigned long long)l.acked);
        CHECK(watermark <= l.asked, "watermark %llu was never asked for",
              (unsigned long long)watermark);
        /* Opened anew, so whatever it says is durable. */
        l.acked = watermark;
    }
    return rc;
}

static bool sync_failed(void)
{
    return tally.syncs_failed > l.syncs_at_open;
}

/* R4: from the first failed sync on nothing is promised any more. */
static int promise(struct run *r, int rc, bool failed_before, const char *what)
{
    tried(r, rc, what);
    CHECK(rc != 0 || !sync_failed(), "%s succeeds after a failed sync", what);
    CHECK(!failed_before || rc == TAMIS_ERR_POISONED,
          "%s after a failed sync: %s, not POISONED", what, tamis_strerror(rc));
    return rc;
}

static int add(struct run *r, struct tamis_writer *w, uint64_t n)
{
    uint64_t hashes[256];
    hashes_of(l.added, n, hashes);
    bool before = sync_failed();
    int rc = TRY(r, tamis_writer_add_hashes(w, tamis_writer_domain(w).tag, hashes, n));
    CHECK(!before || rc == TAMIS_ERR_POISONED, "a poisoned writer takes keys");
    if (rc == 0)
        l.added += n;
    return rc;
}

static int commit(struct run *r, struct tamis_writer *w)
{
    bool before = sync_failed();
    r->diag.code = NO_DIAG;
    l.asked = l.added;
    int rc = IN_LIB(tamis_writer_commit(w, l.added, &r->diag));
    if (promise(r, rc, before, "commit") == 0)
        l.acked = l.added;
    CHECK(tamis_writer_watermark(w) <= l.asked && tamis_writer_watermark(w) >= l.acked,
          "the writer's watermark is wrong");
    return rc;
}

static void seal(struct run *r, struct tamis_writer *w)
{
    bool before = sync_failed();
    r->diag.code = NO_DIAG;
    l.asked = l.added;
    int rc = IN_LIB(tamis_writer_seal(w, l.added, NULL, &r->diag));
    if (promise(r, rc, before, "seal") != 0)
        return;
    l.acked = l.added;
    l.sealed = true;
}

/* As found in the file's cached bytes: an orderly end, and open? (A seal that was not
 * acknowledged may stand.) */
static bool is_clean(const struct run *r)
{
    static uint8_t raw[HEADER_MAX_BYTES];
    struct identity id;
    struct commit c;
    struct slot_health health;
    int fd = open(path_in(r), O_RDONLY | O_CLOEXEC);
    CHECK(pread(fd, raw, sizeof raw, 0) == sizeof raw, "no header");
    close(fd);
    CHECK(identity_decode(raw, sizeof raw, &id).code == VERDICT_OK, "identity");
    return commit_choose_slot(raw, &id, 1 << 30, &c, &health).code == VERDICT_OK &&
           c.clean && c.state == STATE_OPEN;
}

static void close_it(struct run *r, struct tamis_writer *w)
{
    bool before = sync_failed();
    bool sealed = l.sealed;
    int rc = IN_LIB(tamis_writer_close(w));
    r->diag.code = NO_DIAG;
    promise(r, rc, before, "close");
    CHECK(!before || sealed || !is_clean(r), "clean, after a failed sync");
}

/* ---- bodies ---- */

static void go_on(struct run *r, struct tamis_writer *w, uint64_t n, uint64_t step)
{
    for (uint64_t i = 0; i < n; i += step) {
        add(r, w, step);
        commit(r, w);
    }
}

/* One page a stage. */
static void none(struct run *r)
{
    (void)r;
    memset(&l, 0, sizeof l);
    shape = (struct tamis_writer_options){.size = sizeof shape,
                                          .growth = {0.0001, 2, 0, 40}};
}

static void create_body(struct run *r)
{
    struct tamis_writer *w;
    if (create(r, &w) != 0)
        return;
    go_on(r, w, 30, 15);
    close_it(r, w);
}

static void make_clean(struct run *r)
{
    struct tamis_writer *w;
    CHECK(create(r, &w) == 0, "preparing");
    go_on(r, w, 30, 15);
    close_it(r, w);
}

static void prepare_clean(struct run *r)
{
    none(r);
    make_clean(r);
}

/* Many pages, so that a seal has a tree of digests to write. */
static void prepare_pages(struct run *r)
{
    none(r);
    shape.growth.first_capacity = 20000;
    make_clean(r);
}

static void grow_body(struct run *r)
{
    struct tamis_writer *w;
    if (open_it(r, &w) != 0)
        return;
    go_on(r, w, 160, 40);
    close_it(r, w);
}

/* The file of a writer that was killed after a commit and some adds, several stages
 * on. */
static void prepare_unclean(struct run *r)
{
    struct tamis_writer *w;
    none(r);
    CHECK(create(r, &w) == 0, "preparing");
    go_on(r, w, 60, 30);
    uint64_t hashes[20];
    hashes_of(l.added, 20, hashes);
    tamis_writer_add_hashes(w, tamis_writer_domain(w).tag, hashes, 20);
    copy_file(path_in(r), in_dir(r, "copy"));
    close_it(r, w);
    CHECK(rename(in_dir(r, "copy"), path_in(r)) == 0, "preparing");
}

static void unclean_body(struct run *r)
{
    struct tamis_writer *w;
    if (open_it(r, &w) != 0)
        return;
    l.added = l.acked;
    go_on(r, w, 20, 20);
    close_it(r, w);
}

static void seal_body(struct run *r)
{
    struct tamis_writer *w;
    if (open_it(r, &w) != 0)
        return;
    go_on(r, w, 40, 40);
    add(r, w, 10);
    seal(r, w);
    if (!l.sealed)
        seal(r, w); /* what failed for want of memory or space may pass now */
    close_it(r, w);
}

/* A writer whose sync failed is opened again while the page cache still shows what the
 * disk has lost. Replaying finds the bits set and stores nothing: it is recovery that
 * must have them written once more (R3). Pages enough that no other key does it. */
static void twice_body(struct run *r)
{
    struct tamis_writer *w;
    for (int i = 0; i < 2; i++) {
        if (open_it(r, &w) != 0)
            continue;
        l.added = l.acked;
        go_on(r, w, 50 - l.acked, 20);
        close_it(r, w);
    }
}

/* A sector of the first stage is zeros, with keys in it. Whatever fails on the way, no
 * page that lost keys may become a good one. */
static void prepare_damaged(struct run *r)
{
    static const uint8_t zeros[512];
    prepare_clean(r);
    uint8_t bits[4096];
    int fd = open(path_in(r), O_RDWR | O_CLOEXEC);
    CHECK(pread(fd, bits, sizeof bits, 3 * 4096) == sizeof bits, "preparing");
    size_t at = 0;
    while (at < sizeof bits && memcmp(bits + at, zeros, sizeof zeros) == 0)
        at += sizeof zeros;
    CHECK(at < sizeof bits &&
              pwrite(fd, zeros, sizeof zeros, (off_t)(3 * 4096 + at)) == sizeof zeros,
          "preparing");
    close(fd);
    damage_expected = true;
}

/* Sealed at once, so that nobody has looked at the page before. */
static void seal_only(struct run *r)
{
    struct tamis_writer *w;
    if (open_it(r, &w) != 0)
        return;
    seal(r, w);
    close_it(r, w);
}

/* ---- another writer has it ---- */

static struct tamis_writer *holder;

static void prepare_busy(struct run *r)
{
    prepare_clean(r);
    CHECK(open_it(r, &holder) == 0, "preparing");
}

static void busy_body(struct run *r)
{
    struct tamis_writer *w;
    TRY_FOR(r, TAMIS_ERR_BUSY, tamis_writer_open(path_in(r), &w, &r->diag));
    CHECK(!w, "two writers");
}

/* ---- afterwards ---- */

static void expect_sealed(struct run *r)
{
    struct tamis_filter *f;
    struct tamis_filter_info info;
    MUST(r, tamis_filter_open(path_in(r), NULL, &f, &r->diag));
    MUST(r, tamis_filter_info(f, &info));
    CHECK(info.sealed, "open, though its seal had returned");
    IN_LIB_VOID(tamis_filter_close(f));
}

static void writer_check(struct run *r)
{
    struct tamis_writer *w;
    l.created |= r->littered && is_there(path_in(r));
    if (!l.created) {
        /* The next attempt: as if there had been none. */
        CHECK(create(r, &w) == 0, "creating again");
    } else {
        expect_file(r, path_in(r), l.acked);
        if (l.sealed)
            expect_sealed(r);
        r->diag.code = NO_DIAG;
        int rc = IN_LIB(tamis_writer_open(path_in(r), &w, &r->diag));
        if (rc == TAMIS_ERR_SEALED) {
            /* A seal that failed late may stand; then with all that it was given. */
            expect_file(r, path_in(r), l.asked);
            return;
        }
        CHECK(!l.sealed, "a sealed filter has a writer");
        CHECK(rc == 0, "opening again: %s (%s)", tamis_strerror(rc), r->diag.what);
        uint64_t watermark = tamis_writer_watermark(w);
        CHECK(watermark >= l.acked && watermark <= l.asked, "watermark %llu, not %llu",
              (unsigned long long)watermark, (unsigned long long)l.acked);
        l.syncs_at_open = tally.syncs_failed;
        l.acked = l.added = watermark;
    }
    go_on(r, w, 60, 30); /* replays, and goes on */
    close_it(r, w);
    expect_file(r, path_in(r), l.acked);
    CHECK(is_clean(r), "closed, and not clean");
    if (!r->littered)
        expect_names(r->dir, (const char *const[]){"f", NULL});
}

static void busy_check(struct run *r)
{
    l.added = l.acked;
    go_on(r, holder, 30, 30);
    close_it(r, holder);
    writer_check(r);
}

const struct scenario writer_scenarios[] = {
    {"create", none, create_body, writer_check, false, false, NULL},
    {"create-old", none, create_body, writer_check, true, false, NULL},
    {"grow", prepare_clean, grow_body, writer_check, false, false, NULL},
    {"grow-old", prepare_clean, grow_body, writer_check, true, false, NULL},
    {"unclean", prepare_unclean, unclean_body, writer_check, false, false, NULL},
    {"twice", prepare_pages, twice_body, writer_check, false, false, NULL},
    {"seal", prepare_clean, seal_body, writer_check, false, false, NULL},
    {"damaged", prepare_damaged, seal_body, writer_check, false, false, NULL},
    {"damaged-seal", prepare_damaged, seal_only, writer_check, false, false, NULL},
    {"busy", prepare_busy, busy_body, busy_check, false, false, NULL},
    {"create-fails", none, create_body, writer_check, false, false, "fsync:2:EIO:once"},
    {"grow-fails", prepare_clean, grow_body, writer_check, false, false,
     "fallocate:1:ENOSPC:once"},
    {"seal-tree", prepare_pages, seal_body, writer_check, false, false, NULL},
    {"seal-fails", prepare_pages, seal_body, writer_check, false, false,
     "fallocate:1:ENOSPC:once"},
    {0},
};
