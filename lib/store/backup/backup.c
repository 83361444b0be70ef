/* Backup: a store as of one moment, in a new directory. README.md has the order of
 * steps. Growing files are copied after the moment, so that none is behind the bounds
 * that its record had (R5).
 *
 * A pack record and the chunks of bits beside it are items, as a segment is. So is a
 * pack whose pack record is lost, for its columns may be listed anew. Tombstones are
 * copied with their pack. */
#include "lib/store/backup/inside.h"

static bool backup_has_file(const struct backup_item *it)
{
    return it->state >= RECORD_GROWING && !it->elsewhere;
}
static bool backup_is_shared(const struct backup_item *it)
{
    return it->state == RECORD_OF_PACK;
}

/* ---- the items ---- */

static void close_item(struct backup_item *it)
{
    if (it->from >= 0)
        close(it->from);
    it->from = -1;
}

void backup_free_items(struct backup *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->items[i].memory);
        free(b->items[i].dead);
        close_item(&b->items[i]);
    }
    free(b->items);
    b->items = NULL;
    b->n = b->max = 0;
}

static int set_value(struct backup_item *it, struct piece name, struct piece value,
                     const struct record *r)
{
    uint8_t *memory = malloc(name.n + value.n);
    if (!memory)
        return ENOMEM;
    memcpy(memory, name.at, name.n);
    memcpy(memory + name.n, value.at, value.n);
    free(it->memory);
    it->memory = memory;
    it->name = (struct piece){memory, name.n};
    it->value = (struct piece){memory + name.n, value.n};
    it->state = r->state;
    it->elsewhere = record_packed(r);
    it->table_digest = r->table_digest;
    memcpy(it->uuid, r->uuid, UUID_BYTES);
    return 0;
}

/* Adds an item at the end of b->items; ENOMEM. */
static int backup_add_item(struct backup *b, struct piece name, struct piece value,
                           const struct record *r)
{
    void *items = room_for(b->items, b->n + 1, &b->max, sizeof *b->items);
    if (!items)
        return ENOMEM;
    b->items = items;
    struct backup_item *it = &b->items[b->n];
    *it = (struct backup_item){.db = CATALOG_SEGMENTS, .from = -1};
    if (!r->state)
        it->refused = "its record is damaged: copied as it is, without its file";
    int rc = set_value(it, name, value, r);
    b->n += !rc;
    return rc;
}

/* The list of a segment that was just added, or might have been. */
static int add_list(struct backup *b, struct piece name, struct piece value,
                    const struct record *r)
{
    struct record list = record_of_list(r);
    return backup_add_item(b, name, value, &list);
}

static int add_any(void *ctx, struct piece name, struct piece value)
{
    struct record r = {0};
    record_decode(value.at, value.n, name.at, name.n, &r);
    struct backup *b = ctx;
    int rc = backup_add_item(b, name, value, &r);
    if (rc)
        return rc;
    b->items[b->n - 1].n_segments = 1;
    return record_listed(&r) ? add_list(b, name, value, &r) : 0;
}

static int backup_add_new(void *ctx, struct piece name, struct piece value)
{
    struct backup *b = ctx;
    struct record r = {0};
    record_decode(value.at, value.n, name.at, name.n, &r);
    if (record_listed(&r) && !names_get(&b->by_uuid, r.list_uuid, UUID_BYTES)) {
        int rc = add_list(b, name, value, &r);
        if (rc)
            return rc;
    }
    if (r.state != RECORD_SEALED || record_packed(&r) ||
        names_get(&b->by_uuid, r.uuid, UUID_BYTES))
        return 0;
    return backup_add_item(b, name, value, &r);
}

/* Lists segments whose sealed files were not looked at. */
static int backup_list_new(struct catalog_txn *t, void *ctx)
{
    backup_free_items(ctx);
    return catalog_each(t, backup_add_new, ctx);
}

/* Decodes the record of an item with a file. A list or a shared file gets a record as
 * if it were a segment's filter. */
static void backup_record(const struct backup_item *it, struct record *r)
{
    *r = (struct record){.state = it->state, .table_digest = it->table_digest};
    memcpy(r->uuid, it->uuid, UUID_BYTES);
    if (backup_is_shared(it))
        return;
    record_decode(it->value.at, it->value.n, it->name.at, it->name.n, r);
    if (it->state == RECORD_OF_LIST)
        *r = record_of_list(r);
}

/* Is the segment's list in the copy, as far as is known by now? */
static bool backup_has_its_list(const struct backup *b, const struct backup_item *it)
{
    const struct backup_item *list = it + 1;
    return it->state != RECORD_OF_LIST && list < b->items + b->n &&
           list->state == RECORD_OF_LIST && !list->failure &&
           !(list->early && list->early->left);
}

/* Is it a list that its segment's record no longer names, because the segment is there
 * without a filter? Then the list goes, too. */
static bool backup_leaves_list(const struct backup *b, struct backup_item *it)
{
    struct record r;
    if (it->state != RECORD_OF_LIST)
        return false;
    backup_record(it - 1, &r);
    if (record_listed(&r))
        return false;
    if (it->early && !it->early->left)
        filter_file_unlink(b->filters, it->uuid);
    close_item(it);
    return true;
}

/* ---- files copied early ---- */

static void free_early(struct backup_early *e)
{
    free(e->left);
    free(e);
}

static int backup_note_early(struct backup *b, const struct backup_item *it,
                             const struct copied *done)
{
    void *early = room_for(b->early, b->n_early + 1, &b->max_early,
                           sizeof(struct backup_early *));
    struct backup_early *e = early ? calloc(1, sizeof *e) : NULL;
    char left[300];
    int rc = 0;
    b->early = early ? early : b->early;
    if (!e)
        return ENOMEM;
    memcpy(e->uuid, it->uuid, UUID_BYTES);
    e->table_digest = it->table_digest;
    e->n_bytes = done->n_bytes;
    e->damaged = done->n_damaged > 0;
    e->code = done->diag.code;
    snprintf(left, sizeof left, "%s%s%s", done->left ? done->left : "",
             done->diag.what[0] ? ": " : "", done->diag.what);
    if (done->left && !(e->left = strdup(left)))
        rc = ENOMEM;
    if (!rc)
        rc = names_set(&b->by_uuid, e->uuid, UUID_BYTES, (uint32_t)b->n_early + 1);
    if (rc)
        free_early(e);
    else
        b->early[b->n_early++] = e;
    return rc;
}

void backup_free_early(struct backup *b)
{
    for (size_t i = 0; i < b->n_early; i++)
        free_early(b->early[i]);
    free(b->early);
    names_clear(&b->by_uuid);
}

/* ---- packs ---- */

static const char refused[] = "its pack record is lost or damaged: copied all the same";

static int add_of_pack(void *ctx, struct piece key, struct piece value)
{
    struct backup *b = ctx;
    struct record r = {.state = RECORD_NO_FILTER};
    struct listing l = {0};
    if (key.n == UUID_BYTES) {
        listing_decode(value.at, value.n, key.at, &l); /* zeros if it is refused */
        r = (struct record){.state = RECORD_OF_PACK, .table_digest = l.table_digest};
        memcpy(r.uuid, key.at, UUID_BYTES);
    }
    int rc = backup_add_item(b, key, value, &r);
    if (rc)
        return rc;
    struct backup_item *it = &b->items[b->n - 1];
    it->db = CATALOG_PACKS;
    it->n_segments = l.n_listed;
    it->n_named = l.n_overridden;
    it->refused =
        backup_is_shared(it) && !l.n_listed && !l.n_overridden ? refused : NULL;
    return 0;
}

/* Sets *pack to the pack of a chunk or a segment record; false: of another item. */
static bool names_pack_of(const struct backup_item *it, struct record *pack)
{
    struct record r;
    *pack = (struct record){.state = RECORD_OF_PACK};
    if (it->db == CATALOG_PACKS && it->name.n == CHUNK_KEY_BYTES) {
        memcpy(pack->uuid, it->name.at, UUID_BYTES);
        return true;
    }
    if (!it->elsewhere || it->state == RECORD_OF_LIST)
        return false;
    backup_record(it, &r);
    memcpy(pack->uuid, r.place.uuid, UUID_BYTES);
    return true;
}

static int add_lost_packs(struct backup *b)
{
    struct names known = {0}; /* by the items' keys: items move */
    size_t n = b->n;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        if (backup_is_shared(&b->items[i]))
            rc = names_set(&known, b->items[i].name.at, UUID_BYTES, 1);
    for (size_t i = 0; i < n && !rc; i++) {
        struct record pack;
        if (!names_pack_of(&b->items[i], &pack) ||
            names_get(&known, pack.uuid, UUID_BYTES))
            continue;
        rc = backup_add_item(b, (struct piece){pack.uuid, UUID_BYTES},
                             (struct piece){pack.uuid, 0}, &pack);
        if (rc)
            break;
        struct backup_item *it = &b->items[b->n - 1];
        it->lost = true;
        it->refused = refused;
        rc = names_set(&known, it->name.at, UUID_BYTES, 1);
    }
    names_clear(&known);
    return rc;
}

/* Call it in a transaction, once all segments are listed. It lists the files that they
 * share, and the catalog's records of these files. */
static int backup_list_shared(struct catalog_txn *t, struct backup *b)
{
    int rc = catalog_each_in(t, CATALOG_PACKS, add_of_pack, b);
    if (rc)
        return rc;
    rc = add_lost_packs(b);
    return rc ? diag_errno(b->diag, rc, t->catalog->path, "listing the packs") : 0;
}

/* Reads the tombstones of a shared file, once the file is open. An errno: not now. */
static int backup_open_shared(struct backup_item *it, int dir)
{
    struct header h;
    if (!it->table_digest && !header_load(it->from, true, 0, 0, "", &h, NULL))
        it->table_digest = commit_table_digest(&h.commit);
    int rc = dead_load(dir, it->uuid, it->table_digest, &it->dead, &it->n_columns);
    if (io_is_short(rc))
        return rc;
    it->no_dead = rc;
    return 0;
}

/* ---- files ---- */

/* error: the errno that kept it from being copied, which says nothing of its bytes. */
static void backup_tell(const struct backup *b, const struct backup_item *it, int error,
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
                                     .name = shared ? NULL : it->name.at,
                                     .name_bytes = shared ? 0 : it->name.n,
                                     .file = path,
                                     .what = text};
    if (b->opt.found)
        b->opt.found(b->opt.ctx, &f);
}

/* what NULL: the code is that of opening it. */
static void tell_left(struct backup *b, const struct backup_item *it, int code,
                      const char *what, const char *more)
{
    char text[400];
    if (!what && code == ENOENT) {
        code = 0; /* it is damage */
        what = "the file is missing";
    } else if (!what && io_not_regular(code)) {
        what = "not a regular file";
    } else if (!what && code < 0) {
        what = tamis_strerror(code);
    } else if (!what) {
        what = "opening it";
        more = tamis_strerror(code);
    }
    snprintf(text, sizeof text, "left out, %s there: %s%s%s",
             it->state == RECORD_OF_LIST  ? "its segment is without a list"
             : backup_is_shared(it)       ? "its segments are MAYBE"
             : backup_has_its_list(b, it) ? "'tamis repair' makes it anew from its list"
                                          : "its segment is without a filter",
             what, *more ? ": " : "", more);
    backup_tell(b, it, code > 0 || code == TAMIS_ERR_VERSION ? code : 0, text);
    b->report->n_left++;
}

/* The copy's record of a segment is without the filter or list that is not in it. */
static int leave_out(struct backup *b, struct backup_item *it, int code,
                     const char *what, const char *more)
{
    bool list = it->state == RECORD_OF_LIST;
    struct backup_item *segment = list ? it - 1 : it;
    uint8_t value[RECORD_MAX_BYTES];
    struct record r;
    tell_left(b, it, code, what, more);
    backup_record(segment, &r);
    if (backup_is_shared(it) || backup_has_its_list(b, it) || r.ro_compat)
        return 0; /* not ours to change; its file is missing there */
    if (list)
        record_unlist(&r);
    else
        record_make_bare(&r);
    size_t n = record_encode(&r, segment->name.at, segment->name.n, value);
    int rc = set_value(segment, segment->name, (struct piece){value, n}, &r);
    return rc ? diag_errno(b->diag, rc, b->catalog->path, "listing the copies") : 0;
}

static int copy_item(struct backup *b, const struct backup_item *it,
                     struct copied *done)
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
        return diag_errno(b->diag, errno, b->path, "creating a file");
    int rc = backup_copy(b->catalog, &r, it->from, to, path, done);
    close(to);
    if (!rc && !done->left && it->dead)
        rc = dead_create(b->filters, it->uuid, it->table_digest, it->n_columns,
                         it->dead + DEAD_HEAD_BYTES, false);
    if (rc)
        return rc < 0 ? diag_fail(b->diag, rc, path, "%s", done->diag.what)
                      : diag_errno(b->diag, rc, b->path, "copying a filter");
    if (done->left)
        io_calls.unlinkat(b->filters, name, 0);
    return 0;
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
static int copy_one_early(struct backup *b, struct backup_item *it)
{
    struct copied done;
    if (names_get(&b->by_uuid, it->uuid, UUID_BYTES))
        return 0; /* another record of it */
    open_item(b, it);
    if (it->failure)
        return 0;
    int rc = copy_item(b, it, &done);
    if (!rc && done.left) /* an error of the moment? */
        rc = copy_item(b, it, &done);
    close_item(it);
    if (rc)
        return rc;
    rc = backup_note_early(b, it, &done);
    return rc ? diag_errno(b->diag, rc, b->catalog->path, "listing the copies") : 0;
}

/* Until few are new: those of the last pass, and growing ones, are opened all at once.
 * Damage is told later, should the segment still be there. */
static int copy_early(struct backup *b)
{
    enum { FEW = 16, PASSES = 16 };
    size_t n_before;
    int rc = 0, pass = 0;
    do {
        n_before = b->n_early;
        rc = catalog_read(b->catalog, backup_list_new, b, b->diag);
        for (size_t i = 0; i < b->n && !rc; i++)
            rc = copy_one_early(b, &b->items[i]);
    } while (!rc && b->n_early - n_before > FEW && ++pass < PASSES);
    if (!rc) /* else the copy just begun must still be removed */
        backup_free_items(b);
    return rc;
}

/* ---- the moment ---- */

static int open_rest(struct backup *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct backup_item *it = &b->items[i];
        if (!backup_has_file(it) || it->failure)
            continue;
        /* The early copy with this UUID and digest: its check holds for this record. */
        uint32_t at = names_get(&b->by_uuid, it->uuid, UUID_BYTES);
        if (at && it->state >= RECORD_SEALED &&
            it->table_digest == b->early[at - 1]->table_digest) {
            it->early = b->early[at - 1];
            continue;
        }
        open_item(b, it);
        int rc = it->failure;
        if (io_is_short(rc))
            return diag_errno(b->diag, rc, b->catalog->path,
                              "opening all shared files, growing filters, and what "
                              "was just sealed, at once");
    }
    return 0;
}

static int moment_in(struct catalog_txn *t, void *ctx)
{
    struct backup *b = ctx;
    b->transaction = catalog_txn_number(t);
    backup_free_items(b);
    int rc = catalog_meta(t, &b->meta);
    /* A feature that forbids this version to write may be one of the whole store, such
     * as another database: a copy without it would be no copy. One that may be ignored
     * is left behind, with its bytes. */
    if (!rc && b->meta.ro_compat)
        rc = diag_fail(t->diag, TAMIS_ERR_VERSION, b->catalog->path,
                       "the store has a feature that this tamis cannot copy");
    b->meta.compat = 0;
    if (!rc)
        rc = catalog_each(t, add_any, b);
    if (!rc)
        rc = backup_list_shared(t, b);
    return rc ? rc : open_rest(b);
}

/* A reader cannot hold off writers: it tries again until nothing was committed between
 * the list and the last file that it opened. */
static int take_list_reading(struct backup *b)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        int rc = catalog_read(b->catalog, moment_in, b, b->diag);
        if (rc || catalog_is_at(b->catalog, b->transaction))
            return rc;
    }
    return diag_fail(b->diag, TAMIS_ERR_BUSY, b->catalog->path,
                     "the list of segments changes all the time, and the store is open "
                     "for reading only");
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
        backup_tell(b, it, 0, "pages fail their check: copied as they are");
}

static int finish_item(struct backup *b, struct backup_item *it)
{
    struct copied done;
    if (it->early && it->early->left)
        return leave_out(b, it, it->early->code, it->early->left, "");
    if (it->early)
        count_copy(b, it, it->early->n_bytes, it->early->damaged);
    else if (it->failure)
        return leave_out(b, it, it->failure, NULL, "");
    if (it->from < 0)
        return 0;
    int rc = copy_item(b, it, &done);
    close_item(it);
    if (rc)
        return rc;
    if (done.left)
        return leave_out(b, it, done.diag.code, done.left, done.diag.what);
    /* The file is copied: repair may list its segments anew by it (SPEC.md §15). */
    if (it->no_dead)
        tell_left(b, it, it->no_dead, NULL, "");
    count_copy(b, it, done.n_bytes, done.n_damaged > 0);
    return 0;
}

static int copy_rest(struct backup *b)
{
    int rc = 0;
    for (size_t i = 0; i < b->n && !rc; i++) {
        struct backup_item *it = &b->items[i];
        b->report->n_segments += it->n_segments;
        if (backup_leaves_list(b, it))
            continue;
        if (it->refused) {
            backup_tell(b, it, 0, it->refused);
            b->report->n_damaged++;
        }
        if (it->state && backup_has_file(it))
            rc = finish_item(b, it);
    }
    return rc;
}

/* ---- all of it ---- */

int backup_filters(struct backup *b)
{
    int rc = copy_early(b);
    if (!rc)
        rc = b->catalog->read_only
                 ? take_list_reading(b)
                 : catalog_write(b->catalog, &b->wait, 0, moment_in, b, NULL, b->diag);
    if (rc)
        return rc;
    remove_dropped(b);
    return copy_rest(b);
}
