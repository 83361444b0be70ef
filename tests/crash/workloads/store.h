/* A run of a store: what it lists, and the catalog beside the recorded disk. */
#ifndef TAMIS_TESTS_CRASH_STORE_H
#define TAMIS_TESTS_CRASH_STORE_H

#include "tests/crash/check.h"
#include "tests/model/model.h"

enum { MAX_SEGMENTS = 32 };
/* Segment "0", "1", ... of sealed filters; "g" is the growing one, whose promises are
 * those of the run. Keys of sealed ones come from the end of the run's list. */
struct segment {
    char name[8];
    bool growing, bare;
    enum standing standing;
    uint32_t version; /* its rank: one more each time that its name is put anew */
    size_t from, n_keys;
    size_t next_from, next_n_keys; /* of the filter that is to replace it */
};

struct store_run {
    char path[RUN_PATH_BYTES + 16], image[RUN_PATH_BYTES + 16];
    struct tamis_store *store;
    struct segment segments[MAX_SEGMENTS];
    size_t n_segments, next_key;
    bool last; /* the growing one may go now */
    uint8_t *catalog;
    size_t catalog_bytes;
};

/* ---- store_check.c ---- */
extern void (*store_explore)(struct run *r); /* the explorer's */
/* Takes the catalog as it is now, and explores. */
void store_event(struct run *r);
void store_check(struct run *r, const struct disk_state *s, uint64_t hash, bool deep);
void empty_dir(const char *path);
void put_file(const char *dir, const char *name, const void *bytes, size_t n);

/* ---- store_engine.c ---- */
/* The library's own failures are failures. */
void ours(const struct run *r, int err, const char *doing,
          const struct tamis_diag *diag);
void put_built(const struct run *r, struct tamis_edit *e, const char *name,
               uint32_t version, size_t from, size_t n_keys);
/* The edit returned: what it did is promised; or, aborted, what was before. */
void settle(struct run *r, bool committed);
/* Replays into the growing segment, commits; puts a segment. */
void engine_writes(struct run *r, struct tamis_store *store);
void engine_edits(struct run *r, struct tamis_store *store);

#endif
