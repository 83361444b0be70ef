#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- filters made from filters, without their keys ---------------------------------
 *
 * All sources must be sealed (else ERR_UNFIT), of one domain, at the watermark that
 * they were opened for, and unchanged since they were opened (else ERR_MISMATCH: a file
 * was overwritten). They may be probed meanwhile. Any thread may call the functions.
 *
 * The result is a new sealed filter in a file of its own, durable under its name on
 * return (ERR_EXISTS; ERR_NETWORK). On failure nothing of it stays; a kill leaves what
 * tamis_builder_finish() leaves. Every source page is checked, in whatever mode the
 * filter was opened. A page that fails counts as all ones, which can cost reads, never
 * a key. The target error of the result (growth.error of its info) is the largest of
 * the sources', or `error` of a shrink; its own error may be above the target. Memory:
 * a MiB. */

enum tamis_operation {
    TAMIS_UNION,        /* the keys of all sources */
    TAMIS_INTERSECTION, /* the keys that all sources have */
    TAMIS_FOLD,         /* the keys of one source, in 1 / factor of the space */
    TAMIS_SHRINK        /* the same, by as much as leaves the error at `error` */
};
struct tamis_derivation {
    enum tamis_operation operation;
    uint64_t factor;
    double error;
};

struct tamis_derive_options {
    size_t size;
    struct tamis_identity identity;
    uint64_t watermark; /* 0: for none; the sources' need not be of one log */
};
struct tamis_derive_report {
    uint64_t n_stages, file_bytes;
    uint64_t keys;      /* as far as known; for combined filters an estimate */
    uint64_t n_damaged; /* source pages that counted as ones */
    /* Expected. Bits of damaged pages, and bits that filters have in common, are not
     * spread as keys would spread them: then the error is computed from the fill of
     * blocks, as in tamis_filter_estimate(). */
    double error;
};

/* Makes a filter from n sources. opt and report may be NULL.
 *
 * - Union: stages of equal geometry become one, bit for bit what a builder would have
 *   made of the keys. The others stay stages, and their errors add up. ERR_UNFIT if
 *   more than 30 are left.
 * - Intersection: loses no key. Its error may be above that of a filter built from the
 *   common keys. Each source must have one stage, with the same lanes and words (else
 *   ERR_UNFIT). All are folded to the greatest common divisor of their blocks: if that
 *   is far below the smallest, little is left to tell keys apart.
 * - Fold, one source: bit for bit what a builder would have made of its keys at that
 *   size. The factor must divide the pages of a lane of every stage (else ERR_UNFIT).
 * - Shrink, one source: folds each stage by a factor of its own, as long as the
 *   expected error of the whole is at most `error`. It saves space in a filter that was
 *   planned for more keys than came, and nearly always in the last stage of a grown
 *   filter. ERR_UNFIT if the error is higher already, or damaged pages would make it
 *   higher; then *report says how many there are. */
int tamis_filter_derive(struct tamis_filter *const *sources, size_t n,
                        const struct tamis_derivation *what, const char *path,
                        const struct tamis_derive_options *opt,
                        struct tamis_derive_report *report, struct tamis_diag *diag);
/* Finds the least error that any shrink of this filter has: a shrink to `*error` or
 * more saves space, one to less saves nothing. 1: no fold of it is possible. Pages are
 * not checked: if some are damaged, a shrink to `*error` may be ERR_UNFIT all the same.
 * ERR_UNFIT and ERR_MISMATCH for filters that cannot be sources; ERR_RANGE. */
int tamis_filter_least_fold(struct tamis_filter *filter, double *error,
                            struct tamis_diag *diag);
/* Sets *equal to 1 if the filters have the same stages with the same bits. ERR_DAMAGED
 * if a page that fails its check is in the way. */
int tamis_filter_equal(struct tamis_filter *one, struct tamis_filter *other, int *equal,
                       struct tamis_diag *diag);

/* ---- estimates from the bits, without the keys -------------------------
 *
 * Estimates read and check every page. They do not count a page that fails, nor a block
 * of nothing but ones, which a damaged page of a source becomes. For the error both are
 * all ones. They assume ideal hashes. An estimate is never a proof. */

/* An estimate and its bounds: the truth lies between them 19 times of 20. */
struct tamis_interval {
    double value, low, high;
};
struct tamis_estimate {
    /* Distinct keys, summed over the stages. A key in several stages, as in some
     * unions, counts in each. A filter that grew lacks the keys that were taken for
     * keys of an older stage, `error` of them at most. A full filter: INFINITY. */
    struct tamis_interval keys;
    /* Now, for a random key that was never added: from the fill that each word of each
     * block has, not from the fill that it should have. */
    double error;
    uint64_t n_damaged; /* pages that fail, or have such a block */
    /* The error as measured: the share of n_probes random keys that are not ABSENT,
     * with Wilson's bounds. Without probes: 1, 0, 1. */
    struct tamis_interval measured;
};
/* Estimates a filter, which may still grow, and measures its error by n_probes keys,
 * made from `seed`; 0: no measurement. ERR_UNFIT: a ribbon, pack or list. ERR_RANGE.
 * Any thread. */
int tamis_filter_estimate(struct tamis_filter *filter, uint64_t n_probes, uint64_t seed,
                          struct tamis_estimate *out, struct tamis_diag *diag);

struct tamis_comparison {
    struct tamis_interval keys[2]; /* of the one, of the other */
    struct tamis_interval all;     /* of the union */
    struct tamis_interval common;  /* of both: keys[0] + keys[1] - all */
    struct tamis_interval jaccard; /* common / all; 0 .. 1 */
    uint64_t n_damaged;
    /* May every key of the one be in the other; and every key of the other in the one?
     * ABSENT: a bit is missing there, and so is the key that set it. A filter of one
     * key asks for that key. Damaged pages prove nothing, and neither do pages of ones
     * that were sealed or copied in their place. Nor does an intersection: it has bits
     * of no key. */
    enum tamis_answer in[2];
};
/* Estimates the distinct keys of two filters and those that they share, and asks
 * whether one has all keys of the other. The filters must fit as for an intersection.
 * Folding to a smaller size makes the bounds wider. ERR_UNFIT, ERR_MISMATCH. */
int tamis_filter_compare(struct tamis_filter *one, struct tamis_filter *other,
                         struct tamis_comparison *out, struct tamis_diag *diag);
