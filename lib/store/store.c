/* A store as a whole: open, describe, close. */
#include "format/record.h"
#include "lib/error.h"
#include "lib/store/base/base.h"
#include "lib/store/catalog/catalog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tamis_store_open(const char *path, struct tamis_store **out,
                     struct tamis_diag *diag)
{
    diag_clear(diag);
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "nowhere to put the store");
    *out = NULL;
    if (!path || !*path)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "no path");
    int before = io_hold_cancel(); /* or the lock of the registry would be held */
    char *plain = plain_path(path);
    struct tamis_store *s = malloc(sizeof *s);
    int rc = plain && s ? registry_open(plain, &s->catalog, diag)
                        : diag_errno(diag, ENOMEM, path, "opening the store");
    free(plain);
    io_let_cancel(before);
    if (rc)
        free(s);
    else
        *out = s;
    return rc;
}

void tamis_store_close(struct tamis_store *store)
{
    if (!store)
        return;
    registry_release(store->catalog);
    free(store);
}

static int read_meta(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    return catalog_meta(t, ctx, diag);
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
    rc = catalog_usage(c, &info->n_segments, &info->catalog_bytes, diag);
    if (!rc) {
        struct meta now; /* the flag may have changed since the store was opened */
        rc = catalog_read(c, read_meta, &now, diag);
        info->complete = now.complete;
    }
    if (rc)
        memset(info, 0, sizeof *info);
    return rc;
}

int tamis_store_for_packs(const struct tamis_store *store)
{
    return store && store->catalog->meta.compat & META_COMPAT_FOR_PACKS;
}

struct tamis_domain tamis_store_domain(const struct tamis_store *store)
{
    return store ? store->catalog->domain : (struct tamis_domain){0};
}
