/* Names and bindings of SSTs, and changes of the list, as segment.h says. */
#include "segment.h"

#include <cinttypes>
#include <cstdio>

namespace tamis
{

/* A table that LevelDB named .ldb is a .sst to RocksDB, which finds it all the same. */
std::string NameOf(const std::string &path)
{
    std::string name = path.substr(path.find_last_of('/') + 1);
    size_t stem = name.find_last_of('.');
    return stem != name.npos && name.substr(stem) == ".ldb"
               ? name.substr(0, stem) + ".sst"
               : name;
}

/* As RocksDB names its tables. */
std::string NameOf(uint64_t number)
{
    char name[32];
    snprintf(name, sizeof name, "%06" PRIu64 ".sst", number);
    return name;
}

std::string BindingOf(const rocksdb::TableProperties &p)
{
    std::string binding = p.db_session_id + "/" + std::to_string(p.orig_file_number);
    bool known = !p.db_session_id.empty() && p.orig_file_number != 0;
    return known && binding.size() <= TAMIS_BINDING_MAX ? binding : "";
}

const char *Unfit(const rocksdb::Comparator &order)
{
    if (order.timestamp_size() > 0)
        return "its keys have timestamps";
    if (order.CanKeysWithDifferentByteContentsBeEqual())
        return "its comparator takes different bytes for the same key";
    return nullptr;
}

std::string Words(int err, const tamis_diag &diag)
{
    std::string words = diag.what[0] ? diag.what : tamis_strerror(err);
    return diag.file[0] ? std::string(diag.file) + ": " + words : words;
}

int NewBuilder(const struct tamis_store_info &store, uint64_t memory_limit,
               Builder *out, tamis_diag *diag)
{
    tamis_builder_options opt = {};
    opt.size = sizeof opt;
    opt.domain = &store.domain;
    opt.error = store.growth.error;
    opt.store_uuid = store.uuid;
    opt.memory_limit = memory_limit;
    tamis_builder *builder;
    int err = tamis_builder_create(&opt, &builder, diag);
    out->reset(builder);
    return err;
}

Snapshot Now(tamis_store *store, tamis_diag *diag)
{
    tamis_snapshot *now;
    if (tamis_snapshot_current(store, &now, diag))
        return nullptr;
    return Snapshot(now, Free());
}

bool IsListed(const Snapshot &now, const Segment &s, bool *sealed)
{
    tamis_target target;
    tamis_segment_info info;
    /* A binding of no bytes asks for none; here it has to be none. */
    if (tamis_snapshot_find(now.get(), s.name.data(), s.name.size(), s.binding.data(),
                            s.binding.size(), 0, &target) ||
        tamis_snapshot_segment(now.get(), target.slot - 1, &info) ||
        info.binding_bytes != s.binding.size())
        return false;
    if (sealed)
        *sealed = info.state == TAMIS_SEGMENT_SEALED;
    return true;
}

int Change::Begin(tamis_store *store)
{
    tamis_edit *edit;
    int err = tamis_edit_begin(store, &edit, &diag_);
    edit_.reset(edit);
    return err;
}

int Change::Put(const Segment &s, tamis_builder *builder)
{
    int err = Drop(s.name);
    if (err)
        return err;
    if (builder) {
        err = tamis_builder_rename(builder, s.name.data(), s.name.size(),
                                   s.binding.data(), s.binding.size());
        return err ? err : tamis_edit_put(edit_.get(), builder, &diag_);
    }
    tamis_segment_options opt = {};
    opt.size = sizeof opt;
    opt.binding = s.binding.data();
    opt.binding_bytes = s.binding.size();
    return tamis_edit_put_bare(edit_.get(), s.name.data(), s.name.size(), &opt, &diag_);
}

int Change::Drop(const std::string &name)
{
    int err = tamis_edit_drop(edit_.get(), name.data(), name.size(), &diag_);
    return err == TAMIS_ERR_NO_SEGMENT ? 0 : err;
}

int Change::Retain(const std::vector<std::string> &names)
{
    std::vector<tamis_name> list;
    for (const std::string &name : names)
        list.push_back({name.data(), name.size()});
    return tamis_edit_retain(edit_.get(), list.data(), list.size(), &diag_);
}

int Change::Commit()
{
    return tamis_edit_commit(edit_.release(), &diag_);
}

} // namespace tamis
