#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- blocks: tiny filters in the caller's own memory -------------------------------
 *
 * Blocks are the bits of one stage (SPEC.md section 4) and nothing else. An engine
 * keeps a filter of some dozen keys inside each of its own blocks, with its own header
 * and checksum. The functions check lengths only. The memory is the caller's and needs
 * no alignment. It must be zero before the first add, and must not change while it is
 * probed. The functions allocate nothing and make no system call. tamis_plan_filter()
 * plans blocks; tamis_inline.h has probes and adds that are no call. */

struct tamis_blocks {
    uint32_t lanes, words; /* 1 .. 4; 1 .. 8 */
    uint64_t n_blocks;     /* per lane, 1 .. 2^32, of 64 bytes each */
    uint64_t tag;          /* of the domain in which the keys are hashed */
};

/* Sets the bits of n keys in n_bytes of memory. One call at a time. It sets nothing and
 * returns ERR_RANGE unless n_bytes equals 64 * lanes * n_blocks, or ERR_MISMATCH if a
 * key was hashed in another domain. NULL for a needed argument is ERR_RANGE, too. */
int tamis_blocks_add(const struct tamis_blocks *blocks, void *bits, size_t n_bytes,
                     const struct tamis_key *keys, size_t n);
/* Answers ABSENT only if a bit of the key is clear, the length is right, and the key
 * has the same domain. Otherwise it answers MAYBE: UNREADABLE for another length or no
 * geometry, MISMATCH for another domain, else HIT. why may be NULL. Any thread. */
enum tamis_answer tamis_blocks_probe(const struct tamis_blocks *blocks,
                                     const void *bits, size_t n_bytes,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why);
