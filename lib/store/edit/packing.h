/* Packs in an edit: packing.c and packer.c make them, place.c lists their columns. */
#ifndef TAMIS_STORE_EDIT_PACKING_H
#define TAMIS_STORE_EDIT_PACKING_H

#include "lib/pack/pack.h"
#include "lib/store/edit/inside.h"

/* A new pack: its columns are segments that it puts, or segments of a snapshot. */
struct edit_pack {
    struct pack_place place;         /* uuid and digest */
    struct open_pack *open;          /* says which segments are put; else NULL */
    struct tamis_snapshot *snapshot; /* whose segments get columns; else NULL */
    uint32_t n_columns;
    uint32_t segments[]; /* of the snapshot, by column, plus 1; 0: of none */
};
/* An operation for it. Snapshot NULL: the edit puts the segments that the pack's file
 * names. An errno, or a code of open_pack_get(). */
int edit_op_of_pack(const struct tamis_edit *e, const struct pack_place *place,
                    uint32_t n_columns, struct tamis_snapshot *s, struct edit_op **out,
                    struct tamis_diag *diag);
/* Removes the files of a pack that is not put. Nothing keeps it open any more. */
void edit_unlink_pack(const struct tamis_edit *e, const struct pack_place *place);

/* ==== packer.c, for packing.c as well ==== */

/* Plans the bands, and so each column's place; ERR_RANGE, ENOMEM. */
int pack_plan_bands(const struct tamis_edit *e, struct pack_source *sources, size_t n,
                    struct pack_plan *plan, struct tamis_diag *diag);
/* Reports the size of the pack, looks for room, and writes it and its tombstones,
 * unless it is a dry run. Sets the job's uuids and domain, and the place. If it fails,
 * nothing is left. */
int pack_make(struct tamis_edit *e, struct pack_job *job, bool dry_run,
              struct tamis_pack_report *r, struct pack_place *place,
              struct tamis_diag *diag);

#endif
