/* tamis for RocksDB: one filter per SST, kept in a store beside the database, made
 * while RocksDB writes the SST. Other processes map the store and answer "which SST may
 * hold this key" without opening the database; in the engine, TableFilter() does it.
 * README.md has the lines that an engine needs.
 *
 * A segment is named as its file, "000123.sst": numbers are unique within a database,
 * whatever its column families, and a store serves one database. Its binding is the
 * text "rocksdb:<database>/<db_session_id>/<orig_file_number>": <database> is the
 * XXH3-64 (seed 0) of DB::GetDbIdentity() in 16 hex digits, the rest are the SST's own
 * properties, for numbers recur. Ranks are 0: a file changes its level without being
 * written.
 *
 * ONE DATABASE. The bindings say which database a store mirrors. In a store of another
 * one the shim changes nothing: `complain` says so, Reconcile() is InvalidArgument, and
 * every SST is a candidate. `tamis-rocksdb --force` takes such a store over. Segments
 * that no bridge has put stay.
 *
 * WHAT IT PROMISES.
 * - An SST of RocksDB's own is listed, with its filter, before the database shows it
 *   (OnTableFileCreated: flush, compaction, recovery within DB::Open), and is taken off
 *   the list after its file is deleted. So at any moment, kill -9 included, the store
 *   lists every live SST that was made while it was in use.
 * - Puts, deletes, single deletes, merges, blob indexes and entities count as keys. So
 *   a tombstone is MAYBE, too.
 * - An SST is listed without a filter, always a candidate, if it has a range deletion
 *   or no session id, if its comparator takes different bytes for the same key or has
 *   timestamps, if its family was not passed to Use(), if what was gathered is not what
 *   RocksDB counted, or if anything of ours fails.
 * - No failure of ours reaches the engine: callbacks return OK and throw nothing. An
 *   SST that cannot be listed is reported to `complain`, and retried after each flush
 *   and compaction. Until then TableFilter() takes it for a candidate, but other
 *   processes do not know of it.
 *
 * WHAT IT NEEDS.
 * - Every process that opens the database for writing uses the store, or calls
 *   Reconcile() before others rely on the list. CreateColumnFamilyWithImport() needs a
 *   Reconcile() after it, and a CompactionService is not supported: RocksDB reports
 *   the files of neither.
 * - IngestExternalFile() shows files before it names them. Through Ingest() a segment
 *   "ingest" without a filter says so meanwhile; called directly, the files are missing
 *   from the list until OnExternalFileIngested.
 * - The store on a local disk, as tamis.h says. Threads: all calls at any time. */
#ifndef TAMIS_ROCKSDB_H
#define TAMIS_ROCKSDB_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>

namespace tamis
{

struct RocksOptions {
    std::string store;         /* its directory; made if it is not there */
    double error = 0.01;       /* of filters, if the store is made */
    uint64_t memory_limit = 0; /* bytes a file that is being written; 0: 64 MiB */
    /* Gets a line about each failure, in any thread. It must call nothing of
     * RocksFilters. */
    std::function<void(const std::string &line)> complain;
    /* For tests: called at each step, with its name, in the same way. */
    std::function<void(const char *step)> step;
    /* SSTs that RocksDB writes for this level or one below it get ribbons, which take
     * 70% of the size, and are slower to build and to ask. The deepest levels
     * have most of the data, and are written least. -1: no SST gets one. Ingested files
     * and those of `tamis-rocksdb` get Bloom filters. */
    int ribbon_level = -1;
};

/* How many since Open(). */
struct RocksCounts {
    uint64_t filters;  /* files listed with a filter */
    uint64_t bare;     /* listed without one */
    uint64_t failed;   /* of these, because something of ours failed */
    uint64_t unlisted; /* now: could not be listed yet */
};

class RocksShim;

class RocksFilters
{
  public:
    /* Never NULL. If the store cannot be used, *status (may be NULL) and `complain`
     * have the reason, and the object does nothing: every SST stays a candidate. */
    static std::shared_ptr<RocksFilters> Open(const RocksOptions &options,
                                              rocksdb::Status *status = nullptr);

    /* Installs the listener and the collector. NotSupported if the comparator does not
     * allow filters: then SSTs are listed without. Use(db) and Use(family) do the same
     * in parts, for DB::Open() with column families: call Use(family) for each. */
    rocksdb::Status Use(rocksdb::Options *options);
    void Use(rocksdb::DBOptions *options);
    rocksdb::Status Use(rocksdb::ColumnFamilyOptions *family);

    /* Makes the list that of the live files, in one edit. A live file that is missing,
     * or has another binding, is listed without a filter; `tamis-rocksdb` builds it
     * while the database is closed, or the next compaction does. Segments of this
     * database whose files are not live go. Reads the properties of every table.
     * `families`: the handles of all open families; NULL: only the default one. Files
     * of other families stay, but lose their filters. Confirms a list that `tamis
     * repair` made anew, if it has nothing else. Flushes wait meanwhile. `db` is the
     * handle that writes: one that is read-only, or a secondary, has an older list.
     * InvalidArgument: the store is that of another database, and nothing was changed.
     * IOError: also if another process changed these segments: call it again. */
    rocksdb::Status
    Reconcile(rocksdb::DB *db,
              const std::vector<rocksdb::ColumnFamilyHandle *> *families = nullptr);

    /* DB::IngestExternalFile(), with its result. The list stays complete. */
    rocksdb::Status Ingest(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *family,
                           const std::vector<std::string> &files,
                           const rocksdb::IngestExternalFileOptions &options);

    /* For ReadOptions::table_filter of an iterator that looks for this key alone (Seek,
     * with an upper bound just behind it): tables that lack it are not opened.
     * DB::Get() does not ask. As of now: newer tables are candidates, and until
     * Reconcile(), or the first file that RocksDB writes, all are. */
    std::function<bool(const rocksdb::TableProperties &)>
    TableFilter(const rocksdb::Slice &key) const;

    RocksCounts Counts() const;

  private:
    explicit RocksFilters(std::shared_ptr<RocksShim> shim);
    std::shared_ptr<RocksShim> shim_;
};

} // namespace tamis

#endif
