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

int claim_new(struct repair *r, struct names *names, struct piece name,
              const struct record *record, struct repair_segment **s)
{
    int rc = repair_add_segment(r, name, (struct piece){NULL, 0}, s);
    if (!rc)
        rc = names_set(names, (*s)->name, (*s)->name_bytes, (uint32_t)r->n_segments);
    if (!rc)
        repair_set_record(*s, record);
    return rc;
}

int claim_name(struct repair *r, struct names *names, size_t file, const uint8_t *name,
               size_t name_bytes, const struct record *record, const uint8_t *set_id)
{
    struct record before;
    struct repair_segment *s;
    uint32_t number = names_get(names, name, name_bytes);
    if (!number) {
        int rc = claim_new(r, names, (struct piece){name, name_bytes}, record, &s);
        if (rc)
            return rc;
        memcpy(s->set_id, set_id, UUID_BYTES);
        claim_as_own(r, s, file);
        return 0;
    }
    s = &r->segments[number - 1];
    record_decode(s->value, s->value_bytes, s->name, s->name_bytes, &before);
    if (!s->disputed && claim_is_same(&before, record)) {
        claim_as_own(r, s, file);
        return 0;
    }
    claim_dispute(r, s, &r->files[file], record->created);
    return 0;
}

/* The table of names keeps pointers: none of these goes into a mapping, whose pages may
 * be lost. */
struct kept_names {
    struct kept_names *next;
    size_t n;
    uint8_t bytes[(1 << 16) - 2 * sizeof(size_t)];
};

const void *claim_keep_name(struct repair *r, struct piece name)
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

void claim_forget_names(struct repair *r)
{
    for (struct kept_names *k; (k = r->kept_names); free(k))
        r->kept_names = k->next;
}
