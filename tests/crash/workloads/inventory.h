/* A store with something of everything, and what is known of it: for what repairs it
 * and copies it. Only one is there at a time; what is done to it promises no more. */
#ifndef TAMIS_TESTS_CRASH_INVENTORY_H
#define TAMIS_TESTS_CRASH_INVENTORY_H

#include "tests/crash/workloads/store.h"

enum worth {
    GOOD,
    ROTTEN, /* a page of its sealed filter fails its digest */
    GONE,   /* its file is missing */
    TWICE,  /* an older file of it is there, too */
    BARE    /* has never had a filter */
};

struct item {
    char name[8], file[64]; /* file: within the store */
    enum worth worth;
    bool growing;
    size_t from, n_keys; /* of the run's; growing: as promised */
};

/* A filter that must not go away; a growing one may change. */
struct kept {
    char name[64]; /* in filters/, or in the store */
    const struct item *item;
    bool sweepable; /* nothing names it, as long as there is a catalog */
    uint8_t *bytes;
    size_t n_bytes;
};

enum { MAX_ITEMS = 8 };
struct inventory {
    struct item item[MAX_ITEMS];
    struct kept kept[2 * MAX_ITEMS];
    size_t n_items, n_kept;
    bool lost;           /* the catalog: it will be incomplete */
    struct kept catalog; /* what is left of a lost one; without bytes: nothing */
};
extern struct inventory inventory;

/* Makes the store; none of it is recorded. Leaves the growing filter's writer open. */
void inventory_make(struct run *r, const char *path);
/* Damages it; its writers are closed. */
void inventory_damage(struct run *r, const char *path, bool lose_catalog);

/* Each key may be there, in its segment and in all of the store; each segment is listed
 * that should be, and has its filter if that is good. repaired: it must open, and
 * damaged filters must have left it. False: it does not open, and need not. */
bool expect_inventory(const struct run *r, const char *path, bool repaired);
/* The filters are there, in filters/ or in quarantine/, as they were. */
void expect_kept(const struct run *r, const char *path);

/* A run that begins with the state at `path`, recorded: cut again. */
struct run *inventory_next(struct run *r, const char *path, uint64_t hash, bool record);
void inventory_end(struct run *next);

#endif
