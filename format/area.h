/* The bytes of a stage descriptor that belong to the kind, in kinds that are no Bloom
 * filters (SPEC.md §17, §18): stage.c decodes them with the rest of a descriptor. One
 * struct stands for each layout. */
#ifndef TAMIS_FORMAT_AREA_H
#define TAMIS_FORMAT_AREA_H

#include "commit.h"

/* The area of kind 2, pack, in the first stage and in the other two (SPEC.md §17). */
enum { AREA_OFFSET = 80, AREA_BYTES = STAGE_BYTES - AREA_OFFSET };
struct rows_area_disk {
    struct le32 n_bands;
    struct le32 n_columns;
    uint8_t area_unused[40];
};
struct table_area_disk {
    struct le64 used_bytes;
    struct le32 n_entries;
    struct le16 content;
    uint8_t area_unused[34];
};

/* The area of kind 5, list, in its first stage (SPEC.md §18); its second is a table. */
struct hashes_area_disk {
    struct le64 n_hashes;
    uint8_t hash_bits;
    uint8_t area_unused[39];
};

/* The area of kind 3, ribbon, in each stage but the last (SPEC.md §19). */
struct ribbon_area_disk {
    struct le64 n_long_pages;
    struct le16 blocks;
    uint8_t area_unused[38];
};

extern const struct field rows_area_fields[];
extern const size_t n_rows_area_fields;
extern const struct field table_area_fields[];
extern const size_t n_table_area_fields;
extern const struct field hashes_area_fields[];
extern const size_t n_hashes_area_fields;
extern const struct field ribbon_area_fields[];
extern const size_t n_ribbon_area_fields;

/* Has stage i of c an area of its kind's own, or is it of split blocks? */
static inline bool area_is_own(uint16_t kind, size_t i, const struct commit *c)
{
    return kind != KIND_BLOOM && (kind != KIND_RIBBON || i + 1 < c->n_stages);
}
/* The fields of a layout's area, the last of which is unused. NULL and 0: the layout is
 * of split blocks, or unknown. */
const struct field *area_fields(uint16_t layout, size_t *n);

#endif
