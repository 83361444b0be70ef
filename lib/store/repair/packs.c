/* Repair: packs. A pack is never set aside for one bad page, nor for one bad column:
 * the others answer on. With a catalog a pack is only looked at, unless its pack
 * record, its chunks and the segment records do not agree. Then its tombstones say
 * which columns may be alive, and so they do without a catalog. */
#include "lib/store/repair/inside.h"
#include "format/pack.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/filter/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `error` 0: it is damage. */
static void note(struct repair_pack *p, int error, const char *before, const char *what)
{
    p->error = error;
    snprintf(p->what, sizeof p->what, "%s%s", before, what);
}

/* ---- what the catalog says ---- */

static struct repair_pack *find_pack(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    for (size_t i = 0; i < r->n_packs; i++)
        if (memcmp(r->packs[i].uuid, uuid, UUID_BYTES) == 0)
            return &r->packs[i];
    return NULL;
}

static struct repair_pack *add_pack(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    struct repair_pack *known = find_pack(r, uuid);
    if (known)
        return known;
    struct repair_pack *more = realloc(r->packs, (r->n_packs + 1) * sizeof *more);
    if (!more)
        return NULL;
    r->packs = more;
    struct repair_pack *p = &r->packs[r->n_packs++];
    *p = (struct repair_pack){.error = 0};
    memcpy(p->uuid, uuid, UUID_BYTES);
    return p;
}

/* only_newer: no other records are missing than those of a newer tamis, left alone. */
static int read_pack(struct repair *r, const struct listed *from, bool only_newer,
                     struct tamis_diag *diag)
{
    struct repair_pack *p = add_pack(r, from->uuid);
    size_t n_bytes = columns_bytes(from->now.n_columns);
    if (p && !from->failure)
        p->listed = calloc(1, n_bytes);
    if (!p || (!from->failure && !p->listed))
        return diag_errno(diag, ENOMEM, r->path, "repairing");
    p->digest = from->now.table_digest;
    p->n_columns = from->now.n_columns;
    p->was = from->now;
    p->counted = !from->failure;
    p->n_named = from->n_named;
    /* Records that are refused will be made anew, and name no column any more. */
    p->agrees = from->agrees && (only_newer || from->n_named == from->now.n_overridden);
    if (from->bits)
        memcpy(p->listed, from->bits, n_bytes);
    return 0;
}

int repair_read_packs(struct catalog_txn *t, struct repair *r, struct tamis_diag *diag)
{
    struct listings l;
    repair_forget_packs(r);
    int rc = listings_load(&l, t, diag);
    if (rc)
        return rc;
    r->strange = l.strange;
    rc = listings_note_named(&l, diag);
    for (size_t i = 0; i < l.n && !rc; i++)
        rc = read_pack(r, &l.all[i], l.n_missing <= l.n_newer, diag);
    listings_free(&l);
    return rc;
}

void repair_forget_packs(struct repair *r)
{
    for (size_t i = 0; i < r->n_packs; i++) {
        tamis_filter_close(r->packs[i].filter);
        free(r->packs[i].listed);
        free(r->packs[i].dead);
    }
    free(r->packs);
    r->packs = NULL;
    r->n_packs = 0;
    claim_forget_names(r);
}

static uint64_t count_listed(const struct repair_pack *p)
{
    return p->listed ? columns_count(p->listed, p->n_columns) : 0;
}

uint64_t repair_count_listed(const struct repair *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_packs; i++)
        n += count_listed(&r->packs[i]);
    return n;
}

/* ---- what its files say ---- */

static int open_file(const struct repair *r, struct repair_pack *p)
{
    char name[FILTER_NAME_BYTES];
    int fd;
    filter_file_name(p->uuid, name);
    int rc = io_open_beneath(r->filters.fd, name, O_RDONLY, &fd);
    if (rc)
        return rc;
    rc = filter_open_fd(fd, name, NULL, NULL, &p->filter, NULL);
    close(fd);
    return rc;
}

/* The tombstones of a good pack stay in *p. */
static int open_its_files(struct repair *r, struct repair_pack *p,
                          const struct header *h, struct tamis_diag *diag)
{
    uint32_t n, n_bands;
    p->digest = commit_table_digest(&h->commit);
    p->n_columns = h->commit.stages[PACK_ROWS].n_columns;
    n = p->n_columns;
    int rc = dead_load(r->filters.fd, p->uuid, p->digest, &p->dead, &n);
    if (rc == EMFILE || rc == ENFILE || rc == ENOMEM)
        return diag_errno(diag, rc, r->path, "opening tombstones");
    if (rc > 0 && rc != ENOENT)
        note(p, rc, "its tombstones: left alone: ", tamis_strerror(rc));
    else if (rc)
        note(p, 0, "",
             "its tombstones are missing or damaged, so that no column counts");
    rc = open_file(r, p);
    if (rc > 0)
        return diag_errno(diag, rc, r->path, "opening a pack");
    if (!rc && pack_bands(p->filter, &n_bands))
        return 0;
    tamis_filter_close(p->filter);
    p->filter = NULL;
    note(p, 0, "", "its table of bands fails its check");
    return 0;
}

static int look_at(struct repair *r, struct repair_pack *p, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    struct judgement *j = malloc(sizeof *j);
    if (!j)
        return diag_errno(diag, ENOMEM, r->path, "repairing");
    filter_file_name(p->uuid, name);
    p->looked_at = true;
    int rc = repair_judge(r, NULL, NULL, name, j, diag);
    if (!rc && (j->state == FILE_UNREAD || j->state == FILE_STRANGE))
        note(p, j->code, "", j->what);
    else if (!rc && j->state != FILE_GOOD)
        note(p, 0, "", j->state == FILE_MISSING ? "its file is missing" : j->what);
    else if (!rc && (j->h.identity.kind != KIND_PACK ||
                     (p->n_columns &&
                      (commit_table_digest(&j->h.commit) != p->digest ||
                       j->h.commit.stages[PACK_ROWS].n_columns != p->n_columns))))
        note(p, 0, "", "not the pack that the catalog means");
    else if (!rc) {
        rc = open_its_files(r, p, &j->h, diag);
        if (!rc && !p->what[0])
            note(p, 0, "", j->what);
    }
    free(j);
    return rc;
}

/* ---- records that name columns ---- */

static bool is_its_column(const struct repair_pack *p, const struct repair_segment *s,
                          const struct record *record)
{
    struct column col;
    struct piece name = {s->name, s->name_bytes};
    return pack_describe(p->filter, record->place.column, false, &col) != 0 ||
           (memcmp(col.disk.uuid, record->uuid, UUID_BYTES) == 0 &&
            name_compare(column_name(&col), name) == 0);
}

int repair_look_at_column(struct repair *r, struct repair_segment *s,
                          const struct record *record, bool *good,
                          struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    uint32_t column = record->place.column;
    const char *what = NULL;
    struct repair_pack *p = add_pack(r, record->place.uuid);
    *good = false;
    if (!p)
        return diag_errno(diag, ENOMEM, r->path, "repairing");
    int rc = p->looked_at ? 0 : look_at(r, p, diag);
    if (rc)
        return rc;
    p->n_named += !p->counted;
    if (!p->dead || !p->filter)
        return 0;
    bool is_none = record->place.digest != p->digest || column >= p->n_columns;
    if (is_none)
        what = "its pack has no such column";
    else if (columns_have(p->dead + DEAD_HEAD_BYTES, column))
        what = "it was dropped from its pack: the catalog is older than that";
    else if (!is_its_column(p, s, record))
        what = "its pack has another filter in its column";
    filter_file_name(record->place.uuid, name);
    bool drop = what && is_none && !record->ro_compat;
    if (what)
        repair_tell(r, drop ? TAMIS_REPAIR_REBUILT : TAMIS_REPAIR_NOTED, s, name, "%s",
                    what);
    if (drop) { /* else nobody could confirm the list, nor drop the segment */
        repair_drop_filter(s, record);
        p->n_named -= !p->counted;
    }
    *good = !what && !p->what[0];
    return 0;
}

void repair_count_column(struct repair *r, const struct part_disk *part)
{
    struct repair_pack *p = find_pack(r, part->uuid);
    if (p)
        p->n_named += !p->counted;
}

/* ---- once all records are known ---- */

/* Columns that are listed, and have a tombstone. */
static uint32_t count_dropped(const struct repair_pack *p)
{
    uint32_t n = 0;
    for (size_t i = 0; p->dead && p->listed && i < columns_bytes(p->n_columns); i++)
        n += (uint32_t)__builtin_popcount(p->listed[i] & p->dead[DEAD_HEAD_BYTES + i]);
    return n;
}

void repair_name_packs(struct repair *r)
{
    for (size_t i = 0; i < r->n_packs; i++)
        repair_name_pack(r, r->packs[i].uuid);
}

static void tell_of(struct repair *r, const char *file, const struct repair_pack *p)
{
    char text[sizeof p->what + 100];
    uint64_t n = p->n_named + count_listed(p);
    snprintf(text, sizeof text, "the pack of %llu segment%s: %s", (unsigned long long)n,
             n == 1 ? "" : "s", p->what);
    repair_tell_file(r, p->error, file, text);
}

static void tell_pack(struct repair *r, struct repair_pack *p)
{
    char name[FILTER_NAME_BYTES], text[60];
    uint32_t n_dropped = p->write ? 0 : count_dropped(p);
    filter_file_name(p->uuid, name);
    if (p->what[0])
        tell_of(r, name, p);
    if (!n_dropped)
        return;
    snprintf(text, sizeof text, "%u segment%s dropped from it", n_dropped,
             n_dropped == 1 ? " was" : "s were");
    note(p, 0, text, ": the catalog is older than that");
    tell_of(r, name, p);
}

/* ---- columns claim their names ---- */

int claim_pack(struct repair *r, size_t i, const struct judgement *j,
               struct tamis_diag *diag)
{
    struct repair_file *f = &r->files[i];
    if (!repair_is_ours(r, &j->h.identity)) {
        f->aside = true;
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                    "the pack of another store");
        return 0;
    }
    struct repair_pack *p = add_pack(r, j->h.identity.uuid);
    if (!p)
        return diag_errno(diag, ENOMEM, r->path, "repairing");
    int rc = open_its_files(r, p, &j->h, diag);
    if (!rc && p->error > 0) /* better no catalog than one without them */
        rc = diag_errno(diag, p->error, f->name, "reading a pack, to list its columns");
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
    for (size_t i = 0; i < r->n_packs; i++) {
        r->packs[i].first = (uint32_t)at;
        at += r->packs[i].n_columns;
        if (at > UINT32_MAX)
            return ENOMEM;
    }
    return 0;
}

struct repair_segment *claim_segment(struct repair *r, const struct names *names,
                                     const void *name, size_t name_bytes)
{
    uint32_t number = names_get(names, name, name_bytes);
    return number && number < FIRST_COLUMN ? &r->segments[number - 1] : NULL;
}

/* The listed column that claimed a name; NULL: none did. */
static struct repair_pack *column_named(struct repair *r, const struct names *names,
                                        struct piece name, uint32_t *column)
{
    uint32_t number = names_get(names, name.at, name.n);
    for (size_t i = 0; i < r->n_packs && number >= FIRST_COLUMN; i++) {
        *column = number - r->packs[i].first;
        if (number >= r->packs[i].first && *column < r->packs[i].n_columns)
            return &r->packs[i];
    }
    return NULL;
}

static void unlist(struct repair_pack *p, uint32_t column)
{
    if (column < p->n_columns)
        columns_set(p->listed, column, false);
}

/* A pack stays, for the others in it. */
static void dispute_column(struct repair *r, const struct repair_segment *s,
                           struct repair_pack *p, uint32_t column)
{
    char name[FILTER_NAME_BYTES];
    struct repair_file *f = repair_find_file(r, p->uuid);
    filter_file_name(p->uuid, name);
    unlist(p, column);
    repair_tell(r, TAMIS_REPAIR_NOTED, s, name, "%s", claimed_twice);
    if (f)
        f->disputed = true;
}

/* Another pack has listed a column of this name. A pack on which the catalog agrees
 * comes before others; else there is a segment without a filter. */
static int claim_beside(struct repair *r, struct names *names, struct repair_pack *p,
                        const struct column *col, struct repair_pack *q, uint32_t its)
{
    struct record record, before;
    struct column other;
    struct repair_segment *s;
    uint32_t column = le32_get(col->disk.column);
    bool known = pack_describe(q->filter, its, false, &other) == 0;
    record_of_column(col, p->uuid, p->digest, &record);
    if (known)
        record_of_column(&other, q->uuid, q->digest, &before);
    if (q->agrees || (known && p != q && claim_is_same(&before, &record))) {
        unlist(p, column);
        return 0;
    }
    record = (struct record){.state = RECORD_NO_FILTER, .created = record.created};
    int rc = claim_new(r, names, column_name(col), &record, &s);
    if (rc)
        return rc;
    claim_dispute(r, s, NULL, record.created);
    dispute_column(r, s, p, column);
    dispute_column(r, s, q, its);
    return 0;
}

/* The column of pack i that was listed a moment ago: is its name its own? A record of
 * the catalog comes before it. */
static int claim_column(struct repair *r, struct names *names, size_t i,
                        const struct column *col)
{
    struct repair_pack *p = &r->packs[i], *q;
    struct record record, before;
    struct piece name = column_name(col);
    uint32_t column = le32_get(col->disk.column), its;
    struct repair_segment *s = claim_segment(r, names, name.at, name.n);
    record_of_column(col, p->uuid, p->digest, &record);
    q = column_named(r, names, name, &its);
    if (!s && !q) {
        const void *kept = claim_keep_name(r, name);
        return kept ? names_set(names, kept, name.n, p->first + column) : ENOMEM;
    }
    if (p->agrees)
        return 0;
    if (!s)
        return claim_beside(r, names, p, col, q, its);
    record_decode(s->value, s->value_bytes, s->name, s->name_bytes, &before);
    /* An edit was killed between packing the segment and removing its file. */
    if (!s->before && (s->disputed || !claim_is_same(&before, &record))) {
        claim_dispute(r, s, NULL, record.created);
        dispute_column(r, s, p, column);
        return 0;
    }
    unlist(p, column);
    if (s->own && r->files[s->own - 1].rotten) {
        claim_set_rotten_aside(r, s, &record);
        p->n_named++;
    }
    return 0;
}

/* All columns without a tombstone. */
static int list_living(struct repair_pack *p)
{
    size_t n_bytes = columns_bytes(p->n_columns);
    free(p->listed);
    p->listed = malloc(n_bytes);
    if (!p->listed)
        return ENOMEM;
    for (size_t b = 0; b < n_bytes; b++)
        p->listed[b] = (uint8_t)~p->dead[DEAD_HEAD_BYTES + b];
    columns_cut(p->listed, p->n_columns);
    return 0;
}

/* But for those that records name. */
static void unlist_named(struct repair *r)
{
    for (size_t k = 0; k < r->n_segments; k++) {
        const struct repair_segment *s = &r->segments[k];
        unsigned n;
        const struct part_disk *part = record_parts(
            s->changed ? s->value : s->before,
            s->changed ? s->value_bytes : s->before_bytes, s->name, s->name_bytes, &n);
        for (; n > 0; n--, part++) {
            struct repair_pack *p =
                part->kind == PART_COLUMN ? find_pack(r, part->uuid) : NULL;
            if (p && p->listed)
                unlist(p, le32_get(part->column));
        }
    }
}

/* And but for those whose names something else has. One without a readable entry has
 * any name. */
static int claim_columns(struct repair *r, struct names *names, size_t i)
{
    struct repair_pack *p = &r->packs[i];
    char file[FILTER_NAME_BYTES];
    struct column col;
    uint32_t n_unread = 0;
    int rc = 0;
    for (uint32_t c = 0; c < p->n_columns && !rc; c++)
        if (columns_have(p->listed, c)) {
            bool known = pack_describe(p->filter, c, false, &col) == 0;
            rc = known ? claim_column(r, names, i, &col) : 0;
            n_unread += !known;
        }
    filter_file_name(p->uuid, file);
    if (n_unread)
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, file,
                    "the names of %u listed segment%s cannot be read: a segment may be "
                    "listed twice",
                    n_unread, n_unread == 1 ? "" : "s");
    return rc;
}

int claim_column_of_list(struct repair *r, struct names *names,
                         const struct identity *id, struct repair_segment **s)
{
    struct column col;
    struct record record;
    uint32_t column;
    struct piece name = {id->name, id->name_bytes};
    struct repair_pack *p = column_named(r, names, name, &column);
    *s = NULL;
    if (!p || pack_describe(p->filter, column, true, &col) != 0 ||
        memcmp(col.disk.set_id, id->set_id, UUID_BYTES) != 0)
        return 0;
    record_of_column(&col, p->uuid, p->digest, &record);
    int rc = claim_new(r, names, column_name(&col), &record, s);
    if (rc)
        return rc;
    memcpy((*s)->set_id, id->set_id, UUID_BYTES);
    unlist(p, column);
    p->n_named++;
    return 0;
}

int claim_packs(struct repair *r, struct names *names, struct tamis_diag *diag)
{
    int rc = number_claims(r);
    for (size_t i = 0; i < r->n_packs && !rc; i++)
        if (r->packs[i].dead && r->packs[i].filter)
            rc = list_living(&r->packs[i]);
    unlist_named(r);
    for (size_t i = 0; i < r->n_packs && !rc; i++)
        if (r->packs[i].listed)
            rc = claim_columns(r, names, i);
    if (rc)
        return diag_errno(diag, rc, r->path, "listing segments");
    for (size_t i = 0; i < r->n_packs; i++) {
        struct repair_pack *p = &r->packs[i];
        struct repair_file *f = repair_find_file(r, p->uuid);
        if (p->n_named || count_listed(p))
            repair_name_pack(r, p->uuid);
        if (!f || !f->disputed || f->named || f->aside)
            continue;
        f->aside = true;
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                    "a pack of which other files claim all segments, too");
    }
    return 0;
}

/* ---- with a catalog: packs for which it does not agree ---- */

/* The columns of a pack that cannot be read stay unknown, and so do those of one that
 * can while `blind` may have their names. Without a catalog to stay in it would be
 * forgotten. */
static int leave_pack(struct repair *r, const struct repair_pack *p,
                      const struct repair_pack *blind, struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES], other[FILTER_NAME_BYTES] = "";
    filter_file_name(p->uuid, file);
    if (!r->store && p->error > 0)
        return diag_errno(diag, p->error, file, "reading a pack, to list its columns");
    if (!r->store && p->error)
        return diag_fail(diag, p->error, file, "%s", p->what);
    r->disagrees |= !p->agrees;
    if (blind)
        filter_file_name(blind->uuid, other);
    if (!p->agrees)
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, file,
                    "the catalog does not agree on its columns, and %s%s: left alone",
                    p->filter && p->dead
                        ? "one that cannot be read may have their names, "
                        : "they cannot be read",
                    p->filter && p->dead ? other : "");
    return 0;
}

static int list_anew(struct repair *r, struct names *names, size_t i)
{
    char file[FILTER_NAME_BYTES];
    int rc = claim_columns(r, names, i);
    filter_file_name(r->packs[i].uuid, file);
    r->packs[i].write = r->doubtful = true;
    repair_tell(r, TAMIS_REPAIR_REBUILT, NULL, file,
                "the catalog did not agree on its columns: those without a tombstone "
                "are listed");
    return rc;
}

/* May this pack have names of which nobody can tell? One on whose columns the catalog
 * does not agree may list any, but for one that goes to quarantine. */
static bool is_blind(const struct repair *r, const struct repair_pack *p)
{
    return p->agrees ? !p->filter && count_listed(p) > 0
                     : r->store && !(p->filter && p->dead);
}

/* While a pack is blind, nothing is listed anew. */
static int settle_lists(struct repair *r, struct tamis_diag *diag)
{
    struct names names = {0};
    const struct repair_pack *blind = NULL;
    int rc = number_claims(r), left = 0;
    for (size_t i = 0; i < r->n_segments && !rc; i++)
        rc = names_set(&names, r->segments[i].name, r->segments[i].name_bytes,
                       (uint32_t)i + 1);
    for (size_t i = 0; i < r->n_packs && !left; i++)
        if (is_blind(r, &r->packs[i])) {
            blind = &r->packs[i];
            left = blind->agrees ? leave_pack(r, blind, NULL, diag) : 0;
        }
    for (size_t i = 0; i < r->n_packs && !rc; i++) {
        struct repair_pack *p = &r->packs[i];
        if (!p->agrees && !blind && p->dead && p->filter)
            rc = list_living(p);
        else if (!p->agrees && p->listed)
            memset(p->listed, 0, columns_bytes(p->n_columns));
        else if (!blind && p->agrees && p->listed && p->filter)
            rc = claim_columns(r, &names, i);
    }
    unlist_named(r);
    for (size_t i = 0; i < r->n_packs && !rc && !left; i++) {
        const struct repair_pack *p = &r->packs[i];
        if (!p->agrees && (blind || !p->dead || !p->filter))
            left = leave_pack(r, p, blind, diag);
        else if (!p->agrees)
            rc = list_anew(r, &names, i);
    }
    names_clear(&names);
    if (rc)
        return diag_errno(diag, rc, r->path, "listing segments");
    return left;
}

int repair_settle_packs(struct repair *r, struct tamis_diag *diag)
{
    bool agree = true;
    int rc = 0;
    for (size_t i = 0; i < r->n_packs && !rc; i++) {
        struct repair_pack *p = &r->packs[i];
        rc = repair_stopped(r, diag);
        if (!rc && !p->looked_at)
            rc = look_at(r, p, diag);
        agree &= p->agrees;
    }
    if (!rc && !agree)
        rc = settle_lists(r, diag);
    for (size_t i = 0; i < r->n_packs && !rc; i++) {
        struct repair_pack *p = &r->packs[i];
        /* Else the catalog will not name it: it goes aside, as what nothing names. */
        if (p->n_named || (p->write ? count_listed(p) > 0 : r->store || p->agrees))
            repair_name_pack(r, p->uuid);
        tell_pack(r, p);
    }
    return rc;
}

/* ---- written ---- */

/* Since it was read. */
static bool has_changed(const struct repair_pack *p, const struct listed *now)
{
    const struct listing none = {0}, *l = now ? &now->now : &none;
    return l->chunks_sum != p->was.chunks_sum || l->n_listed != p->was.n_listed ||
           l->n_overridden != p->was.n_overridden || l->names_sum != p->was.names_sum;
}

int repair_write_packs(struct repair *r, struct catalog_txn *t, bool all,
                       struct tamis_diag *diag)
{
    struct listings l;
    int rc = listings_load(&l, t, diag);
    if (rc)
        return rc;
    for (size_t i = 0; i < r->n_packs && !rc; i++) {
        const struct repair_pack *p = &r->packs[i];
        if (p->write && !all && has_changed(p, listings_find(&l, p->uuid)))
            rc = diag_fail(diag, TAMIS_ERR_BUSY, r->path,
                           "a pack's list changed while it was repaired: repair again");
        else if (p->listed && (p->write || all))
            rc = listings_put(&l, p->uuid, p->digest, p->n_columns, p->listed, diag);
    }
    if (!rc)
        rc = listings_put_names(&l, diag);
    if (!rc)
        rc = listings_write(&l, diag);
    listings_free(&l);
    return rc;
}
