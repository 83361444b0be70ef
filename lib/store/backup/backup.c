/* Backup: a store as of one moment, in a new directory. README.md has the order of
 * steps. Growing files are copied after the moment, so that none is behind the bounds
 * that its record had (R5). */
#include "lib/store/backup/inside.h"

/* ---- files ---- */

/* error: the errno that kept it from being copied, which says nothing of its bytes. */
static void tell(const struct backup *b, const struct backup_item *it, int error,
                 const char *what)
{
    char file[FILTER_NAME_BYTES], path[FILTER_NAME_BYTES + 8] = "", text[420];
    bool shared = backup_is_shared(it);
    (it->no_dead ? dead_file_name : filter_file_name)(it->uuid, file);
    size_t n = it->n_segments + it->n_named;
    if (shared && n)
        listing_say(n, what, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s%s",
                 it->state == RECORD_OF_LIST ? "its list: " : "", what);
    if (backup_has_file(it))
        snprintf(path, sizeof path, "filters/%s", file);
    struct tamis_repair_finding f = {.action_name = "noted",
                                     .damage = error == 0,
                                     .error = error,
                                     .name = shared ? NULL : it->name,
                                     .name_bytes = shared ? 0 : it->name_bytes,
                                     .file = path,
                                     .what = text};
    if (b->opt.found)
        b->opt.found(b->opt.ctx, &f);
}

/* Why a file cannot be opened. *code 0: it is damage. */
static const char *why_unopened(int *code, const char **more)
{
    int failure = *code;
    if (failure == ENOENT)
        return *code = 0, "the file is missing";
    if (io_not_regular(failure))
        return "not a regular file";
    if (failure < 0)
        return tamis_strerror(failure);
    *more = tamis_strerror(failure);
    return "opening it";
}

/* what NULL: the code is that of opening it. */
static void tell_left(struct backup *b, const struct backup_item *it, int code,
                      const char *what, const char *more)
{
    char text[400];
    if (!what)
        what = why_unopened(&code, &more);
    snprintf(text, sizeof text, "left out, %s there: %s%s%s",
             it->state == RECORD_OF_LIST  ? "its segment is without a list"
             : backup_is_shared(it)       ? "its segments are MAYBE"
             : backup_has_its_list(b, it) ? "'tamis repair' makes it anew from its list"
                                          : "its segment is without a filter",
             what, *more ? ": " : "", more);
    tell(b, it, code > 0 || code == TAMIS_ERR_VERSION ? code : 0, text);
    b->report->n_left++;
}

/* The copy's record of a segment is without the filter or list that is not in it. */
static int leave_out(struct backup *b, struct backup_item *it, int code,
                     const char *what, const char *more)
{
    bool list = it->state == RECORD_OF_LIST;
    struct backup_item *segment = list ? it - 1 : it;
    struct record r;
    tell_left(b, it, code, what, more);
    backup_record(segment, &r);
    if (backup_is_shared(it) || backup_has_its_list(b, it) || r.ro_compat)
        return 0; /* not ours to change; its file is missing there */
    if (list)
        record_unlist(&r);
    else
        record_make_bare(&r);
    return backup_set_record(segment, &r);
}

static int copy_item(struct backup *b, const struct backup_item *it,
                     struct copied *done, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct record r;
    backup_record(it, &r);
    filter_file_name(it->uuid, name);
    filters_dir_path(b->catalog->filters, name, path);
    int to = openat(b->filters, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (to < 0 && errno == EEXIST) {
        *done = (struct copied){.left = "another segment has the same file"};
        return 0;
    }
    if (to < 0)
        return diag_errno(diag, errno, b->path, "creating a file");
    int rc = backup_copy(b->catalog, &r, it->from, to, path, done);
    close(to);
    if (!rc && !done->left && it->dead)
        rc = dead_create(b->filters, it->uuid, it->table_digest, it->n_columns,
                         it->dead + DEAD_HEAD_BYTES, false);
    if (rc)
        return rc < 0 ? diag_fail(diag, rc, path, "%s", done->diag.what)
                      : diag_errno(diag, rc, b->path, "copying a filter");
    if (done->left)
        io_calls.unlinkat(b->filters, name, 0);
    return 0;
}

static void close_item(struct backup_item *it)
{
    close(it->from);
    it->from = -1;
}

static void open_item(const struct backup *b, struct backup_item *it)
{
    char name[FILTER_NAME_BYTES];
    int dir = b->catalog->filters->fd;
    filter_file_name(it->uuid, name);
    it->failure = io_open_beneath(dir, name, O_RDONLY, &it->from);
    if (it->failure || !backup_is_shared(it))
        return;
    it->failure = backup_open_shared(it, dir);
    if (it->failure)
        close_item(it);
}

/* ---- sealed files, which are most of it, while everything goes on ---- */

/* A file that can't be opened now is tried again once it is known to be listed. */
static int copy_one_early(struct backup *b, struct backup_item *it,
                          struct tamis_diag *diag)
{
    struct copied done;
    if (names_get(&b->by_uuid, it->uuid, UUID_BYTES))
        return 0; /* another record of it */
    open_item(b, it);
    if (it->failure)
        return 0;
    int rc = copy_item(b, it, &done, diag);
    if (!rc && done.left) /* an error of the moment? */
        rc = copy_item(b, it, &done, diag);
    close_item(it);
    if (rc)
        return rc;
    rc = backup_note_early(b, it, &done);
    return rc ? diag_errno(diag, rc, b->catalog->path, "listing the copies") : 0;
}

/* Until few are new: those of the last pass, and growing ones, are opened all at once.
 * Damage is told later, should the segment still be there. */
static int copy_early(struct backup *b, struct tamis_diag *diag)
{
    enum { FEW = 16, PASSES = 16 };
    size_t n_before;
    int rc = 0, pass = 0;
    do {
        n_before = b->n_early;
        rc = catalog_read(b->catalog, backup_list_new, b, diag);
        for (size_t i = 0; i < b->n && !rc; i++)
            rc = copy_one_early(b, &b->items[i], diag);
    } while (!rc && b->n_early - n_before > FEW && ++pass < PASSES);
    if (!rc) /* else the copy just begun must still be removed */
        backup_free_items(b);
    return rc;
}

/* ---- the moment ---- */

static int open_rest(struct backup *b, struct tamis_diag *diag)
{
    for (size_t i = 0; i < b->n; i++) {
        struct backup_item *it = &b->items[i];
        if (!backup_has_file(it) || it->failure)
            continue;
        it->early = backup_find_early(b, it);
        if (it->early)
            continue;
        open_item(b, it);
        int rc = it->failure;
        if (rc == EMFILE || rc == ENFILE || rc == ENOMEM)
            return diag_errno(diag, rc, b->catalog->path,
                              "opening all shared files, growing filters, and what "
                              "was just sealed, at once");
    }
    return 0;
}

struct moment {
    struct backup *backup;
    uint64_t number; /* of the transaction */
};

/* A feature that forbids this version to write may be one of the whole store, such as
 * another database: a copy without it would be no copy. One that may be ignored is left
 * behind, with its bytes. */
static int keep_meta(struct catalog_txn *t, struct backup *b, struct tamis_diag *diag)
{
    int rc = catalog_meta(t, &b->meta, diag);
    if (!rc && b->meta.ro_compat)
        rc = diag_fail(diag, TAMIS_ERR_VERSION, b->catalog->path,
                       "the store has a feature that this tamis cannot copy");
    b->meta.compat = 0;
    return rc;
}

static int moment_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct moment *m = ctx;
    struct backup *b = m->backup;
    m->number = catalog_txn_number(t);
    int rc = keep_meta(t, b, diag);
    if (!rc)
        rc = backup_list_all(t, b, diag);
    if (!rc)
        rc = backup_list_shared(t, b, diag);
    return rc ? rc : open_rest(b, diag);
}

/* A reader cannot hold off writers: it tries again until nothing was committed between
 * the list and the last file that it opened. */
static int take_list_reading(struct backup *b, struct moment *m,
                             struct tamis_diag *diag)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        int rc = catalog_read(b->catalog, moment_in, m, diag);
        if (rc || catalog_is_at(b->catalog, m->number))
            return rc;
    }
    return diag_fail(diag, TAMIS_ERR_BUSY, b->catalog->path,
                     "the list of segments changes all the time, and the store is open "
                     "for reading only");
}

static int take_list(struct backup *b, struct tamis_diag *diag)
{
    struct moment m = {.backup = b};
    if (b->catalog->read_only)
        return take_list_reading(b, &m, diag);
    return catalog_write(b->catalog, &b->wait, 0, moment_in, &m, NULL, diag);
}

/* Removes early copies of filters that were dropped since. */
static void remove_dropped(struct backup *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->items[i].early)
            b->items[i].early->listed = true;
    for (size_t i = 0; i < b->n_early; i++)
        if (!b->early[i]->listed && !b->early[i]->left)
            filter_file_unlink(b->filters, b->early[i]->uuid);
}

/* ---- the rest ---- */

static void count_copy(struct backup *b, const struct backup_item *it, uint64_t n_bytes,
                       bool damaged)
{
    b->report->n_files++;
    b->report->n_bytes += n_bytes;
    b->report->n_damaged += damaged;
    if (damaged)
        tell(b, it, 0, "pages fail their check: copied as they are");
}

static int finish_item(struct backup *b, struct backup_item *it,
                       struct tamis_diag *diag)
{
    struct copied done;
    int rc = 0;
    if (it->early && it->early->left)
        rc = leave_out(b, it, it->early->code, it->early->left, "");
    else if (it->early)
        count_copy(b, it, it->early->n_bytes, it->early->damaged);
    else if (it->failure)
        rc = leave_out(b, it, it->failure, NULL, "");
    if (rc)
        return diag_errno(diag, rc, b->catalog->path, "listing the copies");
    if (it->failure || it->from < 0)
        return 0;
    rc = copy_item(b, it, &done, diag);
    close_item(it);
    if (rc)
        return rc;
    /* The file is copied: repair may list its segments anew by it (SPEC.md §15). */
    if (!done.left && it->no_dead)
        tell_left(b, it, it->no_dead, NULL, "");
    if (!done.left)
        count_copy(b, it, done.n_bytes, done.n_damaged > 0);
    else if (leave_out(b, it, done.diag.code, done.left, done.diag.what) != 0)
        rc = diag_errno(diag, ENOMEM, b->catalog->path, "listing the copies");
    return rc;
}

static int copy_rest(struct backup *b, struct tamis_diag *diag)
{
    int rc = 0;
    for (size_t i = 0; i < b->n && !rc; i++) {
        struct backup_item *it = &b->items[i];
        b->report->n_segments += it->n_segments;
        if (backup_leaves_list(b, it))
            continue;
        if (it->refused) {
            tell(b, it, 0, it->refused);
            b->report->n_damaged++;
        }
        if (it->state && backup_has_file(it))
            rc = finish_item(b, it, diag);
    }
    return rc;
}

/* ---- all of it ---- */

int backup_filters(struct backup *b, struct tamis_diag *diag)
{
    int rc = copy_early(b, diag);
    if (!rc)
        rc = take_list(b, diag);
    if (rc)
        return rc;
    remove_dropped(b);
    return copy_rest(b, diag);
}
