#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- filter: open one and ask ----------------------------------------------------
 *
 * A file, or a part of one, mapped for reading; nothing is written or created. Threads:
 * all calls at once, close alone and last. Fork: usable. */

struct tamis_filter;

enum tamis_check {
    TAMIS_CHECK_LAZY = 0, /* each page before its first use; default */
    TAMIS_CHECK_FULL,     /* every page while opening */
    TAMIS_CHECK_STRICT,   /* each page before every use */
    TAMIS_CHECK_NONE      /* trust the medium, but for what a scrub found bad */
};

/* The caller's expectations; a NULL pointer or zero expects nothing. A difference makes
 * opening fail with ERR_MISMATCH. min_watermark is the exception: a filter below it
 * opens, and answers MAYBE/BEHIND until its writer has caught up. */
struct tamis_filter_options {
    size_t size;
    enum tamis_check check;
    uint64_t min_watermark;
    const struct tamis_domain *domain;
    struct tamis_identity identity;
    const uint8_t *uuid;   /* 16 bytes */
    uint64_t min_sequence; /* R5: less is an older copy put back */
    uint32_t min_stages;
    uint64_t table_digest; /* of a sealed filter, as info reports it */
    /* A filter inside another file, if `path` is NULL: at `offset`, a multiple of 4096,
     * of this descriptor, which may be closed once the filter is open. n_bytes limits
     * it; 0: to the end of the file. */
    int fd;
    uint64_t offset, n_bytes;
};

/* Opens and maps a filter, O(1) in its size. CHECK_FULL reads it all, and fails with
 * ERR_DAMAGED at the first bad page. Errors of the header are ERR_NOT_TAMIS,
 * ERR_VERSION, ERR_DAMAGED and ERR_MISMATCH, others an errno. A filter that is growing
 * when it is opened keeps a descriptor until it is closed, even after a seal, and so
 * may a pack; others keep none. A growing filter is refused on a network file system
 * (ERR_NETWORK), and on an overlay, as in a container, if it may not be opened for
 * writing there, as a reader would not see its writer's adds.
 *
 * REPLACED FILES. While a filter grows, its path must go on naming its file: if a copy
 * takes the name, a later writer adds to the copy, unseen here. So if no thread has
 * looked at the name for half a second, a probe looks, by two system calls; links on
 * the path are followed. The first probe that sees a seal is the last to look.
 *
 *   the name leads to                  probes
 *   the file, or nothing               go on
 *   another file                       MAYBE/MISMATCH for ever, at most a second later;
 *                                      open the filter again
 *   the file, mounted by itself, that  MAYBE/UNREADABLE, each after a look
 *   no directory has any more
 *   unknown (EACCES, EIO)              the same
 *
 * A thread reads the clock at every 64th probe, if these come fast: after a pause it
 * may ask 64 keys more before it looks.
 *
 * A process that changes its root directory, or loses the right to search the path,
 * must open the filter after that. A filter without a path has no name to look at: if a
 * copy replaces its file, keys that are added to the copy are ABSENT here. */
int tamis_filter_open(const char *path, const struct tamis_filter_options *opt,
                      struct tamis_filter **out, struct tamis_diag *diag);
/* Closes the filter, or gives it back to the snapshot that lent it. */
void tamis_filter_close(struct tamis_filter *filter);

/* Asks for one key. *why, which may be NULL, gets the reason. A probe sees every add
 * that returned before it, in any process on this machine. */
enum tamis_answer tamis_filter_probe(struct tamis_filter *filter,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why);
/* Asks for n hashes of one domain. It clears the (n + 63) / 64 words of the bitmap,
 * then sets bit i % 64 of absent[i / 64] if hash i is ABSENT. It returns the number of
 * absent hashes, or 0 and *why on MISMATCH, BEHIND and the like. */
size_t tamis_filter_probe_batch(struct tamis_filter *filter, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why);

/* The part of a segment that decided an answer. */
enum tamis_decider {
    TAMIS_BY_NOTHING = 0, /* no key was looked for: the reason says why */
    TAMIS_BY_RANGE,       /* the key lies outside of the segment's key range: ABSENT */
    TAMIS_BY_FILTER
};
enum { TAMIS_MAX_STAGES = 30 };
/* One stage's answer about a key. Offsets are in bytes, from the start of the file. */
struct tamis_stage_answer {
    enum tamis_reason reason; /* NO_REASON: the stage proves that it lacks the key */
    /* NO_REASON: the lane with a block that lacks a bit of the key. DAMAGED: the first
     * lane with a page that failed its check. HIT: 0. */
    uint32_t lane;
    uint64_t offset; /* NO_REASON: of that block, 64 bytes; DAMAGED: of that page */
};
struct tamis_explanation {
    enum tamis_answer answer;
    enum tamis_reason reason;
    enum tamis_decider by;
    /* BY_FILTER: the number of stages, or 0 if none decides by itself: in ribbons,
     * lists and packs, and for a segment that a pack answers for. Else 0. */
    uint32_t n_stages;
    struct tamis_stage_answer stages[TAMIS_MAX_STAGES]; /* the oldest first */
    uint64_t reserved[8];                               /* 0 */
};
/* Asks as tamis_filter_probe(), then looks at every stage again, and says which stage,
 * lane and block decided; for people. Returns out->answer, which is ABSENT only if both
 * say so: a key that a writer adds in between is MAYBE. *out is always complete. It is
 * slower than a probe, and cannot fail. Any thread, while others probe. */
enum tamis_answer tamis_filter_explain(struct tamis_filter *filter,
                                       const struct tamis_key *key,
                                       struct tamis_explanation *out);

struct tamis_stage_info {
    uint64_t offset, bits_bytes, n_blocks, capacity, keys, bits_set;
    uint32_t lanes, words; /* 0 in ribbons, packs and lists */
    double target_error, expected_error;
};
struct tamis_filter_info {
    uint8_t uuid[TAMIS_UUID_BYTES], store_uuid[TAMIS_UUID_BYTES];
    struct tamis_domain domain;       /* for hashing */
    uint8_t name[TAMIS_NAME_MAX + 1]; /* NUL-terminated */
    size_t name_bytes;
    uint8_t binding[TAMIS_BINDING_MAX];
    size_t binding_bytes;
    int sealed;       /* 1: closed for ever */
    int growing_kind; /* 1: it has, or had, a writer; 0: sealed at birth */
    int clean;        /* 0: a writer has it open, or died */
    int over_target;  /* 1: the last stage is beyond its capacity */
    uint64_t keys, watermark, sequence, generation, created;
    uint64_t file_bytes;        /* committed */
    uint64_t table_digest;      /* sealed: digest of the stage table */
    struct tamis_growth growth; /* factor, ... are 0 if sealed at birth */
    double expected_error;      /* now, from the keys of each stage, or as measured */
    uint32_t n_stages;
    uint32_t n_settled; /* open: stages with digests, the first ones (R17) */
    struct tamis_stage_info stages[TAMIS_MAX_STAGES]; /* the oldest first */
    /* A list (tamis_list.h): its values, each counted once, and their bits, 1 .. 64.
     * Any other filter: 0. */
    uint64_t n_hashes;
    uint32_t hash_bits;
};

/* Fills in the state as of the last commit that the filter has noticed. It reads the
 * header: an errno or ERR_DAMAGED if that fails. */
int tamis_filter_info(struct tamis_filter *filter, struct tamis_filter_info *info,
                      struct tamis_diag *diag);

struct tamis_verify {
    uint64_t n_pages;       /* checked */
    uint64_t n_damaged;     /* pages that failed their check */
    uint64_t first_damaged; /* file offset of the first, if any */
    uint32_t n_stale_slots; /* commit slots that are torn or rotten */
};
/* Reads and checks every page; lists and packs by all of their rules. ERR_DAMAGED
 * if a page failed, or if a commit slot is stale. A stale slot alone loses nothing: the
 * other one serves. *report is always complete. */
int tamis_filter_verify(struct tamis_filter *filter, struct tamis_verify *report,
                        struct tamis_diag *diag);
