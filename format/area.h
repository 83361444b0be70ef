/* The bytes of a stage descriptor that belong to the kind, in kinds that are no Bloom
 * filters (SPEC.md §17): a descriptor is decoded in stage.c, which asks here. One
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

extern const struct field rows_area_fields[];
extern const size_t n_rows_area_fields;
extern const struct field table_area_fields[];
extern const size_t n_table_area_fields;

void area_encode(const struct stage_desc *s, uint8_t area[AREA_BYTES]);
/* Loads what the descriptor's layout has there. */
void area_load(const uint8_t area[AREA_BYTES], struct stage_desc *s);
/* The rules that stand for C15 to C19 and C22, of descriptor i of c. */
struct verdict area_check(const struct stage_desc *s, size_t i, const struct commit *c);
/* The rule that stands for C26. */
struct verdict area_check_unused(const uint8_t area[AREA_BYTES],
                                 const struct stage_desc *s);

#endif
