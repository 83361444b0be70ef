/* Filters in quarantine/: the names of their segments, and whether the list has them.
 * Tombstones without their file count as a filter without a name.
 *
 * A rebuild lists each name that it finds here (files.c). A list is confirmed
 * only if it has them all (tamis_store_confirm()). Only the identity of a file is read.
 *
 *     quarantine/ --> identity --> a name  --> listed?  yes: nothing to say
 *                              \               no: a segment may be missing
 *                               no name: any segment may be missing */
#include "lib/store/repair/inside.h"

/* ---- the files ---- */

struct quarantined {
    const char *file; /* its name in quarantine/ */
    int error;        /* an errno: unreadable, nothing known */
    bool has_identity;
    struct identity identity;
};
/* Until it returns non-zero, which is the result. */
typedef int quarantine_fn(void *ctx, struct quarantined *q);

/* "<uuid>.tamis", and ".1", ".2", ... where that was taken. */
static bool is_filter_name(const char *name)
{
    uint8_t uuid[UUID_BYTES];
    const char *rest;
    bool dead;
    if (!filter_name_parse(name, uuid, &dead, &rest) || dead)
        return false;
    return !*rest ||
           (*rest == '.' && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

/* Tombstones of a file that is not here: it may be lost, and its segments with it. */
static bool is_of_no_file(int dir, const char *name)
{
    uint8_t uuid[UUID_BYTES];
    char file[FILTER_NAME_BYTES];
    const char *rest;
    bool dead;
    if (!filter_name_parse(name, uuid, &dead, &rest) || !dead || *rest)
        return false;
    filter_file_name(uuid, file);
    return faccessat(dir, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

struct looking {
    quarantine_fn *fn;
    void *ctx;
};

static int look_aside(void *ctx, int dir, const char *name)
{
    const struct looking *l = ctx;
    struct quarantined q = {.file = name};
    bool none;
    if (is_of_no_file(dir, name))
        return l->fn(l->ctx, &q);
    if (!is_filter_name(name))
        return 0;
    q.error = repair_identify(dir, name, &q.identity, &none);
    if (q.error == ENOENT || io_not_regular(q.error))
        return 0; /* gone meanwhile, or put here by somebody else than repair */
    q.has_identity = !q.error && !all_zero(q.identity.uuid, UUID_BYTES);
    return l->fn(l->ctx, &q);
}

/* In no order. */
static int each_aside(int store_fd, quarantine_fn *fn, void *ctx)
{
    struct looking l = {fn, ctx};
    int rc = dir_each(store_fd, "quarantine", look_aside, &l);
    return rc == ENOENT ? 0 : rc;
}

/* ---- its names claimed, when there is no catalog ---- */

/* For list_aside(). */
struct aside {
    struct repair *r;
    struct names *names;
    struct tamis_diag *diag;
};

/* The lost catalog had the segment of this filter without one, or not at all: then the
 * caller drops it. A file in filters/ that claims the name says more. */
static int list_aside(void *ctx, struct quarantined *q)
{
    const struct aside *a = ctx;
    const struct identity *id = &q->identity;
    struct record bare = {.state = RECORD_NO_FILTER, .created = id->created};
    struct repair_segment *s;
    char path[300];
    snprintf(path, sizeof path, "/quarantine/%.255s", q->file);
    if (q->error)
        return diag_errno(a->diag, q->error, a->r->path,
                          "reading a filter in quarantine/, to list its segment");
    if (q->has_identity && !repair_is_ours(a->r, id))
        return 0;
    if (!q->has_identity || !id->name_bytes) {
        repair_tell(a->r, TAMIS_REPAIR_NOTED, NULL, path,
                    "nobody can tell which segment it is of");
        return 0;
    }
    if (names_get(a->names, id->name, id->name_bytes))
        return 0;
    int rc =
        claim_new(a->r, a->names, (struct piece){id->name, id->name_bytes}, &bare, &s);
    if (rc)
        return diag_errno(a->diag, rc, a->r->path, "listing segments");
    repair_tell(a->r, TAMIS_REPAIR_REBUILT, s, path,
                "its filter was set aside before: listed without one");
    return 0;
}

int claim_quarantined(struct repair *r, struct names *names, struct tamis_diag *diag)
{
    struct aside a = {r, names, diag};
    int rc = each_aside(r->store_fd, list_aside, &a);
    if (rc > 0 && (!diag || !diag->code))
        return diag_errno(diag, rc, r->path, "looking into quarantine/");
    return rc;
}

/* ---- the list is confirmed ---- */

/* A filter without a name; a UUID of zeros: without an identity. */
struct nameless {
    uint8_t uuid[UUID_BYTES];
    char file[256];
    bool known; /* a segment has it */
};

struct confirm {
    struct repair r; /* for its findings alone */
    struct nameless *aside;
    size_t n_aside, max_aside;
    struct names by_uuid; /* of these: number + 1 */
    struct tamis_confirm_options opt;
    struct catalog_txn *txn;
    struct listings list;
    struct tamis_diag *diag;
    uint64_t n_missing, n_unknown; /* not listed; nobody can tell */
    size_t n_unlisted;             /* lost files of many segments */
};

static void tell(struct confirm *c, const struct quarantined *q,
                 const struct repair_segment *segment, const char *what)
{
    char path[300];
    snprintf(path, sizeof path, "/quarantine/%.255s", q->file);
    repair_tell(&c->r, TAMIS_REPAIR_NOTED, segment, path, "%s", what);
}

static void nameless_known(void *ctx, const uint8_t uuid[UUID_BYTES])
{
    struct confirm *c = ctx;
    uint32_t number = names_get(&c->by_uuid, uuid, UUID_BYTES);
    if (number)
        c->aside[number - 1].known = true;
}

static int compare_uuid(void *ctx, struct piece name, struct piece value)
{
    struct record r;
    if (record_decode(value.at, value.n, name.at, name.n, &r).code == VERDICT_OK &&
        r.state != RECORD_NO_FILTER)
        nameless_known(ctx, r.uuid);
    return 0;
}

static int note_nameless(struct confirm *c, const struct quarantined *q)
{
    void *more = room_for(c->aside, c->n_aside + 1, &c->max_aside, sizeof *c->aside);
    if (!more)
        return diag_errno(c->diag, ENOMEM, c->txn->catalog->path,
                          "looking into quarantine/");
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
        return diag_errno(c->diag, rc, c->txn->catalog->path,
                          "looking into quarantine/");
    if (c->by_uuid.n)
        rc = catalog_each(c->txn, compare_uuid, c, c->diag);
    if (c->by_uuid.n && !rc)
        listings_each_filter(&c->list, nameless_known, c);
    for (size_t i = 0; i < c->n_aside && !rc; i++) {
        struct quarantined q = {.file = c->aside[i].file};
        uint32_t number = names_get(&c->by_uuid, c->aside[i].uuid, UUID_BYTES);
        if (number && c->aside[number - 1].known)
            continue;
        tell(c, &q, NULL, "nobody can tell which segment it is of");
        c->n_unknown++;
    }
    return rc;
}

static int check_named(struct confirm *c, struct quarantined *q)
{
    struct piece name = {q->identity.name, q->identity.name_bytes};
    struct repair_segment s = {.name = q->identity.name, .name_bytes = name.n};
    struct found f;
    int rc = listings_lookup(&c->list, name, &f, c->diag);
    if (!rc || rc > 0 || rc == TAMIS_ERR_CATALOG)
        return rc; /* whatever its record says: it is listed */
    diag_clear(c->diag);
    tell(c, q, &s,
         rc == TAMIS_ERR_NO_SEGMENT ? "its segment is not listed"
                                    : "nobody can tell whether its segment is listed");
    *(rc == TAMIS_ERR_NO_SEGMENT ? &c->n_missing : &c->n_unknown) += 1;
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
                                                     : note_nameless(c, q);
}

static int find_astray(void *ctx, struct piece name, struct piece value)
{
    struct confirm *c = ctx;
    struct repair_segment *s;
    struct record r;
    if (!listings_lack_of(&c->list, name, value))
        return 0;
    if (record_decode(value.at, value.n, name.at, name.n, &r).code || r.ro_compat)
        return TAMIS_ERR_VERSION;
    return repair_add_segment(&c->r, name, value, &s);
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
    int rc = catalog_each(c->txn, find_astray, c, c->diag);
    if (rc == TAMIS_ERR_VERSION)
        diag_fail(c->diag, rc, c->txn->catalog->path,
                  "a record of a newer tamis names a file that is not on the list: "
                  "confirm with that version");
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        struct repair_segment *s = &r->segments[i];
        record_decode(s->before, s->before_bytes, s->name, s->name_bytes, &record);
        drop_column(s, &record);
        rc = catalog_replace(c->txn, (struct piece){s->name, s->name_bytes},
                             (struct piece){s->value, s->value_bytes}, c->diag);
    }
    repair_forget_records(r);
    return rc;
}

/* Inside the transaction, and without the lock of filters/: repair links a file aside
 * before it changes the catalog. So this call sees the file, or repair's change comes
 * later and finds that the catalog has changed. Tombstones are made for files of this
 * list only. Their files stay: repair and a sweep remove other files only, and a sweep
 * is in a write transaction, too. */
static int confirm_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct confirm *c = ctx;
    const struct catalog *catalog = t->catalog;
    c->txn = t;
    c->diag = diag;
    c->n_missing = c->n_unknown = c->n_unlisted = c->n_aside = 0;
    names_clear(&c->by_uuid);
    repair_forget(&c->r);
    listings_free(&c->list);
    int rc = catalog_meta(t, &c->r.meta, diag);
    if (!rc)
        rc = listings_load(&c->list, t, diag);
    if (rc)
        return rc;
    rc = each_aside(catalog->turn.fd, check_one, c);
    if (!rc)
        rc = check_nameless(c);
    if (rc > 0 && (!diag || !diag->code))
        return diag_errno(diag, rc, catalog->path, "looking into quarantine/");
    bool refused = (c->n_missing || c->n_unknown) && !c->opt.force;
    if (!rc && (c->r.meta.complete || !refused))
        rc = repair_confirm_shared(&c->r, &c->list, c->opt.force, &c->n_unlisted, diag);
    if (!rc && c->n_unlisted)
        rc = drop_astray(c);
    if (rc || (c->r.meta.complete && !c->n_unlisted))
        return rc; /* what lies there is told, and no more */
    if (refused)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, catalog->path,
                         "quarantine/ has filters of segments that are not listed "
                         "(%llu), or that nobody can tell (%llu)",
                         (unsigned long long)c->n_missing,
                         (unsigned long long)c->n_unknown);
    return catalog_set_complete(t, !c->n_unlisted, diag);
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
    rc = catalog_write(store->catalog, &wait, 0, confirm_in, &c, NULL, diag);
    listings_free(&c.list);
    names_clear(&c.by_uuid);
    free(c.aside);
    if (!rc && c.n_unlisted) /* a note: the call has succeeded */
        repair_say_unlisted(&c.list, c.n_unlisted, store->catalog->path, diag);
    if (!rc) {
        atomic_store(&store->catalog->swept, false); /* the next edit buries the rest */
        c.r.step = STEP_DONE;
    }
    c.r.opt.found = c.opt.found;
    c.r.opt.ctx = c.opt.ctx;
    repair_report(&c.r);
    return rc;
}
