/* LMDB's errors in our words. */
#include "lib/store/catalog/lmdb.h"

int catalog_fail(struct tamis_diag *diag, const char *store_path, int rc,
                 const char *doing)
{
    char file[STORE_PATH_BYTES];
    if (rc == TAMIS_ERR_REPLACED)
        return rc; /* the diag says why */
    /* The catalog was checked before LMDB opened it. */
    bool is_lock = rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH;
    if (snprintf(file, sizeof file, "%s/catalog.lmdb%s", store_path,
                 is_lock ? "-lock" : "") >= (int)sizeof file)
        memcpy(file, "...", 3);
    if (rc > 0)
        return diag_errno(diag, rc, file, doing);
    if (is_lock)
        return diag_fail(diag, TAMIS_ERR_BUSY, file,
                         "damaged, or another LMDB's; it heals when the last process "
                         "that has the store open ends");
    return diag_fail(diag, TAMIS_ERR_CATALOG, file, "%s: %s", doing, mdb_strerror(rc));
}

int catalog_txn_fail(struct catalog_txn *t, int rc, const char *doing,
                     struct tamis_diag *diag)
{
    if (!t->failure)
        t->failure = rc;
    return catalog_fail(diag, t->catalog->path, rc, doing);
}
