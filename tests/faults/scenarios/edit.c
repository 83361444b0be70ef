/* Edits: all of it or nothing, and no file left that nothing names. */
#include "tests/faults/scenarios/edit.h"

#include <stdio.h>

#define SEALED  TAMIS_SEGMENT_SEALED
#define GROWING TAMIS_SEGMENT_GROWING
#define BARE    TAMIS_SEGMENT_BARE

/* ---- one edit of one store ---- */

static struct {
    const struct segment *before, *after;
    edit_fn *edit;
    bool done, unsure, may_panic;
} c;

/* A store whose edit failed is there to be asked. */
static void ask_again(struct run *r)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store_info info;
    if (TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag)) == 0)
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
    TRY(r, tamis_store_info(store, &info, &r->diag));
}

void edit_body(struct run *r)
{
    const struct plan *p = faults_plan();
    /* The disk failed while LMDB wrote: then the catalog is the old one or the new. */
    c.unsure |= p && (p->fault->effect == PANIC || p->fault->effect == DOUBT ||
                      p->call == CALL_lmdb_pwrite || p->call == CALL_space);
    c.done = open_store(r) == 0 && do_edit(r, c.edit) == 0;
    /* The same if after the commit nobody could say whether the file has its name. */
    c.unsure |= !c.done && (strstr(r->diag.what, "whether it was replaced") ||
                            strstr(r->diag.what, "newest transaction") ||
                            strstr(r->diag.what, "no catalog now"));
    if (store && !c.done)
        ask_again(r);
}

/* At once, in the same store, if it can go on: then in a store opened afresh. */
void edit_check(struct run *r)
{
    r->panicked = c.may_panic;
    if (goes_on(r) && !c.done && !r->littered && !(c.unsure && lists(r, c.after))) {
        CHECK(do_edit(r, c.edit) == 0, "the next attempt: %s", r->diag.what);
        c.done = true;
    }
    if (store)
        close_store();
    CHECK(open_store(r) == 0, "opening again: %s", r->diag.what);
    if (!c.done && !(c.unsure && lists(r, c.after))) {
        expect_list(r, c.before);
        CHECK(do_edit(r, c.edit) == 0, "the next attempt: %s", r->diag.what);
    }
    expect_list(r, c.after);
    close_store();
    CHECK(open_store(r) == 0, "opening once more: %s", r->diag.what);
    expect_list(r, c.after);
    expect_swept(r);
    close_store();
}

void begin_case(struct run *r, const struct segment *before,
                const struct segment *after, edit_fn *edit)
{
    c.before = before;
    c.after = after;
    c.edit = edit;
    c.unsure = c.may_panic = false;
    make_store(r, before);
}

static const struct segment some[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {0}};

/* ---- put ---- */

static const struct segment new_ones[] = {{"s", SEALED, 15}, {"t", BARE, 1}, {0}};
static const struct segment with_new[] = {{"a", SEALED, 20},  {"b", BARE, 2},
                                          {"g", GROWING, 10}, {"s", SEALED, 15},
                                          {"t", BARE, 1},     {0}};

static int put_edit(struct run *r, struct tamis_edit *e)
{
    return put_listed(r, e, new_ones);
}

static void unsure_prepare(struct run *r)
{
    begin_case(r, some, with_new, put_edit);
    c.unsure = c.may_panic = true;
}

static void put_prepare(struct run *r)
{
    begin_case(r, some, with_new, put_edit);
}

/* ---- put a growing one, replace one, drop one ---- */

static const struct segment replaced[] = {
    {"a", SEALED, 12}, {"g", GROWING, 10}, {"h", GROWING, 0}, {0}};

static int replace_edit(struct run *r, struct tamis_edit *e)
{
    static const struct segment now[] = {{"a", SEALED, 12}, {"h", GROWING, 0}, {0}};
    int rc = drop(r, e, "a");
    if (!rc)
        rc = put_listed(r, e, now);
    return rc ? rc : drop(r, e, "b");
}

static void replace_prepare(struct run *r)
{
    begin_case(r, some, replaced, replace_edit);
}

/* ---- a union, and a fold in the place of its source ---- */

static const struct segment combined[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {"u", SEALED, 0}, {0}};

static int derive_edit(struct run *r, struct tamis_edit *e)
{
    struct tamis_snapshot *snapshot;
    struct tamis_target t;
    int rc = TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    if (rc)
        return rc;
    CHECK(tamis_snapshot_find(snapshot, "a", 1, NULL, 0, 0, &t) == 0, "no segment a");
    const size_t a = t.slot - 1;
    rc = TRY(r, tamis_edit_derive(e, "u", 1, snapshot, &a, 1,
                                  &(struct tamis_derivation){.operation = TAMIS_UNION},
                                  NULL, NULL, &r->diag));
    if (!rc)
        rc = drop(r, e, "a");
    if (!rc)
        rc = TRY(r, tamis_edit_derive(e, "a", 1, snapshot, &(size_t){a}, 1,
                                      &(struct tamis_derivation){
                                          .operation = TAMIS_FOLD, .factor = 1},
                                      NULL, NULL, &r->diag));
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    return rc;
}

static void derive_prepare(struct run *r)
{
    begin_case(r, some, combined, derive_edit);
}

/* ---- a union of filters of no keys, which it replaces ---- */

static const struct segment empty[] = {{"v", SEALED, 0}, {"w", SEALED, 0}, {0}};
static const struct segment joined[] = {{"u", SEALED, 0}, {0}};

static int join_edit(struct run *r, struct tamis_edit *e)
{
    struct tamis_snapshot *snapshot;
    const size_t both[] = {0, 1};
    int rc = TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    if (rc)
        return rc;
    for (size_t i = 0; i < 2 && !rc; i++) {
        struct tamis_segment_info info;
        CHECK(tamis_snapshot_segment(snapshot, i, &info) == 0, "no segment %zu", i);
        rc = TRY(r, tamis_edit_drop_filter(e, info.name, info.name_bytes, info.uuid,
                                           &r->diag));
    }
    if (!rc)
        rc = TRY(r,
                 tamis_edit_derive(e, "u", 1, snapshot, both, 2,
                                   &(struct tamis_derivation){.operation = TAMIS_UNION},
                                   NULL, NULL, &r->diag));
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    return rc;
}

static void join_prepare(struct run *r)
{
    begin_case(r, empty, joined, join_edit);
}

/* ---- retain ---- */

static const struct segment retained[] = {{"a", SEALED, 20}, {"s", SEALED, 5}, {0}};

static int retain_edit(struct run *r, struct tamis_edit *e)
{
    static const struct segment s = {"s", SEALED, 5};
    const struct tamis_name keep[] = {{"a", 1}, {"unknown", 7}};
    int rc = put_built(r, e, &s);
    return rc ? rc : TRY(r, tamis_edit_retain(e, keep, 2, &r->diag));
}

static void retain_prepare(struct run *r)
{
    begin_case(r, some, retained, retain_edit);
}

/* ---- so many that the maps of names grow ---- */

static const struct segment many[] = {{"1", BARE, 1},
                                      {"2", BARE, 1},
                                      {"3", BARE, 1},
                                      {"4", BARE, 1},
                                      {"5", BARE, 1},
                                      {"6", BARE, 1},
                                      {"7", BARE, 1},
                                      {"8", BARE, 1},
                                      {"9", BARE, 1},
                                      {"x", SEALED, 3},
                                      {0}};

static int many_edit(struct run *r, struct tamis_edit *e)
{
    static const struct tamis_name none[] = {{"x", 1}};
    int rc = put_listed(r, e, many);
    return rc ? rc : TRY(r, tamis_edit_retain(e, none, 1, &r->diag));
}

static void many_prepare(struct run *r)
{
    begin_case(r, some, many, many_edit);
}

/* ---- a drop while a writer has it ---- */

static struct tamis_writer *holder;

static void busy_prepare(struct run *r)
{
    begin_case(r, some, some, NULL);
    CHECK(open_store(r) == 0, "preparing");
    MUST(r, tamis_store_writer(store, "g", 1, &holder, &r->diag));
}

static void busy_body(struct run *r)
{
    struct tamis_edit *e;
    if (TRY(r, tamis_edit_begin(store, &e, &r->diag)) != 0)
        return;
    if (drop(r, e, "g") != 0)
        IN_LIB_VOID(tamis_edit_abort(e));
    else
        TRY_FOR(r, TAMIS_ERR_BUSY, tamis_edit_commit(e, &r->diag));
}

static void busy_check(struct run *r)
{
    if (goes_on(r))
        CHECK(add_to(r, holder, "g", 10, 20) == 0, "adding");
    MUST(r, tamis_writer_commit(holder, 20, &r->diag));
    MUST(r, tamis_writer_close(holder));
    if (store)
        close_store();
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, some);
    expect_swept(r);
    close_store();
}

/* ---- attach ---- */

static const struct segment attached[] = {{"x", SEALED, 30}, {"y", BARE, 1}, {0}};
static const struct segment only_y[] = {{"y", BARE, 1}, {0}};

static int attach_edit(struct run *r, struct tamis_edit *e)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "sst", .binding_bytes = 3};
    return TRY(r, tamis_edit_attach(e, "x", 1, in_dir(r, "built"), &opt, &r->diag));
}

static void attach_prepare(struct run *r)
{
    struct tamis_builder_options opt = {.size = sizeof opt};
    struct tamis_builder *b;
    char text[64];
    begin_case(r, only_y, attached, attach_edit);
    CHECK(open_store(r) == 0, "preparing");
    struct tamis_domain domain = tamis_store_domain(store);
    opt.domain = &domain;
    CHECK(tamis_builder_create(&opt, &b, NULL) == 0, "preparing");
    for (uint64_t i = 0; i < attached[0].n; i++) {
        struct tamis_key key = key_of("x", i, text);
        tamis_builder_add_key(b, key.bytes, key.n_bytes);
    }
    CHECK(tamis_builder_finish_file(b, in_dir(r, "built"), NULL) == 0, "preparing");
    tamis_builder_free(b);
    close_store();
}

/* ---- abort ---- */

static void abort_body(struct run *r)
{
    struct tamis_edit *e;
    if (open_store(r) == 0 && TRY(r, tamis_edit_begin(store, &e, &r->diag)) == 0) {
        (void)(put_edit(r, e) == 0 && drop(r, e, "a") == 0);
        IN_LIB_VOID(tamis_edit_abort(e));
    }
    close_store();
}

static void abort_check(struct run *r)
{
    CHECK(open_store(r) == 0, "opening again: %s", r->diag.what);
    expect_list(r, some);
    expect_swept(r);
    close_store();
}

static void abort_prepare(struct run *r)
{
    make_store(r, some);
}

/* ---- an edit that finds orphans to sweep ---- */

static void sweep_prepare(struct run *r)
{
    static const char *const orphans[] = {
        "store/filters/00112233445566778899aabbccddeeff.tamis",
        "store/filters/00112233445566778899aabbccddeeff.tamis.01234567.tmp",
        "store/filters/10112233445566778899aabbccddeeff.tamis"};
    put_prepare(r);
    for (size_t i = 0; i < 3; i++) {
        FILE *f = fopen(in_dir(r, orphans[i]), "w");
        CHECK(f && fclose(f) == 0, "preparing");
    }
}

/* ---- a process's first calls ---- */

static void cold_prepare(struct run *r)
{
    /* By another process, so that this one has done nothing yet. */
    c.before = some;
    c.after = with_new;
    c.edit = put_edit;
    (void)r;
}

/* Counts are exact, in whichever memory there is for them. */
static void count_a_probe(struct run *r)
{
    struct tamis_snapshot *snapshot;
    struct tamis_stats stats;
    if (TRY(r, tamis_store_count(store, 1, &r->diag)) != 0 ||
        TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag)) != 0)
        return;
    struct tamis_target nothing_named = {0};
    CHECK(IN_LIB(tamis_snapshot_probe(snapshot, &nothing_named, NULL, NULL)) ==
              TAMIS_MAYBE,
          "ABSENT from nowhere");
    MUST(r, tamis_store_stats(store, &stats, &r->diag));
    CHECK(stats.n_probes == 1, "%u probes", (unsigned)stats.n_probes);
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
}

static void cold_body(struct run *r)
{
    struct tamis_store_options opt = {.size = sizeof opt};
    struct tamis_edit *e;
    struct tamis_writer *w;
    if (TRY(r, tamis_writer_create(in_dir(r, "f"), NULL, &w, &r->diag)) == 0)
        TRY(r, tamis_writer_close(w));
    tally.no_map_full = true;
    TRY(r, tamis_store_create(store_path(r), &opt, &r->diag));
    tally.no_map_full = false;
    if (!is_there(in_dir(r, "store/catalog.lmdb")))
        return;
    if (open_store(r) == 0) {
        if (TRY(r, tamis_edit_begin(store, &e, &r->diag)) == 0)
            IN_LIB_VOID(tamis_edit_abort(e));
        count_a_probe(r);
    }
    close_store();
}

static void cold_check(struct run *r)
{
    struct tamis_writer *w;
    if (!is_there(in_dir(r, "store/catalog.lmdb")))
        MUST(r, tamis_store_create(store_path(r), NULL, &r->diag));
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    CHECK(do_edit(r, put_edit) == 0, "an edit: %s", r->diag.what);
    expect_list(r, new_ones);
    close_store();
    if (is_there(in_dir(r, "f")))
        MUST(r, tamis_writer_open(in_dir(r, "f"), &w, &r->diag));
    else
        MUST(r, tamis_writer_create(in_dir(r, "f"), NULL, &w, &r->diag));
    MUST(r, tamis_writer_close(w));
}

const struct scenario edit_scenarios[] = {
    {"put", put_prepare, edit_body, edit_check, false, false, NULL},
    {"put-old", put_prepare, edit_body, edit_check, true, false, NULL},
    {"replace", replace_prepare, edit_body, edit_check, false, false, NULL},
    {"derive", derive_prepare, edit_body, edit_check, false, false, NULL},
    {"derive-empty", join_prepare, edit_body, edit_check, false, false, NULL},
    {"retain", retain_prepare, edit_body, edit_check, false, false, NULL},
    {"many", many_prepare, edit_body, edit_check, false, false, NULL},
    {"drop-busy", busy_prepare, busy_body, busy_check, false, false, NULL},
    {"attach", attach_prepare, edit_body, edit_check, false, false, NULL},
    {"abort", abort_prepare, abort_body, abort_check, false, false, NULL},
    {"sweep", sweep_prepare, edit_body, edit_check, false, false, NULL},
    {"cold", cold_prepare, cold_body, cold_check, false, true, NULL},
    {"put-fails", put_prepare, edit_body, edit_check, false, false,
     "mdb_txn_commit:2:EIO:once"},
    {"put-unsure", unsure_prepare, edit_body, edit_check, false, false,
     "mdb_txn_commit:2:panic:once"},
    {"map-full", replace_prepare, edit_body, edit_check, false, false,
     "mdb_put:1:MDB_MAP_FULL:once"},
    {"attach-fails", attach_prepare, edit_body, edit_check, false, false,
     "renameat2:1:EIO:once"},
    {0},
};
