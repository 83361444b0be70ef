/* The calls of tamis_rocksdb.h: an engine's view of the shim. */
#include "tamis_rocksdb.h"

#include <algorithm>

#include "shim.h"

namespace tamis
{

using rocksdb::Status;

namespace
{

/* Options that are used again have what an earlier Use() put there. */
template <class T>
void Replace(std::vector<std::shared_ptr<T>> *list, std::shared_ptr<T> by)
{
    std::string name = by->Name();
    auto is_old = [&](const std::shared_ptr<T> &one) { return one->Name() == name; };
    list->erase(std::remove_if(list->begin(), list->end(), is_old), list->end());
    list->push_back(std::move(by));
}

} // namespace

RocksFilters::RocksFilters(std::shared_ptr<RocksShim> shim) : shim_(std::move(shim))
{
}

std::shared_ptr<RocksFilters> RocksFilters::Open(const RocksOptions &options,
                                                 Status *status)
{
    auto shim = std::make_shared<RocksShim>(options);
    Status s = shim->OpenStore();
    if (status)
        *status = s;
    return std::shared_ptr<RocksFilters>(new RocksFilters(std::move(shim)));
}

void RocksFilters::Use(rocksdb::DBOptions *options)
{
    Replace(&options->listeners, NewListener(shim_));
}

Status RocksFilters::Use(rocksdb::ColumnFamilyOptions *family)
{
    if (const char *why = Unfit(*family->comparator))
        return Status::NotSupported(family->comparator->Name(), why);
    shim_->Allow(family->comparator);
    Replace(&family->table_properties_collector_factories, NewCollectorFactory(shim_));
    return Status::OK();
}

Status RocksFilters::Use(rocksdb::Options *options)
{
    Use(static_cast<rocksdb::DBOptions *>(options));
    return Use(static_cast<rocksdb::ColumnFamilyOptions *>(options));
}

Status
RocksFilters::Reconcile(rocksdb::DB *db,
                        const std::vector<rocksdb::ColumnFamilyHandle *> *families)
{
    Status s = Status::Aborted("the store could not be reconciled");
    shim_->Guarded("reconciling", [&] {
        s = families ? shim_->Reconcile(db, *families)
                     : shim_->Reconcile(db, {db->DefaultColumnFamily()});
    });
    return s;
}

Status RocksFilters::Ingest(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *family,
                            const std::vector<std::string> &files,
                            const rocksdb::IngestExternalFileOptions &options)
{
    shim_->Guarded("ingesting", [&] {
        shim_->Mark(db);
        shim_->Step("ingesting");
    });
    Status s = db->IngestExternalFile(family, files, options);
    shim_->Guarded("ingesting", [&] { shim_->Unmark(); });
    return s;
}

std::function<bool(const rocksdb::TableProperties &)>
RocksFilters::TableFilter(const rocksdb::Slice &key) const
{
    struct Question {
        Snapshot now;
        std::string bytes;
        tamis_key key;
    };
    auto q = std::make_shared<Question>();
    const std::string tag = shim_->tag();
    if (shim_->store() && !tag.empty())
        q->now = Now(shim_->store(), nullptr);
    if (!q->now)
        return [](const rocksdb::TableProperties &) { return true; };
    tamis_domain domain = tamis_snapshot_info(q->now.get()).domain;
    q->bytes = key.ToString();
    q->key = tamis_key_of(&domain, q->bytes.data(), q->bytes.size());
    /* By name and binding. A file that was ingested has another number now, so it is
     * not found: a candidate. */
    return [q, tag](const rocksdb::TableProperties &table) {
        tamis_target target;
        Segment s = {NameOf(table.orig_file_number), BindingOf(tag, table)};
        if (!NamesFile(s.binding) ||
            tamis_snapshot_find(q->now.get(), s.name.data(), s.name.size(),
                                s.binding.data(), s.binding.size(), 0, &target))
            return true;
        return tamis_snapshot_probe(q->now.get(), &target, &q->key, nullptr) ==
               TAMIS_MAYBE;
    };
}

RocksCounts RocksFilters::Counts() const
{
    return shim_->Counts();
}

} // namespace tamis
