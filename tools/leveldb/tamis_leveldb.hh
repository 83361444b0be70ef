// tamis_leveldb.h for those who use LevelDB from C++.
#ifndef TAMIS_LEVELDB_HH
#define TAMIS_LEVELDB_HH

#include <cstdlib>
#include <leveldb/filter_policy.h>
#include <leveldb/slice.h>
#include <new>
#include <string>
#include <vector>

#include "tamis_leveldb.h"

class TamisFilterPolicy : public leveldb::FilterPolicy
{
  public:
    explicit TamisFilterPolicy(double error = 0.01, uint64_t seed = 0)
        : state_(tamis_leveldb_state_new(error, seed))
    {
        if (!state_)
            throw std::bad_alloc();
    }
    ~TamisFilterPolicy() override
    {
        tamis_leveldb_state_free(state_);
    }
    TamisFilterPolicy(const TamisFilterPolicy &) = delete;
    TamisFilterPolicy &operator=(const TamisFilterPolicy &) = delete;

    const char *Name() const override
    {
        return tamis_leveldb_name(state_);
    }
    void CreateFilter(const leveldb::Slice *keys, int n, std::string *to) const override
    {
        std::vector<const char *> bytes;
        std::vector<size_t> sizes;
        size_t n_bytes;
        for (int i = 0; i < n; i++) {
            bytes.push_back(keys[i].data());
            sizes.push_back(keys[i].size());
        }
        char *filter =
            tamis_leveldb_create(state_, bytes.data(), sizes.data(), n, &n_bytes);
        to->append(filter ? filter : "", n_bytes);
        std::free(filter);
    }
    bool KeyMayMatch(const leveldb::Slice &key,
                     const leveldb::Slice &filter) const override
    {
        return tamis_leveldb_may_match(state_, key.data(), key.size(), filter.data(),
                                       filter.size()) != 0;
    }

  private:
    void *state_;
};

#endif
