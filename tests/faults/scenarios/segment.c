/* A segment's writer, and a catalog that has yet to hear of its growth or its seal. */
#include "tests/faults/stores.h"

#include <stdio.h>

#define SEALED  TAMIS_SEGMENT_SEALED
#define GROWING TAMIS_SEGMENT_GROWING
#define BARE    TAMIS_SEGMENT_BARE

static const struct segment some[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {0}};

/* ---- a segment's writer ---- */

static struct {
    uint64_t acked, asked;
    bool sealed;
    const char *name;
} w_log;

static void segment_prepare(struct run *r)
{
    make_store(r, some);
    w_log.acked = w_log.asked = 10;
    w_log.sealed = false;
}

static void commit_to(struct run *r, struct tamis_writer *w, uint64_t n)
{
    w_log.asked = n;
    if (TRY(r, tamis_writer_commit(w, n, &r->diag)) != 0)
        return;
    CHECK(!tally.syncs_failed, "a commit succeeds after a failed sync");
    w_log.acked = n;
}

static void segment_body(struct run *r)
{
    struct tamis_writer *w;
    if (open_store(r) != 0)
        return;
    if (TRY(r, tamis_store_writer(store, "g", 1, &w, &r->diag)) == 0) {
        if (add_to(r, w, "g", 10, 60) == 0)
            commit_to(r, w, 60);
        if (TRY(r, tamis_writer_seal(w, w_log.asked, NULL, &r->diag)) == 0) {
            CHECK(!tally.syncs_failed, "a seal succeeds after a failed sync");
            w_log.sealed = true;
            w_log.acked = w_log.asked;
        }
        TRY(r, tamis_writer_close(w));
    }
}

/* The keys are there, and a writer goes on, or finds the seal and tells the catalog. */
static void segment_check(struct run *r)
{
    struct segment list[] = {
        {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, w_log.acked}, {0}};
    struct tamis_writer *w;
    struct tamis_snapshot *snapshot;
    struct tamis_segment_info info;
    struct tamis_target t;
    if (!goes_on(r)) {
        CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
        expect_list(r, list);
    }
    int rc = IN_LIB(tamis_store_writer(store, "g", 1, &w, &r->diag));
    CHECK(rc == 0 || rc == TAMIS_ERR_SEALED, "a writer: %s (%s)", tamis_strerror(rc),
          r->diag.what);
    CHECK(rc || !w_log.sealed, "sealed, and it has a writer");
    if (rc == 0) {
        uint64_t from = tamis_writer_watermark(w);
        CHECK(from >= w_log.acked && from <= w_log.asked, "watermark %llu, not %llu",
              (unsigned long long)from, (unsigned long long)w_log.acked);
        CHECK(add_to(r, w, "g", from, 100) == 0, "replaying");
        MUST(r, tamis_writer_seal(w, 100, NULL, &r->diag));
        MUST(r, tamis_writer_close(w));
        list[2].n = 100;
    } else {
        list[2].n = w_log.asked;
    }
    close_store();
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, list);
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    tamis_snapshot_find(snapshot, "g", 1, NULL, 0, 0, &t);
    MUST(r, tamis_snapshot_segment(snapshot, t.slot - 1, &info));
    CHECK(info.state == SEALED, "sealed, and the catalog does not know");
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    expect_swept(r);
    close_store();
}

/* ---- the catalog does not know yet ---- */

static void write_past_catalog(struct run *r, uint64_t to, bool seal)
{
    struct tamis_writer *w;
    const char *path = path_of_segment(r, "g");
    CHECK(open_store(r) == 0, "preparing");
    MUST(r, tamis_writer_open(path, &w, &r->diag));
    CHECK(add_to(r, w, "g", 10, to) == 0, "preparing");
    if (seal)
        MUST(r, tamis_writer_seal(w, to, NULL, &r->diag));
    else
        MUST(r, tamis_writer_commit(w, to, &r->diag));
    MUST(r, tamis_writer_close(w));
    close_store();
    w_log.acked = w_log.asked = to;
    w_log.sealed = seal;
}

static void late_seal_prepare(struct run *r)
{
    segment_prepare(r);
    write_past_catalog(r, 30, true);
}

static void late_seal_body(struct run *r)
{
    struct tamis_writer *w;
    if (open_store(r) == 0)
        TRY_FOR(r, TAMIS_ERR_SEALED, tamis_store_writer(store, "g", 1, &w, &r->diag));
}

static void late_growth_prepare(struct run *r)
{
    segment_prepare(r);
    write_past_catalog(r, 90, false);
}

static void late_growth_body(struct run *r)
{
    struct tamis_writer *w;
    if (open_store(r) == 0 &&
        TRY(r, tamis_store_writer(store, "g", 1, &w, &r->diag)) == 0)
        TRY(r, tamis_writer_close(w));
}

const struct scenario segment_scenarios[] = {
    {"segment", segment_prepare, segment_body, segment_check, false, false, NULL},
    {"late-seal", late_seal_prepare, late_seal_body, segment_check, false, false, NULL},
    {"late-growth", late_growth_prepare, late_growth_body, segment_check, false, false,
     NULL},
    {"segment-fails", segment_prepare, segment_body, segment_check, false, false,
     "mdb_txn_commit:2:EIO:once"},
    {0},
};
