/* The input of a repair: the segments with their records, and the files in filters/. */
#include "lib/store/repair/inside.h"

/* ---- segments ---- */

int repair_add_segment(struct repair *r, struct piece name, struct piece before,
                       struct repair_segment **out)
{
    void *more =
        room_for(r->segments, r->n_segments + 1, &r->max_segments, sizeof *r->segments);
    if (!more)
        return ENOMEM;
    r->segments = more;
    /* Name, the record as it is, and room for any that it may become. */
    size_t room = r->reads_only ? 0 : RECORD_MAX_BYTES;
    uint8_t *memory = malloc(name.n + before.n + room);
    if (!memory)
        return ENOMEM;
    struct repair_segment *s = &r->segments[r->n_segments++];
    *s = (struct repair_segment){.name = memory,
                                 .name_bytes = name.n,
                                 .value = memory + name.n,
                                 .before_bytes = before.n,
                                 .value_bytes = before.n};
    memcpy(memory, name.at, name.n);
    if (before.at)
        s->before = memcpy(s->value, before.at, before.n);
    *out = s;
    return 0;
}

void repair_set_record(struct repair_segment *s, const struct record *record)
{
    s->value = s->name + s->name_bytes + s->before_bytes;
    s->value_bytes = record_encode(record, s->name, s->name_bytes, s->value);
    s->changed = true;
}

void repair_drop_filter(struct repair_segment *s, const struct record *record)
{
    struct record bare = *record;
    record_make_bare(&bare);
    repair_set_record(s, &bare);
}

/* ---- files ---- */

static int compare_files(const void *a, const void *b)
{
    const struct repair_file *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static struct repair_file *find_name(struct repair *r, const char *name)
{
    struct repair_file key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return r->n_files ? bsearch(&key, r->files, r->n_files, sizeof key, compare_files)
                      : NULL;
}

struct repair_file *repair_find_file(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES];
    filter_file_name(uuid, name);
    return find_name(r, name);
}

void repair_name_shared(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES];
    dead_file_name(uuid, name);
    struct repair_file *f = repair_find_file(r, uuid), *dead = find_name(r, name);
    if (f)
        f->named = true;
    if (dead)
        dead->named = true;
}

const struct part_disk *repair_raw_parts(const struct repair_segment *s, unsigned *n)
{
    const struct record_disk *d = (const void *)s->before;
    *n = 0;
    while (*n < RECORD_MAX_PARTS && s->before_bytes >= sizeof *d && *n < d->n_parts &&
           (*n + 1) * PART_BYTES <= s->before_bytes - sizeof *d)
        ++*n;
    return (const void *)(d + 1);
}

void repair_settle_tombstones(struct repair *r, bool has_catalog)
{
    for (size_t i = 0; i < r->n_files; i++) {
        struct repair_file *f = &r->files[i];
        if (!f->dead || f->temporary || f->named)
            continue;
        const struct repair_file *its = repair_find_file(r, f->uuid);
        f->aside = its ? its->aside : !has_catalog;
        f->unlink = !its && has_catalog;
        if (!its && !has_catalog)
            repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                        "the file of these tombstones is not there: the list lacks "
                        "its segments");
    }
}

static int add_file(void *ctx, int dir, const char *name)
{
    struct repair *r = ctx;
    struct repair_file f;
    const char *rest;
    struct stat st;
    memset(&f, 0, sizeof f);
    bool ours = filter_name_parse(name, f.uuid, &f.dead, &rest);
    f.temporary = ours && *rest && filter_rest_temporary(rest);
    if (!ours || (*rest && !f.temporary)) {
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, name,
                    "left alone: not a name of tamis");
        return 0;
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        f.strange = !S_ISREG(st.st_mode);
    else if (errno == ENOENT)
        return 0; /* it has gone meanwhile */
    if (f.strange && (f.dead || f.temporary)) {
        repair_tell_stray(r, name);
        return 0;
    }
    void *more = room_for(r->files, r->n_files + 1, &r->max_files, sizeof *r->files);
    if (!more)
        return ENOMEM;
    r->files = more;
    memcpy(f.name, name, strlen(name) + 1);
    r->files[r->n_files++] = f;
    return 0;
}

static int is_draft(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return filter_file_is_alien(dir, name, NULL) ? TAMIS_ERR_VERSION : 0;
}

int repair_refuse_draft(struct repair *r, int dir, const char *filters,
                        struct tamis_diag *diag)
{
    int rc = dir_each(dir, filters, is_draft, NULL);
    if (rc > 0)
        return diag_errno(diag, rc, r->path, "filters/");
    return rc ? diag_fail(diag, rc, r->path,
                          "filters/ has files of the first draft of the format: "
                          "make the store anew, elsewhere; nothing in it is needed")
              : 0;
}

int repair_list_files(struct repair *r, struct tamis_diag *diag)
{
    int rc = dir_each(r->filters.fd, ".", add_file, r);
    if (rc)
        return diag_errno(diag, rc, r->path, "listing filters/");
    if (r->n_files)
        qsort(r->files, r->n_files, sizeof *r->files, compare_files);
    return 0;
}
