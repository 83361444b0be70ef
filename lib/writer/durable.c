/* The steps that make a writer's file durable, for commits, growth and seals: the sync,
 * the record in both slots (R1, R2), and poisoning when one of them fails (R4). */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

/* R4: after a failed write or sync of the protocol nothing is retried; what the
 * disk holds is unknown until the file is opened again. */
int writer_poison(struct tamis_writer *w, int os_errno, const char *doing,
                  struct tamis_diag *diag)
{
    atomic_store(&w->state, WRITER_POISONED);
    return diag_errno(diag, os_errno, w->path, doing);
}

int writer_check_lost(struct tamis_writer *w, struct tamis_diag *diag)
{
    if (!writer_is_broken(w))
        return 0;
    atomic_store(&w->state, WRITER_POISONED);
    return diag_fail(diag, TAMIS_ERR_POISONED, w->path,
                     "a page of the file could not be read or written");
}

/* Under a lock, and a failure is kept: the kernel reports it to one caller only, and
 * one thread may fill a page while another commits. */
int writer_sync(struct tamis_writer *w)
{
    pthread_mutex_lock(&w->sync_mutex);
    int err = w->sync_error;
    if (!err)
        err = w->sync_error = io_calls.fdatasync(w->guard.fd) == 0 ? 0 : errno;
    pthread_mutex_unlock(&w->sync_mutex);
    return err;
}

int writer_write_slot(struct tamis_writer *w, const struct commit *c, uint8_t slot)
{
    uint8_t raw[SLOT_BYTES];
    commit_encode(c, slot, raw);
    return io_write(w->guard.fd, raw, sizeof raw, commit_slot_offset(slot));
}

/* Slot A, sync, acknowledge, slot B; and, when the table, the state or the clean
 * flag changed, B synced too before anyone is told. */
int writer_write_record(struct tamis_writer *w, const struct commit *c, bool table,
                        struct tamis_diag *diag)
{
    /* R15: all pages that this record vouches for have been looked at by now. */
    int err = writer_check_lost(w, diag);
    if (err)
        return err;
    err = writer_write_slot(w, c, SLOT_A);
    if (!err)
        err = writer_sync(w);
    if (err)
        return writer_poison(w, err, "writing commit slot A", diag);
    SYNC_POINT("commit: slot A written");
    /* If a page was lost meanwhile, the record may stand, but no caller is told. */
    err = writer_check_lost(w, diag);
    if (err)
        return err;
    err = writer_write_slot(w, c, SLOT_B);
    if (!err && table)
        err = writer_sync(w);
    if (err && table)
        return writer_poison(w, err, "writing commit slot B", diag);
    if (err) /* this commit stands; the next one must not overwrite A */
        atomic_store(&w->state, WRITER_POISONED);
    w->commit = *c;
    atomic_store(&w->watermark, c->watermark);
    return 0;
}

void writer_next_record(struct tamis_writer *w, struct commit *c)
{
    *c = w->commit;
    c->sequence++;
    c->keys = 0;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        c->stages[i].keys = stage_keys_now(w->stages[i]);
        /* Bits lost to damage and set again count twice; a count that no stage can
         * have would make the record one that nobody reads (R9). */
        uint64_t n = stage_bits_now(w->stages[i]), most = c->stages[i].length * 8;
        c->stages[i].bits_set = n < most ? n : most;
        c->keys += c->stages[i].keys;
    }
}

/* Tells the catalog, if there is one, what the commit just written changed. */
int writer_changed(struct tamis_writer *w, struct tamis_diag *diag)
{
    return w->hooks.changed ? w->hooks.changed(w->hooks.ctx, &w->commit, diag) : 0;
}

int writer_acknowledge(struct tamis_writer *w, struct tamis_diag *diag)
{
    int err = w->hooks.acknowledge ? w->hooks.acknowledge(w->hooks.ctx, diag) : 0;
    if (err || !w->hooks.named)
        return err;
    err = named_check(w->hooks.named, w->guard.fd);
    if (err == TAMIS_ERR_REPLACED)
        return diag_fail(diag, err, w->path,
                         "replaced while this writer has it open: open it again, and "
                         "add what the file that is there now lacks");
    return err ? diag_errno(diag, err, w->path, "looking whether it was replaced") : 0;
}

int writer_tell_again(struct tamis_writer *w, struct tamis_diag *diag)
{
    mutex_take(w);
    int err = w->hook_due ? writer_changed(w, diag) : 0;
    w->hook_due = err != 0;
    mutex_give(w);
    return err;
}
