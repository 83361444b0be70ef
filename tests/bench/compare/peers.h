/* The peers from Debian, behind one C interface: libbloom, and the filter policy that
 * LevelDB uses for its tables. Both take keys of 8 bytes and hash them themselves. */
#ifndef TAMIS_TESTS_BENCH_PEERS_H
#define TAMIS_TESTS_BENCH_PEERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peer; /* a filter of one of them */

struct peer *libbloom_build(const uint64_t *keys, size_t n, double error);
size_t libbloom_misses(const struct peer *peer, const uint64_t *keys, size_t n);
/* bits_per_key is a whole number there. */
struct peer *leveldb_build(const uint64_t *keys, size_t n, int bits_per_key);
size_t leveldb_misses(const struct peer *peer, const uint64_t *keys, size_t n);
uint64_t peer_bits(const struct peer *peer);
/* How long it took to add the keys, and nothing else. */
double peer_build_ns(const struct peer *peer);
void peer_free(struct peer *peer);

#ifdef __cplusplus
}
#endif

#endif
