/* Repair of stores that lack something, or have too much. Whatever fails: no key is
 * lost, no file goes that the next repair could want, and the next repair succeeds. */
#include "tests/faults/stores.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/store_internals.h"

#define SEALED  TAMIS_SEGMENT_SEALED
#define GROWING TAMIS_SEGMENT_GROWING
#define BARE    TAMIS_SEGMENT_BARE

static const struct segment some[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {0}};
static const struct segment with_orphan[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {"o", SEALED, 5}, {0}};

static struct {
    struct tamis_repair_report expected; /* if nothing goes wrong */
    bool catalog_lost, dry_run;
    uint64_t keys, watermark; /* of "g", acknowledged */
    uint64_t tree;            /* a dry run's, before */
    uint64_t n_noted;         /* of the last call */
    struct tamis_repair_report report;
    int rc;
    char files[2][64]; /* of "a" and "g": kept, here or in quarantine/ */
} the;

static uint64_t n_done(const struct tamis_repair_report *report)
{
    return report->n_finished + report->n_rebuilt + report->n_quarantined +
           report->n_swept;
}

/* ---- preparing ---- */

static void prepare(struct run *r, const struct segment *list)
{
    memset(&the, 0, sizeof the);
    the.keys = the.watermark = 10;
    the.expected.complete = 1;
    make_store(r, list);
    strcpy(the.files[0], strrchr(path_of_segment(r, "a"), '/') + 1);
    strcpy(the.files[1], strrchr(path_of_segment(r, "g"), '/') + 1);
}

static void healthy_prepare(struct run *r)
{
    prepare(r, some);
}

static int drop_o(struct run *r, struct tamis_edit *e)
{
    return drop(r, e, "o");
}

/* A sealed filter of this store that no record names, a file and a catalog that were
 * never finished. */
static void orphan_prepare(struct run *r)
{
    char path[2 * PATH_BYTES];
    prepare(r, with_orphan);
    snprintf(path, sizeof path, "%s", path_of_segment(r, "o"));
    copy_file(path, in_dir(r, "aside"));
    CHECK(open_store(r) == 0 && do_edit(r, drop_o) == 0, "preparing");
    expect_swept(r);
    close_store();
    copy_file(in_dir(r, "aside"), path);
    unlink(in_dir(r, "aside"));
    touch(
        in_dir(r, "store/filters/00112233445566778899aabbccddeeff.tamis.1234abcd.tmp"));
    touch(in_dir(r, "store/catalog.lmdb.1234abcd.tmp"));
    the.expected.n_swept = 2;
    the.expected.n_quarantined = 1;
}

static void damage_prepare(struct run *r)
{
    orphan_prepare(r);
    poke(path_of_segment(r, "a"), PAGE_BYTES + 700, "damage", 6);
    the.expected.n_quarantined = 2;
}

/* The files of a writer that added, committed and was killed. The catalog has not heard
 * of its growth, or of its seal. */
static void dead_prepare(struct run *r)
{
    char path[2 * PATH_BYTES];
    struct tamis_writer *w;
    healthy_prepare(r);
    snprintf(path, sizeof path, "%s", path_of_segment(r, "g"));
    CHECK(open_store(r) == 0, "preparing");
    MUST(r, tamis_writer_open(path, &w, &r->diag));
    CHECK(add_to(r, w, "g", 10, 90) == 0, "preparing");
    MUST(r, tamis_writer_commit(w, 90, &r->diag));
    copy_file(path, in_dir(r, "aside"));
    MUST(r, tamis_writer_close(w));
    close_store();
    copy_file(in_dir(r, "aside"), path);
    unlink(in_dir(r, "aside"));
    the.keys = the.watermark = 90;
    the.expected.n_finished = 1;
}

static void sealed_prepare(struct run *r)
{
    char path[2 * PATH_BYTES];
    struct tamis_writer *w;
    healthy_prepare(r);
    snprintf(path, sizeof path, "%s", path_of_segment(r, "g"));
    MUST(r, tamis_writer_open(path, &w, &r->diag));
    MUST(r, tamis_writer_seal(w, 10, NULL, &r->diag));
    MUST(r, tamis_writer_close(w));
    the.expected.n_finished = 1;
}

/* A record that fails its check, and its file. */
static void record_prepare(struct run *r)
{
    uint8_t uuid[UUID_BYTES];
    char *end, byte[3] = "";
    healthy_prepare(r);
    const char *file = strrchr(path_of_segment(r, "a"), '/') + 1;
    for (size_t i = 0; i < sizeof uuid; i++) {
        memcpy(byte, file + 2 * i, 2);
        uuid[i] = (uint8_t)strtoul(byte, &end, 16);
    }
    spoil_catalog(r, uuid, sizeof uuid, sizeof uuid + 8);
    the.expected.n_rebuilt = 1;
}

static void forget_catalog(void)
{
    the.catalog_lost = true;
    the.expected.complete = 0;
    the.expected.n_rebuilt = 1;
    the.expected.rebuilt = 1;
}

/* A dead writer and damage. */
static void both_prepare(struct run *r)
{
    dead_prepare(r);
    poke(path_of_segment(r, "a"), PAGE_BYTES + 700, "damage", 6);
    the.expected.n_quarantined = 1;
}

static void no_catalog_prepare(struct run *r)
{
    both_prepare(r);
    unlink(in_dir(r, "store/catalog.lmdb"));
    forget_catalog();
}

/* LMDB's meta pages are gone; what is behind them says which store it was. */
static void zeros_prepare(struct run *r)
{
    static const uint8_t zeros[2 * PAGE_BYTES];
    healthy_prepare(r);
    poke(in_dir(r, "store/catalog.lmdb"), 0, zeros, sizeof zeros);
    forget_catalog();
}

/* The catalog's first record alone; and a dead writer, and damage. */
static void meta_prepare(struct run *r)
{
    static const uint8_t magic[] = {0x89, 'T', 'S', 'T'};
    both_prepare(r);
    spoil_catalog(r, magic, sizeof magic, 24);
    forget_catalog();
}

static void filters_prepare(struct run *r)
{
    healthy_prepare(r);
    remove_dir(in_dir(r, "store/filters"));
    the.files[0][0] = the.files[1][0] = 0;
    the.keys = the.watermark = 0;
    the.catalog_lost = true; /* it cannot be opened */
    the.expected.n_rebuilt = 1;
    the.expected.n_damaged = 2; /* the files */
}

/* All of it, and all of it without a catalog: a dry run. */
static void dry_prepare(struct run *r)
{
    char path[2 * PATH_BYTES];
    orphan_prepare(r);
    poke(path_of_segment(r, "a"), PAGE_BYTES + 700, "damage", 6);
    snprintf(path, sizeof path, "%s", path_of_segment(r, "g"));
    struct tamis_writer *w;
    MUST(r, tamis_writer_open(path, &w, &r->diag));
    copy_file(path, in_dir(r, "aside"));
    MUST(r, tamis_writer_close(w));
    copy_file(in_dir(r, "aside"), path);
    unlink(in_dir(r, "aside"));
    the.expected.n_quarantined = 2;
    the.expected.n_finished = 1;
    the.dry_run = true;
    the.tree = tree_of(store_path(r));
}

static void dry_lost_prepare(struct run *r)
{
    dry_prepare(r);
    unlink(in_dir(r, "store/catalog.lmdb"));
    forget_catalog();
    the.expected.n_quarantined = 1; /* what no record names is a segment then */
    the.tree = tree_of(store_path(r));
}

/* ---- the repair ---- */

static void found(void *ctx, const struct tamis_repair_finding *finding)
{
    (void)ctx;
    CHECK(finding->what && finding->what[0], "a finding without words");
    the.n_noted += finding->action == TAMIS_REPAIR_NOTED;
}

static struct tamis_repair_options options_of(bool dry_run)
{
    the.n_noted = 0;
    return (struct tamis_repair_options){.size = sizeof(struct tamis_repair_options),
                                         .dry_run = dry_run,
                                         .found = found};
}

static void repair_body(struct run *r)
{
    struct tamis_repair_options opt = options_of(the.dry_run);
    tally.no_map_full = the.catalog_lost; /* a new one's cannot be */
    the.rc = TRY(r, tamis_store_repair(store_path(r), &opt, &the.report, &r->diag));
}

/* A repair that failed (as `first` says), and the next one. */
static void again_body(struct run *r)
{
    struct tamis_repair_options opt = options_of(false);
    int rc = TRY(r, tamis_store_repair(store_path(r), &opt, NULL, &r->diag));
    CHECK(rc != 0 || r->plan, "the first repair did not fail");
    the.expected.n_finished = 0; /* by the first */
    if (!r->plan)
        the.expected.n_swept -=
            the.expected.n_swept > 0; /* the catalog, by the first */
    repair_body(r);
}

/* Everything is there, or MAYBE; and `g`, if it has a filter, is as far as it was. */
static void expect_no_loss(struct run *r)
{
    struct tamis_snapshot *snapshot;
    struct tamis_target t;
    struct tamis_filter *f;
    struct tamis_filter_info info;
    struct segment list[] = {
        {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, the.keys}, {0}};
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    expect_nothing_absent(r, snapshot, list);
    tamis_snapshot_find(snapshot, "g", 1, NULL, 0, 0, &t);
    if (t.slot && IN_LIB(tamis_snapshot_filter(snapshot, t.slot - 1, &f, NULL)) == 0 &&
        f) {
        MUST(r, tamis_filter_info(f, &info));
        CHECK(info.watermark >= the.watermark, "watermark %llu, not %llu",
              (unsigned long long)info.watermark, (unsigned long long)the.watermark);
    }
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
}

static void expect_report(const struct tamis_repair_report *report)
{
    const struct tamis_repair_report *e = &the.expected;
    CHECK(report->n_finished == e->n_finished && report->n_rebuilt == e->n_rebuilt &&
              report->n_quarantined == e->n_quarantined &&
              report->n_swept == e->n_swept && report->n_damaged == e->n_damaged &&
              report->rebuilt == e->rebuilt,
          "%llu finished, %llu rebuilt, %llu quarantined, %llu swept, %llu damaged",
          (unsigned long long)report->n_finished, (unsigned long long)report->n_rebuilt,
          (unsigned long long)report->n_quarantined,
          (unsigned long long)report->n_swept, (unsigned long long)report->n_damaged);
}

static void expect_readable(struct run *r)
{
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_no_loss(r);
    close_store();
}

static struct tamis_repair_report repair_now(struct run *r)
{
    struct tamis_repair_report report;
    struct tamis_repair_options opt = options_of(false);
    MUST(r, tamis_store_repair(store_path(r), &opt, &report, &r->diag));
    return report;
}

/* No file says that there is a segment without one: its engine does. */
static int put_missing(struct run *r, struct tamis_edit *e)
{
    static const struct segment b[] = {{"b", BARE, 2}, {0}};
    struct tamis_snapshot *snapshot;
    struct tamis_target t;
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    tamis_snapshot_find(snapshot, "b", 1, NULL, 0, 0, &t);
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    return t.slot ? 0 : put_listed(r, e, b);
}

static void expect_files(struct run *r)
{
    for (size_t i = 0; i < 2; i++) {
        char here[96], aside[96];
        snprintf(here, sizeof here, "store/filters/%s", the.files[i]);
        snprintf(aside, sizeof aside, "store/quarantine/%s", the.files[i]);
        CHECK(!the.files[i][0] || is_there(in_dir(r, here)) ||
                  is_there(in_dir(r, aside)),
              "%s is gone", the.files[i]);
    }
}

/* After a repair there is nothing to do, and the store serves. */
static void expect_settled(struct run *r, bool litter)
{
    uint64_t tree = r->plan ? 0 : tree_of(store_path(r));
    struct tamis_repair_report report = repair_now(r);
    if (litter)
        report.n_swept = 0;
    CHECK(n_done(&report) == 0, "a repair of what is repaired does %llu things",
          (unsigned long long)n_done(&report));
    CHECK(the.n_noted <= the.expected.n_damaged || damage_expected,
          "noted, though nothing fails");
    CHECK(r->plan || tree_of(store_path(r)) == tree, "and changes something");
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_no_loss(r);
    if (!report.complete)
        CHECK(do_edit(r, put_missing) == 0, "listing what is not: %s", r->diag.what);
    MUST(r, tamis_store_confirm_complete(store, &r->diag));
    expect_no_loss(r);
    expect_only(store_path(r),
                (const char *const[]){"catalog.lmdb", "catalog.lmdb-lock", "filters",
                                      "quarantine", NULL});
    close_store();
    expect_files(r);
}

static void repair_check(struct run *r)
{
    if (!the.catalog_lost && the.rc)
        expect_readable(r);
    if (!r->plan)
        expect_report(&the.report);
    expect_files(r);
    bool done = the.rc == 0 && the.n_noted == 0;
    if (!done)
        repair_now(r);
    /* LMDB's lock file of a new catalog may have stayed under its first name. */
    expect_settled(r, done && r->littered && the.catalog_lost);
}

static void dry_check(struct run *r)
{
    CHECK(tree_of(store_path(r)) == the.tree, "a dry run has changed something");
    the.dry_run = false;
    if (!r->plan)
        expect_report(&the.report);
    if (!the.catalog_lost)
        expect_readable(r);
    struct tamis_repair_report report = repair_now(r);
    expect_report(&report);
    expect_settled(r, false);
}

/* ---- confirm, verify ---- */

static void confirm_prepare(struct run *r)
{
    no_catalog_prepare(r);
    repair_now(r);
}

static void confirm_body(struct run *r)
{
    the.rc = -1;
    if (open_store(r) == 0)
        the.rc = TRY(r, tamis_store_confirm_complete(store, &r->diag));
    close_store();
}

static void confirm_check(struct run *r)
{
    struct tamis_store_info info;
    expect_readable(r);
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    MUST(r, tamis_store_info(store, &info, &r->diag));
    CHECK(info.complete || the.rc, "confirmed, and it is not complete");
    close_store();
    the.expected = (struct tamis_repair_report){.complete = 1};
    expect_settled(r, false);
}

static void verify_body(struct run *r)
{
    uint64_t n;
    if (open_store(r) != 0)
        return;
    the.n_noted = 0;
    if (TRY(r, tamis_store_orphans(store, found, NULL, &n, &r->diag)) == 0)
        CHECK(n == 2 && the.n_noted == 2, "%llu orphans, %llu told, not 2",
              (unsigned long long)n, (unsigned long long)the.n_noted);
    close_store();
}

static void verify_check(struct run *r)
{
    the.rc = -1;
    expect_readable(r);
    struct tamis_repair_report report = repair_now(r);
    expect_report(&report);
    expect_settled(r, false);
}

#define REPAIR(name, prepare)                                                          \
    {                                                                                  \
        name, prepare, repair_body, repair_check, false, false, NULL                   \
    }
const struct scenario repair_scenarios[] = {
    REPAIR("repair-damage", damage_prepare),
    REPAIR("repair-dead", dead_prepare),
    REPAIR("repair-sealed", sealed_prepare),
    REPAIR("repair-record", record_prepare),
    REPAIR("repair-lost", no_catalog_prepare),
    REPAIR("repair-zeros", zeros_prepare),
    REPAIR("repair-meta", meta_prepare),
    REPAIR("repair-filters", filters_prepare),
    {"repair-again", damage_prepare, again_body, repair_check, false, false,
     ">mdb_put:1:ENOMEM:once"},
    {"repair-lost-again", no_catalog_prepare, again_body, repair_check, false, false,
     ">renameat2:1:EIO:once"},
    {"repair-dry", dry_prepare, repair_body, dry_check, false, false, NULL},
    {"repair-dry-lost", dry_lost_prepare, repair_body, dry_check, false, false, NULL},
    {"confirm", confirm_prepare, confirm_body, confirm_check, false, false, NULL},
    {"verify", orphan_prepare, verify_body, verify_check, false, false, NULL},
    {0},
};
