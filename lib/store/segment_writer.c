/* Opens a segment's growing filter for writing, and keeps the catalog's lower bounds
 * behind it (R5): after each growth the record says how far the file had come, so that
 * an older copy that is put back is found. */
#include "lib/store/catalog/listing.h"
#include "lib/writer/writer.h"

/* The context of a writer's hooks; holds a reference to the catalog. */
struct watch {
    struct catalog *catalog;
    struct io_wait wait;
    uint8_t uuid[UUID_BYTES];
    struct piece name; /* in room */
    uint8_t room[NAME_MAX_BYTES];
    const struct commit *reached; /* while the catalog is told: how far it has come */
};

static bool raise_u64(uint64_t *bound, uint64_t v)
{
    bool higher = v > *bound;
    *bound = higher ? v : *bound;
    return higher;
}

/* Bounds rise and never fall: two processes may report out of order. */
static bool record_raise(struct record *r, const struct commit *c)
{
    bool changed = raise_u64(&r->min_sequence, c->sequence);
    changed |= raise_u64(&r->generation, c->generation);
    changed |= raise_u64(&r->watermark, c->watermark);
    changed |= raise_u64(&r->keys, c->keys);
    changed |= raise_u64(&r->file_bytes, c->committed_bytes);
    if (c->n_stages > r->min_stages) {
        r->min_stages = c->n_stages;
        changed = true;
    }
    if (c->state == STATE_SEALED && r->state == RECORD_GROWING) {
        r->state = RECORD_SEALED;
        r->table_digest = commit_table_digest(c);
        changed = true;
    }
    return changed;
}

static int raise_in(struct catalog_txn *t, void *ctx)
{
    const struct watch *w = ctx;
    struct piece value;
    struct record r;
    int rc = catalog_get(t, w->name, &value);
    if (rc == TAMIS_ERR_NO_SEGMENT) {
        diag_clear(t->diag);
        return 0; /* dropped meanwhile: the file has no name left either */
    }
    if (rc)
        return rc;
    struct verdict v = record_decode(value.at, value.n, w->name.at, w->name.n, &r);
    if (v.code != VERDICT_OK)
        return diag_verdict(t->diag, v, w->catalog->path, 0);
    if (memcmp(r.uuid, w->uuid, UUID_BYTES) != 0 || !record_raise(&r, w->reached))
        return 0;
    if (r.ro_compat) /* since the writer was opened */
        return diag_fail(t->diag, TAMIS_ERR_VERSION, w->catalog->path,
                         "the segment has a feature that this tamis must not write");
    /* Bytes that we don't know are not kept, so nor are their bits. */
    r.compat = 0;
    uint8_t bytes[RECORD_MAX_BYTES];
    size_t n = record_encode(&r, w->name.at, w->name.n, bytes);
    return catalog_replace(t, w->name, (struct piece){bytes, n});
}

static int raise_bounds(void *ctx, const struct commit *c, struct tamis_diag *diag)
{
    struct watch *w = ctx;
    w->reached = c;
    return catalog_write(w->catalog, &w->wait, 0, raise_in, w, NULL, diag);
}

/* Nobody finds the keys in a file that is not the store's any more. */
static int watch_acknowledge(void *ctx, struct tamis_diag *diag)
{
    const struct watch *w = ctx;
    return origin_check_files(w->catalog->origin, diag);
}

static void watch_closed(void *ctx)
{
    struct watch *w = ctx;
    registry_release(w->catalog);
    free(w);
}

/* ---- opening ---- */

/* Is this the file that the record means, and not an older copy of it? */
static int check_file(const struct catalog *c, const struct wanted *w,
                      const struct header *h, const char *path, struct tamis_diag *diag)
{
    const struct identity *id = &h->identity;
    struct bounds known = record_bounds(&w->record);
    const struct tamis_identity own = {
        .name = w->name.at, .name_bytes = w->name.n, .store_uuid = c->meta.store_uuid};
    const char *what = identity_differs(&own, id, &h->commit);
    if (memcmp(id->uuid, w->record.uuid, UUID_BYTES) != 0)
        what = "the file of another filter (its UUID differs)";
    else if (!what && !meta_hashes(&c->meta, id))
        what = "a filter with another hash seed than the store's";
    else if (!what && commit_is_older(&h->commit, &known))
        what = "an older copy: the catalog has seen this filter further on";
    return what ? diag_fail(diag, TAMIS_ERR_MISMATCH, path, "%s", what) : 0;
}

/* A writer that sealed and died before it could say so: the catalog follows now, once
 * the seal is known to be durable. Returns 0 if it turns out that there is none. */
static int follow_seal(struct watch *w, int fd, const char *path,
                       struct tamis_diag *diag)
{
    struct header h;
    char text[HOLDER_TEXT_BYTES];
    int rc = io_lock(fd, LOCK_WRITER);
    if (rc == TAMIS_ERR_BUSY)
        return diag_fail(diag, rc, path, "%s has it open for writing",
                         io_holder(fd, LOCK_WRITER, text));
    if (rc)
        return diag_errno(diag, rc, path, "cannot lock");
    rc = seal_settle(fd, path, &h, diag);
    if (!rc && h.commit.state == STATE_SEALED) {
        rc = raise_bounds(w, &h.commit, diag);
        if (!rc)
            rc = diag_fail(diag, TAMIS_ERR_SEALED, path, "the filter is sealed");
    }
    io_unlock(fd, LOCK_WRITER); /* explicitly: a fork may have copied the descriptor */
    return rc;
}

static struct watch *watch_new(struct catalog *c, const struct wanted *w)
{
    struct watch *watch = malloc(sizeof *watch);
    if (!watch)
        return NULL;
    watch->catalog = registry_hold(c);
    watch->wait = w->wait;
    memcpy(watch->uuid, w->record.uuid, UUID_BYTES);
    memcpy(watch->room, w->name.at, w->name.n);
    watch->name = (struct piece){watch->room, w->name.n};
    return watch;
}

/* Between reading the record and locking the file the segment may have been dropped;
 * from now on the lock keeps it. */
static int still_listed(struct catalog *c, const struct wanted *w,
                        struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    struct wanted now = {.name = w->name};
    int rc = catalog_read(c, store_find_record, &now, diag);
    if (rc || memcmp(now.record.uuid, w->record.uuid, UUID_BYTES) == 0)
        return rc;
    return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, c->path,
                     "segment '%s' has just been replaced",
                     name_text(text, w->name.at, w->name.n));
}

static int open_writer(struct catalog *c, const struct wanted *w,
                       struct io_guarded_fd *opened, const char *file, const char *path,
                       struct tamis_writer **out, struct tamis_diag *diag)
{
    struct header h;
    struct named *named = NULL;
    int rc = header_load(opened->fd, true, 0, 0, path, &h, diag);
    if (!rc)
        rc = check_file(c, w, &h, path, diag);
    struct watch *watch = rc ? NULL : watch_new(c, w);
    if (!rc && !watch)
        rc = diag_errno(diag, ENOMEM, path, "opening the writer");
    if (!rc && h.commit.state == STATE_SEALED)
        rc = follow_seal(watch, opened->fd, path, diag);
    if (!rc) {
        rc = named_in(c->filters->named->at, c->filters->named->path, file, &named);
        if (rc)
            diag_errno(diag, rc, path, "opening the writer");
    }
    if (rc) {
        io_unguard_fd(opened);
        if (watch)
            watch_closed(watch);
        return rc;
    }
    /* From here on all of these are the writer's, even if it fails. */
    struct writer_hooks hooks = {raise_bounds, watch_closed, watch, watch_acknowledge,
                                 named};
    rc = writer_open_fd(opened, path, &hooks, out, diag);
    if (rc)
        return rc;
    rc = still_listed(c, w, diag);
    if (!rc)
        rc = writer_tell_again(*out, diag);
    if (rc) {
        tamis_writer_close(*out, NULL);
        *out = NULL;
    }
    return rc;
}

static int segment_check_state(const struct catalog *c, const struct wanted *w,
                               struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    bool growing = w->record.state == RECORD_GROWING;
    bool sealed = w->record.state == RECORD_SEALED;
    if (growing && !w->record.ro_compat)
        return 0;
    return diag_fail(diag,
                     growing  ? TAMIS_ERR_VERSION
                     : sealed ? TAMIS_ERR_SEALED
                              : TAMIS_ERR_NO_SEGMENT,
                     c->path,
                     growing
                         ? "segment '%s' has a feature that this tamis must not write"
                     : sealed ? "segment '%s' is sealed"
                              : "segment '%s' is registered without a filter",
                     name_text(text, w->name.at, w->name.n));
}

int tamis_store_writer(struct tamis_store *store, const void *name, size_t name_bytes,
                       const struct tamis_segment_writer_options *opt,
                       struct tamis_writer **out, struct tamis_diag *diag)
{
    struct tamis_segment_writer_options o;
    char file[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct wanted w = {.name = {name, name_bytes}};
    if (out)
        *out = NULL;
    int rc = store_usable(store, true, diag);
    if (rc)
        return rc;
    struct catalog *c = store->catalog;
    if (!out || !segment_name_valid(name, name_bytes))
        return diag_fail(diag, TAMIS_ERR_RANGE, c->path,
                         "a segment's name is 1 to 255 bytes without NUL");
    rc = options_copy(&o, sizeof o, opt);
    if (rc)
        return diag_fail(diag, rc, c->path, "size of the option struct");
    w.wait = store_wait(store, o.timeout_ms);
    rc = catalog_read(c, store_find_record, &w, diag);
    if (!rc)
        rc = segment_check_state(c, &w, diag);
    if (rc)
        return rc;
    filter_file_name(w.record.uuid, file);
    filters_dir_path(c->filters, file, path);
    struct io_guarded_fd opened;
    rc = io_refuse_network(c->filters->fd);
    if (rc)
        return diag_fail(diag, rc, path, "%s", tamis_strerror(rc));
    rc = io_open_guarded(c->filters->fd, file, O_RDWR, &opened);
    if (rc)
        return diag_open(diag, rc, path, "opening the filter");
    int before = io_hold_cancel(); /* or the file's lock would be kept */
    rc = open_writer(c, &w, &opened, file, path, out, diag);
    io_let_cancel(before);
    if (!rc && o.one_thread)
        writer_own(*out);
    return rc;
}
