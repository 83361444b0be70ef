/* tamis-leveldb: a filter for each table of an existing LevelDB database, in a store.
 * It neither opens nor changes the database, and another process may be writing to it.
 * It builds the tables that the MANIFEST lists at one moment, all or none, in one edit.
 */
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

int main(int argc, char **argv)
{
    struct bridge b;
    struct tamis_store *store;
    process_begin("tamis-leveldb");
    int status = bridge_parse(argc, argv, help, 1, &b);
    if (status != EXIT_DONE)
        return status;
    status = store_open(b.store, &store);
    if (status != EXIT_DONE)
        return status;
    status = fill_store(&b, store);
    tamis_store_close(store);
    return finish_output(status);
}
