/* Which tables of a closed database are live. Whoever lists the files of directories
 * has to know that none is missing: of a key in that one the list would say "absent".
 */
#ifndef TAMIS_ROCKSDB_LIVE_H
#define TAMIS_ROCKSDB_LIVE_H

#include <set>
#include <string>
#include <vector>

#include <rocksdb/status.h>

namespace tamis
{

struct Live {
    std::set<uint64_t> files; /* of all families */
    uint64_t log_bytes;       /* of logs whose keys may be in no file yet */
    std::string identity;     /* of the database, if its MANIFEST has it */
};

/* As the MANIFEST of this directory has it. Not the database is opened, which would
 * take its comparators. */
rocksdb::Status ReadLive(const std::string &db, Live *out);
/* Are there files that RocksDB has in a database, and LevelDB has not? */
bool IsRocksDb(const std::string &db);
/* The identity of the database: its MANIFEST has it, or its file IDENTITY. A checkpoint
 * that nobody has opened has none of its own: it is of the database that wrote the
 * newest of these tables. Empty: it cannot be told. */
std::string IdentityOf(const std::string &db, const Live &live,
                       const std::vector<std::string> &paths);
/* In words, what is live and not among these files; empty: nothing. */
std::string Missing(const Live &live, const std::vector<std::string> &paths);

} // namespace tamis

#endif
