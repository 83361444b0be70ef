/* The keys of an SST that is on the disk, tombstones included, by RocksDB's public
 * calls alone. */
#ifndef TAMIS_ROCKSDB_SST_KEYS_H
#define TAMIS_ROCKSDB_SST_KEYS_H

#include <functional>
#include <memory>
#include <string>

#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

namespace tamis
{

class SstKeys
{
  public:
    /* order: of the keys; NULL: RocksDB's own order that the properties name.
     * Corruption; IOError; NotSupported: see `why`, the file is whole. */
    rocksdb::Status Open(rocksdb::Env *env, const std::string &path,
                         const rocksdb::Comparator *order);
    /* After Open(), if it returned OK or NotSupported. */
    const rocksdb::TableProperties &properties() const
    {
        return *properties_;
    }
    /* Every user key once, in order, every block checked. If it fails, the keys that it
     * has handed over are not all. */
    rocksdb::Status Each(const std::function<void(const rocksdb::Slice &)> &fn);

  private:
    rocksdb::Status Read(rocksdb::Env *env, const std::string &path,
                         const rocksdb::Comparator *order);
    std::unique_ptr<rocksdb::SstFileReader> reader_;
    std::shared_ptr<const rocksdb::TableProperties> properties_;
};

} // namespace tamis

#endif
