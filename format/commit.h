/* Commit record: what a filter holds as of its last commit (SPEC.md §6).
 *
 * A filter sealed at birth has one, in the second half of page 0. A growing one
 * has two slots, A and B in pages 1 and 2: the same record, so that a torn or
 * rotten slot loses nothing that was acknowledged (R1, R2). */
#ifndef TAMIS_FORMAT_COMMIT_H
#define TAMIS_FORMAT_COMMIT_H

#include "geometry.h"
#include "identity.h"

enum {
    SLOT_A = 0,
    SLOT_B = 1,
    SLOT_BIRTH = 2,
    SLOT_BYTES = 4096,
    BIRTH_BYTES = 2048,
    STAGE_BYTES = 128,
    MAX_STAGES = 30,
    MAX_BIRTH_STAGES = 14,
    BINDING_MAX_BYTES = 64,
    STATE_OPEN = 1,
    STATE_SEALED = 2,
    LAYOUT_SPLIT_BLOCKS = 1,
    LAYOUT_ROWS = 2,
    LAYOUT_RIBBON = 3,
    LAYOUT_HASHES = 5,
    LAYOUT_TABLE = 6,
    CONTENT_BANDS = 1,
    CONTENT_COLUMNS = 2,
    CONTENT_FIRSTS = 4,
    PACK_MAX_COLUMNS = 1 << 20,
};

/* The record is a head, then stage descriptors, then zeros, and its checksum in
 * the last eight bytes of the slot. */
struct commit_disk {
    uint8_t magic[8];
    uint8_t uuid[UUID_BYTES];
    struct le64 sequence;
    struct le64 compat;
    struct le64 ro_compat;
    struct le64 incompat;
    struct le64 keys;
    struct le64 watermark;
    struct le64 committed_bytes;
    struct le64 generation;
    uint8_t slot;
    uint8_t state;
    uint8_t clean;
    uint8_t n_stages;
    uint8_t binding_bytes;
    uint8_t n_settled;
    uint8_t unused_a[2];
    uint8_t binding[BINDING_MAX_BYTES];
    uint8_t unused_b[88];
};

enum { COMMIT_HEAD_BYTES = 248, STAGES_OFFSET = COMMIT_HEAD_BYTES };

struct stage_disk {
    struct le64 offset;
    struct le64 length;
    struct le64 capacity;
    struct le64 keys;
    struct le64 target_error;
    struct le64 floors_offset;
    struct le64 digests_offset;
    struct le64 root;
    struct le16 layout;
    uint8_t unused[14];
    /* From here on: the area of kind 1, Bloom. */
    struct le64 n_blocks;
    struct le64 bits_set;
    uint8_t lanes;
    uint8_t words;
    uint8_t kind_unused[30];
};

struct stage_desc {
    uint64_t offset; /* bytes from the start of the filter, page-aligned */
    uint64_t length; /* bytes of the bit arrays */
    uint64_t capacity;
    uint64_t keys;
    double target_error;
    uint64_t floors_offset;  /* 0: none (sealed at birth) */
    uint64_t digests_offset; /* 0: none (open and not settled, or a single page) */
    uint64_t root;           /* likewise */
    uint16_t layout;
    uint64_t bits_set; /* a hint for growth, never an argument for ABSENT (R9) */
    struct geometry geometry;
    uint32_t n_bands, n_columns; /* of a pack's rows */
    uint64_t used_bytes;         /* of a pack's table, and the next two */
    uint32_t n_entries;
    uint16_t content;
    uint64_t n_hashes; /* of a list's pages, and the next */
    uint8_t hash_bits;
    uint16_t ribbon_blocks; /* of a ribbon's shorter pages */
    uint64_t n_long_pages;  /* pages with one block more; they come first */
};

struct commit {
    uint8_t uuid[UUID_BYTES];
    uint64_t sequence;
    uint64_t compat, ro_compat, incompat;
    uint64_t keys;
    uint64_t watermark;
    uint64_t committed_bytes;
    uint64_t generation; /* grows with every change of the stage table or state */
    uint8_t slot, state, clean, n_stages, binding_bytes;
    uint8_t n_settled; /* open: stages with digests, the first ones (SPEC.md §7.2) */
    uint8_t binding[BINDING_MAX_BYTES];
    uint64_t table_digest; /* of the descriptors as read; 0: not read from anywhere */
    struct stage_desc stages[MAX_STAGES];
};

extern const struct field commit_fields[];
extern const size_t n_commit_fields;
extern const struct field stage_fields[];
extern const size_t n_stage_fields;

/* ==== stage.c: a stage descriptor ==== */

void stage_encode(const struct stage_desc *s, uint8_t out[STAGE_BYTES]);
/* Decodes descriptor i into c->stages[i], and checks it; c has its head. */
struct verdict stage_decode(const struct stage_disk *d, size_t i, uint8_t slot,
                            const struct identity *id, struct commit *c);

/* Places a stage at `at`, and its digests behind it. Returns their end. */
uint64_t stage_place(struct stage_desc *s, uint64_t at);

/* Does the record have no feature that may be ignored? Only then must bytes be zero
 * that this code takes for unused. */
static inline bool commit_unused_is_ours(const struct commit *c)
{
    return !c->compat && !c->ro_compat;
}

/* ==== commit.c ==== */

static inline size_t commit_slot_bytes(uint8_t slot)
{
    return slot == SLOT_BIRTH ? BIRTH_BYTES : SLOT_BYTES;
}

/* Offset of a slot from the start of the filter. */
static inline uint64_t commit_slot_offset(uint8_t slot)
{
    return slot == SLOT_BIRTH ? IDENTITY_BYTES
                              : (uint64_t)PAGE_BYTES + (uint64_t)slot * SLOT_BYTES;
}

/* Writes the record as it stands in slot `slot`; out has commit_slot_bytes(slot)
 * bytes. */
void commit_encode(const struct commit *c, uint8_t slot, uint8_t *out);

/* The same record, with all bytes that this version does not know, for another slot of
 * the two. */
void commit_renumber(uint8_t record[SLOT_BYTES], uint8_t slot);
/* Is this a whole record of this filter and slot? Says nothing yet of what the
 * record contains. On VERDICT_OK *sequence is its sequence number. */
struct verdict commit_frame(const uint8_t *in, uint8_t slot, const struct identity *id,
                            uint64_t *sequence);

/* Decodes a record that commit_frame() found whole, and checks all it says against
 * the identity and the bytes that the file has for this filter. */
struct verdict commit_decode(const uint8_t *in, uint8_t slot, const struct identity *id,
                             uint64_t available_bytes, struct commit *c);

/* Chooses the record that counts from the header pages of a filter (page 0, and for a
 * growing filter pages 1 and 2): among the whole ones the highest sequence, A on
 * a tie. A whole record that then fails commit_decode() makes the filter
 * unreadable: falling back to the other slot could forget a stage. `health` says
 * what commit_frame() found in each slot. */
struct slot_health {
    struct verdict frame[2];
    uint64_t sequence[2];
};
struct verdict commit_choose_slot(const uint8_t *header, const struct identity *id,
                                  uint64_t available_bytes, struct commit *c,
                                  struct slot_health *health);

/* Do digests guard the pages of stage i? Else its floors do. */
static inline bool commit_has_digests(const struct commit *c, size_t i)
{
    return c->state == STATE_SEALED || i < c->n_settled;
}

/* Digest of the whole stage table: what a catalog remembers of a sealed filter. */
uint64_t commit_table_digest(const struct commit *c);

#endif
