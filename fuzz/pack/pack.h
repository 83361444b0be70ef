/* Shared by the files of the target `pack`: packs that were good, what was done to
 * them, and a second reader.
 *
 *   pack_hurt.c   three stores with a pack each, and changes to their bytes
 *   pack_spec.c   SPEC.md section 17 read once more, by offsets
 *   fuzz_pack.c   the questions */
#ifndef TAMIS_FUZZ_PACK_H
#define TAMIS_FUZZ_PACK_H

#include "fuzz/fuzz.h"

/* ==== pack_spec.c: of files whose digests are right, for no page is looked up ==== */

/* A pack and its tombstones, as bytes and as the second reader finds them. */
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
/* Is the key absent from every column, dead ones, too? */
bool second_all_absent(const struct second *s, uint64_t hash);
/* The entry of a column, by way of the directory; NULL: it breaks a rule. The table of
 * bands is good. */
const uint8_t *second_entry(const struct second *s, uint32_t column);
/* Does its table of columns break no rule for code that verifies a pack? All of it? */
bool second_levels(const struct second *s);
bool second_verifies(const struct second *s);

/* ==== pack_hurt.c ==== */

enum { N_BASES = 2, MAX_COLUMNS = 72 };
/* The parts that are made right again after the changes. */
enum { RIGHT_DIGESTS = 1, RIGHT_HEADER = 2, RIGHT_DEAD = 4, RIGHT_RECORDS = 8 };
enum { ALL_RIGHT = 15 };

struct base {
    uint32_t n, n_keys, at; /* segments; keys of each; their numbers begin here */
    struct saved_tree store;
    struct pack_list list;              /* of all columns */
    struct record records[MAX_COLUMNS]; /* that would name their columns */
    uint32_t column_at[MAX_COLUMNS];    /* of its entry in the pack */
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
    bool named[MAX_COLUMNS]; /* the segment has its record, or is listed */
    struct pack_list list;
};
void hurt_begin(struct hurt *h, struct base *b);
void hurt_change(struct hurt *h, uint8_t what, size_t where, uint64_t seed);
void hurt_make_right(struct hurt *h, uint8_t right);
void hurt_begin_list(struct hurt *h); /* segments and list as they were */
/* Are pack record and chunk as the records want them (SPEC.md 17.4, Agreement)? Are
 * there no records but of columns of the pack? */
bool hurt_agrees(const struct hurt *h, bool *complete);
/* Writes the store, and returns the path of its pack. */
const char *hurt_write(const struct hurt *h);

/* ==== pack_spec.c: a pack's segments ==== */

/* May the pack have this name, by its own file? */
bool second_names(const struct second *s, const struct hurt *h);
/* Then: what a column answers. Its segment's number, if a record names it, or -1. */
enum tamis_reason second_answer(const struct second *s, const struct hurt *h,
                                uint32_t column, int segment,
                                const struct tamis_key *key);

#endif
