/* Commit: what makes a writer's keys durable. The order of every write and sync here
 * is the protocol of SPEC.md section 14; the rule numbers are its. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

/* Gives the marks back after a failure: the floors are still to be written. */
static void free_taken(struct tamis_writer *w, uint64_t **taken, bool give_back)
{
    for (uint32_t i = 0; i < w->commit.n_stages; i++) {
        for (uint64_t k = 0;
             give_back && taken[i] && k < (w->stages[i]->stage.n_pages + 63) / 64; k++)
            if (taken[i][k])
                atomic_fetch_or(&w->stages[i]->dirty[k], taken[i][k]);
        free(taken[i]);
    }
}

/* Digests go behind all that the file has, as a stage does (grow.c). */
static bool settle_at_end(struct tamis_writer *w, struct commit *c)
{
    uint64_t end;
    if (c->n_settled + 1 >= c->n_stages || io_size(w->guard.fd, &end) != 0)
        return false;
    end = end > c->committed_bytes ? end : c->committed_bytes;
    if (!align_up_u64(end, PAGE_BYTES, &end))
        return false;
    uint64_t first = end;
    bool any = writer_settle(w, c, &end);
    if (end != first)
        c->committed_bytes = end;
    return any;
}

int writer_commit_locked(struct tamis_writer *w, uint64_t watermark, uint8_t clean,
                         bool table, struct tamis_diag *diag)
{
    uint64_t *taken[MAX_STAGES] = {NULL};
    struct commit c;
    if (atomic_load(&w->state) == WRITER_POISONED)
        return diag_own(diag, TAMIS_ERR_POISONED, w->path);
    if (writer_check_lost(w, diag))
        return TAMIS_ERR_POISONED;
    for (uint32_t i = 0; i < w->commit.n_stages; i++) {
        taken[i] =
            calloc((size_t)(w->stages[i]->stage.n_pages + 63) / 64, sizeof *taken[i]);
        if (!taken[i]) {
            free_taken(w, taken, true);
            return diag_errno(diag, ENOMEM, w->path, "cannot commit");
        }
    }
    writer_next_record(w, &c);
    c.watermark = watermark;
    c.clean = clean;
    /* R8: floors are counted before the data sync, and written after it. */
    for (uint32_t i = 0; i < c.n_stages; i++)
        floors_count_dirty(w, w->stages[i], taken[i]);
    /* Both slots shall have the record that names digests (R17). */
    table |= settle_at_end(w, &c);
    int err = writer_sync(w);
    if (err) {
        free_taken(w, taken, true);
        return writer_poison(w, err, "syncing the keys", diag);
    }
    if (writer_check_lost(w, diag)) {
        free_taken(w, taken, true);
        return TAMIS_ERR_POISONED;
    }
    for (uint32_t i = 0; i < c.n_stages && !err; i++)
        err = floors_write_taken(w, w->stages[i], taken[i]);
    free_taken(w, taken, err != 0);
    if (err)
        return writer_poison(w, err, "writing floors", diag);
    return writer_write_record(w, &c, table, diag);
}

int tamis_writer_commit(struct tamis_writer *w, uint64_t watermark,
                        struct tamis_diag *diag)
{
    diag_clear(diag);
    int err = call_may_begin(w);
    if (err)
        return diag_own(diag, err, w->path);
    /* A stage may be full though no add here has said so: the writer before this one
     * died, or had no room, and its keys were found there when they came again. */
    atomic_store(&w->grow_failed, false);
    writer_grow(w);
    writer_lock(w);
    if (atomic_load(&w->state) == WRITER_SEALED)
        err = diag_own(diag, TAMIS_ERR_SEALED, w->path);
    else if (watermark < w->commit.watermark)
        err = diag_fail(diag, TAMIS_ERR_RANGE, w->path,
                        "watermark %llu is below the committed %llu",
                        (unsigned long long)watermark,
                        (unsigned long long)w->commit.watermark);
    else
        /* A bound is raised below: to what both slots have, for rot of one of them must
         * not bring back a record that the catalog takes for an older copy (R2, R5). */
        err = writer_commit_locked(w, watermark, 0, w->hook_due, diag);
    /* Bounds that the catalog could not take at growth: once more. */
    if (!err && w->hook_due)
        w->hook_due = writer_changed(w, NULL) != 0;
    if (!err)
        err = writer_acknowledge(w, diag);
    writer_unlock(w);
    return err;
}

int tamis_writer_info(struct tamis_writer *w, struct tamis_filter_info *info,
                      struct tamis_diag *diag)
{
    struct commit c;
    memset(info, 0, sizeof *info);
    diag_clear(diag);
    if (w->fork_epoch != io_fork_epoch())
        return diag_own(diag, TAMIS_ERR_FORKED, w->path);
    if (mutex_is_mine(w))
        return diag_own(diag, TAMIS_ERR_THREAD, w->path);
    mutex_take(w);
    c = w->commit;
    if (c.state == STATE_OPEN)
        writer_next_record(w, &c), c.sequence = w->commit.sequence;
    mutex_give(w);
    header_info(&w->identity, &c, info);
    info->watermark = atomic_load(&w->watermark);
    return 0;
}
