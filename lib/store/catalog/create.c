/* A new catalog file, whole or not at all: of a new store, in a backup, or in the place
 * of one that is lost. */
#include "lib/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* LMDB makes the file in several steps. Done under another name, so that whoever finds
 * catalog.lmdb finds it whole, however the process that makes it ends. */
static int make_catalog(const char *store_path, int dir, const struct meta *m,
                        catalog_fn *fill, void *ctx, bool replace,
                        struct tamis_diag *diag)
{
    char temp[CATALOG_TEMP_BYTES], file[STORE_PATH_BYTES];
    uint32_t tag;
    io_calls.random(&tag, sizeof tag);
    snprintf(temp, sizeof temp, CATALOG_TEMP "%08x.tmp", tag);
    if (snprintf(file, sizeof file, "%s/%s", store_path, temp) >= (int)sizeof file)
        return diag_errno(diag, ENAMETOOLONG, store_path, "creating the catalog");
    struct catalog *c = catalog_alloc(store_path, &(struct stat){0});
    if (!c)
        return diag_errno(diag, ENOMEM, store_path, "creating the catalog");
    int rc = catalog_env_create(c, file, m, fill, ctx, diag);
    catalog_free(c);
    if (!rc) {
        rc = replace ? io_replace(dir, temp, "catalog.lmdb")
                     : io_rename(dir, temp, "catalog.lmdb");
        if (rc == EEXIST)
            diag_fail(diag, rc = TAMIS_ERR_EXISTS, store_path,
                      "a store is here already");
        else if (rc)
            diag_errno(diag, rc, store_path, "naming the catalog");
    }
    if (rc)
        io_calls.unlinkat(dir, temp, 0);
    strcat(temp, "-lock");
    io_calls.unlinkat(dir, temp, 0);
    return rc;
}

int registry_create(const char *store_path, int dir, const struct meta *m,
                    catalog_fn *fill, void *ctx, struct tamis_diag *diag)
{
    return make_catalog(store_path, dir, m, fill, ctx, false, diag);
}

int registry_replace(const char *store_path, int dir, const struct meta *m,
                     catalog_fn *fill, void *ctx, struct tamis_diag *diag)
{
    int rc = make_catalog(store_path, dir, m, fill, ctx, true, diag);
    if (rc)
        return rc;
    rc = io_sync_dir(dir);
    return rc ? diag_errno(diag, rc, store_path, "syncing the store") : 0;
}
