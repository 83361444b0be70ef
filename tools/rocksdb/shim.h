/* The shim from inside: shared by collectors, the listener and the calls of
 * tamis_rocksdb.h. One store, one database. */
#ifndef TAMIS_ROCKSDB_SHIM_H
#define TAMIS_ROCKSDB_SHIM_H

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "segment.h"
#include "tamis_rocksdb.h"

namespace tamis
{

/* The SST's property that says which collector saw its keys. */
extern const char kGathered[];
/* The segment that says that the list is incomplete. */
extern const char kMark[];

using Bindings = std::map<std::string, std::string>; /* of files, by name */

/* The keys of one SST, from the first to Finish(). */
struct Gathered {
    std::string id; /* the value of kGathered; no two are the same */
    Builder builder;
    uint64_t n_entries = 0; /* range deletions included */
    bool ranges = false;    /* it has range deletions: no filter can tell */
    int failure = 0;        /* of ours */
    std::string words;      /* about it */
};

class RocksShim : public std::enable_shared_from_this<RocksShim>
{
  public:
    explicit RocksShim(const RocksOptions &options) : options_(options)
    {
    }
    rocksdb::Status OpenStore();
    tamis_store *store() const
    {
        return store_.get();
    }

    /* ---- collectors (collector.cc) ---- */
    std::unique_ptr<Gathered> Begin(int level);
    /* One thread calls Finish() of a table and then its OnTableFileCreated, with no
     * other table between: so each thread leaves one behind. */
    void HandOver(std::unique_ptr<Gathered> keys);
    std::unique_ptr<Gathered> Take(const rocksdb::TableProperties &properties);

    /* ---- the list (shim.cc); failures go to complain, and no further ---- */
    /* Lists a new SST, with a filter of these keys if they are complete. */
    void List(const Segment &segment, const rocksdb::TableProperties &properties,
              Gathered *keys);
    /* Lists it without one, then builds one by reading the file. */
    void ListIngested(rocksdb::DB *db, const std::string &path,
                      const rocksdb::TableProperties &properties);
    void Drop(const std::string &name);
    /* Lists what could not be listed. */
    void Retry(const char *what, const char *step) noexcept;
    /* The list is incomplete from Mark() to the last Unmark(). */
    void Mark(rocksdb::DB *db);
    void Unmark();
    /* (reconcile.cc) */
    rocksdb::Status
    Reconcile(rocksdb::DB *db,
              const std::vector<rocksdb::ColumnFamilyHandle *> &families);

    void Allow(const rocksdb::Comparator *order); /* its keys may be filtered */
    bool IsOurs(const std::string &db_name);
    /* Is the store that of the database with this identity? A store without segments
     * becomes it. Else it complains, and from then on does nothing. */
    bool Serves(const std::string &identity);
    bool Serves(rocksdb::DB *db);
    std::string refusal();
    bool IsRefused();
    std::string tag(); /* of the database; empty: not known yet, or refused */
    RocksCounts Counts();
    void Step(const char *name)
    {
        if (options_.step)
            options_.step(name);
    }
    void Complain(const std::string &line) const noexcept;

    /* Runs the body of a callback; no exception leaves it. */
    template <class F> void Guarded(const char *what, F f) noexcept
    {
        try {
            f();
        } catch (const std::exception &e) {
            Complain(std::string(what) + ": " + e.what());
        } catch (...) {
            Complain(what);
        }
    }

  private:
    /* Why there can be no filter; empty: there can be one. */
    std::string Objection(const Segment &segment,
                          const rocksdb::TableProperties &properties,
                          const Gathered *keys);
    const rocksdb::Comparator *Order(const std::string &name);
    void ForgetOlder(const std::string &session);
    int Put(const Segment &segment, tamis_builder *builder, std::string *words);
    void PutOrBare(const Segment &segment, tamis_builder *builder);
    int BeginChange(Change *change);
    /* With the mutex held. `now` is older than the list of live files. */
    int Bring(const Bindings &live, const std::string &tag, const Snapshot &now,
              tamis_diag *diag);

    const RocksOptions options_;
    Store store_;
    struct tamis_store_info info_ = {}; /* the part that does not change */
    /* Shared by changes of one segment, exclusive for Reconcile(): no file appears or
     * goes between its look at the engine and its edit. */
    std::shared_mutex gate_;
    std::mutex mutex_; /* for all below */
    std::unordered_map<std::thread::id, std::unique_ptr<Gathered>> left_;
    std::map<std::string, const rocksdb::Comparator *> allowed_;
    /* Name and binding of segments listed since Open(): perhaps not live yet. */
    std::unordered_map<std::string, std::string> fresh_;
    std::string session_; /* of the database, when it was last reconciled */
    std::map<std::string, Segment> unlisted_;
    std::string db_name_;
    std::string tag_;     /* of the database, once it is known */
    std::string refusal_; /* why the store is not this database's */
    RocksCounts counts_ = {};
    /* Two ingestions share the mark: each counts itself and changes the list in one
     * step. Taken before the gate. */
    std::mutex marking_;
    std::atomic<unsigned> n_marks_ = 0;
};

std::shared_ptr<rocksdb::TablePropertiesCollectorFactory>
NewCollectorFactory(std::shared_ptr<RocksShim> shim);
std::shared_ptr<rocksdb::EventListener> NewListener(std::shared_ptr<RocksShim> shim);

} // namespace tamis

#endif
