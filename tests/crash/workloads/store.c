/* The store half: edits of a store while filters/ is recorded, against the catalog as
 * it is at each call. LMDB commits are taken as atomic and durable (what it does on the
 * disk is not looked at here; tests/powercut cuts the whole stack): the catalog of a
 * state is the live one of that moment, the files and names are what the disk model
 * leaves of filters/. What must hold is in store_check.c. */
#include "tests/crash/workloads/store.h"
#include "tests/crash/workloads/workload.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- the workload ---- */

static struct segment *new_segment(struct run *r)
{
    struct store_run *s = r->store;
    if (s->n_segments == MAX_SEGMENTS)
        abort();
    struct segment *g = &s->segments[s->n_segments];
    snprintf(g->name, sizeof g->name, "%zu", s->n_segments);
    g->n_keys = 1 + (size_t)rng_below(&r->rng, 6);
    s->next_key -= g->n_keys;
    g->from = s->next_key;
    g->standing = COMING;
    s->n_segments++;
    return g;
}

static void attach(struct run *r, struct tamis_edit *e, const struct segment *g)
{
    struct tamis_builder_options opt = {.size = sizeof opt};
    struct tamis_domain domain = tamis_store_domain(r->store->store);
    struct tamis_builder *b;
    struct tamis_diag diag;
    char path[2 * RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%s/elsewhere", r->store->path);
    unlink(path);
    opt.domain = &domain;
    ours(r, tamis_builder_create(&opt, &b, &diag), "builder", &diag);
    tamis_builder_add_hashes(b, domain.tag, r->promise.keys + g->from, g->n_keys);
    ours(r, tamis_builder_finish_file(b, path, &diag), "finish", &diag);
    tamis_builder_free(b);
    ours(r, tamis_edit_attach(e, g->name, strlen(g->name), path, NULL, &diag), "attach",
         &diag);
}

/* Drop, and put under the same name: the old or the new one, never none. */
static void replace_some(struct run *r, struct tamis_edit *e)
{
    struct store_run *s = r->store;
    struct tamis_diag diag;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing != THERE || g->growing || g->bare || rng_below(&r->rng, 3))
            continue;
        g->next_n_keys = 1 + (size_t)rng_below(&r->rng, 6);
        s->next_key -= g->next_n_keys;
        g->next_from = s->next_key;
        ours(r, tamis_edit_drop(e, g->name, strlen(g->name), &diag), "drop", &diag);
        put_built(r, e, g->name, g->version + 1, g->next_from, g->next_n_keys);
        g->standing = CHANGING;
    }
}

static void put_growing(struct run *r, struct tamis_edit *e)
{
    struct tamis_diag diag;
    struct segment *g = new_segment(r);
    snprintf(g->name, sizeof g->name, "g");
    g->growing = true;
    g->from = 0;
    struct tamis_growth growth = {.error = 0.1, .factor = 1.25, .first_capacity = 3};
    ours(r, tamis_edit_put_growing(e, "g", 1, &growth, NULL, &diag), "put_growing",
         &diag);
}

static void drop_some(struct run *r, struct tamis_edit *e)
{
    struct store_run *s = r->store;
    struct tamis_diag diag;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing != THERE || rng_below(&r->rng, 3) || (g->growing && !s->last))
            continue;
        ours(r, tamis_edit_drop(e, g->name, strlen(g->name), &diag), "drop", &diag);
        g->standing = GOING;
    }
}

/* As after an engine's recovery: what is not among the names goes. */
static void retain_some(struct run *r, struct tamis_edit *e)
{
    struct store_run *s = r->store;
    struct tamis_name keep[MAX_SEGMENTS];
    struct tamis_diag diag;
    size_t n = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing == THERE && (!g->growing || s->last) &&
            rng_below(&r->rng, 3) == 0)
            g->standing = GOING;
        else
            keep[n++] = (struct tamis_name){g->name, strlen(g->name)};
    }
    ours(r, tamis_edit_retain(e, keep, n, &diag), "retain", &diag);
}

static void edit(struct run *r, bool growing)
{
    struct tamis_edit *e;
    struct tamis_diag diag;
    ours(r, tamis_edit_begin(r->store->store, &e, &diag), "edit_begin", &diag);
    for (size_t n = (size_t)rng_below(&r->rng, 3); n > 0; n--) {
        struct segment *g = new_segment(r);
        uint64_t how = rng_below(&r->rng, 4);
        if (how == 0) {
            g->bare = true;
            ours(r, tamis_edit_put_bare(e, g->name, strlen(g->name), NULL, &diag),
                 "put", &diag);
        } else if (how == 1) {
            attach(r, e, g);
        } else {
            put_built(r, e, g->name, 0, g->from, g->n_keys);
        }
    }
    if (growing)
        put_growing(r, e);
    if (rng_below(&r->rng, 2))
        replace_some(r, e);
    if (rng_below(&r->rng, 3))
        drop_some(r, e);
    else
        retain_some(r, e);
    if (!growing && rng_below(&r->rng, 6) == 0) {
        tamis_edit_abort(e);
        settle(r, false);
        return;
    }
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
    settle(r, true);
}

/* Packs what is loose, or all, or what the library chooses. */
static void pack(struct run *r)
{
    struct tamis_pack_options opt = {
        .size = sizeof opt,
        .keep = rng_below(&r->rng, 3) == 0,
        .repack = (enum tamis_repack)rng_below(&r->rng, 3),
    };
    struct tamis_snapshot *snapshot;
    struct tamis_edit *e;
    struct tamis_diag diag;
    ours(r, tamis_snapshot_current(r->store->store, &snapshot, &diag), "snapshot",
         &diag);
    ours(r, tamis_edit_begin(r->store->store, &e, &diag), "edit_begin", &diag);
    ours(r, tamis_edit_pack(e, snapshot, NULL, 0, &opt, NULL, &diag), "pack", &diag);
    tamis_snapshot_release(snapshot);
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
}

static void unpack(struct run *r)
{
    struct tamis_snapshot *snapshot;
    struct tamis_edit *e;
    struct tamis_diag diag;
    uint32_t packed[MAX_SEGMENTS];
    size_t n = 0;
    ours(r, tamis_snapshot_current(r->store->store, &snapshot, &diag), "snapshot",
         &diag);
    for (uint32_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        if (tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0 && rng_below(&r->rng, 2))
            packed[n++] = i;
    ours(r, tamis_edit_begin(r->store->store, &e, &diag), "edit_begin", &diag);
    ours(r, tamis_edit_unpack(e, snapshot, packed, n, &diag), "unpack", &diag);
    tamis_snapshot_release(snapshot);
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
}

static void write_growing(struct run *r, bool seal)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    ours(r, tamis_store_writer(r->store->store, "g", 1, &w, &diag), "store_writer",
         &diag);
    r->w = w;
    for (size_t n = 1 + (size_t)rng_below(&r->rng, 6); n > 0; n--)
        session_add(r, r->promise.n_keys);
    if (seal)
        session_seal(r);
    else
        session_commit(r);
    if (rng_below(&r->rng, 2))
        session_close(r);
    else
        session_kill(r);
}

static void open_store(struct run *r)
{
    struct store_run *s = r->store;
    struct tamis_domain domain;
    struct tamis_diag diag;
    char filters[sizeof s->path + 16];
    tamis_domain_init(&domain, 1, 7);
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    r->promise.tag = domain.tag;
    recording = NULL;
    ours(r, tamis_store_create(s->path, &opt, &diag), "store_create", &diag);
    ours(r, tamis_store_open(s->path, &s->store, &diag), "store_open", &diag);
    snprintf(filters, sizeof filters, "%.200s/filters", s->path);
    record_begin(r, r->workload, filters, rng_next(&r->rng));
    recording = r;
}

void run_store(struct run *r)
{
    static struct store_run s;
    free(s.catalog);
    memset(&s, 0, sizeof s);
    r->store = &s;
    s.next_key = MAX_KEYS;
    snprintf(s.path, sizeof s.path, "%s/s", r->dir);
    snprintf(s.image, sizeof s.image, "%s/i", r->dir);
    store_explore = r->on_event;
    open_store(r);
    r->on_event = store_event;
    r->check = store_check;
    edit(r, false);
    edit(r, true);
    pack(r);
    write_growing(r, false);
    edit(r, false);
    pack(r);
    write_growing(r, rng_below(&r->rng, 2) == 0);
    unpack(r);
    s.last = true;
    edit(r, false);
    recording = NULL;
    tamis_store_close(s.store);
}
