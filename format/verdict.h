/* Why bytes were refused. One verdict names one check (SPEC.md §8 lists the
 * checks in their order); `field` and `offset` say where, the offset counted
 * from the start of the record that was decoded. */
#ifndef TAMIS_FORMAT_VERDICT_H
#define TAMIS_FORMAT_VERDICT_H

#include <stdint.h>

enum verdict_code {
    VERDICT_OK = 0,
    VERDICT_SHORT,    /* fewer bytes than the record, or than it says there are */
    VERDICT_MAGIC,    /* not this kind of record at all */
    VERDICT_DRAFT,    /* of the first draft of the format */
    VERDICT_VERSION,  /* a major version that this code does not know */
    VERDICT_CHECKSUM, /* the bytes are not what was written */
    VERDICT_FLAGS,    /* an incompatible feature that this code does not know */
    VERDICT_UNUSED,   /* a byte that must be zero is not */
    VERDICT_RANGE,    /* a value that no writer of this version produces */
    VERDICT_OVERLAP,  /* two areas of the file share bytes */
    VERDICT_IDENTITY, /* a good record, but of another filter or slot */
    VERDICT_KIND,     /* a kind, layout, hash or growth rule this code lacks */
};

struct verdict {
    enum verdict_code code;
    uint32_t offset;
    const char *field;
};

#define VERDICT_GOOD ((struct verdict){VERDICT_OK, 0, ""})
/* A verdict on one member of an on-disk struct. */
#define VERDICT_AT(code, type, member)                                                 \
    ((struct verdict){(code), (uint32_t)offsetof(type, member), #member})

static inline const char *verdict_text(enum verdict_code code)
{
    switch (code) {
    case VERDICT_OK:
        return "good";
    case VERDICT_SHORT:
        return "shorter than it says";
    case VERDICT_MAGIC:
        return "not a tamis record (wrong magic)";
    case VERDICT_DRAFT:
        return "first draft of the format, make it anew";
    case VERDICT_VERSION:
        return "version that this tamis does not read";
    case VERDICT_CHECKSUM:
        return "does not match";
    case VERDICT_FLAGS:
        return "needs a feature this tamis does not know";
    case VERDICT_UNUSED:
        return "unused byte is not zero";
    case VERDICT_RANGE:
        return "value out of range";
    case VERDICT_OVERLAP:
        return "areas of the file overlap";
    case VERDICT_IDENTITY:
        return "belongs to another filter or place";
    case VERDICT_KIND:
        return "kind, layout, hash or growth rule this tamis does not know";
    }
    return "unknown verdict";
}

#endif
