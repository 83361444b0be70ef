/* Parts of `tamis plan` beside a single plan. */
#ifndef TAMIS_PLAN_H
#define TAMIS_PLAN_H

struct options;

int plan_store(
    const struct options *o); /* store.c: memory over the filters of a store */
int plan_packs(const struct options *o); /* packs.c: the pack of some segments */

#endif
