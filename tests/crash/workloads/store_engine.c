/* An engine's calls to a store: those that the workload and the engine that comes back
 * after a cut have in common. */
#include "tests/crash/workloads/store.h"

#include <stdlib.h>

void ours(const struct run *r, int err, const char *doing,
          const struct tamis_diag *diag)
{
    if (err)
        run_fail(r, "%s: %s", doing, diag->what);
}

void put_built(const struct run *r, struct tamis_edit *e, const char *name,
               uint32_t version, size_t from, size_t n_keys)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .rank = version};
    struct tamis_builder *b;
    struct tamis_diag diag;
    int err = tamis_edit_builder(e, name, strlen(name), 0, &opt, &b, &diag);
    ours(r, err, "edit_builder", &diag);
    tamis_builder_add_hashes(b, r->promise.tag, r->promise.keys + from, n_keys);
    err = tamis_edit_put(e, b, &diag);
    ours(r, err, "edit_put", &diag);
    tamis_builder_free(b);
}

void settle(struct run *r, bool committed)
{
    struct store_run *s = r->store;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing == CHANGING && committed) {
            g->version++;
            g->from = g->next_from;
            g->n_keys = g->next_n_keys;
        }
        if (g->standing == COMING)
            g->standing = committed ? THERE : NOT_THERE;
        else if (g->standing == GOING)
            g->standing = committed ? NOT_THERE : THERE;
        else if (g->standing == CHANGING)
            g->standing = THERE;
    }
    if (recording == r)
        record_event(r);
}

/* ---- an engine that comes back ---- */

void engine_writes(struct run *r, struct tamis_store *store)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    struct promise *p = &r->promise;
    int err = tamis_store_writer(store, "g", 1, &w, &diag);
    if (err == TAMIS_ERR_NO_SEGMENT || err == TAMIS_ERR_SEALED)
        return;
    ours(r, err, "store_writer", &diag);
    r->w = w;
    uint64_t watermark = tamis_writer_watermark(w);
    if (watermark < p->watermark || watermark > p->asked)
        run_fail(r, "the writer reports watermark %llu", (unsigned long long)watermark);
    p->watermark = watermark;
    for (size_t i = (size_t)watermark; i < p->n_keys; i++)
        session_add(r, i);
    session_commit(r);
    if (recording == r && rng_below(&r->rng, 2))
        session_kill(r);
    else
        session_close(r);
}

/* Puts a segment that no level before has put. */
void engine_edits(struct run *r, struct tamis_store *store)
{
    struct store_run *s = r->store;
    struct tamis_edit *e;
    struct tamis_diag diag;
    if (s->n_segments == MAX_SEGMENTS)
        abort();
    struct segment *g = &s->segments[s->n_segments];
    *g = (struct segment){.from = 8000, .n_keys = 3, .standing = COMING};
    snprintf(g->name, sizeof g->name, "new%u", r->level % 100);
    ours(r, tamis_edit_begin(store, &e, &diag), "edit_begin", &diag);
    s->n_segments++;
    put_built(r, e, g->name, 0, g->from, g->n_keys);
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
    settle(r, true);
}
