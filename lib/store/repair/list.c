/* The input of a repair: the segments with their records, and the files in filters/. */
#include "lib/store/repair/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- segments ---- */

int repair_add_segment(struct repair *r, const void *name, size_t name_bytes,
                       const uint8_t *before, size_t before_bytes,
                       struct repair_segment **out)
{
    if (r->n_segments == r->max_segments) {
        size_t max = r->max_segments ? r->max_segments * 2 : 64;
        void *more = realloc(r->segments, max * sizeof *r->segments);
        if (!more)
            return ENOMEM;
        r->segments = more;
        r->max_segments = max;
    }
    /* Name, the record as it is, and room for any that it may become. */
    uint8_t *memory = malloc(name_bytes + before_bytes + RECORD_MAX_BYTES);
    if (!memory)
        return ENOMEM;
    struct repair_segment *s = &r->segments[r->n_segments++];
    *s = (struct repair_segment){.name = memory, .name_bytes = name_bytes};
    memcpy(memory, name, name_bytes);
    s->value = memory + name_bytes + before_bytes;
    if (before) {
        s->before = memory + name_bytes;
        s->before_bytes = before_bytes;
        memcpy(s->before, before, before_bytes);
    }
    *out = s;
    return 0;
}

void repair_set_record(struct repair_segment *s, const struct record *record)
{
    s->value_bytes = record_encode(record, s->name, s->name_bytes, s->value);
    s->changed = true;
}

static int read_record(void *ctx, const void *name, size_t name_bytes,
                       const uint8_t *value, size_t value_bytes)
{
    struct repair_segment *s;
    return repair_add_segment(ctx, name, name_bytes, value, value_bytes, &s);
}

static void forget_segments(struct repair *r)
{
    for (size_t i = 0; i < r->n_segments; i++)
        free(r->segments[i].name);
    r->n_segments = 0;
}

static int read_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct repair *r = ctx;
    forget_segments(r);
    return catalog_each(t, read_record, r, diag);
}

int repair_read_records(struct catalog *c, struct repair *r, struct tamis_diag *diag)
{
    int rc = catalog_read(c, read_in, r, diag);
    if (rc)
        forget_segments(r);
    return rc;
}

/* ---- files ---- */

static int compare_files(const void *a, const void *b)
{
    const struct repair_file *left = a, *right = b;
    return strcmp(left->name, right->name);
}

struct repair_file *repair_find_file(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    struct repair_file key;
    memset(&key, 0, sizeof key);
    filter_file_name(uuid, key.name);
    return r->n_files ? bsearch(&key, r->files, r->n_files, sizeof key, compare_files)
                      : NULL;
}

static struct repair_file *find_dead(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES];
    dead_file_name(uuid, name);
    for (size_t i = 0; i < r->n_files; i++)
        if (r->files[i].dead && strcmp(r->files[i].name, name) == 0)
            return &r->files[i];
    return NULL;
}

void repair_name_pack(struct repair *r, const uint8_t uuid[UUID_BYTES])
{
    struct repair_file *f = repair_find_file(r, uuid), *dead = find_dead(r, uuid);
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

bool repair_name_parts(struct repair *r, const struct repair_segment *s)
{
    unsigned n;
    const struct part_disk *p =
        record_parts(s->before, s->before_bytes, s->name, s->name_bytes, &n);
    for (unsigned i = 0; i < n; i++) {
        struct repair_file *f = repair_find_file(r, p[i].uuid);
        if (f)
            f->named = true;
        if (p[i].kind != PART_FILE && p[i].kind != PART_LIST)
            repair_name_pack(r, p[i].uuid);
    }
    return p != NULL;
}

void repair_settle_tombstones(struct repair *r, bool has_catalog)
{
    for (size_t i = 0; i < r->n_files; i++) {
        struct repair_file *f = &r->files[i];
        if (!f->dead || f->temporary || f->named)
            continue;
        const struct repair_file *pack = repair_find_file(r, f->uuid);
        f->aside = pack ? pack->aside : !has_catalog;
        f->unlink = !pack && has_catalog;
        if (!pack && !has_catalog)
            repair_tell(r, TAMIS_REPAIR_QUARANTINED, NULL, f->name,
                        "the pack of these tombstones is not there: the list lacks "
                        "its segments");
    }
}

static int add_file(struct repair *r, const char *name)
{
    struct repair_file f;
    const char *rest;
    struct stat st;
    memset(&f, 0, sizeof f);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    f.dead = dead_name_parse(name, f.uuid, &rest);
    bool ours = f.dead || filter_name_parse(name, f.uuid, &rest);
    f.temporary = ours && *rest && filter_rest_temporary(rest);
    if (!ours || (*rest && !f.temporary)) {
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, name,
                    "left alone: not a name of tamis");
        return 0;
    }
    if (fstatat(r->filters.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        f.strange = !S_ISREG(st.st_mode);
    else if (errno == ENOENT)
        return 0; /* it has gone meanwhile */
    if (f.strange && (f.dead || f.temporary)) {
        repair_tell_stray(r, name);
        return 0;
    }
    if (r->n_files == r->max_files) {
        size_t max = r->max_files ? r->max_files * 2 : 64;
        void *more = realloc(r->files, max * sizeof *r->files);
        if (!more)
            return ENOMEM;
        r->files = more;
        r->max_files = max;
    }
    memcpy(f.name, name, strlen(name) + 1);
    r->files[r->n_files++] = f;
    return 0;
}

int repair_refuse_draft(struct repair *r, int dir, const char *filters,
                        struct tamis_diag *diag)
{
    DIR *d = dir_list(dir, filters);
    if (!d)
        return diag_errno(diag, errno, r->path, "filters/");
    const struct dirent *e;
    bool draft = false;
    while (!draft && (e = readdir(d)))
        draft = filter_file_is_draft(dirfd(d), e->d_name);
    closedir(d);
    return draft ? diag_fail(diag, TAMIS_ERR_VERSION, r->path,
                             "filters/ has files of the first draft of the format: "
                             "make the store anew, elsewhere; nothing in it is needed")
                 : 0;
}

int repair_list_files(struct repair *r, struct tamis_diag *diag)
{
    DIR *d = dir_list(r->filters.fd, ".");
    int rc = 0;
    if (!d)
        return diag_errno(diag, errno, r->path, "listing filters/");
    errno = 0;
    for (const struct dirent *e; !rc && (e = readdir(d)); errno = 0)
        rc = add_file(r, e->d_name);
    if (!rc)
        rc = errno;
    closedir(d);
    if (rc)
        return diag_errno(diag, rc, r->path, "listing filters/");
    if (r->n_files)
        qsort(r->files, r->n_files, sizeof *r->files, compare_files);
    return 0;
}

/* ---- which of the files does no record name? ---- */

static void tell_orphans(struct repair *r)
{
    for (size_t i = 0; i < r->n_segments; i++)
        if (!repair_name_parts(r, &r->segments[i]))
            r->unsure = true;
    for (size_t i = 0; i < r->n_files; i++)
        if (r->files[i].named || (r->unsure && !r->files[i].temporary))
            continue;
        else if (r->files[i].strange)
            repair_tell_stray(r, r->files[i].name);
        else
            repair_tell(r, TAMIS_REPAIR_NOTED, NULL, r->files[i].name, "%s",
                        r->files[i].temporary ? "was never finished"
                                              : "no record names it");
}

int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag)
{
    struct tamis_repair_report report = {0};
    struct repair r = {.opt = {.found = fn, .ctx = ctx, .timeout_ms = -1},
                       .report = &report};
    if (n_orphans)
        *n_orphans = 0;
    int rc = store_usable(store, false, diag);
    if (rc)
        return rc;
    struct catalog *c = store->catalog;
    r.path = c->path;
    /* Edits have files that nothing names yet, and hold filters/ shared as long. */
    int before = io_hold_cancel(); /* or filters/ would stay locked */
    rc = repair_lock_filters(&r, c->filters->fd, ".", diag);
    if (!rc)
        rc = repair_refuse_draft(&r, c->filters->fd, ".", diag);
    if (!rc)
        rc = repair_read_records(c, &r, diag);
    if (!rc)
        rc = repair_list_files(&r, diag);
    if (!rc)
        tell_orphans(&r);
    repair_unlock_filters(&r);
    if (!rc && r.untold)
        rc = diag_errno(diag, ENOMEM, c->path, "comparing files and records");
    repair_report(&r);
    for (size_t i = 0; i < r.n_files && n_orphans && !rc; i++)
        *n_orphans += !r.files[i].named && (r.files[i].temporary || !r.unsure);
    for (size_t i = 0; i < r.n_segments; i++)
        free(r.segments[i].name);
    free(r.segments);
    free(r.files);
    io_let_cancel(before);
    return rc;
}
