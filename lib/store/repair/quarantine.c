/* Filters in quarantine/: the names of their segments, and whether the list has them.
 * Tombstones without their pack count as a filter without a name.
 *
 * A rebuild lists each name that it finds here (files.c). A list is confirmed
 * only if it has them all (tamis_store_confirm()). Only the identity of a file is read.
 *
 *     quarantine/ --> identity --> a name  --> listed?  yes: nothing to say
 *                              \               no: a segment may be missing
 *                               no name: any segment may be missing */
#include "lib/store/repair/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the files ---- */

/* "<uuid>.tamis", and ".1", ".2", ... where that was taken. */
static bool is_filter_name(const char *name)
{
    uint8_t uuid[UUID_BYTES];
    const char *rest;
    if (!filter_name_parse(name, uuid, &rest))
        return false;
    return !*rest ||
           (*rest == '.' && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

/* Tombstones of a pack that is not here: it may be lost, and its segments with it. */
static bool is_of_no_pack(int dir, const char *name)
{
    uint8_t uuid[UUID_BYTES];
    char pack[FILTER_NAME_BYTES];
    const char *rest;
    if (!dead_name_parse(name, uuid, &rest) || *rest)
        return false;
    filter_file_name(uuid, pack);
    return faccessat(dir, pack, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

/* Neither a directory nor a link was put here by repair, and a file may go at any time.
 */
static bool is_no_file(int rc)
{
    return rc == ENOENT || io_not_regular(rc);
}

static int look_at(int dir, const char *name, quarantine_fn *fn, void *ctx)
{
    struct quarantined q = {.file = name};
    bool none;
    if (is_of_no_pack(dir, name))
        return fn(ctx, &q);
    if (!is_filter_name(name))
        return 0;
    q.error = repair_identify(dir, name, &q.identity, &none);
    if (is_no_file(q.error))
        return 0;
    q.has_identity = !q.error && !all_zero(q.identity.uuid, UUID_BYTES);
    return fn(ctx, &q);
}

int quarantine_each(int store_fd, quarantine_fn *fn, void *ctx)
{
    DIR *d = dir_list(store_fd, "quarantine");
    if (!d)
        return errno == ENOENT ? 0 : errno;
    const struct dirent *e;
    int rc = 0;
    while (!rc && (errno = 0, e = readdir(d)))
        rc = look_at(dirfd(d), e->d_name, fn, ctx);
    if (!rc)
        rc = errno;
    closedir(d);
    return rc;
}

/* ---- the list is confirmed ---- */

struct confirm {
    struct repair r; /* for its findings alone */
    struct tamis_confirm_options opt;
    struct catalog_txn *txn;
    struct tamis_diag *diag;
    uint64_t n_missing, n_unknown; /* named and not listed; without a name */
};

static void tell(struct confirm *c, const struct quarantined *q,
                 const struct repair_segment *segment, const char *what)
{
    char path[300];
    snprintf(path, sizeof path, "/quarantine/%.255s", q->file);
    repair_tell(&c->r, TAMIS_REPAIR_NOTED, segment, path, "%s", what);
}

struct nameless {
    const uint8_t *uuid;
    bool listed;
};

static int compare_uuid(void *ctx, const void *name, size_t name_bytes,
                        const uint8_t *value, size_t value_bytes)
{
    struct nameless *w = ctx;
    struct record r;
    if (record_decode(value, value_bytes, name, name_bytes, &r).code == VERDICT_OK &&
        r.state != RECORD_NO_FILTER && memcmp(r.uuid, w->uuid, UUID_BYTES) == 0)
        w->listed = true;
    return 0;
}

/* A filter without a name was perhaps attached again since. */
static int check_nameless(struct confirm *c, const struct quarantined *q)
{
    struct nameless w = {.uuid = q->identity.uuid};
    int rc = q->has_identity ? catalog_each(c->txn, compare_uuid, &w, c->diag) : 0;
    if (rc || w.listed)
        return rc;
    tell(c, q, NULL, "nobody can tell which segment it is of");
    c->n_unknown++;
    return 0;
}

static int check_named(struct confirm *c, struct quarantined *q)
{
    struct repair_segment s = {.name = q->identity.name,
                               .name_bytes = q->identity.name_bytes};
    const uint8_t *value;
    size_t n;
    int rc = catalog_get(c->txn, s.name, s.name_bytes, &value, &n, c->diag);
    if (rc != TAMIS_ERR_NO_SEGMENT) /* whatever its record says: it is listed */
        return rc;
    diag_clear(c->diag);
    tell(c, q, &s, "its segment is not listed");
    c->n_missing++;
    return 0;
}

static int check_one(void *ctx, struct quarantined *q)
{
    struct confirm *c = ctx;
    if (q->error && !c->opt.force)
        return diag_errno(c->diag, q->error, c->txn->catalog->path,
                          "reading a filter in quarantine/");
    if (q->has_identity && !repair_is_ours(&c->r, &q->identity))
        return 0; /* another store's segment */
    return q->has_identity && q->identity.name_bytes ? check_named(c, q)
                                                     : check_nameless(c, q);
}

/* Inside the transaction: repair links a file aside before it changes the catalog, so
 * that either it is seen here, or repair's own change comes later. */
static int confirm_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct confirm *c = ctx;
    const struct catalog *catalog = t->catalog;
    c->txn = t;
    c->diag = diag;
    c->n_missing = c->n_unknown = 0;
    repair_forget(&c->r);
    int rc = catalog_meta(t, &c->r.meta, diag);
    if (rc)
        return rc;
    rc = quarantine_each(catalog->turn.fd, check_one, c);
    if (rc > 0 && (!diag || !diag->code))
        return diag_errno(diag, rc, catalog->path, "looking into quarantine/");
    if (rc || c->r.meta.complete) /* what lies there is told, and no more */
        return rc;
    if ((c->n_missing || c->n_unknown) && !c->opt.force)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, catalog->path,
                         "quarantine/ has filters of segments that are not listed "
                         "(%llu), or that nobody can tell (%llu)",
                         (unsigned long long)c->n_missing,
                         (unsigned long long)c->n_unknown);
    return catalog_set_complete(t, true, diag);
}

int tamis_store_confirm(struct tamis_store *store,
                        const struct tamis_confirm_options *opt,
                        struct tamis_diag *diag)
{
    struct tamis_repair_report counts = {0};
    struct confirm c = {.r = {.report = &counts}};
    int rc = store_usable(store, true, diag);
    if (rc)
        return rc;
    rc = options_copy(&c.opt, sizeof c.opt, opt);
    if (rc)
        return diag_fail(diag, rc, store->catalog->path, "size of the option struct");
    struct io_wait wait = store_wait(store, c.opt.timeout_ms);
    rc = catalog_write(store->catalog, &wait, confirm_in, &c, NULL, diag);
    c.r.opt.found = c.opt.found;
    c.r.opt.ctx = c.opt.ctx;
    repair_report(&c.r);
    return rc;
}
