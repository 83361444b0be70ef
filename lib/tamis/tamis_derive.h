#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- filters made from filters, without their keys ---------------------------------
 *
 * All sources are sealed (else ERR_UNFIT), of one domain, at the watermark that they
 * were opened for, and as they were then (else ERR_MISMATCH: a file that was written
 * over since); they stay as they are, and may be probed meanwhile. The result is a new
 * sealed filter, a file of its own that is durable under its name on return
 * (ERR_EXISTS; ERR_NETWORK); on failure nothing of it stays, and after a kill what
 * tamis_builder_finish_file() leaves. Every source page is checked on its way, whatever
 * mode the filter was opened in: one that fails counts as all ones, which can cost
 * reads, never a key. The error that the result aims at (growth.error of its info) is
 * the largest of the sources', or the one that a fold is to have; its own may be above
 * it. Memory: a few pages and a piece of a mebibyte. Any thread may call them. */

struct tamis_derive_options {
    size_t size;
    const void *name; /* of the segment; default: none */
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    const uint8_t *store_uuid; /* 16 bytes */
    uint64_t watermark;        /* 0: for none; the sources' need not be of one log */
};
struct tamis_derive_report {
    uint64_t n_stages, file_bytes;
    uint64_t keys;      /* as far as known; as the bits tell, of what was combined */
    uint64_t n_damaged; /* source pages that counted as ones */
    /* Expected, as the bits tell. Where they do not lie as keys set them (damaged pages
     * are ones, what filters have in common is no keys'): from the fill of blocks,
     * as tamis_filter_estimate() has it. */
    double error;
};

/* The keys of all of them. Stages of equal geometry become one, bit for bit what a
 * builder would have made of the keys; the others stay stages, and the errors add up.
 * ERR_UNFIT if more than 30 are left. opt and report may be NULL. */
int tamis_filter_union(struct tamis_filter *const *sources, size_t n, const char *path,
                       const struct tamis_derive_options *opt,
                       struct tamis_derive_report *report, struct tamis_diag *diag);
/* The keys that all of them have, none of which is lost. Its error may be above that of
 * a filter built from these keys. Only of filters of one stage each and the same lanes
 * and words, of which the smallest one's blocks divide the others' (else ERR_UNFIT):
 * those are folded to it. */
int tamis_filter_intersection(struct tamis_filter *const *sources, size_t n,
                              const char *path, const struct tamis_derive_options *opt,
                              struct tamis_derive_report *report,
                              struct tamis_diag *diag);
/* The same keys in 1 / factor of the space, bit for bit what a builder would have made
 * of them at that size. The factor must divide the pages of a lane of every stage. */
int tamis_filter_fold(struct tamis_filter *source, uint64_t factor, const char *path,
                      const struct tamis_derive_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag);
/* The same, each stage by a factor of its own, as far as the expected error of the
 * whole stays at most `error`: what a filter has to spare that was planned for more
 * keys than came, and the last stage of one that grew nearly always. ERR_UNFIT: it has
 * more, or would have, for pages are damaged: then *report says how many. */
int tamis_filter_shrink(struct tamis_filter *source, double error, const char *path,
                        const struct tamis_derive_options *opt,
                        struct tamis_derive_report *report, struct tamis_diag *diag);
/* May every key of `part` be in `whole`? ABSENT: a bit of the part's is missing in the
 * whole, and so is the key that set it (a filter of one key as the part asks for that
 * key). Of filters as for an intersection. Damaged pages prove nothing, nor do the ones
 * that they were sealed or copied as; but an intersection has bits of no key: as the
 * part it proves nothing. */
int tamis_filter_contains(struct tamis_filter *whole, struct tamis_filter *part,
                          enum tamis_answer *answer, struct tamis_diag *diag);
/* *equal: 1 if they have the same stages with the same bits. ERR_DAMAGED if a page that
 * fails its check is in the way. */
int tamis_filter_equal(struct tamis_filter *one, struct tamis_filter *other, int *equal,
                       struct tamis_diag *diag);

/* ---- estimates: what the bits tell without the keys -------------------------
 *
 * They read and check every page; those that fail are left out of what is counted, and
 * are all ones for the error. They take hashes to be ideal; nothing that they say is a
 * proof, or may lead to one. */

/* An estimate, and between which bounds the truth lies 19 times of 20. */
struct tamis_interval {
    double value, low, high;
};
struct tamis_estimate {
    /* Distinct keys, the sum of the stages': a key that is in several counts in each,
     * as in some unions; of a filter that grew it lacks those that were taken for keys
     * of an older stage, `error` of them at most. A full filter: INFINITY. */
    struct tamis_interval keys;
    /* Now, of a random key that was never added: from the fill of each word of each
     * block as they are, not from what they should be. */
    double error;
    uint64_t n_damaged; /* pages */
};
/* Of any filter, and of one stage of it. ERR_RANGE. */
int tamis_filter_estimate(struct tamis_filter *filter, struct tamis_estimate *out,
                          struct tamis_diag *diag);
int tamis_filter_estimate_stage(struct tamis_filter *filter, uint32_t stage,
                                struct tamis_estimate *out, struct tamis_diag *diag);
/* The error as measured: which share of n_probes random keys, of this seed, is not
 * ABSENT. The bounds are Wilson's. ERR_RANGE. */
int tamis_filter_measure(struct tamis_filter *filter, uint64_t n_probes, uint64_t seed,
                         struct tamis_interval *out);

struct tamis_comparison {
    struct tamis_interval keys[2]; /* of the one, of the other */
    struct tamis_interval all;     /* of the union */
    struct tamis_interval common;  /* of both: keys[0] + keys[1] - all */
    struct tamis_interval jaccard; /* common / all; 0 .. 1 */
    uint64_t n_damaged;
};
/* Distinct keys of two filters and what they share. Of filters as for an intersection;
 * folded to the smaller one's size it is less sure. ERR_UNFIT, ERR_MISMATCH. */
int tamis_filter_compare(struct tamis_filter *one, struct tamis_filter *other,
                         struct tamis_comparison *out, struct tamis_diag *diag);
