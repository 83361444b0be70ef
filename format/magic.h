/* The bytes that files and records begin with (SPEC.md §5, §6, §13.1, §17.5). As PNG's
 * do, they break when a file is copied as text: a byte above 127, both line ends, and
 * the end of a text in DOS.
 *
 * The first draft of the format had other ones. Nothing reads what it wrote, and no
 * directory that has files of it is tidied up. */
#ifndef TAMIS_FORMAT_MAGIC_H
#define TAMIS_FORMAT_MAGIC_H

#include "bytes.h"

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

/* Does a meta record of its catalogs? */
static inline bool magic_is_draft_store(const void *bytes)
{
    return magic_is(bytes, MAGIC_OF("T", "S", "T"));
}

#endif
