/* Repair by files: who claims a segment's name? Two files that claim one name are set
 * aside. */
#include "lib/store/repair/inside.h"

bool claim_is_same(const struct record *a, const struct record *b)
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

const char claimed_twice[] =
    "two files claim this segment, and nobody can tell which is its own";

static void dispute(struct repair *r, const struct repair_segment *s,
                    struct repair_file *f)
{
    if (f && !f->aside)
        repair_set_aside(r, f, s, claimed_twice);
}

void claim_dispute(struct repair *r, struct repair_segment *s, struct repair_file *f,
                   uint64_t created)
{
    struct record bare = {.state = RECORD_NO_FILTER, .created = created};
    if (s->own)
        dispute(r, s, &r->files[s->own - 1]);
    dispute(r, s, f);
    s->own = 0;
    s->disputed = true;
    repair_set_record(s, &bare);
}

void claim_set_rotten_aside(struct repair *r, struct repair_segment *s,
                            const struct record *now)
{
    struct repair_file *f = &r->files[s->own - 1];
    repair_set_aside(r, f, s, f->rotten);
    s->own = 0;
    repair_set_record(s, now);
}

int claim_new(struct repair *r, struct piece name, const struct record *record,
              struct repair_segment **s)
{
    int rc = repair_add_segment(r, name, (struct piece){NULL, 0});
    *s = rc ? NULL : &r->segments[r->n_segments - 1];
    if (!rc)
        rc = names_set(&r->claimed, (*s)->name.at, (*s)->name.n,
                       (uint32_t)r->n_segments);
    if (!rc)
        repair_set_record(*s, record);
    return rc;
}

int claim_name(struct repair *r, size_t file, const struct identity *id,
               const struct record *record)
{
    struct record before;
    struct repair_segment *s;
    uint32_t number = names_get(&r->claimed, id->name, id->name_bytes);
    if (!number) {
        int rc = claim_new(r, identity_name(id), record, &s);
        if (rc)
            return rc;
        memcpy(s->set_id, id->set_id, UUID_BYTES);
        claim_as_own(r, s, file);
        return 0;
    }
    s = &r->segments[number - 1];
    repair_record(s, &before);
    if (!s->disputed && claim_is_same(&before, record)) {
        claim_as_own(r, s, file);
        return 0;
    }
    claim_dispute(r, s, &r->files[file], record->created);
    return 0;
}
