/* Brings a store up to date with a database's tables, in one edit.
 *
 * The database may be in use. Its MANIFEST, read to its end, gives the tables of one
 * moment. Tables never change, but compaction deletes them. If a table is gone, all
 * begins anew with a newer list; if that still has it, the table is lost. All begins
 * anew as well if another process has changed a segment that the edit replaces or
 * drops: each is dropped by the binding that was read.
 */
#include <inttypes.h>

#include "../talk/screen.h"
#include "fill.h"

struct attempt {
    const struct bridge *b;
    struct tamis_store *store;
    char tag[MIRROR_TAG_BYTES];
    struct ldb_list list;
    struct tamis_edit *edit; /* NULL: a dry run */
    struct tamis_snapshot *before;
    bool *is_live; /* by number of segment: a table of its name is live */
    struct bridge_report report;
    bool old_is_this; /* segments of earlier versions are this database's */
    bool overtaken;
    uint64_t gone; /* the number of a missing table; 0: none */
};

static bool has_table(const struct ldb_list *list, uint64_t number)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->tables[i].number == number)
            return true;
    return false;
}

/* Reports a failed call of the edit. */
static int edit_failed(struct attempt *a, int err, const struct tamis_diag *diag)
{
    a->overtaken = bridge_was_overtaken(err);
    return a->overtaken ? EXIT_BUSY : bridge_complain_error(err, diag, a->b->store);
}

/* ---- may this store become this database's? ---- */

static int read_table(struct attempt *a, const struct ldb_table *table,
                      struct table_file *file)
{
    bool is_gone;
    int status = table_file_read(a->b->directories[0], a->tag, table, file, &is_gone);
    if (is_gone)
        a->gone = table->number;
    return status;
}

/* The segment of this name as it was; its number, or SIZE_MAX. */
static size_t find_before(const struct attempt *a, const char *name,
                          struct tamis_segment_info *info)
{
    struct tamis_target target;
    tamis_snapshot_find(a->before, name, strlen(name), NULL, 0, 0, &target);
    if (target.slot == 0 ||
        tamis_snapshot_segment(a->before, target.slot - 1, info) != 0)
        return SIZE_MAX;
    return target.slot - 1;
}

static bool is_old(const struct tamis_segment_info *info, const struct table_file *file)
{
    return info->binding_bytes == OLD_BINDING_BYTES &&
           memcmp(info->binding, file->old_binding, OLD_BINDING_BYTES) == 0;
}

/* Does the store have a segment of an earlier version for this table? */
static bool may_be_old(const struct attempt *a, const struct ldb_table *table)
{
    static const char *const suffixes[] = {"ldb", "sst"};
    struct tamis_segment_info info;
    char name[TABLE_NAME_BYTES];
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "%06" PRIu64 ".%s", table->number, suffixes[i]);
        if (find_before(a, name, &info) != SIZE_MAX &&
            info.binding_bytes == OLD_BINDING_BYTES)
            return true;
    }
    return false;
}

/* Earlier versions mirrored one database in a store. If this database has one of its
 * tables, byte for byte, it was this one. */
static int look_for_old(struct attempt *a)
{
    for (size_t i = 0; i < a->list.n && !a->old_is_this; i++) {
        struct tamis_segment_info info;
        struct table_file file;
        if (!may_be_old(a, &a->list.tables[i]))
            continue;
        int status = read_table(a, &a->list.tables[i], &file);
        if (status == EXIT_DONE && find_before(a, file.name, &info) != SIZE_MAX)
            a->old_is_this = is_old(&info, &file);
        table_file_free(&file);
        if (status != EXIT_DONE)
            return status;
    }
    return EXIT_DONE;
}

static int admit(struct attempt *a)
{
    struct mirror_survey survey;
    int status = EXIT_DONE;
    tamis_mirror_survey(a->before, a->tag, &survey);
    if (survey.n[MIRROR_OLD] && !a->b->force)
        status = look_for_old(a);
    if (status == EXIT_DONE)
        status = bridge_admit(a->b, a->before, a->tag, &survey, a->old_is_this);
    return status;
}

/* ---- one table ---- */

struct adding {
    struct tamis_builder *builder;
    uint64_t n_keys;
    int err;
};

static int add_key(void *ctx, const void *key, size_t n_bytes)
{
    struct adding *to = ctx;
    to->n_keys++;
    to->err = tamis_builder_add_key(to->builder, key, n_bytes);
    return to->err;
}

static int add_keys(struct attempt *a, const struct ldb_table *table,
                    const struct table_file *file, struct tamis_builder *builder)
{
    char why[LDB_WHY_BYTES];
    struct adding to = {builder, 0, 0};
    enum ldb_result result =
        ldb_table_keys(file->bytes, file->n_bytes, table->range, add_key, &to, why);
    a->report.keys += to.n_keys;
    progress_advance(to.n_keys, file->n_bytes);
    if (result == LDB_STOPPED)
        return complain_add(to.err, a->b->store);
    if (result != LDB_GOOD)
        return complain(
            EXIT_DAMAGE,
            "%s/%s: damaged: %s: let LevelDB repair the database, or restore "
            "it",
            a->b->directories[0], file->name, why);
    return EXIT_DONE;
}

static int build(struct attempt *a, const struct ldb_table *table,
                 const struct table_file *file, const struct tamis_segment_options *opt)
{
    struct tamis_builder *builder = NULL;
    struct tamis_diag diag = {0};
    size_t n = strlen(file->name);
    int status = EXIT_DONE;
    int err =
        tamis_edit_builder(a->edit, file->name, n, a->b->error, opt, &builder, &diag);
    if (err == 0)
        status = add_keys(a, table, file, builder);
    if (err == 0 && status == EXIT_DONE)
        err = tamis_edit_put(a->edit, builder, &diag);
    tamis_builder_free(builder);
    return err ? edit_failed(a, err, &diag) : status;
}

/* Was the segment's filter built from exactly these bytes? */
static bool is_same(const struct tamis_segment_info *info,
                    const struct table_file *file)
{
    return info->state == TAMIS_SEGMENT_SEALED &&
           (tamis_mirror_same_file(info, file->binding) || is_old(info, file));
}

/* Is the segment of this table right in all, so that nothing need be done? */
static bool is_right(const struct tamis_segment_info *info,
                     const struct table_file *file, uint32_t rank)
{
    return info->state == TAMIS_SEGMENT_SEALED && info->rank == rank &&
           info->binding_bytes == strlen(file->binding) &&
           memcmp(info->binding, file->binding, info->binding_bytes) == 0;
}

static int put(struct attempt *a, const struct ldb_table *table,
               const struct table_file *file, size_t before, bool is_kept)
{
    struct tamis_segment_options opt = {.size = sizeof(opt),
                                        .binding = file->binding,
                                        .binding_bytes = strlen(file->binding),
                                        .rank = table->level};
    struct tamis_diag diag = {0};
    int err = 0;
    if (a->edit == NULL)
        return EXIT_DONE;
    if (before != SIZE_MAX)
        err = tamis_mirror_drop(a->edit, a->before, before, &diag);
    if (err != 0)
        return edit_failed(a, err, &diag);
    if (is_kept && tamis_mirror_put_again(a->edit, a->before, before, &opt) == 0)
        return EXIT_DONE;
    if (is_kept)
        bridge_built_after_all(&a->report);
    return build(a, table, file, &opt);
}

static int update(struct attempt *a, const struct ldb_table *table,
                  const struct table_file *file)
{
    struct tamis_segment_info was;
    size_t before = find_before(a, file->name, &was);
    bool known = before != SIZE_MAX, is_kept;
    int status = EXIT_DONE;
    if (known)
        a->is_live[before] = true;
    if (known && is_right(&was, file, table->level)) {
        a->report.kept++;
        return EXIT_DONE;
    }
    if (known)
        status = bridge_admit_replacing(a->b, a->tag, &was);
    if (status != EXIT_DONE)
        return status;
    is_kept = known && was.rank == table->level && is_same(&was, file);
    bridge_changed(&a->report,
                   is_kept ? BRIDGE_REBOUND
                   : known ? BRIDGE_REPLACED
                           : BRIDGE_BUILT,
                   file->name, known ? &was : NULL);
    *(is_kept ? &a->report.kept : &a->report.built) += 1;
    return put(a, table, file, before, is_kept);
}

static int do_table(struct attempt *a, const struct ldb_table *table)
{
    struct table_file file;
    int status = read_table(a, table, &file);
    if (status == EXIT_DONE)
        status = update(a, table, &file);
    table_file_free(&file);
    return status;
}

/* ---- the edit ---- */

/* Segments of other databases stay, unless --force is given. */
static int drop_others(struct attempt *a)
{
    struct tamis_diag diag = {0};
    for (size_t i = 0; tamis_snapshot_next(a->before, &i); i++) {
        struct tamis_segment_info info = {.state = 0};
        int err = 0;
        if (a->is_live[i])
            continue;
        tamis_snapshot_segment(a->before, i, &info);
        enum mirror_owner owner = tamis_mirror_owner(a->tag, &info);
        if (info.name == NULL || /* it may be any segment */
            (!a->b->force && owner != MIRROR_THIS && owner != MIRROR_OLD)) {
            a->report.left++;
            continue;
        }
        if (a->edit)
            err = tamis_mirror_drop(a->edit, a->before, i, &diag);
        if (err != 0)
            return edit_failed(a, err, &diag);
        bridge_dropped(&a->report, &info);
    }
    return EXIT_DONE;
}

static int begin(struct attempt *a)
{
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_current(a->store, &a->before, &diag);
    if (err == 0 && !a->b->dry_run)
        err = tamis_edit_begin(a->store, NULL, &a->edit, &diag);
    if (err != 0)
        return bridge_complain_error(err, &diag, a->b->store);
    a->is_live =
        memory_or_exit(calloc(tamis_snapshot_n_numbers(a->before) + 1, sizeof(bool)));
    return admit(a);
}

static int commit(struct attempt *a)
{
    struct tamis_diag diag = {0};
    int err = a->edit ? tamis_edit_commit(a->edit, &diag) : 0;
    if (err != TAMIS_ERR_BUSY) /* else it is to be aborted */
        a->edit = NULL;
    return err ? edit_failed(a, err, &diag) : EXIT_DONE;
}

static int try_once(struct attempt *a)
{
    uint64_t n_bytes = 0;
    int status = begin(a);
    for (size_t i = 0; i < a->list.n; i++)
        n_bytes += a->list.tables[i].n_bytes;
    progress_start("tables", n_bytes);
    for (size_t i = 0; i < a->list.n && status == EXIT_DONE; i++)
        status = do_table(a, &a->list.tables[i]);
    if (status == EXIT_DONE)
        status = drop_others(a);
    if (status == EXIT_DONE)
        status = commit(a);
    tamis_edit_abort(a->edit);
    tamis_snapshot_release(a->before);
    free(a->is_live);
    return status;
}

/* One attempt with a fresh list. *gone becomes the number of a missing table, or 0. A
 * table that was missing before and is still listed is lost. */
static int attempt(const struct bridge *b, struct tamis_store *store, uint64_t *gone,
                   bool *overtaken)
{
    const char *database = b->directories[0];
    struct attempt a = {.b = b, .store = store};
    int status = read_list(database, &a.list);
    if (status == EXIT_DONE && *gone && has_table(&a.list, *gone))
        status = complain(EXIT_DAMAGE,
                          "%s: damaged: table %06" PRIu64 " is listed, and not there: "
                          "let LevelDB repair the database, or restore it",
                          database, *gone);
    if (status == EXIT_DONE)
        status = database_tag(database, a.tag);
    a.report = (struct bridge_report){.bridge = b, .tag = a.tag, .tables = a.list.n};
    if (status == EXIT_DONE)
        status = try_once(&a);
    if (status == EXIT_DONE) {
        progress_end();
        a.report.log_bytes = log_bytes(database, &a.list);
        bridge_print(&a.report);
    }
    *gone = a.gone;
    *overtaken = a.overtaken;
    bridge_report_free(&a.report);
    ldb_list_free(&a.list);
    return status;
}

int fill_store(const struct bridge *b, struct tamis_store *store)
{
    uint64_t gone = 0;
    bool overtaken = false;
    for (int i = 0; i < BRIDGE_ATTEMPTS; i++) {
        int status = attempt(b, store, &gone, &overtaken);
        if (!gone && !overtaken)
            return status;
    }
    if (overtaken)
        return complain(EXIT_BUSY,
                        "%s: another process changes these segments: try again when it "
                        "is done; nothing was changed",
                        b->store);
    return complain(EXIT_BUSY,
                    "%s: the database is being written, and table %06" PRIu64
                    " was deleted while it was read: try again when it is less busy",
                    b->directories[0], gone);
}
