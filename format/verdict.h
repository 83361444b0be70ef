/* Why bytes were refused. One verdict names one check (SPEC.md §8 lists the
 * checks in their order); `field` and `offset` say where, the offset counted
 * from the start of the record that was decoded. */
#ifndef TAMIS_FORMAT_VERDICT_H
#define TAMIS_FORMAT_VERDICT_H

#include <stddef.h>
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
    static const char *const texts[] = {
        [VERDICT_OK] = "good",
        [VERDICT_SHORT] = "shorter than it says",
        [VERDICT_MAGIC] = "not a tamis record (wrong magic)",
        [VERDICT_DRAFT] = "first draft of the format, make it anew",
        [VERDICT_VERSION] = "version that this tamis does not read",
        [VERDICT_CHECKSUM] = "does not match",
        [VERDICT_FLAGS] = "needs a feature this tamis does not know",
        [VERDICT_UNUSED] = "unused byte is not zero",
        [VERDICT_RANGE] = "value out of range",
        [VERDICT_OVERLAP] = "areas of the file overlap",
        [VERDICT_IDENTITY] = "belongs to another filter or place",
        [VERDICT_KIND] = "kind, layout, hash or growth rule this tamis does not know",
    };
    size_t i = (size_t)code;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown verdict";
}

#endif
