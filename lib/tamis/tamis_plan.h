#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- planning -----------------------------------------------------------------
 *
 * Sizes of filters from keys and errors. The functions read no file and hold nothing.
 * Any thread. */

struct tamis_plan {
    uint32_t lanes, words;
    uint64_t n_blocks;   /* per lane */
    uint64_t bits_bytes; /* of the bit arrays */
    uint64_t file_bytes; /* header, bits and digests, in whole pages */
    uint64_t n_keys;
    double error;        /* expected with n_keys in it */
    double bits_per_key; /* of the bit arrays */
};

struct tamis_plan_options {
    size_t size;
    uint64_t kind; /* TAMIS_BLOOM (or 0), TAMIS_RIBBON */
    /* Not 0: the best Bloom filter with at most so many bytes of bits. With n_keys it
     * finds the error, and ignores the one given. With n_keys 0 it finds how many keys
     * the filter holds at `error`. */
    uint64_t most_bytes;
    /* Not 0: blocks in the caller's memory (tamis_blocks.h), without whole pages;
     * file_bytes is 0. It plans the smallest for n_keys, and among equally large ones
     * the one with the least error, which may be far below the one asked for: at 1% a
     * block of 64 bytes is enough for up to 53 keys. Planning takes some 10 us. */
    int blocks;
};
/* Plans the filter that is built for n_keys at `error` (1e-8 .. 0.5). opt NULL: a Bloom
 * filter. Up to 65536 keys get one of few sizes, 4, 5 or 6 times a power of two of
 * blocks a lane, and one shape for an error, so that packs of many are small.
 *
 * For a ribbon lanes, words and n_blocks stay 0. The size of the file depends on the
 * hashes, too: mostly it is within two pages or 0.5% of the plan. One file in 200 is a
 * page larger; with 60,000 to 90,000 keys, one in 20.
 *
 * ERR_RANGE, also for two of most_bytes, blocks and TAMIS_RIBBON; ERR_TOO_LARGE. *plan
 * is zero then. */
int tamis_plan_filter(uint64_t n_keys, double error,
                      const struct tamis_plan_options *opt, struct tamis_plan *plan);
/* Returns the expected error of a stage with n_keys in it; 1 for no valid geometry. */
double tamis_plan_error(uint32_t lanes, uint32_t words, uint64_t n_blocks,
                        uint64_t n_keys);

/* The growth of a filter: stage i holds n0 * s^i keys at error P * (1 - r) * r^i. */
struct tamis_growth {
    double error;            /* P, 1e-8 .. 0.5; default 0.01 */
    double factor;           /* s, 1.25 .. 16; default 1.9 */
    double tightening;       /* r, 0.5 .. 0.95; default 0.85 */
    uint64_t first_capacity; /* n0, 1 .. 2^32; default 50000 */
};

/* Plans stage 0 .. 29 of such a filter, full. ERR_RANGE, ERR_TOO_LARGE. */
int tamis_plan_stage(const struct tamis_growth *growth, uint32_t stage,
                     struct tamis_plan *plan);

/* The memory of a store, divided among its filters so that lookups of absent keys waste
 * the fewest reads. A run is a segment, or several with disjoint key ranges, such as a
 * level of an LSM tree: a lookup reads at most one of them. A lookup of an absent key
 * asks every run, and wastes a read with the error of the filter that it meets there.
 * In a run of several, it meets each in proportion to its keys. */
struct tamis_plan_segment {
    uint64_t n_keys; /* 0 .. 2^48 */
    size_t run;      /* 0 .. n - 1, in any order; empty runs are ignored */
};
struct tamis_plan_share {
    double error;           /* to build it with, 1e-8 .. 0.5; 1: it gets no filter */
    double ideal_error;     /* with filters of any size: in proportion to its run */
    struct tamis_plan plan; /* as tamis_plan_filter() plans it; zero: no filter */
};
/* All filters together, as built. */
struct tamis_plan_total {
    uint64_t n_filters;
    uint64_t file_bytes;
    double reads;       /* expected to be wasted by a lookup of an absent key */
    double ideal_reads; /* with filters of any size in the memory allowed */
};
struct tamis_plan_summary {
    uint64_t n_runs; /* the reads that a lookup wastes without filters */
    struct tamis_plan_total best;
    struct tamis_plan_total uniform; /* one error for all filters, in as much memory */
    double uniform_error;            /* 1: even 0.5 takes more, so there are none */
};

/* Finds the fewest wasted reads with filters of at most `bytes` in all, as files
 * (header, bits and digests). Errors are in proportion to the keys of the run, as far
 * as whole pages allow, but at least 1e-8. Bytes that buy nothing more are left over.
 *
 * If `reads` is not 0, it alone is the limit: finds the least memory that wastes no
 * more reads than this. ERR_RANGE also if filters of 1e-8 waste more.
 *
 * kind: TAMIS_BLOOM or TAMIS_RIBBON for all filters, or 0: for each segment the kind
 * that takes fewer bytes, Bloom for small segments alone. A ribbon has plan.lanes 0.
 *
 * shares has room for n. summary, which may be NULL, compares the result with one error
 * for all in as much memory. A hundred thousand different sizes take some seconds.
 * ERR_RANGE and ENOMEM leave shares and summary zero; if memory has no room for n
 * segments, shares are unchanged. */
int tamis_plan_store(const struct tamis_plan_segment *segments, size_t n,
                     uint64_t bytes, double reads, uint32_t kind,
                     struct tamis_plan_share *shares,
                     struct tamis_plan_summary *summary);

/* A pack of n segments of one error, planned from their keys. */
struct tamis_plan_packed {
    /* Rows, their padding and their digests, and files that stay beside the pack. */
    uint64_t rows_bytes;
    double bits_per_key; /* of these */
    uint32_t n_bands;
    uint32_t n_lines;     /* cache lines that a key touches there */
    uint64_t files_bytes; /* of the files that it is made from; 0: from the keys */
};
/* from_files 1: made from files (tamis_edit_pack()); 0: from keys
 * (tamis_edit_packer()). Each segment has up to 2^48 keys. ERR_RANGE: n not in 1 ..
 * 1048576, `error` not in 1e-8 .. 0.5, or too many sizes. ERR_TOO_LARGE, ENOMEM. */
int tamis_plan_pack(const uint64_t *n_keys, size_t n, double error, int from_files,
                    struct tamis_plan_packed *plan);
