/* A writer's life in a store: growing segments are filled and sealed one after the
 * other, three sealed ones are merged into one, old ones are dropped, and every edit
 * replaces the segment "mark" by another of that name. */
#include "tests/kill/kill.h"

#include <string.h>

struct life {
    const struct orders *orders;
    struct tamis_store *store;
    struct listed listed;
    uint64_t rng;
};

/* ---- what must be there ---- */

static void expect_files(struct tamis_snapshot *snapshot)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        must(tamis_snapshot_filter(snapshot, i, &f, &diag), "a listed filter", &diag);
}

static void look_around(struct life *l)
{
    struct tamis_snapshot *snapshot = snapshot_of(l->store);
    l->listed = expect_listed(snapshot);
    expect_files(snapshot);
    tamis_snapshot_release(snapshot);
    if (l->listed.mark < shared->edits_acked || l->listed.mark > shared->edits_asked)
        lost("edit %llu is the last, acknowledged was %llu, asked for %llu",
             (unsigned long long)l->listed.mark,
             (unsigned long long)shared->edits_acked,
             (unsigned long long)shared->edits_asked);
    raise_to(&shared->edits_acked, l->listed.mark);
}

/* ---- edits ---- */

static void put_range(struct tamis_edit *e, const char *name, uint64_t from, uint64_t n,
                      uint32_t rank)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .rank = rank};
    struct tamis_domain d = the_domain();
    struct tamis_builder *b;
    struct tamis_diag diag;
    must(tamis_edit_builder(e, name, strlen(name), 0, &opt, &b, &diag), "a builder",
         &diag);
    for (uint64_t i = from; i < from + n; i++) {
        struct tamis_key key = key_at(&d, MODE_STORE, i, false);
        must(tamis_builder_add_hashes(b, d.tag, &key.hash, 1), "building", NULL);
    }
    must(tamis_edit_put(e, b, &diag), "put", &diag);
    tamis_builder_free(b);
}

static struct tamis_edit *begin_edit(struct tamis_store *s)
{
    struct tamis_edit *e;
    struct tamis_diag diag;
    must(tamis_edit_begin(s, &e, &diag), "edit_begin", &diag);
    return e;
}

static void drop(struct tamis_edit *e, const char *kind, uint64_t number)
{
    char name[32];
    struct tamis_diag diag;
    snprintf(name, sizeof name, "%s", kind);
    if (strcmp(kind, "mark") != 0)
        snprintf(name, sizeof name, "%s%llu", kind, (unsigned long long)number);
    must(tamis_edit_drop(e, name, strlen(name), &diag), "drop", &diag);
}

/* Every other edit drops the growing segment "t", for which it locks it. */
static void toggle_throwaway(const struct life *l, struct tamis_edit *e)
{
    struct tamis_diag diag;
    if (l->listed.throwaway)
        must(tamis_edit_drop(e, "t", 1, &diag), "drop", &diag);
    else
        must(tamis_edit_put_growing(e, "t", 1, NULL, NULL, &diag), "put", &diag);
}

/* False if "t" is locked: by a child of a dead edit that was forked just then. */
static bool commit_edit(struct life *l, struct tamis_edit *e)
{
    struct tamis_diag diag;
    uint64_t mark = l->listed.mark + 1;
    drop(e, "mark", 0);
    put_range(e, "mark", 0, 1, (uint32_t)mark);
    toggle_throwaway(l, e);
    raise_to(&shared->edits_asked, mark);
    shared->phase = PHASE_EDIT;
    int rc = tamis_edit_commit(e, &diag);
    if (rc == TAMIS_ERR_BUSY && try_again())
        return false;
    must(rc, "edit_commit", &diag);
    shared->waiting = 0;
    raise_to(&shared->edits_acked, mark);
    shared->n_edits++;
    look_around(l);
    /* The first edit of a process sweeps what the dead have left. */
    while (count_filter_files(path_to("s")) != l->listed.n_files && try_again())
        tamis_edit_abort(begin_edit(l->store));
    size_t n_files = count_filter_files(path_to("s"));
    if (n_files != l->listed.n_files)
        lost("%zu files for %zu segments", n_files, l->listed.n_files);
    return true;
}

static bool begin_segment(struct life *l)
{
    char name[32];
    struct tamis_diag diag;
    struct tamis_edit *e = begin_edit(l->store);
    snprintf(name, sizeof name, "g%llu", (unsigned long long)l->listed.end);
    must(tamis_edit_put_growing(e, name, strlen(name), NULL, NULL, &diag), "put",
         &diag);
    return commit_edit(l, e);
}

/* Names the segments that stay, instead of those that go: "mark", "t", "m<first>" to
 * "m<merged - 1>", and those after the segments that become "m<merged>". */
static void retain(struct tamis_edit *e, uint64_t first, const struct listed *at)
{
    enum { MOST = KEPT + 16 };
    char text[MOST][32];
    struct tamis_name names[MOST] = {{"mark", 4}, {"t", 1}};
    struct tamis_diag diag;
    size_t n = 2;
    for (uint64_t i = first; i < at->merged; i++, n++)
        snprintf(text[n], sizeof text[n], "m%llu", (unsigned long long)i);
    for (uint64_t i = (at->merged + 1) * MERGED; i < at->end && n < MOST; i++, n++)
        snprintf(text[n], sizeof text[n], "g%llu", (unsigned long long)i);
    for (size_t i = 2; i < n; i++)
        names[i] = (struct tamis_name){text[i], strlen(text[i])};
    must(tamis_edit_retain(e, names, n, &diag), "retain", &diag);
}

static bool merge(struct life *l)
{
    char name[32];
    struct listed *at = &l->listed;
    uint64_t n = at->merged, first = at->first;
    struct tamis_edit *e = begin_edit(l->store);
    if (n - first >= KEPT) {
        first = n + 1 - KEPT;
        raise_to(&shared->forgotten, first * MERGED * STORE_KEYS);
    }
    if (rng_below(&l->rng, 3) == 0) {
        retain(e, first, at);
    } else {
        for (uint64_t i = at->first; i < first; i++)
            drop(e, "m", i);
        for (uint64_t i = n * MERGED; i < (n + 1) * MERGED; i++)
            drop(e, "g", i);
    }
    snprintf(name, sizeof name, "m%llu", (unsigned long long)n);
    put_range(e, name, n * MERGED * STORE_KEYS, MERGED * STORE_KEYS, 7);
    return commit_edit(l, e);
}

/* Packs what is loose, all, or what the library chooses; now and then unpacks it. The
 * list stays the same. */
static void pack(struct life *l)
{
    struct tamis_pack_options opt = {
        .size = sizeof opt, .repack = (enum tamis_repack)rng_below(&l->rng, 3)};
    struct tamis_snapshot *snapshot = snapshot_of(l->store);
    struct tamis_edit *e = begin_edit(l->store);
    struct tamis_diag diag;
    uint32_t packed[KEPT + 16];
    size_t n = 0;
    opt.keep = rng_below(&l->rng, 3) == 0;
    for (uint32_t i = 0; i < tamis_snapshot_n_segments(snapshot) && n < KEPT + 16; i++)
        if (tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0)
            packed[n++] = i;
    shared->phase = PHASE_EDIT;
    if (n && rng_below(&l->rng, 4) == 0)
        must(tamis_edit_unpack(e, snapshot, packed, n, &diag), "unpack", &diag);
    else
        must(tamis_edit_pack(e, snapshot, NULL, 0, &opt, NULL, &diag), "pack", &diag);
    tamis_snapshot_release(snapshot);
    int rc = tamis_edit_commit(e, &diag);
    if (rc != TAMIS_ERR_MISMATCH) /* of an unpacking: replaced meanwhile */
        must(rc, "edit_commit", &diag);
}

/* ---- the growing segment ---- */

/* The last writer sealed it and died before the catalog knew. */
static void expect_sealed(struct life *l, uint64_t number)
{
    look_around(l);
    if (l->listed.end != number + 1 || !l->listed.last_sealed)
        lost("g%llu is sealed, and the catalog has not followed",
             (unsigned long long)number);
    raise_to(&shared->log[MODE_STORE].acked, (number + 1) * STORE_KEYS);
}

/* The catalog's lower bounds are those of the file (R5). */
static void expect_bounds(struct life *l, const char *name, struct tamis_writer *w)
{
    struct tamis_snapshot *snapshot = snapshot_of(l->store);
    struct tamis_filter_info info;
    struct tamis_segment_info segment;
    struct tamis_target t;
    must(tamis_snapshot_find(snapshot, name, strlen(name), NULL, 0, 0, &t), "find",
         NULL);
    must(tamis_writer_info(w, &info), "info", NULL);
    must(tamis_snapshot_segment(snapshot, t.slot - 1, &segment), "segment", NULL);
    if (segment.generation < info.generation)
        lost("%s: generation %llu in the catalog, %llu in the file", name,
             (unsigned long long)segment.generation,
             (unsigned long long)info.generation);
    tamis_snapshot_release(snapshot);
}

static void close_writer(struct tamis_writer *w)
{
    live.writer = NULL;
    shared->phase = PHASE_CLOSE;
    must(tamis_writer_close(w), "close", NULL);
}

static void seal(struct tamis_writer *w, uint64_t end)
{
    struct log *log = &shared->log[MODE_STORE];
    struct tamis_filter_info info;
    struct tamis_diag diag;
    must(tamis_writer_info(w, &info), "info", NULL);
    shared->n_growths += info.n_stages - 1;
    raise_to(&log->asked, end);
    shared->phase = PHASE_SEAL;
    must(tamis_writer_seal(w, end, NULL, &diag), "seal", &diag);
    raise_to(&log->acked, end);
    shared->n_seals++;
}

/* Returns false if it has been sealed, by us or by the one before. */
static bool fill(struct life *l, uint64_t number)
{
    char name[32];
    struct tamis_writer *w;
    struct tamis_diag diag;
    uint64_t base = number * STORE_KEYS, end = base + STORE_KEYS;
    snprintf(name, sizeof name, "g%llu", (unsigned long long)number);
    shared->phase = PHASE_OPEN;
    int rc;
    do
        rc = tamis_store_writer(l->store, name, strlen(name), &w, &diag);
    while (rc == TAMIS_ERR_BUSY && try_again());
    if (rc == TAMIS_ERR_SEALED) {
        expect_sealed(l, number);
        return false;
    }
    must(rc, "opening a segment for writing", &diag);
    live.writer = w;
    uint64_t from = resume_from(w, MODE_STORE, base);
    expect_bounds(l, name, w);
    bool whole = rng_below(&l->rng, 3) > 0;
    uint64_t to = whole ? end : from + rng_below(&l->rng, end - from + 1);
    add_and_commit(l->orders, &l->rng, w, MODE_STORE, from, to);
    if (whole)
        seal(w, end);
    close_writer(w);
    return !whole;
}

void store_writer(const struct orders *o)
{
    struct life l = {.orders = o, .rng = o->seed};
    shared->phase = PHASE_OPEN;
    live.store = l.store = open_store(path_to("s"));
    trap_allow_child(true);
    look_around(&l);
    if (o->child == CHILD_OF_THREAD)
        child_thread(o);
    do {
        while (l.listed.last_sealed && !begin_segment(&l))
            ;
        while (fill(&l, l.listed.end - 1) && !shared->stop)
            ;
        look_around(&l);
        while (l.listed.end - l.listed.merged * MERGED >= MERGED && !merge(&l))
            ;
        if (rng_below(&l.rng, 2))
            pack(&l);
    } while (!shared->stop);
    trap_allow_child(false);
    live.store = NULL;
    tamis_store_close(l.store);
}

void create_store(void)
{
    struct tamis_domain domain = the_domain();
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    struct tamis_diag diag;
    opt.growth =
        (struct tamis_growth){.error = 1e-4, .factor = 1.6, .first_capacity = 300};
    must(tamis_store_create(path_to("s"), &opt, &diag), "creating the store", &diag);
    struct tamis_store *s = open_store(path_to("s"));
    struct tamis_edit *e = begin_edit(s);
    put_range(e, "mark", 0, 1, 0);
    must(tamis_edit_commit(e, &diag), "edit_commit", &diag);
    tamis_store_close(s);
}
