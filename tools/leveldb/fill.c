/* tamis-leveldb: answers ../bridge/fill.c about an existing LevelDB database, for which
 * it makes a filter for each table of its MANIFEST, all or none, in one edit.
 *
 * It neither opens nor changes the database, which may be in use. Its MANIFEST, read to
 * its end, gives the tables of one moment. Tables never change, but compaction deletes
 * them. If a table is gone, all begins anew with a newer list; if that still has it,
 * the table is lost. */
#include <inttypes.h>

#include "../talk/screen.h"
#include "fill.h"

static const char help[] =
    "usage: tamis-leveldb [OPTION]... STORE DATABASE\n"
    "\n"
    "Brings STORE (see 'tamis init') up to date with a LevelDB database, in use or\n"
    "not: a segment for each table, with a filter of its keys, tombstones included.\n"
    "Drops the segments of deleted tables. Keys that are only in LevelDB's log are\n"
    "in no segment. STORE knows the database by the inode and the birth time of its\n"
    "file LOCK: a copy is another database. The binding of a segment is the text\n"
    "leveldb:DATABASE/SIZE/DIGEST: 'identity' of --json, the bytes of the file, and\n"
    "their XXH3-64 (seed 0) in 16 hex digits. Its rank is the table's level.\n"
    "\n";

struct database {
    struct ldb_list list;
    const struct ldb_table *table; /* the open one */
    struct table_file file;
};

static bool has_table(const struct ldb_list *list, uint64_t number)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->tables[i].number == number)
            return true;
    return false;
}

static int list(struct bridge_run *r)
{
    struct database *d = r->database;
    const char *path = r->b->directories[0];
    uint64_t n_bytes = 0;
    ldb_list_free(&d->list);
    int status = read_list(path, &d->list);
    if (status == EXIT_DONE && r->gone && has_table(&d->list, r->gone))
        status = complain(EXIT_DAMAGE,
                          "%s: damaged: table %06" PRIu64 " is listed, and not "
                          "there" LET_IT_REPAIR,
                          path, r->gone);
    if (status == EXIT_DONE)
        status = database_tag(path, r->tag);
    for (size_t i = 0; i < d->list.n; i++)
        n_bytes += d->list.tables[i].n_bytes;
    progress_start("tables", n_bytes);
    r->report.tables = d->list.n;
    r->report.log_bytes = bridge_log_bytes(path, d->list.log, d->list.previous_log);
    return status;
}

static int open_table(struct bridge_run *r, size_t i, struct bridge_table *t)
{
    struct database *d = r->database;
    d->table = &d->list.tables[i];
    int status =
        table_file_read(r->b->directories[0], r->tag, d->table, &d->file, &r->again);
    if (r->again)
        r->gone = d->table->number;
    *t = (struct bridge_table){
        .name = d->file.name, .binding = d->file.binding, .rank = d->table->level};
    return status;
}

static void close_table(struct bridge_run *r)
{
    struct database *d = r->database;
    free(d->file.bytes);
    d->file.bytes = NULL;
}

/* ---- keys ---- */

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

static int add_keys(struct bridge_run *r, struct bridge_table *t,
                    struct tamis_builder *builder)
{
    const struct database *d = r->database;
    char why[LDB_WHY_BYTES];
    struct adding to = {builder, 0, 0};
    enum ldb_result result = ldb_table_keys(d->file.bytes, d->file.n_bytes,
                                            d->table->range, add_key, &to, why);
    r->report.keys += to.n_keys;
    progress_advance(to.n_keys, d->file.n_bytes);
    if (result == LDB_STOPPED)
        return complain_add(to.err, r->b->store);
    if (result != LDB_GOOD)
        return complain(EXIT_DAMAGE, "%s/%s: damaged: %s" LET_IT_REPAIR,
                        r->b->directories[0], t->name, why);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    static const struct bridge_engine leveldb = {
        .list = list, .open = open_table, .keys = add_keys, .close = close_table};
    struct database d = {.table = NULL};
    struct tamis_store *store;
    struct bridge b;
    process_begin("tamis-leveldb");
    int status = bridge_parse(argc, argv, help, 1, &b);
    if (status != EXIT_DONE)
        return status;
    status = store_open(b.store, &store);
    if (status != EXIT_DONE)
        return status;
    status = bridge_fill(&b, store, &leveldb, &d);
    ldb_list_free(&d.list);
    tamis_store_close(store);
    return finish_output(status);
}
