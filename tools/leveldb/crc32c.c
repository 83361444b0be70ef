/* Computed for every probe; Debian has no library for it. It uses the processor's
 * instruction if there is one (SSE 4.2), else eight bytes a step by eight tables
 * (Kounavis and Berry, "A systematic approach to building high performance
 * software-based CRC generators", 2005). */
#include "embedded.h"

#include <pthread.h>
#include <string.h>

enum { STEP = 8 };

static const uint32_t polynomial = 0x82F63B78; /* 0x1EDC6F41, its bits reversed */

/* table[k][b]: what byte b does to the checksum k bytes later. */
static uint32_t table[STEP][256];
static bool has_instruction;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < STEP; k++)
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t before = table[k - 1][b];
            table[k][b] = before >> 8 ^ table[0][before & 0xFF];
        }
#ifdef __x86_64__
    has_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

void crc32c_init(void)
{
    pthread_once(&once, fill);
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(const uint8_t *p,
                                                                 size_t n_bytes)
{
    uint64_t crc = UINT32_MAX;
    for (; n_bytes >= STEP; p += STEP, n_bytes -= STEP) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; n_bytes; p++, n_bytes--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}
#else
static uint32_t by_instruction(const uint8_t *p, size_t n_bytes)
{
    return crc32c_by_tables(p, n_bytes);
}
#endif

uint32_t crc32c(const void *bytes, size_t n_bytes)
{
    return has_instruction ? by_instruction(bytes, n_bytes)
                           : crc32c_by_tables(bytes, n_bytes);
}

uint32_t crc32c_by_tables(const void *bytes, size_t n_bytes)
{
    const uint8_t *p = bytes;
    uint32_t crc = UINT32_MAX;
    for (; n_bytes >= STEP; p += STEP, n_bytes -= STEP)
        crc = table[7][p[0] ^ (crc & 0xFF)] ^ table[6][p[1] ^ (crc >> 8 & 0xFF)] ^
              table[5][p[2] ^ (crc >> 16 & 0xFF)] ^ table[4][p[3] ^ crc >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    for (; n_bytes; p++, n_bytes--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xFF];
    return ~crc;
}
