/* A builder as other rooms use it beyond the public calls. */
#ifndef TAMIS_BUILDER_BUILDER_H
#define TAMIS_BUILDER_BUILDER_H

#include "format/commit.h"
#include "lib/tamis.h"

/* The range of the keys, as the segment's record shall have it. */
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
const struct key_range *builder_range(const struct tamis_builder *b);
void builder_name(const struct tamis_builder *b, const void **name, size_t *n_bytes);
void builder_set_rank(struct tamis_builder *b, uint32_t rank);
uint32_t builder_rank(const struct tamis_builder *b);
/* finish_file() with a UUID given by the caller, in an open directory, the directory
 * synced only if asked for. */
int builder_finish_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                      const char *name, bool sync_dir, struct built *built,
                      struct tamis_diag *diag);

#endif
