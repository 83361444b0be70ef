/* Repair: lists of hashes, named by records or found without a catalog. A list answers
 * no probe, so a damaged one costs its segment nothing but the list: it goes to
 * quarantine, and the record is written without it. The record also loses a missing
 * list, unless the filter is missing, too: then both may come back. While a list can't
 * be read, nothing is decided: it may make a damaged filter anew. A damaged list goes
 * to quarantine with its damaged filter. */
#include "lib/store/repair/inside.h"

static unsigned bits_of(const struct judgement *list)
{
    return list->h.commit.stages[0].hash_bits;
}

int repair_judge_list_of_bad(struct repair *r, const struct repair_segment *s,
                             const struct record *record, struct judgement *list,
                             bool *waits, struct tamis_diag *diag)
{
    const struct record its = record_of_list(record);
    char name[FILTER_NAME_BYTES];
    memset(list, 0, sizeof *list);
    list->state = FILE_MISSING;
    *waits = false;
    /* Another file goes on answering, so that the record and its list stay. */
    if (!record_listed(record) || record_packed(record))
        return 0;
    filter_file_name(its.uuid, name);
    int rc = repair_judge(r, s, &its, name, list, diag);
    *waits = !rc && (list->state == FILE_UNREAD || list->state == FILE_STRANGE ||
                     (list->state == FILE_GOOD && bits_of(list) == 64));
    return rc;
}

/* A list without its magic is known by the record alone. As an orphan it would be
 * removed. */
void repair_set_list_aside(struct repair *r, const struct repair_segment *s,
                           const struct record *record, const struct judgement *list)
{
    struct repair_file *f = repair_find_file(r, record->list_uuid);
    if (!f || (list->state != FILE_BAD && list->state != FILE_GOOD))
        return;
    f->named = f->aside = true;
    if (list->state == FILE_BAD)
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, s, f->name, "its list: %s",
                    list->what);
    else
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, s, f->name,
                    "its list: the segment's filter is quarantined, and a list of %u "
                    "bit%s makes none",
                    bits_of(list), bits_of(list) == 1 ? "" : "s");
}

int repair_judge_list(struct repair *r, struct repair_segment *s, struct judgement *j,
                      struct tamis_diag *diag)
{
    bool has_filter = j->state == FILE_GOOD;
    char name[FILTER_NAME_BYTES];
    struct record record, list;
    struct verdict v =
        record_decode(s->value, s->value_bytes, s->name, s->name_bytes, &record);
    if (v.code != VERDICT_OK || !record_listed(&record))
        return 0;
    list = record_of_list(&record);
    filter_file_name(list.uuid, name);
    struct repair_file *f = repair_find_file(r, list.uuid);
    if (f)
        f->named = true;
    int rc = repair_judge(r, s, &list, name, j, diag);
    if (rc)
        return rc;
    bool drop =
        ((j->state == FILE_BAD && f) || (j->state == FILE_MISSING && has_filter)) &&
        !record.ro_compat;
    if (drop && j->state == FILE_BAD) {
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, s, name, "its list: %s", j->what);
        f->aside = true;
    } else if (drop) {
        repair_tell(r, TAMIS_REPAIR_REBUILT, s, name,
                    "its list is missing: recorded without one");
    } else if (j->state == FILE_MISSING) {
        repair_note(r, 0, false, s, name, "its list is missing");
    } else if (j->state != FILE_GOOD) {
        repair_note(r, j->code, false, s, name, j->what);
    }
    if (drop) {
        record_unlist(&record);
        repair_set_record(s, &record);
    }
    return 0;
}

/* ---- by their set ids ---- */

static bool is_list_of(const struct repair *r, const struct identity *id,
                       const struct repair_segment *s, const uint8_t *set_id)
{
    return id->kind == KIND_LIST && repair_is_ours(r, id) &&
           id->name_bytes == s->name_bytes &&
           memcmp(id->name, s->name, s->name_bytes) == 0 &&
           memcmp(id->set_id, set_id, UUID_BYTES) == 0;
}

void repair_keep_list(struct repair *r, const struct repair_segment *s,
                      const uint8_t set_id[UUID_BYTES], struct record *record)
{
    unsigned n;
    const struct part_disk *p = repair_raw_parts(s, &n);
    for (unsigned i = 0; i < n && record->state == RECORD_SEALED; i++) {
        struct repair_file *f =
            p[i].kind == PART_LIST ? repair_find_file(r, p[i].uuid) : NULL;
        struct identity id;
        bool none;
        if (!f || repair_identify(r->filters.fd, f->name, &id, &none) != 0 ||
            !is_list_of(r, &id, s, set_id))
            continue;
        memcpy(record->list_uuid, p[i].uuid, UUID_BYTES);
        record->list_digest = le64_get(p[i].table_digest);
    }
}

/* The list goes back to its segment, if the filter there is of the same keys. */
static bool give_back(struct repair *r, struct repair_segment *s, struct repair_file *f,
                      const struct identity *id)
{
    const struct repair_file *own = s->own ? &r->files[s->own - 1] : NULL;
    struct record record;
    record_decode(s->value, s->value_bytes, s->name, s->name_bytes, &record);
    if (f->aside || record.state != RECORD_SEALED || record_listed(&record) ||
        !is_list_of(r, id, s, s->set_id) || (own && own->rotten && f->hash_bits != 64))
        return false;
    memcpy(record.list_uuid, id->uuid, UUID_BYTES);
    record.list_digest = f->digest;
    repair_set_record(s, &record);
    f->named = true;
    return true;
}

static int claim_list(struct repair *r, struct names *names, struct repair_file *f)
{
    struct identity id;
    struct repair_segment *s;
    bool none;
    int rc = repair_identify(r->filters.fd, f->name, &id, &none);
    if (rc)
        return rc;
    s = claim_segment(r, names, id.name, id.name_bytes);
    if (!s && !f->aside && repair_is_ours(r, &id))
        rc = claim_column_of_list(r, names, &id, &s);
    if (rc || (s && give_back(r, s, f, &id)))
        return rc;
    const struct repair_segment who = {.name = id.name, .name_bytes = id.name_bytes};
    if (!f->aside)
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, id.name_bytes ? &who : NULL, f->name,
                    "a list: nothing says which filter it goes with");
    f->aside = true;
    if (!id.name_bytes || !repair_is_ours(r, &id) ||
        names_get(names, id.name, id.name_bytes))
        return 0;
    const struct record bare = {.state = RECORD_NO_FILTER, .created = id.created};
    return claim_new(r, names, (struct piece){id.name, id.name_bytes}, &bare, &s);
}

int claim_lists(struct repair *r, struct names *names, struct tamis_diag *diag)
{
    for (size_t i = 0; i < r->n_files; i++) {
        int rc = r->files[i].is_list ? claim_list(r, names, &r->files[i]) : 0;
        if (rc)
            return diag_errno(diag, rc, r->files[i].name,
                              "reading a list, to list its segment");
    }
    return 0;
}
