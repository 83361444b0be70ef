/* A table of what a record holds, field by field. `tamis file show` prints from
 * it, and a test holds it against SPEC.md and checks that it covers every byte
 * of the record, so neither can drift from the structs. */
#ifndef TAMIS_FORMAT_FIELD_H
#define TAMIS_FORMAT_FIELD_H

#include "bytes.h"

enum field_type {
    FIELD_UINT,   /* little-endian unsigned, 1, 2, 4 or 8 bytes */
    FIELD_HEX,    /* the same, best read in hexadecimal */
    FIELD_F64,    /* IEEE 754 binary64 */
    FIELD_TIME,   /* microseconds since 1970-01-01 UTC */
    FIELD_BYTES,  /* opaque bytes */
    FIELD_UUID,   /* 16 bytes */
    FIELD_UNUSED, /* must be zero */
};

struct field {
    const char *name;
    uint16_t offset;
    uint16_t n_bytes;
    uint8_t type;
};

#define FIELD(record, member, field_type)                                              \
    {                                                                                  \
#member, (uint16_t)offsetof(record, member),                                   \
            (uint16_t)sizeof(((record *)0)->member), (field_type)                      \
    }

#endif
