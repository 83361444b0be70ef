#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- blocks: tiny filters in the caller's own memory -------------------------------
 *
 * The bits of one stage (SPEC.md section 4) and nothing else, for an engine that keeps
 * a filter of some dozen keys inside each of its own blocks, with its own header and
 * its own checksum: nothing is checked here but lengths. The memory is the caller's, of
 * any alignment; it must stay as it is while it is probed, and is to be zero before the
 * first add. No allocation, no system call. */

struct tamis_blocks {
    uint32_t lanes, words; /* 1 .. 4; 1 .. 8 */
    uint64_t n_blocks;     /* per lane, 1 .. 2^32, of 64 bytes each */
    uint64_t tag;          /* of the domain in which the keys are hashed */
};

/* The smallest blocks for n_keys at `error` (1e-8 .. 0.5), any number of them: as
 * tamis_plan_filter(), without whole pages; file_bytes is 0. Of as many bytes the
 * geometry with the least error, which may be far below the one asked for: at 1% one
 * block of 64 bytes is enough for up to 53 keys. It takes some 10 microseconds: engines
 * that make many of them remember what it said. ERR_RANGE, ERR_TOO_LARGE. */
int tamis_blocks_plan(uint64_t n_keys, double error, struct tamis_plan *plan);
/* 64 * lanes * n_blocks; 0 if that is no geometry. */
uint64_t tamis_blocks_bytes(const struct tamis_blocks *blocks);
/* Sets the bits of n keys in n_bytes of memory. One at a time. Nothing is set, and the
 * result is ERR_RANGE, unless n_bytes is just what tamis_blocks_bytes() says, or
 * ERR_MISMATCH if one of the keys was hashed in another domain. */
int tamis_blocks_add(const struct tamis_blocks *blocks, void *bits, size_t n_bytes,
                     const struct tamis_key *keys, size_t n);
/* May this key be in them? ABSENT only if a bit of it is clear, the length is right
 * and the key of the same domain; else MAYBE: UNREADABLE of another length or no
 * geometry, MISMATCH, HIT (*why may be NULL). Any number of threads. */
enum tamis_answer tamis_blocks_probe(const struct tamis_blocks *blocks,
                                     const void *bits, size_t n_bytes,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why);
