/* One catalog in memory, before and after it is in the registry: which file it is, the
 * checks before LMDB may open it, and the records read from it. Also makes a new
 * catalog file, whole or not at all: for a new store, in a backup, or in the place of a
 * lost one. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/listing.h"

/* ---- the files ---- */

int store_dir_open(const char *path, int *dir, struct tamis_diag *diag)
{
    *dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*dir >= 0)
        return 0;
    if (errno == ENOENT)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path, "no such directory");
    if (errno == ENOTDIR)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                         "not a directory, so not a store");
    return diag_errno(diag, errno, path, "opening the store");
}

/* On an overlay a file that is opened for reading stays that of the lower layer when
 * somebody who writes gets a copy of it: LMDB would never see the list change. Opened
 * for writing first it is copied now. The copy may have another device and inode, so
 * this comes before anybody asks for them. */
static int see_writers(int dir, const char *path, int *fd, struct tamis_diag *diag)
{
    bool overlay;
    int fresh, rc = io_is_overlay(*fd, &overlay);
    if (!rc && overlay) {
        rc = io_open_beneath(dir, "catalog.lmdb", O_RDWR, &fresh);
        if (!rc) {
            close(*fd);
            *fd = fresh;
        }
    }
    if (!rc)
        return 0;
    close(*fd);
    *fd = -1;
    return diag_errno(diag, rc, path,
                      "a catalog on an overlay, where a reader sees writers only if it "
                      "may write catalog.lmdb: let it, or use a volume");
}

int registry_open_file(int dir, const char *path, int *fd, struct tamis_diag *diag)
{
    int rc = io_open_beneath(dir, "catalog.lmdb", O_RDONLY, fd);
    if (rc == ENOENT && dir_is_empty(dir, "filters") == 1)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "catalog.lmdb is missing and filters/ is empty: creating "
                         "this store was cut short, or both were lost");
    if (rc == ENOENT && faccessat(dir, "filters", F_OK, 0) == 0)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "filters/ is there, but catalog.lmdb is missing");
    if (rc == ENOENT)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "no store in this directory (no catalog.lmdb)");
    if (io_not_regular(rc))
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                         "catalog.lmdb is not a regular file");
    if (rc)
        return diag_errno(diag, rc, path, "opening catalog.lmdb");
    return see_writers(dir, path, fd, diag);
}

int registry_check_lock_file(int dir, const char *path, struct tamis_diag *diag)
{
    struct stat st;
    if (fstatat(dir, "catalog.lmdb-lock", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT
                   ? 0
                   : diag_errno(diag, errno, path, "looking at catalog.lmdb-lock");
    if (S_ISREG(st.st_mode))
        return 0;
    return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                     "catalog.lmdb-lock is not a regular file");
}

/* ---- the catalog ---- */

struct catalog *catalog_alloc(const char *store_path, const struct stat *st)
{
    size_t n = strlen(store_path);
    struct catalog *c = calloc(1, sizeof *c + n + 1);
    struct ledger *ledger = c ? ledger_new() : NULL;
    if (!ledger) {
        free(c);
        return NULL;
    }
    c->ledger = ledger;
    memcpy(c->path, store_path, n + 1);
    c->device = st->st_dev;
    c->inode = st->st_ino;
    c->refs = 1;
    c->fd = -1;
    pthread_mutex_init(&c->gates[0], NULL);
    pthread_mutex_init(&c->gates[1], NULL);
    c->fork_epoch = io_fork_epoch();
    pthread_mutex_init(&c->cache_lock, NULL);
    pthread_mutex_init(&c->opened_lock, NULL);
    /* Else threads that never stop reading could keep the map from growing. */
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&c->map_lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return c;
}

void catalog_free(struct catalog *c)
{
    open_packs_forget(c, NULL);
    catalog_env_close(c);
    map_drop(&c->metas);
    if (c->fd >= 0)
        close(c->fd);
    origin_release(c->origin);
    filters_dir_release(c->filters);
    ledger_release(c->ledger);
    if (c->has_turn) {
        copies_leave(c->turn.fd);
        dir_close_guarded(&c->turn);
    }
    pthread_mutex_destroy(&c->gates[0]);
    pthread_mutex_destroy(&c->gates[1]);
    pthread_rwlock_destroy(&c->map_lock);
    pthread_mutex_destroy(&c->cache_lock);
    pthread_mutex_destroy(&c->opened_lock);
    free(c);
}

int catalog_read_meta(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    return catalog_meta(t, ctx, diag);
}

/* A reader does without LMDB if it must. A commit is no reason to wait here. */
static int open_catalog(struct catalog *c, int dir, int fd, const char *file,
                        struct tamis_diag *diag)
{
    struct io_wait briefly = {.timeout_ms = 100};
    int rc = registry_check_lock_file(dir, c->path, diag);
    if (rc)
        return rc;
    c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    rc = c->fd < 0 ? errno
                   : map_file(c->fd, 0, 2 * catalog_page_bytes(c->fd), false, NULL,
                              &c->metas);
    if (rc)
        return diag_errno(diag, rc, c->path, "opening the catalog");
    rc = catalog_env_open(c, file, &briefly, diag);
    if (rc != TAMIS_ERR_BUSY && rc != EACCES && rc != EPERM && rc != EROFS &&
        rc != ENOSPC && rc != EDQUOT)
        return rc;
    diag_clear(diag);
    return 0;
}

int catalog_load(struct catalog *c, int dir, int fd, struct tamis_diag *diag)
{
    c->read_only = io_refuse_network(dir) == TAMIS_ERR_NETWORK;
    int rc = open_catalog(c, dir, fd, c->origin->catalog.path, diag);
    if (!rc)
        rc = catalog_read(c, catalog_read_meta, &c->meta, diag);
    if (rc)
        return rc;
    if (c->meta.ro_compat)
        c->read_only = true;
    rc = tamis_domain_init(&c->domain, c->meta.hash_id, c->meta.hash_seed);
    if (rc)
        return diag_fail(diag, rc, c->path, "hash function of the store");
    rc = filters_dir_open(dir, c->path, c->origin->at, c->origin->filters.path,
                          &c->filters);
    if (!rc)
        rc = origin_take_filters(c->origin, c->filters->fd);
    if (rc == ENOENT)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, c->path, "filters/ is missing");
    if (rc == ENOTDIR || rc == ELOOP)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, c->path, "filters/ is no directory");
    return rc ? diag_errno(diag, rc, c->path, "opening filters/") : 0;
}

/* ---- for repair ---- */

int registry_open_alone(const char *store_path, int dir, struct catalog **out,
                        struct tamis_diag *diag)
{
    struct stat st;
    struct catalog *c = NULL;
    int fd, rc = registry_open_file(dir, store_path, &fd, diag);
    if (rc)
        return rc;
    if (fstat(fd, &st) == 0)
        c = catalog_alloc(store_path, &st);
    char file[STORE_PATH_BYTES];
    if (!c)
        rc = diag_errno(diag, ENOMEM, store_path, "opening the catalog");
    else if (snprintf(file, sizeof file, "%s/catalog.lmdb", store_path) >=
             (int)sizeof file)
        rc = diag_errno(diag, ENAMETOOLONG, store_path, "opening the catalog");
    if (!rc)
        rc = catalog_file_scrub(fd, file, diag);
    if (!rc) {
        c->read_only = true;
        rc = open_catalog(c, dir, fd, file, diag);
    }
    close(fd);
    if (rc && c)
        catalog_free(c);
    else
        *out = c;
    return rc;
}

/* ---- a new one ---- */

/* LMDB makes the file in several steps. They are done under another name, so that
 * catalog.lmdb is whole, even if the process ends at any moment. */
int registry_create(const char *store_path, int dir, const struct meta *m,
                    catalog_fn *fill, void *ctx, bool replace, struct tamis_diag *diag)
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
    int rc = catalog_env_create(c, file, m, diag);
    if (!rc && fill)
        rc = catalog_write(c, NULL, 0, fill, ctx, NULL, diag);
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

bool store_catalog_temporary(const char *name)
{
    size_t n = sizeof CATALOG_TEMP - 1;
    if (strncmp(name, CATALOG_TEMP, n) != 0 ||
        strspn(name + n, "0123456789abcdef") != 8)
        return false;
    return strcmp(name + n + 8, ".tmp") == 0 || strcmp(name + n + 8, ".tmp-lock") == 0;
}
