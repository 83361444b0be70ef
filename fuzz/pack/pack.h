/* Shared by the files of the target `pack`: packs that were good, what was done to
 * them, and a second reader.
 *
 *   pack_hurt.c   three stores with a pack each, and changes to their bytes
 *   pack_spec.c   SPEC.md section 17 read once more, by offsets
 *   fuzz_pack.c   the questions */
#ifndef TAMIS_FUZZ_PACK_H
#define TAMIS_FUZZ_PACK_H

#include "fuzz/fuzz.h"
#include "format/pack.h"

/* ==== pack_spec.c: of files whose digests are right, for no page is looked up ==== */

/* A pack and its tombstones, as bytes, and what was found in them. */
struct second {
    const uint8_t *pack, *dead;
    size_t n_pack, n_dead;
    bool opens; /* as a filter */
    bool bands; /* its table of bands is good, too */
    struct identity id;
    struct commit commit;
};
struct second second_reading(const uint8_t *pack, size_t n_pack, const uint8_t *dead,
                             size_t n_dead);
/* Does the column of this place count, if no other record names it? */
bool second_counts(const struct second *s, const struct tamis_domain *domain,
                   const struct pack_place *place);
bool second_absent(const struct second *s, const struct pack_place *place,
                   uint64_t hash);
/* Is the key absent from every column, dead ones, too? */
bool second_all_absent(const struct second *s, uint64_t hash);
/* The entry of a column, by way of the directory; NULL: it breaks a rule. The table of
 * bands is good. */
const uint8_t *second_entry(const struct second *s, uint32_t column);
/* Does it break no rule for code that verifies a pack? */
bool second_verifies(const struct second *s);

/* ==== pack_hurt.c ==== */

enum { N_BASES = 2, MAX_COLUMNS = 72 };
/* What is made right after the changes. */
enum { RIGHT_DIGESTS = 1, RIGHT_HEADER = 2, RIGHT_DEAD = 4, RIGHT_RECORDS = 8 };
enum { ALL_RIGHT = 15 };

struct base {
    uint32_t n, n_keys, at; /* segments; keys of each; their numbers begin here */
    struct saved_tree store;
    struct record records[MAX_COLUMNS];
    uint32_t column_at[MAX_COLUMNS]; /* of its entry in the pack */
    struct second good;
};
struct base *pack_base(size_t i);
const char *pack_store_path(void);
const struct tamis_domain *pack_domain(void);
struct tamis_key pack_key(const struct base *b, size_t segment, size_t i);
const char *pack_segment(size_t i); /* its name */
/* Packs all segments in an edit of its own. */
int pack_segments(struct tamis_store *s, enum tamis_repack repack);

/* As the input has made them. */
struct hurt {
    struct base *base;
    uint8_t pack[1 << 17], dead[256];
    size_t n_pack, n_dead; /* n_dead 0: no such file */
    struct record records[MAX_COLUMNS];
};
void hurt_begin(struct hurt *h, struct base *b);
void hurt_change(struct hurt *h, uint8_t what, size_t where, uint64_t seed);
void hurt_make_right(struct hurt *h, uint8_t right);
/* Writes the store, and returns the path of its pack. */
const char *hurt_write(const struct hurt *h);

#endif
