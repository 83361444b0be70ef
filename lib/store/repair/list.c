/* The input of a repair: the segments with their records, the files in filters/, and
 * which of the files the records name; and the lock for which these stay. */
#include "lib/store/repair/inside.h"

#include <sys/file.h>

/* ---- segments ---- */

int repair_add_segment(void *ctx, struct piece name, struct piece before)
{
    struct repair *r = ctx;
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
    *s = (struct repair_segment){.memory = memory,
                                 .name = {memory, name.n},
                                 .value = {memory + name.n, before.n}};
    memcpy(memory, name.at, name.n);
    if (before.at) {
        memcpy(memory + name.n, before.at, before.n);
        s->before = s->value;
    }
    return 0;
}

void repair_set_record(struct repair_segment *s, const struct record *record)
{
    uint8_t *value = s->memory + s->name.n + s->before.n;
    size_t n = record_encode(record, s->name.at, s->name.n, value);
    s->value = (struct piece){value, n};
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

int repair_refuse_draft(struct repair *r, int dir, const char *filters)
{
    int rc = dir_each(dir, filters, is_draft, NULL);
    if (rc > 0)
        return diag_errno(r->diag, rc, r->path, "filters/");
    return rc ? diag_fail(r->diag, rc, r->path,
                          "filters/ has files of the first draft of the format: "
                          "make the store anew, elsewhere; nothing in it is needed")
              : 0;
}

int repair_list_files(struct repair *r)
{
    int rc = dir_each(r->filters.fd, ".", add_file, r);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "listing filters/");
    if (r->n_files)
        qsort(r->files, r->n_files, sizeof *r->files, compare_files);
    return 0;
}

int repair_lock_filters(struct repair *r, int dir, const char *name)
{
    struct stat st;
    int rc = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    if (!rc && !S_ISDIR(st.st_mode))
        rc = ENOTDIR;
    if (!rc)
        rc = dir_open_guarded(dir, name, &r->filters);
    if (rc)
        return diag_errno(r->diag, rc, r->path, "opening filters/");
    struct io_wait wait = {r->opt.timeout_ms, r->opt.waiting, r->opt.ctx, 0};
    r->has_filters = true;
    return dir_wait(r->filters.fd, LOCK_EX, &wait, r->path,
                    "changing or repairing the store", r->diag);
}

void repair_unlock_filters(struct repair *r)
{
    if (r->has_filters)
        dir_close_guarded(&r->filters);
    r->has_filters = false;
}
