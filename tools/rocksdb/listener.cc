/* RocksDB 7.8's calls, and how each changes the list:
 *
 * - OnTableFileCreated: the SST is written, synced and closed, and not yet in any
 *   version: RocksDB writes the manifest after this call has returned for all files of
 *   a flush or compaction. The writing thread calls it; at recovery, DB::Open does. It
 *   lists the SST.
 * - OnFlushCompleted, OnCompactionCompleted: the files are visible. It only retries
 *   failed changes.
 * - OnTableFileDeleted: the file is gone. (A file that could not be deleted stays
 *   listed.) It drops the SST. Deletions by DB::Open's cleanup are not always told:
 *   Reconcile() handles them.
 * - OnExternalFileIngested: the files are visible already, see tamis_rocksdb.h.
 *
 * RocksDB holds no mutex of the database during these calls. */
#include "shim.h"

namespace tamis
{

namespace
{

class Listener : public rocksdb::EventListener
{
  public:
    explicit Listener(std::shared_ptr<RocksShim> shim) : shim_(std::move(shim))
    {
    }

    const char *Name() const override
    {
        return "tamis.Listener";
    }

    void OnTableFileCreated(const rocksdb::TableFileCreationInfo &info) override
    {
        const rocksdb::TableProperties &p = info.table_properties;
        shim_->Guarded(info.file_path.c_str(), [&] {
            /* A file that failed, or was empty and is gone, loses its keys, too. */
            std::unique_ptr<Gathered> keys = shim_->Take(p);
            if (!info.status.ok() || !shim_->IsOurs(info.db_name) ||
                !shim_->Serves(p.db_id))
                return;
            shim_->Step("created");
            shim_->List({NameOf(info.file_path), BindingOf(shim_->tag(), p)}, p,
                        keys.get());
        });
    }

    void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo &info) override
    {
        shim_->Guarded(info.file_path.c_str(), [&] {
            if (!info.status.ok() || !shim_->IsOurs(info.db_name))
                return;
            shim_->Step("deleted");
            shim_->Drop(NameOf(info.file_path));
        });
    }

    void OnExternalFileIngested(rocksdb::DB *db,
                                const rocksdb::ExternalFileIngestionInfo &info) override
    {
        shim_->Guarded(info.internal_file_path.c_str(), [&] {
            if (!shim_->IsOurs(db->GetName()) || !shim_->Serves(db))
                return;
            shim_->Step("ingested");
            shim_->ListIngested(db, info.internal_file_path, info.table_properties);
        });
    }

    void OnFlushCompleted(rocksdb::DB *, const rocksdb::FlushJobInfo &) override
    {
        shim_->Retry("flush", "flushed");
    }

    void OnCompactionCompleted(rocksdb::DB *,
                               const rocksdb::CompactionJobInfo &) override
    {
        shim_->Retry("compaction", "compacted");
    }

  private:
    std::shared_ptr<RocksShim> shim_;
};

} // namespace

std::shared_ptr<rocksdb::EventListener> NewListener(std::shared_ptr<RocksShim> shim)
{
    return std::make_shared<Listener>(std::move(shim));
}

} // namespace tamis
