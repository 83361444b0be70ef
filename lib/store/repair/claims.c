/* Repair by files: who claims a segment's name? A filter that has the name, a column of
 * a pack, a filter in quarantine. Two files that claim one name are set aside. */
#include "lib/store/repair/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Do both mean the same filter, in its own file, in a pack, or in two packs? */
static bool is_same_filter(const struct record *a, const struct record *b)
{
    return a->state == RECORD_SEALED && b->state == RECORD_SEALED &&
           memcmp(a->uuid, b->uuid, UUID_BYTES) == 0 &&
           a->table_digest == b->table_digest;
}

static void claim_as_own(struct repair *r, struct repair_segment *s, size_t file)
{
    s->own = file + 1;
    r->files[file].named = !r->files[file].aside;
}

/* A file of one segment goes aside. A pack stays, for the others in it. */
static void dispute(struct repair *r, const struct repair_segment *s,
                    struct repair_file *f, bool whole)
{
    static const char both[] =
        "two files claim this segment: which is its own nobody can tell";
    if (!f)
        return;
    if (!whole) {
        repair_tell(r, TAMIS_REPAIR_NOTED, s, f->name, "%s", both);
        f->disputed = true;
    }
    if (!whole || f->aside)
        return;
    repair_tell(r, TAMIS_REPAIR_QUARANTINED, s, f->name, "%s", both);
    f->aside = true;
    f->named = false;
}

int claim_name(struct repair *r, struct names *names, size_t file, const uint8_t *name,
               size_t name_bytes, const struct record *record, const uint8_t *set_id)
{
    bool whole = !record_packed(record);
    struct record before,
        bare = {.state = RECORD_NO_FILTER, .created = record->created};
    struct repair_segment *s;
    uint32_t number = names_get(names, name, name_bytes);
    if (!number) {
        int rc = repair_add_segment(r, name, name_bytes, NULL, 0, &s);
        if (!rc)
            rc = names_set(names, s->name, s->name_bytes, (uint32_t)r->n_segments);
        if (rc)
            return rc;
        repair_set_record(s, record);
        memcpy(s->set_id, set_id, UUID_BYTES);
        if (whole)
            claim_as_own(r, s, file);
        return 0;
    }
    s = &r->segments[number - 1];
    record_decode(s->value, s->value_bytes, s->name, s->name_bytes, &before);
    if (!s->disputed && is_same_filter(&before, record)) {
        /* An edit was killed between packing the segment and removing its file. */
        if (whole && !s->own)
            repair_set_record(s, record);
        if (whole)
            claim_as_own(r, s, file);
        return 0;
    }
    if (record_packed(&before))
        dispute(r, s, repair_find_file(r, before.place.uuid), false);
    if (s->own)
        dispute(r, s, &r->files[s->own - 1], true);
    dispute(r, s, &r->files[file], whole);
    s->own = 0;
    s->disputed = true;
    repair_set_record(s, &bare);
    return 0;
}

void claim_packs(struct repair *r)
{
    for (size_t i = 0; i < r->n_segments; i++) {
        const struct repair_segment *s = &r->segments[i];
        struct record record;
        record_decode(s->value, s->value_bytes, s->name, s->name_bytes, &record);
        if (record_packed(&record))
            repair_name_pack(r, record.place.uuid);
    }
    for (size_t i = 0; i < r->n_files; i++) {
        struct repair_file *f = &r->files[i];
        if (!f->disputed || f->named || f->aside)
            continue;
        f->aside = true;
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                    "a pack of which other files claim all segments, too");
    }
}

struct claiming {
    struct repair *r;
    struct names *names;
    size_t file;
};

static int claim_column(void *ctx, const uint8_t *name, size_t name_bytes,
                        const struct record *record, const uint8_t *set_id)
{
    struct claiming *a = ctx;
    return claim_name(a->r, a->names, a->file, name, name_bytes, record, set_id);
}

/* The living columns of a pack; without a good table it goes aside. */
int claim_pack(struct repair *r, struct names *names, size_t i,
               const struct judgement *j, struct tamis_diag *diag)
{
    struct claiming a = {r, names, i};
    struct repair_file *f = &r->files[i];
    if (!repair_is_ours(r, &j->h.identity)) {
        f->aside = true;
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                    "the pack of another store");
        return 0;
    }
    int rc = repair_list_columns(r, f->name, &j->h, claim_column, &a, diag);
    if (rc > 0 && rc != ENOENT) /* better no catalog than one without them */
        return diag_errno(diag, rc, f->name, "reading a pack, to list its columns");
    if (rc) {
        diag_clear(diag);
        f->aside = true;
        f->named = false;
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                    "the columns of this pack, or the .dead file beside it, cannot be "
                    "read: %s",
                    tamis_strerror(rc));
        return 0;
    }
    if (j->what[0])
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, f->name, "%s", j->what);
    return 0;
}

/* ---- names in quarantine ---- */

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
    int rc = repair_add_segment(a->r, id->name, id->name_bytes, NULL, 0, &s);
    if (!rc)
        rc = names_set(a->names, s->name, s->name_bytes, (uint32_t)a->r->n_segments);
    if (rc)
        return diag_errno(a->diag, rc, a->r->path, "listing segments");
    struct record bare = {.state = RECORD_NO_FILTER, .created = id->created};
    repair_set_record(s, &bare);
    repair_tell(a->r, TAMIS_REPAIR_REBUILT, s, path,
                "its filter was set aside before: listed without one");
    return 0;
}

int claim_quarantined(struct repair *r, struct names *names, struct tamis_diag *diag)
{
    struct aside a = {r, names, diag};
    int rc = quarantine_each(r->store_fd, list_aside, &a);
    if (rc > 0 && (!diag || !diag->code))
        return diag_errno(diag, rc, r->path, "looking into quarantine/");
    return rc;
}
