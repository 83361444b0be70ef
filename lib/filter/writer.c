/* A writer: create, open, close. Bits are set through a shared mapping with relaxed
 * atomics, so many threads add at once (add.c) and readers see them at once; what
 * makes them durable is in durable.c, grow.c and seal.c. */
#include "lib/filter/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- a stage of a writer ---- */

static uint64_t sum_keys(const struct writer_stage *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < N_STRIPES; i++)
        n += atomic_load_explicit(&s->stripes[i].keys, memory_order_relaxed);
    return n;
}

uint64_t stage_keys_now(const struct writer_stage *s)
{
    return s->base_keys + sum_keys(s);
}

uint64_t stage_bits_now(const struct writer_stage *s)
{
    uint64_t n = s->base_bits;
    for (size_t i = 0; i < N_STRIPES; i++)
        n += atomic_load_explicit(&s->stripes[i].bits, memory_order_relaxed);
    return n;
}

void stage_set_dirty(struct writer_stage *s, uint64_t page)
{
    uint64_t bit = UINT64_C(1) << (page % 64);
    /* After the bits, so that a commit which takes the mark counts them. Looking
     * first keeps the line shared; a mark taken just then costs a lower floor. */
    if (!(atomic_load_explicit(&s->dirty[page / 64], memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(&s->dirty[page / 64], bit, memory_order_release);
}

void stage_condemn(struct writer_stage *s, uint64_t page)
{
    stage_mark_bad(&s->stage, page);
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        atomic_store(&s->floors[page * SECTORS_PER_PAGE + i], FLOOR_DAMAGED);
    stage_set_dirty(s, page);
}

void writer_stage_free(struct writer_stage *s)
{
    if (!s)
        return;
    map_drop(&s->bits_map);
    map_drop(&s->floors_map);
    free(s->stage.good);
    free(s->floors);
    free(s->dirty);
    free(s);
}

/* A child that is forked before the mappings are kept from it would keep the lock. */
static int map_stage(struct tamis_writer *w, const struct stage_desc *d,
                     struct writer_stage *s)
{
    int err = io_hold_forks();
    if (err)
        return err;
    err = map_file(w->guard.fd, d->offset, d->length, true, &w->lost, &s->bits_map);
    if (!err) {
        map_keep_from_children(&s->bits_map);
        err = map_file(w->guard.fd, d->floors_offset,
                       floors_bytes(d->length / PAGE_BYTES), false, &w->lost,
                       &s->floors_map);
    }
    if (!err)
        map_keep_from_children(&s->floors_map);
    io_let_forks();
    return err;
}

int writer_stage_create(struct tamis_writer *w, const struct stage_desc *d, bool fresh,
                        struct writer_stage **out)
{
    uint64_t n_pages = d->length / PAGE_BYTES;
    struct writer_stage *s = aligned_alloc(CACHE_LINE, sizeof *s);
    *out = NULL;
    if (!s)
        return ENOMEM;
    memset(s, 0, sizeof *s);
    void *memory = calloc(1, stage_memory(d, false));
    s->stage.good = memory;
    s->floors = calloc((size_t)n_pages, SECTORS_PER_PAGE * sizeof *s->floors);
    s->dirty = calloc((size_t)(n_pages + 63) / 64, sizeof *s->dirty);
    int err = memory && s->floors && s->dirty ? 0 : ENOMEM;
    if (!err)
        err = map_stage(w, d, s);
    if (err) {
        writer_stage_free(s);
        return err;
    }
    stage_init(&s->stage, d, false, &w->identity, TAMIS_CHECK_LAZY, &s->bits_map,
               s->bits_map.base, s->floors_map.base, NULL, memory);
    if (fresh)
        atomic_store(&s->stage.all_good, true); /* zeros that we allocated */
    s->base_keys = d->keys;
    s->base_bits = d->bits_set;
    s->n_full_bits = plan_expected_bits(&d->geometry, d->capacity);
    uint64_t interval = d->capacity / 65536;
    s->check_interval = interval < 1 ? 1 : interval > 64 ? 64 : interval;
    *out = s;
    return 0;
}

/* ---- creating ---- */

static int check_options(struct tamis_writer_options *o, struct tamis_diag *diag)
{
    if (growth_complete(&o->growth))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "growth outside P 1e-8..0.5, s 1.25..16, r 0.5..0.95, "
                         "n0 1..2^32");
    if (o->name && !segment_name_valid(o->name, o->name_bytes))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "a segment name has 1 to 255 bytes, none of them NUL");
    if (o->binding && o->binding_bytes > BINDING_MAX_BYTES)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a binding has at most 64 bytes");
    if (o->domain &&
        (!hash_id_known(o->domain->hash_id) ||
         o->domain->tag != hash_domain_tag(o->domain->hash_id, o->domain->seed)))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "the domain is not valid");
    return 0;
}

static void new_identity(const struct tamis_writer_options *o,
                         const uint8_t uuid[UUID_BYTES], struct identity *id)
{
    struct tamis_domain domain;
    tamis_domain_random(&domain);
    if (o->domain)
        domain = *o->domain;
    *id = (struct identity){
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .header_pages = 3,
        .kind = KIND_BLOOM,
        .hash_id = (uint16_t)domain.hash_id,
        .growth_rule = GROWTH_GEOMETRIC,
        .hash_seed = domain.seed,
        .target_error = o->growth.error,
        .growth_factor = o->growth.factor,
        .tightening_ratio = o->growth.tightening,
        .first_capacity = o->growth.first_capacity,
        .created = io_calls.now(),
    };
    memcpy(id->uuid, uuid, UUID_BYTES);
    if (o->store_uuid)
        memcpy(id->store_uuid, o->store_uuid, UUID_BYTES);
    if (o->name) {
        id->name_bytes = (uint16_t)o->name_bytes;
        memcpy(id->name, o->name, o->name_bytes);
    }
}

static int write_new(int fd, const struct identity *id,
                     const struct tamis_writer_options *o, struct commit *c)
{
    uint8_t header[HEADER_MAX_BYTES] = {0};
    memset(c, 0, sizeof *c);
    memcpy(c->uuid, id->uuid, UUID_BYTES);
    c->sequence = c->generation = 1;
    c->state = STATE_OPEN;
    c->clean = c->n_stages = 1;
    if (o->binding) {
        c->binding_bytes = (uint8_t)o->binding_bytes;
        memcpy(c->binding, o->binding, o->binding_bytes);
    }
    int err = stage_plan(&o->growth, 0, sizeof header, &c->stages[0]);
    if (err)
        return err;
    c->committed_bytes =
        c->stages[0].floors_offset + floors_bytes(c->stages[0].length / PAGE_BYTES);
    err = stage_allocate(fd, id, &c->stages[0]);
    if (err)
        return err;
    identity_encode(id, header);
    commit_encode(c, SLOT_A, header + commit_slot_offset(SLOT_A));
    commit_encode(c, SLOT_B, header + commit_slot_offset(SLOT_B));
    return io_write(fd, header, sizeof header, 0);
}

/* A temporary file with everything in it but its name; nothing stays on failure. */
static int write_draft(int dir, const char *name,
                       const struct tamis_writer_options *opt,
                       const uint8_t uuid[UUID_BYTES], char temp[IO_TEMP_NAME_BYTES],
                       int *fd, struct commit *c, struct tamis_diag *diag)
{
    struct tamis_writer_options o;
    struct identity id;
    int err = options_copy(&o, sizeof o, opt);
    if (err)
        return diag_fail(diag, err, name, "options are not valid");
    err = check_options(&o, diag);
    if (err)
        return err;
    err = io_create_temp(dir, name, temp, fd);
    if (err)
        return diag_errno(diag, err, name, "cannot create");
    new_identity(&o, uuid, &id);
    err = io_refuse_network(*fd);
    if (!err)
        err = write_new(*fd, &id, &o, c);
    if (!err)
        return 0;
    io_discard(dir, temp, *fd);
    if (err < 0)
        return diag_fail(diag, err, name, "%s", tamis_strerror(err));
    return diag_errno(diag, err, name, "cannot create");
}

static int publish(int dir, const char *temp, const char *name, int fd, bool sync_dir,
                   struct tamis_diag *diag)
{
    int err = io_publish(dir, temp, name, fd, sync_dir);
    if (err == EEXIST)
        return diag_fail(diag, TAMIS_ERR_EXISTS, name, "exists already");
    return err ? diag_errno(diag, err, name, "cannot create") : 0;
}

int writer_format(int dir, const char *name, const struct tamis_writer_options *opt,
                  const uint8_t uuid[UUID_BYTES], bool sync_dir, struct commit *c,
                  struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = write_draft(dir, name, opt, uuid, temp, &fd, c, diag);
    if (err)
        return err;
    err = publish(dir, temp, name, fd, sync_dir, diag);
    if (err)
        io_discard(dir, temp, fd);
    else
        close(fd);
    return err;
}

/* ---- opening and closing ---- */

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
        return diag_fail(diag, TAMIS_ERR_SEALED, path, "%s",
                         tamis_strerror(TAMIS_ERR_SEALED));
    if (h->commit.sequence >= NUMBER_END || h->commit.generation >= NUMBER_END)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                         "sequence or generation beyond what any writer reaches");
    err = io_refuse_network(fd);
    if (err == TAMIS_ERR_NETWORK)
        return diag_fail(diag, err, path, "%s", tamis_strerror(err));
    return err ? diag_errno(diag, err, path, "cannot tell its file system") : 0;
}

static int lock_and_load(int fd, const char *path, struct header *h,
                         struct tamis_diag *diag)
{
    pid_t holder;
    int err = io_lock(fd, &holder);
    if (err == TAMIS_ERR_BUSY)
        return diag_fail(diag, err, path, "a writer has it open (process %ld)",
                         (long)holder);
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

/* Slot B is written lazily, so after a crash A may be the only slot with what was
 * acknowledged last; and A is what the session's first commit overwrites. */
static int mend_slot_b(struct tamis_writer *w, const struct header *h,
                       struct tamis_diag *diag)
{
    const struct slot_health *s = &h->health;
    bool mirrored = s->frame[1].code == VERDICT_OK && s->sequence[0] == s->sequence[1];
    /* After an unclean end a good mirror may be in the page cache only. */
    if (h->commit.slot != SLOT_A || (mirrored && h->commit.clean))
        return 0;
    /* As a record of its own, unclean: if this session, too, ends here, the next one
     * must not take two equal slots for a clean end. */
    w->commit.sequence++;
    w->commit.clean = 0;
    int err = writer_write_slot(w, &w->commit, SLOT_B);
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
    for (uint32_t i = 0; i < w->commit.n_stages && !err; i++)
        err = writer_stage_create(w, &w->commit.stages[i], false, &w->stages[i]);
    if (err)
        return diag_errno(diag, err, w->path, "cannot map a stage");
    atomic_store(&w->n_stages, w->commit.n_stages);
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
    pthread_mutex_lock(&w->mutex);
    err = writer_commit_locked(w, w->commit.watermark, 0, true, diag);
    if (!err) /* an older copy that is put back from now on is known for one (R5) */
        w->hook_due = writer_changed(w, NULL) != 0;
    pthread_mutex_unlock(&w->mutex);
    if (err == TAMIS_ERR_POISONED) /* of a writer that nobody has used yet */
        err = diag_errno(diag, EIO, w->path, "checking the pages");
    return err;
}

static void writer_free(struct tamis_writer *w)
{
    bool copy = w->fork_epoch != io_fork_epoch();
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        if (copy && w->stages[i]) { /* never mapped in this process */
            map_abandon(&w->stages[i]->bits_map);
            map_abandon(&w->stages[i]->floors_map);
        }
        writer_stage_free(w->stages[i]);
    }
    if (!copy && w->guard.fd >= 0)
        io_unlock(w->guard.fd);
    io_unguard_fd(&w->guard);
    if (w->hooks.closed)
        w->hooks.closed(w->hooks.ctx);
    free(w->path);
    free(w);
}

/* A writer that has taken over descriptor and hooks and knows nothing of the file yet.
 */
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
        return NULL;
    }
    memset(w, 0, sizeof *w);
    io_guard_move(opened, &w->guard);
    w->path = copy;
    w->fork_epoch = io_fork_epoch();
    w->kernel = kernel_get();
    if (hooks)
        w->hooks = *hooks;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_mutex_init(&w->floors_mutex, NULL);
    return w;
}

static void take_header(struct tamis_writer *w, const struct header *h)
{
    const struct identity *id = &h->identity;
    w->identity = *id;
    w->commit = h->commit;
    /* A rewritten record keeps no bytes that we don't know, so nor their bits. */
    w->commit.compat &= COMMIT_COMPAT_KNOWN;
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

/* The file gets its name last, with its writer in it: a creation that fails leaves
 * nothing, and nobody else can have added to what is taken away again. */
static int create_in(int dir, const char *base, const char *path,
                     const struct tamis_writer_options *opt, struct tamis_writer **out,
                     struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    struct io_guarded_fd opened;
    struct commit c;
    int fd;
    io_calls.random(uuid, sizeof uuid);
    int err = write_draft(dir, base, opt, uuid, temp, &fd, &c, diag);
    if (err)
        return err;
    close(fd); /* a fork may have copied it: what will be locked is opened anew */
    err = io_open_guarded(dir, temp, O_RDWR, &opened);
    err = err ? diag_errno(diag, err, path, "cannot open")
              : writer_open_fd(&opened, path, NULL, out, diag);
    if (!err)
        err = publish(dir, temp, base, (*out)->guard.fd, true, diag);
    if (!err)
        return 0;
    io_calls.unlinkat(dir, temp, 0);
    if (*out)
        writer_free(*out);
    *out = NULL;
    return err;
}

int tamis_writer_create(const char *path, const struct tamis_writer_options *opt,
                        struct tamis_writer **out, struct tamis_diag *diag)
{
    const char *base;
    int dir;
    *out = NULL;
    diag_clear(diag);
    int err = io_open_parent(path, &dir, &base);
    if (err)
        return diag_errno(diag, err, path,
                          err == EISDIR || err == ENAMETOOLONG
                              ? "not a name for a file"
                              : "cannot open its directory");
    err = create_in(dir, base, path, opt, out, diag);
    if (err)
        diag_in(diag, path);
    close(dir);
    return err;
}

int tamis_writer_open(const char *path, struct tamis_writer **out,
                      struct tamis_diag *diag)
{
    struct io_guarded_fd opened;
    *out = NULL;
    diag_clear(diag);
    int err = io_open_guarded(AT_FDCWD, path, O_RDWR, &opened);
    if (err)
        return diag_open(diag, err, path, "cannot open for writing");
    return writer_open_fd(&opened, path, NULL, out, diag);
}

int tamis_writer_close(struct tamis_writer *w)
{
    int err = 0;
    if (!w)
        return 0;
    if (w->fork_epoch == io_fork_epoch()) {
        uint32_t state = atomic_load(&w->state);
        if (state == WRITER_OPEN) {
            pthread_mutex_lock(&w->mutex);
            err = writer_commit_locked(w, atomic_load(&w->watermark), 1, true, NULL);
            if (!err)
                writer_changed(w, NULL); /* bounds: without them nothing is lost */
            pthread_mutex_unlock(&w->mutex);
        }
        if (state == WRITER_POISONED)
            err = TAMIS_ERR_POISONED;
    }
    writer_free(w);
    return err;
}

uint64_t tamis_writer_watermark(const struct tamis_writer *w)
{
    return atomic_load(&w->watermark);
}

struct tamis_domain tamis_writer_domain(const struct tamis_writer *w)
{
    return w->domain;
}
