/* Backup: the directory that it makes, under a temporary name until all in it is
 * durable, its catalog, and the call itself. */
#include "lib/store/backup/inside.h"

static int fill_in(struct catalog_txn *t, void *ctx)
{
    const struct backup *b = ctx;
    int rc = 0;
    for (size_t i = 0; i < b->n && !rc; i++) {
        const struct backup_item *it = &b->items[i];
        if (it->state != RECORD_OF_LIST && !it->lost)
            rc = catalog_put_in(t, it->db, it->name, it->value);
    }
    return rc;
}

static int write_catalog(struct backup *b)
{
    int rc = io_sync_dir(b->filters);
    if (rc)
        return diag_errno(b->diag, rc, b->path, "syncing the copy");
    /* Nobody else is in there: no need of a rename that replaces nothing. */
    int before = io_hold_cancel(); /* or LMDB's locks would stay */
    rc = registry_create(b->temp_path, b->dir, &b->meta, fill_in, b, true, b->diag);
    io_let_cancel(before);
    if (rc) /* it names the temporary directory */
        diag_in(b->diag, b->path);
    if (!rc && (rc = io_sync_dir(b->dir)) != 0)
        diag_errno(b->diag, rc, b->path, "syncing the copy");
    return rc;
}

static int make_dirs(struct backup *b, const char *path, const char *base)
{
    uint32_t tag;
    io_calls.random(&tag, sizeof tag);
    snprintf(b->temp, sizeof b->temp, "%.240s.%08x.tmp", base, tag);
    size_t n = (size_t)(base - path);
    b->temp_path = malloc(n + sizeof b->temp);
    if (!b->temp_path)
        return diag_errno(b->diag, ENOMEM, path, "making the directory");
    memcpy(b->temp_path, path, n);
    memcpy(b->temp_path + n, b->temp, strlen(b->temp) + 1);
    if (mkdirat(b->parent, b->temp, 0777) != 0)
        return diag_errno(b->diag, errno, b->path, "making the directory");
    b->made = true;
    b->dir = openat(b->parent, b->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->dir < 0 || mkdirat(b->dir, "filters", 0777) != 0)
        return diag_errno(b->diag, errno, b->path, "making the directory");
    b->filters = openat(b->dir, "filters", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->filters < 0)
        return diag_errno(b->diag, errno, b->path, "making the directory");
    int rc = io_refuse_network(b->dir);
    return rc ? diag_fail(b->diag, rc, path, "%s", tamis_strerror(rc)) : 0;
}

/* Where a file system knows no RENAME_NOREPLACE, what appeared since path was looked at
 * is safe too: a directory takes the place of nothing but an empty one. */
static int give_name(const struct backup *b, const char *base)
{
    if (io_calls.renameat2(b->parent, b->temp, b->parent, base, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    return io_replace(b->parent, b->temp, base);
}

static bool has_name(const struct backup *b, const char *base)
{
    struct stat ours, there;
    return fstat(b->dir, &ours) == 0 &&
           fstatat(b->parent, base, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           io_is_file(&ours, there.st_dev, there.st_ino);
}

static int backup_publish(struct backup *b, const char *path, const char *base)
{
    int rc = give_name(b, base);
    if (rc == EEXIST || rc == ENOTEMPTY || rc == ENOTDIR)
        return diag_fail(b->diag, TAMIS_ERR_EXISTS, path, "something is there already");
    /* It may have been renamed although the call said that it was not. */
    bool named = !rc || has_name(b, base);
    if (!rc)
        rc = io_sync_dir(b->parent);
    /* Before it is emptied: nobody takes what is left for a backup. */
    if (rc && named && io_replace(b->parent, base, b->temp) == 0)
        io_sync_dir(b->parent);
    return rc ? diag_errno(b->diag, rc, path, "naming the copy") : 0;
}

static void discard(struct backup *b, const char *base)
{
    for (size_t i = 0; b->filters >= 0 && i < b->n_early; i++)
        filter_file_unlink(b->filters, b->early[i]->uuid);
    for (size_t i = 0; b->filters >= 0 && i < b->n; i++)
        pack_files_unlink(b->filters, b->items[i].uuid);
    if (b->dir >= 0) {
        io_calls.unlinkat(b->dir, "filters", AT_REMOVEDIR);
        io_calls.unlinkat(b->dir, "catalog.lmdb", 0);
    }
    if (b->made && io_calls.unlinkat(b->parent, b->temp, AT_REMOVEDIR) != 0 &&
        b->dir >= 0 && has_name(b, base)) /* it kept the name after all */
        io_calls.unlinkat(b->parent, base, AT_REMOVEDIR);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int backup_to(struct backup *b, const char *path)
{
    struct stat st;
    const char *base;
    int rc = io_open_parent(path, &b->parent, &base);
    /* The root has no parent. */
    if (rc == EISDIR ||
        (!rc && fstatat(b->parent, base, &st, AT_SYMLINK_NOFOLLOW) == 0))
        rc = diag_fail(b->diag, TAMIS_ERR_EXISTS, path, "something is there already");
    else if (rc)
        return diag_errno(b->diag, rc, path, "opening the parent directory");
    if (!rc) {
        rc = make_dirs(b, path, base);
        if (!rc)
            rc = backup_filters(b);
        if (!rc)
            rc = write_catalog(b);
        if (!rc)
            rc = backup_publish(b, path, base);
        if (rc)
            discard(b, base);
    }
    close_fd(b->filters);
    close_fd(b->dir);
    close_fd(b->parent);
    backup_free_items(b);
    backup_free_early(b);
    free(b->temp_path);
    return rc;
}

int tamis_store_backup(struct tamis_store *store, const char *path,
                       const struct tamis_backup_options *opt,
                       struct tamis_backup_report *report, struct tamis_diag *diag)
{
    struct tamis_backup_report ours;
    struct backup b = {.report = report ? report : &ours,
                       .diag = diag,
                       .parent = -1,
                       .dir = -1,
                       .filters = -1};
    memset(b.report, 0, sizeof *b.report);
    int rc = store_usable(store, false, diag);
    if (rc)
        return rc;
    b.catalog = store->catalog;
    if (!path || !*path)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "no path");
    rc = options_copy(&b.opt, sizeof b.opt, opt);
    if (rc)
        return diag_fail(diag, rc, path, "size of the option struct");
    b.wait = store_wait(store, b.opt.timeout_ms);
    char *plain = plain_path(path);
    if (!plain)
        return diag_errno(diag, ENOMEM, path, "backing up");
    b.path = plain;
    rc = backup_to(&b, plain);
    free(plain);
    return rc;
}
