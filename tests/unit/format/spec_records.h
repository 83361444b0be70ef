/* SPEC.md's records and fields, for the tests that hold it against the code. */
#ifndef TAMIS_TESTS_SPEC_RECORDS_H
#define TAMIS_TESTS_SPEC_RECORDS_H

#include "tests/support/spec_text.h"
#include "tests/unit/format/spec_fields.h"

#include "format/area.h"
#include "format/ribbon.h"

/* Not const: how many fields there are is known when the program runs. */
static struct record_table {
    const char *name;
    const struct field *fields;
    const size_t *n_fields;
    size_t n_bytes;
} records[] = {
    {"identity_disk", identity_fields, &n_identity_fields, IDENTITY_BYTES},
    {"commit_disk", commit_fields, &n_commit_fields, COMMIT_HEAD_BYTES},
    {"stage_disk", stage_fields, &n_stage_fields, STAGE_BYTES},
    {"rows_area_disk", rows_area_fields, &n_rows_area_fields, AREA_BYTES},
    {"table_area_disk", table_area_fields, &n_table_area_fields, AREA_BYTES},
    {"hashes_area_disk", hashes_area_fields, &n_hashes_area_fields, AREA_BYTES},
    {"list_page_disk", list_page_fields, &n_list_page_fields, LIST_HEAD_BYTES},
    {"ribbon_area_disk", ribbon_area_fields, &n_ribbon_area_fields, AREA_BYTES},
    {"band_disk", band_fields, &n_band_fields, BAND_BYTES},
    {"index_disk", index_fields, &n_index_fields, INDEX_HEAD_BYTES},
    {"column_disk", column_fields, &n_column_fields, COLUMN_HEAD_BYTES},
    {"dead_disk", dead_fields, &n_dead_fields, DEAD_HEAD_BYTES},
    {"floor_sector_disk", floor_sector_fields, &n_floor_sector_fields, SECTOR_BYTES},
    {"meta_disk", meta_fields, &n_meta_fields, META_BYTES},
    {"record_disk", record_fields, &n_record_fields, RECORD_HEAD_BYTES},
    {"part_disk", part_fields, &n_part_fields, PART_BYTES},
    {"listing_disk", listing_fields, &n_listing_fields, LISTING_BYTES},
};

#endif
