/* Repair by records: the catalog is there, and says of each segment which file it has.
 * A record that fails its check is made anew from the file that its bytes still name;
 * one whose file is damaged, or not the one it should be, becomes NO_FILTER. A record
 * never goes away: its segment would be taken to lack every key.
 *
 * A record may name a list of hashes, too. A list answers no probe, so a damaged one
 * costs its segment nothing but the list: it goes to quarantine, and the record is
 * written without it. The record also loses a missing list, unless the filter is
 * missing, too: then both may come back. While a list can't be read, nothing is
 * decided: it may make a damaged filter anew. A damaged list goes to quarantine with
 * its damaged filter. */
#include "lib/store/repair/inside.h"

/* Judges the list of a segment as its record is by now. *j has the state of its filter.
 * Fails only if the repair cannot go on. */
static int repair_judge_list(struct repair *r, struct repair_segment *s,
                             struct judgement *j)
{
    bool has_filter = j->state == FILE_GOOD;
    char name[FILTER_NAME_BYTES];
    struct record record, list;
    struct verdict v = repair_record(s, &record);
    if (v.code != VERDICT_OK || !record_listed(&record))
        return 0;
    list = record_of_list(&record);
    filter_file_name(list.uuid, name);
    struct repair_file *f = repair_find_file(r, list.uuid);
    if (f)
        f->named = true;
    int rc = repair_judge(r, s, &list, name, j);
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

/* The parts that the bytes of its damaged record seem to have. */
static const struct part_disk *repair_raw_parts(const struct repair_segment *s,
                                                unsigned *n)
{
    const struct record_disk *d = (const void *)s->before.at;
    *n = 0;
    while (*n < RECORD_MAX_PARTS && s->before.n >= sizeof *d && *n < d->n_parts &&
           (*n + 1) * PART_BYTES <= s->before.n - sizeof *d)
        ++*n;
    return (const void *)(d + 1);
}

bool repair_is_list_of(const struct repair *r, const struct identity *id,
                       const struct repair_segment *s, const uint8_t *set_id)
{
    return id->kind == KIND_LIST && repair_is_ours(r, id) &&
           name_compare(identity_name(id), s->name) == 0 &&
           memcmp(id->set_id, set_id, UUID_BYTES) == 0;
}

/* The segment's filter has this set id: its record names the list that the damaged one
 * seems to have named, if that has the same. */
static void repair_keep_list(struct repair *r, const struct repair_segment *s,
                             const uint8_t set_id[UUID_BYTES], struct record *record)
{
    unsigned n;
    const struct part_disk *p = repair_raw_parts(s, &n);
    for (unsigned i = 0; i < n && record->state == RECORD_SEALED; i++) {
        struct repair_file *f =
            p[i].kind == PART_LIST ? repair_find_file(r, p[i].uuid) : NULL;
        struct identity id;
        if (!f || repair_identify(r->filters.fd, f->name, &id) != 0 ||
            !repair_is_list_of(r, &id, s, set_id))
            continue;
        memcpy(record->list_uuid, p[i].uuid, UUID_BYTES);
        record->list_digest = le64_get(p[i].table_digest);
    }
}

/* ---- deciding ---- */

struct record repair_record_of(const struct header *h)
{
    return record_of_commit(&h->commit, h->identity.target_error, h->identity.created,
                            0);
}

/* Without a catalog to write to, a writer could not tell it how far it had come. */
static void follow(struct repair_segment *s, const struct record *record,
                   const struct header *h)
{
    struct record now = repair_record_of(h), r = *record;
    if (now.state == r.state && now.min_stages <= r.min_stages &&
        now.generation <= r.generation)
        return;
    r.state = now.state;
    r.table_digest = now.table_digest;
    r.min_sequence = now.min_sequence;
    r.min_stages = now.min_stages;
    r.generation = now.generation;
    r.watermark = now.watermark;
    r.keys = now.keys;
    r.file_bytes = now.file_bytes;
    r.compat = 0;
    repair_set_record(s, &r);
}

/* No filter of one segment: the record has nothing to do with it, and others may name
 * it. */
static bool is_others(const struct judgement *j)
{
    return j->h.identity.kind == KIND_PACK || j->h.identity.kind == KIND_LIST;
}

/* The filter is damaged. Its list is judged first: it may keep the filter here, for the
 * list may make it anew, or goes with it. A list without its magic is known by the
 * record alone: as an orphan it would be removed. */
static int set_filter_aside(struct repair *r, struct repair_segment *s,
                            const struct record *record, const char *name,
                            const struct judgement *j)
{
    const struct record its = record_of_list(record);
    struct repair_file *f = repair_find_file(r, record->uuid), *its_file = NULL;
    struct judgement list = {.state = FILE_MISSING};
    char its_name[FILTER_NAME_BYTES];
    /* If another file goes on answering, the record and its list stay. */
    if (record_listed(record) && !record_packed(record)) {
        filter_file_name(its.uuid, its_name);
        int rc = repair_judge(r, s, &its, its_name, &list);
        if (rc)
            return rc;
        its_file = repair_find_file(r, its.uuid);
    }
    unsigned bits = list.h.commit.stages[0].hash_bits;
    if (list.state == FILE_UNREAD || list.state == FILE_STRANGE ||
        (list.state == FILE_GOOD && bits == 64)) {
        repair_tell(r, TAMIS_REPAIR_NOTED, s, name,
                    "%s: left, for its list may make it anew", j->what);
        return 0;
    }
    repair_tell(r, is_others(j) ? TAMIS_REPAIR_REBUILT : TAMIS_REPAIR_QUARANTINED, s,
                name, "%s", j->what);
    if (its_file && list.state == FILE_BAD)
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, s, its_name, "its list: %s",
                    list.what);
    else if (its_file && list.state == FILE_GOOD)
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, s, its_name,
                    "its list: the segment's filter is quarantined, and a list of %u "
                    "bit%s makes none",
                    bits, bits == 1 ? "" : "s");
    if (its_file && list.state != FILE_MISSING)
        its_file->named = its_file->aside = true;
    repair_drop_filter(s, record);
    if (f)
        f->aside = !is_others(j);
    return 0;
}

static int judge_good_record(struct repair *r, struct repair_segment *s,
                             const struct record *record, struct judgement *j)
{
    char name[FILTER_NAME_BYTES];
    bool good;
    int rc;
    if (record_packed(record)) {
        rc = repair_look_at_shared(r, s, record, &good);
        j->state = !rc && good ? FILE_GOOD : j->state;
        return rc;
    }
    filter_file_name(record->uuid, name);
    rc = repair_judge(r, s, record, name, j);
    if (rc)
        return rc;
    struct repair_file *f = repair_find_file(r, record->uuid);
    if (f)
        f->named |= !is_others(j);
    if (!r->store && j->finished && j->state == FILE_GOOD &&
        record->state == RECORD_GROWING)
        follow(s, record, &j->h);
    if (j->state == FILE_BAD && !record->ro_compat)
        return set_filter_aside(r, s, record, name, j);
    if (j->state == FILE_UNREAD || j->state == FILE_STRANGE) {
        repair_note(r, j->code, false, s, name, j->what);
    } else if (j->what[0] &&
               (j->state != FILE_GOOD || j->h.commit.state == STATE_OPEN)) {
        /* A missing file may come back: the record still knows which it is, and what
         * its keys lie between. */
        repair_tell(r, TAMIS_REPAIR_NOTED, s, name, "%s", j->what);
    }
    return 0;
}

static void suspect_file(struct repair *r, const uint8_t *uuid)
{
    struct repair_file *f = repair_find_file(r, uuid);
    if (f)
        f->suspect = true; /* unless another record names it */
}

/* The bytes of a damaged record seem to name files. These may be wanted, even if
 * nothing in them says so. */
static void suspect_files(struct repair *r, const struct repair_segment *s)
{
    unsigned n;
    const struct part_disk *p = repair_raw_parts(s, &n);
    if (s->before.n >= RECORD_HEAD_BYTES)
        suspect_file(r, s->before.at + offsetof(struct record_disk, uuid));
    for (unsigned i = 0; i < n; i++)
        suspect_file(r, p[i].uuid);
}

/* The UUID in a damaged record, and a filter of the very name: two witnesses. */
static int remake_record(struct repair *r, struct repair_segment *s,
                         struct judgement *j)
{
    char name[FILTER_NAME_BYTES];
    struct record record = {.state = RECORD_NO_FILTER, .created = io_calls.now()};
    const uint8_t *uuid = s->before.at + offsetof(struct record_disk, uuid);
    struct repair_file *f =
        s->before.n >= RECORD_HEAD_BYTES ? repair_find_file(r, uuid) : NULL;
    s->lost_uuid = !f;
    suspect_files(r, s);
    if (f) {
        filter_file_name(uuid, name);
        int rc = repair_judge(r, s, NULL, name, j);
        if (rc)
            return rc;
        if (j->state == FILE_UNREAD || j->state == FILE_STRANGE) {
            f->named = true;
            repair_tell(r, TAMIS_REPAIR_NOTED, s, name, "its record is damaged; %s",
                        j->what);
            return 0;
        }
        const struct identity *id = &j->h.identity;
        bool same = name_compare(identity_name(id), s->name) == 0 && !is_others(j);
        if (j->state == FILE_GOOD && same) {
            record = repair_record_of(&j->h);
            f->named = true;
            repair_keep_list(r, s, id->set_id, &record);
        }
    }
    /* No file confirms the name, which may be the damaged part: then the segment whose
     * record this was is listed no more. */
    r->doubtful |= record.state == RECORD_NO_FILTER;
    if (record.state == RECORD_NO_FILTER)
        repair_tell(
            r, TAMIS_REPAIR_REBUILT, s, f ? name : NULL,
            "its record was damaged, and no file is known to be its own: without "
            "a filter; if it is the name that is wrong, a segment is missing");
    else
        repair_tell(r, TAMIS_REPAIR_REBUILT, s, name,
                    "its record was damaged: made anew from the file");
    repair_set_record(s, &record);
    return 0;
}

static int judge_segment(struct repair *r, struct repair_segment *s,
                         struct judgement *j)
{
    struct record record;
    struct verdict v =
        record_decode(s->before.at, s->before.n, s->name.at, s->name.n, &record);
    j->state = FILE_MISSING;
    if (v.code == VERDICT_OK && record.state == RECORD_NO_FILTER)
        return 0;
    if (v.code == VERDICT_OK && r->opt.dry_run &&
        names_get(&r->remade, s->name.at, s->name.n)) {
        repair_name_parts(r, s); /* told; the files stay as they are */
        return 0;
    }
    if (v.code == VERDICT_OK)
        return judge_good_record(r, s, &record, j);
    if (verdict_error(v.code) == TAMIS_ERR_VERSION) {
        if (!repair_name_parts(r, s))
            r->unsure = true;
        repair_tell(r, TAMIS_REPAIR_NOTED, s, NULL,
                    "left alone: its record is of a newer tamis");
        return 0;
    }
    return remake_record(r, s, j);
}

/* ---- what no record names ---- */

static bool may_be_lost_file(const struct repair *r, const struct identity *id)
{
    for (size_t i = 0; i < r->n_segments; i++)
        if (r->segments[i].lost_uuid &&
            name_compare(r->segments[i].name, identity_name(id)) == 0)
            return true;
    return false;
}

/* A filter may be wanted: its record was damaged, or the catalog here is another
 * store's, or an older one that was put back. This holds for filters of a newer
 * version, and with a rotten header, too. Only other files are swept, as by an edit. */
static void judge_orphan(struct repair *r, struct repair_file *f)
{
    struct header h;
    const char *what = NULL;
    if (f->named || (!f->temporary && (r->unsure || f->dead)))
        return;
    if (f->strange) {
        repair_tell_stray(r, f->name);
        return;
    }
    int rc =
        f->temporary ? TAMIS_ERR_NOT_TAMIS : repair_header(r->filters.fd, f->name, &h);
    if (rc > 0) {
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, f->name, "no record names it; %s",
                    tamis_strerror(rc));
        return;
    }
    if (f->suspect) {
        what = "may be the file of a segment whose record was damaged";
    } else if (rc != TAMIS_ERR_NOT_TAMIS) {
        if (all_zero(h.identity.uuid, UUID_BYTES))
            what = "no record names it, and it is damaged, or of a newer tamis";
        else if (!repair_is_ours(r, &h.identity))
            what = "no record names it, and it is of another store";
        else if (may_be_lost_file(r, &h.identity))
            what = "may be the file of a segment whose record was damaged";
        else
            what = "no record names it: left by an edit, or of a newer catalog";
    }
    f->aside = what != NULL;
    f->unlink = !what;
    if (what)
        repair_tell(r, TAMIS_REPAIR_QUARANTINED | TELL_PLAIN, NULL, f->name, "%s",
                    what);
    else
        repair_tell(r, TAMIS_REPAIR_SWEPT, NULL, f->name, "%s",
                    f->temporary ? "was never finished"
                                 : "no record names it, and it is no filter");
}

int repair_by_records(struct repair *r)
{
    struct judgement j = {.code = 0};
    int rc = 0;
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        rc = repair_stopped(r);
        if (!rc)
            rc = judge_segment(r, &r->segments[i], &j);
        if (!rc)
            rc = repair_judge_list(r, &r->segments[i], &j);
    }
    if (!rc)
        rc = repair_settle_shared(r);
    for (size_t i = 0; i < r->n_files && !rc; i++)
        judge_orphan(r, &r->files[i]);
    if (!r->unsure)
        repair_settle_tombstones(r, true);
    return rc;
}
