/* libbloom, and LevelDB's FilterPolicy called directly (peers.h). */
#include "tests/bench/compare/peers.h"

#include <bloom.h>
#include <leveldb/filter_policy.h>
#include <leveldb/slice.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

struct peer {
    struct bloom bloom = {};
    bool is_bloom = false;
    std::unique_ptr<const leveldb::FilterPolicy> policy;
    std::string bits;
    double build_ns = 0;
};

using steady = std::chrono::steady_clock;

static double ns_since(steady::time_point began)
{
    return std::chrono::duration<double, std::nano>(steady::now() - began).count();
}

static leveldb::Slice slice_of(const uint64_t *key)
{
    return leveldb::Slice(reinterpret_cast<const char *>(key), sizeof *key);
}

struct peer *libbloom_build(const uint64_t *keys, size_t n, double error)
{
    auto p = std::make_unique<peer>();
    if (bloom_init(&p->bloom, static_cast<int>(n), error) != 0)
        return nullptr;
    p->is_bloom = true;
    auto began = steady::now();
    for (size_t i = 0; i < n; i++)
        bloom_add(&p->bloom, &keys[i], sizeof keys[i]);
    p->build_ns = ns_since(began);
    return p.release();
}

size_t libbloom_misses(const struct peer *peer, const uint64_t *keys, size_t n)
{
    size_t misses = 0;
    struct bloom bloom = peer->bloom;
    for (size_t i = 0; i < n; i++)
        misses += bloom_check(&bloom, &keys[i], sizeof keys[i]) == 0;
    return misses;
}

struct peer *leveldb_build(const uint64_t *keys, size_t n, int bits_per_key)
{
    auto p = std::make_unique<peer>();
    p->policy.reset(leveldb::NewBloomFilterPolicy(bits_per_key));
    std::vector<leveldb::Slice> slices(n);
    for (size_t i = 0; i < n; i++)
        slices[i] = slice_of(&keys[i]);
    auto began = steady::now();
    p->policy->CreateFilter(slices.data(), static_cast<int>(n), &p->bits);
    p->build_ns = ns_since(began);
    return p.release();
}

size_t leveldb_misses(const struct peer *peer, const uint64_t *keys, size_t n)
{
    size_t misses = 0;
    leveldb::Slice bits(peer->bits);
    for (size_t i = 0; i < n; i++)
        misses += !peer->policy->KeyMayMatch(slice_of(&keys[i]), bits);
    return misses;
}

uint64_t peer_bits(const struct peer *peer)
{
    return peer->is_bloom ? static_cast<uint64_t>(peer->bloom.bits)
                          : 8 * static_cast<uint64_t>(peer->bits.size());
}

double peer_build_ns(const struct peer *peer)
{
    return peer->build_ns;
}

void peer_free(struct peer *peer)
{
    if (peer && peer->is_bloom)
        bloom_free(&peer->bloom);
    delete peer;
}
