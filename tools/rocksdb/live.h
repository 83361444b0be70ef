/* Finds the live tables of a closed database. A list of the files in directories must
 * have all: for keys of a missing file the store says ABSENT. */
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
    uint64_t log;             /* the first whose keys may be in no file yet */
    std::string identity;     /* of the database, if its MANIFEST has it */
};

/* Reads the MANIFEST of this directory. It does not open the database, which would need
 * its comparators. */
rocksdb::Status ReadLive(const std::string &db, Live *out);
/* The identity of the database: from its MANIFEST, or from its file IDENTITY. A
 * checkpoint that nobody has opened has no identity: it belongs to the database that
 * wrote the newest of these tables. Empty: unknown. */
std::string IdentityOf(const std::string &db, const Live &live,
                       const std::vector<std::string> &paths);
/* Describes the live files that are not among these; empty if there are none. */
std::string Missing(const Live &live, const std::vector<std::string> &paths);

} // namespace tamis

#endif
