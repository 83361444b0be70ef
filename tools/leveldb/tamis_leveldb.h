/* tamis for LevelDB: a filter policy that keeps split blocks, checked on every use,
 * inside LevelDB's own tables. README.md has its bytes, and an example.
 *
 * It keeps the rule of tamis: a filter that is damaged, truncated or of an unknown
 * version answers "may match". LevelDB's own policy answers from any bytes, and
 * LevelDB checks a table's filters only if it was opened with paranoid_checks.
 * README.md also says what no policy can notice. */
#ifndef TAMIS_LEVELDB_H
#define TAMIS_LEVELDB_H

#include <leveldb/c.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* LevelDB asks for a filter of each data block or two, some dozens of keys. Each has an
 * error of at most `error` (1e-8 .. 0.5; 0 is 0.01) in as few blocks of 64 bytes as
 * that takes; of these it makes the best use, so that most have a lower one.
 *
 * `seed` is for the hash: 0, or a number of the database's own that nobody can guess,
 * if its keys may be chosen to hit filters. It is part of the policy's name, by which
 * LevelDB finds a table's filters. With another seed, or another policy, a database is
 * whole, and its older tables are read without filters until they are compacted.
 * `error` may change at any time.
 *
 * One policy serves any number of databases and threads. LevelDB does not own it:
 * destroy it after they are closed, with leveldb_filterpolicy_destroy(). NULL if
 * memory is short, or `error` out of range.
 *
 * Only for databases in which keys that compare equal are the same bytes, as under
 * LevelDB's default comparator. */
leveldb_filterpolicy_t *tamis_leveldb_policy(double error, uint64_t seed);

/* The same in parts, for a leveldb::FilterPolicy of your own (tamis_leveldb.hh is one).
 * create returns malloc'd memory; a length of 0 means no filter, which may match. Any
 * number of threads may use one state. */
void *tamis_leveldb_state_new(double error, uint64_t seed);
void tamis_leveldb_state_free(void *state);
const char *tamis_leveldb_name(void *state);
char *tamis_leveldb_create(void *state, const char *const *keys,
                           const size_t *keys_bytes, int n_keys, size_t *n_bytes);
uint8_t tamis_leveldb_may_match(void *state, const char *key, size_t key_bytes,
                                const char *filter, size_t n_bytes);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
