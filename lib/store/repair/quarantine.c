/* Filters in quarantine/: the names of their segments, and whether the list has them.
 * Tombstones without their file count as a filter without a name.
 *
 * A rebuild lists each name that it finds here (files.c). A list is confirmed
 * only if it has them all (tamis_store_confirm()). Only the identity of a file is read.
 * Then the list says which columns of packs are alive: tombstones are made anew, and
 * lost packs go, by force.
 *
 *     quarantine/ --> identity --> a name  --> listed?  yes: nothing to say
 *                              \               no: a segment may be missing
 *                               no name: any segment may be missing */
#include "lib/store/repair/inside.h"

/* ---- the files ---- */

/* A file in quarantine/ that says something of the list. */
struct quarantined {
    const char *file; /* its name there */
    int error;        /* an errno: unreadable, nothing known */
    bool has_identity;
    struct identity identity;
};

/* False: the file says nothing of the list. */
static bool look_aside(int dir, const char *name, struct quarantined *q)
{
    uint8_t uuid[UUID_BYTES];
    char file[FILTER_NAME_BYTES];
    const char *rest;
    bool dead;
    *q = (struct quarantined){.file = name};
    if (!filter_name_parse(name, uuid, &dead, &rest))
        return false;
    if (dead) {
        /* Their pack is not here: it may be lost, and its segments with it. */
        filter_file_name(uuid, file);
        return !*rest && faccessat(dir, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    }
    /* "<uuid>.tamis", and ".1", ".2", ... where that was taken. */
    if (*rest && (*rest != '.' || rest[1 + strspn(rest + 1, "0123456789")]))
        return false;
    q->error = repair_identify(dir, name, &q->identity);
    q->has_identity = !q->error && !all_zero(q->identity.uuid, UUID_BYTES);
    /* Else gone meanwhile, or put here by somebody else than repair. */
    return q->error != ENOENT && !io_not_regular(q->error);
}

/* Calls fn for each file, in no order, until fn returns non-zero, and returns that. */
static int each_aside(struct repair *r, int store_fd, dir_each_fn *fn, void *ctx)
{
    int rc = dir_each(store_fd, "quarantine", fn, ctx);
    if (rc > 0 && rc != ENOENT && (!r->diag || !r->diag->code))
        return diag_errno(r->diag, rc, r->path, "looking into quarantine/");
    return rc == ENOENT ? 0 : rc;
}

static void tell_aside(struct repair *r, enum tamis_repair_action action,
                       const struct repair_segment *segment, const char *file,
                       const char *what)
{
    char path[300];
    snprintf(path, sizeof path, "/quarantine/%.255s", file);
    repair_tell(r, action, segment, path, "%s", what);
}

/* ---- its names claimed, when there is no catalog ---- */

/* The lost catalog had the segment of this filter without one, or not at all: then the
 * caller drops it. A file in filters/ that claims the name says more. */
static int list_aside(void *ctx, int dir, const char *name)
{
    struct repair *r = ctx;
    struct quarantined q;
    struct repair_segment *s;
    if (!look_aside(dir, name, &q))
        return 0;
    const struct identity *id = &q.identity;
    struct record bare = {.state = RECORD_NO_FILTER, .created = id->created};
    if (q.error)
        return diag_errno(r->diag, q.error, r->path,
                          "reading a filter in quarantine/, to list its segment");
    if (q.has_identity && !repair_is_ours(r, id))
        return 0;
    if (!q.has_identity || !id->name_bytes) {
        tell_aside(r, TAMIS_REPAIR_NOTED, NULL, q.file,
                   "nobody can tell which segment it is of");
        return 0;
    }
    if (names_get(&r->claimed, id->name, id->name_bytes))
        return 0;
    int rc = claim_new(r, identity_name(id), &bare, &s);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "listing segments");
    tell_aside(r, TAMIS_REPAIR_REBUILT, s, q.file,
               "its filter was set aside before: listed without one");
    return 0;
}

int claim_quarantined(struct repair *r)
{
    return each_aside(r, r->store_fd, list_aside, r);
}

/* ---- the list is confirmed ---- */

/* A filter without a name; a UUID of zeros: without an identity. */
struct nameless {
    uint8_t uuid[UUID_BYTES];
    char file[256];
    bool known; /* a segment has it */
};

struct confirm {
    struct repair r; /* for its findings, and records that change */
    struct nameless *aside;
    size_t n_aside, max_aside;
    struct names by_uuid; /* of these: number + 1 */
    struct tamis_confirm_options opt;
    struct catalog_txn *txn;
    struct listings list;
    uint64_t n_missing, n_unknown; /* not listed; nobody can tell */
    size_t n_unlisted;             /* lost files of many segments */
    bool unsure;                   /* a record may name any column */
    const struct listed *waits;    /* does not agree, but its files are good */
};

static void note_known(struct confirm *c, const uint8_t uuid[UUID_BYTES])
{
    uint32_t number = names_get(&c->by_uuid, uuid, UUID_BYTES);
    if (number)
        c->aside[number - 1].known = true;
}

static void note_known_columns(struct confirm *c, struct listed *p)
{
    struct facts col;
    bool has;
    uint32_t n = listed_open(&c->list, p) == 0 ? p->now.n_columns : 0;
    c->txn->diag = NULL; /* columns that cannot be read are told elsewhere */
    for (uint32_t i = 0; i < n; i++)
        if (listed_has(&c->list, p, i, &has) == 0 && has &&
            pack_describe(p->open->filter, i, true, &col) == 0)
            note_known(c, col.disk.uuid);
    c->txn->diag = c->r.diag;
}

static int compare_uuid(void *ctx, struct piece name, struct piece value)
{
    struct record r;
    if (record_decode(value.at, value.n, name.at, name.n, &r).code == VERDICT_OK &&
        r.state != RECORD_NO_FILTER)
        note_known(ctx, r.uuid);
    return 0;
}

static int note_nameless(struct confirm *c, const struct quarantined *q)
{
    void *more = room_for(c->aside, c->n_aside + 1, &c->max_aside, sizeof *c->aside);
    if (!more)
        return diag_errno(c->r.diag, ENOMEM, c->r.path, "looking into quarantine/");
    c->aside = more;
    struct nameless *n = &c->aside[c->n_aside++];
    *n = (struct nameless){.known = false};
    memcpy(n->uuid, q->identity.uuid, UUID_BYTES);
    snprintf(n->file, sizeof n->file, "%s", q->file);
    return 0;
}

/* Filters without a name were perhaps attached again since. One walk over all that is
 * listed finds them. */
static int check_nameless(struct confirm *c)
{
    int rc = 0;
    for (size_t i = 0; i < c->n_aside && !rc; i++)
        if (!all_zero(c->aside[i].uuid, UUID_BYTES))
            rc = names_set(&c->by_uuid, c->aside[i].uuid, UUID_BYTES, (uint32_t)i + 1);
    if (rc)
        return diag_errno(c->r.diag, rc, c->r.path, "looking into quarantine/");
    if (c->by_uuid.n)
        rc = catalog_each(c->txn, compare_uuid, c);
    for (size_t i = 0; c->by_uuid.n && !rc && i < c->list.n; i++)
        note_known_columns(c, &c->list.all[i]);
    for (size_t i = 0; i < c->n_aside && !rc; i++) {
        uint32_t number = names_get(&c->by_uuid, c->aside[i].uuid, UUID_BYTES);
        if (number && c->aside[number - 1].known)
            continue;
        tell_aside(&c->r, TAMIS_REPAIR_NOTED, NULL, c->aside[i].file,
                   "nobody can tell which segment it is of");
        c->n_unknown++;
    }
    return rc;
}

static int confirm_check_named(struct confirm *c, const struct quarantined *q)
{
    const struct repair_segment s = {.name = identity_name(&q->identity)};
    struct found f;
    int rc = listings_lookup(&c->list, s.name, &f);
    if (!rc || rc > 0 || rc == TAMIS_ERR_CATALOG)
        return rc; /* whatever its record says: it is listed */
    diag_clear(c->r.diag);
    tell_aside(&c->r, TAMIS_REPAIR_NOTED, &s, q->file,
               rc == TAMIS_ERR_NO_SEGMENT
                   ? "its segment is not listed"
                   : "nobody can tell whether its segment is listed");
    *(rc == TAMIS_ERR_NO_SEGMENT ? &c->n_missing : &c->n_unknown) += 1;
    return 0;
}

static int check_one(void *ctx, int dir, const char *name)
{
    struct confirm *c = ctx;
    struct quarantined q;
    if (!look_aside(dir, name, &q))
        return 0;
    if (q.error && !c->opt.force)
        return diag_errno(c->r.diag, q.error, c->r.path,
                          "reading a filter in quarantine/");
    if (q.has_identity && !repair_is_ours(&c->r, &q.identity))
        return 0; /* another store's segment */
    return q.has_identity && q.identity.name_bytes ? confirm_check_named(c, &q)
                                                   : note_nameless(c, &q);
}

/* ---- packs: tombstones are made anew, and what is lost goes, if the caller insists
 * ---- */

/* Makes tombstones for all columns that are not alive. */
static int bury_anew(struct confirm *c, struct listed *p)
{
    uint8_t *bits;
    const struct filters_dir *dir = c->txn->catalog->filters;
    int rc = listed_unused(&c->list, p, &bits);
    if (rc)
        return rc;
    rc = dead_create(dir->fd, p->uuid, p->now.table_digest, p->now.n_columns, bits,
                     true);
    if (!rc)
        rc = io_sync_dir(dir->fd);
    free(bits);
    return rc ? diag_errno(c->r.diag, rc, dir->path, "writing the tombstones of a pack")
              : 0;
}

static int confirm_pack(struct confirm *c, struct listed *p)
{
    char file[FILTER_NAME_BYTES];
    struct open_pack *open = NULL;
    uint8_t *dead = NULL;
    uint64_t digest = p->now.table_digest;
    uint32_t n = p->now.n_columns;
    struct catalog *catalog = c->txn->catalog;
    filter_file_name(p->uuid, file);
    struct header h;
    int rc = n ? 0 : repair_header(catalog->filters->fd, file, &h);
    if (!rc && !n) { /* for want of a pack record */
        digest = commit_table_digest(&h.commit);
        n = h.commit.stages[PACK_ROWS].n_columns;
    }
    if (!rc)
        rc = open_pack_get(catalog, p->uuid, digest, n, true, &open);
    bool lost = rc != 0;
    int names = rc || !c->opt.force || !p->agrees ? 0 : pack_judge_names(open->filter);
    open_pack_release(open);
    if (names) { /* no name can be put any more, for the pack may have it */
        rc = names;
        lost = true;
    }
    if (!rc)
        rc = dead_load(catalog->filters->fd, p->uuid, digest, &dead, &n);
    free(dead);
    if (rc > 0 && rc != ENOENT && !io_not_regular(rc))
        return diag_errno(c->r.diag, rc, c->r.path,
                          lost ? "opening a pack" : "opening tombstones");
    if (rc == TAMIS_ERR_VERSION && !lost)
        dead_file_name(p->uuid, file);
    if (rc == TAMIS_ERR_VERSION)
        return diag_fail(c->r.diag, rc, c->r.path, "%s is of a newer tamis: filters/%s",
                         lost ? "this pack" : "this .dead file", file);
    if (!rc && !p->agrees)
        c->waits = p;
    if (!rc)
        return 0;
    lost |= !p->agrees; /* without tombstones nobody knows which columns are alive */
    if (!p->agrees && !c->opt.force)
        return diag_fail(c->r.diag, TAMIS_ERR_MISMATCH, c->r.path,
                         "the list and the files of pack %s are damaged: only force "
                         "takes it off the list",
                         file);
    if (!lost && c->unsure)
        return diag_fail(c->r.diag, TAMIS_ERR_MISMATCH, c->r.path,
                         "the tombstones of a pack are lost, and a record is damaged "
                         "or of a newer tamis: repair the store first");
    if (!lost) { /* what the list does not have is dead */
        rc = bury_anew(c, p);
        if (!rc)
            repair_tell(&c->r, TAMIS_REPAIR_REBUILT | TELL_DONE, NULL, file,
                        "its tombstones were lost: made anew from the list");
        return rc;
    }
    /* The names that go with it are unknown. */
    if (c->opt.force)
        repair_tell(&c->r, TAMIS_REPAIR_REBUILT, NULL, file,
                    "the pack is lost, and its segments with it: it is listed no more");
    else
        repair_note(&c->r, 0, true, NULL, file,
                    "the pack is lost: its segments are listed, and nobody can tell "
                    "their names");
    return c->opt.force ? listings_put(&c->list, p->uuid, 0, 0, NULL) : 0;
}

/* ERR_MISMATCH: some do not agree. */
static int confirm_packs(struct confirm *c)
{
    char file[FILTER_NAME_BYTES];
    struct listings *l = &c->list;
    size_t n = l->n;
    int rc = listings_note_named(l);
    c->unsure = l->n_unread || l->unknown;
    c->waits = NULL;
    if (!rc && (l->strange || (l->astray && !c->opt.force)))
        rc = diag_fail(c->r.diag, TAMIS_ERR_MISMATCH, c->r.path,
                       "the list of packs is damaged, or lacks one that records name: "
                       "repair the store first");
    for (size_t i = n; i-- > 0 && !rc;) /* one that goes is replaced by the last */
        rc = confirm_pack(c, &l->all[i]);
    c->n_unlisted = n - l->n + l->astray;
    /* If another pack goes, repair may mend this one. */
    if (!rc && c->waits && !c->n_unlisted) {
        filter_file_name(c->waits->uuid, file);
        return diag_fail(c->r.diag, TAMIS_ERR_MISMATCH, c->r.path,
                         "the list of pack %s is damaged: repair the store first, or "
                         "confirm with force, if repair leaves it alone",
                         file);
    }
    return rc ? rc : listings_write(l);
}

/* After the transaction: notes what went off the list. */
static void say_unlisted(const struct confirm *c)
{
    size_t n = c->n_unlisted - c->list.astray;
    if (n)
        diag_fail(c->r.diag, 0, c->r.path,
                  "not confirmed: %zu lost pack%s listed no more: register the "
                  "segments again, then confirm",
                  n, n == 1 ? " is" : "s are");
    else if (c->list.astray)
        diag_fail(c->r.diag, 0, c->r.path,
                  "not confirmed: segments that named columns of no pack on the list "
                  "are without a filter now: compare the list again, then confirm");
}

/* ---- segments whose records name what is not on the list ---- */

static int find_astray(void *ctx, struct piece name, struct piece value)
{
    struct confirm *c = ctx;
    struct record r;
    unsigned n;
    const struct part_disk *part = record_parts(value.at, value.n, name.at, name.n, &n);
    bool lacks = false;
    for (; n > 0; n--, part++) {
        struct pack_place at = part_place(part);
        lacks |= part->kind == PART_COLUMN && listings_lack(&c->list, &at);
    }
    if (!lacks)
        return 0;
    if (record_decode(value.at, value.n, name.at, name.n, &r).code || r.ro_compat)
        return TAMIS_ERR_VERSION;
    return repair_add_segment(&c->r, name, value);
}

/* A segment with a list keeps it: repair makes the filter anew from it. A list needs a
 * filter: the record names the one that the segment had before it shared a file. That
 * filter is gone. */
static void drop_column(struct repair_segment *s, struct record *record)
{
    if (!record_listed(record)) {
        repair_drop_filter(s, record);
        return;
    }
    record->place = (struct pack_place){.digest = 0};
    record->has_range = 0;
    record->first_bytes = record->last_bytes = 0;
    record->compat = 0;
    repair_set_record(s, record);
}

/* Segments whose records name files that are not on the list stay listed, without a
 * filter. */
static int drop_astray(struct confirm *c)
{
    struct repair *r = &c->r;
    struct record record;
    int rc = catalog_each(c->txn, find_astray, c);
    if (rc == TAMIS_ERR_VERSION)
        diag_fail(c->r.diag, rc, c->r.path,
                  "a record of a newer tamis names a file that is not on the list: "
                  "confirm with that version");
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        struct repair_segment *s = &r->segments[i];
        repair_record(s, &record);
        drop_column(s, &record);
        rc = catalog_replace(c->txn, s->name, s->value);
    }
    repair_forget_records(r);
    return rc;
}

/* Inside the transaction, and without the lock of filters/: repair links a file aside
 * before it changes the catalog. So this call sees the file, or repair's change comes
 * later and finds that the catalog has changed. Tombstones are made for files of this
 * list only. Their files stay: repair and a sweep remove other files only, and a sweep
 * is in a write transaction, too. */
static int confirm_in(struct catalog_txn *t, void *ctx)
{
    struct confirm *c = ctx;
    c->txn = t;
    c->n_missing = c->n_unknown = c->n_unlisted = c->n_aside = 0;
    names_clear(&c->by_uuid);
    repair_forget(&c->r);
    listings_free(&c->list);
    int rc = catalog_meta(t, &c->r.meta);
    if (!rc)
        rc = listings_load(&c->list, t);
    if (rc)
        return rc;
    rc = each_aside(&c->r, t->catalog->turn.fd, check_one, c);
    if (!rc)
        rc = check_nameless(c);
    bool refused = (c->n_missing || c->n_unknown) && !c->opt.force;
    if (!rc && (c->r.meta.complete || !refused))
        rc = confirm_packs(c);
    if (!rc && c->n_unlisted)
        rc = drop_astray(c);
    if (rc || (c->r.meta.complete && !c->n_unlisted))
        return rc; /* what lies there is told, and no more */
    if (refused)
        return diag_fail(t->diag, TAMIS_ERR_MISMATCH, c->r.path,
                         "quarantine/ has filters of segments that are not listed "
                         "(%llu), or that nobody can tell (%llu)",
                         (unsigned long long)c->n_missing,
                         (unsigned long long)c->n_unknown);
    return catalog_set_complete(t, !c->n_unlisted);
}

int tamis_store_confirm(struct tamis_store *store,
                        const struct tamis_confirm_options *opt,
                        struct tamis_diag *diag)
{
    struct tamis_repair_report counts = {0};
    struct confirm c = {.r = {.report = &counts, .diag = diag}};
    int rc = store_usable(store, true, diag);
    if (rc)
        return rc;
    rc = options_copy(&c.opt, sizeof c.opt, opt);
    if (rc)
        return diag_fail(diag, rc, store->catalog->path, "size of the option struct");
    struct io_wait wait = store_wait(store, c.opt.timeout_ms);
    c.r.path = store->catalog->path;
    rc = catalog_write(store->catalog, &wait, 0, confirm_in, &c, NULL, diag);
    listings_free(&c.list);
    names_clear(&c.by_uuid);
    free(c.aside);
    if (!rc && c.n_unlisted) /* a note: the call has succeeded */
        say_unlisted(&c);
    if (!rc) {
        atomic_store(&store->catalog->swept, false); /* the next edit buries the rest */
        c.r.step = STEP_DONE;
    }
    c.r.opt.found = c.opt.found;
    c.r.opt.ctx = c.opt.ctx;
    repair_report(&c.r);
    return rc;
}
