/* Backup: a store as of one moment, in a new directory.
 *
 * Sealed files are copied first, while everything goes on. Then, in one transaction
 * that keeps edits from committing, the records are read, and what is not copied yet is
 * opened: dropped later, it can still be read. That moment is the backup's. The files
 * are copied after it, so that a growing one is never behind the bounds that its record
 * had (R5). The new catalog has the records byte for byte. */
#include "lib/store/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lists ---- */

void backup_free_items(struct backup_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(items[i].name);
        if (items[i].from >= 0)
            close(items[i].from);
    }
    free(items);
}

static int add_item(void *ctx, const void *name, size_t name_bytes,
                    const uint8_t *value, size_t value_bytes)
{
    struct backup *b = ctx;
    if (b->n == b->max) {
        size_t max = b->max ? b->max * 2 : 64;
        void *more = realloc(b->items, max * sizeof *b->items);
        if (!more)
            return ENOMEM;
        b->items = more;
        b->max = max;
    }
    uint8_t *memory = malloc(name_bytes + value_bytes + RECORD_MAX_BYTES);
    if (!memory)
        return ENOMEM;
    struct backup_item *it = &b->items[b->n++];
    memset(it, 0, sizeof *it);
    it->name = memory;
    it->value = memory + name_bytes;
    it->name_bytes = name_bytes;
    it->value_bytes = value_bytes;
    it->from = -1;
    memcpy(it->name, name, name_bytes);
    memcpy(it->value, value, value_bytes);
    record_decode(value, value_bytes, name, name_bytes, &it->record);
    return 0;
}

static int list_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct backup *b = ctx;
    backup_free_items(b->items, b->n);
    b->items = NULL;
    b->n = b->max = 0;
    return catalog_each(t, add_item, b, diag);
}

/* ---- files ---- */

static void tell(const struct backup *b, const struct backup_item *it, const char *what)
{
    char file[FILTER_NAME_BYTES], path[FILTER_NAME_BYTES + 8] = "";
    if (backup_has_file(it)) {
        filter_file_name(it->record.uuid, file);
        snprintf(path, sizeof path, "filters/%s", file);
    }
    struct tamis_repair_finding f = {.damage = 1,
                                     .name = it->name,
                                     .name_bytes = it->name_bytes,
                                     .file = path,
                                     .what = what};
    if (b->fn)
        b->fn(b->ctx, &f);
}

/* The copy's record of a segment whose filter is not in it. */
static void leave_out(struct backup *b, struct backup_item *it, const char *what,
                      const struct tamis_diag *diag)
{
    char text[300];
    snprintf(text, sizeof text,
             "left out, its segment is without a filter there: %s%s%s", what,
             diag->what[0] ? ": " : "", diag->what);
    tell(b, it, text);
    b->report->n_left++;
    struct record *r = &it->record;
    r->state = RECORD_NO_FILTER;
    memset(r->uuid, 0, sizeof r->uuid);
    r->table_digest = 0;
    r->has_range = 0;
    r->first_bytes = r->last_bytes = 0;
    r->compat &= RECORD_COMPAT_KNOWN;
    it->value_bytes = record_encode(r, it->name, it->name_bytes, it->value);
}

static int copy_item(struct backup *b, struct backup_item *it, struct copied *done,
                     struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    int to;
    filter_file_name(it->record.uuid, name);
    filters_dir_path(b->catalog->filters, name, path);
    int rc = openat(b->filters, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (rc < 0)
        return diag_errno(diag, errno, b->temp_path, "creating a file");
    to = rc;
    rc = backup_copy(b->catalog, &it->record, it->from, to, path, done);
    close(to);
    if (rc)
        return rc < 0 ? diag_fail(diag, rc, path, "%s", done->diag.what)
                      : diag_errno(diag, rc, b->temp_path, "copying a filter");
    if (done->left)
        io_calls.unlinkat(b->filters, name, 0);
    it->copied = !done->left;
    return 0;
}

static int open_item(struct backup *b, struct backup_item *it)
{
    char name[FILTER_NAME_BYTES];
    filter_file_name(it->record.uuid, name);
    return io_open_beneath(b->catalog->filters->fd, name, O_RDONLY, &it->from);
}

static void close_item(struct backup_item *it)
{
    close(it->from);
    it->from = -1;
}

/* Sealed files, which are most of it, while everything goes on. Damage is told later,
 * should the segment still be there. */
static int copy_early(struct backup *b, struct tamis_diag *diag)
{
    int rc = catalog_read(b->catalog, list_in, b, diag);
    for (size_t i = 0; i < b->n && !rc; i++) {
        struct backup_item *it = &b->items[i];
        struct copied done;
        if (it->record.state != RECORD_SEALED || open_item(b, it) != 0)
            continue;
        rc = copy_item(b, it, &done, diag);
        close_item(it);
        if (!rc && it->copied && done.n_damaged) {
            char name[FILTER_NAME_BYTES];
            filter_file_name(it->record.uuid, name);
            io_calls.unlinkat(b->filters, name, 0);
            it->copied = false;
        }
        b->report->n_bytes += it->copied ? done.n_bytes : 0;
    }
    b->early = b->items;
    b->n_early = b->n;
    b->items = NULL;
    b->n = b->max = 0;
    return rc;
}

/* ---- the moment ---- */

static int open_rest(struct backup *b, const struct names *have,
                     struct tamis_diag *diag)
{
    for (size_t i = 0; i < b->n; i++) {
        struct backup_item *it = &b->items[i];
        if (!backup_has_file(it))
            continue;
        it->copied = it->record.state == RECORD_SEALED &&
                     names_get(have, it->record.uuid, UUID_BYTES);
        if (it->copied)
            continue;
        int rc = open_item(b, it);
        if (rc == EMFILE || rc == ENFILE || rc == ENOMEM)
            return diag_errno(diag, rc, b->catalog->path,
                              "opening all growing filters at once");
    }
    return 0;
}

struct moment {
    struct backup *backup;
    const struct names *have;
};

static int moment_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct moment *m = ctx;
    int rc = catalog_meta(t, &m->backup->meta, diag);
    if (!rc)
        rc = list_in(t, m->backup, diag);
    return rc ? rc : open_rest(m->backup, m->have, diag);
}

static int take_list(struct backup *b, struct tamis_diag *diag)
{
    struct names have = {0};
    struct moment m = {b, &have};
    int rc = 0;
    for (size_t i = 0; i < b->n_early && !rc; i++)
        if (b->early[i].copied)
            rc = names_set(&have, b->early[i].record.uuid, UUID_BYTES, 1);
    if (rc)
        diag_errno(diag, rc, b->catalog->path, "listing the copies");
    else if (b->catalog->read_only) /* nobody here can hold off anyone */
        rc = catalog_read(b->catalog, moment_in, &m, diag);
    else
        rc = catalog_write(b->catalog, moment_in, &m, NULL, diag);
    names_clear(&have);
    return rc;
}

static int copy_rest(struct backup *b, struct tamis_diag *diag)
{
    struct tamis_diag none = {0};
    int rc = 0;
    for (size_t i = 0; i < b->n && !rc; i++) {
        struct backup_item *it = &b->items[i];
        struct copied done = {0};
        if (!it->record.state)
            tell(b, it, "its record is damaged: copied as it is, without its file");
        b->report->n_damaged += !it->record.state;
        if (!backup_has_file(it) || it->copied) {
            b->report->n_files += it->copied;
            continue;
        }
        if (it->from < 0) {
            leave_out(b, it, "the file is missing, or not a regular one", &none);
            continue;
        }
        rc = copy_item(b, it, &done, diag);
        close_item(it);
        if (!rc && done.left)
            leave_out(b, it, done.left, &done.diag);
        if (rc || done.left)
            continue;
        b->report->n_files++;
        b->report->n_bytes += done.n_bytes;
        b->report->n_damaged += done.n_damaged > 0;
        if (done.n_damaged)
            tell(b, it, "pages fail their check: copied as they are");
    }
    b->report->n_segments = b->n;
    return rc;
}

/* What was copied early and has been dropped since. */
static int remove_dropped(struct backup *b, struct tamis_diag *diag)
{
    struct names listed = {0};
    int rc = 0;
    for (size_t i = 0; i < b->n && !rc; i++)
        if (backup_has_file(&b->items[i]))
            rc = names_set(&listed, b->items[i].record.uuid, UUID_BYTES, 1);
    for (size_t i = 0; i < b->n_early && !rc; i++)
        if (b->early[i].copied &&
            !names_get(&listed, b->early[i].record.uuid, UUID_BYTES))
            filter_file_unlink(b->filters, b->early[i].record.uuid);
    names_clear(&listed);
    return rc ? diag_errno(diag, rc, b->catalog->path, "listing the copies") : 0;
}

/* ---- all of it ---- */

int backup_filters(struct backup *b, struct tamis_diag *diag)
{
    int rc = copy_early(b, diag);
    if (!rc)
        rc = take_list(b, diag);
    if (!rc)
        rc = copy_rest(b, diag);
    return rc ? rc : remove_dropped(b, diag);
}
