/* A writer: open and close. Bits are set through a shared mapping with relaxed atomics,
 * so several threads add at once (add.c) and readers see them at once; commit.c, grow.c
 * and settle.c make them durable. */
#include "lib/writer/inside.h"
#include "format/hash.h"

static const uint64_t SEQUENCE_LEAP = UINT64_C(1) << 20;
/* Beyond it there is no honest file, and a number that wrapped would bring an older
 * record back. */
static const uint64_t NUMBER_END = UINT64_C(1) << 63;

static int check_writable(int fd, const struct header *h, const char *path,
                          struct tamis_diag *diag)
{
    int err = header_check_features(h, path, diag);
    if (err)
        return err;
    if (h->commit.state == STATE_SEALED)
        return diag_own(diag, TAMIS_ERR_SEALED, path);
    if (h->commit.sequence >= NUMBER_END || h->commit.generation >= NUMBER_END)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                         "sequence or generation beyond what any writer reaches");
    err = io_refuse_network(fd);
    return err ? diag_made(diag, err, path, "cannot tell its file system") : 0;
}

static int lock_and_load(int fd, const char *path, struct header *h,
                         struct tamis_diag *diag)
{
    char text[HOLDER_TEXT_BYTES];
    int err = io_lock(fd, LOCK_WRITER);
    if (err == TAMIS_ERR_BUSY)
        return diag_fail(diag, err, path, "%s has it open for writing",
                         io_holder(fd, LOCK_WRITER, text));
    if (err)
        return diag_errno(diag, err, path, "cannot lock");
    err = header_load(fd, true, 0, 0, path, h, diag);
    /* A seal that its writer could not bring to the end is no seal to rely on. */
    if (!err && h->commit.state == STATE_SEALED && !header_is_mirrored(h))
        err = seal_settle(fd, path, h, diag);
    return err ? err : check_writable(fd, h, path, diag);
}

/* R3: was the last writer's end anything but a close that reached both slots? */
static bool ended_uncleanly(const struct header *h)
{
    return !h->commit.clean || !header_is_mirrored(h);
}

/* Slot B is written lazily, so after a crash A may be the only slot with the last
 * acknowledged commit, and the session's first commit overwrites A. The slot that the
 * session goes on from is made durable before the other is written: its writer may have
 * been killed before the sync, and two slots written at a time may both be torn. */
static int mend_slot_b(struct tamis_writer *w, const struct header *h,
                       struct tamis_diag *diag)
{
    if (!ended_uncleanly(h))
        return 0;
    int err = slot_settle(w->guard.fd, h);
    if (err)
        return writer_poison(w, err, "writing the last commit slot again", diag);
    if (h->commit.slot != SLOT_A)
        return 0;
    /* As a record of its own, unclean: if this session, too, ends here, the next one
     * must not take two equal slots for a clean end. */
    w->commit.sequence++;
    w->commit.clean = 0;
    err = writer_write_slot(w, &w->commit, SLOT_B);
    if (!err)
        err = writer_sync(w);
    return err ? writer_poison(w, err, "writing commit slot B", diag) : 0;
}

/* Before anything is written or mapped. */
static int reserve_stages(struct tamis_writer *w, struct tamis_diag *diag)
{
    int err = 0;
    for (uint32_t i = 0; i < w->commit.n_stages && !err; i++) {
        const struct stage_desc *d = &w->commit.stages[i];
        err = io_reserve(w->guard.fd, d->offset, d->length);
        if (!err)
            err = io_reserve(w->guard.fd, d->floors_offset,
                             floors_bytes(d->length / PAGE_BYTES));
    }
    return err ? diag_errno(diag, err, w->path, "cannot have the space of a stage") : 0;
}

static int start_session(struct tamis_writer *w, const struct header *h,
                         struct tamis_diag *diag)
{
    int err = reserve_stages(w, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < w->commit.n_stages; i++) {
        struct writer_stage *s;
        err = writer_stage_create(w, &w->commit, i, false, &s);
        if (err)
            break;
        writer_stage_use(w, i, s);
        atomic_store(&s->drained, i + 1 < w->commit.n_stages);
    }
    if (err)
        return diag_errno(diag, err, w->path, "cannot map a stage");
    atomic_store(&w->n_stages, w->commit.n_stages);
    settle_note(w); /* no add is in flight: the first commit may settle all but one */
    err = writer_recover(w, ended_uncleanly(h), diag);
    if (err)
        return err;
    err = mend_slot_b(w, h, diag);
    if (err)
        return err;
    /* A record that a dead writer wrote and did not sync may have been seen, and be
     * gone: its number must not come again with another table. */
    if (ended_uncleanly(h))
        w->commit.sequence += SEQUENCE_LEAP;
    /* The session's first write (R3), durable before anything is added. */
    mutex_take(w);
    err = writer_commit_locked(w, w->commit.watermark, 0, true, diag);
    if (!err) /* an older copy that is put back from now on is known for one (R5) */
        w->hook_due = writer_changed(w, NULL) != 0;
    mutex_give(w);
    if (err == TAMIS_ERR_POISONED) /* of a writer that nobody has used yet */
        err = diag_errno(diag, EIO, w->path, "checking the pages");
    return err;
}

void writer_free(struct tamis_writer *w)
{
    bool copy = w->fork_epoch != io_fork_epoch();
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        if (copy && w->stages[i]) { /* never mapped in this process */
            map_abandon(&w->stages[i]->bits_map);
            map_abandon(&w->stages[i]->checks_map);
        }
        writer_stage_free(w->stages[i]);
    }
    if (!copy) /* in a child the fork handler has closed it */
        io_unlock(w->guard.fd, LOCK_WRITER);
    io_unguard_fd(&w->guard);
    if (w->hooks.closed)
        w->hooks.closed(w->hooks.ctx);
    named_free(w->hooks.named);
    free(w->path);
    free(w);
}

/* A writer that has taken over descriptor and hooks, and has not read the file yet. */
static struct tamis_writer *writer_new(struct io_guarded_fd *opened, const char *path,
                                       const struct writer_hooks *hooks)
{
    struct tamis_writer *w = aligned_alloc(CACHE_LINE, sizeof *w);
    char *copy = w ? strdup(path) : NULL;
    if (!copy) {
        free(w);
        io_unguard_fd(opened);
        if (hooks && hooks->closed)
            hooks->closed(hooks->ctx);
        named_free(hooks ? hooks->named : NULL);
        return NULL;
    }
    memset(w, 0, sizeof *w);
    io_guard_move(opened, &w->guard);
    w->path = copy;
    w->fork_epoch = io_fork_epoch();
    w->kernel = kernel_get();
    w->add_one = w->kernel->add_one_alone;
    if (hooks)
        w->hooks = *hooks;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_mutex_init(&w->floors_mutex, NULL);
    pthread_mutex_init(&w->sync_mutex, NULL);
    for (size_t i = 0; i < N_TURNS; i++)
        pthread_mutex_init(&w->turns[i], NULL);
    return w;
}

static void take_header(struct tamis_writer *w, const struct header *h)
{
    const struct identity *id = &h->identity;
    w->identity = *id;
    w->commit = h->commit;
    /* A rewritten record keeps no bytes that we don't know, so nor their bits. */
    w->commit.compat = 0;
    w->commit.table_digest = 0; /* of the bytes that were read, not of what comes */
    w->domain = (struct tamis_domain){id->hash_id, id->hash_seed,
                                      hash_domain_tag(id->hash_id, id->hash_seed)};
    w->growth = (struct tamis_growth){id->target_error, id->growth_factor,
                                      id->tightening_ratio, id->first_capacity};
}

int writer_open_fd(struct io_guarded_fd *opened, const char *path,
                   const struct writer_hooks *hooks, struct tamis_writer **out,
                   struct tamis_diag *diag)
{
    struct header h;
    *out = NULL;
    struct tamis_writer *w = writer_new(opened, path, hooks);
    if (!w)
        return diag_errno(diag, ENOMEM, path, "cannot open");
    int err = lock_and_load(w->guard.fd, path, &h, diag);
    if (!err) {
        take_header(w, &h);
        err = start_session(w, &h, diag);
    }
    if (err)
        writer_free(w);
    else
        *out = w;
    return err;
}

int writer_open_path(struct io_guarded_fd *opened, const char *path,
                     struct tamis_writer **out, struct tamis_diag *diag)
{
    struct writer_hooks hooks = {0};
    int err = named_path(path, opened->fd, &hooks.named);
    if (!err)
        return writer_open_fd(opened, path, &hooks, out, diag);
    io_unguard_fd(opened);
    *out = NULL;
    return diag_errno(diag, err, path, "keeping its name");
}

/* A thread that was cancelled in here, or in a close, would keep the file's lock. */
int tamis_writer_open(const char *path, const struct tamis_writer_options *opt,
                      struct tamis_writer **out, struct tamis_diag *diag)
{
    struct tamis_writer_options o;
    struct io_guarded_fd opened;
    *out = NULL;
    diag_clear(diag);
    if (options_copy(&o, sizeof o, opt))
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "options are not valid");
    int before = io_hold_cancel();
    int err = io_open_guarded(AT_FDCWD, path, O_RDWR, &opened);
    err = err ? diag_open(diag, err, path, "cannot open for writing")
              : writer_open_path(&opened, path, out, diag);
    if (!err && o.one_thread)
        writer_own(*out);
    io_let_cancel(before);
    return err;
}

int tamis_writer_close(struct tamis_writer *w, struct tamis_diag *diag)
{
    int err = 0;
    diag_clear(diag);
    if (!w)
        return 0;
    int before = io_hold_cancel();
    if (w->fork_epoch == io_fork_epoch()) {
        uint32_t state = atomic_load(&w->state);
        if (state == WRITER_OPEN && mutex_is_mine(w)) {
            /* The record may be half changed: write none. */
            err = diag_own(diag, TAMIS_ERR_POISONED, w->path);
            mutex_of = NULL;    /* another writer may get this memory */
            before = w->cancel; /* the jump left it held off */
        } else if (state == WRITER_OPEN) {
            mutex_take(w);
            err = writer_commit_locked(w, atomic_load(&w->watermark), 1, true, diag);
            if (!err)
                writer_changed(w, NULL); /* bounds: without them nothing is lost */
            mutex_give(w);
        }
        if (state == WRITER_POISONED)
            err = diag_own(diag, TAMIS_ERR_POISONED, w->path);
    }
    writer_free(w);
    io_let_cancel(before);
    return err;
}
