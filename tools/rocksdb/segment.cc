/* Names and bindings of SSTs, and changes of the list, as segment.h says. */
#include "segment.h"

#include <cinttypes>
#include <cstdio>

namespace tamis
{

/* RocksDB finds a table that LevelDB named .ldb under the name .sst. */
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

std::string TagOf(const std::string &identity)
{
    char tag[MIRROR_TAG_BYTES];
    tamis_mirror_tag(tag, "rocksdb", identity.data(), identity.size());
    return tag;
}

std::string BindingOf(const std::string &tag, const rocksdb::TableProperties &p)
{
    std::string binding =
        tag + "/" + p.db_session_id + "/" + std::to_string(p.orig_file_number);
    bool known = !p.db_session_id.empty() && p.orig_file_number != 0;
    return known && binding.size() <= TAMIS_BINDING_MAX ? binding : tag;
}

bool NamesFile(const std::string &binding)
{
    return binding.find('/') != binding.npos;
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
               tamis_kind kind, Builder *out, tamis_diag *diag)
{
    tamis_builder_options opt = {};
    opt.size = sizeof opt;
    opt.domain = &store.domain;
    opt.error = store.growth.error;
    opt.identity.store_uuid = store.uuid;
    opt.memory_limit = memory_limit;
    opt.kind = kind;
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
    return Snapshot(now, tamis_snapshot_release);
}

size_t Find(const Snapshot &now, const std::string &name, tamis_segment_info *info)
{
    return tamis_mirror_find(now.get(), name.data(), name.size(), info);
}

int Change::Begin(tamis_store *store, const std::string &tag)
{
    tamis_edit *edit;
    tag_ = tag;
    now_ = Now(store, &diag_);
    if (!now_)
        return diag_.code;
    int err = tamis_edit_begin(store, NULL, &edit, &diag_);
    edit_.reset(edit);
    return err;
}

std::string OtherOf(const Snapshot &now, const std::string &tag)
{
    char words[MIRROR_WORDS_BYTES];
    tamis_mirror_refuses(now.get(), tag.c_str(), words);
    return words;
}

bool IsOf(const std::string &tag, const tamis_segment_info &info)
{
    return tamis_mirror_owner(tag.c_str(), &info) == MIRROR_THIS;
}

int Change::Put(const Segment &s, tamis_builder *builder)
{
    int err = Drop(s.name);
    if (err)
        return err;
    if (builder) {
        tamis_identity as = {s.name.data(), s.name.size(), s.binding.data(),
                             s.binding.size(), nullptr};
        return tamis_edit_put(edit_.get(), builder, &as, &diag_);
    }
    tamis_segment_options opt = {};
    opt.size = sizeof opt;
    opt.binding = s.binding.data();
    opt.binding_bytes = s.binding.size();
    return tamis_edit_put_bare(edit_.get(), s.name.data(), s.name.size(), &opt, &diag_);
}

int Change::Drop(const std::string &name)
{
    tamis_segment_info info;
    if (Find(now_, name, &info) == SIZE_MAX || !IsOf(tag_, info))
        return 0;
    tamis_drop_if same = tamis_mirror_same(&info);
    return tamis_edit_drop(edit_.get(), name.data(), name.size(), &same, &diag_);
}

int Change::Reconcile(const Snapshot &before, const std::vector<tamis_identity> &files)
{
    tamis_reconcile_options ours = {sizeof ours, tag_.data(), tag_.size(), nullptr};
    return tamis_edit_reconcile(edit_.get(), before.get(), files.data(), files.size(),
                                &ours, &diag_);
}

int Change::Commit()
{
    int err = tamis_edit_commit(edit_.get(), &diag_);
    if (err != TAMIS_ERR_BUSY) /* else it is to be aborted */
        edit_.release();
    return err;
}

} // namespace tamis
