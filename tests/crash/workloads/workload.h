/* The workloads: what is done to a filter, or to a store, while it is recorded. */
#ifndef TAMIS_TESTS_CRASH_WORKLOAD_H
#define TAMIS_TESTS_CRASH_WORKLOAD_H

#include "tests/crash/record/record.h"

struct workload {
    const char *name;
    void (*run)(struct run *r);
};
void run_store(struct run *r);        /* store.c */
void run_create_store(struct run *r); /* create.c */
void run_repair(struct run *r);       /* repair.c */
void run_backup(struct run *r);       /* backup.c */
void run_embed(struct run *r);        /* embed.c */

/* ---- rot.c ---- */
/* The place of a sector with bits of a committed key, in the page that the next key
 * goes to; false if there is none. While the writer is open, and has one stage. */
bool rot_choose(struct run *r, uint64_t *at);
/* The sector is lost. While no writer is open, and the page is clean. */
void rot(struct run *r, uint64_t at);

extern const struct workload workloads[];
extern const size_t n_workloads;

#endif
