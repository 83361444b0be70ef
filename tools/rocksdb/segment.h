/* What tamis calls an SST: its name, its binding, and whether its keys are ours to
 * filter; and who owns what of tamis.h. */
#ifndef TAMIS_ROCKSDB_SEGMENT_H
#define TAMIS_ROCKSDB_SEGMENT_H

#include <memory>
#include <string>
#include <vector>

#include <rocksdb/comparator.h>
#include <rocksdb/table_properties.h>

#include "tamis.h"

namespace tamis
{

struct Segment {
    std::string name; /* "000123.sst" */
    std::string
        binding; /* "<session>/<number>"; empty: nobody knows which file it is */
};

/* What RocksDB calls the file, without directories. */
std::string NameOf(const std::string &path);
std::string NameOf(uint64_t number);
std::string BindingOf(const rocksdb::TableProperties &properties);

/* Why keys in this order are not to be filtered by their bytes; NULL: they may be. */
const char *Unfit(const rocksdb::Comparator &order);

/* "what: detail" of a failed call. */
std::string Words(int err, const tamis_diag &diag);

struct Free {
    void operator()(tamis_builder *b) const
    {
        tamis_builder_free(b);
    }
    void operator()(tamis_edit *e) const
    {
        tamis_edit_abort(e);
    }
    void operator()(tamis_snapshot *s) const
    {
        tamis_snapshot_release(s);
    }
    void operator()(tamis_store *s) const
    {
        tamis_store_close(s);
    }
};
using Builder = std::unique_ptr<tamis_builder, Free>;
using Edit = std::unique_ptr<tamis_edit, Free>;
using Snapshot = std::shared_ptr<tamis_snapshot>;
using Store = std::unique_ptr<tamis_store, Free>;

/* A builder of a filter for this store, whose segment is named later. */
int NewBuilder(const struct tamis_store_info &store, uint64_t memory_limit,
               Builder *out, tamis_diag *diag);
/* The store's segments as of now; NULL if they can't be had. */
Snapshot Now(tamis_store *store, tamis_diag *diag);
/* The same name and binding in the list. *sealed (may be NULL): with a filter. */
bool IsListed(const Snapshot &now, const Segment &segment, bool *sealed);

/* One change of the list. All return what tamis.h returns. */
class Change
{
  public:
    int Begin(tamis_store *store);
    /* In place of what the list has under that name. builder NULL: without a filter. */
    int Put(const Segment &segment, tamis_builder *builder);
    int Drop(const std::string &name);
    int Retain(const std::vector<std::string> &names);
    int Commit();
    const tamis_diag &diag() const
    {
        return diag_;
    }

  private:
    Edit edit_;
    tamis_diag diag_ = {};
};

} // namespace tamis

#endif
