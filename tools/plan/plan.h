/* Parts of `tamis plan` beside a single plan. One banner per source file. */
#ifndef TAMIS_PLAN_H
#define TAMIS_PLAN_H

#include "../output/json.h"
#include "tamis.h"

struct options;

/* ==== lanes.c: why so many lanes and words ======================================= */

/* Cache lines that a lookup of an absent key touches in a stage, expected: a lane is
 * one, and where it errs the next one is asked. */
double lines_of(uint32_t lanes, double error);
/* For each number of lanes the smallest filter that meets the error: an object in the
 * list, or (NULL) a row of a table. */
void show_lanes(const struct tamis_plan *chosen, double error, json_t *list);

/* ==== store.c: memory over the filters of a store ================================ */

int plan_store(const struct options *o);

/* ==== packs.c: the pack of some segments ========================================= */

int plan_packs(const struct options *o);

#endif
