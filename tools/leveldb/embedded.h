/* The bytes of one filter inside a LevelDB table (SPEC.md, Appendix A): a byte that
 * says what follows, the blocks, a checksum. How many blocks there are is in the
 * length. */
#ifndef TAMIS_LEVELDB_EMBEDDED_H
#define TAMIS_LEVELDB_EMBEDDED_H

#include <stdbool.h>

#include <tamis.h>

enum { EMBEDDED_VERSION = 1 };

/* The length of a filter that holds these blocks; 0 if there is no such one. */
size_t embedded_bytes(const struct tamis_blocks *blocks);
/* Makes a filter of zeroed memory of that length. False: it is none, and is to be
 * thrown away. crc32c_init() was called. */
bool embedded_fill(uint8_t *filter, size_t n_bytes, const struct tamis_blocks *blocks,
                   const struct tamis_key *keys, size_t n);
/* Where the blocks are, and of which geometry; their tag is not set. False: the filter
 * is short, of an unknown version, of no possible length, or its checksum is wrong, so
 * that it says nothing about any key. */
bool embedded_read(const uint8_t *filter, size_t n_bytes, struct tamis_blocks *blocks,
                   const uint8_t **bits, size_t *bits_bytes);

#endif
