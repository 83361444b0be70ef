/* CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum that LevelDB's own blocks
 * have. Unlike a hash it promises something about small damage. */
#ifndef TAMIS_LEVELDB_CRC32C_H
#define TAMIS_LEVELDB_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Call it before the first crc32c(); any thread, any number of times. */
void crc32c_init(void);
uint32_t crc32c(const void *bytes, size_t n_bytes);
/* Gives one result on every processor. crc32c() uses the instruction, if any. */
uint32_t crc32c_by_tables(const void *bytes, size_t n_bytes);

#endif
