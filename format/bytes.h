/* Little-endian fields as byte arrays, magics, and arithmetic that cannot wrap.
 *
 * A record on disk is a struct of these fields: it has alignment 1, no padding
 * and the same bytes on every machine, so offsetof() is its specification
 * (SPEC.md §1). Sizes that come from a file meet other sizes only through the
 * checked functions below. */
#ifndef TAMIS_FORMAT_BYTES_H
#define TAMIS_FORMAT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct le16 {
    uint8_t b[2];
};
struct le32 {
    uint8_t b[4];
};
struct le64 {
    uint8_t b[8];
};

static inline uint16_t le16_get(struct le16 f)
{
    return (uint16_t)(f.b[0] | f.b[1] << 8);
}

static inline uint32_t le32_get(struct le32 f)
{
    return (uint32_t)f.b[0] | (uint32_t)f.b[1] << 8 | (uint32_t)f.b[2] << 16 |
           (uint32_t)f.b[3] << 24;
}

/* Written out: compilers make one load of it, and none of a loop. */
static inline uint64_t le64_get(struct le64 f)
{
    return (uint64_t)f.b[0] | (uint64_t)f.b[1] << 8 | (uint64_t)f.b[2] << 16 |
           (uint64_t)f.b[3] << 24 | (uint64_t)f.b[4] << 32 | (uint64_t)f.b[5] << 40 |
           (uint64_t)f.b[6] << 48 | (uint64_t)f.b[7] << 56;
}

static inline struct le16 le16_of(uint16_t v)
{
    return (struct le16){{(uint8_t)v, (uint8_t)(v >> 8)}};
}

static inline struct le32 le32_of(uint32_t v)
{
    return (struct le32){
        {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)}};
}

static inline struct le64 le64_of(uint64_t v)
{
    struct le64 f;
    for (int i = 0; i < 8; i++)
        f.b[i] = (uint8_t)(v >> (8 * i));
    return f;
}

/* IEEE 754 binary64, stored as the little-endian integer with the same bits. */
static inline double le64_get_f64(struct le64 f)
{
    uint64_t bits = le64_get(f);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline struct le64 le64_of_f64(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return le64_of(bits);
}

/* Each stores the result and returns true, or returns false if it would wrap. */
static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds v up to a multiple of unit, a power of two. */
static inline bool align_up_u64(uint64_t v, uint64_t unit, uint64_t *out)
{
    if (!add_u64(v, unit - 1, out))
        return false;
    *out &= ~(unit - 1);
    return true;
}

static inline uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline bool all_zero(const void *p, size_t n)
{
    const uint8_t *b = p;
    uint64_t any = 0, word;
    for (; n >= sizeof word; n -= sizeof word, b += sizeof word) {
        memcpy(&word, b, sizeof word);
        any |= word;
    }
    while (n > 0)
        any |= b[--n];
    return any == 0;
}

/* The bytes that files and records begin with. As PNG's do, they break when a file is
 * copied as text: a byte above 127, both line ends, and the end of a text in DOS.
 *
 * The first draft of the format had other ones. Nothing reads what it wrote, and no
 * directory that has files of it is tidied up. */
#define MAGIC_OF(a, b, c) "\x89" a b c "\r\n\x1a\n"
#define MAGIC_FILTER      MAGIC_OF("T", "M", "F")
#define MAGIC_COMMIT      MAGIC_OF("T", "C", "R")
#define MAGIC_STORE       MAGIC_OF("T", "M", "S")
#define MAGIC_DEAD        MAGIC_OF("T", "M", "D")
enum { MAGIC_BYTES = 8 };

static inline bool magic_is(const void *bytes, const char *magic)
{
    return memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

/* Does a file of the first draft begin so? */
static inline bool magic_is_draft_file(const void *bytes)
{
    return magic_is(bytes, MAGIC_OF("T", "A", "M")) ||
           magic_is(bytes, MAGIC_OF("T", "P", "D"));
}

#endif
