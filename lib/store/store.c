/* A store as a whole: open, describe, close. */
#include "lib/store/catalog/catalog.h"

/* Another process may create the store meanwhile. */
static int open_or_create(struct tamis_store *s, const char *path,
                          const struct tamis_open_options *opt, struct tamis_diag *diag)
{
    struct io_wait wait = {opt->timeout_ms, opt->waiting, opt->ctx, 0};
    bool must_create = opt->create == TAMIS_CREATE_NEW;
    int rc = must_create ? TAMIS_ERR_NO_STORE
                         : registry_open(path, &wait, &s->catalog, diag);
    if (rc != TAMIS_ERR_NO_STORE || opt->create == TAMIS_OPEN_ONLY)
        return rc;
    rc = store_create(path, opt, &wait, diag);
    s->is_new = !rc;
    if (rc && (rc != TAMIS_ERR_EXISTS || must_create))
        return rc;
    diag_clear(diag);
    return registry_open(path, &wait, &s->catalog, diag);
}

int tamis_store_open(const char *path, const struct tamis_open_options *opt,
                     struct tamis_store **out, struct tamis_diag *diag)
{
    struct tamis_open_options o;
    diag_clear(diag);
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "nowhere to put the store");
    *out = NULL;
    if (!path || !*path)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "no path");
    if (options_copy(&o, sizeof o, opt) || o.create > TAMIS_CREATE_NEW)
        return diag_fail(diag, TAMIS_ERR_RANGE, path,
                         "the option struct: its size, or what to create");
    int before = io_hold_cancel(); /* or the lock of the registry would be held */
    char *plain = plain_path(path);
    struct tamis_store *s = calloc(1, sizeof *s);
    int rc = plain && s ? open_or_create(s, plain, &o, diag)
                        : diag_errno(diag, ENOMEM, path, "opening the store");
    free(plain);
    io_let_cancel(before);
    if (rc) {
        free(s);
        return rc;
    }
    s->waiting = o.waiting;
    s->ctx = o.ctx;
    *out = s;
    return 0;
}

void tamis_store_close(struct tamis_store *store)
{
    if (!store)
        return;
    registry_release(store->catalog);
    free(store);
}

/* The fields that change while the store is open. */
struct store_now {
    struct meta meta;
    uint64_t n_segments;
};

static int read_store_now(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct store_now *now = ctx;
    int rc = catalog_meta(t, &now->meta, diag);
    return rc ? rc : catalog_count(t, &now->n_segments, diag);
}

int tamis_store_info(struct tamis_store *store, struct tamis_store_info *info,
                     struct tamis_diag *diag)
{
    int rc = store_usable(store, false, diag);
    if (!rc && !info)
        rc = diag_fail(diag, TAMIS_ERR_RANGE, store->catalog->path, "no info");
    if (info)
        memset(info, 0, sizeof *info);
    if (rc)
        return rc;
    struct catalog *c = store->catalog;
    const struct meta *m = &c->meta;
    struct store_now now;
    uint64_t n_bytes = 0;
    rc = catalog_read(c, read_store_now, &now, diag);
    if (!rc && (rc = io_size(c->fd, &n_bytes)) != 0)
        diag_errno(diag, rc, c->path, "the catalog's size");
    if (rc)
        return rc;
    memcpy(info->uuid, m->store_uuid, sizeof info->uuid);
    info->domain = c->domain;
    info->growth = (struct tamis_growth){
        .error = m->target_error,
        .factor = m->growth_factor,
        .tightening = m->tightening_ratio,
        .first_capacity = m->first_capacity,
    };
    info->created = m->created;
    info->read_only = c->read_only;
    info->is_new = store->is_new;
    info->catalog_bytes = n_bytes;
    info->n_segments = now.n_segments;
    info->complete = now.meta.complete;
    return 0;
}

struct tamis_domain tamis_store_domain(const struct tamis_store *store)
{
    return store ? store->catalog->domain : (struct tamis_domain){0};
}
