/* When RocksDB 7.8 calls what, and what the list is changed for:
 *
 * - OnTableFileCreated: the SST is written, synced and closed, and no version has it
 *   yet: the manifest is written when this has returned for all files of a flush or
 *   compaction. By the thread that wrote it; at recovery from within DB::Open. Here it
 *   is listed.
 * - OnFlushCompleted, OnCompactionCompleted: the files are visible; nothing is left to
 *   do but to try again what failed.
 * - OnTableFileDeleted: the file is gone (or could not be deleted: then it stays
 *   listed). Here it is dropped. What is deleted while DB::Open cleans up is not always
 *   told: Reconcile() sees to that.
 * - OnExternalFileIngested: the files are visible already, see tamis_rocksdb.h.
 *
 * None is called with a mutex of the database held. */
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
            /* Also of a file that failed, or that was empty and is gone: its keys go.
             */
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
        shim_->Guarded("flush", [&] {
            shim_->Step("flushed");
            shim_->Retry();
        });
    }

    void OnCompactionCompleted(rocksdb::DB *,
                               const rocksdb::CompactionJobInfo &) override
    {
        shim_->Guarded("compaction", [&] {
            shim_->Step("compacted");
            shim_->Retry();
        });
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
