/* The fields of records that nothing but tests and fuzz targets reads field by field:
 * of the catalog, of a pack's tables and tombstones, of a page of a list, of floors.
 * The other tables of this kind are in format/. */
#ifndef TAMIS_TESTS_SPEC_FIELDS_H
#define TAMIS_TESTS_SPEC_FIELDS_H

#include "format/field.h"
#include "format/integrity.h"
#include "format/list.h"
#include "format/pack.h"
#include "format/record.h"

#define FIELDS_OF(record, ...)                                                         \
    static const struct field record##_fields[]                                        \
        __attribute__((unused)) = {__VA_ARGS__};                                       \
    static const size_t n_##record##_fields __attribute__((unused)) =                  \
        sizeof record##_fields / sizeof record##_fields[0];

#define F(member, type) FIELD(struct record_disk, member, type)
FIELDS_OF(record, F(state, FIELD_UINT), F(kind, FIELD_UINT), F(has_range, FIELD_UINT),
          F(binding_bytes, FIELD_UINT), F(first_bytes, FIELD_UINT),
          F(last_bytes, FIELD_UINT), F(compat, FIELD_HEX), F(ro_compat, FIELD_HEX),
          F(incompat, FIELD_HEX), F(uuid, FIELD_UUID), F(generation, FIELD_UINT),
          F(table_digest, FIELD_HEX), F(file_bytes, FIELD_UINT), F(keys, FIELD_UINT),
          F(target_error, FIELD_F64), F(watermark, FIELD_UINT),
          F(min_sequence, FIELD_UINT), F(min_stages, FIELD_UINT), F(rank, FIELD_UINT),
          F(created, FIELD_TIME), F(binding, FIELD_BYTES), F(n_parts, FIELD_UINT),
          F(unused, FIELD_UNUSED))
#undef F

#define F(member, type) FIELD(struct part_disk, member, type)
FIELDS_OF(part, F(uuid, FIELD_UUID), F(table_digest, FIELD_HEX), F(column, FIELD_UINT),
          F(kind, FIELD_UINT), F(unused, FIELD_UNUSED))
#undef F

#define F(member, type) FIELD(struct listing_disk, member, type)
FIELDS_OF(listing, F(table_digest, FIELD_HEX), F(chunks_sum, FIELD_HEX),
          F(names_sum, FIELD_HEX), F(n_columns, FIELD_UINT), F(n_listed, FIELD_UINT),
          F(n_overridden, FIELD_UINT), F(checksum, FIELD_HEX))
#undef F

#define F(member, type) FIELD(struct band_disk, member, type)
FIELDS_OF(band, F(rows_offset, FIELD_UINT), F(n_blocks, FIELD_UINT),
          F(n_columns, FIELD_UINT), F(first_column, FIELD_UINT),
          F(row_bytes, FIELD_UINT), F(lanes, FIELD_UINT), F(words, FIELD_UINT),
          F(unused, FIELD_UNUSED))
#undef F

#define F(member, type) FIELD(struct column_disk, member, type)
FIELDS_OF(column, F(uuid, FIELD_UUID), F(set_id, FIELD_UUID),
          F(table_digest, FIELD_HEX), F(generation, FIELD_UINT),
          F(watermark, FIELD_UINT), F(keys, FIELD_UINT), F(target_error, FIELD_F64),
          F(created, FIELD_TIME), F(own_blocks, FIELD_UINT), F(rank, FIELD_UINT),
          F(column, FIELD_UINT), F(name_bytes, FIELD_UINT),
          F(binding_bytes, FIELD_UINT), F(has_range, FIELD_UINT),
          F(unused, FIELD_UNUSED), F(first_bytes, FIELD_UINT),
          F(last_bytes, FIELD_UINT))
#undef F

#define F(member, type) FIELD(struct index_disk, member, type)
FIELDS_OF(index, F(n_items, FIELD_UINT), F(level, FIELD_UINT), F(unused, FIELD_UNUSED),
          F(first_child, FIELD_UINT))
#undef F

#define F(member, type) FIELD(struct dead_disk, member, type)
FIELDS_OF(dead, F(magic, FIELD_BYTES), F(major, FIELD_UINT), F(minor, FIELD_UINT),
          F(n_columns, FIELD_UINT), F(uuid, FIELD_UUID), F(table_digest, FIELD_HEX),
          F(unused, FIELD_UNUSED))
#undef F

#define F(member, type) FIELD(struct list_page_disk, member, type)
FIELDS_OF(list_page, F(first, FIELD_HEX), F(n_hashes, FIELD_UINT),
          F(gap_bits, FIELD_UINT))
#undef F

#define F(member, type) FIELD(struct floor_sector_disk, member, type)
FIELDS_OF(floor_sector, F(floor, FIELD_BYTES), F(uuid_head, FIELD_BYTES),
          F(checksum, FIELD_HEX))
#undef F

#endif
