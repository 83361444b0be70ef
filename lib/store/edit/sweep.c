/* Orphans: files in filters/ that the catalog does not name, left by a process that
 * died between writing a file and committing its name, or between dropping a name and
 * unlinking the file (R13); and tombstones that it has not set (R18). */
#include "lib/store/edit/inside.h"

struct sweep {
    struct catalog *catalog;
    int dir;
    struct names live; /* UUIDs of files that it names */
    struct listings list;
    bool any_gone; /* of the orphans */
    bool alien;    /* one of them is not ours */
    size_t n_gone; /* no temporary files or tombstones */
    bool done;     /* nothing failed */
};

static bool is_orphan(const struct sweep *s, const char *name)
{
    uint8_t uuid[UUID_BYTES];
    const char *rest;
    bool dead;
    if (!filter_name_parse(name, uuid, &dead, &rest))
        return false; /* not a name of ours: not ours to remove */
    if (*rest)
        return filter_rest_temporary(rest);
    return !listings_unsure(&s->list) && !names_get(&s->live, uuid, UUID_BYTES);
}

/* ---- what the catalog names ---- */

/* A part of a kind that this version lacks keeps its file, too. */
static int note_parts(void *ctx, struct piece name, struct piece value)
{
    struct sweep *s = ctx;
    unsigned n;
    const struct part_disk *p = record_parts(value.at, value.n, name.at, name.n, &n);
    int rc = listings_count(&s->list, name, p, n);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = names_set(&s->live, p[i].uuid, UUID_BYTES, 1);
    return rc;
}

static void sweep_forget(struct sweep *s)
{
    listings_free(&s->list);
    names_clear(&s->live);
}

/* ---- what it does not name ---- */

/* Files of the first draft are not ours to remove, nor anything beside them. Nor are
 * those of another store: the catalog may be the wrong one. Until the store is opened
 * again nothing is swept; verify names them, and repair sets them aside. */
static int refuse_alien(void *ctx, int dir, const char *name)
{
    const struct sweep *s = ctx;
    const uint8_t *store = s->catalog->meta.store_uuid;
    return is_orphan(s, name) && filter_file_is_alien(dir, name, store)
               ? TAMIS_ERR_VERSION
               : 0;
}

static int unlink_orphan(void *ctx, int dir, const char *name)
{
    struct sweep *s = ctx;
    if (!is_orphan(s, name))
        return 0;
    bool gone = io_calls.unlinkat(dir, name, 0) == 0;
    s->any_gone |= gone;
    s->n_gone += gone && strlen(name) == FILTER_NAME_BYTES - 1;
    s->done &= gone || errno == ENOENT || errno == EISDIR; /* no file of ours */
    return 0;
}

/* In a write transaction: no name can take effect meanwhile, of an edit or of another
 * tool that repairs the catalog. It writes nothing. */
static int sweep_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct sweep *s = ctx;
    sweep_forget(s);
    int rc = listings_load(&s->list, t, diag);
    for (size_t i = 0; i < s->list.n && !rc; i++)
        rc = names_set(&s->live, s->list.all[i].uuid, UUID_BYTES, 1);
    if (!rc)
        rc = catalog_each(t, note_parts, s, diag);
    if (!rc)
        rc = listings_agree(&s->list, diag);
    int found = rc ? rc : dir_each(s->dir, ".", refuse_alien, s);
    s->done = found == 0;
    s->alien = found == TAMIS_ERR_VERSION;
    if (s->done) {
        s->done &= listings_unsure(&s->list) || s->list.unknown ||
                   bury_unused(&s->list, s->dir);
        s->any_gone = false;
        s->done &= dir_each(s->dir, ".", unlink_orphan, s) == 0;
        if (s->any_gone)
            s->done &= io_sync_dir(s->dir) == 0;
    }
    sweep_forget(s);
    return rc;
}

bool sweep_orphans(struct catalog *c, int dir, size_t *n_gone)
{
    struct sweep s = {.catalog = c, .dir = dir};
    struct io_wait not_at_all = {.timeout_ms = -1}; /* it is not urgent */
    int rc = catalog_write(c, &not_at_all, 0, sweep_in, &s, NULL, NULL);
    *n_gone = s.n_gone;
    return rc == 0 && (s.done || s.alien);
}
