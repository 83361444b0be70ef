/* The keys: numbered, 8 bytes each, made from the seed; the same ones for tamis and
 * for its peers. Those that are added and those that are not never meet. */
#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

uint64_t key_of(uint64_t i)
{
    return mix(i + mix(bench.seed) * GOLDEN);
}

uint64_t *keys_of(uint64_t first, size_t n)
{
    uint64_t *keys = allocate(n * sizeof *keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = key_of(first + i);
    return keys;
}

void hashes_fill(uint64_t first, size_t n, uint64_t *hashes)
{
    enum { AT_ONCE = 256 };
    uint64_t bytes[AT_ONCE];
    struct tamis_key keys[AT_ONCE];
    for (size_t done = 0; done < n; done += AT_ONCE) {
        size_t m = n - done < AT_ONCE ? n - done : AT_ONCE;
        for (size_t i = 0; i < m; i++) {
            bytes[i] = key_of(first + done + i);
            keys[i] = (struct tamis_key){&bytes[i], sizeof bytes[i], 0, 0};
        }
        tamis_keys_hash(&bench.domain, keys, m);
        for (size_t i = 0; i < m; i++)
            hashes[done + i] = keys[i].hash;
    }
}

uint64_t *hashes_of(uint64_t first, size_t n)
{
    uint64_t *hashes = allocate(n * sizeof *hashes);
    hashes_fill(first, n, hashes);
    return hashes;
}

uint64_t fresh_negatives(uint64_t n)
{
    static uint64_t next = NEGATIVES;
    if (strcmp(bench.planted, "error") == 0)
        return 0;
    uint64_t first = next;
    next += n;
    return first;
}

uint64_t *hashes_spread(size_t n)
{
    uint64_t *hashes = allocate(n * sizeof *hashes);
    uint64_t step = UINT64_MAX / n;
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)(mix(i) % (i + 1));
        /* The middle of part i, and a pattern of its own below. */
        uint64_t hash = i * step + step / 2;
        hash = (hash & ~UINT64_C(0xFFFFFFFF)) | (mix(hash) & 0xFFFFFFFF);
        hashes[i] = hashes[j];
        hashes[j] = hash;
    }
    return hashes;
}
