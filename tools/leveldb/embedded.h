/* The bytes of one filter inside a LevelDB table (README.md): a head byte,
 * the blocks, a checksum. The length tells how many blocks there are. */
#ifndef TAMIS_LEVELDB_EMBEDDED_H
#define TAMIS_LEVELDB_EMBEDDED_H

#include <stdbool.h>

#include <tamis.h>

enum { EMBEDDED_VERSION = 1 };

/* The length of a filter with these blocks; 0 if there is none. */
size_t embedded_bytes(const struct tamis_blocks *blocks);
/* Makes a filter in zeroed memory of that length. False: no filter, discard it. Call
 * crc32c_init() before. */
bool embedded_fill(uint8_t *filter, size_t n_bytes, const struct tamis_blocks *blocks,
                   const struct tamis_key *keys, size_t n);
/* Finds the blocks and their geometry; their tag is not set. False: the filter is
 * short, of an unknown version, of no possible length, or has a wrong checksum, and
 * says nothing about any key. */
bool embedded_read(const uint8_t *filter, size_t n_bytes, struct tamis_blocks *blocks,
                   const uint8_t **bits, size_t *bits_bytes);

/* ==== crc32c.c: CRC-32C, which LevelDB's own blocks have ========================= */

/* Call it before the first crc32c(); any thread, any number of times. */
void crc32c_init(void);
uint32_t crc32c(const void *bytes, size_t n_bytes);
/* Gives one result on every processor. crc32c() uses the instruction, if any. */
uint32_t crc32c_by_tables(const void *bytes, size_t n_bytes);

#endif
