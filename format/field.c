/* Records to structs and back, by their tables. */
#include "field.h"

static bool is_number(const struct field *f)
{
    return f->type <= FIELD_TIME;
}

/* Where the low n bytes of a word are in memory. */
static size_t low_bytes_at(size_t n)
{
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint64_t) - n : 0;
}

void fields_load(const struct field *f, size_t n, const void *record, void *decoded)
{
    for (; n > 0; n--, f++) { /* without fields f may be NULL */
        const uint8_t *from = (const uint8_t *)record + f->offset;
        uint8_t *to = (uint8_t *)decoded + f->native;
        struct le64 word = {{0}};
        if (f->native_bytes == 0)
            continue;
        if (!is_number(f)) {
            memcpy(to, from, f->native_bytes);
            continue;
        }
        memcpy(&word, from, f->n_bytes);
        uint64_t v = le64_get(word);
        memcpy(to, (uint8_t *)&v + low_bytes_at(f->native_bytes), f->native_bytes);
    }
}

void fields_store(const struct field *f, size_t n, const void *decoded, void *record)
{
    for (; n > 0; n--, f++) { /* without fields f may be NULL */
        const uint8_t *from = (const uint8_t *)decoded + f->native;
        uint8_t *to = (uint8_t *)record + f->offset;
        uint64_t v = 0;
        if (f->native_bytes == 0)
            continue;
        if (!is_number(f)) {
            memcpy(to, from, f->n_bytes);
            continue;
        }
        memcpy((uint8_t *)&v + low_bytes_at(f->native_bytes), from, f->native_bytes);
        struct le64 word = le64_of(v);
        memcpy(to, &word, f->n_bytes);
    }
}
