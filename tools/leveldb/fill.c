/* Brings a store up to date with a database's tables, in one edit.
 *
 * The database may be in use. Its MANIFEST, read to its end, gives the tables of one
 * moment; tables never change, but compaction deletes them. If one is gone, the list is
 * read again and all begins anew with the newer one; if that still has it, it is lost.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fill.h"

enum { ATTEMPTS = 8 };

/* Of one attempt. */
struct attempt {
    const struct fill *f;
    struct ldb_list list;
    struct tamis_edit *edit;
    struct tamis_snapshot *before;
    uint64_t n_built, n_kept, n_dropped, n_keys;
    uint64_t gone; /* the number of a table that is not there; 0 is none's */
};

/* ---- the list ---- */

static int list_error(const struct fill *f, enum ldb_result result, const char *why)
{
    switch (result) {
    case LDB_NONE:
        return complain(EXIT_NONE, "%s: no LevelDB database: %s", f->database,
                        why[0] ? "what its CURRENT names is not there"
                               : "it has no CURRENT");
    case LDB_DAMAGED:
        return complain(
            EXIT_DAMAGE,
            "%s: damaged: %s: let LevelDB repair the database, or restore it",
            f->database, why);
    case LDB_GOOD:
    case LDB_FAILED:
    case LDB_STOPPED:
        break;
    }
    return complain(EXIT_IO, "%s: %s", f->database, why);
}

static int read_list(const struct fill *f, struct ldb_list *list)
{
    char why[LDB_WHY_BYTES];
    struct stat st;
    enum ldb_result result = LDB_NONE;

    *list = (struct ldb_list){.n = 0};
    if (stat(f->database, &st) != 0) {
        bool is_none = errno == ENOENT || errno == ENOTDIR;

        complain_errno(errno, f->database, "opening");
        return is_none ? EXIT_NONE : EXIT_IO;
    }
    if (!S_ISDIR(st.st_mode))
        return complain(EXIT_NONE, "%s: no LevelDB database: it is no directory",
                        f->database);
    /* CURRENT may name another MANIFEST in the moment in which the older one goes. */
    for (int i = 0; i < ATTEMPTS && result == LDB_NONE; i++) {
        result = ldb_list_read(f->database, list, why);
        if (result == LDB_NONE && !why[0])
            break;
    }
    if (result != LDB_GOOD)
        return list_error(f, result, why);
    if (strcmp(list->comparator, "leveldb.BytewiseComparator") != 0)
        return complain(EXIT_COMPARATOR,
                        "%s: its comparator is %s, under which different bytes may be "
                        "the same key: only leveldb.BytewiseComparator will do",
                        f->database, list->comparator);
    return EXIT_DONE;
}

static bool is_live(const struct ldb_list *list, uint64_t number)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->tables[i].number == number)
            return true;
    return false;
}

/* ---- one table ---- */

/* The segment of this name as it was; false if there is none. */
static bool find_before(const struct attempt *a, const char *name,
                        struct tamis_segment_info *info)
{
    struct tamis_target target;

    tamis_snapshot_find(a->before, name, strlen(name), NULL, 0, 0, &target);
    return target.slot != 0 &&
           tamis_snapshot_segment(a->before, target.slot - 1, info) == 0;
}

static bool is_same(const struct tamis_segment_info *info,
                    const struct table_file *file, uint32_t rank)
{
    return info->state == TAMIS_SEGMENT_SEALED && info->rank == rank &&
           info->binding_bytes == sizeof(file->binding) &&
           memcmp(info->binding, file->binding, sizeof(file->binding)) == 0;
}

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

    a->n_keys += to.n_keys;
    progress_advance(to.n_keys, file->n_bytes);
    if (result == LDB_STOPPED)
        return complain_add(to.err, a->f->store_path);
    if (result != LDB_GOOD)
        return complain(
            EXIT_DAMAGE,
            "%s/%s: damaged: %s: let LevelDB repair the database, or restore "
            "it",
            a->f->database, file->name, why);
    return EXIT_DONE;
}

static int build(struct attempt *a, const struct ldb_table *table,
                 const struct table_file *file, bool replaces)
{
    struct tamis_segment_options opt = {.size = sizeof(opt),
                                        .binding = file->binding,
                                        .binding_bytes = sizeof(file->binding),
                                        .rank = table->level};
    struct tamis_builder *builder = NULL;
    struct tamis_diag diag = {0};
    size_t n = strlen(file->name);
    int err = 0, status = EXIT_DONE;

    if (replaces)
        err = tamis_edit_drop(a->edit, file->name, n, &diag);
    if (err == 0)
        err = tamis_edit_builder(a->edit, file->name, n, a->f->error, &opt, &builder,
                                 &diag);
    if (err == 0)
        status = add_keys(a, table, file, builder);
    if (err == 0 && status == EXIT_DONE)
        err = tamis_edit_put(a->edit, builder, &diag);
    tamis_builder_free(builder);
    a->n_built++;
    return err ? complain_error(err, &diag, a->f->store_path, NULL) : status;
}

static int do_table(struct attempt *a, const struct ldb_table *table)
{
    struct tamis_segment_info before;
    struct table_file file;
    bool known, is_gone;
    int status = table_file_read(a->f->database, table, &file, &is_gone);

    if (status == EXIT_DONE) {
        known = find_before(a, file.name, &before);
        if (known && is_same(&before, &file, table->level))
            a->n_kept++;
        else
            status = build(a, table, &file, known);
    }
    if (is_gone)
        a->gone = table->number;
    table_file_free(&file);
    return status;
}

/* ---- the edit ---- */

/* Segments of other names are not LevelDB's, and stay. */
static int drop_others(struct attempt *a)
{
    size_t n = tamis_snapshot_n_segments(a->before);
    struct tamis_segment_info info;
    struct tamis_diag diag = {0};

    for (size_t i = 0; i < n; i++) {
        int err;

        if (tamis_snapshot_segment(a->before, i, &info) != 0 ||
            !is_table_name(info.name, info.name_bytes) ||
            is_live(&a->list, strtoull((const char *)info.name, NULL, 10)))
            continue;
        err = tamis_edit_drop(a->edit, info.name, info.name_bytes, &diag);
        if (err != 0)
            return complain_error(err, &diag, a->f->store_path, NULL);
        a->n_dropped++;
    }
    return EXIT_DONE;
}

static int begin(struct attempt *a)
{
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_current(a->f->store, &a->before, &diag);

    if (err == 0)
        err = tamis_edit_begin(a->f->store, &a->edit, &diag);
    return err ? complain_error(err, &diag, a->f->store_path, NULL) : EXIT_DONE;
}

static int commit(struct attempt *a)
{
    struct tamis_diag diag = {0};
    int err = tamis_edit_commit(a->edit, &diag);

    a->edit = NULL;
    return err ? complain_error(err, &diag, a->f->store_path, NULL) : EXIT_DONE;
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
    else
        tamis_edit_abort(a->edit);
    tamis_snapshot_release(a->before);
    return status;
}

/* ---- what is not in a table ---- */

static uint64_t log_bytes(const struct fill *f, const struct ldb_list *list)
{
    DIR *dir = opendir(f->database);
    struct dirent *e;
    uint64_t n_bytes = 0;
    struct stat st;

    while (dir && (e = readdir(dir)) != NULL) {
        char *end;
        uint64_t number = strtoull(e->d_name, &end, 10);

        if (end != e->d_name && strcmp(end, ".log") == 0 &&
            (number >= list->log || number == list->previous_log) &&
            fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
            n_bytes += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return n_bytes;
}

static void print_summary(const struct attempt *a)
{
    uint64_t n_bytes = log_bytes(a->f, &a->list);
    char text[TEXT_BYTES];

    printf("%zu tables: %" PRIu64 " built of %" PRIu64 " keys, %" PRIu64
           " kept, %" PRIu64 " dropped\n",
           a->list.n, a->n_built, a->n_keys, a->n_kept, a->n_dropped);
    if (n_bytes)
        printf("%s of log: what is in it is in no table and in no segment yet\n",
               size_text(text, (double)n_bytes));
}

/* One attempt with a fresh list. *gone becomes the number of a table that was not
 * there, or 0; one that was gone before, and that the list still has, is lost. */
static int attempt(const struct fill *f, uint64_t *gone)
{
    struct attempt a = {.f = f};
    int status = read_list(f, &a.list);

    if (status == EXIT_DONE && *gone && is_live(&a.list, *gone))
        status = complain(EXIT_DAMAGE,
                          "%s: damaged: table %06" PRIu64 " is listed, and not there: "
                          "let LevelDB repair the database, or restore it",
                          f->database, *gone);
    if (status == EXIT_DONE)
        status = try_once(&a);
    if (status == EXIT_DONE) {
        progress_end();
        print_summary(&a);
    }
    *gone = a.gone;
    ldb_list_free(&a.list);
    return status;
}

int fill_store(struct fill *f)
{
    uint64_t gone = 0;

    for (int i = 0; i < ATTEMPTS; i++) {
        int status = attempt(f, &gone);

        if (!gone)
            return status;
    }
    return complain(EXIT_BUSY,
                    "%s: the database is being written, and table %06" PRIu64
                    " went while it was read: try again when it is less busy",
                    f->database, gone);
}
