/* Packs: published, unpacked, dropped and asked. An edit that fails has changed
 * nothing, and whatever cannot be read never makes a key ABSENT. */
#include "tests/faults/scenarios/edit.h"

#include <stdio.h>

#define SEALED  TAMIS_SEGMENT_SEALED
#define GROWING TAMIS_SEGMENT_GROWING
#define BARE    TAMIS_SEGMENT_BARE

static const struct segment some[] = {{"a", SEALED, 20},   {"b", BARE, 2},
                                      {"g", GROWING, 10},  {"s", SEALED, 150},
                                      {"t", SEALED, 1500}, {0}};
static const struct segment without_a[] = {{"b", BARE, 2},      {"g", GROWING, 10},
                                           {"n", SEALED, 30},   {"s", SEALED, 150},
                                           {"t", SEALED, 1500}, {0}};
static int keep;
static enum tamis_repack repack;

static int pack_edit(struct run *r, struct tamis_edit *e)
{
    struct tamis_pack_options opt = {
        .size = sizeof opt, .keep = keep, .repack = repack};
    struct tamis_pack_report report;
    struct tamis_snapshot *snapshot;
    int rc = TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    if (rc)
        return rc;
    /* A pack that could not be opened then is remembered as such by this snapshot. */
    bool remembered = tally.fired > 0;
    if (remembered)
        rc = IN_LIB(tamis_edit_pack(e, snapshot, NULL, 0, &opt, &report, &r->diag));
    else
        rc = TRY(r, tamis_edit_pack(e, snapshot, NULL, 0, &opt, &report, &r->diag));
    if (remembered && rc)
        r->n_failed++;
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    return rc;
}

static int unpack_edit(struct run *r, struct tamis_edit *e)
{
    struct tamis_snapshot *snapshot;
    uint32_t packed[8];
    size_t n = 0;
    int rc = TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    if (rc)
        return rc;
    for (uint32_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        if (tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0)
            packed[n++] = i;
    rc = TRY(r, tamis_edit_unpack(e, snapshot, packed, n, &r->diag));
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    return rc;
}

static int drop_edit(struct run *r, struct tamis_edit *e)
{
    static const struct segment n[] = {{"n", SEALED, 30}, {0}};
    int rc = drop(r, e, "a");
    return rc ? rc : put_listed(r, e, n);
}

/* Puts two segments into a pack without files. */
static int packer_edit(struct run *r, struct tamis_edit *e)
{
    static const struct segment put[] = {{"m", SEALED, 40}, {"n", SEALED, 30}};
    struct tamis_packer *p = NULL;
    int rc = TRY(r, tamis_edit_packer(e, NULL, &p, &r->diag));
    for (size_t i = 0; i < 2 && !rc; i++)
        rc = put_into(r, e, p, &put[i]);
    if (!rc)
        rc = TRY(r, tamis_edit_put_packed(e, p, NULL, &r->diag));
    IN_LIB_VOID(tamis_packer_free(p));
    return rc;
}

static void packer_prepare(struct run *r)
{
    static const struct segment after[] = {
        {"a", SEALED, 20}, {"b", BARE, 2},     {"g", GROWING, 10},  {"m", SEALED, 40},
        {"n", SEALED, 30}, {"s", SEALED, 150}, {"t", SEALED, 1500}, {0}};
    begin_case(r, some, after, packer_edit);
}

static void pack_prepare(struct run *r)
{
    keep = 0;
    repack = TAMIS_REPACK_NONE;
    begin_case(r, some, some, pack_edit);
}

static void keep_prepare(struct run *r)
{
    pack_prepare(r);
    keep = 1;
}

static void pack_now(struct run *r)
{
    CHECK(open_store(r) == 0 && do_edit(r, pack_edit) == 0, "preparing");
    close_store();
}

static void repack_prepare(struct run *r)
{
    pack_prepare(r);
    pack_now(r);
    repack = TAMIS_REPACK_ALL;
}

/* Nothing is loose, and no pack is half dead. */
static void auto_prepare(struct run *r)
{
    repack_prepare(r);
    repack = TAMIS_REPACK_AUTO;
}

static void unpack_prepare(struct run *r)
{
    keep = 0;
    repack = TAMIS_REPACK_NONE;
    begin_case(r, some, some, unpack_edit);
    pack_now(r);
}

static void drop_prepare(struct run *r)
{
    keep = 0;
    repack = TAMIS_REPACK_NONE;
    begin_case(r, some, without_a, drop_edit);
    pack_now(r);
}

/* ---- asked ---- */

/* The filters of columns, in memory. */
static void ask_filters(struct run *r, struct tamis_snapshot *snapshot)
{
    struct tamis_filter *f;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        if (tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0)
            TRY(r, tamis_snapshot_filter(snapshot, i, &f, &r->diag));
}

static void ask_body(struct run *r)
{
    struct tamis_snapshot *snapshot;
    if (open_store(r) == 0 &&
        TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag)) == 0) {
        expect_nothing_absent(r, snapshot, some);
        ask_filters(r, snapshot);
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
    }
}

static void ask_check(struct run *r)
{
    if (store)
        close_store();
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, some);
    expect_swept(r);
    close_store();
}

/* ---- repaired, copied ---- */

static void no_catalog_prepare(struct run *r)
{
    unpack_prepare(r);
    remove(in_dir(r, "store/catalog.lmdb"));
    remove(in_dir(r, "store/catalog.lmdb-lock"));
}

static void repair_body(struct run *r)
{
    struct tamis_repair_report report;
    tally.no_map_full = true; /* in a new catalog it cannot be */
    TRY(r, tamis_store_repair(store_path(r), NULL, &report, &r->diag));
}

/* "b" had no file, and is listed nowhere. */
static void repair_check(struct run *r)
{
    static const struct segment left[] = {{"a", SEALED, 20},
                                          {"g", GROWING, 10},
                                          {"s", SEALED, 150},
                                          {"t", SEALED, 1500},
                                          {0}};
    struct tamis_repair_report report;
    MUST(r, tamis_store_repair(store_path(r), NULL, &report, &r->diag));
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    if (!damage_expected) { /* else the pack may lie in quarantine/ */
        MUST(r, tamis_store_confirm_complete(store, &r->diag));
        expect_list(r, left);
    }
    close_store();
}

static void backup_body(struct run *r)
{
    struct tamis_backup_report report;
    tally.no_map_full = true;
    if (open_store(r) == 0)
        TRY(r, tamis_store_backup(store, in_dir(r, "copy"), NULL, NULL, &report,
                                  &r->diag));
}

static void backup_check(struct run *r)
{
    struct tamis_backup_report report;
    struct tamis_snapshot *snapshot;
    struct tamis_store *copy;
    ask_check(r);
    if (!is_there(in_dir(r, "copy"))) {
        CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
        MUST(r, tamis_store_backup(store, in_dir(r, "copy"), NULL, NULL, &report,
                                   &r->diag));
        close_store();
    }
    MUST(r, tamis_store_open(in_dir(r, "copy"), &copy, &r->diag));
    MUST(r, tamis_snapshot_current(copy, &snapshot, &r->diag));
    CHECK(tamis_snapshot_n_segments(snapshot) == 5, "not all segments are in the copy");
    expect_nothing_absent(r, snapshot, some);
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    IN_LIB_VOID(tamis_store_close(copy));
}

const struct scenario pack_scenarios[] = {
    {"pack", pack_prepare, edit_body, edit_check, false, false, NULL},
    {"packer", packer_prepare, edit_body, edit_check, false, false, NULL},
    {"pack-keep", keep_prepare, edit_body, edit_check, false, false, NULL},
    {"repack", repack_prepare, edit_body, edit_check, false, false, NULL},
    {"pack-auto", auto_prepare, edit_body, edit_check, false, false, NULL},
    {"unpack", unpack_prepare, edit_body, edit_check, false, false, NULL},
    {"pack-drop", drop_prepare, edit_body, edit_check, false, false, NULL},
    {"pack-ask", unpack_prepare, ask_body, ask_check, false, false, NULL},
    {"pack-lost", no_catalog_prepare, repair_body, repair_check, false, false, NULL},
    {"pack-backup", unpack_prepare, backup_body, backup_check, false, false, NULL},
    {0},
};
