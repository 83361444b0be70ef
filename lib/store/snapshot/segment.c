/* Segments of a snapshot: what is known of them, and finding one by name. */
#include "lib/store/snapshot/snapshot.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- describing ---- */

size_t tamis_snapshot_n_segments(const struct tamis_snapshot *snapshot)
{
    return snapshot ? snapshot->n : 0;
}

struct tamis_domain tamis_snapshot_domain(const struct tamis_snapshot *snapshot)
{
    return snapshot ? snapshot->domain : (struct tamis_domain){0};
}

static void info_of_record(const struct entry *e, struct tamis_segment_info *info)
{
    const struct record_disk *r = entry_record(e);
    info->binding = r->binding;
    info->binding_bytes = r->binding_bytes;
    if (e->has_range) {
        info->first_key = entry_first(e, &info->first_key_bytes);
        info->last_key = entry_last(e, &info->last_key_bytes);
    }
    memcpy(info->uuid, r->uuid, UUID_BYTES);
    info->rank = e->rank;
    info->keys = le64_get(r->keys);
    info->file_bytes = le64_get(r->file_bytes);
    info->watermark = e->watermark;
    info->generation = le64_get(r->generation);
    info->created = le64_get(r->created);
    info->error = le64_get_f64(r->target_error);
    if (e->state != RECORD_NO_FILTER && !e->borrowed) {
        char name[FILTER_NAME_BYTES];
        filter_file_name(e->packed ? entry_pack(e) : r->uuid, name);
        snprintf(info->file, sizeof info->file, "filters/%s", name);
    }
}

int tamis_snapshot_segment(const struct tamis_snapshot *snapshot, size_t index,
                           struct tamis_segment_info *info)
{
    if (!info)
        return TAMIS_ERR_RANGE;
    memset(info, 0, sizeof *info);
    if (!snapshot || index >= snapshot->n)
        return TAMIS_ERR_RANGE;
    const struct entry *e = snapshot->entries[index];
    info->name = e->bytes;
    info->name_bytes = e->name_bytes;
    info->state = (enum tamis_segment_state)e->state;
    if (e->state)
        info_of_record(e, info);
    const struct seat *seat = packs_seat(&snapshot->packs, index);
    if (e->packed)
        info->file_bytes = seat ? band_bytes(seat->band) / seat->band->n_columns : 0;
    return 0;
}

int tamis_snapshot_pack(struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **out, struct tamis_pack_place *place)
{
    if (out)
        *out = NULL;
    if (place)
        memset(place, 0, sizeof *place);
    if (!snapshot || index >= snapshot->n)
        return TAMIS_ERR_RANGE;
    const struct seat *seat = packs_seat(&snapshot->packs, index);
    const struct entry *e = snapshot->entries[index];
    if (place && e->packed)
        memcpy(place->uuid, entry_pack(e), UUID_BYTES);
    if (!seat)
        return e->packed ? packs_failure(&snapshot->packs, index)
                         : TAMIS_ERR_NO_SEGMENT;
    if (out)
        *out = seat->pack;
    if (place) {
        const struct open_pack *pack = packs_of_seat(&snapshot->packs, seat);
        place->n_blocks = seat->band->geometry.n_blocks;
        place->lanes = seat->band->geometry.lanes;
        place->words = seat->band->geometry.words;
        place->band = (uint32_t)(seat->band - pack->bands);
        place->column = seat->column;
        place->n_columns = seat->band->n_columns;
        place->row_bytes = seat->band->row_bytes;
        place->n_columns_of_pack = pack->n_columns;
        place->n_bands_of_pack = pack->n_bands;
    }
    return 0;
}

int tamis_snapshot_pack_pages(struct tamis_snapshot *snapshot, size_t index,
                              struct tamis_verify *out)
{
    memset(out, 0, sizeof *out);
    if (!snapshot || index >= snapshot->n)
        return TAMIS_ERR_RANGE;
    const struct seat *seat = packs_seat(&snapshot->packs, index);
    if (!seat)
        return TAMIS_ERR_NO_SEGMENT;
    pack_band_pages(seat->pack, seat->band, out);
    struct column col;
    int rc = packs_column(snapshot, index, &col, NULL);
    return rc == TAMIS_ERR_MISMATCH ? rc : 0;
}

int tamis_snapshot_filter(struct tamis_snapshot *snapshot, size_t index,
                          struct tamis_filter **out, struct tamis_diag *diag)
{
    diag_clear(diag);
    if (out)
        *out = NULL;
    if (!out || !snapshot || index >= snapshot->n)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no segment of that number");
    if (packs_seat(&snapshot->packs, index))
        return unpacked_filter(snapshot, index, out, diag);
    if (snapshot->entries[index]->packed)
        return packs_lost(snapshot, index, diag);
    return entry_filter(snapshot->entries[index], snapshot->dir, &snapshot->domain, out,
                        diag);
}

/* ---- finding ---- */

/* Of a catalog's: the first in the order of names that is not before this one. */
static size_t first_from(const struct tamis_snapshot *s, const void *name,
                         size_t name_bytes)
{
    size_t from = 0, to = s->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (entry_compare_name(s->named[middle], name, name_bytes) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

uint32_t snapshot_slot(const struct tamis_snapshot *s, const void *name,
                       size_t name_bytes)
{
    if (!s->named)
        return names_get(&s->by_name, name, name_bytes);
    size_t at = name && name_bytes ? first_from(s, name, name_bytes) : s->n;
    if (at == s->n || entry_compare_name(s->named[at], name, name_bytes) != 0)
        return 0;
    return s->slots ? s->slots[at] : (uint32_t)at + 1;
}

static bool has_binding(const struct entry *e, const void *binding, size_t n_bytes)
{
    const struct record_disk *r = entry_record(e);
    return r->binding_bytes == n_bytes &&
           (n_bytes == 0 || memcmp(r->binding, binding, n_bytes) == 0);
}

/* Several filters of one name, in a snapshot of filters: the binding must tell. */
static uint32_t find_among_twins(const struct tamis_snapshot *s, const void *name,
                                 size_t name_bytes, const void *binding,
                                 size_t binding_bytes)
{
    uint32_t slot = 0;
    for (size_t i = 0; binding && i < s->n; i++) {
        const struct entry *e = s->entries[i];
        if (entry_compare_name(e, name, name_bytes) != 0 ||
            !has_binding(e, binding, binding_bytes))
            continue;
        if (slot)
            return 0;
        slot = (uint32_t)i + 1;
    }
    return slot;
}

/* A list that was made of files alone may call a filter a segment's that never was: an
 * edit's that was killed before its commit. Until the engine has confirmed the list,
 * only a binding says that the filter is of the file that is meant (SPEC.md section
 * 7.3, "uncommitted edit"); a binding of no bytes says nothing. */
static bool is_unproven(const struct tamis_snapshot *s, const struct entry *e,
                        size_t binding_bytes)
{
    return !s->complete && !binding_bytes && e->state != RECORD_NO_FILTER;
}

int tamis_snapshot_find(const struct tamis_snapshot *snapshot, const void *name,
                        size_t name_bytes, const void *binding, size_t binding_bytes,
                        uint64_t min_watermark, struct tamis_target *target)
{
    if (!target)
        return TAMIS_ERR_RANGE;
    *target = (struct tamis_target){.refusal = TAMIS_UNKNOWN_SEGMENT,
                                    .min_watermark = min_watermark};
    uint32_t slot = snapshot ? snapshot_slot(snapshot, name, name_bytes) : 0;
    if (!slot)
        return TAMIS_ERR_NO_SEGMENT;
    if (slot == NAME_TWICE)
        slot = find_among_twins(snapshot, name, name_bytes, binding, binding_bytes);
    if (!slot) {
        target->refusal = TAMIS_MISMATCH;
        return TAMIS_ERR_MISMATCH;
    }
    const struct entry *e = snapshot->entries[slot - 1];
    target->slot = slot;
    target->snapshot = snapshot->serial;
    target->refusal = 0;
    if (!e->state) {
        target->refusal = TAMIS_UNREADABLE;
        return e->refusal;
    }
    if (binding && !has_binding(e, binding, binding_bytes)) {
        target->refusal = TAMIS_MISMATCH;
        return TAMIS_ERR_MISMATCH;
    }
    if (is_unproven(snapshot, e, binding ? binding_bytes : 0))
        target->refusal = TAMIS_MISMATCH;
    return 0;
}

struct tamis_target tamis_snapshot_target(const struct tamis_snapshot *snapshot,
                                          size_t index)
{
    if (!snapshot || index >= snapshot->n)
        return (struct tamis_target){.refusal = TAMIS_UNKNOWN_SEGMENT};
    struct tamis_target target = {.slot = (uint32_t)index + 1,
                                  .snapshot = snapshot->serial};
    const struct entry *e = snapshot->entries[index];
    if (e->state && is_unproven(snapshot, e, 0))
        target.refusal = TAMIS_MISMATCH;
    return target;
}
