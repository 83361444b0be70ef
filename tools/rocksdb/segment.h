/* The name and the binding of an SST, whether its keys can be filtered, and owners of
 * tamis.h's objects. */
#ifndef TAMIS_ROCKSDB_SEGMENT_H
#define TAMIS_ROCKSDB_SEGMENT_H

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <rocksdb/comparator.h>
#include <rocksdb/table_properties.h>

#include "../bridge/mirror.h"

namespace tamis
{

struct Segment {
    std::string name; /* "000123.sst" */
    std::string binding;
};

/* RocksDB's name of the file, without directories. */
std::string NameOf(const std::string &path);
std::string NameOf(uint64_t number);
/* "rocksdb:<16 hex digits>", from the identity that RocksDB gives a database. The
 * bindings of its segments begin with it (../bridge/mirror.h). */
std::string TagOf(const std::string &identity);
/* "<tag>/<session>/<number>"; the tag alone if the file is unknown. */
std::string BindingOf(const std::string &tag,
                      const rocksdb::TableProperties &properties);
bool NamesFile(const std::string &binding);

/* Why keys in this order cannot be filtered by their bytes; NULL: they can. */
const char *Unfit(const rocksdb::Comparator &order);

/* "what: detail" of a failed call. */
std::string Words(int err, const tamis_diag &diag);

template <auto end> struct Ends {
    template <class T> void operator()(T *object) const
    {
        end(object);
    }
};
using Builder = std::unique_ptr<tamis_builder, Ends<tamis_builder_free>>;
using Edit = std::unique_ptr<tamis_edit, Ends<tamis_edit_abort>>;
using Snapshot = std::shared_ptr<tamis_snapshot>;
using Store = std::unique_ptr<tamis_store, Ends<tamis_store_close>>;

/* A builder of a filter for this store. Its segment is named later. */
int NewBuilder(const struct tamis_store_info &store, uint64_t memory_limit,
               tamis_kind kind, Builder *out, tamis_diag *diag);
/* The store's current segments; NULL if the call fails. */
Snapshot Now(tamis_store *store, tamis_diag *diag);
/* The number of the segment of this name; SIZE_MAX: there is none. */
size_t Find(const Snapshot &now, const std::string &name, tamis_segment_info *info);

/* Empty if the store may become the database's with this tag, else the reason. */
std::string OtherOf(const Snapshot &now, const std::string &tag);
/* Is the segment of the database with this tag? */
bool IsOf(const std::string &tag, const tamis_segment_info &info);

/* One change of the list of a database; segments of others stay. All return what
 * tamis.h returns. Commit() fails if a segment to be replaced or dropped has changed
 * since Begin(). */
class Change
{
  public:
    int Begin(tamis_store *store, const std::string &tag);
    /* Replaces the segment of that name: ERR_EXISTS if it is of another database.
     * builder NULL: without a filter. */
    int Put(const Segment &segment, tamis_builder *builder);
    /* Drops the segment of that name; 0 if there is none, or another database's. */
    int Drop(const std::string &name);
    /* Makes the database's segments those of these files; `before` is older. */
    int Reconcile(const Snapshot &before, const std::vector<tamis_identity> &files);
    int Commit();
    const tamis_diag &diag() const
    {
        return diag_;
    }

  private:
    std::string tag_;
    Snapshot now_;
    Edit edit_;
    tamis_diag diag_ = {};
};

} // namespace tamis

#endif
