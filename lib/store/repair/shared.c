/* Repair: packs, files that many segments share. A pack is never set aside for one bad
 * page, nor for one bad column: the others answer on. With a catalog a pack is only
 * looked at, unless its pack record, its chunks and the segment records do not agree.
 * In that case, and without a catalog, the columns without a tombstone may be alive. */
#include "lib/store/repair/inside.h"
#include "lib/filter/filter.h"

/* A pack that the catalog names, or (without a catalog) that lies in filters/. */
struct shared_file {
    /* The pack in the catalog, first its UUID. failure: the catalog has no good pack
     * record. bits: the columns that are listed, or will be. */
    struct listed has;
    char name[FILTER_NAME_BYTES]; /* of its file */
    uint64_t digest;              /* 0: unknown until its file is looked at */
    uint32_t n_columns;           /* likewise: 0 */
    uint32_t first;               /* the number of column 0 in the table of names */
    uint8_t *dead;                /* its tombstones; NULL: no column counts */
    bool write;                   /* its list is to be written anew */
    bool looked_at;
    struct tamis_filter *filter; /* for its table of columns; NULL: it can't be used */
    int error;                   /* why it cannot be read; an errno or a public code */
    char what[160];              /* its fault, damage unless `error`; "": none */
};

/* `error` 0: it is damage. */
static void note(struct shared_file *p, int error, const char *before, const char *what)
{
    p->error = error;
    snprintf(p->what, sizeof p->what, "%s%s", before, what);
}

/* ---- what the catalog says ---- */

static struct shared_file *find_pack(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    return r->n_shared ? bsearch(uuid, r->shared, r->n_shared, sizeof *r->shared,
                                 compare_pack_uuids)
                       : NULL;
}

/* Keeps packs in the order of UUIDs, in which they mostly come. */
static struct shared_file *add_pack(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    struct shared_file *known = find_pack(r, uuid);
    if (known)
        return known;
    struct shared_file *more = realloc(r->shared, (r->n_shared + 1) * sizeof *more);
    if (!more)
        return NULL;
    r->shared = more;
    size_t at = r->n_shared++;
    for (; at > 0 && compare_pack_uuids(uuid, &more[at - 1]) < 0; at--)
        more[at] = more[at - 1];
    more[at] = (struct shared_file){.has.failure = TAMIS_ERR_NO_SEGMENT};
    memcpy(more[at].has.uuid, uuid, UUID_BYTES);
    filter_file_name(uuid, more[at].name);
    return &more[at];
}

/* `more` more records name its columns. A good pack record has counted its own. */
static void note_more_named(struct shared_file *p, int more)
{
    p->has.n_named += p->has.failure ? (uint32_t)more : 0;
}

/* Takes over *from. only_newer: all missing records are of a newer tamis, and are left
 * alone. */
static int read_pack(struct repair *r, struct listed *from, bool only_newer)
{
    struct shared_file *p = add_pack(r, from->uuid);
    if (!p)
        return diag_errno(r->diag, ENOMEM, r->path, "repairing");
    p->has = *from;
    *from = (struct listed){.failure = 0};
    p->digest = p->has.now.table_digest;
    p->n_columns = p->has.now.n_columns;
    /* Records that are refused will be made anew, and name no column any more. */
    p->has.agrees &= only_newer || p->has.n_named == p->has.now.n_overridden;
    if (!p->has.failure && !p->has.bits)
        p->has.bits = calloc(1, columns_bytes(p->n_columns));
    return p->has.failure || p->has.bits
               ? 0
               : diag_errno(r->diag, ENOMEM, r->path, "repairing");
}

int repair_read_shared(struct catalog_txn *t, struct repair *r)
{
    struct listings l;
    int rc = listings_load(&l, t);
    if (rc)
        return rc;
    r->strange = l.strange;
    rc = listings_note_named(&l);
    for (size_t i = 0; i < l.n && !rc; i++)
        rc = read_pack(r, &l.all[i], l.n_missing <= l.n_newer);
    listings_free(&l);
    return rc;
}

/* The table of names keeps pointers: none of these goes into a mapping, whose pages may
 * be lost. */
struct kept_names {
    struct kept_names *next;
    size_t n;
    uint8_t bytes[(1 << 16) - 2 * sizeof(size_t)];
};

static const void *claim_keep_name(struct repair *r, struct piece name)
{
    struct kept_names *k = r->kept_names;
    if (!k || sizeof k->bytes - k->n < name.n) {
        k = malloc(sizeof *k);
        if (!k)
            return NULL;
        k->next = r->kept_names;
        k->n = 0;
        r->kept_names = k;
    }
    uint8_t *at = k->bytes + k->n;
    k->n += name.n;
    return memcpy(at, name.at, name.n);
}

void repair_forget_shared(struct repair *r)
{
    for (size_t i = 0; i < r->n_shared; i++) {
        tamis_filter_close(r->shared[i].filter);
        listed_free(&r->shared[i].has);
        free(r->shared[i].dead);
    }
    free(r->shared);
    r->shared = NULL;
    r->n_shared = 0;
    for (struct kept_names *k; (k = r->kept_names); free(k))
        r->kept_names = k->next;
}

static uint64_t count_listed(const struct shared_file *p)
{
    return p->has.bits ? columns_count(p->has.bits, p->n_columns) : 0;
}

uint64_t repair_count_listed(const struct repair *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_shared; i++)
        n += count_listed(&r->shared[i]);
    return n;
}

/* ---- what its files say ---- */

/* The tombstones of a good pack stay in *p. */
static int open_its_files(struct repair *r, struct shared_file *p,
                          const struct header *h)
{
    uint32_t n, n_bands;
    int fd;
    p->digest = commit_table_digest(&h->commit);
    p->n_columns = h->commit.stages[PACK_ROWS].n_columns;
    n = p->n_columns;
    int rc = dead_load(r->filters.fd, p->has.uuid, p->digest, &p->dead, &n);
    if (io_is_short(rc))
        return diag_errno(r->diag, rc, r->path, "opening tombstones");
    if (rc > 0 && rc != ENOENT)
        note(p, rc, "its tombstones: left alone: ", tamis_strerror(rc));
    else if (rc)
        note(p, 0, "",
             "its tombstones are missing or damaged, so that no column counts");
    rc = io_open_beneath(r->filters.fd, p->name, O_RDONLY, &fd);
    if (!rc) {
        rc = filter_open_fd(fd, p->name, NULL, NULL, &p->filter, NULL);
        close(fd);
    }
    if (rc > 0)
        return diag_errno(r->diag, rc, r->path, "opening a pack");
    if (!rc && pack_bands(p->filter, &n_bands))
        return 0;
    tamis_filter_close(p->filter);
    p->filter = NULL;
    note(p, 0, "", "its table of bands fails its check");
    return 0;
}

static int look_at(struct repair *r, struct shared_file *p)
{
    struct judgement j;
    p->looked_at = true;
    int rc = repair_judge(r, NULL, NULL, p->name, &j);
    if (!rc && (j.state == FILE_UNREAD || j.state == FILE_STRANGE))
        note(p, j.code, "", j.what);
    else if (!rc && j.state != FILE_GOOD)
        note(p, 0, "", j.state == FILE_MISSING ? "its file is missing" : j.what);
    else if (!rc && (j.h.identity.kind != KIND_PACK ||
                     (p->n_columns &&
                      (commit_table_digest(&j.h.commit) != p->digest ||
                       j.h.commit.stages[PACK_ROWS].n_columns != p->n_columns))))
        note(p, 0, "", "not the pack that the catalog means");
    else if (!rc) {
        rc = open_its_files(r, p, &j.h);
        if (!rc && !p->what[0])
            note(p, 0, "", j.what);
    }
    return rc;
}

/* ---- records that name columns ---- */

/* The record's fault; NULL: none. *drop: it must go on without a filter, else the list
 * could not be confirmed, nor the segment dropped. Where the catalog does not agree,
 * several records may name the column, and only its entry can tell whose it is. */
static const char *judge_column(const struct shared_file *p,
                                const struct repair_segment *s,
                                const struct record *record, bool *drop)
{
    struct facts col;
    uint32_t column = record->place.column;
    *drop = record->place.digest != p->digest || column >= p->n_columns;
    if (*drop)
        return "its pack has no such column";
    bool known = pack_describe(p->filter, column, false, &col) == 0;
    *drop = !p->has.agrees;
    if (known && (memcmp(col.disk.uuid, record->uuid, UUID_BYTES) != 0 ||
                  name_compare(column_name(&col), s->name) != 0))
        return "its pack has another filter in its column";
    if (!known && p->has.twice && columns_have(p->has.twice, column))
        return "another record names its column, and nobody can tell which owns it";
    *drop = false;
    return columns_have(p->dead + DEAD_HEAD_BYTES, column)
               ? "it was dropped from its pack: the catalog is older than that"
               : NULL;
}

int repair_look_at_shared(struct repair *r, struct repair_segment *s,
                          const struct record *record, bool *good)
{
    struct shared_file *p = add_pack(r, record->place.uuid);
    bool drop;
    *good = false;
    if (!p)
        return diag_errno(r->diag, ENOMEM, r->path, "repairing");
    int rc = p->looked_at ? 0 : look_at(r, p);
    if (rc)
        return rc;
    note_more_named(p, 1);
    if (!p->dead || !p->filter)
        return 0;
    const char *what = judge_column(p, s, record, &drop);
    drop &= !record->ro_compat;
    if (what)
        repair_tell(r, drop ? TAMIS_REPAIR_REBUILT : TAMIS_REPAIR_NOTED, s, p->name,
                    "%s", what);
    if (drop) {
        repair_drop_filter(s, record);
        note_more_named(p, -1);
    }
    *good = !what && !p->what[0];
    return 0;
}

void repair_count_shared(struct repair *r, const struct part_disk *part)
{
    struct shared_file *p = part->kind == PART_COLUMN ? find_pack(r, part->uuid) : NULL;
    if (p)
        note_more_named(p, 1);
}

/* ---- once all records are known ---- */

void repair_name_all_shared(struct repair *r)
{
    for (size_t i = 0; i < r->n_shared; i++)
        repair_name_shared(r, r->shared[i].has.uuid);
}

static void tell_of(struct repair *r, const struct shared_file *p)
{
    char text[sizeof p->what + 100];
    listing_say(p->has.n_named + count_listed(p), p->what, text, sizeof text);
    repair_note(r, p->error, !p->error, NULL, p->name, text);
}

static void tell_pack(struct repair *r, struct shared_file *p)
{
    char text[60];
    uint32_t n_dropped = 0; /* listed columns with a tombstone */
    bool known = !p->write && p->dead && p->has.bits;
    for (size_t i = 0; known && i < columns_bytes(p->n_columns); i++)
        n_dropped +=
            (uint32_t)__builtin_popcount(p->has.bits[i] & p->dead[DEAD_HEAD_BYTES + i]);
    if (p->what[0])
        tell_of(r, p);
    if (!n_dropped)
        return;
    snprintf(text, sizeof text, "%u segment%s dropped from it", n_dropped,
             n_dropped == 1 ? " was" : "s were");
    note(p, 0, text, ": the catalog is older than that");
    tell_of(r, p);
}

/* ---- columns claim their names ---- */

int claim_shared(struct repair *r, size_t i, const struct judgement *j)
{
    struct repair_file *f = &r->files[i];
    if (!repair_is_ours(r, &j->h.identity)) {
        repair_set_aside(r, f, NULL, "the pack of another store");
        return 0;
    }
    struct shared_file *p = add_pack(r, j->h.identity.uuid);
    if (!p)
        return diag_errno(r->diag, ENOMEM, r->path, "repairing");
    int rc = open_its_files(r, p, &j->h);
    if (!rc && p->error > 0) /* a catalog without its columns lacks segments */
        rc = diag_errno(r->diag, p->error, f->name,
                        "reading a pack, to list its columns");
    if (rc)
        return rc;
    if (!p->dead || !p->filter) {
        f->aside = true;
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                    "the columns of this pack, or the .dead file beside it, cannot be "
                    "read: %s",
                    p->what);
        return 0;
    }
    if (j->what[0])
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, f->name, "%s", j->what);
    return 0;
}

/* Columns have numbers in the table of names, behind those of segments. */
static int number_claims(struct repair *r)
{
    uint64_t at = FIRST_COLUMN;
    for (size_t i = 0; i < r->n_shared; i++) {
        r->shared[i].first = (uint32_t)at;
        at += r->shared[i].n_columns;
        if (at > UINT32_MAX)
            return ENOMEM;
    }
    return 0;
}

struct repair_segment *claim_segment(struct repair *r, struct piece name)
{
    uint32_t number = names_get(&r->claimed, name.at, name.n);
    return number && number < FIRST_COLUMN ? &r->segments[number - 1] : NULL;
}

/* The listed column that claimed a name; NULL: none did. */
static struct shared_file *column_named(struct repair *r, struct piece name,
                                        uint32_t *column)
{
    uint32_t number = names_get(&r->claimed, name.at, name.n);
    for (size_t i = 0; i < r->n_shared && number >= FIRST_COLUMN; i++) {
        *column = number - r->shared[i].first;
        if (number >= r->shared[i].first && *column < r->shared[i].n_columns)
            return &r->shared[i];
    }
    return NULL;
}

static void unlist(struct shared_file *p, uint32_t column)
{
    if (column < p->n_columns)
        columns_set(p->has.bits, column, false);
}

/* The pack stays, for its other columns. */
static void dispute_column(struct repair *r, const struct repair_segment *s,
                           struct shared_file *p, uint32_t column)
{
    struct repair_file *f = repair_find_file(r, p->has.uuid);
    unlist(p, column);
    repair_tell(r, TAMIS_REPAIR_NOTED, s, p->name, "%s", claimed_twice);
    if (f)
        f->disputed = true;
}

/* Another pack has listed a column of this name. A pack on which the catalog agrees
 * comes before others; else there is a segment without a filter. */
static int claim_beside(struct repair *r, struct shared_file *p,
                        const struct facts *col, struct shared_file *q, uint32_t its)
{
    struct record record, before;
    struct facts other;
    struct repair_segment *s;
    uint32_t column = le32_get(col->disk.column);
    bool known = pack_describe(q->filter, its, false, &other) == 0;
    record_of_column(col, p->has.uuid, p->digest, &record);
    if (known)
        record_of_column(&other, q->has.uuid, q->digest, &before);
    if (q->has.agrees || (known && p != q && claim_is_same(&before, &record))) {
        unlist(p, column);
        return 0;
    }
    record = (struct record){.state = RECORD_NO_FILTER, .created = record.created};
    int rc = claim_new(r, column_name(col), &record, &s);
    if (rc)
        return rc;
    claim_dispute(r, s, NULL, record.created);
    dispute_column(r, s, p, column);
    dispute_column(r, s, q, its);
    return 0;
}

/* The column of pack i that was listed a moment ago: is its name its own? A record of
 * the catalog comes before it. */
static int claim_column(struct repair *r, size_t i, const struct facts *col)
{
    struct shared_file *p = &r->shared[i], *q;
    struct record record, before;
    struct piece name = column_name(col);
    uint32_t column = le32_get(col->disk.column), its;
    struct repair_segment *s = claim_segment(r, name);
    record_of_column(col, p->has.uuid, p->digest, &record);
    q = column_named(r, name, &its);
    if (!s && !q) {
        const void *kept = claim_keep_name(r, name);
        return kept ? names_set(&r->claimed, kept, name.n, p->first + column) : ENOMEM;
    }
    if (p->has.agrees)
        return 0;
    if (!s)
        return claim_beside(r, p, col, q, its);
    repair_record(s, &before);
    /* An edit was killed between packing the segment and removing its file. */
    if (!s->before.at && (s->disputed || !claim_is_same(&before, &record))) {
        claim_dispute(r, s, NULL, record.created);
        dispute_column(r, s, p, column);
        return 0;
    }
    unlist(p, column);
    if (s->own && r->files[s->own - 1].rotten) {
        claim_set_rotten_aside(r, s, &record);
        note_more_named(p, 1);
    }
    return 0;
}

/* Lists all columns without a tombstone. */
static int list_living(struct shared_file *p)
{
    size_t n_bytes = columns_bytes(p->n_columns);
    free(p->has.bits);
    p->has.bits = malloc(n_bytes);
    if (!p->has.bits)
        return ENOMEM;
    for (size_t b = 0; b < n_bytes; b++)
        p->has.bits[b] = (uint8_t)~p->dead[DEAD_HEAD_BYTES + b];
    columns_cut(p->has.bits, p->n_columns);
    return 0;
}

/* Takes columns that records name off the lists. */
static void unlist_named(struct repair *r)
{
    for (size_t k = 0; k < r->n_segments; k++) {
        const struct repair_segment *s = &r->segments[k];
        unsigned n;
        const struct part_disk *part =
            record_parts(s->value.at, s->value.n, s->name.at, s->name.n, &n);
        for (; n > 0; n--, part++) {
            struct shared_file *p =
                part->kind == PART_COLUMN ? find_pack(r, part->uuid) : NULL;
            if (p && p->has.bits)
                unlist(p, le32_get(part->column));
        }
    }
}

/* Listed columns claim their names, or go off the list. A column without a readable
 * entry stays. */
static int claim_columns(struct repair *r, size_t i)
{
    struct shared_file *p = &r->shared[i];
    struct facts col;
    uint32_t n_unread = 0;
    int rc = 0;
    for (uint32_t c = 0; c < p->n_columns && !rc; c++)
        if (columns_have(p->has.bits, c)) {
            bool known = pack_describe(p->filter, c, false, &col) == 0;
            rc = known ? claim_column(r, i, &col) : 0;
            n_unread += !known;
        }
    if (n_unread)
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, p->name,
                    "the names of %u listed segment%s cannot be read: a segment may be "
                    "listed twice",
                    n_unread, n_unread == 1 ? "" : "s");
    return rc;
}

int claim_column_of_list(struct repair *r, const struct identity *id,
                         struct repair_segment **s)
{
    struct facts col;
    struct record record;
    uint32_t column;
    struct piece name = identity_name(id);
    struct shared_file *p = column_named(r, name, &column);
    *s = NULL;
    if (!p || pack_describe(p->filter, column, true, &col) != 0 ||
        memcmp(col.disk.set_id, id->set_id, UUID_BYTES) != 0)
        return 0;
    record_of_column(&col, p->has.uuid, p->digest, &record);
    int rc = claim_new(r, column_name(&col), &record, s);
    if (rc)
        return rc;
    memcpy((*s)->set_id, id->set_id, UUID_BYTES);
    unlist(p, column);
    note_more_named(p, 1);
    return 0;
}

int claim_all_shared(struct repair *r)
{
    int rc = number_claims(r);
    for (size_t i = 0; i < r->n_shared && !rc; i++)
        if (r->shared[i].dead && r->shared[i].filter)
            rc = list_living(&r->shared[i]);
    unlist_named(r);
    for (size_t i = 0; i < r->n_shared && !rc; i++)
        if (r->shared[i].has.bits)
            rc = claim_columns(r, i);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "listing segments");
    for (size_t i = 0; i < r->n_shared; i++) {
        struct shared_file *p = &r->shared[i];
        struct repair_file *f = repair_find_file(r, p->has.uuid);
        if (p->has.n_named || count_listed(p))
            repair_name_shared(r, p->has.uuid);
        if (f && f->disputed && !f->named && !f->aside)
            repair_set_aside(r, f, NULL,
                             "a pack of which other files claim all segments, too");
    }
    return 0;
}

/* ---- with a catalog: packs for which it does not agree ---- */

/* Leaves a pack alone: its columns cannot be read, or `blind` may have their names.
 * Fails without a catalog, which would forget the pack. */
static int leave_pack(struct repair *r, const struct shared_file *p,
                      const struct shared_file *blind)
{
    if (!r->store && p->error > 0)
        return diag_errno(r->diag, p->error, p->name,
                          "reading a pack, to list its columns");
    if (!r->store && p->error)
        return diag_fail(r->diag, p->error, p->name, "%s", p->what);
    r->disagrees |= !p->has.agrees;
    if (!p->has.agrees)
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, p->name,
                    "the catalog does not agree on its columns, and %s%s: left alone",
                    p->filter && p->dead
                        ? "one that cannot be read may have their names, "
                        : "they cannot be read",
                    p->filter && p->dead ? blind->name : "");
    return 0;
}

/* May this pack have names that cannot be read? If the catalog does not agree on its
 * columns, it may have any, unless it goes to quarantine. */
static bool is_blind(const struct repair *r, const struct shared_file *p)
{
    return p->has.agrees ? !p->filter && count_listed(p) > 0
                         : r->store && !(p->filter && p->dead);
}

/* While a pack is blind, nothing is listed anew. */
static int settle_lists(struct repair *r)
{
    const struct shared_file *blind = NULL;
    int rc = number_claims(r), left = 0;
    for (size_t i = 0; i < r->n_segments && !rc; i++)
        rc = names_set(&r->claimed, r->segments[i].name.at, r->segments[i].name.n,
                       (uint32_t)i + 1);
    for (size_t i = 0; i < r->n_shared && !left; i++)
        if (is_blind(r, &r->shared[i])) {
            blind = &r->shared[i];
            left = blind->has.agrees ? leave_pack(r, blind, NULL) : 0;
        }
    for (size_t i = 0; i < r->n_shared && !rc; i++) {
        struct shared_file *p = &r->shared[i];
        if (!p->has.agrees && !blind && p->dead && p->filter)
            rc = list_living(p);
        else if (!p->has.agrees && p->has.bits)
            memset(p->has.bits, 0, columns_bytes(p->n_columns));
        else if (!blind && p->has.agrees && p->has.bits && p->filter)
            rc = claim_columns(r, i);
    }
    unlist_named(r);
    for (size_t i = 0; i < r->n_shared && !rc && !left; i++) {
        struct shared_file *p = &r->shared[i];
        if (p->has.agrees)
            continue;
        if (blind || !p->dead || !p->filter) {
            left = leave_pack(r, p, blind);
            continue;
        }
        rc = claim_columns(r, i);
        p->write = r->relists = r->doubtful = true;
        repair_tell(r, TAMIS_REPAIR_REBUILT, NULL, p->name,
                    "the catalog did not agree on its columns: those without a "
                    "tombstone are listed");
    }
    names_clear(&r->claimed);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "listing segments");
    return left;
}

int repair_settle_shared(struct repair *r)
{
    bool agree = true;
    int rc = 0;
    for (size_t i = 0; i < r->n_shared && !rc; i++) {
        struct shared_file *p = &r->shared[i];
        rc = repair_stopped(r);
        if (!rc && !p->looked_at)
            rc = look_at(r, p);
        agree &= p->has.agrees;
    }
    if (!rc && !agree)
        rc = settle_lists(r);
    for (size_t i = 0; i < r->n_shared && !rc; i++) {
        struct shared_file *p = &r->shared[i];
        /* Else the catalog will not name the pack: it goes aside. */
        if (p->has.n_named ||
            (p->write ? count_listed(p) > 0 : r->store || p->has.agrees))
            repair_name_shared(r, p->has.uuid);
        tell_pack(r, p);
    }
    return rc;
}

/* ---- written ---- */

/* Has the catalog's list of the pack changed since it was read? */
static bool has_changed(const struct shared_file *p, const struct listed *now)
{
    const struct listing none = {0}, *l = now ? &now->now : &none, *was = &p->has.now;
    return l->chunks_sum != was->chunks_sum || l->n_listed != was->n_listed ||
           l->n_overridden != was->n_overridden || l->names_sum != was->names_sum;
}

int repair_write_shared(struct repair *r, struct catalog_txn *t, bool all)
{
    struct listings l;
    int rc = listings_load(&l, t);
    if (rc)
        return rc;
    for (size_t i = 0; i < r->n_shared && !rc; i++) {
        const struct shared_file *p = &r->shared[i];
        if (p->write && !all && has_changed(p, listings_find(&l, p->has.uuid)))
            rc = diag_fail(r->diag, TAMIS_ERR_BUSY, r->path,
                           "a pack's list changed while it was repaired: repair again");
        else if (p->has.bits && (p->write || all))
            rc = listings_put(&l, p->has.uuid, p->digest, p->n_columns, p->has.bits);
    }
    if (!rc)
        rc = listings_put_names(&l);
    if (!rc)
        rc = listings_write(&l);
    listings_free(&l);
    return rc;
}
