/* A table of what a record holds, field by field. Records are encoded and decoded by
 * it, and `tamis file show` prints from it. A test holds it against SPEC.md and checks
 * that it covers every byte of the record, so neither can drift from the structs. */
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
    uint16_t native, native_bytes; /* the decoded struct's member; 0 bytes: none */
};

#define FIELD(record, member, type) FIELD_INTO(record, member, type, 0, 0)
/* A field and a member of the decoded struct: of the same name, or of another one. */
#define FIELD_OF(record, decoded, member, type)                                        \
    FIELD_AS(record, member, type, decoded, member)
#define FIELD_AS(record, member, type, decoded, into)                                  \
    FIELD_INTO(record, member, type, offsetof(decoded, into),                          \
               sizeof(((decoded *)0)->into))
#define FIELD_INTO(record, member, field_type, into, into_bytes)                       \
    {                                                                                  \
#member, (uint16_t)offsetof(record, member),                                   \
            (uint16_t)sizeof(((record *)0)->member), (field_type), (uint16_t)(into),   \
            (uint16_t)(into_bytes)                                                     \
    }

/* Fields without a member in the decoded struct stay as they are. */
void fields_load(const struct field *fields, size_t n, const void *record,
                 void *decoded);
void fields_store(const struct field *fields, size_t n, const void *decoded,
                  void *record);

#endif
