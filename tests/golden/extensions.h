/* Where the extensions of 1.0 stand that SPEC.md 10.1 reserves. Most of them the code
 * does not know yet: these numbers are for the golden files and for the test that no
 * 1.0 reader or writer does harm to them. */
#ifndef TAMIS_TESTS_GOLDEN_EXTENSIONS_H
#define TAMIS_TESTS_GOLDEN_EXTENSIONS_H

#include <stdint.h>

enum {
    KIND_MAP = 4,
    LAYOUT_VALUES = 4,
};

/* Feature bits. */
#define IDENTITY_RO_SERIES UINT64_C(1)
#define COMMIT_SETTLED_BIT UINT64_C(1)
#define META_RO_PACKS      (UINT64_C(1) << 0)
#define META_RO_RIBBONS    (UINT64_C(1) << 1)
#define META_RO_MAPS       (UINT64_C(1) << 2)
#define META_RO_LISTS      (UINT64_C(1) << 3)
#define META_RO_COUNTED    (UINT64_C(1) << 4)
#define RECORD_RO_PACKED   (UINT64_C(1) << 0)
#define RECORD_RO_LISTED   (UINT64_C(1) << 1)
#define RECORD_RO_COUNTED  (UINT64_C(1) << 2)

/* Offsets in their records. */
enum {
    AT_SERIES = 896,      /* identity */
    AT_N_SETTLED = 93,    /* commit head */
    AT_SETTLED_PAGE = 66, /* stage descriptor: 6 bytes */
    AT_SETTLED_ROOT = 72,
    AT_KIND = 80,
    AT_PLACE_UUID = 184, /* segment record */
    AT_PLACE_DIGEST = 200,
    AT_BAND = 208,
    AT_COLUMN = 212,
    AT_LIST_UUID = 216,
    AT_LIST_DIGEST = 232,
};

#endif
