/* Builders, for other rooms: what the public calls lack. */
#ifndef TAMIS_BUILDER_BUILDER_H
#define TAMIS_BUILDER_BUILDER_H

#include "format/commit.h"
#include "lib/list/list.h"

/* The range of the keys, for the segment's record. */
struct key_range {
    bool known; /* false after any add by hash, or a last key too long to keep */
    uint8_t first[1024], last[1024];
    size_t first_bytes, last_bytes;
};
struct built {
    struct identity identity;
    struct commit commit;
    uint64_t file_bytes;
};
/* The size of the filter that is made next, if an edit chooses it. */
struct builder_size {
    uint64_t n_keys; /* the size is valid for this number only */
    struct geometry geometry;
    double error;  /* expected */
    uint64_t edit; /* whose balance has its share; 0: it is not chosen */
};
/* The rank of its segment, and whether it replaces one. balanced: edits choose its size
 * (store/edit/balance.c). */
void builder_set_edit(struct tamis_builder *b, uint32_t rank, bool balanced,
                      bool replaces);
/* NULL: edits have no say. */
struct builder_size *builder_size(struct tamis_builder *b);
/* The segment that a builder makes; number and range of the keys added so far. */
struct builder_facts {
    struct tamis_domain domain;
    const void *name;
    size_t name_bytes;
    uint64_t n_keys; /* a key that repeats the one before it is not counted */
    uint32_t rank;
    unsigned list_bits; /* 0: it makes no list */
    bool replaces;      /* a segment that has the name */
    double error;
    const struct key_range *range;
};
struct builder_facts builder_facts(const struct tamis_builder *b);
/* Adds all hashes of a list. ERR_UNFIT: it is no list, or a cut one: a filter needs
 * every bit of a hash. ERR_MISMATCH: of another domain. ERR_DAMAGED: a page fails its
 * check. As after any add that fails, the builder stays failed, unless no hash of the
 * list was added. */
int builder_add_list(struct tamis_builder *b, struct tamis_filter *list,
                     struct tamis_diag *diag);
/* All hashes so far, repeats among them; NULL if some are spooled. */
const uint64_t *builder_hashes(const struct tamis_builder *b, size_t *n);
/* Takes name and binding from `as`, if that has a name. NULL: does nothing. */
int builder_rename(struct tamis_builder *b, const struct tamis_identity *as,
                   struct tamis_diag *diag);
/* Sets the header fields of its filter that are known before the filter is sized, but
 * for uuid and set id. Returns the error of an add that failed. */
int builder_describe(const struct tamis_builder *b, struct identity *id,
                     struct commit *c);
/* The set id of all keys so far. */
const uint8_t *builder_set_id(struct tamis_builder *b);
/* tamis_builder_finish() with the caller's UUID, in an open directory, which is synced
 * only if sync_dir. */
int builder_finish_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                      const char *name, bool sync_dir, struct built *built,
                      struct tamis_diag *diag);

/* A list in the same way. */
int builder_list_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                    const char *name, bool sync_dir, struct list_written *out,
                    struct tamis_diag *diag);

#endif
