/* What tamis calls an SST: its name, its binding, and whether its keys are ours to
 * filter; and who owns what of tamis.h. */
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

/* What RocksDB calls the file, without directories. */
std::string NameOf(const std::string &path);
std::string NameOf(uint64_t number);
/* "rocksdb:<16 hex digits>", made of the identity that RocksDB gives a database. The
 * bindings of its segments begin with it (../bridge/mirror.h). */
std::string TagOf(const std::string &identity);
/* "<tag>/<session>/<number>"; the tag alone: nobody knows which file it is. */
std::string BindingOf(const std::string &tag,
                      const rocksdb::TableProperties &properties);
bool NamesFile(const std::string &binding);
/* The session of a segment that an earlier version put, "": it has none. */
std::string OldSessionOf(const tamis_segment_info &info);
/* The file of this binding by the binding of an earlier version. */
bool IsOldBindingOf(const tamis_segment_info &info, const std::string &binding);

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
/* The number of the segment of this name; SIZE_MAX: there is none. */
size_t Find(const Snapshot &now, const std::string &name, tamis_segment_info *info);

/* The segments that may be replaced and dropped. */
enum class May {
    kThis,      /* segments of the tag's database */
    kThisOrOld, /* and those of earlier versions, which do not say of which */
    kAll
};

bool MayChange(const std::string &tag, May may, const tamis_segment_info &info);

/* One change of the list of a database. All return what tamis.h returns. Commit() fails
 * if a segment that is replaced or dropped is not the one of Begin() any more. */
class Change
{
  public:
    /* `now`: what the change was decided by; NULL: as of this call. */
    int Begin(tamis_store *store, const std::string &tag, May may,
              Snapshot now = nullptr);
    /* In place of what the list has under that name: ERR_MISMATCH if that may not be
     * replaced. builder NULL: without a filter. */
    int Put(const Segment &segment, tamis_builder *builder);
    /* Under the binding of this segment the filter that the list has under its name.
     * On failure the name is free. */
    int PutAgain(const Segment &segment);
    /* Drops what may be dropped; 0 as well if that is nothing. */
    int Drop(const std::string &name);
    int Commit();
    const tamis_diag &diag() const
    {
        return diag_;
    }

  private:
    int MakeRoom(const std::string &name);
    std::string tag_;
    May may_ = May::kThis;
    Snapshot now_;
    std::set<std::string> gone_; /* names that this change has dropped */
    Edit edit_;
    tamis_diag diag_ = {};
};

} // namespace tamis

#endif
